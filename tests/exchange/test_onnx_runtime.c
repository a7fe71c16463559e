/* Operators of ONNX Runtime: their results on small numbers, their parameters, and refusals. */
#include "exchange/onnx/import.h"
#include "onnx_model.h"

#include <stdio.h>
#include <string.h>

enum { ONNX_INT8 = 3, ONNX_INT32 = 6, DRAWS = 22 };
#define MICROSOFT "com.microsoft:"

/* A constant of some type and shape, from integers, "1,-2", which are quarters if the type is float. */
static void constant(onnx_graph *graph, const char *name, int type, const char *shape, const char *numbers) {
    char whole[64], other[64], size[64], attributes[32], inputs[128];
    snprintf(whole, sizeof whole, "%s_whole", name);
    snprintf(other, sizeof other, "%s_other", name);
    snprintf(size, sizeof size, "%s_size", name);
    snprintf(attributes, sizeof attributes, "to=%d", type);
    onnx_integers(graph, whole, numbers);
    onnx_integers(graph, size, shape);
    onnx_node(graph, "Cast", whole, other, attributes);
    if (type == ONNX_FLOAT) {
        char product[64], quarter[64];
        snprintf(product, sizeof product, "%s_product", name);
        snprintf(quarter, sizeof quarter, "%s_quarter", name);
        onnx_node(graph, "Constant", "", quarter, "value_float=0.25f");
        snprintf(inputs, sizeof inputs, "%s,%s", other, quarter);
        onnx_node(graph, "Mul", inputs, product, NULL);
        snprintf(inputs, sizeof inputs, "%s,%s", product, size);
    } else {
        snprintf(inputs, sizeof inputs, "%s,%s", other, size);
    }
    onnx_node(graph, "Reshape", inputs, name, NULL);
}

/* The node makes `y` with this shape and these numbers. */
static void makes(onnx_graph *graph, const char *type, const char *inputs, const char *outputs,
                  const char *attributes, const char *shape, const char *numbers) {
    onnx_node(graph, type, inputs, outputs, attributes);
    onnx_output(graph, "y");
    kn_model *model = onnx_right(graph, NULL);
    onnx_gives(model, 0, shape, numbers);
    kn_model_destroy(&model);
}

TEST(quantized_sums) {
    for (int product = 0; product < 2; product++) {
        onnx_graph graph = {.bytes.count = 0};
        constant(&graph, "a", ONNX_UINT8, "3", "12,20,250");
        constant(&graph, "b", ONNX_UINT8, "3", "4,0,255");
        constant(&graph, "half", ONNX_FLOAT, "", "2");
        constant(&graph, "one", ONNX_FLOAT, "", "4");
        constant(&graph, "ten", ONNX_UINT8, "1", "10");
        constant(&graph, "two", ONNX_UINT8, "", "2");
        /* (a - 10) / 2 and b - 2, as y - 10, in steps of 1 */
        makes(&graph, product ? MICROSOFT "QLinearMul" : MICROSOFT "QLinearAdd",
              "a,half,ten,b,one,two,one,ten", "y", NULL, "3", product ? "12 0 255" : "13 13 255");
    }
}

TEST(quantized_joins) {
    onnx_graph graph = {.bytes.count = 0};
    constant(&graph, "a", ONNX_INT8, "1,2", "-3,5");
    constant(&graph, "b", ONNX_INT8, "1,1", "100");
    constant(&graph, "half", ONNX_FLOAT, "", "2");
    constant(&graph, "one", ONNX_FLOAT, "", "4");
    constant(&graph, "zero", ONNX_INT8, "", "0");
    constant(&graph, "less", ONNX_INT8, "", "-10");
    makes(&graph, MICROSOFT "QLinearConcat", "half,less,a,one,zero,b,half,zero", "y", "axis=1", "1,3",
          "-16 0 90");
}

