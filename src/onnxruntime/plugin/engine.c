/* Models computed by Koine. Here, OrtValue, OrtStatus and so on are this library's own objects. */
#include "onnxruntime/plugin/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

struct engine {
    OrtSession *session;
    const char **inputs, **outputs; /* names, the session's */
};

static void fail(engine_failure *failure, OrtErrorCode code, const char *message) {
    failure->code = code;
    snprintf(failure->message, sizeof failure->message, "%s", message);
}

/* Stores a status and releases it; true if it is NULL. */
static bool take(OrtStatus *status, engine_failure *failure) {
    if (!status) return true;
    fail(failure, ort_GetErrorCode(status), ort_GetErrorMessage(status));
    ort_ReleaseStatus(status);
    return false;
}

/* ---- facts --------------------------------------------------------------------------------- */

bool engine_has_type(ONNXTensorElementDataType type) {
    kn_dtype dtype;
    return ort_element_to(type, &dtype);
}

size_t engine_bytes(ONNXTensorElementDataType type, size_t count) {
    const size_t bits = ort_element_bits(type);
    return bits < 8 ? (count * bits + 7) / 8 : count * (bits / 8);
}

size_t engine_max_rank(void) {
    return KN_MAX_RANK;
}

/* The environment keeps devices open while it has users. */
void engine_begin(void) {
    OrtEnv *env = NULL;
    ort_ReleaseStatus(ort_CreateEnv(ORT_LOGGING_LEVEL_ERROR, "koine", &env));
}

void engine_end(void) {
    OrtEnv *env = NULL;
    ort_ReleaseStatus(ort_CreateEnv(ORT_LOGGING_LEVEL_ERROR, "koine", &env));
    ort_ReleaseEnv(env); /* this use */
    ort_ReleaseEnv(env); /* that of engine_begin */
}

/* ---- checks -------------------------------------------------------------------------------- */

/* Whether the graph's output is as the file declares it; otherwise runs would fail. */
static bool is_as_declared(const kn_onnx_file *file, const kn_model *model, size_t output,
                           engine_failure *failure) {
    const char *type = "", *name = kn_onnx_file_output_at(file, output, &type);
    const kn_value *value = kn_model_output_at(model, output);
    const int rank = kn_onnx_file_output_rank_at(file, output);
    bool same = value && !kn_value_failed(value) && !strcmp(kn_dtype_name(kn_value_dtype(value)), type) &&
                (rank < 0 || rank == kn_value_rank(value));
    for (int i = 0; same && i < rank; i++) {
        const int64_t declared = kn_onnx_file_output_size_at(file, output, i, NULL),
                      found = kn_value_dimension(value, i);
        same = declared < 0 || found < 0 || declared == found;
    }
    if (same) return true;
    failure->code = ORT_NOT_IMPLEMENTED;
    snprintf(failure->message, sizeof failure->message, "Koine computes '%s' with a different type or shape",
             name ? name : "");
    return false;
}

static engine_verdict check_built(const kn_onnx_file *file, const kn_model *model, engine_failure *failure) {
    const char *missing = kn_model_missing_value(model);
    if (kn_model_status(model) != KN_OK) {
        fail(failure, ORT_NOT_IMPLEMENTED, kn_model_error(model));
        return ENGINE_REFUSES;
    }
    if (!kn_model_bound(model)) {
        fail(failure, ORT_NOT_IMPLEMENTED, missing ? missing : "");
        return ENGINE_LACKS_VALUE;
    }
    for (size_t i = 0; i < kn_onnx_file_output_count(file); i++)
        if (!is_as_declared(file, model, i, failure)) return ENGINE_REFUSES;
    return ENGINE_FITS;
}

/* The model for inputs all of whose open sizes are `size`. NULL when out of memory. */
static kn_model *bind_all(const kn_onnx_file *file, kn_model *model, int64_t size) {
    const size_t count = kn_onnx_file_input_count(file);
    kn_model_given *given = calloc(count + 1, sizeof *given);
    size_t known = 0;
    for (size_t i = 0; given && i < count; i++) {
        const char *type = "", *name = kn_onnx_file_input_at(file, i, &type);
        const int rank = kn_onnx_file_input_rank_at(file, i);
        if (rank < 0 || rank > KN_MAX_RANK || !kn_dtype_parse(type, &given[known].info.dtype)) continue;
        given[known].name = name;
        given[known].info.rank = rank;
        for (int k = 0; k < rank; k++) {
            const int64_t own = kn_onnx_file_input_size_at(file, i, k, NULL);
            given[known].info.shape[k] = own < 0 ? size : own;
        }
        known++;
    }
    kn_model *bound = given ? kn_model_bind(model, given, known) : NULL;
    free(given);
    return bound;
}

