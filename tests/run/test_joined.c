/* Work that GPU kernels do in addition, which would otherwise need separate launches: products add the
 * rows of an operand, and store what their epilogue passes through; norms add the parts of a product that
 * they read. */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "ops/shape/shape.h"

/* a is (depth,rows) or, with `outer`, (outer,depth/outer,rows), and b (depth,columns): with sums in parts and
 * in one, with elements one by one and four at a time, with several tiles of incomplete sizes. */
typedef struct product_case {
    int depth, rows, columns, outer;
} product_case;
static const product_case cases[] = {{13, 5, 7, 0},    {24, 76, 132, 0}, {1100, 9, 5, 4},
                                     {1104, 36, 8, 2}, {130, 131, 3, 0}, {6, 8, 4, 3}};

/* c = aᵀ b (rows,columns) and s (rows), the sums of a over all but its last axis; a, b and the results have
 * room for them. Returns the launches. */
static int run_product(kn_context *context, const product_case *of, const char *switches, const float *a,
                       const float *b, float *c, float *s) {
    char shape[64];
    kn_graph *graph = kn_graph_create(NULL);
    snprintf(shape, sizeof shape, "%d,%d", of->depth, of->rows);
    if (of->outer) snprintf(shape, sizeof shape, "%d,%d,%d", of->outer, of->depth / of->outer, of->rows);
    kn_value *left = kn_input(graph, "a", KN_FLOAT32, shape);
    kn_value *sum = kn_sum(left, of->outer ? "0,1" : "0", false);
    snprintf(shape, sizeof shape, "%d,%d", of->depth, of->rows);
    kn_value *matrix = kn_reshape(left, shape);
    snprintf(shape, sizeof shape, "%d,%d", of->depth, of->columns);
    kn_value *product = kn_matmul(matrix, kn_input(graph, "b", KN_FLOAT32, shape), true, false);
    kn_value *results[2] = {kn_output(product, "c"), kn_output(sum, "s")};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = switches;
    kn_session *session = kn_session_create(context, results, 2, &params);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_status(session));
    const size_t depth = (size_t)of->depth, rows = (size_t)of->rows, columns = (size_t)of->columns;
    kn_feed feeds[2] = {{"a", a, depth * rows * sizeof *a}, {"b", b, depth * columns * sizeof *b}};
    kn_fetch fetches[2] = {{"c", c, rows * columns * sizeof *c}, {"s", s, rows * sizeof *s}};
    session_good(session, kn_session_run(session, feeds, 2, fetches, 2));
    kn_plan_info plan = {.size = sizeof plan};
    session_good(session, kn_session_plan(session, &plan));
    const int steps = plan.steps;
    kn_session_destroy(&session);
    return steps;
}

static void check_product(kn_context *context, const product_case *of, const char *switches) {
    const size_t depth = (size_t)of->depth, rows = (size_t)of->rows, columns = (size_t)of->columns;
    float *a = malloc(depth * rows * sizeof *a), *b = malloc(depth * columns * sizeof *b);
    float *c = malloc(2 * rows * columns * sizeof *c), *s = malloc(2 * rows * sizeof *s);
    assert_true(a && b && c && s);
    fill_numbers(a, depth * rows, 3);
    fill_numbers(b, depth * columns, 4);
    const int fused = run_product(context, of, switches, a, b, c, s);
    const int separate = run_product(context, of, "matmul=plain", a, b, c + rows * columns, s + rows);
    if (fused > (of->depth > 256 ? 2 : 1) || separate < 2)
        fail_msg("%d and %d launches of (%d,%d)", fused, separate, of->depth, of->rows);
    for (size_t i = 0; i < rows * columns + rows; i++) {
        const float *from = i < rows * columns ? c + i : s + (i - rows * columns);
        const float expected = from[i < rows * columns ? rows * columns : rows];
        if (!(fabsf(*from - expected) <= 1e-6f * (float)depth))
            fail_msg("element %zu of (%d,%d): %g, expected %g", i, of->depth, of->rows, (double)*from,
                     (double)expected);
    }
    free(a), free(b), free(c), free(s);
}

/* The results of a graph, one after another in `to`, as float32, on inputs of small numbers; the launches.
 * The graph is destroyed. */
static int run_graph(kn_context *context, kn_graph *graph, kn_value *const *results, int count,
                     const char *switches, float *to) {
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = true;
    params.switches = switches;
    kn_feed feeds[4];
    kn_fetch fetches[4];
    static float numbers[4][40000];
    int inputs = 0;
    for (size_t i = 0; i < graph->value_count; i++) {
        const kn_value *value = graph->values[i];
        if (value->kind != KN_VALUE_INPUT) continue;
        const size_t elements = (size_t)kn_shape_elements(&value->shape);
        assert_true(inputs < 4 && elements <= KN_COUNT_OF(numbers[0]));
        fill_numbers(numbers[inputs], elements, 5 + (uint64_t)inputs);
        feeds[inputs] = (kn_feed){kn_value_name(value), numbers[inputs], elements * sizeof(float)};
        inputs++;
    }
    for (int i = 0; i < count; i++) {
        const size_t elements = (size_t)kn_shape_elements(&results[i]->shape);
        fetches[i] = (kn_fetch){kn_value_name(results[i]), to, elements * sizeof(float)};
        to += elements;
    }
    kn_session *session = kn_session_create(context, results, (size_t)count, &params);
    kn_plan_info plan = {.size = sizeof plan};
    session_good(session, kn_session_status(session));
    session_good(session, kn_session_run(session, feeds, (size_t)inputs, fetches, (size_t)count));
    session_good(session, kn_session_plan(session, &plan));
    kn_session_destroy(&session);
    kn_graph_destroy(&graph);
    return plan.steps;
}

