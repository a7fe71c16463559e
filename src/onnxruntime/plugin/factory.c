/* What ONNX Runtime calls in the plugin: the factory, its device, and providers with their options. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/plugin/provider.h"
#include "onnxruntime/version.h"

/* `table` is the first member: ONNX Runtime passes its address. */
typedef struct factory {
    OrtEpFactory table;
    provider_host host;
} factory;

/* ---- statuses and messages ----------------------------------------------------------------- */

OrtStatus *provider_fail(const provider_host *host, const engine_failure *failure) {
    return host->api->CreateStatus(failure->code == ORT_OK ? ORT_EP_FAIL : failure->code, failure->message);
}

OrtStatus *provider_no_memory(const provider_host *host) {
    return host->api->CreateStatus(ORT_FAIL, "Koine: out of memory");
}

void provider_log(const provider *own, OrtLoggingLevel level, const char *format, ...) {
    const OrtApi *api = own->host.api;
    OrtLoggingLevel lowest = ORT_LOGGING_LEVEL_FATAL;
    char text[4096];
    if (!own->logger) return;
    api->ReleaseStatus(api->Logger_GetLoggingSeverityLevel(own->logger, &lowest));
    if (level < lowest) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    api->ReleaseStatus(api->Logger_LogMessage(own->logger, level, text, "koine", 0, "koine"));
}

/* ---- options ------------------------------------------------------------------------------- */

static void options_release(engine_options *options) {
    free(options->device);
    free(options->precision);
    free(options->math);
    free(options->cache);
}

/* Where an option is stored; NULL if there is none of that name. */
static char **option_named(engine_options *options, const char *name) {
    return !strcmp(name, "device")      ? &options->device
           : !strcmp(name, "precision") ? &options->precision
           : !strcmp(name, "math")      ? &options->math
           : !strcmp(name, "cache")     ? &options->cache
                                        : NULL;
}

/* The prefixes of the options' keys; ONNX Runtime puts the first before options of the provider. */
static const char *const prefixes[] = {"ep.koineexecutionprovider.", "ep.koine."};

static OrtStatus *take_option(provider *own, const char *key, const char *value) {
    const char *name = NULL;
    char message[256];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(key, prefixes[i], strlen(prefixes[i]))) name = key + strlen(prefixes[i]);
    if (!name) return NULL;
    char **option = option_named(&own->options, name);
    if (!option) {
        snprintf(message, sizeof message,
                 "Koine's provider has no option '%s'; expected device, precision, math or cache", name);
        return own->host.api->CreateStatus(ORT_INVALID_ARGUMENT, message);
    }
    char *copy = malloc(strlen(value) + 1);
    if (!copy) return provider_no_memory(&own->host);
    free(*option);
    *option = strcpy(copy, value);
    return NULL;
}

static OrtStatus *take_options(provider *own, const OrtSessionOptions *session) {
    const OrtApi *api = own->host.api;
    OrtKeyValuePairs *pairs = NULL;
    const char *const *keys = NULL, *const *values = NULL;
    size_t count = 0;
    OrtStatus *status = api->GetSessionOptionsConfigEntries(session, &pairs);
    if (status) return status;
    api->GetKeyValuePairs(pairs, &keys, &values, &count);
    for (size_t i = 0; i < count && !status; i++)
        status = take_option(own, keys[i], values[i]);
    api->ReleaseKeyValuePairs(pairs);
    return status;
}

/* ---- providers ----------------------------------------------------------------------------- */

static const char *provider_name(const OrtEp *ep) {
    return PROVIDER_NAME;
}

static OrtStatus *add_groups(const provider *own, const graph *of, const partition *made,
                             OrtEpGraphSupportInfo *info) {
    /* Koine keeps the constants, so that ONNX Runtime need not. */
    const OrtNodeFusionOptions options = {PROVIDER_VERSION, true};
    const OrtNode **nodes = calloc(of->node_count + 1, sizeof *nodes);
    OrtStatus *status = nodes ? NULL : provider_no_memory(&own->host);
    size_t taken = 0;
    for (size_t i = 0; !status && i < made->group_count; i++) {
        const size_t start = made->starts[i], count = made->starts[i + 1] - start;
        for (size_t k = 0; k < count; k++)
            nodes[k] = of->nodes[made->nodes[start + k]].node;
        status = own->host.ep->EpGraphSupportInfo_AddNodesToFuse(info, nodes, count, &options);
        taken += count;
    }
    free(nodes);
    if (!status)
        provider_log(own, ORT_LOGGING_LEVEL_INFO, "Koine computes %zu of %zu nodes, in %zu group%s", taken,
                     of->node_count, made->group_count, made->group_count == 1 ? "" : "s");
    return status;
}

/* Graphs within nodes, such as the branches of If, are left to ONNX Runtime. */
static OrtStatus *get_capability(OrtEp *ep, const OrtGraph *from, OrtEpGraphSupportInfo *info) {
    const provider *own = (const provider *)(const void *)ep;
    const OrtNode *parent = NULL;
    graph of;
    partition made;
    OrtStatus *status = own->host.api->Graph_GetParentNode(from, &parent);
    if (status || parent) return status;
    status = graph_read(&own->host, from, &of);
    if (status) return status;
    status = partition_make(own, &of, &made);
    if (!status) {
        status = add_groups(own, &of, &made, info);
        partition_release(&made);
    }
    graph_release(&of);
    return status;
}

