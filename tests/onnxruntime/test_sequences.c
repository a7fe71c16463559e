/* Sequences and optionals as inputs and outputs of models. */
#include "interface_tests.h"

static const char *const inputs[] = {"list", "x"}, *const outputs[] = {"count", "all", "joined"};

/* A sequence of tensors (1,2) of 10, 20, 30 and so on. */
static OrtValue *make_list(float (*data)[2], size_t count) {
    OrtValue *items[4], *list = NULL;
    for (size_t i = 0; i < count; i++) {
        data[i][0] = data[i][1] = (float)(10 + 10 * i);
        items[i] = floats(data[i], 1, 2);
    }
    succeeds(api->CreateValue((const OrtValue *const *)items, count, ONNX_TYPE_SEQUENCE, &list));
    for (size_t i = 0; i < count; i++)
        api->ReleaseValue(items[i]);
    return list;
}

static void sequences_in_and_out(void **state) {
    made model;
    model_sequence(&model);
    OrtSession *session = open_bytes(&model, NULL);
    static const size_t counts[] = {2, 2, 1, 3, 2};
    for (size_t run = 0; run < sizeof counts / sizeof *counts; run++) {
        float data[4][2], x[4] = {1, 2, 3, (float)run};
        const size_t count = counts[run];
        const int64_t rows = 1 + (int64_t)(run % 2);
        OrtValue *values[2] = {make_list(data, count), floats(x, rows, 2)}, *results[3] = {NULL, NULL, NULL};
        size_t found = 0;
        ONNXType kind = ONNX_TYPE_UNKNOWN;
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, outputs, 3, results));
        api->ReleaseValue(values[0]);
        assert_int_equal(*(const int64_t *)numbers(results[0]), count + 1);
        succeeds(api->GetValueType(results[1], &kind));
        assert_int_equal(kind, ONNX_TYPE_SEQUENCE);
        succeeds(api->GetValueCount(results[1], &found));
        assert_int_equal(found, count + 1);
        for (size_t i = 0; i <= count; i++) {
            OrtValue *item = NULL;
            succeeds(api->GetValue(results[1], (int)i, allocator, &item));
            has_shape(item, 2, i < count ? 1 : rows, 2);
            const float wanted = i < count ? (float)(10 + 10 * i) : -x[rows * 2 - 1];
            assert_true(numbers(item)[i < count ? 1 : rows * 2 - 1] == wanted);
            api->ReleaseValue(item);
        }
        has_shape(results[2], 2, (int64_t)count + rows, 2);
        assert_true(numbers(results[2])[2 * count] == -1);
        /* A result is an input of the next run. */
        OrtValue *more = NULL;
        values[0] = results[1];
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, outputs, 1, &more));
        assert_int_equal(*(const int64_t *)numbers(more), count + 2);
        api->ReleaseValue(more);
        for (int i = 0; i < 3; i++)
            api->ReleaseValue(results[i]);
        api->ReleaseValue(values[1]);
    }
    float data[4][2], x[2] = {1, 2};
    OrtValue *list = make_list(data, 1), *value = floats(x, 1, 2), *wrong[2] = {value, value}, *y = NULL;
    fails(api->Run(session, NULL, inputs, (const OrtValue *const *)wrong, 2, outputs, 1, &y),
          ORT_INVALID_ARGUMENT);
    wrong[0] = wrong[1] = list;
    fails(api->Run(session, NULL, inputs, (const OrtValue *const *)wrong, 2, outputs, 1, &y),
          ORT_INVALID_ARGUMENT);
    int32_t integers[2] = {1, 2};
    OrtValue *item = tensor(integers, sizeof integers, 2, 1, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
    succeeds(api->CreateValue((const OrtValue *const *)&item, 1, ONNX_TYPE_SEQUENCE, &wrong[0]));
    wrong[1] = value;
    fails(api->Run(session, NULL, inputs, (const OrtValue *const *)wrong, 2, outputs, 1, &y),
          ORT_INVALID_ARGUMENT);
    assert_null(y);
    api->ReleaseValue(wrong[0]);
    api->ReleaseValue(item);
    api->ReleaseValue(list);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

/* An optional with a value is that value. */
static void optionals(void **state) {
    made model;
    float x[4] = {1, 2, 3, 4};
    model_optional(&model);
    OrtSession *session = open_bytes(&model, NULL);
    const char *const input = "x", *const names[] = {"has", "same"};
    for (int run = 0; run < 3; run++) {
        OrtValue *value = floats(x, 1 + run % 2, 2), *results[2] = {NULL, NULL};
        int has = -1;
        x[1] = (float)run;
        succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, names, 2, results));
        assert_int_equal(*(const uint8_t *)numbers(results[0]), 1);
        succeeds(api->HasValue(results[1], &has));
        assert_int_equal(has, 1);
        has_shape(results[1], 2, 1 + run % 2, 2);
        assert_true(numbers(results[1])[1] == (float)run);
        api->ReleaseValue(results[0]);
        api->ReleaseValue(results[1]);
        api->ReleaseValue(value);
    }
    api->ReleaseSession(session);
}

