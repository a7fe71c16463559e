/* Compiles the groups of nodes that ONNX Runtime assigned, and computes them. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/plugin/provider.h"

/* A compiled group. `info` is the first member: ONNX Runtime passes its address. */
typedef struct compiled {
    OrtNodeComputeInfo info;
    provider_host host;
    engine *engine;
    size_t *positions, input_count; /* of the model's inputs among those of the node */
} compiled;

/* ---- runs ---------------------------------------------------------------------------------- */

typedef struct run {
    const provider_host *host;
    OrtKernelContext *context;
    OrtStatus *status; /* an error of ONNX Runtime in give_memory */
} run;

static bool give_memory(void *user, size_t output, const int64_t *sizes, size_t rank, void **data) {
    run *own = user;
    OrtValue *value = NULL;
    own->status = own->host->api->KernelContext_GetOutput(own->context, output, sizes, rank, &value);
    if (!own->status && value) own->status = own->host->api->GetTensorMutableData(value, data);
    if (!own->status && !value)
        own->status = own->host->api->CreateStatus(ORT_EP_FAIL, "an output has no memory");
    return !own->status;
}

/* Reads a tensor; `sizes` is in new memory. */
static OrtStatus *take_tensor(const OrtApi *api, const OrtValue *value, engine_input *input) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t count = 0;
    OrtStatus *status = api->GetTensorTypeAndShape(value, &info);
    if (!status) status = api->GetTensorElementType(info, &input->type);
    if (!status) status = api->GetDimensionsCount(info, &input->rank);
    if (!status) status = api->GetTensorShapeElementCount(info, &count);
    if (!status) status = api->GetTensorData(value, &input->data);
    int64_t *sizes = status ? NULL : calloc(input->rank + 1, sizeof *sizes);
    if (!status && !sizes) status = api->CreateStatus(ORT_FAIL, "out of memory");
    if (!status && input->rank) status = api->GetDimensions(info, sizes, input->rank);
    if (info) api->ReleaseTensorTypeAndShapeInfo(info);
    input->sizes = sizes;
    input->bytes = status ? 0 : engine_bytes(input->type, count);
    return status;
}

static OrtStatus *take_inputs(const compiled *own, const OrtKernelContext *context, engine_input *inputs) {
    OrtStatus *status = NULL;
    for (size_t i = 0; !status && i < own->input_count; i++) {
        const OrtValue *value = NULL;
        status = own->host.api->KernelContext_GetInput(context, own->positions[i], &value);
        if (!status && !value) status = own->host.api->CreateStatus(ORT_EP_FAIL, "an input has no value");
        if (!status) status = take_tensor(own->host.api, value, &inputs[i]);
    }
    return status;
}

static OrtStatus *compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
    const compiled *own = (const compiled *)(const void *)info;
    run runs = {.host = &own->host, .context = context};
    engine_failure failure = {.code = ORT_OK};
    engine_input *inputs = calloc(own->input_count + 1, sizeof *inputs);
    if (!inputs) return provider_no_memory(&own->host);
    OrtStatus *status = take_inputs(own, context, inputs);
    if (!status && !engine_run(own->engine, inputs, give_memory, &runs, &failure))
        status = runs.status ? runs.status : provider_fail(&own->host, &failure);
    for (size_t i = 0; i < own->input_count; i++)
        free((void *)inputs[i].sizes);
    free(inputs);
    return status;
}

/* The engine is the state. */
static OrtStatus *create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context, void **state) {
    *state = ((compiled *)(void *)info)->engine;
    return NULL;
}

static void release_state(OrtNodeComputeInfo *info, void *state) {}

/* ---- compilation --------------------------------------------------------------------------- */

static void compiled_release(compiled *own) {
    if (!own) return;
    engine_release(own->engine);
    free(own->positions);
    free(own);
}

typedef OrtStatus *(*count_function)(const OrtNode *, size_t *);
typedef OrtStatus *(*values_function)(const OrtNode *, const OrtValueInfo **, size_t);

