/* Matrix products with quantized weights, which stay quantized in memory: for few rows a kernel dequantizes
 * them as it reads them; for many, where the arithmetic takes longer, a previous step dequantizes them. */
#include <inttypes.h>
#include <stdio.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_matmul_quantized;

enum { A, CODES, SCALE, ZERO, INPUTS };
/* The most rows that the kernel supports; the elements that it reads together, as in
 * cl/matmul/quantized.cl. */
enum { FEW = 8, PIECE = 16 };

typedef struct quantized_form {
    int64_t m, n, k;
    int64_t middle;             /* rows of the last matrix of a; m: of all */
    int64_t row_bytes, numbers; /* bytes of a row of codes, and the number of codes */
    int64_t blocks, block;      /* scales of a row, and the codes that share one; block 0: all */
    int bits;
    bool is_signed;
    const kn_small_float *small; /* NULL: codes are integers */
    double usual_zero;           /* zero point if there are no zero points */
    kn_value *zero;
} quantized_form;

/* Rows of all matrices of a. */
static int64_t rows_of(const kn_shape *a) {
    int64_t rows = 1;
    for (int i = 0; i < a->rank - 1; i++)
        rows *= a->dims[i];
    return rows;
}

/* `inputs` are bound: the node's, or its replacement's. */
static void describe(const kn_node *node, kn_value *const *inputs, quantized_form *form) {
    const kn_shape *a = &inputs[A]->shape, *codes = &inputs[CODES]->shape;
    *form = (quantized_form){.n = codes->dims[0],
                             .k = a->dims[a->rank - 1],
                             .middle = a->dims[a->rank - 2],
                             .row_bytes = codes->dims[1],
                             .blocks = inputs[SCALE]->shape.dims[1],
                             .block = kn_attribute_of(node, "block")->integer,
                             .bits = (int)kn_attribute_of(node, "bits")->integer,
                             .is_signed = codes->dtype == KN_INT8,
                             .small = kn_small_float_of(codes->dtype)};
    form->m = rows_of(a);
    form->usual_zero = codes->dtype == KN_UINT8 ? 1 << (form->bits - 1) : 0;
    form->numbers = form->row_bytes * (8 / form->bits);
    form->zero = node->input_count > ZERO ? inputs[ZERO] : NULL;
}

/* a is (...,M,K), codes (N,bytes), scale and zero (N,blocks); the result is (...,M,N). */
static kn_status shape(kn_shape_call *call) {
    const kn_shape *a = &call->inputs[A]->shape, *codes = &call->inputs[CODES]->shape;
    const int64_t bits = kn_shape_attribute(call, "bits")->integer,
                  block = kn_shape_attribute(call, "block")->integer;
    if (kn_shape_float_input(call, A)) return call->error->status;
    if (a->dtype == KN_FLOAT64 || a->rank < 2)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "a is %s; expected float32 (...,rows,columns)",
                             kn_shape_words_of(call, A));
    if (!call->inputs[CODES] || !call->inputs[SCALE])
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "codes or scale are missing");
    const kn_small_float *small = kn_small_float_of(codes->dtype);
    const bool whole = codes->dtype == KN_INT8 || (small && small->mantissa_bits > 0);
    if ((!whole && codes->dtype != KN_UINT8) || codes->rank != 2)
        return kn_shape_fail(call, KN_ERROR_DTYPE,
                             "codes are %s; expected uint8, int8 or a float of 8 or 4 bits (N,bytes)",
                             kn_shape_words_of(call, CODES));
    if (bits != 8 && (whole || (bits != 4 && bits != 2)))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "bits is %" PRId64 "; expected 8, or 4 or 2 for uint8",
                             bits);
    for (int i = SCALE; i < call->input_count; i++) {
        const kn_shape *own = call->inputs[i] ? &call->inputs[i]->shape : NULL;
        const kn_shape *like = &call->inputs[SCALE]->shape;
        if (own && (own->dtype != KN_FLOAT32 || own->rank != 2 || own->dims[0] != codes->dims[0] ||
                    own->dims[1] != like->dims[1]))
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "%s is %s; expected float32 (N,blocks), with N as in codes",
                                 i == SCALE ? "scale" : "zero", kn_shape_words_of(call, i));
    }
    const kn_dim k = a->dims[a->rank - 1], bytes = codes->dims[1],
                 blocks = call->inputs[SCALE]->shape.dims[1];
    if (kn_dim_known(k) && kn_dim_known(bytes) && kn_dim_known(blocks)) {
        const int64_t each = 8 / bits;
        const bool fits = block > 0 ? bytes <= INT32_MAX && block <= INT32_MAX &&
                                          blocks == kn_divide_up(k, block) && bytes * each == blocks * block
                                    : block == 0 && blocks == 1 && bytes * each >= k;
        if (!fits)
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "%" PRId64 " bytes in a row of codes and %" PRId64
                                 " scales do not match %" PRId64 " columns of a %s",
                                 bytes, blocks, k,
                                 block ? "in whole blocks with a scale each" : "with one scale (block is 0)");
    }
    call->outputs[0] = *a;
    call->outputs[0].dims[a->rank - 1] = codes->dims[0];
    return KN_OK;
}

