/* Losses for class indices. */
#include "exchange/onnx/import.h"

/* log_probabilities is (N,C,…), target is (N,…): the negative, weighted log probabilities of the targets. */
static kn_status picked_loss(kn_import_call *call, kn_value *log_probabilities) {
    kn_import *import = call->import;
    kn_value *target = kn_import_in(call, 1), *weight = kn_import_optional(call, 2), *count = NULL;
    const char *reduction = kn_import_string(call, "reduction", "mean");
    bool ignores = kn_import_attribute(call, "ignore_index") != NULL;
    kn_dtype dtype = log_probabilities->shape.dtype;
    kn_value *class = target, *skipped = NULL;
    if (ignores) {
        double number = (double)kn_import_int(call, "ignore_index", 0);
        kn_dtype whole = target->shape.dtype;
        skipped = kn_equal(target, kn_import_scalar(import, whole, number));
        class = kn_where(skipped, kn_import_scalar(import, whole, 0), target);
    }
    kn_value *loss =
        kn_neg(kn_squeeze(kn_gather_elements(log_probabilities, kn_unsqueeze(class, "1"), 1), "1"));
    if (weight) count = kn_gather(weight, class, 0);
    if (skipped) {
        kn_value *one = count ? count : kn_import_scalar(import, dtype, 1);
        count = kn_where(skipped, kn_import_scalar(import, dtype, 0), one);
    }
    if (count) loss = kn_mul(loss, count);
    if (!strcmp(reduction, "sum")) loss = kn_sum(loss, NULL, false);
    if (!strcmp(reduction, "mean"))
        loss = count ? kn_div(kn_sum(loss, NULL, false), kn_sum(count, NULL, false))
                     : kn_mean(loss, NULL, false);
    return kn_import_put(call, 0, loss);
}

static kn_status nll(kn_import_call *call) {
    return picked_loss(call, kn_import_in(call, 0));
}

static kn_status cross_entropy(kn_import_call *call) {
    kn_value *log_probabilities = kn_log_softmax(kn_import_in(call, 0), 1);
    picked_loss(call, log_probabilities);
    return kn_import_put(call, 1, log_probabilities);
}

const kn_import_row kn_import_loss[] = {
    {.type = "NegativeLogLikelihoodLoss", .build = nll},
    {.type = "SoftmaxCrossEntropyLoss", .build = cross_entropy},
};
const int kn_import_loss_count = (int)KN_COUNT_OF(kn_import_loss);
