/* Training of ONNX files: which weights are trained, batch norms and dropouts, and the file that is saved. */
#include "onnx_model.h"

#include <stdio.h>
#include <string.h>

#include "../models/fake_states.h"
#include "formats/formats.h"
#include "graph/graph.h"

/* why: the reason not to train it, or "" */
static void is_weight(const kn_model *model, int position, const char *name, const char *shape,
                      const char *why) {
    kn_model_weight weight = KN_MODEL_WEIGHT_DEFAULTS;
    assert_true(kn_model_weight_at(model, position, &weight));
    assert_string_equal(weight.name, name);
    assert_string_equal(weight.shape, shape);
    assert_string_equal(weight.reason, why);
    assert_int_equal(weight.trained, !why[0]);
}

static int count_nodes(const kn_model *model, const char *row) {
    const kn_graph *graph = kn_model_graph(model);
    int count = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        count += !strcmp(graph->nodes[i]->op->name, row);
    return count;
}

/* x (batch,3,4), a batch norm of it, an addition of a weight, and a dropout. */
static void network(onnx_graph *graph, bool training) {
    onnx_input(graph, "images", ONNX_FLOAT, "batch,3,4");
    onnx_floats(graph, "scale", "3", 1);
    onnx_floats(graph, "shift", "3", 0);
    onnx_floats(graph, "mean", "3", 0.5f);
    onnx_floats(graph, "variance", "3", 2);
    onnx_floats(graph, "bias", "4", 1);
    onnx_floats(graph, "factor", "", 2);
    onnx_floats(graph, "unused", "2", 2);
    onnx_integers(graph, "shape", "0,-1");
    onnx_floats(graph, "ratio", "", 0.25f);
    onnx_integers(graph, "yes", "1");
    if (training) {
        onnx_node(graph, "BatchNormalization", "images,scale,shift,mean,variance",
                  "n,next_mean,next_variance", "momentum=0.75f training_mode=1");
        onnx_node(graph, "Dropout", "n,ratio,yes", "d", NULL);
    } else {
        onnx_node(graph, "BatchNormalization", "images,scale,shift,mean,variance", "n", "momentum=0.75f");
        onnx_node(graph, "Dropout", "n,ratio", "d", NULL);
    }
    onnx_node(graph, "Add", "d,bias", "a", NULL);
    onnx_node(graph, "Mul", "a,factor", "m", NULL);
    onnx_node(graph, "Reshape", "m,shape", "out", NULL);
    onnx_output(graph, "out");
}

TEST(weights_and_reasons) {
    onnx_graph graph = {.bytes.count = 0};
    network(&graph, false);
    kn_model *model = onnx_right(&graph, NULL);
    has_parameters(model, "scale shift bias");
    assert_int_equal(kn_model_weight_count(model), 10);
    is_weight(model, 0, "mean", "3", "updated by batches");
    is_weight(model, 1, "variance", "3", "updated by batches");
    is_weight(model, 2, "scale", "3", "");
    is_weight(model, 3, "shift", "3", "");
    is_weight(model, 4, "bias", "4", "");
    is_weight(model, 5, "factor", "", "a scalar");
    is_weight(model, 6, "unused", "2", "only used for sizes or attributes, or unused");
    is_weight(model, 7, "shape", "2", "not floating-point");
    is_weight(model, 8, "ratio", "", "a scalar");
    is_weight(model, 9, "yes", "1", "not floating-point");
    assert_int_equal(count_nodes(model, "batch_norm"), 1);
    assert_int_equal(count_nodes(model, "dropout"), 1);
    const kn_value *mean = kn_graph_find(kn_model_graph(model), "mean");
    assert_non_null(mean->assign);
    const kn_node *norm = kn_graph_find(kn_model_graph(model), "scale") ? mean->assign : NULL;
    assert_non_null(norm);
    kn_model_destroy(&model);
    kn_model_params params = KN_MODEL_DEFAULTS;
    params.frozen_statistics = true;
    model = onnx_right(&graph, &params);
    has_parameters(model, "scale shift bias");
    assert_int_equal(count_nodes(model, "batch_norm"), 0);
    assert_null(kn_graph_find(kn_model_graph(model), "mean")->assign);
    is_weight(model, 0, "mean", "3", "updated by batches");
    kn_model_destroy(&model);
}

