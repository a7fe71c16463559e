/* Runs. A session keeps a plan for each kind of inputs: the graph of its file for these shapes and, where
 * they determine what is computed, these values; and a session of Koine for the outputs that were asked for.
 * All plans share the weights.
 *
 * Where values that the graph computes determine the rest of it (a condition, the input of NonZero), a plan
 * begins with stages, each of which computes one such value. If that differs from the last run's, the rest is
 * built again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

/* SMALL: the most elements of an input of integers, such as a shape, whose values a graph may be built for.
 * SYMBOL_BYTES: room for an open size, whose name Koine limits to 201 characters. */
enum { MAX_PLANS = 16, MAX_STAGES = 16, SMALL = 64, SYMBOL_BYTES = 256 };

typedef struct stage {
    char *name;      /* of the value in the file */
    kn_model *model; /* computes only the value */
    kn_session *session;
    kn_tensor_info info;
    void *data; /* its elements in the last run */
} stage;

struct ort_plan {
    ort_plan *next;
    kn_model *model; /* the session's, or one bound to the inputs; NULL: to be built after the stages */
    kn_session *session;
    stage *stages; /* room for MAX_STAGES; NULL: none */
    bool *known;   /* with stages, for each input: its values determine the graph, too */
    size_t stage_count;
    size_t *outputs, output_count; /* positions in the file */
    kn_tensor_info *infos;         /* of the inputs of the last run; NULL: there was none */
    void **constants; /* if the model is bound to these inputs, the bytes of each that became a constant, or
                         NULL */
};

/* The arguments of a run, in the order of the file. */
typedef struct ort_run {
    OrtSession *session;
    const OrtRunOptions *options;
    kn_model_given *inputs;
    size_t *outputs, output_count; /* positions in the file */
    OrtValue **values;             /* of the outputs, as the caller gave them */
    ort_output_memory memory;      /* for the others; without `give`, this library's */
} ort_run;

static bool is_text(const char *text, const char *other) {
    return text && other && !strcmp(text, other);
}

/* ---- inputs ------------------------------------------------------------------------------ */

static OrtStatus *check_shape(const ort_port *port, const OrtValue *value) {
    if (port->rank <= 0) return NULL; /* as the original: a scalar may come as [1] */
    if ((size_t)port->rank != value->rank)
        return ort_fail(
            ORT_INVALID_ARGUMENT,
            "Invalid rank for input: %s Got: %zu Expected: %d Please fix either the inputs/outputs or "
            "the model.",
            port->name, value->rank, port->rank);
    for (size_t i = 0; i < value->rank; i++)
        if (port->sizes[i] >= 0 && port->sizes[i] != value->sizes[i])
            return ort_fail(
                ORT_INVALID_ARGUMENT,
                "Got invalid dimensions for input: %s for the following indices index: %zu Got: %lld "
                "Expected: %lld Please fix either the inputs/outputs or the model.",
                port->name, i, (long long)value->sizes[i], (long long)port->sizes[i]);
    return NULL;
}

static OrtStatus *take_input(const ort_port *port, const OrtValue *value, kn_model_given *given) {
    if (value->kind != ONNX_TYPE_TENSOR || port->kind != ONNX_TYPE_TENSOR)
        return ort_fail(ORT_NOT_IMPLEMENTED, "input '%s': only tensors can be fed", port->name);
    if (value->type != port->type)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "Unexpected input data type. Actual: (tensor(%s)) , expected: (tensor(%s))",
                        ort_element_name(value->type), ort_element_name(port->type));
    OrtStatus *status = check_shape(port, value);
    if (status) return status;
    *given = (kn_model_given){.name = port->name, .data = value->data ? value->data : ""};
    if (!ort_element_to(value->type, &given->info.dtype))
        return ort_fail(ORT_NOT_IMPLEMENTED, "input '%s': elements of type %s are not supported", port->name,
                        ort_element_name(value->type));
    if (value->rank > KN_MAX_RANK)
        return ort_fail(ORT_NOT_IMPLEMENTED, "input '%s': a tensor of rank %zu; at most %d is supported",
                        port->name, value->rank, KN_MAX_RANK);
    if (port->rank == 0 && value->count == 1) return NULL; /* rank 0 */
    given->info.rank = (int)value->rank;
    if (value->rank) memcpy(given->info.shape, value->sizes, value->rank * sizeof *value->sizes);
    return NULL;
}

