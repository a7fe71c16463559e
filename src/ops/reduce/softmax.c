/* Softmax and log-softmax over one axis, with separate rows for the gradients. */
#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* x viewed as (outer, count, inner), with the axes before and after `axis` merged. */
typedef struct rows_of {
    int64_t outer, count, inner;
} rows_of;

static rows_of rows_of_shape(const kn_node *node, const kn_shape *shape) {
    int64_t chosen = kn_attribute_of(node, "axis")->integer;
    int axis = (int)(chosen < 0 ? chosen + shape->rank : chosen);
    rows_of rows = {.outer = 1, .count = shape->dims[axis], .inner = 1};
    for (int i = 0; i < axis; i++)
        rows.outer *= shape->dims[i];
    for (int i = axis + 1; i < shape->rank; i++)
        rows.inner *= shape->dims[i];
    return rows;
}

static bool is_log(const kn_node *node);

/* ---- shapes -------------------------------------------------------------------------------------- */

static kn_status softmax_shape(kn_shape_call *call) {
    int axis;
    if (kn_shape_float_input(call, 0) ||
        kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, call->inputs[0]->shape.rank, &axis))
        return call->error->status;
    return kn_shape_like_first(call);
}

/* The result and its gradient have the same shape. */
static kn_status gradient_shape(kn_shape_call *call) {
    if (!kn_shape_same(&call->inputs[0]->shape, &call->inputs[1]->shape))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "the result is %s and its gradient %s; expected the same shape",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    return softmax_shape(call);
}

/* Describes an error in a gradient node of a program; NULL if there is none. */
static const char *gradient_wrong(const kn_node *node) {
    const kn_shape *y = &node->inputs[0]->shape, *dy = &node->inputs[1]->shape;
    return dy->dtype == y->dtype ? NULL : "the gradient must be like the result";
}

/* ---- references ------------------------------------------------------------------------------------ */

static kn_status softmax_reference(kn_reference_call *call) {
    const double *x = call->inputs[0].data;
    double *y = call->outputs[0].data;
    rows_of shape = rows_of_shape(call->node, &call->inputs[0].shape);
    bool logarithm = is_log(call->node);
    for (int64_t row = 0; row < shape.outer * shape.inner; row++) {
        int64_t start = row / shape.inner * shape.count * shape.inner + row % shape.inner;
        double most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < shape.count; i++) {
            double v = x[start + i * shape.inner];
            most = isnan(most) || most > v ? most : v;
        }
        for (int64_t i = 0; i < shape.count; i++)
            sum += exp(x[start + i * shape.inner] - most);
        for (int64_t i = 0; i < shape.count; i++) {
            double shifted = x[start + i * shape.inner] - most;
            y[start + i * shape.inner] = logarithm ? shifted - log(sum) : exp(shifted) / sum;
        }
    }
    return KN_OK;
}

static kn_status softmax_gradient_reference(kn_reference_call *call) {
    const double *y = call->inputs[0].data, *g = call->inputs[1].data;
    double *dx = call->outputs[0].data;
    rows_of shape = rows_of_shape(call->node, &call->inputs[0].shape);
    bool logarithm = is_log(call->node);
    for (int64_t row = 0; row < shape.outer * shape.inner; row++) {
        int64_t start = row / shape.inner * shape.count * shape.inner + row % shape.inner;
        double sum = 0;
        for (int64_t i = 0; i < shape.count; i++) {
            int64_t at = start + i * shape.inner;
            sum += logarithm ? g[at] : g[at] * y[at];
        }
        for (int64_t i = 0; i < shape.count; i++) {
            int64_t at = start + i * shape.inner;
            dx[at] = logarithm ? g[at] - exp(y[at]) * sum : y[at] * (g[at] - sum);
        }
    }
    return KN_OK;
}

/* ---- lowering --------------------------------------------------------------------------------------- */

static kn_status lower(kn_lowering *lowering) {
    const kn_method method = lowering->config;
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    bool backward = node->op->backward;
    const kn_shape *x = &node->inputs[0]->shape;
    rows_of shape = rows_of_shape(node, x);
    int64_t rows = shape.outer * shape.inner;
    if (rows == 0 || shape.count == 0) return KN_OK;
    kn_step *step =
        kn_step_begin(lowering, "reduce/softmax.cl", backward ? "kn_softmax_gradient" : "kn_softmax");
    KN_STEP_DEFINE(step, {"KN_LOG", is_log(node)});
    kn_step_types(step, node, x->dtype);
    int64_t chunk = 1;
    if (method == KN_METHOD_WIDE) {
        KN_STEP_DEFINE(step, {"KN_WIDTH", target->vector_width});
        chunk = 4096 / shape.count + 1;
        if (shape.inner > 1) chunk = kn_round_up(chunk, target->vector_width);
        kn_step_size1(step, (size_t)kn_divide_up(rows, chunk), 1);
    } else {
        size_t items = kn_group_items(target, "reduce/softmax.cl"),
               lanes = kn_power_of_two(kn_divide_up(shape.count, 4), items);
        size_t slots = kn_power_of_two(rows, items < 32 ? items : 32);
        if (shape.inner > 1 && lanes * slots > items) lanes = items / slots;
        KN_STEP_DEFINE(step, {"KN_ADJACENT", shape.inner == 1});
        kn_step_lanes(step, target, rows, 1, method == KN_METHOD_PLAIN ? 1 : lanes, items);
    }
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"rows", rows}, {"count", shape.count}, {"inner", shape.inner}, {"chunk", chunk});
    return kn_step_end(step, lowering);
}