TEST(quantized_products) {
    for (int form = 0; form < 3; form++) {
        onnx_graph graph = {.bytes.count = 0};
        constant(&graph, "a", ONNX_UINT8, "2,2", "1,2,3,4");
        constant(&graph, "b", ONNX_INT8, "2,2", "1,-1,2,3");
        constant(&graph, "bt", ONNX_INT8, "2,2", "1,2,-1,3");
        constant(&graph, "c", ONNX_INT32, "2", "4,-8");
        constant(&graph, "half", ONNX_FLOAT, "", "2");
        constant(&graph, "each", ONNX_FLOAT, "2", "2,4");
        constant(&graph, "bias", ONNX_FLOAT, "2", "1,2");
        constant(&graph, "one", ONNX_UINT8, "", "1");
        constant(&graph, "none", ONNX_INT8, "2", "0,1");
        /* (a - 1) (b - none) is (2,2;8,2) */
        if (form == 0)
            makes(&graph, MICROSOFT "QGemm", "a,half,one,bt,each,none,c", "y", "transB=1", "2,2",
                  "1.5 -3 3 -3");
        else if (form == 1)
            makes(&graph, MICROSOFT "QGemm", "a,half,one,bt,each,none,c,half,one", "y", "transB=1 alpha=2f",
                  "2,2", "7 0 13 0");
        else
            makes(&graph, MICROSOFT "MatMulIntegerToFloat", "a,b,half,each,one,none,bias", "y", NULL, "2,2",
                  "0.75 1.5 2.25 1.5");
    }
}

/* Two rows of 16 codes of 4 bits: 8 is zero. */
TEST(packed_weights) {
    onnx_graph graph = {.bytes.count = 0};
    constant(&graph, "x", ONNX_FLOAT, "1,16", "4,4,4,0,0,0,0,0,0,0,0,0,0,0,0,4");
    constant(&graph, "w", ONNX_UINT8, "2,1,8",
             "169,136,136,136,136,136,136,8,136,143,136,136,136,136,136,152");
    constant(&graph, "s", ONNX_FLOAT, "2,1", "4,2");
    makes(&graph, MICROSOFT "MatMulNBits", "x,w,s", "y", "N=2 K=16 bits=4 block_size=16", "1,2", "-5 4");

    graph = (onnx_graph){.bytes.count = 0};
    constant(&graph, "x", ONNX_FLOAT, "1,16", "4,4,4,0,0,0,0,0,0,0,0,0,0,0,0,4");
    constant(&graph, "w", ONNX_UINT8, "2,1,8",
             "169,136,136,136,136,136,136,8,136,143,136,136,136,136,136,152");
    constant(&graph, "s", ONNX_FLOAT, "2,1", "4,2");
    onnx_node(&graph, MICROSOFT "MatMulNBits", "x,w,s", "y", "N=2 K=16 bits=3 block_size=16");
    onnx_output(&graph, "y");
    onnx_refused(&graph, NULL, "node 'y' (MatMulNBits): bits is 3; expected 2, 4 or 8");
}

TEST(joined_layers) {
    onnx_graph graph = {.bytes.count = 0};
    constant(&graph, "a", ONNX_FLOAT, "1,2", "4,8");
    constant(&graph, "b", ONNX_FLOAT, "2,2", "4,-8,4,4");
    makes(&graph, MICROSOFT "FusedMatMul", "a,b", "y", "transB=1 alpha=0.5f", "1,2", "-1.5 1.5");

    graph = (onnx_graph){.bytes.count = 0};
    constant(&graph, "a", ONNX_FLOAT, "1,2", "4,8");
    constant(&graph, "b", ONNX_FLOAT, "2,2", "4,-8,4,4");
    constant(&graph, "c", ONNX_FLOAT, "2", "4,4");
    makes(&graph, MICROSOFT "FusedGemm", "a,b,c", "y",
          "activation='LeakyRelu' activation_alpha=0.5f beta=-1f", "1,2", "2 -0.5");

    graph = (onnx_graph){.bytes.count = 0};
    constant(&graph, "x", ONNX_FLOAT, "1,1,2", "4,8");
    constant(&graph, "skip", ONNX_FLOAT, "1,2", "-4,4");
    constant(&graph, "scale", ONNX_FLOAT, "2", "4,8");
    constant(&graph, "shift", ONNX_FLOAT, "2", "0,4");
    onnx_node(&graph, MICROSOFT "SkipLayerNormalization", "x,skip,scale,shift", "n,,,y", NULL);
    makes(&graph, "Identity", "n", "unused", NULL, "1,1,2", "0 3");
}

