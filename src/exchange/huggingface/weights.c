/* The safetensors files of a folder, and which tensor is which weight. */
#include <stdio.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

enum { MAX_PARTS = 1000 };

/* ---- files ----------------------------------------------------------------------------------------------
 */

/* Opens the next of the parts, for which there is room, and lists its tensors. */
static bool open_part(kn_model *model, kn_folder *folder, const char *path) {
    kn_safetensors *part = &folder->parts[folder->part_count];
    if (kn_safetensors_open(&model->host, path, part, &model->error) != KN_OK) return false;
    folder->part_count++;
    for (size_t i = 0; i < part->count; i++) {
        if (kn_map_get_text(&folder->by_name, part->tensors[i].name)) {
            kn_fail(&model->error, KN_ERROR_FORMAT, "%s: tensor '%.100s' is in another part as well", path,
                    part->tensors[i].name);
            return false;
        }
        if (!kn_map_put_text(&folder->by_name, part->tensors[i].name, &part->tensors[i]))
            return kn_model_no_memory(model);
    }
    return true;
}

static bool add_part_name(const kn_fields *index, const kn_json *entry, const char **names, size_t *count) {
    if (entry->kind != KN_JSON_STRING || !entry->length || strlen(entry->text) != entry->length ||
        strchr(entry->text, '/') || strchr(entry->text, '\\') || entry->text[0] == '.') {
        char expected[160];
        snprintf(expected, sizeof expected, "the name of a file in the same folder for \"%.60s\"",
                 entry->key);
        return kn_fields_fail(index, "weight_map", expected);
    }
    for (size_t i = 0; i < *count; i++)
        if (!strcmp(names[i], entry->text)) return true;
    if (*count == MAX_PARTS) return kn_fields_fail(index, "weight_map", "at most 1000 files");
    names[(*count)++] = entry->text;
    return true;
}

/* The tensors that the index lists must be in their parts. */
static bool check_index(kn_model *model, const kn_folder *folder, const kn_json *list,
                        const char *const *names, const char *file) {
    for (const kn_json *entry = list->first; entry; entry = entry->next)
        for (size_t i = 0; i < folder->part_count; i++)
            if (!strcmp(names[i], entry->text) && !kn_safetensors_find(&folder->parts[i], entry->key)) {
                kn_fail(&model->error, KN_ERROR_FORMAT, "%s: tensor '%.100s' is not in '%.100s'", file,
                        entry->key, entry->text);
                return false;
            }
    return true;
}

static bool open_index(kn_model *model, kn_folder *folder, const char *path, const char *file,
                       const kn_json *root) {
    kn_fields index, list;
    const char *names[MAX_PARTS];
    size_t count = 0;
    if (!kn_fields_begin(&index, model, file, "", root)) return false;
    if (!kn_fields_enter(&index, "weight_map", &list))
        return model->error.status == KN_OK ? kn_fields_fail(&index, "weight_map", "an object") : false;
    for (const kn_json *entry = list.object->first; entry; entry = entry->next)
        if (!add_part_name(&index, entry, names, &count)) return false;
    folder->parts = kn_arena_take(&folder->arena, count + 1, sizeof *folder->parts);
    if (!folder->parts) return kn_model_no_memory(model);
    for (size_t i = 0; i < count; i++) {
        const char *part = kn_path_join(&folder->arena, path, names[i]);
        if (!part) return kn_model_no_memory(model);
        if (!open_part(model, folder, part)) return false;
    }
    return check_index(model, folder, list.object, names, file);
}

bool kn_folder_open_parts(kn_model *model, kn_folder *folder, const char *path) {
    static const char *const whole = "model.safetensors";
    const char *file;
    const kn_json *root;
    const char *single = kn_path_join(&folder->arena, path, whole);
    if (!single) return kn_model_no_memory(model);
    if (kn_path_exists(single)) {
        folder->parts = kn_arena_take(&folder->arena, 1, sizeof *folder->parts);
        return folder->parts ? open_part(model, folder, single) : kn_model_no_memory(model);
    }
    if (!kn_folder_json(model, path, "model.safetensors.index.json", KN_JSON_OBJECT, false, &root, &file))
        return false;
    if (root) return open_index(model, folder, path, file, root);
    kn_fail(&model->error, KN_ERROR_NOT_FOUND,
            "the folder '%s' has no weights: expected %s, or model.safetensors.index.json and its parts; "
            "PyTorch's .bin files must be converted to safetensors",
            path, whole);
    return false;
}

