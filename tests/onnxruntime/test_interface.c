/* Calls each implemented function of ONNX Runtime's C interface, with its errors: test-onnxruntime LIBRARY
 * [original]. The second word says that the library is ONNX Runtime's own, of which all this must be true,
 * too, except what is marked as Koine's. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "onnxruntime/interface.h"
#include "support.h"

static const OrtApi *api;
static const OrtApiBase *base;
static bool original;
static OrtEnv *env;
static OrtAllocator *allocator;
static OrtMemoryInfo *memory;

/* ---- helpers ----------------------------------------------------------------------------- */

static void succeeds_at(OrtStatus *status, int line) {
    if (!status) return;
    fail_msg("line %d: %s", line, api->GetErrorMessage(status));
}
#define succeeds(call) succeeds_at(call, __LINE__)

/* The call fails with this code, and a message that contains the word. */
static void fails_at(OrtStatus *status, OrtErrorCode code, const char *word, int line) {
    if (!status) fail_msg("line %d: succeeds", line);
    if (api->GetErrorCode(status) != code || !strstr(api->GetErrorMessage(status), word))
        fail_msg("line %d: %d, %s", line, (int)api->GetErrorCode(status), api->GetErrorMessage(status));
    api->ReleaseStatus(status);
}
#define fails(call, code) fails_at(call, code, "", __LINE__)
#define fails_with(call, code, word) fails_at(call, code, word, __LINE__)

static OrtSession *open_bytes(const made *model, const OrtSessionOptions *options) {
    OrtSession *session = NULL;
    succeeds(api->CreateSessionFromArray(env, model->bytes, model->count, options, &session));
    return session;
}

static OrtValue *tensor(void *data, size_t bytes, int rank, int64_t a, int64_t b,
                        ONNXTensorElementDataType type) {
    OrtValue *value = NULL;
    const int64_t sizes[2] = {a, b};
    succeeds(api->CreateTensorWithDataAsOrtValue(memory, data, bytes, sizes, (size_t)rank, type, &value));
    return value;
}

static OrtValue *floats(float *data, int64_t a, int64_t b) {
    return tensor(data, (size_t)(a * b) * sizeof *data, 2, a, b, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
}

static const float *numbers(const OrtValue *value) {
    const void *data = NULL;
    succeeds(api->GetTensorData(value, &data));
    return data;
}

static OrtStatus *run1(OrtSession *session, const OrtRunOptions *options, const char *input,
                       const OrtValue *x, const char *output, OrtValue **y) {
    return api->Run(session, options, &input, &x, 1, &output, 1, y);
}

static void has_shape(const OrtValue *value, size_t rank, int64_t a, int64_t b) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t found = 0, count = 0;
    int64_t sizes[2] = {-7, -7};
    succeeds(api->GetTensorTypeAndShape(value, &info));
    succeeds(api->GetDimensionsCount(info, &found));
    assert_int_equal(found, rank);
    succeeds(api->GetDimensions(info, sizes, rank));
    if (rank > 0) assert_int_equal(sizes[0], a);
    if (rank > 1) assert_int_equal(sizes[1], b);
    succeeds(api->GetTensorShapeElementCount(info, &count));
    assert_int_equal(count, (rank > 0 ? a : 1) * (rank > 1 ? b : 1));
    api->ReleaseTensorTypeAndShapeInfo(info);
}

/* ---- the table, statuses, the environment ------------------------------------------------ */

static void versions(void **state) {
    assert_null(base->GetApi(0));
    for (uint32_t version = 1; version <= ORT_API_VERSION; version++)
        assert_ptr_equal(base->GetApi(version), api);
    if (!original) assert_null(base->GetApi(ORT_API_VERSION + 1));
    assert_int_equal(strncmp(base->GetVersionString(), "1.", 2), 0);
    assert_true(atoi(base->GetVersionString() + 2) >= ORT_API_VERSION);
    assert_non_null(strstr(api->GetBuildInfoString(), "ORT Build Info: "));
}

static void statuses(void **state) {
    OrtStatus *status = api->CreateStatus(ORT_NO_MODEL, "some words");
    assert_int_equal(api->GetErrorCode(status), ORT_NO_MODEL);
    assert_string_equal(api->GetErrorMessage(status), "some words");
    api->ReleaseStatus(status);
}

