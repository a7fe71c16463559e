/* Matrix products with weights (N,K) in quantized blocks: for few rows a kernel dequantizes them as it reads
 * them (cl/matmul/blocks.cl); for many, and in gradients, a previous step dequantizes some of their rows. */
#include "ops/build.h"
#include "ops/gather/blocks.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_matmul_blocks;

/* The most rows that the kernel supports; bytes of weights that are dequantized at once. */
enum { A, CODES, FEW = 8, SLICE_BYTES = 64 << 20, MAX_SLICES = 32 };

static int64_t rows_of(const kn_shape *a) {
    int64_t rows = 1;
    for (int i = 0; i < a->rank - 1; i++)
        rows *= a->dims[i];
    return rows;
}

/* a is (...,M,K), the weights uint8 (N,bytes); the result is (...,M,N). */
static kn_status shape(kn_shape_call *call) {
    const kn_shape *a = &call->inputs[A]->shape;
    kn_blocks_form form;
    if (!kn_shape_blocks(call, CODES, &form) || kn_shape_float_input(call, A)) return call->error->status;
    if (a->dtype == KN_FLOAT64 || a->rank < 2 || a->dims[a->rank - 1] != form.columns)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "a is %s; expected float32 (...,rows,%lld)",
                             kn_shape_words_of(call, A), (long long)form.columns);
    call->outputs[0] = *a;
    call->outputs[0].dims[a->rank - 1] = form.rows;
    return KN_OK;
}

static kn_status reference(kn_reference_call *call) {
    const double *a = call->inputs[A].data;
    double *y = call->outputs[0].data;
    const int64_t k = call->inputs[A].shape.dims[call->inputs[A].shape.rank - 1];
    const int64_t n = call->inputs[CODES].shape.dims[0], m = rows_of(&call->inputs[A].shape);
    double *weights = kn_allocate(call->host, (size_t)(n * k) + 1, sizeof *weights);
    if (!weights) return kn_fail_memory(call->error, (size_t)(n * k) * sizeof *weights);
    kn_status status = kn_reference_blocks(call, CODES, weights, 0, n);
    for (int64_t i = 0; i < m * n && status == KN_OK; i++)
        for (int64_t l = 0; l < k; l++)
            y[i] += a[i / n * k + l] * weights[i % n * k + l];
    kn_release(call->host, weights);
    return status;
}

static void cost(const kn_node *node, kn_cost *cost) {
    kn_blocks_form form;
    kn_blocks_describe(node, CODES, &form);
    kn_cost_set(node,
                2.0 * (double)rows_of(&node->inputs[A]->shape) * (double)form.rows * (double)form.columns,
                cost);
}

/* ---- many rows, and gradients ------------------------------------------------------------------------- */

/* Rows of weights that are dequantized at once: in at most MAX_SLICES slices. */
static int64_t slice_rows(const kn_blocks_form *form) {
    const int64_t most = SLICE_BYTES / (int64_t)sizeof(float) / (form->columns ? form->columns : 1);
    const int64_t least = kn_round_up(kn_divide_up(form->rows, MAX_SLICES), 64);
    if (most >= form->rows) return form->rows;
    return most / 64 * 64 > least ? most / 64 * 64 : least;
}

/* a · Wᵀ, by slices of rows of W, which are columns of the result. */
static kn_value *product(kn_value *a, kn_value *codes, const kn_blocks_form *form) {
    const int64_t rows = slice_rows(form);
    kn_value *parts[MAX_SLICES];
    size_t count = 0;
    for (int64_t first = 0; first < form->rows || !count; first += rows) {
        const int64_t now = form->rows - first < rows ? form->rows - first : rows;
        parts[count++] = kn_matmul(a, kn_widen_rows(codes, form->type, first, now), false, true);
    }
    return count == 1 ? parts[0] : kn_concat(parts, count, a->shape.rank - 1);
}

/* g · W, the sum over slices of rows of W. */
static kn_value *product_back(kn_value *g, kn_value *codes, const kn_blocks_form *form) {
    const int64_t rows = slice_rows(form);
    const int axis = g->shape.rank - 1;
    kn_value *sum = NULL;
    for (int64_t first = 0; first < form->rows || !sum; first += rows) {
        const int64_t now = form->rows - first < rows ? form->rows - first : rows;
        kn_value *part = now < form->rows ? kn_slice(g, axis, first, first + now) : g;
        part = kn_matmul(part, kn_widen_rows(codes, form->type, first, now), false, false);
        sum = sum ? kn_add(sum, part) : part;
        if (kn_value_failed(sum)) return sum;
    }
    return sum;
}

static kn_status gradient(kn_gradient_call *call) {
    kn_blocks_form form;
    kn_blocks_describe(call->node, CODES, &form);
    if (call->output_gradients[0] && call->wanted[A])
        call->input_gradients[A] = product_back(call->output_gradients[0], call->node->inputs[CODES], &form);
    return kn_gradient_status(call);
}

/* ---- few rows ----------------------------------------------------------------------------------------- */

/* With four columns, most types take 1.5 times as long on PoCL. */
enum { WIDE_COLUMNS = 2 };

typedef struct few_form {
    kn_blocks_form w;
    int64_t m, middle; /* rows; of the last matrix */
    int rows;          /* that are computed together */
} few_form;