/* ---- names ----------------------------------------------------------------------------------------------
 */

/* The row for a part of a name of `length` bytes. */
static const kn_folder_name *find_name(const kn_folder_name *list, const char *own, size_t length) {
    for (; list->own; list++)
        if (strlen(list->own) == length && !memcmp(list->own, own, length)) return list;
    return NULL;
}

/* The name in the file, without a prefix, of a weight of the text: "layers.3.self_attn.q_proj.weight" for
 * "blk3.attn_q.weight". NULL: there is none, or no memory. */
static const char *name_in_file(kn_model *model, kn_folder *folder, const kn_folder_names *names,
                                const char *own, kn_folder_change *change) {
    const char *layer = strncmp(own, "blk", 3) == 0 ? own + 3 : NULL;
    const size_t digits = layer ? strspn(layer, "0123456789") : 0;
    if (!digits || layer[digits] != '.') layer = NULL;
    const char *part = layer ? layer + digits + 1 : own, *ending = strrchr(part, '.');
    const size_t length = ending ? (size_t)(ending - part) : strlen(part);
    const kn_folder_name *row = find_name(layer ? names->layers : names->others, part, length);
    if (!row) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "%s: no tensor is known for the weight '%s'",
                model->source, own);
        return NULL;
    }
    *change = row->change;
    const char *made =
        kn_arena_format(&folder->arena, "%s%.*s%s%s%s", layer ? names->layer : "", layer ? (int)digits : 0,
                        layer ? layer : "", layer ? "." : "", row->theirs, ending ? ending : "");
    if (!made) kn_model_no_memory(model);
    return made;
}

/* Whether a tensor without use changes no result. */
static bool is_ignored(const char *name, const kn_folder_names *names) {
    const size_t length = strlen(name);
    for (const char *const *at = names->ignored; *at; at++) {
        const size_t own = strlen(*at);
        if (length < own) continue;
        if (!strcmp(name + length - own, *at)) return true;
        for (const char *const *prefix = names->prefixes; (*at)[own - 1] == '.' && *prefix; prefix++) {
            const size_t before = strlen(*prefix);
            if (!strncmp(name, *at, own) ||
                (!strncmp(name, *prefix, before) && !strncmp(name + before, *at, own)))
                return true;
        }
    }
    return false;
}

static const kn_safetensor *find_tensor(const kn_folder *folder, kn_arena *arena, const char *prefix,
                                        const char *name) {
    const char *whole = kn_arena_format(arena, "%s%s", prefix, name);
    return whole ? kn_map_get_text(&folder->by_name, whole) : NULL;
}

/* The prefix with which the file has the first of the other names. */
static const char *find_prefix(kn_folder *folder, const kn_folder_names *names) {
    for (const char *const *prefix = names->prefixes; *prefix; prefix++) {
        const char *first = kn_arena_format(&folder->arena, "%s.weight", names->others->theirs);
        if (first && find_tensor(folder, &folder->arena, *prefix, first)) return *prefix;
    }
    return names->prefixes[0];
}

/* ---- weights --------------------------------------------------------------------------------------------
 */

static bool add_weight(kn_model *model, kn_folder *folder, const char *name, const kn_array *array,
                       kn_folder_change change) {
    kn_safetensors *list = &folder->tensors;
    kn_safetensor *item = &list->tensors[list->count];
    item->name = name;
    item->array = *array;
    folder->changes[list->count++] = change;
    return kn_map_put_text(&list->by_name, name, item) || kn_model_no_memory(model);
}

/* A changed tensor has no bytes, and so is written by `widen`. Its bytes stay in `owned`. */
static kn_array changed(const kn_array *array) {
    kn_array made = *array;
    made.type = KN_FLOAT32;
    made.owned = (void *)(uintptr_t)array;
    made.bytes = NULL;
    return made;
}

