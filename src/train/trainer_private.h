/* What a trainer is made of. */
#ifndef KN_TRAINER_PRIVATE_H
#define KN_TRAINER_PRIVATE_H

#include <koine/fit.h>

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

/* What the schedule PLATEAU remembers; a state of these numbers in float64, in their order. */
typedef struct kn_plateau {
    double share;    /* what falls left of the rate */
    double lowest;   /* loss */
    double bad;      /* judgements since that count */
    double cooldown; /* judgements left that do not */
    double step;     /* of the last judgement */
} kn_plateau;
#define KN_TRAIN_PLATEAU "koine.plateau"

struct kn_trainer {
    kn_host host;
    kn_context *context;
    kn_error error;
    kn_status made; /* KN_OK if the trainer can be used */
    kn_trainer_params params;
    kn_parameter_group *groups; /* copies of what params point to */
    uint64_t *milestones;
    kn_update_setting *settings;
    size_t setting_count;
    kn_plateau plateau;
    bool averages_used; /* the states hold averages under the parameters' names, and parameters as averages */
    kn_session *session;
    kn_states *states; /* the session's, or the caller's */
    kn_value *loss;    /* in the session's graph, for looking into a step that went wrong */
    char *loss_name;
    uint64_t steps;
    float loss_begun,
        extra_begun; /* where the loss of a step that was begun arrives, and the value beside it */
    kn_evaluator evaluators[EVALUATORS];
    uint64_t evaluations;
};

/* ---- parameters.c: what params say ---------------------------------------------------------------- */

/* Checks and copies params (NULL: defaults). */
kn_status kn_trainer_take_params(kn_trainer *trainer, const kn_trainer_params *params);
void kn_trainer_release_params(kn_trainer *trainer);
/* Fails if a group's pattern fits none of the parameters that the loss depends on. */
kn_status kn_trainer_check_groups(kn_trainer *trainer, kn_value *loss);

/* ---- trainer.c: a step in two halves --------------------------------------------------------------- */

/* Queues a step and returns; nothing but the two calls below comes before it is ended. `ahead`: the feeds are
 * those of the last kn_trainer_feed_ahead. `extra`: an extra value, a float32 scalar, to be read beside the
 * loss; NULL: none. */
kn_status kn_trainer_begin_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                bool ahead, const char *extra);
/* Writes what the next step is fed, beside the one that was begun; the data may change afterwards. */
kn_status kn_trainer_feed_ahead(kn_trainer *trainer, const kn_feed *feeds, size_t feed_count);
/* Waits for the step that was begun. *extra is NaN where none was asked for. */
kn_status kn_trainer_end_step(kn_trainer *trainer, double *loss, double *extra);

/* ---- plateau.c, average.c: what is remembered in states of their own -------------------------------- */

/* Looks at the states for what was remembered: after they were loaded or set back. */
void kn_trainer_recall(kn_trainer *trainer);
void kn_plateau_recall(kn_trainer *trainer);
void kn_average_recall(kn_trainer *trainer);
/* Whether there is a state of that name, without an error where there is none. */
bool kn_state_is_there(const kn_states *states, const char *name);
/* Whether the present step has a judgement already, or the schedule needs none. */
bool kn_plateau_is_judged(const kn_trainer *trainer);

/* ---- remember.c: what the training loop knows ------------------------------------------------------- */

typedef struct kn_fit_memory {
    double judged;         /* step of the last judgement at the end of an epoch; 0: none */
    kn_score best;         /* the one with the lowest validation loss; samples 0: none yet */
    double best_step;      /* where it was */
    double since_best;     /* epochs */
    double loss, samples;  /* of this epoch: the sum over its samples so far, and how many */
    double right, counted; /* the same of its accuracy; fewer where an older file knows none */
} kn_fit_memory;
#define KN_FIT_MEMORY "koine.fit"
#define KN_FIT_ACCURACY "koine.fit.accuracy"

kn_status kn_fit_remember(kn_trainer *trainer, const kn_fit_memory *memory);
/* False, with nothing written, where the states have none. */
bool kn_fit_recall(const kn_trainer *trainer, kn_fit_memory *memory);

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
