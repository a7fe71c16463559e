/* A graph on a device against the reference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_graph.h"

enum { MAX_GRADIENTS = 64, MAX_OUTPUTS = GRAPH_LINES, NOISES = 4 };

typedef struct graph_run {
    const random_graph *graph;
    const graph_mode *mode;
    uint64_t data; /* seed of the inputs */
    kn_error *error;
    kn_model *model;
    kn_session *session;
    kn_value *outputs[MAX_OUTPUTS];
    size_t output_count;
    /* The same graph, bound and with its gradients, for the reference. */
    kn_graph *bound;
    kn_value *bound_outputs[MAX_OUTPUTS];
    kn_value *by[MAX_GRADIENTS], *gradients[MAX_GRADIENTS], *loss;
    size_t gradient_count;
    double shift; /* of inputs and parameters along a random direction */
    bool narrow;  /* results of 16 bits, or integers, between the inputs and the loss */
    bool halves;  /* results of 16 bits */
} graph_run;

/* ---- inputs ------------------------------------------------------------------------------------------ */

static uint64_t key_of(const graph_run *run, const char *stream, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s/%s", stream, name);
    return kn_random_key(run->data, full);
}

static double direction(const graph_run *run, const kn_value *value, int64_t element) {
    return 2 * (double)kn_random_uniform(key_of(run, "direction", value->name), (uint64_t)element) - 1;
}

static double input_element(const graph_run *run, const char *name, kn_dtype dtype, int64_t element) {
    const double uniform = (double)kn_random_uniform(key_of(run, "input", name), (uint64_t)element);
    int bound = 0;
    for (int i = 0; i < run->graph->count; i++) {
        char own[16];
        snprintf(own, sizeof own, "v%d", i);
        if (!strcmp(own, name)) bound = run->graph->lines[i].bound;
    }
    double number = bound ? floor(uniform * bound) : 4 * uniform - 2;
    if (dtype == KN_BOOL) number = uniform < 0.5;
    uint64_t bits = 0;
    kn_element_set(dtype, &bits, 0, number);
    return kn_element_get(dtype, &bits, 0);
}

/* Of the reference: an input, or a state as the session begins with it. */
static double reference_element(void *user, const kn_value *value, int64_t element) {
    graph_run *run = user;
    double number = 0;
    if (value->kind == KN_VALUE_INPUT)
        number = input_element(run, value->name, value->shape.dtype, element);
    else
        number = kn_element_get(value->shape.dtype, value->data, element); /* take_states */
    if (run->shift != 0)
        for (size_t g = 0; g < run->gradient_count; g++)
            if (run->by[g] == value) number += run->shift * direction(run, value, element);
    return number;
}

/* ---- gradients ----------------------------------------------------------------------------------- */

static kn_value *weighted(graph_run *run, kn_graph *bound, kn_value *value, size_t number) {
    char name[24];
    snprintf(name, sizeof name, "%zu", number);
    const int64_t count = kn_shape_elements(&value->shape);
    kn_shape shape = value->shape;
    shape.dtype = KN_FLOAT32;
    float *numbers = calloc((size_t)count + 1, sizeof *numbers);
    if (!numbers) return NULL;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = 2 * kn_random_uniform(key_of(run, "weight", name), (uint64_t)i) - 1;
    kn_value *weights = kn_constant_add(bound, &shape, numbers, (size_t)count * sizeof *numbers);
    free(numbers);
    if (value->shape.dtype != KN_FLOAT32) value = kn_cast(value, KN_FLOAT32);
    return kn_sum(kn_mul(value, weights), NULL, false);
}

/* Adds the gradients of a weighted sum of all outputs with respect to inputs and parameters of float32. */
static kn_status extend(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    graph_run *run = user;
    kn_value *loss = NULL;
    for (size_t k = 0; k < count; k++) {
        if (values[k]->shape.dtype != KN_FLOAT32 && !kn_is_half(values[k]->shape.dtype)) continue;
        kn_value *part = weighted(run, bound, values[k], k);
        loss = loss ? kn_add(loss, part) : part;
    }
    run->gradient_count = 0;
    run->loss = loss;
    if (!loss) return KN_OK;
    for (size_t v = 0; v < bound->value_count && run->gradient_count < MAX_GRADIENTS; v++) {
        kn_value *value = bound->values[v];
        const bool parameter = value->kind == KN_VALUE_STATE && value->role == KN_STATE_PARAMETER;
        if ((value->kind == KN_VALUE_INPUT || parameter) && value->shape.dtype == KN_FLOAT32)
            run->by[run->gradient_count++] = value;
    }
    if (!run->gradient_count) return KN_OK;
    kn_status status = kn_graph_gradient(bound, loss, run->by, run->gradient_count, run->gradients, error);
    for (size_t g = 0; g < run->gradient_count && status == KN_OK; g++) {
        char name[32];
        snprintf(name, sizeof name, "gradient%zu", g);
        const kn_initializer zero = {KN_INITIALIZER_FILL, 0};
        if (!run->gradients[g]) run->gradients[g] = kn_scale(run->by[g], 0);
        kn_value *state = kn_state_add(bound, name, &run->gradients[g]->shape, KN_STATE_OPTIMIZER, &zero);
        kn_assign(bound, state, run->gradients[g]);
    }
    if (bound->error.status != KN_OK) return kn_fail(error, bound->error.status, "%s", bound->error.text);
    return status;
}

