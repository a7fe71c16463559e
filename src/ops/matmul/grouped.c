/* Products of groups of rows with a matrix per group, as in mixtures of experts (cl/matmul/grouped.cl). */
#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_grouped_matmul, kn_row_grouped_matmul_weight;

enum { A, B, ENDS, ROWS = 8, ITEMS = 64 };

/* ---- shapes ------------------------------------------------------------------------------------------- */

static bool check(kn_shape_call *call, int rank) {
    const kn_shape *a = &call->inputs[A]->shape, *b = &call->inputs[B]->shape,
                   *ends = &call->inputs[ENDS]->shape;
    if (kn_shape_float_input(call, A) || kn_shape_float_input(call, B)) return false;
    if (ends->dtype != KN_INT32 || ends->rank != 1) {
        kn_shape_fail(call, KN_ERROR_SHAPE, "the ends are %s; expected int32 (groups)",
                      kn_shape_words_of(call, ENDS));
        return false;
    }
    if (a->rank == 2 && b->rank == rank && a->dtype == b->dtype) return true;
    kn_shape_fail(call, KN_ERROR_SHAPE, "a is %s and b is %s; expected (rows,K) and %s of one type",
                  kn_shape_words_of(call, A), kn_shape_words_of(call, B),
                  rank == 3 ? "(groups,K,N)" : "(rows,N)");
    return false;
}

/* a is (rows,K), b (groups,K,N), the ends int32 (groups), the result (rows,N). */
static kn_status grouped_shape(kn_shape_call *call) {
    const kn_shape *a = &call->inputs[A]->shape, *b = &call->inputs[B]->shape;
    if (!check(call, 3)) return call->error->status;
    if (a->dims[1] != b->dims[1] || b->dims[0] != call->inputs[ENDS]->shape.dims[0])
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "a is %s, b is %s and the ends are %s; expected (rows,K), (groups,K,N) and "
                             "(groups)",
                             kn_shape_words_of(call, A), kn_shape_words_of(call, B),
                             kn_shape_words_of(call, ENDS));
    call->outputs[0] = (kn_shape){.dtype = a->dtype, .rank = 2, .dims = {a->dims[0], b->dims[2]}};
    return KN_OK;
}

/* a is (rows,K), b (rows,N), the ends int32 (groups), the result (groups,K,N). */
static kn_status weight_shape(kn_shape_call *call) {
    const kn_shape *a = &call->inputs[A]->shape, *b = &call->inputs[B]->shape;
    if (!check(call, 2)) return call->error->status;
    if (a->dims[0] != b->dims[0])
        return kn_shape_fail(call, KN_ERROR_SHAPE, "a is %s and b is %s; expected the same number of rows",
                             kn_shape_words_of(call, A), kn_shape_words_of(call, B));
    call->outputs[0] = (kn_shape){
        .dtype = a->dtype,
        .rank = 3,
        .dims = {call->inputs[ENDS]->shape.dims[0], a->dims[1], b->dims[1]},
    };
    return KN_OK;
}

/* ---- gradient ----------------------------------------------------------------------------------------- */

static kn_value *product(kn_gradient_call *call, const kn_operator *row, kn_value *a, kn_value *b) {
    kn_value *inputs[3] = {a, b, call->node->inputs[ENDS]};
    return kn_gradient_build(call, row, inputs, 3, NULL);
}

static kn_status grouped_gradient(kn_gradient_call *call) {
    kn_value *a = call->node->inputs[A], *b = call->node->inputs[B], *g = call->output_gradients[0];
    if (!g) return KN_OK;
    if (call->wanted[A])
        call->input_gradients[A] = product(call, &kn_row_grouped_matmul, g, kn_transpose(b, "0,2,1"));
    if (call->wanted[B]) call->input_gradients[B] = product(call, &kn_row_grouped_matmul_weight, a, g);
    return kn_gradient_status(call);
}

static kn_status weight_gradient(kn_gradient_call *call) {
    kn_value *a = call->node->inputs[A], *b = call->node->inputs[B], *g = call->output_gradients[0];
    if (!g) return KN_OK;
    if (call->wanted[A])
        call->input_gradients[A] = product(call, &kn_row_grouped_matmul, b, kn_transpose(g, "0,2,1"));
    if (call->wanted[B]) call->input_gradients[B] = product(call, &kn_row_grouped_matmul, a, g);
    return kn_gradient_status(call);
}

/* ---- reference ---------------------------------------------------------------------------------------- */

/* c gets one row per row of a, or, for the weight, one matrix per group. */
static kn_status reference(kn_reference_call *call) {
    const kn_reference_array *a = &call->inputs[A], *b = &call->inputs[B], *ends = &call->inputs[ENDS];
    const bool weight = b->shape.rank == 2;
    const int64_t rows = a->shape.dims[0], k = a->shape.dims[1], n = b->shape.dims[b->shape.rank - 1];
    double *c = call->outputs[0].data;
    for (int64_t group = 0, row = 0; group < ends->elements; group++)
        for (; row < rows && (double)row < ends->data[group]; row++)
            for (int64_t at = 0; at < k * n; at++) {
                const int64_t in_row = row * n + at % n, in_group = group * k * n + at;
                c[weight ? in_group : in_row] +=
                    a->data[row * k + at / n] * b->data[weight ? in_row : in_group];
            }
    return KN_OK;
}

