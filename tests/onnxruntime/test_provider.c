/* The provider plugin in a stand-in for ONNX Runtime: test-onnxruntime-provider PLUGIN LIBRARY. Values, types
 * and options are those of libkoine-onnxruntime, LIBRARY; graphs are made here. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "onnxruntime/plugin/provider.h"
#include "support.h"

enum { MOST = 8 };

struct OrtValueInfo {
    const char *name;
    OrtTypeInfo *type;
    const OrtValue *constant;
};
struct OrtOpAttr {
    const char *name;
    OrtOpAttrType type;
    const void *data;
    size_t bytes;
};
struct OrtNode {
    const char *type;
    const OrtValueInfo *inputs[MOST], *outputs[MOST];
    const OrtOpAttr *attributes[MOST];
    size_t input_count, output_count, attribute_count;
};
struct OrtGraph {
    const OrtNode *nodes[MOST];
    const OrtValueInfo *outputs[MOST];
    size_t node_count, output_count;
    bool is_inner;
};
struct OrtKernelContext {
    const OrtValue *inputs[MOST];
    OrtValue *outputs[MOST];
};
struct OrtHardwareDevice {
    OrtHardwareDeviceType type;
};
/* The groups that the provider wants. */
struct OrtEpGraphSupportInfo {
    const OrtNode *nodes[MOST][MOST];
    size_t counts[MOST], count;
    bool drops_constants;
};

static const OrtApi *real;
static OrtApi api; /* the real one, with what follows */
static OrtAllocator *allocator;
static OrtMemoryInfo *memory;
static char log_text[4096];

/* ---- the stand-in -------------------------------------------------------------------------- */

#define GETTER(function, type, object, result, value)                                                        \
    static OrtStatus *function(const type *object, result *out) {                                            \
        *out = (value);                                                                                      \
        return NULL;                                                                                         \
    }
#define LIST(function, type, object, element, list)                                                          \
    static OrtStatus *function(const type *object, const element **out, size_t count) {                      \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = object->list[i];                                                                        \
        return NULL;                                                                                         \
    }
GETTER(value_name, OrtValueInfo, own, const char *, own->name)
GETTER(value_type, OrtValueInfo, own, const OrtTypeInfo *, own->type)
GETTER(value_is_constant, OrtValueInfo, own, bool, own->constant != NULL)
GETTER(value_constant, OrtValueInfo, own, const OrtValue *, own->constant)
GETTER(node_name, OrtNode, own, const char *, own->type)
GETTER(node_domain, OrtNode, own, const char *, "")
GETTER(node_inputs_count, OrtNode, own, size_t, own->input_count)
GETTER(node_outputs_count, OrtNode, own, size_t, own->output_count)
GETTER(node_attributes_count, OrtNode, own, size_t, own->attribute_count)
GETTER(node_nothing, OrtNode, own, size_t, 0)
LIST(node_inputs, OrtNode, own, OrtValueInfo, inputs)
LIST(node_outputs, OrtNode, own, OrtValueInfo, outputs)
LIST(node_attributes, OrtNode, own, OrtOpAttr, attributes)
GETTER(attribute_name, OrtOpAttr, own, const char *, own->name)
GETTER(attribute_type, OrtOpAttr, own, OrtOpAttrType, own->type)
GETTER(graph_nodes_count, OrtGraph, own, size_t, own->node_count)
GETTER(graph_outputs_count, OrtGraph, own, size_t, own->output_count)
GETTER(graph_sets_count, OrtGraph, own, size_t, 1)
GETTER(graph_parent, OrtGraph, own, const OrtNode *, own->is_inner ? own->nodes[0] : NULL)
LIST(graph_nodes, OrtGraph, own, OrtNode, nodes)
LIST(graph_outputs, OrtGraph, own, OrtValueInfo, outputs)

static OrtStatus *graph_sets(const OrtGraph *own, const char **domains, int64_t *versions, size_t count) {
    domains[0] = "";
    versions[0] = 17;
    return NULL;
}

