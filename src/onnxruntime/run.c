/* Runs: arguments are taken by their names, and outputs made. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/run.h"

bool ort_is_text(const char *text, const char *other) {
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

/* Koine's strings end at a zero byte. */
static OrtStatus *check_texts(const ort_port *port, const OrtValue *value) {
    for (size_t i = 0; i < value->count; i++)
        if (strlen(value->strings[i]) != value->lengths[i])
            return ort_fail(ORT_NOT_IMPLEMENTED,
                            "input '%s': string %zu contains a zero byte, which Koine does not support",
                            port->name, i);
    return NULL;
}

static OrtStatus *take_tensor(const ort_port *port, const OrtValue *value, kn_model_given *given) {
    if (value->kind != ONNX_TYPE_TENSOR)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "Unexpected input data type. The value for input '%s' is not a tensor", port->name);
    if (value->type != port->type)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "Unexpected input data type. Actual: (tensor(%s)) , expected: (tensor(%s))",
                        ort_element_name(value->type), ort_element_name(port->type));
    OrtStatus *status = check_shape(port, value);
    if (!status && value->strings) status = check_texts(port, value);
    if (status) return status;
    *given = (kn_model_given){.name = port->name, .data = value->data ? value->data : ""};
    given->texts = (const char *const *)value->strings;
    given->info.dtype = KN_INT64; /* of strings */
    if (!value->strings && !ort_element_to(value->type, &given->info.dtype))
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

/* A sequence has its tensors in new memory, which free_inputs frees. */
static OrtStatus *take_input(const ort_port *port, const OrtValue *value, kn_model_given *given) {
    if (port->kind == ONNX_TYPE_OPTIONAL && value->kind == ONNX_TYPE_UNKNOWN) {
        *given = (kn_model_given){.name = port->name};
        return NULL;
    }
    if (port->kind != ONNX_TYPE_SEQUENCE) return take_tensor(port, value, given);
    if (value->kind != ONNX_TYPE_SEQUENCE)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "Unexpected input data type. The value for input '%s' is not a sequence", port->name);
    kn_model_given *elements = calloc(value->count + 1, sizeof *elements);
    if (!elements) return ort_no_memory();
    *given = (kn_model_given){.name = port->name, .elements = elements, .element_count = value->count};
    OrtStatus *status = NULL;
    for (size_t i = 0; !status && i < value->count; i++)
        status = take_tensor(port, value->items[i], &elements[i]);
    return status;
}

static void free_inputs(const ort_run *run) {
    for (size_t k = 0; run->inputs && k < run->session->input_count; k++)
        free((void *)run->inputs[k].elements);
    free(run->inputs);
}

static OrtStatus *take_inputs(ort_run *run, const char *const *names, const OrtValue *const *values,
                              size_t count) {
    const OrtSession *session = run->session;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        if (!names[i] || !values[i])
            return ort_fail(ORT_INVALID_ARGUMENT, "Run: the %s of input %zu is NULL",
                            names[i] ? "value" : "name", i);
        while (k < session->input_count && !ort_is_text(session->inputs[k].name, names[i]))
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
        while (k < run->session->output_count && !ort_is_text(run->session->outputs[k].name, names[i]))
            k++;
        if (k == run->session->output_count)
            return ort_fail(ORT_INVALID_ARGUMENT, "Invalid output name: %s", names[i]);
        run->outputs[i] = k;
    }
    run->output_count = count;
    return NULL;
}

/* ---- outputs ----------------------------------------------------------------------------- */

static OrtStatus *make_output(const ort_run *run, size_t i, const kn_tensor_info *info,
                              ONNXTensorElementDataType type, OrtValue **made) {
    const size_t rank = (size_t)info->rank;
    void *data = NULL;
    if (!run->memory.give) return ort_tensor_new(ort_default_allocator(), info->shape, rank, type, made);
    OrtStatus *status = run->memory.give(run->memory.user, i, info, &data);
    return status ? status
                  : ort_CreateTensorWithDataAsOrtValue(&ort_host_memory, data, ort_info_bytes(info),
                                                       info->shape, rank, type, made);
}

/* Part of the results: an output that is a tensor, or a tensor of one that is a sequence or an optional. */
typedef struct ort_part {
    OrtValue *value;
    kn_fetch fetch;
    bool made; /* the value is new */
} ort_part;

/* Makes the value of output i of the run, or checks the caller's, `given`. position: that of the part in the
 * model. */
