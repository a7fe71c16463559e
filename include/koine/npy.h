/* Arrays in .npy files, the format of numpy.save.
 *
 *     kn_npy_file *file = kn_npy_file_open("x.npy", NULL);
 *     if (kn_npy_file_copy(file, KN_FLOAT32, x, sizeof x) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_npy_file_error(file));
 *     kn_npy_file_destroy(&file);
 *
 * Thread-safety: a file belongs to one thread at a time. */
#ifndef KOINE_NPY_H
#define KOINE_NPY_H

#include <koine/host.h>
#include <koine/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_npy_file kn_npy_file;

/* Reads a file. allocator NULL: the C library's. Returns NULL only when out of memory, otherwise a handle
 * that may carry an error. The caller destroys it. */
KN_API KN_NODISCARD kn_npy_file *kn_npy_file_open(const char *path, const kn_allocator *allocator);
KN_API void kn_npy_file_destroy(kn_npy_file **file);
KN_API kn_status kn_npy_file_status(const kn_npy_file *file);
KN_API const char *kn_npy_file_error(const kn_npy_file *file);
/* Element type and shape. False, and *info is unchanged, for a failed file. */
KN_API bool kn_npy_file_info(const kn_npy_file *file, kn_tensor_info *info);
/* Copies the elements, row-major, converted to dtype; `bytes` must be exactly their size. Conversions to
 * integers round to nearest and saturate. */
KN_API kn_status kn_npy_file_copy(const kn_npy_file *file, kn_dtype dtype, void *data, size_t bytes);

/* Writes an array, row-major, atomically: the whole file or nothing. An error is written to `message`,
 * truncated to `size` bytes. */
KN_API KN_NODISCARD kn_status kn_npy_file_save(const char *path, const kn_tensor_info *info, const void *data,
                                               char *message, size_t size);

#ifdef __cplusplus
}
#endif
#endif
