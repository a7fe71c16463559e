/* Options of sessions and of runs, and providers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

/* ---- sessions ---------------------------------------------------------------------------- */

OrtStatus *ort_CreateSessionOptions(OrtSessionOptions **out) {
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (!*out) return ort_no_memory();
    (*out)->memory_pattern = true;
    return NULL;
}

void ort_ReleaseSessionOptions(OrtSessionOptions *options) {
    if (!options) return;
    ort_initializers_clear(&options->initializers);
    ort_pairs_clear(&options->config);
    ort_pairs_clear(&options->sizes);
    ort_pairs_clear(&options->provider);
    free(options->optimized_path);
    free(options->profile_prefix);
    free(options);
}

OrtStatus *ort_CloneSessionOptions(const OrtSessionOptions *from, OrtSessionOptions **out) {
    ORT_NEED(from);
    ORT_NEED(out);
    OrtSessionOptions *copy = malloc(sizeof *copy);
    if (!copy) return ort_no_memory();
    *copy = *from;
    copy->initializers = (ort_initializers){.count = 0};
    copy->config = copy->sizes = copy->provider = (ort_pairs){.count = 0};
    copy->optimized_path = from->optimized_path ? ort_copy_text(from->optimized_path) : NULL;
    copy->profile_prefix = from->profile_prefix ? ort_copy_text(from->profile_prefix) : NULL;
    if ((from->optimized_path && !copy->optimized_path) || (from->profile_prefix && !copy->profile_prefix) ||
        !ort_pairs_copy(&from->config, &copy->config) || !ort_pairs_copy(&from->sizes, &copy->sizes) ||
        !ort_pairs_copy(&from->provider, &copy->provider) ||
        !ort_initializers_copy(&from->initializers, &copy->initializers)) {
        ort_ReleaseSessionOptions(copy);
        return ort_no_memory();
    }
    *out = copy;
    return NULL;
}

OrtStatus *ort_SetOptimizedModelFilePath(OrtSessionOptions *options, const char *path) {
    ORT_NEED(options);
    ORT_NEED(path);
    return ort_replace_text(&options->optimized_path, path);
}

OrtStatus *ort_SetSessionExecutionMode(OrtSessionOptions *options, ExecutionMode mode) {
    ORT_NEED(options);
    if (mode != ORT_SEQUENTIAL && mode != ORT_PARALLEL)
        return ort_fail(ORT_INVALID_ARGUMENT, "execution_mode is not valid");
    options->mode = mode;
    return NULL;
}

ORT_GETTER(GetSessionExecutionMode, const OrtSessionOptions, options, ExecutionMode, options->mode)

OrtStatus *ort_EnableMemPattern(OrtSessionOptions *options) {
    ORT_NEED(options);
    options->memory_pattern = true;
    return NULL;
}

OrtStatus *ort_DisableMemPattern(OrtSessionOptions *options) {
    ORT_NEED(options);
    options->memory_pattern = false;
    return NULL;
}

ORT_GETTER(GetMemPatternEnabled, const OrtSessionOptions, options, int, options->memory_pattern)

OrtStatus *ort_SetSessionGraphOptimizationLevel(OrtSessionOptions *options, GraphOptimizationLevel level) {
    ORT_NEED(options);
    if (((int)level < ORT_DISABLE_ALL || (int)level > 3) && level != ORT_ENABLE_ALL)
        return ort_fail(ORT_INVALID_ARGUMENT, "graph_optimization_level is not valid");
    return NULL;
}

ORT_ACCEPTED(EnableCpuMemArena, options, OrtSessionOptions *options)
ORT_ACCEPTED(DisableCpuMemArena, options, OrtSessionOptions *options)
ORT_ACCEPTED(SetIntraOpNumThreads, options, OrtSessionOptions *options, int count)
ORT_ACCEPTED(SetInterOpNumThreads, options, OrtSessionOptions *options, int count)
ORT_ACCEPTED(SetSessionLogVerbosityLevel, options, OrtSessionOptions *options, int level)
ORT_ACCEPTED(SessionOptionsSetCustomCreateThreadFn, options, OrtSessionOptions *options,
             OrtCustomCreateThreadFn start)
