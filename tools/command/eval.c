/* koine eval: how good a saved model is on a data set. */
#include <math.h>

#include "training.h"

static int judge(training_setup *setup, kn_context *context, const char *data, uint64_t batch,
                 const common_options *common) {
    kn_states *states = kn_states_create(context, 1);
    kn_session *session = states ? setup_judge(setup, context, states, false) : NULL;
    kn_score score = {.size = sizeof score};
    int status = EXIT_FAILED;
    if (!session) goto done;
    if (kn_model_load(setup->model, NULL, states, NULL, NULL) != KN_OK) {
        command_fail("%s", kn_model_error(setup->model));
        goto done;
    }
    const kn_dataset *dataset = setup->validation ? setup->validation : setup->all;
    kn_status result = kn_evaluate(session, dataset, batch, setup->loss_name, setup->accuracy_name, &score);
    if (result != KN_OK) {
        command_fail("%s",
                     kn_session_error(session)[0] ? kn_session_error(session) : kn_status_message(result));
        goto done;
    }
    if (common->json) {
        printf("{\"model\": ");
        json_text(stdout, kn_model_name(setup->model));
        printf(", \"data\": ");
        json_text(stdout, data);
        printf(", \"samples\": %llu, \"loss\": ", (unsigned long long)score.samples);
        json_number(stdout, score.loss);
        printf(", \"accuracy\": ");
        json_number(stdout, score.accuracy);
        printf(", \"samples_per_s\": ");
        json_number(stdout, score.seconds > 0 ? (double)score.samples / score.seconds : NAN);
        printf("}\n");
    } else {
        printf("loss %.4f", score.loss);
        if (isfinite(score.accuracy)) printf(", accuracy %.2f%%", 100 * score.accuracy);
        printf(" on %llu samples of %s\n", (unsigned long long)score.samples, data);
    }
    status = EXIT_DONE;
done:
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    return status;
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    const char *data = NULL, *loss = NULL;
    uint64_t batch = 256;
    const option options[] = {
        {"data", OPTION_TEXT, "DATA", "what to judge by; of a source with a test part, that part", &data},
        {"batch", OPTION_COUNT, "N", "samples at a time (256)", &batch},
        {"loss", OPTION_TEXT, "NAME", "another loss than the model's own", &loss},
        COMMON_OPTIONS(common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_eval, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (!word_count) return command_misuse("eval needs a saved model, such as lenet.safetensors");
    if (!data) return command_misuse("eval needs --data, such as --data digits");
    if (!batch) return command_misuse("--batch is 0; expected at least 1");
    training_setup setup = {.model = NULL};
    kn_context *context = NULL;
    status = EXIT_FAILED;
    if (setup_model(&setup, words[0], loss)) {
        if (!kn_model_has_weights(setup.model))
            command_fail("'%s' has no weights to judge: expected a file that koine train saved", words[0]);
        else if (setup_data(&setup, data, 0, 0) && (context = context_open(&common)))
            status = judge(&setup, context, data, batch, &common);
    }
    setup_finish(&setup);
    kn_context_destroy(&context);
    return status;
}

const command command_eval = {"eval", "judge a saved model on a data set", "FILE --data DATA [--OPTION …]",
                              "FILE is a model that koine train saved. Prints the loss and, for classes, the "
                              "accuracy. All samples count,\n"
                              "those of a last partial batch too.\n"
                              "\n"
                              "  koine eval lenet.safetensors --data digits",
                              run};
