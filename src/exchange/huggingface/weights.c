/* The safetensors files of a folder, and the tensor of each weight. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

enum { MAX_PARTS = 1000 };

/* ---- files ------------------------------------------------------------------------------------------- */

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
            "the folder '%s' has no weights: expected %s, or "
            "model.safetensors.index.json and its parts; "
            "PyTorch's .bin files must be converted to safetensors",
            path, whole);
    return false;
}

/* The place of a weight's elements. */
struct kn_folder_source {
    kn_folder_change change;
    const kn_array *from;
    int64_t first; /* row, of a vector or matrix, or column, if it is transposed */
    int part;      /* of q, k and v */
};

/* ---- names ------------------------------------------------------------------------------------------- */

/* The row for a part of a name of `length` bytes. */
static const kn_folder_name *find_name(const kn_folder_name *list, const char *own, size_t length) {
    for (; list->own; list++)
        if (strlen(list->own) == length && !memcmp(list->own, own, length)) return list;
    return NULL;
}

const char *kn_folder_name_there(kn_model *model, kn_arena *arena, const kn_folder_names *names,
                                 const char *own, const kn_folder_name **found) {
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
    *found = row;
    const char *made =
        kn_arena_format(arena, "%s%.*s%s%s%s", layer ? names->layer : "", layer ? (int)digits : 0,
                        layer ? layer : "", layer ? "." : "", row->theirs, ending ? ending : "");
    if (!made) kn_model_no_memory(model);
    return made;
}

bool kn_folder_calls(const kn_model *model, bool in_layer, const char *own, const char *theirs) {
    const kn_folder_names *names = ((const kn_folder *)model->origin_data)->names;
    const kn_folder_name *row = find_name(in_layer ? names->layers : names->others, own, strlen(own));
    return row && row->change == KN_FOLDER_SAME && !strcmp(row->theirs, theirs);
}

/* Whether an unused tensor cannot change results. */
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

/* NULL: there is none, or no memory, which is the model's error. */
static const kn_safetensor *find_tensor(kn_model *model, kn_folder *folder, const char *prefix,
                                        const char *name) {
    const char *whole = kn_arena_format(&folder->arena, "%s%s", prefix, name);
    if (!whole) kn_model_no_memory(model);
    return whole ? kn_map_get_text(&folder->by_name, whole) : NULL;
}

/* The prefix with which the file has the first of the other names. */
static const char *find_prefix(kn_model *model, kn_folder *folder, const kn_folder_names *names) {
    const char *first = kn_arena_format(&folder->arena, "%s.weight", names->others->theirs);
    if (!first) kn_model_no_memory(model);
    for (const char *const *prefix = names->prefixes; *prefix && first; prefix++)
        if (find_tensor(model, folder, *prefix, first)) return *prefix;
    return names->prefixes[0];
}

/* ---- weights ----------------------------------------------------------------------------------------- */

static bool add_weight(kn_model *model, kn_folder *folder, const char *name, const kn_array *array,
                       const struct kn_folder_source *source) {
    kn_safetensors *list = &folder->tensors;
    kn_safetensor *item = &list->tensors[list->count];
    item->name = name;
    item->array = *array;
    folder->sources[list->count++] = *source;
    return kn_map_put_text(&list->by_name, name, item) || kn_model_no_memory(model);
}

/* The rows of the weight "blk3.attn_q.weight" for `own` "attn_k" and the name of a weight of the same layer
 * and ending; -1: there is none. */
static int64_t rows_of(kn_model *model, kn_folder *folder, const char *name, const char *own) {
    const char *layer = strncmp(name, "blk", 3) == 0 ? strchr(name, '.') : NULL, *ending = strrchr(name, '.');
    const char *other = kn_arena_format(&folder->arena, "%.*s%s%s", layer ? (int)(layer + 1 - name) : 0, name,
                                        own, ending ? ending : "");
    if (!other) kn_model_no_memory(model);
    const kn_value *value = other ? kn_graph_find(model->graph, other) : NULL;
    return value ? value->shape.dims[0] : -1;
}

/* Sets the first row of a weight in the tensor that it shares with others of its list; all rows of the tensor
 * must be used. */
static bool find_rows(kn_model *model, kn_folder *folder, const kn_folder_name *list,
                      const kn_folder_name *row, const char *name, const kn_safetensor *tensor,
                      struct kn_folder_source *source) {
    const bool turned = row->change == KN_FOLDER_TRANSPOSED && tensor->array.rank == 2;
    const int64_t has = tensor->array.rank ? tensor->array.shape[turned] : 0;
    int64_t all = 0;
    for (; list->own; list++) {
        if (strcmp(list->theirs, row->theirs)) continue;
        const int64_t rows = rows_of(model, folder, name, list->own);
        if (list == row) source->first = all;
        if (list < row) source->part++;
        if (rows < 0) continue;
        all += rows;
    }
    if (all == has || model->error.status != KN_OK) return model->error.status == KN_OK;
    kn_fail(&model->error, KN_ERROR_SHAPE, "%s: tensor '%.100s' has %" PRId64 " rows; expected %" PRId64,
            model->source, tensor->name, has, all);
    return false;
}

