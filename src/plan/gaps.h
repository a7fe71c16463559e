/* Tenants that have their places in a block, and the gaps between those that are alive at some time.
 *
 * They stand in a tree by their offsets. Each branch knows when somebody in it is alive, and has a core:
 * those in it that live longest, when all of them are alive, and the largest gap between them. A question
 * passes over branches in which nobody is alive at its time, and over cores that are too dense. The tree is
 * balanced by chance, from numbers that are always the same. */
#ifndef KN_PLAN_GAPS_H
#define KN_PLAN_GAPS_H

#include "base/base.h"

/* A tenant at its place, and the branch that begins with it. */
typedef struct kn_gap_branch {
    int left, right; /* branches; 0: none */
    uint32_t weight; /* the heavier stands above */
    int first, last;
    uint64_t offset, bytes;
    int first_least, last_most; /* of all */
    uint64_t end;
    int core_first, core_last; /* between which all of the core are alive */
    int core_length;           /* the longest life */
    uint64_t core_begin, core_end, core_gap;
} kn_gap_branch;

typedef struct kn_gaps {
    kn_gap_branch *branches; /* from 1 */
    uint64_t *work;          /* counts the branches looked at */
} kn_gaps;

/* Adds tenant `number` (from 0), alive in steps first to last, at a place of some bytes; answers the tree's
 * new root, where 0 was an empty one. */
int kn_gaps_add(kn_gaps *gaps, int root, int number, int first, int last, uint64_t offset, uint64_t bytes);

/* What is looked for: gaps of at least `need` between those that are alive in steps first to last. Each one
 * that is large enough is told, in the order of the offsets, until `found` answers false. */
typedef struct kn_gap_search {
    int first, last;
    uint64_t need;
    bool (*found)(void *user, uint64_t offset, uint64_t bytes);
    void *user;
    uint64_t cursor; /* from 0; then the end of the last that is alive, unless the search was ended */
    bool ended;
} kn_gap_search;
void kn_gaps_find(kn_gaps *gaps, int root, kn_gap_search *search);

#endif