static bool list_weight(kn_model *model, kn_folder *folder, const kn_folder_names *names, const char *prefix,
                        const char *name, kn_map *used) {
    kn_folder_change change = KN_FOLDER_SAME;
    if (folder->divisors && !strcmp(name, "rope_freqs")) {
        kn_array array = {
            .type = KN_FLOAT32, .rank = 1, .shape = {folder->divisor_count}, .bytes = folder->divisors};
        return kn_array_measure(&array) ? add_weight(model, folder, name, &array, change)
                                        : kn_model_no_memory(model);
    }
    const char *theirs = name_in_file(model, folder, names, name, &change);
    if (!theirs) return false;
    const kn_safetensor *tensor = find_tensor(folder, &folder->arena, prefix, theirs);
    if (!tensor) tensor = kn_map_get_text(&folder->by_name, theirs); /* outside of the prefix: lm_head */
    if (!tensor) {
        kn_fail(&model->error, KN_ERROR_NOT_FOUND, "%s: the tensor '%s%s' is missing", model->source, prefix,
                theirs);
        return false;
    }
    if (!kn_dtype_is_float(tensor->array.type)) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                "%s: tensor '%.100s' has the type %s; expected floating-point numbers", model->source,
                tensor->name, kn_array_type_name(tensor->array.type));
        return false;
    }
    kn_array array = tensor->array;
    if (change != KN_FOLDER_SAME) {
        array = changed(&tensor->array);
        if (!kn_array_measure(&array)) return kn_model_no_memory(model);
    }
    if (!kn_map_put_text(used, tensor->name, (void *)(uintptr_t)tensor)) return kn_model_no_memory(model);
    return add_weight(model, folder, name, &array, change);
}

/* A tensor without a weight might change the results. */
static bool check_used(kn_model *model, const kn_folder *folder, const kn_folder_names *names,
                       const kn_map *used) {
    for (size_t i = 0; i < folder->part_count; i++)
        for (size_t k = 0; k < folder->parts[i].count; k++) {
            const char *name = folder->parts[i].tensors[k].name;
            if (kn_map_get_text(used, name) || is_ignored(name, names)) continue;
            kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                    "%s: tensor '%.100s' has no use in this architecture, so results would be wrong without "
                    "it",
                    model->source, name);
            return false;
        }
    return true;
}

bool kn_folder_list_weights(kn_model *model, kn_folder *folder, const kn_folder_names *names) {
    const kn_graph *graph = model->graph;
    kn_safetensors *list = &folder->tensors;
    kn_map used;
    kn_arena_init(&list->arena, &model->host);
    kn_map_init(&list->by_name, &model->host);
    list->tensors = kn_arena_take(&list->arena, graph->value_count, sizeof *list->tensors);
    folder->changes = kn_arena_take(&list->arena, graph->value_count, sizeof *folder->changes);
    if (!list->tensors || !folder->changes) return kn_model_no_memory(model);
    kn_map_init(&used, &model->host);
    const char *prefix = find_prefix(folder, names);
    bool fine = true;
    for (size_t i = 0; i < graph->value_count && fine; i++)
        if (kn_model_is_weight(graph->values[i]))
            fine = list_weight(model, folder, names, prefix, graph->values[i]->name, &used);
    fine = fine && check_used(model, folder, names, &used);
    kn_map_finish(&used);
    return fine;
}

/* ---- loading --------------------------------------------------------------------------------------------
 */

static void widen(void *user, const kn_safetensor *tensor, void *to) {
    const kn_array *array = tensor->array.owned;
    float *numbers = to;
    (void)user;
    for (uint64_t i = 0; i < array->count; i++)
        numbers[i] = 1 + (float)kn_array_number(array, i);
}

kn_status kn_folder_load(kn_model *model, const char *path, kn_states *states,
                         const kn_model_load_params *params, int *loaded) {
    const kn_folder *folder = model->origin_data;
    if (path) return kn_model_load_file(model, path, states, params, loaded);
    const kn_tensors_from from = {
        .file = &folder->tensors, .path = model->source, .owned = true, .complete = true, .widen = widen};
    return kn_model_load_tensors(model, &from, states, params, loaded);
}
