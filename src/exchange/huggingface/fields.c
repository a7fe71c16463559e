/* Members of JSON objects, with a record of which were read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

enum { JSON_BYTES = 1 << 28, JSON_DEPTH = 64 };

bool kn_folder_json(kn_model *model, const char *folder, const char *name, kn_json_kind kind, bool must,
                    const kn_json **root, const char **path) {
    kn_file_view view;
    kn_json *read = NULL;
    *root = NULL;
    char *file = kn_path_join(&model->arena, folder, name);
    if (!file) return kn_model_no_memory(model);
    if (path) *path = file;
    if (!must && !kn_path_exists(file)) return true;
    if (kn_file_open_view(&model->host, file, &view, &model->error) != KN_OK) return false;
    kn_status status = kn_json_read(&model->arena, file, view.bytes, view.count, JSON_BYTES, JSON_DEPTH,
                                    &read, &model->error);
    kn_file_close_view(&model->host, &view);
    if (status != KN_OK) return false;
    *root = read;
    if (read->kind == kind) return true;
    kn_fail(&model->error, KN_ERROR_FORMAT, "%s: found %s, expected %s", file, kn_json_kind_name(read->kind),
            kn_json_kind_name(kind));
    return false;
}

bool kn_fields_begin(kn_fields *fields, kn_model *model, const char *file, const char *prefix,
                     const kn_json *object) {
    *fields = (kn_fields){.model = model, .file = file, .prefix = prefix, .object = object};
    fields->read = kn_arena_take(&model->arena, object->count + 1, sizeof *fields->read);
    return fields->read || kn_model_no_memory(model);
}

static const kn_json *find(const kn_fields *fields, const char *name, size_t *index) {
    *index = 0;
    for (const kn_json *item = fields->object->first; item; item = item->next, ++*index)
        if (!strcmp(item->key, name)) return item;
    return NULL;
}

bool kn_fields_has(const kn_fields *fields, const char *name) {
    size_t index;
    return find(fields, name, &index) != NULL;
}

const kn_json *kn_fields_find(kn_fields *fields, const char *name) {
    size_t index;
    const kn_json *item = find(fields, name, &index);
    if (!item) return NULL;
    fields->read[index] = true;
    return item->kind == KN_JSON_NULL ? NULL : item;
}

/* What a value is, for messages. */
static const char *found(const kn_json *value, char text[80]) {
    if (value->kind == KN_JSON_NUMBER || value->kind == KN_JSON_STRING)
        snprintf(text, 80, value->kind == KN_JSON_STRING ? "'%.60s'" : "%.60s", value->text);
    else if (value->kind == KN_JSON_BOOL)
        snprintf(text, 80, value->truth ? "true" : "false");
    else
        snprintf(text, 80, "%s", kn_json_kind_name(value->kind));
    return text;
}

bool kn_fields_fail(const kn_fields *fields, const char *name, const char *expected) {
    size_t index;
    char text[80];
    const kn_json *item = find(fields, name, &index);
    if (item && item->kind != KN_JSON_NULL)
        kn_fail(&fields->model->error, KN_ERROR_UNSUPPORTED, "%s: \"%s%s\" is %s; expected %s", fields->file,
                fields->prefix, name, found(item, text), expected);
    else
        kn_fail(&fields->model->error, KN_ERROR_FORMAT, "%s: \"%s%s\" is missing; expected %s", fields->file,
                fields->prefix, name, expected);
    return false;
}

bool kn_fields_enter(kn_fields *fields, const char *name, kn_fields *inner) {
    const kn_json *item = kn_fields_find(fields, name);
    if (!item) return false;
    if (item->kind != KN_JSON_OBJECT) return kn_fields_fail(fields, name, "an object");
    const char *prefix = kn_arena_format(&fields->model->arena, "%s%s.", fields->prefix, name);
    if (!prefix) return kn_model_no_memory(fields->model);
    return kn_fields_begin(inner, fields->model, fields->file, prefix, item);
}

bool kn_fields_whole(kn_fields *fields, const char *name, int64_t least, int64_t most, int64_t *value) {
    int64_t number;
    char expected[80];
    const kn_json *item = kn_fields_find(fields, name);
    if (!item) return true;
    if (kn_json_int64(item, &number) && number >= least && number <= most) {
        *value = number;
        return true;
    }
    snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, least, most);
    return kn_fields_fail(fields, name, expected);
}

bool kn_fields_need(kn_fields *fields, const char *name, int64_t least, int64_t most, int64_t *value) {
    char expected[80];
    if (kn_fields_find(fields, name)) return kn_fields_whole(fields, name, least, most, value);
    snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, least, most);
    return kn_fields_fail(fields, name, expected);
}

bool kn_fields_real(kn_fields *fields, const char *name, double least, double most, double *value) {
    char expected[80];
    const kn_json *item = kn_fields_find(fields, name);
    if (!item) return true;
    if (item->kind == KN_JSON_NUMBER && item->number >= least && item->number <= most) {
        *value = item->number;
        return true;
    }
    snprintf(expected, sizeof expected, "a number from %g to %g", least, most);
    return kn_fields_fail(fields, name, expected);
}

bool kn_fields_flag(kn_fields *fields, const char *name, bool *value) {
    const kn_json *item = kn_fields_find(fields, name);
    if (!item) return true;
    if (item->kind != KN_JSON_BOOL) return kn_fields_fail(fields, name, "true or false");
    *value = item->truth;
    return true;
}

bool kn_fields_word(kn_fields *fields, const char *name, const char **value) {
    const kn_json *item = kn_fields_find(fields, name);
    if (!item) return true;
    if (item->kind != KN_JSON_STRING) return kn_fields_fail(fields, name, "a word");
    *value = item->text;
    return true;
}

bool kn_fields_must_be(kn_fields *fields, const char *name, bool value) {
    bool is = value;
    if (!kn_fields_flag(fields, name, &is)) return false;
    return is == value || kn_fields_fail(fields, name,
                                         value ? "true, the only value that is supported"
                                               : "false, the only value that is supported");
}

bool kn_fields_activation(kn_fields *fields, const char *name, const char **operator) {
    static const char *const all[][2] = {
        {"silu", "silu"},          {"swish", "silu"},          {"gelu", "gelu"},
        {"gelu_new", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
        {"relu", "relu"},          {"tanh", "tanh"},
    };
    const char *word = NULL;
    if (!kn_fields_word(fields, name, &word)) return false;
    for (size_t i = 0; word && i < KN_COUNT_OF(all); i++)
        if (!strcmp(word, all[i][0])) {
            *operator= all[i][1];
            return true;
        }
    return kn_fields_fail(fields, name, "silu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu or tanh");
}

bool kn_fields_end(const kn_fields *fields, const char *const *harmless) {
    size_t index = 0;
    for (const kn_json *item = fields->object->first; item; item = item->next, index++) {
        bool fine = fields->read[index] || item->kind == KN_JSON_NULL;
        for (const char *const *at = harmless; *at && !fine; at++)
            fine = !strcmp(item->key, *at);
        if (fine) continue;
        char text[80];
        kn_fail(&fields->model->error, KN_ERROR_UNSUPPORTED,
                "%s: \"%s%.60s\" (%s) is not supported, and results could be wrong without it", fields->file,
                fields->prefix, item->key, found(item, text));
        return false;
    }
    return true;
}
