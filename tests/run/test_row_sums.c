/* Sums over the left side of a product, computed by the product's kernel. */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"

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

static void products_add_their_operands(void **state) {
    (void)state;
    kn_context_params params = device_params();
    params.kind = 2;
    kn_context *context = device_open(&params);
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        check_product(context, &cases[i], "matmul=tiled");
        char name[KN_TILE_NAME], switches[64];
        for (int tile = 1; i < 2 && kn_product_tile_name(tile, name); tile++) {
            snprintf(switches, sizeof switches, "matmul=tiled,tile=%s", name);
            check_product(context, &cases[i], switches);
        }
    }
    device_close(&context);
}

int test_row_sums(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_add_their_operands)};
    return cmocka_run_group_tests_name("sums of rows", tests, NULL, NULL);
}
