/* The verdicts that plans ask for. */
#include "verify/verify_private.h"

const kn_verdict_functions kn_device_verdicts = {
    .variant_is_right = kn_variant_is_right,
    .fusion_is_right = kn_fusion_is_right,
    .variant_is_faster = kn_variant_is_faster,
    .tuned = kn_tuned_choice,
    .note = kn_tuner_note,
};