/* The values of the graph that the node's inputs or outputs are; NONE: not in the graph. In new memory. */
static OrtStatus *find_values(const provider_host *host, const graph *of, const OrtNode *node,
                              count_function how_many, values_function which, size_t **out, size_t *count) {
    OrtStatus *status = how_many(node, count);
    if (status) return status;
    const OrtValueInfo **infos = calloc(*count + 1, sizeof *infos);
    size_t *values = calloc(*count + 1, sizeof *values);
    if (!infos || !values) status = provider_no_memory(host);
    if (!status && *count) status = which(node, infos, *count);
    for (size_t i = 0; !status && i < *count; i++) {
        const char *name = NULL;
        if (infos[i]) status = host->api->GetValueInfoName(infos[i], &name);
        values[i] = name ? graph_find(of, name) : NONE;
    }
    free(infos);
    *out = values;
    return status;
}

/* The model of a graph: its inputs are those of the node that are not constants, in the same order, and its
 * outputs are the node's. */
static OrtStatus *encode(compiled *own, const graph *of, const OrtNode *fused, part_file *file) {
    const OrtApi *api = own->host.api;
    size_t *inputs = NULL, *outputs = NULL, count = 0, output_count = 0;
    OrtStatus *status =
        find_values(&own->host, of, fused, api->Node_GetNumInputs, api->Node_GetInputs, &inputs, &count);
    if (!status)
        status = find_values(&own->host, of, fused, api->Node_GetNumOutputs, api->Node_GetOutputs, &outputs,
                             &output_count);
    own->positions = calloc(count + 1, sizeof *own->positions);
    size_t *nodes = calloc(of->node_count + 1, sizeof *nodes);
    if (!status && (!own->positions || !nodes)) status = provider_no_memory(&own->host);
    for (size_t i = 0; !status && i < count; i++) {
        if (inputs[i] == NONE || of->values[inputs[i]].is_constant) continue;
        own->positions[own->input_count] = i;
        inputs[own->input_count++] = inputs[i];
    }
    for (size_t i = 0; !status && i < output_count; i++)
        if (outputs[i] == NONE) status = api->CreateStatus(ORT_EP_FAIL, "an output is not in the graph");
    for (size_t i = 0; !status && i < of->node_count; i++)
        nodes[i] = i;
    const graph_part part = {nodes, inputs, outputs, of->node_count, own->input_count, output_count};
    if (!status) status = part_encode(&own->host, of, &part, file);
    free(inputs);
    free(outputs);
    free(nodes);
    return status;
}

static OrtStatus *compile(const provider *own, const OrtGraph *from, const OrtNode *fused,
                          OrtNodeComputeInfo **out) {
    graph of;
    part_file file = {.memory = NULL};
    engine_failure failure = {.code = ORT_OK};
    compiled *made = calloc(1, sizeof *made);
    if (!made) return provider_no_memory(&own->host);
    made->host = own->host;
    made->info = (OrtNodeComputeInfo){PROVIDER_VERSION, create_state, compute, release_state};
    OrtStatus *status = graph_read(&own->host, from, &of);
    if (!status) status = encode(made, &of, fused, &file);
    graph_release(&of);
    if (!status) made->engine = engine_open(file.memory, file.bytes, file.count, &own->options, &failure);
    if (!status && !made->engine) status = provider_fail(&own->host, &failure);
    if (status)
        compiled_release(made);
    else
        *out = &made->info;
    return status;
}

OrtStatus *provider_compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                            OrtNodeComputeInfo **infos, OrtNode **contexts) {
    OrtStatus *status = NULL;
    size_t made = 0;
    for (; made < count && !status; made++)
        status = compile((const provider *)(const void *)ep, graphs[made], fused[made], &infos[made]);
    if (!status) return NULL;
    for (size_t i = 0; i + 1 < made; i++) {
        compiled_release((compiled *)(void *)infos[i]);
        infos[i] = NULL;
    }
    return status;
}

void provider_release_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
    for (size_t i = 0; infos && i < count; i++)
        compiled_release((compiled *)(void *)infos[i]);
}