static void softmax_cost(const kn_node *node, kn_cost *cost) {
    kn_cost_set(node, 5.0 * (double)kn_elements_of(node->outputs[0]), cost);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

extern const kn_operator kn_row_log_softmax, kn_row_softmax_gradient, kn_row_log_softmax_gradient;

static kn_status softmax_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    const kn_operator *row = is_log(call->node) ? &kn_row_log_softmax_gradient : &kn_row_softmax_gradient;
    kn_value *inputs[2] = {call->node->outputs[0], call->output_gradients[0]};
    kn_settings settings;
    kn_settings_init(&settings, call->graph, row);
    kn_settings_int(&settings, "axis", kn_attribute_of(call->node, "axis")->integer);
    call->input_gradients[0] = kn_gradient_build(call, row, inputs, 2, &settings);
    return kn_gradient_status(call);
}

#define AXIS KN_ATTRIBUTES(KN_INT("axis", -1, "axis to normalize, negative from the end"))
#define VARIANTS KN_VARIANTS(KN_METHOD_VARIANTS(lower, .promise.halves = {3, 1}))
#define FORWARD                                                                                              \
    AXIS,                                                                                                    \
        .min_inputs = 1, .max_inputs = 1, .input_names = {"x"}, .output_names = {"y"},                       \
        .shape = softmax_shape, .gradient = softmax_gradient, .reference = softmax_reference,                \
        .cost = softmax_cost, VARIANTS, .tolerance = 4,                                                      \
        KN_CASES({.inputs = {"3,7"}, .smallest = true},                                                      \
                 {.inputs = {"2,7,3"}, .attributes = "axis=1", .smallest = true},                            \
                 {.inputs = {"31,93"}, .ranges = {"-30..30"}}, {.inputs = {"1,1"}},                          \
                 {.inputs = {"3,33,31"}, .attributes = "axis=1"},                                            \
                 {.inputs = {"93,33"}, .attributes = "axis=0"}, {.inputs = {"2,1033"}}, {.inputs = {"0,5"}}, \
                 {.inputs = {"5,0"}}, {.inputs = {"3,33"}, .ranges = {"-1000..1000"}, .no_gradient = true},  \
                 {.inputs = {"float64 7,93"}, .no_gradient = true},                                          \
                 {.inputs = {"3,33"}, .ranges = {"special"}, .no_gradient = true})
#define BACKWARD                                                                                             \
    AXIS, .min_inputs = 2, .max_inputs = 2, .input_names = {"y", "g"}, .output_names = {"dx"},               \
          .backward = true, .shape = gradient_shape, .wrong = gradient_wrong,                                \
          .reference = softmax_gradient_reference, .cost = softmax_cost, VARIANTS, .tolerance = 4,           \
          KN_CASES(                                                                                          \
              {.inputs = {"3,7", "3,7"}, .no_gradient = true, .smallest = true},                             \
              {.inputs = {"2,7,3", "2,7,3"}, .attributes = "axis=1", .no_gradient = true, .smallest = true}, \
              {.inputs = {"31,93", "31,93"}, .no_gradient = true},                                           \
              {.inputs = {"3,33,31", "3,33,31"}, .attributes = "axis=1", .no_gradient = true},               \
              {.inputs = {"0,5", "0,5"}, .no_gradient = true})

KN_OPERATOR(softmax, .help = "exp(x) / sum(exp(x)) over an axis", FORWARD);
KN_OPERATOR(log_softmax, .help = "logarithm of softmax", FORWARD);
KN_OPERATOR(softmax_gradient, .help = "gradient of softmax from its result and the result's gradient",
            BACKWARD);
KN_OPERATOR(log_softmax_gradient, .help = "gradient of log_softmax from its result and the result's gradient",
            BACKWARD);

static bool is_log(const kn_node *node) {
    return node->op == &kn_row_log_softmax || node->op == &kn_row_log_softmax_gradient;
}

/* ---- builders -------------------------------------------------------------------------------- */

static kn_value *along(const kn_operator *row, kn_value *x, int axis) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, row);
    kn_settings_int(&settings, "axis", axis);
    return kn_build(row, &x, 1, &settings);
}

kn_value *kn_softmax(kn_value *x, int axis) {
    return along(&kn_row_softmax, x, axis);
}
kn_value *kn_log_softmax(kn_value *x, int axis) {
    return along(&kn_row_log_softmax, x, axis);
}