static void nothing_to_release(void **state) {
    api->ReleaseEnv(NULL);
    api->ReleaseStatus(NULL);
    api->ReleaseMemoryInfo(NULL);
    api->ReleaseSession(NULL);
    api->ReleaseValue(NULL);
    api->ReleaseRunOptions(NULL);
    api->ReleaseTypeInfo(NULL);
    api->ReleaseTensorTypeAndShapeInfo(NULL);
    api->ReleaseSessionOptions(NULL);
    api->ReleaseCustomOpDomain(NULL);
    api->ReleaseModelMetadata(NULL);
    api->ReleaseThreadingOptions(NULL);
    api->ReleaseIoBinding(NULL);
    api->ReleaseArenaCfg(NULL);
    api->ReleasePrepackedWeightsContainer(NULL);
    api->ReleaseKeyValuePairs(NULL);
    api->ReleaseAllocator(NULL);
}

static void environments(void **state) {
    OrtEnv *other = NULL;
    succeeds(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "second", &other));
    assert_ptr_equal(other, env);
    api->ReleaseEnv(other);
    succeeds(api->EnableTelemetryEvents(env));
    succeeds(api->DisableTelemetryEvents(env));
    succeeds(api->SetLanguageProjection(env, ORT_PROJECTION_C));
    succeeds(api->UpdateEnvWithCustomLogLevel(env, ORT_LOGGING_LEVEL_ERROR));
    OrtThreadingOptions *threads = NULL;
    succeeds(api->CreateThreadingOptions(&threads));
    succeeds(api->SetGlobalIntraOpNumThreads(threads, 2));
    succeeds(api->SetGlobalInterOpNumThreads(threads, 1));
    succeeds(api->SetGlobalSpinControl(threads, 0));
    succeeds(api->SetGlobalDenormalAsZero(threads));
    succeeds(api->CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_ERROR, "third", threads, &other));
    assert_ptr_equal(other, env);
    api->ReleaseEnv(other);
    api->ReleaseThreadingOptions(threads);
}

static void providers(void **state) {
    char **names = NULL;
    int count = 0, found = 0;
    succeeds(api->GetAvailableProviders(&names, &count));
    for (int i = 0; i < count; i++)
        found += !strcmp(names[i], "CPUExecutionProvider") + 2 * !strcmp(names[i], "KoineExecutionProvider");
    assert_int_equal(found, original ? 1 : 3);
    succeeds(api->ReleaseAvailableProviders(names, count));
    OrtSessionOptions *options = NULL;
    succeeds(api->CreateSessionOptions(&options));
    const char *keys[] = {"device", "math"}, *values[] = {"", "exact"}, *wrong = "colour";
    fails(api->SessionOptionsAppendExecutionProvider(options, "Nobody", NULL, NULL, 0), ORT_INVALID_ARGUMENT);
    fails(api->SessionOptionsAppendExecutionProvider_CUDA(options, (const OrtCUDAProviderOptions *)keys),
          ORT_FAIL);
    fails(api->SessionOptionsAppendExecutionProvider_MIGraphX(options,
                                                              (const OrtMIGraphXProviderOptions *)keys),
          ORT_FAIL);
    if (!original) {
        succeeds(api->SessionOptionsAppendExecutionProvider(options, "Koine", keys, values, 2));
        succeeds(
            api->SessionOptionsAppendExecutionProvider(options, "KoineExecutionProvider", keys, values, 2));
        succeeds(api->SessionOptionsAppendExecutionProvider(options, "CPU", NULL, NULL, 0));
        fails_with(api->SessionOptionsAppendExecutionProvider(options, "Koine", &wrong, values, 1),
                   ORT_INVALID_ARGUMENT, "colour");
    }
    api->ReleaseSessionOptions(options);
}

/* ---- options ----------------------------------------------------------------------------- */