/* An initializer is trained if `why` begins with +; the rest must occur in the reason. */
static void is_trainable(const kn_model *model, const char *name, const char *why) {
    kn_model_weight weight = KN_MODEL_WEIGHT_DEFAULTS;
    for (int i = 0; kn_model_weight_at(model, i, &weight); i++) {
        if (strcmp(weight.name, name)) continue;
        if (weight.trained != (why[0] == '+')) fail_msg("%s: trained is %d", name, weight.trained);
        assert_string_equal(weight.trained ? weight.rule : weight.reason, why + weight.trained);
        assert_string_equal(weight.trained ? weight.reason : weight.rule, "");
        return;
    }
    fail_msg("there is no weight '%s'", name);
}

/* PyTorch's exporter marks trained initializers; the mark decides, whatever reads them. */
TEST(what_the_file_says) {
    static const char kind[] = "pkg.torch.export.graph_signature.InputSpec.kind",
                      folded[] = "pkg.onnxscript.optimizer.folded_from";
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    char last[8] = "x", next[8];
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3");
    for (size_t i = 0; i < KN_COUNT_OF(names); i++) {
        snprintf(next, sizeof next, "y%zu", i);
        char inputs[24];
        snprintf(inputs, sizeof inputs, "%s,%s", last, names[i]);
        onnx_floats(&graph, names[i], i ? "3" : "", 2);
        onnx_node(&graph, i < 4 ? "Mul" : "Add", inputs, next, NULL);
        memcpy(last, next, sizeof last);
    }
    onnx_output(&graph, last);
    onnx_graph_says(
        &graph, "pkg.torch.export.ExportedProgram.graph_signature",
        "\n# inputs\np_w: PARAMETER target='lin.w'\nb_t: BUFFER target='t' persistent=True\nx: USER_INPUT\n"
        "b_e: BUFFER target='e' persistent=False\n\n# outputs\nadd: USER_OUTPUT\n");
    onnx_says(&graph, "a", kind, "PARAMETER");
    onnx_says(&graph, "b", kind, "BUFFER");
    onnx_says(&graph, "c", kind, "CONSTANT_TENSOR");
    onnx_says(&graph, "d", folded, "['val_3', 'lin.w']");
    onnx_says(&graph, "f", folded, "['t', 'val_3']");
    kn_model *model = onnx_right(&graph, NULL);
    is_trainable(model, "a", "+marked PARAMETER in the file");
    is_trainable(model, "b", "marked BUFFER in the file");
    is_trainable(model, "c", "marked CONSTANT_TENSOR in the file");
    is_trainable(model, "d", "+folded from parameters");
    is_trainable(model, "e", "marked BUFFER in the file");
    is_trainable(model, "f", "not folded from parameters");
    is_trainable(model, "g", "+read by Add");
    has_parameters(model, "a d g");
    kn_model_destroy(&model);
}

static void changed(kn_states *states, const char *name, int64_t count, float first) {
    float numbers[8];
    for (int64_t i = 0; i < count; i++)
        numbers[i] = first + (float)i;
    const kn_tensor_info info = {KN_FLOAT32, 1, {count}};
    assert_int_equal(kn_states_set(states, name, &info, numbers, (size_t)count * sizeof *numbers), KN_OK);
}

