/* Softmax cross-entropy against class indices or distributions, and accuracy: scalars computed from logits.
 * cross_entropy_counted ignores rows with a certain class index. */
#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/losses/losses.h"
#include "ops/lowering.h"
#include "ops/pointwise/pointwise.h"
#include "ops/reduce/reduce.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* logits are (..., classes), viewed as (rows, classes); target is int32 (...) or has the logits' shape. The
 * hidden outputs are (...): the largest logit of a row, and log(sum(exp(logit - largest))); and, only for
 * cross_entropy_counted, a scalar: the number of rows that count. */
enum { LOSS, MOST, LOG_SUM, COUNTED };

static int64_t class_count(const kn_shape *logits) {
    return logits->dims[logits->rank - 1];
}
static int64_t row_count(const kn_shape *logits) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < logits->rank; i++)
        rows *= logits->dims[i];
    return rows;
}
static bool has_labels(const kn_shape *logits, const kn_shape *target) {
    return target->rank < logits->rank;
}
/* The class index of rows to ignore; NULL: all rows count. */
static const kn_attribute_value *ignored_of(const kn_node *node) {
    return kn_attribute_in(node->op, node->attributes, "ignored");
}

/* ---- shapes ---------------------------------------------------------------------------------------- */

/* Checks logits and target; `rows` becomes the logits' shape without its last axis. */
static kn_status check_target(kn_shape_call *call, bool labels_only, kn_shape *rows) {
    const kn_shape *logits = &call->inputs[0]->shape, *target = &call->inputs[1]->shape;
    if (kn_shape_float_input(call, 0)) return call->error->status;
    if (logits->rank < 1)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "the logits are %s; expected (..., classes)",
                             kn_shape_words_of(call, 0));
    *rows = *logits;
    rows->rank--;
    rows->dtype = logits->dtype == KN_FLOAT64 ? KN_FLOAT64 : KN_FLOAT32;
    if (kn_shape_same(target, rows) && target->rank == rows->rank) {
        if (target->dtype == KN_INT32) return KN_OK;
        return kn_shape_fail(call, KN_ERROR_DTYPE, "the target is %s; cast class indices to int32",
                             kn_shape_words_of(call, 1));
    }
    if (!labels_only && target->rank == logits->rank && kn_shape_same(target, logits)) {
        if (target->dtype == logits->dtype) return KN_OK;
        return kn_shape_fail(
            call, KN_ERROR_DTYPE,
            "the target is %s and the logits are %s; distributions must have the type of the logits",
            kn_shape_words_of(call, 1), kn_shape_words_of(call, 0));
    }
    rows->dtype = KN_INT32;
    const char *expected = kn_shape_words(call->graph, rows);
    return kn_shape_fail(call, KN_ERROR_SHAPE,
                         "the logits are %s and the target %s; expected class indices, %s%s",
                         kn_shape_words_of(call, 0), kn_shape_words_of(call, 1), expected,
                         labels_only ? "" : ", or distributions of the logits' shape");
}

static kn_status cross_entropy_shape(kn_shape_call *call) {
    double smoothing = kn_shape_attribute(call, "label_smoothing")->number;
    if (!(smoothing >= 0 && smoothing <= 1))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "label_smoothing must be from 0 to 1");
    bool counted = call->row == &kn_row_cross_entropy_counted;
    kn_shape rows;
    if (check_target(call, counted, &rows)) return call->error->status;
    call->outputs[LOSS] = (kn_shape){.dtype = rows.dtype};
    call->outputs[MOST] = call->outputs[LOG_SUM] = rows;
    if (counted) call->outputs[COUNTED] = call->outputs[LOSS];
    return KN_OK;
}

/* logits, target, most, log_sum, gradient of the loss; and the number of rows that count. */
static kn_status accuracy_shape(kn_shape_call *call) {
    kn_shape rows;
    if (check_target(call, true, &rows)) return call->error->status;
    call->outputs[0] = (kn_shape){.dtype = KN_FLOAT32};
    return KN_OK;
}

/* ---- references --------------------------------------------------------------------------------------- */

