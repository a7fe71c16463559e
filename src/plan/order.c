/* The order pass: groups in an order in which everything is computed before it is read, states are
 * overwritten after their last read, and updates run early, a few together, to free their gradients. */
#include "plan/plan_private.h"

enum { UPDATES_TOGETHER = 16 };

typedef struct edge {
    int from, to;
    bool soft; /* wished for, so that a state can be updated in place; dropped where it makes a circle */
} edge;

typedef struct order_pass {
    kn_making *making;
    kn_consumers consumers;
    edge *edges;
    size_t edge_count, edge_capacity;
    int *waiting;      /* by group: edges not yet satisfied */
    int *waiting_hard; /* those of them that are not soft */
    bool *done;
    int current;
    kn_status status;
} order_pass;

static void add_edge(order_pass *ordering, int from, int to, bool soft) {
    if (from == to) return;
    if (!kn_reserve(ordering->making->host, (void **)&ordering->edges, &ordering->edge_capacity,
                    ordering->edge_count + 1, sizeof *ordering->edges)) {
        ordering->status =
            kn_fail_memory(ordering->making->error, ordering->edge_count * sizeof *ordering->edges);
        return;
    }
    ordering->edges[ordering->edge_count++] = (edge){from, to, soft};
    ordering->waiting[to]++;
    if (!soft) ordering->waiting_hard[to]++;
}

static void add_read(void *user, kn_value *value) {
    order_pass *ordering = user;
    kn_value *root = kn_value_root(value);
    kn_group *group = root->producer ? ordering->making->group_of[root->producer->id] : NULL;
    if (group) add_edge(ordering, group->id, ordering->current, false);
}

/* Calls add_edge from each group that reads `value`, through views too, to group `to`. */
static void readers_before(order_pass *ordering, const kn_value *value, int to, bool soft) {
    for (int i = 0; i < ordering->consumers.counts[value->id]; i++) {
        kn_node *reader = ordering->consumers.nodes[value->id][i];
        if (reader->operator->class == KN_CLASS_VIEW) {
            readers_before(ordering, reader->outputs[0], to, soft);
            continue;
        }
        kn_group *group = ordering->making->group_of[reader->id];
        if (group && !(group->anchor && group->anchor->operator->class == KN_CLASS_ASSIGN))
            add_edge(ordering, group->id, to, soft);
    }
}

static kn_status collect_edges(order_pass *ordering) {
    kn_making *making = ordering->making;
    for (int i = 0; i < making->group_count; i++) {
        ordering->current = i;
        kn_group *group = making->groups[i];
        kn_group_reads(making, group, add_read, ordering);
        if (!group->anchor || group->anchor->operator->class != KN_CLASS_ASSIGN) continue;
        kn_value *state = group->anchor->inputs[0], *value = group->anchor->inputs[1];
        readers_before(ordering, state, i, false);
        kn_group *producer = value->producer ? making->group_of[value->producer->id] : NULL;
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

static void finish_group(order_pass *ordering, int id, kn_group **ordered, int *count) {
    ordering->done[id] = true;
    ordered[(*count)++] = ordering->making->groups[id];
    for (size_t i = 0; i < ordering->edge_count; i++) {
        if (ordering->edges[i].from != id) continue;
        ordering->waiting[ordering->edges[i].to]--;
        if (!ordering->edges[i].soft) ordering->waiting_hard[ordering->edges[i].to]--;
    }
}

/* The next group: a run of ready updates when enough are there or nothing else is, otherwise the first in
 * the order of the graph. When only soft edges hold everything up, they give way. */
static int next_group(const order_pass *ordering, bool *in_updates) {
    const kn_making *making = ordering->making;
    int best = -1, best_rank = 0, update = -1, updates = 0, freed = -1, freed_rank = 0;
    for (int i = 0; i < making->group_count; i++) {
        if (ordering->done[i]) continue;
        int rank = rank_of(making->groups[i]);
        if (!ordering->waiting_hard[i] && (freed < 0 || rank < freed_rank)) freed = i, freed_rank = rank;
        if (ordering->waiting[i]) continue;
        if (making->groups[i]->updates) {
            if (update < 0) update = i;
            updates++;
        } else if (best < 0 || rank < best_rank)
            best = i, best_rank = rank;
    }
    if (updates == 0)
        *in_updates = false;
    else if (updates >= UPDATES_TOGETHER || best < 0)
        *in_updates = true;
    if (*in_updates) return update;
    return best >= 0 ? best : freed;
}

kn_status kn_pass_order(kn_making *making) {
    size_t count = (size_t)making->group_count;
    order_pass ordering = {.making = making, .status = KN_OK};
    ordering.waiting = kn_arena_take(making->arena, count + 1, sizeof(int));
    ordering.waiting_hard = kn_arena_take(making->arena, count + 1, sizeof(int));
    ordering.done = kn_arena_take(making->arena, count + 1, sizeof(bool));
    kn_group **ordered = kn_arena_take(making->arena, count + 1, sizeof *ordered);
    if (!ordering.waiting || !ordering.waiting_hard || !ordering.done || !ordered)
        return kn_fail_memory(making->error, count * 16);
    kn_status status = kn_consumers_make(making, &ordering.consumers);
    if (status == KN_OK) status = collect_edges(&ordering);
    int done = 0;
    bool in_updates = false;
    while (status == KN_OK && done < making->group_count) {
        int next = next_group(&ordering, &in_updates);
        if (next < 0)
            status = kn_fail(making->error, KN_ERROR_INTERNAL, "the order of the steps has a circle");
        else
            finish_group(&ordering, next, ordered, &done);
    }
    kn_release(making->host, ordering.edges);
    if (status != KN_OK) return status;
    for (int i = 0; i < making->group_count; i++) {
        making->groups[i] = ordered[i];
        making->groups[i]->id = i;
    }
    return KN_OK;
}