/* Exporters merge initializers with equal values; each is still trained separately, and saved so. */
TEST(one_for_several) {
    static const char kind[] = "pkg.torch.export.graph_signature.InputSpec.kind";
    for (int named = 0; named < 2; named++) {
        onnx_graph graph = {.bytes.count = 0};
        onnx_input(&graph, "x", ONNX_FLOAT, "batch,3,4");
        onnx_floats(&graph, "a.weight", "3", 1);
        onnx_floats(&graph, "a.bias", "3", 0);
        if (named) {
            onnx_graph_says(&graph, "pkg.torch.export.ExportedProgram.graph_signature",
                            "p_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER target='a.bias'\n"
                            "b_a_mean: BUFFER target='a.mean'\nb_a_var: BUFFER target='a.var'\n"
                            "p_b_weight: PARAMETER target='b.weight'\np_b_bias: PARAMETER target='b.bias'\n");
            onnx_says(&graph, "a.weight", kind, "PARAMETER");
            onnx_says(&graph, "a.bias", kind, "PARAMETER");
            onnx_node_says(&graph, "BatchNormalization", "x,a.weight,a.bias,a.bias,a.weight", "n",
                           "pkg.torch.onnx.fx_node",
                           "(%x, %p_a_weight, %p_a_bias, %b_a_mean, %b_a_var, 0.1)");
            onnx_node_says(&graph, "InstanceNormalization", "n,a.weight,a.bias", "y",
                           "pkg.torch.onnx.fx_node", "(%n, %p_b_weight, %p_b_bias)");
        } else {
            onnx_node(&graph, "Identity", "a.weight", "b.weight", NULL);
            onnx_node(&graph, "Identity", "a.bias", "b.bias", NULL);
            onnx_node(&graph, "BatchNormalization", "x,a.weight,a.bias,a.bias,a.weight", "n", NULL);
            onnx_node(&graph, "InstanceNormalization", "n,b.weight,b.bias", "y", NULL);
        }
        onnx_output(&graph, "y");
        kn_model *model = onnx_right(&graph, NULL);
        has_parameters(model, "a.weight a.bias b.weight b.bias");
        is_weight(model, 0, named ? "a.mean" : "n.running_mean", "3", "updated by batches");
        is_weight(model, 1, named ? "a.var" : "n.running_var", "3", "updated by batches");
        kn_states *states = fake_states_make();
        float numbers[3];
        assert_int_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_OK);
        assert_int_equal(kn_states_get(states, "b.weight", numbers, sizeof numbers), KN_OK);
        assert_true(numbers[0] == 1 && numbers[2] == 3);
        changed(states, "b.weight", 3, 10);
        char path[4096];
        char *folder = test_folder_make();
        test_path(path, sizeof path, folder, "trained.onnx");
        assert_int_equal(kn_model_save_onnx(model, path, states, NULL), KN_OK);
        kn_model_destroy(&model);
        model = kn_model_open(path, NULL);
        assert_int_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_OK);
        assert_int_equal(kn_states_get(states, "b.weight", numbers, sizeof numbers), KN_OK);
        assert_true(numbers[0] == 10);
        assert_int_equal(kn_states_get(states, "a.weight", numbers, sizeof numbers), KN_OK);
        assert_true(numbers[0] == 1);
        kn_model_destroy(&model);
        fake_states_release(states);
        test_folder_remove(folder);
    }
}

/* Names generated for separated copies avoid names in the file; copies are separated once. */
TEST(names_that_are_taken) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3");
    onnx_floats(&graph, "a.weight", "3", 1);
    onnx_floats(&graph, "a.bias", "3", 0);
    onnx_floats(&graph, "n.running_mean", "2", 7);
    onnx_graph_says(&graph, "pkg.torch.export.ExportedProgram.graph_signature",
                    "p_z: PARAMETER target='z.weight'\n");
    char copy[16], from[16] = "n", to[16], inputs[40];
    onnx_node(&graph, "BatchNormalization", "x,a.weight,a.bias,a.bias,a.weight", "n", NULL);
    for (int i = 0; i < 12; i++) {
        snprintf(copy, sizeof copy, "c%d.weight", i);
        snprintf(to, sizeof to, "y%d", i);
        snprintf(inputs, sizeof inputs, "%s,%s", from, copy);
        onnx_node(&graph, "Identity", "a.weight", copy, NULL);
        onnx_node_says(&graph, "Mul", inputs, to, "pkg.torch.onnx.fx_node", "(%x, %p_z)");
        memcpy(from, to, sizeof from);
    }
    onnx_output(&graph, from);
    kn_model *model = onnx_right(&graph, NULL);
    is_weight(model, 0, "n.running_mean_2", "3", "updated by batches");
    is_weight(model, 1, "n.running_var", "3", "updated by batches");
    assert_non_null(kn_graph_find(kn_model_graph(model), "c11.weight"));
    kn_model_destroy(&model);
}

/* Without marks: names, element types, and the nodes that read an initializer, directly or through others,
 * decide. */
