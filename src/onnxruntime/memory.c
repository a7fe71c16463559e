/* Memory: descriptions of it, and the allocator. All memory of this library is the host's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

enum { ALIGNMENT = 64 };

const OrtMemoryInfo ort_host_memory = {"Cpu", 0, OrtMemTypeDefault, OrtDeviceAllocator};

/* ---- descriptions ------------------------------------------------------------------------ */

static OrtStatus *describe(const char *name, OrtAllocatorType type, int id, OrtMemType memory,
                           OrtMemoryInfo **out) {
    OrtMemoryInfo *info = calloc(1, sizeof *info);
    if (!info) return ort_no_memory();
    snprintf(info->name, sizeof info->name, "%s", name);
    info->id = id;
    info->memory = memory;
    info->allocator = type;
    *out = info;
    return NULL;
}

OrtStatus *ort_CreateMemoryInfo(const char *name, OrtAllocatorType type, int id, OrtMemType memory,
                                OrtMemoryInfo **out) {
    ORT_NEED(name);
    ORT_NEED(out);
    if (strcmp(name, ort_host_memory.name))
        return ort_fail(ORT_INVALID_ARGUMENT, "Specified device is not supported: '%s'; expected 'Cpu'",
                        name);
    return describe(name, type, id, memory, out);
}

OrtStatus *ort_CreateMemoryInfo_V2(const char *name, OrtMemoryInfoDeviceType device, uint32_t vendor,
                                   int32_t id, OrtDeviceMemoryType memory, size_t alignment,
                                   OrtAllocatorType type, OrtMemoryInfo **out) {
    ORT_NEED(name);
    ORT_NEED(out);
    if (device != OrtMemoryInfoDeviceType_CPU)
        return ort_fail(ORT_INVALID_ARGUMENT, "'%s': only memory of the CPU is supported", name);
    return describe(name, type, id, OrtMemTypeDefault, out);
}

OrtStatus *ort_CreateCpuMemoryInfo(OrtAllocatorType type, OrtMemType memory, OrtMemoryInfo **out) {
    ORT_NEED(out);
    return describe(ort_host_memory.name, type, 0, memory, out);
}

void ort_ReleaseMemoryInfo(OrtMemoryInfo *info) {
    free(info);
}

OrtStatus *ort_CompareMemoryInfo(const OrtMemoryInfo *one, const OrtMemoryInfo *other, int *out) {
    ORT_NEED(one);
    ORT_NEED(other);
    ORT_NEED(out);
    *out = strcmp(one->name, other->name) || one->id != other->id || one->memory != other->memory ||
                   one->allocator != other->allocator
               ? -1
               : 0;
    return NULL;
}

ORT_GETTER(MemoryInfoGetName, const OrtMemoryInfo, info, const char *, info->name)
ORT_GETTER(MemoryInfoGetId, const OrtMemoryInfo, info, int, info->id)
ORT_GETTER(MemoryInfoGetMemType, const OrtMemoryInfo, info, OrtMemType, info->memory)
ORT_GETTER(MemoryInfoGetType, const OrtMemoryInfo, info, OrtAllocatorType, info->allocator)

void ort_MemoryInfoGetDeviceType(const OrtMemoryInfo *info, OrtMemoryInfoDeviceType *out) {
    if (out) *out = OrtMemoryInfoDeviceType_CPU;
}

OrtDeviceMemoryType ort_MemoryInfoGetDeviceMemType(const OrtMemoryInfo *info) {
    return OrtDeviceMemoryType_DEFAULT;
}

uint32_t ort_MemoryInfoGetVendorId(const OrtMemoryInfo *info) {
    return 0;
}

/* ---- the allocator ----------------------------------------------------------------------- */

static void *allocate(OrtAllocator *allocator, size_t bytes) {
    void *taken = NULL;
    return bytes && !posix_memalign(&taken, ALIGNMENT, bytes) ? taken : NULL;
}

static void release(OrtAllocator *allocator, void *pointer) {
    free(pointer);
}

static const OrtMemoryInfo *info_of(const OrtAllocator *allocator) {
    return &ort_host_memory;
}

static OrtStatus *statistics(const OrtAllocator *allocator, OrtKeyValuePairs **out) {
    if (!out) return ort_fail(ORT_INVALID_ARGUMENT, "GetStats: out is NULL");
    ort_CreateKeyValuePairs(out);
    return *out ? NULL : ort_no_memory();
}

static void *allocate_on_stream(OrtAllocator *allocator, size_t bytes, OrtSyncStream *stream) {
    return allocate(allocator, bytes);
}

