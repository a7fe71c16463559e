/* ONNX files whose graph needs the shapes, or the values, of inputs: opened without an error, and built for
 * each set of inputs. */
#include "models/models.h"
#include "onnx_model.h"

#include <string.h>

#include "../models/fake_states.h"
#include "../ops/ops_tests.h"

enum { MOST = 512 };

static kn_model_given array(const char *name, kn_dtype dtype, int rank, const int64_t *shape,
                            const void *data) {
    kn_model_given given = {.name = name, .info = {.dtype = dtype, .rank = rank}, .data = data};
    if (rank) memcpy(given.info.shape, shape, (size_t)rank * sizeof *shape);
    return given;
}

static kn_model *bound_to(kn_model *model, const kn_model_given *given, size_t count) {
    kn_model *bound = kn_model_bind(model, given, count);
    if (!kn_model_bound(bound)) fail_msg("%s", kn_model_error(bound));
    return bound;
}

/* Output 0 for the inputs, by their names in the graph; sizes that are still open are `batch`. */
static void compute_at(kn_model *model, size_t position, int64_t batch, const host_input *inputs, int count,
                       double *numbers, int64_t elements) {
    const kn_binding binding = {"batch", batch};
    const kn_bind_request request = {.bindings = &binding, .binding_count = 1};
    kn_value *output = kn_model_output_at(model, position), *copy = NULL;
    kn_graph *bound = NULL;
    kn_error error = {0};
    if (kn_graph_bind(kn_model_graph(model), &output, 1, &request, &bound, &copy, &error) != KN_OK)
        fail_msg("%s", error.text);
    host_values computed = host_compute(bound, inputs, count);
    assert_int_equal(kn_shape_elements(&copy->shape), elements);
    memcpy(numbers, computed.numbers[copy->id], (size_t)elements * sizeof *numbers);
    host_release(&computed);
    kn_graph_destroy(&bound);
}

static void compute(kn_model *model, int64_t batch, const host_input *inputs, int count, double *numbers,
                    int64_t elements) {
    compute_at(model, 0, batch, inputs, count, numbers, elements);
}

/* Every second pixel, plus every fourth, enlarged: the sizes 2*((height+3)/4) and (height+1)/2 are equal for
 * some heights only. */
static void add_scales(onnx_graph *graph) {
    onnx_input(graph, "image", ONNX_FLOAT, "n,1,height,width");
    onnx_node(graph, "MaxPool", "image", "half", "kernel_shape=1:1 strides=2:2");
    onnx_node(graph, "MaxPool", "half", "fourth", "kernel_shape=1:1 strides=2:2");
    onnx_floats(graph, "scales", "4", 1);
    onnx_integers(graph, "scales_of", "1,1,2,2");
    onnx_node(graph, "Cast", "scales_of", "factors", "to=1");
    onnx_node(graph, "Resize", "fourth,,factors", "enlarged",
              "mode='nearest' coordinate_transformation_mode='asymmetric' nearest_mode='floor'");
    onnx_node(graph, "Add", "half,enlarged", "out", NULL);
    onnx_output(graph, "out");
}

static void check_scales(kn_model *model, int64_t batch, int64_t height, int64_t width) {
    double x[MOST], found[MOST];
    const int64_t pixels = height * width, rows = height / 2, columns = width / 2;
    for (int64_t i = 0; i < batch * pixels; i++)
        x[i] = (double)(i * i % 101);
    compute(model, batch, &(host_input){kn_value_name(kn_model_input_at(model, 0)), x}, 1, found,
            batch * rows * columns);
    for (int64_t i = 0; i < batch * rows * columns; i++) {
        const int64_t row = i / columns % rows, column = i % columns;
        const double *image = x + i / (rows * columns) * pixels;
        const double half = image[2 * row * width + 2 * column];
        assert_true(found[i] == half + image[row / 2 * 4 * width + column / 2 * 4]);
    }
}

