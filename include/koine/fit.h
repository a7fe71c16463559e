/* The training loop: epochs of batches from a dataset, with validation, limits and early stopping.
 *
 *     kn_fit_params params = KN_FIT_DEFAULTS;
 *     params.epochs = 5;
 *     kn_fit_result result = KN_FIT_RESULT_DEFAULTS;
 *     if (kn_fit(trainer, dataset, &params, &result) != KN_OK)
 *         fprintf(stderr, "%s\n", result.message);
 *     else
 *         printf("loss %g after %llu steps\n", result.epoch_loss, (unsigned long long)result.step);
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
 * batch) and, unless NULL, `accuracy` (likewise), `batch` samples at a time, including the last, partial
 * batch. A value that is divided by a sum over the batch that depends only on inputs, such as the number of
 * targets that count, is divided by that sum over the dataset. Fields that the session does not need are
 * ignored. The error message is in kn_session_error or kn_dataset_error. */
KN_API KN_NODISCARD kn_status kn_evaluate(kn_session *session, const kn_dataset *dataset, uint64_t batch,
                                          const char *loss, const char *accuracy, kn_score *score);

/* ---- training ----------------------------------------------------------------------------------- */

typedef enum kn_stop_reason {
    KN_STOP_DONE = 0,     /* the limit of epochs, steps or seconds is reached */
    KN_STOP_PATIENCE = 1, /* the validation loss stopped falling */
    KN_STOP_CALLBACK = 2, /* a callback returned false */
    KN_STOP_ERROR = 3,
} kn_stop_reason;

typedef struct kn_fit_step {
    size_t size;             /* of this struct, in the version of the library */
    uint64_t step;           /* steps done, starting at 1 */
    uint64_t epoch;          /* starting at 1 */
    uint64_t batch, batches; /* done in this epoch, and total in this epoch */
    uint64_t samples;        /* in this batch */
    double loss, learning_rate;
    double samples_per_s; /* recent */
    double seconds;       /* since the start of the call */
    double accuracy;      /* of this batch, before its update; NaN without train_accuracy */
} kn_fit_step;

typedef struct kn_fit_epoch {
    size_t size;         /* of this struct, in the version of the library */
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
    /* How the batches are made; NULL: defaults. Validation has batches of the same size, or of the trainer's
     * micro_batch. */
    const kn_loader_params *loader;
    /* Stop after this many epochs without a lower validation loss; 0: never. At the end all states and the
     * step count are restored to the epoch with the lowest loss, unless a callback stopped the run; this
     * takes host memory for a copy of them. */
    uint64_t patience;
    const kn_dataset *validation; /* evaluated after each epoch; KN_SCHEDULE_PLATEAU needs it; NULL: none */
    kn_session *eval_session;     /* an inference session on the trainer's states, for validation */
    const char *loss, *accuracy;  /* values of that session; accuracy NULL: none */
    bool find_not_finite;         /* when a loss is not finite, find the first non-finite value */
    void *user;
    /* Called when the loss of a step is known; returns false to stop; may be NULL. By then the next step is
     * queued, so that the device need not wait: states and kn_trainer_steps include it, and if the call
     * stops, it is completed and reported. If needs_states returned true, they are those of the step itself.
     */
    bool (*on_step)(void *user, const kn_fit_step *step);
    bool (*on_epoch)(void *user,
                     const kn_fit_epoch *epoch); /* called after each epoch; false: stop; may be NULL */
    bool use_averages; /* evaluate the trainer's moving averages instead of its weights */
    /* Keep the loop's progress (best epoch, epochs since, loss and accuracy of the current epoch) in the
     * states "koine.fit" and "koine.fit.accuracy", which the next call reads: a run whose states are saved in
     * on_step (with needs_states) or on_epoch, and loaded in another process, continues as if uninterrupted.
     */
    bool save_progress;
    /* With save_progress and patience, if the best epoch was before this call: restores the states and steps
     * of that epoch, as saved when on_epoch reported `best`. If it returns false, the call fails. NULL: the
     * final states are kept. */
    bool (*restore_best)(void *user);
    /* A float32 scalar among the trainer's `extra`, such as an accuracy, that is reported with the loss; for
     * an epoch as the mean over its batches, weighted by their samples. NULL: none. */
    const char *train_accuracy;
    /* Whether on_step of that step needs its states, for example to save them: nothing is queued beyond the
     * step then until on_step returns. Called once per step, before the step is queued. NULL: false. With
     * sync_every the states within a round are this worker's own (kn_trainer_local_steps). */
    bool (*needs_states)(void *user, uint64_t step);
    /* Called after each batch of a validation with the number of samples evaluated so far, and of all; NULL:
     * none. */
    void (*on_validation)(void *user, uint64_t samples, uint64_t total);
} kn_fit_params;
KN_API void kn_fit_params_init(kn_fit_params *params);
#define KN_FIT_DEFAULTS KN_DEFAULTS_ZERO(kn_fit_params)

typedef struct kn_fit_result {
    size_t size;
    kn_stop_reason stop_reason;
    uint64_t step, epoch;     /* steps done by the trainer, according to its current states; epochs begun */
    double loss;              /* of the last step; NaN if there was none */
    kn_score validation;      /* of the current weights; samples 0 if they were not evaluated */
    double samples_per_s;     /* over the whole call without validation */
    double data_seconds;      /* during which the device waited for the next batch */
    char message[600];        /* the error, or what find_not_finite found */
    uint64_t discarded_steps; /* with patience: steps after the best epoch, whose results were discarded */
    double training_seconds;  /* of the whole call without validation; includes data_seconds */
    /* Mean over the samples of the last epoch, or of the best epoch if its states were restored, each before
     * its update; NaN if neither this call nor the saved progress covers any. */
    double epoch_loss;
    double epoch_accuracy; /* the same of train_accuracy */
} kn_fit_result;
#define KN_FIT_RESULT_DEFAULTS KN_DEFAULTS(kn_fit_result, KN_FIELD(validation, KN_SCORE_DEFAULTS))

/* Trains on `dataset`, whose fields are fed by name ("x", "y"), as bytes where possible
 * (kn_loader_params.bytes). Continues at the trainer's step count with the same order of samples as an
 * uninterrupted run. A non-finite loss ends it with KN_ERROR_NOT_FINITE. KN_ERROR_ARGUMENT if nothing could
 * end the call: no limit, patience, callback or other worker.
 *
 * With several workers (kn_trainer_params.communicator) all make this call with the same dataset and
 * parameters, except callbacks; each loads and evaluates its part of the data. If a callback of one worker
 * returns false, all stop after the same step, the next one or the one after it; with sync_every, at the end
 * of a round. */
KN_API kn_status kn_fit(kn_trainer *trainer, const kn_dataset *dataset, const kn_fit_params *params,
                        kn_fit_result *result);

#ifdef __cplusplus
}
#endif
#endif
