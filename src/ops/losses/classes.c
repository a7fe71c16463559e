/* Cross-entropy, negative log-likelihood and accuracy. Features that the rows cross_entropy and accuracy lack
 * (class weights, ignored targets, sums, log-probabilities) are built from pointwise rows and sums: for
 * losses, a target becomes the target probability of each class. */
#include "ops/build.h"
#include "ops/layer.h"
#include "ops/losses/losses.h"
#include "ops/row.h"
#include "ops/shape/shape.h"

/* 0 / 0 for class indices out of range. ignored -0.5 means none. */
KN_POINTWISE(
    class_share, .help = "the target probability of class y if class x is correct",
    KN_ATTRIBUTES(KN_FLOAT("label_smoothing", 0, "fraction distributed evenly over all classes"),
                  KN_FLOAT("classes", 2, "number of classes"),
                  KN_FLOAT("ignored", -0.5, "a class index x whose target probabilities are all 0")),
    .index = {.number = 1},
    .value = "(x == ignored ? 0 : x >= 0 && x < classes ? (x == y ? 1 - label_smoothing : 0) + "
             "label_smoothing / classes : 0 / 0) + 0 * y",
    KN_CASES({.inputs = {"7,1", "5"},
              .ranges = {"2..2", "2..2"},
              .attributes = "classes=5",
              .no_gradient = true,
              .smallest = true},
             {.inputs = {"31,1", "33"},
              .ranges = {"2..2", "0..3"},
              .attributes = "classes=33 label_smoothing=0.25",
              .no_gradient = true},
             {.inputs = {"7,1", "5"}, .ranges = {"3..3"}, .attributes = "classes=3", .no_gradient = true},
             {.inputs = {"7,1", "5"},
              .ranges = {"3..3"},
              .attributes = "classes=3 ignored=3",
              .no_gradient = true}));

/* -inf is the logarithm of probability 0, which contributes 0 if the target is 0. */
KN_POINTWISE(share_error, .help = "-x * y for log-probabilities x and target probabilities y",
             .value = "y != 0 ? -x * y : 0", .by = {"-g * y", "-g * x"},
             KN_CASES({.inputs = {"7", "7"}, .ranges = {"-4..0", "0..1"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .ranges = {"-4..0", "0..1"}},
                      {.inputs = {"3,7", "7"}, .ranges = {"special", "0..0"}, .no_gradient = true},
                      {.inputs = {"0,5", "0,5"}}));

/* ---- builders -------------------------------------------------------------------------------- */

/* The indices of all classes, (classes). */
static kn_value *class_numbers(kn_graph *graph, kn_dtype dtype, int64_t classes) {
    const kn_shape shape = {.dtype = KN_INT32, .rank = 1, .dims = {classes}};
    int32_t *numbers = kn_arena_take(&graph->arena, (size_t)classes, sizeof *numbers);
    if (!numbers)
        return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for the indices of %lld classes",
                             (long long)classes);
    for (int64_t i = 0; i < classes; i++)
        numbers[i] = (int32_t)i;
    return kn_cast(kn_constant_add(graph, &shape, numbers, (size_t)classes * sizeof *numbers), dtype);
}

/* target is (...) of class indices; the result is (...,classes). */
static kn_value *shares_of(kn_value *target, const kn_shape *x, double smoothing,
                           const kn_cross_entropy_params *given) {
    kn_graph *graph = target->graph;
    kn_shape column = *x;
    int64_t classes = x->dims[x->rank - 1];
    column.dims[x->rank - 1] = 1;
    /* 16 bits are too few for class indices. */
    const kn_dtype dtype = kn_is_half(x->dtype) ? KN_FLOAT32 : x->dtype;
    kn_value *inputs[2] = {kn_cast(kn_reshape_to(target, column.rank, column.dims), dtype),
                           class_numbers(graph, dtype, classes)};
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_class_share);
    kn_settings_float(&settings, "classes", (double)classes);
    kn_settings_float(&settings, "label_smoothing", smoothing);
    if (given->has_ignore_index) kn_settings_float(&settings, "ignored", (double)given->ignore_index);
    kn_value *shares = kn_build(&kn_row_class_share, inputs, 2, &settings);
    return dtype == x->dtype ? shares : kn_cast(shares, x->dtype);
}