/* The target probability of class `j` of row `row`; NaN if the class index is out of range. */
static double probability_of(const kn_reference_call *call, int64_t row, int64_t j) {
    const kn_reference_array *target = &call->inputs[1];
    const kn_shape *logits = &call->inputs[0].shape;
    int64_t classes = class_count(logits);
    double smoothing = kn_attribute_of(call->node, "label_smoothing")->number;
    if (!has_labels(logits, &target->shape))
        return (1 - smoothing) * target->data[row * classes + j] + smoothing / (double)classes;
    double label = target->data[row];
    if (!(label >= 0 && label < (double)classes)) return NAN;
    return ((double)j == label ? 1 - smoothing : 0) + smoothing / (double)classes;
}

static bool counts(const kn_reference_call *call, int64_t row) {
    const kn_attribute_value *ignored = ignored_of(call->node);
    return !ignored || call->inputs[1].data[row] != (double)ignored->integer;
}

static kn_status cross_entropy_reference(kn_reference_call *call) {
    const double *x = call->inputs[0].data;
    int64_t rows = row_count(&call->inputs[0].shape), classes = class_count(&call->inputs[0].shape);
    bool labels = has_labels(&call->inputs[0].shape, &call->inputs[1].shape);
    double total = 0, counted = 0;
    for (int64_t row = 0; row < rows; row++, x += classes) {
        double most = -INFINITY, sum = 0, loss = 0;
        for (int64_t j = 0; j < classes; j++)
            most = isnan(most) || most > x[j] ? most : x[j];
        for (int64_t j = 0; j < classes; j++)
            sum += exp(x[j] - most);
        for (int64_t j = 0; j < classes; j++) {
            double probability = probability_of(call, row, j);
            if (probability != 0 || !labels) loss += probability * (most + log(sum) - x[j]);
        }
        if (counts(call, row)) {
            total += loss;
            counted++;
        }
        call->outputs[MOST].data[row] = most;
        call->outputs[LOG_SUM].data[row] = log(sum);
    }
    call->outputs[LOSS].data[0] = total / counted;
    if (ignored_of(call->node)) call->outputs[COUNTED].data[0] = counted;
    return KN_OK;
}

static kn_status gradient_reference(kn_reference_call *call) {
    const double *x = call->inputs[0].data, *most = call->inputs[2].data, *log_sum = call->inputs[3].data;
    double *dx = call->outputs[0].data, g = call->inputs[4].data[0];
    int64_t rows = row_count(&call->inputs[0].shape), classes = class_count(&call->inputs[0].shape);
    double counted = ignored_of(call->node) ? call->inputs[5].data[0] : (double)rows;
    for (int64_t row = 0; row < rows; row++, x += classes, dx += classes) {
        double mass = 0;
        if (!counts(call, row)) continue;
        for (int64_t j = 0; j < classes; j++)
            mass += probability_of(call, row, j);
        for (int64_t j = 0; j < classes; j++)
            dx[j] =
                g / counted * (mass * exp(x[j] - most[row] - log_sum[row]) - probability_of(call, row, j));
    }
    return KN_OK;
}

static kn_status accuracy_reference(kn_reference_call *call) {
    const double *x = call->inputs[0].data;
    int64_t rows = row_count(&call->inputs[0].shape), classes = class_count(&call->inputs[0].shape), hits = 0;
    for (int64_t row = 0; row < rows; row++, x += classes) {
        int64_t best = -1;
        for (int64_t j = 0; j < classes; j++)
            if (!isnan(x[j]) && (best < 0 || x[j] > x[best])) best = j;
        hits += best >= 0 && (double)best == call->inputs[1].data[row];
    }
    call->outputs[0].data[0] = (double)hits / (double)rows;
    return KN_OK;
}

/* ---- lowering ----------------------------------------------------------------------------------------- */

