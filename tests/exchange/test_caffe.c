/* Caffe networks as models: the text, the weights taken from the file, and what is refused. */
#include "exchange_tests.h"

#include "../formats/onnx_bytes.h"
#include "../models/fake_states.h"
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    char *folder;
    char path[4096], weights[4096];
} place;

static int make_place(void **state) {
    place *at = calloc(1, sizeof *at);
    if (!at) return -1;
    at->folder = test_folder_make();
    snprintf(at->path, sizeof at->path, "%s/net.prototxt", at->folder);
    snprintf(at->weights, sizeof at->weights, "%s/net.caffemodel", at->folder);
    *state = at;
    return 0;
}

static int remove_place(void **state) {
    place *at = *state;
    test_folder_remove(at->folder);
    free(at);
    return 0;
}

#define INPUT "name: 'n' input: 'data' input_dim: 4 input_dim: 2 input_dim: 7 input_dim: 7\n"
#define LAYER(type, name, bottom, top, more)                                                                 \
    "layer { name: '" name "' type: '" type "' bottom: '" bottom "' top: '" top "' " more " }\n"

static kn_model *open_net(void **state, const char *net) {
    const place *at = *state;
    test_file_write(at->path, net, strlen(net));
    return kn_model_open(at->path, NULL);
}

/* The text without its first three lines: version, name and input. */
static void becomes(void **state, const char *net, const char *expected) {
    kn_model *model = open_net(state, net);
    if (kn_model_status(model) != KN_OK) fail_msg("%s", kn_model_error(model));
    const char *text = kn_model_text(model);
    for (int i = 0; i < 3 && text; i++)
        text = strchr(text, '\n') + 1;
    assert_string_equal(text + (*text == '\n'), expected);
    kn_model_destroy(&model);
}

static void is_refused(void **state, const char *net, const char *part) {
    kn_model *model = open_net(state, net);
    if (kn_model_status(model) == KN_OK || !strstr(kn_model_error(model), part))
        fail_msg("\"%s\", expected \"%s\"", kn_model_error(model), part);
    kn_model_destroy(&model);
}

TEST_WITH(layers_become_lines, make_place, remove_place) {
    becomes(state,
            INPUT LAYER("Convolution", "a/1", "data", "a",
                        "param { lr_mult: 0 } param { lr_mult: 0 } convolution_param { num_output: 4 "
                        "kernel_size: 3 pad_h: 1 "
                        "pad_w: 0 stride: 2 group: 2 weight_filler { type: 'msra' } }")
                LAYER("ReLU", "r", "a", "a", "relu_param { negative_slope: 0.5 }")
                    LAYER("Pooling", "p", "a", "p", "pooling_param { pool: AVE kernel_size: 2 stride: 2 }")
                        LAYER("InnerProduct", "y", "p", "y",
                              "inner_product_param { num_output: 3 bias_term: false }"),
            "a_1 = conv @x 4 3 stride=2 padding=1x0 groups=2 init=kaiming_normal:1.4142135623730951 "
            "bias_init=fill:0 freeze\n"
            "r = leaky_relu @a_1 slope=0.5\n"
            "p = avgpool @r 2 stride=2 ceil\n"
            "y_2_rows = flatten @p\n"
            "y_2 = linear @y_2_rows 3 bias=no\n"
            "output y_2\n");
}

TEST_WITH(sides_and_groups_are_told_apart, make_place, remove_place) {
    becomes(
        state,
        INPUT LAYER("Convolution", "a", "data", "a",
                    "convolution_param { num_output: 4 kernel_size: 3 dilation: 2 dilation: 1 }")
            LAYER("ConvolutionDepthwise", "b", "a", "b", "convolution_param { num_output: 4 kernel_size: 1 }")
                LAYER("ArgMax", "c", "b", "c", ""),
        "a = conv @x 4 3 dilation=2x1\n"
        "b = conv @a 4 1 groups=4\n"
        "c_rows = flatten @b\n"
        "c_places = argmax @c_rows 1 keep\n"
        "c_places_2 = reshape @c_places 1x1x1\n"
        "c = cast @c_places_2\n"
        "c_flat = flatten @c\n"
        "output c_flat\n");
}

/* Parameters by the names of weight and bias. */
TEST_WITH(layers_share, make_place, remove_place) {
#define NAMED(name, bottom, weight, bias)                                                                    \
    LAYER("InnerProduct", name, bottom, name,                                                                \
          "param { name: '" weight "' } param { " bias " } inner_product_param { num_output: 98 }")
    becomes(state, INPUT NAMED("a", "data", "w", "name: 'b'") NAMED("c", "a", "w", "name: 'b'"),
            "a_rows = flatten @x\na = linear @a_rows 98\nc = linear @a 98 share=a\noutput c\n");
    is_refused(state, INPUT NAMED("a", "data", "w", "name: 'b'") NAMED("c", "a", "w", ""),
               "layer 'c' (InnerProduct, line 3): shares its weight but not its bias with layer 'a'");
#undef NAMED
}

