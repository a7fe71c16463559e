/* Binding: numbers for symbols, which nodes are kept, messages, training. */
#include "graph_tests.h"

TEST(test_numbers) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,width");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "10,4", NULL);
    kn_value *pooled = apply1(x, "pool", NULL);
    kn_value *flat = apply1(pooled, "reshape", "shape=-1,10");
    kn_value *y = kn_name(apply2(flat, w, "matmul", NULL), "y");
    kn_value *unused = apply1(kn_input(graph, "unused", KN_FLOAT32, "other"), "exp", NULL);
    assert_false(kn_value_failed(unused));
    kn_freeze(w);
    kn_value *result;
    kn_graph *bound = bind_or_fail(graph, &y, 1, (numbers[]){{"batch", 5}, {"width", 41}}, false, &result);
    kn_graph_destroy(&graph); /* the bound graph does not depend on its source */
    assert_true(bound->bound);
    assert_string_equal(kn_value_name(result), "y");
    assert_string_equal(printed(bound), "input x float32 (5,41)\n"
                                        "state w float32 (10,4) parameter uniform 0.5 frozen\n"
                                        "pool1 float32 (5,20) = pool(x)\n"
                                        "reshape1 float32 (10,10) = reshape(pool1) shape=10,10\n"
                                        "y float32 (10,4) = matmul(reshape1, w) transpose=false\n"
                                        "output y\n");
    assert_ptr_equal(kn_graph_find(bound, "y"), result);
    assert_ptr_equal(result->producer->op, kn_operator_find("matmul"));
    assert_true(kn_graph_find(bound, "w")->frozen);
    kn_graph_destroy(&bound);
}

/* One graph is bound again with different numbers, including zero. */
TEST(test_again) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,3");
    kn_value *outputs[] = {apply1(x, "exp", NULL), x};
    for (int64_t batch = 0; batch < 3; batch++) {
        kn_value *results[2];
        kn_graph *bound =
            bind_or_fail(graph, outputs, 2, (numbers[]){{"batch", batch}, {NULL, 0}}, true, results);
        assert_int_equal(kn_value_dimension(results[0], 0), batch);
        assert_int_equal(results[1]->kind, KN_VALUE_INPUT);
        assert_int_equal(bound->output_count, 2);
        kn_graph_destroy(&bound);
    }
    kn_graph_destroy(&graph);
}

static void assert_bind_fails(const kn_graph *graph, kn_value *output, const kn_binding *bindings,
                              size_t count, kn_status status, const char *first, const char *second) {
    kn_bind_request request = {.bindings = bindings, .binding_count = count};
    kn_error error = {0};
    kn_graph *bound = (kn_graph *)graph;
    kn_value *result;
    assert_int_equal(kn_graph_bind(graph, &output, 1, &request, &bound, &result, &error), status);
    assert_null(bound);
    assert_words(error.text, first);
    assert_words(error.text, second);
}

TEST(test_failures) {
    kn_graph *graph = graph_make(), *other = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,width");
    kn_value *pool = apply1(x, "pool", NULL), *less = apply1(x, "reshape", "shape=batch-2,-1");
    kn_value *fixed = apply1(x, "reshape", "shape=10");
    assert_true(kn_value_failed(fixed)); /* batch * width is not known to be 10 */
    kn_graph_destroy(&graph);
    graph = graph_make();
    x = kn_input(graph, "x", KN_FLOAT32, "batch,width");
    pool = apply1(x, "pool", NULL);
    less = apply1(x, "reshape", "shape=batch-2,-1");
    kn_binding small[] = {{"batch", 1}, {"width", 0}}, negative[] = {{"batch", -1}};
    kn_binding huge[] = {{"batch", INT64_C(1) << 32}, {"width", INT64_C(1) << 30}};
    assert_bind_fails(graph, pool, small, 1, KN_ERROR_NOT_FOUND, "'x'", "size 'width' is not bound");
    assert_bind_fails(graph, pool, small, 2, KN_ERROR_SHAPE, "with batch=1, width=0: pool 'pool1'",
                      "too small");
    assert_bind_fails(graph, less, small, 2, KN_ERROR_SHAPE, "reshape 'reshape1', attribute 'shape'",
                      "batch-2 would be -1");
    assert_bind_fails(graph, pool, negative, 1, KN_ERROR_SHAPE, "'batch' cannot be negative: -1", "");
    assert_bind_fails(graph, x, huge, 2, KN_ERROR_SHAPE, "'x' float32 (4294967296,1073741824)", "64 bits");
    assert_bind_fails(graph, NULL, NULL, 0, KN_ERROR_ARGUMENT, "output 0 is NULL", "");
    assert_bind_fails(graph, kn_scalar(other, 1), NULL, 0, KN_ERROR_ARGUMENT, "another graph", "");
    /* The error of a failed graph is passed on. */
    kn_value *failed = apply1(x, "exp", "speed=3");
    assert_bind_fails(graph, failed, NULL, 0, KN_ERROR_NOT_FOUND, "exp has no attributes", "speed");
    kn_graph_destroy(&graph);
    kn_graph_destroy(&other);
}

