/* The order pass: groups in an order in which everything is computed before it is read, states are
 * overwritten after their last read, and updates run early, a few together, to free their gradients. */
#include "plan/plan_private.h"

enum { UPDATES_TOGETHER = 16 };

typedef struct edge {
    int to;
    bool soft;   /* wished for, so that a state can be updated in place; dropped where it makes a circle */
    size_t next; /* of the same group, from 1; 0: the last */
} edge;

/* Groups that may come, the one with the lowest key on top. */
typedef struct heap {
    int64_t *items; /* the key, and in the low half the group */
    size_t count;
} heap;

typedef struct order_pass {
    kn_planner *planner;
    edge *edges; /* from 1 */
    size_t edge_count, edge_capacity;
    size_t *edges_from; /* by group: the first of its edges */
    int *waiting;       /* by group: edges not yet satisfied */
    int *waiting_hard;  /* those of them that are not soft */
    bool *done;
    heap ready, updates; /* who waits for nothing, by rank; updates, by position */
    heap freed;          /* who waits for soft edges at most, by rank; among them who is done */
    int current;
    kn_status status;
} order_pass;

static void add_edge(order_pass *ordering, int from, int to, bool soft) {
    if (from == to) return;
    if (!kn_reserve(ordering->planner->host, (void **)&ordering->edges, &ordering->edge_capacity,
                    ordering->edge_count + 2, sizeof *ordering->edges)) {
        ordering->status =
            kn_fail_memory(ordering->planner->error, ordering->edge_count * sizeof *ordering->edges);
        return;
    }
    ordering->planner->work++;
    ordering->edges[++ordering->edge_count] = (edge){to, soft, ordering->edges_from[from]};
    ordering->edges_from[from] = ordering->edge_count;
    ordering->waiting[to]++;
    if (!soft) ordering->waiting_hard[to]++;
}

static void add_read(void *user, kn_value *value) {
    order_pass *ordering = user;
    kn_value *root = kn_value_root(value);
    kn_group *group = root->producer ? ordering->planner->group_of[root->producer->id] : NULL;
    if (group) add_edge(ordering, group->id, ordering->current, false);
}

/* Calls add_edge from each group that reads `value`, through views too, to group `to`. */
static void readers_before(order_pass *ordering, const kn_value *value, int to, bool soft) {
    for (int i = 0; i < ordering->planner->consumers.counts[value->id]; i++) {
        kn_node *reader = ordering->planner->consumers.nodes[value->id][i];
        if (reader->op->class == KN_CLASS_VIEW) {
            readers_before(ordering, reader->outputs[0], to, soft);
            continue;
        }
        kn_group *group = ordering->planner->group_of[reader->id];
        if (group && !(group->anchor && group->anchor->op->class == KN_CLASS_ASSIGN))
            add_edge(ordering, group->id, to, soft);
    }
}

static kn_status collect_edges(order_pass *ordering) {
    kn_planner *planner = ordering->planner;
    for (int i = 0; i < planner->group_count; i++) {
        ordering->current = i;
        kn_group *group = planner->groups[i];
        kn_group_reads(planner, group, add_read, ordering);
        if (!group->anchor || group->anchor->op->class != KN_CLASS_ASSIGN) continue;
        kn_value *state = group->anchor->inputs[0], *value = group->anchor->inputs[1];
        readers_before(ordering, state, i, false);
        kn_group *producer = value->producer ? planner->group_of[value->producer->id] : NULL;
        if (!producer) continue;
        readers_before(ordering, state, producer->id, true);
        producer->updates = state->role == KN_STATE_PARAMETER || state->role == KN_STATE_OPTIMIZER;
    }
    return ordering->status;
}

static int rank_of(const kn_group *group) {
    int rank = group->anchor ? group->anchor->id : -1;
    for (int i = 0; i < group->member_count; i++)
        if (group->members[i]->id > rank) rank = group->members[i]->id;
    return rank;
}

/* ---- who comes next ---------------------------------------------------------------------------------- */

static void put(order_pass *ordering, heap *queue, int key, int id) {
    int64_t item = (int64_t)key * (INT64_C(1) << 32) + id;
    size_t at = queue->count++;
    for (; at > 0 && queue->items[(at - 1) / 2] > item; at = (at - 1) / 2) {
        queue->items[at] = queue->items[(at - 1) / 2];
        ordering->planner->work++;
    }
    queue->items[at] = item;
}

static int top(const heap *queue) {
    return queue->count ? (int)(queue->items[0] & INT32_MAX) : -1;
}

