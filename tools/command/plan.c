/* koine plan: what running a model would do, before anything is allocated for it. */
#include <stdlib.h>
#include <string.h>

#include "training.h"

static void print_json(const char *model, uint64_t batch, bool training, const kn_plan_info *info) {
    printf("{\"model\": ");
    json_text(stdout, model);
    printf(", \"mode\": \"%s\", \"batch\": %llu, \"peak_bytes\": %llu, \"state_bytes\": %llu, "
           "\"scratch_bytes\": %llu, "
           "\"scratch_bound_bytes\": %llu, \"steps\": %d, \"kernels\": %d, \"conversions\": %d, \"gflop\": ",
           training ? "train" : "infer", (unsigned long long)batch, (unsigned long long)info->peak_bytes,
           (unsigned long long)info->state_bytes, (unsigned long long)info->scratch_bytes,
           (unsigned long long)info->scratch_bound_bytes, info->steps, info->kernels, info->conversions);
    json_number(stdout, info->flops * 1e-9);
    printf("}\n");
}

static void print_text(const kn_plan_info *info, const char *text) {
    char peak[32], states[32];
    if (text) fputs(text, stdout);
    printf("peak %s (%llu bytes), of which states %s\n",
           bytes_text((double)info->peak_bytes, peak, sizeof peak), (unsigned long long)info->peak_bytes,
           bytes_text((double)info->state_bytes, states, sizeof states));
}

static int show_training(training_setup *setup, kn_context *context, const common_options *common,
                         uint64_t batch) {
    kn_trainer *trainer = kn_trainer_create(context, setup->loss.value, NULL);
    kn_plan_info info = {.size = sizeof info};
    kn_status status = kn_trainer_status(trainer);
    if (status == KN_OK) status = kn_trainer_compile(trainer, (int64_t)batch);
    if (status == KN_OK) status = kn_trainer_plan(trainer, &info);
    if (status != KN_OK)
        command_fail("%s", trainer ? kn_trainer_error(trainer) : "out of memory");
    else if (common->json)
        print_json(kn_model_name(setup->model), batch, true, &info);
    else {
        char *text = kn_trainer_plan_text(trainer);
        progress_clear();
        print_text(&info, text);
        kn_trainer_free_text(trainer, text);
    }
    kn_trainer_destroy(&trainer);
    return status == KN_OK ? EXIT_DONE : EXIT_FAILED;
}

static int show_inference(training_setup *setup, kn_context *context, const common_options *common,
                          uint64_t batch) {
    kn_value *output = kn_model_output(setup->model, 0);
    kn_session_params params;
    kn_session_params_init(&params);
    params.fast_math = true;
    params.progress.report = progress_compile;
    kn_session *session = kn_session_create(context, &output, 1, &params);
    kn_plan_info info = {.size = sizeof info};
    kn_status status = kn_session_status(session);
    if (status == KN_OK) status = kn_session_bind(session, "batch", (int64_t)batch);
    if (status == KN_OK) status = kn_session_compile(session, NULL, 0);
    if (status == KN_OK) status = kn_session_plan(session, &info);
    if (status != KN_OK)
        command_fail("%s", session ? kn_session_error(session) : "out of memory");
    else if (common->json)
        print_json(kn_model_name(setup->model), batch, false, &info);
    else {
        char *text = kn_session_plan_text(session);
        progress_clear();
        print_text(&info, text);
        kn_session_free_text(session, text);
    }
    kn_session_destroy(&session);
    return status == KN_OK ? EXIT_DONE : EXIT_FAILED;
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    const char *mode = "train";
    uint64_t batch = 64;
    const option options[] = {{"batch", OPTION_COUNT, "N", "samples at a time (64)", &batch},
                              {"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
                              KERNEL_OPTIONS(common),
                              COMMON_OPTIONS(common),
                              {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_plan, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if ((status = kernel_options_check(&common)) != EXIT_DONE) return status;
    if (!word_count)
        return command_misuse("plan needs a model: a name such as lenet, a text model, or a saved file");
    if (!batch || batch > INT32_MAX)
        return command_misuse("--batch is %llu; expected at least 1", (unsigned long long)batch);
    bool training = !strcmp(mode, "train");
    if (!training && strcmp(mode, "infer"))
        return command_misuse("--mode is '%s'; expected train or infer", mode);
    training_setup setup = {.model = NULL};
    kn_context *context = NULL;
    status = EXIT_FAILED;
    if (setup_model(&setup, words[0], NULL) && (context = context_open(&common)))
        status = training ? show_training(&setup, context, &common, batch)
                          : show_inference(&setup, context, &common, batch);
    setup_finish(&setup);
    kn_context_destroy(&context);
    return status;
}

const command command_plan = {
    "plan", "the steps and the memory of a model", "MODEL [--batch N] [--mode train|infer] [--OPTION …]",
    "Prints each step with its kernel, shapes and work, and the memory that all of it needs.\n"
    "\n"
    "  koine plan lenet --batch 64",
    run};
