/* The members of a trainer. */
#ifndef KN_TRAINER_PRIVATE_H
#define KN_TRAINER_PRIVATE_H

#include <koine/fit.h>

#include "train/train.h"

enum { EVALUATORS = 4, EVALUATED = 16 };

/* An inference session on the same states, cached by the values that it computes. */
typedef struct kn_evaluator {
    kn_session *session;
    kn_value *values[EVALUATED];
    double graph_made; /* distinguishes graphs at the same address */
    size_t count;
    uint64_t used; /* time of the last use, for evicting the oldest */
} kn_evaluator;

/* The memory of the schedule PLATEAU, stored as a float64 state in this order. */
typedef struct kn_plateau {
    double fraction; /* the remaining fraction of the rate */
    double lowest;   /* lowest loss */
    double bad;      /* evaluations without improvement */
    double cooldown; /* remaining evaluations that are not counted */
    double step;     /* step of the last evaluation */
} kn_plateau;
#define KN_TRAIN_PLATEAU "koine.plateau"

/* A step that has begun: receives its loss and the extra value, which are valid when `read` is complete, or
 * without an event when all work of the session is. */
enum { KN_STEPS_BEGUN = 2 };
typedef struct kn_begun_step {
    float loss, extra;
    kn_event read;
} kn_begun_step;

/* Sums over a whole batch for training in shards (batch_sums.c). */
typedef struct kn_counts {
    size_t total_count, sum_count;
    bool *means;         /* by total: a mean, not a sum */
    bool scaled;         /* sums that are not totals are scaled to the batch */
    int depth;           /* how often the session runs per step, so that totals of totals are right */
    kn_session *session; /* computes the totals; NULL: there are none */
} kn_counts;

/* A round of steps without exchange between workers (rounds.c). */
typedef struct kn_round_value kn_round_value;
typedef struct kn_rounds {
    kn_round_value *values; /* states that become equal at the end */
    size_t count, capacity;
    uint64_t steps;  /* number of steps in this round */
    double own, all; /* samples of these steps: of this worker, and of all workers */
    bool recalls;    /* states were read from a file, or may have been, since the last step */
    bool collected;  /* kn_worker_states_collect was called since the last step */
} kn_rounds;

struct kn_trainer {
    kn_host host;
    kn_context *context;
    kn_error error;
    kn_status made; /* KN_OK if the trainer is usable */
    kn_trainer_params params;
    kn_session_params running;  /* of all its sessions, except states and `training` */
    char *switches;             /* the copy in `running` */
    kn_parameter_group *groups; /* copies of what params point to */
    uint64_t *milestones;
    kn_update_setting *settings;
    size_t setting_count;
    kn_plateau plateau;
    bool averages_used; /* the averages are stored under the parameters' names, and the parameters as
                         * averages */
    kn_session *session;
    kn_states *states; /* the session's states, or the caller's */
    kn_value *loss;    /* in the session's graph, for diagnosing a failed step */
    char *loss_name;
    uint64_t steps;
    kn_shards shards; /* how a step is split and added up; count 0: not in shards */
    kn_shards dealt;  /* how a batch is split among the workers: the same as `shards`, except in rounds */
    kn_rounds rounds;
    kn_counts counts;
    kn_feed *feeds; /* of one shard */
    size_t feed_capacity;
    kn_begun_step begun[KN_STEPS_BEGUN]; /* begun and not ended, starting at index `oldest`, as a ring */
    int begun_count, oldest;
    kn_evaluator evaluators[EVALUATORS];
    uint64_t evaluations;
};

/* ---- config.c: the settings by name ------------------------------------------------------------------ */

/* Checks each setting against its range. */
kn_status kn_trainer_check_settings(const kn_trainer_params *params, kn_error *error);

/* ---- parameters.c: checks and copies -------------------------------------------------------------- */

/* Checks and copies params (NULL: defaults). */
kn_status kn_trainer_take_params(kn_trainer *trainer, const kn_trainer_params *params);
void kn_trainer_release_params(kn_trainer *trainer);
/* Fails if a group's pattern matches none of the parameters that the loss depends on. */
kn_status kn_trainer_check_groups(kn_trainer *trainer, kn_value *loss);

