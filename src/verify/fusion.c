/* Verdicts on fusing a node into its consumer: accepted on a device if the fused pair and the separate nodes
 * gave the same results there. */
#include <math.h>
#include <stdio.h>

#include "verify/verify_private.h"

/* A trial has this many images, with this many rows more than the filter. All other sizes are unchanged,
 * since the kernels' code depends on them. */
enum { IMAGES = 2, ROWS = 8 };

typedef struct fusion_trial {
    kn_context *context;
    const kn_host *host;
    int64_t height;
    kn_graph *graph; /* both nodes, on inputs x0, x1, … */
    kn_value *result;
    kn_feed feeds[2 * KN_TRIAL_INPUTS];
    char names[2 * KN_TRIAL_INPUTS][8];
    size_t feed_count;
    float *results[2];
    kn_error *error;
} fusion_trial;

/* Adds an input of the shape of `value`, with fewer images and rows if `image`, and numbers in [-1, 1). */
static kn_value *add_input(fusion_trial *trial, const kn_value *value, bool image) {
    kn_shape shape = value->shape;
    size_t at = trial->feed_count++;
    if (image && shape.rank == 4) shape.dims[0] = IMAGES, shape.dims[2] = trial->height;
    snprintf(trial->names[at], sizeof trial->names[at], "x%zu", at);
    size_t count = (size_t)kn_shape_elements(&shape);
    float *numbers = kn_allocate(trial->host, count + 1, sizeof *numbers);
    for (size_t i = 0; i < count && numbers; i++)
        numbers[i] = 2 * kn_random_uniform(at + 1, i) - 1;
    trial->feeds[at] = (kn_feed){trial->names[at], numbers, count * sizeof *numbers};
    return numbers ? kn_input_add(trial->graph, trial->names[at], &shape) : NULL;
}

/* Adds a copy of `node` on `first`, or on a new input if that is NULL. */
static kn_value *add_node(fusion_trial *trial, const kn_node *node, kn_value *first) {
    kn_value *inputs[KN_TRIAL_INPUTS] = {first};
    for (int i = first ? 1 : 0; i < node->input_count && i < KN_TRIAL_INPUTS; i++)
        if (!(inputs[i] = add_input(trial, node->inputs[i], i == 0))) return NULL;
    return kn_node_add(trial->graph, node->op, first ? "consumer" : "producer", inputs, node->input_count,
                       node->attributes);
}

static kn_status build(fusion_trial *trial, const kn_node *node, const kn_node *producer) {
    kn_graph_params params = {
        .size = sizeof params, .allocator = trial->host->allocator, .log = trial->host->log};
    trial->graph = kn_graph_create(&params);
    if (!trial->graph) return kn_fail_memory(trial->error, sizeof *trial->graph);
    kn_value *intermediate = add_node(trial, producer, NULL);
    if (intermediate) trial->result = add_node(trial, node, intermediate);
    if (trial->graph->error.status != KN_OK) return kn_error_copy(trial->error, &trial->graph->error);
    if (!trial->result) return kn_fail_memory(trial->error, sizeof *trial->result);
    kn_output(trial->result, "result");
    return KN_OK;
}

/* Computes the results with the nodes fused or separate. *steps: number of steps in the plan. */
static kn_status run(fusion_trial *trial, bool fused, size_t count, uint64_t *steps) {
    kn_session_params params;
    kn_plan_info info = {.size = sizeof info};
    kn_fetch fetch = {"result", NULL, count * sizeof(float)};
    fetch.data = trial->results[fused] = kn_allocate(trial->host, count + 1, sizeof(float));
    if (!fetch.data) return kn_fail_memory(trial->error, fetch.bytes);
    kn_session_params_init(&params);
    params.switches = fused ? "producers=fused" : "producers=separate";
    kn_session *session = kn_session_create(trial->context, &trial->result, 1, &params);
    kn_status status = kn_session_status(session);
    if (status == KN_OK) status = kn_session_run(session, trial->feeds, trial->feed_count, &fetch, 1);
    if (status == KN_OK) status = kn_session_plan(session, &info);
    if (status != KN_OK)
        kn_fail(trial->error, status, "%s", session ? kn_session_error(session) : "out of host memory");
    *steps = (uint64_t)info.steps;
    kn_session_destroy(&session);
    return status;
}

