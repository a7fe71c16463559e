/* Gathers and scatters elements along an axis by index (cl/gather/gather.cl). Negative indices count from the
 * end. */
#include "ops/gather/gather.h"

#include <math.h>
#include <string.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

enum { REPLACE, ADD, MULTIPLY, MAXIMUM, MINIMUM }; /* the choices of "reduction" */
#define REDUCTIONS "none add mul max min"

/* ---- shapes ---------------------------------------------------------------------------------------- */

static kn_status check_numbers(kn_shape_call *call, int *axis) {
    const kn_shape *x = &call->inputs[0]->shape, *numbers = &call->inputs[1]->shape;
    if (numbers->dtype != KN_INT32 && numbers->dtype != KN_INT64)
        return kn_shape_fail(call, KN_ERROR_DTYPE, "the indices are %s; cast them to int32 or int64",
                             kn_shape_words_of(call, 1));
    return kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, x->rank, axis);
}

/* The dimensions of `numbers` replace the axis of `x`. */
static bool instead_of_axis(const kn_shape *x, const kn_shape *numbers, int axis, kn_shape *result) {
    *result = (kn_shape){.dtype = x->dtype, .rank = x->rank - 1 + numbers->rank};
    if (result->rank > KN_MAX_RANK) return false;
    int at = 0;
    for (int i = 0; i < axis; i++)
        result->dims[at++] = x->dims[i];
    for (int i = 0; i < numbers->rank; i++)
        result->dims[at++] = numbers->dims[i];
    for (int i = axis + 1; i < x->rank; i++)
        result->dims[at++] = x->dims[i];
    return true;
}

/* Compares the dimensions except along the axis. */
static bool same_except_axis(const kn_shape *x, const kn_shape *other, int axis) {
    if (x->rank != other->rank) return false;
    for (int i = 0; i < x->rank; i++)
        if (i != axis && x->dims[i] != other->dims[i]) return false;
    return true;
}

static kn_status gather_shape(kn_shape_call *call) {
    int axis;
    if (check_numbers(call, &axis)) return call->error->status;
    if (instead_of_axis(&call->inputs[0]->shape, &call->inputs[1]->shape, axis, &call->outputs[0]))
        return KN_OK;
    return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s and the indices are %s: more than %d dimensions",
                         kn_shape_words_of(call, 0), kn_shape_words_of(call, 1), KN_MAX_RANK);
}

static kn_status gather_elements_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape, *numbers = &call->inputs[1]->shape;
    int axis;
    if (check_numbers(call, &axis)) return call->error->status;
    if (!same_except_axis(x, numbers, axis))
        return kn_shape_fail(
            call, KN_ERROR_SHAPE,
            "x is %s and the indices are %s; expected the same sizes along all axes except axis %d",
            kn_shape_words_of(call, 0), kn_shape_words_of(call, 1), axis);
    call->outputs[0] = *numbers;
    call->outputs[0].dtype = x->dtype;
    return KN_OK;
}

/* dy has the shape of gather's result; the result has `size` elements along the axis, instead of the indices'
 * dimensions. */
static kn_status gradient_shape(kn_shape_call *call) {
    const kn_shape *dy = &call->inputs[0]->shape, *numbers = &call->inputs[1]->shape;
    int64_t axis = kn_shape_attribute(call, "axis")->integer,
            size = kn_shape_attribute(call, "size")->integer;
    bool elements = kn_shape_attribute(call, "elements")->integer != 0;
    int replaced = elements ? 1 : numbers->rank, rank = dy->rank + 1 - replaced;
    if (axis < 0 || axis >= rank || size < 0 || (elements && !kn_shape_same(dy, numbers)))
        return kn_shape_fail(
            call, KN_ERROR_SHAPE,
            "dy is %s and the indices are %s; expected dy to have the shape of gather's result",
            kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    kn_shape *x = &call->outputs[0];
    *x = (kn_shape){.dtype = dy->dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        x->dims[i] = i == axis ? size : dy->dims[i < axis ? i : i - 1 + replaced];
    return KN_OK;
}

static kn_status scatter_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape, *numbers = &call->inputs[1]->shape,
                   *updates = &call->inputs[2]->shape;
    bool elements = call->row == &kn_row_scatter_elements;
    kn_shape expected;
    int axis;
    if (check_numbers(call, &axis)) return call->error->status;
    bool fits = elements ? same_except_axis(x, numbers, axis) : instead_of_axis(x, numbers, axis, &expected);
    if (!fits || !kn_shape_same(elements ? numbers : &expected, updates) || updates->dtype != x->dtype)
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s, the indices are %s and the updates %s; expected indices %s, and "
                             "updates of the type of x, one per index",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1),
                             kn_shape_words_of(call, 2),
                             elements ? "of the sizes of x along all other axes" : "along the axis");
    call->outputs[0] = *x;
    return KN_OK;
}

