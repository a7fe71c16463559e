/* Koine as an execution provider of ONNX Runtime: declarations for the files of the plugin.
 *
 * In these files, except engine.c, OrtValue, OrtStatus and so on are ONNX Runtime's objects, and `host` has
 * its functions. */
#ifndef KN_ORT_PROVIDER_H
#define KN_ORT_PROVIDER_H

#include "onnxruntime/interface.h"
#include "onnxruntime/encode.h"
#include "onnxruntime/plugin/engine.h"

/* ---- the tables of ONNX Runtime for plugins, as of version 23 ------------------------------ */

/* PROVIDER_VERSION: the members that the structures below have; ONNX Runtime ignores what came later.
 * SHAPES_VERSION: since when TensorTypeAndShape_HasShape exists. */
enum { PROVIDER_VERSION = 23, SHAPES_VERSION = 24 };

typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtNodeComputeInfo OrtNodeComputeInfo;
typedef struct OrtMemoryDevice OrtMemoryDevice;
typedef struct OrtDataTransferImpl OrtDataTransferImpl;
typedef struct OrtSyncStreamImpl OrtSyncStreamImpl;

typedef struct OrtNodeFusionOptions {
    uint32_t ort_version_supported;
    bool drop_constant_initializers;
} OrtNodeFusionOptions;

struct OrtNodeComputeInfo {
    uint32_t ort_version_supported;
    OrtStatus *(*CreateState)(OrtNodeComputeInfo *, OrtNodeComputeContext *, void **);
    OrtStatus *(*Compute)(OrtNodeComputeInfo *, void *, OrtKernelContext *);
    void (*ReleaseState)(OrtNodeComputeInfo *, void *);
};

/* The first of the functions that ONNX Runtime has for providers. */
struct OrtEpApi {
    OrtStatus *(*CreateEpDevice)(OrtEpFactory *, const OrtHardwareDevice *, const OrtKeyValuePairs *metadata,
                                 const OrtKeyValuePairs *options, OrtEpDevice **);
    void (*ReleaseEpDevice)(OrtEpDevice *);
    OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *, const OrtNode *const *, size_t,
                                                    const OrtNodeFusionOptions *);
};

struct OrtEp {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEp *);
    OrtStatus *(*GetCapability)(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *);
    OrtStatus *(*Compile)(OrtEp *, const OrtGraph **, const OrtNode **, size_t, OrtNodeComputeInfo **,
                          OrtNode **);
    void (*ReleaseNodeComputeInfos)(OrtEp *, OrtNodeComputeInfo **, size_t);
    OrtStatus *(*GetPreferredDataLayout)(OrtEp *, int *);
    OrtStatus *(*ShouldConvertDataLayoutForOp)(OrtEp *, const char *, const char *, int, int *);
    OrtStatus *(*SetDynamicOptions)(OrtEp *, const char *const *, const char *const *, size_t);
    OrtStatus *(*OnRunStart)(OrtEp *, const OrtRunOptions *);
    OrtStatus *(*OnRunEnd)(OrtEp *, const OrtRunOptions *, bool);
    OrtStatus *(*CreateAllocator)(OrtEp *, const OrtMemoryInfo *, OrtAllocator **);
    OrtStatus *(*CreateSyncStreamForDevice)(OrtEp *, const OrtMemoryDevice *, OrtSyncStreamImpl **);
    const char *(*GetCompiledModelCompatibilityInfo)(OrtEp *, const OrtGraph *);
};

struct OrtEpFactory {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEpFactory *);
    const char *(*GetVendor)(const OrtEpFactory *);
    OrtStatus *(*GetSupportedDevices)(OrtEpFactory *, const OrtHardwareDevice *const *, size_t,
                                      OrtEpDevice **, size_t, size_t *);
    OrtStatus *(*CreateEp)(OrtEpFactory *, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *,
                           size_t, const OrtSessionOptions *, const OrtLogger *, OrtEp **);
    void (*ReleaseEp)(OrtEpFactory *, OrtEp *);
    uint32_t (*GetVendorId)(const OrtEpFactory *);
    const char *(*GetVersion)(const OrtEpFactory *);
    OrtStatus *(*ValidateCompiledModelCompatibilityInfo)(OrtEpFactory *, const OrtHardwareDevice *const *,
                                                         size_t, const char *, int *);
    OrtStatus *(*CreateAllocator)(OrtEpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *,
                                  OrtAllocator **);
    void (*ReleaseAllocator)(OrtEpFactory *, OrtAllocator *);
    OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, OrtDataTransferImpl **);
    bool (*IsStreamAware)(const OrtEpFactory *);
    OrtStatus *(*CreateSyncStreamForDevice)(OrtEpFactory *, const OrtMemoryDevice *, const OrtKeyValuePairs *,
                                            OrtSyncStreamImpl **);
};

