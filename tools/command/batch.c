/* Finds the largest batch that fits a device, by planning only. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

typedef struct fitting {
    const batch_plans *plans;
    const char *device;
    int64_t asked;
    uint64_t allowed;
    char why[700];  /* the problem of the batch that was asked for, as a clause */
    char last[700]; /* the same of the last plan that failed */
} fitting;

/* Plans for a batch, and describes the problem if it does not fit. */
static kn_status plan(void *user, int64_t batch) {
    fitting *state = user;
    char needed[32], allowed[32];
    uint64_t bytes = 0;
    if (batch != state->asked && batch != 1)
        progress_line("a batch of %lld is too large; trying %lld", (long long)state->asked, (long long)batch);
    const kn_status status = state->plans->plan(state->plans->user, batch, &bytes);
    if (status == KN_OK && bytes <= state->allowed) return KN_OK;
    snprintf(state->last, sizeof state->last, "%s", state->plans->error(state->plans->user));
    if (status == KN_OK)
        snprintf(state->last, sizeof state->last,
                 "%s of device memory are needed (%llu bytes), and %s may use %s (%llu)",
                 bytes_text((double)bytes, needed, sizeof needed), (unsigned long long)bytes, state->device,
                 bytes_text((double)state->allowed, allowed, sizeof allowed),
                 (unsigned long long)state->allowed);
    char *advice = strstr(state->last, "; use a smaller batch");
    if (advice) *advice = '\0'; /* which is what happens */
    if (batch == state->asked) memcpy(state->why, state->last, sizeof state->why);
    return status == KN_OK ? KN_ERROR_DEVICE_MEMORY : status;
}

bool batch_fit(const kn_context *context, const batch_plans *plans, const char *then, int64_t *batch) {
    fitting state = {.plans = plans,
                     .device = kn_context_device(context)->name,
                     .asked = *batch,
                     .allowed = plans->allowed};
    if (!state.allowed) state.allowed = kn_context_capabilities(context)->memory_bytes;
    const kn_status status = kn_largest_batch(&(kn_batch_plan){&state, plan}, false, batch);
    if (status != KN_OK)
        return command_error("%s%s",
                             status == KN_ERROR_DEVICE_MEMORY
                                 ? "the model is too large for the device, even with a batch of 1: "
                                 : "",
                             state.last);
    if (*batch != state.asked)
        command_warn("a batch of %lld does not fit: %s; %s %lld, the largest that does",
                     (long long)state.asked, state.why, then, (long long)*batch);
    return true;
}

void arithmetic_apply(const arithmetic *how, kn_session_params *params) {
    params->fast_math = !how->exact;
    params->precision = how->precision;
    params->activations = how->activations;
    params->recompute = how->recompute ? KN_RECOMPUTE_ALWAYS : KN_RECOMPUTE_NEEDED;
}

kn_session_params batch_params(kn_states *states, const arithmetic *how, const char *switches) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    arithmetic_apply(how, &params);
    params.memory_bytes = UINT64_MAX;
    params.switches = switches;
    return params;
}

kn_session *batch_session(kn_context *context, kn_value *const *values, size_t count, kn_states *states,
                          const arithmetic *how, const char *switches) {
    const kn_session_params params = batch_params(states, how, switches);
    return kn_session_create(context, values, count, &params);
}

kn_value **batch_outputs(const kn_model *model, size_t *count) {
    *count = (size_t)kn_model_output_count(model);
    kn_value **outputs = calloc(*count + 1, sizeof *outputs);
    for (size_t i = 0; outputs && i < *count; i++)
        outputs[i] = kn_model_output_at(model, (int)i);
    if (!outputs) command_fail("out of memory");
    return outputs;
}

kn_status batch_bind(kn_session *session, int64_t batch) {
    kn_status status = kn_session_bind(session, "batch", batch);
    return status == KN_ERROR_NOT_FOUND ? KN_OK : status;
}

kn_status batch_plan_session(kn_session *session, int64_t batch, const kn_feed *feeds, size_t feed_count,
                             kn_plan_info *info) {
    kn_status status = batch_bind(session, batch);
    if (status == KN_OK) status = kn_session_compile(session, feeds, feed_count);
    if (status == KN_OK) status = kn_session_plan(session, info);
    return status;
}
