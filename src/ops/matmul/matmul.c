/* Matrix products with broadcast leading dimensions, and the dense layer. */
#include "ops/matmul/matmul.h"

#include <stdio.h>

#include "ops/build.h"
#include "ops/gather/blocks.h"
#include "ops/gather/gather.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/matmul/product.h"
#include "ops/reduce/reduce.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* ---- shapes ----------------------------------------------------------------------------------- */

/* a is (...,M,K) or, transposed, (...,K,M); b is (...,K,N) or (...,N,K); the result is (...,M,N). b may have
 * 16 bits if a is float32. */
static kn_status matmul_shape(kn_shape_call *call) {
    const kn_shape *a = &call->inputs[0]->shape, *b = &call->inputs[1]->shape;
    kn_shape *y = &call->outputs[0];
    for (int i = 0; i < 2; i++) {
        if (kn_shape_float_input(call, i)) return call->error->status;
        if (call->inputs[i]->shape.rank < 2)
            return kn_shape_fail(
                call, KN_ERROR_SHAPE,
                "input %d is %s; expected a matrix, or a stack of matrices: (...,rows,columns)", i,
                kn_shape_words_of(call, i));
    }
    if (a->dtype != b->dtype && !(a->dtype == KN_FLOAT32 && kn_is_half(b->dtype)))
        return kn_shape_fail(call, KN_ERROR_DTYPE, "a is %s and b is %s; cast one to the type of the other",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    int ta = kn_shape_attribute(call, "transpose_a")->integer != 0;
    int tb = kn_shape_attribute(call, "transpose_b")->integer != 0;
    kn_dim left = a->dims[a->rank - (ta ? 2 : 1)], right = b->dims[b->rank - (tb ? 1 : 2)];
    if (left != right)
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "a is %s%s and b is %s%s; the columns of a must match the rows of b",
                             kn_shape_words_of(call, 0), ta ? " transposed" : "", kn_shape_words_of(call, 1),
                             tb ? " transposed" : "");
    kn_shape leading_a = *a, leading_b = *b;
    leading_a.rank -= 2;
    leading_b.rank -= 2;
    if (!kn_shape_broadcast(call->graph, &leading_a, &leading_b, y))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "a is %s and b is %s; the leading dimensions must be equal or 1",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    y->dims[y->rank++] = a->dims[a->rank - (ta ? 1 : 2)];
    y->dims[y->rank++] = b->dims[b->rank - (tb ? 2 : 1)];
    y->dtype = a->dtype;
    return KN_OK;
}

/* Integer products, which also use this description, transpose nothing. */
static bool transposes(const kn_node *node, const char *name) {
    const kn_attribute_value *value = kn_attribute_in(node->op, node->attributes, name);
    return value && value->integer != 0;
}

void kn_matmul_describe(const kn_node *node, kn_matmul_form *form) {
    const kn_shape *a = &node->inputs[0]->shape, *b = &node->inputs[1]->shape, *y = &node->outputs[0]->shape;
    *form = (kn_matmul_form){.batches = 1};
    form->transpose_a = transposes(node, "transpose_a");
    form->transpose_b = transposes(node, "transpose_b");
    form->m = y->dims[y->rank - 2];
    form->n = y->dims[y->rank - 1];
    form->k = a->dims[a->rank - (form->transpose_a ? 2 : 1)];
    /* From the last leading dimension outwards, merge dimensions that a and b traverse in the same way into
     * one level. */
    int64_t a_stride = form->m * form->k, b_stride = form->k * form->n;
    int count = 0;
    for (int i = 0; i < KN_MATMUL_LEVELS; i++)
        form->sizes[i] = 1;
    for (int d = y->rank - 3; d >= 0; d--) {
        int a_own = d - (y->rank - a->rank), b_own = d - (y->rank - b->rank);
        int64_t a_size = a_own < 0 ? 1 : a->dims[a_own], b_size = b_own < 0 ? 1 : b->dims[b_own];
        if (y->dims[d] == 1) continue;
        bool merges = count > 0 && (form->a_strides[count - 1] != 0) == (a_size != 1) &&
                      (form->b_strides[count - 1] != 0) == (b_size != 1);
        form->batches *= y->dims[d];
        if (merges) {
            form->sizes[count - 1] *= y->dims[d];
        } else {
            form->sizes[count] = y->dims[d];
            form->a_strides[count] = a_size != 1 ? a_stride : 0;
            form->b_strides[count] = b_size != 1 ? b_stride : 0;
            count++;
        }
        a_stride *= a_size;
        b_stride *= b_size;
    }
    form->levels = count;
}