/* ---- parts.c: the runs of a step, and their feeds ------------------------------------------------ */

/* The feeds of this worker's samples, or of some of them. */
typedef struct kn_feed_list {
    const kn_feed *feeds;
    size_t count;
} kn_feed_list;

/* In shards: the first of this worker's runs on a batch of `count` samples, and the run after `run`, which
 * must have `more`. */
kn_train_run kn_run_first(const kn_trainer *trainer, uint64_t count);
kn_train_run kn_run_next(const kn_trainer *trainer, uint64_t count, const kn_train_run *run);
/* Changes `list`, the feeds of the worker's samples, to the feeds of a run. It is valid until the next call.
 */
kn_status kn_run_feeds(kn_trainer *trainer, uint64_t count, const kn_train_run *run, kn_feed_list *list);
/* Changes `list`, the feeds of `own` samples, to the feeds of `samples` samples from `first` on. */
kn_status kn_cut_feeds(kn_trainer *trainer, uint64_t own, uint64_t first, uint64_t samples,
                       kn_feed_list *list);

/* ---- batch_sums.c: sums over a whole batch
 * ------------------------------------------------------------------
 */

/* Appends the totals and then the sums that the `given` values depend on, in the caller's graph, to `values`,
 * which has room for all values of the graph. */
kn_status kn_counts_find(kn_trainer *trainer, kn_value **values, size_t given);
/* Opens the session that computes `totals`, the totals that were found. */
kn_status kn_counts_open(kn_trainer *trainer, kn_value *const *totals);
void kn_counts_close(kn_trainer *trainer);
/* Creates a session that computes *name, a float32 value that divides a value of a session, such as its loss:
 * a sum over the batch that depends only on inputs. *counting is NULL if there is no such quotient. *graph:
 * the inputs that it may be fed. */
kn_status kn_counts_evaluate(kn_session *session, const char *mean_name, kn_session **counting,
                             const char **name, const kn_graph **graph);
/* Replaces totals and sums in a bound graph: `values` are copies of the list. */
kn_status kn_counts_use(const kn_trainer *trainer, kn_graph *bound, kn_value **values, size_t given,
                        kn_error *error);
/* Compiles the kernels that compute the totals of a run. */
kn_status kn_counts_compile(kn_trainer *trainer, const kn_feed_list *list, const kn_train_run *run);
/* Computes the totals of a batch; `list` feeds this worker's samples. */
kn_status kn_counts_run(kn_trainer *trainer, uint64_t count, const kn_feed_list *list);

/* ---- trainer.c: a step in two halves ---------------------------------------------------------------- */

/* Enqueues a step and returns; it counts as done. At most KN_STEPS_BEGUN steps may be running. `ahead`: the
 * feeds are those of the last kn_trainer_feed_ahead. `extra`: an extra value, a float32 scalar, to be read
 * with the loss; NULL: none. on_enqueued: called once, when all work before a wait for other workers, if any,
 * is enqueued; it may call kn_trainer_feed_ahead, and `feeds` may change from then on. A failure of it is a
 * failure of the step. */
kn_status kn_trainer_begin_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                bool ahead, const char *extra, kn_enqueued_callback on_enqueued);
/* Uploads the feeds of the next step while the current one runs; the data may be modified afterwards. */
kn_status kn_trainer_feed_ahead(kn_trainer *trainer, const kn_feed *feeds, size_t feed_count);
/* Waits for the oldest running step. *extra is NaN if none was requested. */
kn_status kn_trainer_end_step(kn_trainer *trainer, double *loss, double *extra);
/* Waits for all running steps and drops their losses. */
void kn_trainer_end_all(kn_trainer *trainer);

/* ---- rounds.c: steps without exchange between workers; these functions do nothing without sync_every --- */

