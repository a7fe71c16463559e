/* Verdicts on variants that are chosen only where they are faster: measured once for each class of sizes. */
#include <stdio.h>
#include <string.h>

#include "verify/verify_private.h"

enum { MAX_SIZE = 1024, RUNS = 3 };

/* The class of a size: the next power of two, at most 1024. Equal sizes stay equal. */
static int64_t class_of(int64_t size) {
    int64_t rounded = 1;
    while (rounded < size && rounded < MAX_SIZE)
        rounded *= 2;
    return rounded;
}

typedef struct measurement {
    kn_context *context;
    const kn_node *node;
    kn_graph *graph; /* the node alone, on inputs x0, x1, … of rounded sizes */
    kn_value *result;
    kn_feed feeds[KN_TRIAL_INPUTS];
    size_t feed_count;
    char names[KN_TRIAL_INPUTS][8];
} measurement;

static kn_status build(measurement *measure, kn_error *error) {
    const kn_host *host = kn_context_host(measure->context);
    const kn_node *node = measure->node;
    kn_value *inputs[KN_TRIAL_INPUTS] = {NULL};
    kn_graph_params params = {.size = sizeof params, .allocator = host->allocator, .log = host->log};
    measure->graph = kn_graph_create(&params);
    if (!measure->graph) return kn_fail_memory(error, sizeof *measure->graph);
    for (int i = 0; i < node->input_count && i < KN_TRIAL_INPUTS; i++) {
        kn_shape shape = node->inputs[i]->shape;
        for (int d = 0; d < shape.rank; d++)
            shape.dims[d] = class_of(shape.dims[d]);
        snprintf(measure->names[i], sizeof measure->names[i], "x%d", i);
        inputs[i] = kn_input_add(measure->graph, measure->names[i], &shape);
        size_t bytes = (size_t)kn_shape_elements(&shape) * kn_dtype_bytes(shape.dtype);
        void *zeros = kn_allocate(host, bytes + 1, 1);
        if (!zeros) return kn_fail_memory(error, bytes);
        measure->feeds[measure->feed_count++] = (kn_feed){measure->names[i], zeros, bytes};
    }
    measure->result =
        kn_node_add(measure->graph, node->op, "measured", inputs, node->input_count, node->attributes);
    return measure->graph->error.status == KN_OK
               ? KN_OK
               : kn_fail(error, measure->graph->error.status, "%s", measure->graph->error.text);
}

/* The shortest time of a few runs in seconds, including writes of inputs, without the first, which compiles.
 */
static kn_status time_variant(measurement *measure, const kn_variant *variant, double *seconds,
                              kn_error *error) {
    char variants[96];
    snprintf(variants, sizeof variants, "%s=%s", measure->node->op->name, variant->name);
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = variants;
    kn_session *session = kn_session_create(measure->context, &measure->result, 1, &params);
    kn_status status = kn_session_status(session);
    for (int run = 0; run <= RUNS && status == KN_OK; run++) {
        double start = kn_clock();
        status = kn_session_run(session, measure->feeds, measure->feed_count, NULL, 0);
        if (status == KN_OK) status = kn_queue_finish(measure->context, KN_QUEUE_COMPUTE, error);
        double taken = kn_clock() - start;
        if (run > 0 && (run == 1 || taken < *seconds)) *seconds = taken;
    }
    if (status != KN_OK)
        kn_fail(error, status, "%s", session ? kn_session_error(session) : "out of host memory");
    kn_session_destroy(&session);
    return status;
}

static void name_sizes(kn_context *context, const kn_node *node, const kn_variant *variant, char *key,
                       size_t bytes) {
    size_t used = kn_verdict_name(context, "faster", key, bytes);
    if (used < bytes)
        used += (size_t)snprintf(key + used, bytes - used, "/%s/%s", node->op->name, variant->name);
    for (int i = 0; i < node->input_count && i < KN_TRIAL_INPUTS; i++) {
        const kn_shape *shape = &node->inputs[i]->shape;
        for (int d = 0; d < shape->rank && used < bytes; d++)
            used += (size_t)snprintf(key + used, bytes - used, "%c%lld", d ? 'x' : '/',
                                     (long long)class_of(shape->dims[d]));
    }
    for (int i = 0; i < node->op->attribute_count && used < bytes; i++)
        used += (size_t)snprintf(key + used, bytes - used, "/%lld", (long long)node->attributes[i].integer);
}

bool kn_variant_is_faster(void *device, const kn_node *node, const kn_variant *variant,
                          const kn_variant *other) {
    kn_context *context = device;
    char key[320];
    double verdict = 0, seconds = 0, other_seconds = 0;
    name_sizes(context, node, variant, key, sizeof key);
    if (kn_verdict_expect(context, key, 0, &verdict)) return verdict > 1;
    measurement measure = {.context = context, .node = node};
    kn_error error = {.status = KN_OK};
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, key);
    kn_status status = build(&measure, &error);
    if (status == KN_OK) status = time_variant(&measure, variant, &seconds, &error);
    if (status == KN_OK) status = time_variant(&measure, other, &other_seconds, &error);
    for (size_t i = 0; i < measure.feed_count; i++)
        kn_release(kn_context_host(context), (void *)measure.feeds[i].data);
    kn_graph_destroy(&measure.graph);
    /* Without a measurement the other variant is used. */
    const bool measured = status == KN_OK && seconds > 0;
    if (measured) kn_verdict_put(context, key, other_seconds / seconds);
    kn_attempt_end(context, &attempt);
    return measured && other_seconds > seconds;
}
