/* Computes what the graph of an ONNX file depends on in parts, then builds the graph of the rest. */
#include "models/runner_private.h"

/* ---- what was built ------------------------------------------------------------ */

static void release_part(const kn_runner *runner, kn_runner_part *own) {
    kn_session_destroy(&own->body_session);
    kn_model_destroy(&own->body);
    kn_session_destroy(&own->session);
    kn_model_destroy(&own->model);
    kn_runner_release_arrays(runner, own->results, own->result_count);
    kn_release(&runner->host, own->body_infos);
    *own = (kn_runner_part){.model = NULL};
}

static void release_model(kn_runner *runner) {
    if (runner->model != runner->opened && runner->shown) {
        kn_model_destroy(&runner->earlier);
        runner->earlier = runner->model;
    } else if (runner->model != runner->opened) {
        kn_model_destroy(&runner->model);
    }
    runner->model = NULL;
    runner->shown = false;
}

/* Releases what was built after the first `kept` parts. */
static void release_rest(kn_runner *runner, size_t kept) {
    release_model(runner);
    while (runner->part_count > kept)
        release_part(runner, &runner->parts[--runner->part_count]);
}

static void release_inputs(kn_runner *runner) {
    for (size_t i = 0; runner->inputs && i < runner->input_count; i++)
        kn_release(&runner->host, runner->inputs[i].value);
    kn_release(&runner->host, runner->inputs);
    runner->inputs = NULL;
    runner->input_count = 0;
}

kn_runner *kn_runner_create(kn_model *model, kn_context *context, const kn_session_params *params) {
    const kn_host host = model ? model->host : kn_host_defaults();
    kn_runner *runner = kn_allocate(&host, 1, sizeof *runner);
    if (!runner) return NULL;
    *runner = (kn_runner){.host = host, .opened = model, .context = context};
    runner->params = (kn_session_params)KN_SESSION_DEFAULTS;
    if (KN_PARAMS_TAKE(kn_session_params, &runner->params, params, &runner->error) == KN_OK &&
        (!model || !context || !runner->params.states))
        kn_fail(&runner->error, KN_ERROR_ARGUMENT,
                "kn_runner_create: the model, the context or params->states is NULL");
    runner->status = runner->error.status;
    return runner;
}

void kn_runner_destroy(kn_runner **runner) {
    if (!runner || !*runner) return;
    const kn_host host = (*runner)->host;
    release_rest(*runner, 0);
    release_inputs(*runner);
    kn_model_destroy(&(*runner)->earlier);
    kn_release(&host, *runner);
    *runner = NULL;
}

kn_status kn_runner_status(const kn_runner *runner) {
    return runner ? runner->status : KN_ERROR_MEMORY;
}

const char *kn_runner_error(const kn_runner *runner) {
    return runner ? runner->error.text : "the runner is NULL";
}

kn_model *kn_runner_model(const kn_runner *runner) {
    return runner ? runner->model : NULL;
}

uint64_t kn_runner_builds(const kn_runner *runner) {
    return runner ? runner->builds : 0;
}

size_t kn_runner_parts(const kn_runner *runner) {
    return runner ? runner->part_count : 0;
}

kn_status kn_runner_feeds(kn_runner *runner, kn_session *session, const kn_model_given *given, size_t count,
                          kn_feed *feeds) {
    if (!runner) return KN_ERROR_ARGUMENT;
    if (runner->status != KN_OK) return runner->status;
    kn_error_clear(&runner->error);
    if (!runner->model || !session || (count && !given) || !feeds)
        return kn_fail(&runner->error, KN_ERROR_ARGUMENT,
                       "kn_runner_feeds: an argument is NULL, or no graph was built");
    return kn_runner_fill_feeds(runner, runner->model, session, given, count, NULL, 0, feeds);
}

/* ---- parts ------------------------------------------------------------ */

