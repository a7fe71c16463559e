/* npy files for users of the library: koine/npy.h on top of the formats room. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <koine/npy.h>

#include "formats/formats.h"

struct kn_npy_file {
    kn_host host;
    kn_error error;
    kn_array_file file;
};

kn_npy_file *kn_npy_file_open(const char *path, const kn_allocator *allocator) {
    kn_host host = kn_host_defaults();
    if (allocator && allocator->resize) host.allocator = *allocator;
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
    if (kn_npy_file_status(file) != KN_OK) return false;
    const kn_array *array = &file->file.array;
    *info = (kn_tensor_info){.dtype = array->type, .rank = array->rank};
    memcpy(info->shape, array->shape, sizeof info->shape);
    return true;
}

/* A number as an integer within a range; NaN becomes 0. */
static int64_t whole(double number, double low, double high) {
    if (!(number >= low)) return isnan(number) ? 0 : (int64_t)low;
    return number >= high ? (int64_t)high : (int64_t)nearbyint(number);
}

static bool set_element(kn_dtype dtype, void *data, uint64_t i, double number) {
    switch (dtype) {
    case KN_FLOAT32:
        ((float *)data)[i] = (float)number;
        return true;
    case KN_FLOAT64:
        ((double *)data)[i] = number;
        return true;
    case KN_INT32:
        ((int32_t *)data)[i] = (int32_t)whole(number, INT32_MIN, INT32_MAX);
        return true;
    case KN_INT64:
        ((int64_t *)data)[i] = whole(number, -0x1p62, 0x1p62);
        return true;
    case KN_UINT32:
        ((uint32_t *)data)[i] = (uint32_t)whole(number, 0, UINT32_MAX);
        return true;
    case KN_UINT8:
        ((uint8_t *)data)[i] = (uint8_t)whole(number, 0, 255);
        return true;
    case KN_BOOL:
        ((uint8_t *)data)[i] = number != 0;
        return true;
    default:
        return false;
    }
}

kn_status kn_npy_file_copy(const kn_npy_file *file, kn_dtype dtype, void *data, size_t bytes) {
    if (kn_npy_file_status(file) != KN_OK) return kn_npy_file_status(file);
    const kn_array *array = &file->file.array;
    size_t size = kn_array_type_bytes(dtype);
    if (size == 0 || bytes / size != array->count || bytes % size || (!data && bytes > 0))
        return KN_ERROR_ARGUMENT;
    if (dtype == array->type) {
        if (bytes) memcpy(data, array->bytes, bytes);
        return KN_OK;
    }
    for (uint64_t i = 0; i < array->count; i++)
        if (!set_element(dtype, data, i, kn_array_number(array, i))) return KN_ERROR_UNSUPPORTED;
    return KN_OK;
}

kn_status kn_npy_file_save(const char *path, const kn_tensor_info *info, const void *data, char *message,
                           size_t room) {
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
        status = kn_fail(&error, KN_ERROR_ARGUMENT, "%s: the shape to be written makes no sense", path);
    else if (!data && array.byte_count > 0)
        status = kn_fail(&error, KN_ERROR_ARGUMENT, "%s: the data to be written is NULL", path);
    else
        status = kn_npy_write(&host, path, &array, &error);
    if (message && room > 0) snprintf(message, room, "%s", error.text);
    return status;
}
