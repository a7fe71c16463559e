/* Calls functions of the interface at random, with NULL, released and wrong arguments where the interface
 * allows them: test-onnxruntime-calls LIBRARY [SEED [CALLS]]. Nothing may crash; results of runs must be
 * right. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "onnxruntime/interface.h"
#include "support.h"

enum { POOL = 6 };
static const OrtApi *api;
static uint64_t drawn;
static const char *library;
static unsigned long long seed = 1, calls = 4000;
static uint64_t right_runs, refused_calls;

static unsigned draw(unsigned below) {
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(drawn >> 33) % below;
}

/* Objects that were made, and holes. */
static OrtEnv *envs[POOL];
static OrtSessionOptions *options[POOL];
static OrtRunOptions *run_options[POOL];
static OrtSession *sessions[POOL];
static OrtValue *values[POOL];
static OrtIoBinding *bindings[POOL];
static OrtModelMetadata *metadata[POOL];
static OrtTypeInfo *types[POOL];
static OrtTensorTypeAndShapeInfo *shapes[POOL];
static OrtMemoryInfo *memories[POOL];
static int session_of[POOL]; /* of a binding */
static float numbers[60];
static OrtAllocator *allocator;

#define ANY(pool) pool[draw(POOL)]
static void drop(OrtStatus *status) {
    if (!status) return;
    refused_calls++;
    assert_true(api->GetErrorCode(status) != ORT_OK);
    assert_true(strlen(api->GetErrorMessage(status)) > 0);
    api->ReleaseStatus(status);
}

static const char *name(void) {
    static const char *const names[] = {"x", "y", "z", "batch", "rate", "", "some words", "same"};
    return draw(9) ? names[draw(8)] : NULL;
}

static OrtStatus *make_value(OrtValue **value) {
    if (!draw(8)) {
        const OrtValue *items[2] = {ANY(values), ANY(values)};
        return api->CreateValue(items, 1 + draw(2), ONNX_TYPE_SEQUENCE, value);
    }
    const bool text = !draw(6);
    const int64_t sizes[3] = {text ? 1 : draw(5), draw(6) ? 3 : (int64_t)draw(4) - 1, 1};
    const size_t rank = text ? 1 : draw(6) ? 2 : draw(4);
    const ONNXTensorElementDataType type = text      ? ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING
                                           : draw(5) ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
                                                     : (ONNXTensorElementDataType)draw(30);
    if (!text && draw(4))
        return api->CreateTensorWithDataAsOrtValue(ANY(memories), numbers, sizeof numbers, sizes, rank, type,
                                                   value);
    OrtStatus *status = api->CreateTensorAsOrtValue(draw(8) ? allocator : NULL, sizes, rank, type, value);
    void *data = NULL;
    size_t bytes = 0;
    if (!status && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
        drop(api->GetTensorMutableData(*value, &data));
        drop(api->GetTensorSizeInBytes(*value, &bytes));
        assert_true(bytes <= sizeof numbers);
        if (bytes) memcpy(data, numbers, bytes);
    }
    return status;
}

static OrtStatus *make_session(OrtSession **session) {
    enum { MODELS = 9 };
    static made models[MODELS];
    const unsigned which = draw(4) ? draw(MODELS) : 0;
    void (*const make[MODELS])(made *) = {model_sum,      model_branches, model_unknown,
                                          model_cast,     model_computed, model_strings,
                                          model_external, model_sequence, model_optional};
    make[which](&models[which]);
    const size_t count = models[which].count - (draw(10) ? 0 : draw(40));
    return api->CreateSessionFromArray(ANY(envs), models[which].bytes, count, ANY(options), session);
}

