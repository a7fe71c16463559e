/* What a trainer is made of. */
#ifndef KN_TRAINER_PRIVATE_H
#define KN_TRAINER_PRIVATE_H

#include "train/train.h"

enum { EVALUATORS = 4, EVALUATED = 16 };

/* An inference session on the same states, kept for the values that it was asked for. */
typedef struct kn_evaluator {
    kn_session *session;
    kn_value *values[EVALUATED];
    double graph_made; /* another graph may stand where theirs stood */
    size_t count;
    uint64_t used; /* when last, for throwing the oldest out */
} kn_evaluator;

struct kn_trainer {
    kn_host host;
    kn_context *context;
    kn_error error;
    kn_status made; /* KN_OK if the trainer can be used */
    kn_trainer_params params;
    kn_session *session;
    kn_states *states; /* the session's, or the caller's */
    kn_graph *graph;   /* a copy of what the loss needs, for looking into a step that went wrong */
    kn_value *loss;    /* in it */
    char *loss_name;
    uint64_t steps;
    kn_evaluator evaluators[EVALUATORS];
    uint64_t evaluations;
};

/* ---- snapshot.c: all states of a trainer, on the host ------------------------------------------ */

typedef struct kn_kept_state kn_kept_state;
typedef struct kn_snapshot {
    kn_trainer *trainer;
    kn_kept_state *kept;
    int count;
    bool taken;
    uint64_t steps;
} kn_snapshot;

/* Keeps the states as they are now, in place of those kept before. *problem says why where it fails. */
kn_status kn_snapshot_take(kn_snapshot *snapshot, const char **problem);
/* Gives the trainer the kept states and its steps back. */
kn_status kn_snapshot_restore(const kn_snapshot *snapshot, const char **problem);
void kn_snapshot_finish(kn_snapshot *snapshot);

#endif
