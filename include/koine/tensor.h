/* Element types and shapes, shared by all other headers.
 *
 *     kn_tensor_info info = {KN_FLOAT32, 2, {32, 784}};
 *     uint64_t bytes = 0;
 *     if (kn_tensor_bytes(&info, &bytes))
 *         printf("%s: %llu bytes\n", kn_dtype_name(info.dtype), (unsigned long long)bytes); */
#ifndef KOINE_TENSOR_H
#define KOINE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <koine/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text, bytes). Numbers never change once released. Floating-point types of 8 and 4 bits, a
 * byte per element, are only for storage: kn_cast converts them, and no other operator computes with them. */
#define KN_DTYPE_LIST(X)                                                                                     \
    X(KN_FLOAT32, 0, "float32", 4)                                                                           \
    X(KN_FLOAT64, 1, "float64", 8)                                                                           \
    X(KN_FLOAT16, 2, "float16", 2)                                                                           \
    X(KN_BFLOAT16, 3, "bfloat16", 2)                                                                         \
    X(KN_INT8, 4, "int8", 1)                                                                                 \
    X(KN_INT16, 5, "int16", 2)                                                                               \
    X(KN_INT32, 6, "int32", 4)                                                                               \
    X(KN_INT64, 7, "int64", 8)                                                                               \
    X(KN_UINT8, 8, "uint8", 1)                                                                               \
    X(KN_UINT16, 9, "uint16", 2)                                                                             \
    X(KN_UINT32, 10, "uint32", 4)                                                                            \
    X(KN_UINT64, 11, "uint64", 8)                                                                            \
    X(KN_BOOL, 12, "bool", 1)                                                                                \
    X(KN_FLOAT8E4M3FN, 13, "float8e4m3fn", 1)                                                                \
    X(KN_FLOAT8E4M3FNUZ, 14, "float8e4m3fnuz", 1)                                                            \
    X(KN_FLOAT8E5M2, 15, "float8e5m2", 1)                                                                    \
    X(KN_FLOAT8E5M2FNUZ, 16, "float8e5m2fnuz", 1)                                                            \
    X(KN_FLOAT8E8M0, 17, "float8e8m0", 1)                                                                    \
    X(KN_FLOAT4E2M1, 18, "float4e2m1", 1)

typedef enum kn_dtype {
#define KN_DTYPE_ENUM(name, number, text, bytes) name = number,
    KN_DTYPE_LIST(KN_DTYPE_ENUM)
#undef KN_DTYPE_ENUM
} kn_dtype;

enum { KN_MAX_RANK = 8 };

/* "float32" and so on; "unknown" for other numbers. Thread-safe. */
KN_API const char *kn_dtype_name(kn_dtype dtype);
/* Bytes per element; 0 for other numbers. */
KN_API size_t kn_dtype_bytes(kn_dtype dtype);
/* Parses a name; returns false and leaves *dtype unchanged when there is no such type. dtype may be NULL. */
KN_API bool kn_dtype_parse(const char *name, kn_dtype *dtype);

/* The type in which values are stored and multiplied while a graph is computed. KN_PRECISION_TF32 stores
 * float32, and matrix units round factors to 10 bits of mantissa. X(name, number, text). */
#define KN_PRECISION_LIST(X)                                                                                 \
    X(KN_PRECISION_FLOAT32, 0, "float32")                                                                    \
    X(KN_PRECISION_FLOAT16, 1, "float16")                                                                    \
    X(KN_PRECISION_BFLOAT16, 2, "bfloat16")                                                                  \
    X(KN_PRECISION_TF32, 3, "tf32")
typedef enum kn_precision {
#define KN_PRECISION_ENUM(name, number, text) name = number,
    KN_PRECISION_LIST(KN_PRECISION_ENUM)
#undef KN_PRECISION_ENUM
} kn_precision;
/* "float32" and so on; "unknown" for other numbers. Thread-safe. */
KN_API const char *kn_precision_name(kn_precision precision);
/* Parses a name; returns false and leaves *precision unchanged when there is no such precision. */
KN_API bool kn_precision_parse(const char *name, kn_precision *precision);

/* Element type and shape of an array whose dimensions are known. */
typedef struct kn_tensor_info {
    kn_dtype dtype;
    int rank;
    int64_t shape[KN_MAX_RANK];
} kn_tensor_info;

/* The number of elements or bytes; false when the product overflows or a dimension is negative. The second
 * pointer may be NULL. */
KN_API bool kn_tensor_elements(const kn_tensor_info *info, uint64_t *elements);
KN_API bool kn_tensor_bytes(const kn_tensor_info *info, uint64_t *bytes);

/* An array in the caller's memory, row-major, named after an input or output. */
typedef struct kn_feed {
    const char *name;
    const void *data;
    size_t bytes;
    /* 0: the data has the input's element type. Otherwise the data is uint8, for a float32 input, and the
     * device multiplies it by (float)scale: a quarter of the upload, with the same bits as if the host had
     * multiplied. */
    double scale;
} kn_feed;
typedef struct kn_fetch {
    const char *name;
    void *data;
    size_t bytes; /* size of data; must be exactly that of the fetched value */
} kn_fetch;

#ifdef __cplusplus
}
#endif
#endif
