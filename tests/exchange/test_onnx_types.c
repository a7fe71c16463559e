/* Element types of ONNX files: halves, and numbers of 8 bits and fewer. */
#include "exchange/onnx/import.h"
#include "onnx_model.h"

#include "../ops/ops_tests.h"

#include <stdio.h>

/* More 4-bit elements than are unpacked when the model is opened: 7 * i modulo 16, less 8. */
static void numbers_below_a_byte(void **state) {
    onnx_graph graph = {.bytes.count = 0};
    made tensor = {.count = 0}, raw = {.count = 0};
    for (int i = 0; i < 5002; i += 2)
        raw.bytes[raw.count++] =
            (uint8_t)((7 * i + 8) % 16 | (i + 1 < 5001 ? (7 * (i + 1) + 8) % 16 : 0) << 4);
    add_number(add_number(&tensor, 1, 5001), 2, 22);
    add_text(&tensor, 8, "w");
    add_packet(&tensor, 9, raw.bytes, raw.count);
    add_message(&graph.bytes, 5, &tensor);
    onnx_node(&graph, "Constant", "", "factor", "value_float=2.0f");
    onnx_integers(&graph, "from", "4996");
    onnx_integers(&graph, "to", "5001");
    onnx_integers(&graph, "minus", "-1");
    onnx_node(&graph, "DequantizeLinear", "w,factor", "numbers", NULL);
    onnx_node(&graph, "Slice", "numbers,from,to", "last", NULL);
    onnx_node(&graph, "ReduceSum", "numbers", "sum", "keepdims=0");
    onnx_node(&graph, "Cast", "from", "lower", "to=22");
    onnx_output(&graph, "last");
    onnx_output(&graph, "sum");
    onnx_output(&graph, "lower");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "5", "8 -10 4 -14 0");
    onnx_gives(model, 1, "", "-5016");
    onnx_gives(model, 2, "1", "4");
    kn_model_destroy(&model);
}

/* 16-bit weights are stored in 16 bits, and a cast to 16 bits rounds. */
static void halves(void **state) {
    static const struct {
        int type;
        const char *numbers;
        kn_dtype dtype;
    } cases[] = {{10, "\0\x3c\0\xbe", KN_FLOAT16}, {16, "\x80\x3f\xc0\xbf", KN_BFLOAT16}}; /* 1, -1.5 */
    for (size_t i = 0; i < 2; i++) {
        onnx_graph graph = {.bytes.count = 0};
        made tensor = {.count = 0};
        add_number(add_number(&tensor, 1, 2), 2, (uint64_t)cases[i].type);
        add_text(&tensor, 8, "w");
        add_packet(&tensor, 9, (const uint8_t *)cases[i].numbers, 4);
        add_message(&graph.bytes, 5, &tensor);
        onnx_input(&graph, "x", cases[i].type, "2");
        onnx_node(&graph, "Constant", "", "list", "value_ints=2049:65535");
        onnx_node(&graph, "Cast", "list", "floats", "to=1");
        onnx_node(&graph, "Cast", "floats", "narrow", cases[i].type == 10 ? "to=10" : "to=16");
        onnx_node(&graph, "Cast", "narrow", "rounded", "to=1");
        onnx_node(&graph, "Mul", "x,w", "y", NULL);
        onnx_output(&graph, "y");
        onnx_output(&graph, "rounded");
        kn_model *model = onnx_right(&graph, NULL);
        const kn_value *w = kn_graph_find(kn_model_graph(model), "w");
        assert_true(w->shape.dtype == KN_FLOAT32 && w->stored == cases[i].dtype);
        assert_int_equal(kn_value_dtype(kn_model_output_at(model, 0)), cases[i].dtype);
        onnx_gives(model, 1, "2", cases[i].type == 10 ? "2048 inf" : "2048 65536");
        kn_model_destroy(&model);
    }
}