/* A graph that depends on open sizes is tried with some sizes; each run builds it for its own. */
static engine_verdict check(const kn_onnx_file *file, kn_model *model, engine_failure *failure) {
    static const int64_t sizes[] = {64, 1};
    engine_verdict verdict = check_built(file, model, failure);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (verdict != ENGINE_LACKS_VALUE || *failure->message) return verdict;
        kn_model *bound = bind_all(file, model, sizes[i]);
        verdict = check_built(file, bound, failure);
        if (verdict == ENGINE_REFUSES) { /* perhaps only for these sizes */
            verdict = ENGINE_LACKS_VALUE;
            fail(failure, ORT_NOT_IMPLEMENTED, "");
        }
        kn_model_destroy(&bound);
    }
    return verdict;
}

engine_verdict engine_check(const void *bytes, size_t count, engine_failure *failure) {
    kn_onnx_file *file = kn_onnx_file_open_memory(bytes, count, NULL, NULL);
    kn_model *model = kn_model_open_memory(bytes, count, NULL, NULL);
    engine_verdict verdict = ENGINE_REFUSES;
    if (kn_onnx_file_status(file) != KN_OK)
        fail(failure, ORT_NOT_IMPLEMENTED, kn_onnx_file_error(file));
    else
        verdict = check(file, model, failure);
    kn_model_destroy(&model);
    kn_onnx_file_destroy(&file);
    return verdict;
}

/* ---- models -------------------------------------------------------------------------------- */

void engine_release(engine *own) {
    if (!own) return;
    ort_ReleaseSession(own->session);
    free(own->inputs);
    free(own->outputs);
    free(own);
}

static bool name_ports(engine *own) {
    const OrtSession *session = own->session;
    own->inputs = calloc(session->input_count + 1, sizeof *own->inputs);
    own->outputs = calloc(session->output_count + 1, sizeof *own->outputs);
    if (!own->inputs || !own->outputs) return false;
    for (size_t i = 0; i < session->input_count; i++)
        own->inputs[i] = session->inputs[i].name;
    for (size_t i = 0; i < session->output_count; i++)
        own->outputs[i] = session->outputs[i].name;
    return true;
}

static OrtStatus *set_options(OrtSessionOptions *session, const engine_options *options) {
    const struct {
        const char *key, *value;
    } all[] = {{"device", options->device},
               {"precision", options->precision},
               {"math", options->math},
               {"cache", options->cache}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value && !ort_pairs_put(&session->provider, all[i].key, all[i].value))
            return ort_no_memory();
    return NULL;
}

engine *engine_open(void *memory, const void *bytes, size_t count, const engine_options *options,
                    engine_failure *failure) {
    OrtSessionOptions *settings = NULL;
    engine *own = calloc(1, sizeof *own);
    OrtStatus *status = own ? ort_CreateSessionOptions(&settings) : ort_no_memory();
    if (!status) status = set_options(settings, options);
    if (status)
        free(memory);
    else
        status = ort_session_open(memory, bytes, count, settings, &own->session);
    ort_ReleaseSessionOptions(settings);
    if (!status && !name_ports(own)) status = ort_no_memory();
    if (take(status, failure)) return own;
    engine_release(own);
    return NULL;
}

/* ---- runs ---------------------------------------------------------------------------------- */

/* The caller's memory for outputs. */
typedef struct outside {
    engine_memory memory;
    void *user;
} outside;

static OrtStatus *give_output(void *user, size_t output, const kn_tensor_info *info, void **data) {
    const outside *own = user;
    return own->memory(own->user, output, info->shape, (size_t)info->rank, data)
               ? NULL
               : ort_fail(ORT_EP_FAIL, "output %zu has no memory", output);
}

static OrtStatus *wrap(const engine_input *inputs, size_t count, OrtValue **values) {
    OrtStatus *status = NULL;
    for (size_t i = 0; i < count && !status; i++)
        status =
            ort_CreateTensorWithDataAsOrtValue(&ort_host_memory, (void *)inputs[i].data, inputs[i].bytes,
                                               inputs[i].sizes, inputs[i].rank, inputs[i].type, &values[i]);
    return status;
}

bool engine_run(engine *own, const engine_input *inputs, engine_memory memory, void *user,
                engine_failure *failure) {
    const size_t count = own->session->input_count, output_count = own->session->output_count;
    OrtValue **values = calloc(count + output_count + 1, sizeof *values);
    if (!values) return take(ort_no_memory(), failure);
    outside give = {memory, user};
    OrtStatus *status = wrap(inputs, count, values);
    if (!status)
        status = ort_run_into(own->session, own->inputs, (const OrtValue *const *)values, count, own->outputs,
                              output_count, values + count, (ort_output_memory){give_output, &give});
    for (size_t i = 0; i < count + output_count; i++)
        ort_ReleaseValue(values[i]);
    free(values);
    return take(status, failure);
}