/* ---- comparing ----------------------------------------------------------------------------------- */

static kn_dtype half_of(const graph_mode *mode) {
    return mode->precision == KN_PRECISION_FLOAT16    ? KN_FLOAT16
           : mode->precision == KN_PRECISION_BFLOAT16 ? KN_BFLOAT16
                                                      : KN_FLOAT32;
}

/* The references: exact, and with noise. */
typedef struct references {
    graph_arrays exact, noisy[NOISES];
} references;

static void references_finish(references *all) {
    graph_arrays_finish(&all->exact);
    for (int n = 0; n < NOISES; n++)
        graph_arrays_finish(&all->noisy[n]);
}

/* The smallest error that counts as wrong, in addition to errors from noise in the operators' inputs. */
static double smallest_error(kn_dtype dtype, double largest) {
    if (dtype == KN_FLOAT64) return 1e-7 * largest;
    if (dtype == KN_FLOAT16) return 0x1p-9 * largest;
    if (dtype == KN_BFLOAT16) return 0x1p-6 * largest;
    return dtype == KN_FLOAT32 ? 4e-6 * largest + 2e-6 : 0;
}

static bool compare(graph_run *run, const references *all, const kn_value *value, const void *data,
                    const char *what) {
    const kn_reference_array *exact = &all->exact.arrays[value->id];
    const kn_dtype dtype = value->shape.dtype;
    double largest = 0, squares[NOISES] = {0}, rms = 0;
    for (int64_t i = 0; i < exact->elements; i++)
        largest = fmax(largest, fabs(exact->data[i]));
    for (int n = 0; n < NOISES; n++) {
        for (int64_t i = 0; i < exact->elements; i++) {
            double difference = all->noisy[n].arrays[value->id].data[i] - exact->data[i];
            squares[n] += difference * difference;
        }
        rms = fmax(rms, sqrt(squares[n] / fmax(1, (double)exact->elements)));
    }
    /* With 16 bits some elements of most arrays are so near to a jump of a function that its rounding
     * decides. */
    int64_t jumps = half_of(run->mode) != KN_FLOAT32 || run->halves ? 1 + exact->elements / 64 : 0;
    double worst = 0;
    for (int64_t i = 0; i < exact->elements; i++) {
        double allowed = 4 * rms + smallest_error(dtype, largest);
        for (int n = 0; n < NOISES; n++)
            allowed = fmax(allowed, 8 * fabs(all->noisy[n].arrays[value->id].data[i] - exact->data[i]));
        const double found = kn_element_get(dtype, data, i), difference = fabs(found - exact->data[i]);
        if (difference <= allowed || (isfinite(found) && jumps-- > 0) || difference <= worst) continue;
        worst = isnan(difference) ? INFINITY : difference;
        kn_fail(run->error, KN_ERROR_MISMATCH,
                "%s, element %lld of %lld: the device gives %.9g, the reference %.9g (allowed difference: "
                "%.2g)",
                what, (long long)i, (long long)exact->elements, found, exact->data[i], allowed);
    }
    return worst == 0;
}

/* ---- the reference ------------------------------------------------------------------------------- */

/* Reads the states of the session, and gives them to the bound graph of the reference. */
static kn_status take_states(graph_run *run) {
    for (size_t v = 0; v < run->bound->value_count; v++) {
        kn_value *value = run->bound->values[v];
        if (value->kind != KN_VALUE_STATE) continue;
        const size_t bytes = (size_t)kn_shape_elements(&value->shape) * kn_dtype_bytes(value->shape.dtype);
        void *data = kn_arena_take(&run->bound->arena, bytes + 8, 1);
        if (!data) return kn_fail_memory(run->error, bytes);
        value->data = data;
        if (!bytes) continue; /* nothing of it is on the device */
        kn_error missing = {0};
        /* The plan requests no state whose readers have no elements. */
        if (kn_states_read(kn_session_states(run->session), value->name, data, bytes, &missing) != KN_OK)
            memset(data, 0, bytes);
    }
    return KN_OK;
}

static reference_status compute(graph_run *run, graph_arrays *arrays, uint64_t noise) {
    return graph_compute(arrays, run->bound, reference_element, run, noise, run->mode->fast,
                         half_of(run->mode), run->error);
}

