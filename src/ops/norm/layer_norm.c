/* Layer norm and RMS norm over the last dimension (cl/norm/layer_norm.cl). */
#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_layer_norm, kn_row_layer_norm_gradient, kn_row_rms_norm,
    kn_row_rms_norm_gradient;

/* Results of layer_norm and rms_norm, and of their gradients. */
enum { RESULT, FIRST_HIDDEN };
enum { DATA, WEIGHT, BIAS };

static bool is_centered(const kn_node *node);

/* x is viewed as (rows,count). */
static int64_t row_length(const kn_shape *x) {
    return x->dims[x->rank - 1];
}
static int64_t row_count(const kn_shape *x) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < x->rank; i++)
        rows *= x->dims[i];
    return rows;
}

/* ---- shapes --------------------------------------------------------------------------------------- */

static kn_status check_row(kn_shape_call *call, int first, int end) {
    const kn_shape *x = &call->inputs[0]->shape;
    if (kn_shape_float_input(call, 0)) return call->error->status;
    if (x->rank < 1)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected at least one dimension",
                             kn_shape_words_of(call, 0));
    for (int i = first; i < end; i++) {
        if (!call->inputs[i]) continue;
        const kn_shape *own = &call->inputs[i]->shape;
        if (own->rank != 1 || own->dims[0] != x->dims[x->rank - 1] || own->dtype != x->dtype)
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "x is %s and input %d is %s; expected (D), the last dimension of x",
                                 kn_shape_words_of(call, 0), i, kn_shape_words_of(call, i));
    }
    return KN_OK;
}

/* x is (...,D), weight and bias, if present, (D); the result is like x. Hidden outputs are (...): the mean,
 * if it is subtracted, and 1 / sqrt(variance + epsilon). */
static kn_status norm_shape(kn_shape_call *call) {
    if (check_row(call, 1, call->input_count)) return call->error->status;
    double epsilon = kn_shape_attribute(call, "epsilon")->number;
    if (!(epsilon >= 0)) return kn_shape_fail(call, KN_ERROR_ARGUMENT, "expected an epsilon of at least 0");
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i] = call->inputs[0]->shape;
    for (int i = FIRST_HIDDEN; i < call->output_count; i++)
        call->outputs[i].rank--;
    return KN_OK;
}

/* x and dy are (...,D), weight (D), then mean and inverse (...). The results are the gradients with respect
 * to x, weight and bias. */
static kn_status gradient_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    if (check_row(call, 2, 3)) return call->error->status;
    if (!kn_shape_same(x, &call->inputs[1]->shape))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s and dy %s; expected the same shape",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    call->outputs[DATA] = *x;
    for (int i = WEIGHT; i < call->output_count; i++)
        call->outputs[i] = call->inputs[2]->shape;
    return KN_OK;
}

/* ---- references ------------------------------------------------------------------------------------- */

static kn_status norm_reference(kn_reference_call *call) {
    const kn_shape *shape = &call->inputs[0].shape;
    bool centered = is_centered(call->node);
    int64_t rows = row_count(shape), count = row_length(shape);
    const double *x = call->inputs[0].data, *weight = call->inputs[1].data;
    const double *bias = call->input_count > 2 ? call->inputs[2].data : NULL;
    double *y = call->outputs[RESULT].data, epsilon = kn_attribute_of(call->node, "epsilon")->number;
    for (int64_t row = 0; row < rows; row++, x += count, y += count) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < count && centered; i++)
            mean += x[i] / (double)count;
        for (int64_t i = 0; i < count; i++)
            squares += (x[i] - mean) * (x[i] - mean) / (double)count;
        double inverse = 1 / sqrt(squares + epsilon);
        for (int64_t i = 0; i < count; i++)
            y[i] = (x[i] - mean) * inverse * weight[i] + (bias ? bias[i] : 0);
        if (centered) call->outputs[FIRST_HIDDEN].data[row] = mean;
        call->outputs[call->output_count - 1].data[row] = inverse;
    }
    return KN_OK;
}

static kn_status gradient_reference(kn_reference_call *call) {
    const kn_shape *shape = &call->inputs[0].shape;
    bool centered = is_centered(call->node);
    int64_t rows = row_count(shape), count = row_length(shape);
    const double *weight = call->inputs[2].data, *inverse = call->inputs[call->input_count - 1].data;
    for (int64_t row = 0; row < rows; row++) {
        const double *x = call->inputs[0].data + row * count, *dy = call->inputs[1].data + row * count;
        double mean = centered ? call->inputs[3].data[row] : 0, sum = 0, product = 0;
        for (int64_t i = 0; i < count; i++) {
            double normal = (x[i] - mean) * inverse[row];
            if (centered) sum += dy[i] * weight[i] / (double)count;
            product += dy[i] * weight[i] * normal / (double)count;
            call->outputs[WEIGHT].data[i] += dy[i] * normal;
            if (centered) call->outputs[BIAS].data[i] += dy[i];
        }
        for (int64_t i = 0; i < count; i++)
            call->outputs[DATA].data[row * count + i] =
                inverse[row] * (dy[i] * weight[i] - sum - (x[i] - mean) * inverse[row] * product);
    }
    return KN_OK;
}