/* An initializer "w" of `count` elements with these bytes. */
static void add_small(onnx_graph *graph, const char *name, int type, int count, const char *bytes,
                      size_t size) {
    made tensor = {.count = 0};
    add_number(add_number(&tensor, 1, (uint64_t)count), 2, (uint64_t)type);
    add_text(&tensor, 8, name);
    add_packet(&tensor, 9, (const uint8_t *)bytes, size);
    add_message(&graph->bytes, 5, &tensor);
}

/* 1, -3, 500 and 17 as a type and back. */
static void cast_gives(const char *attributes, const char *numbers) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_node(&graph, "Constant", "", "list", "value_ints=1:-3:500:17");
    onnx_node(&graph, "Cast", "list", "floats", "to=1");
    onnx_node(&graph, "Cast", "floats", "small", attributes);
    onnx_node(&graph, "Identity", "small", "same", NULL);
    onnx_node(&graph, "Cast", "same", "y", "to=1");
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "4", numbers);
    kn_model_destroy(&model);
}

static void small_floats(void **state) {
    cast_gives("to=17", "1 -3 448 16");
    cast_gives("to=17 saturate=0", "1 -3 nan 16");
    cast_gives("to=18", "1 -3 240 16");
    cast_gives("to=19", "1 -3 512 16");
    cast_gives("to=20", "1 -3 512 16");
    cast_gives("to=23", "1 -3 6 6");
    cast_gives("to=24", "1 4 512 32");
    cast_gives("to=24 round_mode='down'", "1 2 256 16");
    cast_gives("to=24 round_mode='nearest'", "1 4 512 16");
    /* Two elements a byte, and blocks with powers of two as scales. */
    onnx_graph graph = {.bytes.count = 0};
    add_small(&graph, "four", 23, 3, "\x9f\x07", 2);
    add_small(&graph, "eight", 17, 4, "\x38\xb8\x3c\x7f", 4);
    add_small(&graph, "scales", 24, 2, "\x80\x7e", 2);
    onnx_node(&graph, "Constant", "", "two", "value_float=2f");
    onnx_node(&graph, "DequantizeLinear", "four,two", "a", "axis=0");
    onnx_node(&graph, "DequantizeLinear", "eight,scales", "b", "axis=0 block_size=2 output_dtype=1");
    onnx_node(&graph, "QuantizeLinear", "a,two", "again", "output_dtype=23");
    onnx_node(&graph, "Cast", "again", "c", "to=1");
    onnx_node(&graph, "QuantizeLinear", "b,scales", "blocks",
              "axis=0 block_size=2 output_dtype=19 precision=1");
    onnx_node(&graph, "Cast", "blocks", "d", "to=1");
    onnx_output(&graph, "a");
    onnx_output(&graph, "b");
    onnx_output(&graph, "c");
    onnx_output(&graph, "d");
    onnx_output(&graph, "again");
    onnx_output(&graph, "eight");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "3", "-12 -1 12");
    onnx_gives(model, 1, "4", "2 -2 0.75 nan");
    onnx_gives(model, 2, "3", "-6 -0.5 6");
    onnx_gives(model, 3, "4", "1 -1 1.5 nan");
    assert_int_equal(kn_value_dtype(kn_model_output_at(model, 4)), KN_FLOAT4E2M1);
    assert_int_equal(kn_value_dtype(kn_model_output_at(model, 5)), KN_FLOAT8E4M3FN);
    kn_model_destroy(&model);
}