ORT_ACCEPTED(SessionOptionsSetCustomThreadCreationOptions, options, OrtSessionOptions *options, void *user)
ORT_ACCEPTED(SessionOptionsSetCustomJoinThreadFn, options, OrtSessionOptions *options,
             OrtCustomJoinThreadFn join)
/* There is one provider; its options choose the device. */
ORT_ACCEPTED(SessionOptionsSetEpSelectionPolicy, options, OrtSessionOptions *options,
             OrtExecutionProviderDevicePolicy policy)
ORT_ACCEPTED(SetDeterministicCompute, options, OrtSessionOptions *options,
             bool value) /* results always are */

OrtStatus *ort_SetSessionLogId(OrtSessionOptions *options, const char *id) {
    ORT_NEED(options);
    ORT_NEED(id);
    snprintf(options->logger.id, sizeof options->logger.id, "%s", id);
    return NULL;
}

OrtStatus *ort_SetSessionLogSeverityLevel(OrtSessionOptions *options, int level) {
    ORT_NEED(options);
    options->logger.level = (OrtLoggingLevel)level;
    options->has_level = true;
    return NULL;
}

OrtStatus *ort_SetUserLoggingFunction(OrtSessionOptions *options, OrtLoggingFunction function, void *user) {
    ORT_NEED(options);
    options->logger.function = function;
    options->logger.user = user;
    options->has_logger = true;
    return NULL;
}

OrtStatus *ort_DisablePerSessionThreads(OrtSessionOptions *options) {
    ORT_NEED(options);
    options->shared_threads = true;
    return NULL;
}

OrtStatus *ort_SessionOptionsSetLoadCancellationFlag(OrtSessionOptions *options, bool cancel) {
    ORT_NEED(options);
    atomic_store(&options->cancelled, cancel);
    return NULL;
}

OrtStatus *ort_AddFreeDimensionOverrideByName(OrtSessionOptions *options, const char *name, int64_t size) {
    char text[24];
    ORT_NEED(options);
    ORT_NEED(name);
    snprintf(text, sizeof text, "%" PRId64, size);
    return ort_pairs_put(&options->sizes, name, text) ? NULL : ort_no_memory();
}

OrtStatus *ort_AddSessionConfigEntry(OrtSessionOptions *options, const char *key, const char *value) {
    ORT_NEED(options);
    ORT_NEED(key);
    ORT_NEED(value);
    if (!*key) return ort_fail(ORT_INVALID_ARGUMENT, "Config key is empty.");
    return ort_pairs_put(&options->config, key, value) ? NULL : ort_no_memory();
}

OrtStatus *ort_HasSessionConfigEntry(const OrtSessionOptions *options, const char *key, int *out) {
    ORT_NEED(options);
    ORT_NEED(key);
    ORT_NEED(out);
    *out = ort_pairs_get(&options->config, key) != NULL;
    return NULL;
}

OrtStatus *ort_GetSessionConfigEntry(const OrtSessionOptions *options, const char *key, char *value,
                                     size_t *size) {
    ORT_NEED(options);
    ORT_NEED(key);
    ORT_NEED(size);
    const char *found = ort_pairs_get(&options->config, key);
    if (!found) return ort_fail(ORT_INVALID_ARGUMENT, "Session config entry '%s' was not found.", key);
    const size_t room = *size;
    *size = strlen(found) + 1;
    if (!value) return NULL;
    if (room < *size)
        return ort_fail(ORT_INVALID_ARGUMENT, "Buffer is too small for the value of '%s': %zu bytes of %zu",
                        key, room, *size);
    memcpy(value, found, *size);
    return NULL;
}

OrtStatus *ort_GetSessionOptionsConfigEntries(const OrtSessionOptions *options, OrtKeyValuePairs **out) {
    ORT_NEED(options);
    ORT_NEED(out);
    ort_CreateKeyValuePairs(out);
    if (*out && ort_pairs_copy(&options->config, *out)) return NULL;
    ort_ReleaseKeyValuePairs(*out);
    *out = NULL;
    return ort_no_memory();
}

/* ---- runs -------------------------------------------------------------------------------- */

OrtStatus *ort_CreateRunOptions(OrtRunOptions **out) {
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (!*out) return ort_no_memory();
    (*out)->severity = -1;
    atomic_init(&(*out)->terminate, false);
    return NULL;
}

