/* Which groups depend on which while groups form: a graph without circles that grows by groups and edges.
 *
 * Each group has a place in an order in which it stands behind all that it depends on, kept while edges come
 * (Pearce and Kelly, 2006): what an edge puts in the wrong order changes places, and nothing else is touched.
 * A question looks at groups between the two places alone, from both ends at once, so that the nearer end
 * decides what it costs. */
#ifndef KN_PLAN_DEPEND_H
#define KN_PLAN_DEPEND_H

#include "base/base.h"

typedef struct kn_depend_edge {
    int group, next; /* next in the list, from 1; 0: the last */
} kn_depend_edge;

typedef struct kn_depends {
    const kn_host *host;
    uint64_t *work; /* counts the edges looked at */
    int count;
    int *place, *at;       /* by group: its place in the order; by place: its group */
    int *reads, *readers;  /* by group: the first edge to those that it depends on itself, that depend on it
                              themselves */
    int *queue[2], *marks; /* of searches */
    int *moved;            /* groups that change places */
    int stamp;
    kn_depend_edge *edges; /* from 1 */
    size_t edge_count, edge_capacity;
    bool failed; /* out of memory: the answers are worth nothing */
} kn_depends;

/* Room for `most` groups; false when out of memory. Finish in either case. */
bool kn_depends_init(kn_depends *depends, const kn_host *host, size_t most, uint64_t *work);
void kn_depends_finish(kn_depends *depends);
/* The next group, numbered from 0, which depends on nothing. */
void kn_depends_add(kn_depends *depends);
/* From now on `group` depends on `other`, which does not depend on it. */
void kn_depends_on(kn_depends *depends, int group, int other);
/* From now on `group` depends on all that `gone` depends on, and all that depends on `gone` depends on it.
 * `gone` stays where it is. The two depend on each other at most directly. */
void kn_depends_take(kn_depends *depends, int group, int gone);
/* Whether `group` depends on `other`; with `around`, whether it does so through a third. */
bool kn_depends_reach(kn_depends *depends, int group, int other, bool around);

#endif
