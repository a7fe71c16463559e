/* Matrix products of 8-bit integers, for quantized networks. */
#include "ops/matmul/integer.h"

#include "ops/build.h"
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/product.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_matmul_integer;

/* A zero point: a scalar of the type of `of`, or one for each of `count`. */
static kn_status zero_shape(kn_shape_call *call, int input, const kn_shape *of, kn_dim count,
                            const char *each) {
    if (call->input_count <= input || !call->inputs[input]) return KN_OK;
    const kn_shape *zero = &call->inputs[input]->shape;
    bool fits = zero->rank == 0 || (zero->rank == 1 && (zero->dims[0] == 1 || zero->dims[0] == count));
    if (fits && zero->dtype == of->dtype) return KN_OK;
    return kn_shape_fail(call, KN_ERROR_SHAPE, "zero point %d is %s; expected %s, a scalar or one per %s",
                         input - 2, kn_shape_words_of(call, input), kn_dtype_name(of->dtype), each);
}

/* a is (...,M,K), b (...,K,N), a_zero () or (M), b_zero () or (N); the result is int32 (...,M,N). */
static kn_status shape(kn_shape_call *call) {
    for (int i = 0; i < 2; i++) {
        const kn_shape *own = call->inputs[i] ? &call->inputs[i]->shape : NULL;
        if (!own || !kn_is_byte(own->dtype) || own->rank < 2)
            return kn_shape_fail(call, KN_ERROR_DTYPE,
                                 "input %d is %s; expected int8 or uint8 (...,rows,columns)", i,
                                 own ? kn_shape_words_of(call, i) : "missing");
    }
    const kn_shape *a = &call->inputs[0]->shape, *b = &call->inputs[1]->shape;
    kn_shape leading_a = *a, leading_b = *b, *y = &call->outputs[0];
    leading_a.rank -= 2;
    leading_b.rank -= 2;
    if (a->dims[a->rank - 1] != b->dims[b->rank - 2] ||
        !kn_shape_broadcast(call->graph, &leading_a, &leading_b, y))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "a is %s and b is %s; the columns of a must match the rows of b, and the "
                             "leading dimensions must be equal or 1",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    y->dims[y->rank++] = a->dims[a->rank - 2];
    y->dims[y->rank++] = b->dims[b->rank - 1];
    y->dtype = KN_INT32;
    if (zero_shape(call, 2, a, a->dims[a->rank - 2], "row of a")) return call->error->status;
    return zero_shape(call, 3, b, b->dims[b->rank - 1], "column of b");
}

void kn_matmul_integer_describe(const kn_node *node, kn_matmul_integer_form *form) {
    *form = (kn_matmul_integer_form){.a_zero = NULL};
    kn_matmul_describe(node, &form->matrices);
    if (node->input_count > 2) form->a_zero = node->inputs[2];
    if (node->input_count > 3) form->b_zero = node->inputs[3];
    form->a_zero_row = form->a_zero && kn_elements_of(form->a_zero) > 1;
    form->b_zero_column = form->b_zero && kn_elements_of(form->b_zero) > 1;
}

void kn_matmul_integer_describe_merged(const kn_node *node, kn_matmul_integer_form *form) {
    kn_matmul_integer_describe(node, form);
    if (!form->a_zero_row) kn_matmul_merge_batches(&form->matrices, NULL);
}

static kn_status reference(kn_reference_call *call) {
    const double *a = call->inputs[0].data, *b = call->inputs[1].data;
    const double *a_zero = call->input_count > 2 ? call->inputs[2].data : NULL;
    const double *b_zero = call->input_count > 3 ? call->inputs[3].data : NULL;
    double *y = call->outputs[0].data;
    kn_matmul_integer_form form;
    kn_matmul_integer_describe(call->node, &form);
    const kn_matmul_form *of = &form.matrices;
    for (int64_t batch = 0; batch < of->batches; batch++) {
        int64_t rest = batch, a_first = 0, b_first = 0;
        for (int level = 0; level < of->levels; level++) {
            a_first += rest % of->sizes[level] * of->a_strides[level];
            b_first += rest % of->sizes[level] * of->b_strides[level];
            rest /= of->sizes[level];
        }
        for (int64_t i = 0; i < of->m; i++)
            for (int64_t j = 0; j < of->n; j++) {
                double sum = 0, less_a = a_zero ? a_zero[i * form.a_zero_row] : 0,
                       less_b = b_zero ? b_zero[j * form.b_zero_column] : 0;
                for (int64_t k = 0; k < of->k; k++)
                    sum += (a[a_first + i * of->k + k] - less_a) * (b[b_first + k * of->n + j] - less_b);
                y[(batch * of->m + i) * of->n + j] = sum;
            }
    }
    return KN_OK;
}