static void release_provider(OrtEpFactory *table, OrtEp *ep) {
    provider *own = (provider *)(void *)ep;
    if (!own) return;
    options_release(&own->options);
    free(own);
}

static OrtStatus *create_provider(OrtEpFactory *table, const OrtHardwareDevice *const *devices,
                                  const OrtKeyValuePairs *const *metadata, size_t count,
                                  const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out) {
    const factory *maker = (const factory *)(const void *)table;
    provider *own = calloc(1, sizeof *own);
    if (!own) return provider_no_memory(&maker->host);
    own->host = maker->host;
    own->logger = logger;
    own->ep = (OrtEp){.ort_version_supported = PROVIDER_VERSION,
                      .GetName = provider_name,
                      .GetCapability = get_capability,
                      .Compile = provider_compile,
                      .ReleaseNodeComputeInfos = provider_release_infos};
    OrtStatus *status = options ? take_options(own, options) : NULL;
    if (status)
        release_provider(table, &own->ep);
    else
        *out = &own->ep;
    return status;
}

/* ---- the factory --------------------------------------------------------------------------- */

static const char *get_name(const OrtEpFactory *table) {
    return PROVIDER_NAME;
}

static const char *get_vendor(const OrtEpFactory *table) {
    return "Koine";
}

static uint32_t get_vendor_id(const OrtEpFactory *table) {
    return 0;
}

static const char *get_version(const OrtEpFactory *table) {
    return KN_ORT_KOINE_VERSION;
}

/* One device, attached to ONNX Runtime's CPU, so that tensors come in the host's memory. Which OpenCL device
 * computes is an option. */
static OrtStatus *get_supported_devices(OrtEpFactory *table, const OrtHardwareDevice *const *devices,
                                        size_t count, OrtEpDevice **out, size_t room, size_t *out_count) {
    const factory *own = (const factory *)(const void *)table;
    *out_count = 0;
    for (size_t i = 0; i < count && room > 0; i++) {
        if (own->host.api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
        OrtStatus *status = own->host.ep->CreateEpDevice(table, devices[i], NULL, NULL, &out[0]);
        if (!status) *out_count = 1;
        return status;
    }
    return NULL;
}

/* NULL: ONNX Runtime uses its own memory and copies. */
static OrtStatus *create_allocator(OrtEpFactory *table, const OrtMemoryInfo *info,
                                   const OrtKeyValuePairs *options, OrtAllocator **out) {
    *out = NULL;
    return NULL;
}

static void release_allocator(OrtEpFactory *table, OrtAllocator *allocator) {}

static OrtStatus *create_data_transfer(OrtEpFactory *table, OrtDataTransferImpl **out) {
    *out = NULL;
    return NULL;
}

static bool is_stream_aware(const OrtEpFactory *table) {
    return false;
}

static OrtStatus *create_stream(OrtEpFactory *table, const OrtMemoryDevice *device,
                                const OrtKeyValuePairs *options, OrtSyncStreamImpl **out) {
    *out = NULL;
    return NULL;
}

static const OrtEpFactory factory_table = {
    .ort_version_supported = PROVIDER_VERSION,
    .GetName = get_name,
    .GetVendor = get_vendor,
    .GetSupportedDevices = get_supported_devices,
    .CreateEp = create_provider,
    .ReleaseEp = release_provider,
    .GetVendorId = get_vendor_id,
    .GetVersion = get_version,
    .CreateAllocator = create_allocator,
    .ReleaseAllocator = release_allocator,
    .CreateDataTransfer = create_data_transfer,
    .IsStreamAware = is_stream_aware,
    .CreateSyncStreamForDevice = create_stream,
};

/* The 32 of "1.32.0". */
static int version_of(const OrtApiBase *base) {
    const char *text = base->GetVersionString(), *dot = text ? strchr(text, '.') : NULL;
    return dot ? (int)strtol(dot + 1, NULL, 10) : 0;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                                      OrtEpFactory **factories, size_t room, size_t *count);
EXPORTED OrtStatus *ReleaseEpFactory(OrtEpFactory *table);

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **factories, size_t room, size_t *count) {
    const int version = version_of(base);
    const OrtApi *api = base->GetApi(PROVIDER_VERSION);
    *count = 0;
    if (!api) { /* the tables of older versions begin the same way */
        api = base->GetApi(1);
        return api ? api->CreateStatus(ORT_NOT_IMPLEMENTED,
                                       "Koine's provider needs ONNX Runtime 1.23 or a newer version")
                   : NULL;
    }
    if (room < 1) return api->CreateStatus(ORT_INVALID_ARGUMENT, "there is no room for a factory");
    factory *own = calloc(1, sizeof *own);
    if (!own) return api->CreateStatus(ORT_FAIL, "Koine: out of memory");
    own->table = factory_table;
    own->host = (provider_host){api, api->GetEpApi(), version >= SHAPES_VERSION};
    engine_begin();
    factories[0] = &own->table;
    *count = 1;
    return NULL;
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *table) {
    if (!table) return NULL;
    engine_end();
    free(table);
    return NULL;
}