static void drop_top(order_pass *ordering, heap *queue) {
    int64_t item = queue->items[--queue->count];
    size_t at = 0;
    for (size_t next = 1; next < queue->count; next = 2 * at + 1) {
        if (next + 1 < queue->count && queue->items[next + 1] < queue->items[next]) next++;
        if (queue->items[next] >= item) break;
        queue->items[at] = queue->items[next];
        at = next;
        ordering->planner->work++;
    }
    queue->items[at] = item;
}

/* Puts a group where it can be found, as soon as it waits for nothing, or for soft edges alone. */
static void settle(order_pass *ordering, int id, bool hard) {
    const kn_group *group = ordering->planner->groups[id];
    if (ordering->done[id]) return;
    if (hard && !ordering->waiting_hard[id]) put(ordering, &ordering->freed, rank_of(group), id);
    if (ordering->waiting[id]) return;
    if (group->updates)
        put(ordering, &ordering->updates, id, id);
    else
        put(ordering, &ordering->ready, rank_of(group), id);
}

static void finish_group(order_pass *ordering, int id) {
    ordering->done[id] = true;
    for (size_t e = ordering->edges_from[id]; e; e = ordering->edges[e].next) {
        const edge *here = &ordering->edges[e];
        ordering->planner->work++;
        ordering->waiting[here->to]--;
        if (!here->soft) ordering->waiting_hard[here->to]--;
        settle(ordering, here->to, !here->soft);
    }
}

/* The next group: a run of ready updates when enough are there or nothing else is, otherwise the first in
 * the order of the graph. When only soft edges hold everything up, they give way. -1: none can come. */
static int next_group(order_pass *ordering, bool *in_updates) {
    heap *ready = &ordering->ready, *updates = &ordering->updates, *freed = &ordering->freed;
    if (updates->count == 0)
        *in_updates = false;
    else if (updates->count >= UPDATES_TOGETHER || ready->count == 0)
        *in_updates = true;
    while (freed->count && ordering->done[top(freed)])
        drop_top(ordering, freed);
    heap *from = *in_updates ? updates : ready->count ? ready : freed;
    int next = top(from);
    if (next >= 0) drop_top(ordering, from);
    return next;
}

static kn_status prepare(order_pass *ordering) {
    kn_planner *planner = ordering->planner;
    size_t count = (size_t)planner->group_count + 1;
    heap *const queues[] = {&ordering->ready, &ordering->updates, &ordering->freed};
    ordering->edges_from = kn_arena_take(planner->arena, count, sizeof *ordering->edges_from);
    ordering->waiting = kn_arena_take(planner->arena, count, sizeof(int));
    ordering->waiting_hard = kn_arena_take(planner->arena, count, sizeof(int));
    ordering->done = kn_arena_take(planner->arena, count, sizeof(bool));
    bool good = ordering->edges_from && ordering->waiting && ordering->waiting_hard && ordering->done;
    for (size_t i = 0; i < KN_COUNT_OF(queues); i++) {
        queues[i]->items = kn_arena_take(planner->arena, count, sizeof *queues[i]->items);
        good = good && queues[i]->items;
    }
    return good ? KN_OK : kn_fail_memory(planner->error, count * 48);
}

kn_status kn_pass_order(kn_planner *planner) {
    order_pass ordering = {.planner = planner, .status = KN_OK};
    kn_group **ordered = kn_arena_take(planner->arena, (size_t)planner->group_count + 1, sizeof *ordered);
    if (!ordered) return kn_fail_memory(planner->error, (size_t)planner->group_count * sizeof *ordered);
    kn_status status = prepare(&ordering);
    if (status == KN_OK) status = collect_edges(&ordering);
    for (int i = 0; i < planner->group_count && status == KN_OK; i++)
        settle(&ordering, i, true);
    bool in_updates = false;
    for (int done = 0; done < planner->group_count && status == KN_OK; done++) {
        int next = next_group(&ordering, &in_updates);
        if (next < 0) {
            status = kn_fail(planner->error, KN_ERROR_INTERNAL, "the order of the steps has a circle");
            break;
        }
        ordered[done] = planner->groups[next];
        finish_group(&ordering, next);
    }
    kn_release(planner->host, ordering.edges);
    if (status != KN_OK) return status;
    for (int i = 0; i < planner->group_count; i++) {
        planner->groups[i] = ordered[i];
        planner->groups[i]->id = i;
    }
    return KN_OK;
}
