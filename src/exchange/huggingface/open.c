/* Folders saved by Hugging Face libraries as an origin of models: opened, loaded and closed. */
#include <string.h>

#include "exchange/huggingface/huggingface.h"

const char *const kn_folder_harmless[] = {"_name_or_path",
                                          "_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_commit_hash",
                                          "architectures",
                                          "attention_dropout",
                                          "attn_implementation",
                                          "auto_map",
                                          "bos_token_id",
                                          "cache_implementation",
                                          "dtype",
                                          "eos_token_id",
                                          "gradient_checkpointing",
                                          "id2label",
                                          "initializer_range",
                                          "is_llama_config",
                                          "keys_to_ignore_at_inference",
                                          "label2id",
                                          "model_type",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "pad_token_id",
                                          "pretraining_tp",
                                          "sep_token_id",
                                          "unk_token_id",
                                          "cls_token_id",
                                          "mask_token_id",
                                          "problem_type",
                                          "return_dict",
                                          "task_specific_params",
                                          "torch_dtype",
                                          "transformers.js_config",
                                          "transformers_version",
                                          "unsloth_fixed",
                                          "use_cache",
                                          NULL};

/* The architectures of all lists, in order; NULL past the last. */
static const kn_folder_family *family_at(int position) {
    const struct {
        const kn_folder_family *families;
        int count;
    } lists[] = {{kn_folder_decoders, kn_folder_decoder_count},
                 {kn_folder_plain_decoders, kn_folder_plain_decoder_count},
                 {kn_folder_encoders, kn_folder_encoder_count},
                 {kn_folder_modern_encoders, kn_folder_modern_encoder_count}};
    for (size_t i = 0; i < KN_COUNT_OF(lists); position -= lists[i++].count)
        if (position < lists[i].count) return &lists[i].families[position];
    return NULL;
}

static const kn_folder_family *find_family(kn_fields *config) {
    const kn_folder_family *family;
    const char *type = NULL;
    kn_text list;
    if (!kn_fields_word(config, "model_type", &type)) return NULL;
    for (int i = 0; type && (family = family_at(i)); i++)
        if (!strcmp(family->type, type)) return family;
    kn_text_init(&list, &config->model->host);
    kn_text_add(&list, "one of ");
    for (int i = 0; (family = family_at(i)); i++)
        kn_text_format(&list, "%s%s", i ? ", " : "", family->type);
    if (kn_text_failed(&list))
        kn_model_no_memory(config->model);
    else
        kn_fields_fail(config, "model_type", list.data);
    kn_text_finish(&list);
    return NULL;
}

/* Other classes have different outputs, such as text classification. */
static bool check_class(kn_fields *config, const kn_folder_family *family, const char *path) {
    const kn_json *list = kn_fields_find(config, "architectures");
    const char *modules = kn_path_join(&config->model->arena, path, "modules.json");
    if (!modules) return kn_model_no_memory(config->model);
    if (!list || (family->pools && kn_path_exists(modules))) return true;
    const bool word = list->kind == KN_JSON_ARRAY && list->count == 1 && list->first->kind == KN_JSON_STRING;
    if (word && !strcmp(list->first->text, family->class)) return true;
    kn_fail(&config->model->error, KN_ERROR_UNSUPPORTED,
            "%s: \"architectures\" is [%.60s]; expected [%s], the only class of '%s' that is supported",
            config->file, word ? list->first->text : "…", family->class, family->type);
    return false;
}

static bool write_text(kn_model *model, kn_folder *folder, const char *path, const kn_json *root,
                       const char *file, kn_text *text, const kn_folder_family **family) {
    kn_fields config;
    if (!kn_fields_begin(&config, model, file, "", root)) return false;
    *family = find_family(&config);
    return *family && check_class(&config, *family, path) &&
           (*family)->write(&config, *family, folder, path, text) &&
           kn_fields_end(&config, kn_folder_harmless);
}

/* "models/minilm/" is minilm. */
static bool set_name(kn_model *model, const char *path) {
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    model->name =
        kn_arena_format(&model->arena, "%.*s", end - begin > 200 ? 200 : (int)(end - begin), path + begin);
    return model->name || kn_model_no_memory(model);
}

static bool open_folder(kn_model *model, const char *path) {
    const kn_folder_family *family;
    const kn_json *root;
    const char *file;
    kn_text text;
    kn_folder *folder = model->origin_data = kn_allocate(&model->host, 1, sizeof *folder);
    if (!folder) return kn_model_no_memory(model);
    kn_arena_init(&folder->arena, &model->host);
    kn_map_init(&folder->by_name, &model->host);
    model->has_weights = true;
    if (!set_name(model, path) ||
        !kn_folder_json(model, path, "config.json", KN_JSON_OBJECT, false, &root, &file))
        return false;
    if (!root) {
        kn_fail(&model->error, KN_ERROR_NOT_FOUND, "the folder '%s' has no model: expected config.json in it",
                path);
        return false;
    }
    kn_text_init(&text, &model->host);
    bool good = write_text(model, folder, path, root, file, &text, &family) &&
                kn_folder_open_parts(model, folder, path) && kn_language_open(model, &text) &&
                kn_folder_list_weights(model, folder, family->names);
    kn_text_finish(&text);
    return good;
}

static void close_folder(kn_model *model) {
    kn_folder *folder = model->origin_data;
    kn_safetensors_close(&model->host, &folder->tensors);
    for (size_t i = 0; i < folder->part_count; i++)
        kn_safetensors_close(&model->host, &folder->parts[i]);
    kn_map_finish(&folder->by_name);
    kn_arena_finish(&folder->arena);
    kn_release(&model->host, folder);
}

static bool is_never(const uint8_t *bytes, uint64_t count) {
    (void)bytes;
    (void)count;
    return false;
}

const kn_model_origin kn_folder_origin = {
    .name = "Hugging Face folder",
    .endings = "",
    .recognizes = is_never,
    .folders = true,
    .open = open_folder,
    .load = kn_folder_load,
    .save = kn_folder_save,
    .close = close_folder,
};
