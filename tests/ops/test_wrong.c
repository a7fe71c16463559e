/* Kernels that compute wrongly on this device: they are refused, counted, reported once, remembered, and
 * replaced. They are the library's, copied to a folder of the test with one line changed. */
#include "changed_kernels.h"
#include "device_support.h"

#include <koine/koine.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- wrong kernels --------------------------------------------------------------------------------- */

typedef struct remembered {
    int lines;
    char text[16000];
} remembered;

static void remember(void *user, kn_log_level level, const char *message) {
    remembered *log = user;
    if (level != KN_LOG_WARNING) return;
    size_t used = strlen(log->text);
    log->lines++;
    snprintf(log->text + used, sizeof log->text - used, "%s\n", message);
}

/* y = a b with a (3,5), b (5,7), twice in one graph: a refused variant is reported once, although two nodes
 * use it. */
static kn_session *product_session(kn_context *context) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *a = kn_input(graph, "a", KN_FLOAT32, "3,5"), *b = kn_input(graph, "b", KN_FLOAT32, "5,7");
    kn_value *results[2] = {kn_name(kn_matmul(a, b, false, false), "y"),
                            kn_name(kn_matmul(kn_exp(a), b, false, false), "z")};
    kn_session *session = kn_session_create(context, results, 2, NULL);
    kn_graph_destroy(&graph);
    return session;
}

