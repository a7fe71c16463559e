/* Batch norms over all workers, each of which has one shard of the batch: the statistics of all shards are
 * gathered in the forward pass, and the two sums of the gradient are added up in the backward pass, by
 * totals that are exchanged immediately.
 *
 * A worker's backward pass computes the gradient of the whole batch's loss with respect to its shard, so the
 * sums over the workers are divided by the number of elements in the batch. */
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "train/optimizer.h"

typedef struct norms {
    kn_update *update;
    kn_value *weight, *ratio; /* scalars: shard's fraction of the batch; batch / shard */
    int totals;               /* number so far */
} norms;

enum { TEXT = 32 * KN_MAX_RANK };

/* All axes of x (N,C,...) except the channels, as a list. */
static void axes_of(const kn_value *x, char text[TEXT]) {
    int length = snprintf(text, TEXT, "0");
    for (int i = 2; i < x->shape.rank; i++)
        length += snprintf(text + length, (size_t)(TEXT - length), ",%d", i);
}

/* (C) as (C,1,...), to broadcast over x (N,C,...). */
static kn_value *along(kn_value *value, const kn_value *x) {
    char text[TEXT];
    int length = snprintf(text, TEXT, "%lld", (long long)x->shape.dims[1]);
    for (int i = 2; i < x->shape.rank; i++)
        length += snprintf(text + length, (size_t)(TEXT - length), ",1");
    return kn_reshape(value, text);
}

static kn_value *in_row(kn_value *value, int64_t columns) {
    char text[TEXT];
    snprintf(text, TEXT, "1,%lld", (long long)columns);
    return kn_reshape(value, text);
}

/* The number of elements per channel in this run. */
static double elements_of(const kn_value *x) {
    double count = 1;
    for (int i = 0; i < x->shape.rank; i++)
        count *= i == 1 ? 1 : (double)x->shape.dims[i];
    return count;
}

/* The sum over the workers. Later totals depend on it, so each has a round of its own, before all other
 * rounds. */
static kn_value *total(norms *own, kn_value *value) {
    const kn_sharing how = {.spread = KN_SPREAD_ALL, .round = -++own->totals};
    return kn_total_add(own->update->graph, &value, 1, &how, own->update->shards, &own->update->token);
}

/* Gathers (1,numbers) of this worker to (workers,numbers). */
static kn_value *gather(norms *own, kn_value *row) {
    const kn_shards *shards = own->update->shards;
    kn_graph *graph = own->update->graph;
    char text[TEXT];
    float *place = kn_arena_take(&graph->arena, (size_t)shards->ranks, sizeof *place);
    if (!place) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for gathering statistics");
    place[shards->rank] = 1;
    snprintf(text, TEXT, "%d,1", shards->ranks);
    kn_value *rows =
        kn_mul(kn_constant(graph, KN_FLOAT32, text, place, (size_t)shards->ranks * sizeof *place), row);
    return total(own, rows);
}

/* inputs are x (N,C,...), weight, bias, running mean and variance (C); the results are those of the operator
 * batch_norm. */
static void norm_in_batch(norms *own, const kn_node *node, kn_value *const *inputs, kn_value **results) {
    kn_graph *graph = own->update->graph;
    kn_value *x = inputs[0];
    const int64_t channels = x->shape.dims[1];
    const double momentum = kn_attribute_of(node, "momentum")->number;
    char axes[TEXT];
    axes_of(x, axes);
    kn_value *mean = kn_mean(x, axes, false), *centered = kn_sub(x, along(mean, x));
    kn_value *variance = kn_mean(kn_mul(centered, centered), axes, false);
    kn_value *parts[] = {in_row(mean, channels), in_row(variance, channels), in_row(own->weight, 1)};
    kn_value *all = gather(own, kn_concat(parts, KN_COUNT_OF(parts), 1));
    kn_value *means = kn_slice(all, 1, 0, channels), *variances = kn_slice(all, 1, channels, 2 * channels);
    kn_value *weights = kn_slice(all, 1, 2 * channels, 2 * channels + 1);
    mean = kn_sum(kn_mul(means, weights), "0", false);
    kn_value *far = kn_sub(means, mean);
    variance = kn_sum(kn_mul(kn_add(variances, kn_mul(far, far)), weights), "0", false);
    kn_value *inverse = kn_rsqrt(kn_shift(variance, kn_attribute_of(node, "epsilon")->number));
    kn_value *scaled = kn_mul(kn_sub(x, along(mean, x)), along(kn_mul(inverse, inputs[1]), x));
    kn_value *count = kn_scale(own->ratio, elements_of(x));
    kn_value *unbiased = kn_mul(variance, kn_div(count, kn_max(kn_shift(count, -1), kn_scalar(graph, 1))));
    results[KN_NORM_Y] = kn_add(scaled, along(inputs[2], x));
    results[KN_NORM_MEAN] = mean;
    results[KN_NORM_INVERSE] = inverse;
    results[KN_NORM_NEXT_MEAN] = kn_add(kn_scale(inputs[3], 1 - momentum), kn_scale(mean, momentum));
    results[KN_NORM_NEXT_VARIANCE] = kn_add(kn_scale(inputs[4], 1 - momentum), kn_scale(unbiased, momentum));
}

