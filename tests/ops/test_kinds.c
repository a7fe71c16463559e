/* Kernels that this device would not use: different vector widths, many threads, 64-bit indices, matrix
 * units, small blocks of memory. */
#include "device_support.h"

#include <koine/koine.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = KN_KERNELS_CPU, MANY = KN_KERNELS_GPU, FORCED_OPERATORS = 96 };

/* ---- forced kernels ---------------------------------------------------------------------------- */

typedef struct forced {
    const char *name;
    int kind, width, registers;
    bool wide_indices, small_blocks, local_is_global;
    bool long_simulated;           /* a simulator would take minutes */
    const char *operators, *quick; /* quick: those that run without a part, if any */
    const char *variants;
    const char *matrix_unit;
    kn_precision precision;
} forced;

/* One kernel of each family that depends on it. */
static const char wide_kernels[] =
    "wide,first,first_padded,wide_first,wide_last,wide_padded,depthwise_wide,grouped,pointwise,window";
static const char vectors[] = "sum,matmul,conv2d,max_pool,softmax,transpose,add";

/* Products and convolutions by a matrix unit. */
#define MATRIX(tile, unit, type, few)                                                                        \
    .operators = "matmul,conv2d,conv2d_data,conv2d_weight", .quick = few, .variants = "matrix" tile,         \
    .matrix_unit = unit, .precision = KN_PRECISION_##type

/* Convolutions of blocked images by a matrix unit. */
#define BLOCKED(tile, unit, type, few)                                                                       \
    .operators = "conv2d,conv2d_data,conv2d_weight", .quick = few, .variants = "matrix_blocked" tile,        \
    .matrix_unit = unit, .precision = KN_PRECISION_##type

/* Float32 products by a unit for bfloat16. */
#define SPLIT(tile, unit, few)                                                                               \
    .operators = "matmul,conv2d,conv2d_data,conv2d_weight", .quick = few, .variants = "matrix_split" tile,   \
    .matrix_unit = unit

/* 8-bit integers. */
#define INTEGERS(tile, unit, few)                                                                            \
    .operators = "matmul_integer", .quick = few, .variants = "matrix" tile, .matrix_unit = unit

/* The same for attention, which has small cases of all its features. */
#define ATTENTION(unit, type, few)                                                                           \
    .operators = "attention,attention_gradient,attention_packed_gradient,attention_dropout", .quick = few,   \
    .variants = "matrix", .matrix_unit = unit, .precision = KN_PRECISION_##type

/* And for recurrences, whose smallest cases of lstm are the ones that read four numbers at a time. */
#define RECURRENT(unit, type, few)                                                                           \
    .operators = "lstm,lstm_gradient,gru,gru_gradient,rnn,rnn_gradient", .quick = few, .variants = "matrix", \
    .matrix_unit = unit, .precision = KN_PRECISION_##type

