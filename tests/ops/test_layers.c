/* Layers: names, shapes and initial values of parameters, windows and padding, batch norm in and outside
 * training, and messages for mistakes. */
#include "ops_tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static kn_graph *graph;
static kn_value *images, *rows;

static int begin(void **state) {
    graph = kn_graph_create(NULL);
    images = kn_input(graph, "images", KN_FLOAT32, "batch,6,9,8");
    rows = kn_input(graph, "rows", KN_FLOAT32, "batch,20");
    return kn_value_failed(images) || kn_value_failed(rows);
}

static int end(void **state) {
    kn_graph_destroy(&graph);
    return 0;
}

static void shape_is(kn_value *value, const char *shape) {
    char text[128];
    if (kn_value_failed(value)) fail_msg("%s: %s", shape, kn_graph_error(graph));
    kn_value_shape_text(value, text, sizeof text);
    assert_string_equal(text, shape);
}

static kn_value *state_is(const char *name, const char *shape, kn_state_role role, kn_initializer_kind kind,
                          double value) {
    kn_value *state = kn_graph_find(graph, name);
    if (!state) fail_msg("there is no '%s'", name);
    assert_int_equal(state->kind, KN_VALUE_STATE);
    assert_int_equal(state->role, role);
    assert_int_equal(state->initializer.kind, kind);
    if (!(fabs(state->initializer.value - value) <= 1e-15))
        fail_msg("%s begins with %.17g; expected %.17g", name, state->initializer.value, value);
    shape_is(state, shape);
    return state;
}

static void parameter_is(const char *name, const char *shape, double bound) {
    state_is(name, shape, KN_STATE_PARAMETER, KN_INITIALIZER_UNIFORM, bound);
}

/* ---- linear --------------------------------------------------------------------------------------- */

TEST_WITH(linear_layers, begin, end) {
    kn_value *first = kn_linear(rows, 7, NULL), *second = kn_linear(first, 3, NULL);
    shape_is(first, "batch,7");
    shape_is(second, "batch,3");
    assert_string_equal(kn_value_name(first), "linear1");
    assert_string_equal(kn_value_name(second), "linear2");
    parameter_is("linear1.weight", "7,20", 1 / sqrt(20));
    parameter_is("linear1.bias", "7", 1 / sqrt(20));
    parameter_is("linear2.weight", "3,7", 1 / sqrt(7));
    /* The bias is added after the product, so that it can be an epilogue. */
    assert_string_equal(first->producer->op->name, "add");
    assert_string_equal(first->producer->inputs[0]->producer->op->name, "matmul");
}

TEST_WITH(linear_parameters, begin, end) {
    const kn_initializer normal = {KN_INITIALIZER_NORMAL, 0.25};
    kn_linear_params params = {.size = sizeof params, .name = "head", .no_bias = true, .weight = &normal};
    kn_scope_begin(graph, "top");
    kn_value *y = kn_linear(rows, 5, &params);
    kn_scope_end(graph);
    assert_string_equal(kn_value_name(y), "top.head");
    state_is("top.head.weight", "5,20", KN_STATE_PARAMETER, KN_INITIALIZER_NORMAL, 0.25);
    assert_null(kn_graph_find(graph, "top.head.bias"));
    assert_string_equal(y->producer->op->name, "matmul");
    /* With more leading dimensions no view is needed. */
    shape_is(kn_linear(kn_input(graph, "text", KN_FLOAT32, "batch,length,4"), 2, NULL), "batch,length,2");
}

/* A program built with an older struct sets less of it. */
TEST_WITH(shorter_structs, begin, end) {
    kn_linear_params params = {.size = offsetof(kn_linear_params, no_bias), .name = "short", .no_bias = true};
    shape_is(kn_linear(rows, 5, &params), "batch,5");
    assert_non_null(kn_graph_find(graph, "short.bias"));
}

/* ---- conv ------------------------------------------------------------------------------------------- */

TEST_WITH(conv_layers, begin, end) {
    kn_value *y = kn_conv(images, 4, 3, 0, NULL);
    shape_is(y, "batch,4,7,6");
    assert_string_equal(kn_value_name(y), "conv1");
    parameter_is("conv1.weight", "4,6,3,3", 1 / sqrt(54));
    parameter_is("conv1.bias", "4", 1 / sqrt(54));
    kn_conv_params params = {.size = sizeof params, .name = "wide", .groups = 2, .no_bias = true};
    shape_is(kn_conv(images, 4, 1, 5, &params), "batch,4,9,4");
    parameter_is("wide.weight", "4,3,1,5", 1 / sqrt(15));
    assert_null(kn_graph_find(graph, "wide.bias"));
}