/* ---- common form: (outer,size,inner) and `count` indices per lane ------------------------ */

typedef struct gather_form {
    int64_t outer, size, inner, count;
    int64_t number_outer, number_each, number_inner;
} gather_form;

/* x is the array that the indices refer to. */
static gather_form gather_form_of(const kn_node *node, const kn_shape *x) {
    const kn_shape *numbers = &node->inputs[1]->shape;
    const kn_operator *row = node->op;
    bool elements = row == &kn_row_gather_elements || row == &kn_row_scatter_elements;
    if (row == &kn_row_gather_gradient) elements = kn_attribute_of(node, "elements")->integer != 0;
    int axis = kn_axis_of(node, x->rank);
    kn_lanes lanes = kn_lanes_of(x, axis);
    gather_form pick = {.outer = lanes.outer, .size = lanes.size, .inner = lanes.inner};
    pick.count = elements ? numbers->dims[axis] : kn_shape_elements(numbers);
    pick.number_outer = elements ? pick.count * pick.inner : 0;
    pick.number_each = elements ? pick.inner : 1;
    pick.number_inner = elements ? 1 : 0;
    return pick;
}

/* ---- references ---------------------------------------------------------------------------------------- */

/* The index for (o,j,i), from 0 to size - 1; -1 if it is out of range. */
static int64_t number_at(const gather_form *pick, const double *numbers, int64_t o, int64_t j, int64_t i) {
    double number = numbers[o * pick->number_outer + j * pick->number_each + i * pick->number_inner];
    if (number < 0) number += (double)pick->size;
    return number >= 0 && number < (double)pick->size ? (int64_t)number : -1;
}

/* NaN, or 0 for integer types. */
static uint32_t missing_bits(kn_dtype dtype) {
    switch (dtype) {
    case KN_FLOAT32:
        return 0x7fc00000;
    case KN_FLOAT64:
        return 0x7ff80000; /* the upper half */
    case KN_FLOAT16:
        return 0x7e00;
    case KN_BFLOAT16:
        return 0x7fc0;
    default:
        return kn_is_small_float(dtype) ? kn_small_float_of(dtype)->nan : 0;
    }
}

static kn_status gather_reference(kn_reference_call *call) {
    const gather_form pick = gather_form_of(call->node, &call->inputs[0].shape);
    bool zero =
        kn_attribute_of(call->node, "outside")->integer != 0 || !missing_bits(call->outputs[0].shape.dtype);
    double *y = call->outputs[0].data;
    for (int64_t o = 0; o < pick.outer; o++)
        for (int64_t j = 0; j < pick.count; j++)
            for (int64_t i = 0; i < pick.inner; i++) {
                int64_t number = number_at(&pick, call->inputs[1].data, o, j, i);
                *y++ = number < 0 ? (zero ? 0 : NAN)
                                  : call->inputs[0].data[(o * pick.size + number) * pick.inner + i];
            }
    return KN_OK;
}

static double combined(double old, double update, int64_t mode) {
    switch (mode) {
    case ADD:
        return old + update;
    case MULTIPLY:
        return old * update;
    case MAXIMUM:
        return update > old || isnan(update) ? update : old;
    case MINIMUM:
        return update < old || isnan(update) ? update : old;
    default:
        return update;
    }
}