static void session_options(void **state) {
    OrtSessionOptions *options = NULL, *copy = NULL;
    char text[8];
    size_t size = 0;
    int there = -1;
    ExecutionMode mode = ORT_SEQUENTIAL;
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->SetSessionExecutionMode(options, ORT_PARALLEL));
    fails(api->SetSessionExecutionMode(options, (ExecutionMode)5), ORT_INVALID_ARGUMENT);
    succeeds(api->GetSessionExecutionMode(options, &mode));
    assert_int_equal(mode, ORT_PARALLEL);
    succeeds(api->SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL));
    fails(api->SetSessionGraphOptimizationLevel(options, (GraphOptimizationLevel)50), ORT_INVALID_ARGUMENT);
    succeeds(api->DisableMemPattern(options));
    succeeds(api->GetMemPatternEnabled(options, &there));
    assert_int_equal(there, 0);
    succeeds(api->EnableMemPattern(options));
    succeeds(api->EnableCpuMemArena(options));
    succeeds(api->DisableCpuMemArena(options));
    succeeds(api->SetIntraOpNumThreads(options, 1));
    succeeds(api->SetInterOpNumThreads(options, 1));
    succeeds(api->SetSessionLogId(options, "log"));
    succeeds(api->SetSessionLogSeverityLevel(options, 3));
    succeeds(api->SetSessionLogVerbosityLevel(options, 0));
    succeeds(api->SetDeterministicCompute(options, true));
    succeeds(api->AddSessionConfigEntry(options, "some.key", "value"));
    fails(api->AddSessionConfigEntry(options, "", "value"), ORT_INVALID_ARGUMENT);
    succeeds(api->CloneSessionOptions(options, &copy));
    api->ReleaseSessionOptions(options);
    succeeds(api->HasSessionConfigEntry(copy, "some.key", &there));
    assert_int_equal(there, 1);
    succeeds(api->HasSessionConfigEntry(copy, "other", &there));
    assert_int_equal(there, 0);
    succeeds(api->GetSessionConfigEntry(copy, "some.key", NULL, &size));
    assert_int_equal(size, 6);
    size = 5;
    fails(api->GetSessionConfigEntry(copy, "some.key", text, &size), ORT_INVALID_ARGUMENT);
    size = sizeof text;
    succeeds(api->GetSessionConfigEntry(copy, "some.key", text, &size));
    assert_string_equal(text, "value");
    fails(api->GetSessionConfigEntry(copy, "other", text, &size), ORT_INVALID_ARGUMENT);
    OrtKeyValuePairs *pairs = NULL;
    succeeds(api->GetSessionOptionsConfigEntries(copy, &pairs));
    assert_string_equal(api->GetKeyValue(pairs, "some.key"), "value");
    api->ReleaseKeyValuePairs(pairs);
    api->ReleaseSessionOptions(copy);
}

static void run_options(void **state) {
    OrtRunOptions *options = NULL;
    const char *tag = NULL;
    int level = 0;
    succeeds(api->CreateRunOptions(&options));
    succeeds(api->RunOptionsSetRunTag(options, "tag"));
    succeeds(api->RunOptionsGetRunTag(options, &tag));
    assert_string_equal(tag, "tag");
    succeeds(api->RunOptionsSetRunLogSeverityLevel(options, 3));
    succeeds(api->RunOptionsGetRunLogSeverityLevel(options, &level));
    assert_int_equal(level, 3);
    succeeds(api->RunOptionsSetRunLogVerbosityLevel(options, 2));
    succeeds(api->RunOptionsGetRunLogVerbosityLevel(options, &level));
    assert_int_equal(level, 2);
    succeeds(api->AddRunConfigEntry(options, "key", "value"));
    assert_string_equal(api->GetRunConfigEntry(options, "key"), "value");
    assert_null(api->GetRunConfigEntry(options, "other"));
    api->ReleaseRunOptions(options);
}

static void key_values(void **state) {
    OrtKeyValuePairs *pairs = NULL;
    const char *const *keys = NULL, *const *values = NULL;
    size_t count = 0;
    api->CreateKeyValuePairs(&pairs);
    api->AddKeyValuePair(pairs, "a", "1");
    api->AddKeyValuePair(pairs, "b", "2");
    api->AddKeyValuePair(pairs, "a", "3");
    api->GetKeyValuePairs(pairs, &keys, &values, &count);
    assert_int_equal(count, 2);
    assert_string_equal(api->GetKeyValue(pairs, "a"), "3");
    api->RemoveKeyValuePair(pairs, "a");
    api->RemoveKeyValuePair(pairs, "c");
    assert_null(api->GetKeyValue(pairs, "a"));
    api->GetKeyValuePairs(pairs, &keys, &values, &count);
    assert_int_equal(count, 1);
    assert_string_equal(keys[0], "b");
    assert_string_equal(values[0], "2");
    api->ReleaseKeyValuePairs(pairs);
}

/* ---- memory ------------------------------------------------------------------------------ */

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
    OrtArenaCfg *arena = NULL;
    const char *key = "max_mem";
    const size_t most = 0;
    succeeds(api->CreateArenaCfg(0, -1, -1, -1, &arena));
    api->ReleaseArenaCfg(arena);
    succeeds(api->CreateArenaCfgV2(&key, &most, 1, &arena));
    api->ReleaseArenaCfg(arena);
}

/* ---- values ------------------------------------------------------------------------------ */

