/* ONNX files as an origin of models: recognized, opened, loaded, saved and closed. */
#include "exchange/onnx/export.h"
#include "exchange/onnx/import.h"

/* Recognizes a protocol buffers message that begins with the format version, as all writers produce it; a
 * text model begins with a printable character. */
static bool recognizes(const uint8_t *bytes, uint64_t count) {
    return count >= 4 && bytes[0] == 0x08 && bytes[1] < 0x80 &&
           (bytes[2] == 0x12 || bytes[2] == 0x1a || bytes[2] == 0x22 || bytes[2] == 0x28 ||
            bytes[2] == 0x32 || bytes[2] == 0x3a || bytes[2] == 0x42);
}

static bool keep_texts(kn_arena *arena, kn_model_given *given) {
    uint64_t count = 0;
    if (!kn_tensor_elements(&given->info, &count)) return true; /* refused by the importer */
    const char **texts = kn_arena_take(arena, (size_t)count + 1, sizeof *texts);
    if (texts && count) memcpy(texts, given->texts, (size_t)count * sizeof *texts);
    for (uint64_t i = 0; texts && i < count; i++)
        if (texts[i] && !(texts[i] = kn_arena_text(arena, texts[i]))) return false;
    given->texts = texts;
    return texts != NULL;
}

/* Copies what an array points to into the arena. */
static bool keep_given(kn_arena *arena, kn_model_given *given) {
    uint64_t bytes = 0;
    if (given->name && !(given->name = kn_arena_text(arena, given->name))) return false;
    if (given->texts && !keep_texts(arena, given)) return false;
    kn_model_given *elements = kn_arena_copy(arena, given->elements, given->element_count, sizeof *elements);
    if (!elements && given->element_count) return false;
    for (size_t i = 0; i < given->element_count; i++)
        if (!keep_given(arena, &elements[i])) return false;
    given->elements = elements;
    if (!given->data) return true;
    const bool whole = kn_tensor_bytes(&given->info, &bytes); /* false for dynamic sizes */
    given->data = whole ? kn_arena_copy(arena, given->data, (size_t)bytes, 1) : NULL;
    return given->data || !whole;
}

/* Copies everything that params point to into the model's arena, for models bound later. */
static bool keep_params(kn_model *model) {
    kn_model_params *params = &model->params;
    kn_arena *arena = &model->arena;
    kn_model_setting *settings =
        kn_arena_copy(arena, params->settings, params->setting_count, sizeof *settings);
    kn_model_given *given = kn_arena_copy(arena, params->given, params->given_count, sizeof *given);
    bool fine = (settings || !params->setting_count) && (given || !params->given_count);
    for (size_t i = 0; fine && i < params->setting_count; i++)
        fine = !settings[i].name || (settings[i].name = kn_arena_text(arena, settings[i].name)) != NULL;
    for (size_t i = 0; fine && i < params->given_count; i++)
        fine = keep_given(arena, &given[i]);
    if (!fine) return kn_model_no_memory(model);
    params->settings = settings;
    params->given = given;
    kn_imported_of(model)->params = *params;
    return true;
}

/* Opens a file: by its path, or if that is NULL, from memory. */
static bool open_either(kn_model *model, const char *path, const uint8_t *bytes, uint64_t count,
                        const char *folder) {
    kn_imported *imported = kn_arena_take(&model->arena, 1, sizeof *imported);
    kn_onnx_model *file = kn_arena_take(&model->arena, 1, sizeof *file);
    kn_map *names = kn_arena_take(&model->arena, 1, sizeof *names);
    if (!imported || !file || !names) return kn_model_no_memory(model);
    kn_status status =
        path ? kn_onnx_open(&model->host, path, file, &model->error)
             : kn_onnx_read(&model->host, model->source, bytes, count, folder, file, &model->error);
    if (status != KN_OK) return false;
    *imported = (kn_imported){.file = file, .names = names};
    kn_map_init(names, &model->host);
    model->origin_data = imported;
    model->has_weights = true;
    model->metadata = file->metadata;
    model->metadata_count = file->metadata_count;
    return keep_params(model) && kn_import_prepare(model) && kn_import_onnx(model);
}

static bool open_onnx(kn_model *model, const char *path) {
    return open_either(model, path, NULL, 0, NULL);
}

static bool open_memory(kn_model *model, const uint8_t *bytes, uint64_t count, const char *folder) {
    return open_either(model, NULL, bytes, count, folder);
}