static int64_t mode_of(const kn_node *node) {
    return node->op->backward ? ADD : kn_attribute_of(node, "reduction")->integer;
}

static kn_status scatter_reference(kn_reference_call *call) {
    const gather_form pick = gather_form_of(call->node, &call->outputs[0].shape);
    bool backward = call->node->op->backward;
    const double *updates = call->inputs[backward ? 0 : 2].data;
    double *y = call->outputs[0].data;
    if (!backward && call->outputs[0].elements)
        memcpy(y, call->inputs[0].data, (size_t)call->outputs[0].elements * sizeof *y);
    for (int64_t o = 0; o < pick.outer; o++)
        for (int64_t j = 0; j < pick.count; j++)
            for (int64_t i = 0; i < pick.inner; i++, updates++) {
                int64_t number = number_at(&pick, call->inputs[1].data, o, j, i);
                if (number < 0) continue;
                double *place = &y[(o * pick.size + number) * pick.inner + i];
                *place = combined(*place, *updates, mode_of(call->node));
            }
    return KN_OK;
}

/* ---- lowering ------------------------------------------------------------------------------------------ */

/* Minimum elements per work-item on wide-vector devices; maximum loop iterations on others */
enum { WORK = 16384, ROUNDS = 32768 };

/* Types of the same size are moved in the same way. */
static const char *bits_of(kn_dtype dtype) {
    size_t bytes = kn_dtype_bytes(dtype);
    return bytes == 1 ? "uchar" : bytes == 2 ? "ushort" : bytes == 8 ? "ulong" : "uint";
}

static void add_gather_form(kn_step *step, const gather_form *pick, const char *count_name, int64_t all) {
    KN_STEP_SET(step, {"number_outer", pick->number_outer}, {"number_each", pick->number_each},
                {"number_inner", pick->number_inner}, {count_name, all}, {"inner", pick->inner},
                {"count", pick->count}, {"size", pick->size});
}

static kn_status lower_gather(kn_lowering *lowering) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    const kn_node *node = lowering->node;
    const gather_form pick = gather_form_of(node, &node->inputs[0]->shape);
    kn_dtype dtype = node->inputs[0]->shape.dtype;
    int64_t all = kn_elements_of(node->outputs[0]), chunk = wide ? WORK : 1;
    if (all == 0) return KN_OK;
    kn_step *step = kn_step_begin(lowering, "gather/gather.cl", "kn_gather");
    kn_step_define(step, "KN_T", "%s", bits_of(dtype));
    kn_step_define_type(step, "KN_I", node->inputs[1]->shape.dtype);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"missing", kn_attribute_of(node, "outside")->integer ? 0 : missing_bits(dtype)},
                {"chunk", chunk});
    add_gather_form(step, &pick, "all", all);
    kn_step_size1(step, (size_t)kn_divide_up(all, chunk), wide ? 1 : 0);
    return kn_step_end(step, lowering);
}

/* Applies updates [begin, stop). Each item reads the indices of its lanes, so lanes are divided first, and
 * elements only if lanes are few. */