/* Runs a product; writes the plan's text. Returns whether the product is right. */
static bool product_is_right(kn_context *context, char *plan, size_t bytes) {
    kn_session *session = product_session(context);
    float a[15], b[35], y[21];
    for (int i = 0; i < 35; i++) {
        b[i] = (float)(i * 7 % 11) - 5;
        if (i < 15) a[i] = (float)(i * 5 % 7) - 3;
    }
    kn_feed feeds[2] = {{"a", a, sizeof a}, {"b", b, sizeof b}};
    kn_fetch fetch = {"y", y, sizeof y};
    if (kn_session_run(session, feeds, 2, &fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
    bool right = true;
    for (int i = 0; i < 21; i++) {
        float sum = 0;
        for (int k = 0; k < 5; k++)
            sum += a[i / 7 * 5 + k] * b[k * 7 + i % 7];
        right = right && y[i] == sum; /* small integers, so that sums are exact */
    }
    char *text = kn_session_plan_text(session);
    assert_non_null(text);
    snprintf(plan, bytes, "%s", text);
    kn_session_free_text(session, text);
    kn_session_destroy(&session);
    return right;
}

typedef struct wrong_kernel {
    const char *name, *to, *reason, *again; /* reported first, and when it occurs again */
} wrong_kernel;

static const char line_of_matmul[] = "vector finished = value;";
static const wrong_kernel wrong_kernels[] = {
    {"a kernel that computes wrongly is replaced", "vector finished = value + 0.5f;", "the device computed",
     "its trial on this device failed before"},
    {"a kernel that is wrong with the defines of some products is replaced",
     "vector finished = value + (KN_VECTORS == 2 ? 0.5f : 0);", "the device computed",
     "its trial on this device failed before"},
    {"a kernel that does not compile is replaced", "vector finished = nobody_knows_this;",
     "nobody_knows_this", "nobody_knows_this"},
};

static void wrong_kernels_are_replaced(void **state) {
    const wrong_kernel *wrong = *state;
    char *folder = test_folder_make(), *cache = test_folder_make(), plan[8000];
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(folder, "matmul/wide_finish.cl", line_of_matmul, wrong->to);
    /* In the second pass a wrong result is remembered, and a kernel that did not compile is tried again; in
     * the third pass the kernels are the library's. */
    for (int turn = 0; turn < 3; turn++) {
        remembered log = {.lines = 0};
        kn_context_params params = device_params();
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.kernels = KN_KERNELS_CPU;
        params.trust_claims = true;
        debug.vector_width = 4;
        params.cache_folder = cache;
        params.kernel_folder = turn < 2 ? folder : NULL;
        params.log = (kn_logger){.user = &log, .level = KN_LOG_WARNING, .write = remember};
        kn_context *context = device_open(&params);
        assert_true(product_is_right(context, plan, sizeof plan));
        bool refused = strstr(log.text, "matmul/wide ") != NULL;
        if (refused != (turn < 2)) fail_msg("turn %d: %s\n%s", turn, log.text, plan);
        assert_int_equal(device_counts(context).variants_refused, turn < 2);
        assert_int_equal(strstr(plan, "matmul/tiled.cl") != NULL, turn < 2);
        assert_int_equal(strstr(plan, "matmul/wide.cl") != NULL, turn == 2);
        if (turn < 2) {
            assert_int_equal(log.lines, 1);
            if (!strstr(log.text, turn == 0 ? wrong->reason : wrong->again))
                fail_msg("turn %d does not say why: %s", turn, log.text);
        }
        device_close(&context);
    }
    test_folder_remove(folder);
    test_folder_remove(cache);
}

/* Without a trial the wrong kernel would be used: the test above would detect it. */
static void wrong_kernels_would_give_wrong_numbers(void **state) {
    char *folder = test_folder_make();
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(folder, "matmul/wide_finish.cl", line_of_matmul, wrong_kernels[0].to);
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_CPU;
    params.trust_claims = true;
    debug.vector_width = 4;
    params.cache_folder = NULL;
    params.kernel_folder = folder;
    kn_context *context = device_open(&params);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *a = kn_input(graph, "a", KN_FLOAT32, "3,5"), *b = kn_input(graph, "b", KN_FLOAT32, "5,7");
    kn_value *y = kn_name(kn_matmul(a, b, false, false), "y");
    kn_session_params session_params;
    kn_session_params_init(&session_params);
    session_params.switches = "matmul=wide";
    kn_session *session = kn_session_create(context, &y, 1, &session_params);
    kn_graph_destroy(&graph);
    float zeros[35] = {0}, result[21];
    kn_feed feeds[2] = {{"a", zeros, 15 * sizeof *zeros}, {"b", zeros, sizeof zeros}};
    kn_fetch fetch = {"y", result, sizeof result};
    if (kn_session_run(session, feeds, 2, &fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
    assert_true(result[0] == 0.5f);
    kn_session_destroy(&session);
    device_close(&context);
    test_folder_remove(folder);
}

/* ---- wrong kernels for many threads ------------------------------------------------------------ */

typedef struct wrong_many {
    const char *name, *file, *from, *to;
    kn_value *(*operator)(kn_value *); /* in the network that trains; NULL: a convolution */
    const char *variant;               /* that is refused, and its replacement in the plan */
    const char *plain;
    const char *reason, *again;
} wrong_many;

static kn_value *add_softmax(kn_value *x) {
    return kn_softmax(x, -1);
}
static kn_value *add_log_softmax(kn_value *x) {
    return kn_log_softmax(x, -1);
}
static kn_value *add_layer_norm(kn_value *x) {
    return kn_layer_norm(x, NULL);
}
static kn_value *add_rms_norm(kn_value *x) {
    return kn_rms_norm(x, NULL);
}
static kn_value *add_nothing(kn_value *x) {
    return x;
}

/* The last variant of a row has no trees. What PoCL 7.1 made of two trees in a row: where a lane after the
 * first uses the result of the first tree, local memory already has what lane 0 gave to the second; after
 * that tree, it has its result. */
#define FIRST_TREE "most = kn_tree_max(scratch, slot, lane, most);"
#define READ_AGAIN                                                                                           \
    FIRST_TREE                                                                                               \
    "KN_A early = 0;"                                                                                        \
    "for (KN_INDEX i = 0; i < length; i += KN_LANES) early += exp(KN_AT(x, start + i * inner) - most);"      \
    "if (lane > 0) most = early;"
/* What PoCL 6.0 and 7.1 made of barriers that not all work-groups pass: wrong sums in the last row. */
#define LAST_ROW                                                                                             \
    .file = "norm/layer_norm.cl", .from = "(slope - sum - normal * product);",                               \
    .to = "(slope - (KN_LANES == 1 || row < rows - 1 ? sum + normal * product : 0));"
#define COMPUTES_WRONGLY "the device computed", "failed before"

/* Breaks the second-to-last variant of each kernel family that a small network trains with: wrong results,
 * compile errors, or faults seen in real drivers. */
static const wrong_many wrong_for_many[] = {
    {"a wrong product", "matmul/tiled.cl", "KN_EPILOGUE(each[l]", "KN_EPILOGUE(2 * each[l]", NULL,
     "matmul/tiled ", "matmul/plain.cl", COMPUTES_WRONGLY},
    {"a product that does not compile", "matmul/tiled.cl", "KN_EPILOGUE(each[l]",
     "KN_EPILOGUE(nobody_knows_this", NULL, "matmul/tiled ", "matmul/plain.cl", "nobody_knows_this",
     "nobody_knows_this"},
    {"a wrong convolution", "conv/implicit_tile.cl", "right_next[p] = inside ? KN_LOAD_SIDE",
     "right_next[p] = inside ? 2 * KN_LOAD_SIDE", NULL, "conv2d/implicit ", "conv/plain.cl",
     COMPUTES_WRONGLY},
    {"wrong trees", "common/lanes.cl", "*mine = value;", "*mine = 2 * value;", NULL, "sum/tree ",
     "reduce/reduce.cl", COMPUTES_WRONGLY},
    {"softmax: a result read again", "reduce/softmax.cl", FIRST_TREE, READ_AGAIN, add_softmax,
     "softmax/tree ", "reduce/softmax.cl", COMPUTES_WRONGLY},
    {"log_softmax: a result read again", "reduce/softmax.cl", "#define KN_RESULT(v) ((v)-most - sum)",
     "#define KN_RESULT(v) ((v) - (KN_LANES > 1 ? exp(sum) : most) - sum)", add_log_softmax,
     "log_softmax/tree ", "reduce/softmax.cl", COMPUTES_WRONGLY},
    {"layer_norm: a result read again", "norm/layer_norm.cl", "piece result = apart * factor",
     "piece result = (KN_LANES > 1 ? apart + middle - variance * (KN_A)count : apart) * factor",
     add_layer_norm, "layer_norm/tree ", "norm/layer_norm.cl", COMPUTES_WRONGLY},
    {"cross_entropy: a result read again", "losses/cross_entropy.cl", "far += (1 - smoothing) * (largest -",
     "far += (1 - smoothing) * ((KN_LANES > 1 ? far : largest) -", add_nothing, "cross_entropy/tree ",
     "losses/cross_entropy.cl", COMPUTES_WRONGLY},
    {"layer_norm: a last row without its sums", LAST_ROW, add_layer_norm, "layer_norm_gradient/tree ",
     "norm/layer_norm.cl", COMPUTES_WRONGLY},
    {"rms_norm: a last row without its sums", LAST_ROW, add_rms_norm, "rms_norm_gradient/tree ",
     "norm/layer_norm.cl", COMPUTES_WRONGLY},
};

/* Three steps of a small network with a convolution, or with `operator`: the losses, and the plan's text. */
static void train_small(kn_context *context, kn_value *(*operator)(kn_value *), double losses[3], char *plan,
                        size_t bytes) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "8,2,6,6"), *labels = kn_input(graph, "y", KN_INT32, "8");
    kn_value *hidden = operator? operator(kn_linear(kn_flatten(x), 33, NULL))
                               : kn_flatten(kn_relu(kn_conv(x, 4, 3, 3, NULL)));
    kn_value *loss = kn_cross_entropy(kn_linear(hidden, 37, NULL), labels, NULL);
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    params.learning_rate = 0.1;
    kn_trainer *trainer = kn_trainer_create(context, loss, &params);
    kn_graph_destroy(&graph);
    float images[8 * 2 * 6 * 6];
    int32_t classes[8];
    for (int i = 0; i < 8 * 2 * 6 * 6; i++)
        images[i] = (float)(i * 7 % 23) / 11 - 1;
    for (int i = 0; i < 8; i++)
        classes[i] = i * 5 % 37;
    kn_feed feeds[2] = {{"x", images, sizeof images}, {"y", classes, sizeof classes}};
    for (int step = 0; step < 3; step++)
        if (kn_trainer_step(trainer, 8, feeds, 2, &losses[step]) != KN_OK)
            fail_msg("%s", kn_trainer_error(trainer));
    char *text = kn_trainer_plan_text(trainer);
    assert_non_null(text);
    snprintf(plan, bytes, "%s", text);
    kn_trainer_free_text(trainer, text);
    kn_trainer_destroy(&trainer);
}

/* Training is right with a wrong kernel, on the first start and on the second; on the third the kernels are
 * the library's. */
static void training_survives_wrong_kernels(void **state) {
    const wrong_many *wrong = *state;
    static char plan[20000];
    char *folder = test_folder_make(), *cache = test_folder_make();
    double right[3], losses[3];
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(folder, wrong->file, wrong->from, wrong->to);
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    kn_context *context = device_open(&params);
    train_small(context, wrong->operator, right, plan, sizeof plan);
    assert_int_equal(device_counts(context).variants_refused, 0);
    device_close(&context);
    for (int turn = 0; turn < 3; turn++) {
        remembered log = {.lines = 0};
        params.cache_folder = cache;
        params.kernel_folder = turn < 2 ? folder : NULL;
        params.log = (kn_logger){.user = &log, .level = KN_LOG_WARNING, .write = remember};
        context = device_open(&params);
        train_small(context, wrong->operator, losses, plan, sizeof plan);
        for (int step = 0; step < 3; step++)
            if (!(fabs(losses[step] - right[step]) <= 1e-5 * right[step]))
                fail_msg("turn %d, step %d: %.9g instead of %.9g\n%s", turn, step, losses[step], right[step],
                         log.text);
        bool refused = strstr(log.text, wrong->variant) != NULL;
        if (refused != (turn < 2)) fail_msg("turn %d: %s\n%s", turn, log.text, plan);
        if (refused && !strstr(log.text, turn ? wrong->again : wrong->reason))
            fail_msg("turn %d does not say why: %s", turn, log.text);
        if (refused && !strstr(plan, wrong->plain)) fail_msg("turn %d: %s", turn, plan);
        if (turn == 2) assert_int_equal(device_counts(context).variants_refused, 0);
        device_close(&context);
    }
    test_folder_remove(folder);
    test_folder_remove(cache);
}

/* A trial has the programs of the node: a plan compiles no more than without it. */
static void trials_compile_nothing_more(void **state) {
    uint64_t built[2] = {0, 0};
    for (int checked = 0; checked < 2; checked++) {
        char *cache = test_folder_make();
        kn_context_params params = device_params();
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.kernels = KN_KERNELS_GPU;
        params.cache_folder = cache;
        kn_context *context = device_open(&params);
        uint64_t before = device_counts(context).programs_built;
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *a = kn_input(graph, "a", KN_FLOAT32, "300,700"),
                 *b = kn_input(graph, "b", KN_FLOAT32, "700,90");
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3,24,30,30"),
                 *w = kn_input(graph, "w", KN_FLOAT32, "80,24,3,3");
        kn_value *inputs[2] = {x, w};
        kn_value *results[3] = {kn_name(kn_matmul(a, b, false, false), "y"),
                                kn_name(kn_apply(graph, "conv2d", inputs, 2, "padding=1"), "z"),
                                kn_name(kn_softmax(a, -1), "s")};
        kn_session_params session_params;
        kn_session_params_init(&session_params);
        session_params.switches = checked ? NULL : "matmul=tiled,conv2d=implicit,softmax=tree";
        kn_session *session = kn_session_create(context, results, 3, &session_params);
        kn_graph_destroy(&graph);
        if (kn_session_compile(session, NULL, 0) != KN_OK) fail_msg("%s", kn_session_error(session));
        built[checked] = device_counts(context).programs_built - before;
        kn_session_destroy(&session);
        device_close(&context);
        test_folder_remove(cache);
    }
    assert_true(built[0] > 0);
    assert_int_equal(built[1], built[0]);
}

/* Wide-vector kernels with more elements than iterations after which some drivers end loops: either the
 * kernels are right, or they are refused, counted, reported once, and replaced by right ones. */
static void long_loops_are_right_or_refused(void **state) {
    enum { ROWS = 600, COLUMNS = 900, DEPTH = 2000 };
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    remembered log = {.lines = 0};
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_CPU;
    debug.vector_width = 4;
    params.log = (kn_logger){.user = &log, .level = KN_LOG_WARNING, .write = remember};
    kn_context *context = device_open(&params);
    bool wide = kn_context_capabilities(context)->wide_vector;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *a = kn_input(graph, "a", KN_FLOAT32, "600,2000"),
             *b = kn_input(graph, "b", KN_FLOAT32, "2000,900");
    kn_value *results[2] = {kn_name(kn_matmul(a, b, false, false), "product"), kn_name(kn_neg(b), "minus")};
    kn_session *session = kn_session_create(context, results, 2, NULL);
    kn_graph_destroy(&graph);
    float *given = calloc(ROWS * DEPTH, sizeof *given), *other = calloc(DEPTH * COLUMNS, sizeof *other),
          *product = calloc(ROWS * COLUMNS, sizeof *product), *minus = calloc(DEPTH * COLUMNS, sizeof *minus);
    assert_true(given && other && product && minus);
    for (int i = 0; i < ROWS * DEPTH; i++)
        given[i] = (float)(i % 7) - 3;
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        other[i] = (float)(i % 11) - 5;
    kn_feed feeds[2] = {{"a", given, sizeof *given * ROWS * DEPTH},
                        {"b", other, sizeof *other * DEPTH * COLUMNS}};
    kn_fetch fetches[2] = {{"product", product, sizeof *product * ROWS * COLUMNS},
                           {"minus", minus, sizeof *minus * DEPTH * COLUMNS}};
    if (kn_session_run(session, feeds, 2, fetches, 2) != KN_OK) fail_msg("%s", kn_session_error(session));
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        if (minus[i] != -other[i]) fail_msg("element %d of minus is %g", i, minus[i]);
    for (int i = 0; i < ROWS * COLUMNS; i += 97) {
        float sum = 0; /* of small integers */
        for (int k = 0; k < DEPTH; k++)
            sum += given[i / COLUMNS * DEPTH + k] * other[k * COLUMNS + i % COLUMNS];
        if (product[i] != sum) fail_msg("element %d of the product is %g instead of %g", i, product[i], sum);
    }
    assert_int_equal(device_counts(context).variants_refused, !wide);
    assert_int_equal(log.lines, !wide);
    assert_int_equal(strstr(log.text, "kernel variant wide is not used on ") != NULL, !wide);
    print_message("%s for wide vectors: %s\n", kn_context_device(context)->name, wide ? "right" : "refused");
    free(given);
    free(other);
    free(product);
    free(minus);
    kn_session_destroy(&session);
    device_close(&context);
}

/* y = convolution of x (8,16,32,32) with w (16,16,3,3), on vectors of four. Writes the text of the plan.
 * Returns false if the device gets no wide-vector kernels. */
static bool convolve(const char *folder, bool fast, remembered *log, char *plan, size_t bytes,
                     float *result) {
    enum { X = 8 * 16 * 32 * 32, W = 16 * 16 * 3 * 3 };
    static float x[X], w[W];
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_CPU;
    debug.vector_width = 4;
    params.cache_folder = NULL;
    params.kernel_folder = folder;
    params.log = (kn_logger){.user = log, .level = KN_LOG_WARNING, .write = remember};
    kn_context *context = device_open(&params);
    kn_graph *graph = kn_graph_create(NULL);
    kn_conv_params window = {.size = sizeof window, .padding = {1}};
    kn_value *y = kn_conv2d(kn_input(graph, "x", KN_FLOAT32, "8,16,32,32"),
                            kn_input(graph, "w", KN_FLOAT32, "16,16,3,3"), NULL, &window);
    kn_session_params session_params;
    kn_session_params_init(&session_params);
    assert_false(session_params.fast_math);
    session_params.fast_math = fast;
    kn_name(y, "y");
    kn_session *session = kn_session_create(context, &y, 1, &session_params);
    kn_graph_destroy(&graph);
    for (int i = 0; i < X; i++)
        x[i] = (float)((unsigned)i * 2654435761u >> 8) / (1 << 23) - 1;
    for (int i = 0; i < W; i++)
        w[i] = (float)((unsigned)i * 2246822519u >> 8) / (1 << 23) - 1;
    kn_feed feeds[2] = {{"x", x, sizeof x}, {"w", w, sizeof w}};
    kn_fetch fetch = {"y", result, sizeof x};
    if (kn_session_run(session, feeds, 2, &fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
    char *text = kn_session_plan_text(session);
    assert_non_null(text);
    snprintf(plan, bytes, "%s", text);
    kn_session_free_text(session, text);
    bool wide = kn_context_capabilities(context)->wide_vector;
    kn_session_destroy(&session);
    device_close(&context);
    return wide;
}

/* Winograd's convolutions are used on request only, are almost right, and are not used where a device makes a
 * larger error with them. */
static void fast_math_is_asked_for_and_measured(void **state) {
    enum { Y = 8 * 16 * 32 * 32 };
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    static float exact[Y], fast[Y], again[Y];
    char *folder = test_folder_make(), plan[8000];
    remembered log = {.lines = 0};
    if (!convolve(NULL, false, &log, plan, sizeof plan, exact)) {
        test_folder_remove(folder);
        skip_because("no kernels for wide vectors on this device");
    }
    assert_null(strstr(plan, "winograd"));
    assert_non_null(strstr(plan, "exact math"));
    convolve(NULL, true, &log, plan, sizeof plan, fast);
    if (!strstr(plan, "winograd") || !strstr(plan, "fast math")) fail_msg("%s\n%s", log.text, plan);
    assert_int_equal(log.lines, 0);
    double squares = 0, largest = 0;
    for (int i = 0; i < Y; i++) {
        squares += (double)exact[i] * (double)exact[i];
        largest = fmax(largest, fabs((double)fast[i] - (double)exact[i]));
    }
    assert_true(largest > 0);
    assert_true(largest < 1e-4 * sqrt(squares / Y));
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(folder, "conv/winograd_points.cl", "p##3 = p##c + KN_Q", "p##3 = 1.001f * p##c + KN_Q");
    change_kernel(folder, "conv/winograd_points.cl", "p##1 = d##1 + d##2,", "p##1 = 1.001f * d##1 + d##2,");
    convolve(folder, true, &log, plan, sizeof plan, again);
    if (strstr(plan, "winograd") || !strstr(log.text, "the device computed"))
        fail_msg("%s\n%s", log.text, plan);
    assert_memory_equal(again, exact, sizeof exact);
    test_folder_remove(folder);
}

int main(void) {
    enum {
        WRONG = sizeof wrong_kernels / sizeof *wrong_kernels,
        WRONG_MANY = sizeof wrong_for_many / sizeof *wrong_for_many
    };
    if (!device_is_there()) return 77;
    struct CMUnitTest tests[WRONG + WRONG_MANY + 4];
    size_t count = 0;
    for (int i = 0; i < WRONG; i++)
        tests[count++] = (struct CMUnitTest){.name = wrong_kernels[i].name,
                                             .test_func = wrong_kernels_are_replaced,
                                             .initial_state = (void *)&wrong_kernels[i]};
    for (int i = 0; i < WRONG_MANY; i++)
        tests[count++] = (struct CMUnitTest){.name = wrong_for_many[i].name,
                                             .test_func = training_survives_wrong_kernels,
                                             .initial_state = (void *)&wrong_for_many[i]};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(trials_compile_nothing_more);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(wrong_kernels_would_give_wrong_numbers);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(long_loops_are_right_or_refused);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(fast_math_is_asked_for_and_measured);
    return _cmocka_run_group_tests("wrong kernels", tests, count, NULL, NULL) != 0;
}
