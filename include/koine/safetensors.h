/* Named arrays in safetensors files, to exchange weights, inputs or results between programs. For a model's
 * own files see kn_model_save and kn_model_load (koine/model.h).
 *
 *     kn_safetensors_file *file = kn_safetensors_file_open("weights.safetensors", NULL);
 *     for (size_t i = 0; i < kn_safetensors_file_count(file); i++)
 *         puts(kn_safetensors_file_at(file, i, NULL));
 *     kn_safetensors_file_destroy(&file);
 *
 * Thread-safety: a file belongs to one thread at a time. */
#ifndef KOINE_SAFETENSORS_H
#define KOINE_SAFETENSORS_H

#include <koine/host.h>
#include <koine/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_safetensors_file kn_safetensors_file;

/* Opens a file for reading. allocator NULL: the C library's. Returns NULL only when out of memory, otherwise
 * a handle that may carry an error. The caller destroys it. */
KN_API KN_NODISCARD kn_safetensors_file *kn_safetensors_file_open(const char *path,
                                                                  const kn_allocator *allocator);
KN_API void kn_safetensors_file_destroy(kn_safetensors_file **file);
KN_API kn_status kn_safetensors_file_status(const kn_safetensors_file *file);
KN_API const char *kn_safetensors_file_error(const kn_safetensors_file *file);
/* Number of tensors; 0 for a failed file. */
KN_API size_t kn_safetensors_file_count(const kn_safetensors_file *file);
/* Name, element type and shape of the tensor at `position`, in file order, or NULL; the string lives as long
 * as the file. info may be NULL. */
KN_API const char *kn_safetensors_file_at(const kn_safetensors_file *file, size_t position,
                                          kn_tensor_info *info);
/* Element type and shape of a tensor by name. False, and *info is unchanged, if there is none. info may be
 * NULL. */
KN_API bool kn_safetensors_file_info(const kn_safetensors_file *file, const char *name, kn_tensor_info *info);
/* The metadata value of a key, or NULL; it lives as long as the file. */
KN_API const char *kn_safetensors_file_metadata(const kn_safetensors_file *file, const char *key);
/* Copies a tensor's elements, row-major, converted to dtype; `bytes` must be exactly their size. Conversions
 * to integers round to nearest and saturate. KN_ERROR_NOT_FOUND if there is no such tensor. */
KN_API kn_status kn_safetensors_file_copy(const kn_safetensors_file *file, const char *name, kn_dtype dtype,
                                          void *data, size_t bytes);

/* A tensor to write: row-major and contiguous. */
typedef struct kn_named_tensor {
    const char *name;
    kn_tensor_info info;
    const void *data;
} kn_named_tensor;

/* Writes tensors atomically: the whole file or nothing. An error is written to `message`, truncated to `room`
 * bytes. */
KN_API KN_NODISCARD kn_status kn_safetensors_file_save(const char *path, const kn_named_tensor *tensors,
                                                       size_t count, char *message, size_t size);

#ifdef __cplusplus
}
#endif
#endif