static kn_status emit_scatter(kn_lowering *lowering, bool wide, int64_t begin, int64_t stop) {
    const kn_node *node = lowering->node;
    const kn_value *y = node->outputs[0];
    bool backward = node->op->backward;
    const gather_form pick = gather_form_of(node, &y->shape);
    int64_t lanes = pick.outer * pick.inner, chunk = 1, rows;
    if (wide) {
        int64_t wanted = 4 * (int64_t)lowering->target->compute_units;
        chunk = pick.outer >= wanted ? kn_divide_up(pick.outer, wanted) * pick.inner : pick.inner;
        rows = kn_divide_up(pick.size, kn_divide_up(wanted, kn_divide_up(lanes, chunk)));
    } else {
        rows = kn_divide_up(pick.size, kn_divide_up(4096, lanes));
        if (rows > ROUNDS) rows = ROUNDS;
    }
    kn_step *step = kn_step_begin(lowering, "gather/gather.cl", "kn_scatter");
    KN_STEP_DEFINE(step, {"KN_SCATTER", 1});
    kn_step_define_type(step, "KN_T", y->shape.dtype);
    kn_step_define_type(step, "KN_I", node->inputs[1]->shape.dtype);
    if (backward) kn_step_read(step, "x", NULL);
    if (begin) kn_step_update(step, "y", lowering->result);
    kn_step_bind_values(step, lowering);
    add_gather_form(step, &pick, "lanes", lanes);
    KN_STEP_SET(step, {"mode", mode_of(node)}, {"chunk", chunk}, {"rows", rows}, {"begin", begin},
                {"stop", stop});
    kn_step_size2(step, (size_t)kn_divide_up(lanes, chunk), (size_t)kn_divide_up(pick.size, rows),
                  wide ? 1 : 0, wide ? 1 : 0);
    return kn_step_end(step, lowering);
}

static kn_status lower_scatter(kn_lowering *lowering) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    const kn_value *y = lowering->node->outputs[0];
    if (kn_elements_of(y) == 0) return KN_OK;
    int64_t count = gather_form_of(lowering->node, &y->shape).count, most = wide ? INT32_MAX : ROUNDS,
            begin = 0;
    do {
        int64_t stop = count - begin < most ? count : begin + most;
        kn_status status = emit_scatter(lowering, wide, begin, stop);
        if (status) return status;
        begin = stop;
    } while (begin < count);
    return KN_OK;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static kn_value *back_to(kn_gradient_call *call, const kn_value *x, int axis, bool elements) {
    kn_value *inputs[2] = {call->output_gradients[0], call->node->inputs[1]};
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_gather_gradient);
    kn_settings_int(&settings, "axis", axis);
    kn_settings_int(&settings, "size", x->shape.dims[axis]);
    kn_settings_int(&settings, "elements", elements);
    return kn_gradient_build(call, &kn_row_gather_gradient, inputs, 2, &settings);
}

static kn_status gather_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    const kn_value *x = call->node->inputs[0];
    call->input_gradients[0] =
        back_to(call, x, kn_axis_of(call->node, x->shape.rank), call->node->op == &kn_row_gather_elements);
    return kn_gradient_status(call);
}

/* Replaced elements have no gradient; an update has the gradient of its position, even if a later update
 * replaced it. */
static kn_status scatter_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    kn_value *dy = call->output_gradients[0];
    int64_t mode = mode_of(node);
    bool elements = node->op == &kn_row_scatter_elements;
    if (!dy) return KN_OK;
    if (mode > ADD) {
        kn_graph_fail(call->graph, KN_ERROR_UNSUPPORTED,
                      "%s '%s': only reduction=none and reduction=add have gradients", node->op->name,
                      node->name);
        return kn_gradient_status(call);
    }
    int axis = kn_axis_of(node, node->inputs[0]->shape.rank);
    if (call->wanted[0]) {
        call->input_gradients[0] = dy;
        if (mode == REPLACE) {
            const kn_shape *updates = &node->inputs[2]->shape, scalar = {.dtype = updates->dtype};
            const uint64_t nothing = 0;
            kn_value *zero = kn_constant_add(call->graph, &scalar, &nothing, kn_dtype_bytes(updates->dtype));
            kn_value *inputs[3] = {dy, node->inputs[1], kn_gradient_broadcast(call, zero, updates)};
            kn_settings settings;
            kn_settings_init(&settings, call->graph, node->op);
            kn_settings_int(&settings, "axis", axis);
            call->input_gradients[0] = kn_gradient_build(call, node->op, inputs, 3, &settings);
        }
    }
    if (call->wanted[2]) {
        const kn_operator *row = elements ? &kn_row_gather_elements : &kn_row_gather;
        kn_value *inputs[2] = {dy, node->inputs[1]};
        kn_settings settings;
        kn_settings_init(&settings, call->graph, row);
        kn_settings_int(&settings, "axis", axis);
        kn_settings_int(&settings, "outside", 1);
        call->input_gradients[2] = kn_gradient_build(call, row, inputs, 2, &settings);
    }
    return kn_gradient_status(call);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define AXIS KN_INT("axis", 0, "axis to index, negative from the end")
