/* Training in shards: each batch is split into shards, whose gradients are added as a tree. The loss of a
 * shard is multiplied by the shard's fraction of the batch, so that the sum is the gradient of the batch. A
 * worker runs the plan once per shard and stores sums on a stack of states (kn_shard_place); in the last run
 * of a step the workers add up their sums (kn_total_add), and all compute the same update. Running
 * statistics, the loss and extra values become means over the shards in the same way.
 *
 * A shard that is computed in parts has one run per part. Parts are added one after the other, in a state
 * for their running sum, and the last run of the shard yields the sum that enters the tree. */
#include <stdio.h>

#include "ops/ops.h"
#include "train/optimizer.h"

typedef struct sharing {
    kn_update *update;
    const kn_shards *shards;
    /* scalar: the shard's fraction of the batch; NULL: values have been multiplied by it */
    kn_value *weight;
    kn_value *merges[KN_MAX_SUBTREES]; /* by stack place, bool scalars: its sum is added to the shard's
                                        * sum; */
    kn_value *stores[KN_MAX_SUBTREES]; /* the sum is stored there */
    kn_value *follows, *holds; /* bool scalars: the sum of the previous parts is added; the sum is stored for
                                * the next part; NULL: no parts */
} sharing;

/* Scalars, one per stack place. */
static kn_value *flag_of_place(const sharing *own, const char *kind, int place) {
    kn_graph *graph = own->update->graph;
    const kn_shape scalar = {.dtype = KN_FLOAT32};
    char name[KN_TRAIN_NAME_BYTES];
    kn_train_place_name(kind, place, name);
    return kn_greater(kn_state_add(graph, name, &scalar, KN_STATE_PASSING, NULL), kn_scalar(graph, 0));
}

static kn_value *flag_of_run(const kn_update *update, kn_train_scalar scalar) {
    return kn_greater(kn_update_scalar(update, scalar), kn_scalar(update->graph, 0));
}

/* The state for a sum. */
static kn_value *sum_state(const sharing *own, const kn_value *of, const char *name, const char *kind) {
    char text[KN_TRAIN_STATE_BYTES];
    if (!kn_train_state_name(name, kind, text))
        return kn_graph_fail(own->update->graph, KN_ERROR_UNSUPPORTED, "the name '%s' is too long", name);
    return kn_state_add(own->update->graph, text, &of->shape, KN_STATE_PASSING, NULL);
}

kn_value *kn_in_type(kn_value *value, kn_dtype dtype) {
    return kn_value_failed(value) || value->shape.dtype == dtype ? value : kn_cast(value, dtype);
}

static kn_value *sum_in_place(const sharing *own, const kn_value *of, const char *name, int place) {
    char kind[KN_TRAIN_NAME_BYTES];
    snprintf(kind, sizeof kind, "sum%d", place);
    return sum_state(own, of, name, kind);
}

/* The sum over the parts of a shard, in the run of the last part. */
static kn_value *sum_of_parts(const sharing *own, kn_value *part, const char *name) {
    if (!own->follows) return part;
    kn_value *before = sum_state(own, part, name, "parts");
    kn_value *sum = kn_where(own->follows, kn_add(before, part), part);
    kn_assign(own->update->graph, before, kn_where(own->holds, sum, before));
    return sum;
}

/* The mean over the batch, in the last run of a step, of a value that is a mean over the samples of a run, or
 * the slice of it that this worker gets (kn_sharing.spread); with a weight other than that of the run, a sum.
 * type: each sum in the tree is rounded to it, whether or not it is sent to another worker. */
static kn_value *mean_of_shards(sharing *own, kn_value *value, const char *name, int spread, kn_dtype type) {
    kn_graph *graph = own->update->graph;
    if (own->weight) value = kn_mul(value, own->weight);
    kn_value *sum = kn_in_type(sum_of_parts(own, value, name), type);
    kn_value *places[KN_MAX_SUBTREES], *given[KN_MAX_SUBTREES];
    for (int p = own->shards->places - 1; p >= 0; p--) {
        places[p] = sum_in_place(own, sum, name, p);
        kn_value *both = kn_add(kn_in_type(places[p], KN_FLOAT32), kn_in_type(sum, KN_FLOAT32));
        sum = kn_where(own->merges[p], kn_in_type(both, type), sum);
    }
    for (int p = 0; p < own->shards->places; p++)
        kn_assign(graph, places[p], kn_where(own->stores[p], sum, places[p]));
    if (own->shards->ranks == 1) return kn_in_type(sum, KN_FLOAT32);
    const int last = own->shards->firsts[own->shards->rank + 1] - 1;
    const int below = kn_shard_place_of(own->shards, last).place;
    for (int p = 0; p < below; p++)
        given[p] = places[p];
    given[below] = sum;
    const kn_sharing how = {.spread = spread};
    sum = kn_total_add(graph, given, below + 1, &how, own->shards, &own->update->token);
    return kn_in_type(sum, KN_FLOAT32);
}

