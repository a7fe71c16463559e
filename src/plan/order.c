/* The order pass: a topological order of the groups in which states are overwritten after their last read,
 * and updates run early, several in succession, to free the memory of gradients. */
#include "plan/plan_private.h"

enum { MIN_UPDATE_RUN = 16 };

typedef struct edge {
    int to;
    bool soft;   /* a preference, so that a state can be updated in place; ignored if it creates a cycle */
    size_t next; /* the next edge of the same group, from 1; 0: end of list */
} edge;

/* A priority queue of groups; the lowest key is at the top. */
typedef struct heap {
    int64_t *items; /* the key in the high half, the group in the low half */
    size_t count;
} heap;

typedef struct order_pass {
    kn_planner *planner;
    edge *edges; /* indexed from 1 */
    size_t edge_count, edge_capacity;
    size_t *edges_from; /* by group: its first edge */
    int *waiting;       /* by group: number of unsatisfied edges */
    int *waiting_hard;  /* by group: number of unsatisfied edges that are not soft */
    bool *done;
    heap ready, updates; /* groups with no unsatisfied edges, by rank; ready updates, by position */
    heap freed; /* groups with only soft unsatisfied edges, by rank; may contain groups that have become ready
                 */
    heap last;  /* ready groups of KN_TURN_LAST, by rank */
    int current;
    kn_status status;
} order_pass;

static void add_edge(order_pass *pass, int from, int to, bool soft) {
    if (from == to) return;
    if (!kn_reserve(pass->planner->host, (void **)&pass->edges, &pass->edge_capacity, pass->edge_count + 2,
                    sizeof *pass->edges)) {
        pass->status = kn_fail_memory(pass->planner->error, pass->edge_count * sizeof *pass->edges);
        return;
    }
    pass->planner->work++;
    pass->edges[++pass->edge_count] = (edge){to, soft, pass->edges_from[from]};
    pass->edges_from[from] = pass->edge_count;
    pass->waiting[to]++;
    if (!soft) pass->waiting_hard[to]++;
}

static void add_read(void *user, kn_value *value) {
    order_pass *pass = user;
    kn_value *root = kn_value_root(value);
    kn_group *group = root->producer ? pass->planner->group_of[root->producer->id] : NULL;
    if (group) add_edge(pass, group->id, pass->current, false);
}

/* Adds an edge to group `to` from each group that reads `value`, including readers through views. */
static void add_reader_edges(order_pass *pass, const kn_value *value, int to, bool soft) {
    for (int i = 0; i < pass->planner->consumers.counts[value->id]; i++) {
        kn_node *reader = pass->planner->consumers.nodes[value->id][i];
        if (reader->op->class == KN_CLASS_VIEW) {
            add_reader_edges(pass, reader->outputs[0], to, soft);
            continue;
        }
        kn_group *group = pass->planner->group_of[reader->id];
        if (group && !(group->anchor && group->anchor->op->class == KN_CLASS_ASSIGN))
            add_edge(pass, group->id, to, soft);
    }
}

static kn_status collect_edges(order_pass *pass) {
    kn_planner *planner = pass->planner;
    for (int i = 0; i < planner->group_count; i++) {
        pass->current = i;
        kn_group *group = planner->groups[i];
        kn_group_reads(planner, group, add_read, pass);
        if (!group->anchor || group->anchor->op->class != KN_CLASS_ASSIGN) continue;
        kn_value *state = group->anchor->inputs[0], *value = group->anchor->inputs[1];
        add_reader_edges(pass, state, i, false);
        kn_group *producer = value->producer ? planner->group_of[value->producer->id] : NULL;
        if (!producer) continue;
        add_reader_edges(pass, state, producer->id, true);
        producer->updates = state->role == KN_STATE_PARAMETER || state->role == KN_STATE_OPTIMIZER;
    }
    return pass->status;
}

/* Stores to host memory run as early as possible, to free device memory. */
static kn_turn turn_of(const kn_group *group) {
    if (group->anchor && kn_node_stores(group->anchor)) return KN_TURN_FIRST;
    return group->anchor ? group->anchor->op->turn : KN_TURN_BY_GRAPH;
}

static int rank_of(const kn_group *group) {
    int rank = group->anchor ? group->anchor->id : -1;
    if (turn_of(group) == KN_TURN_FIRST) return -1;
    if (group->summed && group->summed->id > rank) rank = group->summed->id;
    for (int i = 0; i < group->member_count; i++)
        if (group->members[i]->id > rank) rank = group->members[i]->id;
    return rank;
}

/* ---- the next group ---------------------------------------------------------------------------- */

static void push(order_pass *pass, heap *queue, int key, int id) {
    int64_t item = (int64_t)key * (INT64_C(1) << 32) + id;
    size_t at = queue->count++;
    for (; at > 0 && queue->items[(at - 1) / 2] > item; at = (at - 1) / 2) {
        queue->items[at] = queue->items[(at - 1) / 2];
        pass->planner->work++;
    }
    queue->items[at] = item;
}