/* If b is the same for all batches, their rows are rows of one taller matrix, unless the epilogue's operands
 * have a different stride between batches than between rows. */
void kn_matmul_merge_batches(kn_matmul_form *form, const kn_epilogue *epilogue) {
    if (form->levels != 1 || form->b_strides[0] || !form->a_strides[0] || form->transpose_a) return;
    for (int i = 0; epilogue && i < epilogue->operand_count; i++)
        if (epilogue->operands[i].strides[0] != form->m * epilogue->operands[i].strides[1]) return;
    form->m *= form->batches;
    form->batches = form->sizes[0] = 1;
    form->a_strides[0] = 0;
    form->levels = 0;
}

/* ---- reference ------------------------------------------------------------------------------------ */

static kn_status matmul_reference(kn_reference_call *call) {
    const double *a = call->inputs[0].data, *b = call->inputs[1].data;
    double *y = call->outputs[0].data;
    kn_matmul_form form;
    kn_matmul_describe(call->node, &form);
    int64_t a_row = form.transpose_a ? 1 : form.k, a_column = form.transpose_a ? form.m : 1;
    int64_t b_row = form.transpose_b ? 1 : form.n, b_column = form.transpose_b ? form.k : 1;
    for (int64_t batch = 0; batch < form.batches; batch++) {
        int64_t rest = batch, a_first = 0, b_first = 0;
        for (int level = 0; level < form.levels; level++) {
            a_first += rest % form.sizes[level] * form.a_strides[level];
            b_first += rest % form.sizes[level] * form.b_strides[level];
            rest /= form.sizes[level];
        }
        for (int64_t i = 0; i < form.m; i++)
            for (int64_t j = 0; j < form.n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < form.k; k++)
                    sum += a[a_first + i * a_row + k * a_column] * b[b_first + k * b_row + j * b_column];
                y[(batch * form.m + i) * form.n + j] = sum;
            }
    }
    return KN_OK;
}

static void matmul_cost(const kn_node *node, kn_cost *cost) {
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    kn_cost_set(node, 2.0 * (double)form.m * (double)form.n * (double)form.k * (double)form.batches, cost);
}

/* ---- gradients ------------------------------------------------------------------------------------- */

static kn_value *product(kn_gradient_call *call, kn_value *a, kn_value *b, bool transpose_a,
                         bool transpose_b) {
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_matmul);
    kn_settings_int(&settings, "transpose_a", transpose_a);
    kn_settings_int(&settings, "transpose_b", transpose_b);
    kn_value *inputs[2] = {a, b};
    return kn_gradient_build(call, &kn_row_matmul, inputs, 2, &settings);
}

/* Sums the gradient over leading dimensions along which the input was broadcast. */
static kn_value *sum_leading(kn_gradient_call *call, kn_value *gradient, const kn_shape *shape) {
    if (kn_value_failed(gradient)) return gradient;
    int missing = gradient->shape.rank - shape->rank, count = 0;
    kn_dim axes[KN_MAX_RANK];
    for (int i = 0; i < gradient->shape.rank - 2; i++)
        if (i < missing || shape->dims[i - missing] != gradient->shape.dims[i]) axes[count++] = i;
    if (count) {
        kn_settings settings;
        kn_settings_init(&settings, call->graph, &kn_row_sum);
        kn_settings_list(&settings, "axes", count, axes);
        gradient = kn_gradient_build(call, &kn_row_sum, &gradient, 1, &settings);
    }
    return kn_gradient_reshape(call, gradient, shape);
}