static OrtStatus *read_attribute(const OrtOpAttr *own, OrtOpAttrType type, void *data, size_t room,
                                 size_t *bytes) {
    *bytes = own->bytes;
    if (room < own->bytes) return real->CreateStatus(ORT_INVALID_ARGUMENT, "too small");
    memcpy(data, own->data, own->bytes);
    return NULL;
}

static OrtStatus *context_input(const OrtKernelContext *own, size_t position, const OrtValue **out) {
    *out = own->inputs[position];
    return NULL;
}

static OrtStatus *context_output(OrtKernelContext *own, size_t position, const int64_t *sizes, size_t rank,
                                 OrtValue **out) {
    OrtStatus *status =
        real->CreateTensorAsOrtValue(allocator, sizes, rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, out);
    own->outputs[position] = *out;
    return status;
}

static OrtStatus *lowest_level(const OrtLogger *logger, OrtLoggingLevel *out) {
    *out = ORT_LOGGING_LEVEL_VERBOSE;
    return NULL;
}

static OrtStatus *log_message(const OrtLogger *logger, OrtLoggingLevel level, const char *message,
                              const char *path, int line, const char *function) {
    const size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", message);
    return NULL;
}

static OrtHardwareDeviceType device_type(const OrtHardwareDevice *device) {
    return device->type;
}

static OrtStatus *create_device(OrtEpFactory *factory, const OrtHardwareDevice *device,
                                const OrtKeyValuePairs *metadata, const OrtKeyValuePairs *options,
                                OrtEpDevice **out) {
    *out = (OrtEpDevice *)(void *)(uintptr_t)device; /* it is only compared */
    return NULL;
}

static OrtStatus *add_nodes(OrtEpGraphSupportInfo *info, const OrtNode *const *nodes, size_t count,
                            const OrtNodeFusionOptions *options) {
    assert_true(count > 0 && count <= MOST && info->count < MOST);
    memcpy(info->nodes[info->count], nodes, count * sizeof *nodes);
    info->counts[info->count++] = count;
    info->drops_constants = options->drop_constant_initializers;
    return NULL;
}

static const OrtEpApi ep_api = {.CreateEpDevice = create_device,
                                .EpGraphSupportInfo_AddNodesToFuse = add_nodes};

static const OrtEpApi *get_ep_api(void) {
    return &ep_api;
}

static void make_api(void) {
    api = *real;
    api.GetValueInfoName = value_name;
    api.GetValueInfoTypeInfo = value_type;
    api.ValueInfo_IsConstantInitializer = value_is_constant;
    api.ValueInfo_GetInitializerValue = value_constant;
    api.Node_GetName = api.Node_GetOperatorType = node_name;
    api.Node_GetDomain = node_domain;
    api.Node_GetNumInputs = node_inputs_count;
    api.Node_GetInputs = node_inputs;
    api.Node_GetNumOutputs = node_outputs_count;
    api.Node_GetOutputs = node_outputs;
    api.Node_GetNumImplicitInputs = api.Node_GetNumSubgraphs = node_nothing;
    api.Node_GetNumAttributes = node_attributes_count;
    api.Node_GetAttributes = node_attributes;
    api.OpAttr_GetName = attribute_name;
    api.OpAttr_GetType = attribute_type;
    api.ReadOpAttr = read_attribute;
    api.Graph_GetNumNodes = graph_nodes_count;
    api.Graph_GetNodes = graph_nodes;
    api.Graph_GetNumOutputs = graph_outputs_count;
    api.Graph_GetOutputs = graph_outputs;
    api.Graph_GetNumOperatorSets = graph_sets_count;
    api.Graph_GetOperatorSets = graph_sets;
    api.Graph_GetParentNode = graph_parent;
    api.KernelContext_GetInput = context_input;
    api.KernelContext_GetOutput = context_output;
    api.Logger_GetLoggingSeverityLevel = lowest_level;
    api.Logger_LogMessage = log_message;
    api.HardwareDevice_Type = device_type;
    api.GetEpApi = get_ep_api;
}

