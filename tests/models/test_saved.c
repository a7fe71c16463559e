/* Files with weights: written, opened, loaded, and refused. */
#include "models_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/operators.h>

#include "fake_states.h"
#include "formats/formats.h"
#include "models/models_private.h"

static const char text[] =
    "koine 1\n\n# weights\nmodel pair\ninput x 3\nlinear 2\nbatchnorm\nlogits = linear 4\n";

static void set(kn_states *states, const char *name, kn_dtype dtype, int64_t rows, int64_t columns,
                float first) {
    kn_tensor_info info = {.dtype = dtype, .rank = columns ? 2 : rows ? 1 : 0, .shape = {rows, columns}};
    float numbers[64];
    uint64_t count;
    assert_true(kn_tensor_elements(&info, &count));
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = first + (float)i;
    assert_int_equal(kn_states_set(states, name, &info, numbers, count * kn_dtype_bytes(dtype)), KN_OK);
}

static kn_states *trained(void) {
    kn_states *states = fake_states_make();
    set(states, "linear1.weight", KN_FLOAT32, 2, 3, 1);
    set(states, "linear1.bias", KN_FLOAT32, 2, 0, 100);
    set(states, "linear1.weight.moment", KN_FLOAT32, 2, 3, 200);
    set(states, "batchnorm1.weight", KN_FLOAT32, 2, 0, 300);
    set(states, "batchnorm1.bias", KN_FLOAT32, 2, 0, 400);
    set(states, "batchnorm1.running_mean", KN_FLOAT32, 2, 0, 500);
    set(states, "batchnorm1.running_var", KN_FLOAT32, 2, 0, 600);
    set(states, "koine.step", KN_UINT32, 0, 0, 7);
    set(states, "logits.weight", KN_FLOAT32, 4, 2, 700);
    set(states, "logits.bias", KN_FLOAT32, 4, 0, 800);
    return states;
}

static float number(kn_states *states, const char *name, size_t count, size_t index) {
    float numbers[64];
    assert_int_equal(kn_states_get(states, name, numbers, count * sizeof *numbers), KN_OK);
    return numbers[index];
}

static bool is_there(const kn_states *states, const char *name) {
    kn_tensor_info info;
    for (size_t i = 0; i < kn_states_count(states); i++)
        if (!strcmp(kn_states_at(states, i, &info), name)) return true;
    return false;
}

typedef struct place {
    char *folder;
    char path[4096];
} place;

static int make_place(void **state) {
    place *made = calloc(1, sizeof *made);
    made->folder = test_folder_make();
    test_path(made->path, sizeof made->path, made->folder, "pair.safetensors");
    *state = made;
    return 0;
}

static int remove_place(void **state) {
    place *made = *state;
    test_folder_remove(made->folder);
    free(made);
    return 0;
}

static void save(const char *path, bool training) {
    kn_model *model = parse(text);
    kn_states *states = trained();
    kn_model_pair pairs[] = {{"note", "by \"hand\"\n"}, {"epoch", "3"}};
    kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    params.training = training;
    params.pairs = pairs;
    params.pair_count = 2;
    if (kn_model_save(model, path, states, &params) != KN_OK) fail_msg("%s", kn_model_error(model));
    fake_states_release(states);
    kn_model_destroy(&model);
}

