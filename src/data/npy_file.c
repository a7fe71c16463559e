/* The public functions of koine/npy.h, on top of the formats module. */
#include <stdio.h>
#include <string.h>

#include <koine/npy.h>

#include "data/array_copy.h"

struct kn_npy_file {
    kn_host host;
    kn_error error;
    kn_array_file file;
};

kn_npy_file *kn_npy_file_open(const char *path, const kn_allocator *allocator) {
    kn_host host = kn_host_with(allocator);
    kn_npy_file *file = kn_allocate(&host, 1, sizeof *file);
    if (!file) return NULL;
    file->host = host;
    if (!path)
        kn_fail(&file->error, KN_ERROR_ARGUMENT, "the path of an npy file is NULL");
    else
        kn_npy_open(&file->host, path, &file->file, &file->error);
    return file;
}

void kn_npy_file_destroy(kn_npy_file **file) {
    if (!file || !*file) return;
    kn_host host = (*file)->host;
    if ((*file)->error.status == KN_OK) kn_array_file_close(&host, &(*file)->file);
    kn_release(&host, *file);
    *file = NULL;
}

kn_status kn_npy_file_status(const kn_npy_file *file) {
    return file ? file->error.status : KN_ERROR_MEMORY;
}

const char *kn_npy_file_error(const kn_npy_file *file) {
    return file ? file->error.text : "out of host memory";
}

bool kn_npy_file_info(const kn_npy_file *file, kn_tensor_info *info) {
    if (kn_npy_file_status(file) != KN_OK || !info) return false;
    const kn_array *array = &file->file.array;
    *info = (kn_tensor_info){.dtype = array->type, .rank = array->rank};
    memcpy(info->shape, array->shape, sizeof info->shape);
    return true;
}

kn_status kn_npy_file_copy(const kn_npy_file *file, kn_dtype dtype, void *data, size_t bytes) {
    if (kn_npy_file_status(file) != KN_OK) return kn_npy_file_status(file);
    return kn_array_copy(&file->file.array, dtype, data, bytes);
}

kn_status kn_npy_file_save(const char *path, const kn_tensor_info *info, const void *data, char *message,
                           size_t size) {
    kn_host host = kn_host_defaults();
    kn_error error = {.status = KN_OK};
    kn_array array = {.type = KN_FLOAT32};
    if (info) {
        array = (kn_array){.type = info->dtype, .rank = info->rank, .bytes = data};
        memcpy(array.shape, info->shape, sizeof array.shape);
    }
    kn_status status;
    if (!path || !info)
        status = kn_fail(&error, KN_ERROR_ARGUMENT, "kn_npy_file_save: the path or the array's info is NULL");
    else if (!kn_array_measure(&array))
        status = kn_fail(&error, KN_ERROR_ARGUMENT, "%s: the shape to write is invalid", path);
    else if (!data && array.byte_count > 0)
        status = kn_fail(&error, KN_ERROR_ARGUMENT, "%s: the data to write is NULL", path);
    else
        status = kn_npy_write(&host, path, &array, &error);
    if (message && size > 0) snprintf(message, size, "%s", error.text);
    return status;
}