/* (...,M,K) reshaped to one matrix (..M,K). */
static kn_value *as_matrix(kn_gradient_call *call, kn_value *x) {
    kn_shape matrix = {.dtype = x->shape.dtype, .rank = 2};
    matrix.dims[0] = 1;
    for (int i = 0; i < x->shape.rank - 1; i++)
        matrix.dims[0] *= x->shape.dims[i];
    matrix.dims[1] = x->shape.dims[x->shape.rank - 1];
    return kn_gradient_reshape(call, x, &matrix);
}

/* With A and B as they enter the product and g the gradient of its result: dA = g·Bᵀ and dB = Aᵀ·g. A 16-bit
 * B can only be the right side of a product. */
static kn_status matmul_gradient(kn_gradient_call *call) {
    kn_value *a = call->node->inputs[0], *b = call->node->inputs[1], *g = call->output_gradients[0];
    bool ta = kn_attribute_of(call->node, "transpose_a")->integer != 0;
    bool tb = kn_attribute_of(call->node, "transpose_b")->integer != 0;
    if (!g) return KN_OK;
    if (call->wanted[0]) {
        b = kn_widen_again(b);
        kn_value *da = ta ? product(call, kn_gradient_cast(call, b, a->shape.dtype), g, tb, true)
                          : product(call, g, b, false, !tb);
        call->input_gradients[0] = sum_leading(call, da, &a->shape);
    }
    if (call->wanted[1]) {
        kn_value *rows = a, *slopes = g;
        if (!ta && b->shape.rank == 2) { /* one product also sums over the leading dimensions */
            rows = as_matrix(call, a);
            slopes = as_matrix(call, g);
        }
        kn_value *db = tb ? product(call, slopes, rows, true, ta) : product(call, rows, slopes, !ta, false);
        call->input_gradients[1] = kn_gradient_cast(call, sum_leading(call, db, &b->shape), b->shape.dtype);
    }
    return kn_gradient_status(call);
}

/* ---- the row ------------------------------------------------------------------------------------------ */

/* Sizes at which a matrix unit, and sums without local memory, are compared with the work-items. */
static const kn_node_sizes measured_sizes = {{"1024,1024", "1024,1024"}, ""};