/* Begins a step over rows: macros and sizes. */
static kn_step *begin(kn_lowering *lowering, const char *kernel, kn_method method, int64_t *chunk) {
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    const kn_shape *logits = &node->inputs[0]->shape;
    int64_t rows = row_count(logits), classes = class_count(logits);
    kn_step *step = kn_step_begin(lowering, "losses/cross_entropy.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_LABELS", has_labels(logits, &node->inputs[1]->shape)});
    if (ignored_of(node)) KN_STEP_DEFINE(step, {"KN_IGNORES", 1});
    kn_step_types(step, node, logits->dtype);
    *chunk = 1;
    if (method == KN_METHOD_WIDE) {
        *chunk = 2048 / (classes + 1) + 1;
        KN_STEP_DEFINE(step, {"KN_WIDTH", target->vector_width});
        kn_step_size1(step, (size_t)((rows + *chunk - 1) / *chunk), 1);
    } else {
        size_t items = kn_group_items(target, "losses/cross_entropy.cl"),
               lanes = kn_power_of_two(kn_divide_up(classes, 4), items);
        kn_step_lanes(step, target, rows, 1, method == KN_METHOD_PLAIN ? 1 : lanes, items);
    }
    return step;
}

/* The mean over rows of a step's results in scratch memory, in the accumulator's type. */
static kn_status emit_mean(kn_lowering *lowering, int scratch, kn_method method) {
    const kn_shape *logits = &lowering->node->inputs[0]->shape;
    kn_reduction mean = {
        .kind = KN_REDUCE_SUM, .divide = true, .divisor = row_count(logits), .scratch = scratch};
    mean.dtype = kn_accumulator(lowering->node, logits->dtype);
    mean.rank = 1;
    mean.dims[0] = mean.divisor;
    mean.reduced[0] = true;
    return kn_emit_reduction(lowering, &mean, method);
}

/* The same over the rows that count, whose number is also a result: by a single work-group or work-item. */
static kn_status emit_counted_mean(kn_lowering *lowering, int scratch, kn_method method) {
    const kn_node *node = lowering->node;
    const kn_shape *logits = &node->inputs[0]->shape;
    kn_step *step = kn_step_begin(lowering, "losses/cross_entropy.cl", "kn_cross_entropy_mean");
    KN_STEP_DEFINE(step, {"KN_IGNORES", 1});
    kn_step_types(step, node, logits->dtype);
    const size_t items = kn_group_items(lowering->target, "losses/cross_entropy.cl");
    kn_step_lanes(step, lowering->target, 1, 1, method == KN_METHOD_TREE ? items : 1, items);
    kn_step_scratch(step, "loss", scratch);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"rows", row_count(logits)}, {"ignored", (int32_t)ignored_of(node)->integer});
    return kn_step_end(step, lowering);
}

static int row_scratch(kn_lowering *lowering) {
    const kn_shape *logits = &lowering->node->inputs[0]->shape;
    kn_dtype accumulator = kn_accumulator(lowering->node, logits->dtype);
    int64_t rows = row_count(logits);
    return kn_emit_scratch(lowering, (uint64_t)(rows ? rows : 1) * kn_dtype_bytes(accumulator));
}

static kn_status lower_loss(kn_lowering *lowering) {
    const kn_method method = lowering->config;
    const kn_node *node = lowering->node;
    const kn_shape *logits = &node->inputs[0]->shape;
    int scratch = row_scratch(lowering);
    if (row_count(logits) > 0) {
        int64_t chunk;
        kn_step *step = begin(lowering, "kn_cross_entropy", method, &chunk);
        kn_step_scratch(step, "loss", scratch);
        kn_step_bind_values(step, lowering);
        KN_STEP_SET(step, {"rows", row_count(logits)}, {"classes", class_count(logits)}, {"chunk", chunk});
        kn_step_number(step, "smoothing", kn_accumulator(node, logits->dtype),
                       kn_attribute_of(node, "label_smoothing")->number);
        if (ignored_of(node)) KN_STEP_SET(step, {"ignored", (int32_t)ignored_of(node)->integer});
        kn_status status = kn_step_end(step, lowering);
        if (status) return status;
    }
    return ignored_of(node) ? emit_counted_mean(lowering, scratch, method)
                            : emit_mean(lowering, scratch, method);
}