/* Computes a part. *changed: its results differ from those of the last run. */
static kn_status run_part(kn_runner *runner, kn_runner_part *own, const kn_model_given *given, size_t count,
                          bool *changed) {
    if (own->loop) return kn_runner_run_loop(runner, own, given, count, changed);
    kn_runner_array *value = kn_allocate(&runner->host, 1, sizeof *value);
    if (!value) return kn_fail_memory(&runner->error, sizeof *value);
    const kn_status status =
        kn_runner_compute(runner, own->model, own->session, given, count, NULL, 0, value);
    if (status != KN_OK) {
        kn_runner_release_arrays(runner, value, 1);
        return status;
    }
    kn_runner_take(runner, own, value, 1, changed);
    return KN_OK;
}

/* ---- building ------------------------------------------------------------ */

/* Adds the part that computes a value or runs a loop, and runs it. */
static kn_status add_part(kn_runner *runner, const kn_model *lacking, const kn_model_given *arrays,
                          size_t array_count, const kn_model_given *given, size_t count) {
    kn_runner_part *own = &runner->parts[runner->part_count++];
    bool changed;
    own->loop = lacking->missing_loop;
    own->model = kn_model_bind_part(runner->opened, own->loop ? KN_PART_BEFORE_LOOP : KN_PART_VALUE,
                                    lacking->missing, arrays, array_count);
    if (!own->model) return kn_fail_memory(&runner->error, 0);
    if (!kn_model_bound(own->model))
        return kn_fail(&runner->error, KN_ERROR_UNSUPPORTED, "%s", own->model->error.text);
    const kn_status status = kn_runner_open(runner, own->model, &own->session);
    return status == KN_OK ? run_part(runner, own, given, count, &changed) : status;
}

/* The position of an input of the file; count if the value is not an input. */
static size_t position_of(const kn_runner *runner, const kn_model_given *given, size_t count,
                          const char *name) {
    const kn_model_given *found = kn_runner_find_given(runner, given, count, name);
    return found ? (size_t)(found - given) : count;
}

/* Takes a model as what was built, if its graph was; records why not otherwise. */
static kn_status take_model(kn_runner *runner, kn_model *model) {
    if (!kn_model_bound(model)) {
        kn_fail(&runner->error, model->status == KN_OK ? KN_ERROR_UNSUPPORTED : model->status, "%s",
                model->error.text);
    } else if (kn_runner_load(runner, model) == KN_OK) {
        runner->model = model;
        runner->builds++;
        runner->unrecorded = true;
        return KN_OK;
    }
    if (model != runner->opened) kn_model_destroy(&model);
    return runner->error.status;
}

/* Builds what comes after the parts; adds parts where another value is missing. */
static kn_status build_rest(kn_runner *runner, const kn_model_given *given, size_t count) {
    kn_status status = KN_OK;
    while (status == KN_OK && !runner->model) {
        size_t array_count = 0;
        kn_model_given *arrays =
            kn_runner_arrays(runner, runner->part_count, given, count, NULL, 0, &array_count);
        kn_model *model = arrays ? kn_model_bind(runner->opened, arrays, array_count) : NULL;
        const char *name = kn_model_missing_value(model);
        const size_t input = name ? position_of(runner, given, count, name) : count;
        if (!model) {
            status = kn_fail_memory(&runner->error, 0);
        } else if (name && input < count && !runner->inputs[input].known) {
            runner->inputs[input].known = true;
            kn_model_destroy(&model);
        } else if (name && input == count && runner->part_count < KN_RUNNER_PARTS) {
            status = add_part(runner, model, arrays, array_count, given, count);
            kn_model_destroy(&model);
        } else {
            status = take_model(runner, model);
        }
        kn_release(&runner->host, arrays);
    }
    return status;
}

/* Whether the array is for an input of all models, and not for a constant of one. */
static bool is_fed(const kn_runner *runner, const kn_model_given *given) {
    bool fed = kn_runner_is_input(runner, runner->model, given);
    for (size_t i = 0; i < runner->part_count && fed; i++) {
        const kn_runner_part *own = &runner->parts[i];
        fed = kn_runner_is_input(runner, own->model, given) &&
              (!own->body || kn_runner_is_input(runner, own->body, given));
    }
    return fed;
}