/* Runs any session with any value; a result "z" of the sum model must be -x. */
static void run(void) {
    const char *inputs[2] = {draw(6) ? "x" : name(), name()}, *outputs[2] = {draw(3) ? "z" : name(), name()};
    const OrtValue *given[2] = {ANY(values), ANY(values)};
    OrtValue *results[2] = {draw(4) ? NULL : ANY(values), NULL};
    OrtValue *const before = results[0];
    const bool text = !draw(4), list = !text && !draw(4);
    if (text) inputs[0] = "a", inputs[1] = "b", outputs[0] = draw(2) ? "y" : "same";
    if (list) inputs[0] = "list", inputs[1] = "x", outputs[0] = draw(2) ? "all" : "joined";
    const size_t count = text || list ? 2 : 1 + !draw(5), wanted = draw(20) ? 1 : draw(3);
    OrtStatus *status =
        api->Run(ANY(sessions), ANY(run_options), inputs, given, count, outputs, wanted, results);
    size_t elements = 0;
    const void *x = NULL, *z = NULL;
    OrtTensorTypeAndShapeInfo *shape = NULL;
    if (!status && wanted && count == 1 && outputs[0] && !strcmp(outputs[0], "z") && results[0] != given[0] &&
        !api->GetTensorTypeAndShape(results[0], &shape) &&
        !api->GetTensorShapeElementCount(shape, &elements) && !api->GetTensorData(given[0], &x) &&
        !api->GetTensorData(results[0], &z)) {
        for (size_t i = 0; i < elements && x != z; i++)
            assert_true(((const float *)z)[i] == -((const float *)x)[i]);
        right_runs++;
    }
    api->ReleaseTensorTypeAndShapeInfo(shape);
    drop(status);
    for (int i = 0; i < 2; i++)
        if (results[i] != before) api->ReleaseValue(results[i]);
}

static void make_one(void) {
    const unsigned at = draw(POOL);
#define MAKE(pool, Release, call)                                                                            \
    api->Release(pool[at]);                                                                                  \
    pool[at] = NULL;                                                                                         \
    drop(call);                                                                                              \
    break
    switch (draw(11)) {
    case 0:
        MAKE(envs, ReleaseEnv, api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "calls", &envs[at]));
    case 1:
        MAKE(options, ReleaseSessionOptions, api->CreateSessionOptions(&options[at]));
    case 2:
        MAKE(run_options, ReleaseRunOptions, api->CreateRunOptions(&run_options[at]));
    case 3:
    case 4:
        for (int i = 0; i < POOL; i++) /* a binding ends before its session */
            if (bindings[i] && session_of[i] == (int)at) {
                api->ReleaseIoBinding(bindings[i]);
                bindings[i] = NULL;
            }
        MAKE(sessions, ReleaseSession, make_session(&sessions[at]));
    case 5:
        MAKE(values, ReleaseValue, make_value(&values[at]));
    case 6:
        session_of[at] = (int)draw(POOL);
        MAKE(bindings, ReleaseIoBinding, api->CreateIoBinding(sessions[session_of[at]], &bindings[at]));
    case 7:
        MAKE(metadata, ReleaseModelMetadata, api->SessionGetModelMetadata(ANY(sessions), &metadata[at]));
    case 8:
        MAKE(types, ReleaseTypeInfo, api->SessionGetInputTypeInfo(ANY(sessions), draw(3), &types[at]));
    case 9:
        MAKE(shapes, ReleaseTensorTypeAndShapeInfo, api->GetTensorTypeAndShape(ANY(values), &shapes[at]));
    default:
        MAKE(memories, ReleaseMemoryInfo,
             api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memories[at]));
    }
#undef MAKE
}

