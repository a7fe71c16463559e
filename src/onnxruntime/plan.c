/* A session keeps a plan for each kind of inputs: the graph of its file for these shapes and, where
 * they determine what is computed, these values; and a session of Koine for the outputs that were asked for.
 * All plans share the weights.
 *
 * Where values that the graph computes determine the rest of it (a condition, the input of NonZero), a plan
 * begins with stages, each of which computes one such value. If that differs from the last run's, the rest is
 * built again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/run.h"

/* SMALL: the most elements of an input of integers, such as a shape, whose values a graph may be built for.
 * SYMBOL_BYTES: room for an open size, whose name Koine limits to 201 characters. */
enum { MAX_PLANS = 16, MAX_STAGES = 16, SMALL = 64, SYMBOL_BYTES = 256 };

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
        ort_stage *last = &plan->stages[--plan->stage_count];
        kn_session_destroy(&last->session);
        kn_model_destroy(&last->model);
        free(last->name);
        free(last->data);
        *last = (ort_stage){.name = NULL};
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

size_t ort_info_bytes(const kn_tensor_info *info) {
    uint64_t bytes = 0;
    return kn_tensor_bytes(info, &bytes) ? (size_t)bytes : 0;
}

static bool same_info(const kn_tensor_info *one, const kn_tensor_info *other) {
    return one->dtype == other->dtype && one->rank == other->rank &&
           !memcmp(one->shape, other->shape, (size_t)one->rank * sizeof *one->shape);
}

/* Elements as ort_constant describes them: they are counted, and written or compared. */
typedef struct element_bytes {
    size_t count;
    char *to;                     /* NULL: not written */
    const ort_constant *constant; /* NULL: not compared */
    bool differs;
} element_bytes;

static void put_bytes(element_bytes *own, const void *from, size_t count) {
    if (own->to) memcpy(own->to + own->count, from, count);
    if (own->constant && !own->differs)
        own->differs = count > own->constant->bytes - own->count ||
                       memcmp(own->constant->data + own->count, from, count) != 0;
    own->count += count;
}

static void put_elements(element_bytes *own, const kn_model_given *given) {
    uint64_t count = 0;
    for (size_t i = 0; !given->data && i < given->element_count; i++) {
        put_bytes(own, &given->elements[i].info, sizeof given->elements[i].info);
        put_elements(own, &given->elements[i]);
    }
    if (!given->data) return;
    if (!given->texts) {
        put_bytes(own, given->data, ort_info_bytes(&given->info));
        return;
    }
    kn_tensor_elements(&given->info, &count);
    for (uint64_t i = 0; i < count; i++)
        put_bytes(own, given->texts[i], strlen(given->texts[i]) + 1);
}

/* A copy of the elements; NULL when out of memory. */
static ort_constant *copy_elements(const kn_model_given *given) {
    element_bytes size = {.count = 0}, written = {.count = 0};
    put_elements(&size, given);
    ort_constant *copy = malloc(sizeof *copy + size.count);
    if (!copy) return NULL;
    *copy = (ort_constant){.bytes = size.count, .list = !given->data};
    written.to = copy->data;
    put_elements(&written, given);
    return copy;
}

static bool same_elements(const kn_model_given *given, const ort_constant *constant) {
    element_bytes compared = {.constant = constant};
    if (constant->list != !given->data) return false;
    put_elements(&compared, given);
    return !compared.differs && compared.count == constant->bytes;
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
        if (plan->constants[i] && !same_elements(&run->inputs[i], plan->constants[i])) return false;
    }
    return true;
}

/* The position of an input of the file in the model; -1 if it became a constant. */
static int position_in(const kn_model *model, const char *name) {
    for (size_t i = 0; i < kn_model_input_count(model); i++)
        if (ort_is_text(kn_model_input_name_at(model, i), name)) return (int)i;
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
        if (position_in(plan->model, run->inputs[i].name) >= 0) continue;
        plan->constants[i] = copy_elements(&run->inputs[i]);
        if (!plan->constants[i]) return ort_no_memory();
    }
    return NULL;
}

static OrtStatus *open_session(const OrtSession *session, kn_model *model, kn_value *const *values,
                               size_t count, kn_session **out) {
    *out = kn_session_create(ort_device_context(session->device), values, count, &session->params);
    if (kn_session_status(*out) != KN_OK) return ort_fail_as(kn_session_status(*out), kn_session_error(*out));
    return ort_fail_as(kn_model_load(model, NULL, session->states, NULL, NULL), kn_model_error(model));
}