/* Three sizes in a row through one open model; the batch may stay open. */
TEST(sizes_of_inputs) {
    static const int64_t shapes[][4] = {{1, 1, 8, 4}, {2, 1, 4, 12}, {1, 1, 16, 16}};
    onnx_graph graph = {.bytes.count = 0};
    add_scales(&graph);
    kn_model *model = onnx_open(&graph, NULL), *bound = NULL;
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_false(kn_model_bound(model));
    assert_non_null(strstr(kn_model_error(model), "node 'out' (Add)"));
    assert_int_equal(kn_model_input_count(model), 1);
    has_shape(model, kn_value_name(kn_model_input_at(model, 0)), "batch,1,height,width");
    assert_string_equal(kn_model_input_name_at(model, 0), "image");
    assert_string_equal(kn_model_output_name_at(model, 0), "out");
    assert_null(kn_model_output_at(model, 0));
    assert_string_equal(kn_model_open_size_at(model, 0, NULL), "height");
    for (size_t i = 0; i < KN_COUNT_OF(shapes); i++) {
        const kn_model_given given = array("image", KN_FLOAT32, 4, shapes[i], NULL);
        assert_false(kn_model_fits(model, &given, 1));
        bound = bound_to(model, &given, 1);
        assert_true(kn_model_fits(bound, &given, 1));
        check_scales(bound, shapes[i][0], shapes[i][2], shapes[i][3]);
        kn_model_destroy(&bound);
    }
    const kn_model_given open = array(NULL, KN_FLOAT32, 4, (int64_t[]){-1, -1, 8, 8}, NULL);
    bound = bound_to(model, &open, 1);
    has_shape(bound, "out", "batch,1,4,4");
    kn_model_destroy(&model); /* the file stays */
    check_scales(bound, 3, 8, 8);
    const kn_model_given other = array("image", KN_FLOAT32, 4, (int64_t[]){1, 1, 16, 8}, NULL);
    kn_model *again = bound_to(bound, &other, 1);
    kn_model_destroy(&bound);
    check_scales(again, 1, 16, 8);
    kn_model_destroy(&again);
}

TEST(refusals_of_binding) {
    onnx_graph graph = {.bytes.count = 0};
    add_scales(&graph);
    kn_model *model = onnx_open(&graph, NULL), *text = kn_model_open("lenet", NULL);
    kn_states *states = fake_states_make();
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    /* these cannot be equal */
    const kn_model_given given[] = {array("image", KN_FLOAT32, 4, (int64_t[]){1, 1, 6, 6}, NULL),
                                    array("image", KN_FLOAT32, 3, (int64_t[]){1, 8, 8}, NULL),
                                    array("image", KN_INT32, 4, (int64_t[]){1, 1, 8, 8}, NULL)};
    static const kn_status statuses[] = {KN_ERROR_SHAPE, KN_ERROR_SHAPE, KN_ERROR_DTYPE};
    for (size_t i = 0; i < KN_COUNT_OF(given); i++) {
        kn_model *bound = kn_model_bind(model, &given[i], 1);
        assert_int_equal(kn_model_status(bound), statuses[i]);
        assert_non_null(strstr(kn_model_error(bound), i ? "image" : "(Add)"));
        kn_model_destroy(&bound);
    }
    kn_model *same = kn_model_bind(model, NULL, 0);
    assert_int_equal(kn_model_status(same), KN_OK);
    assert_false(kn_model_bound(same));
    kn_model_destroy(&same);
    kn_model *refused = kn_model_bind(text, NULL, 0);
    assert_int_equal(kn_model_status(refused), KN_ERROR_ARGUMENT);
    kn_model_destroy(&refused);
    refused = kn_model_bind(NULL, NULL, 0);
    assert_int_equal(kn_model_status(refused), KN_ERROR_ARGUMENT);
    kn_model_destroy(&refused);
    assert_int_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_model_error(model), "kn_model_bind"));
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_save_onnx(model, "none.onnx", states, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_pin(model, "*", "other"), 0);
    assert_true(kn_model_flops(model) == 0);
    assert_true(kn_model_bound(text));
    assert_false(kn_model_bound(NULL));
    fake_states_release(states);
    kn_model_destroy(&text);
    kn_model_destroy(&model);
}

/* A branch that multiplies by weights; both branches call them the same. */
static onnx_graph branch(float first) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_floats(&graph, "weight", "2,1", first);
    onnx_node(&graph, "MatMul", "x,weight", "product", NULL);
    onnx_output(&graph, "product");
    return graph;
}

