/* Folding: a node that reads constants only becomes a constant, with exceptions. */
#include "graph_tests.h"

static const float *floats(const kn_value *value) {
    assert_int_equal(value->kind, KN_VALUE_CONSTANT);
    return value->data;
}

TEST(test_folds) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2,3");
    kn_value *row = kn_constant(graph, KN_FLOAT32, "3", (float[]){1, -2, 3}, 12);
    kn_value *column = kn_constant(graph, KN_FLOAT32, "2,1", (float[]){10, 20}, 8);
    kn_value *grid = apply1(apply2(row, column, "add", NULL), "leaky", "slope=0.5"); /* (2,3) */
    kn_value *total = apply1(grid, "sum", "axes=1");
    kn_value *y = apply2(x, grid, "mul", NULL);
    kn_value *results[2];
    kn_graph *bound = bind_or_fail(graph, (kn_value *[]){y, total}, 2, NULL, false, results);
    assert_string_equal(printed(bound), "constant leaky1 float32 (2,3)\n"
                                        "constant sum1 float32 (2)\n"
                                        "input x float32 (2,3)\n"
                                        "mul1 float32 (2,3) = mul(x, leaky1)\n"
                                        "output mul1\n"
                                        "output sum1\n");
    const float *data = floats(bound->values[0]);
    const float expected[] = {11, 8, 13, 21, 18, 23};
    assert_memory_equal(data, expected, sizeof expected);
    assert_true(floats(results[1])[0] == 32 && floats(results[1])[1] == 62);
    /* Ids are positions in the arrays. */
    for (size_t i = 0; i < bound->value_count; i++)
        assert_int_equal(bound->values[i]->id, i);
    for (size_t i = 0; i < bound->node_count; i++)
        assert_int_equal(bound->nodes[i]->id, i);
    assert_null(kn_graph_find(bound, "constant1"));
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

/* Whether the node of the result is folded must be as expected. */
static void assert_folding(kn_graph *graph, kn_value *y, bool folds) {
    kn_value *result;
    kn_graph *bound = bind_or_fail(graph, &y, 1, NULL, true, &result);
    if ((result->kind == KN_VALUE_CONSTANT) != folds)
        fail_msg("%s should %sbe folded", y->producer->op->name, folds ? "" : "not ");
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

static kn_value *zeros(kn_graph *graph, kn_dtype dtype, const char *shape, size_t bytes) {
    void *data = test_calloc(bytes + 1, 1);
    kn_value *value = kn_constant(graph, dtype, shape, data, bytes);
    test_free(data);
    return value;
}

TEST(test_stays) {
    kn_graph *graph = graph_make();
    kn_value *step = zeros(graph, KN_UINT32, "", 4);
    assert_folding(graph, apply2(kn_scalar(graph, 1), step, "noise", NULL), false); /* random */
    graph = graph_make();
    assert_folding(graph, apply1(zeros(graph, KN_FLOAT32, "1,5", 20), "pool", NULL),
                   false); /* no reference */
    graph = graph_make();
    assert_folding(graph, apply1(kn_input(graph, "x", KN_FLOAT32, ""), "exp", NULL), false);
    graph = graph_make();
    assert_folding(graph, apply1(kn_parameter(graph, "x", KN_FLOAT32, "", NULL), "exp", NULL), false);
    graph = graph_make();
    assert_folding(graph, apply1(zeros(graph, KN_FLOAT32, "1048576", 4194304), "exp", NULL), true);
    graph = graph_make();
    assert_folding(graph, apply1(zeros(graph, KN_INT8, "1048577", 1048577), "leaky", "slope=2"),
                   false); /* large */
    graph = graph_make();
    kn_value *square = zeros(graph, KN_FLOAT32, "512,512", 1048576);
    assert_folding(graph, apply2(square, square, "matmul", NULL), false); /* slow */
    graph = graph_make();
    assert_folding(
        graph,
        apply2(zeros(graph, KN_FLOAT32, "64,1", 256), zeros(graph, KN_FLOAT32, "64", 256), "add", NULL),
        true);
    graph = graph_make();
    assert_folding(
        graph,
        apply2(zeros(graph, KN_FLOAT32, "65,1", 260), zeros(graph, KN_FLOAT32, "64", 256), "add", NULL),
        false); /* 4160 repeated numbers */
    graph = graph_make();
    assert_folding(graph, apply1(zeros(graph, KN_FLOAT32, "0,5", 0), "exp", NULL), true); /* nothing */
}

TEST(test_whole_numbers) {
    const int64_t large[] = {INT64_C(9007199254740993)}, small[] = {5};
    const int32_t top[] = {2147483647};
    kn_graph *graph = graph_make();
    kn_value *x = kn_constant(graph, KN_INT64, "1", large, 8);
    assert_folding(graph, apply2(x, x, "add", NULL), false); /* double cannot represent it */
    graph = graph_make();
    x = kn_constant(graph, KN_INT64, "1", small, 8);
    assert_folding(graph, apply2(x, x, "add", NULL), true);
    graph = graph_make();
    x = kn_constant(graph, KN_INT32, "1", top, 4);
    assert_folding(graph, apply2(x, x, "add", NULL), false); /* overflows: left to the device */
    graph = graph_make();
    x = kn_constant(graph, KN_INT32, "1", top, 4);
    assert_folding(graph, apply2(x, x, "less", NULL), true);
}

TEST(test_hidden) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_constant(graph, KN_FLOAT32, "2", (float[]){1, 3}, 8), *result;
    kn_value *y = apply2(x, kn_scalar(graph, 10), "norm", NULL);
    kn_graph *bound = bind_or_fail(graph, (kn_value *[]){kn_result(y, 1)}, 1, NULL, false, &result);
    assert_true(floats(result)[0] == 6);
    assert_int_equal(bound->node_count, 0);
    assert_null(kn_graph_find(bound, "norm1:2")); /* a hidden output that is not read */
    assert_non_null(kn_graph_find(bound, "norm1"));
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

/* References of random rows agree with kernels: both read the same random stream. */
static double start_numbers(const char *name, int64_t position) {
    return strcmp(name, "step") == 0 ? 3 : (double)position;
}

TEST(test_random_reference) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2,5"), *result;
    kn_value *step = kn_state_add(graph, "step", &(kn_shape){.dtype = KN_UINT32}, KN_STATE_CONTROL, NULL);
    kn_value *y = apply2(x, step, "noise", NULL);
    kn_graph *bound = bind_or_fail(graph, &y, 1, NULL, true, &result);
    computed values = compute(bound, start_numbers);
    uint64_t key = kn_random_key(7, "noise1") + 3 * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 10; i++)
        assert_true(values.data[result->id][i] == i + (double)kn_random_uniform(key, (uint64_t)i));
    computed_release(&values);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

TEST_FILE(test_fold, NULL, NULL)
