/* Which doubtful variants computed right on a device: tried once and remembered. */
#include <stdio.h>
#include <string.h>

#include <koine/version.h>

#include "verify/verify_private.h"

/* The smallest case of the table that it takes; failing that, any. Without its gradients: their rows'
 * variants are doubted by themselves, and each kernel costs time to compile. */
static kn_status try_table(kn_context *context, const kn_operator *row, const kn_variant *variant,
                           kn_error *error) {
    double ratio;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < row->case_count; i++) {
            kn_case known = row->cases[i];
            known.no_gradient = true;
            if (known.smallest == (pass == 0) && kn_trial_accepts(context, row, &known, variant, false))
                return kn_trial_run(context, row, &known, variant->name, false, NULL, 1, &ratio, error);
        }
    return kn_fail(error, KN_ERROR_NOT_FOUND, "no case of the table suits it on this device");
}

static kn_status try_sample(kn_context *context, const kn_operator *row, const kn_variant *variant,
                            const kn_trial_case *sample, kn_error *error) {
    double ratio;
    const kn_case made = {.inputs = {sample->inputs[0], sample->inputs[1]},
                          .attributes = sample->attributes,
                          .no_gradient = true};
    return kn_trial_run(context, row, &made, variant->name, false, NULL, 1, &ratio, error);
}

size_t kn_verdict_name(kn_context *context, const char *what, char *key, size_t bytes) {
    return (size_t)snprintf(key, bytes, "%s/%s/%d%s/%016llx", what, kn_version_text(),
                            kn_context_capabilities(context)->vector_width,
                            kn_context_wide_indices(context) ? "x64" : "",
                            (unsigned long long)kn_kernels_hash(context));
}

bool kn_variant_is_right(void *device, const kn_operator *row, const kn_variant *variant,
                         const kn_node *node) {
    kn_context *context = device;
    char what[104], key[384];
    double verdict = 0;
    kn_trial_case sample = {.attributes = ""};
    bool measured = node && variant->choice.trial_case;
    if (measured) variant->choice.trial_case(node, &sample);
    snprintf(what, sizeof what, "variant/%s/%s", row->name, variant->name);
    const char *name = what + strlen("variant/");
    size_t used = kn_verdict_name(context, what, key, sizeof key);
    if (measured && used < sizeof key)
        snprintf(key + used, sizeof key - used, "/%s;%s;%s", sample.inputs[0], sample.inputs[1],
                 sample.attributes);
    if (kn_verdict_expect(context, key, 1, &verdict)) {
        if (verdict == 0) kn_variant_refused(context, name, "it computed wrongly here before");
        return verdict != 0;
    }
    kn_error error = {.status = KN_OK};
    kn_status status = measured ? try_sample(context, row, variant, &sample, &error)
                                : try_table(context, row, variant, &error);
    /* What says nothing about the kernel is not remembered; a compiler may have failed for want of room or
     * memory, which the next run may have. */
    if (status == KN_OK || status == KN_ERROR_MISMATCH) kn_verdict_put(context, key, status == KN_OK);
    if (status != KN_OK) kn_variant_refused(context, name, error.text);
    return status == KN_OK;
}