/* An input decides which branch is computed: its value is needed, and it is not an input of the result. */
TEST(values_of_inputs) {
    onnx_graph graph = {.bytes.count = 0}, wide = branch(1), narrow = branch(10);
    onnx_input(&graph, "x", ONNX_FLOAT, "1,2");
    onnx_input(&graph, "rate", ONNX_INT64, "");
    onnx_integers(&graph, "sixteen", "16");
    onnx_node(&graph, "Equal", "rate,sixteen", "is_wide", NULL);
    onnx_node_with(&graph, "If", "is_wide", "y", "then_branch", &wide, "else_branch", &narrow, NULL);
    onnx_output(&graph, "y");
    kn_model *model = onnx_open(&graph, NULL);
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_false(kn_model_bound(model));
    kn_model *bound[2];
    for (int i = 0; i < 2; i++) {
        const int64_t rate = i ? 8 : 16;
        const kn_model_given given = array("rate", KN_INT64, 0, NULL, &rate);
        kn_states *states = fake_states_make();
        float weights[2];
        bound[i] = bound_to(model, &given, 1);
        assert_int_equal(kn_model_input_count(bound[i]), 1);
        assert_string_equal(kn_model_input_name_at(bound[i], 0), "x");
        assert_int_equal(kn_model_load(bound[i], NULL, states, NULL, NULL), KN_OK);
        kn_tensor_info info;
        const char *name = kn_states_at(states, 0, &info);
        assert_string_equal(name, i ? "weight_2" : "weight"); /* one set of states may serve both */
        assert_int_equal(kn_states_get(states, name, weights, sizeof weights), KN_OK);
        assert_true(weights[0] == (i ? 10 : 1) && weights[1] == (i ? 11 : 2));
        fake_states_release(states);
    }
    kn_model_destroy(&bound[0]);
    kn_model_destroy(&model);
    kn_model_destroy(&bound[1]);
}

/* A weight in the body of a loop is one parameter, whatever the number of iterations. */
/* Integers that a node can compute with stay an input although their values are given; those that decide a
 * shape become a constant. */
TEST(values_that_may_change) {
    onnx_graph graph = {.bytes = {.count = 0}};
    onnx_input(&graph, "ids", ONNX_INT64, "n");
    onnx_input(&graph, "shape", ONNX_INT64, "2");
    onnx_integers(&graph, "one", "1");
    onnx_node(&graph, "Add", "ids,one", "next", NULL);
    onnx_node(&graph, "Unsqueeze", "next,zero", "row", NULL);
    onnx_integers(&graph, "zero", "0");
    onnx_node(&graph, "Add", "shape,one", "size", NULL);
    onnx_node(&graph, "Reshape", "row,size", "matrix", NULL);
    onnx_node(&graph, "Cast", "matrix", "y", "to=1");
    onnx_output(&graph, "y");
    kn_model *model = onnx_open(&graph, NULL);
    const int64_t ids[6] = {3, 1, 4, 1, 5, 9}, shape[2] = {1, 2};
    const kn_model_given given[] = {array("ids", KN_INT64, 1, (const int64_t[]){6}, ids),
                                    array("shape", KN_INT64, 1, (const int64_t[]){2}, shape)};
    kn_model *bound = bound_to(model, given, 2);
    assert_int_equal(kn_model_input_count(bound), 1);
    assert_string_equal(kn_model_input_name_at(bound, 0), "ids");
    double numbers[6];
    const double other[6] = {2, 7, 1, 8, 2, 8};
    compute(bound, 6, &(host_input){"ids", other}, 1, numbers, 6);
    for (int i = 0; i < 6; i++)
        assert_true(numbers[i] == other[i] + 1);
    const kn_value *y = kn_model_output_at(bound, 0);
    assert_int_equal(kn_value_dimension(y, 0), 2);
    assert_int_equal(kn_value_dimension(y, 1), 3);
    kn_model_destroy(&bound);
    kn_model_destroy(&model);
}

TEST(weights_of_loops) {
    onnx_graph graph = {.bytes.count = 0}, body = {.bytes.count = 0};
    onnx_input(&body, "round", ONNX_INT64, "");
    onnx_input(&body, "going_in", ONNX_BOOL, "");
    onnx_input(&body, "carried", ONNX_FLOAT, "1,2");
    onnx_floats(&body, "weight", "2,2", 1);
    onnx_node(&body, "MatMul", "carried,weight", "next", NULL);
    onnx_node(&body, "Identity", "going_in", "going_out", NULL);
    onnx_output(&body, "going_out");
    onnx_output(&body, "next");
    onnx_input(&graph, "x", ONNX_FLOAT, "1,2");
    onnx_integers(&graph, "rounds", "3");
    onnx_node_with(&graph, "Loop", "rounds,,x", "y", "body", &body, NULL, NULL, NULL);
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    has_parameters(model, "weight");
    kn_model_destroy(&model);
}