KN_OPERATOR(
    matmul, .help = "matrix product of a and b; leading dimensions broadcast",
    KN_ATTRIBUTES(KN_BOOLEAN("transpose_a", 0, "a is stored as (...,K,M)"),
                  KN_BOOLEAN("transpose_b", 0, "b is stored as (...,N,K)")),
    .min_inputs = 2, .max_inputs = 2, .input_names = {"a", "b"}, .output_names = {"c"}, .halves = 1 << 1,
    .matrices = true, .at_sizes = kn_product_of_table, .with_blocks = kn_matmul_of_blocks,
    .shape = matmul_shape, .gradient = matmul_gradient, .reference = matmul_reference, .cost = matmul_cost,
    KN_VARIANTS({.name = "amx",
                 .choice.accepts = kn_matmul_amx_accepts,
                 .lower = kn_matmul_amx_lower,
                 .config = KN_PRODUCT_MATRIX,
                 .promise.takes_epilogue = true,
                 .promise.halves = {3, 1}},
                {.name = "amx_split",
                 .choice.accepts = kn_matmul_amx_split_accepts,
                 .choice.pays = kn_matmul_amx_split_pays,
                 .choice.fast = true,
                 .lower = kn_matmul_amx_lower,
                 .config = KN_PRODUCT_SPLIT,
                 .promise.takes_epilogue = true,
                 .promise.halves = {3, 1}},
                {.name = "packed",
                 .choice.accepts = kn_matmul_packed_accepts,
                 .lower = kn_matmul_packed_lower,
                 .promise.takes_epilogue = true,
                 .promise.halves = {3, 1},
                 .choice.prepares = true,
                 .choice.doubtful = true},
                {.name = "library",
                 .choice.accepts = kn_matmul_library_accepts,
                 .lower = kn_matmul_library_lower,
                 .choice.doubtful = true,
                 .choice.measured = true},
                {.name = "wide",
                 .choice.accepts = kn_matmul_wide_accepts,
                 .lower = kn_matmul_wide_lower,
                 .promise.takes_epilogue = true,
                 .promise.halves = {3, 1},
                 .choice.doubtful = true},
                {.name = "matrix",
                 .promise.halves = {3, 1},
                 .choice.accepts = kn_matmul_matrix_accepts,
                 .lower = kn_matmul_tiled_lower,
                 .config = KN_PRODUCT_MATRIX,
                 .promise.stores_between = true,
                 .promise.takes_epilogue = true},
                {.name = "matrix_split",
                 .promise.halves = {3, 1},
                 .choice.accepts = kn_matmul_matrix_split_accepts,
                 .choice.pays = kn_product_split_pays,
                 .choice.fast = true,
                 .choice.measured = true,
                 .choice.measured_at = &measured_sizes,
                 .lower = kn_matmul_tiled_lower,
                 .config = KN_PRODUCT_SPLIT,
                 .promise.stores_between = true,
                 .promise.takes_epilogue = true},
                {.name = "direct",
                 .promise.halves = {3, 1},
                 .choice.accepts = kn_matmul_direct_accepts,
                 .choice.measured = true,
                 .choice.measured_at = &measured_sizes,
                 .lower = kn_matmul_tiled_lower,
                 .config = KN_PRODUCT_DIRECT,
                 .promise.stores_between = true,
                 .promise.sums = kn_matmul_sums_rows,
                 .promise.takes_epilogue = true},
                {.name = "tiled",
                 .promise.halves = {3, 1},
                 .choice.accepts = kn_matmul_tiled_accepts,
                 .lower = kn_matmul_tiled_lower,
                 .promise.stores_between = true,
                 .promise.sums = kn_matmul_sums_rows,
                 .promise.takes_epilogue = true},
                {.name = "plain",
                 .choice.accepts = kn_matmul_tiled_accepts,
                 .lower = kn_matmul_plain_lower,
                 .promise.halves = {3, 1}}),
    KN_CASES({.inputs = {"7,31", "31,33"}, .smallest = true},
             {.inputs = {"7,31", "9,31"}, .attributes = "transpose_b=1", .smallest = true},
             {.inputs = {"31,7", "31,33"}, .attributes = "transpose_a=1", .smallest = true},
             {.inputs = {"31,7", "33,31"}, .attributes = "transpose_a=1 transpose_b=1"},
             {.inputs = {"36,20", "20,40"}, .smallest = true},
             {.inputs = {"4,516", "516,8"}, .no_gradient = true, .smallest = true},
             {.inputs = {"68,20", "72,20"}, .attributes = "transpose_b=1"},
             {.inputs = {"20,68", "20,72"}, .attributes = "transpose_a=1"},
             {.inputs = {"300,200", "300,290"}, .attributes = "transpose_a=1", .no_gradient = true},
             {.inputs = {"93,33", "33,93"}}, {.inputs = {"1,1", "1,1"}}, {.inputs = {"1,93", "93,1"}},
             {.inputs = {"93,1", "1,31"}}, {.inputs = {"5,1100", "1100,7"}},
             {.inputs = {"4,2100", "36,2100"}, .attributes = "transpose_b=1"},
             {.inputs = {"200,530", "530,150"}, .no_gradient = true}, {.inputs = {"130,70", "70,131"}},
             {.inputs = {"3,7,5", "3,5,9"}}, {.inputs = {"3,7,5", "5,9"}}, {.inputs = {"7,5", "3,5,9"}},
             {.inputs = {"2,3,5,7", "9,5"}, .attributes = "transpose_a=1 transpose_b=1"},
             {.inputs = {"2,1,7,5", "3,5,9"}, .smallest = true}, {.inputs = {"2,1,2,3,5", "1,3,1,5,4"}},
             {.inputs = {"0,5", "5,3"}}, {.inputs = {"float64 31,93", "float64 93,33"}, .no_gradient = true},
             {.inputs = {"36,20", "float16 20,40"}, .no_gradient = true, .smallest = true},
             {.inputs = {"9,33", "bfloat16 93,33"}, .attributes = "transpose_b=1", .no_gradient = true},
             {.inputs = {"5,37", "float16 70,37"}, .attributes = "transpose_b=1", .no_gradient = true},
             {.inputs = {"3,1100", "bfloat16 1100,131"}, .no_gradient = true},
             {.inputs = {"3,20,7", "float16 3,20,33"}, .attributes = "transpose_a=1", .no_gradient = true},
             {.inputs = {"3,0", "0,4"}}, {.inputs = {"0,3,5", "5,2"}},
             {.inputs = {"7,9", "9,33"}, .ranges = {"special"}, .no_gradient = true},
             {.inputs = {"7,31", "31,75"}, .smallest = true},
             {.inputs = {"8,2051", "13,2051"}, .attributes = "transpose_b=1", .no_gradient = true},
             {.inputs = {"5,70", "70,1100"}, .no_gradient = true},
             {.inputs = {"8,1030", "1030,520"}, .no_gradient = true},
             {.inputs = {"2,3,8,33", "3,33,96"}, .no_gradient = true},
             {.inputs = {"11,13", "11,75"}, .attributes = "transpose_a=1", .smallest = true},
             {.inputs = {"21,16", "16,1300"}, .no_gradient = true},
             {.inputs = {"8,520", "8,2080"}, .attributes = "transpose_a=1", .no_gradient = true},
             {.inputs = {"3,9,33", "9,128"}, .attributes = "transpose_a=1", .no_gradient = true},
             {.inputs = {"5,12", "bfloat16 12,128"}, .no_gradient = true},
             {.inputs = {"19,12", "float16 12,136"}, .no_gradient = true},
             {.inputs = {"20,9", "9,130"}, .ranges = {"special"}, .no_gradient = true},
             {.inputs = {"520,8", "8,2120"}, .no_gradient = true}, {.inputs = {"3,0", "0,70"}},
             {.inputs = {"20,0", "0,70"}}, {.inputs = {"3,0", "4,0"}, .attributes = "transpose_b=1"},
             {.inputs = {"40,72", "24,72"}, .attributes = "transpose_b=1", .no_gradient = true},
             {.inputs = {"40,72", "72,24"}, .no_gradient = true}));

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_matmul(kn_value *a, kn_value *b, bool transpose_a, bool transpose_b) {
    if (kn_value_failed(a)) return a;
    kn_settings settings;
    kn_settings_init(&settings, a->graph, &kn_row_matmul);
    kn_settings_int(&settings, "transpose_a", transpose_a);
    kn_settings_int(&settings, "transpose_b", transpose_b);
    kn_value *inputs[2] = {a, b};
    return kn_build(&kn_row_matmul, inputs, 2, &settings);
}

