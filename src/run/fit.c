/* Plans that fit into memory. A plan that needs more than allowed is replanned with measures that need less,
 * in this order: results that could be computed in each run do not persist; then as few values as possible
 * are recomputed (plan/recompute.c). Further measures are those of training (train/fit_prepare.c). */
#include "run/run_private.h"

const char *const kn_memory_measures[] = {
    "compute results that depend only on states again in each run",
    "recompute results of the forward pass in the backward pass, the cheapest first",
    "train on parts of a batch and add up the gradients",
    "keep moments in host memory between updates",
};
const int kn_memory_measure_count = (int)KN_COUNT_OF(kn_memory_measures);

/* Plans that recompute more and more values. How much memory a plan needs for its live bytes depends on the
 * network, so each attempt starts from the memory of the last plan. */
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
        /* The last plan did not reach its target, or this is the last attempt. */
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
    /* Only a plan that is too large counts its live bytes. */
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

/* ---- the batch ----------------------------------------------------------------------------------------- */

static bool too_large(kn_status status) {
    return status == KN_ERROR_DEVICE_MEMORY || status == KN_ERROR_UNSUPPORTED;
}

kn_status kn_largest_batch(const kn_batch_plan *plan, bool parts, int64_t *batch) {
    int64_t good = 1, bad;
    if (!plan || !batch || *batch < 1) return KN_ERROR_ARGUMENT;
    kn_status status = plan->plan(plan->user, bad = *batch);
    /* Another program may have freed memory in the meantime. */
    if (status == KN_ERROR_DEVICE_MEMORY) status = plan->plan(plan->user, bad);
    if (!too_large(status) || bad == 1) return status;
    if ((status = plan->plan(plan->user, 1)) != KN_OK) return status;
    while (bad - good > 1) {
        const int64_t middle = good + (bad - good) / 2;
        status = plan->plan(plan->user, middle);
        if (status == KN_OK)
            good = middle;
        else if (too_large(status))
            bad = middle;
        else
            return status;
    }
    const int64_t count = (*batch + good - 1) / good, found = parts ? (*batch + count - 1) / count : good;
    status = plan->plan(plan->user, found);
    if (status == KN_OK) *batch = found;
    return status;
}