static kn_status lower_gradient(kn_lowering *lowering) {
    const kn_method method = lowering->config;
    const kn_node *node = lowering->node;
    const kn_shape *logits = &node->inputs[0]->shape;
    if (kn_elements_of(node->inputs[0]) == 0) return KN_OK;
    int64_t chunk;
    kn_step *step = begin(lowering, "kn_cross_entropy_gradient", method, &chunk);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"rows", row_count(logits)}, {"classes", class_count(logits)}, {"chunk", chunk});
    kn_step_number(step, "smoothing", kn_accumulator(node, logits->dtype),
                   kn_attribute_of(node, "label_smoothing")->number);
    if (ignored_of(node)) {
        KN_STEP_SET(step, {"ignored", (int32_t)ignored_of(node)->integer});
        kn_step_read(step, "counted", node->inputs[5]);
    }
    return kn_step_end(step, lowering);
}

static kn_status lower_accuracy(kn_lowering *lowering) {
    const kn_method method = lowering->config;
    const kn_node *node = lowering->node;
    const kn_shape *logits = &node->inputs[0]->shape;
    int scratch = row_scratch(lowering);
    if (row_count(logits) > 0) {
        int64_t chunk;
        kn_step *step = begin(lowering, "kn_hits", method, &chunk);
        kn_step_scratch(step, "hit", scratch);
        kn_step_bind_values(step, lowering);
        KN_STEP_SET(step, {"rows", row_count(logits)}, {"classes", class_count(logits)}, {"chunk", chunk});
        kn_status status = kn_step_end(step, lowering);
        if (status) return status;
    }
    return emit_mean(lowering, scratch, method);
}

static void logits_cost(const kn_node *node, kn_cost *cost) {
    kn_cost_set(node, 5.0 * (double)kn_elements_of(node->inputs[0]), cost);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* For a distribution: the gradient of each probability is (1 - smoothing) / rows * -log(softmax). */
static kn_value *target_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    kn_shape column = node->inputs[0]->shape;
    column.dims[column.rank - 1] = 1;
    kn_value *most = kn_gradient_reshape(call, node->outputs[MOST], &column);
    kn_value *pair[2] = {most, kn_gradient_reshape(call, node->outputs[LOG_SUM], &column)};
    pair[0] = kn_gradient_build(call, &kn_row_add, pair, 2, NULL);
    pair[1] = node->inputs[0];
    pair[0] = kn_gradient_build(call, &kn_row_sub, pair, 2, NULL);
    pair[1] = call->output_gradients[0];
    kn_value *product = kn_gradient_build(call, &kn_row_mul, pair, 2, NULL);
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_scale);
    double smoothing = kn_attribute_of(node, "label_smoothing")->number;
    int64_t rows = row_count(&node->inputs[0]->shape);
    kn_settings_float(&settings, "factor", rows ? (1 - smoothing) / (double)rows : 0);
    return kn_gradient_build(call, &kn_row_scale, &product, 1, &settings);
}

static kn_status cross_entropy_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    kn_value *g = call->output_gradients[0];
    if (!g) return KN_OK;
    if (call->wanted[0]) {
        kn_value *inputs[6] = {
            node->inputs[0], node->inputs[1], node->outputs[MOST], node->outputs[LOG_SUM], g, NULL};
        const bool counted = ignored_of(node) != NULL;
        const kn_operator *row =
            counted ? &kn_row_cross_entropy_counted_gradient : &kn_row_cross_entropy_gradient;
        if (counted) inputs[5] = node->outputs[COUNTED];
        kn_settings settings;
        kn_settings_init(&settings, call->graph, row);
        kn_settings_copy(&settings, node);
        call->input_gradients[0] = kn_gradient_build(call, row, inputs, counted ? 6 : 5, &settings);
    }
    if (call->wanted[1] && !has_labels(&node->inputs[0]->shape, &node->inputs[1]->shape))
        call->input_gradients[1] = target_gradient(call);
    return kn_gradient_status(call);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define SMOOTHED KN_FLOAT("label_smoothing", 0, "fraction distributed evenly over all classes")