static const forced forcings[] = {
    {"vectors of 4", WIDE, 4, .operators = vectors, .quick = "sum,matmul,softmax,add",
     .variants = wide_kernels},
    {"vectors of 8", WIDE, 8, .operators = vectors, .quick = "max_pool,transpose,add",
     .variants = wide_kernels},
    {"vectors of 16", WIDE, 16, .operators = vectors, .quick = "sum,transpose", .variants = wide_kernels},
    {"64-bit indices of vectors", WIDE, .wide_indices = true, .operators = "mul,sum,matmul,softmax,pad",
     .quick = "mul,sum,pad", .variants = wide_kernels},
    {"64-bit indices of many threads", MANY, .wide_indices = true, .operators = "mul,sum,matmul,conv2d",
     .quick = "mul,sum,matmul"},
    {"many sums a work-item", MANY, .registers = 256, .operators = "matmul,conv2d,conv2d_data",
     .quick = "matmul,conv2d_data"},
    {"sums without local memory", MANY, .local_is_global = true, .operators = "matmul", .quick = "matmul",
     .variants = "direct"},
    {"sums of 16-bit numbers without local memory", MANY, .local_is_global = true, .operators = "matmul",
     .quick = "", .variants = "direct", .precision = KN_PRECISION_FLOAT16},
    {"convolutions without local memory", MANY, .local_is_global = true,
     .operators = "conv2d,conv2d_data,conv2d_weight", .quick = "conv2d,conv2d_data,conv2d_weight",
     .variants = "direct"},
    {"convolutions of 16-bit numbers without local memory", MANY, .local_is_global = true,
     .operators = "conv2d,conv2d_data,conv2d_weight", .quick = "", .variants = "direct",
     .precision = KN_PRECISION_FLOAT16},
    {"mma in bfloat16", MANY, MATRIX("", "emulated-mma", BFLOAT16, "matmul")},
    {"mma in float16", MANY, MATRIX(":64x64x32", "emulated-mma", FLOAT16, "conv2d_weight")},
    {"mma8 in float16", MANY, MATRIX(":64x64x32", "emulated-mma8", FLOAT16, "matmul")},
    {"mma in tf32", MANY, MATRIX("", "emulated-mma", TF32, "conv2d")},
    {"small mma in tf32", MANY, MATRIX(":64x64x16", "emulated-mma", TF32, "")},
    {"wmma in float16", MANY, MATRIX("", "emulated-wmma", FLOAT16, "")},
    {"wmma12 in bfloat16", MANY, MATRIX(":64x64x32", "emulated-wmma12", BFLOAT16, "conv2d_data")},
    {"mfma in float16", MANY, MATRIX("", "emulated-mfma", FLOAT16, "")},
    {"small mfma in bfloat16", MANY, MATRIX(":64x64x32", "emulated-mfma", BFLOAT16, "conv2d_weight")},
    {"dpas8 in bfloat16", MANY, MATRIX("", "emulated-dpas8", BFLOAT16, "conv2d_data")},
    {"dpas16 in float16", MANY, MATRIX(":64x64x32", "emulated-dpas16", FLOAT16, "")},
    {"blocked by mma in bfloat16", MANY, BLOCKED(":128x128x32", "emulated-mma", BFLOAT16, "conv2d_weight")},
    {"blocked by small mma in float16", MANY, BLOCKED(":64x64x32", "emulated-mma", FLOAT16, "conv2d_data")},
    {"blocked by wmma in bfloat16", MANY, BLOCKED(":64x64x32", "emulated-wmma", BFLOAT16, "")},
    {"blocked by wmma12 in float16", MANY, BLOCKED("", "emulated-wmma12", FLOAT16, "conv2d")},
    {"blocked by mfma in bfloat16", MANY, BLOCKED("", "emulated-mfma", BFLOAT16, "")},
    {"blocked by small mfma in float16", MANY, BLOCKED(":64x64x32", "emulated-mfma", FLOAT16, "")},
    {"blocked by dpas8 in bfloat16", MANY, BLOCKED("", "emulated-dpas8", BFLOAT16, "")},
    {"blocked by dpas16 in float16", MANY, BLOCKED(":64x64x32", "emulated-dpas16", FLOAT16, "")},
    {"split for mma", MANY, SPLIT("", "emulated-mma", "")},
    {"split for small mma", MANY, SPLIT(":64x64x16", "emulated-mma", "matmul")},
    {"split for wmma", MANY, SPLIT(":64x64x16", "emulated-wmma", "conv2d_weight")},
    {"split for wmma12", MANY, SPLIT("", "emulated-wmma12", "")},
    {"split for mfma", MANY, SPLIT(":64x64x16", "emulated-mfma", "")},
    {"split for dpas8", MANY, SPLIT("", "emulated-dpas8", "conv2d_data")},
    {"split for dpas16", MANY, SPLIT(":64x64x16", "emulated-dpas16", "conv2d"), .long_simulated = true},
    {"integers for mma", MANY, INTEGERS("", "emulated-mma", "matmul_integer")},
    {"integers for small mma", MANY, INTEGERS(":64x64x32", "emulated-mma", "")},
    {"integers for wmma", MANY, INTEGERS(":64x64x32", "emulated-wmma", "")},
    {"integers for wmma12", MANY, INTEGERS("", "emulated-wmma12", "")},
    {"integers for mfma", MANY, INTEGERS(":64x64x32", "emulated-mfma", "")},
    {"integers for dpas8", MANY, INTEGERS("", "emulated-dpas8", "matmul_integer")},
    {"integers for dpas16", MANY, INTEGERS(":64x64x32", "emulated-dpas16", "matmul_integer")},
    {"attention by mma in bfloat16", MANY,
     ATTENTION("emulated-mma", BFLOAT16, "attention,attention_gradient")},
    {"attention by wmma in float16", MANY, ATTENTION("emulated-wmma", FLOAT16, "attention_packed_gradient")},
    {"attention by wmma12 in bfloat16", MANY, ATTENTION("emulated-wmma12", BFLOAT16, "")},
    {"attention by mfma in float16", MANY, ATTENTION("emulated-mfma", FLOAT16, "")},
    {"attention by dpas8 in bfloat16", MANY, ATTENTION("emulated-dpas8", BFLOAT16, "attention")},
    {"attention by dpas16 in float16", MANY, ATTENTION("emulated-dpas16", FLOAT16, "")},
    {"recurrences by mma in bfloat16", MANY, RECURRENT("emulated-mma", BFLOAT16, "lstm")},
    {"recurrences by wmma in float16", MANY, RECURRENT("emulated-wmma", FLOAT16, "")},
    {"recurrences by wmma12 in bfloat16", MANY, RECURRENT("emulated-wmma12", BFLOAT16, "")},
    {"recurrences by mfma in float16", MANY, RECURRENT("emulated-mfma", FLOAT16, "")},
    {"recurrences by dpas8 in bfloat16", MANY, RECURRENT("emulated-dpas8", BFLOAT16, "gru_gradient")},
    {"recurrences by dpas16 in float16", MANY, RECURRENT("emulated-dpas16", FLOAT16, "")},
    {"amx in bfloat16", WIDE, 16, .operators = "matmul", .quick = "matmul", .variants = "amx",
     .matrix_unit = "emulated-amx", .precision = KN_PRECISION_BFLOAT16},
    {"split for amx", WIDE, 16, .operators = "matmul", .quick = "matmul", .variants = "amx_split",
     .matrix_unit = "emulated-amx"},
    {"blocks of 16 MiB", .small_blocks = true, .operators = "add,neg", .quick = "add,neg"},
};