#define GATHER_VARIANTS KN_VARIANTS(KN_WIDE_VARIANTS(lower_gather, kn_on_wide_vector, .name = "threads"))
#define SCATTER_VARIANTS                                                                                     \
    KN_VARIANTS(KN_WIDE_VARIANTS(lower_scatter, kn_takes_stored_types_wide, .name = "threads",               \
                                 .choice.accepts = kn_takes_stored_types))
#define GATHERING                                                                                            \
    .min_inputs = 2, .max_inputs = 2, .input_names = {"x", "numbers"}, .output_names = {"y"}, .moves = true, \
    .index = {.number = 2, .from_end = true}, .gradient = gather_gradient, .reference = gather_reference,    \
    KN_ATTRIBUTES(AXIS, KN_CHOICE("outside", "nan zero", 0, "result for indices out of range")),             \
    GATHER_VARIANTS

KN_OPERATOR(
    gather, .help = "slices of x along an axis, selected by indices (...), whose dimensions replace the axis",
    .shape = gather_shape, GATHERING,
    KN_CASES({.inputs = {"5,7", "int32 3"}, .ranges = {NULL, "-5..4"}, .smallest = true},
             {.inputs = {"7,31", "int32 2,5"}, .ranges = {NULL, "0..30"}, .attributes = "axis=1"},
             {.inputs = {"3,33,17", "int32 31"}, .ranges = {NULL, "-33..32"}, .attributes = "axis=-2"},
             {.inputs = {"93,33", "int32 31,33"}, .ranges = {NULL, "0..92"}},
             {.inputs = {"9,5", "int32"}, .ranges = {NULL, "0..8"}},
             {.inputs = {"5,17", "int32 31"}, .ranges = {NULL, "-9..8"}, .no_gradient = true},
             {.inputs = {"5,17", "int32 31"}, .ranges = {NULL, "-9..8"}, .attributes = "outside=zero"},
             {.inputs = {"int32 5,17", "int32 31"}, .ranges = {NULL, "-5..8"}, .no_gradient = true},
             {.inputs = {"float8e4m3fn 5,17", "int32 31"}, .ranges = {NULL, "-9..8"}, .no_gradient = true},
             {.inputs = {"5,17", "int64 3"}, .ranges = {NULL, "-5..4"}}, {.inputs = {"5,7", "int32 0,3"}},
             {.inputs = {"0,7", "int32 3"}, .no_gradient = true}));
KN_OPERATOR(
    gather_elements, .help = "for each index, the element of x at that position along the axis",
    .shape = gather_elements_shape, GATHERING,
    KN_CASES({.inputs = {"5,7", "int32 3,7"}, .ranges = {NULL, "-5..4"}, .smallest = true},
             {.inputs = {"7,31", "int32 7,33"}, .ranges = {NULL, "0..30"}, .attributes = "axis=1"},
             {.inputs = {"3,5,17", "int32 3,31,17"}, .ranges = {NULL, "-5..4"}, .attributes = "axis=-2"},
             {.inputs = {"5,17", "int32 31,17"}, .ranges = {NULL, "-9..8"}, .no_gradient = true},
             {.inputs = {"33", "int32 7"}, .ranges = {NULL, "0..32"}}, {.inputs = {"5,0", "int32 3,0"}}));