/* ---- lowering ----------------------------------------------------------------------------------------- */

static void cost(const kn_node *node, kn_cost *cost) {
    const kn_shape *b = &node->inputs[B]->shape;
    kn_cost_set(node, 2.0 * (double)kn_elements_of(node->inputs[A]) * (double)b->dims[b->rank - 1], cost);
}

static kn_status lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    const bool wide = lowering->config == KN_METHOD_WIDE, weight = node->op == &kn_row_grouped_matmul_weight;
    const kn_shape *a = &node->inputs[A]->shape, *b = &node->inputs[B]->shape;
    const int64_t groups = kn_elements_of(node->inputs[ENDS]), n = b->dims[b->rank - 1];
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    kn_step *step = kn_step_begin(lowering, "matmul/grouped.cl", weight ? "kn_grouped_weight" : "kn_grouped");
    kn_step_types(step, node, lowering->result->shape.dtype);
    if (wide) KN_STEP_DEFINE(step, {"KN_WIDTH", target->vector_width});
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"groups", groups}, {"rows", a->dims[0]}, {"k", a->dims[1]}, {"n", n});
    const int64_t tiles = kn_divide_up(a->dims[weight ? 1 : 0], ROWS), layers = weight ? groups : 1;
    if (wide) {
        kn_step_size_wide(step, kn_divide_up(n, target->vector_width), tiles, layers);
    } else {
        const size_t items = kn_group_items_for(target, "matmul/grouped.cl", n, ITEMS);
        kn_step_size3(step,
                      (size_t[3]){(size_t)kn_round_up(n, (int64_t)items), (size_t)tiles, (size_t)layers},
                      (size_t[3]){items, 1, 1});
    }
    return kn_step_end(step, lowering);
}

/* ---- rows --------------------------------------------------------------------------------------------- */

#define VARIANTS                                                                                             \
    KN_VARIANTS({.name = "wide",                                                                             \
                 .choice.accepts = kn_takes_kernel_types_wide,                                               \
                 .lower = lower,                                                                             \
                 .config = KN_METHOD_WIDE,                                                                   \
                 .promise.halves = {3, 1}},                                                                  \
                {.name = "plain",                                                                            \
                 .choice.accepts = kn_takes_kernel_types,                                                    \
                 .lower = lower,                                                                             \
                 .config = KN_METHOD_PLAIN,                                                                  \
                 .promise.halves = {3, 1}})
#define CASE(a, b, ends, range)                                                                              \
    {                                                                                                        \
        .inputs = {a, b, "int32 " ends}, .ranges = { NULL, NULL, range }                                     \
    }

KN_OPERATOR(
    grouped_matmul,
    .help = "rows of a (rows,K) times a matrix of b (groups,K,N) per group: group e ends before row "
            "ends[e]; rows from the last end on are 0",
    .min_inputs = 3, .max_inputs = 3, .input_names = {"a", "b", "ends"}, .output_names = {"c"},
    .matrices = true, .shape = grouped_shape, .gradient = grouped_gradient, .reference = reference,
    .cost = cost, VARIANTS,
    KN_CASES({.inputs = {"7,5", "3,5,9", "int32 3"}, .ranges = {NULL, NULL, "0..7"}, .smallest = true},
             CASE("31,33", "4,33,40", "4", "0..40"), CASE("93,17", "1,17,31", "1", "93..93"),
             CASE("20,7", "33,7,16", "33", "-3..25"), CASE("9,1", "2,1,1", "2", "5..9"),
             CASE("9,300", "2,300,7", "2", "5..9"), CASE("0,7", "2,7,5", "2", "0..0"),
             CASE("5,7", "0,7,5", "0", "0..0"), CASE("5,0", "2,0,5", "2", "2..5")));

KN_OPERATOR(grouped_matmul_weight, .help = "gradient of grouped_matmul with respect to b", .backward = true,
            .wrong = kn_nothing_wrong, .min_inputs = 3, .max_inputs = 3, .input_names = {"a", "b", "ends"},
            .output_names = {"c"}, .shape = weight_shape, .gradient = weight_gradient, .reference = reference,
            .cost = cost, VARIANTS,
            KN_CASES({.inputs = {"7,5", "7,9", "int32 3"}, .ranges = {NULL, NULL, "0..7"}, .smallest = true},
                     CASE("31,33", "31,40", "4", "0..40"), CASE("93,17", "93,31", "1", "93..93"),
                     CASE("20,7", "20,16", "33", "-3..25"), CASE("300,1", "300,1", "2", "200..300"),
                     CASE("0,7", "0,5", "2", "0..0"), CASE("5,7", "5,5", "0", "0..0")));

kn_value *kn_grouped_matmul(kn_value *a, kn_value *b, kn_value *ends) {
    kn_value *inputs[3] = {a, b, ends};
    return kn_build(&kn_row_grouped_matmul, inputs, 3, NULL);
}