#define SMOOTHING KN_ATTRIBUTES(SMOOTHED)
#define IGNORING KN_ATTRIBUTES(SMOOTHED, KN_INT("ignored", -100, "class index of rows to ignore"))
#define LOSS_VARIANTS                                                                                        \
    .input_names = {"x", "target"}, .output_names = {"mean", "most", "log_sum", "counted"},                  \
    KN_VARIANTS(KN_METHOD_VARIANTS(lower_loss, .promise.halves = {1, 0}))
#define GRADIENT_VARIANTS                                                                                    \
    .input_names = {"x", "target", "most", "log_sum", "g"}, .output_names = {"dx"},                          \
    KN_VARIANTS(KN_METHOD_VARIANTS(lower_gradient, .promise.halves = {1, 1}))
#define LABELS(count) "0.." #count

KN_OPERATOR(
    cross_entropy, .help = "mean cross-entropy of softmax(x) against class indices or distributions",
    SMOOTHING, .min_inputs = 2, .max_inputs = 2, .index = {.number = 2, .along_last = true}, .hidden = 2,
    .shape = cross_entropy_shape, .gradient = cross_entropy_gradient, .reference = cross_entropy_reference,
    .cost = logits_cost, .tolerance = 4, LOSS_VARIANTS,
    KN_CASES({.inputs = {"3,7", "int32 3"}, .ranges = {NULL, LABELS(6)}, .smallest = true},
             {.inputs = {"31,33", "int32 31"},
              .ranges = {"-30..30", LABELS(32)},
              .attributes = "label_smoothing=0.1"},
             {.inputs = {"3,7", "3,7"}, .ranges = {NULL, "0..1"}, .smallest = true},
             {.inputs = {"7,93", "7,93"}, .ranges = {NULL, "0..1"}, .attributes = "label_smoothing=0.25"},
             {.inputs = {"2,3,93", "int32 2,3"}, .ranges = {NULL, LABELS(92)}},
             {.inputs = {"93", "int32"}, .ranges = {NULL, LABELS(92)}},
             {.inputs = {"1031,1", "int32 1031"}, .ranges = {NULL, LABELS(0)}},
             {.inputs = {"2,1033", "int32 2"}, .ranges = {NULL, LABELS(1032)}},
             {.inputs = {"7,5", "int32 7"}, .ranges = {NULL, "-1..5"}, .no_gradient = true},
             {.inputs = {"3,33", "int32 3"}, .ranges = {"special", LABELS(32)}, .no_gradient = true},
             {.inputs = {"float64 7,33", "int32 7"},
              .ranges = {NULL, LABELS(32)},
              .attributes = "label_smoothing=0.1",
              .no_gradient = true},
             {.inputs = {"0,5", "int32 0"}, .no_gradient = true}));
KN_OPERATOR(
    cross_entropy_gradient, .help = "gradient of cross_entropy with respect to its logits", SMOOTHING,
    .min_inputs = 5, .max_inputs = 5, .backward = true, .shape = kn_shape_like_first,
    .reference = gradient_reference, .cost = logits_cost, .tolerance = 4, GRADIENT_VARIANTS,
    KN_CASES({.inputs = {"3,7", "int32 3", "3", "3", ""},
              .ranges = {NULL, LABELS(6), "1..2", "0..2"},
              .no_gradient = true,
              .smallest = true},
             {.inputs = {"3,7", "3,7", "3", "3", ""},
              .ranges = {NULL, "0..1", "1..2", "0..2"},
              .no_gradient = true,
              .smallest = true},
             {.inputs = {"31,93", "int32 31", "31", "31", ""},
              .ranges = {NULL, LABELS(92), "1..2", "3..4"},
              .attributes = "label_smoothing=0.1",
              .no_gradient = true},
             {.inputs = {"31,93", "31,93", "31", "31", ""},
              .ranges = {NULL, "0..1", "1..2", "3..4"},
              .attributes = "label_smoothing=0.1",
              .no_gradient = true},
             {.inputs = {"7,5", "int32 7", "7", "7", ""}, .ranges = {NULL, "-1..5"}, .no_gradient = true}));