/* Whether the device gets kernels for wide vectors by itself. The emulated tile registers of processors need
 * it: their loops are long, and go wrong on some others. */
static bool is_wide(void) {
    kn_context *context = device_open(NULL);
    const bool wide = kn_context_capabilities(context)->wide_vector;
    device_close(&context);
    return wide;
}

/* Whether operator-cases has run all cases with these kernels already. */
static bool is_usual(const forced *forcing) {
    kn_context *context = device_open(NULL);
    const kn_capabilities *device = kn_context_capabilities(context);
    bool usual = forcing->width && !forcing->matrix_unit && device->wide_vector &&
                 device->vector_width == forcing->width;
    device_close(&context);
    return usual;
}

static test_part wanted;

/* Writes the operators of the part that is wanted, or the quick ones; returns their number. */
static int choose_operators(const forced *forcing, char *chosen, size_t bytes) {
    int count = 0;
    char words[FORCED_OPERATORS];
    snprintf(words, sizeof words, "%s", wanted.parts ? forcing->operators : forcing->quick);
    size_t number = (size_t)(forcing - forcings), used = 0;
    for (char *word = strtok(words, ","); word; word = strtok(NULL, ","), number++) {
        if (wanted.parts && !test_part_has(wanted, number)) continue;
        used += (size_t)snprintf(chosen + used, bytes - used, "%s%s", count++ ? "," : "", word);
    }
    return count;
}

static void forced_kernels_are_right(void **state) {
    const forced *forcing = *state;
    char operators[FORCED_OPERATORS];
    const int count = choose_operators(forcing, operators, sizeof operators);
    if (!count) skip_because("another part has its operators");
    if (forcing->kind == WIDE && forcing->matrix_unit && !is_wide())
        skip_because("the tile registers of processors, on a device with many threads");
    if (is_usual(forcing)) skip_because("the default of this device, which operator-cases tests");
    if (test_cases_wanted() == TEST_SMALLEST && (forcing->width > 4 || forcing->long_simulated))
        skip_because(TOO_LONG_FOR_A_SIMULATOR);
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = forcing->kind;
    params.trust_claims = forcing->kind == WIDE; /* short loops are right everywhere */
    debug.vector_width = forcing->width;
    debug.item_registers = forcing->registers;
    debug.wide_indices = forcing->wide_indices;
    debug.local_is_global = forcing->local_is_global;
    params.matrix_unit = forcing->matrix_unit;
    if (forcing->small_blocks) debug.largest_block_bytes = 16 << 20;
    kn_context *context = device_open(&params);
    const kn_capabilities *device = kn_context_capabilities(context);
    if (forcing->kind) assert_int_equal(device->wide_vector, forcing->kind == WIDE);
    if (forcing->width) assert_int_equal(device->vector_width, forcing->width);
    if (forcing->small_blocks) assert_true(device->largest_block_bytes <= 16 << 20);
    verify_outcome seen = {.right = 0};
    kn_verify_params verify;
    kn_verify_params_init(&verify);
    verify.operators = operators;
    verify.variants = forcing->variants;
    verify.precision = forcing->precision;
    verify.thoroughness = 2;
    verify.user = &seen;
    verify.report = take_verify_result;
    kn_status status = kn_verify(context, &verify, NULL, NULL);
    if (status != KN_OK || seen.failures[0]) fail_msg("%s%s", kn_status_name(status), seen.failures);
    assert_true(seen.right >= count); /* at least one kernel of each */
    /* A kernel that computes wrongly would be replaced, and never compared. */
    assert_int_equal(device_counts(context).variants_refused, 0);
    device_close(&context);
}

