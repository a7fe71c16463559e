/* koine tune: the plans whose shapes are tuned. */
#include <stdlib.h>

#include "batch.h"
#include "bench.h"
#include "tune.h"

static const char switches[] = "programs=none,tuning=noted";

bool tune_open_device(tune_run *run) {
    run->context = context_open(&run->options->common);
    if (!run->context) return false;
    run->tuner = kn_tuner_create(run->context);
    return run->tuner || command_error("out of memory");
}

void tune_close(tune_run *run) {
    kn_tuner_destroy(&run->tuner);
    setup_finish(&run->setup);
    kn_context_destroy(&run->context);
}

/* Plans a training step, without compiling it. */
static bool plan_training(tune_run *run, kn_value *loss, int64_t batch) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, run->options->optimizer);
    kn_session_params session = KN_SESSION_DEFAULTS;
    arithmetic_apply(&run->options->common.arithmetic, &session);
    session.memory_bytes = UINT64_MAX;
    session.switches = switches;
    params.session = &session;
    kn_trainer *trainer = kn_trainer_create(run->context, loss, &params);
    kn_status status = kn_trainer_compile(trainer, batch);
    if (status != KN_OK) command_fail("%s", trainer ? kn_trainer_error(trainer) : "out of memory");
    kn_trainer_destroy(&trainer);
    return status == KN_OK;
}

static bool plan_inference(tune_run *run, kn_value **outputs, size_t count, int64_t batch) {
    kn_plan_info info = {.size = sizeof info};
    kn_session *session =
        batch_session(run->context, outputs, count, NULL, &run->options->common.arithmetic, switches);
    kn_status status = kn_session_status(session);
    if (status == KN_OK) status = batch_plan_session(session, batch, NULL, 0, &info);
    if (status != KN_OK) session_fail(session, status);
    kn_session_destroy(&session);
    return status == KN_OK;
}

static bool plan_operators(tune_run *run) {
    int position = 0, found = 0;
    bool fine = true;
    while (fine) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *result = bench_operator_next(graph, run->options->operators, &position);
        if (result && run->options->training)
            fine = plan_training(run, kn_mean(result, NULL, false), 1);
        else if (result)
            fine = plan_inference(run, &result, 1, 1);
        kn_graph_destroy(&graph);
        if (!result) break;
        found++;
    }
    return fine &&
           (found ||
            command_misuse(
                "--operators names no operator that is benchmarked: koine bench-operators lists them") ==
                EXIT_DONE);
}

static bool plan_model(tune_run *run) {
    const tune_options *options = run->options;
    const int64_t fixed = setup_fixed_batch(&run->setup);
    const uint64_t batch = options->batch != UINT64_MAX ? options->batch : fixed > 0 ? (uint64_t)fixed : 64;
    if (!setup_batch_fits(&run->setup, batch) || !setup_sizes_known(&run->setup)) return false;
    if (options->training) return plan_training(run, run->setup.loss.value, (int64_t)batch);
    size_t count;
    kn_value **outputs = batch_outputs(run->setup.model, &count);
    bool fine = outputs && plan_inference(run, outputs, count, (int64_t)batch);
    free(outputs);
    return fine;
}

bool tune_open(tune_run *run) {
    const tune_options *options = run->options;
    if (options->model) {
        bool opened = setup_settings(&run->setup, options->set);
        run->setup.batch = options->batch == UINT64_MAX ? 64 : (int64_t)options->batch;
        if (opened && !options->training && path_is_onnx(options->model))
            opened = setup_bare_model(&run->setup, options->model);
        else
            opened = opened && setup_model(&run->setup, options->model, NULL);
        if (!opened) return false;
    }
    return tune_open_device(run) && (options->model ? plan_model(run) : plan_operators(run));
}