/* Records the inputs of the file, and the values of those that are constants of a graph. */
static kn_status keep_inputs(kn_runner *runner, const kn_model_given *given, size_t count) {
    for (size_t i = 0; i < count; i++) {
        kn_runner_input *own = &runner->inputs[i];
        own->info = given[i].info;
        if (!runner->unrecorded) continue;
        const bool input = is_fed(runner, &given[i]);
        kn_release(&runner->host, own->value);
        own->value = input ? NULL : kn_runner_copy_elements(runner, &given[i]);
        if (!input && !own->value) return kn_fail_memory(&runner->error, 0);
    }
    runner->unrecorded = false;
    return KN_OK;
}

/* Starts without parts and known values. */
static kn_status start(kn_runner *runner, size_t count) {
    release_rest(runner, 0);
    release_inputs(runner);
    runner->inputs = kn_allocate(&runner->host, count + 1, sizeof *runner->inputs);
    if (!runner->inputs) return kn_fail_memory(&runner->error, 0);
    runner->input_count = count;
    return KN_OK;
}

/* Builds the graph for these arrays. */
static kn_status build(kn_runner *runner, const kn_model_given *given, size_t count) {
    kn_status status = start(runner, count);
    if (status != KN_OK) return status;
    if (kn_model_fits(runner->opened, given, count)) return take_model(runner, runner->opened);
    status = build_rest(runner, given, count);
    if (status == KN_OK || status == KN_ERROR_MEMORY) return status;
    /* With the values of all inputs, any of which may become a constant. */
    const kn_error first = runner->error;
    const bool parts = runner->part_count > 0;
    release_rest(runner, 0);
    kn_error_clear(&runner->error);
    for (size_t i = 0; i < count; i++)
        runner->inputs[i].known = true;
    status = build_rest(runner, given, count);
    if (status != KN_OK && parts) kn_error_copy(&runner->error, &first);
    return status;
}

bool kn_runner_suits(const kn_runner *runner, const kn_model_given *given, size_t count) {
    if (!runner || !runner->inputs || runner->input_count != count || (count && !given)) return false;
    bool same = true;
    for (size_t i = 0; same && i < count; i++)
        same = kn_same_info(&runner->inputs[i].info, &given[i].info) &&
               (!runner->inputs[i].value || kn_runner_same_elements(&given[i], runner->inputs[i].value));
    if (same) return true;
    return runner->model == runner->opened && kn_model_fits(runner->model, given, count);
}

/* Runs the parts; where a result has changed, what comes after it is built again. */
static kn_status run_parts(kn_runner *runner, const kn_model_given *given, size_t count) {
    const size_t parts = runner->part_count;
    for (size_t i = 0; i < parts && i < runner->part_count; i++) {
        bool changed = false;
        const kn_status status = run_part(runner, &runner->parts[i], given, count, &changed);
        if (status != KN_OK) return status;
        if (changed) release_rest(runner, i + 1);
    }
    return runner->model ? KN_OK : build_rest(runner, given, count);
}

kn_status kn_runner_prepare(kn_runner *runner, const kn_model_given *given, size_t count) {
    if (!runner) return KN_ERROR_ARGUMENT;
    if (runner->status != KN_OK) return runner->status;
    kn_error_clear(&runner->error);
    if (count && !given)
        return kn_fail(&runner->error, KN_ERROR_ARGUMENT, "kn_runner_prepare: the arrays are NULL");
    kn_model_destroy(&runner->earlier);
    kn_status status = KN_ERROR_SHAPE;
    if (kn_runner_suits(runner, given, count)) status = run_parts(runner, given, count);
    if (status != KN_OK) { /* also if the rest cannot be built for new values */
        kn_error_clear(&runner->error);
        status = build(runner, given, count);
    }
    if (status == KN_OK) status = keep_inputs(runner, given, count);
    if (status != KN_OK) {
        release_rest(runner, 0);
        release_inputs(runner);
    }
    runner->shown = status == KN_OK;
    return status;
}
