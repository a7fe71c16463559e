/* Graphs with mistakes: the error names the mistake and stays the first one, and later calls do not crash. */
#include "api_tests.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef kn_value *mistake(kn_graph *graph, kn_value *x);

/* x is (batch,3,8,8). */
static kn_value *twice_the_name(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "x", KN_FLOAT32, "2");
}
static kn_value *bad_name(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "a b", KN_FLOAT32, "2");
}
static kn_value *bad_dtype(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "y", (kn_dtype)88, "2");
}
static kn_value *bad_shape(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "y", KN_FLOAT32, "2,,3");
}
static kn_value *negative_shape(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "y", KN_FLOAT32, "-4");
}
static kn_value *huge_shape(kn_graph *graph, kn_value *x) {
    return kn_parameter(graph, "y", KN_FLOAT32, "9000000000000000000,9000000000000000000", NULL);
}
static kn_value *nine_dimensions(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "y", KN_FLOAT32, "1,1,1,1,1,1,1,1,1");
}
static kn_value *short_constant(kn_graph *graph, kn_value *x) {
    const float data[2] = {1, 2};
    return kn_constant(graph, KN_FLOAT32, "3", data, sizeof data);
}
static kn_value *symbolic_constant(kn_graph *graph, kn_value *x) {
    const float data[2] = {1, 2};
    return kn_constant(graph, KN_FLOAT32, "batch", data, sizeof data);
}
static kn_value *unkncustom_operator(kn_graph *graph, kn_value *x) {
    return kn_apply(graph, "conv2e", &x, 1, NULL);
}
static kn_value *unknown_attribute(kn_graph *graph, kn_value *x) {
    return kn_apply(graph, "max_pool", &x, 1, "windw=2");
}
static kn_value *unreadable_attribute(kn_graph *graph, kn_value *x) {
    return kn_apply(graph, "max_pool", &x, 1, "window=two");
}
static kn_value *too_many_inputs(kn_graph *graph, kn_value *x) {
    kn_value *many[20];
    for (int i = 0; i < 20; i++)
        many[i] = x;
    return kn_apply(graph, "relu", many, 20, NULL);
}
static kn_value *too_few_inputs(kn_graph *graph, kn_value *x) {
    return kn_apply(graph, "add", &x, 1, NULL);
}
static kn_value *sizes_that_do_not_fit(kn_graph *graph, kn_value *x) {
    return kn_add(x, kn_input(graph, "y", KN_FLOAT32, "5,8"));
}
static kn_value *types_that_do_not_fit(kn_graph *graph, kn_value *x) {
    return kn_add(x, kn_input(graph, "y", KN_INT32, "8,8"));
}
static kn_value *product_of_wrong_sizes(kn_graph *graph, kn_value *x) {
    return kn_matmul(x, kn_input(graph, "y", KN_FLOAT32, "7,5"), false, false);
}
static kn_value *window_too_large(kn_graph *graph, kn_value *x) {
    return kn_max_pool(x, 9, NULL);
}
static kn_value *negative_window(kn_graph *graph, kn_value *x) {
    return kn_max_pool(x, -2, NULL);
}
static kn_value *filter_too_large(kn_graph *graph, kn_value *x) {
    return kn_conv(x, 4, 11, 11, NULL);
}
static kn_value *groups_that_do_not_divide(kn_graph *graph, kn_value *x) {
    const kn_conv_params params = {.size = sizeof params, .groups = 2};
    return kn_conv(x, 4, 3, 3, &params);
}
static kn_value *no_channels(kn_graph *graph, kn_value *x) {
    return kn_conv(x, 0, 3, 3, NULL);
}
static kn_value *negative_units(kn_graph *graph, kn_value *x) {
    return kn_linear(x, -5, NULL);
}
static kn_value *convolution_of_a_row(kn_graph *graph, kn_value *x) {
    return kn_conv(kn_input(graph, "y", KN_FLOAT32, "batch,3"), 4, 3, 3, NULL);
}
static kn_value *axis_outside(kn_graph *graph, kn_value *x) {
    return kn_softmax(x, 4);
}
static kn_value *axes_outside(kn_graph *graph, kn_value *x) {
    return kn_sum(x, "1,-5", false);
}
static kn_value *axes_twice(kn_graph *graph, kn_value *x) {
    return kn_mean(x, "1,-3", false);
}
static kn_value *other_number_of_elements(kn_graph *graph, kn_value *x) {
    return kn_reshape(x, "batch,3,8,9");
}
static kn_value *no_permutation(kn_graph *graph, kn_value *x) {
    return kn_transpose(x, "0,1,1,2");
}
static kn_value *slice_outside(kn_graph *graph, kn_value *x) {
    return kn_slice(x, 2, 5, 3);
}
static kn_value *broadcast_to_less(kn_graph *graph, kn_value *x) {
    return kn_broadcast(x, "batch,3,8,4");
}
static kn_value *rate_of_one(kn_graph *graph, kn_value *x) {
    return kn_dropout(x, 1.0);
}
static kn_value *rate_that_is_not_a_number(kn_graph *graph, kn_value *x) {
    return kn_dropout(x, NAN);
}
static kn_value *labels_of_the_wrong_type(kn_graph *graph, kn_value *x) {
    return kn_cross_entropy(kn_flatten(x), kn_input(graph, "y", KN_FLOAT32, "batch"), NULL);
}
static kn_value *label_smoothing_above_one(kn_graph *graph, kn_value *x) {
    const kn_cross_entropy_params params = {.size = sizeof params, .label_smoothing = 1.5};
    return kn_cross_entropy(kn_flatten(x), kn_input(graph, "y", KN_INT32, "batch"), &params);
}
static kn_value *another_graph(kn_graph *graph, kn_value *x) {
    static kn_graph *other;
    kn_graph_destroy(&other);
    other = kn_graph_create(NULL);
    kn_value *sum = kn_add(x, kn_input(other, "y", KN_FLOAT32, "8"));
    kn_graph_destroy(&other);
    return sum;
}
static kn_value *result_that_is_not(kn_graph *graph, kn_value *x) {
    return kn_result(kn_relu(x), 3);
}
static kn_value *end_of_no_scope(kn_graph *graph, kn_value *x) {
    kn_scope_end(graph);
    return kn_relu(x);
}