static void tensors(void **state) {
    float x[6] = {1, 2, 3, 4, 5, 6}, *data = NULL;
    const int64_t sizes[2] = {2, 3}, place[2] = {1, 2}, outside[2] = {2, 0}, negative[2] = {-1, 2},
                  none[2] = {0, 3};
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

/* ---- sessions ---------------------------------------------------------------------------- */

static void describe(OrtSession *session, int64_t batch) {
    size_t count = 0, rank = 0;
    char *name = NULL;
    OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    int64_t sizes[2] = {0, 0};
    const char *symbols[2] = {NULL, NULL};
    succeeds(api->SessionGetInputCount(session, &count));
    assert_int_equal(count, 1);
    succeeds(api->SessionGetOutputCount(session, &count));
    assert_int_equal(count, 2);
    succeeds(api->SessionGetOverridableInitializerCount(session, &count));
    assert_int_equal(count, 0);
    succeeds(api->SessionGetInputName(session, 0, allocator, &name));
    assert_string_equal(name, "x");
    allocator->Free(allocator, name);
    succeeds(api->SessionGetOutputName(session, 1, allocator, &name));
    assert_string_equal(name, "z");
    succeeds(api->AllocatorFree(allocator, name));
    fails(api->SessionGetInputName(session, 1, allocator, &name), ORT_FAIL);
    fails(api->SessionGetOutputTypeInfo(session, 2, &type), ORT_FAIL);
    succeeds(api->SessionGetOutputTypeInfo(session, 0, &type));
    api->ReleaseTypeInfo(type);
    succeeds(api->SessionGetInputTypeInfo(session, 0, &type));
    succeeds(api->CastTypeInfoToTensorInfo(type, &shape));
    succeeds(api->GetDimensionsCount(shape, &rank));
    assert_int_equal(rank, 2);
    succeeds(api->GetDimensions(shape, sizes, 2));
    assert_int_equal(sizes[0], batch);
    assert_int_equal(sizes[1], 3);
    succeeds(api->GetSymbolicDimensions(shape, symbols, 2));
    assert_string_equal(symbols[0], batch < 0 ? "batch" : "");
    assert_string_equal(symbols[1], "");
    api->ReleaseTypeInfo(type);
}

static void sessions(void **state) {
    made model;
    OrtSession *session = NULL;
    OrtSessionOptions *options = NULL;
    char path[512], saved[512];
    model_sum(&model);
    char *folder = test_folder_make();
    test_path(path, sizeof path, folder, "sum.onnx");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model.bytes, 1, model.count, file), model.count);
    fclose(file);
    succeeds(api->CreateSession(env, path, NULL, &session));
    describe(session, -1);
    api->ReleaseSession(session);
    session = open_bytes(&model, NULL);
    describe(session, -1);
    api->ReleaseSession(session);
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->AddFreeDimensionOverrideByName(options, "batch", 2));
    succeeds(api->AddFreeDimensionOverrideByName(options, "nothing", 2));
    succeeds(api->SetOptimizedModelFilePath(options, test_path(saved, sizeof saved, folder, "saved.onnx")));
    succeeds(api->CreateSession(env, path, options, &session));
    api->ReleaseSessionOptions(options);
    describe(session, 2);
    api->ReleaseSession(session);
    succeeds(api->CreateSession(env, saved, NULL, &session));
    api->ReleaseSession(session);
    OrtPrepackedWeightsContainer *container = NULL;
    succeeds(api->CreatePrepackedWeightsContainer(&container));
    succeeds(api->CreateSessionWithPrepackedWeightsContainer(env, path, NULL, container, &session));
    api->ReleaseSession(session);
    api->ReleasePrepackedWeightsContainer(container);
    test_path(path, sizeof path, folder, "missing.onnx");
    fails(api->CreateSession(env, path, NULL, &session), ORT_NO_SUCHFILE);
    test_folder_remove(folder);
    fails(api->CreateSessionFromArray(env, model.bytes, model.count - 1, NULL, &session),
          ORT_INVALID_PROTOBUF);
    model_unknown(&model);
    if (original)
        fails(api->CreateSessionFromArray(env, model.bytes, model.count, NULL, &session), ORT_INVALID_GRAPH);
    else
        fails_with(api->CreateSessionFromArray(env, model.bytes, model.count, NULL, &session),
                   ORT_NOT_IMPLEMENTED, "Unseen");
    /* ORT's own format. */
    static const char bytes[32] = "\x20\0\0\0ORTM";
    if (!original)
        fails_with(api->CreateSessionFromArray(env, bytes, sizeof bytes, NULL, &session), ORT_NOT_IMPLEMENTED,
                   "ORT format");
}

static void log_nothing(void *user, OrtLoggingLevel level, const char *category, const char *id,
                        const char *location, const char *message) {
    assert_non_null(message);
}

