/* Chooses the groups of the forward pass that are recomputed in the backward pass.
 *
 * The forward pass is cut into segments where few bytes cross. Values that cross a cut are kept, and the
 * other values of a segment are recomputed, at most once, when the backward pass first needs them (Chen et
 * al., 2016). Within a segment, values that cost much work per byte are kept, too. The search tries many
 * segment lengths and prices, counting the live bytes group by group; it takes the cheapest choice that fits,
 * and then removes unnecessary recomputation. The last segment is always kept: the backward pass starts with
 * it. */
#include <stdlib.h>
#include <string.h>

#include "plan/recompute.h"

/* FLOP that cost as much as moving a byte. */
static const double WORK_OF_BYTE = 8;
/* Weight of a live byte where live bytes do not exceed the target: freeing it makes space for other
 * values. */
static const double AVERAGE = 1e-4;
enum {
    LENGTHS = 14,
    PRICES = 6,
    QUARTERS = 4,
    MAX_REFINED = 256,
    MAX_IMPROVED = 192,
    LOWER = 16,

    SMALL = 256
};

typedef struct span {
    int first, count; /* range in `items` */
} span;

typedef struct choice {
    kn_recomputation *chosen;
    int count; /* number of groups */
    size_t values;
    uint64_t *bytes;      /* by value id, of results */
    span *reads, *writes; /* by group: values */
    int *items;
    size_t item_count, item_capacity;
    bool *may;       /* by group: can be recomputed */
    double *work;    /* by group */
    double *flops;   /* by group */
    uint64_t *size;  /* by group: bytes of its large results */
    uint64_t *saved; /* by group: bytes of its large results that the backward pass reads */
    uint64_t *cross; /* by group: bytes of large results that later groups of the forward pass read */
    /* For counting: */
    int *first, *last; /* by value id, and by the number of values + id for a recomputed value */
    int64_t *change;   /* by position */
    int *stack;
    bool *emitted; /* by group: has been recomputed */
    bool *trial;
    int *sequence;
    uint64_t target; /* target of live bytes */
    double excess;   /* bytes above the target, summed over positions, plus AVERAGE of the bytes below it */
    bool failed;
} choice;

/* ---- what groups read and write ------------------------------------------------------------------------ */

static void add_item(void *user, kn_value *value) {
    choice *own = user;
    if (own->failed || !kn_reserve(own->chosen->planner->host, (void **)&own->items, &own->item_capacity,
                                   own->item_count + 1, sizeof *own->items)) {
        own->failed = true;
        return;
    }
    own->items[own->item_count++] = kn_value_root(value)->id;
}

static void add_work(choice *own, int group, const kn_node *node) {
    kn_cost cost;
    kn_node_cost(node, &cost);
    own->flops[group] += cost.flops;
    own->work[group] += cost.flops + WORK_OF_BYTE * cost.bytes;
}

static bool all_gradients(const kn_group *group) {
    if (group->anchor && !group->anchor->gradient) return false;
    if (group->summed && !group->summed->gradient) return false;
    for (int m = 0; m < group->member_count; m++)
        if (!group->members[m]->gradient) return false;
    return true;
}

static void note_maker(choice *own, int group, int id) {
    const kn_value *value = own->chosen->planner->graph->values[id];
    uint64_t bytes;
    own->chosen->maker[id] = group;
    if (value->kind == KN_VALUE_RESULT && kn_value_bytes(value, &bytes))
        own->bytes[id] = kn_align_up(bytes, own->chosen->planner->target->alignment_bytes);
}

/* The new value of a state is normally written in place as soon as it is computed. */
static void note_writer(choice *own, int group) {
    const kn_node *assign = own->chosen->planner->groups[group]->anchor;
    const int state = assign->inputs[0]->id, value = kn_value_root(assign->inputs[1])->id;
    const int maker = own->chosen->maker[value];
    own->chosen->writer[state] = maker >= 0 ? maker : group;
    own->bytes[value] = 0;
}