static OrtStatus *take_part(const ort_plan *plan, const ort_run *run, size_t i, size_t position,
                            OrtValue *given, ort_part *part) {
    kn_tensor_info info;
    const ort_port *port = &run->session->outputs[plan->outputs[i]];
    const char *name = kn_value_name(kn_model_output_at(plan->model, position));
    const kn_status status = kn_session_info(plan->session, name, &info);
    if (status != KN_OK) return ort_fail_as(status, kn_session_error(plan->session));
    const bool text = kn_model_output_has_strings_at(plan->model, position);
    const ONNXTensorElementDataType type =
        text ? ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING : ort_element_from(info.dtype);
    if (port->type && port->type != type)
        return ort_fail(ORT_NOT_IMPLEMENTED, "output '%s' is computed as %s, but the file declares %s",
                        port->name, ort_element_name(type), ort_element_name(port->type));
    if (!given) {
        OrtStatus *failed = make_output(run, i, &info, type, &given);
        if (failed) return failed;
        part->made = true;
    }
    part->value = given;
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
    part->fetch = (kn_fetch){name, given->data, given->bytes};
    if (!text) return NULL;
    part->fetch.bytes = ort_info_bytes(&info);
    part->fetch.data = malloc(part->fetch.bytes + 1); /* the numbers of the strings */
    return part->fetch.data ? NULL : ort_no_memory();
}

/* Fills an output of strings, whose numbers are `numbers`. */
static OrtStatus *take_texts(const kn_model *model, OrtValue *value, const int64_t *numbers) {
    OrtStatus *status = NULL;
    for (size_t i = 0; !status && i < value->count; i++) {
        const char *text = kn_model_string(model, numbers[i]);
        status = text ? ort_FillStringTensorElement(value, text, i)
                      : ort_fail(ORT_RUNTIME_EXCEPTION, "no string has the number of element %zu", i);
    }
    return status;
}

/* The position of the fetch of a value; `count` if there is none. */
static size_t find_fetch(const kn_fetch *fetches, size_t count, const char *name) {
    size_t i = 0;
    while (i < count && strcmp(fetches[i].name, name))
        i++;
    return i;
}

/* Two parts may be one value, which is fetched once, and copied. */
static OrtStatus *compute(const ort_plan *plan, const kn_feed *feeds, size_t feed_count,
                          const ort_part *parts, size_t part_count) {
    kn_fetch *once = calloc(part_count + 1, sizeof *once);
    size_t count = 0;
    if (!once) return ort_no_memory();
    for (size_t i = 0; i < part_count; i++)
        if (find_fetch(once, count, parts[i].fetch.name) == count) once[count++] = parts[i].fetch;
    OrtStatus *status = ort_fail_as(kn_session_run(plan->session, feeds, feed_count, once, count),
                                    kn_session_error(plan->session));
    for (size_t i = 0; !status && i < part_count; i++) {
        const kn_fetch *own = &parts[i].fetch, *from = &once[find_fetch(once, count, own->name)];
        if (own->bytes && own->data != from->data) memcpy(own->data, from->data, own->bytes);
    }
    free(once);
    return status;
}

/* ---- runs -------------------------------------------------------------------------------- */

/* Makes the value of an output that is a sequence or an optional of the tensors in `parts`. */
static OrtStatus *make_list(const ort_port *port, const ort_part *parts, size_t count, OrtValue **out) {
    if (port->kind == ONNX_TYPE_OPTIONAL && count) {
        *out = ort_value_hold(parts[0].value);
        return NULL;
    }
    OrtValue **items = calloc(count + 1, sizeof(OrtValue *));
    for (size_t i = 0; items && i < count; i++)
        items[i] = parts[i].value;
    *out = items ? ort_list_new(port->kind == ONNX_TYPE_OPTIONAL ? ONNX_TYPE_UNKNOWN : port->kind, port->type,
                                items, count)
                 : NULL;
    free(items);
    return *out ? NULL : ort_no_memory();
}

/* Takes the parts of all outputs; *count counts those taken, also after a failure. */
static OrtStatus *take_parts(const ort_plan *plan, const ort_run *run, ort_part *parts, size_t *count) {
    OrtStatus *status = NULL;
    for (size_t i = 0; !status && i < plan->output_count; i++) {
        const ort_port *port = &run->session->outputs[plan->outputs[i]];
        const bool list = port->kind != ONNX_TYPE_TENSOR;
        size_t position, rest = ort_plan_parts(plan, run->session, plan->outputs[i], &position);
        if (list && run->values[i])
            return ort_fail(ORT_NOT_IMPLEMENTED, "output '%s' is not a tensor; pass NULL for its value",
                            port->name);
        for (; !status && rest > 0; rest--)
            status = take_part(plan, run, i, position++, list ? NULL : run->values[i], &parts[(*count)++]);
    }
    return status;
}

