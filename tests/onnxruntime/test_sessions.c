/* Sessions: creation, what they declare, and metadata. */
#include "interface_tests.h"

#include <stdio.h>
#include <unistd.h>

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
    fails(api->SessionGetOverridableInitializerName(session, 0, allocator, &name), ORT_FAIL);
    fails(api->SessionGetOverridableInitializerTypeInfo(session, 0, &type), ORT_FAIL);
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

/* Writes the model of sums to a file. */
static void write_model(made *model, const char *path) {
    model_sum(model);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model->bytes, 1, model->count, file), model->count);
    fclose(file);
}

static void sessions(void **state) {
    made model;
    OrtSession *session = NULL;
    OrtSessionOptions *options = NULL;
    char path[512], saved[512];
    char *folder = test_folder_make();
    write_model(&model, test_path(path, sizeof path, folder, "sum.onnx"));
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

/* A file may have the name of a model of Koine's. */
static void names_of_files(void **state) {
    made model;
    OrtSession *session = NULL;
    char path[512], before[4096];
    float x[3] = {1, 2, 3};
    char *folder = test_folder_make();
    write_model(&model, test_path(path, sizeof path, folder, "lenet"));
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    OrtStatus *status = api->CreateSession(env, "lenet", NULL, &session);
    assert_int_equal(chdir(before), 0);
    succeeds(status);
    OrtValue *value = floats(x, 1, 3), *y = NULL;
    succeeds(run1(session, NULL, "x", value, "z", &y));
    assert_true(numbers(y)[2] == -3);
    api->ReleaseValue(y);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
    test_folder_remove(folder);
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
    succeeds(api->SessionOptionsSetLoadCancellationFlag(options, true));
    fails(api->CreateSessionFromArray(env, model.bytes, model.count, options, &session),
          ORT_MODEL_LOAD_CANCELED);
    succeeds(api->SessionOptionsSetLoadCancellationFlag(options, false));
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

int test_sessions(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions),
        cmocka_unit_test(names_of_files),
        cmocka_unit_test(refused_options),
        cmocka_unit_test(metadata),
    };
    return run_group("sessions", tests);
}