static OrtStatus *take_inputs(ort_run *run, const char *const *names, const OrtValue *const *values,
                              size_t count) {
    const OrtSession *session = run->session;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        if (!names[i] || !values[i])
            return ort_fail(ORT_INVALID_ARGUMENT, "Run: the %s of input %zu is NULL",
                            names[i] ? "value" : "name", i);
        while (k < session->input_count && !is_text(session->inputs[k].name, names[i]))
            k++;
        if (k == session->input_count)
            return ort_fail(ORT_INVALID_ARGUMENT, "Invalid input name: %s", names[i]);
        OrtStatus *status = take_input(&session->inputs[k], values[i], &run->inputs[k]);
        if (status) return status;
    }
    for (size_t k = 0; k < session->input_count; k++)
        if (!run->inputs[k].name) return ort_fail(ORT_FAIL, "Missing Input: %s", session->inputs[k].name);
    return NULL;
}

static OrtStatus *take_outputs(ort_run *run, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        if (!names[i]) return ort_fail(ORT_INVALID_ARGUMENT, "Run: the name of output %zu is NULL", i);
        while (k < run->session->output_count && !is_text(run->session->outputs[k].name, names[i]))
            k++;
        if (k == run->session->output_count)
            return ort_fail(ORT_INVALID_ARGUMENT, "Invalid output name: %s", names[i]);
        run->outputs[i] = k;
    }
    run->output_count = count;
    return NULL;
}

/* ---- plans ------------------------------------------------------------------------------- */

static void release_constants(const OrtSession *session, ort_plan *plan) {
    for (size_t i = 0; plan->constants && i < session->input_count; i++)
        free(plan->constants[i]);
    free(plan->constants);
    plan->constants = NULL;
}

/* Releases what was built after the first `kept` stages. */
static void release_rest(const OrtSession *session, ort_plan *plan, size_t kept) {
    kn_session_destroy(&plan->session);
    if (plan->model != session->model) kn_model_destroy(&plan->model);
    plan->model = NULL;
    while (plan->stage_count > kept) {
        stage *last = &plan->stages[--plan->stage_count];
        kn_session_destroy(&last->session);
        kn_model_destroy(&last->model);
        free(last->name);
        free(last->data);
        *last = (stage){.name = NULL};
    }
}

static void plan_release(const OrtSession *session, ort_plan *plan) {
    release_rest(session, plan, 0);
    free(plan->stages);
    release_constants(session, plan);
    free(plan->known);
    free(plan->infos);
    free(plan->outputs);
    free(plan);
}

void ort_plans_release(OrtSession *session) {
    while (session->plans) {
        ort_plan *plan = session->plans;
        session->plans = plan->next;
        plan_release(session, plan);
    }
}

static size_t bytes_of(const kn_tensor_info *info) {
    uint64_t bytes = 0;
    return kn_tensor_bytes(info, &bytes) ? (size_t)bytes : 0;
}

static bool same_info(const kn_tensor_info *one, const kn_tensor_info *other) {
    return one->dtype == other->dtype && one->rank == other->rank &&
           !memcmp(one->shape, other->shape, (size_t)one->rank * sizeof *one->shape);
}

static bool plan_suits(const ort_plan *plan, const ort_run *run) {
    if (plan->output_count != run->output_count ||
        memcmp(plan->outputs, run->outputs, run->output_count * sizeof *run->outputs))
        return false;
    bool same = plan->infos != NULL;
    for (size_t i = 0; same && i < run->session->input_count; i++)
        same = same_info(&plan->infos[i], &run->inputs[i].info);
    if (!plan->constants) return same || kn_model_fits(plan->model, run->inputs, run->session->input_count);
    if (!same) return false;
    for (size_t i = 0; i < run->session->input_count; i++) {
        if (plan->constants[i] &&
            memcmp(plan->constants[i], run->inputs[i].data, bytes_of(&run->inputs[i].info)))
            return false;
    }
    return true;
}

/* The position of an input of the file in the model; -1 if it became a constant. */
static int position_in(const kn_model *model, const char *name) {
    for (size_t i = 0; i < kn_model_input_count(model); i++)
        if (is_text(kn_model_input_name_at(model, i), name)) return (int)i;
    return -1;
}