/* An end far beyond an open axis is its end; one that some sizes do not have is right for these, too. */
TEST(slices_of_open_axes) {
    static const struct {
        const char *end, *shape;
    } cases[] = {{"1000000000", "length"}, {"2147483647", "length"}, {"4", "4"}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        onnx_graph graph = {.bytes.count = 0};
        double x[6] = {1, 2, 3, 4, 5, 6}, y[6];
        onnx_input(&graph, "x", ONNX_FLOAT, "1,length");
        onnx_integers(&graph, "begin", "0");
        onnx_integers(&graph, "end", cases[i].end);
        onnx_integers(&graph, "axis", "1");
        onnx_integers(&graph, "flat", "-1");
        onnx_node(&graph, "Slice", "x,begin,end,axis", "part", NULL);
        onnx_node(&graph, "Reshape", "part,flat", "out", NULL);
        onnx_output(&graph, "out");
        kn_model *model = onnx_right(&graph, NULL);
        has_shape(model, "out", cases[i].shape);
        for (int64_t length = 2; length <= 6; length += 2) {
            const kn_model_given given = array("x", KN_FLOAT32, 2, (int64_t[]){1, length}, NULL);
            const int64_t wanted = i == 2 && length > 4 ? 4 : length;
            assert_int_equal(kn_model_fits(model, &given, 1), i < 2 || length >= 4);
            kn_model *bound = bound_to(model, &given, 1);
            compute(bound, 1, &(host_input){"x", x}, 1, y, wanted);
            assert_true(y[wanted - 1] == (double)wanted);
            kn_model_destroy(&bound);
        }
        kn_model_destroy(&model);
    }
}

/* More iterations than one node stacks: a loop that ends on a condition, and a scan over an input's rows. */
TEST(long_loops) {
    enum { ROUNDS = 150 };
    onnx_graph graph = {.bytes.count = 0}, body = {.bytes.count = 0}, sums = {.bytes.count = 0};
    double x[ROUNDS], found[ROUNDS], sum = 0;
    onnx_input(&body, "round", ONNX_INT64, "");
    onnx_input(&body, "going_in", ONNX_BOOL, "");
    onnx_input(&body, "carried", ONNX_INT64, "1");
    onnx_node(&body, "Add", "carried,two", "next", NULL);
    onnx_node(&body, "Less", "next,limit", "going_out", NULL);
    onnx_node(&body, "Identity", "next", "number", NULL);
    onnx_output(&body, "going_out");
    onnx_output(&body, "next");
    onnx_output(&body, "number");
    onnx_input(&sums, "sum", ONNX_FLOAT, "1");
    onnx_input(&sums, "row", ONNX_FLOAT, "1");
    onnx_node(&sums, "Add", "sum,row", "sum_out", NULL);
    onnx_node(&sums, "Identity", "sum_out", "so_far", NULL);
    onnx_output(&sums, "sum_out");
    onnx_output(&sums, "so_far");
    onnx_input(&graph, "x", ONNX_FLOAT, "rows,1");
    onnx_integers(&graph, "begin", "0");
    onnx_integers(&graph, "two", "2");
    onnx_integers(&graph, "limit", "300");
    onnx_node(&graph, "Constant", "", "nothing", "value_float=0.0f");
    onnx_integers(&graph, "shape", "1");
    onnx_node(&graph, "Reshape", "nothing,shape", "start", NULL);
    onnx_node_with(&graph, "Loop", ",,begin", "end,numbers", "body", &body, NULL, NULL, NULL);
    onnx_node_with(&graph, "Scan", "start,x", "total,sums", "body", &sums, NULL, NULL, "num_scan_inputs=1");
    onnx_output(&graph, "sums");
    onnx_output(&graph, "numbers");
    kn_model *model = onnx_open(&graph, NULL);
    assert_false(kn_model_bound(model));
    const kn_model_given given = array("x", KN_FLOAT32, 2, (int64_t[]){ROUNDS, 1}, NULL);
    kn_model *bound = bound_to(model, &given, 1);
    has_shape(bound, "numbers", "150,1");
    for (int i = 0; i < ROUNDS; i++)
        x[i] = (double)(i % 7);
    compute(bound, 1, &(host_input){kn_value_name(kn_model_input_at(bound, 0)), x}, 1, found, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        sum += x[i];
        assert_true(found[i] == sum);
    }
    kn_value *numbers = kn_model_output_at(bound, 1), *copy = NULL;
    kn_graph *folded = NULL;
    kn_error error = {0};
    const kn_bind_request request = {.bindings = NULL};
    if (kn_graph_bind(kn_model_graph(bound), &numbers, 1, &request, &folded, &copy, &error) != KN_OK)
        fail_msg("%s", error.text);
    host_values computed = host_compute(folded, NULL, 0);
    for (int i = 0; i < ROUNDS; i++)
        assert_true(computed.numbers[copy->id][i] == 2 * (i + 1));
    host_release(&computed);
    kn_graph_destroy(&folded);
    kn_model_destroy(&bound);
    kn_model_destroy(&model);
}

