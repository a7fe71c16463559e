/* Hugging Face folders: every failed allocation is reported and nothing leaks, and damaged
 * settings are refused or have a meaning. What models compute is tested in tests/python/folders.py. */
#include "exchange_tests.h"

#include "../models/fake_states.h"
#include "formats/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MUTATIONS = 500 };

static const char neox[] =
    "{\"model_type\":\"gpt_neox\",\"architectures\":[\"GPTNeoXForCausalLM\"],\"vocab_size\":5,\"hidden_"
    "size\":8,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":6,\"max_position_embeddings\":7,"
    "\"hidden_act\":\"gelu\",\"rotary_pct\":0.5,\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,"
    "\"low_freq_factor\":1,\"high_freq_factor\":4}}";
static const char bert[] =
    "{\"model_type\":\"bert\",\"vocab_size\":5,\"hidden_size\":8,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":2,\"intermediate_size\":6,\"max_position_embeddings\":7,\"hidden_act\":"
    "\"gelu\"}";

/* Names and shapes of the tensors; columns 0: a vector. */
typedef struct tensor {
    const char *name;
    int64_t rows, columns;
} tensor;

static const tensor neox_tensors[] = {
    {"gpt_neox.embed_in.weight", 5, 8},
    {"gpt_neox.layers.0.input_layernorm.weight", 8, 0},
    {"gpt_neox.layers.0.input_layernorm.bias", 8, 0},
    {"gpt_neox.layers.0.post_attention_layernorm.weight", 8, 0},
    {"gpt_neox.layers.0.post_attention_layernorm.bias", 8, 0},
    {"gpt_neox.layers.0.attention.query_key_value.weight", 24, 8},
    {"gpt_neox.layers.0.attention.query_key_value.bias", 24, 0},
    {"gpt_neox.layers.0.attention.dense.weight", 8, 8},
    {"gpt_neox.layers.0.attention.dense.bias", 8, 0},
    {"gpt_neox.layers.0.mlp.dense_h_to_4h.weight", 6, 8},
    {"gpt_neox.layers.0.mlp.dense_h_to_4h.bias", 6, 0},
    {"gpt_neox.layers.0.mlp.dense_4h_to_h.weight", 8, 6},
    {"gpt_neox.layers.0.mlp.dense_4h_to_h.bias", 8, 0},
    {"gpt_neox.final_layer_norm.weight", 8, 0},
    {"gpt_neox.final_layer_norm.bias", 8, 0},
    {"embed_out.weight", 5, 8},
    {NULL, 0, 0},
};
static const tensor bert_tensors[] = {
    {"embeddings.word_embeddings.weight", 5, 8},
    {"embeddings.position_embeddings.weight", 7, 8},
    {"embeddings.token_type_embeddings.weight", 2, 8},
    {"embeddings.LayerNorm.weight", 8, 0},
    {"embeddings.LayerNorm.bias", 8, 0},
    {"encoder.layer.0.attention.self.query.weight", 8, 8},
    {"encoder.layer.0.attention.self.query.bias", 8, 0},
    {"encoder.layer.0.attention.self.key.weight", 8, 8},
    {"encoder.layer.0.attention.self.key.bias", 8, 0},
    {"encoder.layer.0.attention.self.value.weight", 8, 8},
    {"encoder.layer.0.attention.self.value.bias", 8, 0},
    {"encoder.layer.0.attention.output.dense.weight", 8, 8},
    {"encoder.layer.0.attention.output.dense.bias", 8, 0},
    {"encoder.layer.0.attention.output.LayerNorm.weight", 8, 0},
    {"encoder.layer.0.attention.output.LayerNorm.bias", 8, 0},
    {"encoder.layer.0.intermediate.dense.weight", 6, 8},
    {"encoder.layer.0.intermediate.dense.bias", 6, 0},
    {"encoder.layer.0.output.dense.weight", 8, 6},
    {"encoder.layer.0.output.dense.bias", 8, 0},
    {"encoder.layer.0.output.LayerNorm.weight", 8, 0},
    {"encoder.layer.0.output.LayerNorm.bias", 8, 0},
    {NULL, 0, 0},
};

static void write_text(const char *folder, const char *name, const char *text, size_t count) {
    char path[4096];
    test_file_write(test_path(path, sizeof path, folder, name), text, count);
}

static void write_tensors(const char *folder, const char *name, const tensor *list, size_t count) {
    static float numbers[256];
    kn_safetensor tensors[32] = {{.name = NULL}};
    kn_error error = {0};
    char path[4096];
    for (size_t i = 0; i < count; i++) {
        kn_array *array = &tensors[i].array;
        tensors[i].name = list[i].name;
        *array = (kn_array){.type = KN_FLOAT32,
                            .rank = list[i].columns ? 2 : 1,
                            .shape = {list[i].rows, list[i].columns},
                            .bytes = numbers};
        assert_true(kn_array_measure(array));
    }
    assert_int_equal(kn_safetensors_write(NULL, test_path(path, sizeof path, folder, name), tensors, count,
                                          NULL, 0, &error),
                     KN_OK);
}

static size_t count_of(const tensor *list) {
    size_t count = 0;
    while (list[count].name)
        count++;
    return count;
}