static void collect(choice *own) {
    kn_planner *planner = own->chosen->planner;
    own->chosen->turn = own->count;
    for (size_t v = 0; v < own->values; v++)
        own->chosen->maker[v] = own->chosen->writer[v] = -1;
    for (int g = 0; g < own->count; g++) {
        const kn_group *group = planner->groups[g];
        planner->work += 1 + (uint64_t)group->member_count;
        if (own->chosen->turn == own->count && all_gradients(group)) own->chosen->turn = g;
        own->reads[g].first = (int)own->item_count;
        kn_group_reads(planner, group, add_item, own);
        if (group->producer) kn_group_reads(planner, group->producer, add_item, own);
        own->reads[g].count = (int)own->item_count - own->reads[g].first;
        own->writes[g].first = (int)own->item_count;
        if (!group->fused) kn_group_writes(planner, group, add_item, own);
        own->writes[g].count = (int)own->item_count - own->writes[g].first;
        for (int i = 0; i < own->writes[g].count && !own->failed; i++)
            note_maker(own, g, own->items[own->writes[g].first + i]);
        if (group->anchor) add_work(own, g, group->anchor);
        if (group->summed) add_work(own, g, group->summed);
        for (int m = 0; m < group->member_count; m++)
            add_work(own, g, group->members[m]);
    }
    for (int g = 0; g < own->count; g++)
        if (planner->groups[g]->anchor && planner->groups[g]->anchor->op->class == KN_CLASS_ASSIGN)
            note_writer(own, g);
}

/* Whether a group can be recomputed: it only computes, and the states that it reads have not changed. */
static bool can_repeat(const choice *own, int g) {
    const kn_planner *planner = own->chosen->planner;
    const kn_group *group = planner->groups[g];
    if (group->fused || group->producer || group->summed || group->updates) return false;
    const kn_node *anchor = group->anchor;
    if (anchor && (anchor->op->class == KN_CLASS_ASSIGN || !group->variant || kn_node_is_transfer(anchor) ||
                   kn_node_shares(anchor) || kn_node_loads(anchor)))
        return false;
    for (int i = 0; i < own->reads[g].count; i++) {
        const int id = own->items[own->reads[g].first + i];
        bool hidden = false;
        for (int j = 0; anchor && j < anchor->input_count; j++)
            hidden = hidden || (anchor->op->hidden_inputs >> j & 1 && anchor->inputs[j] &&
                                kn_value_root(anchor->inputs[j])->id == id);
        if (!hidden && own->chosen->writer[id] >= 0 && own->chosen->writer[id] < own->chosen->turn)
            return false;
    }
    return own->writes[g].count > 0;
}

/* Small values are kept; the large values that the backward pass reads are candidates for recomputation. */
static void classify(choice *own) {
    kn_recomputation *chosen = own->chosen;
    uint64_t largest = 0;
    for (size_t v = 0; v < own->values; v++)
        if (chosen->maker[v] >= 0 && chosen->maker[v] < chosen->turn && own->bytes[v] > largest)
            largest = own->bytes[v];
    for (size_t v = 0; v < own->values; v++)
        chosen->large[v] = chosen->maker[v] >= 0 && chosen->maker[v] < chosen->turn &&
                           own->bytes[v] > largest / SMALL && !chosen->planner->graph->values[v]->wanted;
    for (int g = 0; g < chosen->turn; g++)
        own->may[g] = can_repeat(own, g);
    /* last: the last reader in the forward pass; first: 1 if the backward pass reads it */
    for (size_t v = 0; v < own->values; v++)
        own->first[v] = own->last[v] = -1;
    for (int g = 0; g < own->count; g++)
        for (int i = 0; i < own->reads[g].count; i++) {
            const int id = own->items[own->reads[g].first + i];
            if (g < chosen->turn)
                own->last[id] = g;
            else
                own->first[id] = 1;
        }
    for (size_t v = 0; v < own->values; v++) {
        if (!chosen->large[v]) continue;
        own->size[chosen->maker[v]] += own->bytes[v];
        if (own->first[v] > 0) own->saved[chosen->maker[v]] += own->bytes[v];
        for (int g = chosen->maker[v]; g < own->last[v]; g++)
            own->cross[g] += own->bytes[v];
    }
}

/* ---- counting ---------------------------------------------------------------------------------------- */

bool kn_recomputation_repeats(const kn_recomputation *chosen, kn_value *value) {
    const int id = kn_value_root(value)->id, maker = chosen->maker[id];
    return maker >= 0 && maker < chosen->turn && chosen->large[id] && chosen->again[maker];
}

static bool repeats(const choice *own, int id) {
    const int maker = own->chosen->maker[id];
    return own->chosen->large[id] && own->trial[maker];
}

/* Adds the groups whose recomputation group g needs and that have not been recomputed, in order. Returns
 * whether the states that they read are unchanged after `at` groups have run. */