/* Stores the values of the inputs that are constants of the plan's model, in place of those of an earlier
 * model. */
static OrtStatus *keep_constants(ort_plan *plan, const ort_run *run) {
    const size_t count = run->session->input_count;
    release_constants(run->session, plan);
    plan->constants = calloc(count + 1, sizeof *plan->constants);
    if (!plan->constants) return ort_no_memory();
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = bytes_of(&run->inputs[i].info);
        if (position_in(plan->model, run->inputs[i].name) >= 0) continue;
        plan->constants[i] = malloc(bytes + 1);
        if (!plan->constants[i]) return ort_no_memory();
        memcpy(plan->constants[i], run->inputs[i].data, bytes);
    }
    return NULL;
}

static OrtStatus *open_session(const OrtSession *session, kn_model *model, kn_value *const *values,
                               size_t count, kn_session **out) {
    *out = kn_session_create(ort_device_context(session->device), values, count, &session->params);
    if (kn_session_status(*out) != KN_OK) return ort_fail_as(kn_session_status(*out), kn_session_error(*out));
    return ort_fail_as(kn_model_load(model, NULL, session->states, NULL, NULL), kn_model_error(model));
}

/* A session for the outputs of the plan, each value once. */
static OrtStatus *open_outputs(ort_plan *plan, const OrtSession *session) {
    kn_value **values = calloc(plan->output_count + 1, sizeof *values);
    size_t count = 0;
    if (!values) return ort_no_memory();
    for (size_t i = 0; i < plan->output_count; i++) {
        kn_value *value = kn_model_output_at(plan->model, plan->outputs[i]);
        size_t k = 0;
        while (k < count && values[k] != value)
            k++;
        if (k == count) values[count++] = value;
    }
    OrtStatus *status = open_session(session, plan->model, values, count, &plan->session);
    free(values);
    return status;
}

/* Binds the open sizes of an input, which its bytes may not determine. */
static kn_status bind_sizes(kn_session *session, const kn_value *input, const kn_tensor_info *info) {
    char text[KN_MAX_RANK * SYMBOL_BYTES];
    if (kn_value_shape_text(input, text, sizeof text) >= sizeof text) return KN_ERROR_UNSUPPORTED;
    char *symbol = text;
    for (int i = 0; i < info->rank; i++) {
        char *end = symbol + strcspn(symbol, ","), *next = *end ? end + 1 : end;
        *end = 0;
        const kn_status status =
            kn_value_dimension(input, i) >= 0 ? KN_OK : kn_session_bind(session, symbol, info->shape[i]);
        if (status != KN_OK && status != KN_ERROR_NOT_FOUND) return status; /* no output may depend on it */
        symbol = next;
    }
    return KN_OK;
}

/* The feeds of a model's session, in new memory, with the sizes of its inputs bound. */
static OrtStatus *make_feeds(const kn_model *model, kn_session *session, const ort_run *run, kn_feed **out,
                             size_t *count) {
    kn_feed *feeds = calloc(run->session->input_count + 1, sizeof *feeds);
    if (!feeds) return ort_no_memory();
    *count = 0;
    for (size_t i = 0; i < run->session->input_count; i++) {
        const kn_model_given *given = &run->inputs[i];
        const int position = position_in(model, given->name);
        if (position < 0) continue;
        const kn_value *input = kn_model_input_at(model, (size_t)position);
        feeds[(*count)++] = (kn_feed){kn_value_name(input), given->data, bytes_of(&given->info)};
        const kn_status status = bind_sizes(session, input, &given->info);
        if (status != KN_OK) {
            free(feeds);
            return ort_fail_as(status, kn_session_error(session));
        }
    }
    *out = feeds;
    return NULL;
}

/* ---- stages ------------------------------------------------------------------------------ */

/* Runs a stage's session, with its elements in new memory, *data, also if it fails. */
static kn_status compute_stage(const stage *own, const kn_feed *feeds, size_t count, kn_tensor_info *info,
                               void **data) {
    const char *name = kn_value_name(kn_model_output_at(own->model, 0));
    kn_status status = kn_session_compile(own->session, feeds, count);
    if (status == KN_OK) status = kn_session_info(own->session, name, info);
    if (status != KN_OK) return status;
    const size_t bytes = bytes_of(info);
    *data = malloc(bytes + 1);
    if (!*data) return KN_ERROR_MEMORY;
    const kn_fetch fetch = {name, *data, bytes};
    return kn_session_run(own->session, feeds, count, &fetch, 1);
}