static OrtStatus *shrink(OrtAllocator *allocator) {
    return NULL;
}

static OrtAllocator default_allocator = {ORT_API_VERSION, allocate,           release, info_of, allocate,
                                         statistics,      allocate_on_stream, shrink};

OrtAllocator *ort_default_allocator(void) {
    return &default_allocator;
}

OrtStatus *ort_GetAllocatorWithDefaultOptions(OrtAllocator **out) {
    ORT_NEED(out);
    *out = &default_allocator;
    return NULL;
}

OrtStatus *ort_CreateAllocator(const OrtSession *session, const OrtMemoryInfo *info, OrtAllocator **out) {
    ORT_NEED(session);
    ORT_NEED(info);
    ORT_NEED(out);
    if (strcmp(info->name, ort_host_memory.name))
        return ort_fail(ORT_INVALID_ARGUMENT, "No requested allocator available: '%s'", info->name);
    *out = &default_allocator;
    return NULL;
}

/* All allocators of this library are one. */
void ort_ReleaseAllocator(OrtAllocator *allocator) {}

OrtStatus *ort_AllocatorAlloc(OrtAllocator *allocator, size_t bytes, void **out) {
    ORT_NEED(allocator);
    ORT_NEED(out);
    *out = allocator->Alloc(allocator, bytes);
    return NULL;
}

OrtStatus *ort_AllocatorFree(OrtAllocator *allocator, void *pointer) {
    ORT_NEED(allocator);
    if (pointer) allocator->Free(allocator, pointer);
    return NULL;
}

ORT_GETTER(AllocatorGetInfo, const OrtAllocator, allocator, const OrtMemoryInfo *, allocator->Info(allocator))

char *ort_allocate_text(OrtAllocator *allocator, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = allocator->Alloc(allocator, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* Results are in memory of the default allocator, whatever is registered. */
OrtStatus *ort_RegisterAllocator(OrtEnv *env, OrtAllocator *allocator) {
    ORT_NEED(env);
    ORT_NEED(allocator);
    return NULL;
}

OrtStatus *ort_UnregisterAllocator(OrtEnv *env, const OrtMemoryInfo *info) {
    ORT_NEED(env);
    ORT_NEED(info);
    return NULL;
}

OrtStatus *ort_CreateAndRegisterAllocator(OrtEnv *env, const OrtMemoryInfo *info, const OrtArenaCfg *arena) {
    ORT_NEED(env);
    ORT_NEED(info);
    return NULL;
}

OrtStatus *ort_CreateAndRegisterAllocatorV2(OrtEnv *env, const char *provider, const OrtMemoryInfo *info,
                                            const OrtArenaCfg *arena, const char *const *keys,
                                            const char *const *values, size_t count) {
    ORT_NEED(env);
    ORT_NEED(provider);
    ORT_NEED(info);
    if (strcmp(provider, "CPUExecutionProvider") && strcmp(provider, "KoineExecutionProvider"))
        return ort_fail(ORT_INVALID_ARGUMENT, "%s is not implemented in CreateAndRegisterAllocatorV2()",
                        provider);
    return NULL;
}

/* Empty for an allocator that has no statistics. */
OrtStatus *ort_AllocatorGetStats(const OrtAllocator *allocator, OrtKeyValuePairs **out) {
    enum { FIRST_VERSION = 23 };
    ORT_NEED(allocator);
    ORT_NEED(out);
    if (allocator->version >= FIRST_VERSION && allocator->GetStats)
        return allocator->GetStats(allocator, out);
    return statistics(allocator, out);
}

/* ---- settings of memory that is not there ------------------------------------------------ */

struct OrtArenaCfg {
    char nothing;
};

struct OrtPrepackedWeightsContainer {
    char nothing;
};

OrtStatus *ort_CreateArenaCfg(size_t most, int strategy, int first, int dead, OrtArenaCfg **out) {
    ORT_NEED(out);
    return ORT_NEW(out);
}

OrtStatus *ort_CreateArenaCfgV2(const char *const *keys, const size_t *values, size_t count,
                                OrtArenaCfg **out) {
    return ort_CreateArenaCfg(0, 0, 0, 0, out);
}

void ort_ReleaseArenaCfg(OrtArenaCfg *arena) {
    free(arena);
}

OrtStatus *ort_CreatePrepackedWeightsContainer(OrtPrepackedWeightsContainer **out) {
    ORT_NEED(out);
    return ORT_NEW(out);
}

void ort_ReleasePrepackedWeightsContainer(OrtPrepackedWeightsContainer *container) {
    free(container);
}