static bool add_needed(choice *own, int g, int at, int *length) {
    int depth = 0, least = own->chosen->turn, most = -1;
    bool same = true;
    own->stack[depth++] = g;
    while (depth > 0) {
        const int group = own->stack[--depth];
        if (group < own->chosen->turn) {
            if (group < least) least = group;
            if (group > most) most = group;
        }
        for (int i = 0; i < own->reads[group].count; i++) {
            const int id = own->items[own->reads[group].first + i];
            const int writer = own->chosen->writer[id];
            same = same && (group == g || writer < own->chosen->turn || writer >= at);
            if (!repeats(own, id) || own->emitted[own->chosen->maker[id]]) continue;
            own->emitted[own->chosen->maker[id]] = true;
            own->stack[depth++] = own->chosen->maker[id];
        }
    }
    /* The groups marked by this call are those between the two that are not in the sequence yet. */
    for (int group = least; group <= most; group++)
        if (own->emitted[group] && own->change[group] == 0) {
            own->change[group] = 1;
            own->sequence[(*length)++] = own->count + group;
        }
    return same;
}

/* The sequence of groups with own->trial recomputed; its length, or -1 if it is impossible. */
static int arrange(choice *own) {
    const int turn = own->chosen->turn;
    int length = 0;
    for (int g = 0; g < turn; g++) {
        own->emitted[g] = false;
        own->change[g] = 0; /* whether its recomputation is in the sequence */
        own->sequence[length++] = g;
    }
    for (int g = turn; g < own->count; g++) {
        if (!add_needed(own, g, g, &length)) return -1;
        own->sequence[length++] = g;
    }
    return length;
}

static void touch(choice *own, int instance, int at, bool writes) {
    if (writes) own->first[instance] = at;
    own->last[instance] = at;
}

/* The peak of own->trial, and its work; UINT64_MAX if it is impossible. */
static uint64_t count_peak(choice *own, double *work) {
    const int length = arrange(own), values = (int)own->values;
    if (length < 0) return UINT64_MAX;
    for (int v = 0; v < 2 * values; v++)
        own->first[v] = own->last[v] = -1;
    *work = 0;
    for (int at = 0; at < length; at++) {
        const bool again = own->sequence[at] >= own->count;
        const int g = again ? own->sequence[at] - own->count : own->sequence[at];
        const bool late = again || g >= own->chosen->turn;
        own->chosen->planner->work++;
        if (again) *work += own->work[g];
        for (int i = 0; i < own->writes[g].count; i++)
            touch(own, own->items[own->writes[g].first + i] + (again ? values : 0), at, true);
        for (int i = 0; i < own->reads[g].count; i++) {
            const int id = own->items[own->reads[g].first + i];
            touch(own, id + (late && repeats(own, id) ? values : 0), at, false);
        }
    }
    for (int at = 0; at <= length; at++)
        own->change[at] = 0;
    for (int v = 0; v < 2 * values; v++) {
        if (own->first[v] < 0) continue;
        const kn_value *value = own->chosen->planner->graph->values[v % values];
        const uint64_t bytes = own->bytes[v % values];
        own->change[own->first[v]] += (int64_t)bytes;
        if (!(v < values && value->wanted)) own->change[own->last[v] + 1] -= (int64_t)bytes;
    }
    int64_t live = 0, peak = 0;
    own->excess = 0;
    for (int at = 0; at < length; at++) {
        live += own->change[at];
        const bool more = live > (int64_t)own->target;
        own->excess += AVERAGE * (double)live + (more ? (double)live - (double)own->target : 0);
        if (live > peak) peak = live;
    }
    return (uint64_t)peak;
}

/* ---- segments ------------------------------------------------------------------------------------------ */

/* In own->trial, keeps the groups whose large results cross the cut after group `cut`. */
static void keep_crossing(choice *own, const int *last_forward, int cut) {
    for (size_t v = 0; v < own->values; v++) {
        const int maker = own->chosen->maker[v];
        if (own->chosen->large[v] && maker <= cut && last_forward[v] > cut) own->trial[maker] = false;
    }
}

/* Fills own->trial: segments of about `length` saved bytes (0: one segment), of which the first `quarters`/4
 * are recomputed; values that cost more than `price` per byte are kept. */