/* Computes y with many threads on this unit, or with tile registers, in which no kernel may be refused.
 * switches: as kn_session_params has them, or NULL. Destroys the graph. */
static void run_with_unit(const char *unit, kn_precision precision, const char *switches, kn_graph **graph,
                          kn_value *y, const kn_feed *feed, kn_fetch *fetch) {
    kn_context_params params = device_params();
    const bool tiles = !strcmp(unit, "emulated-amx");
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = tiles ? KN_KERNELS_CPU : KN_KERNELS_GPU;
    debug.vector_width = tiles ? 16 : 0;
    params.matrix_unit = unit;
    kn_context *context = device_open(&params);
    kn_session_params how;
    kn_session_params_init(&how);
    how.precision = precision;
    how.switches = switches;
    kn_session *session = kn_session_create(context, &y, 1, &how);
    kn_graph_destroy(graph);
    if (kn_session_run(session, feed, 1, fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
    assert_int_equal(device_counts(context).variants_refused, 0);
    kn_session_destroy(&session);
    device_close(&context);
}

/* A product or a convolution of a network takes the unit where results have 16 bits: weights of 1 + 2^-9 are
 * rounded to 1 then. In float32, and without the unit, they are not. With TF32 weights of 1 + 2^-11 are
 * rounded up to 1 + 2^-10, where the unit multiplies it. */
static void networks_take_the_matrix_unit(void **state) {
    static const struct {
        const char *unit;
        kn_precision precision;
        float weight, result;
    } cases[] = {{"emulated-mma", KN_PRECISION_BFLOAT16, 1 + 0x1p-9f, 32},
                 {"emulated-mma", KN_PRECISION_FLOAT32, 1 + 0x1p-9f, 32.0625f},
                 {"none", KN_PRECISION_BFLOAT16, 1 + 0x1p-9f, 32.0625f},
                 {"emulated-mma", KN_PRECISION_TF32, 1 + 0x1p-11f, 32.03125f},
                 {"emulated-mfma", KN_PRECISION_TF32, 1 + 0x1p-11f, 32.015625f}};
    enum { ROWS = 8, DEPTH = 32, COLUMNS = 24 };
    float weights[DEPTH * COLUMNS], given[ROWS * DEPTH], got[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * DEPTH; i++)
        given[i] = 1;
    for (size_t c = 0; c < 2 * sizeof cases / sizeof *cases; c++) {
        const bool images = c % 2;
        for (int i = 0; i < DEPTH * COLUMNS; i++)
            weights[i] = cases[c / 2].weight;
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, images ? "1,32,2,4" : "8,32");
        kn_value *w = kn_constant(graph, KN_FLOAT32, images ? "24,32,1,1" : "32,24", weights, sizeof weights);
        kn_value *y = kn_name(
            images ? kn_conv2d(kn_relu(x), w, NULL, NULL) : kn_matmul(kn_relu(x), w, false, false), "y");
        kn_feed feed = {"x", given, sizeof given};
        kn_fetch fetch = {"y", got, sizeof got};
        run_with_unit(cases[c / 2].unit, cases[c / 2].precision, NULL, &graph, y, &feed, &fetch);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            if (got[i] != cases[c / 2].result)
                fail_msg("case %zu, element %d: %g, expected %g", c, i, (double)got[i],
                         (double)cases[c / 2].result);
    }
}

/* Well spread, by the golden ratio. */
static float between_1_and_2(int number) {
    const double spread = number * 0.6180339887498949;
    return (float)(1 + spread - (int)spread);
}

/* A product of float32 that is split, x (64,32) by w (32,48), is within 3 u^2 of the right one, where u =
 * 2^-8 is what rounding to bfloat16 changes; and farther from it than float32 is. Of each row of x one number
 * is not 0, so that each result is one product. */
static void split_products_are_near(void **state) {
    static const char *const cases[][2] = {{"emulated-mma", "matmul=matrix_split"},
                                           {"emulated-wmma", "matmul=matrix_split"},
                                           {"emulated-dpas8", "matmul=matrix_split"},
                                           {"emulated-amx", "matmul=amx_split"}};
    enum { ROWS = 64, DEPTH = 32, COLUMNS = 48 };
    float weights[DEPTH][COLUMNS], given[ROWS][DEPTH] = {{0}}, got[ROWS][COLUMNS];
    for (int k = 0; k < DEPTH; k++)
        for (int j = 0; j < COLUMNS; j++)
            weights[k][j] = between_1_and_2(k * COLUMNS + j);
    for (int i = 0; i < ROWS; i++)
        given[i][i % DEPTH] = between_1_and_2(DEPTH * COLUMNS + i);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (!strcmp(cases[c][0], "emulated-amx") && !is_wide()) continue;
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "64,32");
        kn_value *w = kn_constant(graph, KN_FLOAT32, "32,48", weights, sizeof weights);
        kn_value *y = kn_name(kn_matmul(x, w, false, false), "y");
        kn_feed feed = {"x", given, sizeof given};
        kn_fetch fetch = {"y", got, sizeof got};
        run_with_unit(cases[c][0], KN_PRECISION_FLOAT32, cases[c][1], &graph, y, &feed, &fetch);
        double largest = 0;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) {
                const double right = (double)given[i][i % DEPTH] * (double)weights[i % DEPTH][j];
                const double error = fabs(got[i][j] / right - 1);
                if (!(error <= 3 * 0x1p-16 + 0x1p-23))
                    fail_msg("%s, result %d,%d: %.9g, expected %.9g", cases[c][0], i, j, (double)got[i][j],
                             right);
                if (error > largest) largest = error;
            }
        if (!(largest > 0x1p-21)) fail_msg("%s: as near as float32: %g", cases[c][0], largest);
    }
}

