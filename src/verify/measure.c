/* Measures the time of a node's steps, on random inputs that are uploaded once, with many launches between
 * waits. Also gives verdicts on variants that are used only if they are faster, once per size class. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "verify/verify_private.h"

/* ---- the time of a node ------------------------------------------------------------------------------- */

static kn_status build(kn_measurement *measure, kn_error *error) {
    const kn_node_spec *node = &measure->node;
    const kn_host *host = kn_context_host(measure->context);
    const kn_initializer zero = {KN_INITIALIZER_FILL, 0};
    kn_value *inputs[KN_TRIAL_INPUTS] = {NULL};
    kn_graph_params params = {.size = sizeof params, .allocator = host->allocator, .log = host->log};
    const int prepared = measure->kept ? kn_prepared_input(node->input_count) : -1;
    measure->graph = kn_graph_create(&params);
    if (!measure->graph) return kn_fail_memory(error, sizeof *measure->graph);
    if (prepared >= 0) {
        const kn_trial *drawn = &measure->trial;
        const char *name = drawn->inputs[prepared]->name;
        inputs[prepared] =
            kn_state_add(measure->graph, name, &node->shapes[prepared], KN_STATE_PARAMETER, &zero);
        measure->states = kn_states_create(measure->context, 1);
        if (!measure->states) return kn_fail_memory(error, 256);
        kn_status status = kn_states_set(measure->states, name, &drawn->infos[prepared],
                                         drawn->bytes[prepared], drawn->byte_counts[prepared]);
        if (status != KN_OK) return kn_fail(error, status, "%s", kn_states_error(measure->states));
    }
    kn_node *made = kn_node_spec_add(node, measure->graph, inputs);
    if (!made) return kn_error_copy(error, &measure->graph->error);
    for (int i = 0; i < made->output_count; i++)
        measure->results[measure->result_count++] = made->outputs[i];
    for (int i = 0; i < node->input_count; i++)
        if (node->given[i] && i != prepared)
            measure->feeds[measure->feed_count++] = (kn_feed){
                measure->trial.inputs[i]->name, measure->trial.bytes[i], measure->trial.byte_counts[i]};
    return KN_OK;
}

kn_status kn_measurement_make(kn_measurement *measure, kn_error *error) {
    kn_status status =
        kn_trial_draw(&measure->trial, kn_context_host(measure->context), &measure->node, error);
    return status == KN_OK ? build(measure, error) : status;
}

void kn_measurement_finish(kn_measurement *measure) {
    kn_trial_finish(&measure->trial);
    kn_graph_destroy(&measure->graph);
    kn_states_destroy(&measure->states);
}

kn_status kn_measurement_open(const kn_measurement *measure, const kn_variant *variant, int tile,
                              double enough, double *first, kn_session **session, kn_error *error) {
    char switches[256], more[KN_MORE_SWITCHES];
    kn_switches_of(tile, measure->node.types, more);
    snprintf(switches, sizeof switches, "%s=%s,tuning=off%s", measure->node.row->name, variant->name, more);
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = switches;
    params.states = measure->states;
    params.training = true;
    params.fast_math = measure->fast;
    *session = kn_session_create(measure->context, measure->results, (size_t)measure->result_count, &params);
    kn_status status = kn_session_status(*session);
    if (status == KN_OK) status = kn_session_compile(*session, measure->feeds, measure->feed_count);
    *first = 0;
    for (int run = 0; run < 2 && status == KN_OK && *first < enough; run++) { /* inputs have two buffers */
        const double start = kn_clock();
        status = kn_session_run(*session, measure->feeds, measure->feed_count, NULL, 0);
        if (status == KN_OK) status = kn_session_wait(*session);
        if (!run) *first = kn_clock() - start;
    }
    if (status != KN_OK)
        kn_fail(error, status, "%s", *session ? kn_session_error(*session) : "out of host memory");
    return status;
}

kn_status kn_measurement_time(kn_session *session, const kn_operator *row, int times, double *seconds,
                              kn_error *error) {
    const double start = kn_clock();
    kn_status status = kn_session_repeat(session, row, times);
    if (status == KN_OK) status = kn_session_wait(session);
    *seconds = (kn_clock() - start) / times;
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s", kn_session_error(session));
}

int kn_measurement_times(double seconds, double aim) {
    enum { MOST = 1000 };
    const double times = aim / (seconds > 1e-7 ? seconds : 1e-7);
    return times < 1 ? 1 : times > MOST ? MOST : (int)times;
}

kn_status kn_measurement_estimate(kn_session *session, const kn_operator *row, double enough, double *seconds,
                                  kn_error *error) {
    static const double aim = 0.005;
    enum { TURNS = 3 };
    kn_status status = kn_measurement_time(session, row, 1, seconds, error);
    const int times = kn_measurement_times(*seconds, aim);
    for (int turn = 0; turn < TURNS && status == KN_OK && *seconds < enough; turn++) {
        double taken;
        status = kn_measurement_time(session, row, times, &taken, error);
        if (taken < *seconds) *seconds = taken;
    }
    return status;
}

/* ---- whether a variant is faster than another ---------------------------------------------------------- */

enum { MAX_SIZE = 1024 };

/* The class of a size: the next power of two, at most 1024. Equal sizes stay equal. */
static int64_t class_of(int64_t size) {
    int64_t rounded = 1;
    while (rounded < size && rounded < MAX_SIZE)
        rounded *= 2;
    return rounded;
}