/* Computes the value of a stage. *changed: it differs from that of the last run. */
static OrtStatus *run_stage(stage *own, const ort_run *run, bool *changed) {
    kn_feed *feeds = NULL;
    size_t count = 0;
    kn_tensor_info info;
    void *data = NULL;
    OrtStatus *status = make_feeds(own->model, own->session, run, &feeds, &count);
    if (status) return status;
    const kn_status done = compute_stage(own, feeds, count, &info, &data);
    free(feeds);
    if (done != KN_OK) {
        free(data);
        return ort_fail_as(done, kn_session_error(own->session));
    }
    *changed = !own->data || !same_info(&own->info, &info) || memcmp(own->data, data, bytes_of(&info));
    free(own->data);
    own->data = data;
    own->info = info;
    return NULL;
}

/* Whether the values of an input are likely to be sizes, axes or choices, which rarely change. */
static bool is_setting(const kn_tensor_info *info) {
    uint64_t elements = 0;
    return info->dtype != KN_FLOAT32 && info->dtype != KN_FLOAT64 && info->dtype != KN_FLOAT16 &&
           info->dtype != KN_BFLOAT16 && kn_tensor_elements(info, &elements) && elements <= SMALL;
}

/* The arrays for a bind: all shapes, the values of settings, and those of the stages. In new memory. */
static kn_model_given *staged_inputs(const ort_plan *plan, const ort_run *run, size_t *count) {
    *count = run->session->input_count;
    kn_model_given *given = calloc(*count + plan->stage_count + 1, sizeof *given);
    for (size_t i = 0; given && i < *count; i++) {
        given[i] = run->inputs[i];
        if (!plan->known[i] && !is_setting(&given[i].info)) given[i].data = NULL;
    }
    for (size_t i = 0; given && i < plan->stage_count; i++)
        given[(*count)++] =
            (kn_model_given){plan->stages[i].name, plan->stages[i].info, plan->stages[i].data};
    return given;
}

/* Adds the stage that computes a value, and runs it. */
static OrtStatus *add_stage(ort_plan *plan, const ort_run *run, const char *name, const kn_model_given *given,
                            size_t count) {
    stage *own = &plan->stages[plan->stage_count++];
    bool changed;
    own->name = ort_copy_text(name);
    own->model = kn_model_bind_value(run->session->model, name, given, count);
    if (!own->name || !own->model) return ort_no_memory();
    if (!kn_model_bound(own->model)) return ort_fail(ORT_NOT_IMPLEMENTED, "%s", kn_model_error(own->model));
    kn_value *value = kn_model_output_at(own->model, 0);
    OrtStatus *status = open_session(run->session, own->model, &value, 1, &own->session);
    return status ? status : run_stage(own, run, &changed);
}

/* Builds what comes after the stages; adds stages where another value is missing. */
static OrtStatus *build_rest(ort_plan *plan, const ort_run *run) {
    OrtStatus *status = NULL;
    while (!status && !plan->model) {
        size_t count = 0;
        kn_model_given *given = staged_inputs(plan, run, &count);
        kn_model *model = given ? kn_model_bind(run->session->model, given, count) : NULL;
        const char *name = kn_model_missing_value(model);
        size_t input = 0;
        while (name && input < run->session->input_count && strcmp(run->session->inputs[input].name, name))
            input++;
        if (!model) {
            status = ort_no_memory();
        } else if (kn_model_bound(model)) {
            plan->model = model;
            model = NULL;
        } else if (name && input < run->session->input_count && !plan->known[input]) {
            plan->known[input] = true;
        } else if (name && input == run->session->input_count && plan->stage_count < MAX_STAGES) {
            status = add_stage(plan, run, name, given, count);
        } else {
            status = ort_fail(ORT_NOT_IMPLEMENTED, "%s", kn_model_error(model));
        }
        kn_model_destroy(&model);
        free(given);
    }
    if (!status) status = keep_constants(plan, run);
    return status ? status : open_outputs(plan, run->session);
}

/* A plan for these shapes and the values of settings, with stages as needed; plan->model is NULL if there
 * is none. */
