/* Sessions of a runner's models, and what they compute. */
#include "models/runner_private.h"

kn_status kn_runner_load(kn_runner *runner, kn_model *model) {
    kn_model_load_params load = KN_MODEL_LOAD_DEFAULTS;
    load.lacking = true;
    return kn_model_load(model, NULL, runner->params.states, &load, NULL) == KN_OK
               ? KN_OK
               : kn_error_copy(&runner->error, &model->error);
}

kn_status kn_runner_open(kn_runner *runner, kn_model *model, kn_session **session) {
    runner->unrecorded = true;
    *session =
        kn_session_create(runner->context, model->outputs, (size_t)model->output_count, &runner->params);
    if (!*session) return kn_fail_memory(&runner->error, 0);
    if (kn_session_status(*session) != KN_OK)
        return kn_fail(&runner->error, kn_session_status(*session), "%s", kn_session_error(*session));
    return kn_runner_load(runner, model);
}

/* Runs the session, with the arrays of its outputs in new memory. */
static kn_status run_session(kn_runner *runner, const kn_model *model, kn_session *session,
                             const kn_feed *feeds, kn_fetch *fetches, kn_runner_array *made) {
    const size_t outputs = (size_t)model->output_count, inputs = kn_model_input_count(model);
    kn_status status = kn_session_compile(session, feeds, inputs);
    for (size_t i = 0; status == KN_OK && i < outputs; i++) {
        const char *name = kn_value_name(model->outputs[i]);
        made[i].name = kn_model_output_name_at(model, i);
        status = kn_session_info(session, name, &made[i].info);
        if (status != KN_OK) break;
        const size_t bytes = kn_runner_bytes(&made[i].info);
        made[i].data = kn_allocate(&runner->host, bytes + 1, 1);
        if (!made[i].data) return kn_fail_memory(&runner->error, bytes);
        fetches[i] = (kn_fetch){name, made[i].data, bytes};
    }
    if (status == KN_OK) status = kn_session_run(session, feeds, inputs, fetches, outputs);
    return status == KN_OK ? KN_OK : kn_fail(&runner->error, status, "%s", kn_session_error(session));
}

kn_status kn_runner_compute(kn_runner *runner, const kn_model *model, kn_session *session,
                            const kn_model_given *given, size_t count, const kn_runner_array *more,
                            size_t more_count, kn_runner_array *made) {
    const size_t outputs = (size_t)model->output_count, inputs = kn_model_input_count(model);
    kn_feed *feeds = kn_allocate(&runner->host, inputs + 1, sizeof *feeds);
    kn_fetch *fetches = kn_allocate(&runner->host, outputs + 1, sizeof *fetches);
    kn_status status = feeds && fetches ? KN_OK : kn_fail_memory(&runner->error, 0);
    if (status == KN_OK)
        status = kn_runner_fill_feeds(runner, model, session, given, count, more, more_count, feeds);
    if (status == KN_OK) status = run_session(runner, model, session, feeds, fetches, made);
    kn_release(&runner->host, feeds);
    kn_release(&runner->host, fetches);
    return status;
}

void kn_runner_take(kn_runner *runner, kn_runner_part *own, kn_runner_array *results, size_t count,
                    bool *changed) {
    *changed = own->result_count != count;
    for (size_t i = 0; !*changed && i < count; i++) {
        const kn_runner_array *one = &own->results[i], *other = &results[i];
        *changed = !kn_same_info(&one->info, &other->info) ||
                   (!own->loop && memcmp(one->data, other->data, kn_runner_bytes(&one->info)) != 0);
    }
    kn_runner_release_arrays(runner, own->results, own->result_count);
    own->results = results;
    own->result_count = count;
}
