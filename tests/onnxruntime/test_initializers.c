/* Initializers that the program gives. */
#include "interface_tests.h"

#include <stdio.h>
#include <string.h>

static float five[3] = {5, 6, 7};
static const char *const w = "w";

static OrtSessionOptions *new_options(void) {
    OrtSessionOptions *options = NULL;
    succeeds(api->CreateSessionOptions(&options));
    return options;
}

static OrtValue *vector(void) {
    return tensor(five, sizeof five, 1, 3, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
}

/* The session adds these three to x. */
static void adds(OrtSession *session, const float *wanted) {
    float x[3] = {1, 10, 100};
    OrtValue *value = floats(x, 1, 3), *y = NULL;
    succeeds(run1(session, NULL, "x", value, "y", &y));
    for (int i = 0; i < 3; i++)
        assert_true(numbers(y)[i] == x[i] + wanted[i]);
    api->ReleaseValue(y);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

static OrtStatus *create(const made *model, OrtSessionOptions *options, OrtSession **session) {
    OrtStatus *status = api->CreateSessionFromArray(env, model->bytes, model->count, options, session);
    api->ReleaseSessionOptions(options);
    return status;
}

static void given_initializers(void **state) {
    made model;
    char path[512];
    char *folder = test_folder_make();
    const float own[3] = {0, 1, 2};
    OrtSession *session = NULL;
    model_sum(&model);
    /* A file, and memory; copied options; a name that the model lacks. */
    test_path(path, sizeof path, folder, "sum.onnx");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model.bytes, 1, model.count, file), model.count);
    fclose(file);
    OrtSessionOptions *options = new_options(), *copy = NULL;
    OrtValue *value = vector();
    succeeds(api->AddInitializer(options, "nothing", value));
    succeeds(api->CreateSession(env, path, options, &session));
    adds(session, own);
    succeeds(api->AddInitializer(options, w, value));
    fails_with(api->AddInitializer(options, w, value), ORT_INVALID_ARGUMENT, "already been added");
    succeeds(api->CloneSessionOptions(options, &copy));
    api->ReleaseSessionOptions(options);
    succeeds(api->CreateSession(env, path, copy, &session));
    adds(session, five);
    succeeds(create(&model, copy, &session));
    adds(session, five);
    if (!original) { /* which reads other memory */
        OrtValue *wrong = tensor(five, 8, 1, 2, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
        options = new_options();
        succeeds(api->AddInitializer(options, w, wrong));
        fails_with(create(&model, options, &session), ORT_FAIL, "dimensions do not match");
        api->ReleaseValue(wrong);
        wrong = tensor(five, sizeof five, 1, 3, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
        options = new_options();
        succeeds(api->AddInitializer(options, w, wrong));
        fails_with(create(&model, options, &session), ORT_FAIL, "data type does not match");
        api->ReleaseValue(wrong);
    }
    options = new_options();
    succeeds(api->AddExternalInitializers(options, &w, (const OrtValue *const *)&value, 1));
    fails_with(create(&model, options, &session), ORT_FAIL, "non-external initializer");
    api->ReleaseValue(value);
    /* A damaged model is reported as such. */
    if (!original) {
        value = vector();
        for (size_t cut = 1; cut < model.count; cut += 7) {
            options = new_options();
            succeeds(api->AddInitializer(options, w, value));
            model.count -= cut;
            OrtStatus *status = create(&model, options, &session);
            model.count += cut;
            if (!status) api->ReleaseSession(session);
            api->ReleaseStatus(status);
        }
        api->ReleaseValue(value);
    }
    test_folder_remove(folder);
}

static void external_initializers(void **state) {
    made model;
    OrtSession *session = NULL;
    model_external(&model);
    const char *const names[] = {"w", "nothing"};
    OrtValue *values[2] = {vector(), vector()};
    OrtSessionOptions *options = new_options();
    succeeds(api->AddExternalInitializers(options, names, (const OrtValue *const *)values, 1));
    succeeds(create(&model, options, &session));
    adds(session, five);
    options = new_options();
    succeeds(api->AddExternalInitializers(options, names, (const OrtValue *const *)values, 2));
    fails_with(create(&model, options, &session), ORT_FAIL, "nothing");
    static const struct {
        int size;
        ONNXTensorElementDataType type;
        const char *word;
    } wrong[] = {{2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "dimensions do not match"},
                 {3, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "data type does not match"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        OrtValue *other = tensor(five, sizeof five, 1, wrong[i].size, 0, wrong[i].type);
        options = new_options();
        succeeds(api->AddExternalInitializers(options, &w, (const OrtValue *const *)&other, 1));
        fails_with(create(&model, options, &session), ORT_FAIL, wrong[i].word);
        api->ReleaseValue(other);
    }
    api->ReleaseValue(values[0]);
    api->ReleaseValue(values[1]);
}

static void external_files(void **state) {
    made model;
    OrtSession *session = NULL;
    char bytes[16] = "....";
    memcpy(bytes + 4, five, sizeof five);
    char *const buffer = bytes;
    const char *const name = "weights.bin", *const other = "other.bin";
    size_t length = sizeof bytes;
    model_external(&model);
    OrtSessionOptions *options = new_options();
    succeeds(api->AddExternalInitializersFromFilesInMemory(options, &name, &buffer, &length, 1));
    succeeds(create(&model, options, &session));
    adds(session, five);
    options = new_options();
    succeeds(api->AddExternalInitializersFromFilesInMemory(options, &other, &buffer, &length, 1));
    fails_with(create(&model, options, &session), ORT_FAIL, "weights.bin");
    length--;
    options = new_options();
    succeeds(api->AddExternalInitializersFromFilesInMemory(options, &name, &buffer, &length, 1));
    fails_with(create(&model, options, &session), ORT_FAIL, "out of bounds");
}

int test_initializers(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_initializers),
        cmocka_unit_test(external_initializers),
        cmocka_unit_test(external_files),
    };
    return run_group("initializers", tests);
}
