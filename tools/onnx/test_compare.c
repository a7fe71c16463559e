/* koine-onnx-test: an output compared with what is expected. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static const double relative = 1e-3, absolute = 1e-7;

static const char *shape_text(const kn_tensor_info *info, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "%s(", kn_dtype_name(info->dtype));
    for (int i = 0; i < info->rank && used < room; i++)
        used +=
            (size_t)snprintf(text + used, room - used, "%s%lld", i > 0 ? "," : "", (long long)info->shape[i]);
    if (used < room) snprintf(text + used, room - used, ")");
    return text;
}

static bool same_shape(const kn_tensor_info *left, const kn_tensor_info *right) {
    return left->dtype == right->dtype && left->rank == right->rank &&
           memcmp(left->shape, right->shape, (size_t)left->rank * sizeof left->shape[0]) == 0;
}

/* NaN is as NaN, an infinity as the same infinity. */
static bool near_enough(double found, double expected) {
    if (isnan(expected) || isnan(found)) return isnan(expected) && isnan(found);
    if (isinf(expected) || isinf(found)) return expected == found;
    return fabs(found - expected) <= absolute + relative * fabs(expected);
}

static bool compare_numbers(const char *name, const double *found, const double *expected, uint64_t count,
                            test_outcome *outcome) {
    uint64_t differing = 0, first = 0;
    for (uint64_t i = count; i-- > 0;)
        if (!near_enough(found[i], expected[i])) {
            differing++;
            first = i;
        }
    if (differing == 0) return true;
    return conclude(outcome, VERDICT_FAIL,
                    "%s: %llu of %llu elements differ; element %llu is %g, expected %g", name,
                    (unsigned long long)differing, (unsigned long long)count, (unsigned long long)first,
                    found[first], expected[first]);
}

/* Floating-point numbers of a byte, which are compared by their codes. */
static bool is_code(kn_dtype dtype) {
    return dtype >= KN_FLOAT8E4M3FN;
}

/* All elements of a tensor as doubles. */
static bool numbers_of(const kn_onnx_tensor_file *file, kn_dtype dtype, uint64_t count, double **numbers) {
    size_t each = is_code(dtype) ? 1 : sizeof **numbers;
    *numbers = malloc((size_t)count * sizeof **numbers + 1);
    if (!*numbers || kn_onnx_tensor_file_copy(file, each == 1 ? dtype : KN_FLOAT64, *numbers,
                                              (size_t)count * each) != KN_OK)
        return false;
    for (uint64_t i = count; each == 1 && i-- > 0;) /* from the end: in place */
        (*numbers)[i] = ((const uint8_t *)*numbers)[i];
    return true;
}

static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static double brain(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static double number_at(const void *data, kn_dtype dtype, uint64_t i) {
    if (is_code(dtype)) return ((const uint8_t *)data)[i];
    switch (dtype) {
    case KN_FLOAT32:
        return ((const float *)data)[i];
    case KN_FLOAT64:
        return ((const double *)data)[i];
    case KN_FLOAT16:
        return half(((const uint16_t *)data)[i]);
    case KN_BFLOAT16:
        return brain(((const uint16_t *)data)[i]);
    case KN_INT8:
        return ((const int8_t *)data)[i];
    case KN_INT16:
        return ((const int16_t *)data)[i];
    case KN_INT32:
        return ((const int32_t *)data)[i];
    case KN_INT64:
        return (double)((const int64_t *)data)[i];
    case KN_UINT8:
        return ((const uint8_t *)data)[i];
    case KN_UINT16:
        return ((const uint16_t *)data)[i];
    case KN_UINT32:
        return ((const uint32_t *)data)[i];
    case KN_UINT64:
        return (double)((const uint64_t *)data)[i];
    case KN_BOOL:
        return ((const uint8_t *)data)[i] != 0;
    default:
        return NAN;
    }
}

static bool compare_texts(const kn_onnx_tensor_file *file, const char *name, const int64_t *data,
                          uint64_t count, const kn_model *texts, test_outcome *outcome) {
    for (uint64_t i = 0; i < count; i++) {
        const char *found = kn_model_string(texts, data[i]), *wanted = kn_onnx_tensor_file_text_at(file, i);
        if (!found || !wanted || strcmp(found, wanted) != 0)
            return conclude(outcome, VERDICT_FAIL, "%s: element %llu is '%.60s', expected '%.60s'", name,
                            (unsigned long long)i, found ? found : "(none)", wanted ? wanted : "(no string)");
    }
    return true;
}

bool compare_output(const kn_onnx_tensor_file *file, const char *name, const kn_tensor_info *info,
                    const void *data, const kn_model *texts, test_outcome *outcome) {
    kn_tensor_info expected;
    char found_text[160], expected_text[160];
    uint64_t count = 0;
    bool fine = false;
    double *wanted = NULL, *found = NULL;
    if (!kn_onnx_tensor_file_info(file, &expected)) {
        conclude(outcome, VERDICT_ERROR, "%s", kn_onnx_tensor_file_error(file));
    } else if (!same_shape(info, &expected)) {
        conclude(outcome, VERDICT_FAIL, "%s: found %s, expected %s", name,
                 shape_text(info, found_text, sizeof found_text),
                 shape_text(&expected, expected_text, sizeof expected_text));
    } else if (texts) {
        fine = kn_tensor_elements(info, &count) && compare_texts(file, name, data, count, texts, outcome);
    } else if (!kn_tensor_elements(info, &count) || !(found = malloc((size_t)count * sizeof *found + 1)) ||
               !numbers_of(file, info->dtype, count, &wanted)) {
        conclude(outcome, VERDICT_ERROR, "%s: out of memory", name);
    } else {
        for (uint64_t i = 0; i < count; i++)
            found[i] = number_at(data, info->dtype, i);
        fine = compare_numbers(name, found, wanted, count, outcome);
    }
    free(found);
    free(wanted);
    return fine;
}
