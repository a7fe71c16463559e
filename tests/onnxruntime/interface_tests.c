#include "interface_tests.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const OrtApi *api;
const OrtApiBase *base;
bool original;
OrtEnv *env;
OrtAllocator *allocator;
OrtMemoryInfo *memory;

void succeeds_at(OrtStatus *status, const char *file, int line) {
    if (!status) return;
    fail_msg("%s:%d: %s", file, line, api->GetErrorMessage(status));
}

void fails_at(OrtStatus *status, OrtErrorCode code, const char *word, const char *file, int line) {
    if (!status) fail_msg("%s:%d: succeeds", file, line);
    if (api->GetErrorCode(status) != code || !strstr(api->GetErrorMessage(status), word))
        fail_msg("%s:%d: %d, %s", file, line, (int)api->GetErrorCode(status), api->GetErrorMessage(status));
    api->ReleaseStatus(status);
}

OrtSession *open_bytes(const made *model, const OrtSessionOptions *options) {
    OrtSession *session = NULL;
    succeeds(api->CreateSessionFromArray(env, model->bytes, model->count, options, &session));
    return session;
}

OrtValue *tensor(void *data, size_t bytes, int rank, int64_t a, int64_t b, ONNXTensorElementDataType type) {
    OrtValue *value = NULL;
    const int64_t sizes[2] = {a, b};
    succeeds(api->CreateTensorWithDataAsOrtValue(memory, data, bytes, sizes, (size_t)rank, type, &value));
    return value;
}

OrtValue *floats(float *data, int64_t a, int64_t b) {
    return tensor(data, (size_t)(a * b) * sizeof *data, 2, a, b, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
}

const float *numbers(const OrtValue *value) {
    const void *data = NULL;
    succeeds(api->GetTensorData(value, &data));
    return data;
}

OrtStatus *run1(OrtSession *session, const OrtRunOptions *options, const char *input, const OrtValue *x,
                const char *output, OrtValue **y) {
    return api->Run(session, options, &input, &x, 1, &output, 1, y);
}

void has_shape(const OrtValue *value, size_t rank, int64_t a, int64_t b) {
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
    const int failed = test_table() + test_environment() + test_values() + test_sessions() + test_runs() +
                       test_strings() + test_initializers() + test_sequences() + test_profiles();
    api->ReleaseMemoryInfo(memory);
    api->ReleaseEnv(env);
    return failed;
}
