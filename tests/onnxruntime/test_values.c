/* Memory and values: tensors, their shapes, strings, sequences and maps. */
#include "interface_tests.h"

#include <string.h>

static void memories(void **state) {
    OrtMemoryInfo *info = NULL, *other = NULL;
    const OrtMemoryInfo *own = NULL;
    const char *name = NULL;
    void *taken = NULL;
    int number = -1;
    OrtMemType kind = OrtMemTypeCPUOutput;
    OrtAllocatorType type = OrtInvalidAllocator;
    OrtMemoryInfoDeviceType device = (OrtMemoryInfoDeviceType)7;
    succeeds(api->CreateMemoryInfo("Cpu", OrtDeviceAllocator, 0, OrtMemTypeDefault, &info));
    fails(api->CreateMemoryInfo("Nowhere", OrtDeviceAllocator, 0, OrtMemTypeDefault, &other),
          ORT_INVALID_ARGUMENT);
    succeeds(api->MemoryInfoGetName(info, &name));
    assert_string_equal(name, "Cpu");
    succeeds(api->MemoryInfoGetId(info, &number));
    assert_int_equal(number, 0);
    succeeds(api->MemoryInfoGetMemType(info, &kind));
    assert_int_equal(kind, OrtMemTypeDefault);
    succeeds(api->MemoryInfoGetType(info, &type));
    assert_int_equal(type, OrtDeviceAllocator);
    api->MemoryInfoGetDeviceType(info, &device);
    assert_int_equal(device, OrtMemoryInfoDeviceType_CPU);
    succeeds(api->CompareMemoryInfo(info, memory, &number));
    assert_int_equal(number, 0);
    succeeds(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &other));
    succeeds(api->CompareMemoryInfo(info, other, &number));
    assert_int_equal(number, -1);
    api->ReleaseMemoryInfo(other);
    api->ReleaseMemoryInfo(info);
    OrtAllocator *again = NULL;
    succeeds(api->GetAllocatorWithDefaultOptions(&again));
    assert_ptr_equal(again, allocator);
    succeeds(api->AllocatorAlloc(allocator, 100, &taken));
    assert_non_null(taken);
    memset(taken, 1, 100);
    succeeds(api->AllocatorFree(allocator, taken));
    succeeds(api->AllocatorAlloc(allocator, 0, &taken));
    assert_null(taken);
    succeeds(api->AllocatorGetInfo(allocator, &own));
    succeeds(api->MemoryInfoGetName(own, &name));
    assert_string_equal(name, "Cpu");
    OrtKeyValuePairs *statistics = NULL;
    succeeds(api->AllocatorGetStats(allocator, &statistics));
    assert_non_null(statistics);
    api->ReleaseKeyValuePairs(statistics);
    OrtArenaCfg *arena = NULL;
    const char *key = "max_mem";
    const size_t most = 0;
    succeeds(api->CreateArenaCfg(0, -1, -1, -1, &arena));
    fails(api->CreateAndRegisterAllocatorV2(env, "NobodyExecutionProvider", memory, arena, NULL, NULL, 0),
          ORT_INVALID_ARGUMENT);
    api->ReleaseArenaCfg(arena);
    succeeds(api->CreateArenaCfgV2(&key, &most, 1, &arena));
    api->ReleaseArenaCfg(arena);
}

/* ---- values ------------------------------------------------------------------------------ */