static void refused_options(void **state) {
    made model;
    OrtSession *session = NULL;
    OrtSessionOptions *options = NULL;
    OrtCustomOpDomain *domain = NULL;
    model_sum(&model);
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->SetUserLoggingFunction(options, log_nothing, NULL));
    succeeds(api->CreateCustomOpDomain("some.domain", &domain));
    succeeds(api->AddCustomOpDomain(options, domain));
    session = open_bytes(&model, options);
    api->ReleaseSession(session);
    api->ReleaseCustomOpDomain(domain);
    if (!original) {
        const char *keys[] = {"device"}, *values[] = {"no such device"};
        succeeds(api->SessionOptionsAppendExecutionProvider(options, "Koine", keys, values, 1));
        fails_with(api->CreateSessionFromArray(env, model.bytes, model.count, options, &session), ORT_EP_FAIL,
                   "no such device");
    }
    api->ReleaseSessionOptions(options);
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->DisablePerSessionThreads(options));
    fails(api->CreateSessionFromArray(env, model.bytes, model.count, options, &session), ORT_FAIL);
    api->ReleaseSessionOptions(options);
}

static void text_is(char *text, const char *expected) {
    assert_string_equal(text, expected);
    succeeds(api->AllocatorFree(allocator, text));
}

static void metadata(void **state) {
    made model;
    OrtModelMetadata *data = NULL;
    char *text = NULL, **keys = NULL;
    int64_t number = 0;
    model_sum(&model);
    OrtSession *session = open_bytes(&model, NULL);
    succeeds(api->SessionGetModelMetadata(session, &data));
    api->ReleaseSession(session);
    succeeds(api->ModelMetadataGetProducerName(data, allocator, &text));
    text_is(text, "maker");
    succeeds(api->ModelMetadataGetGraphName(data, allocator, &text));
    text_is(text, "sums");
    succeeds(api->ModelMetadataGetDomain(data, allocator, &text));
    text_is(text, "org.example");
    succeeds(api->ModelMetadataGetDescription(data, allocator, &text));
    text_is(text, "a test");
    succeeds(api->ModelMetadataGetGraphDescription(data, allocator, &text));
    text_is(text, "of a graph");
    succeeds(api->ModelMetadataGetVersion(data, &number));
    assert_int_equal(number, 17);
    succeeds(api->ModelMetadataLookupCustomMetadataMap(data, allocator, "rate", &text));
    text_is(text, "16000");
    succeeds(api->ModelMetadataLookupCustomMetadataMap(data, allocator, "nothing", &text));
    assert_null(text);
    succeeds(api->ModelMetadataGetCustomMetadataMapKeys(data, allocator, &keys, &number));
    assert_int_equal(number, 2);
    for (int i = 0; i < 2; i++)
        succeeds(api->AllocatorFree(allocator, keys[i]));
    succeeds(api->AllocatorFree(allocator, keys));
    api->ReleaseModelMetadata(data);
    model_branches(&model);
    session = open_bytes(&model, NULL);
    succeeds(api->SessionGetModelMetadata(session, &data));
    succeeds(api->ModelMetadataGetCustomMetadataMapKeys(data, allocator, &keys, &number));
    assert_int_equal(number, 0);
    assert_null(keys);
    api->ReleaseModelMetadata(data);
    api->ReleaseSession(session);
}

/* ---- runs -------------------------------------------------------------------------------- */

static void runs(void **state) {
    made model;
    float x[9], own[6];
    for (int i = 0; i < 9; i++)
        x[i] = (float)i;
    model_sum(&model);
    OrtSession *session = open_bytes(&model, NULL);
    /* Any batch, none too, and back. */
    static const int64_t batches[] = {2, 1, 3, 0, 2};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        OrtValue *value = floats(x, batches[i], 3), *y = NULL;
        succeeds(run1(session, NULL, "x", value, "y", &y));
        has_shape(y, 2, batches[i], 3);
        for (int k = 0; k < batches[i] * 3; k++)
            assert_true(numbers(y)[k] == x[k] + (float)(k % 3));
        api->ReleaseValue(y);
        api->ReleaseValue(value);
    }
    OrtValue *value = floats(x, 2, 3), *results[2] = {NULL, floats(own, 2, 3)};
    const char *const names[] = {"z", "y"};
    const char *const input = "x";
    succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, names, 2, results));
    assert_true(numbers(results[0])[5] == -5);
    assert_true(own[5] == 7);
    api->ReleaseValue(results[0]);
    results[0] = NULL;
    OrtValue *small = floats(own, 1, 3), *wide = floats(x, 3, 2), *flat = NULL, *other = NULL;
    flat = tensor(x, 12, 1, 3, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    other = tensor(x, 24, 2, 2, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
    fails(run1(session, NULL, "x", value, "y", &small), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", wide, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", flat, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", other, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "q", value, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", value, "q", &results[0]), ORT_INVALID_ARGUMENT);
    fails(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 0, names, 1, results), ORT_FAIL);
    fails(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, names, 0, results),
          ORT_INVALID_ARGUMENT);
    assert_null(results[0]);
    OrtRunOptions *options = NULL;
    succeeds(api->CreateRunOptions(&options));
    succeeds(api->RunOptionsSetTerminate(options));
    for (int i = 0; i < 2; i++)
        fails_with(run1(session, options, "x", value, "y", &results[0]), ORT_FAIL, "terminate flag");
    succeeds(api->RunOptionsUnsetTerminate(options));
    succeeds(run1(session, options, "x", value, "y", &results[0]));
    api->ReleaseRunOptions(options);
    api->ReleaseValue(results[0]);
    api->ReleaseValue(results[1]);
    api->ReleaseValue(small);
    api->ReleaseValue(wide);
    api->ReleaseValue(flat);
    api->ReleaseValue(other);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