/* What was built as if sizes differed is not computed for equal ones: an axis that Squeeze would remove, and
 * a branch for one sample. */
TEST(sizes_that_differ) {
    for (int kind = 0; kind < 2; kind++) {
        onnx_graph graph = {.bytes.count = 0}, one = {.bytes.count = 0}, more = {.bytes.count = 0};
        onnx_input(&graph, "x", ONNX_FLOAT, "n,1,3");
        if (kind == 0) {
            onnx_node(&graph, "Squeeze", "x", "y", NULL);
        } else {
            onnx_node(&one, "Neg", "x", "negative", NULL);
            onnx_output(&one, "negative");
            onnx_node(&more, "Abs", "x", "positive", NULL);
            onnx_output(&more, "positive");
            onnx_integers(&graph, "zero", "0");
            onnx_integers(&graph, "single", "1");
            onnx_node(&graph, "Shape", "x", "shape", NULL);
            onnx_node(&graph, "Gather", "shape,zero", "count", NULL);
            onnx_node(&graph, "Equal", "count,single", "is_single", NULL);
            onnx_node_with(&graph, "If", "is_single", "y", "then_branch", &one, "else_branch", &more, NULL);
        }
        onnx_output(&graph, "y");
        kn_model *model = onnx_right(&graph, NULL);
        kn_model_given given = array("x", KN_FLOAT32, 3, (int64_t[]){2, 1, 3}, NULL);
        double x[6] = {1, 2, 3, 4, 5, 6}, y[6];
        assert_true(kn_model_fits(model, &given, 1));
        compute(model, 2, &(host_input){kn_value_name(kn_model_input_at(model, 0)), x}, 1, y, 6);
        assert_true(y[5] == 6);
        given.info.shape[0] = 1;
        assert_false(kn_model_fits(model, &given, 1));
        kn_value *output = kn_model_output_at(model, 0), *copy = NULL;
        kn_graph *graphs[2] = {NULL, NULL};
        kn_error error = {0};
        const kn_binding binding = {"batch", 1};
        kn_bind_request request = {.bindings = &binding, .binding_count = 1};
        /* through a copy, as in a session */
        assert_int_equal(kn_graph_copy(kn_model_graph(model), &output, 1, &graphs[0], &copy, &error), KN_OK);
        output = copy;
        assert_int_equal(kn_graph_bind(graphs[0], &output, 1, &request, &graphs[1], &copy, &error),
                         KN_ERROR_SHAPE);
        assert_non_null(strstr(error.text, "batch is not 1"));
        request.training = true; /* a last batch of one sample is trained normally */
        kn_error_clear(&error);
        const kn_status trained = kn_graph_bind(graphs[0], &output, 1, &request, &graphs[1], &copy, &error);
        assert_int_equal(trained, kind ? KN_ERROR_SHAPE : KN_OK);
        kn_graph_destroy(&graphs[1]);
        kn_graph_destroy(&graphs[0]);
        kn_model *bound = bound_to(model, &given, 1);
        has_shape(bound, "y_2", kind ? "1,1,3" : "3");
        compute(bound, 1, &(host_input){kn_value_name(kn_model_input_at(bound, 0)), x}, 1, y, 3);
        assert_true(y[2] == (kind ? -3 : 3));
        kn_model_destroy(&bound);
        kn_model_destroy(&model);
    }
}

/* An input of tensors of floats: SEQUENCE or OPTIONAL. */
enum { SEQUENCE = 4, OPTIONAL = 9 };
static void held_input(onnx_graph *graph, const char *name, uint32_t kind) {
    made tensor = {.count = 0}, inner = tensor, holder = tensor, type = tensor, input = tensor;
    add_message(&inner, 1, add_number(&tensor, 1, ONNX_FLOAT));
    add_message(&type, kind, add_message(&holder, 1, &inner));
    add_message(&graph->bytes, 11, add_message(add_text(&input, 1, name), 2, &type));
}

