/* koine eval: how good a saved model is on a data set. */
#include <math.h>

#include "auto.h"
#include "batch.h"
#include "training.h"

typedef struct eval_run {
    common_options common;
    training_setup setup;
    kn_context *context;
    kn_states *states;
    kn_session *session;
    const char *data;
    uint64_t batch, memory;
} eval_run;

static kn_status plan_batch(void *user, int64_t batch, uint64_t *bytes) {
    eval_run *run = user;
    kn_plan_info info = {.size = sizeof info};
    kn_status status = batch_plan_session(run->session, batch, &info);
    *bytes = info.peak_bytes;
    return status;
}

static const char *plan_error(void *user) {
    return kn_session_error(((eval_run *)user)->session);
}

static void print_json(const eval_run *run, const kn_score *score) {
    printf("{\"model\": ");
    json_text(stdout, kn_model_name(run->setup.model));
    printf(", \"data\": ");
    json_text(stdout, run->data);
    printf(", \"samples\": %llu, \"loss\": ", (unsigned long long)score->samples);
    json_float(stdout, score->loss);
    printf(", \"accuracy\": ");
    json_measure(stdout, score->accuracy);
    if (isfinite(run->setup.variance)) {
        printf(", \"r2\": ");
        json_measure(stdout, setup_r2(&run->setup, score));
    }
    printf(", \"samples_per_s\": ");
    json_measure(stdout, score->seconds > 0 ? (double)score->samples / score->seconds : NAN);
    printf("}\n");
}

static int judge(eval_run *run) {
    training_setup *setup = &run->setup;
    const kn_dataset *dataset = setup_judged(setup);
    char quality[80];
    uint64_t samples = kn_dataset_count(dataset);
    int64_t batch = (int64_t)(run->batch < samples ? run->batch : samples);
    batch_plans plans = {.allowed = run->memory, .user = run, .plan = plan_batch, .error = plan_error};
    kn_score score = {.size = sizeof score};
    run->states = kn_states_create(run->context, 1);
    run->session = run->states ? setup_judge(setup, run->context, run->states, run->common.exact) : NULL;
    if (!run->session || !batch_fit(run->context, &plans, "judging goes on with", &batch)) return EXIT_FAILED;
    if (kn_model_load(setup->model, NULL, run->states, NULL, NULL) != KN_OK)
        return command_fail("%s", kn_model_error(setup->model));
    tell_compiling(run->context);
    progress_now("judging %llu samples", (unsigned long long)samples);
    kn_status status =
        kn_evaluate(run->session, dataset, (uint64_t)batch, setup->loss_name, setup->accuracy_name, &score);
    if (status != KN_OK)
        return command_fail("%s", plan_error(run)[0] ? plan_error(run) : kn_status_message(status));
    progress_clear();
    if (run->common.json) {
        print_json(run, &score);
        return EXIT_DONE;
    }
    printf("loss %.4f%s%s", score.loss, setup->unit, setup_quality(setup, &score, ", ", quality, sizeof quality));
    printf(" on %llu samples of %s\n", (unsigned long long)score.samples, run->data);
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    eval_run run = {.batch = 256};
    const char *loss = NULL, *bad = NULL;
    const option options[] = {
        {"data", OPTION_TEXT, "DATA", "what to judge by; of a source with a test part, that part", &run.data},
        {"batch", OPTION_COUNT, "N", "samples at a time (256)", &run.batch},
        {"loss", OPTION_TEXT, "NAME", "another loss than the model's own", &loss},
        BAD_SAMPLE_OPTION(bad),
        {"memory", OPTION_BYTES, "BYTES", "use no more of the device's memory, such as 2GB (all of it)",
         &run.memory},
        MATH_OPTION(run.common),
        COMMON_OPTIONS(run.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_eval, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (!word_count) return command_misuse("eval needs a saved model, such as lenet.safetensors");
    if (!run.data) return command_misuse("eval needs --data, such as --data digits");
    if (!run.batch || run.batch > INT32_MAX)
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)run.batch, INT32_MAX);
    if ((status = math_option_check(&run.common)) || (status = bad_sample_check(bad, &run.setup.skip_bad))) return status;
    if (loss && option_choice("loss", loss, loss_words, loss_word_count) < 0) return EXIT_USAGE;
    status = EXIT_FAILED;
    progress_setup(&run.common);
    if (setup_model(&run.setup, words[0], loss)) {
        if (!kn_model_has_weights(run.setup.model))
            command_fail("'%s' has no weights to judge: expected a file that koine train saved", words[0]);
        else if (setup_data(&run.setup, run.data, 0, 0) &&
                 device_auto_judging(&run.common, &run.setup, run.batch) &&
                 (run.context = context_open(&run.common)))
            status = judge(&run);
    }
    kn_session_destroy(&run.session);
    kn_states_destroy(&run.states);
    setup_finish(&run.setup);
    kn_context_destroy(&run.context);
    return status;
}

const command command_eval = {"eval", "judge a saved model on a data set", "FILE --data DATA [--OPTION …]",
                              "FILE is a model that koine train saved. Prints the loss and, for classes, the "
                              "accuracy. All samples count,\n"
                              "those of a last partial batch too. DATA is as for koine train; digits:train "
                              "and digits:test name one part. --device auto\n"
                              "times a batch, transfers included, on each device and takes the fastest.\n"
                              "\n"
                              "  koine eval lenet.safetensors --data digits\n"
                              "  koine eval lenet.safetensors --data digits --json",
                              run};
