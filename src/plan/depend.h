/* Dependences between groups while the fuse pass forms them: a directed acyclic graph to which groups and
 * edges are added.
 *
 * A topological order is maintained as edges are added (Pearce and Kelly, 2006): an edge that contradicts the
 * order moves only the groups that it affects. A reachability query searches only the groups between the two
 * positions, alternating between both ends, so it costs about twice as much as the cheaper direction. */
#ifndef KN_PLAN_DEPEND_H
#define KN_PLAN_DEPEND_H

#include "base/base.h"

typedef struct kn_depend_edge {
    int group, next; /* next: the next edge of the list, from 1; 0: end of list */
} kn_depend_edge;

typedef struct kn_depends {
    const kn_host *host;
    uint64_t *work; /* counts the edges visited */
    int count;
    int *place, *at;       /* by group: its position in the order; by position: its group */
    int *reads, *readers;  /* by group: the first direct edge to the groups that it depends on, and to its
                              dependents */
    int *queue[2], *marks; /* for searches */
    int *moved;            /* the groups that a reorder moves */
    int stamp;
    kn_depend_edge *edges; /* indexed from 1 */
    size_t edge_count, edge_capacity;
    bool failed; /* out of memory: results are undefined */
} kn_depends;

/* Allocates memory for up to `most` groups; false when out of memory. Call finish in either case. */
bool kn_depends_init(kn_depends *depends, const kn_host *host, size_t most, uint64_t *work);
void kn_depends_finish(kn_depends *depends);
/* Adds the next group, numbered from 0, with no dependences. */
void kn_depends_add(kn_depends *depends);
/* Makes `group` depend on `other`, which must not depend on `group`. */
void kn_depends_on(kn_depends *depends, int group, int other);
/* Adds the dependences of `gone`, in both directions, to `group`; `gone` itself is unchanged. The two must
 * not depend on each other through a third group. */
void kn_depends_take(kn_depends *depends, int group, int gone);
/* Whether `group` depends on `other`; with `around`, whether it does so through a third group. */
bool kn_depends_reach(kn_depends *depends, int group, int other, bool around);

#endif