/* Names that are equal once cut are numbered; sizes and lengths are bounded. */
TEST_WITH(what_grows_is_bounded, make_place, remove_place) {
    enum { LAYERS = 40, LAYER_BYTES = 200 };
    static char net[LAYERS * LAYER_BYTES + 200];
    size_t used = (size_t)snprintf(net, sizeof net, INPUT);
    for (int i = 0; i < LAYERS; i++)
        used +=
            (size_t)snprintf(net + used, sizeof net - used,
                             "layer { name: 'same' type: 'Concat' bottom: '%s' bottom: '%s' top: 'same' }\n",
                             i ? "same" : "data", i ? "same" : "data");
    is_refused(state, net, "2147483648 elements along axis 1");
    used = 0;
    for (int i = 0; i < 70; i++)
        used += (size_t)snprintf(net + used, sizeof net - used, "input: 'i%d' ", i);
    is_refused(state, net, "70 inputs");
    is_refused(state, "input: 'a' input_dim: 1 input_dim: 2 input_dim: 3", "input 'a' has no shape");
    is_refused(state, "input: 'a' input: 'b' input_shape { dim: 1 }", "input 'b' has no shape");
}

/* Truncated anywhere, or with any byte changed, a network is refused with a message or becomes a model. */
TEST_WITH(hostile_texts, make_place, remove_place) {
    static const char whole[] =
        INPUT LAYER("Convolution", "a", "data", "a", "convolution_param { num_output: 4 kernel_size: 3 }")
            LAYER("Pooling", "p", "a", "p", "pooling_param { kernel_size: 2 stride: 2 }")
                LAYER("Reshape", "r", "p", "r", "reshape_param { shape { dim: 0 dim: -1 } }");
    char text[sizeof whole];
    for (size_t at = 0; at < sizeof whole - 1; at++)
        for (int way = 0; way < 3; way++) {
            memcpy(text, whole, sizeof whole);
            text[at] = way == 0 ? '\0' : way == 1 ? (char)(whole[at] ^ (1 << at % 7)) : '9';
            kn_model *model = open_net(state, text);
            assert_true((kn_model_status(model) == KN_OK) == !*kn_model_error(model));
            kn_model_destroy(&model);
        }
}

TEST_WITH(norms_take_their_scales, make_place, remove_place) {
    const char *norm = LAYER("BatchNorm", "n", "data", "b", "");
    char net[1000];
    snprintf(net, sizeof net, "%s%s%s", INPUT, norm,
             LAYER("Scale", "s", "b", "s", "scale_param { bias_term: true }"));
    becomes(state, net, "n = batchnorm @x epsilon=0.00001\noutput n\n");
    /* Not where other layers read the output of the norm, or where no scale follows. */
    strcat(net, LAYER("TanH", "t", "b", "t", ""));
    becomes(state, net,
            "n = batchnorm @x epsilon=0.00001 affine=no\ns_weight = parameter 2x1x1 init=one\ns_bias = "
            "parameter 2x1x1 "
            "init=zero\ns_scaled = mul @n @s_weight\ns = add @s_scaled @s_bias\nt = tanh @n\noutput t s\n");
    snprintf(net, sizeof net, "%s%s%s", INPUT, norm, LAYER("Scale", "s", "b", "b", ""));
    becomes(state, net,
            "n = batchnorm @x epsilon=0.00001 affine=no\ns_weight = parameter 2x1x1 init=one\ns = mul @n "
            "@s_weight\noutput s\n");
}

TEST_WITH(training_is_left_out, make_place, remove_place) {
    becomes(
        state,
        "layer { name: 'd' type: 'Input' top: 'data' top: 'label' include { phase: TEST } input_param { "
        "shape { dim: 1 "
        "dim: 3 } } }\n"
        "layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN } }\n" LAYER(
            "InnerProduct", "f", "data", "f",
            "inner_product_param { num_output: 2 }") "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' "
                                                     "bottom: 'label' }\n"
                                                     "layer { name: 'e' type: 'Accuracy' bottom: 'f' bottom: "
                                                     "'label' top: 'e' exclude { phase: TRAIN } }\n",
        "f = linear @x 2\noutput f\n");
}

TEST_WITH(mistakes_are_reported, make_place, remove_place) {
    is_refused(state, INPUT LAYER("Interp", "i", "data", "i", "") LAYER("Foo", "j", "i", "j", ""),
               "unsupported types: Interp ('i'), Foo ('j')");
    is_refused(state, INPUT LAYER("ReLU", "r", "date", "r", ""),
               "layer 'r' (ReLU, line 2): no layer before it makes its bottom 'date'");
    is_refused(
        state,
        INPUT LAYER("Convolution", "c", "data", "c", "convolution_param { num_output: 4 kernel_size: 9 }"),
        "layer 'c' (Convolution, line 2): the filter is larger");
    is_refused(state, INPUT LAYER("Pooling", "p", "data", "p", "pooling_param { kernel_size: 0 }"),
               "kernel_size is 0");
    is_refused(state, "layer { name: 'd' type: 'Data' top: 'd' }" LAYER("ReLU", "r", "d", "r", ""),
               "deploy.prototxt");
    is_refused(state, "input: 'data'", "input 'data' has no shape");
    is_refused(state, "layers { layer { name: 'c' type: 'conv' } }", "Caffe's first layer format");
    is_refused(state, INPUT, "the net has no outputs");
}