static kn_status reference(kn_reference_call *call) {
    quantized_form form;
    describe(call->node, call->node->inputs, &form);
    const double *a = call->inputs[A].data, *codes = call->inputs[CODES].data,
                 *scale = call->inputs[SCALE].data;
    const double *zero = form.zero ? call->inputs[ZERO].data : NULL;
    double *y = call->outputs[0].data;
    const int64_t each = 8 / form.bits, mask = (1 << form.bits) - 1;
    for (int64_t i = 0; i < form.m; i++)
        for (int64_t j = 0; j < form.n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < form.k; k++) {
                const int64_t shared = j * form.blocks + (form.block ? k / form.block : 0);
                double number = codes[j * form.row_bytes + k / each];
                if (each > 1) number = (double)((int64_t)number >> k % each * form.bits & mask);
                number -= zero ? zero[shared] : form.usual_zero;
                sum += a[i * form.k + k] * number * scale[shared];
            }
            y[i * form.n + j] = sum;
        }
    return KN_OK;
}

static void cost(const kn_node *node, kn_cost *cost) {
    quantized_form form;
    describe(node, node->inputs, &form);
    kn_cost_set(node, 2.0 * (double)form.m * (double)form.n * (double)form.k, cost);
}

/* ---- many rows, and gradients: the weights as float32 ------------------------------------------------ */

/* The codes minus their zero points, (N,blocks,numbers), from bound inputs. */
static kn_value *differences(const quantized_form *form, kn_value *const *inputs) {
    kn_value *w = form->bits < 8 ? kn_unpack_bits(inputs[CODES], form->bits) : inputs[CODES];
    w = kn_reshape_to(kn_cast(w, KN_FLOAT32), 3,
                      (kn_dim[]){form->n, form->blocks, form->numbers / form->blocks});
    return form->zero ? kn_sub(w, kn_unsqueeze(form->zero, "2")) : kn_shift(w, -form->usual_zero);
}

/* The weights (N,K) from the differences. */
static kn_value *weights(const quantized_form *form, kn_value *differences, kn_value *scale) {
    kn_value *w =
        kn_reshape_to(kn_mul(differences, kn_unsqueeze(scale, "2")), 2, (kn_dim[]){form->n, form->numbers});
    return form->numbers > form->k ? kn_slice(w, 1, 0, form->k) : w;
}

static kn_status with_many_rows(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                kn_value **results) {
    if (rows_of(&inputs[A]->shape) <= FEW) return KN_OK;
    quantized_form form;
    describe(node, inputs, &form);
    results[0] = kn_matmul(inputs[A], weights(&form, differences(&form, inputs), inputs[SCALE]), false, true);
    return bound->error.status;
}

