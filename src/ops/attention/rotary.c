/* Rotary embedding (cl/attention/rotary.cl): pairs of a head's elements are rotated by angles proportional to
 * the position. */
#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_rotary;

/* The index of the input of this type after x, for the start and the divisors; -1: absent. */
static int find_input(kn_value *const *inputs, int count, bool start) {
    for (int i = 1; i < count; i++)
        if (inputs[i] && (inputs[i]->shape.dtype == KN_INT32) == start) return i;
    return -1;
}

/* x is (B,T,heads*D) with an even D. Then, optionally, start, int32 (B) or (1): the position of the first
 * row; and divisors of the angles, float32 (D/2). */
static kn_status rotary_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    int64_t heads = kn_shape_attribute(call, "heads")->integer;
    if (kn_shape_float_input(call, 0)) return call->error->status;
    if (heads < 1 || heads > INT64_MAX / 2 || !(kn_shape_attribute(call, "base")->number > 0))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "%lld heads and base %g; expected at least 1 head and a base above 0",
                             (long long)heads, kn_shape_attribute(call, "base")->number);
    if (x->rank != 3 || !kn_dim_known(x->dims[2]) || x->dims[2] % (2 * heads))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s; expected (batch,length,columns) with columns a multiple of %lld",
                             kn_shape_words_of(call, 0), (long long)(2 * heads));
    if (!(kn_shape_attribute(call, "divisor")->number > 0))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "divisor %g; expected a number above 0",
                             kn_shape_attribute(call, "divisor")->number);
    const int start = find_input(call->inputs, call->input_count, true);
    const int divisors = find_input(call->inputs, call->input_count, false);
    if (start > 0 && kn_shape_starts(call, start, 0)) return call->error->status;
    const kn_shape *own = divisors > 0 ? &call->inputs[divisors]->shape : NULL;
    if (own && (own->dtype != KN_FLOAT32 || own->rank != 1 || own->dims[0] != x->dims[2] / (2 * heads)))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "input %d is %s; expected start, int32 (batch) or (1), or divisors, float32 "
                             "(%lld), one for each pair",
                             divisors, kn_shape_words_of(call, divisors),
                             (long long)(x->dims[2] / (2 * heads)));
    if ((start > 0) + (divisors > 0) + 1 != call->input_count)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "%d inputs; expected x, then optionally start, int32, and divisors, float32",
                             call->input_count);
    return kn_shape_like_first(call);
}

static kn_status rotary_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_rotary);
    kn_settings_copy(&settings, node);
    kn_settings_int(&settings, "inverse", !kn_attribute_of(node, "inverse")->integer);
    kn_value *inputs[3] = {call->output_gradients[0]};
    for (int i = 1; i < node->input_count; i++)
        inputs[i] = node->inputs[i];
    call->input_gradients[0] = kn_gradient_build(call, &kn_row_rotary, inputs, node->input_count, &settings);
    return kn_gradient_status(call);
}

typedef struct rotary_form {
    int64_t batches, length, heads, pairs; /* pairs per head */
    int64_t starts_row;                    /* stride between samples; 0: the same for all */
    bool interleaved, inverse;
    int starts_at, divisors_at; /* indices of inputs; -1: none */
    double base, divisor;
} rotary_form;

static rotary_form form_of(const kn_node *node) {
    const kn_shape *x = &node->inputs[0]->shape;
    rotary_form form = {.batches = x->dims[0], .length = x->dims[1]};
    form.heads = kn_attribute_of(node, "heads")->integer;
    form.pairs = x->dims[2] / (2 * form.heads);
    form.interleaved = kn_attribute_of(node, "interleaved")->integer != 0;
    form.inverse = kn_attribute_of(node, "inverse")->integer != 0;
    form.base = kn_attribute_of(node, "base")->number;
    form.divisor = kn_attribute_of(node, "divisor")->number;
    form.starts_at = find_input(node->inputs, node->input_count, true);
    form.divisors_at = find_input(node->inputs, node->input_count, false);
    form.starts_row = form.starts_at > 0 && node->inputs[form.starts_at]->shape.dims[0] != 1;
    return form;
}

static kn_status rotary_reference(kn_reference_call *call) {
    rotary_form form = form_of(call->node);
    const double *x = call->inputs[0].data;
    double *y = call->outputs[0].data;
    int64_t distance = form.interleaved ? 1 : form.pairs, next = form.interleaved ? 2 : 1;
    for (int64_t row = 0; row < form.batches * form.length; row++)
        for (int64_t head = 0; head < form.heads; head++)
            for (int64_t pair = 0; pair < form.pairs; pair++) {
                double position = (double)(row % form.length);
                if (form.starts_at > 0)
                    position += call->inputs[form.starts_at].data[row / form.length * form.starts_row];
                double angle = position / form.divisor * pow(form.base, -(double)pair / (double)form.pairs);
                if (form.divisors_at > 0) angle /= call->inputs[form.divisors_at].data[pair];
                double s = form.inverse ? -sin(angle) : sin(angle), c = cos(angle);
                int64_t at = (row * form.heads + head) * 2 * form.pairs + pair * next;
                y[at] = x[at] * c - x[at + distance] * s;
                y[at + distance] = x[at + distance] * c + x[at] * s;
            }
    return KN_OK;
}

