/* The public functions of koine/onnx.h, on top of the formats module. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <koine/onnx.h>

#include "data/array_copy.h"

/* ---- models ------------------------------------------------------------------------------ */

struct kn_onnx_file {
    kn_host host;
    kn_error error;
    kn_onnx_model model;
    const kn_onnx_value_info **inputs; /* inputs without an initializer */
    int input_count;
};

/* Before IR version 4, all initializers were inputs, too. */
static void find_inputs(kn_onnx_file *file) {
    const kn_onnx_graph *graph = &file->model.graph;
    file->inputs = kn_arena_take(&file->model.arena, graph->input_count, sizeof(void *));
    kn_map given;
    kn_map_init(&given, &file->host);
    bool fine = file->inputs != NULL;
    for (size_t i = 0; i < graph->initializer_count && fine; i++)
        fine = kn_map_put_text(&given, graph->initializers[i].name, file);
    for (size_t i = 0; i < graph->sparse_initializer_count && fine; i++)
        fine = kn_map_put_text(&given, graph->sparse_initializers[i].values.name, file);
    for (size_t i = 0; i < graph->input_count && fine; i++)
        if (!kn_map_get_text(&given, graph->inputs[i].name))
            file->inputs[file->input_count++] = &graph->inputs[i];
    kn_map_finish(&given);
    if (fine) return;
    kn_fail_memory(&file->error, graph->input_count * sizeof(void *));
    kn_onnx_close(&file->host, &file->model);
    file->input_count = 0;
}

static kn_onnx_file *file_new(const kn_allocator *allocator) {
    kn_host host = kn_host_with(allocator);
    kn_onnx_file *file = kn_allocate(&host, 1, sizeof *file);
    if (file) file->host = host;
    return file;
}

kn_onnx_file *kn_onnx_file_open(const char *path, const kn_allocator *allocator) {
    kn_onnx_file *file = file_new(allocator);
    if (!file) return NULL;
    if (!path)
        kn_fail(&file->error, KN_ERROR_ARGUMENT, "the path of an ONNX file is NULL");
    else if (kn_onnx_open(&file->host, path, &file->model, &file->error) == KN_OK)
        find_inputs(file);
    return file;
}

kn_onnx_file *kn_onnx_file_open_memory(const void *bytes, size_t count, const char *folder,
                                       const kn_allocator *allocator) {
    kn_onnx_file *file = file_new(allocator);
    if (!file) return NULL;
    if (!bytes)
        kn_fail(&file->error, KN_ERROR_ARGUMENT, "the bytes of an ONNX file are NULL");
    else if (kn_onnx_read(&file->host, "ONNX file in memory", bytes, count, folder, &file->model,
                          &file->error) == KN_OK)
        find_inputs(file);
    return file;
}

void kn_onnx_file_destroy(kn_onnx_file **file) {
    if (!file || !*file) return;
    kn_host host = (*file)->host;
    kn_onnx_close(&(*file)->host, &(*file)->model);
    kn_release(&host, *file);
    *file = NULL;
}

kn_status kn_onnx_file_status(const kn_onnx_file *file) {
    return file ? file->error.status : KN_ERROR_MEMORY;
}

const char *kn_onnx_file_error(const kn_onnx_file *file) {
    return file ? file->error.text : "out of host memory";
}

/* NULL past the last. */
static const kn_onnx_value_info *input_of(const kn_onnx_file *file, size_t position) {
    return position < kn_onnx_file_input_count(file) ? file->inputs[position] : NULL;
}

static const kn_onnx_value_info *output_of(const kn_onnx_file *file, size_t position) {
    return position < kn_onnx_file_output_count(file) ? &file->model.graph.outputs[position] : NULL;
}

static const char *type_text(const kn_onnx_value_type *type) {
    return type->kind == KN_ONNX_TENSOR ? kn_onnx_type_name(type->type) : kn_onnx_kind_name(type->kind);
}

static const char *describe(const kn_onnx_value_info *info, const char **type) {
    if (!info) return NULL;
    if (type) *type = type_text(&info->type);
    return info->name;
}

static const char *describe_inner(const kn_onnx_value_info *info) {
    const bool list = info && (info->type.kind == KN_ONNX_SEQUENCE || info->type.kind == KN_ONNX_OPTIONAL);
    if (!list) return NULL;
    return info->type.inner ? type_text(info->type.inner) : kn_onnx_kind_name(KN_ONNX_NO_KIND);
}

static int rank_of(const kn_onnx_value_info *info) {
    if (!info || info->type.kind != KN_ONNX_TENSOR || !info->type.has_shape) return -1;
    return info->type.rank > INT_MAX ? -1 : (int)info->type.rank;
}

static int64_t size_of(const kn_onnx_value_info *info, int axis, const char **symbol) {
    if (symbol) *symbol = "";
    if (axis < 0 || axis >= rank_of(info)) return -1;
    const kn_onnx_dimension *dimension = &info->type.shape[axis];
    if (dimension->known && dimension->length >= 0) return dimension->length;
    if (symbol && !dimension->known) *symbol = dimension->name;
    return -1;
}