static void small_floats_are_refused(void **state) {
    static const struct {
        const char *type, *inputs, *attributes, *message;
    } cases[] = {
        {"Cast", "x", "to=27", "node 'y' (Cast): casting to type float6e2m3 is not supported"},
        {"Cast", "x", "to=24 round_mode='odd'",
         "node 'y' (Cast): round_mode is 'odd'; expected up, down or nearest"},
        {"QuantizeLinear", "x,x", "output_dtype=24",
         "node 'y' (QuantizeLinear): quantizing to type float8e8m0"},
        {"QuantizeLinear", "x,two,one", NULL,
         "node 'y' (QuantizeLinear): the zero point of float8e4m3fn must be 0"},
        {"DequantizeLinear", "one,power", NULL,
         "node 'y' (DequantizeLinear): dequantizing to type float8e8m0 is not supported"},
        {"Add", "one,one", NULL,
         "node 'y' (Add): add 'add1': input 1 is float8e4m3fn, a storage-only type; cast it to float32 "
         "first"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        onnx_graph graph = {.bytes.count = 0};
        add_small(&graph, "one", 17, 1, "\x38", 1);
        add_small(&graph, "power", 24, 1, "\x7f", 1);
        onnx_node(&graph, "Constant", "", "two", "value_float=2f");
        onnx_input(&graph, "x", ONNX_FLOAT, "2");
        onnx_node(&graph, cases[i].type, cases[i].inputs, "y", cases[i].attributes);
        onnx_output(&graph, "y");
        onnx_refused(&graph, NULL, cases[i].message);
    }
}

/* x (1,4) = 1 2 3 4 times the matrix of 8 codes of the file, dequantized by integers of shape
 * `scales_shape`, makes y, through the operator `op`. */
static void product_reads(int type, const char *codes, int rows, const char *scales, const char *scales_shape,
                          const char *zero, const char *dequantize, const char *product,
                          const char *attributes, const char *numbers, const char *op) {
    onnx_graph graph = {.bytes.count = 0};
    made tensor = {.count = 0};
    add_number(add_number(&tensor, 1, (uint64_t)rows), 1, (uint64_t)(8 / rows));
    add_number(&tensor, 2, (uint64_t)type);
    add_text(&tensor, 8, "w");
    add_packet(&tensor, 9, (const uint8_t *)codes, 8);
    add_message(&graph.bytes, 5, &tensor);
    onnx_integers(&graph, "x_shape", "1,4");
    onnx_node(&graph, "Constant", "", "x_whole", "value_ints=1:2:3:4");
    onnx_node(&graph, "Cast", "x_whole", "x_flat", "to=1");
    onnx_node(&graph, "Reshape", "x_flat,x_shape", "x", NULL);
    onnx_integers(&graph, "s_whole", scales);
    onnx_integers(&graph, "s_shape", scales_shape);
    onnx_node(&graph, "Cast", "s_whole", "s_flat", "to=1");
    onnx_node(&graph, "Reshape", "s_flat,s_shape", "s", NULL);
    if (zero) {
        onnx_integers(&graph, "z_whole", zero);
        onnx_node(&graph, "Cast", "z_whole", "z_flat", type == 2 ? "to=2" : "to=3");
        onnx_node(&graph, "Reshape", "z_flat,s_shape", "z", NULL);
    }
    onnx_node(&graph, "DequantizeLinear", zero ? "w,s,z" : "w,s", "b", dequantize);
    onnx_node(&graph, product, "x,b", "y", attributes);
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "1,2", numbers);
    assert_string_equal(model->outputs[0]->producer->op->name, op);
    kn_model_destroy(&model);
}

static void products_read_codes(void **state) {
    const char *columns = "\1\2\3\4\377\0\2\376", *rows = "\1\2\3\4\5\6\7\10";
    product_reads(3, columns, 4, "2,4", "2", NULL, "axis=1", "MatMul", NULL, "24 8", "matmul_quantized");
    product_reads(3, columns, 4, "2", "1", "1", NULL, "MatMul", NULL, "4 -16", "matmul_quantized");
    product_reads(3, columns, 4, "1,1,1,2", "4", NULL, "axis=0", "MatMul", NULL, "20 -6", "matmul");
    product_reads(3, columns, 4, "1,2,2,4", "2,2", NULL, "axis=0 block_size=2", "MatMul", NULL, "17 -12",
                  "matmul_quantized");
    product_reads(2, rows, 2, "1,2", "2", NULL, "axis=0", "Gemm", "transB=1", "30 140", "matmul_quantized");
    product_reads(2, rows, 2, "1,2,2,4", "2,2", "1,2,5,8", "axis=1 block_size=2", "Gemm", "transB=1", "24 -8",
                  "matmul_quantized");
}