size_t ort_plan_parts(const ort_plan *plan, const OrtSession *session, size_t output, size_t *first) {
    size_t count = 1;
    *first = output;
    if (!session->lists) return 1;
    *first = 0;
    for (size_t i = 0; i <= output; i++) {
        if (i) *first += count;
        count = session->outputs[i].kind == ONNX_TYPE_TENSOR;
        while (session->outputs[i].kind != ONNX_TYPE_TENSOR &&
               ort_is_text(kn_model_output_name_at(plan->model, *first + count), session->outputs[i].name))
            count++;
    }
    return count;
}

/* A session for the outputs of the plan, each value once. */
static OrtStatus *open_outputs(ort_plan *plan, const OrtSession *session) {
    kn_value **values = calloc(kn_model_output_count(plan->model) + 1, sizeof *values);
    size_t count = 0;
    if (!values) return ort_no_memory();
    for (size_t i = 0; i < plan->output_count; i++) {
        size_t first, parts = ort_plan_parts(plan, session, plan->outputs[i], &first);
        for (; parts > 0; parts--) {
            kn_value *value = kn_model_output_at(plan->model, first++);
            size_t k = 0;
            while (k < count && values[k] != value)
                k++;
            if (k == count) values[count++] = value;
        }
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

OrtStatus *ort_make_feeds(const kn_model *model, kn_session *session, const ort_run *run, kn_feed **out,
                          size_t *count) {
    kn_feed *feeds = calloc(run->session->input_count + 1, sizeof *feeds);
    if (!feeds) return ort_no_memory();
    *count = 0;
    for (size_t i = 0; i < run->session->input_count; i++) {
        const kn_model_given *given = &run->inputs[i];
        const int position = position_in(model, given->name);
        if (position < 0) continue;
        const kn_value *input = kn_model_input_at(model, (size_t)position);
        feeds[(*count)++] = (kn_feed){kn_value_name(input), given->data, ort_info_bytes(&given->info)};
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
static kn_status compute_stage(const ort_stage *own, const kn_feed *feeds, size_t count, kn_tensor_info *info,
                               void **data) {
    const char *name = kn_value_name(kn_model_output_at(own->model, 0));
    kn_status status = kn_session_compile(own->session, feeds, count);
    if (status == KN_OK) status = kn_session_info(own->session, name, info);
    if (status != KN_OK) return status;
    const size_t bytes = ort_info_bytes(info);
    *data = malloc(bytes + 1);
    if (!*data) return KN_ERROR_MEMORY;
    const kn_fetch fetch = {name, *data, bytes};
    return kn_session_run(own->session, feeds, count, &fetch, 1);
}

/* Computes the value of a stage. *changed: it differs from that of the last run. */
static OrtStatus *run_stage(ort_stage *own, const ort_run *run, bool *changed) {
    kn_feed *feeds = NULL;
    size_t count = 0;
    kn_tensor_info info;
    void *data = NULL;
    OrtStatus *status = ort_make_feeds(own->model, own->session, run, &feeds, &count);
    if (status) return status;
    const kn_status done = compute_stage(own, feeds, count, &info, &data);
    free(feeds);
    if (done != KN_OK) {
        free(data);
        return ort_fail_as(done, kn_session_error(own->session));
    }
    *changed = !own->data || !same_info(&own->info, &info) || memcmp(own->data, data, ort_info_bytes(&info));
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
        /* An optional without elements has no value. */
        const bool tensor = run->session->inputs[i].kind == ONNX_TYPE_TENSOR;
        if (tensor && !plan->known[i] && !is_setting(&given[i].info)) given[i].data = NULL;
    }
    for (size_t i = 0; given && i < plan->stage_count; i++)
        given[(*count)++] =
            (kn_model_given){plan->stages[i].name, plan->stages[i].info, plan->stages[i].data};
    return given;
}

/* Adds the stage that computes a value, and runs it. */
static OrtStatus *add_stage(ort_plan *plan, const ort_run *run, const char *name, const kn_model_given *given,
                            size_t count) {
    ort_stage *own = &plan->stages[plan->stage_count++];
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

OrtStatus *ort_find_plan(const ort_run *run, ort_plan **found) {
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
