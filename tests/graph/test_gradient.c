/* Gradients: compared with central differences in double precision, and the nodes that they consist of. */
#include "graph_tests.h"

#include <math.h>

/* Pseudo-random numbers in (-1, 1), the same in each run; one of them is shifted for the differences. */
static struct {
    const char *name;
    int64_t position;
    double by;
} moved;

static double start_numbers(const char *name, int64_t position) {
    uint64_t key = kn_random_key(11, name);
    double number = 2 * (double)kn_random_uniform(key, (uint64_t)position) - 1;
    if (strcmp(name, "step") == 0) return 2;
    if (moved.name && strcmp(name, moved.name) == 0 && position == moved.position) number += moved.by;
    return number;
}

static double loss_with(const kn_graph *bound, const kn_value *loss, const char *name, int64_t position,
                        double by) {
    moved.name = name;
    moved.position = position;
    moved.by = by;
    computed values = compute(bound, start_numbers);
    double result = values.data[loss->id][0];
    computed_release(&values);
    moved.name = NULL;
    return result;
}

/* The gradients of `loss` by the named inputs and states; destroys the graph. */
static void assert_gradients(kn_graph *graph, kn_value *loss, const char *const *names, size_t count) {
    kn_value *bound_loss, *by[4], *gradients[4];
    kn_error error = {0};
    if (kn_graph_status(graph) != KN_OK) fail_msg("%s", kn_graph_error(graph));
    kn_graph *bound = bind_or_fail(graph, &loss, 1, NULL, true, &bound_loss);
    for (size_t i = 0; i < count; i++)
        by[i] = kn_graph_find(bound, names[i]);
    if (kn_graph_gradient(bound, bound_loss, by, count, gradients, &error) != KN_OK)
        fail_msg("%s", error.text);
    computed values = compute(bound, start_numbers);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(gradients[i]);
        assert_true(kn_shape_same(&gradients[i]->shape, &by[i]->shape));
        for (int64_t j = 0; j < kn_shape_elements(&by[i]->shape); j++) {
            double step = 1e-5, found = values.data[gradients[i]->id][j];
            double expected = (loss_with(bound, bound_loss, names[i], j, step) -
                               loss_with(bound, bound_loss, names[i], j, -step)) /
                              (2 * step);
            if (!(fabs(found - expected) <= 1e-7 * (1 + fabs(expected))))
                fail_msg("by %s, element %d: found %.12g, expected %.12g", names[i], (int)j, found, expected);
        }
    }
    computed_release(&values);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

TEST(test_network) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3,4");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "5,4", NULL),
             *b = kn_parameter(graph, "b", KN_FLOAT32, "5", NULL);
    kn_value *v = kn_parameter(graph, "v", KN_FLOAT32, "5,2", NULL);
    kn_value *h = apply1(apply2(apply2(x, w, "matmul", "transpose=true"), b, "add", NULL), "leaky", NULL);
    kn_value *y = apply1(apply2(h, v, "matmul", NULL), "exp", NULL);
    assert_gradients(graph, apply1(y, "sum", NULL), (const char *[]){"x", "w", "b", "v"}, 4);
}

/* The gradient of a value with several uses is the sum over them, also for two uses by one node. */
TEST(test_several_readers) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3,2"), *y = kn_input(graph, "y", KN_FLOAT32, "3,2");
    kn_value *square = apply2(x, x, "mul", NULL);
    kn_value *sum = apply2(apply2(square, y, "mul", NULL),
                           apply2(apply1(x, "exp", NULL), square, "add", NULL), "add", NULL);
    assert_gradients(graph, apply1(sum, "sum", NULL), (const char *[]){"x", "y"}, 2);
}