static void describe(const kn_node *node, few_form *form) {
    const kn_shape *a = &node->inputs[A]->shape;
    kn_blocks_describe(node, CODES, &form->w);
    form->m = rows_of(a);
    form->middle = a->dims[a->rank - 2];
    form->rows = kn_matmul_few_rows(form->m);
}

static kn_step *begin(kn_lowering *lowering, const few_form *form, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, "matmul/blocks.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_BLOCKS", form->w.type->number});
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"m", form->m}, {"n", form->w.rows}, {"k", form->w.columns},
                 {"blocks", form->w.blocks}, {"middle", form->middle});
    return step;
}

static kn_status lower_tree(kn_lowering *lowering) {
    few_form form;
    describe(lowering->node, &form);
    const size_t items =
        kn_group_items_for(lowering->target, "matmul/blocks.cl", kn_divide_up(form.w.columns, 16), 64);
    const int columns = form.rows == 1 ? 4 : 2; /* fewer for several rows, to save registers */
    kn_step *step = begin(lowering, &form, "kn_matmul_blocks");
    KN_STEP_DEFINE(step, {"KN_ROWS", form.rows}, {"KN_COLUMNS", columns}, {"KN_ITEMS", items});
    kn_step_epilogue(step, lowering);
    kn_step_size2(step, (size_t)kn_divide_up(form.w.rows, columns) * items,
                  (size_t)kn_divide_up(form.m, form.rows), items, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_wide(kn_lowering *lowering) {
    few_form form;
    describe(lowering->node, &form);
    const int64_t units = lowering->target->compute_units;
    const int64_t columns = kn_round_up(kn_divide_up(form.w.rows, 8 * units), WIDE_COLUMNS);
    kn_step *step = begin(lowering, &form, "kn_matmul_blocks_wide");
    KN_STEP_DEFINE(step, {"KN_ROWS", form.rows}, {"KN_COLUMNS", WIDE_COLUMNS});
    KN_STEP_SET(step, {"item_columns", columns});
    kn_step_epilogue(step, lowering);
    kn_step_size1(step, form.m > 0 && form.w.rows > 0 ? (size_t)kn_divide_up(form.w.rows, columns) : 0, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_plain(kn_lowering *lowering) {
    few_form form;
    describe(lowering->node, &form);
    kn_step *step = begin(lowering, &form, "kn_matmul_blocks_plain");
    KN_STEP_SET(step, {"count", kn_elements_of(lowering->result)});
    kn_step_size_free(step, kn_elements_of(lowering->result), lowering->target);
    return kn_step_end(step, lowering);
}

/* ---- the row ------------------------------------------------------------------------------------------ */

/* Random bytes that are small and positive as float16, too. */
#define BYTES "0..52"
#define CASE(a, codes, number)                                                                               \
    {                                                                                                        \
        .inputs = {a, "uint8 " codes}, .attributes = "type=" number, .ranges = { NULL, BYTES }               \
    }

KN_OPERATOR(
    matmul_blocks, .help = "product of a (...,M,K) with weights (N,K) in quantized blocks",
    KN_ATTRIBUTES(KN_BLOCKS_TYPE), .min_inputs = 2, .max_inputs = 2, .input_names = {"a", "codes"},
    .output_names = {"c"}, .backward = true, .wrong = kn_nothing_wrong, .matrices = true, .shape = shape,
    .gradient = gradient, .reference = reference, .cost = cost,
    KN_VARIANTS(
        {.name = "wide",
         .choice.accepts = kn_on_wide_vector,
         .lower = lower_wide,
         .choice.doubtful = true,
         .promise.halves = {1, 1},
         .promise.takes_epilogue = true},
        {.name = "tree", .lower = lower_tree, .promise.halves = {1, 1}, .promise.takes_epilogue = true},
        {.name = "plain", .lower = lower_plain, .promise.halves = {1, 1}}),
    KN_CASES(
        {.inputs = {"1,96", "uint8 7,54"}, .attributes = "type=2", .ranges = {NULL, BYTES}, .smallest = true},
        {.inputs = {"3,64", "uint8 19,68"},
         .attributes = "type=8",
         .ranges = {NULL, BYTES},
         .smallest = true},
        CASE("1,32", "5,20", "3"), CASE("2,96", "7,54", "2"), CASE("2,3,64", "33,44", "6"),
        CASE("1,64", "9,48", "7"), CASE("1,512", "7,168", "10"), CASE("1,256", "6,110", "11"),
        CASE("5,256", "7,144", "12"), CASE("1,256", "7,176", "13"), CASE("1,512", "9,420", "14"),
        CASE("8,96", "3,54", "20"), CASE("1,2048", "131,1152", "2"), CASE("0,32", "3,18", "2")));

kn_status kn_matmul_of_blocks(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                              kn_value **results) {
    kn_value *a = inputs[A], *codes = kn_value_in_blocks(inputs[CODES]);
    if (!codes || kn_attribute_of(node, "transpose_a")->integer ||
        !kn_attribute_of(node, "transpose_b")->integer || a->shape.rank < 2 || a->shape.dtype != KN_FLOAT32)
        return KN_OK;
    kn_value *pair[2] = {a, codes};
    kn_blocks_form form = {.type = codes->blocks, .rows = codes->shape.dims[0]};
    form.columns = inputs[CODES]->shape.dims[1];
    results[0] = rows_of(&a->shape) <= FEW ? kn_build_blocks(&kn_row_matmul_blocks, pair, 2, codes->blocks)
                                           : product(a, codes, &form);
    return bound->error.status;
}