TEST_WITH(windows, begin, end) {
    const struct {
        kn_conv_params params;
        const char *shape;
    } cases[] = {
        {{.padding = {1}}, "batch,4,9,8"},
        {{.padding = {1, 2}}, "batch,4,9,10"},
        {{.padding = {0, 1, 2, 0}}, "batch,4,9,7"},
        {{.stride = {2}}, "batch,4,4,3"},
        {{.stride = {3, 1}}, "batch,4,3,6"},
        {{.dilation = {3}}, "batch,4,3,2"},
        {{.dilation = {1, 2}}, "batch,4,7,4"},
        {{.same = true}, "batch,4,9,8"},
        {{.same = true, .stride = {2}}, "batch,4,5,4"},
        {{.same = true, .stride = {4, 3}, .dilation = {2}}, "batch,4,3,3"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_conv_params params = cases[i].params;
        params.size = sizeof params;
        shape_is(kn_conv(images, 4, 3, 0, &params), cases[i].shape);
    }
    /* `same` pads one more line at the end if the number is odd. */
    kn_conv_params params = {.size = sizeof params, .same = true, .no_bias = true};
    const kn_attribute_value *padding =
        kn_attribute_of(kn_conv(images, 4, 2, 3, &params)->producer, "padding");
    const kn_dim expected[4] = {0, 1, 1, 1};
    assert_memory_equal(padding->list, expected, sizeof expected);
    /* Sizes may be symbols. */
    kn_value *open = kn_input(graph, "open", KN_FLOAT32, "batch,3,height,width");
    shape_is(kn_conv(open, 4, 3, 0, NULL), "batch,4,height-2,width-2");
}

TEST_WITH(filters_of_the_caller, begin, end) {
    kn_value *filters = kn_input(graph, "filters", KN_FLOAT32, "5,6,3,3"),
             *bias = kn_input(graph, "bias", KN_FLOAT32, "5");
    kn_conv_params params = {.size = sizeof params, .stride = {2}};
    kn_value *y = kn_conv2d(images, filters, bias, &params);
    shape_is(y, "batch,5,4,3");
    assert_string_equal(y->producer->op->name, "add");
    assert_string_equal(kn_conv2d(images, filters, NULL, NULL)->producer->op->name, "conv2d");
}

/* A sequence is an image of one row; its padding is before and after. */
TEST_WITH(lengths, begin, end) {
    kn_value *signal = kn_input(graph, "signal", KN_FLOAT32, "batch,6,time");
    kn_conv_params params = {.size = sizeof params, .name = "line", .padding = {4, 0}, .all_padding = true};
    params.dilation[0] = 2;
    kn_value *y = kn_conv(signal, 4, 3, 0, &params);
    shape_is(y, "batch,4,time");
    assert_string_equal(kn_value_name(y), "line");
    parameter_is("line.weight", "4,6,3", 1 / sqrt(18));
    parameter_is("line.bias", "4", 1 / sqrt(18));
    const kn_node *product = kn_graph_find(graph, "line.product")->producer;
    const kn_dim padding[4] = {0, 4, 0, 0}, dilation[2] = {1, 2};
    assert_memory_equal(kn_attribute_of(product, "padding")->list, padding, sizeof padding);
    assert_memory_equal(kn_attribute_of(product, "dilation")->list, dilation, sizeof dilation);
    params = (kn_conv_params){.size = sizeof params, .padding = {1}, .stride = {2}};
    shape_is(kn_conv(signal, 4, 3, 0, &params), "batch,4,(time+1)/2");
    kn_pool_params pools = {.size = sizeof pools, .stride = {1}, .padding = {1}};
    shape_is(kn_max_pool(signal, 3, &pools), "batch,6,time");
    shape_is(kn_average_pool(signal, 2, NULL), "batch,6,time/2");
    shape_is(kn_lp_pool(signal, 2, 2, NULL), "batch,6,time/2");
    shape_is(kn_adaptive_average_pool(signal, 5, 0), "batch,6,5");
    shape_is(kn_global_max_pool(signal), "batch,6,1");
}

/* The size is that of the input that a convolution would map to x. */
TEST_WITH(transposed, begin, end) {
    kn_conv_params params = {.size = sizeof params, .stride = {2}, .padding = {1}, .output_padding = {1}};
    kn_value *y = kn_conv_transpose(images, 4, 3, 0, &params);
    shape_is(y, "batch,4,18,16");
    assert_string_equal(kn_value_name(y), "convtranspose1");
    assert_string_equal(y->producer->inputs[0]->producer->op->name, "conv2d_data");
    parameter_is("convtranspose1.weight", "6,4,3,3", 1 / sqrt(36));
    shape_is(kn_conv(y, 6, 3, 0, &(kn_conv_params){.size = sizeof params, .stride = {2}, .padding = {1}}),
             "batch,6,9,8");
    params = (kn_conv_params){.size = sizeof params, .groups = 2, .no_bias = true, .name = "grown"};
    shape_is(kn_conv_transpose(images, 8, 1, 4, &params), "batch,8,9,11");
    parameter_is("grown.weight", "6,4,1,4", 1 / sqrt(16));
    /* Sizes may be symbols. */
    kn_value *open = kn_input(graph, "open", KN_FLOAT32, "batch,3,height,time");
    params = (kn_conv_params){.size = sizeof params, .stride = {2, 1}};
    shape_is(kn_conv_transpose(open, 4, 2, 3, &params), "batch,4,2*height,time+2");
    kn_value *line = kn_input(graph, "line", KN_FLOAT32, "batch,3,7");
    shape_is(kn_conv_transpose(line, 4, 4, 0, &(kn_conv_params){.size = sizeof params, .stride = {3}}),
             "batch,4,22");
}

/* ---- pooling ------------------------------------------------------------------------------------------- */

TEST_WITH(pools, begin, end) {
    shape_is(kn_max_pool(images, 2, NULL), "batch,6,4,4");
    kn_pool_params params = {.size = sizeof params, .window = {3, 2}, .stride = {1}, .padding = {1}};
    kn_value *y = kn_average_pool(images, 2, &params);
    shape_is(y, "batch,6,9,9");
    assert_int_equal(kn_attribute_of(y->producer, "skip_padding")->integer, 0);
    params.skip_padding = true;
    assert_int_equal(kn_attribute_of(kn_average_pool(images, 2, &params)->producer, "skip_padding")->integer,
                     1);
    shape_is(kn_global_average_pool(images), "batch,6,1,1");
    params = (kn_pool_params){.size = sizeof params, .stride = {3}, .ceil = true};
    shape_is(kn_max_pool(images, 2, &params), "batch,6,3,3");
    params.dilation[0] = 3;
    shape_is(kn_max_pool(images, 3, &params), "batch,6,2,2");
    params = (kn_pool_params){.size = sizeof params, .stride = {2}, .ceil = true, .padding = {1}};
    shape_is(kn_average_pool(images, 3, &params), "batch,6,5,5");
    kn_value *open = kn_input(graph, "open", KN_FLOAT32, "batch,6,height,height");
    shape_is(kn_max_pool(open, 3, &params), "batch,6,height/2+1,height/2+1");
    shape_is(kn_adaptive_max_pool(open, 4, 3), "batch,6,4,3");
    shape_is(kn_adaptive_average_pool(images, 4, 0), "batch,6,4,4");
    shape_is(kn_global_max_pool(images), "batch,6,1,1");
    /* Positions in small windows are stored in bytes. */
    kn_value *small = kn_max_pool(images, 2, NULL);
    assert_int_equal(small->producer->outputs[1]->shape.dtype, KN_UINT8);
    kn_value *large = kn_max_pool(kn_input(graph, "large", KN_FLOAT32, "1,1,40,40"), 17, NULL);
    assert_int_equal(large->producer->outputs[1]->shape.dtype, KN_INT32);
}

/* ---- batch norm ------------------------------------------------------------------------------ */

static kn_graph *bind(kn_value *value, bool training, kn_value **result) {
    kn_graph *bound = NULL;
    kn_error error = {0};
    kn_binding batch = {"batch", 3};
    kn_bind_request request = {.bindings = &batch, .binding_count = 1, .training = training};
    if (kn_graph_bind(graph, &value, 1, &request, &bound, result, &error)) fail_msg("%s", error.text);
    return bound;
}

static int count_rows(const kn_graph *bound, const char *row) {
    int count = 0;
    for (size_t i = 0; i < bound->node_count; i++)
        count += !strcmp(bound->nodes[i]->op->name, row);
    return count;
}

TEST_WITH(batch_norm_lives_twice, begin, end) {
    kn_value *y = kn_batch_norm(images, NULL), *result;
    shape_is(y, "batch,6,9,8");
    assert_string_equal(kn_value_name(y), "batchnorm1");
    state_is("batchnorm1.weight", "6", KN_STATE_PARAMETER, KN_INITIALIZER_FILL, 1);
    state_is("batchnorm1.bias", "6", KN_STATE_PARAMETER, KN_INITIALIZER_FILL, 0);
    assert_non_null(
        state_is("batchnorm1.running_mean", "6", KN_STATE_STATISTIC, KN_INITIALIZER_FILL, 0)->assign);
    assert_non_null(
        state_is("batchnorm1.running_var", "6", KN_STATE_STATISTIC, KN_INITIALIZER_FILL, 1)->assign);
    kn_graph *bound = bind(y, true, &result);
    assert_string_equal(result->producer->op->name, "batch_norm");
    assert_int_equal(count_rows(bound, "assign"), 2);
    kn_graph_destroy(&bound);
    /* Outside training nothing is written, and only pointwise operators remain, which fuse. */
    bound = bind(y, false, &result);
    assert_int_equal(count_rows(bound, "batch_norm") + count_rows(bound, "assign"), 0);
    for (size_t i = 0; i < bound->node_count; i++) {
        kn_operator_class class = bound->nodes[i]->op->class;
        assert_true(class == KN_CLASS_POINTWISE || class == KN_CLASS_VIEW);
    }
    kn_graph_destroy(&bound);
}

/* The running statistics with epsilon and momentum, computed by hand. */
TEST_WITH(batch_norm_by_hand, begin, end) {
    const double x[6] = {1, 10, 2, 20, 6, 60}; /* (3,2): channels 1 2 6 and 10 20 60 */
    kn_batch_norm_params params;
    kn_batch_norm_params_init(&params);
    params.epsilon = 0.5;
    params.momentum = 0.25;
    kn_value *two = kn_input(graph, "two", KN_FLOAT32, "batch,2"), *result;
    kn_graph *bound = bind(kn_batch_norm(two, &params), true, &result);
    host_input given = {"two", x};
    host_values values = host_compute(bound, &given, 1);
    const kn_node *node = result->producer;
    const double *y = values.numbers[result->id];
    assert_true(fabs(y[0] - (1 - 3) / sqrt(14.0 / 3 + 0.5)) < 1e-12);
    assert_true(fabs(y[5] - (60 - 30) / sqrt(1400.0 / 3 + 0.5)) < 1e-12);
    const double *mean = values.numbers[node->outputs[3]->id],
                 *variance = values.numbers[node->outputs[4]->id];
    assert_true(fabs(mean[0] - 0.25 * 3) < 1e-12 && fabs(mean[1] - 0.25 * 30) < 1e-12);
    assert_true(fabs(variance[0] - (0.75 + 0.25 * 7)) < 1e-12 &&
                fabs(variance[1] - (0.75 + 0.25 * 700)) < 1e-12);
    host_release(&values);
    kn_graph_destroy(&bound);
}

/* Statistics that two norms share are updated by the first, then by the second; outside training both read
 * them. */
TEST_WITH(batch_norms_share_statistics, begin, end) {
    const double x[6] = {1, 10, 2, 20, 6, 60}; /* (3,2): means 3 and 30 */
    kn_value *two = kn_input(graph, "two", KN_FLOAT32, "batch,2"), *result;
    kn_value *first = kn_batch_norm(two, NULL);
    kn_value *const *shared = first->producer->inputs;
    kn_value *second = kn_batch_norm_with(kn_scale(two, 2), shared[1], shared[2], shared[3], shared[4], NULL);
    kn_graph *bound = bind(kn_add(first, second), true, &result);
    host_input given = {"two", x};
    host_values values = host_compute(bound, &given, 1);
    assert_int_equal(count_rows(bound, "assign"), 2);
    const kn_value *mean = kn_graph_find(bound, "batchnorm1.running_mean"), *next = mean->assign->inputs[1];
    assert_ptr_equal(next->producer, result->producer->inputs[1]->producer);
    for (int c = 0; c < 2; c++) {
        double expected = 0.9 * 0.1 * (c ? 30 : 3) + 0.1 * (c ? 60 : 6);
        assert_true(fabs(values.numbers[next->id][c] - expected) < 1e-12);
    }
    host_release(&values);
    kn_graph_destroy(&bound);
    bound = bind(kn_add(first, second), false, &result);
    assert_int_equal(count_rows(bound, "batch_norm") + count_rows(bound, "assign"), 0);
    kn_graph_destroy(&bound);
}

/* ---- other norms ----------------------------------------------------------------------------- */

TEST_WITH(group_norms, begin, end) {
    kn_value *y = kn_group_norm(images, 3, NULL);
    shape_is(y, "batch,6,9,8");
    assert_string_equal(kn_value_name(y), "groupnorm1");
    state_is("groupnorm1.weight", "6", KN_STATE_PARAMETER, KN_INITIALIZER_FILL, 1);
    state_is("groupnorm1.bias", "6", KN_STATE_PARAMETER, KN_INITIALIZER_FILL, 0);
    assert_null(kn_graph_find(graph, "mean1")); /* its parts have other names */
    kn_norm_params params;
    kn_norm_params_init(&params);
    params.no_affine = true;
    params.name = "plain";
    kn_scope_begin(graph, "deep");
    y = kn_instance_norm(images, &params);
    kn_scope_end(graph);
    assert_string_equal(kn_value_name(y), "deep.plain");
    assert_null(kn_graph_find(graph, "deep.plain.weight"));
    params.name = NULL;
    shape_is(kn_group_norm(rows, 5, &params), "batch,20");
    shape_is(kn_layer_norm(rows, &params), "batch,20");
    assert_null(kn_graph_find(graph, "layernorm1.weight"));
    kn_batch_norm_params batch;
    kn_batch_norm_params_init(&batch);
    batch.no_affine = true;
    shape_is(kn_batch_norm(rows, &batch), "batch,20");
    assert_null(kn_graph_find(graph, "batchnorm1.weight"));
    assert_non_null(kn_graph_find(graph, "batchnorm1.running_var"));
    shape_is(kn_batch_norm(kn_input(graph, "signal", KN_FLOAT32, "batch,6,7"), &batch), "batch,6,7");
    shape_is(kn_local_response_norm(kn_input(graph, "open", KN_FLOAT32, "batch,6,height,8"), 5, NULL),
             "batch,6,height,8");
}

TEST_WITH(standardized, begin, end) {
    shape_is(kn_standardize(images), "batch,6,9,8");
    shape_is(kn_standardize(rows), "batch,20");
    const char *input = kn_value_name(images);
    char name[64];
    snprintf(name, sizeof name, "%s.mean", input);
    state_is(name, "6", KN_STATE_STATISTIC, KN_INITIALIZER_FILL, 0);
    snprintf(name, sizeof name, "%s.deviation", input);
    state_is(name, "6", KN_STATE_STATISTIC, KN_INITIALIZER_FILL, 1);
    const size_t values = graph->value_count;
    shape_is(kn_standardize(images), "batch,6,9,8"); /* by the same statistics */
    for (size_t i = values; i < graph->value_count; i++)
        assert_int_not_equal(graph->values[i]->kind, KN_VALUE_STATE);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void told(kn_value *value, kn_status status, const char *first, const char *second) {
    assert_true(kn_value_failed(value));
    assert_int_equal(kn_graph_status(graph), status);
    if (!strstr(kn_graph_error(graph), first) || !strstr(kn_graph_error(graph), second))
        fail_msg("\"%s\" tells neither \"%s\" nor \"%s\"", kn_graph_error(graph), first, second);
    end(NULL);
    begin(NULL);
}

TEST_WITH(mistakes, begin, end) {
    told(kn_linear(rows, 0, NULL), KN_ERROR_ARGUMENT, "linear linear1", "0 units");
    told(kn_linear(kn_input(graph, "one", KN_FLOAT32, "20"), 3, NULL), KN_ERROR_SHAPE, "float32 (20)",
         "flatten");
    told(kn_linear(kn_input(graph, "open", KN_FLOAT32, "20,n"), 3, NULL), KN_ERROR_SHAPE, "(20,n)", "inputs");
    told(kn_matmul(rows, rows, false, false), KN_ERROR_SHAPE, "(batch,20)", "rows of b");
    told(kn_matmul(rows, kn_input(graph, "ints", KN_INT32, "20,3"), false, false), KN_ERROR_DTYPE,
         "int32 (20,3)", "cast");
    told(kn_matmul(kn_input(graph, "a", KN_FLOAT32, "2,3,4"), kn_input(graph, "b", KN_FLOAT32, "3,4,5"),
                   false, false),
         KN_ERROR_SHAPE, "(2,3,4)", "leading dimensions");
    told(kn_conv(rows, 3, 3, 0, NULL), KN_ERROR_SHAPE, "conv conv1", "(N,C,H,W)");
    told(kn_conv(images, 3, 0, 0, NULL), KN_ERROR_ARGUMENT, "conv1", "0x0");
    kn_conv_params groups = {.size = sizeof groups, .groups = 4};
    told(kn_conv(images, 8, 3, 0, &groups), KN_ERROR_ARGUMENT, "4 groups", "multiples");
    told(kn_conv(images, 3, 11, 0, NULL), KN_ERROR_SHAPE, "(batch,6,9,8)", "height with padding is 9");
    kn_conv_params negative = {.size = sizeof negative, .padding = {-1}};
    told(kn_conv(images, 3, 3, 0, &negative), KN_ERROR_ARGUMENT, "padding", "at least 0");
    kn_conv_params backwards = {.size = sizeof backwards, .stride = {-2}};
    told(kn_conv(images, 3, 3, 0, &backwards), KN_ERROR_ARGUMENT, "stride", "at least 1");
    told(kn_max_pool(rows, 2, NULL), KN_ERROR_SHAPE, "(batch,20)", "(N,C,H,W)");
    told(kn_max_pool(images, 12, NULL), KN_ERROR_SHAPE, "(batch,6,9,8)", "12");
    kn_pool_params outside = {.size = sizeof outside, .padding = {2}};
    told(kn_average_pool(images, 2, &outside), KN_ERROR_ARGUMENT, "padding 2", "outside the image");
    told(kn_global_average_pool(rows), KN_ERROR_SHAPE, "(batch,20)", "(N,C,H,W)");
    told(kn_conv1d(images, images, NULL, NULL), KN_ERROR_SHAPE, "conv1d", "(N,C,L)");
    kn_conv_params wrong = {.size = sizeof wrong, .stride = {2}, .output_padding = {2}};
    told(kn_conv_transpose(images, 3, 3, 0, &wrong), KN_ERROR_ARGUMENT, "conv_transpose convtranspose1",
         "output_padding");
    wrong = (kn_conv_params){.size = sizeof wrong, .same = true};
    told(kn_conv_transpose(images, 3, 3, 0, &wrong), KN_ERROR_ARGUMENT, "same", "transposed");
    wrong = (kn_conv_params){.size = sizeof wrong, .padding = {5}};
    told(kn_conv_transpose(images, 3, 1, 0, &wrong), KN_ERROR_SHAPE, "(batch,6,9,8)", "padding");
    told(kn_conv_transpose2d(images, images, NULL, NULL), KN_ERROR_SHAPE, "conv_transpose2d", "filters");
    kn_pool_params apart = {.size = sizeof apart, .dilation = {2}};
    told(kn_average_pool(images, 2, &apart), KN_ERROR_ARGUMENT, "dilation", "max_pool");
    told(kn_adaptive_max_pool(images, 0, 3), KN_ERROR_ARGUMENT, "output", "at least 1");
    kn_pool_params rounded = {.size = sizeof rounded, .stride = {3}, .ceil = true};
    told(kn_max_pool(kn_input(graph, "open", KN_FLOAT32, "1,1,n,n"), 2, &rounded), KN_ERROR_UNSUPPORTED,
         "(1,1,n,n)", "symbols");
    told(kn_standardize(kn_relu(rows)), KN_ERROR_ARGUMENT, "standardize", "expected an input");
    told(kn_standardize(kn_input(graph, "words", KN_INT32, "batch,5")), KN_ERROR_SHAPE, "int32 (batch,5)",
         "(N,C,...)");
    told(kn_lp_pool(images, 0.5, 2, NULL), KN_ERROR_ARGUMENT, "lp_pool", "at least 1");
    told(kn_group_norm(images, 4, NULL), KN_ERROR_ARGUMENT, "4 groups", "multiple");
    told(kn_local_response_norm(images, 0, NULL), KN_ERROR_ARGUMENT, "0 channels", "at least 1");
    told(kn_batch_norm(kn_input(graph, "flat", KN_FLOAT32, "7"), NULL), KN_ERROR_SHAPE, "batchnorm1",
         "(N,C,...)");
    kn_batch_norm_params unlikely = {.size = sizeof unlikely, .momentum = 1.5};
    told(kn_batch_norm(rows, &unlikely), KN_ERROR_ARGUMENT, "momentum", "0 to 1");
}

/* ---- ways to compute ------------------------------------------------------------------------- */

static void lowered_as(kn_value *value, const char *variant, const kn_target *target, kn_emitter *emitter,
                       kn_arena *arena, const kn_host *host) {
    kn_value *result;
    kn_error error = {0};
    kn_graph *bound = bind(value, true, &result);
    const kn_node *node = result->producer;
    kn_arena_init(arena, host);
    kn_emitter_init(emitter, arena, host, target, &error);
    kn_lowering lowering = {
        .target = target, .node = node, .emitter = emitter, .result = result, .error = &error};
    bool found = false;
    for (int i = 0; i < node->op->variant_count; i++)
        if (!strcmp(node->op->variants[i].name, variant)) {
            found = true;
            if (kn_variant_lower(&node->op->variants[i], &lowering)) fail_msg("%s: %s", variant, error.text);
        }
    assert_true(found);
    kn_graph_destroy(&bound);
}

/* Work-groups fit the limits of any device; a long sum with few tiles is split, and a second launch adds the
 * partial sums. */
TEST_WITH(tiles_fit, begin, end) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_emitter emitter;
    kn_value *a = kn_input(graph, "a", KN_FLOAT32, "10,5000"),
             *b = kn_input(graph, "b", KN_FLOAT32, "5000,9");
    kn_value *y = kn_matmul(a, b, false, false);
    for (size_t items = 1; items <= 1024; items *= 4) {
        kn_target target = {
            .vector_width = 1, .compute_units = 2, .work_group_items = items, .local_bytes = 32768};
        lowered_as(y, "tiled", &target, &emitter, &arena, &host);
        assert_int_equal(emitter.step_count, 2);
        assert_string_equal(emitter.steps[0]->kernel, "kn_matmul");
        assert_string_equal(emitter.steps[1]->kernel, "kn_sums");
        assert_true(emitter.steps[0]->local[0] <= items);
        assert_int_equal(emitter.scratch_count, 1);
        kn_emitter_finish(&emitter);
        kn_arena_finish(&arena);
    }
}

/* The first variant that a target accepts, with inputs that change. */
static const char *taken(kn_value *value, const kn_target *target) {
    kn_value *result;
    kn_graph *bound = bind(value, true, &result);
    const kn_node *node = result->producer;
    const char *name = "";
    for (int i = 0; i < node->op->variant_count && !name[0]; i++) {
        const kn_variant *variant = &node->op->variants[i];
        if (!variant->choice.prepares && (!variant->choice.accepts || variant->choice.accepts(target, node)))
            name = variant->name;
    }
    kn_graph_destroy(&bound);
    return name;
}

static kn_matrix_unit no_bfloat16_unit(void *device, kn_dtype type) {
    return type == KN_FLOAT16 ? KN_MATRIX_UNIT_MMA : KN_MATRIX_UNIT_NONE;
}

/* On wide-vector devices images whose channels fill whole blocks stay blocked, and sums over them read this
 * layout. */
TEST_WITH(what_targets_take, begin, end) {
    kn_target wide = {.wide_vector = true,
                      .vector_width = 8,
                      .compute_units = 2,
                      .work_group_items = 1024,
                      .local_bytes = 32768};
    kn_target many = {.vector_width = 4, .compute_units = 2, .work_group_items = 64, .local_bytes = 32768};
    kn_value *first = kn_conv(images, 16, 3, 0, NULL), *second = kn_conv(kn_relu(first), 24, 1, 0, NULL);
    kn_value *odd = kn_conv(first, 5, 1, 0, NULL);
    assert_string_equal(taken(first->producer->inputs[0], &wide), "first");
    assert_string_equal(taken(second->producer->inputs[0], &wide), "wide");
    assert_string_equal(taken(odd->producer->inputs[0], &wide), "wide_last");
    assert_string_equal(taken(kn_conv(odd, 3, 1, 0, NULL)->producer->inputs[0], &wide), "rows");
    kn_conv_params depthwise = {.size = sizeof depthwise, .groups = 16, .no_bias = true};
    assert_string_equal(taken(kn_conv(first, 16, 3, 0, &depthwise), &wide), "depthwise_wide");
    assert_string_equal(taken(kn_conv(first, 16, 3, 0, &depthwise), &many), "depthwise");
    depthwise.groups = 8;
    assert_string_equal(taken(kn_conv(first, 16, 3, 0, &depthwise), &wide), "grouped");
    assert_string_equal(taken(kn_conv(first, 40, 3, 0, &depthwise), &wide), "grouped");
    depthwise.groups = 2;
    assert_string_equal(taken(kn_conv(first, 32, 3, 0, &depthwise), &wide), "wide");
    assert_string_equal(taken(kn_conv(first, 10, 3, 0, &depthwise), &wide), "rows");
    assert_string_equal(taken(first->producer->inputs[0], &many), "implicit");
    assert_string_equal(taken(kn_sum(kn_relu(second), "0,2,3", false), &wide), "images");
    assert_string_equal(taken(kn_global_average_pool(kn_max_pool(second, 2, NULL)), &wide), "images");
    assert_string_equal(taken(kn_sum(second, "0,1,2,3", false), &wide), "wide");
    assert_string_equal(taken(kn_sum(odd, "0,2,3", false), &wide), "wide");
    assert_string_equal(taken(kn_sum(images, "0,2,3", false), &wide), "wide");
    assert_string_equal(taken(kn_sum(second, "0,2,3", false), &many), "tree");
    assert_string_equal(taken(kn_matmul(rows, rows, false, true), &wide), "wide");
    assert_string_equal(taken(kn_matmul(rows, rows, false, true), &many), "tiled");
    /* The matrix unit of a type when values are stored in it, if the device has a suitable one. */
    many.matrix_unit = no_bfloat16_unit;
    many.work_group_items = 256;
    many.local_bytes = 49152;
    kn_value *x = kn_input(graph, "narrow_x", KN_FLOAT16, "64,64");
    kn_value *y = kn_input(graph, "narrower_x", KN_BFLOAT16, "64,64");
    assert_string_equal(taken(kn_matmul(x, x, false, true), &many), "matrix");
    assert_string_equal(taken(kn_matmul(y, y, false, true), &many), "tiled");
    assert_string_equal(taken(kn_matmul(rows, rows, false, true), &many), "tiled");
    kn_value *filtered[2] = {x, y};
    for (int i = 0; i < 2; i++)
        filtered[i] = kn_conv2d(kn_reshape(filtered[i], "1,16,16,16"), kn_reshape(filtered[i], "16,16,4,4"),
                                NULL, NULL);
    assert_string_equal(taken(filtered[0], &many), "matrix_blocked");
    kn_value *few = kn_conv2d(kn_reshape(x, "1,4,32,32"), kn_reshape(x, "64,4,4,4"), NULL, NULL);
    assert_string_equal(taken(few, &many), "matrix");
    assert_string_equal(taken(filtered[1], &many), "implicit");
    assert_string_equal(taken(first->producer->inputs[0], &many), "implicit");
    many.local_bytes = 16384;
    assert_string_equal(taken(kn_matmul(x, x, false, true), &many), "tiled");
    assert_string_equal(taken(filtered[0], &many), "implicit");
    wide.vector_width = 2;
    assert_string_equal(taken(second->producer->inputs[0], &wide), "implicit");
    assert_string_equal(taken(kn_matmul(rows, rows, false, true), &wide), "tiled");
}

/* The positions of maxima have no reader in this graph, so they are not written. */
TEST_WITH(places_without_readers, begin, end) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_emitter emitter;
    kn_target target = {.vector_width = 4, .compute_units = 2, .work_group_items = 64, .local_bytes = 32768};
    lowered_as(kn_max_pool(images, 2, NULL), "window", &target, &emitter, &arena, &host);
    assert_int_equal(emitter.step_count, 1);
    assert_int_equal(emitter.steps[0]->arguments[2].kind, KN_ARGUMENT_VALUE);
    assert_null(emitter.steps[0]->arguments[2].value);
    kn_emitter_finish(&emitter);
    kn_arena_finish(&arena);
}