/* target and (if samples are mixed) the second target are (...) of class indices, the mixing ratio is (...);
 * the result is (...,classes). */
static kn_value *mixed_target(kn_value *target, const kn_shape *x, double smoothing,
                              const kn_cross_entropy_params *given) {
    kn_value *own = shares_of(target, x, smoothing, given);
    if (!given->other) return own;
    kn_shape column = *x;
    column.dims[x->rank - 1] = 1;
    kn_value *other = shares_of(given->other, x, smoothing, given);
    return kn_add(other, kn_mul(kn_reshape_to(given->share, column.rank, column.dims), kn_sub(own, other)));
}

/* Whether the second target and its ratio are given and match the first, which has class indices. */
static bool mixture_fits(const char *loss, kn_value *x, kn_value *target,
                         const kn_cross_entropy_params *given, bool labels) {
    const kn_value *other = given->other, *share = given->share;
    if (!other && !share) return true;
    if (other && share && labels && other->shape.dtype == KN_INT32 && share->shape.dtype == x->shape.dtype &&
        kn_shape_same(&other->shape, &target->shape) && kn_shape_same(&share->shape, &target->shape))
        return true;
    kn_graph_fail(x->graph, KN_ERROR_SHAPE,
                  "%s: a mixture needs two targets of class indices with the same shape, and the fraction of "
                  "the first target, with the same shape and the type of the logits",
                  loss);
    return false;
}

/* Whether x is (...,classes), the target class indices (...) or of the shape of x, and the weights
 * (classes) */
static bool inputs_fit(const char *loss, kn_value *x, kn_value *target, const kn_cross_entropy_params *given,
                       bool *labels) {
    kn_graph *graph = x->graph;
    kn_shape rows = x->shape;
    const kn_value *weights = given->class_weights;
    const char *words = kn_shape_words(graph, &x->shape);
    if (rows.rank < 1 || !kn_dim_known(rows.dims[rows.rank - 1]) || rows.dims[rows.rank - 1] < 1 ||
        rows.dims[rows.rank - 1] > INT32_MAX || !kn_dtype_is_float(rows.dtype)) {
        kn_graph_fail(graph, KN_ERROR_SHAPE,
                      "%s: x is %s; expected (...,classes) with a known number of classes", loss, words);
        return false;
    }
    if (!(given->label_smoothing >= 0 && given->label_smoothing <= 1)) {
        kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: label_smoothing must be from 0 to 1", loss);
        return false;
    }
    rows.rank--;
    *labels = target->shape.dtype == KN_INT32 && target->shape.rank == rows.rank &&
              kn_shape_same(&target->shape, &rows);
    if (!*labels && (target->shape.dtype != x->shape.dtype || target->shape.rank != x->shape.rank ||
                     !kn_shape_same(&target->shape, &x->shape))) {
        rows.dtype = KN_INT32;
        kn_graph_fail(
            graph, KN_ERROR_SHAPE,
            "%s: x is %s and the target %s; expected class indices, %s, or distributions of the shape of x",
            loss, words, kn_shape_words(graph, &target->shape), kn_shape_words(graph, &rows));
        return false;
    }
    if (weights && (weights->shape.rank != 1 || weights->shape.dims[0] != x->shape.dims[rows.rank] ||
                    weights->shape.dtype != x->shape.dtype)) {
        kn_graph_fail(graph, KN_ERROR_SHAPE,
                      "%s: x is %s and the class weights are %s; expected one per class", loss, words,
                      kn_shape_words(graph, &weights->shape));
        return false;
    }
    return mixture_fits(loss, x, target, given, *labels);
}

/* Whether the target, or another input, failed; inputs that are not given are NULL. */
static bool any_failed(const kn_value *target, const kn_cross_entropy_params *given) {
    const kn_value *const values[] = {given->class_weights, given->other, given->share};
    for (size_t i = 0; i < KN_COUNT_OF(values); i++)
        if (values[i] && kn_value_failed(values[i])) return true;
    return kn_value_failed(target);
}

/* x is (...,classes) of log-probabilities. The mean over class indices is divided by the sum of their
 * weights, the mean over distributions by their number. */
