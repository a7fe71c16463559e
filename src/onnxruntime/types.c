/* Descriptions of types and shapes. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

/* ---- element types ----------------------------------------------------------------------- */

/* By number. `koine`: the name in Koine. */
static const struct {
    const char *name, *koine;
    unsigned char bits;
} elements[] = {
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED] = {"undefined", "undefined", 0},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT] = {"float", "float32", 32},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8] = {"uint8", "uint8", 8},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8] = {"int8", "int8", 8},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16] = {"uint16", "uint16", 16},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16] = {"int16", "int16", 16},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32] = {"int32", "int32", 32},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64] = {"int64", "int64", 64},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING] = {"string", "string", 0},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL] = {"bool", "bool", 8},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16] = {"float16", "float16", 16},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE] = {"double", "float64", 64},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32] = {"uint32", "uint32", 32},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64] = {"uint64", "uint64", 64},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64] = {"complex64", "complex64", 64},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128] = {"complex128", "complex128", 128},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16] = {"bfloat16", "bfloat16", 16},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN] = {"float8e4m3fn", "float8e4m3fn", 8},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", "float8e4m3fnuz", 8},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2] = {"float8e5m2", "float8e5m2", 8},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", "float8e5m2fnuz", 8},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4] = {"uint4", "uint4", 4},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4] = {"int4", "int4", 4},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1] = {"float4e2m1", "float4e2m1", 4},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2] = {"uint2", "uint2", 2},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2] = {"int2", "int2", 2},
    [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0] = {"float8e8m0", "float8e8m0", 8},
};
enum { ELEMENTS = sizeof elements / sizeof *elements };

static bool is_element(ONNXTensorElementDataType type) {
    return (int)type > 0 && (int)type < ELEMENTS;
}

const char *ort_element_name(ONNXTensorElementDataType type) {
    return elements[is_element(type) ? type : 0].name;
}

size_t ort_element_bits(ONNXTensorElementDataType type) {
    return elements[is_element(type) ? type : 0].bits;
}

bool ort_element_to(ONNXTensorElementDataType type, kn_dtype *dtype) {
    return ort_element_bits(type) >= CHAR_BIT && kn_dtype_parse(elements[type].koine, dtype);
}

static ONNXTensorElementDataType element_named(const char *koine) {
    int i = 1;
    while (i < ELEMENTS && strcmp(elements[i].koine, koine))
        i++;
    return (ONNXTensorElementDataType)(i < ELEMENTS ? i : 0);
}

ONNXTensorElementDataType ort_element_from(kn_dtype dtype) {
    return element_named(kn_dtype_name(dtype));
}

ONNXType ort_type_from(const char *text, ONNXTensorElementDataType *element) {
    static const struct {
        const char *text;
        ONNXType kind;
    } kinds[] = {{"a sequence", ONNX_TYPE_SEQUENCE},
                 {"an optional", ONNX_TYPE_OPTIONAL},
                 {"a map", ONNX_TYPE_MAP},
                 {"a sparse tensor", ONNX_TYPE_SPARSETENSOR},
                 {"an opaque value", ONNX_TYPE_OPAQUE}};
    *element = element_named(text);
    if (*element) return ONNX_TYPE_TENSOR;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(text, kinds[i].text)) return kinds[i].kind;
    return ONNX_TYPE_UNKNOWN;
}

bool ort_count_elements(const int64_t *sizes, size_t rank, size_t *count) {
    bool none = false;
    *count = 1;
    for (size_t i = 0; i < rank; i++) {
        if (sizes[i] < 0) return false;
        none |= sizes[i] == 0;
    }
    for (size_t i = 0; i < rank && !none; i++) {
        if ((uint64_t)sizes[i] > SIZE_MAX / 16 / *count) return false;
        *count *= (size_t)sizes[i];
    }
    if (none) *count = 0;
    return true;
}

/* ---- tensors ----------------------------------------------------------------------------- */

static void clear_shape(OrtTensorTypeAndShapeInfo *info) {
    for (size_t i = 0; info->symbols && i < info->rank; i++)
        free(info->symbols[i]);
    free(info->symbols);
    free(info->sizes);
    info->rank = 0;
    info->sizes = NULL;
    info->symbols = NULL;
}

static bool set_shape(OrtTensorTypeAndShapeInfo *info, size_t rank, const int64_t *sizes,
                      const char *const *symbols) {
    OrtTensorTypeAndShapeInfo made = {.type = info->type, .has_shape = true};
    made.sizes = calloc(rank + 1, sizeof *made.sizes);
    made.symbols = calloc(rank + 1, sizeof *made.symbols);
    bool fine = made.sizes && made.symbols;
    for (; fine && made.rank < rank; made.rank++) {
        made.sizes[made.rank] = sizes ? sizes[made.rank] : -1;
        made.symbols[made.rank] = ort_copy_text(symbols ? symbols[made.rank] : "");
        fine = made.symbols[made.rank] != NULL;
    }
    clear_shape(fine ? info : &made);
    if (fine) *info = made;
    return fine;
}

OrtTypeInfo *ort_type_info_new(ONNXType kind, ONNXTensorElementDataType type, bool has_shape, size_t rank,
                               const int64_t *sizes, const char *const *symbols) {
    OrtTypeInfo *info = calloc(1, sizeof *info);
    if (!info) return NULL;
    info->kind = kind;
    info->tensor.type = type;
    if (set_shape(&info->tensor, rank, sizes, symbols)) {
        info->tensor.has_shape = has_shape;
        return info;
    }
    free(info);
    return NULL;
}

