/* Sizes that ONNX files compute, or leave open. */
#include "onnx_model.h"

#include <string.h>

#include "../ops/ops_tests.h"

/* (batch,3,4) to (batch,12) and (batch*3,4), with sizes that the model computes. */
TEST(sizes_with_symbols) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3,4");
    onnx_integers(&graph, "zero", "0");
    onnx_integers(&graph, "one", "1");
    onnx_integers(&graph, "rest", "-1");
    onnx_integers(&graph, "three", "3");
    onnx_integers(&graph, "flat", "0,-1");
    onnx_node(&graph, "Shape", "x", "shape", NULL);
    onnx_node(&graph, "Gather", "shape,zero", "batch", NULL);
    onnx_node(&graph, "Concat", "batch,rest", "first", "axis=0");
    onnx_node(&graph, "Reshape", "x,first", "y", NULL);
    onnx_node(&graph, "Slice", "shape,one,three,zero", "tail", NULL);
    onnx_node(&graph, "ReduceProd", "tail,zero", "product", "keepdims=1");
    onnx_node(&graph, "Mul", "batch,three", "rows", NULL);
    onnx_node(&graph, "Div", "product,three", "columns", NULL);
    onnx_node(&graph, "Concat", "rows,columns", "second", "axis=0");
    onnx_node(&graph, "Reshape", "x,second", "z", NULL);
    onnx_node(&graph, "Reshape", "x,flat", "f", NULL);
    /* The batch size as a number in the graph. */
    onnx_node(&graph, "Cast", "batch", "number", "to=1");
    onnx_node(&graph, "Div", "x,number", "share", NULL);
    onnx_node(&graph, "Range", "zero,rows,one", "places", NULL);
    for (size_t i = 0; i < 5; i++)
        onnx_output(&graph, (const char *[]){"y", "z", "f", "share", "places"}[i]);
    kn_model *model = onnx_right(&graph, NULL);
    has_shape(model, "y_2", "batch,12");
    has_shape(model, "z", "3*batch,4");
    has_shape(model, "f", "batch,12");
    has_shape(model, "share", "batch,3,4");
    has_shape(model, "places", "3*batch");
    has_parameters(model, "");
    kn_model_destroy(&model);
}

/* Nodes whose sizes are arguments get those of a symbolic batch. */
TEST(sizes_of_an_open_batch) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "n,2,6,8");
    onnx_integers(&graph, "zero", "0");
    onnx_integers(&graph, "image", "2,12,4");
    onnx_integers(&graph, "grid", "2,5,7");
    onnx_integers(&graph, "four", "4");
    onnx_integers(&graph, "threes", "1,3,1");
    onnx_floats(&graph, "move", "2,3", 0);
    onnx_node(&graph, "Shape", "x", "shape", NULL);
    onnx_node(&graph, "Gather", "shape,zero", "n", NULL);
    onnx_node(&graph, "Concat", "n,image", "larger", "axis=0");
    onnx_node(&graph, "Resize", "x,,,larger", "resized", "mode='linear'");
    onnx_node(&graph, "Concat", "n,threes", "times", "axis=0");
    onnx_node(&graph, "Tile", "x,times", "tiled", NULL);
    onnx_node(&graph, "MaxPool", "x", "pooled,places", "kernel_shape=2:2 strides=2:2");
    onnx_node(&graph, "MaxUnpool", "pooled,places", "unpooled", "kernel_shape=2:2 strides=2:2");
    onnx_integers(&graph, "plane", "2,3");
    onnx_node(&graph, "Concat", "n,plane", "moves", "axis=0");
    onnx_node(&graph, "Expand", "move,moves", "theta", NULL);
    onnx_node(&graph, "Concat", "n,grid", "size", "axis=0");
    onnx_node(&graph, "AffineGrid", "theta,size", "places_read", NULL);
    onnx_node(&graph, "Mul", "n,four", "end", NULL);
    onnx_integers(&graph, "three", "3");
    onnx_node(&graph, "Range", "zero,end,three", "counted", NULL);
    const char *outputs[] = {"resized", "tiled", "places", "unpooled", "places_read", "counted"};
    for (size_t i = 0; i < KN_COUNT_OF(outputs); i++)
        onnx_output(&graph, outputs[i]);
    kn_model *model = onnx_right(&graph, NULL);
    has_shape(model, "resized", "batch,2,12,4");
    has_shape(model, "tiled", "batch*batch,2,18,8");
    has_shape(model, "places", "batch,2,3,4");
    has_shape(model, "unpooled", "batch,2,6,8");
    has_shape(model, "places_read", "batch,5,7,2");
    has_shape(model, "counted", "batch+(batch+2)/3");
    kn_model_destroy(&model);
}