/* The array of a weight: a view of the file's bytes, or an array without bytes, which `widen` writes. */
static bool view(kn_model *model, const kn_value *value, const kn_safetensor *tensor,
                 const struct kn_folder_source *source, kn_array *array) {
    *array = tensor->array;
    if (source->change == KN_FOLDER_SAME) return true;
    const bool transposed = source->change == KN_FOLDER_TRANSPOSED && array->rank == 2;
    if (transposed) array->shape[1] = tensor->array.shape[0];
    if (source->change > KN_FOLDER_PLUS_ONE) array->shape[0] = value->shape.dims[0];
    if (source->change == KN_FOLDER_ROWS || (source->change == KN_FOLDER_TRANSPOSED && !transposed)) {
        const uint64_t row = tensor->array.byte_count / (uint64_t)tensor->array.shape[0];
        array->bytes = (const uint8_t *)tensor->array.bytes + (uint64_t)source->first * row;
    } else {
        array->type = KN_FLOAT32;
        array->bytes = NULL;
    }
    return kn_array_measure(array) || kn_model_no_memory(model);
}

static bool add_divisors(kn_model *model, kn_folder *folder, const char *name) {
    const struct kn_folder_source source = {.change = KN_FOLDER_SAME};
    kn_array array = {
        .type = KN_FLOAT32, .rank = 1, .shape = {folder->divisor_count}, .bytes = folder->divisors};
    return kn_array_measure(&array) ? add_weight(model, folder, name, &array, &source)
                                    : kn_model_no_memory(model);
}

/* The tensor of a weight: its row in the lists of names, and its place in the files. */
static const kn_safetensor *tensor_of(kn_model *model, kn_folder *folder, const kn_folder_names *names,
                                      const char *prefix, const char *name, const kn_folder_name **row) {
    const char *theirs = kn_folder_name_there(model, &folder->arena, names, name, row);
    if (!theirs) return NULL;
    const kn_safetensor *tensor = find_tensor(model, folder, prefix, theirs);
    if (!tensor) tensor = kn_map_get_text(&folder->by_name, theirs); /* outside of the prefix: lm_head */
    if (!tensor && model->error.status != KN_OK) return NULL;
    if (!tensor) {
        kn_fail(&model->error, KN_ERROR_NOT_FOUND, "%s: the tensor '%s%s' is missing", model->source, prefix,
                theirs);
        return NULL;
    }
    if (kn_dtype_is_float(tensor->array.type)) return tensor;
    kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
            "%s: tensor '%.100s' has the type %s; expected a floating-point type", model->source,
            tensor->name, kn_array_type_name(tensor->array.type));
    return NULL;
}

static bool list_weight(kn_model *model, kn_folder *folder, const kn_folder_names *names, const char *prefix,
                        const kn_value *value, kn_map *used) {
    const kn_folder_name *row;
    kn_array array;
    if (folder->divisors && !strcmp(value->name, "rope_freqs"))
        return add_divisors(model, folder, value->name);
    const kn_safetensor *tensor = tensor_of(model, folder, names, prefix, value->name, &row);
    if (!tensor) return false;
    struct kn_folder_source source = {.change = row->change, .from = &tensor->array};
    if (row->change == KN_FOLDER_TURNED && !folder->rotated) source.change = KN_FOLDER_ROWS;
    if (source.change > KN_FOLDER_PLUS_ONE &&
        !find_rows(model, folder, names->layers, row, value->name, tensor, &source))
        return false;
    if (!view(model, value, tensor, &source, &array)) return false;
    if (!kn_map_put_text(used, tensor->name, (void *)(uintptr_t)tensor)) return kn_model_no_memory(model);
    return add_weight(model, folder, value->name, &array, &source);
}

/* A tensor without a weight might change the results. */
static bool check_used(kn_model *model, const kn_folder *folder, const kn_folder_names *names,
                       const kn_map *used) {
    for (size_t i = 0; i < folder->part_count; i++)
        for (size_t k = 0; k < folder->parts[i].count; k++) {
            const char *name = folder->parts[i].tensors[k].name;
            if (kn_map_get_text(used, name) || is_ignored(name, names)) continue;
            kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                    "%s: tensor '%.100s' is not used by this architecture: results would be "
                    "wrong without it",
                    model->source, name);
            return false;
        }
    return true;
}

