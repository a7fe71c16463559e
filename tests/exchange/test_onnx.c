/* ONNX files as models: their inputs, parameters and sizes, what is computed when they are opened, and
 * refusals. */
#include "onnx_model.h"

#include <stdio.h>
#include <string.h>

#include "../models/fake_states.h"
#include "../ops/ops_tests.h"

TEST(layers_and_parameters) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "in:0", ONNX_FLOAT, "batch,3");
    onnx_input(&graph, "w", ONNX_FLOAT, "2,3"); /* an initializer that is listed as an input, too */
    onnx_floats(&graph, "w", "2,3", 1);
    onnx_floats(&graph, "b", "2", 0.5f);
    onnx_floats(&graph, "factor", "", 2);
    onnx_node(&graph, "Gemm", "in:0,w,b", "h", "transB=1");
    onnx_node(&graph, "Relu", "h", "r", NULL);
    onnx_node(&graph, "Mul", "r,factor", "out/1", NULL);
    onnx_output(&graph, "out/1");
    kn_model *model = onnx_right(&graph, NULL);
    assert_int_equal(kn_model_input_count(model), 1);
    assert_string_equal(kn_model_input_name_at(model, 0), "in:0");
    assert_string_equal(kn_value_name(kn_model_input_at(model, 0)), "in_0");
    assert_string_equal(kn_value_field(kn_model_input_at(model, 0)), "x"); /* the only one */
    assert_ptr_equal(kn_graph_find(kn_model_graph(model), "x"), kn_model_input_at(model, 0));
    assert_string_equal(kn_model_input_name_at(model, 1), "");
    assert_string_equal(kn_model_output_name_at(model, 0), "out/1");
    has_shape(model, "x", "batch,3");
    has_shape(model, "out/1", "batch,2");
    has_parameters(model, "w b");
    assert_int_equal(kn_model_parameter_elements(model), 8);
    assert_true(kn_model_has_weights(model));
    assert_null(kn_model_metadata(model, "koine.format"));

    kn_states *states = fake_states_make();
    float numbers[6];
    int loaded = -1;
    assert_int_equal(kn_model_load(model, NULL, states, NULL, &loaded), KN_OK);
    assert_int_equal(loaded, 2);
    assert_int_equal(kn_states_get(states, "w", numbers, sizeof numbers), KN_OK);
    assert_true(numbers[0] == 1 && numbers[5] == 6);
    assert_int_equal(kn_states_get(states, "b", numbers, 2 * sizeof *numbers), KN_OK);
    assert_true(numbers[1] == 1.5f);
    assert_int_not_equal(kn_model_save(model, "/nowhere/x", states, NULL), KN_OK);
    fake_states_fail_after(states, 1);
    assert_int_not_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_OK);
    fake_states_release(states);
    kn_model_destroy(&model);
}

TEST(given_numbers) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "n,6");
    onnx_input(&graph, "half", ONNX_INT64, "1");
    onnx_input(&graph, "y", ONNX_FLOAT, "1");
    onnx_integers(&graph, "rest", "-1");
    onnx_node(&graph, "Neg", "half", "minus", NULL);
    onnx_node(&graph, "Abs", "minus", "size", NULL);
    onnx_node(&graph, "Concat", "size,rest", "shape", "axis=0");
    onnx_node(&graph, "Reshape", "x,shape", "r", NULL);
    onnx_node(&graph, "Add", "r,y", "z", NULL);
    onnx_output(&graph, "z");
    onnx_refused(&graph, NULL, "node 'r' (Reshape): the values of 'shape' must be constant");
    const int64_t half = 9;
    const kn_model_given given[] = {{"x", {KN_FLOAT32, 2, {3, 6}}, NULL},
                                    {"half", {KN_INT64, 1, {1}}, &half},
                                    {"y", {KN_FLOAT32, 1, {1}}, NULL}};
    kn_model_params params = KN_MODEL_DEFAULTS;
    params.given = given;
    params.given_count = 3;
    kn_model *model = onnx_right(&graph, &params);
    assert_int_equal(kn_model_input_count(model), 2);
    assert_string_equal(kn_model_input_name_at(model, 1), "y");
    has_shape(model, "x", "3,6");
    has_shape(model, "z", "9,2");
    kn_model_destroy(&model);
    const kn_model_given wrong = {"x", {KN_FLOAT32, 2, {3, 5}}, NULL};
    params.given = &wrong;
    params.given_count = 1;
    onnx_refused(&graph, &params, "input 'x': dimension 1 has size 6, but the array has 5");
    /* A negative one is kept as in the file. */
    const kn_model_given open[] = {{"x", {KN_FLOAT32, 2, {-1, 6}}, NULL}, given[1]};
    params.given = open;
    params.given_count = 2;
    model = onnx_right(&graph, &params);
    has_shape(model, "x", "batch,6");
    kn_model_destroy(&model);
}