static kn_value *likelihood(const char *loss, kn_value *x, kn_value *target,
                            const kn_cross_entropy_params *given) {
    bool labels;
    double smoothing = given->label_smoothing;
    kn_value *weights = given->class_weights, *probabilities = target;
    if (kn_value_failed(x)) return x;
    if (any_failed(target, given)) return kn_missing(x, target, loss, "the target");
    if (!inputs_fit(loss, x, target, given, &labels)) return &x->graph->failed;
    if (labels)
        probabilities = mixed_target(target, &x->shape, smoothing, given);
    else if (smoothing > 0)
        probabilities =
            kn_shift(kn_scale(target, 1 - smoothing), smoothing / (double)x->shape.dims[x->shape.rank - 1]);
    kn_value *weighted = weights ? kn_mul(probabilities, weights) : probabilities;
    kn_value *errors = kn_build2(&kn_row_share_error, x, weighted);
    if (given->sum) return kn_sum(errors, NULL, false);
    if (!labels || (!weights && !given->has_ignore_index))
        return kn_mean(kn_sum(errors, "-1", false), NULL, false);
    kn_value *counted = weighted;
    if (smoothing > 0) {
        counted = mixed_target(target, &x->shape, 0, given);
        if (weights) counted = kn_mul(counted, weights);
    }
    return kn_div(kn_sum(errors, NULL, false), kn_sum(counted, NULL, false));
}

/* logits are (...,classes). */
kn_value *kn_cross_entropy(kn_value *logits, kn_value *target, const kn_cross_entropy_params *params) {
    kn_value *inputs[2] = {logits, target};
    kn_cross_entropy_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(logits, kn_cross_entropy_params, &given, params);
    if (kn_value_failed(logits)) return kn_build(&kn_row_cross_entropy, inputs, 2, NULL);
    if (given.class_weights || given.has_ignore_index || given.sum)
        return likelihood("cross_entropy", kn_log_softmax(logits, -1), target, &given);
    if (given.other || given.share) {
        bool labels;
        if (any_failed(target, &given)) return kn_missing(logits, target, "cross_entropy", "the target");
        if (!inputs_fit("cross_entropy", logits, target, &given, &labels)) return &logits->graph->failed;
        inputs[1] = mixed_target(target, &logits->shape, 0, &given);
    }
    kn_settings settings;
    kn_settings_init(&settings, logits->graph, &kn_row_cross_entropy);
    kn_settings_float(&settings, "label_smoothing", given.label_smoothing);
    return kn_build(&kn_row_cross_entropy, inputs, 2, &settings);
}

kn_value *kn_nll(kn_value *log_probabilities, kn_value *target, const kn_cross_entropy_params *params) {
    kn_cross_entropy_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(log_probabilities, kn_cross_entropy_params, &given, params);
    return likelihood("nll", log_probabilities, target, &given);
}

/* A sum divided by a sum, so that shards and parts of a batch are divided by the count of the whole batch. */
kn_value *kn_accuracy_ignoring(kn_value *logits, kn_value *target, int64_t ignored) {
    const kn_cross_entropy_params given = {.size = sizeof given};
    const int32_t number = (int32_t)ignored;
    bool labels;
    if (kn_value_failed(logits)) return logits;
    kn_graph *graph = logits->graph;
    if (kn_value_failed(target)) return kn_missing(logits, target, "accuracy", "the target");
    if (!inputs_fit("accuracy", logits, target, &given, &labels)) return &graph->failed;
    if (!labels)
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "accuracy: the target %s is a distribution; expected class indices",
                             kn_shape_words(graph, &target->shape));
    if (number != ignored)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "accuracy: the ignored index %lld does not fit in 32 bits", (long long)ignored);
    kn_value *none = kn_constant(graph, KN_INT32, "", &number, sizeof number);
    kn_value *counted = kn_cast(kn_not_equal(target, none), KN_FLOAT32);
    kn_value *right = kn_cast(kn_equal(kn_argmax(logits, -1, false), target), KN_FLOAT32);
    return kn_div(kn_sum(kn_mul(right, counted), NULL, false), kn_sum(counted, NULL, false));
}