/* Sequences and optionals are given with their elements, and are as many outputs as they have tensors. */
TEST(sequences) {
    onnx_graph graph = {.bytes.count = 0};
    held_input(&graph, "parts", SEQUENCE);
    held_input(&graph, "extra", OPTIONAL);
    onnx_integers(&graph, "second", "1");
    onnx_node(&graph, "SequenceAt", "parts,second", "part", NULL);
    onnx_node(&graph, "OptionalHasElement", "extra", "has", NULL);
    onnx_node(&graph, "Cast", "has", "number", "to=1");
    onnx_node(&graph, "Sub", "part,number", "y", NULL);
    onnx_output(&graph, "y");
    onnx_output(&graph, "parts");
    kn_model *model = onnx_open(&graph, NULL);
    assert_false(kn_model_bound(model));
    assert_non_null(strstr(kn_model_error(model), "'extra': its elements must be given"));
    const float numbers[] = {1, 2, 7, 8, 9};
    const kn_model_given elements[] = {array(NULL, KN_FLOAT32, 1, (int64_t[]){2}, numbers),
                                       array(NULL, KN_FLOAT32, 1, (int64_t[]){3}, numbers + 2)};
    for (size_t extra = 0; extra < 2; extra++) {
        const kn_model_given given[] = {{.name = "parts", .elements = elements, .element_count = 2},
                                        {.name = "extra", .elements = elements, .element_count = extra}};
        kn_model *bound = bound_to(model, given, 2);
        assert_int_equal(kn_model_input_count(bound), 0);
        assert_int_equal(kn_model_output_count(bound), 3);
        for (size_t i = 1; i < 3; i++)
            assert_string_equal(kn_model_output_name_at(bound, i), "parts");
        assert_int_equal(kn_value_dimension(kn_model_output_at(bound, 1), 0), 2);
        assert_int_equal(kn_value_dimension(kn_model_output_at(bound, 2), 0), 3);
        double y[3];
        compute(bound, 1, NULL, 0, y, 3);
        assert_true(y[0] == 7 - (double)extra && y[2] == 9 - (double)extra);
        kn_model_destroy(&bound);
    }
    const int64_t whole = 3;
    const kn_model_given other = array(NULL, KN_INT64, 0, NULL, &whole);
    const struct {
        kn_model_given parts, extra;
        const char *word;
    } wrong[] = {
        {array("parts", KN_FLOAT32, 1, (int64_t[]){2}, numbers), {.name = "extra"}, "expected a sequence"},
        {{.name = "parts", .elements = &other, .element_count = 1}, {.name = "extra"}, "a different type"},
        {{.name = "parts", .elements = elements, .element_count = 1}, {.name = "extra"}, "out of range"},
        {{.name = "parts", .elements = elements, .element_count = 2},
         {.name = "extra", .elements = elements, .element_count = 2},
         "more than one element"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const kn_model_given given[] = {wrong[i].parts, wrong[i].extra};
        kn_model *bound = kn_model_bind(model, given, 2);
        assert_false(kn_model_bound(bound));
        assert_non_null(strstr(kn_model_error(bound), wrong[i].word));
        kn_model_destroy(&bound);
    }
    kn_model_destroy(&model);
}

/* A condition that the graph computes from an input without values: computed by a model of its own, and
 * given. */
TEST(missing_values) {
    onnx_graph graph = {.bytes.count = 0}, one = {.bytes.count = 0}, more = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "2,3");
    onnx_node(&one, "Neg", "x", "negative", NULL);
    onnx_output(&one, "negative");
    onnx_node(&more, "Abs", "x", "positive", NULL);
    onnx_output(&more, "positive");
    onnx_floats(&graph, "limit", "1", 4);
    onnx_node(&graph, "ReduceSum", "x", "sum", "keepdims=0");
    onnx_node(&graph, "Greater", "sum,limit", "large", NULL);
    onnx_node_with(&graph, "If", "large", "y", "then_branch", &one, "else_branch", &more, NULL);
    onnx_output(&graph, "y");
    kn_model *model = onnx_open(&graph, NULL);
    assert_false(kn_model_bound(model));
    assert_string_equal(kn_model_missing_value(model), "large");
    kn_model *part = kn_model_bind_part(model, KN_PART_VALUE, "large", NULL, 0);
    if (!kn_model_bound(part)) fail_msg("%s", kn_model_error(part));
    assert_null(kn_model_missing_value(part));
    assert_int_equal(kn_model_output_count(part), 1);
    assert_string_equal(kn_model_output_name_at(part, 0), "large");
    for (int sum = 2; sum < 9; sum++) {
        double x[6] = {sum, 1, 1, -1, -1, 0}, large = -1, y[6];
        const host_input input = {kn_value_name(kn_model_input_at(part, 0)), x};
        compute(part, 1, &input, 1, &large, 1);
        assert_true(large == (sum > 4));
        const bool chosen = large != 0;
        const kn_model_given given = array("large", KN_BOOL, 1, (int64_t[]){1}, &chosen);
        kn_model *bound = bound_to(model, &given, 1);
        compute(bound, 1, &(host_input){kn_value_name(kn_model_input_at(bound, 0)), x}, 1, y, 6);
        assert_true(y[0] == (sum > 4 ? -sum : sum) && y[3] == 1);
        kn_model_destroy(&bound);
    }
    /* Values of another type, of open sizes, and unknown ones. */
    const float number = 1;
    const kn_model_given wrong[2] = {array("large", KN_FLOAT32, 1, (int64_t[]){1}, &number),
                                     array("large", KN_BOOL, 1, (int64_t[]){-1}, NULL)};
    for (int i = 0; i < 2; i++) {
        kn_model *bound = kn_model_bind(model, &wrong[i], 1);
        assert_false(kn_model_bound(bound));
        assert_non_null(strstr(kn_model_error(bound), "the array for 'large'"));
        kn_model_destroy(&bound);
    }
    kn_model_destroy(&part);
    part = kn_model_bind_part(model, KN_PART_VALUE, "nothing", NULL, 0);
    assert_false(kn_model_bound(part));
    kn_model_destroy(&part);
    kn_model_destroy(&model);
}