/* inputs are x, dy (N,C,...), weight, mean and inverse (C) of the whole batch; the results are those of the
 * operator batch_norm_gradient. */
static void gradient_in_batch(norms *own, kn_value *const *inputs, kn_value **results) {
    kn_value *x = inputs[0], *dy = inputs[1];
    const int64_t channels = x->shape.dims[1];
    char axes[TEXT];
    axes_of(x, axes);
    kn_value *normal = kn_mul(kn_sub(x, along(inputs[3], x)), along(inputs[4], x));
    kn_value *sums[] = {kn_sum(dy, axes, false), kn_sum(kn_mul(dy, normal), axes, false)};
    /* A worker without samples computes one sample, which gets no gradient. */
    kn_value *each = kn_div(kn_sign(own->weight), kn_scale(own->ratio, elements_of(x)));
    kn_value *all = kn_mul(total(own, kn_concat(sums, 2, 0)), each);
    kn_value *by_mean = kn_slice(all, 0, 0, channels), *by_spread = kn_slice(all, 0, channels, 2 * channels);
    kn_value *rest = kn_sub(kn_sub(dy, along(by_mean, x)), kn_mul(normal, along(by_spread, x)));
    results[KN_NORM_DX] = kn_mul(rest, along(kn_mul(inputs[2], inputs[4]), x));
    results[KN_NORM_DWEIGHT] = sums[1];
    results[KN_NORM_DBIAS] = sums[0];
}

static kn_status replace_norm(void *user, const kn_replacing *all, const kn_node *node,
                              kn_value *const *inputs, kn_value **results) {
    norms *own = user;
    kn_graph *graph = all->graph;
    const size_t before = graph->node_count;
    const bool backward = !strcmp(node->op->name, "batch_norm_gradient");
    if (!backward && strcmp(node->op->name, "batch_norm"))
        return kn_replace_repeat(all, node, inputs, results);
    graph->origin = node;
    if (backward)
        gradient_in_batch(own, inputs, results);
    else
        norm_in_batch(own, node, inputs, results);
    graph->origin = NULL;
    for (size_t i = before; i < graph->node_count; i++)
        graph->nodes[i]->gradient = node->gradient;
    return graph->error.status;
}

kn_status kn_sync_norms(kn_update *update, kn_value *weight, kn_value *ratio, kn_value **values,
                        size_t value_count, kn_value **gradients, size_t gradient_count, kn_error *error) {
    norms own = {.update = update, .weight = weight, .ratio = ratio};
    kn_replacing all;
    kn_status status = kn_replacing_begin(&all, update->graph);
    if (status != KN_OK) return kn_fail_memory(error, update->graph->value_count * sizeof(kn_value *));
    status = kn_replace(&all, replace_norm, &own);
    if (status != KN_OK) return kn_fail(error, status, "%s", update->graph->error.text);
    for (size_t i = 0; i < value_count; i++)
        values[i] = kn_replaced(&all, values[i]);
    for (size_t i = 0; i < gradient_count; i++)
        gradients[i] = kn_replaced(&all, gradients[i]);
    return KN_OK;
}
