/* Reading samples: converts the stored type to float32 or int32, or copies stored bytes. */
#include "data/dataset_private.h"

#include <math.h>
#include <string.h>

/* Converts possibly unaligned elements of type `from` to type `to`. */
#define CONVERT(from, to, expression)                                                                        \
    for (uint64_t i = 0; i < count; i++) {                                                                   \
        from value;                                                                                          \
        memcpy(&value, source + i * sizeof value, sizeof value);                                             \
        ((to *)target)[i] = (to)(expression);                                                                \
    }                                                                                                        \
    break

static void to_float(const kn_sample_field *field, const uint8_t *source, uint64_t count, float *target) {
    const float scale = field->scale;
    const kn_small_float *small = kn_small_float_of(field->stored);
    switch (field->stored) {
    case KN_FLOAT32:
        if (scale == 1.0f) {
            memcpy(target, source, (size_t)count * sizeof *target);
            break;
        }
        CONVERT(float, float, value *scale);
    case KN_FLOAT64:
        CONVERT(double, float, value *scale);
    case KN_FLOAT16:
        CONVERT(uint16_t, float, kn_float_from_half(value) * scale);
    case KN_BFLOAT16:
        CONVERT(uint16_t, float, kn_float_from_bfloat(value) * scale);
    case KN_INT8:
        CONVERT(int8_t, float, (float)value *scale);
    case KN_INT16:
        CONVERT(int16_t, float, (float)value *scale);
    case KN_INT32:
        CONVERT(int32_t, float, (float)value *scale);
    case KN_INT64:
        CONVERT(int64_t, float, (float)value *scale);
    case KN_UINT8:
        CONVERT(uint8_t, float, (float)value *scale);
    case KN_UINT16:
        CONVERT(uint16_t, float, (float)value *scale);
    case KN_UINT32:
        CONVERT(uint32_t, float, (float)value *scale);
    case KN_UINT64:
        CONVERT(uint64_t, float, (float)value *scale);
    case KN_BOOL:
        CONVERT(uint8_t, float, value ? scale : 0.0f);
    case KN_SMALL_FLOATS:
        CONVERT(uint8_t, float, kn_small_float_number(small, value) * scale);
    }
}

/* Values were checked to fit when the store was created; otherwise they are truncated to their low bits. */
static void to_int(const kn_sample_field *field, const uint8_t *source, uint64_t count, int32_t *target) {
    switch (field->stored) {
    case KN_INT32:
        memcpy(target, source, (size_t)count * sizeof *target);
        break;
    case KN_INT8:
        CONVERT(int8_t, int32_t, value);
    case KN_INT16:
        CONVERT(int16_t, int32_t, value);
    case KN_INT64:
        CONVERT(int64_t, int32_t, value);
    case KN_UINT8:
        CONVERT(uint8_t, int32_t, value);
    case KN_UINT16:
        CONVERT(uint16_t, int32_t, value);
    case KN_UINT32:
        CONVERT(uint32_t, int32_t, value);
    case KN_UINT64:
        CONVERT(uint64_t, int32_t, value);
    case KN_BOOL:
        CONVERT(uint8_t, int32_t, value != 0);
    case KN_FLOAT32:
    case KN_FLOAT64:
    case KN_FLOAT16:
    case KN_BFLOAT16:
    case KN_SMALL_FLOATS:
        break; /* refused when the store was created */
    }
}

/* Whether RGB is read as grey, the mean of the channels. */
static bool is_mixed(const kn_sample_field *field) {
    return field->enlarged && field->picture[0] > 1 && (field->read.rank < 3 || field->read.shape[0] == 1);
}

double kn_field_scale(const kn_sample_field *field) {
    bool bytes = field->stored == KN_UINT8 && field->read.dtype == KN_FLOAT32 && !is_mixed(field);
    return bytes && isnormal(field->scale) ? field->scale : 0;
}

size_t kn_field_bytes(const kn_sample_field *field, bool as_bytes) {
    return as_bytes ? field->read_bytes / sizeof(float) : field->read_bytes;
}

/* Enlarges images of bytes: source is (c,h,w), target (C,H,W), or (H,W) of int32; pixels are repeated. RGB
 * becomes grey by the mean of the channels, grey becomes RGB with equal channels. */
static void enlarge(const kn_sample_field *field, const uint8_t *source, void *target, bool as_bytes) {
    const kn_tensor_info *read = &field->read;
    int64_t channels = read->rank == 3 ? read->shape[0] : 1;
    int64_t from = field->picture[0], plane = field->picture[1] * field->picture[2];
    int64_t height = read->shape[read->rank - 2], width = read->shape[read->rank - 1];
    bool mixed = is_mixed(field);
    for (int64_t i = 0; i < channels * height * width; i++) {
        int64_t y = i / width % height * field->picture[1] / height,
                x = i % width * field->picture[2] / width;
        const uint8_t *pixel = source + y * field->picture[2] + x;
        int64_t channel = from == channels ? i / (height * width) : 0;
        int sum = pixel[channel * plane];
        for (int64_t c = 1; c < from && mixed; c++)
            sum += pixel[c * plane];
        if (as_bytes)
            ((uint8_t *)target)[i] = (uint8_t)sum;
        else if (read->dtype == KN_INT32)
            ((int32_t *)target)[i] = sum;
        else
            ((float *)target)[i] = (float)sum * (mixed ? field->scale / (float)from : field->scale);
    }
}

static void read_sample(const kn_sample_field *field, const uint8_t *source, void *target, bool as_bytes) {
    if (field->enlarged)
        enlarge(field, source, target, as_bytes);
    else if (as_bytes)
        memcpy(target, source, field->stored_bytes);
    else if (field->read.dtype == KN_FLOAT32)
        to_float(field, source, field->elements, target);
    else
        to_int(field, source, field->elements, target);
}

kn_status kn_dataset_gather(const kn_dataset *dataset, size_t field, const uint64_t *indices, uint64_t count,
                            bool as_bytes, void *destination, kn_error *error) {
    const kn_sample_field *from = &dataset->store->fields[field];
    const size_t step = kn_field_bytes(from, as_bytes);
    uint8_t *target = destination, *room = NULL;
    kn_status status = KN_OK;
    for (uint64_t i = 0; i < count; i++, target += step) {
        uint64_t row = kn_dataset_row(dataset, indices ? indices[i] : i);
        const uint8_t *source = kn_sample_store_bytes(dataset->store, from, row, &room, error);
        if (!source) {
            status = error->status;
            break;
        }
        read_sample(from, source, target, as_bytes);
    }
    kn_release(&dataset->host, room);
    return status;
}

int32_t kn_dataset_label(const kn_dataset *dataset, size_t field, uint64_t index) {
    int32_t label = 0;
    kn_error unused = {0}; /* classes are always in memory */
    kn_dataset_gather(dataset, field, &index, 1, false, &label, &unused);
    return label;
}