static kn_status gradient(kn_gradient_call *call) {
    kn_value *g = call->output_gradients[0], *const *inputs = call->node->inputs;
    if (!g) return KN_OK;
    quantized_form form;
    describe(call->node, call->node->inputs, &form);
    kn_value *less = differences(&form, inputs);
    if (call->wanted[A])
        call->input_gradients[A] = kn_matmul(g, weights(&form, less, inputs[SCALE]), false, false);
    const bool of_scale = call->wanted[SCALE], of_zero = form.zero && call->wanted[ZERO];
    if (!of_scale && !of_zero) return kn_gradient_status(call);
    /* By weight, (N,K), with 0 beyond the end; then by block. */
    char amounts[40];
    kn_value *slopes = kn_matmul(kn_reshape_to(g, 2, (kn_dim[]){form.m, form.n}),
                                 kn_reshape_to(inputs[A], 2, (kn_dim[]){form.m, form.k}), true, false);
    snprintf(amounts, sizeof amounts, "0,0,0,%" PRId64, form.numbers - form.k);
    if (form.numbers > form.k) slopes = kn_pad(slopes, amounts, 0);
    slopes = kn_reshape_to(slopes, 3, (kn_dim[]){form.n, form.blocks, form.numbers / form.blocks});
    if (of_scale) call->input_gradients[SCALE] = kn_sum(kn_mul(slopes, less), "2", false);
    if (of_zero) call->input_gradients[ZERO] = kn_neg(kn_mul(kn_sum(slopes, "2", false), inputs[SCALE]));
    return kn_gradient_status(call);
}

/* ---- few rows ------------------------------------------------------------------------------------------ */

static bool takes_few(const kn_node *node) {
    quantized_form form;
    describe(node, node->inputs, &form);
    return form.m <= FEW && form.block % PIECE == 0;
}
static bool tree_accepts(const kn_target *target, const kn_node *node) {
    (void)target;
    return takes_few(node);
}
static bool wide_accepts(const kn_target *target, const kn_node *node) {
    return kn_on_wide_vector(target, node) && takes_few(node);
}

static kn_step *begin(kn_lowering *lowering, const quantized_form *form, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, "matmul/quantized.cl", kernel);
    char facts[KN_SMALL_FACTS];
    KN_STEP_DEFINE(step, {"KN_BITS", form->bits}, {"KN_SIGNED", form->is_signed});
    if (form->small) kn_step_define(step, "KN_CODE_FACTS", "%s", kn_small_float_facts(form->small, facts));
    KN_STEP_DEFINE(step, {"KN_ZEROS", form->zero != NULL});
    kn_step_define_number(step, "KN_USUAL_ZERO", form->usual_zero);
    KN_STEP_DEFINE(step, {"KN_BLOCK", form->block},
                   {"KN_WHOLE", form->k % PIECE == 0 && form->row_bytes % PIECE == 0});
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"m", form->m}, {"n", form->n}, {"k", form->k}, {"row_bytes", form->row_bytes},
                 {"blocks", form->blocks}, {"middle", form->middle});
    return step;
}

/* Rows and columns that are computed together. */
static int tile_rows(const quantized_form *form) {
    return kn_matmul_few_rows(form->m);
}
static int tile_columns(int rows) {
    return rows == 1 ? 4 : 2;
}