bool kn_folder_list_weights(kn_model *model, kn_folder *folder, const kn_folder_names *names) {
    const kn_graph *graph = model->graph;
    kn_safetensors *list = &folder->tensors;
    kn_map used;
    folder->names = names;
    kn_arena_init(&list->arena, &model->host);
    kn_map_init(&list->by_name, &model->host);
    list->tensors = kn_arena_take(&list->arena, graph->value_count, sizeof *list->tensors);
    folder->sources = kn_arena_take(&list->arena, graph->value_count, sizeof *folder->sources);
    if (!list->tensors || !folder->sources) return kn_model_no_memory(model);
    kn_map_init(&used, &model->host);
    const char *prefix = find_prefix(model, folder, names);
    bool fine = model->error.status == KN_OK;
    for (size_t i = 0; i < graph->value_count && fine; i++)
        if (kn_model_is_weight(graph->values[i]))
            fine = list_weight(model, folder, names, prefix, graph->values[i], &used);
    fine = fine && check_used(model, folder, names, &used);
    kn_map_finish(&used);
    return fine;
}

kn_dtype kn_folder_type(const kn_model *model, const char *name) {
    const kn_folder *folder = model->origin_data;
    const kn_safetensor *tensor = kn_safetensors_find(&folder->tensors, name);
    const kn_array *from = tensor ? folder->sources[tensor - folder->tensors.tensors].from : NULL;
    return from ? from->type : KN_FLOAT32;
}

/* ---- loading ----------------------------------------------------------------------------------------- */

/* Maps a row of a head in the text model to the row in the file. The text model rotates pairs of rows that
 * are half a head apart. The file has the rotated rows first, in pairs that are half of these rows apart, and
 * then the others. */
static int64_t turned_row(const kn_folder *folder, int64_t row) {
    const int64_t rotated = folder->rotated ? folder->rotated : folder->head, half = folder->head / 2;
    const bool second = row >= half;
    const int64_t pair = row % half;
    if (pair < rotated / 2) return second * (rotated / 2) + pair;
    return rotated + second * (half - rotated / 2) + pair - rotated / 2;
}

/* The row of the tensor for a row of the weight. */
static int64_t row_in_file(const kn_folder *folder, const struct kn_folder_source *source, int64_t row) {
    const int64_t size = folder->head;
    if (source->change == KN_FOLDER_TURNED)
        return source->first + row / size * size + turned_row(folder, row % size);
    if (source->change != KN_FOLDER_BY_HEAD) return source->first + row;
    return (3 * (row / size) + source->part) * size +
           (source->part < 2 ? turned_row(folder, row % size) : row % size);
}

/* The factor of a row of the weight. */
static double factor_of(const kn_folder *folder, const struct kn_folder_source *source, int64_t row) {
    const bool turned =
        source->change == KN_FOLDER_TURNED || (source->change == KN_FOLDER_BY_HEAD && source->part < 2);
    return turned && folder->rotated && turned_row(folder, row % folder->head) < folder->rotated
               ? folder->factor
               : 1;
}

const kn_array *kn_folder_source(const kn_folder *folder, size_t index) {
    return folder->sources[index].from;
}

int64_t kn_folder_rows(const kn_folder *folder, size_t index, int64_t *columns) {
    const kn_array *array = &folder->tensors.tensors[index].array;
    const int64_t rows = array->rank ? array->shape[0] : 1;
    *columns = rows ? (int64_t)array->count / rows : 0;
    return rows;
}

kn_folder_row kn_folder_row_at(const kn_folder *folder, size_t index, int64_t row, int64_t columns) {
    const struct kn_folder_source *source = &folder->sources[index];
    const int64_t theirs = row_in_file(folder, source, row);
    const bool transposed = source->change == KN_FOLDER_TRANSPOSED && source->from->rank == 2;
    return (kn_folder_row){.first = (uint64_t)(transposed ? theirs : theirs * columns),
                           .step = transposed ? (uint64_t)source->from->shape[1] : 1,
                           .factor = factor_of(folder, source, row),
                           .more = source->change == KN_FOLDER_PLUS_ONE};
}

/* Writes a weight whose layout in the file differs from the text's. */
static void widen(void *user, const kn_safetensor *tensor, void *to) {
    const kn_folder *folder = user;
    const size_t index = (size_t)(tensor - folder->tensors.tensors);
    const kn_array *from = folder->sources[index].from;
    float *numbers = to;
    int64_t columns;
    const int64_t rows = kn_folder_rows(folder, index, &columns);
    for (int64_t r = 0; r < rows; r++) {
        const kn_folder_row row = kn_folder_row_at(folder, index, r, columns);
        for (uint64_t i = 0; i < (uint64_t)columns; i++)
            *numbers++ = (float)(row.more + row.factor * kn_array_number(from, row.first + i * row.step));
    }
}

kn_status kn_folder_load(kn_model *model, const char *path, kn_states *states,
                         const kn_model_load_params *params, int *loaded) {
    const kn_folder *folder = model->origin_data;
    if (path) return kn_model_load_file(model, path, states, params, loaded);
    const kn_tensors_from from = {.file = &folder->tensors,
                                  .path = model->source,
                                  .owned = true,
                                  .complete = true,
                                  .widen = widen,
                                  .user = (void *)(uintptr_t)folder};
    return kn_model_load_tensors(model, &from, states, params, loaded);
}