TEST(test_assigns) {
    const kn_shape scalar = {.dtype = KN_FLOAT32};
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4");
    kn_value *running = kn_state_add(graph, "running", &scalar, KN_STATE_STATISTIC, NULL);
    kn_value *elsewhere = kn_state_add(graph, "elsewhere", &scalar, KN_STATE_STATISTIC, NULL);
    kn_value *average = kn_state_add(
        graph, "average", &(kn_shape){.dtype = KN_FLOAT32, .rank = 1, .dims = {4}}, KN_STATE_STATISTIC, NULL);
    kn_value *normed = apply2(x, running, "norm", NULL);
    kn_value *y = kn_name(apply1(normed, "exp", NULL), "y");
    kn_assign(graph, running, kn_result(normed, 1));            /* its state is read */
    kn_assign(graph, average, apply2(y, average, "add", NULL)); /* computed from a needed result */
    kn_value *late = kn_state_add(graph, "late", &scalar, KN_STATE_STATISTIC, NULL);
    kn_assign(graph, late, kn_scalar(graph, 1)); /* before its reader */
    y = kn_name(apply2(y, late, "add", NULL), "z");
    kn_value *other = apply1(kn_input(graph, "other", KN_FLOAT32, ""), "exp", NULL);
    kn_assign(graph, elsewhere, other); /* belongs to another part of the graph */
    assert_int_equal(kn_graph_status(graph), KN_OK);
    kn_value *result;
    kn_graph *bound = bind_or_fail(graph, &y, 1, NULL, false, &result);
    assert_string_equal(printed(bound),
                        "input x float32 (4)\n"
                        "state running float32 () statistic fill 0\n"
                        "state late float32 () statistic fill 0\n"
                        "norm1 float32 (4), norm1:1 float32 (), norm1:2 float32 () = norm(x, running)\n"
                        "y float32 (4) = exp(norm1)\n"
                        "z float32 (4) = add(y, late)\n"
                        "output z\n");
    kn_graph_destroy(&bound);
    bound = bind_or_fail(graph, &y, 1, NULL, true, &result);
    assert_words(printed(bound), "late <- constant1\n");
    assert_true(bound->training);
    assert_words(printed(bound), "running <- norm1:1\n");
    assert_words(printed(bound), "average <- add1\n");
    assert_null(strstr(printed(bound), "elsewhere"));
    assert_non_null(kn_graph_find(bound, "running")->assign);
    kn_graph_destroy(&bound);
    /* A state as the only output keeps its update. */
    bound = bind_or_fail(graph, &elsewhere, 1, NULL, true, &result);
    assert_words(printed(bound), "elsewhere <- exp2\n");
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

TEST(test_training_only) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4");
    kn_value *step = kn_state_add(graph, "step", &(kn_shape){.dtype = KN_UINT32}, KN_STATE_CONTROL, NULL);
    kn_value *y = apply1(apply2(x, step, "dropout", "rate=0.25"), "exp", NULL);
    kn_value *noisy = apply2(x, step, "noise", NULL);
    kn_value *results[2];
    kn_graph *bound = bind_or_fail(graph, (kn_value *[]){y, noisy}, 2, NULL, false, results);
    assert_null(strstr(printed(bound), "dropout"));
    assert_words(printed(bound), "exp1 float32 (4) = exp(x)\n");
    assert_words(printed(bound), "noise1 float32 (4) = noise(x, step)\n");
    assert_true(results[1]->producer->random_key == kn_random_key(7, "noise1"));
    kn_graph_destroy(&bound);
    bound = bind_or_fail(graph, (kn_value *[]){y, noisy}, 2, NULL, true, results);
    assert_words(printed(bound), "dropout1 float32 (4) = dropout(x, step) rate=0.25\n");
    assert_true(kn_graph_find(bound, "dropout1")->producer->random_key == kn_random_key(7, "dropout1"));
    assert_true(results[0]->producer->random_key == 0);
    kn_graph_destroy(&bound);
    /* As an output it is replaced by its input. */
    kn_value *dropped = kn_graph_find(graph, "dropout1");
    bound = bind_or_fail(graph, &dropped, 1, NULL, false, results);
    assert_string_equal(kn_value_name(results[0]), "x");
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

TEST(test_stand_ins) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4"), *result;
    kn_value *y = apply1(kn_name(apply1(x, "double", NULL), "twice"), "exp", NULL);
    kn_graph *bound = bind_or_fail(graph, &y, 1, NULL, false, &result);
    assert_string_equal(printed(bound), "input x float32 (4)\n"
                                        "twice float32 (4) = add(x, x)\n"
                                        "exp1 float32 (4) = exp(twice)\n"
                                        "output exp1\n");
    assert_string_equal(kn_graph_find(bound, "twice")->producer->name, "double1");
    kn_graph_destroy(&bound);
    bound = bind_or_fail(graph, &y, 1, NULL, true, &result);
    assert_words(printed(bound), " = double(x)\n");
    kn_graph_destroy(&bound);
    assert_bind_fails(graph, apply1(x, "nothing", NULL), NULL, 0, KN_ERROR_UNSUPPORTED, "nothing 'nothing1'",
                      "for inference");
    assert_bind_fails(graph, apply1(x, "brittle", NULL), NULL, 0, KN_ERROR_UNSUPPORTED, "brittle 'brittle1'",
                      "at these sizes");
    /* One result of two has a replacement. */
    kn_value *hidden = kn_result(apply1(x, "double", NULL), 1);
    assert_bind_fails(graph, hidden, NULL, 0, KN_ERROR_UNSUPPORTED, "double 'double2'", "in inference");
    assert_bind_fails(graph, apply1(hidden, "exp", NULL), NULL, 0, KN_ERROR_UNSUPPORTED, "double 'double2'",
                      "in inference");
    kn_graph_destroy(&graph);
}

