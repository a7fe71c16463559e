/* The decision of the recompute pass: which groups of the forward pass run again in the backward pass, so
 * that their results need no memory in between (recompute_choice.c). Groups are numbered by their position in
 * order. */
#ifndef KN_PLAN_RECOMPUTE_H
#define KN_PLAN_RECOMPUTE_H

#include "plan/plan_private.h"

typedef struct kn_recomputation {
    kn_planner *planner;
    int turn; /* the first group of the backward pass; earlier groups may be recomputed */
    /* By value id, of the values under views: */
    int *maker;    /* the group that writes it; -1: none */
    int *writer;   /* of a state: the first group that may overwrite it; -1: none */
    bool *large;   /* large enough to matter: readers in the backward pass may use the recomputed value */
    bool *again;   /* by group: recomputed (the choice) */
    int *order;    /* the choice: groups in order; group_count + g is the recomputation of g */
    int length;    /* length of `order` */
    uint64_t peak; /* peak bytes of live values, as counted by this pass */
    double flops;  /* FLOP of recomputed groups */
} kn_recomputation;

/* Chooses groups to recompute so that the peak is at most planner->request->live_bytes with the least work;
 * if that is impossible, minimizes the peak. */
kn_status kn_recomputation_choose(kn_recomputation *chosen);
/* Whether readers in the backward pass, and recomputed groups, read the recomputed value instead of this
 * one. */
bool kn_recomputation_repeats(const kn_recomputation *chosen, kn_value *value);

#endif