/* Called before the first update of a step. */
kn_status kn_rounds_begin(kn_trainer *trainer);
/* Called after a step on a batch of `count` samples: ends the round if it is complete. */
kn_status kn_rounds_count(kn_trainer *trainer, uint64_t count);
/* Ends the round, if it has steps: afterwards all workers have the same parameters. All workers call it. */
kn_status kn_rounds_end(kn_trainer *trainer);
/* Called after states were read: forgets the steps of an unfinished round. */
void kn_rounds_recall(kn_trainer *trainer);
void kn_rounds_close(kn_trainer *trainer);
typedef enum kn_round_kind {
    KN_ROUND_EQUAL, /* equal on all workers after a round */
    KN_ROUND_OWN,   /* moments and similar states, different on each worker */
    KN_ROUND_OUTER, /* equal: the momentum of a parameter's changes */
} kn_round_kind;
kn_round_kind kn_rounds_kind(const kn_trainer *trainer, const char *state);

/* ---- worker_states.c: per-worker states in files ------------------------------------------------------- */

/* Called by all workers after a round: the first worker receives the other workers' states. */
kn_status kn_worker_states_collect(kn_trainer *trainer);
/* Called before a step: each worker restores its states if files were read since the last step, and the first
 * worker drops received states. */
kn_status kn_worker_states_restore(kn_trainer *trainer);

/* ---- plateau.c, average.c: memory stored in states ----------------------------------------------------- */

/* Reads this memory from the states, after they were loaded or restored. */
void kn_trainer_recall(kn_trainer *trainer);
void kn_plateau_recall(kn_trainer *trainer);
void kn_average_recall(kn_trainer *trainer);
/* Number of updates in this worker's moving averages; 1 without averages. */
uint32_t kn_average_updates(const kn_trainer *trainer);
/* Fails while the parameters hold the averages; `what` must wait until they do not. */
kn_status kn_average_check(kn_trainer *trainer, const char *what);
/* Whether the current step has been evaluated, or the schedule needs no evaluation. */
bool kn_plateau_is_current(const kn_trainer *trainer);

/* ---- fit_memory.c: progress of the training loop ------------------------------------------------------- */

typedef struct kn_fit_memory {
    double evaluated;      /* step of the last evaluation at the end of an epoch; 0: none */
    kn_score best;         /* the score with the lowest validation loss; samples 0: none yet */
    double best_step;      /* step of the best score */
    double since_best;     /* number of epochs */
    double loss, samples;  /* of this epoch: sum of the loss over its samples so far, and their number */
    double right, counted; /* likewise for the accuracy; fewer samples if the file has no accuracy */
} kn_fit_memory;
#define KN_FIT_MEMORY "koine.fit"
#define KN_FIT_ACCURACY "koine.fit.accuracy"

kn_status kn_fit_remember(kn_trainer *trainer, const kn_fit_memory *memory);
/* False if the states have none; *memory is then unchanged. */
bool kn_fit_recall(const kn_trainer *trainer, kn_fit_memory *memory);

/* ---- evaluate.c ------------------------------------------------------------------------------------- */

/* Reports the progress of an evaluation: kn_fit_params.on_validation. */
typedef struct kn_evaluation_report {
    void (*call)(void *user, uint64_t samples, uint64_t all); /* NULL: none */
    void *user;
} kn_evaluation_report;
/* kn_evaluate, called by all workers with the same dataset; communicator NULL: by this worker only. */
kn_status kn_evaluate_among(const kn_communicator *communicator, kn_session *session,
                            const kn_dataset *dataset, uint64_t batch, const char *loss, const char *accuracy,
                            kn_evaluation_report report, kn_score *score);

/* ---- snapshot.c: a copy of all states of a trainer on the host --------------------------------------- */

typedef struct kn_kept_state kn_kept_state;
typedef struct kn_snapshot {
    kn_trainer *trainer;
    kn_kept_state *kept;
    int count;
    bool taken;
    uint64_t steps;
} kn_snapshot;

/* Copies the current states, replacing an earlier copy. On failure *problem is the reason. */
kn_status kn_snapshot_take(kn_snapshot *snapshot, const char **problem);
/* Restores the copied states and the trainer's steps. */
kn_status kn_snapshot_restore(const kn_snapshot *snapshot, const char **problem);
void kn_snapshot_finish(kn_snapshot *snapshot);

#endif