TEST_WITH(there_and_back, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    save(path, true);
    kn_model *model = kn_model_open(path, NULL);
    assert_string_equal(kn_model_error(model), "");
    assert_string_equal(kn_model_text(model), text);
    assert_string_equal(kn_model_name(model), "pair");
    assert_true(kn_model_has_weights(model));
    assert_string_equal(kn_model_metadata(model, "note"), "by \"hand\"\n");
    assert_string_equal(kn_model_metadata(model, "epoch"), "3");
    assert_string_equal(kn_model_metadata(model, "koine.format"), "1");
    assert_null(kn_model_metadata(model, "weather"));

    kn_states *states = fake_states_make();
    int loaded = -1;
    assert_int_equal(kn_model_load(model, NULL, states, NULL, &loaded), KN_OK);
    assert_int_equal(loaded, 8);
    assert_int_equal(kn_states_count(states), 8);
    assert_true(number(states, "linear1.weight", 6, 5) == 6);
    assert_true(number(states, "batchnorm1.running_var", 2, 1) == 601);
    assert_true(number(states, "logits.weight", 8, 7) == 707);
    assert_false(is_there(states, "koine.step"));
    fake_states_release(states);

    states = fake_states_make();
    kn_model_load_params params = KN_MODEL_LOAD_DEFAULTS;
    params.training = true;
    assert_int_equal(kn_model_load(model, NULL, states, &params, &loaded), KN_OK);
    assert_int_equal(loaded, 10);
    assert_true(number(states, "linear1.weight.moment", 6, 0) == 200);
    assert_true(number(states, "koine.step", 1, 0) == 7); /* its bits are preserved, whatever its type */
    fake_states_release(states);
    kn_model_destroy(&model);
}

/* The file as a reader without this library sees it. */
TEST_WITH(as_safetensors, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_host host = kn_host_defaults();
    kn_safetensors file;
    save(path, false);
    assert_int_equal(kn_safetensors_open(&host, path, &file, NULL), KN_OK);
    assert_int_equal(file.count, 8);
    assert_null(kn_safetensors_find(&file, "koine.training.koine.step"));
    const kn_safetensor *weight = kn_safetensors_find(&file, "logits.weight");
    assert_non_null(weight);
    assert_int_equal(weight->array.type, KN_FLOAT32);
    assert_int_equal(weight->array.rank, 2);
    assert_true(kn_array_number(&weight->array, 7) == 707);
    assert_string_equal(kn_safetensors_metadata(&file, "koine.model"), text);
    kn_safetensors_close(&host, &file);
    save(path, true);
    assert_int_equal(kn_safetensors_open(&host, path, &file, NULL), KN_OK);
    assert_int_equal(file.count, 10);
    assert_non_null(kn_safetensors_find(&file, "koine.training.linear1.weight.moment"));
    kn_safetensors_close(&host, &file);
}

/* A model loads the tensors with matching names and shapes from another file. */
TEST_WITH(from_another_file, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    char expected[8192];
    int loaded;
    save(path, true);
    kn_model *model = parse("koine 1\ninput x 3\nlinear 2\nbatchnorm\nlogits = linear 5\nmore = linear 2\n");
    kn_states *states = fake_states_make();
    assert_int_equal(kn_model_load(model, NULL, states, NULL, &loaded), KN_ERROR_ARGUMENT);
    assert_string_equal(
        kn_model_error(model),
        "kn_model_load: model 'text' was not opened from a file with weights; expected a path");
    assert_int_equal(kn_model_load(model, path, states, NULL, &loaded), KN_ERROR_SHAPE);
    snprintf(expected, sizeof expected,
             "%s: tensor 'logits.weight' is float32 (4, 2); expected float32 (5, 2) for model 'text'", path);
    assert_string_equal(kn_model_error(model), expected);
    assert_int_equal(loaded, 0);
    assert_int_equal(kn_states_count(states), 0); /* nothing was set */
    kn_model_load_params params = KN_MODEL_LOAD_DEFAULTS;
    params.incomplete = true;
    assert_int_equal(kn_model_load(model, path, states, &params, &loaded), KN_OK);
    assert_int_equal(loaded, 6);
    assert_false(is_there(states, "logits.weight"));
    assert_true(number(states, "linear1.bias", 2, 1) == 101);
    kn_model_destroy(&model);

    model = parse("koine 1\ninput x 3\nlinear 2\nother = linear 2\n");
    assert_int_equal(kn_model_load(model, path, states, NULL, NULL), KN_ERROR_NOT_FOUND);
    snprintf(expected, sizeof expected, "%s: tensor 'other.weight' of model 'text' is missing", path);
    assert_string_equal(kn_model_error(model), expected);
    assert_int_equal(kn_model_status(model), KN_OK);
    kn_model_destroy(&model);
    fake_states_release(states);
}