KN_OPERATOR(
    cross_entropy_counted,
    .help = "cross_entropy against class indices, as the mean over the rows whose class index is not "
            "`ignored`; only for training without shards",
    IGNORING, .min_inputs = 2, .max_inputs = 2, .index = {.number = 2, .along_last = true}, .hidden = 3,
    .shape = cross_entropy_shape, .gradient = cross_entropy_gradient, .reference = cross_entropy_reference,
    .cost = logits_cost, .tolerance = 4, LOSS_VARIANTS,
    KN_CASES({.inputs = {"3,7", "int32 3"}, .ranges = {NULL, LABELS(6)}, .smallest = true},
             {.inputs = {"31,33", "int32 31"},
              .ranges = {"-30..30", "-1..32"},
              .attributes = "label_smoothing=0.1 ignored=-1"},
             {.inputs = {"2,93,5", "int32 2,93"}, .ranges = {NULL, LABELS(4)}, .attributes = "ignored=2"},
             {.inputs = {"2500,3", "int32 2500"}, .ranges = {NULL, LABELS(3)}, .attributes = "ignored=3"},
             {.inputs = {"5", "int32"}, .ranges = {NULL, LABELS(4)}},
             {.inputs = {"7,5", "int32 7"},
              .ranges = {NULL, "3..3"},
              .attributes = "ignored=3",
              .no_gradient = true},
             {.inputs = {"7,5", "int32 7"}, .ranges = {NULL, "-1..5"}, .no_gradient = true},
             {.inputs = {"0,5", "int32 0"}, .no_gradient = true}));
KN_OPERATOR(cross_entropy_counted_gradient,
            .help = "gradient of cross_entropy_counted with respect to its logits", IGNORING, .min_inputs = 6,
            .max_inputs = 6, .backward = true, .shape = kn_shape_like_first, .reference = gradient_reference,
            .cost = logits_cost, .tolerance = 4, GRADIENT_VARIANTS,
            KN_CASES({.inputs = {"3,7", "int32 3", "3", "3", "", ""},
                      .ranges = {NULL, LABELS(6), "1..2", "0..2", NULL, "1..3"},
                      .no_gradient = true,
                      .smallest = true},
                     {.inputs = {"31,93", "int32 31", "31", "31", "", ""},
                      .ranges = {NULL, "-1..92", "1..2", "3..4", NULL, "7..31"},
                      .attributes = "label_smoothing=0.1 ignored=-1",
                      .no_gradient = true},
                     {.inputs = {"7,5", "int32 7", "7", "7", "", ""},
                      .ranges = {NULL, "3..3", "1..2", "0..2", NULL, "0..0"},
                      .attributes = "ignored=3",
                      .no_gradient = true}));
KN_OPERATOR(
    accuracy, .help = "fraction of rows whose largest logit is the target's", .min_inputs = 2,
    .max_inputs = 2, .input_names = {"x", "target"}, .shape = accuracy_shape, .reference = accuracy_reference,
    .cost = logits_cost, KN_VARIANTS(KN_METHOD_VARIANTS(lower_accuracy, .promise.halves = {1, 0})),
    KN_CASES(
        {.inputs = {"31,7", "int32 31"}, .ranges = {NULL, LABELS(6)}, .no_gradient = true, .smallest = true},
        {.inputs = {"3,93,2", "int32 3,93"}, .ranges = {NULL, LABELS(1)}, .no_gradient = true},
        {.inputs = {"93,33", "int32 93"}, .ranges = {"special", LABELS(32)}, .no_gradient = true},
        {.inputs = {"83,1", "int32 83"},
         .ranges = {"special", "0..0"},
         .no_gradient = true}, /* more NaN than -inf */
        {.inputs = {"0,7", "int32 0"}, .no_gradient = true}));

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_accuracy(kn_value *logits, kn_value *target) {
    return kn_build2(&kn_row_accuracy, logits, target);
}