TEST(test_broadcasts) {
    const char *const shapes[][2] = {{"2,3,4", "4"}, {"2,3,4", "3,1"}, {"2,3,4", "1,1,4"}, {"2,3,4", "1,3,1"},
                                     {"2,3,4", ""},  {"3,1", "1,4"},   {"1,4", "2,3,1"},   {"2,1,4", "3,4"},
                                     {"0,4", "4"},   {"0,4", "1,1"}};
    for (size_t i = 0; i < KN_COUNT_OF(shapes); i++) {
        kn_graph *graph = graph_make();
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, shapes[i][0]),
                 *y = kn_input(graph, "y", KN_FLOAT32, shapes[i][1]);
        kn_value *product = apply1(apply2(x, apply1(y, "exp", NULL), "mul", NULL), "exp", NULL);
        assert_gradients(graph, apply1(product, "sum", NULL), (const char *[]){"x", "y"}, 2);
    }
}

TEST(test_conditions) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3,4"), *y = kn_input(graph, "y", KN_FLOAT32, "4");
    kn_value *z = kn_input(graph, "z", KN_FLOAT32, "3,1");
    kn_value *chosen =
        apply3(apply2(x, y, "less", NULL), apply1(x, "exp", NULL), apply2(y, z, "mul", NULL), "where", NULL);
    kn_value *total =
        apply1(apply1(apply1(chosen, "reshape", "shape=6,2"), "sum", "axes=-1 keep=true"), "exp", NULL);
    assert_gradients(graph, apply1(total, "sum", "axes=0,1"), (const char *[]){"x", "y", "z"}, 3);
}

/* The gradient of dropout drops the same elements as the value: both read one random stream. */
TEST(test_dropout) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "7,3");
    kn_value *step = kn_state_add(graph, "step", &(kn_shape){.dtype = KN_UINT32}, KN_STATE_CONTROL, NULL);
    kn_value *dropped = apply2(apply1(x, "exp", NULL), step, "dropout", "rate=0.4");
    assert_gradients(graph, apply1(apply2(dropped, dropped, "mul", NULL), "sum", NULL), (const char *[]){"x"},
                     1);
}

static kn_graph *bound_gradient(kn_graph *graph, kn_value *loss, const char *name, kn_value **gradient,
                                kn_error *error) {
    kn_value *bound_loss;
    kn_graph *bound = bind_or_fail(graph, &loss, 1, NULL, true, &bound_loss);
    kn_value *by = kn_graph_find(bound, name);
    *error = (kn_error){0};
    kn_graph_gradient(bound, bound_loss, &by, 1, gradient, error);
    kn_graph_destroy(&graph);
    return bound;
}

TEST(test_structure) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3,4"), *gradient;
    kn_value *b = kn_parameter(graph, "b", KN_FLOAT32, "1,4", NULL);
    kn_value *h = apply1(apply2(x, b, "add", NULL), "exp", NULL);
    kn_error error;
    kn_graph *bound = bound_gradient(graph, apply1(h, "sum", NULL), "b", &gradient, &error);
    assert_int_equal(error.status, KN_OK);
    assert_string_equal(printed(bound), "input x float32 (3,4)\n"
                                        "state b float32 (1,4) parameter uniform 0.5\n"
                                        "constant constant1 float32 () 1\n"
                                        "add1 float32 (3,4) = add(x, b)\n"
                                        "exp1 float32 (3,4) = exp(add1)\n"
                                        "sum1 float32 () = sum(exp1) axes= keep=false\n"
                                        "sum1~reshape float32 (1,1) = reshape(constant1) shape=1,1\n"
                                        "sum1~repeat float32 (3,4) = repeat(exp1, sum1~reshape)\n"
                                        "exp1~gradient float32 (3,4) = exp'1(-, exp1, sum1~repeat)\n"
                                        "add1~sum float32 (1,4) = sum(exp1~gradient) axes=0 keep=true\n"
                                        "output sum1\n");
    /* Nodes are named after the node that they are the gradient of; the seed is folded afterwards. */
    assert_string_equal(gradient->producer->name, "add1");
    assert_null(bound->origin);
    assert_int_equal(kn_graph_fold(bound, &error), KN_OK);
    assert_words(printed(bound), "constant sum1~reshape float32 (1,1) 1\n");
    kn_graph_destroy(&bound);
}