static const OrtApi *get_api(uint32_t version) {
    return &api;
}

static const OrtApi *get_old_api(uint32_t version) {
    return version < PROVIDER_VERSION ? &api : NULL;
}

static const char *get_version(void) {
    return "1.29.0";
}

/* Its values have no TensorTypeAndShape_HasShape. */
static const char *get_first_version(void) {
    return "1.23.0";
}

/* ---- the plugin ---------------------------------------------------------------------------- */

static OrtStatus *(*create_factories)(const char *, const OrtApiBase *, const OrtLogger *, OrtEpFactory **,
                                      size_t, size_t *);
static OrtStatus *(*release_factory)(OrtEpFactory *);
static OrtEpFactory *factory;

static void succeeds(OrtStatus *status) {
    if (status) fail_msg("%s", real->GetErrorMessage(status));
}

static void fails(OrtStatus *status, OrtErrorCode code, const char *word) {
    if (!status) fail_msg("succeeds, without %s", word);
    if (real->GetErrorCode(status) != code || !strstr(real->GetErrorMessage(status), word))
        fail_msg("%d, %s", (int)real->GetErrorCode(status), real->GetErrorMessage(status));
    real->ReleaseStatus(status);
}

static void factories(void **state) {
    const OrtApiBase old = {get_old_api, get_version};
    OrtEpFactory *made = NULL;
    size_t count = 7;
    fails(create_factories("koine", &old, NULL, &made, 4, &count), ORT_NOT_IMPLEMENTED, "1.23");
    assert_int_equal(count, 0);
    assert_string_equal(factory->GetName(factory), PROVIDER_NAME);
    assert_string_equal(factory->GetVendor(factory), "Koine");
    assert_int_equal(factory->GetVendorId(factory), 0);
    assert_true(strlen(factory->GetVersion(factory)) > 0);
    assert_int_equal(factory->ort_version_supported, PROVIDER_VERSION);
    assert_false(factory->IsStreamAware(factory));
    static const OrtHardwareDevice gpu = {OrtHardwareDeviceType_GPU}, cpu = {OrtHardwareDeviceType_CPU};
    const OrtHardwareDevice *const devices[] = {&gpu, &cpu, &cpu};
    OrtEpDevice *found[2] = {NULL, NULL};
    succeeds(factory->GetSupportedDevices(factory, devices, 3, found, 2, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(found[0], &cpu);
    succeeds(factory->GetSupportedDevices(factory, devices, 1, found, 2, &count));
    assert_int_equal(count, 0);
}

static OrtEp *create(const char *key, const char *value, OrtStatus **status) {
    OrtSessionOptions *options = NULL;
    OrtEp *ep = NULL;
    succeeds(real->CreateSessionOptions(&options));
    succeeds(real->AddSessionConfigEntry(options, "session.other", "1"));
    if (key) succeeds(real->AddSessionConfigEntry(options, key, value));
    *status = factory->CreateEp(factory, NULL, NULL, 0, options, (const OrtLogger *)(const void *)&api, &ep);
    real->ReleaseSessionOptions(options);
    return ep;
}

static void options(void **state) {
    OrtStatus *status = NULL;
    OrtEp *ep = create("ep.koine.math", "exact", &status);
    succeeds(status);
    assert_string_equal(ep->GetName(ep), PROVIDER_NAME);
    factory->ReleaseEp(factory, ep);
    assert_null(create("ep.koineexecutionprovider.maths", "exact", &status));
    fails(status, ORT_INVALID_ARGUMENT, "maths");
}

/* ---- a graph ------------------------------------------------------------------------------- */

static float x_data[6] = {-1, 2, -3, 4, -5, 6}, w_data[3] = {10, 20, 30};
static OrtValue *x_value, *w_value;
static OrtTypeInfo *matrix, *vector;
static const float slope = 0.5f;
static const OrtOpAttr alpha = {"alpha", ORT_OP_ATTR_FLOAT, &slope, sizeof slope};
static OrtValueInfo x = {"x", NULL, NULL}, w = {"w", NULL, NULL}, a = {"a", NULL, NULL},
                    b = {"b", NULL, NULL}, c = {"c", NULL, NULL}, d = {"d", NULL, NULL};
/* a = LeakyRelu(x), b = a + w, c = Unheard(b), d = a * c */
static const OrtNode leaky = {"LeakyRelu", {&x}, {&a}, {&alpha}, 1, 1, 1},
                     sum = {"Add", {&a, &w}, {&b}, {NULL}, 2, 1, 0},
                     unheard = {"Unheard", {&b}, {&c}, {NULL}, 1, 1, 0},
                     product = {"Mul", {&a, &c}, {&d}, {NULL}, 2, 1, 0};

static void make_values(void) {
    static const int64_t two_three[] = {2, 3}, three[] = {3};
    const ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    succeeds(
        real->CreateTensorWithDataAsOrtValue(memory, x_data, sizeof x_data, two_three, 2, type, &x_value));
    succeeds(real->CreateTensorWithDataAsOrtValue(memory, w_data, sizeof w_data, three, 1, type, &w_value));
    succeeds(real->GetTypeInfo(x_value, &matrix));
    succeeds(real->GetTypeInfo(w_value, &vector));
    x.type = a.type = b.type = c.type = d.type = matrix;
    w.type = vector;
    w.constant = w_value;
}

static void parts(void **state) {
    static const OrtGraph whole = {{&leaky, &sum, &unheard, &product}, {&d}, 4, 1, false},
                          inner = {{&leaky}, {&a}, 1, 1, true};
    OrtEpGraphSupportInfo info = {.count = 0}, none = {.count = 0};
    OrtStatus *status = NULL;
    OrtEp *ep = create(NULL, NULL, &status);
    succeeds(status);
    log_text[0] = 0;
    succeeds(ep->GetCapability(ep, &whole, &info));
    assert_int_equal(info.count, 2);
    assert_int_equal(info.counts[0], 2);
    assert_ptr_equal(info.nodes[0][0], &leaky);
    assert_ptr_equal(info.nodes[0][1], &sum);
    assert_int_equal(info.counts[1], 1);
    assert_ptr_equal(info.nodes[1][0], &product);
    assert_true(info.drops_constants);
    assert_non_null(strstr(log_text, "node 'Unheard' (Unheard) is left to ONNX Runtime: "));
    assert_non_null(strstr(log_text, "Koine computes 3 of 4 nodes, in 2 groups"));
    succeeds(ep->GetCapability(ep, &inner, &none));
    assert_int_equal(none.count, 0);
    factory->ReleaseEp(factory, ep);
}

/* A constant of rank 0 has a known rank, even where ONNX Runtime cannot report it; an input does not. */
static void first_version(void **state) {
    const OrtApiBase base = {get_api, get_first_version};
    OrtEpFactory *newer = factory;
    OrtValue *number = NULL;
    OrtTypeInfo *type = NULL;
    size_t made = 0;
    float one = 1;
    OrtStatus *status = NULL;
    succeeds(real->CreateTensorWithDataAsOrtValue(memory, &one, sizeof one, NULL, 0,
                                                  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &number));
    succeeds(real->GetTypeInfo(number, &type));
    const OrtValueInfo constant = {"constant", type, number}, input = {"input", type, NULL};
    const OrtNode shifted = {"Add", {&x, &constant}, {&a}, {NULL}, 2, 1, 0},
                  scaled = {"Mul", {&x, &input}, {&b}, {NULL}, 2, 1, 0};
    const OrtGraph whole = {{&shifted, &scaled}, {&a, &b}, 2, 2, false};
    OrtEpGraphSupportInfo info = {.count = 0};
    succeeds(create_factories("koine", &base, NULL, &factory, 4, &made));
    OrtEp *ep = create(NULL, NULL, &status);
    succeeds(status);
    succeeds(ep->GetCapability(ep, &whole, &info));
    assert_int_equal(info.count, 1);
    assert_int_equal(info.counts[0], 1);
    assert_ptr_equal(info.nodes[0][0], &shifted);
    factory->ReleaseEp(factory, ep);
    succeeds(release_factory(factory));
    factory = newer;
    real->ReleaseTypeInfo(type);
    real->ReleaseValue(number);
}

static void runs(void **state) {
    /* The node that stands for both has its outputs in a different order from that of computation. */
    static const OrtGraph part = {{&leaky, &sum}, {&b, &a}, 2, 2, false};
    static const OrtNode fused = {"koine_0", {&w, &x}, {&b, &a}, {NULL}, 2, 2, 0};
    const OrtGraph *graphs[] = {&part};
    const OrtNode *nodes[] = {&fused};
    OrtNodeComputeInfo *infos[1] = {NULL};
    OrtStatus *status = NULL;
    OrtEp *ep = create(NULL, NULL, &status);
    void *own = NULL;
    succeeds(status);
    succeeds(ep->Compile(ep, graphs, nodes, 1, infos, NULL));
    succeeds(infos[0]->CreateState(infos[0], NULL, &own));
    OrtKernelContext context = {{NULL, x_value}, {NULL}}; /* the constant is not given */
    succeeds(infos[0]->Compute(infos[0], own, &context));
    for (size_t i = 0; i < 2; i++) {
        void *data = NULL;
        succeeds(real->GetTensorMutableData(context.outputs[i], &data));
        for (size_t k = 0; k < 6; k++) {
            const float leak = x_data[k] < 0 ? x_data[k] * slope : x_data[k];
            assert_true(((const float *)data)[k] == (i == 0 ? leak + w_data[k % 3] : leak));
        }
        real->ReleaseValue(context.outputs[i]);
    }
    context = (OrtKernelContext){{NULL, w_value}, {NULL}}; /* one dimension too few */
    fails(infos[0]->Compute(infos[0], own, &context), ORT_INVALID_ARGUMENT, "rank");
    infos[0]->ReleaseState(infos[0], own);
    ep->ReleaseNodeComputeInfos(ep, infos, 1);
    factory->ReleaseEp(factory, ep);
}

static bool load(const char *plugin, const char *library) {
    void *first = dlopen(plugin, RTLD_NOW | RTLD_LOCAL), *second = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const OrtApiBase *(*get)(void) = NULL;
    if (!first || !second) return false;
    *(void **)&create_factories = dlsym(first, "CreateEpFactories");
    *(void **)&release_factory = dlsym(first, "ReleaseEpFactory");
    *(void **)&get = dlsym(second, "OrtGetApiBase");
    if (!create_factories || !release_factory || !get) return false;
    real = get()->GetApi(ORT_API_VERSION);
    return real && !real->GetAllocatorWithDefaultOptions(&allocator) &&
           !real->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory);
}

int main(int count, char **arguments) {
    static const OrtApiBase base = {get_api, get_version};
    size_t made = 0;
    if (count < 3 || !load(arguments[1], arguments[2])) {
        fprintf(stderr, "%s\n", count < 3 ? "usage: test-onnxruntime-provider PLUGIN LIBRARY" : dlerror());
        return 1;
    }
    make_api();
    if (create_factories("koine", &base, NULL, &factory, 4, &made) || made != 1) return 1;
    make_values();
    const struct CMUnitTest tests[] = {cmocka_unit_test(factories), cmocka_unit_test(options),
                                       cmocka_unit_test(parts), cmocka_unit_test(first_version),
                                       cmocka_unit_test(runs)};
    const int failed = cmocka_run_group_tests_name("onnxruntime provider", tests, NULL, NULL);
    real->ReleaseTypeInfo(matrix);
    real->ReleaseTypeInfo(vector);
    real->ReleaseValue(x_value);
    real->ReleaseValue(w_value);
    real->ReleaseMemoryInfo(memory);
    release_factory(factory);
    return failed;
}