static kn_status compare(const fusion_trial *trial, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        if (fabs((double)trial->results[0][i]) > largest) largest = fabs((double)trial->results[0][i]);
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)trial->results[1][i] - (double)trial->results[0][i]);
        if (!(difference <= 1e-5 * largest + 1e-6))
            return kn_fail(trial->error, KN_ERROR_MISMATCH, "element %zu: fused gives %.9g, separate %.9g", i,
                           (double)trial->results[1][i], (double)trial->results[0][i]);
    }
    return KN_OK;
}

static kn_status try_fusion(fusion_trial *trial, const kn_node *node, const kn_node *producer) {
    uint64_t steps[2] = {0, 0};
    kn_status status = build(trial, node, producer);
    int64_t count = status == KN_OK ? kn_shape_elements(&trial->result->shape) : 0;
    for (int fused = 0; fused < 2 && status == KN_OK; fused++)
        status = run(trial, fused, (size_t)count, &steps[fused]);
    if (status == KN_OK && steps[1] >= steps[0])
        return kn_fail(trial->error, KN_ERROR_UNSUPPORTED,
                       "the two nodes are not fused at the sizes of the trial");
    return status == KN_OK ? compare(trial, (size_t)count) : status;
}

static void name_fusion(kn_context *context, const kn_node *node, const kn_node *producer, char *key,
                        size_t bytes) {
    const kn_node *const nodes[2] = {producer, node};
    size_t used = kn_verdict_name(context, "fusion", key, bytes);
    if (used < bytes)
        used += (size_t)snprintf(key + used, bytes - used, "/%lld",
                                 (long long)producer->inputs[0]->shape.dims[3]);
    for (int n = 0; n < 2; n++) {
        const kn_shape *weight = &nodes[n]->inputs[1]->shape;
        for (int d = 0; d < weight->rank && used < bytes; d++)
            used += (size_t)snprintf(key + used, bytes - used, "%c%lld", d ? 'x' : '/',
                                     (long long)weight->dims[d]);
        for (int a = 0; a < nodes[n]->op->attribute_count && used < bytes; a++) {
            const kn_attribute_value *value = &nodes[n]->attributes[a];
            used += (size_t)snprintf(key + used, bytes - used, "/%lld", (long long)value->integer);
            for (int i = 0; i < value->count && used < bytes; i++)
                used += (size_t)snprintf(key + used, bytes - used, ",%lld", (long long)value->list[i]);
        }
    }
}

bool kn_fusion_is_right(void *device, const kn_node *node, const kn_node *producer) {
    kn_context *context = device;
    char key[320];
    double verdict = 0;
    kn_error error = {.status = KN_OK};
    const kn_shape *image = &producer->inputs[0]->shape, *filter = &node->inputs[1]->shape;
    if (image->rank != 4 || filter->rank != 4) return false;
    fusion_trial trial = {.context = context, .host = kn_context_host(context), .error = &error};
    trial.height = filter->dims[2] + ROWS < image->dims[2] ? filter->dims[2] + ROWS : image->dims[2];
    name_fusion(context, node, producer, key, sizeof key);
    if (kn_verdict_expect(context, key, 1, &verdict)) return verdict != 0;
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, key);
    kn_status status = try_fusion(&trial, node, producer);
    for (size_t i = 0; i < trial.feed_count; i++)
        kn_release(trial.host, (void *)trial.feeds[i].data);
    for (int i = 0; i < 2; i++)
        kn_release(trial.host, trial.results[i]);
    kn_graph_destroy(&trial.graph);
    if (status == KN_OK || status == KN_ERROR_MISMATCH || status == KN_ERROR_UNSUPPORTED)
        kn_verdict_put(context, key, status == KN_OK);
    kn_attempt_end(context, &attempt);
    if (status == KN_ERROR_MISMATCH) {
        char name[96];
        snprintf(name, sizeof name, "%s fused into %s", producer->op->name, node->op->name);
        kn_variant_refused(context, name, error.text);
    }
    return status == KN_OK;
}