static void name_sizes(kn_context *context, const kn_node *node, const kn_variant *variant,
                       const kn_variant *other, char *key, size_t bytes) {
    size_t used = kn_verdict_name(context, "faster", key, bytes);
    if (used < bytes)
        used += (size_t)snprintf(key + used, bytes - used, "/%s/%s/%s", node->op->name, variant->name,
                                 other->name);
    if (variant->choice.measured_at) return;
    for (int i = 0; i < node->input_count && i < KN_TRIAL_INPUTS; i++) {
        const kn_shape *shape = &node->inputs[i]->shape;
        for (int d = 0; d < shape->rank && used < bytes; d++)
            used += (size_t)snprintf(key + used, bytes - used, "%c%lld", d ? 'x' : '/',
                                     (long long)class_of(shape->dims[d]));
    }
    for (int i = 0; i < node->op->attribute_count && used < bytes; i++)
        used += (size_t)snprintf(key + used, bytes - used, "/%lld", (long long)node->attributes[i].integer);
}

/* The node that is measured instead of `node`: with sizes rounded up to their classes, or the variant's
 * measured_at. */
static kn_status size_node(kn_context *context, const kn_node *node, const kn_variant *variant,
                           kn_node_spec *spec, kn_error *error) {
    const kn_node_sizes *sizes = variant->choice.measured_at;
    if (!sizes) {
        kn_node_spec_of(node, spec);
        for (int i = 0; i < spec->input_count && i < KN_TRIAL_INPUTS; i++)
            for (int d = 0; d < spec->shapes[i].rank; d++)
                spec->shapes[i].dims[d] = class_of(spec->shapes[i].dims[d]);
        return KN_OK;
    }
    kn_trial trial;
    const kn_case test_case = {
        .inputs = {sizes->inputs[0], sizes->inputs[1]}, .attributes = sizes->attributes, .no_gradient = true};
    kn_status status = kn_trial_make(&trial, kn_context_host(context), node->op, &test_case, NULL,
                                     (kn_trial_types){0}, 1, error);
    if (status == KN_OK) kn_node_spec_of(trial.outputs[0]->producer, spec);
    kn_trial_finish(&trial);
    return status;
}

/* The times of two variants, measured in turn, so that a clock that rises or a machine that becomes busy
 * meets both. A GPU that was idle is kept busy first. */
static kn_status time_variants(const kn_measurement *measure, const kn_variant *const variants[2],
                               double seconds[2], kn_error *error) {
    static const double wake_seconds = 0.2;
    enum { TURNS = 3 };
    kn_session *sessions[2] = {NULL, NULL};
    kn_status status = KN_OK;
    double first, taken;
    for (int i = 0; i < 2; i++) {
        const kn_status opened =
            kn_measurement_open(measure, variants[i], 0, INFINITY, &first, &sessions[i], error);
        if (status == KN_OK) status = opened;
    }
    const bool gpu = kn_context_device(measure->context)->type != KN_DEVICE_CPU;
    const double start = kn_clock();
    while (status == KN_OK && gpu && kn_clock() - start < wake_seconds)
        status = kn_measurement_time(sessions[0], measure->node.row, 1, &taken, error);
    seconds[0] = seconds[1] = INFINITY;
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < 2 && status == KN_OK; i++) {
            status = kn_measurement_estimate(sessions[i], measure->node.row, 1, &taken, error);
            if (status == KN_OK) seconds[i] = fmin(seconds[i], taken);
        }
    for (int i = 0; i < 2; i++)
        kn_session_destroy(&sessions[i]);
    return status;
}

/* The assumed speedup of a variant on a device that is not present. */
static double guess_of(kn_context *context, const kn_node *node, const kn_variant *variant) {
    kn_target target;
    kn_target_of(context, &target);
    const bool faster = variant->choice.expected ? variant->choice.expected(&target, node)
                                                 : variant->choice.measured_at != NULL;
    return faster ? 2 : 0;
}

bool kn_variant_is_faster(void *device, const kn_node *node, const kn_variant *variant,
                          const kn_variant *other) {
    kn_context *context = device;
    char key[320];
    double verdict = 0, seconds[2] = {0, 0};
    const kn_variant *const variants[2] = {variant, other};
    name_sizes(context, node, variant, other, key, sizeof key);
    const bool prepares = kn_verdict_prepares(context, key);
    if (kn_verdict_expect(context, key, guess_of(context, node, variant), &verdict) && !prepares)
        return verdict > 1;
    kn_measurement measure = {.context = context, .fast = variant->choice.fast};
    kn_error error = {.status = KN_OK};
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, key);
    kn_status status = size_node(context, node, variant, &measure.node, &error);
    if (status == KN_OK) status = kn_measurement_make(&measure, &error);
    if (status == KN_OK) status = time_variants(&measure, variants, seconds, &error);
    kn_measurement_finish(&measure);
    kn_attempt_end(context, &attempt);
    if (prepares) return verdict > 1;
    /* Without a measurement the other variant is used. */
    const bool measured = status == KN_OK && seconds[0] > 0;
    if (measured) kn_verdict_put(context, key, seconds[1] / seconds[0]);
    return measured && seconds[1] > seconds[0];
}
