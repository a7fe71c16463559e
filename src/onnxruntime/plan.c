/* A session keeps a plan for each kind of inputs: a runner, which builds the graph of its file for these
 * shapes and, where they determine what is computed, these values; and a session of Koine for the outputs
 * that were asked for. All plans share the weights. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/run.h"

enum { MAX_PLANS = 16 };

/* ---- plans ------------------------------------------------------------------------------- */

static void plan_release(ort_plan *plan) {
    kn_session_destroy(&plan->session);
    kn_runner_destroy(&plan->runner);
    free(plan->outputs);
    free(plan);
}

void ort_plans_release(OrtSession *session) {
    while (session->plans) {
        ort_plan *plan = session->plans;
        session->plans = plan->next;
        plan_release(plan);
    }
}

size_t ort_info_bytes(const kn_tensor_info *info) {
    uint64_t bytes = 0;
    return kn_tensor_bytes(info, &bytes) ? (size_t)bytes : 0;
}

static bool plan_suits(const ort_plan *plan, const ort_run *run) {
    return plan->output_count == run->output_count &&
           !memcmp(plan->outputs, run->outputs, run->output_count * sizeof *run->outputs) &&
           kn_runner_suits(plan->runner, run->inputs, run->session->input_count);
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
    plan->session = kn_session_create(ort_device_context(session->device), values, count, &session->params);
    free(values);
    return ort_fail_as(kn_session_status(plan->session), kn_session_error(plan->session));
}

OrtStatus *ort_make_feeds(const ort_plan *plan, const ort_run *run, kn_feed **out, size_t *count) {
    *count = kn_model_input_count(plan->model);
    *out = calloc(*count + 1, sizeof **out);
    return *out ? ort_fail_as(kn_runner_feeds(plan->runner, plan->session, run->inputs,
                                              run->session->input_count, *out),
                              kn_runner_error(plan->runner))
                : ort_no_memory();
}

/* Builds what a run needs, unless the plan has it. */
static OrtStatus *prepare(ort_plan *plan, const ort_run *run) {
    const kn_status status = kn_runner_prepare(plan->runner, run->inputs, run->session->input_count);
    if (status != KN_OK) return ort_fail_as(status, kn_runner_error(plan->runner));
    if (plan->session && plan->builds == kn_runner_builds(plan->runner)) return NULL;
    kn_session_destroy(&plan->session);
    plan->builds = kn_runner_builds(plan->runner);
    plan->model = kn_runner_model(plan->runner);
    return open_outputs(plan, run->session);
}

/* A plan for the outputs of a run; NULL when out of memory. */
static ort_plan *plan_new(const ort_run *run) {
    ort_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    plan->runner = kn_runner_create(run->session->model, ort_device_context(run->session->device),
                                    &run->session->params);
    plan->outputs = malloc((run->output_count + 1) * sizeof *plan->outputs);
    if (!plan->outputs || !plan->runner) {
        plan_release(plan);
        return NULL;
    }
    memcpy(plan->outputs, run->outputs, run->output_count * sizeof *plan->outputs);
    plan->output_count = run->output_count;
    return plan;
}

OrtStatus *ort_find_plan(const ort_run *run, ort_plan **found) {
    OrtSession *session = run->session;
    ort_plan **at = &session->plans;
    while (*at && !plan_suits(*at, run))
        at = &(*at)->next;
    ort_plan *plan = *at;
    if (plan)
        *at = plan->next;
    else
        plan = plan_new(run);
    if (!plan) return ort_no_memory();
    OrtStatus *status = prepare(plan, run);
    if (status) {
        plan_release(plan);
        return status;
    }
    plan->next = session->plans;
    *found = session->plans = plan;
    for (int i = 1; i < MAX_PLANS && plan; i++)
        plan = plan->next;
    while (plan && plan->next) {
        ort_plan *oldest = plan->next;
        plan->next = oldest->next;
        plan_release(oldest);
    }
    return NULL;
}
