/* The public functions of koine/safetensors.h, on top of the formats module. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <koine/safetensors.h>

#include "data/array_copy.h"

struct kn_safetensors_file {
    kn_host host;
    kn_error error;
    kn_safetensors file;
};

kn_safetensors_file *kn_safetensors_file_open(const char *path, const kn_allocator *allocator) {
    kn_host host = kn_host_with(allocator);
    kn_safetensors_file *file = kn_allocate(&host, 1, sizeof *file);
    if (!file) return NULL;
    file->host = host;
    if (!path)
        kn_fail(&file->error, KN_ERROR_ARGUMENT, "the path of a safetensors file is NULL");
    else
        kn_safetensors_open(&file->host, path, &file->file, &file->error);
    return file;
}

void kn_safetensors_file_destroy(kn_safetensors_file **file) {
    if (!file || !*file) return;
    kn_host host = (*file)->host;
    if ((*file)->error.status == KN_OK) kn_safetensors_close(&(*file)->host, &(*file)->file);
    kn_release(&host, *file);
    *file = NULL;
}

kn_status kn_safetensors_file_status(const kn_safetensors_file *file) {
    return file ? file->error.status : KN_ERROR_MEMORY;
}

const char *kn_safetensors_file_error(const kn_safetensors_file *file) {
    return file ? file->error.text : "out of host memory";
}

size_t kn_safetensors_file_count(const kn_safetensors_file *file) {
    return kn_safetensors_file_status(file) == KN_OK ? file->file.count : 0;
}

static void describe(const kn_array *array, kn_tensor_info *info) {
    if (!info) return;
    *info = (kn_tensor_info){.dtype = array->type, .rank = array->rank};
    memcpy(info->shape, array->shape, sizeof info->shape);
}

const char *kn_safetensors_file_at(const kn_safetensors_file *file, size_t position, kn_tensor_info *info) {
    if (position >= kn_safetensors_file_count(file)) return NULL;
    describe(&file->file.tensors[position].array, info);
    return file->file.tensors[position].name;
}

static const kn_safetensor *find(const kn_safetensors_file *file, const char *name) {
    return kn_safetensors_file_status(file) == KN_OK && name ? kn_safetensors_find(&file->file, name) : NULL;
}

bool kn_safetensors_file_info(const kn_safetensors_file *file, const char *name, kn_tensor_info *info) {
    const kn_safetensor *tensor = find(file, name);
    if (tensor) describe(&tensor->array, info);
    return tensor != NULL;
}

const char *kn_safetensors_file_metadata(const kn_safetensors_file *file, const char *key) {
    return key && kn_safetensors_file_status(file) == KN_OK ? kn_safetensors_metadata(&file->file, key)
                                                            : NULL;
}

kn_status kn_safetensors_file_copy(const kn_safetensors_file *file, const char *name, kn_dtype dtype,
                                   void *data, size_t bytes) {
    if (kn_safetensors_file_status(file) != KN_OK) return kn_safetensors_file_status(file);
    if (!name) return KN_ERROR_ARGUMENT;
    const kn_safetensor *tensor = find(file, name);
    return tensor ? kn_array_copy(&tensor->array, dtype, data, bytes) : KN_ERROR_NOT_FOUND;
}

/* Writes checked tensors; `list` has room for `count` entries. */
static kn_status save(const kn_host *host, const char *path, const kn_named_tensor *tensors, size_t count,
                      kn_safetensor *list, kn_error *error) {
    for (size_t i = 0; i < count; i++) {
        kn_array *array = &list[i].array;
        if (!tensors[i].name)
            return kn_fail(error, KN_ERROR_ARGUMENT, "%s: the name of tensor %zu is NULL", path, i);
        list[i].name = tensors[i].name;
        *array =
            (kn_array){.type = tensors[i].info.dtype, .rank = tensors[i].info.rank, .bytes = tensors[i].data};
        memcpy(array->shape, tensors[i].info.shape, sizeof array->shape);
        if (!kn_array_measure(array))
            return kn_fail(error, KN_ERROR_ARGUMENT, "%s: the shape of tensor \"%s\" is invalid", path,
                           tensors[i].name);
        if (!tensors[i].data && array->byte_count > 0)
            return kn_fail(error, KN_ERROR_ARGUMENT, "%s: the data of tensor \"%s\" is NULL", path,
                           tensors[i].name);
    }
    return kn_safetensors_write(host, path, list, count, NULL, 0, error);
}

kn_status kn_safetensors_file_save(const char *path, const kn_named_tensor *tensors, size_t count,
                                   char *message, size_t size) {
    kn_host host = kn_host_defaults();
    kn_error error = {.status = KN_OK};
    kn_safetensor *list = NULL;
    kn_status status = KN_OK;
    if (!path || (!tensors && count > 0))
        status = kn_fail(&error, KN_ERROR_ARGUMENT, "kn_safetensors_file_save: %s is NULL",
                         path ? "tensors" : "the path");
    else if (!(list = kn_allocate(&host, count > 0 ? count : 1, sizeof *list)))
        status = kn_fail_memory(&error, count * sizeof *list);
    else
        status = save(&host, path, tensors, count, list, &error);
    kn_release(&host, list);
    if (message && size > 0) snprintf(message, size, "%s", error.text);
    return status;
}