/* A loop that ends on a computed condition, in parts: what it reads, an iteration, and what follows it. */
TEST(parts_of_loops) {
    onnx_graph graph = {.bytes.count = 0}, body = {.bytes.count = 0};
    double x[2] = {1, 2}, squares[2] = {1, 4}, v[2] = {3, 5}, number = 4, read[4], found[4];
    onnx_input(&body, "round", ONNX_INT64, "");
    onnx_input(&body, "going_in", ONNX_BOOL, "");
    onnx_input(&body, "v", ONNX_FLOAT, "2");
    onnx_node(&body, "Add", "v,squares", "next", NULL);
    onnx_node(&body, "ReduceSum", "next", "sum", "keepdims=0");
    onnx_node(&body, "Less", "sum,limit", "going_out", NULL);
    onnx_output(&body, "going_out");
    onnx_output(&body, "next");
    onnx_output(&body, "round");
    onnx_input(&graph, "x", ONNX_FLOAT, "2");
    onnx_floats(&graph, "limit", "1", 20);
    onnx_node(&graph, "Mul", "x,x", "squares", NULL);
    onnx_node_with(&graph, "Loop", ",,x", "end,rounds", "body", &body, NULL, NULL, NULL);
    onnx_node(&graph, "Neg", "end", "y", NULL);
    onnx_output(&graph, "y");
    onnx_output(&graph, "rounds");
    kn_model *model = onnx_open(&graph, NULL);
    assert_false(kn_model_bound(model));
    assert_string_equal(kn_model_missing_value(model), "end");
    assert_true(model->missing_loop);
    kn_model *part = kn_model_bind_part(model, KN_PART_BEFORE_LOOP, "end", NULL, 0);
    if (!kn_model_bound(part)) fail_msg("%s", kn_model_error(part));
    assert_int_equal(kn_model_output_count(part), 2);
    assert_string_equal(kn_model_output_name_at(part, 0), "v");
    assert_string_equal(kn_model_output_name_at(part, 1), "squares");
    assert_false(part->loop->has_count || part->loop->has_condition);
    assert_int_equal(part->loop->variables, 1);
    assert_int_equal(part->loop->scans, 1);
    compute_at(part, 1, 1, &(host_input){"x", x}, 1, read, 2);
    assert_true(read[0] == 1 && read[1] == 4);
    kn_model_destroy(&part);
    const kn_model_given given[3] = {array("round", KN_INT64, 0, NULL, NULL),
                                     array("v", KN_FLOAT32, 1, (int64_t[]){2}, NULL),
                                     array("squares", KN_FLOAT32, 1, (int64_t[]){2}, NULL)};
    part = kn_model_bind_part(model, KN_PART_ITERATION, "end", given, 3);
    if (!kn_model_bound(part)) fail_msg("%s", kn_model_error(part));
    assert_int_equal(kn_model_output_count(part), 3);
    const host_input inputs[3] = {{"round_given", &number}, {"v_given", v}, {"squares_given", squares}};
    compute_at(part, 0, 1, inputs, 3, found, 1);
    assert_true(found[0] == 1);
    compute_at(part, 1, 1, inputs, 3, found, 2);
    assert_true(found[0] == 4 && found[1] == 9);
    compute_at(part, 2, 1, inputs, 3, found, 1);
    assert_true(found[0] == 4);
    kn_model_destroy(&part);
    part = kn_model_bind_part(model, KN_PART_ITERATION, "end", given, 2); /* squares are computed from x */
    compute_at(part, 1, 1, (host_input[]){{"round_given", &number}, {"v_given", v}, {"x", x}}, 3, found, 2);
    assert_true(found[0] == 4 && found[1] == 9);
    kn_model_destroy(&part);
    part = kn_model_bind_part(model, KN_PART_ITERATION, "end", given, 1);
    assert_int_equal(kn_model_status(part), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_model_error(part), "the array for 'v' is missing"));
    kn_model_destroy(&part);
    const kn_model_given results[2] = {array("end", KN_FLOAT32, 1, (int64_t[]){2}, NULL),
                                       array("rounds", KN_INT64, 1, (int64_t[]){7}, NULL)};
    part = bound_to(model, results, 2);
    has_shape(part, "rounds", "7");
    compute(part, 1, &(host_input){"end_given", v}, 1, found, 2);
    assert_true(found[0] == -3 && found[1] == -5);
    kn_model_destroy(&part);
    kn_model_destroy(&model);
}

