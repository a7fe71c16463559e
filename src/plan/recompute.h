/* What the recompute pass decides: which groups of the forward pass run again in the backward pass, so that
 * their results need no memory in between (recompute_choice.c). Groups are numbered by their position in
 * order. */
#ifndef KN_PLAN_RECOMPUTE_H
#define KN_PLAN_RECOMPUTE_H

#include "plan/plan_private.h"

typedef struct kn_recomputation {
    kn_planner *planner;
    int turn; /* the first group of the backward pass; those before it may run again */
    /* By value id, of what a view shows: */
    int *maker;    /* the group that writes it; -1: none */
    int *writer;   /* of a state: the first group that may overwrite it; -1: none */
    bool *large;   /* worth the memory: readers in the backward pass wait for the repeated one */
    bool *again;   /* by group: runs again. What is chosen */
    int *order;    /* what is chosen: groups in order; group_count + g is g, run again */
    int length;    /* of order */
    uint64_t peak; /* the most bytes of values that are live at a time, as this pass counts them */
    double flops;  /* of what runs again */
} kn_recomputation;

/* Chooses what runs again, so that the peak is at most planner->request->live_bytes where that is possible;
 * of what is possible, the least work, and otherwise the lowest peak. */
kn_status kn_recomputation_choose(kn_recomputation *chosen);
/* Whether readers in the backward pass, and groups that run again, read a repeated value in place of this
 * one. */
bool kn_recomputation_repeats(const kn_recomputation *chosen, kn_value *value);

#endif