TEST(branches_and_loops) {
    onnx_graph graph = {.bytes.count = 0}, yes = {.bytes.count = 0}, no = {.bytes.count = 0},
               body = {.bytes.count = 0};
    onnx_node(&yes, "Add", "one,one", "sum", NULL);
    onnx_output(&yes, "sum");
    onnx_node(&no, "Sub", "one,one", "difference", NULL);
    onnx_output(&no, "difference");
    /* Each iteration: the value and its square. */
    onnx_input(&body, "round", ONNX_INT64, "");
    onnx_input(&body, "go", ONNX_BOOL, "");
    onnx_input(&body, "v", ONNX_FLOAT, "2");
    onnx_node(&body, "Identity", "go", "still", NULL);
    onnx_node(&body, "Add", "v,taken", "next", NULL);
    onnx_node(&body, "Mul", "v,v", "square", NULL);
    onnx_output(&body, "still");
    onnx_output(&body, "next");
    onnx_output(&body, "square");
    onnx_node(&graph, "Constant", "", "one", "value_int=1");
    onnx_node(&graph, "Constant", "", "three", "value_int=3");
    onnx_node(&graph, "Less", "one,three", "holds", NULL);
    onnx_node_with(&graph, "If", "holds", "two", "then_branch", &yes, "else_branch", &no, NULL);
    onnx_node(&graph, "Cast", "two", "taken", "to=1");
    onnx_node(&graph, "Constant", "", "start", "value_ints=1:10");
    onnx_node(&graph, "Cast", "start", "begin", "to=1");
    onnx_node_with(&graph, "Loop", "three,,begin", "end,squares", "body", &body, NULL, NULL, NULL);
    onnx_output(&graph, "two");
    onnx_output(&graph, "end");
    onnx_output(&graph, "squares");
    /* Cumulative sums in reverse. */
    onnx_graph sums = {.bytes.count = 0};
    onnx_input(&sums, "sum", ONNX_FLOAT, "2");
    onnx_input(&sums, "column", ONNX_FLOAT, "2");
    onnx_node(&sums, "Add", "sum,column", "more", NULL);
    onnx_node(&sums, "Identity", "more", "seen", NULL);
    onnx_output(&sums, "more");
    onnx_output(&sums, "seen");
    onnx_node_with(&graph, "Scan", "begin,squares", "total,ways", "body", &sums, NULL, NULL,
                   "num_scan_inputs=1 scan_output_directions=1:0");
    onnx_output(&graph, "total");
    onnx_output(&graph, "ways");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 3, "2", "36 450");
    onnx_gives(model, 4, "3,2", "36 450 11 254 2 110");
    onnx_gives(model, 0, "", "2");
    onnx_gives(model, 1, "2", "7 16");
    onnx_gives(model, 2, "3,2", "1 100 9 144 25 196");
    kn_model_destroy(&model);
}

/* Floating-point numbers given as a shape. */
static void reshaped(onnx_graph *graph, const char *name, const char *numbers, const char *shape) {
    char whole[40], flat[40], sizes[40];
    snprintf(whole, sizeof whole, "%s_whole", name);
    snprintf(sizes, sizeof sizes, "%s_shape", name);
    snprintf(flat, sizeof flat, "%s_flat", name);
    onnx_integers(graph, whole, numbers);
    onnx_integers(graph, sizes, shape);
    onnx_node(graph, "Cast", whole, flat, "to=1");
    snprintf(flat, sizeof flat, "%s_flat,%s_shape", name, name);
    onnx_node(graph, "Reshape", flat, name, NULL);
}