/* The same model from memory: bound to shapes, with the messages' name from params. */
TEST(models_in_memory) {
    onnx_graph graph = {.bytes.count = 0};
    made bytes;
    kn_model_params params = KN_MODEL_DEFAULTS;
    params.source = "folder/scales.onnx";
    add_scales(&graph);
    make_small_model(&bytes, &graph.bytes);
    kn_model *model = kn_model_open_memory(bytes.bytes, bytes.count, NULL, &params), *bound = NULL;
    assert_string_equal(kn_model_name(model), "scales");
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_false(kn_model_bound(model));
    const kn_model_given given = array("image", KN_FLOAT32, 4, (int64_t[]){2, 1, 4, 12}, NULL);
    bound = bound_to(model, &given, 1);
    check_scales(bound, 2, 4, 12);
    kn_model_destroy(&bound);
    kn_model_destroy(&model);
    model = kn_model_open_memory(bytes.bytes, bytes.count - 1, NULL, &params);
    assert_int_equal(kn_model_status(model), KN_ERROR_FORMAT);
    assert_non_null(strstr(kn_model_error(model), "folder/scales.onnx: "));
    kn_model_destroy(&model);
    static const char net[] = "layer { name: \"data\" type: \"Input\" top: \"data\" }";
    model = kn_model_open_memory(net, sizeof net - 1, NULL, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(kn_model_error(model), "model in memory: the bytes are a file of kind 'Caffe'"));
    kn_model_destroy(&model);
    model = kn_model_open_memory("nothing", 7, NULL, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_FORMAT);
    kn_model_destroy(&model);
    model = kn_model_open_memory(NULL, 8, NULL, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    kn_model_destroy(&model);
}

/* External data are read from the folder that the caller names, and from no other. */
TEST(external_data_of_memory) {
    onnx_graph graph = {.bytes.count = 0};
    made bytes, tensor = {.count = 0};
    const int64_t numbers[2] = {3, -2};
    char path[512];
    add_number(add_number(add_number(&tensor, 1, 2), 2, ONNX_INT64), 14, 1);
    add_pair(add_text(&tensor, 8, "w"), 13, "location", "w.bin");
    add_message(&graph.bytes, 5, &tensor);
    onnx_node(&graph, "Neg", "w", "y", NULL);
    onnx_output(&graph, "y");
    make_small_model(&bytes, &graph.bytes);
    char *folder = test_folder_make();
    const kn_host host = kn_host_defaults();
    test_path(path, sizeof path, folder, "w.bin");
    assert_int_equal(kn_file_write(&host, path, numbers, sizeof numbers, NULL), KN_OK);
    kn_model *model = kn_model_open_memory(bytes.bytes, bytes.count, folder, NULL);
    assert_string_equal(kn_model_error(model), "");
    onnx_gives(model, 0, "2", "-3 2");
    kn_model_destroy(&model);
    model = kn_model_open_memory(bytes.bytes, bytes.count, NULL, NULL);
    assert_true(kn_model_status(model) != KN_OK);
    assert_non_null(strstr(kn_model_error(model), "w"));
    kn_model_destroy(&model);
    test_folder_remove(folder);
}

TEST_FILE(test_onnx_bind, NULL, NULL)