static void cut_segments(choice *own, const int *last_forward, uint64_t length, double price, int quarters) {
    const int turn = own->chosen->turn;
    int begin = 0, segments = 1, number = 0;
    uint64_t sum = 0;
    int *cuts = own->stack; /* unused between counts */
    for (int g = 0; g < turn; g++) {
        /* Results that the backward pass does not read are only needed to recompute those that it reads. */
        own->trial[g] = own->may[g] && (!own->saved[g] || own->work[g] <= price * (double)own->saved[g]);
    }
    for (int g = 0, best = -1; g < turn && length; g++) {
        sum += own->saved[g];
        if (2 * sum >= length && (best < begin || own->cross[g] <= own->cross[best])) best = g;
        if (sum < length || best < begin) continue;
        cuts[segments++ - 1] = best;
        begin = best + 1;
        sum = 0;
        for (int i = begin; i <= g; i++)
            sum += own->saved[i];
    }
    for (int i = 0; i < segments - 1; i++)
        keep_crossing(own, last_forward, cuts[i]);
    const int repeated = (int)kn_divide_up((int64_t)(segments - 1) * quarters, QUARTERS);
    for (int g = 0; g < turn && length; g++) {
        while (number < segments - 1 && g > cuts[number])
            number++;
        if (number >= repeated) own->trial[g] = false;
    }
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Prices per saved byte, highest first: quantiles. */
static bool find_prices(choice *own, double prices[PRICES]) {
    int count = 0;
    double *all = kn_allocate(own->chosen->planner->host, (size_t)own->chosen->turn + 1, sizeof *all);
    if (!all) return false;
    for (int g = 0; g < own->chosen->turn; g++)
        if (own->may[g] && own->saved[g]) all[count++] = own->work[g] / (double)own->saved[g];
    qsort(all, (size_t)count, sizeof *all, compare);
    for (int i = 0; i < PRICES; i++)
        prices[i] = count ? all[(count - 1) * (PRICES - i) / PRICES] : 0;
    kn_release(own->chosen->planner->host, all);
    return true;
}

typedef struct best_choice {
    bool *again;
    uint64_t peak;
    double work;
} best_choice;

static void consider(choice *own, best_choice *best) {
    const uint64_t limit = own->chosen->planner->request->live_bytes;
    double work;
    const uint64_t peak = count_peak(own, &work);
    const bool fits = peak <= limit, best_fits = best->peak <= limit;
    if (fits != best_fits ? !fits : fits ? work >= best->work : peak >= best->peak) return;
    for (int g = 0; g < own->chosen->turn; g++)
        best->again[g] = own->trial[g];
    best->peak = peak;
    best->work = work;
}

/* Removes unnecessary recomputation, the most work first; if no choice fits, removes recomputation that does
 * not lower the peak. */
static void refine(choice *own, best_choice *best) {
    for (int round = 0; round < MAX_REFINED; round++) {
        int most = -1;
        for (int g = 0; g < own->chosen->turn; g++)
            if (best->again[g] && own->may[g] && (most < 0 || own->work[g] > own->work[most])) most = g;
        if (most < 0) return;
        own->may[most] = false; /* do not try it again */
        for (int g = 0; g < own->chosen->turn; g++)
            own->trial[g] = best->again[g] && g != most;
        const uint64_t limit = own->chosen->planner->request->live_bytes;
        double work;
        const uint64_t peak = count_peak(own, &work);
        if (peak > (best->peak > limit ? best->peak : limit)) continue;
        best->again[most] = false;
        best->peak = peak;
        best->work = work;
    }
}

/* If nothing fits: changes one group at a time, choosing the group that removes most bytes above the target,
 * which is slightly below the peak until the limit is reached. */
static void improve(choice *own, best_choice *best) {
    const uint64_t limit = own->chosen->planner->request->live_bytes;
    const int turn = own->chosen->turn;
    double work;
    memcpy(own->trial, best->again, (size_t)turn * sizeof(bool));
    for (int round = 0; round < MAX_IMPROVED && best->peak > limit; round++) {
        const uint64_t target = best->peak - best->peak / LOWER;
        own->target = target > limit ? target : limit;
        count_peak(own, &work);
        double least = own->excess;
        int at = -1;
        for (int g = 0; g < turn; g++) {
            if (!own->may[g] || !own->size[g]) continue;
            own->trial[g] = !own->trial[g];
            if (count_peak(own, &work) < UINT64_MAX && own->excess < least) {
                least = own->excess;
                at = g;
            }
            own->trial[g] = !own->trial[g];
        }
        if (at < 0) return;
        own->trial[at] = !own->trial[at];
        consider(own, best);
    }
}

/* ---- the choice ---------------------------------------------------------------------------------------- */

static void search(choice *own, const int *last_forward, best_choice *best) {
    static const int parts[LENGTHS] = {0, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48};
    uint64_t total = 0;
    double prices[PRICES];
    for (int g = 0; g < own->chosen->turn; g++)
        total += own->saved[g];
    own->failed = own->failed || !find_prices(own, prices);
    for (int l = 0; l < LENGTHS && !own->failed; l++)
        for (int p = 0; p < PRICES; p++)
            for (int quarters = QUARTERS; quarters > 0; quarters--) {
                if (!parts[l] && quarters < QUARTERS) break;
                cut_segments(own, last_forward, parts[l] ? total / (uint64_t)parts[l] + 1 : 0, prices[p],
                             quarters);
                consider(own, best);
            }
    improve(own, best);
    refine(own, best);
}

static bool allocate(choice *own, best_choice *best, int **last_forward) {
    kn_arena *arena = own->chosen->planner->arena;
    const size_t groups = (size_t)own->count + 1, values = own->values + 1;
    kn_recomputation *chosen = own->chosen;
    chosen->maker = kn_arena_take(arena, values, sizeof(int));
    chosen->writer = kn_arena_take(arena, values, sizeof(int));
    chosen->large = kn_arena_take(arena, values, sizeof(bool));
    chosen->again = kn_arena_take(arena, groups, sizeof(bool));
    own->bytes = kn_arena_take(arena, values, sizeof *own->bytes);
    own->reads = kn_arena_take(arena, groups, sizeof *own->reads);
    own->writes = kn_arena_take(arena, groups, sizeof *own->writes);
    own->may = kn_arena_take(arena, groups, sizeof(bool));
    own->work = kn_arena_take(arena, groups, sizeof(double));
    own->flops = kn_arena_take(arena, groups, sizeof(double));
    own->size = kn_arena_take(arena, groups, sizeof(uint64_t));
    own->saved = kn_arena_take(arena, groups, sizeof(uint64_t));
    own->cross = kn_arena_take(arena, groups, sizeof(uint64_t));
    own->first = kn_arena_take(arena, 2 * values, sizeof(int));
    own->last = kn_arena_take(arena, 2 * values, sizeof(int));
    own->change = kn_arena_take(arena, 2 * groups + 2, sizeof(int64_t));
    own->stack = kn_arena_take(arena, groups + 1, sizeof(int));
    own->emitted = kn_arena_take(arena, groups, sizeof(bool));
    own->trial = kn_arena_take(arena, groups, sizeof(bool));
    own->sequence = kn_arena_take(arena, 2 * groups, sizeof(int));
    best->again = kn_arena_take(arena, groups, sizeof(bool));
    *last_forward = kn_arena_take(arena, values, sizeof(int));
    return chosen->maker && chosen->writer && chosen->large && chosen->again && own->bytes && own->reads &&
           own->writes && own->may && own->work && own->flops && own->size && own->saved && own->cross &&
           own->first && own->last && own->change && own->stack && own->emitted && own->trial &&
           own->sequence && best->again && *last_forward;
}

kn_status kn_recomputation_choose(kn_recomputation *chosen) {
    kn_planner *planner = chosen->planner;
    choice own = {.chosen = chosen, .count = planner->group_count, .values = planner->graph->value_count};
    best_choice best = {.peak = UINT64_MAX};
    int *last_forward;
    const uint64_t limit = planner->request->live_bytes;
    if (!allocate(&own, &best, &last_forward))
        return kn_fail_memory(planner->error, (own.values + (size_t)own.count) * 32);
    collect(&own);
    if (!own.failed) {
        classify(&own);
        for (size_t v = 0; v < own.values; v++)
            last_forward[v] = own.last[v];
        best.peak = count_peak(&own, &best.work);
        if (limit && best.peak > limit && chosen->turn < own.count) search(&own, last_forward, &best);
        for (int g = 0; g < chosen->turn; g++)
            own.trial[g] = chosen->again[g] = best.again[g];
        chosen->length = arrange(&own);
        chosen->order = own.sequence;
        chosen->peak = best.peak;
        for (int at = 0; at < chosen->length; at++)
            if (own.sequence[at] >= own.count) chosen->flops += own.flops[own.sequence[at] - own.count];
    }
    kn_release(planner->host, own.items);
    return own.failed ? kn_fail_memory(planner->error, own.item_capacity * sizeof *own.items) : KN_OK;
}
