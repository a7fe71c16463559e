/* How sentence-transformers computes the vector of a text: modules.json and the files that it names. */
#include <string.h>

#include "exchange/huggingface/huggingface.h"

static const char *const none[] = {NULL};

/* The class of a module without its package: "Pooling". */
static const char *class_of(const char *type) {
    const char *dot = strrchr(type, '.');
    return dot ? dot + 1 : type;
}

/* Sets the class and the folder of one module. */
static bool read_module(kn_model *model, const char *file, const kn_json *item, const char **class,
                        const char **path) {
    static const char *const harmless[] = {"idx", "name", "kwargs", NULL};
    kn_fields module;
    *class = *path = "";
    if (item->kind != KN_JSON_OBJECT) {
        kn_fail(&model->error, KN_ERROR_FORMAT, "%s: a module is %s; expected an object", file,
                kn_json_kind_name(item->kind));
        return false;
    }
    if (!kn_fields_begin(&module, model, file, "", item) || !kn_fields_word(&module, "type", class) ||
        !kn_fields_word(&module, "path", path) || !kn_fields_end(&module, harmless))
        return false;
    if (!**class) return kn_fields_fail(&module, "type", "the class of a module");
    if (strchr(*path, '/') || **path == '.')
        return kn_fields_fail(&module, "path", "the name of a folder in the same folder");
    *class = class_of(*class);
    return true;
}

/* Exactly one way to make a vector must be chosen. */
static bool read_pooling(kn_model *model, const char *folder, const char *path, kn_encoder *encoder) {
    static const char *const harmless[] = {"word_embedding_dimension", "include_prompt", NULL};
    static const char *const refused[] = {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                                          "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"};
    const kn_json *root;
    const char *file;
    kn_fields config;
    bool average = false, first = false;
    const char *below = kn_arena_format(&model->arena, "%s/config.json", path);
    if (!below) return kn_model_no_memory(model);
    ((kn_folder *)model->origin_data)->pooling = below;
    if (!kn_folder_json(model, folder, below, KN_JSON_OBJECT, true, &root, &file) ||
        !kn_fields_begin(&config, model, file, "", root) ||
        !kn_fields_flag(&config, "pooling_mode_mean_tokens", &average) ||
        !kn_fields_flag(&config, "pooling_mode_cls_token", &first))
        return false;
    for (size_t i = 0; i < KN_COUNT_OF(refused); i++)
        if (!kn_fields_must_be(&config, refused[i], false)) return false;
    if (!kn_fields_end(&config, harmless)) return false;
    if (average == first)
        return kn_fields_fail(&config, "pooling_mode_mean_tokens",
                              "either pooling_mode_mean_tokens or pooling_mode_cls_token to be true");
    encoder->pooling = average ? KN_POOLING_MEAN : KN_POOLING_FIRST;
    return true;
}

/* The longest text, in tokens. */
static bool read_length(kn_model *model, const char *folder, kn_encoder *encoder) {
    const kn_json *root;
    const char *file;
    kn_fields config;
    if (!kn_folder_json(model, folder, "sentence_bert_config.json", KN_JSON_OBJECT, false, &root, &file))
        return false;
    return !root || (kn_fields_begin(&config, model, file, "", root) &&
                     kn_fields_whole(&config, "max_seq_length", 1, encoder->window, &encoder->window) &&
                     kn_fields_must_be(&config, "do_lower_case", false) && kn_fields_end(&config, none));
}

/* A prompt that is put before each text. */
static bool refuse_prompt(kn_model *model, const char *folder) {
    static const char *const harmless[] = {"__version__", "model_type", "prompts", "similarity_fn_name",
                                           NULL};
    const kn_json *root;
    const char *file;
    kn_fields config;
    if (!kn_folder_json(model, folder, "config_sentence_transformers.json", KN_JSON_OBJECT, false, &root,
                        &file))
        return false;
    return !root || (kn_fields_begin(&config, model, file, "", root) && kn_fields_end(&config, harmless));
}

bool kn_folder_read_pooling(kn_model *model, const char *folder, kn_encoder *encoder) {
    static const char *const order[] = {"Transformer", "Pooling", "Normalize"};
    const kn_json *root;
    const char *file, *class, *path;
    size_t count = 0;
    if (!kn_folder_json(model, folder, "modules.json", KN_JSON_ARRAY, false, &root, &file)) return false;
    if (!root) return true;
    for (const kn_json *item = root->first; item; item = item->next, count++) {
        if (!read_module(model, file, item, &class, &path)) return false;
        if (count >= KN_COUNT_OF(order) || strcmp(class, order[count])) {
            kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                    "%s: module %d is '%.60s'; expected Transformer, Pooling and optionally Normalize", file,
                    (int)count, class);
            return false;
        }
        if (count == 0 && *path) {
            kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                    "%s: the Transformer is in the folder '%.60s'; expected it in the model's own folder",
                    file, path);
            return false;
        }
        if (count == 1 && !read_pooling(model, folder, path, encoder)) return false;
        encoder->normalized = count == 2;
    }
    if (count < 2) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                "%s: has %d modules; expected a Transformer and a Pooling", file, (int)count);
        return false;
    }
    return read_length(model, folder, encoder) && refuse_prompt(model, folder);
}