/* Weights of another floating-point type are converted; integers are refused. */
TEST_WITH(other_types, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_host host = kn_host_defaults();
    static const double weight[] = {1.5, -2, 0.1}, bias[] = {4};
    static const int32_t whole[] = {4};
    kn_safetensor tensors[] = {
        {"linear1.weight",
         {.type = KN_FLOAT64, .rank = 2, .shape = {1, 3}, .bytes = weight, .count = 3, .byte_count = 24}},
        {"linear1.bias",
         {.type = KN_FLOAT64, .rank = 1, .shape = {1}, .bytes = bias, .count = 1, .byte_count = 8}}};
    assert_int_equal(kn_safetensors_write(&host, path, tensors, 2, NULL, 0, NULL), KN_OK);
    kn_model *model = parse("koine 1\ninput x 3\nlinear 1\n");
    kn_states *states = fake_states_make();
    if (kn_model_load(model, path, states, NULL, NULL) != KN_OK) fail_msg("%s", kn_model_error(model));
    assert_true(number(states, "linear1.weight", 3, 1) == -2);
    assert_true(number(states, "linear1.weight", 3, 2) == 0.1f);
    tensors[1].array =
        (kn_array){.type = KN_INT32, .rank = 1, .shape = {1}, .bytes = whole, .count = 1, .byte_count = 4};
    assert_int_equal(kn_safetensors_write(&host, path, tensors, 2, NULL, 0, NULL), KN_OK);
    assert_int_equal(kn_model_load(model, path, states, NULL, NULL), KN_ERROR_DTYPE);
    fake_states_release(states);
    kn_model_destroy(&model);
}

TEST_WITH(complete_or_not_at_all, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_host host = kn_host_defaults();
    uint8_t *before, *after;
    uint64_t before_count, after_count;
    save(path, true);
    assert_int_equal(kn_file_read(&host, path, 1 << 20, &before, &before_count, NULL), KN_OK);
    kn_model *model = parse(text);
    kn_states *states = trained();
    fake_states_fail_after(states, 4);
    assert_int_equal(kn_model_save(model, path, states, NULL), KN_ERROR_DEVICE);
    assert_non_null(strstr(kn_model_error(model), "the device is gone"));
    assert_int_equal(kn_file_read(&host, path, 1 << 20, &after, &after_count, NULL), KN_OK);
    assert_int_equal(before_count, after_count);
    assert_memory_equal(before, after, before_count);
    kn_release(&host, before);
    kn_release(&host, after);
    /* No other file remains in the folder: saving works again, and the model can be used. */
    assert_int_equal(kn_model_save(model, path, states, NULL), KN_OK);
    assert_string_equal(kn_model_error(model), "");
    fake_states_release(states);
    kn_model_destroy(&model);
}