TEST(what_nodes_make_of_it) {
    static const struct {
        const char *name, *shape, *type, *why;
        bool first;
    } rows[] = {{"fc.w", "4,4", "MatMul", "+read by MatMul", false},
                {"onnx::MatMul_7", "4,4", "MatMul", "+read by MatMul", false},
                {"onnx::MatMul_8", "4,4", "MatMul", "read by MatMul as a constant", true},
                {"mel.fb", "4,4", "MatMul", "named like a table or mask", false},
                {"fc.bias", "4", "Add", "+read by Add", false},
                {"pos", "1,4,4", "Add", "+read by Add", false},
                {"onnx::Add_9", "4,4", "Add", "read by Add as a constant", false},
                {"norm.gamma", "4", "Mul", "+read by Mul", false},
                {"rotary.table", "4,4", "Mul", "read by Mul as a constant", false},
                {"rotary.cos_cached", "4,4", "Mul", "named like a table or mask", false},
                {"mix.weight", "4,4", "Mul", "+read by Mul", false},
                {"hann_window", "4", "Mul", "named like a table or mask", false},
                {"mask_token", "4", "Add", "+read by Add", false},
                {"pixels", "4", "Sub", "read by Sub as a constant", false},
                {"limits", "4", "Max", "read by Max as a constant", false}};
    onnx_graph graph = {.bytes.count = 0};
    char last[8] = "x", next[8], inputs[64];
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,4,4");
    for (size_t i = 0; i < KN_COUNT_OF(rows); i++) {
        snprintf(next, sizeof next, "y%zu", i);
        onnx_floats(&graph, rows[i].name, rows[i].shape, 2);
        snprintf(inputs, sizeof inputs, "%s,%s", rows[i].first ? rows[i].name : last,
                 rows[i].first ? last : rows[i].name);
        onnx_node(&graph, rows[i].type, inputs, next, NULL);
        memcpy(last, next, sizeof last);
    }
    onnx_floats(&graph, "far", "4,4", 5);
    onnx_node(&graph, "Transpose", "far", "turned", "perm=1:0");
    onnx_node(&graph, "Gemm", "turned,turned", "square", NULL);
    snprintf(inputs, sizeof inputs, "%s,square", last);
    onnx_node(&graph, "Add", inputs, "out", NULL);
    onnx_output(&graph, "out");
    kn_model *model = onnx_right(&graph, NULL);
    for (size_t i = 0; i < KN_COUNT_OF(rows); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", rows[i].name);
        for (char *c = name; rows[i].why[0] == '+' && *c; c++)
            if (*c == ':') *c = '_';
        is_trainable(model, name, rows[i].why);
    }
    is_trainable(model, "far", "+read by Gemm");
    kn_model_destroy(&model);
}

/* The search stops at comparisons. */
TEST(no_gradient) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_input(&graph, "a", ONNX_FLOAT, "batch,3");
    onnx_input(&graph, "b", ONNX_INT64, "batch,3");
    onnx_floats(&graph, "limit", "3", 1);
    onnx_floats(&graph, "weight", "3", 1);
    onnx_node(&graph, "Mul", "a,limit", "scaled", NULL);
    onnx_node(&graph, "Less", "a,scaled", "less", NULL);
    onnx_node(&graph, "Where", "less,a,weight", "out", NULL);
    onnx_node(&graph, "Add", "b,b", "twice", NULL);
    onnx_output(&graph, "out");
    onnx_output(&graph, "twice");
    kn_model_params params = KN_MODEL_DEFAULTS;
    params.narrow_integers = true;
    kn_model *model = onnx_right(&graph, &params);
    is_weight(model, 0, "limit", "3", "gets no gradient from the first output");
    is_weight(model, 1, "weight", "3", "");
    assert_int_equal(kn_value_dtype(kn_model_input_at(model, 1)), KN_INT32);
    assert_int_equal(kn_value_dtype(kn_model_output_at(model, 1)), KN_INT64);
    assert_string_equal(kn_value_name(kn_model_input_at(model, 1)), "b");
    kn_model_destroy(&model);
}

static const kn_onnx_tensor *find_tensor(const kn_onnx_model *file, const char *name) {
    for (size_t i = 0; i < file->graph.initializer_count; i++)
        if (!strcmp(file->graph.initializers[i].name, name)) return &file->graph.initializers[i];
    fail_msg("there is no initializer '%s'", name);
    return NULL;
}

TEST(saved_again) {
    onnx_graph graph = {.bytes.count = 0};
    char path[4096];
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "trained.onnx");
    network(&graph, true);
    kn_model *model = onnx_right(&graph, NULL);
    assert_int_equal(count_nodes(model, "batch_norm"), 1);
    assert_int_equal(count_nodes(model, "dropout"), 1);
    kn_states *states = fake_states_make();
    int loaded = 0;
    assert_int_equal(kn_model_load(model, NULL, states, NULL, &loaded), KN_OK);
    assert_int_equal(loaded, 5);
    changed(states, "bias", 4, 10);
    changed(states, "mean", 3, 20);
    kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    params.pairs = (const kn_model_pair[]){{"why", "a test"}};
    params.pair_count = 1;
    assert_int_equal(kn_model_save_onnx(model, path, states, &params), KN_OK);
    fake_states_fail_after(states, 1);
    assert_int_equal(kn_model_save_onnx(model, path, states, &params), KN_ERROR_DEVICE);
    assert_non_null(strstr(kn_model_error(model), "the device is gone"));

    const kn_host host = kn_host_defaults();
    kn_onnx_model file;
    kn_error error = {0};
    assert_int_equal(kn_onnx_open(&host, path, &file, &error), KN_OK);
    assert_int_equal(file.graph.initializer_count, 10);
    assert_true(kn_onnx_tensor_number(find_tensor(&file, "bias"), 3) == 13);
    assert_true(kn_onnx_tensor_number(find_tensor(&file, "mean"), 0) == 20);
    assert_true(kn_onnx_tensor_number(find_tensor(&file, "variance"), 1) == 3);
    assert_true(kn_onnx_tensor_number(find_tensor(&file, "ratio"), 0) == 0.25);
    /* Both nodes are in inference mode now. */
    const kn_onnx_node *norm = &file.graph.nodes[0], *dropout = &file.graph.nodes[1];
    assert_int_equal(norm->output_count, 1);
    assert_int_equal(kn_onnx_find_attribute(norm, "training_mode")->ints[0], 0);
    assert_true(kn_onnx_find_attribute(norm, "momentum")->floats[0] == 0.75f);
    assert_int_equal(dropout->input_count, 2);
    kn_onnx_close(&host, &file);
    kn_model_destroy(&model);

    model = kn_model_open(path, NULL);
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_string_equal(kn_model_metadata(model, "why"), "a test");
    assert_string_equal(kn_model_input_name_at(model, 0), "images");
    assert_int_equal(count_nodes(model, "dropout"), 1);
    fake_states_release(states);
    kn_model_destroy(&model);
    test_folder_remove(folder);
}