TEST(embeddings) {
    onnx_graph graph = {.bytes.count = 0};
    constant(&graph, "ids", ONNX_INT32, "2,3", "0,1,2,2,1,0");
    constant(&graph, "mask", ONNX_INT32, "2,3", "1,1,0,1,0,0");
    constant(&graph, "words", ONNX_FLOAT, "3,2", "4,0,8,0,12,0");
    constant(&graph, "places", ONNX_FLOAT, "4,2", "0,0,0,16,0,8,0,0");
    constant(&graph, "scale", ONNX_FLOAT, "2", "4,4");
    constant(&graph, "shift", ONNX_FLOAT, "2", "0,0");
    onnx_node(&graph, MICROSOFT "EmbedLayerNormalization", "ids,,words,places,,scale,shift,mask", "y,left",
              "epsilon=0.0f");
    onnx_output(&graph, "y");
    onnx_output(&graph, "left");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "2,3,2", "1 -1 -1 1 1 -1 1 -1 -1 1 -1 1");
    onnx_gives(model, 1, "2", "2 1");
    kn_model_destroy(&model);
}

/* Queries of 0 give the mean of the values that they see. */
TEST(attention_means) {
    onnx_graph graph = {.bytes.count = 0};
    constant(&graph, "q", ONNX_FLOAT, "1,2,4", "0,0,0,0,0,0,0,0");
    constant(&graph, "k", ONNX_FLOAT, "1,3,4", "1,2,3,4,5,6,7,8,9,10,11,12");
    constant(&graph, "v", ONNX_FLOAT, "1,3,4", "4,0,0,0,8,4,0,0,12,8,16,0");
    constant(&graph, "m", ONNX_INT32, "1", "2");
    makes(&graph, MICROSOFT "MultiHeadAttention", "q,k,v,,m", "y", "num_heads=2", "1,2,4",
          "1.5 0.5 0 0 1.5 0.5 0 0");

    graph = (onnx_graph){.bytes.count = 0};
    constant(&graph, "x", ONNX_FLOAT, "1,3,1", "4,8,12");
    constant(&graph, "w", ONNX_FLOAT, "1,3", "0,0,4");
    onnx_node(&graph, MICROSOFT "Attention", "x,w", "y,present", "num_heads=1 unidirectional=1");
    onnx_output(&graph, "y");
    onnx_output(&graph, "present");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "1,3,1", "1 1.5 2");
    onnx_gives(model, 1, "2,1,1,3,1", "0 0 0 1 2 3");
    kn_model_destroy(&model);
}

static void add_group(onnx_graph *graph, const char *queries, const char *past) {
    char inputs[64];
    snprintf(inputs, sizeof inputs, "%s,k,v,%s", queries, past);
    onnx_node(graph, MICROSOFT "GroupQueryAttention", inputs, "out,pk2,pv2", "num_heads=2 kv_num_heads=1");
    onnx_output(graph, "out");
    onnx_output(graph, "pv2");
}