/* Sets the outputs that the caller left out; none after a failure. */
static OrtStatus *give_outputs(const ort_plan *plan, const ort_run *run, const ort_part *parts) {
    OrtValue **lists = calloc(plan->output_count + 1, sizeof(OrtValue *));
    OrtStatus *status = lists ? NULL : ort_no_memory();
    const ort_part *part = parts;
    for (size_t i = 0; !status && i < plan->output_count; i++) {
        const ort_port *port = &run->session->outputs[plan->outputs[i]];
        size_t first, count = ort_plan_parts(plan, run->session, plan->outputs[i], &first);
        if (port->kind == ONNX_TYPE_TENSOR)
            lists[i] = ort_value_hold(part->value);
        else
            status = make_list(port, part, count, &lists[i]);
        part += count;
    }
    for (size_t i = 0; lists && i < plan->output_count; i++) {
        if (status || run->values[i])
            ort_ReleaseValue(lists[i]);
        else
            run->values[i] = lists[i];
    }
    free(lists);
    return status;
}

static OrtStatus *fetch_all(const ort_plan *plan, const ort_run *run, const kn_feed *feeds,
                            size_t feed_count) {
    size_t count = 0, most = 0, first;
    for (size_t i = 0; i < plan->output_count; i++)
        most += ort_plan_parts(plan, run->session, plan->outputs[i], &first);
    ort_part *parts = calloc(most + 1, sizeof *parts);
    if (!parts) return ort_no_memory();
    OrtStatus *status =
        ort_fail_as(kn_session_compile(plan->session, feeds, feed_count), kn_session_error(plan->session));
    /* A profile lists the run without trials of kernels, which parts come before. */
    if (run->session->profile && !kn_runner_parts(plan->runner))
        kn_context_timeline_clear(ort_device_context(run->session->device));
    if (!status) status = take_parts(plan, run, parts, &count);
    if (!status) status = compute(plan, feeds, feed_count, parts, count);
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].value || !parts[i].value->strings) continue;
        if (!status) status = take_texts(plan->model, parts[i].value, parts[i].fetch.data);
        free(parts[i].fetch.data);
    }
    if (!status) status = give_outputs(plan, run, parts);
    for (size_t i = 0; i < count; i++)
        if (parts[i].made) ort_ReleaseValue(parts[i].value);
    free(parts);
    return status;
}

/* Random numbers depend on the step counter; each run of the session draws others. */
static OrtStatus *count_run(OrtSession *session) {
    const uint32_t step = session->runs++;
    if (step == 0) return NULL;
    const kn_status status = kn_states_set(session->states, "koine.step", NULL, &step, sizeof step);
    return status == KN_ERROR_NOT_FOUND ? NULL : ort_fail_as(status, kn_states_error(session->states));
}

static OrtStatus *run_locked(const ort_run *run) {
    ort_plan *plan = NULL;
    kn_feed *feeds = NULL;
    size_t feed_count = 0;
    OrtStatus *status = count_run(run->session);
    if (!status) status = ort_find_plan(run, &plan);
    if (!status) status = ort_make_feeds(plan, run, &feeds, &feed_count);
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
        const double start = ort_profile_now(session->profile);
        if (!status) status = run_locked(run);
        ort_profile_run(session->profile, ort_device_context(session->device), start);
        pthread_mutex_unlock(&session->lock);
    }
    free_inputs(run);
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

/* ---- runs in a thread -------------------------------------------------------------------- */

typedef struct async_run {
    OrtSession *session;
    const OrtRunOptions *options;
    const char *const *input_names, *const *output_names;
    const OrtValue *const *inputs;
    OrtValue **outputs;
    size_t input_count, output_count;
    RunAsyncCallbackFn callback;
    void *user;
} async_run;

static void *run_and_call(void *argument) {
    async_run own = *(async_run *)argument;
    free(argument);
    OrtStatus *status = ort_Run(own.session, own.options, own.input_names, own.inputs, own.input_count,
                                own.output_names, own.output_count, own.outputs);
    own.callback(own.user, status ? NULL : own.outputs, status ? 0 : own.output_count, status);
    return NULL;
}

OrtStatus *ort_RunAsync(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
                        const OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                        size_t output_count, OrtValue **outputs, RunAsyncCallbackFn callback, void *user) {
    ORT_NEED(session);
    ORT_NEED(callback);
    pthread_t thread;
    async_run *own = NULL;
    OrtStatus *status = ORT_NEW(&own);
    if (status) return status;
    *own = (async_run){session, options,     input_names,  output_names, inputs,
                       outputs, input_count, output_count, callback,     user};
    if (pthread_create(&thread, NULL, run_and_call, own)) {
        free(own);
        return ort_fail(ORT_FAIL, "RunAsync: no thread could be started");
    }
    pthread_detach(thread);
    return NULL;
}

/* ---- the first run ----------------------------------------------------------------------- */

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
    if (!status) status = ort_find_plan(&run, &plan);
    if (!status) status = ort_make_feeds(plan, &run, &feeds, &feed_count);
    if (!status)
        status = ort_fail_as(kn_session_compile(plan->session, feeds, feed_count),
                             kn_session_error(plan->session));
finished:
    free(feeds);
    free(run.inputs);
    free(run.outputs);
    return status;
}