static void check_near(const char *what, const float *found, const float *expected, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(found[i] - expected[i]) <= 2e-5f * (1 + fabsf(expected[i]))))
            fail_msg("%s: element %zu: %g, expected %g", what, i, (double)found[i], (double)expected[i]);
}

/* h = a b + c, with a row as c or a matrix, and gelu(h): both are results. In one launch, or two where the
 * sum is in parts. */
TEST(products_store_what_passes_through) {
    kn_context *context = *state;
    static const struct {
        const char *a, *b, *c;
        size_t elements;
        int launches;
    } forms[] = {{"13,31", "31,33", "33", 429},
                 {"12,64", "64,36", "36", 432},
                 {"5,1100", "1100,8", "8", 40},
                 {"3,7,20", "20,12", "3,7,12", 252},
                 {"2,5,20", "2,20,6", "2,5,6", 60}};
    static float found[1024], expected[1024];
    for (size_t f = 0; f < KN_COUNT_OF(forms); f++) {
        int steps[2];
        for (int plain = 0; plain < 2; plain++) {
            kn_graph *graph = kn_graph_create(NULL);
            kn_value *product = kn_matmul(kn_input(graph, "a", KN_FLOAT32, forms[f].a),
                                          kn_input(graph, "b", KN_FLOAT32, forms[f].b), false, false);
            kn_value *h = kn_add(product, kn_input(graph, "c", KN_FLOAT32, forms[f].c));
            kn_value *results[2] = {kn_output(h, "h"), kn_output(kn_gelu_tanh(h), "y")};
            steps[plain] = run_graph(context, graph, results, 2, plain ? "matmul=plain" : "matmul=tiled",
                                     plain ? expected : found);
        }
        assert_int_equal(steps[0], f == 2 ? 2 : 1);
        assert_int_equal(steps[1], 2);
        check_near(forms[f].a, found, expected, 2 * forms[f].elements);
    }
}

/* The norm of channels of a product whose sum is in parts, which stores it for its gradient, here for the
 * caller. */
TEST(batch_norms_add_parts) {
    kn_context *context = *state;
    static float found[2400], expected[2400];
    int steps[2];
    for (int plain = 0; plain < 2; plain++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *product = kn_matmul(kn_input(graph, "a", KN_FLOAT32, "9,1100"),
                                      kn_input(graph, "b", KN_FLOAT32, "1100,7"), false, false);
        kn_value *results[2] = {kn_output(product, "x"), kn_output(kn_batch_norm(product, NULL), "y")};
        steps[plain] =
            run_graph(context, graph, results, 2, plain ? "*=plain" : NULL, plain ? expected : found);
    }
    assert_true(steps[0] < steps[1]);
    check_near("channels", found, expected, 126);
    const kn_conv_params params = {.size = sizeof params, .padding = {1}, .no_bias = true};
    for (int plain = 0; plain < 2; plain++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *image = kn_conv(kn_input(graph, "image", KN_FLOAT32, "3,256,6,6"), 11, 3, 3, &params);
        kn_value *results[2] = {kn_output(image, "x"), kn_output(kn_relu(kn_batch_norm(image, NULL)), "y")};
        steps[plain] =
            run_graph(context, graph, results, 2, plain ? "*=plain" : NULL, plain ? expected : found);
    }
    assert_int_equal(steps[0], 2);
    check_near("images", found, expected, (size_t)2 * 3 * 11 * 36);
}

/* The gradient of a layer norm whose dy is a product in parts; where dy is a result too a separate launch
 * adds them, in the same order. */
TEST(layer_norms_add_parts) {
    kn_context *context = *state;
    static float joined[252], separate[252];
    int steps[2];
    for (int both = 0; both < 2; both++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *dy = kn_matmul(kn_input(graph, "a", KN_FLOAT32, "9,1100"),
                                 kn_input(graph, "b", KN_FLOAT32, "1100,14"), false, false);
        const kn_dim rows[1] = {9}, columns[1] = {14};
        kn_value *inputs[5] = {
            kn_input(graph, "x", KN_FLOAT32, "9,14"), dy, kn_broadcast_to(kn_scalar(graph, 2), 1, columns),
            kn_broadcast_to(kn_scalar(graph, 0.5), 1, rows), kn_broadcast_to(kn_scalar(graph, 3), 1, rows)};
        kn_value *dx = kn_node_add(graph, kn_operator_find("layer_norm_gradient"), NULL, inputs, 5, NULL);
        kn_value *results[2] = {kn_output(dx, "dx"), kn_output(dy, "dy")};
        steps[both] = run_graph(context, graph, results, 1 + both, NULL, both ? separate : joined);
    }
    assert_int_equal(steps[0], steps[1] - 1);
    assert_memory_equal(joined, separate, 126 * sizeof(float));
}

TEST(products_add_their_operands) {
    kn_context *context = *state;
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        check_product(context, &cases[i], "matmul=tiled");
        char name[KN_TILE_NAME], switches[64];
        for (int tile = 1; i < 2 && kn_product_tile_name(tile, name); tile++) {
            snprintf(switches, sizeof switches, "matmul=tiled,tile=%s", name);
            check_product(context, &cases[i], switches);
        }
    }
}

static int open_threads(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    *state = device_open(&params);
    return 0;
}

TEST_FILE(test_joined, open_threads, device_teardown)
