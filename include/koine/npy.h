/* Arrays in npy files, the format of numpy.save.
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

/* Reads a file. allocator NULL: the C library's. NULL only when out of memory, otherwise a handle that may
 * carry an error. The caller destroys it. */
KN_API kn_npy_file *kn_npy_file_open(const char *path, const kn_allocator *allocator);
KN_API void kn_npy_file_destroy(kn_npy_file **file);
KN_API kn_status kn_npy_file_status(const kn_npy_file *file);
KN_API const char *kn_npy_file_error(const kn_npy_file *file);
/* Type and shape. False, with nothing written, for a failed file. */
KN_API bool kn_npy_file_info(const kn_npy_file *file, kn_tensor_info *info);
/* Copies the elements, row-major, as another type: `bytes` must be just their room. Numbers are rounded to
 * nearest for integers and cut to their range. */
KN_API kn_status kn_npy_file_copy(const kn_npy_file *file, kn_dtype dtype, void *data, size_t bytes);

/* Writes an array, row-major, whole or not at all. What is wrong is written to `message`, cut off at `room`.
 */
KN_API kn_status kn_npy_file_save(const char *path, const kn_tensor_info *info, const void *data,
                                  char *message, size_t room);

#ifdef __cplusplus
}
#endif
#endif