/* Images of open size, with sizes that are computed as fractions. */
TEST(sizes_of_an_open_image) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,2,height,8");
    onnx_integers(&graph, "head", "0,1");
    onnx_integers(&graph, "two", "2");
    onnx_node(&graph, "Shape", "x", "shape", NULL);
    onnx_node(&graph, "Gather", "shape,head", "first", NULL);
    onnx_node(&graph, "Gather", "shape,two", "height_at", NULL);
    onnx_node(&graph, "Cast", "height_at", "height_as", "to=1");
    onnx_node(&graph, "Constant", "", "factor", "value_float=2.0f");
    onnx_node(&graph, "Mul", "height_as,factor", "twice", NULL);
    onnx_node(&graph, "Floor", "twice", "floor", NULL);
    onnx_node(&graph, "Cast", "floor", "height_to", "to=7");
    onnx_integers(&graph, "width", "16");
    onnx_node(&graph, "Concat", "first,height_to,width", "sizes", "axis=0");
    onnx_node(&graph, "Resize", "x,,,sizes", "larger", "mode='linear'");
    onnx_node(&graph, "Constant", "", "none", "value_float=0.0f");
    onnx_node(&graph, "Squeeze", "twice", "end", NULL);
    onnx_node(&graph, "Range", "none,end,factor", "places", NULL);
    onnx_floats(&graph, "ones", "2", 1);
    onnx_node(&graph, "Mul", "ones,factor", "trained", NULL);
    onnx_node(&graph, "Div", "twice,factor", "exact", NULL);
    onnx_node(&graph, "Mul", "twice,trained", "mixed", NULL);
    onnx_floats(&graph, "gain", "1", 2);
    onnx_node(&graph, "Mul", "twice,gain", "gained", NULL);
    const char *outputs[] = {"larger", "places", "trained", "exact", "mixed", "gained"};
    for (size_t i = 0; i < KN_COUNT_OF(outputs); i++)
        onnx_output(&graph, outputs[i]);
    kn_model *model = onnx_right(&graph, NULL);
    has_shape(model, "larger", "batch,2,2*height,16");
    has_shape(model, "places", "height"); /* (2 height + 1) / 2 */
    has_parameters(model, "ones gain");
    kn_model_destroy(&model);
}

/* The result of a model for x (2,5), its second size given where it is open. */
static void compute_resized(const char *shape, const char *attributes, double numbers[30]) {
    onnx_graph graph = {.bytes.count = 0};
    const kn_binding bindings[] = {{"batch", 2}, {"length", 5}};
    const kn_bind_request request = {.bindings = bindings, .binding_count = 2};
    static const double x[10] = {1, 4, -2, 0.5, 8, 3, 0, 7, -5, 2};
    kn_graph *bound = NULL;
    kn_value *output = NULL;
    kn_error error = {0};
    onnx_input(&graph, "x", ONNX_FLOAT, shape);
    onnx_integers(&graph, "three", "1,3");
    onnx_node(&graph, "Shape", "x", "shape", NULL);
    onnx_node(&graph, "Mul", "shape,three", "sizes", NULL);
    onnx_node(&graph, "Resize", "x,,,sizes", "out", attributes);
    onnx_output(&graph, "out");
    kn_model *model = onnx_right(&graph, NULL);
    kn_value *result = kn_model_output_at(model, 0);
    if (kn_graph_bind(kn_model_graph(model), &result, 1, &request, &bound, &output, &error) != KN_OK)
        fail_msg("%s: %s", attributes, error.text);
    host_values computed = host_compute(bound, &(host_input){"x", x}, 1);
    assert_int_equal(host_elements(output), 30);
    memcpy(numbers, computed.numbers[output->id], 30 * sizeof *numbers);
    host_release(&computed);
    kn_graph_destroy(&bound);
    kn_model_destroy(&model);
}