/* Norms that share their statistics are written as they were read. copies: the second reads copies of them.
 */
static void check_shared(bool copies) {
    onnx_graph graph = {.bytes.count = 0};
    char path[4096];
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "shared.onnx");
    onnx_input(&graph, "x", ONNX_FLOAT, "batch,3,4");
    onnx_floats(&graph, "scale", "3", 1);
    onnx_floats(&graph, "shift", "3", 0);
    onnx_floats(&graph, "mean", "3", 0.5f);
    onnx_floats(&graph, "variance", "3", 2);
    onnx_node(&graph, "BatchNormalization", "x,scale,shift,mean,variance", "n", NULL);
    if (copies) {
        onnx_node(&graph, "Identity", "mean", "mean_1", NULL);
        onnx_node(&graph, "Identity", "variance", "variance_1", NULL);
    }
    onnx_node(&graph, "BatchNormalization",
              copies ? "n,scale,shift,mean_1,variance_1" : "n,scale,shift,mean,variance", "out", NULL);
    onnx_output(&graph, "out");
    kn_model *model = onnx_right(&graph, NULL);
    const kn_value *mean = kn_graph_find(kn_model_graph(model), "mean");
    assert_string_equal(mean->assign->inputs[1]->producer->outputs[0]->name, "out");
    kn_states *states = fake_states_make();
    assert_int_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_OK);
    assert_int_equal(kn_model_save_onnx(model, path, states, NULL), KN_OK);
    fake_states_release(states);
    kn_model_destroy(&model);
    const kn_host host = kn_host_defaults();
    kn_onnx_model file;
    kn_error error = {0};
    assert_int_equal(kn_onnx_open(&host, path, &file, &error), KN_OK);
    assert_int_equal(file.graph.initializer_count, 4);
    int norms = 0;
    for (size_t i = 0; i < file.graph.node_count; i++) {
        const kn_onnx_node *node = &file.graph.nodes[i];
        if (strcmp(node->type, "BatchNormalization")) continue;
        assert_string_equal(node->inputs[3], "mean");
        assert_string_equal(node->inputs[4], "variance");
        norms++;
    }
    assert_int_equal(norms, 2);
    kn_onnx_close(&host, &file);
    test_folder_remove(folder);
}

TEST(shared_statistics) {
    check_shared(false);
    check_shared(true);
}

/* Weights saved as safetensors can be loaded into the same model. */
TEST(weights_alone) {
    onnx_graph graph = {.bytes.count = 0};
    char path[4096];
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "weights.safetensors");
    network(&graph, false);
    kn_model *model = onnx_right(&graph, NULL), *other;
    kn_states *states = fake_states_make(), *read = fake_states_make();
    float numbers[4];
    assert_int_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_OK);
    changed(states, "bias", 4, 10);
    assert_int_equal(kn_model_save(model, path, states, NULL), KN_OK);
    assert_int_equal(kn_model_load(model, path, read, NULL, NULL), KN_OK);
    assert_int_equal(kn_states_get(read, "bias", numbers, sizeof numbers), KN_OK);
    assert_true(numbers[3] == 13);
    other = kn_model_open(path, NULL);
    assert_non_null(strstr(kn_model_error(other), "has weights but no model"));
    kn_model_destroy(&other);
    fake_states_release(states);
    fake_states_release(read);
    kn_model_destroy(&model);
    test_folder_remove(folder);
}

TEST_FILE(test_onnx_train, NULL, NULL)