/* Whether the derivative along the random direction matches a finite difference. If two steps give different
 * slopes, the function has a corner or a jump there, such as the floor of a norm of equal elements. */
static bool gradients_are_right(graph_run *run, const references *all) {
    double slope = 0, size = 1e-3, found[2] = {0, 0};
    for (size_t g = 0; g < run->gradient_count; g++)
        for (int64_t i = 0; i < all->exact.arrays[run->gradients[g]->id].elements; i++) {
            const double product =
                all->exact.arrays[run->gradients[g]->id].data[i] * direction(run, run->by[g], i);
            slope += product;
            size += fabs(product);
        }
    for (int attempt = 0; attempt < 2; attempt++) {
        const double step = attempt ? 1e-7 : 1e-5;
        double sides[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            graph_arrays arrays;
            run->shift = side ? step : -step;
            const reference_status status = compute(run, &arrays, 0);
            if (status == REFERENCE_RIGHT) sides[side] = arrays.arrays[run->loss->id].data[0];
            graph_arrays_finish(&arrays);
            run->shift = 0;
            if (status != REFERENCE_RIGHT) return true;
        }
        found[attempt] = (sides[1] - sides[0]) / (2 * step);
        if (fabs(found[attempt] - slope) <= 1e-3 * size) return true;
    }
    if (fabs(found[0] - found[1]) > 1e-2 * fabs(found[0])) return true;
    kn_fail(
        run->error, KN_ERROR_MISMATCH,
        "the gradients give the slope %.9g along a random direction, differences of the loss %.9g and %.9g",
        slope, found[0], found[1]);
    return false;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

static graph_outcome fail(graph_run *run, kn_status status, const char *text) {
    kn_fail(run->error, status, "%s", text);
    /* What Koine refuses is not wrong. */
    const bool refused =
        status == KN_ERROR_UNSUPPORTED || status == KN_ERROR_SHAPE || status == KN_ERROR_DTYPE;
    return refused ? GRAPH_UNDEFINED : GRAPH_WRONG;
}

static graph_outcome open_session(graph_run *run) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.seed = 1;
    params.training = run->mode->training;
    params.fast_math = run->mode->fast;
    params.precision = run->mode->precision;
    kn_session_request request = {.context = run->mode->context,
                                  .values = run->outputs,
                                  .count = run->output_count,
                                  .params = &params,
                                  .extend = extend,
                                  .user = run,
                                  .guard = 2048};
    run->session = kn_session_open(&request);
    kn_status status = run->session ? kn_session_status(run->session) : KN_ERROR_MEMORY;
    if (status == KN_OK) status = kn_session_compile(run->session, NULL, 0);
    return status == KN_OK ? GRAPH_RIGHT : fail(run, status, kn_session_error(run->session));
}

static graph_outcome bind(graph_run *run) {
    const kn_bind_request request = {.training = run->mode->training, .seed = 1};
    kn_error error = {0};
    kn_status status = kn_graph_bind(kn_model_graph(run->model), run->outputs, run->output_count, &request,
                                     &run->bound, run->bound_outputs, &error);
    if (status == KN_OK) status = extend(run, run->bound, run->bound_outputs, run->output_count, &error);
    if (status != KN_OK) return fail(run, status, error.text);
    status = take_states(run);
    return status == KN_OK ? GRAPH_RIGHT : GRAPH_WRONG;
}

/* Outputs, gradients, and statistics after the run. */
static graph_outcome compare_all(graph_run *run, const references *all, kn_fetch *fetches) {
    bool right = true;
    char what[64];
    for (size_t k = 0; k < run->output_count && right; k++) {
        snprintf(what, sizeof what, "output %.24s", fetches[k].name);
        right = compare(run, all, run->bound_outputs[k], fetches[k].data, what);
    }
    for (size_t v = 0; v < run->bound->value_count && right; v++) {
        const kn_value *state = run->bound->values[v];
        if (state->kind != KN_VALUE_STATE || !state->assign) continue;
        const kn_value *value = state->assign->inputs[1];
        const size_t bytes = (size_t)kn_shape_elements(&state->shape) * kn_dtype_bytes(state->shape.dtype);
        if (!bytes) continue;
        void *data = malloc(bytes + 8);
        int number = -1;
        if (!data) return GRAPH_UNDEFINED;
        right =
            kn_states_read(kn_session_states(run->session), state->name, data, bytes, run->error) == KN_OK;
        if (sscanf(state->name, "gradient%d", &number) == 1)
            snprintf(what, sizeof what, "gradient of %.40s", run->by[number]->name);
        else
            snprintf(what, sizeof what, "state %.40s", state->name);
        right = right && compare(run, all, value, data, what);
        free(data);
    }
    return right ? GRAPH_RIGHT : GRAPH_WRONG;
}