size_t kn_onnx_file_input_count(const kn_onnx_file *file) {
    return file ? (size_t)file->input_count : 0;
}

const char *kn_onnx_file_input_at(const kn_onnx_file *file, size_t position, const char **type) {
    return describe(input_of(file, position), type);
}

const char *kn_onnx_file_input_inner_at(const kn_onnx_file *file, size_t position) {
    return describe_inner(input_of(file, position));
}

int kn_onnx_file_input_rank_at(const kn_onnx_file *file, size_t position) {
    return rank_of(input_of(file, position));
}

int64_t kn_onnx_file_input_size_at(const kn_onnx_file *file, size_t position, int axis, const char **symbol) {
    return size_of(input_of(file, position), axis, symbol);
}

size_t kn_onnx_file_output_count(const kn_onnx_file *file) {
    return file ? file->model.graph.output_count : 0;
}

const char *kn_onnx_file_output_at(const kn_onnx_file *file, size_t position, const char **type) {
    return describe(output_of(file, position), type);
}

const char *kn_onnx_file_output_inner_at(const kn_onnx_file *file, size_t position) {
    return describe_inner(output_of(file, position));
}

int kn_onnx_file_output_rank_at(const kn_onnx_file *file, size_t position) {
    return rank_of(output_of(file, position));
}

int64_t kn_onnx_file_output_size_at(const kn_onnx_file *file, size_t position, int axis,
                                    const char **symbol) {
    return size_of(output_of(file, position), axis, symbol);
}

const char *kn_onnx_file_metadata_at(const kn_onnx_file *file, size_t position, const char **value) {
    if (!file || position >= file->model.metadata_count) return NULL;
    if (value) *value = file->model.metadata[position].value;
    return file->model.metadata[position].key;
}

bool kn_onnx_file_about(const kn_onnx_file *file, kn_onnx_about *about) {
    if (kn_onnx_file_status(file) != KN_OK || !about) return false;
    const kn_onnx_model *model = &file->model;
    const kn_onnx_about found = {.producer = model->producer,
                                 .domain = model->domain,
                                 .description = model->doc,
                                 .graph_name = model->graph.name,
                                 .graph_description = model->graph.doc,
                                 .version = model->version};
    return kn_result_give(about, &found, sizeof found) == KN_OK;
}

/* ---- tensors ------------------------------------------------------------------------------ */

struct kn_onnx_tensor_file {
    kn_host host;
    kn_error error;
    kn_onnx_value_file value;
    kn_array array;
    const kn_onnx_tensor *tensor; /* in the value */
    const char **texts;           /* of strings */
};