/* Resizing a dynamic axis gives the same as resizing it with a fixed size. */
TEST(resizes_of_open_axes) {
    static const char *const ways[] = {
        "mode='nearest'",
        "mode='nearest' nearest_mode='ceil'",
        "mode='nearest' coordinate_transformation_mode='asymmetric'",
        "mode='nearest' coordinate_transformation_mode='asymmetric' nearest_mode='floor'",
        "mode='nearest' coordinate_transformation_mode='asymmetric' nearest_mode='ceil'",
        "mode='linear'",
        "mode='linear' coordinate_transformation_mode='asymmetric'",
        "mode='linear' coordinate_transformation_mode='pytorch_half_pixel'",
        "mode='linear' coordinate_transformation_mode='half_pixel_symmetric'",
    };
    for (size_t i = 0; i < KN_COUNT_OF(ways); i++) {
        double found[30], wanted[30];
        compute_resized("batch,length", ways[i], found);
        compute_resized("batch,5", ways[i], wanted);
        for (int k = 0; k < 30; k++)
            if (!(found[k] - wanted[k] < 1e-6 && wanted[k] - found[k] < 1e-6))
                fail_msg("%s: element %d is %g, expected %g", ways[i], k, found[k], wanted[k]);
    }
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,length");
    onnx_integers(&graph, "three", "1,3");
    onnx_node(&graph, "Shape", "x", "shape", NULL);
    onnx_node(&graph, "Mul", "shape,three", "sizes", NULL);
    onnx_node(&graph, "Resize", "x,,,sizes", "out", "mode='cubic'");
    onnx_output(&graph, "out");
    onnx_refused(
        &graph, NULL,
        "node 'out' (Resize): axis 1 is dynamic (length), but mode cubic with coordinates half_pixel");
}

/* Negative sizes are open ones, and "?" is a separate size each time: the batch where the first input
 * begins with it. */
TEST(sizes_that_have_no_name) {
    static const char *const shapes[] = {"-1,3,?,?", "?,3,-1,-1"};
    for (size_t i = 0; i < KN_COUNT_OF(shapes); i++) {
        onnx_graph graph = {.bytes.count = 0};
        onnx_input(&graph, "image", ONNX_FLOAT, shapes[i]);
        onnx_input(&graph, "other", ONNX_FLOAT, "?");
        onnx_node(&graph, "Relu", "image", "out", NULL);
        onnx_node(&graph, "Relu", "other", "second", NULL);
        onnx_output(&graph, "out");
        onnx_output(&graph, "second");
        kn_model *model = onnx_right(&graph, NULL);
        has_shape(model, "out", "batch,3,image_2,image_3");
        has_shape(model, "second", "other_0");
        kn_model_destroy(&model);
    }
}

/* Operators that compute sizes from known numbers, with missing inputs. */
TEST(inputs_left_out) {
    static const struct {
        const char *type, *inputs, *attributes;
    } cases[] = {
        {"Cast", "", "to=7"},           {"Neg", "", ""},
        {"Gather", ",one", ""},         {"Squeeze", ",one", ""},
        {"Unsqueeze", ",one", ""},      {"Reshape", ",one", ""},
        {"ReduceSum", ",one", ""},      {"Slice", "list,,one", ""},
        {"Slice", "list,one,,one", ""}, {"Slice", ",one,one", ""},
        {"Range", "one,,one", ""},      {"Range", ",one,one", ""},
        {"Where", "one,,list", ""},     {"Concat", ",list", ""},
        {"Add", ",list", ""},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        onnx_graph graph = {.bytes.count = 0};
        onnx_integers(&graph, "list", "1,2,3");
        onnx_integers(&graph, "one", "1");
        onnx_node(&graph, cases[i].type, cases[i].inputs, "y", cases[i].attributes);
        onnx_output(&graph, "y");
        kn_model *model = onnx_open(&graph, NULL);
        assert_int_not_equal(kn_model_status(model), KN_OK);
        assert_non_null(strstr(kn_model_error(model), cases[i].type));
        kn_model_destroy(&model);
    }
}

TEST_FILE(test_onnx_sizes, NULL, NULL)
