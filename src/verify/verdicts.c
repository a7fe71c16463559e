/* Verdicts on variants: a trial on the device, of a small node with the same programs, run once and cached.
 */
#include <stdio.h>
#include <string.h>

#include <koine/version.h>

#include "verify/verify_private.h"

/* Tries the smallest case of the table that the variant accepts, otherwise any. Without gradients: the
 * variants of their rows have separate verdicts, and each kernel takes time to compile. */
static kn_status try_table(kn_context *context, const kn_operator *row, const kn_variant *variant,
                           kn_trial_types types, kn_error *error) {
    types.halves = (kn_halves){~0u, ~0u};
    const kn_trial_options options = {.variant = variant->name, .types = types, .seed = 1};
    double ratio;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < row->case_count; i++) {
            kn_case test_case = row->cases[i];
            test_case.no_gradient = true;
            if (test_case.smallest == (pass == 0) &&
                kn_trial_accepts(context, row, &test_case, variant, false, types))
                return kn_trial_run(context, row, &test_case, &options, &ratio, error);
        }
    return kn_fail(error, KN_ERROR_NOT_FOUND, "it accepts no case of the table on this device");
}

size_t kn_verdict_name(kn_context *context, const char *what, char *key, size_t bytes) {
    return (size_t)snprintf(key, bytes, "%s/%s/%d%s/%016llx", what, kn_version_text(),
                            kn_context_capabilities(context)->vector_width,
                            kn_context_wide_indices(context) ? "x64" : "",
                            (unsigned long long)kn_kernels_hash(context));
}

/* The name under which a refusal is stored: "refused/matmul/tiled/plain", including the next variant: the
 * last variant of a row needs no verdict. */
static void name_refusal(const kn_operator *row, const kn_variant *variant, char *name, size_t bytes) {
    snprintf(name, bytes, "refused/%s/%s/%s", row->name, variant->name, variant[1].name);
}

/* Whether the kernel caused a failed trial: it was wrong, or it does not build or run on the device. */
static bool is_refusal(kn_status status) {
    return status == KN_ERROR_MISMATCH || status == KN_ERROR_COMPILE || status == KN_ERROR_DEVICE ||
           status == KN_ERROR_DEVICE_MEMORY || status == KN_ERROR_UNSUPPORTED;
}

kn_status kn_trial_run_small(kn_context *context, const kn_node_spec *node, const kn_variant *variant,
                             int tile, uint64_t programs, kn_error *error) {
    kn_node_spec small = *node;
    return kn_node_spec_shrink(context, variant, tile, programs, &small)
               ? kn_trial_run_spec(context, &small, variant, tile, error)
               : try_table(context, node->row, variant, node->types, error);
}

bool kn_variant_is_right(void *device, const kn_node *node, const kn_variant *variant, int tile) {
    kn_context *context = device;
    char what[128], key[384], name[96];
    double verdict = 0;
    uint64_t programs = 0;
    kn_error error = {.status = KN_OK};
    snprintf(name, sizeof name, "%s/%s", node->op->name, variant->name);
    kn_status status = kn_node_programs(context, node, variant, tile, &programs, &error);
    if (status != KN_OK || programs == 0) return true; /* lowering will fail again when planning */
    name_refusal(node->op, variant, what, sizeof what);
    size_t used = kn_verdict_name(context, what, key, sizeof key);
    if (used < sizeof key)
        used += (size_t)snprintf(key + used, sizeof key - used, "/%016llx", (unsigned long long)programs);
    if (variant->choice.fast && used < sizeof key)
        snprintf(key + used, sizeof key - used, "/%.0f", kn_node_trial_sum(node));
    kn_node_spec spec;
    kn_node_spec_of(node, &spec);
    if (kn_verdict_prepares(context, key)) {
        kn_trial_run_small(context, &spec, variant, tile, programs, &error);
        return true;
    }
    /* 1: right, 0: wrong, or the process ended during the trial; other failures are valid only in the context
     * that had them. */
    double failed = 2 + kn_context_made(context);
    if (kn_verdict_expect(context, key, 1, &verdict) &&
        (verdict <= 1 || verdict == failed || kn_context_precompiles(context))) {
        if (verdict == 0) kn_variant_refused(context, name, "its trial on this device failed before");
        return verdict == 1;
    }
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, key);
    status = kn_trial_run_small(context, &spec, variant, tile, programs, &error);
    if (status == KN_OK || is_refusal(status))
        kn_verdict_put(context, key, status == KN_OK ? 1 : status == KN_ERROR_MISMATCH ? 0 : failed);
    kn_attempt_end(context, &attempt);
    if (is_refusal(status)) kn_variant_refused(context, name, error.text);
    const bool strict = variant->choice.doubtful || variant->choice.fast;
    return strict ? status == KN_OK : !is_refusal(status);
}