static void tensors(void **state) {
    float x[6] = {1, 2, 3, 4, 5, 6}, *data = NULL;
    const int64_t sizes[2] = {2, 3}, place[2] = {1, 2}, outside[2] = {2, 0}, negative[2] = {-1, 2},
                  none[2] = {0, 3}, huge[2] = {(int64_t)1 << 29, (int64_t)1 << 30};
    OrtValue *value = NULL;
    OrtTypeInfo *info = NULL;
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    const OrtMemoryInfo *where = NULL;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    const int64_t *reference = NULL;
    size_t bytes = 0, rank = 0;
    int flag = -1;
    fails(api->CreateTensorWithDataAsOrtValue(memory, x, sizeof x - 1, sizes, 2,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
          ORT_INVALID_ARGUMENT);
    fails(api->CreateTensorWithDataAsOrtValue(memory, x, sizeof x, negative, 2,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
          ORT_INVALID_ARGUMENT);
    /* 2^59 elements, whose bits do not fit into 64 bits. */
    fails(api->CreateTensorWithDataAsOrtValue(memory, x, sizeof x, huge, 2,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
          ORT_INVALID_ARGUMENT);
    value = floats(x, 2, 3);
    has_shape(value, 2, 2, 3);
    succeeds(api->IsTensor(value, &flag));
    assert_int_equal(flag, 1);
    succeeds(api->IsSparseTensor(value, &flag));
    assert_int_equal(flag, 0);
    succeeds(api->HasValue(value, &flag));
    assert_int_equal(flag, 1);
    succeeds(api->GetValueType(value, &kind));
    assert_int_equal(kind, ONNX_TYPE_TENSOR);
    succeeds(api->GetTypeInfo(value, &info));
    succeeds(api->GetOnnxTypeFromTypeInfo(info, &kind));
    assert_int_equal(kind, ONNX_TYPE_TENSOR);
    succeeds(api->CastTypeInfoToTensorInfo(info, &shape));
    succeeds(api->GetTensorElementType(shape, &type));
    assert_int_equal(type, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    api->ReleaseTypeInfo(info);
    succeeds(api->GetTensorMutableData(value, (void **)&data));
    assert_ptr_equal(data, x);
    succeeds(api->TensorAt(value, place, 2, (void **)&data));
    assert_ptr_equal(data, x + 5);
    fails(api->TensorAt(value, outside, 2, (void **)&data), ORT_INVALID_ARGUMENT);
    fails(api->TensorAt(value, place, 1, (void **)&data), ORT_INVALID_ARGUMENT);
    succeeds(api->GetTensorSizeInBytes(value, &bytes));
    assert_int_equal(bytes, sizeof x);
    succeeds(api->GetTensorMemoryInfo(value, &where));
    succeeds(api->CompareMemoryInfo(where, memory, &flag));
    assert_int_equal(flag, 0);
    succeeds(api->GetTensorElementTypeAndShapeDataReference(value, &type, &reference, &rank));
    assert_int_equal(rank * 10 + (size_t)reference[1], 23);
    api->ReleaseValue(value);
    succeeds(api->CreateTensorAsOrtValue(allocator, sizes, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &value));
    succeeds(api->GetTensorMutableData(value, (void **)&data));
    memset(data, 0, 48);
    api->ReleaseValue(value);
    succeeds(api->CreateTensorAsOrtValue(allocator, none, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &value));
    has_shape(value, 2, 0, 3);
    api->ReleaseValue(value);
    succeeds(api->CreateTensorAsOrtValue(allocator, NULL, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, &value));
    has_shape(value, 0, 0, 0);
    succeeds(api->GetTensorSizeInBytes(value, &bytes));
    assert_int_equal(bytes, 8);
    api->ReleaseValue(value);
    succeeds(api->AllocatorAlloc(allocator, sizeof x, (void **)&data));
    succeeds(api->CreateTensorWithDataAndDeleterAsOrtValue(allocator, data, sizeof x, sizes, 2,
                                                           ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
    api->ReleaseValue(value);
}

static void shapes(void **state) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    const int64_t sizes[2] = {-1, 4};
    const char *names[2] = {"n", ""}, *found[2] = {NULL, NULL};
    int64_t room[2] = {0, 0};
    size_t count = 7;
    succeeds(api->CreateTensorTypeAndShapeInfo(&info));
    succeeds(api->SetTensorElementType(info, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8));
    succeeds(api->SetDimensions(info, sizes, 2));
    succeeds(api->SetSymbolicDimensions(info, names, 2));
    succeeds(api->GetSymbolicDimensions(info, found, 2));
    assert_string_equal(found[0], "n");
    assert_string_equal(found[1], "");
    succeeds(api->GetDimensions(info, room, 1));
    assert_int_equal(room[0], -1);
    assert_int_equal(room[1], 0);
    fails(api->GetTensorShapeElementCount(info, &count), ORT_FAIL);
    assert_true(api->TensorTypeAndShape_HasShape(info));
    api->ReleaseTensorTypeAndShapeInfo(info);
}

static void strings(void **state) {
    const int64_t sizes[1] = {3};
    const char *const words[3] = {"one", "", "three"};
    OrtValue *value = NULL;
    char text[16] = "", *room = NULL;
    size_t length = 0, offsets[3] = {9, 9, 9};
    succeeds(api->CreateTensorAsOrtValue(allocator, sizes, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value));
    fails(api->FillStringTensor(value, words, 2), ORT_INVALID_ARGUMENT);
    succeeds(api->FillStringTensor(value, words, 3));
    succeeds(api->GetStringTensorDataLength(value, &length));
    assert_int_equal(length, 8);
    fails(api->GetStringTensorContent(value, text, 7, offsets, 3), ORT_FAIL);
    fails(api->GetStringTensorContent(value, text, sizeof text, offsets, 2), ORT_FAIL);
    succeeds(api->GetStringTensorContent(value, text, sizeof text, offsets, 3));
    assert_int_equal(memcmp(text, "onethree", 8), 0);
    assert_int_equal(offsets[0] * 100 + offsets[1] * 10 + offsets[2], 33);
    succeeds(api->GetStringTensorElementLength(value, 2, &length));
    assert_int_equal(length, 5);
    fails(api->GetStringTensorElementLength(value, 3, &length), ORT_INVALID_ARGUMENT);
    fails(api->GetStringTensorElement(value, 4, 2, text), ORT_FAIL);
    succeeds(api->GetStringTensorElement(value, 5, 2, text));
    assert_int_equal(memcmp(text, "three", 5), 0);
    succeeds(api->FillStringTensorElement(value, "more", 1));
    fails(api->FillStringTensorElement(value, "more", 3), ORT_INVALID_ARGUMENT);
    succeeds(api->GetResizedStringTensorElementBuffer(value, 0, 2, &room));
    memcpy(room, "ab", 2);
    succeeds(api->GetStringTensorDataLength(value, &length));
    assert_int_equal(length, 11);
    /* A zero byte is one of a string's bytes. */
    memcpy(text, "............", 12);
    succeeds(api->GetResizedStringTensorElementBuffer(value, 1, 3, &room));
    memcpy(room, "x\0y", 3);
    succeeds(api->GetStringTensorElementLength(value, 1, &length));
    assert_int_equal(length, 3);
    succeeds(api->GetStringTensorElement(value, 3, 1, text));
    assert_int_equal(memcmp(text, "x\0y.", 4), 0);
    OrtValue *list = NULL, *copy = NULL;
    succeeds(api->CreateValue((const OrtValue *const *)&value, 1, ONNX_TYPE_SEQUENCE, &list));
    succeeds(api->GetValue(list, 0, allocator, &copy));
    for (int i = 0; i < 2; i++) {
        succeeds(api->GetStringTensorContent(i ? copy : value, text, sizeof text, offsets, 3));
        assert_int_equal(memcmp(text, "abx\0ythree", 10), 0);
        assert_int_equal(offsets[1] * 10 + offsets[2], 25);
    }
    api->ReleaseValue(copy);
    api->ReleaseValue(list);
    api->ReleaseValue(value);
}

static void sequences(void **state) {
    float x[4] = {1, 2, 3, 4};
    int64_t keys[2] = {5, 6};
    OrtValue *items[2] = {floats(x, 1, 2), floats(x + 2, 1, 2)}, *list = NULL, *item = NULL, *map = NULL;
    size_t count = 0;
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    int flag = -1;
    succeeds(api->CreateValue((const OrtValue *const *)items, 2, ONNX_TYPE_SEQUENCE, &list));
    fails(api->CreateValue((const OrtValue *const *)items, 0, ONNX_TYPE_SEQUENCE, &item), ORT_FAIL);
    api->ReleaseValue(items[0]);
    succeeds(api->GetValueType(list, &kind));
    assert_int_equal(kind, ONNX_TYPE_SEQUENCE);
    succeeds(api->IsTensor(list, &flag));
    assert_int_equal(flag, 0);
    succeeds(api->GetValueCount(list, &count));
    assert_int_equal(count, 2);
    succeeds(api->GetValue(list, 0, allocator, &item));
    assert_true(numbers(item)[1] == 2 && numbers(item) != x);
    api->ReleaseValue(item);
    fails(api->GetValue(list, 2, allocator, &item), ORT_FAIL);
    api->ReleaseValue(list);
    OrtValue *pair[2] = {tensor(keys, sizeof keys, 1, 2, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
                         tensor(x, 8, 1, 2, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)};
    succeeds(api->CreateValue((const OrtValue *const *)pair, 2, ONNX_TYPE_MAP, &map));
    succeeds(api->GetValueCount(map, &count));
    assert_int_equal(count, 2);
    succeeds(api->GetValue(map, 1, allocator, &item));
    assert_true(numbers(item)[1] == 2);
    api->ReleaseValue(item);
    api->ReleaseValue(map);
    api->ReleaseValue(pair[0]);
    api->ReleaseValue(pair[1]);
    api->ReleaseValue(items[1]);
}

int test_values(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memories), cmocka_unit_test(tensors),   cmocka_unit_test(shapes),
        cmocka_unit_test(strings),  cmocka_unit_test(sequences),
    };
    return run_group("values", tests);
}