static void norm_cost(const kn_node *node, kn_cost *cost) {
    kn_cost_set(node, 8.0 * (double)kn_elements_of(node->inputs[0]), cost);
}

/* ---- lowering ------------------------------------------------------------------------------------------ */

enum { ITEMS = 64, MAX_PARTS = 64, MIN_PART = 16, WORK = 8192 };
/* On many-thread devices: the minimum rows of a part, columns of a group that adds them, elements of a row
 * that a lane may hold. */
enum { MIN_SHARED_PART = 32, COLUMNS = 32, KEPT = 8 };

typedef struct division {
    int64_t rows, count, part, parts;
    size_t items; /* of a group, on many-thread devices */
    kn_method method;
} division;

static division divide_work(const kn_lowering *lowering, kn_method method) {
    const kn_shape *x = &lowering->node->inputs[0]->shape;
    division work = {.rows = row_count(x), .count = row_length(x), .method = method};
    work.items = kn_group_items(lowering->target, "norm/layer_norm.cl");
    /* The parts determine rounding, so they depend on the shape. */
    work.part = kn_divide_up(work.rows, MAX_PARTS);
    const int64_t least = method == KN_METHOD_WIDE ? MIN_PART : MIN_SHARED_PART;
    if (work.part < least) work.part = least;
    work.parts = kn_divide_up(work.rows, work.part);
    return work;
}

static kn_step *begin(kn_lowering *lowering, const division *work, const char *kernel) {
    const kn_node *node = lowering->node;
    kn_dtype type = node->inputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "norm/layer_norm.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_CENTERED", is_centered(node)},
                   {"KN_BIAS", !node->op->backward && node->input_count > 2 && node->inputs[2]});
    kn_step_types(step, node, type);
    if (work->method == KN_METHOD_WIDE) KN_STEP_DEFINE(step, {"KN_WIDTH", lowering->target->vector_width});
    return step;
}

/* On many-thread devices: each row has separate lanes. */
static size_t lanes_of(const division *work) {
    return work->method == KN_METHOD_PLAIN ? 1 : kn_power_of_two(kn_divide_up(work->count, 4), work->items);
}
static int vector_of(const division *work) {
    return work->method == KN_METHOD_TREE && work->count % 4 == 0 ? 4 : 1;
}
static void size_by_row(kn_step *step, const kn_target *target, const division *work) {
    const size_t lanes = lanes_of(work);
    const int vector = vector_of(work);
    const int64_t pieces = kn_divide_up(work->count, (int64_t)lanes * vector);
    KN_STEP_DEFINE(step, {"KN_VECTOR", vector});
    if (pieces * vector <= KEPT) KN_STEP_DEFINE(step, {"KN_PIECES", pieces});
    kn_step_lanes(step, target, work->rows, 1, lanes, work->items);
}

/* Work-groups for rows, then for the columns of each part. */
static void size_by_row_and_column(kn_step *step, const kn_target *target, const division *work) {
    const size_t lanes = lanes_of(work), items = lanes == 1 ? ITEMS : work->items;
    const size_t columns = lanes == 1 || items < COLUMNS ? items : COLUMNS;
    const int64_t groups = kn_divide_up(work->rows, (int64_t)(items / lanes)) +
                           kn_divide_up(work->count, (int64_t)columns) * work->parts;
    size_by_row(step, target, work);
    if (lanes == 1) KN_STEP_DEFINE(step, {"KN_ITEMS", items});
    KN_STEP_DEFINE(step, {"KN_COLUMNS", columns});
    kn_step_size1(step, (size_t)groups * items, lanes == 1 ? 0 : items);
}

