/* Matrix products with weights (N,K) in quantized blocks: for few rows a kernel dequantizes them as it reads
 * them (cl/matmul/blocks.cl); for many, and in gradients, a previous step dequantizes some of their rows.
 * Activations may be rounded to 8 bits, so that CPUs can multiply bytes (cl/matmul/blocks_quads.cl). */
#include <inttypes.h>

#include "ops/build.h"
#include "ops/gather/blocks.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/matmul/blocks.h"
#include "ops/matmul/matmul.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_matmul_blocks;

/* Bytes of weights that are dequantized at once. */
enum { A, CODES, SLICE_BYTES = 64 << 20, MAX_SLICES = 32 };

/* a is (...,M,K), the weights uint8 (N,bytes); the result is (...,M,N). */
static kn_status shape(kn_shape_call *call) {
    const kn_shape *a = &call->inputs[A]->shape;
    kn_blocks_form form;
    if (!kn_shape_blocks(call, CODES, &form) || kn_shape_float_input(call, A)) return call->error->status;
    const int64_t bits = kn_shape_attribute(call, "activations")->integer;
    if (bits != 0 && bits != 8)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "activations is %" PRId64 "; expected 0 or 8", bits);
    if (a->dtype == KN_FLOAT64 || a->rank < 2 || a->dims[a->rank - 1] != form.columns)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "a is %s; expected float32 (...,rows,%lld)",
                             kn_shape_words_of(call, A), (long long)form.columns);
    call->outputs[0] = *a;
    call->outputs[0].dims[a->rank - 1] = form.rows;
    return KN_OK;
}

static bool rounds(const kn_node *node) {
    return kn_attribute_of(node, "activations")->integer != 0;
}

static kn_status reference(kn_reference_call *call) {
    const double *a = call->inputs[A].data;
    double *y = call->outputs[0].data;
    const int64_t k = call->inputs[A].shape.dims[call->inputs[A].shape.rank - 1];
    const int64_t n = call->inputs[CODES].shape.dims[0], m = kn_matmul_rows(&call->inputs[A].shape);
    double *weights = kn_allocate(call->host, (size_t)(n * k + m * k) + 1, sizeof *weights);
    if (!weights) return kn_fail_memory(call->error, (size_t)(n * k + m * k) * sizeof *weights);
    kn_status status = kn_reference_blocks(call, CODES, weights, 0, n);
    if (rounds(call->node)) {
        double *rounded = weights + n * k;
        kn_activations_round(a, m * k, rounded);
        a = rounded;
    }
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
                2.0 * (double)kn_matmul_rows(&node->inputs[A]->shape) * (double)form.rows *
                    (double)form.columns,
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

void kn_matmul_blocks_describe(const kn_node *node, kn_matmul_blocks_form *form) {
    const kn_shape *a = &node->inputs[A]->shape;
    kn_blocks_describe(node, CODES, &form->w);
    form->m = kn_matmul_rows(a);
    form->middle = a->dims[a->rank - 2];
    form->rows = kn_matmul_few_rows(form->m);
    form->rounds = rounds(node);
}

static bool is_exact(const kn_target *target, const kn_node *node) {
    (void)target;
    return !rounds(node);
}
static bool wide_accepts(const kn_target *target, const kn_node *node) {
    return kn_on_wide_vector(target, node) && !rounds(node);
}

kn_step *kn_matmul_blocks_begin(kn_lowering *lowering, const kn_matmul_blocks_form *form, const char *file,
                                const char *kernel) {
    kn_step *step = kn_step_begin(lowering, file, kernel);
    KN_STEP_DEFINE(step, {"KN_BLOCKS", form->w.type->number});
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"m", form->m}, {"n", form->w.rows}, {"k", form->w.columns},
                 {"blocks", form->w.blocks}, {"middle", form->middle});
    return step;
}

static kn_step *begin(kn_lowering *lowering, const kn_matmul_blocks_form *form, const char *kernel) {
    return kn_matmul_blocks_begin(lowering, form, "matmul/blocks.cl", kernel);
}