/* The value of an input decides what is computed, and a scalar may come as [1]. */
static void branches(void **state) {
    made model;
    float x[2] = {1, 5};
    int64_t rate;
    model_branches(&model);
    OrtSession *session = open_bytes(&model, NULL);
    static const int64_t rates[] = {16000, 8000, 16000, 1, 8000};
    const char *const inputs[] = {"rate", "x"}, *const output = "y";
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        rate = rates[i];
        OrtValue *values[2] = {tensor(&rate, sizeof rate, i % 2, 1, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
                               floats(x, 1, 2)},
                 *y = NULL;
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, &output, 1, &y));
        has_shape(y, 2, 1, 2);
        assert_true(numbers(y)[1] == (rate == 16000 ? 10 : -5));
        api->ReleaseValue(y);
        api->ReleaseValue(values[0]);
        api->ReleaseValue(values[1]);
    }
    api->ReleaseSession(session);
}

/* Computed values decide what is computed, and how large a result is. */
static void computed_choices(void **state) {
    made model;
    float x[90];
    uint32_t drawn = 7;
    model_computed(&model);
    OrtSession *session = open_bytes(&model, NULL);
    const char *const input = "x", *const outputs[] = {"y", "where"};
    for (int run = 0; run < 12; run++) {
        const int rows = run % 4 == 3 ? 4 : 30;
        float sum = 0;
        int count = 0, at = 0;
        for (int i = 0; i < rows * 3; i++) {
            if (run != 5) drawn = drawn * 1664525 + 1013904223; /* run 5 has the values of run 4 */
            if (run != 5) x[i] = (float)((int)(drawn >> 28) - (run % 2 ? 9 : 6));
            if (run == 8) x[i] = -1;
            sum += x[i];
            count += x[i] > 0;
        }
        OrtValue *value = floats(x, rows, 3), *results[2] = {NULL, NULL};
        succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, outputs, 2, results));
        has_shape(results[0], 2, rows, 3);
        has_shape(results[1], 2, 2, count);
        const int64_t *where = (const int64_t *)numbers(results[1]);
        for (int i = 0; i < rows * 3; i++) {
            assert_true(numbers(results[0])[i] == (sum > 0 ? x[i] + x[i] : -x[i]));
            if (!(x[i] > 0)) continue;
            assert_int_equal(where[at], i / 3);
            assert_int_equal(where[count + at++], i % 3);
        }
        for (int i = 0; i < 2; i++)
            api->ReleaseValue(results[i]);
        /* One of the outputs needs one of the two. */
        OrtValue *one = NULL;
        succeeds(run1(session, NULL, "x", value, outputs[run % 2], &one));
        api->ReleaseValue(one);
        api->ReleaseValue(value);
    }
    api->ReleaseSession(session);
}

