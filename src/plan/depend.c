/* Dependences between groups (depend.h). */
#include "plan/depend.h"

#include <stdlib.h>

bool kn_depends_init(kn_depends *depends, const kn_host *host, size_t most, uint64_t *work) {
    *depends = (kn_depends){.host = host, .work = work, .edge_count = 1};
    int **const lists[] = {&depends->place,    &depends->at,       &depends->reads, &depends->readers,
                           &depends->queue[0], &depends->queue[1], &depends->marks, &depends->moved};
    bool good = true;
    for (size_t i = 0; i < KN_COUNT_OF(lists); i++) {
        *lists[i] = kn_allocate(host, most + 1, sizeof **lists[i]);
        good = good && *lists[i];
    }
    return good;
}

void kn_depends_finish(kn_depends *depends) {
    int *const lists[] = {depends->place,    depends->at,       depends->reads, depends->readers,
                          depends->queue[0], depends->queue[1], depends->marks, depends->moved};
    for (size_t i = 0; i < KN_COUNT_OF(lists); i++)
        kn_release(depends->host, lists[i]);
    kn_release(depends->host, depends->edges);
}

void kn_depends_add(kn_depends *depends) {
    depends->place[depends->count] = depends->at[depends->count] = depends->count;
    depends->count++;
}

/* ---- edges ------------------------------------------------------------------------------------------- */

static void add_edge(kn_depends *depends, int *list, int group) {
    if (!kn_reserve(depends->host, (void **)&depends->edges, &depends->edge_capacity, depends->edge_count + 1,
                    sizeof *depends->edges)) {
        depends->failed = true;
        return;
    }
    depends->edges[depends->edge_count] = (kn_depend_edge){group, *list};
    *list = (int)depends->edge_count++;
}

static bool has_edge(const kn_depends *depends, int group, int other) {
    for (int e = depends->reads[group]; e; e = depends->edges[e].next) {
        ++*depends->work;
        if (depends->edges[e].group == other) return true;
    }
    return false;
}

/* Lists the positions of `from` and of all groups reachable from it along `lists`, up to position `last`;
 * returns how many. */
static int gather(kn_depends *depends, int from, const int *lists, int last, int *places) {
    bool rising = last > depends->place[from];
    int count = 0, mark = ++depends->stamp;
    places[count++] = depends->place[from];
    depends->marks[from] = mark;
    for (int i = 0; i < count; i++)
        for (int e = lists[depends->at[places[i]]]; e; e = depends->edges[e].next) {
            int next = depends->edges[e].group, place = depends->place[next];
            ++*depends->work;
            if (depends->marks[next] == mark || (rising ? place > last : place < last)) continue;
            depends->marks[next] = mark;
            places[count++] = place;
        }
    return count;
}

static int compare_places(const void *left, const void *right) {
    int one = *(const int *)left, other = *(const int *)right;
    return (one > other) - (one < other);
}

/* Moves `other` and its dependences before `group` and its dependents, within the positions that they occupy
 * together. */
static void reorder(kn_depends *depends, int group, int other) {
    int *before = depends->queue[0], *after = depends->queue[1];
    int least = depends->place[group], most = depends->place[other];
    int first = gather(depends, other, depends->reads, least, before);
    int second = gather(depends, group, depends->readers, most, after);
    qsort(before, (size_t)first, sizeof *before, compare_places);
    qsort(after, (size_t)second, sizeof *after, compare_places);
    int *moved = depends->moved;
    for (int i = 0; i < first + second; i++)
        moved[i] = depends->at[i < first ? before[i] : after[i - first]];
    for (int i = 0, b = 0, a = 0; i < first + second; i++) {
        bool from_before = a == second || (b < first && before[b] < after[a]);
        int place = from_before ? before[b++] : after[a++];
        depends->at[place] = moved[i];
        depends->place[moved[i]] = place;
    }
}

void kn_depends_on(kn_depends *depends, int group, int other) {
    if (has_edge(depends, group, other)) return;
    if (depends->place[group] < depends->place[other]) reorder(depends, group, other);
    add_edge(depends, &depends->reads[group], other);
    add_edge(depends, &depends->readers[other], group);
}

void kn_depends_take(kn_depends *depends, int group, int gone) {
    for (int e = depends->readers[gone]; e && !depends->failed; e = depends->edges[e].next)
        if (depends->edges[e].group != group) kn_depends_on(depends, depends->edges[e].group, group);
    for (int e = depends->reads[gone]; e && !depends->failed; e = depends->edges[e].next)
        if (depends->edges[e].group != group) kn_depends_on(depends, group, depends->edges[e].group);
}

/* ---- reachability ------------------------------------------------------------------------------ */

/* One direction of a bidirectional search: the next edge, and the queue of groups to visit. */
typedef struct search_end {
    const int *lists;
    int *queue;
    int start, target, count, done, edge, mark;
} search_end;

static search_end begin(kn_depends *depends, int start, int target, const int *lists, int *queue) {
    depends->marks[start] = ++depends->stamp;
    queue[0] = start;
    return (search_end){lists, queue, start, target, 1, 0, lists[start], depends->stamp};
}

/* Visits one edge: 1: the two directions meet; -1: no edge is left; 0: neither. */
static int step(kn_depends *depends, search_end *end, const search_end *other, bool around) {
    while (!end->edge) {
        if (++end->done == end->count) return -1;
        end->edge = end->lists[end->queue[end->done]];
    }
    const kn_depend_edge *edge = &depends->edges[end->edge];
    bool direct = end->queue[end->done] == end->start && edge->group == end->target;
    int place = depends->place[edge->group], from = depends->place[end->start],
        to = depends->place[end->target];
    end->edge = edge->next;
    ++*depends->work;
    if (direct) return around ? 0 : 1;
    if (depends->marks[edge->group] == other->mark) return 1;
    bool between = from < to ? place < to : place > to;
    if (!between || depends->marks[edge->group] == end->mark) return 0;
    depends->marks[edge->group] = end->mark;
    end->queue[end->count++] = edge->group;
    return 0;
}

bool kn_depends_reach(kn_depends *depends, int group, int other, bool around) {
    if (depends->place[group] <= depends->place[other]) return false;
    search_end down = begin(depends, group, other, depends->reads, depends->queue[0]);
    search_end up = begin(depends, other, group, depends->readers, depends->queue[1]);
    for (;;) {
        int found = step(depends, &down, &up, around);
        if (!found) found = step(depends, &up, &down, around);
        if (found) return found > 0;
    }
}