static kn_status lower_norm(kn_lowering *lowering) {
    const kn_method method = lowering->config;
    const kn_node *node = lowering->node;
    division work = divide_work(lowering, method);
    if (work.rows == 0 || work.count == 0) return KN_OK;
    int64_t chunk = WORK / work.count + 1;
    kn_step *step = begin(lowering, &work, "kn_layer_norm");
    if (!is_centered(node)) kn_step_write(step, "mean", NULL);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"rows", work.rows}, {"count", work.count}, {"chunk", chunk});
    kn_step_number(step, "epsilon", kn_accumulator(node, node->inputs[0]->shape.dtype),
                   kn_attribute_of(node, "epsilon")->number);
    if (method == KN_METHOD_WIDE)
        kn_step_size1(step, (size_t)kn_divide_up(work.rows, chunk), 1);
    else
        size_by_row(step, lowering->target, &work);
    return kn_step_end(step, lowering);
}

static kn_status lower_data(kn_lowering *lowering, const division *work, int partials) {
    const kn_node *node = lowering->node;
    kn_part_sum sum;
    const bool in_parts = work->method != KN_METHOD_WIDE && kn_is_read_by_one(node->inputs[1]) &&
                          kn_take_sum(lowering, node->inputs[1], vector_of(work), &sum);
    kn_step *step = begin(lowering, work, "kn_layer_norm_gradient");
    if (in_parts) kn_step_read(step, "dy", NULL);
    if (!is_centered(node)) kn_step_read(step, "mean", NULL);
    kn_step_scratch(step, "partials", partials);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"rows", work->rows}, {"count", work->count}, {"chunk", work->part});
    if (work->method == KN_METHOD_WIDE) {
        kn_step_size1(step, (size_t)work->parts, 1);
        return kn_step_end(step, lowering);
    }
    kn_step_epilogue_sizes(step, &node->inputs[0]->shape);
    if (in_parts) {
        KN_STEP_DEFINE(step, {"KN_DY_PARTS", sum.parts});
        kn_step_read_scratch(step, "dy_parts", sum.partials);
        KN_STEP_SET(step, {"dy_offset", sum.offset}, {"dy_stride", sum.stride});
    }
    kn_step_epilogue(step, lowering);
    size_by_row_and_column(step, lowering->target, work);
    return kn_step_end(step, lowering);
}

/* partials is (parts,2,count), for the gradients of weight and bias. */
static kn_status sum_parts(kn_lowering *lowering, const division *work, int partials) {
    const kn_node *node = lowering->node;
    const kn_part_sum weight = {.partials = partials,
                                .result = node->outputs[WEIGHT],
                                .stride = 2 * work->count,
                                .elements = work->count,
                                .parts = work->parts};
    kn_part_sum sums[2] = {weight, weight};
    if (!is_centered(node)) return kn_emit_sums(lowering, sums, 1);
    sums[1].result = node->outputs[BIAS];
    sums[1].offset = work->count;
    return kn_emit_sums(lowering, sums, 2);
}

static kn_status lower_gradient(kn_lowering *lowering) {
    const kn_method method = lowering->config;
    const kn_node *node = lowering->node;
    division work = divide_work(lowering, method);
    if (work.count == 0) return KN_OK;
    kn_dtype type = kn_accumulator(node, node->inputs[0]->shape.dtype);
    int64_t numbers = 2 * (work.parts ? work.parts : 1) * work.count;
    int partials = kn_emit_scratch(lowering, (uint64_t)numbers * kn_dtype_bytes(type));
    kn_status status = KN_OK;
    if (work.rows > 0) status = lower_data(lowering, &work, partials);
    if (status != KN_OK) return status;
    if (method != KN_METHOD_WIDE) return sum_parts(lowering, &work, partials);
    int64_t chunk = 64;
    kn_step *step = begin(lowering, &work, "kn_layer_norm_sum");
    kn_step_scratch(step, "partials", partials);
    if (!is_centered(node)) kn_step_write(step, "dbias", NULL);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"parts", work.parts}, {"count", work.count}, {"chunk", chunk});
    kn_step_size1(step, (size_t)kn_divide_up(work.count, chunk), 1);
    return kn_step_end(step, lowering);
}

/* ---- gradient -------------------------------------------------------------------------------- */

static kn_status norm_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    bool centered = is_centered(node);
    if (!call->output_gradients[RESULT]) return KN_OK;
    kn_value *inputs[5] = {node->inputs[0], call->output_gradients[RESULT], node->inputs[1]};
    int count = 3;
    for (int i = FIRST_HIDDEN; i < node->output_count; i++)
        inputs[count++] = node->outputs[i];
    const kn_operator *row = centered ? &kn_row_layer_norm_gradient : &kn_row_rms_norm_gradient;
    kn_value *data = kn_gradient_build(call, row, inputs, count, NULL);
    if (kn_value_failed(data)) return kn_gradient_status(call);
    for (int i = 0; i < node->input_count; i++)
        if (call->wanted[i]) call->input_gradients[i] = data->producer->outputs[i];
    return KN_OK;
}