/* The results for constants; `node` reads c = 0, 1, … of (2,3) and lists of integers. */
static void gives(const char *type, const char *inputs, const char *attributes, const char *shape,
                  const char *numbers) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_node(&graph, "Constant", "", "list", "value_ints=0:1:2:3:4:5");
    onnx_node(&graph, "Cast", "list", "flat", "to=1");
    onnx_integers(&graph, "shape", "2,3");
    onnx_integers(&graph, "minus", "-1");
    onnx_integers(&graph, "one", "1");
    onnx_integers(&graph, "two", "2");
    onnx_integers(&graph, "far", "-100");
    onnx_integers(&graph, "around", "0,1,1,0");
    onnx_node(&graph, "Reshape", "flat,shape", "c", NULL);
    onnx_node(&graph, "Cast", "c", "bytes", "to=2");
    onnx_node(&graph, "Transpose", "bytes", "turned", NULL);
    onnx_node(&graph, "Constant", "", "factor", "value_float=2.0f");
    onnx_node(&graph, "Constant", "", "half", "value_float=0.5f");
    reshaped(&graph, "squares", "0,0,2,2,0,0,2,2,5,5,6,6", "1,3,4");
    reshaped(&graph, "scores", "1,3,0", "1,1,3");
    reshaped(&graph, "taps", "1,2,5,7", "1,2,2");
    reshaped(&graph, "signal", "0,1,2,3,4,5", "1,6,1");
    reshaped(&graph, "image", "0,1,2,3,4,5,6,7,8", "1,1,3,3");
    reshaped(&graph, "regions", "0,0,2,2,1,0,9,2", "2,4");
    onnx_integers(&graph, "images", "0,0");
    onnx_integers(&graph, "row", "1,2");
    onnx_integers(&graph, "column", "2,1");
    onnx_node(&graph, type, inputs, "y", attributes);
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, shape, numbers);
    kn_model_destroy(&model);
}

TEST(operators) {
    gives("Slice", "c,minus,far,one,minus", NULL, "2,3", "2 1 0 5 4 3");
    gives("Slice", "c,far,far,one,minus", NULL, "2,1", "0 3");
    gives("Pow", "list,half", NULL, "6", "0 1 1 1 2 2");
    gives("Pow", "list,list", NULL, "6", "1 1 4 27 256 3125");
    gives("Transpose", "c", NULL, "3,2", "0 3 1 4 2 5");
    gives("Pad", "c,around", NULL, "3,4", "0 0 1 2 0 3 4 5 0 0 0 0");
    gives("Pad", "c,around", "mode='edge'", "3,4", "0 0 1 2 3 3 4 5 3 3 4 5");
    gives("ReduceSum", "c,one", "keepdims=0", "2", "3 12");
    gives("ReduceMax", "c", NULL, "1,1", "5");
    gives("ArgMax", "c", "axis=1 keepdims=0", "2", "2 2");
    gives("CumSum", "c,one", "reverse=1", "2,3", "3 3 2 12 9 5");
    gives("Gather", "c,minus", "axis=1", "2,1", "2 5");
    gives("Expand", "minus,shape", NULL, "2,3", "-1 -1 -1 -1 -1 -1");
    gives("Split", "c", "axis=1 num_outputs=1", "2,3", "0 1 2 3 4 5");
    gives("Div", "list,two", NULL, "6", "0 0 1 1 2 2");
    gives("Mod", "minus,two", NULL, "1", "1");
    gives("Clip", "c,one,two", NULL, "2,3", "1 1 2 2 2 2");
    gives("Where", "c,c,c", NULL, "2,3", "0 1 2 3 4 5");
    gives("Flatten", "c", "axis=0", "1,6", "0 1 2 3 4 5");
    gives("Size", "c", NULL, "", "6");
    gives("Trilu", "c", "upper=0", "2,3", "0 0 0 3 4 0");
    gives("MatMul", "flat,flat", NULL, "", "55");
    gives("QuantizeLinear", "c,factor", NULL, "2,3", "0 0 1 2 2 2");
    gives("DynamicQuantizeLinear", "c", NULL, "2,3", "0 51 102 153 204 255");
    gives("DequantizeLinear", "bytes,factor", NULL, "2,3", "0 2 4 6 8 10");
    gives("MatMulInteger", "bytes,turned", NULL, "2,2", "5 14 14 50");
    gives("CenterCropPad", "c,one", "axes=1", "2,1", "1 4");
    gives("HannWindow", "two", NULL, "2", "0 1");
    gives("NonZero", "c", NULL, "2,5", "0 0 1 1 1 1 2 0 1 2");
    gives("Unique", "c", NULL, "6", "0 1 2 3 4 5");
    gives("Unique", "around", NULL, "2", "0 1");
    gives("Unique", "shape", "sorted=0 axis=0", "2", "2 3");
    gives("NonMaxSuppression", "squares,scores,two", NULL, "2,3", "0 0 1 0 0 2");
    gives("NonMaxSuppression", "squares,scores,two,,factor", NULL, "1,3", "0 0 1");
    gives("Col2Im", "taps,row,column", "pads=1:0:0:0", "1,1,1,2", "5 7");
    gives("RoiAlign", "image,regions,images", "sampling_ratio=1 output_width=2", "2,1,1,2", "1.5 2.5 3.5 0");
    gives("STFT", "signal,two,,one", NULL, "1,3,1,2", "0 0 2 0 4 0");
}