static kn_status lower_tree(kn_lowering *lowering) {
    kn_matmul_blocks_form form;
    kn_matmul_blocks_describe(lowering->node, &form);
    const size_t items =
        kn_group_items_for(lowering->target, "matmul/blocks.cl", kn_divide_up(form.w.columns, 16), 64);
    const int columns = form.rows == 1 ? 4 : 2; /* fewer for several rows, to save registers */
    kn_step *step = begin(lowering, &form, "kn_matmul_blocks");
    if (step) step->joint = "kn_matmul_blocks_joint";
    KN_STEP_DEFINE(step, {"KN_ROWS", form.rows}, {"KN_COLUMNS", columns}, {"KN_ITEMS", items});
    kn_step_epilogue(step, lowering);
    kn_step_size2(step, (size_t)kn_divide_up(form.w.rows, columns) * items,
                  (size_t)kn_divide_up(form.m, form.rows), items, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_wide(kn_lowering *lowering) {
    kn_matmul_blocks_form form;
    kn_matmul_blocks_describe(lowering->node, &form);
    const int64_t units = lowering->target->compute_units;
    const int64_t columns = kn_round_up(kn_divide_up(form.w.rows, 8 * units), WIDE_COLUMNS);
    kn_step *step = begin(lowering, &form, "kn_matmul_blocks_wide");
    if (step) step->joint = "kn_matmul_blocks_wide_joint";
    KN_STEP_DEFINE(step, {"KN_ROWS", form.rows}, {"KN_COLUMNS", WIDE_COLUMNS});
    KN_STEP_SET(step, {"item_columns", columns});
    kn_step_epilogue(step, lowering);
    kn_step_size1(step, form.m > 0 && form.w.rows > 0 ? (size_t)kn_divide_up(form.w.rows, columns) : 0, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_plain(kn_lowering *lowering) {
    kn_matmul_blocks_form form;
    kn_matmul_blocks_describe(lowering->node, &form);
    kn_step *step = begin(lowering, &form, "kn_matmul_blocks_plain");
    KN_STEP_DEFINE(step, {"KN_ACTIVATIONS", rounds(lowering->node) ? 8 : 0});
    KN_STEP_SET(step, {"count", kn_elements_of(lowering->result)});
    kn_step_size_free(step, kn_elements_of(lowering->result), lowering->target);
    return kn_step_end(step, lowering);
}

/* ---- activations that are rounded to 8 bits ------------------------------------------------------------ */

static kn_value *build(kn_value *a, kn_value *codes, const kn_block_type *type, int64_t activations) {
    kn_settings settings;
    kn_value *pair[2] = {a, codes};
    if (kn_value_failed(a)) return a;
    kn_settings_init(&settings, a->graph, &kn_row_matmul_blocks);
    kn_settings_int(&settings, "type", type->number);
    kn_settings_int(&settings, "activations", activations);
    return kn_build(&kn_row_matmul_blocks, pair, 2, &settings);
}

static kn_value *exact_product(kn_value *a, kn_value *codes, const kn_blocks_form *form) {
    return kn_matmul_rows(&a->shape) <= KN_MATMUL_FEW ? build(a, codes, form->type, 0)
                                                      : product(a, codes, form);
}

/* For devices without kernels that round activations: a node that rounds them, and the exact product. */
static kn_status substitute(kn_graph *graph, const kn_node *node, kn_value **results) {
    kn_blocks_form form;
    kn_blocks_describe(node, CODES, &form);
    results[0] = exact_product(kn_round_activations(node->inputs[A]), node->inputs[CODES], &form);
    return kn_graph_status(graph);
}

/* ---- the row ------------------------------------------------------------------------------------------ */

/* Random bytes that are small and positive as float16, too. */
#define BYTES "0..52"
#define CASE(a, codes, number)                                                                               \
    {                                                                                                        \
        .inputs = {a, "uint8 " codes}, .attributes = "type=" number, .ranges = { NULL, BYTES }               \
    }
#define ROUNDED(a, codes, number)                                                                            \
    {                                                                                                        \
        .inputs = {a, "uint8 " codes}, .attributes = "activations=8 type=" number, .ranges = {NULL, BYTES},  \
        .no_gradient = true                                                                                  \
    }

KN_OPERATOR(
    matmul_blocks, .help = "product of a (...,M,K) with weights (N,K) in quantized blocks",
    KN_ATTRIBUTES(KN_BLOCKS_TYPE, KN_INT("activations", 0, "8: a is rounded to 8 bits; 0: it is not")),
    .min_inputs = 2, .max_inputs = 2, .input_names = {"a", "codes"}, .output_names = {"c"}, .backward = true,
    .wrong = kn_nothing_wrong, .matrices = true, .shape = shape, .gradient = gradient, .reference = reference,
    .cost = cost, .substitute = substitute,
    KN_VARIANTS({.name = "panels",
                 .choice.accepts = kn_matmul_panels_accepts,
                 .lower = kn_matmul_panels_lower,
                 .choice.doubtful = true,
                 .promise.halves = {1, 1},
                 .promise.takes_epilogue = true},
                {.name = "quads",
                 .choice.accepts = kn_matmul_quads_accepts,
                 .lower = kn_matmul_quads_lower,
                 .choice.doubtful = true,
                 .promise.halves = {1, 1},
                 .promise.takes_epilogue = true},
                {.name = "wide",
                 .choice.accepts = wide_accepts,
                 .lower = lower_wide,
                 .choice.doubtful = true,
                 .promise.halves = {1, 1},
                 .promise.takes_epilogue = true},
                {.name = "tree",
                 .choice.accepts = is_exact,
                 .lower = lower_tree,
                 .promise.halves = {1, 1},
                 .promise.takes_epilogue = true},
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
        CASE("8,96", "3,54", "20"), CASE("1,2048", "131,1152", "2"), CASE("0,32", "3,18", "2"),
        {.inputs = {"1,96", "uint8 37,102"},
         .attributes = "activations=8 type=8",
         .ranges = {NULL, BYTES},
         .no_gradient = true,
         .smallest = true},
        ROUNDED("3,576", "70,612", "8"), ROUNDED("1,1024", "9,1088", "8"), ROUNDED("1,160", "21,90", "2"),
        ROUNDED("8,96", "33,60", "3"), ROUNDED("1,1120", "13,700", "3"), ROUNDED("2,224", "19,154", "6"),
        ROUNDED("4,512", "5,352", "6"), ROUNDED("1,768", "39,432", "12"), ROUNDED("5,256", "6,144", "12"),
        ROUNDED("2,512", "35,420", "14"), ROUNDED("1,256", "4,176", "13"),
        {.inputs = {"9,288", "uint8 40,306"},
         .attributes = "activations=8 type=8",
         .ranges = {NULL, BYTES},
         .no_gradient = true,
         .smallest = true},
        ROUNDED("11,256", "33,144", "12"), ROUNDED("13,512", "7,420", "14"), ROUNDED("10,96", "35,54", "2"),
        ROUNDED("3,3,64", "5,44", "6"), ROUNDED("20,128", "9,80", "3"), ROUNDED("0,32", "3,18", "2")));

kn_status kn_matmul_of_blocks(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                              kn_value **results) {
    kn_value *a = inputs[A], *codes = kn_value_in_blocks(inputs[CODES]);
    if (!codes || kn_attribute_of(node, "transpose_a")->integer ||
        !kn_attribute_of(node, "transpose_b")->integer || a->shape.rank < 2 || a->shape.dtype != KN_FLOAT32)
        return KN_OK;
    kn_blocks_form form = {.type = codes->blocks, .rows = codes->shape.dims[0]};
    form.columns = inputs[CODES]->shape.dims[1];
    results[0] = bound->rounds_activations ? build(a, codes, form.type, 8) : exact_product(a, codes, &form);
    return bound->error.status;
}