/* Only one of the branches reads the values of the second input. */
static void values_of_one_branch(void **state) {
    made model;
    float x[90];
    model_reshaped(&model);
    OrtSession *session = open_bytes(&model, NULL);
    static const int64_t kinds[][2] = {{-1, 9},  {1, 9},   {1, 10}, {1, 45},
                                       {-1, 45}, {-1, 10}, {1, 10}, {1, 9}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const bool positive = kinds[i][0] > 0;
        int64_t shape[2] = {90 / kinds[i][1], kinds[i][1]};
        for (int k = 0; k < 90; k++)
            x[k] = (float)(kinds[i][0] * (k + (int)i));
        OrtValue *values[2] = {floats(x, 30, 3),
                               tensor(shape, sizeof shape, 1, 2, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)},
                 *y = NULL;
        const char *const inputs[] = {"x", "shape"}, *const output = "y";
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, &output, 1, &y));
        has_shape(y, 2, positive ? shape[0] : 30, positive ? shape[1] : 3);
        assert_true(numbers(y)[89] == (positive ? x[89] : -x[89]));
        api->ReleaseValue(y);
        api->ReleaseValue(values[0]);
        api->ReleaseValue(values[1]);
    }
    api->ReleaseSession(session);
}

static void other_types(void **state) {
    made model;
    float x[4] = {1.5f, -2.5f, 3e9f, 0};
    OrtValue *value = floats(x, 2, 2), *results[2] = {NULL, NULL};
    const char *const names[] = {"y", "again"}, *const input = "x";
    model_cast(&model);
    OrtSession *session = open_bytes(&model, NULL);
    succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, names, 2, results));
    for (int i = 0; i < 2; i++) {
        const int64_t *found = (const int64_t *)numbers(results[i]);
        assert_int_equal(found[0], 1);
        assert_int_equal(found[1], -2);
        assert_int_equal(found[2], 3000000000);
        api->ReleaseValue(results[i]);
    }
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

static void bindings(void **state) {
    made model;
    float x[6] = {1, 2, 3, 4, 5, 6}, own[6] = {0};
    model_sum(&model);
    OrtSession *session = open_bytes(&model, NULL);
    OrtIoBinding *binding = NULL;
    OrtValue *value = floats(x, 2, 3), *result = floats(own, 2, 3), **values = NULL;
    size_t count = 0, *lengths = NULL;
    char *names = NULL;
    succeeds(api->CreateIoBinding(session, &binding));
    succeeds(api->BindInput(binding, "x", value));
    fails(api->BindInput(binding, "q", value), ORT_FAIL);
    succeeds(api->BindOutput(binding, "y", result));
    succeeds(api->BindOutputToDevice(binding, "z", memory));
    api->ReleaseValue(value);
    for (int i = 0; i < 2; i++) {
        x[5] = (float)(6 + i);
        succeeds(api->SynchronizeBoundInputs(binding));
        succeeds(api->RunWithBinding(session, NULL, binding));
        succeeds(api->SynchronizeBoundOutputs(binding));
        assert_true(own[5] == (float)(8 + i));
    }
    succeeds(api->GetBoundOutputNames(binding, allocator, &names, &lengths, &count));
    assert_int_equal(count * 10 + lengths[0], 21);
    assert_int_equal(memcmp(names, "yz", 2), 0);
    succeeds(api->AllocatorFree(allocator, names));
    succeeds(api->AllocatorFree(allocator, lengths));
    succeeds(api->GetBoundOutputValues(binding, allocator, &values, &count));
    assert_int_equal(count, 2);
    api->ClearBoundInputs(binding);
    api->ClearBoundOutputs(binding);
    assert_true(numbers(values[1])[5] == -7);
    api->ReleaseValue(values[0]);
    api->ReleaseValue(values[1]);
    succeeds(api->AllocatorFree(allocator, values));
    succeeds(api->GetBoundOutputValues(binding, allocator, &values, &count));
    assert_int_equal(count, 0);
    succeeds(api->BindInput(binding, "x", result));
    succeeds(api->BindOutput(binding, "q", result));
    fails(api->RunWithBinding(session, NULL, binding), ORT_INVALID_ARGUMENT);
    api->ReleaseIoBinding(binding);
    api->ReleaseValue(result);
    OrtAllocator *own_allocator = NULL;
    succeeds(api->CreateAllocator(session, memory, &own_allocator));
    void *taken = own_allocator->Alloc(own_allocator, 10);
    assert_non_null(taken);
    own_allocator->Free(own_allocator, taken);
    api->ReleaseAllocator(own_allocator);
    api->ReleaseSession(session);
}

/* ---- threads ----------------------------------------------------------------------------- */

enum { THREADS = 8, RUNS = 40 };
typedef struct worker {
    pthread_t thread;
    OrtSession *session;
    int number, wrong;
} worker;