/* Blocked images give the same results as plain images, with epilogue operands that are images or the same
 * for all pixels, and with partial sums. All numbers are small integers, which are exact. */
static void blocked_images_give_the_same(void **state) {
    enum {
        CHANNELS = 64,
        SIDE = 5,
        FILTER = CHANNELS * CHANNELS * 9,
        RESULTS = 24 * (SIDE - 1) * (SIDE - 1)
    };
    static float wide[FILTER], narrow[24 * CHANNELS], bias[CHANNELS], given[CHANNELS * SIDE * SIDE],
        got[2][RESULTS];
    for (int i = 0; i < FILTER; i++)
        wide[i] = i % 61 ? 0 : (float)(i % 3 - 1);
    for (int i = 0; i < 24 * CHANNELS; i++)
        narrow[i] = i % 17 ? 0 : (float)(i % 5 - 2);
    for (int i = 0; i < CHANNELS; i++)
        bias[i] = (float)(i % 7 - 3);
    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
        given[i] = (float)(i % 11 - 5);
    int different = 0;
    for (int plain = 0; plain < 2; plain++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_relu(kn_input(graph, "x", KN_FLOAT32, "1,64,5,5"));
        kn_value *w = kn_constant(graph, KN_FLOAT32, "64,64,3,3", wide, sizeof wide);
        kn_value *v = kn_constant(graph, KN_FLOAT32, "24,64,1,1", narrow, sizeof narrow);
        kn_value *b = kn_constant(graph, KN_FLOAT32, "64,1,1", bias, sizeof bias);
        const kn_conv_params same = {.size = sizeof same, .padding = {1}};
        const kn_pool_params near = {.size = sizeof near, .stride = {1, 1}};
        kn_value *h = kn_relu(kn_add(kn_add(kn_conv2d(x, w, NULL, &same), b), x));
        kn_value *y = kn_name(kn_conv2d(kn_max_pool(h, 2, &near), v, NULL, NULL), "y");
        kn_feed feed = {"x", given, sizeof given};
        kn_fetch fetch = {"y", got[plain], sizeof got[plain]};
        run_with_unit("emulated-mma", KN_PRECISION_BFLOAT16, plain ? "conv2d=plain" : "conv2d=matrix_blocked",
                      &graph, y, &feed, &fetch);
    }
    for (int i = 0; i < RESULTS; i++) {
        if (got[0][i] != got[1][i])
            fail_msg("element %d: %g, expected %g", i, (double)got[0][i], (double)got[1][i]);
        different += got[0][i] != got[0][0];
    }
    assert_true(different > RESULTS / 2);
}

/* A product of a (K,M), transposed, by b (K,N), whose kernel reads them in place, adds the rows of a too. All
 * numbers are small integers, which are exact. */