static int top(const heap *queue) {
    return queue->count ? (int)(queue->items[0] & INT32_MAX) : -1;
}

static void drop_top(order_pass *pass, heap *queue) {
    int64_t item = queue->items[--queue->count];
    size_t at = 0;
    for (size_t next = 1; next < queue->count; next = 2 * at + 1) {
        if (next + 1 < queue->count && queue->items[next + 1] < queue->items[next]) next++;
        if (queue->items[next] >= item) break;
        queue->items[at] = queue->items[next];
        at = next;
        pass->planner->work++;
    }
    queue->items[at] = item;
}

/* Puts a group into its queue if it is ready or only soft edges are unsatisfied. */
static void enqueue_ready(order_pass *pass, int id, bool hard) {
    const kn_group *group = pass->planner->groups[id];
    if (pass->done[id]) return;
    const bool last = turn_of(group) == KN_TURN_LAST;
    if (hard && !pass->waiting_hard[id] && !last) push(pass, &pass->freed, rank_of(group), id);
    if (pass->waiting[id]) return;
    if (last)
        push(pass, &pass->last, rank_of(group), id);
    else if (group->updates)
        push(pass, &pass->updates, id, id);
    else
        push(pass, &pass->ready, rank_of(group), id);
}

static void finish_group(order_pass *pass, int id) {
    pass->done[id] = true;
    for (size_t e = pass->edges_from[id]; e; e = pass->edges[e].next) {
        const edge *here = &pass->edges[e];
        pass->planner->work++;
        pass->waiting[here->to]--;
        if (!here->soft) pass->waiting_hard[here->to]--;
        enqueue_ready(pass, here->to, !here->soft);
    }
}

/* The next group. A run of updates starts when enough are ready, or nothing else is ready except gather nodes
 * (which need everything that workers share before them); otherwise groups run in graph order. Ignores soft
 * edges if they block everything except groups of KN_TURN_LAST. -1: there is a cycle. */
static int next_group(order_pass *pass, bool *in_updates) {
    heap *ready = &pass->ready, *updates = &pass->updates, *freed = &pass->freed, *last = &pass->last;
    const int rest = top(last);
    const bool others = rest >= 0 && !kn_node_gathers(pass->planner->groups[rest]->anchor);
    if (updates->count == 0)
        *in_updates = false;
    else if (updates->count >= MIN_UPDATE_RUN || (ready->count == 0 && !others))
        *in_updates = true;
    while (freed->count && (pass->done[top(freed)] || !pass->waiting[top(freed)]))
        drop_top(pass, freed);
    heap *from = *in_updates ? updates : ready->count ? ready : freed->count ? freed : last;
    int next = top(from);
    if (next >= 0) drop_top(pass, from);
    return next;
}

static kn_status prepare(order_pass *pass) {
    kn_planner *planner = pass->planner;
    size_t count = (size_t)planner->group_count + 1;
    heap *const queues[] = {&pass->ready, &pass->updates, &pass->freed, &pass->last};
    pass->edges_from = kn_arena_take(planner->arena, count, sizeof *pass->edges_from);
    pass->waiting = kn_arena_take(planner->arena, count, sizeof(int));
    pass->waiting_hard = kn_arena_take(planner->arena, count, sizeof(int));
    pass->done = kn_arena_take(planner->arena, count, sizeof(bool));
    bool good = pass->edges_from && pass->waiting && pass->waiting_hard && pass->done;
    for (size_t i = 0; i < KN_COUNT_OF(queues); i++) {
        queues[i]->items = kn_arena_take(planner->arena, count, sizeof *queues[i]->items);
        good = good && queues[i]->items;
    }
    return good ? KN_OK : kn_fail_memory(planner->error, count * 48);
}

kn_status kn_pass_order(kn_planner *planner) {
    order_pass pass = {.planner = planner, .status = KN_OK};
    kn_group **ordered = kn_arena_take(planner->arena, (size_t)planner->group_count + 1, sizeof *ordered);
    if (!ordered) return kn_fail_memory(planner->error, (size_t)planner->group_count * sizeof *ordered);
    kn_status status = prepare(&pass);
    if (status == KN_OK) status = collect_edges(&pass);
    for (int i = 0; i < planner->group_count && status == KN_OK; i++)
        enqueue_ready(&pass, i, true);
    bool in_updates = false;
    for (int done = 0; done < planner->group_count && status == KN_OK; done++) {
        int next = next_group(&pass, &in_updates);
        if (next < 0) {
            status =
                kn_fail(planner->error, KN_ERROR_INTERNAL, "the dependences between groups have a cycle");
            break;
        }
        ordered[done] = planner->groups[next];
        finish_group(&pass, next);
    }
    kn_release(planner->host, pass.edges);
    if (status != KN_OK) return status;
    for (int i = 0; i < planner->group_count; i++) {
        planner->groups[i] = ordered[i];
        planner->groups[i]->id = i;
    }
    return KN_OK;
}