static void *work(void *argument) {
    worker *own = argument;
    for (int i = 0; i < RUNS; i++) {
        float x[6];
        const int64_t rows = 1 + i % 2, sizes[2] = {rows, 3};
        for (int k = 0; k < 6; k++)
            x[k] = (float)(own->number * 1000 + i * 10 + k);
        OrtValue *value = NULL, *y = NULL;
        OrtStatus *status = api->CreateTensorWithDataAsOrtValue(memory, x, sizeof x, sizes, 2,
                                                                ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value);
        if (!status) status = run1(own->session, NULL, "x", value, "y", &y);
        const void *data = NULL;
        if (!status) status = api->GetTensorData(y, &data);
        own->wrong += status || ((const float *)data)[3 * rows - 1] != x[3 * rows - 1] + 2;
        api->ReleaseStatus(status);
        api->ReleaseValue(value);
        api->ReleaseValue(y);
    }
    return NULL;
}

static void threads(void **state) {
    made model;
    model_sum(&model);
    for (int shared = 0; shared < 2; shared++) {
        worker workers[THREADS];
        OrtSession *session = shared ? open_bytes(&model, NULL) : NULL;
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){.session = shared ? session : open_bytes(&model, NULL), .number = i};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(workers[i].thread, NULL);
            assert_int_equal(workers[i].wrong, 0);
            if (!shared) api->ReleaseSession(workers[i].session);
        }
        api->ReleaseSession(session);
    }
}

/* ---- Koine's: stubs, and NULL for each pointer ------------------------------------------- */

static void stubs(void **state) {
    if (original) skip();
#define DONE(index, tier, type, name, parameters)
#define OPEN(index, tier, gives, name) STUB_##gives(name)
#define STUB_STATUS(name) fails_with(((OrtStatus * (*)(void)) api->name)(), ORT_NOT_IMPLEMENTED, #name);
#define STUB_NOTHING(name) api->name();
#define STUB_POINTER(name) assert_null(((void *(*)(void))api->name)());
#define STUB_NUMBER(name) assert_int_equal(((int64_t(*)(void))api->name)(), 0);
#include "onnxruntime/functions.def"
}

static void every_pointer_null(void **state) {
    if (original) skip();
    /* Integers and pointers are passed alike, so that eight zeros suffice for every function. */
    typedef OrtStatus *(*any)(void *, void *, void *, void *, void *, void *, void *, void *);
    static const struct {
        const char *type;
        size_t offset;
    } functions[] = {
#define DONE(index, tier, type, name, parameters) {#type, offsetof(OrtApi, name)},
#define OPEN(index, tier, gives, name)
#include "onnxruntime/functions.def"
    };
    int count = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        any call;
        memcpy(&call, (const char *)api + functions[i].offset, sizeof call);
        if (!strcmp(functions[i].type, "OrtStatus *")) {
            OrtStatus *status = call(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
            if (!status && functions[i].offset != offsetof(OrtApi, ReleaseAvailableProviders))
                fail_msg("function %zu accepts NULL", functions[i].offset / sizeof call);
            api->ReleaseStatus(status);
            count++;
        } else if (!strcmp(functions[i].type, "void")) {
            call(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        }
    }
    assert_true(count > 130);
}

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    original = count > 2;
    const OrtApiBase *(*get)(void) = NULL;
    if (library) *(void **)&get = dlsym(library, "OrtGetApiBase");
    if (!get) {
        fprintf(stderr, "%s\n", count > 1 ? dlerror() : "usage: test-onnxruntime LIBRARY [original]");
        return 1;
    }
    base = get();
    api = base->GetApi(ORT_API_VERSION);
    if (!api || api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &env) ||
        api->GetAllocatorWithDefaultOptions(&allocator) ||
        api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(statuses),
        cmocka_unit_test(nothing_to_release),
        cmocka_unit_test(environments),
        cmocka_unit_test(providers),
        cmocka_unit_test(session_options),
        cmocka_unit_test(run_options),
        cmocka_unit_test(key_values),
        cmocka_unit_test(memories),
        cmocka_unit_test(tensors),
        cmocka_unit_test(shapes),
        cmocka_unit_test(strings),
        cmocka_unit_test(sequences),
        cmocka_unit_test(sessions),
        cmocka_unit_test(refused_options),
        cmocka_unit_test(metadata),
        cmocka_unit_test(runs),
        cmocka_unit_test(branches),
        cmocka_unit_test(computed_choices),
        cmocka_unit_test(values_of_one_branch),
        cmocka_unit_test(other_types),
        cmocka_unit_test(bindings),
        cmocka_unit_test(threads),
        cmocka_unit_test(stubs),
        cmocka_unit_test(every_pointer_null),
    };
    const int failed =
        cmocka_run_group_tests_name(original ? "onnxruntime original" : "onnxruntime", tests, NULL, NULL);
    api->ReleaseMemoryInfo(memory);
    api->ReleaseEnv(env);
    return failed;
}