/* x is (...,inputs), weight (units,inputs), bias (units); the result is (...,units). */
kn_value *kn_linear(kn_value *x, int64_t units, const kn_linear_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_linear_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(x, kn_linear_params, &given, params);
    const char *layer = kn_layer_name(graph, given.name, "linear");
    if (units < 1)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "linear %s: %lld units; expected at least 1", layer,
                             (long long)units);
    int rank = x->shape.rank;
    if (rank < 2 || !kn_dim_known(x->shape.dims[rank - 1]))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "linear %s: x is %s; expected (...,inputs) with a batch and a known number of "
                             "inputs (use flatten to merge axes)",
                             layer, kn_shape_words(graph, &x->shape));
    int64_t inputs = x->shape.dims[rank - 1];
    kn_shape weight_shape = {.dtype = x->shape.dtype, .rank = 2, .dims = {units, inputs}};
    kn_shape bias_shape = {.dtype = x->shape.dtype, .rank = 1, .dims = {units}};
    kn_value *weight =
        kn_layer_parameter(graph, layer, "weight", &weight_shape, given.weight, (double)inputs);
    kn_value *bias = NULL;
    if (!given.no_bias)
        bias = kn_layer_parameter(graph, layer, "bias", &bias_shape, given.bias, (double)inputs);
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_matmul);
    kn_settings_int(&settings, "transpose_b", 1);
    return kn_layer_product(graph, &kn_row_matmul, layer, x, weight, bias, &settings);
}