/* ---- what follows a small table ---------------------------------------------------------------------- */

enum { PICKED = 43 }; /* y, and the gradients by the first three rows of the table, by w and by b */

/* y = b + picked rows of the table (rows,5) times w (2,5), and its gradients. */
static void pick_and_multiply(int64_t table_rows, const char *maker, double found[PICKED]) {
    static const double picks[8] = {0, 2, 1, 2, 2, 0, 2, 1};
    double table_numbers[25], weights[10], biases[2] = {0.25, -1};
    for (int i = 0; i < 25; i++)
        table_numbers[i] = sin(i + 1);
    for (int i = 0; i < 10; i++)
        weights[i] = cos(3 * i);
    kn_graph *own = kn_graph_create(NULL), *bound = NULL;
    kn_value *table = kn_input(own, "table", KN_FLOAT32, table_rows == 3 ? "3,5" : "5,5");
    kn_value *w = kn_input(own, "w", KN_FLOAT32, "2,5"), *b = kn_input(own, "b", KN_FLOAT32, "2");
    kn_value *pair[2] = {table, kn_input(own, "picks", KN_INT32, "4,2")}, *result = NULL;
    kn_value *x = kn_node_add(own, kn_operator_find("embedding"), NULL, pair, 2, NULL);
    kn_value *y = kn_add(kn_matmul(x, w, false, true), b);
    const kn_bind_request request = {.training = true};
    kn_error error = {0};
    if (kn_graph_bind(own, &y, 1, &request, &bound, &result, &error)) fail_msg("%s", error.text);
    assert_string_equal(result->producer->op->name, maker);
    kn_value *by[3] = {kn_graph_find(bound, "table"), kn_graph_find(bound, "w"), kn_graph_find(bound, "b")};
    kn_value *gradients[3], *loss = kn_sum(kn_mul(result, result), NULL, false);
    if (kn_graph_gradient(bound, loss, by, 3, gradients, &error)) fail_msg("%s", error.text);
    const host_input inputs[] = {{"table", table_numbers}, {"w", weights}, {"b", biases}, {"picks", picks}};
    host_values values = host_compute(bound, inputs, 4);
    memcpy(found, values.numbers[result->id], 16 * sizeof *found);
    memcpy(found + 16, values.numbers[gradients[0]->id], 15 * sizeof *found);
    memcpy(found + 31, values.numbers[gradients[1]->id], 10 * sizeof *found);
    memcpy(found + 41, values.numbers[gradients[2]->id], 2 * sizeof *found);
    host_release(&values);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&own);
}

/* If more rows are picked than the table has, the product is computed on the table first; otherwise on the
 * picked rows. */
TEST(small_tables_are_multiplied) {
    double of_table[PICKED], of_rows[PICKED];
    pick_and_multiply(3, "embedding", of_table);
    pick_and_multiply(5, "add", of_rows);
    for (int i = 0; i < PICKED; i++)
        if (!(fabs(of_table[i] - of_rows[i]) <= 1e-12 * (1 + fabs(of_rows[i]))))
            fail_msg("number %d is %.17g and %.17g", i, of_table[i], of_rows[i]);
}

TEST_FILE(test_layers, NULL, NULL)