/* Copies strings, which the file does not terminate, into the file's arena. */
static kn_status take_texts(kn_onnx_tensor_file *file, const kn_onnx_tensor *tensor) {
    kn_arena *arena = &file->value.arena;
    if (tensor->rank > KN_MAX_RANK)
        return kn_fail(&file->error, KN_ERROR_UNSUPPORTED, "has %zu dimensions; at most %d are supported",
                       tensor->rank, KN_MAX_RANK);
    file->array = (kn_array){.type = KN_INT64, .rank = (int)tensor->rank};
    if (tensor->rank) memcpy(file->array.shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    file->texts = kn_arena_take(arena, (size_t)tensor->count + 1, sizeof *file->texts);
    for (uint64_t i = 0; file->texts && i < tensor->count; i++) {
        char *copy = kn_arena_take(arena, tensor->strings[i].count + 1, 1);
        if (!copy) return kn_fail_memory(&file->error, tensor->strings[i].count);
        if (tensor->strings[i].count && memchr(tensor->strings[i].bytes, 0, tensor->strings[i].count))
            return kn_fail(&file->error, KN_ERROR_UNSUPPORTED, "element %llu is a string with a zero byte",
                           (unsigned long long)i);
        if (tensor->strings[i].count) memcpy(copy, tensor->strings[i].bytes, tensor->strings[i].count);
        copy[tensor->strings[i].count] = 0;
        file->texts[i] = copy;
    }
    return file->texts ? KN_OK : kn_fail_memory(&file->error, (size_t)tensor->count);
}

static kn_status take_elements(kn_onnx_tensor_file *file, const kn_onnx_tensor *tensor) {
    file->tensor = tensor;
    if (tensor->type == KN_ONNX_STRING) return take_texts(file, tensor);
    return kn_onnx_tensor_array(&file->host, tensor, &file->array, &file->error);
}

/* The tensor at a position among those in a value, from which *position is counted down. */
static const kn_onnx_tensor *find_tensor(const kn_onnx_value *value, size_t *position) {
    if (value->kind == KN_ONNX_TENSOR) return (*position)-- == 0 ? value->tensor : NULL;
    const kn_onnx_tensor *found = NULL;
    for (size_t i = 0; !found && i < value->count; i++)
        found = find_tensor(&value->items[i], position);
    return found;
}

static kn_onnx_tensor_file *open_tensor(const char *path, kn_onnx_kind kind, size_t position,
                                        const kn_allocator *allocator) {
    kn_host host = kn_host_with(allocator);
    kn_onnx_tensor_file *file = kn_allocate(&host, 1, sizeof *file);
    if (!file) return NULL;
    file->host = host;
    if (!path) {
        kn_fail(&file->error, KN_ERROR_ARGUMENT, "the path of a tensor file is NULL");
    } else if (kn_onnx_value_open(&file->host, path, kind, &file->value, &file->error) == KN_OK) {
        const kn_onnx_tensor *tensor = find_tensor(&file->value.value, &position);
        if (!tensor)
            kn_fail(&file->error, KN_ERROR_NOT_FOUND, "%s: has fewer tensors", path);
        else if (take_elements(file, tensor) != KN_OK)
            kn_fail_in(&file->error, "%s", path);
    }
    return file;
}

kn_onnx_tensor_file *kn_onnx_tensor_file_open(const char *path, const kn_allocator *allocator) {
    return open_tensor(path, KN_ONNX_TENSOR, 0, allocator);
}

kn_onnx_tensor_file *kn_onnx_tensor_file_open_at(const char *path, bool optional, size_t position,
                                                 const kn_allocator *allocator) {
    return open_tensor(path, optional ? KN_ONNX_OPTIONAL : KN_ONNX_SEQUENCE, position, allocator);
}

void kn_onnx_tensor_file_destroy(kn_onnx_tensor_file **file) {
    if (!file || !*file) return;
    kn_host host = (*file)->host;
    kn_array_finish(&(*file)->host, &(*file)->array);
    kn_onnx_value_close(&(*file)->host, &(*file)->value);
    kn_release(&host, *file);
    *file = NULL;
}

kn_status kn_onnx_tensor_file_status(const kn_onnx_tensor_file *file) {
    return file ? file->error.status : KN_ERROR_MEMORY;
}

const char *kn_onnx_tensor_file_error(const kn_onnx_tensor_file *file) {
    return file ? file->error.text : "out of host memory";
}

const char *kn_onnx_tensor_file_name(const kn_onnx_tensor_file *file) {
    return kn_onnx_tensor_file_status(file) == KN_OK ? file->value.value.name : "";
}

bool kn_onnx_tensor_file_info(const kn_onnx_tensor_file *file, kn_tensor_info *info) {
    if (kn_onnx_tensor_file_status(file) != KN_OK || !info) return false;
    *info = (kn_tensor_info){.dtype = file->array.type, .rank = file->array.rank};
    memcpy(info->shape, file->array.shape, sizeof info->shape);
    return true;
}

const char *kn_onnx_tensor_file_text_at(const kn_onnx_tensor_file *file, uint64_t position) {
    if (kn_onnx_tensor_file_status(file) != KN_OK || !file->texts) return NULL;
    return position < file->tensor->count ? file->texts[position] : NULL;
}

kn_status kn_onnx_tensor_file_copy(const kn_onnx_tensor_file *file, kn_dtype dtype, void *data,
                                   size_t bytes) {
    if (kn_onnx_tensor_file_status(file) != KN_OK) return kn_onnx_tensor_file_status(file);
    return file->texts ? KN_ERROR_UNSUPPORTED : kn_array_copy(&file->array, dtype, data, bytes);
}

kn_status kn_onnx_tensor_file_save(const char *path, const char *name, const kn_tensor_info *info,
                                   const void *data, char *message, size_t size) {
    kn_host host = kn_host_defaults();
    kn_error error = {.status = KN_OK};
    kn_status status;
    kn_onnx_tensor tensor = {.name = name};
    if (!path || !info || info->rank < 0 || info->rank > KN_MAX_RANK) {
        status = kn_fail(&error, KN_ERROR_ARGUMENT,
                         "kn_onnx_tensor_file_save: the path or the info is NULL, or the rank is invalid");
    } else {
        tensor.type = kn_onnx_type_from(info->dtype);
        tensor.rank = (size_t)info->rank;
        tensor.shape = info->shape;
        tensor.bytes = data;
        kn_onnx_value value = {.kind = KN_ONNX_TENSOR, .tensor = &tensor};
        kn_array sized = {.type = info->dtype, .rank = info->rank};
        memcpy(sized.shape, info->shape, sizeof sized.shape);
        /* Two elements per byte, in a copy. */
        bool packs = info->dtype == KN_FLOAT4E2M1 && kn_array_measure(&sized) && sized.count > 0;
        void *packed = packs ? kn_allocate(&host, (size_t)sized.count, 1) : NULL;
        if (packed) {
            memcpy(packed, data, (size_t)sized.count);
            kn_onnx_pack(info->dtype, packed, sized.count);
            tensor.bytes = packed;
        }
        status = packs && !packed ? kn_fail_memory(&error, (size_t)sized.count)
                                  : kn_onnx_value_write(&host, path, &value, &error);
        kn_release(&host, packed);
    }
    if (message && size > 0) snprintf(message, size, "%s", error.text);
    return status;
}
