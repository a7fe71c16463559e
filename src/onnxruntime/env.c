/* The environment, which is counted and one per process: the logger, and the open devices that sessions
 * share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

struct ort_device {
    ort_device *next;
    char *name, *cache;
    kn_context *context;
    bool timeline; /* of one session, and closed with it */
    int users;
};

struct OrtEnv {
    int users;
    bool pools;
    ort_logger logger;
    ort_device *devices; /* kept while the environment is, even without users: opening one takes time */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static OrtEnv environment;

/* ---- devices ----------------------------------------------------------------------------- */

static void destroy(ort_device *device) {
    kn_context_destroy(&device->context);
    free(device->name);
    free(device->cache);
    free(device);
}

/* Closes devices without users, or only those of one session. The lock is held. */
static void close_unused(bool all) {
    for (ort_device **at = &environment.devices, *device; (device = *at) != NULL;) {
        if (device->users || (!all && !device->timeline)) {
            at = &device->next;
            continue;
        }
        *at = device->next;
        destroy(device);
    }
}

static ort_device *device_new(const char *name, const char *cache, bool timeline, OrtStatus **status) {
    ort_device *device = calloc(1, sizeof *device);
    if (device) {
        device->name = ort_copy_text(name);
        device->cache = ort_copy_text(cache);
    }
    if (!device || !device->name || !device->cache) {
        *status = ort_no_memory();
        if (device) destroy(device);
        return NULL;
    }
    kn_process_enable_amx(); /* as the command does: both use the same kernels */
    kn_context_params params = KN_CONTEXT_DEFAULTS;
    params.log = ort_logger_for_koine(&environment.logger);
    params.device = device->name;
    params.cache_folder = device->cache;
    params.timeline = device->timeline = timeline;
    device->context = kn_context_create(&params);
    if (kn_context_status(device->context) == KN_OK) return device;
    *status = ort_fail_as(kn_context_status(device->context), kn_context_error(device->context));
    destroy(device);
    return NULL;
}

/* What programs that are not Koine's own cannot ask for: the same variables as the command's. */
ort_device *ort_device_open(const char *name, const char *cache, bool timeline, OrtStatus **status) {
    char folder[4096];
    if (!name) name = getenv("KOINE_DEVICE");
    if (!name || !strcmp(name, "auto")) name = "";
    if (!cache)
        cache = kn_default_cache_folder(getenv("XDG_CACHE_HOME"), getenv("HOME"), folder, sizeof folder)
                    ? folder
                    : "";
    pthread_mutex_lock(&lock);
    ort_device *device = timeline ? NULL : environment.devices;
    while (device && (device->timeline || strcmp(device->name, name) || strcmp(device->cache, cache)))
        device = device->next;
    if (!device && (device = device_new(name, cache, timeline, status)) != NULL) {
        device->next = environment.devices;
        environment.devices = device;
    }
    if (device) device->users++;
    pthread_mutex_unlock(&lock);
    return device;
}

void ort_device_close(ort_device *device) {
    if (!device) return;
    pthread_mutex_lock(&lock);
    device->users--;
    close_unused(!environment.users);
    pthread_mutex_unlock(&lock);
}

kn_context *ort_device_context(const ort_device *device) {
    return device->context;
}

/* ---- messages ---------------------------------------------------------------------------- */

static void write_log(void *user, kn_log_level level, const char *message) {
    static const OrtLoggingLevel levels[] = {ORT_LOGGING_LEVEL_ERROR, ORT_LOGGING_LEVEL_WARNING,
                                             ORT_LOGGING_LEVEL_INFO, ORT_LOGGING_LEVEL_VERBOSE};
    const ort_logger *logger = user;
    if (logger->function && levels[level] >= logger->level)
        logger->function(logger->user, levels[level], "koine", logger->id, "koine", message);
}

kn_logger ort_logger_for_koine(ort_logger *logger) {
    if (!logger->function) return (kn_logger){.write = NULL};
    const kn_log_level level = logger->level >= ORT_LOGGING_LEVEL_ERROR     ? KN_LOG_ERROR
                               : logger->level == ORT_LOGGING_LEVEL_WARNING ? KN_LOG_WARNING
                               : logger->level == ORT_LOGGING_LEVEL_INFO    ? KN_LOG_INFO
                                                                            : KN_LOG_DEBUG;
    return (kn_logger){.user = logger, .level = level, .write = write_log};
}

ort_logger ort_env_logger(void) {
    pthread_mutex_lock(&lock);
    const ort_logger logger = environment.logger;
    pthread_mutex_unlock(&lock);
    return logger;
}

bool ort_env_has_pools(void) {
    pthread_mutex_lock(&lock);
    const bool pools = environment.pools;
    pthread_mutex_unlock(&lock);
    return pools;
}

/* ---- the environment --------------------------------------------------------------------- */

static OrtStatus *create(OrtLoggingFunction function, void *user, OrtLoggingLevel level, const char *id,
                         bool pools, OrtEnv **out) {
    pthread_mutex_lock(&lock);
    if (environment.users++ == 0) {
        environment.logger = (ort_logger){function, user, level, ""};
        snprintf(environment.logger.id, sizeof environment.logger.id, "%s", id);
        environment.pools = pools;
    }
    pthread_mutex_unlock(&lock);
    *out = &environment;
    return NULL;
}

OrtStatus *ort_CreateEnv(OrtLoggingLevel level, const char *id, OrtEnv **out) {
    ORT_NEED(id);
    ORT_NEED(out);
    return create(NULL, NULL, level, id, false, out);
}

OrtStatus *ort_CreateEnvWithCustomLogger(OrtLoggingFunction function, void *user, OrtLoggingLevel level,
                                         const char *id, OrtEnv **out) {
    ORT_NEED(id);
    ORT_NEED(out);
    return create(function, user, level, id, false, out);
}

OrtStatus *ort_CreateEnvWithGlobalThreadPools(OrtLoggingLevel level, const char *id,
                                              const OrtThreadingOptions *options, OrtEnv **out) {
    ORT_NEED(id);
    ORT_NEED(options);
    ORT_NEED(out);
    return create(NULL, NULL, level, id, true, out);
}

OrtStatus *ort_CreateEnvWithCustomLoggerAndGlobalThreadPools(OrtLoggingFunction function, void *user,
                                                             OrtLoggingLevel level, const char *id,
                                                             const OrtThreadingOptions *options,
                                                             OrtEnv **out) {
    ORT_NEED(id);
    ORT_NEED(options);
    ORT_NEED(out);
    return create(function, user, level, id, true, out);
}

void ort_ReleaseEnv(OrtEnv *env) {
    if (!env) return;
    pthread_mutex_lock(&lock);
    if (env->users > 0 && --env->users == 0) {
        env->logger.function = NULL;
        close_unused(true);
    }
    pthread_mutex_unlock(&lock);
}

OrtStatus *ort_UpdateEnvWithCustomLogLevel(OrtEnv *env, OrtLoggingLevel level) {
    ORT_NEED(env);
    pthread_mutex_lock(&lock);
    env->logger.level = level;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Nothing is ever sent anywhere. */
ORT_ACCEPTED(EnableTelemetryEvents, env, const OrtEnv *env)
ORT_ACCEPTED(DisableTelemetryEvents, env, const OrtEnv *env)
ORT_ACCEPTED(SetLanguageProjection, env, const OrtEnv *env, OrtLanguageProjection language)

/* ---- thread pools: accepted; the OpenCL driver has its own threads ----------------------- */

struct OrtThreadingOptions {
    char nothing;
};

OrtStatus *ort_CreateThreadingOptions(OrtThreadingOptions **out) {
    ORT_NEED(out);
    return ORT_NEW(out);
}

void ort_ReleaseThreadingOptions(OrtThreadingOptions *options) {
    free(options);
}

ORT_ACCEPTED(SetGlobalIntraOpNumThreads, options, OrtThreadingOptions *options, int count)
ORT_ACCEPTED(SetGlobalInterOpNumThreads, options, OrtThreadingOptions *options, int count)
ORT_ACCEPTED(SetGlobalSpinControl, options, OrtThreadingOptions *options, int spinning)
ORT_ACCEPTED(SetGlobalDenormalAsZero, options, OrtThreadingOptions *options)
ORT_ACCEPTED(SetGlobalIntraOpThreadAffinity, options, OrtThreadingOptions *options, const char *affinity)
ORT_ACCEPTED(SetGlobalCustomCreateThreadFn, options, OrtThreadingOptions *options,
             OrtCustomCreateThreadFn start)
ORT_ACCEPTED(SetGlobalCustomThreadCreationOptions, options, OrtThreadingOptions *options, void *user)
ORT_ACCEPTED(SetGlobalCustomJoinThreadFn, options, OrtThreadingOptions *options, OrtCustomJoinThreadFn join)