TEST(attention_of_groups) {
    onnx_graph graph = {.bytes.count = 0};
    constant(&graph, "q", ONNX_FLOAT, "2,1,2", "0,0,0,0");
    constant(&graph, "k", ONNX_FLOAT, "2,1,1", "4,8");
    constant(&graph, "v", ONNX_FLOAT, "2,1,1", "4,8");
    constant(&graph, "pk", ONNX_FLOAT, "2,1,2,1", "0,0,0,0");
    constant(&graph, "pv", ONNX_FLOAT, "2,1,2,1", "8,12,16,20");
    constant(&graph, "n", ONNX_INT32, "2", "2,1"); /* less 1: three keys, and two */
    constant(&graph, "total", ONNX_INT32, "", "3");
    add_group(&graph, "q", "pk,pv,n,total");
    kn_model *model = onnx_right(&graph, NULL);
    onnx_gives(model, 0, "2,1,2", "2 2 3 3");
    onnx_gives(model, 1, "2,1,3,1", "2 3 1 4 2 0"); /* the second sample's new value is at position 1 */
    kn_model_destroy(&model);

    graph = (onnx_graph){.bytes.count = 0};
    onnx_input(&graph, "q", ONNX_FLOAT, "batch,length,8");
    onnx_input(&graph, "k", ONNX_FLOAT, "batch,length,4");
    onnx_input(&graph, "v", ONNX_FLOAT, "batch,length,4");
    onnx_input(&graph, "pk", ONNX_FLOAT, "batch,1,past,4");
    onnx_input(&graph, "pv", ONNX_FLOAT, "batch,1,past,4");
    onnx_input(&graph, "n", ONNX_INT32, "batch");
    onnx_input(&graph, "total", ONNX_INT32, "");
    add_group(&graph, "q", "pk,pv,n,total");
    model = onnx_right(&graph, NULL);
    has_shape(model, "out", "batch,length,8");
    has_shape(model, "pv2", "batch,1,length+past,4");
    kn_model_destroy(&model);
}

/* Weights of fused layers are trained, and sizes stay dynamic. */
TEST(parameters_and_sizes) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3,8,8");
    onnx_floats(&graph, "w", "4,3,3,3", 0);
    onnx_floats(&graph, "b", "4", 0);
    onnx_floats(&graph, "v", "4,5", 0);
    onnx_node(&graph, MICROSOFT "FusedConv", "x,w,b", "h", "activation='Relu' pads=1:1:1:1");
    onnx_node(&graph, "GlobalAveragePool", "h", "p", NULL);
    onnx_node(&graph, "Flatten", "p", "f", NULL);
    onnx_node(&graph, MICROSOFT "FusedMatMul", "f,v", "z", NULL);
    onnx_node(&graph, MICROSOFT "QuickGelu", "z", "out", NULL);
    onnx_output(&graph, "out");
    kn_model *model = onnx_right(&graph, NULL);
    has_parameters(model, "w b v");
    has_shape(model, "out", "batch,5");
    kn_model_destroy(&model);
}