/* The same if x was quantized with scale 1 and zero point 3: bytes are multiplied, if `name` is set. w are
 * codes of the file, or quantized too. */
static void bytes_give(bool in_file, const char *codes, int rows, const char *scales,
                       const char *scales_shape, const char *axis, const char *product,
                       const char *attributes, const char *numbers, const char *name) {
    onnx_graph graph = {.bytes.count = 0};
    made tensor = {.count = 0};
    add_number(add_number(&tensor, 1, (uint64_t)rows), 1, (uint64_t)(8 / rows));
    add_number(&tensor, 2, 3);
    add_text(&tensor, 8, "codes");
    add_packet(&tensor, 9, (const uint8_t *)codes, 8);
    add_message(&graph.bytes, 5, &tensor);
    onnx_integers(&graph, "x_shape", "1,4");
    onnx_node(&graph, "Constant", "", "x_whole", "value_ints=1:2:3:4");
    onnx_node(&graph, "Cast", "x_whole", "x_flat", "to=1");
    onnx_node(&graph, "Reshape", "x_flat,x_shape", "x", NULL);
    onnx_node(&graph, "Constant", "", "one", "value_float=1f");
    onnx_integers(&graph, "three_whole", "3");
    onnx_node(&graph, "Cast", "three_whole", "three", "to=2");
    onnx_node(&graph, "QuantizeLinear", "x,one,three", "a_codes", NULL);
    onnx_node(&graph, "DequantizeLinear", "a_codes,one,three", "a", NULL);
    onnx_integers(&graph, "s_whole", scales);
    onnx_integers(&graph, "s_shape", scales_shape);
    onnx_node(&graph, "Cast", "s_whole", "s_flat", "to=1");
    onnx_node(&graph, "Reshape", "s_flat,s_shape", "s", NULL);
    if (!in_file) {
        onnx_node(&graph, "Cast", "codes", "w_numbers", "to=1");
        onnx_node(&graph, "QuantizeLinear", "w_numbers,one,three", "w", NULL);
    }
    onnx_node(&graph, "DequantizeLinear", in_file ? "codes,s" : "w,s,three", "b", axis);
    onnx_node(&graph, product, "a,b", "y", attributes);
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "1,2", numbers);
    const kn_node *node = model->outputs[0]->producer;
    for (int i = 0; i < 2 && !strcmp(name, "matmul_integer"); i++)
        node = node->inputs[0]->producer;
    assert_string_equal(node->op->name, name);
    kn_model_destroy(&model);
}

static void products_of_bytes(void **state) {
    const char *columns = "\1\2\3\4\377\0\2\376", *rows = "\1\2\3\4\5\6\7\10";
    bytes_give(true, columns, 4, "2,4", "2", "axis=1", "MatMul", NULL, "24 8", "matmul_integer");
    bytes_give(true, columns, 4, "2", "1", NULL, "MatMul", NULL, "24 4", "matmul_integer");
    bytes_give(false, rows, 4, "2", "1", NULL, "MatMul", NULL, "100 120", "matmul_integer");
    bytes_give(true, rows, 2, "1,2", "2", "axis=0", "Gemm", "transB=1", "30 140", "matmul_integer");
    /* A scale per row of b, and blocks. */
    bytes_give(true, columns, 4, "1,1,1,2", "4", "axis=0", "MatMul", NULL, "20 -6", "matmul");
    bytes_give(true, columns, 4, "1,2,2,4", "2,2", "axis=0 block_size=2", "MatMul", NULL, "17 -12",
               "matmul_quantized");
}

/* A convolution of bytes, less zero points 3, and 1 and 0, with a bias: the result, and an operator before
 * it. */