void ort_ReleaseTypeInfo(OrtTypeInfo *info) {
    if (info) clear_shape(&info->tensor);
    free(info);
}

ORT_GETTER(GetOnnxTypeFromTypeInfo, const OrtTypeInfo, info, ONNXType, info->kind)
ORT_GETTER(CastTypeInfoToTensorInfo, const OrtTypeInfo, info, const OrtTensorTypeAndShapeInfo *,
           info->kind == ONNX_TYPE_TENSOR || info->kind == ONNX_TYPE_SPARSETENSOR ? &info->tensor : NULL)

/* The descriptions of other types are the same object. */
#define CAST(type, wanted)                                                                                   \
    OrtStatus *ort_CastTypeInfoTo##type##TypeInfo(const OrtTypeInfo *info,                                   \
                                                  const Ort##type##TypeInfo **out) {                         \
        ORT_NEED(info);                                                                                      \
        ORT_NEED(out);                                                                                       \
        *out = info->kind == (wanted) ? (const Ort##type##TypeInfo *)info : NULL;                            \
        return NULL;                                                                                         \
    }
CAST(Sequence, ONNX_TYPE_SEQUENCE)
CAST(Map, ONNX_TYPE_MAP)
CAST(Optional, ONNX_TYPE_OPTIONAL)

/* Of a tensor whose shape is open. */
static OrtStatus *give_inner(ONNXTensorElementDataType type, OrtTypeInfo **out) {
    *out = ort_type_info_new(ONNX_TYPE_TENSOR, type, false, 0, NULL, NULL);
    return *out ? NULL : ort_no_memory();
}

OrtStatus *ort_GetSequenceElementType(const OrtSequenceTypeInfo *info, OrtTypeInfo **out) {
    ORT_NEED(info);
    ORT_NEED(out);
    return give_inner(((const OrtTypeInfo *)info)->tensor.type, out);
}

OrtStatus *ort_GetOptionalContainedTypeInfo(const OrtOptionalTypeInfo *info, OrtTypeInfo **out) {
    ORT_NEED(info);
    ORT_NEED(out);
    return give_inner(((const OrtTypeInfo *)info)->tensor.type, out);
}

OrtStatus *ort_GetMapValueType(const OrtMapTypeInfo *info, OrtTypeInfo **out) {
    ORT_NEED(info);
    ORT_NEED(out);
    return give_inner(((const OrtTypeInfo *)info)->value, out);
}

ORT_GETTER(GetMapKeyType, const OrtMapTypeInfo, info, ONNXTensorElementDataType,
           ((const OrtTypeInfo *)info)->tensor.type)

/* They belong to the description that they were cast from. */
void ort_ReleaseMapTypeInfo(OrtMapTypeInfo *info) {}
void ort_ReleaseSequenceTypeInfo(OrtSequenceTypeInfo *info) {}

OrtStatus *ort_CreateTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo **out) {
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out && set_shape(*out, 0, NULL, NULL)) return NULL;
    free(*out);
    *out = NULL;
    return ort_no_memory();
}

void ort_ReleaseTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo *info) {
    if (info) clear_shape(info);
    free(info);
}

OrtStatus *ort_SetTensorElementType(OrtTensorTypeAndShapeInfo *info, ONNXTensorElementDataType type) {
    ORT_NEED(info);
    info->type = type;
    return NULL;
}

ORT_GETTER(GetTensorElementType, const OrtTensorTypeAndShapeInfo, info, ONNXTensorElementDataType, info->type)

OrtStatus *ort_SetDimensions(OrtTensorTypeAndShapeInfo *info, const int64_t *sizes, size_t rank) {
    ORT_NEED(info);
    ORT_NEED_FOR(rank, sizes);
    return set_shape(info, rank, sizes, NULL) ? NULL : ort_no_memory();
}

ORT_GETTER(GetDimensionsCount, const OrtTensorTypeAndShapeInfo, info, size_t, info->rank)

OrtStatus *ort_GetDimensions(const OrtTensorTypeAndShapeInfo *info, int64_t *sizes, size_t room) {
    ORT_NEED(info);
    ORT_NEED_FOR(room, sizes);
    const size_t count = room < info->rank ? room : info->rank;
    if (count) memcpy(sizes, info->sizes, count * sizeof *sizes);
    return NULL;
}

OrtStatus *ort_GetSymbolicDimensions(const OrtTensorTypeAndShapeInfo *info, const char **symbols,
                                     size_t room) {
    ORT_NEED(info);
    ORT_NEED_FOR(room, symbols);
    for (size_t i = 0; i < room && i < info->rank; i++)
        symbols[i] = info->symbols[i];
    return NULL;
}

OrtStatus *ort_SetSymbolicDimensions(OrtTensorTypeAndShapeInfo *info, const char **symbols, size_t count) {
    ORT_NEED(info);
    ORT_NEED_FOR(count, symbols);
    if (count != info->rank)
        return ort_fail(ORT_INVALID_ARGUMENT, "%zu symbols for a shape of rank %zu", count, info->rank);
    return set_shape(info, count, info->sizes, symbols) ? NULL : ort_no_memory();
}

OrtStatus *ort_GetTensorShapeElementCount(const OrtTensorTypeAndShapeInfo *info, size_t *out) {
    ORT_NEED(info);
    ORT_NEED(out);
    size_t count;
    if (!ort_count_elements(info->sizes, info->rank, &count))
        return ort_fail(ORT_FAIL, "the shape has open sizes, so that it has no number of elements");
    *out = count;
    return NULL;
}

bool ort_TensorTypeAndShape_HasShape(const OrtTensorTypeAndShapeInfo *info) {
    return info && info->has_shape;
}
