/* ONNX files: the inputs, outputs and metadata of a model, and tensors in separate files (.pb), as in ONNX's
 * test data. kn_model_open and kn_model_open_memory (koine/model.h) load a model from an ONNX file.
 *
 *     kn_onnx_file *file = kn_onnx_file_open("model.onnx", NULL);
 *     for (size_t i = 0; i < kn_onnx_file_input_count(file); i++) {
 *         const char *type = NULL, *name = kn_onnx_file_input_at(file, i, &type);
 *         printf("%s: %s\n", name, type);
 *     }
 *     kn_onnx_file_destroy(&file);
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

/* Reads what a model declares, whether or not Koine supports its operators. allocator NULL: the C
 * library's. Returns NULL only when out of memory, otherwise a handle that may carry an error. The caller
 * destroys it. */
KN_API KN_NODISCARD kn_onnx_file *kn_onnx_file_open(const char *path, const kn_allocator *allocator);
/* The same for a file in memory, which must stay unchanged until the handle is destroyed. `folder` is the
 * folder of its external data; NULL: a file with external data is refused. */
KN_API KN_NODISCARD kn_onnx_file *kn_onnx_file_open_memory(const void *bytes, size_t count,
                                                           const char *folder, const kn_allocator *allocator);
KN_API void kn_onnx_file_destroy(kn_onnx_file **file);
KN_API kn_status kn_onnx_file_status(const kn_onnx_file *file);
KN_API const char *kn_onnx_file_error(const kn_onnx_file *file);
/* The inputs that the caller must provide; inputs with an initializer in the file are not among them. 0 for a
 * failed file. */
KN_API size_t kn_onnx_file_input_count(const kn_onnx_file *file);
/* The name of an input, or NULL past the last. *type, if type is not NULL, is set to the element type of a
 * tensor ("float32") or to a description of what is not a tensor ("a sequence"). Strings live as long as the
 * file. */
KN_API const char *kn_onnx_file_input_at(const kn_onnx_file *file, size_t position, const char **type);
KN_API size_t kn_onnx_file_output_count(const kn_onnx_file *file);
KN_API const char *kn_onnx_file_output_at(const kn_onnx_file *file, size_t position, const char **type);
/* What a sequence or an optional contains, described in the same way ("float32"); NULL for other types, and
 * past the last input or output. */
KN_API const char *kn_onnx_file_input_inner_at(const kn_onnx_file *file, size_t position);
KN_API const char *kn_onnx_file_output_inner_at(const kn_onnx_file *file, size_t position);
/* The number of dimensions, which may exceed KN_MAX_RANK; -1 if the file leaves it open, for what is not a
 * tensor, and past the last input or output. */
KN_API int kn_onnx_file_input_rank_at(const kn_onnx_file *file, size_t position);
KN_API int kn_onnx_file_output_rank_at(const kn_onnx_file *file, size_t position);
/* The size of a dimension; -1 if the file leaves it open, and past the last dimension. *symbol, if symbol is
 * not NULL, is set to the name of an open size, otherwise to "". Open sizes of the same name are equal. */
KN_API int64_t kn_onnx_file_input_size_at(const kn_onnx_file *file, size_t position, int axis,
                                          const char **symbol);
KN_API int64_t kn_onnx_file_output_size_at(const kn_onnx_file *file, size_t position, int axis,
                                           const char **symbol);
/* A key of the metadata, in the order of the file, or NULL past the last. *value, if value is not NULL, is
 * set to its value. */
KN_API const char *kn_onnx_file_metadata_at(const kn_onnx_file *file, size_t position, const char **value);

/* Who made a model, and what for; strings that the file lacks are "". */
typedef struct kn_onnx_about {
    size_t size;          /* of this struct, in the calling program's version */
    const char *producer; /* the program that wrote the file: "pytorch" */
    const char *domain;   /* of the model: "org.example" */
    const char *description;
    const char *graph_name, *graph_description;
    int64_t version; /* of the model; 0 if the file has none */
} kn_onnx_about;
#define KN_ONNX_ABOUT_DEFAULTS KN_DEFAULTS_ZERO(kn_onnx_about)
/* False, and *about is unchanged, for a failed file. */
KN_API bool kn_onnx_file_about(const kn_onnx_file *file, kn_onnx_about *about);

/* ---- tensors ------------------------------------------------------------------------------ */

typedef struct kn_onnx_tensor_file kn_onnx_tensor_file;

/* Reads a tensor; 4-bit and 2-bit integers are widened to int8 or uint8. KN_ERROR_UNSUPPORTED if Koine has no
 * such element type. Otherwise as kn_onnx_file_open. */
KN_API KN_NODISCARD kn_onnx_tensor_file *kn_onnx_tensor_file_open(const char *path,
                                                                  const kn_allocator *allocator);
/* Reads a tensor of a file with a sequence or, if `optional`, an optional, which may contain a sequence; in
 * the data of ONNX's tests, the model declares which. KN_ERROR_NOT_FOUND past the last tensor. */
KN_API KN_NODISCARD kn_onnx_tensor_file *
kn_onnx_tensor_file_open_at(const char *path, bool optional, size_t position, const kn_allocator *allocator);
KN_API void kn_onnx_tensor_file_destroy(kn_onnx_tensor_file **file);
KN_API kn_status kn_onnx_tensor_file_status(const kn_onnx_tensor_file *file);
KN_API const char *kn_onnx_tensor_file_error(const kn_onnx_tensor_file *file);
/* The tensor's name in the file; "" if it has none. */
KN_API const char *kn_onnx_tensor_file_name(const kn_onnx_tensor_file *file);
/* Element type and shape. False, and *info is unchanged, for a failed file. */
KN_API bool kn_onnx_tensor_file_info(const kn_onnx_tensor_file *file, kn_tensor_info *info);
/* An element of a tensor of strings, by its row-major position; NULL for other tensors, and out of range. The
 * info of such a tensor has the type KN_INT64, and kn_onnx_tensor_file_copy refuses it. */
KN_API const char *kn_onnx_tensor_file_text_at(const kn_onnx_tensor_file *file, uint64_t position);
/* Copies the elements, row-major, converted to dtype; `bytes` must be exactly their size. Conversions to
 * integers round to nearest and saturate. */
KN_API kn_status kn_onnx_tensor_file_copy(const kn_onnx_tensor_file *file, kn_dtype dtype, void *data,
                                          size_t bytes);
/* Writes a tensor, row-major, atomically: the whole file or nothing. name NULL: no name. An error is written
 * to `message`, truncated to `size` bytes. */
KN_API KN_NODISCARD kn_status kn_onnx_tensor_file_save(const char *path, const char *name,
                                                       const kn_tensor_info *info, const void *data,
                                                       char *message, size_t size);

#ifdef __cplusplus
}
#endif
#endif
