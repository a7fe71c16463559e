/* ONNX's files: what a model reads and gives, and tensors in files of their own (.pb), as ONNX's tests have
 * them. kn_model_open (koine/model.h) makes a model of an ONNX file.
 *
 * Thread-safety: a file belongs to one thread at a time. */
#ifndef KOINE_ONNX_H
#define KOINE_ONNX_H

#include <koine/host.h>
#include <koine/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models ------------------------------------------------------------------------------ */

typedef struct kn_onnx_file kn_onnx_file;

/* Reads what a model says about itself, whether or not Koine has its operators. allocator NULL: the C
 * library's. NULL only when out of memory, otherwise a handle that may carry an error. The caller destroys
 * it. */
KN_API kn_onnx_file *kn_onnx_file_open(const char *path, const kn_allocator *allocator);
KN_API void kn_onnx_file_destroy(kn_onnx_file **file);
KN_API kn_status kn_onnx_file_status(const kn_onnx_file *file);
KN_API const char *kn_onnx_file_error(const kn_onnx_file *file);
/* The inputs that must be given: those for which the file has a tensor are left out. 0 for a failed file. */
KN_API int kn_onnx_file_input_count(const kn_onnx_file *file);
/* The name of an input, or NULL beyond the last. *type, if type is not NULL, becomes the type of a tensor's
 * elements
 * ("float32"), or words for what is no tensor ("a sequence"). Texts live as long as the file. */
KN_API const char *kn_onnx_file_input(const kn_onnx_file *file, int position, const char **type);
KN_API int kn_onnx_file_output_count(const kn_onnx_file *file);
KN_API const char *kn_onnx_file_output(const kn_onnx_file *file, int position, const char **type);

/* ---- tensors ------------------------------------------------------------------------------ */

typedef struct kn_onnx_tensor_file kn_onnx_tensor_file;

/* Reads a tensor; whole numbers of 4 and 2 bits come as int8 or uint8. KN_ERROR_UNSUPPORTED where its type is
 * none of Koine's. Otherwise as kn_onnx_file_open. */
KN_API kn_onnx_tensor_file *kn_onnx_tensor_file_open(const char *path, const kn_allocator *allocator);
KN_API void kn_onnx_tensor_file_destroy(kn_onnx_tensor_file **file);
KN_API kn_status kn_onnx_tensor_file_status(const kn_onnx_tensor_file *file);
KN_API const char *kn_onnx_tensor_file_error(const kn_onnx_tensor_file *file);
/* The name that the file gives the tensor; "" if none. */
KN_API const char *kn_onnx_tensor_file_name(const kn_onnx_tensor_file *file);
/* Type and shape. False, with nothing written, for a failed file. */
KN_API bool kn_onnx_tensor_file_info(const kn_onnx_tensor_file *file, kn_tensor_info *info);
/* Copies the elements, row-major, as another type: `bytes` must be just their room. Numbers are rounded to
 * nearest for integers and cut to their range. */
KN_API kn_status kn_onnx_tensor_file_copy(const kn_onnx_tensor_file *file, kn_dtype dtype, void *data,
                                          size_t bytes);
/* Writes a tensor, row-major, whole or not at all. name NULL: none. What is wrong is written to `message`,
 * cut off at `room`. */
KN_API kn_status kn_onnx_tensor_file_save(const char *path, const char *name, const kn_tensor_info *info,
                                          const void *data, char *message, size_t room);

#ifdef __cplusplus
}
#endif
#endif