void ort_ReleaseRunOptions(OrtRunOptions *options) {
    if (!options) return;
    ort_pairs_clear(&options->config);
    free(options->tag);
    free(options);
}

OrtStatus *ort_RunOptionsSetRunLogVerbosityLevel(OrtRunOptions *options, int level) {
    ORT_NEED(options);
    options->verbosity = level;
    return NULL;
}

ORT_GETTER(RunOptionsGetRunLogVerbosityLevel, const OrtRunOptions, options, int, options->verbosity)

OrtStatus *ort_RunOptionsSetRunLogSeverityLevel(OrtRunOptions *options, int level) {
    ORT_NEED(options);
    options->severity = level;
    return NULL;
}

ORT_GETTER(RunOptionsGetRunLogSeverityLevel, const OrtRunOptions, options, int, options->severity)

OrtStatus *ort_RunOptionsSetRunTag(OrtRunOptions *options, const char *tag) {
    ORT_NEED(options);
    return ort_replace_text(&options->tag, tag ? tag : "");
}

ORT_GETTER(RunOptionsGetRunTag, const OrtRunOptions, options, const char *, options->tag ? options->tag : "")

OrtStatus *ort_RunOptionsSetTerminate(OrtRunOptions *options) {
    ORT_NEED(options);
    atomic_store(&options->terminate, true);
    return NULL;
}

OrtStatus *ort_RunOptionsUnsetTerminate(OrtRunOptions *options) {
    ORT_NEED(options);
    atomic_store(&options->terminate, false);
    return NULL;
}

OrtStatus *ort_AddRunConfigEntry(OrtRunOptions *options, const char *key, const char *value) {
    ORT_NEED(options);
    ORT_NEED(key);
    ORT_NEED(value);
    return ort_pairs_put(&options->config, key, value) ? NULL : ort_no_memory();
}

const char *ort_GetRunConfigEntry(const OrtRunOptions *options, const char *key) {
    return options && key ? ort_pairs_get(&options->config, key) : NULL;
}

/* ---- providers --------------------------------------------------------------------------- */

/* The provider that computes, and the one that programs expect everywhere. */
static const char *const providers[] = {"KoineExecutionProvider", "CPUExecutionProvider"};
enum { PROVIDERS = sizeof providers / sizeof *providers };

OrtStatus *ort_GetAvailableProviders(char ***out, int *count) {
    ORT_NEED(out);
    ORT_NEED(count);
    char **names = calloc(PROVIDERS, sizeof *names);
    bool fine = names != NULL;
    for (int i = 0; fine && i < PROVIDERS; i++)
        fine = (names[i] = ort_copy_text(providers[i])) != NULL;
    if (!fine) {
        ort_ReleaseAvailableProviders(names, PROVIDERS);
        return ort_no_memory();
    }
    *out = names;
    *count = PROVIDERS;
    return NULL;
}

OrtStatus *ort_ReleaseAvailableProviders(char **names, int count) {
    for (int i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
    return NULL;
}

static const char *const koine_options[] = {"device", "precision", "math", "cache"};

static OrtStatus *put_option(OrtSessionOptions *options, const char *key, const char *value) {
    for (size_t i = 0; i < sizeof koine_options / sizeof *koine_options; i++)
        if (!strcmp(key, koine_options[i]))
            return ort_pairs_put(&options->provider, key, value) ? NULL : ort_no_memory();
    return ort_fail(ORT_INVALID_ARGUMENT,
                    "the provider Koine has no option '%s'; expected device, precision, math or cache", key);
}

/* Whether a name is that of a provider, with or without "ExecutionProvider". */
static bool is_provider(const char *name, const char *provider) {
    const size_t length = strlen(provider);
    return !strncmp(name, provider, length) && (!name[length] || !strcmp(name + length, "ExecutionProvider"));
}

OrtStatus *ort_SessionOptionsAppendExecutionProvider(OrtSessionOptions *options, const char *name,
                                                     const char *const *keys, const char *const *values,
                                                     size_t count) {
    ORT_NEED(options);
    ORT_NEED(name);
    if (is_provider(name, "CPU")) return NULL;
    if (!is_provider(name, "Koine"))
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "%s execution provider is not supported in this build. Providers of this library: "
                        "Koine, CPU",
                        name);
    ORT_NEED_FOR(count, keys);
    ORT_NEED_FOR(count, values);
    for (size_t i = 0; i < count; i++) {
        if (!keys[i] || !values[i])
            return ort_fail(ORT_INVALID_ARGUMENT, "option %zu of the provider Koine is NULL", i);
        OrtStatus *status = put_option(options, keys[i], values[i]);
        if (status) return status;
    }
    return NULL;
}