KN_OPERATOR(
    gather_gradient, .help = "gradient of gather and gather_elements", .backward = true,
    KN_ATTRIBUTES(KN_INT("axis", 0, "axis that was indexed"), KN_INT("size", 1, "its size"),
                  KN_BOOLEAN("elements", 0, "gradient of gather_elements")),
    .min_inputs = 2, .max_inputs = 2, .input_names = {"updates", "numbers"}, .output_names = {"y"},
    .shape = gradient_shape, .reference = scatter_reference, SCATTER_VARIANTS,
    KN_CASES(
        {.inputs = {"3,5", "int32 3"}, .ranges = {NULL, "-5..4"}, .attributes = "size=4", .smallest = true},
        {.inputs = {"31,33,17", "int32 31,33"}, .ranges = {NULL, "0..92"}, .attributes = "size=93"},
        {.inputs = {"7,31,33", "int32 31"}, .ranges = {NULL, "0..6"}, .attributes = "axis=1 size=9"},
        {.inputs = {"7,31", "int32 7,31"},
         .ranges = {NULL, "-9..8"},
         .attributes = "axis=1 size=9 elements=true",
         .smallest = true},
        {.inputs = {"0,7", "int32 0"}, .attributes = "size=3"}));

#define SCATTERING                                                                                           \
    .min_inputs = 3, .max_inputs = 3, .input_names = {"x", "numbers", "updates"}, .output_names = {"y"},     \
    .shape = scatter_shape, .gradient = scatter_gradient, .reference = scatter_reference,                    \
    KN_ATTRIBUTES(                                                                                           \
        AXIS, KN_CHOICE("reduction", REDUCTIONS, 0, "how an update is combined with the existing element")), \
    SCATTER_VARIANTS

/* With reduction `none` and gradients, each index must occur at most once: only the last of several updates
 * counts. */
KN_OPERATOR(scatter, .help = "x with updates written to slices along an axis, selected by indices",
            SCATTERING,
            KN_CASES({.inputs = {"5,7", "int32 3", "3,7"},
                      .ranges = {NULL, "-5..4"},
                      .attributes = "reduction=add",
                      .smallest = true},
                     {.inputs = {"5,7", "int32 3", "3,7"}, .ranges = {NULL, "-5..4"}, .no_gradient = true},
                     {.inputs = {"33,17", "int32", "17"}, .ranges = {NULL, "7..7"}},
                     {.inputs = {"7,31,33", "int32 5,3", "7,5,3,33"},
                      .ranges = {NULL, "0..30"},
                      .attributes = "axis=1 reduction=add"},
                     {.inputs = {"9,33", "int32 31", "31,33"},
                      .ranges = {NULL, "-9..8"},
                      .attributes = "reduction=mul",
                      .no_gradient = true},
                     {.inputs = {"9,33", "int32 31", "31,33"},
                      .ranges = {NULL, "-9..8"},
                      .attributes = "reduction=max",
                      .no_gradient = true},
                     {.inputs = {"9,33", "int32 31", "31,33"},
                      .ranges = {NULL, "-12..12"},
                      .attributes = "reduction=min",
                      .no_gradient = true},
                     {.inputs = {"5,7", "int32 0", "0,7"}, .attributes = "reduction=add"}));
KN_OPERATOR(
    scatter_elements, .help = "x with each update written at its index along the axis", SCATTERING,
    KN_CASES({.inputs = {"5,7", "int32 3,7", "3,7"},
              .ranges = {NULL, "-5..4"},
              .attributes = "reduction=add",
              .smallest = true},
             {.inputs = {"7,31", "int32 7,5", "7,5"},
              .ranges = {NULL, "0..30"},
              .attributes = "axis=1",
              .no_gradient = true},
             {.inputs = {"7,31", "int32 7,1", "7,1"}, .ranges = {NULL, "0..30"}, .attributes = "axis=1"},
             {.inputs = {"3,5,17", "int32 3,31,17", "3,31,17"},
              .ranges = {NULL, "-5..4"},
              .attributes = "axis=1 reduction=add"},
             {.inputs = {"5,17", "int32 31,17", "31,17"},
              .ranges = {NULL, "-9..8"},
              .attributes = "reduction=max",
              .no_gradient = true},
             {.inputs = {"int32 5,17", "int32 31,17", "int32 31,17"},
              .ranges = {NULL, "-5..4"},
              .attributes = "reduction=add",
              .no_gradient = true},
             {.inputs = {"5,0", "int32 3,0", "3,0"}, .attributes = "reduction=add"}));