/* ---- factory.c ----------------------------------------------------------------------------- */

#define PROVIDER_NAME "KoineExecutionProvider"

/* The program's ONNX Runtime. */
typedef struct provider_host {
    const OrtApi *api;
    const OrtEpApi *ep;
    bool has_shapes; /* the version has TensorTypeAndShape_HasShape */
} provider_host;

/* A provider of one session. `ep` is the first member: ONNX Runtime passes its address. */
typedef struct provider {
    OrtEp ep;
    provider_host host;
    const OrtLogger *logger;
    engine_options options;
} provider;

OrtStatus *provider_fail(const provider_host *host, const engine_failure *failure);
OrtStatus *provider_no_memory(const provider_host *host);
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void provider_log(const provider *own, OrtLoggingLevel level, const char *format, ...);

/* ---- graph.c ------------------------------------------------------------------------------- */

/* NONE: no value, no node. */
#define NONE SIZE_MAX

typedef struct graph_value {
    const char *name; /* ONNX Runtime's, valid as long as the graph */
    const OrtValueInfo *info;
    ONNXTensorElementDataType type; /* undefined: not a tensor */
    size_t rank;
    bool has_shape, is_constant, is_output;
    int64_t *sizes; /* -1: open */
    const char **symbols;
    size_t producer; /* a node; NONE */
} graph_value;

typedef struct graph_node {
    const OrtNode *node;
    const char *name, *type, *domain;
    size_t *inputs, input_count; /* values; NONE: left out */
    size_t *outputs, output_count;
    size_t *implicit, implicit_count; /* values that the graphs of its attributes read */
    bool is_encoded;                  /* false: it has attributes that cannot be written, such as graphs */
    encoded bytes;                    /* as a message of a model */
} graph_node;

/* A graph of ONNX Runtime, with the nodes in topological order. */
typedef struct graph {
    graph_value *values;
    graph_node *nodes;
    size_t value_count, node_count;
    size_t *outputs, output_count;
    const char **domains; /* of the operator sets */
    int64_t *versions;
    size_t domain_count;
    size_t *names, name_room; /* a table: from names to values */
} graph;

OrtStatus *graph_read(const provider_host *host, const OrtGraph *from, graph *own);
void graph_release(graph *own);
size_t graph_find(const graph *own, const char *name);

/* ---- model.c ------------------------------------------------------------------------------- */

/* Adds a tensor without a name; false if ONNX files have no such type. */
bool tensor_encode(const provider_host *host, uint32_t field, const OrtValue *value, encoded *to);

/* Part of a graph as an ONNX file in memory. */
typedef struct graph_part {
    const size_t *nodes, *inputs, *outputs; /* inputs, outputs: values */
    size_t node_count, input_count, output_count;
} graph_part;

/* The caller frees `memory`, which contains the file. */
typedef struct part_file {
    void *memory;
    const uint8_t *bytes;
    size_t count;
} part_file;

OrtStatus *part_encode(const provider_host *host, const graph *own, const graph_part *part, part_file *file);
/* Sets the inputs and outputs of `part`, in new memory: values that the nodes read from outside, except
 * constants, and results that are read outside. False when out of memory. */
bool part_borders(const graph *own, const size_t *nodes, size_t count, graph_part *part);
void part_release(graph_part *part);

/* ---- partition.c --------------------------------------------------------------------------- */

/* Which nodes Koine computes together. */
typedef struct partition {
    size_t *group_of; /* of each node; NONE: ONNX Runtime computes it */
    size_t *nodes;    /* ordered by group, in topological order within it */
    size_t *starts;   /* of each group in `nodes`, and the end */
    size_t group_count;
} partition;

OrtStatus *partition_make(const provider *own, const graph *of, partition *made);
void partition_release(partition *made);
/* Groups the marked nodes into the largest sets that do not form cycles. False when out of memory. */
bool partition_group(const graph *of, const bool *marked, partition *made);

/* ---- compute.c ----------------------------------------------------------------------------- */

OrtStatus *provider_compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                            OrtNodeComputeInfo **infos, OrtNode **contexts);
void provider_release_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count);

#endif