TEST_WITH(wrong_calls, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_model *model = parse(text);
    kn_states *states = trained(), *empty = fake_states_make();
    assert_int_equal(kn_model_save(NULL, path, states, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_save(model, NULL, states, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_save(model, path, NULL, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_save(model, path, empty, NULL), KN_ERROR_ARGUMENT);
    assert_string_equal(
        kn_model_error(model),
        "the states have no parameter of model 'pair'; expected the states that it was trained or run with");
    kn_model_pair pair = {"koine.model", "mine"};
    kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    params.pairs = &pair;
    params.pair_count = 1;
    assert_int_equal(kn_model_save(model, path, states, &params), KN_ERROR_ARGUMENT);
    assert_false(kn_path_exists(path));
    assert_int_equal(kn_model_save(model, "/nowhere/at/all", states, NULL), KN_ERROR_FILE);
    assert_int_equal(kn_model_load(model, "/nowhere/at/all", states, NULL, NULL), KN_ERROR_FILE);
    assert_int_equal(kn_model_load(NULL, path, states, NULL, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_load(model, path, NULL, NULL, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_status(model), KN_OK);
    fake_states_release(states);
    fake_states_release(empty);
    kn_model_destroy(&model);
}

static void refused_file(const char *path, const kn_text_pair *pairs, size_t count, kn_status status,
                         const char *words) {
    kn_host host = kn_host_defaults();
    static const float bias[] = {1};
    kn_safetensor tensor = {
        "a.bias", {.type = KN_FLOAT32, .rank = 1, .shape = {1}, .bytes = bias, .count = 1, .byte_count = 4}};
    assert_int_equal(kn_safetensors_write(&host, path, &tensor, 1, pairs, count, NULL), KN_OK);
    kn_model *model = kn_model_open(path, NULL);
    assert_int_equal(kn_model_status(model), status);
    if (!strstr(kn_model_error(model), words)) fail_msg("expected '%s' in: %s", words, kn_model_error(model));
    assert_false(kn_model_has_weights(model));
    kn_model_destroy(&model);
}

TEST_WITH(foreign_files, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_text_pair newer[] = {{"koine.format", "2"}, {"koine.model", text}},
                 wrong[] = {{"koine.model", "koine 1\nrelo\n"}};
    kn_text_pair lonely[] = {{"koine.format", "1"}, {"koine.model", text}};
    refused_file(path, NULL, 0, KN_ERROR_FORMAT, "has weights but no model in its metadata (koine.model)");
    refused_file(path, newer, 2, KN_ERROR_UNSUPPORTED, "found version 2 of the file format, expected 1");
    refused_file(path, wrong, 1, KN_ERROR_FORMAT, ":2:1: found 'relo'");
    /* A model whose file has none of its weights opens, but loading fails. */
    refused_file(path, wrong, 1, KN_ERROR_FORMAT, "relo");
    kn_host host = kn_host_defaults();
    assert_int_equal(kn_safetensors_write(&host, path, NULL, 0, lonely, 2, NULL), KN_OK);
    kn_model *model = kn_model_open(path, NULL);
    kn_states *states = fake_states_make();
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_int_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_ERROR_NOT_FOUND);
    fake_states_release(states);
    kn_model_destroy(&model);
}

/* A truncated file is refused, as a file with weights or as a text. */
TEST_WITH(cut_files, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_host host = kn_host_defaults();
    uint8_t *bytes;
    uint64_t count;
    save(path, true);
    assert_int_equal(kn_file_read(&host, path, 1 << 20, &bytes, &count, NULL), KN_OK);
    for (uint64_t i = 0; i < count; i += i < 64 ? 1 : 37) {
        assert_int_equal(kn_file_write(&host, path, bytes, (size_t)i, NULL), KN_OK);
        kn_model *model = kn_model_open(path, NULL);
        assert_int_not_equal(kn_model_status(model), KN_OK);
        assert_true(kn_model_error(model)[0] != '\0');
        kn_model_destroy(&model);
    }
    kn_release(&host, bytes);
}

/* A model of a graph owns it, and keeps its weights in files by name. */
TEST_WITH(from_graphs, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *logits = kn_linear(kn_input(graph, "x", KN_FLOAT32, "batch,3"), 2, NULL);
    kn_model *model = kn_model_create_from_graph(&graph, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_model_error(model), "kn_output"));
    kn_model_destroy(&model);
    assert_non_null(graph);
    kn_output(logits, "logits");
    model = kn_model_create_from_graph(&graph, NULL);
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_null(graph);
    assert_int_equal(kn_model_input_count(model), 1);
    assert_ptr_equal(kn_model_output_at(model, 0), logits);
    assert_string_equal(kn_model_name(model), "graph");
    assert_string_equal(kn_model_text(model), "");
    has_parameters(model, "linear1.weight linear1.bias");
    kn_model_weight weight = KN_MODEL_WEIGHT_DEFAULTS;
    assert_true(kn_model_weight_at(model, 1, &weight) && weight.trained);
    kn_freeze(kn_graph_find(kn_model_graph(model), "linear1.bias"));
    assert_true(kn_model_weight_at(model, 1, &weight) && !weight.trained);
    assert_string_equal(weight.reason, "frozen");
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK);
    assert_null(kn_model_step(model, 1, NULL));
    kn_states *states = trained(), *other = fake_states_make();
    assert_int_equal(kn_model_save(model, path, states, NULL), KN_OK);
    assert_int_equal(kn_model_load(model, path, other, NULL, NULL), KN_OK);
    assert_true(number(other, "linear1.weight", 6, 5) == 6);
    fake_states_release(states);
    fake_states_release(other);
    kn_model_destroy(&model);
    /* The error of a graph is the model's, and the graph stays the caller's. */
    graph = kn_graph_create(NULL);
    kn_output(kn_add(kn_input(graph, "a", KN_FLOAT32, "2"), kn_input(graph, "b", KN_FLOAT32, "3")), NULL);
    model = kn_model_create_from_graph(&graph, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_SHAPE);
    assert_null(kn_model_graph(model));
    kn_model_destroy(&model);
    kn_graph_destroy(&graph);
}

/* The graph of a model that was built by hand is in its files: operators with attributes, states, symbols,
 * constants, a statistic and what follows it, pins. */
static kn_graph *built_by_hand(void) {
    kn_graph *graph = kn_graph_create(NULL);
    const float table[] = {1, -2.5f, 3e-20f};
    const kn_initializer normal = {KN_INITIALIZER_NORMAL, 0.02};
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,length,3");
    kn_input(graph, "unused", KN_INT32, "batch");
    kn_value *h = kn_add(x, kn_constant(graph, KN_FLOAT32, "3", table, sizeof table));
    h = kn_dropout(kn_clip(kn_linear(h, 4, NULL), -1, 2), 0.25);
    kn_value *count = kn_statistic(graph, "count", KN_FLOAT32, "", NULL);
    kn_statistic_set_next(count, kn_shift(count, 1));
    kn_scope_begin(graph, "block");
    kn_pin_begin(graph, "other");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "4,2", &normal);
    kn_freeze(w);
    h = kn_matmul(h, w, false, false);
    kn_pin_end(graph);
    kn_scope_end(graph);
    kn_output(kn_reshape(kn_mul(h, count), "batch,2*length"), "flat");
    kn_output(kn_softmax(h, -1), "shares");
    return graph;
}

TEST_WITH(graphs_are_in_their_files, make_place, remove_place) {
    const char *path = ((place *)*state)->path;
    kn_graph *graph = built_by_hand();
    kn_model *model = kn_model_create_from_graph(&graph, NULL);
    if (kn_model_status(model)) fail_msg("%s", kn_model_error(model));
    kn_states *states = fake_states_make();
    const float weight[12] = {1, 2, 3};
    const kn_tensor_info info = {KN_FLOAT32, 2, {4, 3}};
    assert_int_equal(kn_states_set(states, kn_value_name(kn_graph_parameter_at(kn_model_graph(model), 0)),
                                   &info, weight, sizeof weight),
                     KN_OK);
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    assert_int_equal(kn_model_add_loss(model, "mse", &loss), KN_OK);
    kn_host host = kn_host_defaults();
    char *first = NULL;
    for (int turn = 0; turn < 2; turn++) {
        if (kn_model_save(model, path, states, NULL)) fail_msg("%s", kn_model_error(model));
        kn_model_destroy(&model);
        model = kn_model_open(path, NULL);
        if (kn_model_status(model)) fail_msg("%s", kn_model_error(model));
        const char *words = kn_model_metadata(model, "koine.graph");
        assert_non_null(words);
        if (!first) {
            first = kn_resize(&host, NULL, strlen(words) + 1, 1);
            strcpy(first, words);
        }
        assert_string_equal(words, first);
        assert_string_equal(kn_model_name(model), "graph");
        assert_int_equal(kn_model_input_count(model), 2);
        assert_string_equal(kn_value_name(kn_model_input_at(model, 1)), "unused");
        assert_int_equal(kn_model_output_count(model), 2);
        char shape[64];
        kn_value_shape_text(kn_model_output_at(model, 0), shape, sizeof shape);
        assert_string_equal(shape, "batch,2*length");
        kn_model_weight about = KN_MODEL_WEIGHT_DEFAULTS;
        int frozen = 0;
        for (int i = 0; kn_model_weight_at(model, i, &about); i++)
            frozen += !strcmp(about.reason, "frozen") && !strcmp(about.name, "block.w");
        assert_int_equal(frozen, 1);
        assert_string_equal(kn_graph_pinned_at(kn_model_graph(model), 0), "other");
        assert_int_equal(kn_model_load(model, NULL, states, NULL, NULL), KN_OK);
    }
    assert_non_null(strstr(first, "next count "));
    kn_release(&host, first);
    fake_states_release(states);
    kn_model_destroy(&model);
}

/* Invalid graph texts are rejected, wherever they are cut or changed. */
TEST_WITH(broken_graphs, make_place, remove_place) {
    kn_host host = kn_host_defaults();
    kn_graph *graph = built_by_hand();
    char *words = kn_graph_text_write(&host, graph);
    assert_non_null(words);
    kn_graph_destroy(&graph);
    const size_t length = strlen(words);
    for (size_t i = 0; i < length; i++) {
        const char was = words[i];
        for (int kind = 0; kind < 3; kind++) {
            kn_error error = {0};
            words[i] = kind == 0 ? '\0' : kind == 1 ? ' ' : '7';
            graph = kn_graph_text_read(&host, words, &error);
            if (!graph && (error.status == KN_OK || !error.text[0])) fail_msg("no message: %s", words);
            kn_graph_destroy(&graph);
        }
        words[i] = was;
    }
    const char *const wrong[] = {"",
                                 "koine graph 2\n",
                                 "koine graph 1\n",
                                 "koine graph 1\nnode add a x,x b\n",
                                 "koine graph 1\ninput x float32 (3)\nnode assign a x,x b\noutput x\n",
                                 "koine graph 1\nconstant c float32 (9223372036854775807) 00\noutput c\n",
                                 "koine graph 1\ninput x float32 (3)\nnext x x\noutput x\n",
                                 "koine graph 1\nstate s float32 (3) 9 0 0 0 float32\noutput s\n"};
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++) {
        kn_error error = {0};
        assert_null(kn_graph_text_read(&host, wrong[i], &error));
        assert_true(error.status != KN_OK);
    }
    kn_release(&host, words);
}