TEST(test_no_dependence) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3"), *y = kn_input(graph, "y", KN_FLOAT32, "3"),
             *gradient;
    kn_value *n = kn_input(graph, "n", KN_INT32, "3"), *zero = kn_scalar(graph, 0);
    kn_value *bits = apply3(apply2(y, x, "less", NULL), zero, x, "where", NULL);
    kn_value *integers = apply1(apply2(n, n, "mul", NULL), "sum", NULL);
    kn_value *loss =
        apply2(apply1(bits, "sum", NULL),
               apply3(apply2(integers, integers, "less", NULL), zero, zero, "where", NULL), "add", NULL);
    kn_error error;
    kn_value *bound_loss, *by[3], *gradients[3];
    kn_graph *bound = bind_or_fail(graph, &loss, 1, NULL, true, &bound_loss);
    by[0] = kn_graph_find(bound, "y"); /* only through a comparison */
    by[1] = kn_graph_find(bound, "n"); /* integers */
    by[2] = kn_graph_find(bound, "x");
    assert_int_equal(kn_graph_gradient(bound, bound_loss, by, 3, gradients, &error), KN_OK);
    assert_null(gradients[0]);
    assert_null(gradients[1]);
    assert_non_null(gradients[2]);
    /* The gradient of the loss by itself is 1. */
    assert_int_equal(kn_graph_gradient(bound, bound_loss, &bound_loss, 1, &gradient, &error), KN_OK);
    assert_int_equal(gradient->kind, KN_VALUE_CONSTANT);
    assert_true(*(const float *)gradient->data == 1);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

static void assert_gradient_fails(kn_graph *graph, kn_value *loss, kn_status status, const char *word) {
    kn_value *gradient;
    kn_error error;
    kn_graph *bound = bound_gradient(graph, loss, "x", &gradient, &error);
    assert_int_equal(error.status, status);
    assert_words(error.text, word);
    assert_null(gradient);
    kn_graph_destroy(&bound);
}

TEST(test_failures) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3");
    assert_gradient_fails(graph, apply1(x, "exp", NULL), KN_ERROR_SHAPE, "'exp1' is float32 (3)");
    graph = graph_make();
    x = kn_input(graph, "x", KN_FLOAT32, "3");
    assert_gradient_fails(graph, apply1(apply1(x, "wrong", NULL), "sum", NULL), KN_ERROR_INTERNAL,
                          "the gradient of wrong 'wrong1' with respect to input 1 is float32 ()");
    graph = graph_make();
    x = kn_input(graph, "x", KN_FLOAT32, "3");
    assert_gradient_fails(graph, apply1(apply1(x, "lost", NULL), "sum", NULL), KN_ERROR_UNSUPPORTED,
                          "lost 'lost1'");
    graph = graph_make();
    x = kn_input(graph, "x", KN_INT32, "3");
    assert_gradient_fails(graph, apply1(x, "sum", NULL), KN_ERROR_SHAPE, "'sum1' is int32 ()");
    /* Gradients of gradients are refused, and the message names the operator. */
    graph = graph_make();
    x = kn_input(graph, "x", KN_FLOAT32, "3");
    kn_value *loss = apply1(apply1(x, "exp", NULL), "sum", NULL), *gradient, *second;
    kn_error error;
    kn_graph *bound = bound_gradient(graph, loss, "x", &gradient, &error);
    assert_int_equal(error.status, KN_OK);
    kn_value *again = apply1(gradient, "sum", NULL), *by = kn_graph_find(bound, "x");
    assert_int_equal(kn_graph_gradient(bound, again, &by, 1, &second, &error), KN_ERROR_UNSUPPORTED);
    assert_words(error.text, "exp 'exp1': second-order gradients");
    kn_graph_destroy(&bound);
    graph = graph_make();
    x = kn_input(graph, "x", KN_FLOAT32, "");
    assert_int_equal(kn_graph_gradient(graph, x, &x, 1, &gradient, &error), KN_ERROR_INTERNAL);
    kn_graph_destroy(&graph);
}

TEST_FILE(test_gradient, NULL, NULL)
