/* Finds the largest batch that fits a device, by planning only. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

typedef struct fitting {
    const batch_plans *plans;
    uint64_t allowed;
    uint64_t needed; /* bytes needed by the last plan; 0: unknown, because a single value is too large */
    kn_status status;
} fitting;

/* Whether the last plan failed for a reason that a smaller batch would not solve: neither device memory nor
 * index range. */
static bool broken(const fitting *state) {
    return state->status != KN_OK && state->status != KN_ERROR_DEVICE_MEMORY &&
           state->status != KN_ERROR_UNSUPPORTED;
}

static bool fits(fitting *state, int64_t batch) {
    state->needed = 0;
    state->status = state->plans->plan(state->plans->user, batch, &state->needed);
    return state->status == KN_OK && state->needed <= state->allowed;
}

/* Describe the last plan's problem as a clause. */
static const char *complaint(const fitting *state, const char *device, char *text, size_t room) {
    char needed[32], allowed[32];
    if (state->status != KN_OK) {
        snprintf(text, room, "%s", state->plans->error(state->plans->user));
        char *advice = strstr(text, "; use a smaller batch");
        if (advice) *advice = '\0'; /* batch_fit already reduces the batch */
    } else
        snprintf(text, room, "%s of device memory are needed (%llu bytes), and %s may use %s (%llu)",
                 bytes_text((double)state->needed, needed, sizeof needed), (unsigned long long)state->needed,
                 device, bytes_text((double)state->allowed, allowed, sizeof allowed),
                 (unsigned long long)state->allowed);
    return text;
}

/* Bisects between `good`, which fits, and `bad`, which does not. */
static int64_t search(fitting *state, int64_t good, int64_t bad) {
    int64_t asked = bad;
    while (bad - good > 1) {
        int64_t middle = good + (bad - good) / 2;
        progress_line("a batch of %lld is too large; trying %lld", (long long)asked, (long long)middle);
        if (fits(state, middle))
            good = middle;
        else if (broken(state))
            break;
        else
            bad = middle;
    }
    return good;
}

/* Split a batch into the fewest parts of at most `most` samples; return the size of the largest part. */
static int64_t largest_part(int64_t batch, int64_t most) {
    const int64_t parts = (batch + most - 1) / most;
    return (batch + parts - 1) / parts;
}

bool batch_fit(const kn_context *context, const batch_plans *plans, bool parts, const char *then,
               int64_t *batch) {
    fitting state = {.plans = plans, .allowed = plans->allowed};
    const char *device = kn_context_device(context)->name;
    char why[700];
    if (!state.allowed) state.allowed = kn_context_capabilities(context)->memory_bytes;
    if (fits(&state, *batch)) return true;
    /* Another program may have freed memory in the meantime. */
    if (state.status == KN_ERROR_DEVICE_MEMORY && fits(&state, *batch)) return true;
    complaint(&state, device, why, sizeof why);
    if (broken(&state) || *batch == 1 || !fits(&state, 1)) {
        const char *large = broken(&state) || state.status == KN_ERROR_UNSUPPORTED
                                ? ""
                                : "the model is too large for the device, even with a batch of 1: ";
        return command_error("%s%s", large, complaint(&state, device, why, sizeof why));
    }
    int64_t largest = search(&state, 1, *batch);
    if (parts) largest = largest_part(*batch, largest);
    if (broken(&state) || !fits(&state, largest)) return command_error("%s", plans->error(plans->user));
    command_warn("a batch of %lld does not fit: %s; %s %lld, the largest %s", (long long)*batch, why, then,
                 (long long)largest, parts ? "equal ones that do" : "that does");
    *batch = largest;
    return true;
}

void arithmetic_apply(const arithmetic *how, kn_session_params *params) {
    params->fast_math = !how->exact;
    params->precision = how->precision;
    params->recompute = how->recompute ? KN_RECOMPUTE_ALWAYS : KN_RECOMPUTE_NEEDED;
}

kn_session *batch_session(kn_context *context, kn_value *const *values, size_t count, kn_states *states,
                          const arithmetic *how, const char *switches) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    arithmetic_apply(how, &params);
    params.memory_bytes = UINT64_MAX;
    params.switches = switches;
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