static void convolution_gives(bool line, const char *attributes, const char *shape, const char *numbers) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_integers(&graph, "x_whole", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18");
    onnx_integers(&graph, "x_shape", line ? "1,2,9" : "1,2,3,3");
    onnx_integers(&graph, "w_whole", "1,-1,2,0,3,1,-2,1");
    onnx_integers(&graph, "w_shape", line ? "2,2,2" : "2,1,2,2");
    onnx_integers(&graph, "scales_whole", "1,2");
    onnx_integers(&graph, "three_whole", "3");
    onnx_integers(&graph, "zeros_whole", "1,0");
    onnx_node(&graph, "Constant", "", "one", "value_float=1f");
    onnx_node(&graph, "Reshape", "x_whole,x_shape", "x_long", NULL);
    onnx_node(&graph, "Cast", "x_long", "x", "to=2");
    onnx_node(&graph, "Cast", "three_whole", "three", "to=2");
    onnx_node(&graph, "Reshape", "w_whole,w_shape", "w_long", NULL);
    onnx_node(&graph, "Cast", "w_long", "w", "to=3");
    onnx_node(&graph, "Cast", "zeros_whole", "zeros", "to=3");
    onnx_node(&graph, "Cast", "scales_whole", "scales", "to=1");
    onnx_node(&graph, "DequantizeLinear", "x,one,three", "a", NULL);
    onnx_node(&graph, "DequantizeLinear", "w,scales,zeros", "b", "axis=0");
    onnx_node(&graph, "Conv", "a,b,scales", "y", attributes);
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, shape, numbers);
    const kn_node *node = model->outputs[0]->producer;
    for (int i = 0; i < 5 && node->input_count < 4; i++)
        node = node->inputs[0]->producer;
    assert_string_equal(node->op->name, "conv2d_bytes");
    kn_model_destroy(&model);
}

static void convolutions_of_bytes(void **state) {
    (void)state;
    convolution_gives(false, "group=2", "1,2,2,2", "2 0 -4 -6 42 48 60 66");
    convolution_gives(true, "strides=2 dilations=2 pads=2:0", "1,2,5", "-2 -1 -5 -9 -13 12 -20 -8 4 16");
}

/* The operator that multiplies bytes (1,depth) and (depth,1), each dequantized first. */
static void depth_gives(const char *depth, const char *name) {
    onnx_graph graph = {.bytes.count = 0};
    char shape[32];
    snprintf(shape, sizeof shape, "1,%s", depth);
    onnx_input(&graph, "x", ONNX_UINT8, shape);
    snprintf(shape, sizeof shape, "%s,1", depth);
    onnx_input(&graph, "w", ONNX_UINT8, shape);
    onnx_node(&graph, "Constant", "", "one", "value_float=1f");
    onnx_node(&graph, "DequantizeLinear", "x,one", "a", NULL);
    onnx_node(&graph, "DequantizeLinear", "w,one", "b", NULL);
    onnx_node(&graph, "MatMul", "a,b", "y", NULL);
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    const kn_node *node = model->outputs[0]->producer;
    for (int i = 0; i < 2 && strcmp(node->op->name, "matmul"); i++)
        node = node->inputs[0]->producer;
    assert_string_equal(node->op->name, name);
    kn_model_destroy(&model);
}

/* 33,026 products of 255 and 255 exceed int32. */
static void deep_products_are_floats(void **state) {
    (void)state;
    depth_gives("33025", "matmul_integer");
    depth_gives("33026", "matmul");
    depth_gives("length", "matmul");
}

int test_onnx_types(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_below_a_byte),
        cmocka_unit_test(halves),
        cmocka_unit_test(small_floats),
        cmocka_unit_test(small_floats_are_refused),
        cmocka_unit_test(products_read_codes),
        cmocka_unit_test(products_of_bytes),
        cmocka_unit_test(deep_products_are_floats),
        cmocka_unit_test(convolutions_of_bytes),
    };
    return cmocka_run_group_tests_name("onnx types", tests, NULL, NULL);
}