static OrtStatus *not_built(OrtErrorCode code, const char *provider) {
    return ort_fail(
        code,
        "%s execution provider is not enabled in this build: this is Koine, which computes on OpenCL "
        "devices",
        provider);
}

#define NOT_BUILT(name, code, provider, ...)                                                                 \
    OrtStatus *ort_##name(__VA_ARGS__) {                                                                     \
        return not_built(code, provider);                                                                    \
    }
NOT_BUILT(SessionOptionsAppendExecutionProvider_CUDA, ORT_FAIL, "CUDA", OrtSessionOptions *options,
          const OrtCUDAProviderOptions *provider)
NOT_BUILT(SessionOptionsAppendExecutionProvider_CUDA_V2, ORT_FAIL, "CUDA", OrtSessionOptions *options,
          const OrtCUDAProviderOptionsV2 *provider)
NOT_BUILT(CreateCUDAProviderOptions, ORT_FAIL, "CUDA", OrtCUDAProviderOptionsV2 **out)
NOT_BUILT(UpdateCUDAProviderOptions, ORT_FAIL, "CUDA", OrtCUDAProviderOptionsV2 *options,
          const char *const *keys, const char *const *values, size_t count)
NOT_BUILT(SessionOptionsAppendExecutionProvider_ROCM, ORT_FAIL, "ROCM", OrtSessionOptions *options,
          const OrtROCMProviderOptions *provider)
NOT_BUILT(SessionOptionsAppendExecutionProvider_OpenVINO, ORT_FAIL, "OpenVINO", OrtSessionOptions *options,
          const OrtOpenVINOProviderOptions *provider)
NOT_BUILT(SessionOptionsAppendExecutionProvider_OpenVINO_V2, ORT_FAIL, "OpenVINO", OrtSessionOptions *options,
          const char *const *keys, const char *const *values, size_t count)
NOT_BUILT(SessionOptionsAppendExecutionProvider_MIGraphX, ORT_FAIL, "MIGraphX", OrtSessionOptions *options,
          const OrtMIGraphXProviderOptions *provider)
NOT_BUILT(SessionOptionsAppendExecutionProvider_TensorRT, ORT_FAIL, "TensorRT", OrtSessionOptions *options,
          const OrtTensorRTProviderOptions *provider)
NOT_BUILT(SessionOptionsAppendExecutionProvider_TensorRT_V2, ORT_FAIL, "TensorRT", OrtSessionOptions *options,
          const OrtTensorRTProviderOptionsV2 *provider)
NOT_BUILT(CreateTensorRTProviderOptions, ORT_FAIL, "TensorRT", OrtTensorRTProviderOptionsV2 **out)
NOT_BUILT(UpdateTensorRTProviderOptions, ORT_FAIL, "TensorRT", OrtTensorRTProviderOptionsV2 *options,
          const char *const *keys, const char *const *values, size_t count)

/* There never are any to release. */
void ort_ReleaseTensorRTProviderOptions(OrtTensorRTProviderOptionsV2 *options) {}

void ort_ReleaseCUDAProviderOptions(OrtCUDAProviderOptionsV2 *options) {}

/* ---- custom operators: their domains are accepted; a session whose model uses one is not created  */

struct OrtCustomOpDomain {
    char nothing;
};

OrtStatus *ort_CreateCustomOpDomain(const char *name, OrtCustomOpDomain **out) {
    ORT_NEED(name);
    ORT_NEED(out);
    return ORT_NEW(out);
}

OrtStatus *ort_CustomOpDomain_Add(OrtCustomOpDomain *domain, const OrtCustomOp *operator) {
    ORT_NEED(domain);
    ORT_NEED(operator);
    return NULL;
}

OrtStatus *ort_AddCustomOpDomain(OrtSessionOptions *options, OrtCustomOpDomain *domain) {
    ORT_NEED(options);
    ORT_NEED(domain);
    return NULL;
}

void ort_ReleaseCustomOpDomain(OrtCustomOpDomain *domain) {
    free(domain);
}
