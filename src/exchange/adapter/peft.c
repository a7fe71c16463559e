/* Adapters in PEFT folders: adapter_config.json and adapter_model.safetensors. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exchange/adapter/adapter.h"
#include "exchange/huggingface/huggingface.h"

#define CONFIG "adapter_config.json"
#define TENSORS "adapter_model.safetensors"
#define PREFIX "base_model.model."

/* ---- names of layers ----------------------------------------------------------------------------- */

/* Of a layer in "blkN." and of others. */
static const char *const parts[][2] = {
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"}, {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_gate", "mlp.gate_proj"},  {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
static const char stack[] = "model.layers.";

/* The number in "blk12.attn_q" or "12.self_attn.q_proj", and what follows the dot; NULL: there is none. */
static const char *after_number(const char *text, int *digits) {
    *digits = (int)strspn(text, "0123456789");
    return *digits && text[*digits] == '.' ? text + *digits + 1 : NULL;
}

/* Whether the layers have the names of language models. */
static bool is_language(const kn_model *model) {
    return kn_graph_find(model->graph, "token_embd.weight") != NULL;
}

/* Whether a part of a language model is the module `theirs` of Hugging Face's class. The names here are those
 * of decoders with a gate. */
static bool is_called(const kn_model *model, bool in_layer, const char *own, const char *theirs) {
    if (model->origin == &kn_folder_origin) return kn_folder_calls(model, in_layer, own, theirs);
    return !kn_graph_find(model->graph, "blk0.ffn_up.weight") ||
           kn_graph_find(model->graph, "blk0.ffn_gate.weight");
}

/* "model.layers.0.self_attn.q_proj" for "blk0.attn_q"; names of other models stay. NULL with the error set.
 */
static const char *name_there(kn_model *model, kn_arena *arena, const char *layer) {
    int digits = 0;
    const char *part = strncmp(layer, "blk", 3) == 0 ? after_number(layer + 3, &digits) : NULL, *made = NULL;
    const bool output = !strcmp(layer, "output");
    bool known = !is_language(model) || (!part && !output);
    if (known) made = kn_arena_text(arena, layer);
    for (size_t i = 0; part && !known && i < KN_COUNT_OF(parts); i++) {
        if (strcmp(part, parts[i][0]) != 0 || !is_called(model, true, part, parts[i][1])) continue;
        made = kn_arena_format(arena, "%s%.*s.%s", stack, digits, layer + 3, parts[i][1]);
        known = true;
    }
    if (output && !known && is_called(model, false, layer, "lm_head")) {
        made = kn_arena_text(arena, "lm_head");
        known = true;
    }
    if (known && !made) kn_model_no_memory(model);
    if (!known)
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                "layer '%s' has no name of its own in PEFT's files; kn_model_save writes its adapter", layer);
    return made;
}