static void rows_are_summed_without_local_memory(void **state) {
    static const struct {
        int depth, rows, columns;
        const char *a, *b;
    } cases[] = {
        {37, 13, 9, "37,13", "37,9"}, {38, 12, 20, "38,12", "38,20"}, {600, 36, 4, "600,36", "600,4"}};
    enum { MOST = 600 * 36, RESULTS = 36 * 20 };
    static float a[MOST], b[MOST], product[RESULTS], sums[RESULTS];
    for (int i = 0; i < MOST; i++) {
        a[i] = (float)(i % 7 - 3);
        b[i] = (float)(i % 5 - 1);
    }
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    debug.local_is_global = true;
    kn_context *context = device_open(&params);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int depth = cases[c].depth, rows = cases[c].rows, columns = cases[c].columns;
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "a", KN_FLOAT32, cases[c].a),
                 *w = kn_input(graph, "b", KN_FLOAT32, cases[c].b);
        kn_value *y[2] = {kn_name(kn_matmul(x, w, true, false), "y"), kn_name(kn_sum(x, "0", false), "s")};
        kn_session_params how;
        kn_session_params_init(&how);
        how.switches = "matmul=direct";
        kn_session *session = kn_session_create(context, y, 2, &how);
        kn_graph_destroy(&graph);
        const kn_feed feeds[2] = {{"a", a, (size_t)(depth * rows) * sizeof *a},
                                  {"b", b, (size_t)(depth * columns) * sizeof *b}};
        kn_fetch fetches[2] = {{"y", product, (size_t)(rows * columns) * sizeof *a},
                               {"s", sums, (size_t)rows * sizeof *a}};
        if (kn_session_run(session, feeds, 2, fetches, 2) != KN_OK) fail_msg("%s", kn_session_error(session));
        char *plan = kn_session_plan_text(session);
        assert_non_null(strstr(plan, "kn_matmul"));
        assert_null(strstr(plan, "kn_reduce"));
        kn_session_free_text(session, plan);
        kn_session_destroy(&session);
        for (int i = 0; i < rows; i++) {
            float sum = 0;
            for (int k = 0; k < depth; k++)
                sum += a[k * rows + i];
            if (sums[i] != sum) fail_msg("case %zu, sum %d: %g, not %g", c, i, (double)sums[i], (double)sum);
            for (int j = 0; j < columns; j++) {
                float right = 0;
                for (int k = 0; k < depth; k++)
                    right += a[k * rows + i] * b[k * columns + j];
                if (product[i * columns + j] != right)
                    fail_msg("case %zu, result %d,%d: %g, not %g", c, i, j, (double)product[i * columns + j],
                             (double)right);
            }
        }
    }
    assert_int_equal(device_counts(context).variants_refused, 0);
    device_close(&context);
}

enum { CHANNELS = 8, HEIGHT = 371, WIDTH = 367, IMAGE = CHANNELS * HEIGHT * WIDTH };

/* A convolution of a large image with filters, or the gradient of filters of the image and itself; returns
 * how often the plan transforms tiles of an image. */