static kn_status lower_tree(kn_lowering *lowering) {
    quantized_form form;
    describe(lowering->node, lowering->node->inputs, &form);
    const int rows = tile_rows(&form);
    const size_t items =
        kn_group_items_for(lowering->target, "matmul/quantized.cl", kn_divide_up(form.k, PIECE), 64);
    kn_step *step = begin(lowering, &form, "kn_matmul_quantized");
    KN_STEP_DEFINE(step, {"KN_ROWS", rows}, {"KN_ITEMS", items}, {"KN_WIDTH", 4});
    kn_step_epilogue(step, lowering);
    kn_step_size2(step, (size_t)kn_divide_up(form.n, tile_columns(rows)) * items,
                  (size_t)kn_divide_up(form.m, rows), items, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_wide(kn_lowering *lowering) {
    quantized_form form;
    describe(lowering->node, lowering->node->inputs, &form);
    const int64_t units = lowering->target->compute_units, rows = tile_rows(&form);
    const int64_t columns = kn_round_up(kn_divide_up(form.n, 8 * units), tile_columns((int)rows));
    kn_step *step = begin(lowering, &form, "kn_matmul_quantized_wide");
    KN_STEP_DEFINE(step, {"KN_ROWS", rows});
    KN_STEP_SET(step, {"item_columns", columns});
    kn_step_epilogue(step, lowering);
    kn_step_size1(step, form.m > 0 ? (size_t)kn_divide_up(form.n, columns) : 0, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_plain(kn_lowering *lowering) {
    quantized_form form;
    describe(lowering->node, lowering->node->inputs, &form);
    kn_step *step = begin(lowering, &form, "kn_matmul_quantized_plain");
    KN_STEP_SET(step, {"count", kn_elements_of(lowering->result)});
    kn_step_size_free(step, kn_elements_of(lowering->result), lowering->target);
    return kn_step_end(step, lowering);
}

/* ---- the row ---------------------------------------------------------------------------------------- */

#define BYTES "0..255"
#define SIGNED "-128..127"

KN_OPERATOR(
    matmul_quantized,
    .help = "product of a (...,M,K) with weights stored as codes (N,bytes): (code - zero) * scale",
    KN_ATTRIBUTES(KN_INT("bits", 8, "bits per code: 8, or 4 or 2 packed in uint8, lowest first"),
                  KN_INT("block", 0, "codes of a row that share a scale and a zero point; 0: all")),
    .min_inputs = 3, .max_inputs = 4, .input_names = {"a", "codes", "scale", "zero"}, .output_names = {"c"},
    .matrices = true, .any_type = true, .at_sizes = with_many_rows, .shape = shape, .gradient = gradient,
    .reference = reference, .cost = cost,
    KN_VARIANTS({.name = "wide",
                 .choice.accepts = wide_accepts,
                 .lower = lower_wide,
                 .choice.doubtful = true,
                 .promise.halves = {1, 1},
                 .promise.takes_epilogue = true},
                {.name = "tree",
                 .choice.accepts = tree_accepts,
                 .lower = lower_tree,
                 .promise.halves = {1, 1},
                 .promise.takes_epilogue = true},
                {.name = "plain", .lower = lower_plain, .promise.halves = {1, 1}}),
    KN_CASES(
        {.inputs = {"1,96", "uint8 7,48", "7,3"},
         .attributes = "bits=4 block=32",
         .ranges = {NULL, BYTES},
         .smallest = true},
        {.inputs = {"3,90", "uint8 19,24", "19,3", "19,3"},
         .attributes = "bits=2 block=32",
         .ranges = {NULL, BYTES, NULL, "0..3"},
         .smallest = true},
        {.inputs = {"2,3,1100", "uint8 33,1104", "33,69", "33,69"},
         .attributes = "block=16",
         .ranges = {NULL, BYTES, NULL, "0..255"},
         .no_gradient = true},
        {.inputs = {"1,2083", "int8 5,2083", "5,1"},
         .ranges = {NULL, SIGNED},
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"2,45", "float8e4m3fn 133,45", "133,1"},
         .ranges = {NULL, "-400..400"},
         .no_gradient = true},
        {.inputs = {"5,32", "float8e5m2 6,32", "6,2"}, .attributes = "block=16", .ranges = {NULL, "-8..8"}},
        {.inputs = {"7,31", "float4e2m1 9,31", "9,1", "9,1"}, .ranges = {NULL, "-6..6"}},
        {.inputs = {"1,20", "uint8 3,12", "3,3"}, .attributes = "bits=4 block=8", .ranges = {NULL, BYTES}},
        {.inputs = {"2,128", "uint8 9,32", "9,8", "9,8"},
         .attributes = "bits=2 block=16",
         .ranges = {NULL, BYTES, NULL, "0..3"}},
        {.inputs = {"4,64", "int8 6,64", "6,1"}, .ranges = {NULL, SIGNED}},
        {.inputs = {"1,32", "uint8 5,32", "5,2"}, .attributes = "block=16", .ranges = {NULL, BYTES}},
        {.inputs = {"0,16", "uint8 3,16", "3,1"}, .ranges = {NULL, BYTES}}));

kn_value *kn_matmul_quantized(kn_value *a, kn_value *codes, kn_value *scale, kn_value *zero, int bits,
                              int64_t block) {
    kn_value *inputs[INPUTS] = {a, codes, scale, zero};
    kn_settings settings;
    for (int i = 0; i < ZERO; i++)
        if (kn_value_failed(inputs[i])) return kn_build(&kn_row_matmul_quantized, inputs, ZERO, NULL);
    kn_settings_init(&settings, a->graph, &kn_row_matmul_quantized);
    kn_settings_int(&settings, "bits", bits);
    kn_settings_int(&settings, "block", block);
    return kn_build(&kn_row_matmul_quantized, inputs, zero ? INPUTS : ZERO, &settings);
}