static OrtStatus *bind_in_stages(ort_plan *plan, const ort_run *run) {
    plan->stages = calloc(MAX_STAGES, sizeof *plan->stages);
    plan->known = calloc(run->session->input_count + 1, sizeof *plan->known);
    if (!plan->stages || !plan->known) return ort_no_memory();
    ort_ReleaseStatus(build_rest(plan, run));
    if (!plan->session || kn_session_status(plan->session) != KN_OK) release_rest(run->session, plan, 0);
    return NULL;
}

/* A plan for the values of all inputs, any of which may become a constant. */
static OrtStatus *bind_to_values(ort_plan *plan, const ort_run *run) {
    plan->model = kn_model_bind(run->session->model, run->inputs, run->session->input_count);
    if (kn_model_bound(plan->model)) {
        OrtStatus *failed = keep_constants(plan, run);
        return failed ? failed : open_outputs(plan, run->session);
    }
    const kn_status status = kn_model_status(plan->model);
    return ort_fail_as(status == KN_OK ? KN_ERROR_UNSUPPORTED : status, kn_model_error(plan->model));
}

/* Runs the stages; where a value has changed, what comes after it is built again. */
static OrtStatus *run_stages(ort_plan *plan, const ort_run *run) {
    for (size_t i = 0; i < plan->stage_count; i++) {
        bool changed = false;
        OrtStatus *status = run_stage(&plan->stages[i], run, &changed);
        if (status) return status;
        if (changed) release_rest(run->session, plan, i + 1);
    }
    return plan->model ? NULL : build_rest(plan, run);
}

static OrtStatus *plan_fill(ort_plan *plan, const ort_run *run) {
    OrtSession *session = run->session;
    plan->outputs = malloc((run->output_count + 1) * sizeof *plan->outputs);
    if (!plan->outputs) return ort_no_memory();
    memcpy(plan->outputs, run->outputs, run->output_count * sizeof *plan->outputs);
    plan->output_count = run->output_count;
    if (kn_model_fits(session->model, run->inputs, session->input_count)) {
        plan->model = session->model;
        return open_outputs(plan, session);
    }
    OrtStatus *status = bind_in_stages(plan, run);
    if (!status && !plan->model) status = bind_to_values(plan, run);
    return status;
}

static OrtStatus *keep_infos(ort_plan *plan, const ort_run *run) {
    const size_t count = run->session->input_count;
    if (!plan->infos) plan->infos = calloc(count + 1, sizeof *plan->infos);
    if (!plan->infos) return ort_no_memory();
    for (size_t i = 0; i < count; i++)
        plan->infos[i] = run->inputs[i].info;
    return NULL;
}

/* The plan for a run, which becomes the first of the list; the oldest is released if there are too many. */
static OrtStatus *find_plan(const ort_run *run, ort_plan **found) {
    OrtSession *session = run->session;
    ort_plan **at = &session->plans;
    while (*at && !plan_suits(*at, run))
        at = &(*at)->next;
    ort_plan *plan = *at;
    OrtStatus *status = NULL;
    if (plan) {
        *at = plan->next;
        status = run_stages(plan, run);
        if (status) plan_release(session, plan);
    }
    if (!plan || status) { /* a plan whose rest cannot be built for new values is made anew */
        ort_ReleaseStatus(status);
        plan = calloc(1, sizeof *plan);
        if (!plan) return ort_no_memory();
        status = plan_fill(plan, run);
    }
    if (status) {
        plan_release(session, plan);
        return status;
    }
    status = keep_infos(plan, run);
    plan->next = session->plans;
    *found = session->plans = plan;
    for (int i = 1; i < MAX_PLANS && plan; i++)
        plan = plan->next;
    while (plan && plan->next) {
        ort_plan *oldest = plan->next;
        plan->next = oldest->next;
        plan_release(session, oldest);
    }
    return status;
}

/* ---- outputs ----------------------------------------------------------------------------- */

static OrtStatus *make_output(const ort_run *run, size_t i, const kn_tensor_info *info, OrtValue **made) {
    const ONNXTensorElementDataType type = ort_element_from(info->dtype);
    const size_t rank = (size_t)info->rank;
    void *data = NULL;
    if (!run->memory.give) return ort_tensor_new(ort_default_allocator(), info->shape, rank, type, made);
    OrtStatus *status = run->memory.give(run->memory.user, i, info, &data);
    return status ? status
                  : ort_CreateTensorWithDataAsOrtValue(&ort_host_memory, data, bytes_of(info), info->shape,
                                                       rank, type, made);
}