/* x is (steps,batch,3), in two directions; a GRU with the reset before the product has a fixed number of
 * steps. */
TEST(recurrent_layers) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "steps,batch,3");
    onnx_input(&graph, "short", ONNX_FLOAT, "2,batch,3");
    onnx_floats(&graph, "w", "2,8,3", 0);
    onnx_floats(&graph, "r", "2,8,2", 0);
    onnx_floats(&graph, "b", "2,16", 0);
    onnx_floats(&graph, "gw", "1,6,3", 0);
    onnx_floats(&graph, "gr", "1,6,2", 0);
    onnx_node(&graph, "LSTM", "x,w,r,b", "all,last,cells", "direction='bidirectional' hidden_size=2");
    onnx_node(&graph, "GRU", "short,gw,gr", "gru,gru_last", "hidden_size=2");
    onnx_node(&graph, "GRU", "x,gw,gr", "after,after_last",
              "hidden_size=2 linear_before_reset=1 direction='reverse'");
    static const char *const outputs[] = {"all", "last", "cells", "gru", "gru_last", "after", "after_last"};
    for (size_t i = 0; i < 7; i++)
        onnx_output(&graph, outputs[i]);
    kn_model *model = onnx_right(&graph, NULL);
    static const char *const shapes[] = {"steps,2,batch,2", "2,batch,2",       "2,batch,2", "2,1,batch,2",
                                         "1,batch,2",       "steps,1,batch,2", "1,batch,2"};
    for (size_t i = 0; i < 7; i++)
        has_shape(model, outputs[i], shapes[i]);
    kn_model_destroy(&model);
    onnx_node(&graph, "GRU", "x,gw,gr", "open", "hidden_size=2");
    onnx_refused(&graph, NULL, "node 'open' (GRU): linear_before_reset 0 and peepholes need a fixed length");
    static const char *const inputs[] = {"x,w10,r", "x,w,r,b20"};
    for (size_t i = 0; i < 2; i++) {
        graph.bytes.count = 0;
        onnx_input(&graph, "x", ONNX_FLOAT, "steps,batch,3");
        onnx_floats(&graph, "w", "1,8,3", 0);
        onnx_floats(&graph, "w10", "1,10,3", 0);
        onnx_floats(&graph, "r", "1,8,2", 0);
        onnx_floats(&graph, "b20", "1,20", 0);
        onnx_node(&graph, "LSTM", inputs[i], "y", "hidden_size=2");
        onnx_output(&graph, "y");
        onnx_refused(
            &graph, NULL,
            i ? "node 'y' (LSTM): input 3 has 20 rows; expected 16, with 2 units as in the recurrence "
                "weights"
              : "node 'y' (LSTM): input 1 has 10 rows; expected 8, with 2 units as in the recurrence "
                "weights");
    }
}

TEST(refusals) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "2");
    onnx_node(&graph, "Foo", "x", "a", NULL);
    onnx_node(&graph, "Bar", "a", "b", NULL);
    onnx_node(&graph, "Foo", "b", "c", NULL);
    onnx_output(&graph, "c");
    onnx_refused(&graph, NULL, "unsupported operators: Foo (node 'a'), Bar (node 'b')");
    graph.bytes.count = 0;
    onnx_input(&graph, "x", 14, "2");
    onnx_output(&graph, "x");
    onnx_refused(&graph, NULL, "input 'x' has the unsupported type complex64");
    graph.bytes.count = 0;
    onnx_input(&graph, "x", 8, "2");
    onnx_output(&graph, "x");
    onnx_refused(&graph, NULL, "input 'x': its elements must be given before the graph can be built");
    graph.bytes.count = 0;
    onnx_input(&graph, "x", ONNX_FLOAT, "2");
    onnx_node(&graph, "Relu", "missing", "y", NULL);
    onnx_output(&graph, "y");
    onnx_refused(&graph, NULL, "node 'y' (Relu): no node defines its input 'missing'");
    graph.bytes.count = 0;
    onnx_input(&graph, "x", ONNX_FLOAT, "2,3");
    onnx_node(&graph, "Transpose", "x", "y", "perm=0:5");
    onnx_output(&graph, "y");
    kn_model *model = onnx_open(&graph, NULL);
    assert_int_not_equal(kn_model_status(model), KN_OK);
    assert_non_null(strstr(kn_model_error(model), "node 'y' (Transpose): "));
    kn_model_destroy(&model);
}