/* A blob with its shape and the elements first, first + 1, ... */
static void add_blob(made *to, int rank, const int *shape, float first) {
    made blob = {.count = 0}, sizes = {.count = 0};
    float numbers[16];
    int count = 1;
    for (int i = 0; i < rank; i++)
        add_number(&sizes, 1, (uint64_t)shape[i]), count *= shape[i];
    for (int i = 0; i < count; i++)
        numbers[i] = first + (float)i;
    add_message(to, 7, add_message(add_packet(&blob, 5, numbers, (size_t)count * 4), 7, &sizes));
}

static void has_numbers(kn_states *states, const char *name, int count, const float *expected) {
    float found[16];
    assert_int_equal(kn_states_get(states, name, found, (size_t)count * 4), KN_OK);
    for (int i = 0; i < count; i++)
        assert_float_equal(found[i], expected[i], 1e-6f);
}

TEST_WITH(weights_find_their_layers, make_place, remove_place) {
    const place *at = *state;
    made net = {.count = 0}, layer = {.count = 0};
    const char *text = "input: 'data' input_dim: 1 input_dim: 2 input_dim: 1 input_dim: 1\n" LAYER(
        "BatchNorm", "n", "data", "n", "")
        LAYER("InnerProduct", "f/c", "n", "f", "inner_product_param { num_output: 3 transpose: true }");
    add_text(&layer, 1, "n");
    add_blob(&layer, 1, (int[]){2}, 10);
    add_blob(&layer, 1, (int[]){2}, 20);
    add_blob(&layer, 1, (int[]){1}, 4);
    add_message(&net, 100, &layer);
    layer.count = 0;
    add_text(&layer, 1, "f/c");
    add_blob(&layer, 4, (int[]){1, 1, 2, 3}, 0);
    add_blob(&layer, 1, (int[]){3}, 5);
    add_message(&net, 100, &layer);
    test_file_write(at->weights, net.bytes, net.count);
    kn_model *model = open_net(state, text);
    kn_states *states = fake_states_make();
    int loaded = 0;
    if (kn_model_load(model, at->weights, states, NULL, &loaded) != KN_OK)
        fail_msg("%s", kn_model_error(model));
    assert_int_equal(loaded, 4);
    has_numbers(states, "n.running_mean", 2, (float[]){2.5f, 2.75f});
    has_numbers(states, "n.running_var", 2, (float[]){5, 5.25f});
    has_numbers(states, "f_c.weight", 6, (float[]){0, 3, 1, 4, 2, 5});
    has_numbers(states, "f_c.bias", 3, (float[]){5, 6, 7});
    /* A network as text is not a file with weights. */
    assert_int_not_equal(kn_model_load(model, at->path, states, NULL, NULL), KN_OK);
    assert_non_null(strstr(kn_model_error(model), "expected a .caffemodel"));
    kn_model_destroy(&model);
    /* Another number of classes: an error, or the layer is skipped. */
    char other[1000];
    snprintf(other, sizeof other, "%s", text);
    strstr(other, "num_output: 3")[12] = '4';
    model = open_net(state, other);
    assert_int_equal(kn_model_load(model, at->weights, states, NULL, NULL), KN_ERROR_SHAPE);
    assert_non_null(strstr(kn_model_error(model), "layer 'f/c': blob 0 is (1, 1, 2, 3); expected (2, 4)"));
    kn_model_load_params params = KN_MODEL_LOAD_DEFAULTS;
    params.incomplete = true;
    kn_states *fewer = fake_states_make();
    assert_int_equal(kn_model_load(model, at->weights, fewer, &params, &loaded), KN_OK);
    assert_int_equal(loaded, 2);
    kn_model_destroy(&model);
    fake_states_release(states);
    fake_states_release(fewer);
}

/* The cross-entropy of a network that ends with a softmax is computed from the input of the softmax. */
TEST_WITH(losses_look_behind_a_softmax, make_place, remove_place) {
    kn_model *model =
        open_net(state, "input: 'd' input_dim: 1 input_dim: 5 input_dim: 1 input_dim: 1\n" LAYER(
                            "InnerProduct", "f", "d", "f", "inner_product_param { num_output: 3 }")
                            LAYER("Softmax", "prob", "f", "prob", ""));
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK);
    assert_string_equal(kn_model_output_name_at(model, 0), "prob");
    kn_model_weight weight = KN_MODEL_WEIGHT_DEFAULTS;
    assert_true(kn_model_weight_at(model, 0, &weight));
    assert_true(weight.trained);
    assert_ptr_equal(loss.value->producer->inputs[0], kn_model_output_at(model, 0)->producer->inputs[0]);
    kn_model_destroy(&model);
}

TEST_FILE(test_caffe, NULL, NULL)