static int convolve_large(kn_context *context, const char *switches, bool gradient, float *given,
                          float *result, size_t bytes) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *inputs[2] = {kn_input(graph, "image", KN_FLOAT32, "1,8,371,367"),
                           kn_input(graph, "other", KN_FLOAT32, gradient ? "1,8,371,367" : "8,8,3,3")};
    kn_value *y = kn_name(kn_apply(graph, gradient ? "conv2d_weight" : "conv2d", inputs, 2,
                                   gradient ? "padding=1 size=3,3" : "padding=1"),
                          "y");
    kn_session_params how;
    kn_session_params_init(&how);
    how.switches = switches;
    kn_session *session = kn_session_create(context, &y, 1, &how);
    kn_graph_destroy(&graph);
    const size_t other = gradient ? IMAGE : CHANNELS * CHANNELS * 9;
    kn_feed feeds[2] = {{"image", given, IMAGE * sizeof *given}, {"other", given, other * sizeof *given}};
    kn_fetch fetch = {"y", result, bytes};
    if (kn_session_run(session, feeds, 2, &fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
    char *plan = kn_session_plan_text(session);
    int chunks = 0;
    for (const char *at = plan; (at = strstr(at, "kn_winograd_images")); at++)
        chunks++;
    kn_session_free_text(session, plan);
    kn_session_destroy(&session);
    return chunks;
}

/* Winograd convolutions with many tiles are computed in chunks, here of at most 16 MiB: the results are those
 * of the direct sum. */
static void tiles_are_computed_in_chunks(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    debug.largest_block_bytes = 16 << 20;
    kn_context *context = device_open(&params);
    float *given = calloc(IMAGE, sizeof *given), *results[2];
    for (int v = 0; v < 2; v++)
        results[v] = calloc(IMAGE, sizeof *results[v]);
    assert_true(given && results[0] && results[1]);
    for (int i = 0; i < IMAGE; i++)
        given[i] = between_1_and_2(i) - 1.5f;
    for (int gradient = 0; gradient < 2; gradient++) {
        static const char *const variants[2][2] = {
            {"conv2d=winograd2_tiled", "conv2d=implicit"},
            {"conv2d_weight=winograd2_tiled", "conv2d_weight=implicit"}};
        const int count = gradient ? CHANNELS * CHANNELS * 9 : IMAGE;
        for (int v = 0; v < 2; v++)
            assert_int_equal(convolve_large(context, variants[gradient][v], gradient, given, results[v],
                                            (size_t)count * sizeof *given),
                             v ? 0 : 2);
        double squares = 0, largest = 0;
        for (int i = 0; i < count; i++) {
            squares += (double)results[1][i] * (double)results[1][i];
            largest = fmax(largest, fabs((double)results[0][i] - (double)results[1][i]));
        }
        assert_true(largest > 0);
        if (!(largest < 1e-4 * sqrt(squares / count))) fail_msg("gradient %d: %g", gradient, largest);
    }
    for (int v = 0; v < 2; v++)
        free(results[v]);
    free(given);
    device_close(&context);
}

/* So does attention: the weight exp(-0.3) is rounded to bfloat16 then, and so is what it is a part of. */
static void attention_takes_the_matrix_unit(void **state) {
    static const struct {
        const char *unit;
        kn_precision precision;
        float result;
    } cases[] = {{"emulated-mma", KN_PRECISION_BFLOAT16, 0.426344f},
                 {"emulated-mma", KN_PRECISION_FLOAT32, 0.425557f},
                 {"none", KN_PRECISION_BFLOAT16, 0.425557f}};
    enum { QUERIES = 2, HEAD = 16 };
    /* Rows of q, k and v: the first key has the score 0.3 and the value 0, the second one 0 and 1. */
    float given[QUERIES][3][HEAD] = {{{1}, {1}, {0}}, {{1}, {0}, {0}}}, got[QUERIES * HEAD];
    for (int d = 0; d < HEAD; d++)
        given[1][2][d] = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        kn_graph *graph = kn_graph_create(NULL);
        const kn_attention_params attention = {.size = sizeof attention, .scale = 0.3};
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "1,2,48");
        kn_value *y = kn_name(kn_attention_packed(kn_relu(x), &attention), "y");
        kn_feed feed = {"x", given, sizeof given};
        kn_fetch fetch = {"y", got, sizeof got};
        run_with_unit(cases[c].unit, cases[c].precision, NULL, &graph, y, &feed, &fetch);
        for (int i = 0; i < QUERIES * HEAD; i++)
            if (fabsf(got[i] - cases[c].result) > 2e-5f)
                fail_msg("case %zu, element %d: %.6f, expected %.6f", c, i, (double)got[i],
                         (double)cases[c].result);
    }
}

/* Values of 12 MiB fit into blocks of 16 MiB; one of 20 MiB is refused by name. */
static void values_are_spread_over_small_blocks(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.largest_block_bytes = 16 << 20;
    kn_context *context = device_open(&params);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "n");
    kn_value *results[2] = {kn_name(kn_neg(x), "minus"), kn_name(kn_add(x, x), "twice")};
    kn_session *session = kn_session_create(context, results, 2, NULL);
    kn_graph_destroy(&graph);
    size_t count = 3 << 20;
    float *given = calloc(count, sizeof *given), *minus = calloc(count, sizeof *minus),
          *twice = calloc(count, sizeof *twice);
    assert_true(given && minus && twice);
    for (size_t i = 0; i < count; i++)
        given[i] = (float)i;
    kn_feed feed = {"x", given, count * sizeof *given};
    kn_fetch fetches[2] = {{"minus", minus, count * sizeof *minus}, {"twice", twice, count * sizeof *twice}};
    if (kn_session_run(session, &feed, 1, fetches, 2) != KN_OK) fail_msg("%s", kn_session_error(session));
    kn_plan_info info = {.size = sizeof info};
    assert_int_equal(kn_session_plan(session, &info), KN_OK);
    assert_true(info.peak_bytes > 16 << 20);
    for (size_t i = 0; i < count; i++)
        if (minus[i] != -given[i] || twice[i] != given[i] + given[i]) fail_msg("element %zu is wrong", i);
    assert_int_equal(kn_session_bind(session, "n", 5 << 20), KN_OK);
    assert_int_not_equal(kn_session_compile(session, NULL, 0), KN_OK);
    if (!strstr(kn_session_error(session), "'x'") && !strstr(kn_session_error(session), "'minus'") &&
        !strstr(kn_session_error(session), "'twice'"))
        fail_msg("which value is it? %s", kn_session_error(session));
    free(given);
    free(minus);
    free(twice);
    kn_session_destroy(&session);
    device_close(&context);
}

