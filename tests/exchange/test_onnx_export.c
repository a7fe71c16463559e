/* Graphs of texts as ONNX files: written, and read back as the same network. */
#include "exchange_tests.h"

#include <string.h>

#include "../models/fake_states.h"
#include "formats/formats.h"
#include "graph/graph.h"

/* States for all parameters and statistics: element i of each is i. */
static kn_states *states_of(const kn_model *model) {
    const kn_graph *graph = kn_model_graph(model);
    kn_states *states = fake_states_make();
    for (size_t i = 0; i < graph->value_count; i++) {
        const kn_value *value = graph->values[i];
        float numbers[512];
        kn_tensor_info info = {.dtype = KN_FLOAT32, .rank = value->shape.rank};
        if (value->kind != KN_VALUE_STATE || value->role > KN_STATE_STATISTIC) continue;
        memcpy(info.shape, value->shape.dims, sizeof info.shape);
        int64_t count = kn_shape_elements(&value->shape);
        assert_in_range(count, 1, 512);
        for (int64_t k = 0; k < count; k++)
            numbers[k] = (float)k;
        assert_int_equal(kn_states_set(states, value->name, &info, numbers, (size_t)count * sizeof *numbers),
                         KN_OK);
    }
    return states;
}

static kn_model *saved_and_opened(kn_model *model, const char *path, kn_states *states,
                                  const kn_model_save_params *params) {
    if (kn_model_save_onnx(model, path, states, params) != KN_OK) fail_msg("%s", kn_model_error(model));
    kn_model *read = kn_model_open(path, NULL);
    if (kn_model_status(read) != KN_OK) fail_msg("%s", kn_model_error(read));
    return read;
}

static const char text[] = "koine 1\n"
                           "input x 3x6x6\n"
                           "c = conv 4 3 padding=1 stride=2\n"
                           "n = batchnorm momentum=0.25\n"
                           "r = relu6\n"
                           "s = conv @c 4 1\n"
                           "silu\n"
                           "j = concat @r @ axis=1\n"
                           "maxpool 3\n"
                           "dropout 0.25\n"
                           "flatten\n"
                           "layernorm\n"
                           "gelu\n"
                           "logits = linear 5\n"
                           "out = softmax\n";

TEST(there_and_back) {
    char path[4096];
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "net.onnx");
    kn_model *model = parse(text);
    kn_states *states = states_of(model);
    assert_int_not_equal(kn_model_save_onnx(model, path, NULL, NULL), KN_OK);
    kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    params.pairs = (const kn_model_pair[]){{"why", "a test"}};
    params.pair_count = 1;
    kn_model_save_params invalid = params;
    invalid.pairs = (const kn_model_pair[]){{NULL, "a test"}};
    assert_int_equal(kn_model_save_onnx(model, path, states, &invalid), KN_ERROR_ARGUMENT);
    kn_model *read = saved_and_opened(model, path, states, &params);
    assert_string_equal(kn_model_metadata(read, "why"), "a test");
    assert_string_equal(kn_model_input_name_at(read, 0), "x");
    has_shape(read, "x", "batch,3,6,6");
    assert_int_equal(kn_model_output_count(read), 1);
    has_shape(read, kn_value_name(kn_model_output_at(read, 0)), "batch,5");
    /* The same weights with the same names, and the same training. */
    kn_states *taken = fake_states_make();
    assert_int_equal(kn_model_load(read, NULL, taken, NULL, NULL), KN_OK);
    assert_int_equal(kn_states_count(taken), kn_states_count(states));
    assert_int_equal(kn_graph_parameter_count(kn_model_graph(read)),
                     kn_graph_parameter_count(kn_model_graph(model)));
    for (size_t i = 0; i < kn_states_count(states); i++) {
        kn_tensor_info info;
        float before[512], after[512];
        uint64_t bytes = 0;
        const char *name = kn_states_at(states, i, &info);
        assert_true(kn_tensor_bytes(&info, &bytes));
        assert_int_equal(kn_states_get(states, name, before, (size_t)bytes), KN_OK);
        assert_int_equal(kn_states_get(taken, name, after, (size_t)bytes), KN_OK);
        assert_memory_equal(before, after, (size_t)bytes);
    }
    const kn_value *mean = kn_graph_find(kn_model_graph(read), "n.running_mean");
    assert_non_null(mean);
    assert_int_equal(mean->role, KN_STATE_STATISTIC);
    assert_non_null(mean->assign);
    kn_model_destroy(&read);

    fake_states_fail_after(states, 3);
    assert_int_equal(kn_model_save_onnx(model, path, states, NULL), KN_ERROR_DEVICE);
    fake_states_release(states);
    fake_states_release(taken);
    kn_model_destroy(&model);
    test_folder_remove(folder);
}

/* Values that are not trained are not weights in the file: constants, and statistics measured before
 * training. */
TEST(learns_no_more) {
    char path[4096];
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "net.onnx");
    kn_model *model = parse("koine 1\ninput x 2x64\nstandardize\nspectrogram 16 8 4\nflatten\nlinear 3\n");
    kn_states *states = states_of(model);
    kn_model *read = saved_and_opened(model, path, states, NULL);
    assert_int_equal(kn_graph_parameter_count(kn_model_graph(model)), 2);
    assert_int_equal(kn_graph_parameter_count(kn_model_graph(read)), 2);
    kn_model_destroy(&read);
    fake_states_release(states);
    kn_model_destroy(&model);
    test_folder_remove(folder);
}

/* Sizes that stay symbolic where the value does not determine them. */
TEST(open_sizes) {
    static const struct {
        const char *text, *shape; /* of "last" */
    } models[] = {
        {"koine 1\ninput x lengthx6\nclass = parameter 1x1x6\nfirst = broadcast @class shape=batch,1,6\n"
         "concat @first @x axis=1\nlast = relu\n",
         "batch,length+1,6"},
        {"koine 1\ninput x 4,height,width\nreshape 2,2,height,width\nlast = relu\n",
         "batch,2,2,height,width"},
    };
    char path[4096];
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "net.onnx");
    for (size_t i = 0; i < KN_COUNT_OF(models); i++) {
        kn_model *model = parse(models[i].text);
        kn_states *states = states_of(model);
        kn_model *read = saved_and_opened(model, path, states, NULL);
        has_shape(read, "last", models[i].shape);
        kn_model_destroy(&read);
        fake_states_release(states);
        kn_model_destroy(&model);
    }
    test_folder_remove(folder);
}

/* All nodes without an ONNX operator are named in one message. */
TEST(without_counterpart) {
    char path[4096];
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "net.onnx");
    kn_model *model = parse("koine 1\ninput x 5x4\nfirst = atan2 @x @x\nsecond = atan2 @ @x\n");
    kn_states *states = states_of(model);
    assert_int_equal(kn_model_save_onnx(model, path, states, NULL), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(kn_model_error(model), "no ONNX counterpart: atan2 'atan21'"));
    assert_non_null(strstr(kn_model_error(model), ", atan2 'atan22"));
    fake_states_release(states);
    kn_model_destroy(&model);
    test_folder_remove(folder);
}

TEST_FILE(test_onnx_export, NULL, NULL)