/* Uses the arrays given now before those given on opening: the first array with a name counts. */
static bool bind_onnx(kn_model *model, const kn_model_given *given, size_t given_count) {
    kn_model *root = model->root;
    kn_imported *imported = kn_arena_copy(&model->arena, kn_imported_of(root), 1, sizeof *imported);
    if (!imported) return kn_model_no_memory(model);
    const kn_model_params *opened = &imported->params;
    kn_model_given *all = kn_arena_take(&model->arena, given_count + opened->given_count + 1, sizeof *all);
    if (!all) return kn_model_no_memory(model);
    if (given_count) memcpy(all, given, given_count * sizeof *all);
    if (opened->given_count) memcpy(all + given_count, opened->given, opened->given_count * sizeof *all);
    model->params = *opened;
    model->params.given = all;
    model->params.given_count = given_count + opened->given_count;
    model->origin_data = imported;
    model->has_weights = true;
    model->metadata = root->metadata;
    model->metadata_count = root->metadata_count;
    return kn_import_onnx(model);
}

static void close_onnx(kn_model *model) {
    if (model->root) return; /* the root owns the file */
    kn_onnx_close(&model->host, kn_imported_of(model)->file);
    kn_map_finish(kn_imported_of(model)->names);
}

static kn_status load_state(kn_model *model, kn_states *states, const kn_import_state *state) {
    kn_array array;
    kn_tensor_info info = {.dtype = state->value->shape.dtype, .rank = state->value->shape.rank};
    memcpy(info.shape, state->value->shape.dims, sizeof info.shape);
    kn_status status = kn_onnx_tensor_array(&model->host, state->tensor, &array, &model->error);
    if (status != KN_OK) return status;
    uint64_t bytes = 0;
    void *converted = NULL;
    kn_tensor_bytes(&info, &bytes);
    if (array.type != info.dtype) {
        converted = kn_allocate(&model->host, (size_t)bytes + 1, 1);
        for (uint64_t i = 0; converted && i < array.count; i++)
            kn_element_set(info.dtype, converted, (int64_t)i, kn_array_number(&array, i));
        if (!converted) status = kn_fail_memory(&model->error, (size_t)bytes);
    }
    if (status == KN_OK) {
        status = kn_states_set(states, kn_value_name(state->value), &info,
                               converted ? converted : array.bytes, (size_t)bytes);
        if (status != KN_OK)
            kn_fail(&model->error, status, "%s: '%.100s': %s", model->source, state->tensor->name,
                    kn_states_error(states));
    }
    kn_release(&model->host, converted);
    kn_array_finish(&model->host, &array);
    return status;
}

static kn_status load_onnx(kn_model *model, const char *path, kn_states *states,
                           const kn_model_load_params *params, int *loaded) {
    const kn_imported *imported = kn_imported_of(model);
    if (path) return kn_model_load_file(model, path, states, params, loaded);
    kn_map present;
    kn_status status = KN_OK;
    int count = 0;
    kn_map_init(&present, &model->host);
    for (size_t i = 0; params->lacking && i < kn_states_count(states) && status == KN_OK; i++)
        if (!kn_map_put_text(&present, kn_states_at(states, i, NULL), states))
            status = kn_fail_memory(&model->error, 0);
    for (size_t i = 0; i < imported->state_count && status == KN_OK; i++) {
        if (kn_map_get_text(&present, kn_value_name(imported->states[i].value))) continue;
        status = load_state(model, states, &imported->states[i]);
        count++;
    }
    kn_map_finish(&present);
    if (loaded && status == KN_OK) *loaded = count;
    return status;
}

static kn_status save_onnx(kn_model *model, const char *path, kn_states *states,
                           const kn_model_save_params *params) {
    for (size_t i = 0; i < params->pair_count; i++)
        if (!params->pairs[i].key || !params->pairs[i].value)
            return kn_fail(&model->error, KN_ERROR_ARGUMENT, "metadata %zu: expected a key and a value", i);
    if (model->origin == &kn_onnx_origin) return kn_import_save(model, path, states, params);
    if (!states) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_save_onnx: states is NULL");
    return kn_export_onnx(model, path, states, params);
}

const kn_model_origin kn_onnx_origin = {
    .name = "ONNX",
    .endings = ".onnx",
    .recognizes = recognizes,
    .open = open_onnx,
    .open_memory = open_memory,
    .bind = bind_onnx,
    .load = load_onnx,
    .save = save_onnx,
    .list_weights = kn_import_list_weights,
    .close = close_onnx,
};