/* Contradictions are reported with the node. */
TEST(contradictions) {
    static const struct {
        const char *type, *inputs, *attributes, *message;
    } cases[] = {
        {"MatMul", "x", "", "input 1 is missing"},
        {"Add", ",x", "", "input 0 is missing"},
        {"Shape", ",x", "", "input 0 is missing"},
        {"Softmax", "x", "axis='one'", "attribute 'axis' is a string; expected an integer"},
        {"Conv", "x,w", "group=0", "group is 0; expected 1 or more"},
        {"Conv", "x,w", "kernel_shape=3:5", "kernel_shape has 5, but the weight has 3"},
        {"Conv", "x,w", "auto_pad='MAYBE'", "auto_pad is 'MAYBE'; expected NOTSET"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        onnx_graph graph = {.bytes.count = 0};
        char message[200];
        onnx_input(&graph, "x", ONNX_FLOAT, "batch,1,4,4");
        onnx_floats(&graph, "w", "1,1,3,3", 0);
        onnx_node(&graph, cases[i].type, cases[i].inputs, "y", cases[i].attributes);
        onnx_node(&graph, "Relu", "y", "z", NULL);
        onnx_output(&graph, "z");
        snprintf(message, sizeof message, "node 'y' (%s): %s", cases[i].type, cases[i].message);
        onnx_refused(&graph, NULL, message);
    }
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "2");
    onnx_node(&graph, "Relu", "x", "y", NULL);
    onnx_refused(&graph, NULL, "has no outputs");
    onnx_output_as(&graph, "y", ONNX_INT64, "2");
    onnx_refused(&graph, NULL, "output 'y' is declared as int64, but its node computes float32");
}

/* Nodes in any order are sorted so that each reads existing values; a branch reads values around it. */
TEST(nodes_in_no_order) {
    onnx_graph graph = {.bytes.count = 0}, then = {.bytes.count = 0}, otherwise = {.bytes.count = 0};
    onnx_node(&then, "Neg", "inner", "left", NULL);
    onnx_node(&then, "Add", "twice,one", "inner", NULL);
    onnx_output(&then, "left");
    onnx_node(&otherwise, "Neg", "one", "right", NULL);
    onnx_output(&otherwise, "right");
    onnx_floats(&graph, "start", "2", 3);
    onnx_integers(&graph, "yes", "1");
    onnx_node(&graph, "Mul", "chosen,one", "y", NULL);
    onnx_node_with(&graph, "If", "truth", "chosen", "then_branch", &then, "else_branch", &otherwise, NULL);
    onnx_node(&graph, "Add", "one,one", "twice", NULL);
    onnx_node(&graph, "Cast", "yes", "truth", "to=9");
    onnx_node(&graph, "Relu", "start", "one", NULL);
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    has_shape(model, "y_2", "2");
    kn_model_destroy(&model);
    for (int self = 0; self < 2; self++) {
        graph.bytes.count = 0;
        onnx_input(&graph, "x", ONNX_FLOAT, "2");
        onnx_node(&graph, "Add", self ? "x,y" : "x,z", "y", NULL);
        onnx_node(&graph, "Relu", "y", "z", NULL);
        onnx_output(&graph, "z");
        onnx_refused(&graph, NULL,
                     self
                         ? "node 'y' (Add): reads the result of node 'y' (Add), which depends on this node"
                         : "node 'z' (Relu): reads the result of node 'y' (Add), which depends on this node");
    }
}

/* Truncated anywhere, or with any byte changed, a file is refused or becomes a model that can be queried. */
TEST(hostile_bytes) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3");
    onnx_integers(&graph, "shape", "-1,1");
    onnx_floats(&graph, "w", "3,2", 1);
    onnx_node(&graph, "MatMul", "x,w", "h", NULL);
    onnx_node(&graph, "Reshape", "h,shape", "y", NULL);
    onnx_output(&graph, "y");
    const size_t whole = graph.bytes.count;
    for (size_t cut = 0; cut < whole; cut++) {
        onnx_graph less = graph, changed = graph;
        less.bytes.count = cut;
        changed.bytes.bytes[cut] = (uint8_t)(changed.bytes.bytes[cut] ^ (1u << cut % 8));
        for (int i = 0; i < 2; i++) {
            kn_model *model = onnx_open(i ? &changed : &less, NULL);
            assert_true((kn_model_status(model) == KN_OK) == (kn_model_graph(model) != NULL));
            assert_true(kn_model_bound(model) == !*kn_model_error(model));
            kn_model_destroy(&model);
        }
    }
}

TEST_FILE(test_onnx, NULL, NULL)