/* Describes an error in a gradient node of a program; NULL if there is none. */
static const char *gradient_wrong(const kn_node *node) {
    const kn_shape *x = &node->inputs[0]->shape;
    for (int i = 1; i < node->input_count; i++)
        if (node->inputs[i]->shape.dtype != x->dtype) return "all inputs must have the same type";
    kn_shape rows = *x;
    rows.rank--;
    for (int i = 3; i < node->input_count; i++)
        if (!kn_shape_same(&node->inputs[i]->shape, &rows))
            return "expected a mean and an inverse deviation for each row of x";
    return NULL;
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define EPSILON KN_ATTRIBUTES(KN_FLOAT("epsilon", 1e-5, "added to the variance or mean square"))
#define NORM                                                                                                 \
    EPSILON, .shape = norm_shape, .gradient = norm_gradient, .reference = norm_reference, .cost = norm_cost, \
             .tolerance = 4,                                                                                 \
             KN_VARIANTS({.name = "wide",                                                                    \
                          .choice.accepts = kn_takes_kernel_types_wide,                                      \
                          .lower = lower_norm,                                                               \
                          .config = KN_METHOD_WIDE,                                                          \
                          .promise.halves = {1, 1}},                                                         \
                         {.name = "tree",                                                                    \
                          .choice.accepts = kn_takes_kernel_types,                                           \
                          .lower = lower_norm,                                                               \
                          .config = KN_METHOD_TREE,                                                          \
                          .promise.halves = {1, 1}},                                                         \
                         {.name = "plain",                                                                   \
                          .choice.accepts = kn_takes_kernel_types,                                           \
                          .lower = lower_norm,                                                               \
                          .config = KN_METHOD_PLAIN,                                                         \
                          .promise.halves = {1, 1}})
#define BACKWARD                                                                                             \
    .backward = true, .shape = gradient_shape, .reference = gradient_reference, .cost = norm_cost,           \
    .tolerance = 4,                                                                                          \
    KN_VARIANTS({.name = "wide",                                                                             \
                 .choice.accepts = kn_takes_kernel_types_wide,                                               \
                 .lower = lower_gradient,                                                                    \
                 .config = KN_METHOD_WIDE,                                                                   \
                 .promise.halves = {3, 1}},                                                                  \
                {.name = "tree",                                                                             \
                 .choice.accepts = kn_takes_kernel_types,                                                    \
                 .lower = lower_gradient,                                                                    \
                 .config = KN_METHOD_TREE,                                                                   \
                 .promise.takes_epilogue = true,                                                             \
                 .promise.halves = {3, 1}},                                                                  \
                {.name = "plain",                                                                            \
                 .choice.accepts = kn_takes_kernel_types,                                                    \
                 .lower = lower_gradient,                                                                    \
                 .config = KN_METHOD_PLAIN,                                                                  \
                 .promise.halves = {3, 1}})

KN_OPERATOR(
    layer_norm,
    .help = "rows of x (...,D) normalized to mean 0 and variance 1, times weight (D), plus bias (D) if given",
    .min_inputs = 2, .max_inputs = 3, .hidden = 2, .input_names = {"x", "weight", "bias"},
    .output_names = {"y", "mean", "inverse"}, NORM,
    KN_CASES({.inputs = {"3,7", "7", "7"}, .smallest = true},
             {.inputs = {"2,3,33", "33", "33"}, .smallest = true}, {.inputs = {"31,93", "93", "93"}},
             {.inputs = {"7,31", "31"}}, {.inputs = {"33", "33", "33"}}, {.inputs = {"7,1", "1", "1"}},
             {.inputs = {"1033,7", "7", "7"}},
             {.inputs = {"2,7,384", "384", "384"}, .attributes = "epsilon=1e-3"},
             {.inputs = {"2,1033", "1033", "1033"}},
             {.inputs = {"3,93", "93", "93"}, .ranges = {"990..1010"}, .no_gradient = true},
             {.inputs = {"3,33", "33", "33"}, .ranges = {"special"}, .no_gradient = true},
             {.inputs = {"float64 7,33", "float64 33", "float64 33"},
              .attributes = "epsilon=0.1",
              .no_gradient = true},
             {.inputs = {"0,5", "5", "5"}}, {.inputs = {"5,0", "0", "0"}, .no_gradient = true}));
KN_OPERATOR(rms_norm, .help = "rows of x (...,D) divided by their root mean square, times weight (D)",
            .min_inputs = 2, .max_inputs = 2, .hidden = 1, .input_names = {"x", "weight", "bias"},
            .output_names = {"y", "inverse"}, NORM,
            KN_CASES({.inputs = {"3,7", "7"}, .smallest = true}, {.inputs = {"2,3,33", "33"}},
                     {.inputs = {"31,93", "93"}}, {.inputs = {"7,1", "1"}, .ranges = {"0.5..2"}},
                     {.inputs = {"1033,7", "7"}}, {.inputs = {"2,1033", "1033"}},
                     {.inputs = {"3,33", "33"}, .ranges = {"special"}, .no_gradient = true},
                     {.inputs = {"0,5", "5"}}));

/* The forward pass would compute the mean and the inverse; any values work. */
#define GRADIENT_CASE(x, d, rows)                                                                            \
    .inputs = {x, x, d, rows, rows}, .ranges = {NULL, NULL, NULL, "-0.5..0.5", "0.5..1.5"},                  \
    .no_gradient = true
KN_OPERATOR(layer_norm_gradient, .help = "gradients of layer_norm with respect to x, weight and bias",
            .min_inputs = 5, .max_inputs = 5, .outputs = 3, .wrong = gradient_wrong,
            .input_names = {"x", "dy", "weight", "mean", "inverse"},
            .output_names = {"dx", "dweight", "dbias"}, BACKWARD,
            KN_CASES({GRADIENT_CASE("3,7", "7", "3"), .smallest = true},
                     {GRADIENT_CASE("31,93", "93", "31"), .smallest = true},
                     {GRADIENT_CASE("3,7,33", "33", "3,7")}, {GRADIENT_CASE("1033,7", "7", "1033")},
                     {GRADIENT_CASE("2,1033", "1033", "2")}, {GRADIENT_CASE("0,5", "5", "0")}));
#define RMS_GRADIENT_CASE(x, d, rows)                                                                        \
    .inputs = {x, x, d, rows}, .ranges = {NULL, NULL, NULL, "0.5..1.5"}, .no_gradient = true
KN_OPERATOR(rms_norm_gradient, .help = "gradients of rms_norm with respect to x and weight", .min_inputs = 4,
            .max_inputs = 4, .outputs = 2, .input_names = {"x", "dy", "weight", "inverse"},
            .output_names = {"dx", "dweight"}, BACKWARD,
            KN_CASES({RMS_GRADIENT_CASE("3,7", "7", "3"), .smallest = true},
                     {RMS_GRADIENT_CASE("31,93", "93", "31")}, {RMS_GRADIENT_CASE("1033,7", "7", "1033")},
                     {RMS_GRADIENT_CASE("2,1033", "1033", "2")}));

static bool is_centered(const kn_node *node) {
    return node->op == &kn_row_layer_norm || node->op == &kn_row_layer_norm_gradient;
}

/* ---- builders -------------------------------------------------------------------------------- */

/* x is (...,D), weight and bias (D). */
static kn_value *norm(kn_value *x, const kn_operator *row, const char *kind, const kn_norm_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_norm_params given;
    kn_norm_params_init(&given);
    KN_TAKE_PARAMS(x, kn_norm_params, &given, params);
    const char *layer = kn_layer_name(graph, given.name, kind);
    int rank = x->shape.rank;
    if (rank < 1 || !kn_dim_known(x->shape.dims[rank - 1]))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "%s %s: x is %s; expected (...,D), where D is not a symbol", row->name, layer,
                             kn_shape_words(graph, &x->shape));
    const kn_shape shape = {.dtype = x->shape.dtype, .rank = 1, .dims = {x->shape.dims[rank - 1]}};
    const kn_initializer one = {KN_INITIALIZER_FILL, 1}, zero = {KN_INITIALIZER_FILL, 0};
    kn_value *inputs[3] = {x};
    inputs[1] = given.no_affine ? kn_filled(graph, shape.dtype, shape.dims[0], 1)
                                : kn_layer_parameter(graph, layer, "weight", &shape, &one, 1);
    int count = 2;
    if (row->max_inputs > 2 && !given.no_bias && !given.no_affine)
        inputs[count++] = kn_layer_parameter(graph, layer, "bias", &shape, &zero, 1);
    kn_settings settings;
    kn_settings_init(&settings, graph, row);
    kn_settings_float(&settings, "epsilon", given.epsilon);
    return kn_node_add(graph, row, layer, inputs, count, settings.values);
}

kn_value *kn_layer_norm(kn_value *x, const kn_norm_params *params) {
    return norm(x, &kn_row_layer_norm, "layernorm", params);
}
kn_value *kn_rms_norm(kn_value *x, const kn_norm_params *params) {
    return norm(x, &kn_row_rms_norm, "rmsnorm", params);
}
