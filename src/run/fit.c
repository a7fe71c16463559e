/* Plans that fit into memory. A plan that needs more than is allowed is made again in a way that needs less,
 * in this order: nothing is kept from run to run that could be computed in each; then values are computed
 * twice, as few as possible (plan/recompute.c). What comes after that is for the caller to ask for. */
#include "run/run_private.h"

const char *const kn_memory_measures[] = {
    "results that depend on states alone are computed in each run",
    "results of the forward pass are computed twice, the cheapest first",
    "training cuts a batch into parts, whose gradients are added",
    "moments wait in host memory between updates",
};
const int kn_memory_measure_count = (int)KN_COUNT_OF(kn_memory_measures);

/* Plans that compute more and more values twice. How much memory a plan takes for the bytes that are live in
 * it differs from network to network, so each attempt begins with what the last one took. */
enum { ATTEMPTS = 8 };

static kn_status recompute(const kn_executable_request *request, kn_economy *economy, kn_executable **result,
                           kn_error *error) {
    kn_status status = KN_ERROR_DEVICE_MEMORY;
    for (int i = 0; i < ATTEMPTS && status == KN_ERROR_DEVICE_MEMORY; i++) {
        const uint64_t excess = economy->needed - economy->limit, before = economy->live;
        const double share = economy->scratch > excess
                                 ? 0.99 * (double)(economy->scratch - excess) / (double)economy->scratch
                                 : 0;
        const bool least = economy->live_bytes == 1;
        if (least || !before) return status;
        economy->live_bytes = 1 + (uint64_t)((double)before * share);
        /* The last plan could not do with as little as it was asked to, or this is the last attempt. */
        if (i + 1 == ATTEMPTS || (i > 0 && economy->live_bytes >= before)) economy->live_bytes = 1;
        kn_error_clear(error);
        status = kn_executable_make_with(request, economy, result, error);
    }
    return status;
}

static kn_status fit(const kn_executable_request *request, kn_executable **result, kn_error *error) {
    const kn_recompute wanted = request->params->recompute;
    kn_economy economy = {.keeps = !request->switches->recompute_invariant,
                          .live_bytes = wanted == KN_RECOMPUTE_ALWAYS ? 1 : 0};
    kn_status status = kn_executable_make_with(request, &economy, result, error);
    /* Only a plan that is too large counts what is live in it. */
    const bool drops = economy.keeps && economy.kept, counts = wanted == KN_RECOMPUTE_NEEDED;
    if (status == KN_ERROR_DEVICE_MEMORY && (drops || counts)) {
        kn_error_clear(error);
        if (drops) economy.keeps = false;
        if (counts) economy.live_bytes = UINT64_MAX;
        status = kn_executable_make_with(request, &economy, result, error);
    }
    if (status != KN_ERROR_DEVICE_MEMORY || wanted == KN_RECOMPUTE_NEVER) return status;
    return recompute(request, &economy, result, error);
}

kn_status kn_executable_make(const kn_executable_request *request, kn_executable **result, kn_error *error) {
    kn_reductions reductions = {.count = 0};
    kn_executable_request own = *request;
    kn_error first = {.status = KN_OK};
    kn_status status;
    own.reductions = &reductions;
    do {
        if (reductions.again && !first.status) first = *error;
        if (reductions.again) kn_error_clear(error);
        reductions.again = false;
        status = fit(&own, result, error);
    } while (status != KN_OK && reductions.again);
    if (!first.status || (status != KN_ERROR_COMPILE && status != KN_ERROR_UNSUPPORTED)) return status;
    kn_groups_forget(&reductions);
    *error = first;
    return first.status;
}
