/* The training loop: epochs of batches from a dataset, with validation, limits and early stopping.
 *
 * Thread-safety: a call belongs to the thread of its trainer or session. */
#ifndef KOINE_FIT_H
#define KOINE_FIT_H

#include <koine/data.h>
#include <koine/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- evaluation --------------------------------------------------------------------------------- */

typedef struct kn_score {
    size_t size;
    double loss;     /* mean over the samples */
    double accuracy; /* fraction of correct predictions; NaN if the session has none, or no target counts */
    uint64_t samples;
    double seconds;
} kn_score;
#define KN_SCORE_DEFAULTS KN_DEFAULTS_ZERO(kn_score)

/* Runs all samples of `dataset` through a session that computes the values named `loss` (a mean over the
 * batch) and, unless NULL, `accuracy` (likewise), `batch` samples at a time, including the last partial
 * batch. One that is divided by a sum over the batch that depends on inputs alone, such as the number of
 * targets that count, is the mean over these. Fields of the dataset that the session does not need are
 * ignored. The error message is in kn_session_error or kn_dataset_error. */
KN_API kn_status kn_evaluate(kn_session *session, const kn_dataset *dataset, uint64_t batch, const char *loss,
                             const char *accuracy, kn_score *score);

/* ---- training ----------------------------------------------------------------------------------- */

typedef enum kn_fit_end {
    KN_FIT_DONE = 0,     /* the limit of epochs, steps or seconds is reached */
    KN_FIT_PATIENCE = 1, /* the validation loss stopped falling */
    KN_FIT_STOPPED = 2,  /* a callback returned false */
    KN_FIT_FAILED = 3,
} kn_fit_end;

typedef struct kn_fit_step {
    uint64_t step;           /* steps done, starting at 1 */
    uint64_t epoch;          /* starting at 1 */
    uint64_t batch, batches; /* done in this epoch, and total in this epoch */
    uint64_t samples;        /* in this batch */
    double loss, rate;
    double samples_per_s; /* recent */
    double seconds;       /* since the start of the call */
    double accuracy;      /* of this batch, before its update; NaN without train_accuracy */
} kn_fit_step;

typedef struct kn_fit_epoch {
    uint64_t epoch;      /* starting at 1 */
    double loss;         /* mean over the epoch's samples, each before its update */
    kn_score validation; /* samples 0 without validation data */
    bool best;           /* the lowest validation loss so far */
    double seconds;      /* since the start of the call */
    double accuracy; /* mean over the epoch's samples, each before its update; NaN without train_accuracy */
} kn_fit_epoch;

typedef struct kn_fit_params {
    size_t size;
    uint64_t epochs; /* 0: no limit */
    uint64_t steps;  /* total of the trainer, including those before a resumed run; 0: no limit */
    double seconds;  /* 0: no limit */
    /* How the batches are made; NULL: defaults. Validation has batches of the same size,
     * or of the trainer's part_samples. */
    const kn_loader_params *loader;
    /* Stop after this many epochs without a lower validation loss; 0: never. At the end all states and the
     * trainer's step count are restored to the epoch with the lowest loss, unless a callback stopped the run.
     * Takes host memory for a copy of them. */
    uint64_t patience;
    const kn_dataset *validation; /* evaluated after each epoch, as the schedule PLATEAU needs; NULL: none */
    kn_session *judge;            /* an inference session on the trainer's states, for validation */
    const char *loss, *accuracy;  /* values of that session; accuracy NULL: none */
    bool find_not_finite;         /* when a loss is not finite, find the first non-finite value */
    void *user;
    /* Called when a step's loss is known; return false to stop; may be NULL. So that the device does not wait
     * for the host, the next step is queued before: states and kn_trainer_steps are then those of the next
     * step, which is completed and told where the call stops. With wait_for they are those of the step
     * itself. */
    bool (*on_step)(void *user, const kn_fit_step *step);
    bool (*on_epoch)(void *user, const kn_fit_epoch *epoch);
    /* evaluate the trainer's moving averages instead of its weights, which are restored afterwards */
    bool averages;
    /* Keeps the loop's progress (the best epoch, the epochs since then, loss and accuracy of the current
     * epoch) in states "koine.fit" and "koine.fit.accuracy", which the next call reads: states that are saved
     * in on_step (with wait_for) or on_epoch and loaded in another process continue as if there had been no
     * interruption. */
    bool remember;
    /* With remember and patience, if the best epoch was before this call: sets the states and steps of that
     * epoch, as saved when on_epoch was told `best`. Returning false says that they are unavailable, and the
     * call fails. NULL: keeps the final states. */
    bool (*to_best)(void *user);
    /* A float32 scalar among the trainer's `extra`, such as an accuracy, which is reported with the loss.
     * That of an epoch is the mean over its batches, each counted by all its samples. It is read where the
     * loss is. NULL: none. */
    const char *train_accuracy;
    /* Whether on_step of that step needs its states, to save them for instance: then nothing is queued beyond
     * that step until on_step returns. Called once a step, before it is queued. NULL: false. With
     * kn_trainer_params.sync_every those within a round are this worker's alone (kn_trainer_steps_alone). */
    bool (*wait_for)(void *user, uint64_t step);
    /* Called after each batch of an evaluation of the validation data, with the samples that were evaluated
     * and the number of all. NULL: none. */
    void (*on_validation)(void *user, uint64_t samples, uint64_t all);
} kn_fit_params;
KN_API void kn_fit_params_init(kn_fit_params *params);
#define KN_FIT_DEFAULTS KN_DEFAULTS_ZERO(kn_fit_params)

typedef struct kn_fit_result {
    size_t size;
    kn_fit_end end;
    uint64_t step, epoch; /* steps done by the trainer, according to its current states; epochs begun */
    double loss;          /* of the last step; NaN if there was none */
    /* of the current weights; samples 0 if they were not evaluated: stopped within an epoch */
    kn_score validation;
    double samples_per_s; /* over the whole call without validation */
    /* time the device waited for data: from the end of a step until the next batch was ready */
    double data_seconds;
    char message[600];       /* the error, or what find_not_finite found */
    uint64_t taken_back;     /* steps after the best epoch, undone at the end; with patience */
    double training_seconds; /* of the whole call without validation; includes data_seconds */
    /* Mean over the samples of the last epoch begun, or of the best epoch if its states were restored, each
     * sample before its update; NaN if none of them was trained on in this call, nor remembered. */
    double epoch_loss;
    double epoch_accuracy; /* the same of train_accuracy */
} kn_fit_result;
#define KN_FIT_RESULT_DEFAULTS KN_DEFAULTS(kn_fit_result, KN_FIELD(validation, KN_SCORE_DEFAULTS))

/* With other workers (kn_trainer_params.communicator) all make this call with the same dataset and
 * parameters, callbacks apart: each loads its part of the batches and evaluates a part of the validation
 * data. Where a callback of one returns false, all stop after the same step, the next one or the one after
 * it; with sync_every, after the round in which they agree.
 *
 * Trains on `dataset`, whose fields are fed by name ("x", "y"), as bytes where a loader delivers them
 * (kn_loader_params.bytes). Continues at the trainer's step count, with
 * the same order of samples as an uninterrupted run. A non-finite loss ends it with KN_ERROR_NOT_FINITE. A
 * call that nothing could end, without a limit, patience, callbacks and other workers, is
 * KN_ERROR_ARGUMENT. */
KN_API kn_status kn_fit(kn_trainer *trainer, const kn_dataset *dataset, const kn_fit_params *params,
                        kn_fit_result *result);

#ifdef __cplusplus
}
#endif
#endif
