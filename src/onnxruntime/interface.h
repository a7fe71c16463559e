/* ONNX Runtime's C interface, as far as this library implements it: the types, and the table of functions. */
#ifndef KN_ORT_INTERFACE_H
#define KN_ORT_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The newest published version of the table. */
enum { ORT_API_VERSION = 32 };

#define BEGIN(type) typedef enum type {
#define VALUE(name, number) name = number,
#define END(type)                                                                                            \
    }                                                                                                        \
    type;
#include "enums.def"

#define OPAQUE(type) typedef struct type type;
OPAQUE(OrtEnv)
OPAQUE(OrtStatus)
OPAQUE(OrtMemoryInfo)
OPAQUE(OrtIoBinding)
OPAQUE(OrtSession)
OPAQUE(OrtValue)
OPAQUE(OrtRunOptions)
OPAQUE(OrtTypeInfo)
OPAQUE(OrtTensorTypeAndShapeInfo)
OPAQUE(OrtSequenceTypeInfo)
OPAQUE(OrtMapTypeInfo)
OPAQUE(OrtOptionalTypeInfo)
OPAQUE(OrtSessionOptions)
OPAQUE(OrtCustomOpDomain)
OPAQUE(OrtCustomOp)
OPAQUE(OrtModelMetadata)
OPAQUE(OrtThreadingOptions)
OPAQUE(OrtArenaCfg)
OPAQUE(OrtPrepackedWeightsContainer)
OPAQUE(OrtKeyValuePairs)
OPAQUE(OrtSyncStream)
/* What a provider plugin gets. */
OPAQUE(OrtLogger)
OPAQUE(OrtGraph)
OPAQUE(OrtNode)
OPAQUE(OrtValueInfo)
OPAQUE(OrtOpAttr)
OPAQUE(OrtKernelContext)
OPAQUE(OrtHardwareDevice)
OPAQUE(OrtEpApi)
/* Options of providers that this library lacks, and never reads. */
OPAQUE(OrtCUDAProviderOptions)
OPAQUE(OrtCUDAProviderOptionsV2)
OPAQUE(OrtROCMProviderOptions)
OPAQUE(OrtOpenVINOProviderOptions)
OPAQUE(OrtMIGraphXProviderOptions)
OPAQUE(OrtTensorRTProviderOptions)
OPAQUE(OrtTensorRTProviderOptionsV2)
#undef OPAQUE

typedef void (*OrtLoggingFunction)(void *, OrtLoggingLevel, const char *category, const char *id,
                                   const char *location, const char *message);

/* After a failure there is a status, which it owns, and there are no outputs. */
typedef void (*RunAsyncCallbackFn)(void *, OrtValue **outputs, size_t, OrtStatus *);

/* Threads of the program. */
typedef struct OrtCustomHandleType *OrtCustomThreadHandle;
typedef void (*OrtThreadWorkerFn)(void *);
typedef OrtCustomThreadHandle (*OrtCustomCreateThreadFn)(void *options, OrtThreadWorkerFn worker, void *);
typedef void (*OrtCustomJoinThreadFn)(OrtCustomThreadHandle);

/* A program's allocator may be older: it has only the members up to its version. */
typedef struct OrtAllocator OrtAllocator;
struct OrtAllocator {
    uint32_t version;
    void *(*Alloc)(OrtAllocator *, size_t);
    void (*Free)(OrtAllocator *, void *);
    const OrtMemoryInfo *(*Info)(const OrtAllocator *);
    void *(*Reserve)(OrtAllocator *, size_t);                          /* since 18 */
    OrtStatus *(*GetStats)(const OrtAllocator *, OrtKeyValuePairs **); /* since 23 */
    void *(*AllocOnStream)(OrtAllocator *, size_t, OrtSyncStream *);   /* since 23 */
    OrtStatus *(*Shrink)(OrtAllocator *);                              /* since 25 */
};

typedef struct OrtApi {
#define DONE(index, tier, type, name, parameters) type(*name) parameters;
#define OPEN(index, tier, gives, name) void (*name)(void);
#define CALLED(index, tier, gives, type, name, parameters) type(*name) parameters;
#include "functions.def"
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;

#endif