/* A graph with gradients can be bound again. */
TEST(test_again_with_gradients) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4"), *loss, *gradient, *result;
    kn_value *y = apply1(apply1(x, "exp", NULL), "sum", NULL);
    kn_error error = {0};
    kn_graph *bound = bind_or_fail(graph, &y, 1, NULL, true, &loss), *again;
    kn_value *by = kn_graph_find(bound, "x");
    assert_int_equal(kn_graph_gradient(bound, loss, &by, 1, &gradient, &error), KN_OK);
    again = bind_or_fail(bound, &gradient, 1, NULL, true, &result);
    assert_words(printed(again), "exp1~gradient float32 (4) = exp'1(-, exp1, ");
    assert_int_equal(result->producer->derivative, 1);
    kn_graph_destroy(&again);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

/* Names may be swapped: a value may have the name that another node was created with. */
TEST(test_names_stay) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4");
    kn_value *first = kn_name(apply1(x, "exp", NULL), "h"),
             *second = kn_name(apply1(first, "exp", NULL), "exp1");
    kn_value *third = kn_name(apply1(second, "leaky", NULL), "exp2"), *result;
    kn_graph *bound = bind_or_fail(graph, &third, 1, NULL, false, &result);
    assert_string_equal(kn_value_name(result), "exp2");
    assert_string_equal(kn_value_name(result->producer->inputs[0]), "exp1");
    assert_string_equal(result->producer->inputs[0]->producer->name, "exp2");
    assert_string_equal(kn_value_name(result->producer->inputs[0]->producer->inputs[0]), "h");
    /* Names of nodes added to a bound graph never clash. */
    kn_value *added = kn_node_add(bound, kn_operator_find("exp"), "h", &result, 1, NULL);
    assert_string_equal(kn_value_name(added), "h~2");
    assert_string_equal(added->producer->name, "h");
    added = kn_node_add(bound, kn_operator_find("exp"), "h", &result, 1, NULL);
    assert_string_equal(kn_value_name(added), "h~3");
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

TEST(test_copy) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,(width+1)/2");
    kn_value *running =
        kn_state_add(graph, "running", &(kn_shape){.dtype = KN_FLOAT32}, KN_STATE_STATISTIC, NULL);
    kn_value *normed = apply2(x, running, "norm", NULL);
    kn_assign(graph, running, kn_result(normed, 1));
    kn_value *y =
        kn_output(apply2(apply1(normed, "reshape", "shape=-1,batch"), kn_scalar(graph, 3), "mul", NULL), "y");
    char before[4096];
    strcpy(before, printed(graph));
    kn_graph *copy;
    kn_value *copied;
    kn_error error = {0};
    if (kn_graph_copy(graph, &y, 1, &copy, &copied, &error) != KN_OK) fail_msg("%s", error.text);
    kn_graph_destroy(&graph);
    assert_string_equal(printed(copy), before);
    assert_false(copy->bound);
    /* The copy binds like the original. */
    kn_value *result;
    kn_graph *bound = bind_or_fail(copy, &copied, 1, (numbers[]){{"batch", 2}, {"width", 7}}, true, &result);
    assert_words(printed(bound), "y float32 (4,2) = mul(");
    assert_words(printed(bound), "running <- norm1:1");
    kn_graph_destroy(&bound);
    kn_graph_destroy(&copy);
}

TEST_FILE(test_bind, NULL, NULL)