static graph_outcome run_and_compare(graph_run *run, const references *all) {
    kn_feed feeds[GRAPH_LINES];
    kn_fetch fetches[MAX_OUTPUTS];
    size_t feed_count = 0;
    const kn_graph *graph = kn_model_graph(run->model);
    graph_outcome outcome = GRAPH_RIGHT;
    for (size_t i = 0; i < kn_graph_input_count(graph) && i < GRAPH_LINES; i++) {
        const kn_value *value = kn_graph_input_at(graph, i);
        const kn_value *bound = kn_graph_find(run->bound, value->name);
        if (!bound) continue; /* no output needs it */
        const int64_t elements = kn_shape_elements(&bound->shape);
        const size_t bytes = (size_t)elements * kn_dtype_bytes(bound->shape.dtype);
        void *data = malloc(bytes + 8);
        for (int64_t e = 0; data && e < elements; e++)
            kn_element_set(bound->shape.dtype, data, e,
                           input_element(run, value->name, bound->shape.dtype, e));
        feeds[feed_count++] = (kn_feed){value->name, data, bytes};
    }
    for (size_t k = 0; k < run->output_count; k++) {
        const kn_shape *shape = &run->bound_outputs[k]->shape;
        const size_t bytes = (size_t)kn_shape_elements(shape) * kn_dtype_bytes(shape->dtype);
        fetches[k] = (kn_fetch){run->outputs[k]->name, malloc(bytes + 8), bytes};
        if (fetches[k].data) memset(fetches[k].data, 0xCB, bytes);
    }
    kn_status status = kn_session_run(run->session, feeds, feed_count, fetches, run->output_count);
    outcome =
        status == KN_OK ? compare_all(run, all, fetches) : fail(run, status, kn_session_error(run->session));
    for (size_t i = 0; i < feed_count; i++)
        free((void *)(uintptr_t)feeds[i].data);
    for (size_t k = 0; k < run->output_count; k++)
        free(fetches[k].data);
    return outcome;
}

static graph_outcome check(graph_run *run) {
    references all = {{0}};
    graph_outcome outcome = open_session(run);
    if (outcome == GRAPH_RIGHT) outcome = bind(run);
    reference_status status = REFERENCE_RIGHT;
    if (outcome == GRAPH_RIGHT) status = compute(run, &all.exact, 0);
    for (int n = 0; n < NOISES && outcome == GRAPH_RIGHT && status == REFERENCE_RIGHT; n++)
        status = compute(run, &all.noisy[n], run->data * NOISES + (uint64_t)n + 1);
    if (outcome == GRAPH_RIGHT && status != REFERENCE_RIGHT) outcome = GRAPH_UNDEFINED;
    if (outcome == GRAPH_RIGHT) outcome = run_and_compare(run, &all);
    if (outcome == GRAPH_RIGHT && run->loss && !run->narrow && !gradients_are_right(run, &all))
        outcome = GRAPH_WRONG;
    references_finish(&all);
    return outcome;
}

graph_outcome graph_check(const random_graph *graph, const graph_mode *mode, uint64_t data, kn_error *error) {
    char text[GRAPH_TEXT];
    graph_run run = {.graph = graph, .mode = mode, .data = data, .error = error};
    graph_write(graph, text);
    run.model = kn_model_parse(text, NULL);
    graph_outcome outcome = GRAPH_RIGHT;
    if (kn_model_status(run.model) != KN_OK) {
        outcome = fail(&run, kn_model_status(run.model), kn_model_error(run.model));
    } else {
        for (int i = 0; i < graph->count; i++) {
            run.halves = run.halves || kn_is_half(graph->lines[i].dtype);
            run.narrow = run.narrow || (graph->lines[i].kind[0] && graph->lines[i].dtype != KN_FLOAT32);
        }
        while (run.output_count < MAX_OUTPUTS &&
               (run.outputs[run.output_count] = kn_model_output_at(run.model, (int)run.output_count)))
            run.output_count++;
        outcome = check(&run);
    }
    kn_session_destroy(&run.session);
    kn_graph_destroy(&run.bound);
    kn_model_destroy(&run.model);
    return outcome;
}

graph_outcome graph_outcome_of(const random_graph *graph, const graph_mode *mode, uint64_t data,
                               kn_error *error) {
    graph_outcome outcome = graph_check(graph, mode, data, error);
    for (uint64_t other = 1; other < 3 && outcome == GRAPH_WRONG; other++) {
        kn_error second = {0};
        graph_outcome again = graph_check(graph, mode, data + other, &second);
        if (again == GRAPH_RIGHT) outcome = GRAPH_UNDEFINED;
    }
    return outcome;
}
