/* The table of functions, and the two functions that the library exports. */
#include "onnxruntime/onnxruntime.h"

#include "onnxruntime/version.h"

/* ---- stubs ------------------------------------------------------------------------------- */

static OrtStatus *not_implemented(const char *name) {
    return ort_fail(ORT_NOT_IMPLEMENTED, "%s is not implemented by Koine " KN_ORT_KOINE_VERSION, name);
}

/* Callers pass arguments, which a C function need not take. */
#define DONE(index, tier, type, name, parameters)
#define OPEN(index, tier, gives, name) STUB_##gives(name)
#define STUB_STATUS(name)                                                                                    \
    static OrtStatus *open_##name(void) {                                                                    \
        return not_implemented(#name);                                                                       \
    }
#define STUB_NOTHING(name)                                                                                   \
    static void open_##name(void) {}
#define STUB_POINTER(name)                                                                                   \
    static const void *open_##name(void) {                                                                   \
        return NULL;                                                                                         \
    }
#define STUB_NUMBER(name)                                                                                    \
    static int64_t open_##name(void) {                                                                       \
        return 0;                                                                                            \
    }
#include "functions.def"

static const char *ort_GetBuildInfoString_text =
    "ORT Build Info: Koine " KN_ORT_KOINE_VERSION ", which computes on OpenCL devices";

const char *ort_GetBuildInfoString(void) {
    return ort_GetBuildInfoString_text;
}

/* ---- the table --------------------------------------------------------------------------- */

static const OrtApi table = {
#define DONE(index, tier, type, name, parameters) .name = ort_##name,
#define OPEN(index, tier, gives, name) .name = (void (*)(void))open_##name,
#define CALLED(index, tier, gives, type, name, parameters)                                                   \
    .name = (type(*) parameters)(void (*)(void))open_##name,
#include "functions.def"
};

#define DONE(index, tier, type, name, parameters)                                                            \
    _Static_assert(offsetof(OrtApi, name) == (index) * sizeof(void (*)(void)), #name);
#define OPEN(index, tier, gives, name) DONE(index, tier, gives, name, )
#include "functions.def"

/* One table serves all versions: each has the functions of the one before it at the same places. */
static const OrtApi *get_api(uint32_t version) {
    return version >= 1 && version <= ORT_API_VERSION ? &table : NULL;
}

static const char *get_version(void) {
    return KN_ORT_VERSION;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const OrtApiBase *OrtGetApiBase(void);
EXPORTED OrtStatus *OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions *options, int use_arena);

const OrtApiBase *OrtGetApiBase(void) {
    static const OrtApiBase base = {get_api, get_version};
    return &base;
}

OrtStatus *OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions *options, int use_arena) {
    ORT_NEED(options);
    return NULL;
}