/* Of values of 20 MiB, which only one kernel reads. */
static void large_inputs_and_states_are_named(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.largest_block_bytes = 16 << 20;
    kn_context *context = device_open(&params);
    for (int trained = 0; trained < 2; trained++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *large = trained ? kn_parameter(graph, "w", KN_FLOAT32, "5,1024,1024", NULL)
                                  : kn_input(graph, "x", KN_FLOAT32, "5,1024,1024");
        kn_value *total = kn_name(kn_sum(large, NULL, false), "total");
        kn_session *session = kn_session_create(context, &total, 1, NULL);
        kn_graph_destroy(&graph);
        assert_int_equal(kn_session_compile(session, NULL, 0), KN_ERROR_DEVICE_MEMORY);
        const char *said = kn_session_error(session);
        if (!strstr(said, trained ? "the state 'w'" : "the input 'x'") || !strstr(said, "20971520 bytes"))
            fail_msg("%s", said);
        kn_session_destroy(&session);
    }
    device_close(&context);
}

/* 64-bit floats are computed, or refused by name. */
static void doubles_are_right_or_refused(void **state) {
    kn_context *context = device_open(NULL);
    bool doubles = kn_context_capabilities(context)->double_precision;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT64, "2"), *y = kn_name(kn_add(x, x), "y");
    kn_session *session = kn_session_create(context, &y, 1, NULL);
    kn_graph_destroy(&graph);
    double given[2] = {1 + 0x1p-50, 3}, got[2] = {0};
    kn_feed feed = {"x", given, sizeof given};
    kn_fetch fetch = {"y", got, sizeof got};
    kn_status status = kn_session_run(session, &feed, 1, &fetch, 1);
    if (status != (doubles ? KN_OK : KN_ERROR_UNSUPPORTED)) fail_msg("%s", kn_session_error(session));
    if (doubles) assert_true(got[0] == 2 + 0x1p-49 && got[1] == 6);
    if (!doubles) assert_non_null(strstr(kn_session_error(session), "'x' is float64, and "));
    kn_session_destroy(&session);
    device_close(&context);
}
/* With arguments PART PARTS, runs one of PARTS slices of the forced kernels; with one argument, a pattern
 * such as "blocked*", only the tests that match. */
int main(int count, char **arguments) {
    enum { FORCINGS = sizeof forcings / sizeof *forcings, OTHERS = 9 };
    const struct CMUnitTest others[OTHERS] = {
        cmocka_unit_test(networks_take_the_matrix_unit),
        cmocka_unit_test(blocked_images_give_the_same),
        cmocka_unit_test(rows_are_summed_without_local_memory),
        cmocka_unit_test(attention_takes_the_matrix_unit),
        cmocka_unit_test(split_products_are_near),
        cmocka_unit_test(tiles_are_computed_in_chunks),
        cmocka_unit_test(values_are_spread_over_small_blocks),
        cmocka_unit_test(large_inputs_and_states_are_named),
        cmocka_unit_test(doubles_are_right_or_refused),
    };
    if (!device_is_there()) return 77;
    if (count == 2)
        cmocka_set_test_filter(arguments[1]);
    else
        wanted = test_part_of(count, arguments);
    struct CMUnitTest tests[FORCINGS + OTHERS];
    for (int i = 0; i < FORCINGS; i++)
        tests[i] = (struct CMUnitTest){.name = forcings[i].name,
                                       .test_func = forced_kernels_are_right,
                                       .initial_state = (void *)&forcings[i]};
    memcpy(tests + FORCINGS, others, sizeof others);
    return _cmocka_run_group_tests("kinds of kernels", tests, wanted.parts ? FORCINGS : FORCINGS + OTHERS,
                                   NULL, NULL) != 0;
}