static const struct {
    const char *name;
    mistake *make;
    kn_status status;
    const char *word; /* that the message must have */
} mistakes[] = {
    {"a name twice", twice_the_name, KN_ERROR_ARGUMENT, "x"},
    {"a bad name", bad_name, KN_ERROR_ARGUMENT, "a b"},
    {"a bad dtype", bad_dtype, KN_ERROR_DTYPE, "y"},
    {"a bad shape", bad_shape, KN_ERROR_FORMAT, "2,,3"},
    {"a negative shape", negative_shape, KN_ERROR_SHAPE, "-4"},
    {"a huge shape", huge_shape, KN_ERROR_SHAPE, "y"},
    {"nine dimensions", nine_dimensions, KN_ERROR_SHAPE, "8"},
    {"a short constant", short_constant, KN_ERROR_ARGUMENT, "8 bytes"},
    {"a symbolic constant", symbolic_constant, KN_ERROR_ARGUMENT, "batch"},
    {"an unknown operator", unkncustom_operator, KN_ERROR_NOT_FOUND, "conv2d"},
    {"an unknown attribute", unknown_attribute, KN_ERROR_NOT_FOUND, "window"},
    {"an unreadable attribute", unreadable_attribute, KN_ERROR_ARGUMENT, "two"},
    {"too many inputs", too_many_inputs, KN_ERROR_ARGUMENT, "20"},
    {"too few inputs", too_few_inputs, KN_ERROR_ARGUMENT, "add"},
    {"sizes that do not fit", sizes_that_do_not_fit, KN_ERROR_SHAPE, "5"},
    {"types that do not fit", types_that_do_not_fit, KN_ERROR_DTYPE, "int32"},
    {"a product of wrong sizes", product_of_wrong_sizes, KN_ERROR_SHAPE, "7"},
    {"a window too large", window_too_large, KN_ERROR_SHAPE, "9"},
    {"a negative window", negative_window, KN_ERROR_ARGUMENT, "-2"},
    {"a filter too large", filter_too_large, KN_ERROR_SHAPE, "11"},
    {"groups that do not divide", groups_that_do_not_divide, KN_ERROR_ARGUMENT, "2 groups"},
    {"no channels", no_channels, KN_ERROR_ARGUMENT, "0"},
    {"negative units", negative_units, KN_ERROR_ARGUMENT, "-5"},
    {"a convolution of a row", convolution_of_a_row, KN_ERROR_SHAPE, "batch,3"},
    {"an axis outside", axis_outside, KN_ERROR_SHAPE, "axis 4"},
    {"axes outside", axes_outside, KN_ERROR_SHAPE, "-4 to 3"},
    {"axes twice", axes_twice, KN_ERROR_SHAPE, "repeated"},
    {"another number of elements", other_number_of_elements, KN_ERROR_SHAPE, "9"},
    {"no permutation", no_permutation, KN_ERROR_SHAPE, "permutation"},
    {"a slice outside", slice_outside, KN_ERROR_SHAPE, "5 to 2"},
    {"broadcast to less", broadcast_to_less, KN_ERROR_SHAPE, "4"},
    {"a rate of one", rate_of_one, KN_ERROR_ARGUMENT, "1"},
    {"a rate that is not a number", rate_that_is_not_a_number, KN_ERROR_ARGUMENT, "rate < 1"},
    {"labels of the wrong type", labels_of_the_wrong_type, KN_ERROR_DTYPE, "int32"},
    {"label smoothing above one", label_smoothing_above_one, KN_ERROR_ARGUMENT, "0 to 1"},
    {"values of two graphs", another_graph, KN_ERROR_ARGUMENT, "graph"},
    {"a result that is not there", result_that_is_not, KN_ERROR_ARGUMENT, "3"},
    {"the end of no scope", end_of_no_scope, KN_ERROR_ARGUMENT, "scope"},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

static void try_mistake(void **state) {
    size_t number = *(size_t *)*state;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,3,8,8");
    kn_value *value = mistakes[number].make(graph, x);
    kn_status status = kn_graph_status(graph);
    if (status == KN_OK) fail_msg("no error");
    if (!kn_value_failed(value) && mistakes[number].make != end_of_no_scope)
        fail_msg("the value did not fail");
    const char *text = kn_graph_error(graph);
    if (!strstr(text, mistakes[number].word)) fail_msg("'%s' is missing in: %s", mistakes[number].word, text);
    if (status != mistakes[number].status)
        fail_msg("%s instead of %s: %s", kn_status_name(status), kn_status_name(mistakes[number].status),
                 text);
    /* The first error stays, whatever follows. */
    char first[512];
    strncpy(first, text, sizeof first - 1);
    first[sizeof first - 1] = 0;
    assert_true(kn_value_failed(kn_linear(kn_relu(value), 3, NULL)) ||
                mistakes[number].make == end_of_no_scope);
    kn_input(graph, "", KN_FLOAT32, "2");
    assert_memory_equal(first, kn_graph_error(graph), strlen(first));
    kn_graph_destroy(&graph);
}

int test_wrong_graphs(void) {
    static size_t numbers[MISTAKES];
    struct CMUnitTest tests[MISTAKES];
    for (size_t i = 0; i < MISTAKES; i++) {
        numbers[i] = i;
        tests[i] = (struct CMUnitTest){
            .name = mistakes[i].name, .test_func = try_mistake, .initial_state = &numbers[i]};
    }
    return cmocka_run_group_tests_name("mistakes in graphs", tests, NULL, NULL);
}