/* The inverse, for a name of `length` bytes. NULL with the error set. */
static const char *name_here(kn_model *model, kn_arena *arena, const char *name, size_t length) {
    const size_t own = sizeof stack - 1;
    int digits = 0;
    const bool block = is_language(model) && length > own && !strncmp(name, stack, own);
    const char *part = block ? after_number(name + own, &digits) : NULL;
    const char *made = NULL;
    for (size_t i = 0; part && i < KN_COUNT_OF(parts) && !made; i++)
        if (strlen(parts[i][1]) == length - (size_t)(part - name) &&
            !strncmp(part, parts[i][1], strlen(parts[i][1])))
            made = kn_arena_format(arena, "blk%.*s.%s", digits, name + own, parts[i][0]);
    if (!made && is_language(model) && length == 7 && !strncmp(name, "lm_head", 7))
        made = kn_arena_text(arena, "output");
    if (!made) made = kn_arena_format(arena, "%.*s", (int)length, name);
    if (!made) kn_model_no_memory(model);
    return made;
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* Settings that do not change the results of an adapter, whose matrices are in the file. */
static const char *const harmless[] = {"base_model_name_or_path",
                                       "revision",
                                       "task_type",
                                       "inference_mode",
                                       "auto_mapping",
                                       "target_modules",
                                       "peft_version",
                                       "layers_pattern",
                                       "exclude_modules",
                                       "lora_dropout",
                                       "layers_to_transform",
                                       "megatron_core",
                                       "qalora_group_size",
                                       NULL};
/* What must be false or absent. */
static const char *const flags[] = {"fan_in_fan_out", "use_qalora", "lora_bias", "use_bdlora",
                                    "ensure_weight_tying"};
/* What must be empty or absent. */
static const char *const empty[] = {"rank_pattern", "alpha_pattern", "loftq_config"};

/* How matrices were initialized matters only where that changed the weights of the model. */
static bool check_initial(kn_fields *config) {
    static const char *const fine[] = {"gaussian", "orthogonal", "eva"};
    const kn_json *how = kn_fields_find(config, "init_lora_weights");
    if (!how || how->kind == KN_JSON_BOOL) return true;
    for (size_t i = 0; i < KN_COUNT_OF(fine) && how->kind == KN_JSON_STRING; i++)
        if (!strcmp(how->text, fine[i])) return true;
    return kn_fields_fail(
        config, "init_lora_weights",
        "true, false, gaussian, orthogonal or eva, which leave the model's weights as they are");
}

static bool read_config(kn_model *model, kn_adapter_file *file) {
    const kn_json *root;
    const char *path, *type = NULL, *bias = "none";
    kn_fields config;
    kn_adapter_params *params = &file->params;
    if (!kn_folder_json(model, file->path, CONFIG, KN_JSON_OBJECT, true, &root, &path) ||
        !kn_fields_begin(&config, model, path, "", root) || !kn_fields_word(&config, "peft_type", &type))
        return false;
    if (!type || strcmp(type, "LORA") != 0) return kn_fields_fail(&config, "peft_type", "LORA");
    if (!kn_fields_need(&config, "r", 1, 65536, &params->rank) ||
        !kn_fields_real(&config, "lora_alpha", 1e-30, 1e30, &params->alpha) ||
        !kn_fields_flag(&config, "use_rslora", &params->rank_stabilized) ||
        !kn_fields_flag(&config, "use_dora", &file->magnitudes) || !kn_fields_word(&config, "bias", &bias) ||
        !check_initial(&config))
        return false;
    if (!kn_fields_has(&config, "lora_alpha")) params->alpha = 8; /* PEFT's default */
    if (strcmp(bias, "none") != 0) return kn_fields_fail(&config, "bias", "none");
    for (size_t i = 0; i < KN_COUNT_OF(flags); i++)
        if (!kn_fields_must_be(&config, flags[i], false)) return false;
    for (size_t i = 0; i < KN_COUNT_OF(empty); i++) {
        const kn_json *item = kn_fields_find(&config, empty[i]);
        if (item && (item->kind != KN_JSON_OBJECT || item->count))
            return kn_fields_fail(&config, empty[i], "{}: all layers have the same rank and alpha");
    }
    return kn_fields_end(&config, harmless);
}

bool kn_adapter_open_peft(kn_model *model, kn_adapter_file *file) {
    static const char *const endings[] = {".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"};
    const size_t before = sizeof PREFIX - 1;
    const char *path = kn_path_join(&file->arena, file->path, TENSORS);
    if (!path) return kn_model_no_memory(model);
    if (!read_config(model, file)) return false;
    if (kn_safetensors_open(&model->host, path, &file->tensors, &model->error) != KN_OK) return false;
    file->has_tensors = true;
    for (size_t i = 0; i < file->tensors.count; i++) {
        const kn_safetensor *tensor = &file->tensors.tensors[i];
        const size_t length = strlen(tensor->name);
        size_t part = 0, after = 0;
        for (; part < KN_COUNT_OF(endings) - !file->magnitudes; part++) {
            after = strlen(endings[part]);
            if (length > before + after && !strcmp(tensor->name + length - after, endings[part])) break;
        }
        if (strncmp(tensor->name, PREFIX, before) != 0 || part == KN_COUNT_OF(endings) - !file->magnitudes) {
            kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                    "%s: tensor '%.200s' does not belong to an adapter; expected names such as " PREFIX
                    "LAYER%s",
                    path, tensor->name, endings[0]);
            return false;
        }
        const char *layer = name_here(model, &file->arena, tensor->name + before, length - before - after);
        if (!layer ||
            !kn_adapter_add(model, file, layer, tensor->name, (kn_adapter_part)part, &tensor->array))
            return false;
    }
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------- */

static kn_status write_config(kn_model *model, kn_arena *arena, const char *path) {
    const kn_adapter *adapter = model->adapter;
    kn_text text;
    kn_text_init(&text, &model->host);
    kn_text_add(&text, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": ");
    kn_text_add(&text, is_language(model) ? "\"CAUSAL_LM\"" : "null");
    kn_text_format(
        &text,
        ",\n  \"base_model_name_or_path\": null,\n  \"r\": %" PRId64 ",\n  \"lora_alpha\": ", adapter->rank);
    kn_text_json_number(&text, adapter->alpha);
    kn_text_add(&text, ",\n  \"lora_dropout\": ");
    kn_text_json_number(&text, adapter->dropout);
    kn_text_format(&text,
                   ",\n  \"use_rslora\": %s,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                   "  \"inference_mode\": true,\n  \"target_modules\": [",
                   adapter->rank_stabilized ? "true" : "false");
    for (size_t i = 0; i < adapter->layer_count; i++) {
        const char *name = name_there(model, arena, adapter->layers[i].layer);
        kn_text_add(&text, i ? ",\n    " : "\n    ");
        kn_text_json(&text, name ? name : "");
    }
    kn_text_add(&text, "\n  ]\n}\n");
    kn_status status = model->error.status;
    if (status == KN_OK && kn_text_failed(&text)) status = kn_fail_memory(&model->error, text.length);
    if (status == KN_OK) status = kn_file_write(&model->host, path, text.data, text.length, &model->error);
    kn_text_finish(&text);
    return status;
}

static kn_safetensor tensor_of(kn_arena *arena, const char *name, const kn_value *value, bool b) {
    kn_safetensor made = {.array = {.type = KN_FLOAT32, .rank = 2}};
    made.name = kn_arena_format(arena, PREFIX "%s.lora_%c.weight", name, b ? 'B' : 'A');
    for (int i = 0; i < 2; i++)
        made.array.shape[i] = value->shape.dims[i];
    if (!kn_array_measure(&made.array)) made.name = NULL;
    return made;
}

static kn_status write_tensors(kn_model *model, kn_arena *arena, const char *path, kn_states *states) {
    const kn_adapter *adapter = model->adapter;
    const kn_text_pair about = {"format", "pt"};
    kn_safetensors_writer *writer = NULL;
    const size_t count = adapter->layer_count;
    kn_safetensor *tensors = kn_arena_take(arena, 2 * count, sizeof *tensors);
    if (!tensors) return kn_fail_memory(&model->error, count * sizeof *tensors);
    for (size_t i = 0; i < count; i++) {
        const char *name = name_there(model, arena, adapter->layers[i].layer);
        if (!name) return model->error.status;
        tensors[2 * i] = tensor_of(arena, name, adapter->layers[i].a, false);
        tensors[2 * i + 1] = tensor_of(arena, name, adapter->layers[i].b, true);
        if (!tensors[2 * i].name || !tensors[2 * i + 1].name) return kn_fail_memory(&model->error, 64);
    }
    kn_status status =
        kn_safetensors_writer_open(&model->host, path, tensors, 2 * count, &about, 1, &writer, &model->error);
    for (size_t i = 0; i < 2 * count && status == KN_OK; i++) {
        float *numbers = kn_adapter_matrix(model, &adapter->layers[i / 2], i % 2, false, states);
        status = numbers
                     ? kn_safetensors_writer_add(writer, numbers, tensors[i].array.byte_count, &model->error)
                     : model->error.status;
        kn_release(&model->host, numbers);
    }
    if (status == KN_OK) return kn_safetensors_writer_commit(&writer, &model->error);
    if (writer) kn_safetensors_writer_abandon(&writer);
    return status;
}

kn_status kn_adapter_save_peft(kn_model *model, const char *path, kn_states *states) {
    kn_arena arena;
    kn_arena_init(&arena, &model->host);
    const char *config = kn_path_join(&arena, path, CONFIG), *tensors = kn_path_join(&arena, path, TENSORS);
    kn_status status = config && tensors ? kn_folder_make(&model->host, path, &model->error)
                                         : kn_fail_memory(&model->error, 64);
    if (status == KN_OK) status = write_tensors(model, &arena, tensors, states);
    if (status == KN_OK) status = write_config(model, &arena, config);
    kn_arena_finish(&arena);
    return status;
}