/* Statistics that the graph itself assigns. */
static kn_status share_states(sharing *own, kn_error *error) {
    kn_graph *graph = own->update->graph;
    const size_t count = graph->value_count;
    const bool in_rounds = own->update->params->sync_every;
    for (size_t i = 0; i < count; i++) {
        kn_value *state = graph->values[i];
        if (state->kind != KN_VALUE_STATE || !state->assign) continue;
        if (state->role != KN_STATE_STATISTIC || state->shape.dtype != KN_FLOAT32)
            return kn_fail(
                error, KN_ERROR_UNSUPPORTED,
                "'%s' carries state from batch to batch, sample by sample, which %s cannot: expected "
                "a model without it, or %s",
                state->name,
                in_rounds ? "workers that split each batch (sync_every), or parts of a batch,"
                          : "shards of a batch",
                in_rounds ? "one worker without micro_batch" : "one shard");
        kn_value *mean =
            mean_of_shards(own, state->assign->inputs[1], state->name, KN_SPREAD_ALL, KN_FLOAT32);
        kn_value *more = own->update->more;
        kn_assign_replace(graph, state, more ? kn_where(more, state, mean) : mean);
    }
    return KN_OK;
}

/* Nodes that draw random numbers draw different numbers for each shard: they count shards instead of steps.
 */
static void count_draws(kn_graph *graph) {
    const kn_shape scalar = {.dtype = KN_UINT32};
    kn_value *steps = kn_graph_find(graph, KN_STEP_COUNTER);
    if (!steps) return;
    kn_value *draws = kn_state_add(graph, KN_TRAIN_DRAW, &scalar, KN_STATE_PASSING, NULL);
    for (size_t i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i]->input_count; k++)
            if (graph->nodes[i]->inputs[k] == steps) graph->nodes[i]->inputs[k] = draws;
}

static void find_more(kn_update *update) {
    if (update->shards->places || update->params->micro_batch)
        update->more = flag_of_run(update, KN_TRAIN_MORE);
}

void kn_shards_prepare(kn_update *update) {
    count_draws(update->graph);
    find_more(update);
}

static sharing begin_sharing(kn_update *update) {
    sharing own = {.update = update, .shards = update->shards};
    own.weight = kn_update_scalar(update, KN_TRAIN_WEIGHT);
    if (update->params->micro_batch) {
        own.follows = flag_of_run(update, KN_TRAIN_FOLLOWS);
        own.holds = flag_of_run(update, KN_TRAIN_HOLDS);
    }
    for (int p = 0; p < own.shards->places; p++) {
        own.merges[p] = flag_of_place(&own, "merge", p);
        own.stores[p] = flag_of_place(&own, "store", p);
    }
    return own;
}

void kn_shards_count(kn_update *update, kn_value *const *values, const bool *means, kn_value *const *states,
                     size_t count) {
    find_more(update);
    sharing own = begin_sharing(update);
    kn_value *part = own.weight, *one = kn_update_scalar(update, KN_TRAIN_COUNTED), *more = update->more;
    for (size_t i = 0; i < count; i++) {
        own.weight = means[i] ? part : one;
        kn_value *total = mean_of_shards(&own, values[i], states[i]->name, KN_SPREAD_ALL, KN_FLOAT32);
        kn_assign(update->graph, states[i], more ? kn_where(more, states[i], total) : total);
    }
}

kn_status kn_shards_share(kn_update *update, kn_value **values, size_t count, kn_update_part *parts,
                          size_t part_count, kn_error *error) {
    sharing own = begin_sharing(update);
    kn_status status = share_states(&own, error);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (values[i]->shape.rank || values[i]->shape.dtype != KN_FLOAT32)
            return kn_fail(error, KN_ERROR_UNSUPPORTED,
                           "extra value '%s' is not a float32 scalar, as training in shards requires "
                           "for computing its mean over the batch",
                           values[i]->name);
        values[i] = mean_of_shards(&own, values[i], values[i]->name, KN_SPREAD_ALL, KN_FLOAT32);
    }
    /* These belong to a loss that was multiplied by the weight. The gradients of the last layers come first.
     */
    own.weight = NULL;
    for (size_t i = part_count; i-- > 0 && status == KN_OK;)
        parts[i].found = parts[i].gradient =
            mean_of_shards(&own, parts[i].gradient, parts[i].parameter->name, parts[i].spread,
                           own.update->params->gradient_dtype);
    return status;
}

/* ---- scalars of a run ---------------------------------------------------------------------------------- */

void kn_train_place_name(const char *kind, int place, char name[KN_TRAIN_NAME_BYTES]) {
    snprintf(name, KN_TRAIN_NAME_BYTES, "koine.%s%d", kind, place);
}

/* the graph may draw no random numbers */
static kn_status set_draw(kn_session *session, uint64_t number) {
    kn_status status = kn_session_set_scalar(session, KN_TRAIN_DRAW, (double)(uint32_t)number);
    return status == KN_ERROR_NOT_FOUND ? KN_OK : status;
}

/* Numbers of parts are far from those of the following shards and steps: multiples of 2^32 over the golden
 * ratio are far apart modulo 2^32. */
static uint64_t draw_of(const kn_shards *shards, const kn_train_run *run, uint64_t step) {
    return step * (uint64_t)shards->count + (uint64_t)run->shard + run->part * 2654435769u;
}

kn_status kn_shard_set(kn_session *session, const kn_shards *shards, const kn_train_run *run, uint64_t step) {
    const kn_shard_place own = kn_shard_place_of(shards, run->shard);
    char name[KN_TRAIN_NAME_BYTES];
    kn_status status = set_draw(session, draw_of(shards, run, step));
    for (int p = 0; p < shards->places && status == KN_OK; p++) {
        kn_train_place_name("merge", p, name);
        status =
            kn_session_set_scalar(session, name, !run->holds && p >= own.place && p < own.place + own.merged);
        kn_train_place_name("store", p, name);
        if (status == KN_OK) status = kn_session_set_scalar(session, name, !run->holds && p == own.place);
    }
    return status;
}
