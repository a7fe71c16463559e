/* Finds gaps between the intervals in a block that are live during given steps.
 *
 * The intervals are in a treap (a randomized binary search tree) ordered by offset, with a fixed random
 * sequence. Each subtree stores the range of steps in which any of its intervals is live, and a core: its
 * longest-lived intervals, the steps in which all of them are live, and the largest gap between them. A
 * search skips subtrees without a live interval, and cores without a large enough gap. */
#ifndef KN_PLAN_GAPS_H
#define KN_PLAN_GAPS_H

#include "base/base.h"

/* An interval with an offset, and the subtree of which it is the root. */
typedef struct kn_gap_branch {
    int left, right; /* subtrees; 0: none */
    uint32_t weight; /* random; a parent's is at least its children's */
    int first, last;
    uint64_t offset, bytes;
    int first_min, last_max;   /* of all intervals of the subtree */
    uint64_t end;              /* the largest end in the subtree */
    int core_first, core_last; /* the steps in which all intervals of the core are live */
    int core_length;           /* the longest lifetime in the subtree */
    uint64_t core_begin, core_end, core_gap;
} kn_gap_branch;

typedef struct kn_gaps {
    kn_gap_branch *branches; /* indexed from 1 */
    uint64_t *work;          /* counts visited subtrees */
} kn_gaps;

/* Adds interval `number` (from 0), live in steps first to last, at `offset`. root: 0 for an empty tree.
 * Returns the new root. */
int kn_gaps_add(kn_gaps *gaps, int root, int number, int first, int last, uint64_t offset, uint64_t bytes);

/* A search for gaps of at least `need` bytes between the intervals that are live in steps first to last.
 * `found` is called for each gap in order of offsets until it returns false. */
typedef struct kn_gap_search {
    int first, last;
    uint64_t need;
    bool (*found)(void *user, uint64_t offset, uint64_t bytes);
    void *user;
    uint64_t cursor; /* 0 initially; after a search that ran to the end, the end of the last live interval */
    bool ended;      /* set when `found` returned false */
} kn_gap_search;
void kn_gaps_find(kn_gaps *gaps, int root, kn_gap_search *search);

#endif
