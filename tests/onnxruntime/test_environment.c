/* Statuses, the environment, providers, and the options of sessions and runs. */
#include "interface_tests.h"

#include <string.h>

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
    succeeds(api->SessionOptionsSetEpSelectionPolicy(options, OrtExecutionProviderDevicePolicy_PREFER_GPU));
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

static OrtCustomThreadHandle start_thread(void *user, OrtThreadWorkerFn worker, void *argument) {
    return NULL;
}

static void join_thread(OrtCustomThreadHandle thread) {}

/* Without effect in Koine. */
static void threads_of_the_program(void **state) {
    OrtSessionOptions *options = NULL;
    OrtThreadingOptions *global = NULL;
    int user = 0;
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->SessionOptionsSetCustomCreateThreadFn(options, start_thread));
    succeeds(api->SessionOptionsSetCustomThreadCreationOptions(options, &user));
    succeeds(api->SessionOptionsSetCustomJoinThreadFn(options, join_thread));
    api->ReleaseSessionOptions(options);
    succeeds(api->CreateThreadingOptions(&global));
    succeeds(api->SetGlobalCustomCreateThreadFn(global, start_thread));
    succeeds(api->SetGlobalCustomThreadCreationOptions(global, &user));
    succeeds(api->SetGlobalCustomJoinThreadFn(global, join_thread));
    api->ReleaseThreadingOptions(global);
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

int test_environment(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses),        cmocka_unit_test(nothing_to_release),
        cmocka_unit_test(environments),    cmocka_unit_test(providers),
        cmocka_unit_test(session_options), cmocka_unit_test(run_options),
        cmocka_unit_test(key_values),      cmocka_unit_test(threads_of_the_program),
    };
    return run_group("environment", tests);
}