/* Makes the value of an output, or checks the caller's. */
static OrtStatus *take_output(const ort_plan *plan, const ort_run *run, size_t i, OrtValue **made,
                              kn_fetch *fetch) {
    kn_tensor_info info;
    OrtValue *given = run->values[i];
    const ort_port *port = &run->session->outputs[plan->outputs[i]];
    const char *name = kn_value_name(kn_model_output_at(plan->model, plan->outputs[i]));
    const kn_status status = kn_session_info(plan->session, name, &info);
    if (status != KN_OK) return ort_fail_as(status, kn_session_error(plan->session));
    const ONNXTensorElementDataType type = ort_element_from(info.dtype);
    if (port->kind == ONNX_TYPE_TENSOR && port->type && port->type != type)
        return ort_fail(ORT_NOT_IMPLEMENTED, "output '%s' is computed as %s, but the file declares %s",
                        port->name, ort_element_name(type), ort_element_name(port->type));
    if (!given) {
        OrtStatus *failed = make_output(run, i, &info, made);
        if (failed) return failed;
        given = *made;
    }
    if (given->kind != ONNX_TYPE_TENSOR || given->type != type)
        return ort_fail(ORT_INVALID_ARGUMENT, "the value for output '%s' is not a tensor of %s", port->name,
                        ort_element_name(type));
    if (given->rank != (size_t)info.rank ||
        (info.rank && memcmp(given->sizes, info.shape, (size_t)info.rank * sizeof *info.shape)))
        return ort_fail(
            ORT_INVALID_ARGUMENT,
            "OrtValue shape verification failed: the value for output '%s' has a different shape than "
            "the output",
            port->name);
    *fetch = (kn_fetch){name, given->data, given->bytes};
    return NULL;
}

/* The position of the fetch of a value; `count` if there is none. */
static size_t find_fetch(const kn_fetch *fetches, size_t count, const char *name) {
    size_t i = 0;
    while (i < count && strcmp(fetches[i].name, name))
        i++;
    return i;
}

/* Two outputs of the file may be one value, which is fetched once, and copied. */
static OrtStatus *compute(const ort_plan *plan, const kn_feed *feeds, size_t feed_count,
                          const kn_fetch *fetches) {
    kn_fetch *once = calloc(plan->output_count + 1, sizeof *once);
    size_t count = 0;
    if (!once) return ort_no_memory();
    for (size_t i = 0; i < plan->output_count; i++)
        if (find_fetch(once, count, fetches[i].name) == count) once[count++] = fetches[i];
    OrtStatus *status = ort_fail_as(kn_session_run(plan->session, feeds, feed_count, once, count),
                                    kn_session_error(plan->session));
    for (size_t i = 0; !status && i < plan->output_count; i++) {
        const kn_fetch *from = &once[find_fetch(once, count, fetches[i].name)];
        if (fetches[i].bytes && fetches[i].data != from->data)
            memcpy(fetches[i].data, from->data, fetches[i].bytes);
    }
    free(once);
    return status;
}

/* ---- runs -------------------------------------------------------------------------------- */

static OrtStatus *fetch_all(const ort_plan *plan, const ort_run *run, const kn_feed *feeds,
                            size_t feed_count) {
    OrtValue **made = calloc(plan->output_count + 1, sizeof(OrtValue *));
    kn_fetch *fetches = calloc(plan->output_count + 1, sizeof *fetches);
    OrtStatus *status = made && fetches ? NULL : ort_no_memory();
    if (!status)
        status = ort_fail_as(kn_session_compile(plan->session, feeds, feed_count),
                             kn_session_error(plan->session));
    for (size_t i = 0; !status && i < plan->output_count; i++)
        status = take_output(plan, run, i, &made[i], &fetches[i]);
    if (!status) status = compute(plan, feeds, feed_count, fetches);
    for (size_t i = 0; made && i < plan->output_count; i++) {
        if (status)
            ort_ReleaseValue(made[i]);
        else if (made[i])
            run->values[i] = made[i];
    }
    free(made);
    free(fetches);
    return status;
}