/* A copy of a model's graph has the same inputs and outputs, and lacks the loss of the original. */
TEST_WITH(copies_of_graphs, make_place, remove_place) {
    kn_graph *graph = kn_graph_create(NULL), *copy = NULL;
    kn_value *unused = kn_input(graph, "unused", KN_INT32, "batch");
    kn_value *second = kn_input(graph, "second", KN_FLOAT32, "batch,3");
    kn_value *first = kn_input(graph, "first", KN_FLOAT32, "batch,3");
    kn_output(kn_linear(kn_add(first, second), 2, NULL), "logits");
    kn_output(kn_dropout(second, 0.5), "dropped");
    kn_model *model = kn_model_create_from_graph(&graph, NULL);
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    assert_non_null(unused);
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK);
    assert_int_equal(kn_model_copy_graph(model, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_copy_graph(model, &copy), KN_OK);
    kn_model *other = kn_model_create_from_graph(&copy, NULL);
    kn_model_destroy(&model);
    const char *const names[] = {"unused", "second", "first"};
    assert_int_equal(kn_model_input_count(other), 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(kn_value_name(kn_model_input_at(other, i)), names[i]);
    assert_int_equal(kn_model_output_count(other), 2);
    assert_string_equal(kn_value_name(kn_model_output_at(other, 0)), "logits");
    assert_string_equal(kn_value_name(kn_model_output_at(other, 1)), "dropped");
    has_parameters(other, "linear1.weight linear1.bias");
    assert_int_equal(kn_model_add_loss(other, "mse", &loss), KN_OK);
    kn_model_destroy(&other);
    /* A failed model has no graph. */
    model = kn_model_parse("", NULL);
    assert_true(kn_model_copy_graph(model, &copy) != KN_OK);
    assert_null(copy);
    assert_int_equal(kn_model_copy_graph(NULL, &copy), KN_ERROR_ARGUMENT);
    kn_model_destroy(&model);
}

TEST_FILE(test_saved, NULL, NULL)