/* Two parts and an index. */
static void write_parts(const char *folder, const tensor *list) {
    const size_t count = count_of(list), first = count / 2;
    char index[4096];
    int used = snprintf(index, sizeof index, "{\"weight_map\":{");
    for (size_t i = 0; i < count; i++)
        used += snprintf(index + used, sizeof index - (size_t)used, "%s\"%s\":\"%s.safetensors\"",
                         i ? "," : "", list[i].name, i < first ? "a" : "b");
    used += snprintf(index + used, sizeof index - (size_t)used, "}}");
    write_tensors(folder, "a.safetensors", list, first);
    write_tensors(folder, "b.safetensors", list + first, count - first);
    write_text(folder, "model.safetensors.index.json", index, (size_t)used);
}

#define MODULES                                                                                              \
    "[{\"type\":\"models.Transformer\",\"path\":\"\"},{\"type\":\"models.Pooling\",\"path\":\"1_Pooling\"}," \
    "{\"type\":\"models.Normalize\",\"path\":\"2\"}]"
#define POOLING "{\"pooling_mode_mean_tokens\":true}"

static void write_bert(const char *folder) {
    char path[4096];
    write_text(folder, "config.json", bert, strlen(bert));
    write_tensors(folder, "model.safetensors", bert_tensors, count_of(bert_tensors));
    write_text(folder, "modules.json", MODULES, strlen(MODULES));
    assert_int_equal(mkdir(test_path(path, sizeof path, folder, "1_Pooling"), 0700), 0);
    write_text(folder, "1_Pooling/config.json", POOLING, strlen(POOLING));
}

/* Opens and loads; whether that was possible. An error has a message. */
static bool opens(const char *folder, const kn_allocator *allocator, kn_status *status) {
    kn_model_params params;
    kn_model_params_init(&params);
    if (allocator) params.allocator = *allocator;
    kn_model *model = kn_model_open(folder, &params);
    *status = kn_model_status(model);
    if (*status == KN_OK) {
        kn_states *states = fake_states_make();
        assert_non_null(states);
        *status = kn_model_load(model, NULL, states, NULL, NULL);
        fake_states_release(states);
    }
    if (model && *status != KN_OK) assert_true(kn_model_error(model)[0] != '\0');

    kn_model_destroy(&model);
    return *status == KN_OK;
}

static void check_allocations(const char *folder) {
    kn_status status;
    if (!opens(folder, NULL, &status)) fail_msg("%s", kn_status_message(status));
    for (size_t at = 1, done = 0; !done; at++) {
        failing memory = {.fail_at = at};
        kn_allocator allocator = failing_allocator(&memory);
        const bool good = opens(folder, &allocator, &status);
        done = memory.calls < at;
        assert_int_equal(memory.live, 0);
        if (!good && status != KN_ERROR_MEMORY) fail_msg("allocation %zu: %s", at, kn_status_message(status));
        assert_true(at < 20000);
    }
}

TEST(every_failed_allocation_is_reported) {
    char *folder = test_folder_make();
    write_text(folder, "config.json", neox, strlen(neox));
    write_parts(folder, neox_tensors);
    check_allocations(folder);
    test_folder_remove(folder);
    folder = test_folder_make();
    write_bert(folder);
    check_allocations(folder);
    test_folder_remove(folder);
}

static uint32_t next(uint32_t *random) {
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* Replaces, removes or repeats some bytes. Returns the new length. */
static size_t mutate(char *text, size_t count, uint32_t *random) {
    static const char pieces[][12] = {"null", "-1", "1e30", "0", "\"\"", "[]", "{}", "true", "9999999999"};
    for (uint32_t i = 0, times = 1 + next(random) % 3; i < times; i++) {
        const size_t at = next(random) % count;
        if (next(random) % 2) { /* a value */
            char *colon = memchr(text + at, ':', count - at);
            const char *piece = pieces[next(random) % (sizeof pieces / sizeof *pieces)];
            if (!colon) continue;
            size_t from = (size_t)(colon - text) + 1, to = from;
            while (to < count && text[to] != ',' && text[to] != '}')
                to++;
            memmove(text + from + strlen(piece), text + to, count - to);
            memcpy(text + from, piece, strlen(piece));
            count = count - to + from + strlen(piece);
        } else {
            text[at] = (char)(next(random) % 256);
        }
    }
    return count;
}

/* Settings of one file are damaged, the others stay. */
static void damage(const char *folder, const char *name, const char *text, uint32_t random) {
    char copy[4096];
    for (int i = 0; i < MUTATIONS; i++) {
        kn_status status;
        memcpy(copy, text, strlen(text));
        const size_t count = mutate(copy, strlen(text), &random);
        write_text(folder, name, copy, count);
        opens(folder, NULL, &status);
        assert_true(status != KN_ERROR_INTERNAL && status != KN_ERROR_MEMORY);
    }
    write_text(folder, name, text, strlen(text));
}

TEST(damaged_settings_are_survived) {
    char *folder = test_folder_make();
    write_text(folder, "config.json", neox, strlen(neox));
    write_tensors(folder, "model.safetensors", neox_tensors, count_of(neox_tensors));
    damage(folder, "config.json", neox, 1);
    test_folder_remove(folder);
    folder = test_folder_make();
    write_bert(folder);
    damage(folder, "config.json", bert, 2);
    damage(folder, "modules.json", MODULES, 3);
    damage(folder, "1_Pooling/config.json", POOLING, 4);
    test_folder_remove(folder);
}

TEST_FILE(test_folders, NULL, NULL)
