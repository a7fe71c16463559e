/* Distributes updates over workers (kn_trainer_params.shard_optimizer): each rank gets its slice of the
 * gradients, stores its slice of the moments, and sends its slice of the new parameters to the other ranks.
 * Whole values that updates need, such as norms, are computed from all slices, so that they have the same
 * bits everywhere. */
#include <stdlib.h>

#include "ops/ops.h"
#include "train/optimizer.h"

/* A parameter is cut into slices if it has at least LARGE elements, or more than 1/FINE of a rank's share;
 * smaller parameters are assigned whole, so that the ranks' shares differ by about that much. */
enum { LARGE = 65536, FINE = 50 };
/* Values of one round do not depend on each other (kn_sharing). Round 0 is for the sums. */
enum { ROUND_NORMS = 1, ROUND_SECOND_NORMS, ROUND_DIRECTIONS, ROUND_PARAMETERS };

static uint64_t elements_of(const kn_update_part *part) {
    return (uint64_t)kn_shape_elements(&part->parameter->shape);
}

/* Largest first; equal sizes in the order of the parameters. */
static int compare_sizes(const void *left, const void *right) {
    const kn_update_part *a = *(kn_update_part *const *)left, *b = *(kn_update_part *const *)right;
    const uint64_t own = elements_of(a), other = elements_of(b);
    return own != other ? (own < other) - (own > other) : (a > b) - (a < b);
}

static void deal_whole(kn_update_part *const *sorted, size_t count, uint64_t *loads, int ranks) {
    for (size_t i = 0; i < count; i++) {
        int least = 0;
        if (sorted[i]->spread == KN_SPREAD_SLICES || !sorted[i]->parameter->shape.rank) continue;
        for (int r = 1; r < ranks; r++)
            if (loads[r] < loads[least]) least = r;
        sorted[i]->spread = least;
        loads[least] += elements_of(sorted[i]);
    }
}

/* The slice of its parameter that this worker updates. */
static void take_own(kn_update_part *part, const kn_shards *shards) {
    const uint64_t whole = elements_of(part);
    if (part->spread == KN_SPREAD_ALL || part->spread == shards->rank) return;
    if (part->spread != KN_SPREAD_SLICES) {
        part->own = kn_slice(part->parameter, 0, 0, 0);
        return;
    }
    part->first = (int64_t)kn_spread_first(part->spread, whole, shards->ranks, shards->rank);
    const uint64_t end = kn_spread_first(part->spread, whole, shards->ranks, shards->rank + 1);
    part->own = kn_slice(kn_reshape(part->parameter, "-1"), 0, part->first, (int64_t)end);
}

kn_status kn_update_spread(kn_update *update, kn_update_part *parts, size_t count, kn_error *error) {
    const kn_shards *shards = update->shards;
    for (size_t i = 0; i < count; i++) {
        parts[i].spread = KN_SPREAD_ALL;
        parts[i].own = parts[i].parameter;
    }
    if (!kn_update_is_spread(update)) return KN_OK;
    const size_t ranks = (size_t)shards->ranks;
    kn_update_part **sorted = kn_arena_take(&update->graph->arena, count, sizeof *sorted);
    uint64_t *loads = kn_arena_take(&update->graph->arena, ranks, sizeof *loads), all = 0;
    if (!sorted || !loads) return kn_fail_memory(error, count * sizeof *sorted + ranks * sizeof *loads);
    for (size_t i = 0; i < count; i++) {
        all += elements_of(&parts[i]);
        sorted[i] = &parts[i];
    }
    /* Moments with fewer bits are rounded by row and position, so their parameters are not cut. */
    for (size_t i = 0; i < count && update->params->moments == KN_MOMENTS_FLOAT32; i++) {
        const uint64_t own = elements_of(&parts[i]);
        if (own >= ranks && (own >= LARGE || own > all / ranks / FINE)) parts[i].spread = KN_SPREAD_SLICES;
    }
    qsort(sorted, count, sizeof *sorted, compare_sizes);
    deal_whole(sorted, count, loads, shards->ranks);
    for (size_t i = 0; i < count; i++)
        take_own(&parts[i], shards);
    return KN_OK;
}

bool kn_update_is_spread(const kn_update *update) {
    return update->params->shard_optimizer && update->shards && update->shards->ranks > 1;
}

kn_value *kn_update_spread_state(const kn_update_part *part, kn_value *state, const kn_shape *whole) {
    if (part->spread == KN_SPREAD_ALL || kn_value_failed(state)) return state;
    state->whole = kn_arena_copy(&state->graph->arena, whole, 1, sizeof *whole);
    state->spread = part->spread;
    state->first = part->first;
    return state->whole ? state
                        : kn_graph_fail(state->graph, KN_ERROR_MEMORY, "out of memory for the moments");
}

/* ---- values that all workers need ---------------------------------------------------------------------- */

/* This worker's contribution to a value; NULL: none. */
static kn_value *given(const kn_update_part *part, kn_value *value) {
    const kn_shards *shards = part->update->shards;
    return part->spread == KN_SPREAD_SLICES || part->spread == shards->rank ? value : NULL;
}

static kn_value *gather(const kn_update_part *part, kn_value *own, kn_value *old, const kn_shape *shape,
                        int round) {
    const kn_sharing sharing = {.spread = part->spread, .round = round};
    return kn_gather_add(part->update->graph, own, old, shape, &sharing, &part->update->token);
}

/* The whole of a value of which each worker has a slice, in the shape of the parameter. */
static kn_value *whole_of(const kn_update_part *part, kn_value *value, int round) {
    return gather(part, value, NULL, &part->parameter->shape, round);
}

static kn_value *sum_of_squares(kn_value *value) {
    return kn_sum(kn_mul(value, value), NULL, false);
}

kn_value *kn_update_square_sum(const kn_update_part *part, int turn) {
    static const kn_shape one = {.dtype = KN_FLOAT32, .rank = 1, .dims = {1}};
    if (part->spread == KN_SPREAD_ALL) return sum_of_squares(part->gradient);
    if (part->spread == KN_SPREAD_SLICES)
        return sum_of_squares(whole_of(part, part->gradient, ROUND_NORMS + turn));
    kn_value *own = given(part, part->gradient);
    if (own) own = kn_reshape(sum_of_squares(own), "1");
    return kn_reshape(gather(part, own, NULL, &one, ROUND_NORMS + turn), "");
}

kn_value *kn_update_norm(const kn_update_part *part, kn_value *value) {
    if (part->spread == KN_SPREAD_SLICES)
        value = value == part->own ? part->parameter : whole_of(part, value, ROUND_DIRECTIONS);
    return kn_sqrt(sum_of_squares(value));
}

void kn_update_gather(kn_update *update, const kn_update_part *parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const kn_update_part *part = &parts[i];
        if (part->spread == KN_SPREAD_ALL) continue;
        kn_value *fresh = gather(part, given(part, *part->fresh), part->parameter, &part->parameter->shape,
                                 ROUND_PARAMETERS);
        kn_assign(update->graph, part->parameter, fresh);
        if (*part->average) kn_update_average(part, *part->average, fresh);
    }
}