static void use_one(void) {
    char *text = NULL;
    int64_t sizes[8];
    size_t size = 0;
    const char *symbols[8];
    void *data = NULL;
    OrtValue *item = NULL;
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    const OrtValue *both[2] = {ANY(values), ANY(values)};
    const OrtSequenceTypeInfo *sequence = NULL;
    OrtTypeInfo *inner = NULL;
    switch (draw(20)) {
    case 15:
        drop(api->AddInitializer(ANY(options), draw(2) ? "w" : name(), ANY(values)));
        break;
    case 16: {
        if (draw(4)) break; /* the options make no sessions of most models afterwards */
        const char *const one = draw(2) ? "w" : name();
        drop(api->AddExternalInitializers(ANY(options), &one, both, draw(2)));
        break;
    }
    case 17:
        drop(api->CastTypeInfoToSequenceTypeInfo(ANY(types), &sequence));
        drop(api->GetSequenceElementType(sequence, &inner));
        api->ReleaseTypeInfo(inner);
        break;
    case 18:
        drop(api->GetTypeInfo(ANY(values), &inner));
        api->ReleaseTypeInfo(inner);
        break;
    case 0:
        drop(api->SessionGetInputName(ANY(sessions), draw(3), allocator, &text));
        drop(api->AllocatorFree(allocator, text));
        break;
    case 1:
        drop(api->ModelMetadataLookupCustomMetadataMap(ANY(metadata), allocator, name(), &text));
        drop(api->AllocatorFree(allocator, text));
        break;
    case 2:
        drop(api->AddSessionConfigEntry(ANY(options), name(), name()));
        break;
    case 3:
        drop(api->AddFreeDimensionOverrideByName(ANY(options), name(), draw(4)));
        break;
    case 4:
        drop(api->BindInput(ANY(bindings), name(), ANY(values)));
        break;
    case 5:
        drop(api->BindOutput(ANY(bindings), name(), ANY(values)));
        break;
    case 6:
        drop(api->BindOutputToDevice(ANY(bindings), name(), ANY(memories)));
        break;
    case 7: {
        const unsigned at = draw(POOL);
        drop(api->RunWithBinding(bindings[at] ? sessions[session_of[at]] : NULL, ANY(run_options),
                                 bindings[at]));
        break;
    }
    case 8: {
        OrtValue **bound = NULL;
        size_t count = 0;
        drop(api->GetBoundOutputValues(ANY(bindings), allocator, &bound, &count));
        for (size_t i = 0; i < count; i++)
            api->ReleaseValue(bound[i]);
        drop(api->AllocatorFree(allocator, bound));
        break;
    }
    case 9:
        draw(2) ? api->ClearBoundInputs(ANY(bindings)) : api->ClearBoundOutputs(ANY(bindings));
        break;
    case 10:
        drop(api->CastTypeInfoToTensorInfo(ANY(types), &shape));
        drop(api->GetDimensionsCount(shape, &size));
        drop(api->GetDimensions(shape, sizes, 8));
        drop(api->GetSymbolicDimensions(shape, symbols, 8));
        break;
    case 11:
        drop(api->GetTensorShapeElementCount(ANY(shapes), &size));
        break;
    case 12:
        drop(api->GetTensorMutableData(ANY(values), &data));
        break;
    case 13:
        drop(draw(2) ? api->RunOptionsSetTerminate(ANY(run_options))
                     : api->RunOptionsUnsetTerminate(ANY(run_options)));
        break;
    case 14:
        drop(api->CreateValue(both, draw(3), draw(2) ? ONNX_TYPE_SEQUENCE : ONNX_TYPE_MAP, &item));
        if (item) {
            OrtValue *part = NULL;
            drop(api->GetValue(item, (int)draw(3), allocator, &part));
            api->ReleaseValue(part);
        }
        api->ReleaseValue(item);
        break;
    default:
        drop(api->FillStringTensorElement(ANY(values), name(), draw(4)));
    }
}

static void random_calls(void **state) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const OrtApiBase *(*get)(void) = NULL;
    assert_non_null(handle);
    *(void **)&get = dlsym(handle, "OrtGetApiBase");
    api = get()->GetApi(ORT_API_VERSION);
    drop(api->GetAllocatorWithDefaultOptions(&allocator));
    for (int i = 0; i < 60; i++)
        numbers[i] = (float)(i - 7);
    drawn = seed;
    for (unsigned long long i = 0; i < calls; i++) {
        const unsigned kind = draw(10);
        if (kind < 3)
            make_one();
        else if (kind < 6)
            use_one();
        else
            run();
    }
    for (int i = 0; i < POOL; i++) {
        api->ReleaseIoBinding(bindings[i]);
        api->ReleaseModelMetadata(metadata[i]);
        api->ReleaseTypeInfo(types[i]);
        api->ReleaseTensorTypeAndShapeInfo(shapes[i]);
        api->ReleaseValue(values[i]);
        api->ReleaseSession(sessions[i]);
        api->ReleaseRunOptions(run_options[i]);
        api->ReleaseSessionOptions(options[i]);
        api->ReleaseMemoryInfo(memories[i]);
        api->ReleaseEnv(envs[i]);
    }
    print_message("  seed %llu: %llu right runs, %llu refused calls\n", seed, (unsigned long long)right_runs,
                  (unsigned long long)refused_calls);
    assert_true(right_runs > calls / 1000 && refused_calls > calls / 10);
}

int main(int count, char **arguments) {
    if (count < 2) return 1;
    library = arguments[1];
    if (count > 2) seed = strtoull(arguments[2], NULL, 10);
    if (count > 3) calls = strtoull(arguments[3], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls)};
    return cmocka_run_group_tests_name("onnxruntime calls", tests, NULL, NULL);
}