static void cost(const kn_node *node, kn_cost *cost) {
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    kn_cost_set(node, 2.0 * (double)form.m * (double)form.n * (double)form.k * (double)form.batches, cost);
}

#define KN_BYTES "0..255"
#define KN_SIGNED "-128..127"

KN_OPERATOR(
    matmul_integer,
    .help = "int32 product of the 8-bit matrices a and b minus their zero points a_zero and b_zero",
    .min_inputs = 2, .max_inputs = 4, .input_names = {"a", "b", "a_zero", "b_zero"}, .output_names = {"c"},
    .shape = shape, .reference = reference, .cost = cost,
    KN_VARIANTS({.name = "packed",
                 .choice.accepts = kn_matmul_integer_packed_accepts,
                 .lower = kn_matmul_integer_wide_lower,
                 .config = KN_INTEGER_PACKED,
                 .choice.prepares = true,
                 .choice.doubtful = true},
                {.name = "quads",
                 .choice.accepts = kn_matmul_integer_quads_accepts,
                 .lower = kn_matmul_integer_wide_lower,
                 .config = KN_INTEGER_QUADS,
                 .choice.doubtful = true},
                {.name = "wide",
                 .choice.accepts = kn_matmul_integer_wide_accepts,
                 .lower = kn_matmul_integer_wide_lower,
                 .choice.doubtful = true},
                {.name = "matrix",
                 .choice.accepts = kn_matmul_integer_matrix_accepts,
                 .lower = kn_matmul_integer_tiled_lower,
                 .config = KN_PRODUCT_MATRIX},
                {.name = "tiled",
                 .choice.accepts = kn_matmul_integer_tiled_accepts,
                 .lower = kn_matmul_integer_tiled_lower},
                {.name = "plain",
                 .choice.accepts = kn_matmul_integer_tiled_accepts,
                 .lower = kn_matmul_integer_plain_lower}),
    KN_CASES({.inputs = {"uint8 7,31", "uint8 31,33", "uint8", "uint8"},
              .ranges = {KN_BYTES, KN_BYTES, KN_BYTES, KN_BYTES},
              .smallest = true},
             {.inputs = {"uint8 130,70", "uint8 70,131"}, .ranges = {KN_BYTES, KN_BYTES}},
             {.inputs = {"uint8 5,1100", "uint8 1100,7", "uint8 5", "uint8 7"},
              .ranges = {KN_BYTES, KN_BYTES, KN_BYTES, KN_BYTES}},
             {.inputs = {"uint8 2,1,7,5", "uint8 3,5,73", "uint8 1", "uint8 73"},
              .ranges = {KN_BYTES, KN_BYTES, KN_BYTES, KN_BYTES},
              .smallest = true},
             {.inputs = {"uint8 3,0", "uint8 0,4", "uint8", "uint8"}, .ranges = {NULL, NULL, "3..3", "5..5"}},
             {.inputs = {"uint8 0,5", "uint8 5,3"}},
             {.inputs = {"uint8 1,93", "uint8 93,1", "-", "uint8"},
              .ranges = {KN_BYTES, KN_BYTES, NULL, KN_BYTES}},
             {.inputs = {"uint8 7,31", "int8 31,133", "uint8"}, .ranges = {KN_BYTES, KN_SIGNED, KN_BYTES}},
             {.inputs = {"int8 7,31", "int8 31,133", "int8 7", "int8"},
              .ranges = {KN_SIGNED, KN_SIGNED, KN_SIGNED, KN_SIGNED}},
             {.inputs = {"int8 3,7,31", "uint8 31,133", "int8 7", "uint8"},
              .ranges = {KN_SIGNED, KN_BYTES, KN_SIGNED, KN_BYTES}},
             {.inputs = {"uint8 9,1030", "int8 1030,70", "uint8 9", "int8 70"},
              .ranges = {KN_BYTES, KN_SIGNED, KN_BYTES, KN_SIGNED}},
             {.inputs = {"int8 50,18", "uint8 18,65", "int8", "uint8"},
              .ranges = {"-128..-128", "255..255", "127..127", "0..0"}}));

kn_value *kn_matmul_integer(kn_value *a, kn_value *b, kn_value *a_zero, kn_value *b_zero) {
    kn_value *inputs[4] = {a, b, a_zero, b_zero};
    kn_settings settings;
    if (kn_value_failed(a)) return a;
    if (kn_value_failed(b)) return kn_build(&kn_row_matmul_integer, inputs, 2, NULL);
    kn_settings_init(&settings, a->graph, &kn_row_matmul_integer);
    return kn_node_add(a->graph, &kn_row_matmul_integer, NULL, inputs,
                       b_zero   ? 4
                       : a_zero ? 3
                                : 2,
                       settings.values);
}