TEST(refusals) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3");
    onnx_node(&graph, MICROSOFT "Sampling", "x", "y", NULL);
    onnx_output(&graph, "y");
    onnx_refused(&graph, NULL, "unsupported operators: com.microsoft.Sampling (node 'y')");

    graph = (onnx_graph){.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3");
    onnx_floats(&graph, "w", "3,2", 0);
    onnx_node(&graph, MICROSOFT "FusedGemm", "x,w", "y", "activation='Snake'");
    onnx_output(&graph, "y");
    onnx_refused(&graph, NULL, "node 'y' (FusedGemm): activation 'Snake' is not supported");

    graph = (onnx_graph){.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3,4");
    onnx_floats(&graph, "w", "4,12", 0);
    onnx_node(&graph, MICROSOFT "Attention", "x,w", "y", "num_heads=2 do_rotary=1");
    onnx_output(&graph, "y");
    onnx_refused(&graph, NULL, "node 'y' (Attention): do_rotary 1 is not supported");

    graph = (onnx_graph){.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3");
    onnx_floats(&graph, "w", "4,3", 0);
    onnx_node(&graph, MICROSOFT "CDist", "x,w", "y", "metric='cosine'");
    onnx_output(&graph, "y");
    onnx_refused(&graph, NULL, "node 'y' (CDist): metric is 'cosine'; expected euclidean");
}

/* ---- whatever a file may say --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int type;
    const char *shape;
} anything[] = {
    {"number", ONNX_FLOAT, ""},
    {"line", ONNX_FLOAT, "4"},
    {"lines", ONNX_FLOAT, "4,12"},
    {"rows", ONNX_FLOAT, "batch,3,4"},
    {"image", ONNX_FLOAT, "batch,4,6,6"},
    {"cache", ONNX_FLOAT, "2,batch,2,5,2"},
    {"past", ONNX_FLOAT, "batch,2,past,2"},
    {"packed", ONNX_FLOAT, "batch,3,2,3,2"},
    {"open", ONNX_FLOAT, "batch,length,size"},
    {"none", ONNX_FLOAT, "batch,0,4"},
    {"byte", ONNX_UINT8, ""},
    {"bytes", ONNX_UINT8, "3,4"},
    {"blocks", ONNX_UINT8, "4,1,8"},
    {"signs", ONNX_INT8, "4,6"},
    {"ids", ONNX_INT32, "batch,3"},
    {"count", ONNX_INT32, "batch"},
    {"one", ONNX_INT32, ""},
    {"truth", ONNX_BOOL, "batch,3,4"},
    {"half", ONNX_FLOAT16, "batch,3,4"},
    {"", 0, NULL},
};
static const char *const sayings[] = {
    "",
    "axis=1 opset=13 alpha=0.5f keepdims=0 axes=1:2",
    "axis=-9 opset=1 axes=7",
    "num_heads=2 unidirectional=1 kernel_shape=2:2 mode='linear'",
    "num_heads=2 kv_num_heads=1 do_rotary=1 local_window_size=2 softcap=2f activation='Clip'",
    "num_heads=0 kv_num_heads=-1 group=0 groups=0 kernel_shape=0:-1 strides=0:0 N=-1 K=9 bits=4 "
    "block_size=16",
    "num_heads=3 smooth_softmax=1 qkv_hidden_sizes=2:2:4 transBatchA=1 transA=1 mode='cubic'",
    "N=4 K=4 bits=4 block_size=16 groups=2 channels_last=0 activation=1 signal_ndim=2",
    "N=4 K=12 bits=8 block_size=1 groups=2 channels_last=1 kernel_shape=3 signal_ndim=99",
    "quant_type=1 N=4 K=4 block_size=16 transB=1 offset_group=2 kernel_shape=1:1 metric='euclidean'",
    "gather_axis=0 quantize_axis=1 bits=2 block_size=16 coordinate_transformation_mode='align_corners'",
};

static void draw(const kn_import_row *row, int from, uint64_t key) {
    onnx_graph graph = {.bytes.count = 0};
    char inputs[256] = "", type[128];
    uint64_t at = 0;
    for (size_t i = 0; anything[i].shape; i++)
        onnx_input(&graph, anything[i].name, anything[i].type, anything[i].shape);
    const int count = (int)(kn_random_uniform(key, at++) * 12);
    for (int i = 0; i < count; i++) {
        size_t which = (size_t)(kn_random_uniform(key, at++) * (float)KN_COUNT_OF(anything));
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", i ? "," : "",
                 anything[which].name);
    }
    snprintf(type, sizeof type, "%s%s%s", row->domain ? row->domain : "", row->domain ? ":" : "", row->type);
    onnx_node(&graph, type, inputs, "out,second,third,fourth", sayings[from]);
    onnx_output(&graph, "out");
    kn_model *model = onnx_open(&graph, NULL);
    const char *error = kn_model_error(model), *reason = strstr(error, "): ");
    assert_true((kn_model_status(model) == KN_OK) == (kn_model_graph(model) != NULL));
    assert_true(kn_model_bound(model) == !*error);
    snprintf(type, sizeof type, "net.onnx: node 'out' (%s", row->type);
    if (*error && !strstr(error, "net.onnx: output 'out'") && (!strstr(error, type) || !reason || !reason[3]))
        fail_msg("\"%s\" does not say what is wrong with the node of %s", error, row->type);
    kn_model_destroy(&model);
}

/* Nodes with any number of inputs of any kind, and any attributes, are built, or refused with a reason. */
TEST(hostile_nodes) {
#define DRAW(family)                                                                                         \
    for (int i = 0; i < kn_import_##family##_count; i++)                                                     \
        for (int k = 0; k < DRAWS; k++)                                                                      \
            draw(&kn_import_##family[i], k % (int)KN_COUNT_OF(sayings),                                      \
                 kn_random_key((uint64_t)k, kn_import_##family[i].type));
    KN_IMPORT_FAMILIES(DRAW)
}

TEST_FILE(test_onnx_runtime, NULL, NULL)