static kn_status rotary_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    rotary_form form = form_of(node);
    if (kn_shape_elements(&node->inputs[0]->shape) == 0) return KN_OK;
    kn_dtype type = node->outputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "attention/rotary.cl", "kn_rotary");
    kn_step_types(step, node, type);
    if (form.starts_at > 0) KN_STEP_DEFINE(step, {"KN_STARTS", 1});
    if (form.divisors_at > 0) KN_STEP_DEFINE(step, {"KN_DIVISORS", 1});
    kn_step_read(step, "x", node->inputs[0]);
    kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"items", form.batches * form.length * form.pairs}, {"length", form.length},
                {"heads", form.heads}, {"pairs", form.pairs}, {"interleaved", form.interleaved},
                {"inverse", form.inverse});
    kn_step_float(step, "base", form.base);
    kn_step_float(step, "divisor", form.divisor);
    if (form.divisors_at > 0) kn_step_read(step, "divisors", node->inputs[form.divisors_at]);
    if (form.starts_at > 0) {
        kn_step_read(step, "starts", node->inputs[form.starts_at]);
        KN_STEP_SET(step, {"starts_row", form.starts_row});
    }
    kn_step_size1(step, (size_t)(form.batches * form.length * form.pairs), 0);
    if (step) step->joint = "kn_rotary_joint";
    return kn_step_end(step, lowering);
}

KN_OPERATOR(
    rotary,
    .help = "rotates pairs of each head's elements, (B,T,heads*D), by their position: row t is at position "
            "t, or start[b] + t for int32 start (B) or (1); the angles of pairs may have divisors, float32 "
            "(D/2), "
            "which get no gradient",
    KN_ATTRIBUTES(KN_INT("heads", 1, "number of heads"),
                  KN_FLOAT("base", 10000, "pair i is rotated by position / base^(2 i / D)"),
                  KN_FLOAT("divisor", 1, "positions are divided by this"),
                  KN_BOOLEAN("interleaved", 0, "pairs are adjacent elements instead of half a head apart"),
                  KN_BOOLEAN("inverse", 0, "rotates by the negative angle")),
    .min_inputs = 1, .max_inputs = 3, .shape = rotary_shape, .gradient = rotary_gradient,
    .reference = rotary_reference, .tolerance = 8,
    KN_VARIANTS({.name = "threads",
                 .choice.accepts = kn_takes_kernel_types,
                 .lower = rotary_lower,
                 .promise.halves = {1, 1}}),
    KN_CASES({.inputs = {"1,3,4"}, .smallest = true}, {.inputs = {"2,31,30"}, .attributes = "heads=3"},
             {.inputs = {"2,7,12", "int32 2"},
              .attributes = "heads=2 interleaved=1 base=100",
              .ranges = {NULL, "0..20"},
              .smallest = true},
             {.inputs = {"3,5,14", "int32 1"}, .attributes = "inverse=1", .ranges = {NULL, "9..9"}},
             {.inputs = {"2,7,12", "3"},
              .attributes = "heads=2 divisor=4",
              .ranges = {NULL, "1..8"},
              .no_gradient = true,
              .smallest = true},
             {.inputs = {"2,31,30", "int32 2", "5"},
              .attributes = "heads=3 interleaved=1",
              .ranges = {NULL, "0..20", "1..8"},
              .no_gradient = true},
             {.inputs = {"2,0,4"}}, {.inputs = {"0,3,4", "int32 1"}, .ranges = {NULL, "0..3"}}));

/* ---- builder ------------------------------------------------------------------------------------------- */

kn_value *kn_rotary(kn_value *x, kn_value *start, const kn_rotary_params *params) {
    if (kn_value_failed(x)) return x;
    kn_rotary_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(x, kn_rotary_params, &given, params);
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_rotary);
    kn_settings_int(&settings, "heads", given.heads ? given.heads : 1);
    kn_settings_float(&settings, "base", given.base != 0 ? given.base : 10000);
    kn_settings_int(&settings, "interleaved", given.interleaved);
    kn_value *inputs[2] = {x, start};
    return kn_build(&kn_row_rotary, inputs, start ? 2 : 1, &settings);
}