static void is_float_tensor(OrtTypeInfo *type) {
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    succeeds(api->CastTypeInfoToTensorInfo(type, &shape));
    succeeds(api->GetTensorElementType(shape, &element));
    assert_int_equal(element, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    api->ReleaseTypeInfo(type);
}

static void types_of_lists(void **state) {
    made models[2];
    model_sequence(&models[0]);
    model_optional(&models[1]);
    for (int optional = 0; optional < 2; optional++) {
        OrtSession *session = open_bytes(&models[optional], NULL);
        for (int output = 0; output < 2; output++) {
            OrtTypeInfo *type = NULL, *inner = NULL;
            const OrtTensorTypeAndShapeInfo *shape = NULL;
            const OrtSequenceTypeInfo *sequence = NULL;
            const OrtOptionalTypeInfo *maybe = NULL;
            const OrtMapTypeInfo *map = NULL;
            ONNXType kind = ONNX_TYPE_UNKNOWN;
            succeeds(output ? api->SessionGetOutputTypeInfo(session, (size_t)optional, &type)
                            : api->SessionGetInputTypeInfo(session, 0, &type));
            succeeds(api->GetOnnxTypeFromTypeInfo(type, &kind));
            assert_int_equal(kind, optional ? ONNX_TYPE_OPTIONAL : ONNX_TYPE_SEQUENCE);
            succeeds(api->CastTypeInfoToTensorInfo(type, &shape));
            succeeds(api->CastTypeInfoToSequenceTypeInfo(type, &sequence));
            succeeds(api->CastTypeInfoToOptionalTypeInfo(type, &maybe));
            succeeds(api->CastTypeInfoToMapTypeInfo(type, &map));
            assert_true(!shape && !map && (optional ? maybe && !sequence : sequence && !maybe));
            succeeds(optional ? api->GetOptionalContainedTypeInfo(maybe, &inner)
                              : api->GetSequenceElementType(sequence, &inner));
            is_float_tensor(inner);
            api->ReleaseTypeInfo(type);
        }
        api->ReleaseSession(session);
    }
}

static void types_of_values(void **state) {
    float data[2][2];
    int64_t keys[2] = {5, 6};
    OrtTypeInfo *type = NULL, *inner = NULL;
    const OrtSequenceTypeInfo *sequence = NULL;
    const OrtMapTypeInfo *about = NULL;
    ONNXTensorElementDataType key = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    OrtValue *list = make_list(data, 2), *map = NULL;
    succeeds(api->GetTypeInfo(list, &type));
    succeeds(api->CastTypeInfoToSequenceTypeInfo(type, &sequence));
    succeeds(api->GetSequenceElementType(sequence, &inner));
    is_float_tensor(inner);
    api->ReleaseTypeInfo(type);
    api->ReleaseValue(list);
    OrtValue *pair[2] = {tensor(keys, sizeof keys, 1, 2, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
                         tensor(data, 8, 1, 2, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)};
    succeeds(api->CreateValue((const OrtValue *const *)pair, 2, ONNX_TYPE_MAP, &map));
    succeeds(api->GetTypeInfo(map, &type));
    succeeds(api->CastTypeInfoToMapTypeInfo(type, &about));
    succeeds(api->GetMapKeyType(about, &key));
    assert_int_equal(key, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
    succeeds(api->GetMapValueType(about, &inner));
    is_float_tensor(inner);
    api->ReleaseTypeInfo(type);
    api->ReleaseValue(map);
    api->ReleaseValue(pair[0]);
    api->ReleaseValue(pair[1]);
}

int test_sequences(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_in_and_out),
        cmocka_unit_test(optionals),
        cmocka_unit_test(types_of_lists),
        cmocka_unit_test(types_of_values),
    };
    return run_group("sequences", tests);
}