static OrtStatus *run_locked(const ort_run *run) {
    ort_plan *plan = NULL;
    kn_feed *feeds = NULL;
    size_t feed_count = 0;
    OrtStatus *status = find_plan(run, &plan);
    if (!status) status = make_feeds(plan->model, plan->session, run, &feeds, &feed_count);
    if (!status) status = fetch_all(plan, run, feeds, feed_count);
    free(feeds);
    return status;
}

static OrtStatus *terminated(const OrtRunOptions *options) {
    return options && atomic_load(&options->terminate)
               ? ort_fail(ORT_FAIL, "Exiting due to terminate flag being set to true.")
               : NULL;
}

/* Takes the arguments by their names, and runs. */
static OrtStatus *run_named(ort_run *run, const char *const *input_names, const OrtValue *const *inputs,
                            size_t input_count, const char *const *output_names, size_t output_count) {
    OrtSession *session = run->session;
    run->inputs = calloc(session->input_count + 1, sizeof *run->inputs);
    run->outputs = calloc(output_count + 1, sizeof *run->outputs);
    OrtStatus *status = run->inputs && run->outputs ? NULL : ort_no_memory();
    if (!status) status = take_inputs(run, input_names, inputs, input_count);
    if (!status) status = take_outputs(run, output_names, output_count);
    if (!status) status = terminated(run->options);
    if (!status) {
        pthread_mutex_lock(&session->lock);
        status = terminated(run->options);
        if (!status) status = run_locked(run);
        pthread_mutex_unlock(&session->lock);
    }
    free(run->inputs);
    free(run->outputs);
    return status;
}

OrtStatus *ort_run_into(OrtSession *session, const char *const *input_names, const OrtValue *const *inputs,
                        size_t input_count, const char *const *output_names, size_t output_count,
                        OrtValue **outputs, ort_output_memory memory) {
    ort_run run = {.session = session, .values = outputs, .memory = memory};
    return run_named(&run, input_names, inputs, input_count, output_names, output_count);
}

OrtStatus *ort_Run(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
                   const OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                   size_t output_count, OrtValue **outputs) {
    ORT_NEED(session);
    ORT_NEED_FOR(input_count, input_names);
    ORT_NEED_FOR(input_count, inputs);
    ORT_NEED(output_names);
    ORT_NEED(outputs);
    if (output_count == 0) return ort_fail(ORT_INVALID_ARGUMENT, "At least one output should be requested.");
    ort_run run = {.session = session, .options = options, .values = outputs};
    return run_named(&run, input_names, inputs, input_count, output_names, output_count);
}

OrtStatus *ort_prepare(OrtSession *session) {
    ort_run run = {.session = session, .output_count = session->output_count};
    OrtStatus *status = NULL;
    bool known = kn_model_bound(session->model);
    for (size_t i = 0; known && i < session->input_count; i++) {
        known = session->inputs[i].rank >= 0 && session->inputs[i].rank <= KN_MAX_RANK;
        for (int k = 0; known && k < session->inputs[i].rank; k++)
            known = session->inputs[i].sizes[k] >= 0;
    }
    if (!known) return NULL;
    run.inputs = calloc(session->input_count + 1, sizeof *run.inputs);
    run.outputs = calloc(session->output_count + 1, sizeof *run.outputs);
    ort_plan *plan = NULL;
    kn_feed *feeds = NULL;
    size_t feed_count = 0;
    if (!run.inputs || !run.outputs) status = ort_no_memory();
    for (size_t i = 0; !status && i < session->input_count; i++) {
        const ort_port *port = &session->inputs[i];
        run.inputs[i] = (kn_model_given){.name = port->name, .info = {.rank = port->rank}};
        if (!ort_element_to(port->type, &run.inputs[i].info.dtype)) goto finished;
        memcpy(run.inputs[i].info.shape, port->sizes, (size_t)port->rank * sizeof *port->sizes);
    }
    for (size_t i = 0; !status && i < session->output_count; i++)
        run.outputs[i] = i;
    if (!status) status = find_plan(&run, &plan);
    if (!status) status = make_feeds(plan->model, plan->session, &run, &feeds, &feed_count);
    if (!status)
        status = ort_fail_as(kn_session_compile(plan->session, feeds, feed_count),
                             kn_session_error(plan->session));
finished:
    free(feeds);
    free(run.inputs);
    free(run.outputs);
    return status;
}
