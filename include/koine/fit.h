/* The training loop: epochs of batches from a data set, with validation, limits and early stopping.
 *
 * Thread-safety: a call belongs to the thread of its trainer or session. */
#ifndef KOINE_FIT_H
#define KOINE_FIT_H

#include <koine/data.h>
#include <koine/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- judging ---------------------------------------------------------------------------------- */

typedef struct kn_score {
    size_t size;
    double loss;     /* mean over the samples */
    double accuracy; /* share of right answers; NaN where there is none */
    uint64_t samples;
    double seconds;
} kn_score;
#define KN_SCORE_DEFAULTS                                                                                    \
    { sizeof(kn_score), 0, 0, 0, 0 }

/* Runs all samples of `dataset` through a session that computes the values named `loss` (a mean over the
 * batch) and, unless it is NULL, `accuracy` (likewise), `batch` samples at a time, the last partial batch
 * included. Feeds of the dataset that the session does not need are left out. An error stands in
 * kn_session_error or kn_dataset_error. */
KN_API kn_status kn_evaluate(kn_session *session, const kn_dataset *dataset, uint64_t batch, const char *loss,
                             const char *accuracy, kn_score *score);

/* ---- training ----------------------------------------------------------------------------------- */

typedef enum kn_fit_end {
    KN_FIT_DONE = 0,     /* epochs, steps or seconds are reached */
    KN_FIT_PATIENCE = 1, /* the validation loss stopped falling */
    KN_FIT_STOPPED = 2,  /* a callback said so */
    KN_FIT_FAILED = 3,
} kn_fit_end;

typedef struct kn_fit_step {
    uint64_t step;           /* steps done, from 1 */
    uint64_t epoch;          /* from 1 */
    uint64_t batch, batches; /* done in this epoch, and in all of it */
    uint64_t samples;        /* in this batch */
    double loss, rate;
    double samples_per_s; /* of late */
    double seconds;       /* since the call began */
    double accuracy;      /* of this batch, before its update; NaN without train_accuracy */
} kn_fit_step;

typedef struct kn_fit_epoch {
    uint64_t epoch;      /* from 1 */
    double loss;         /* mean over the epoch's samples, each before its update */
    kn_score validation; /* samples 0 without validation data */
    bool best;           /* the lowest validation loss so far */
    double seconds;      /* since the call began */
    double accuracy; /* mean over the epoch's samples, each before its update; NaN without train_accuracy */
} kn_fit_epoch;

typedef struct kn_fit_params {
    size_t size;
    uint64_t epochs; /* 0: no limit */
    uint64_t steps;  /* of the trainer in all, those before a continued training included; 0: no limit */
    double seconds;  /* 0: no limit */
    uint64_t batch;  /* 64 */
    bool drop_last, no_shuffle;
    uint64_t seed; /* of the order of the samples */
    /* Stop after so many epochs without a lower validation loss; 0: never. All states, and the trainer's
     * steps, go back to the epoch with the lowest in the end, unless a callback stopped it. Takes host memory
     * for them. */
    uint64_t patience;
    const kn_dataset *validation; /* judged after each epoch, as the schedule PLATEAU needs; NULL: none */
    kn_session *judge;            /* an inference session on the trainer's states, for validation */
    const char *loss, *accuracy;  /* values of that session; accuracy NULL: none */
    bool find_not_finite;         /* when a loss is not finite, look for the first value that is not */
    void *user;
    bool (*on_step)(void *user, const kn_fit_step *step); /* false stops after this step; may be NULL */
    bool (*on_epoch)(void *user, const kn_fit_epoch *epoch);
    bool averages; /* judge the trainer's moving averages in the place of its weights, which are back in the
                      end */
    /* What the loop knows (the best epoch, how long it is past, loss and accuracy of the epoch begun) is kept
     * in states "koine.fit" and "koine.fit.accuracy", from where the next call takes it: states that are
     * saved in on_step or on_epoch, and loaded in another process, go on as if nothing had stopped. */
    bool remember;
    /* With remember and patience, where the best epoch was before this call: sets the states and steps of
     * that epoch, as saved when on_epoch was told `best`; false: they are not to be had, and the call fails.
     * NULL: stays at the end. */
    bool (*to_best)(void *user);
    bool in_sequence; /* of the loader: for layers whose state goes on from batch to batch */
    /* Of the loader, as kn_loader_params says. */
    bool balanced;
    const kn_augmentation *augmentation;
    int workers;
    /* A float32 scalar among the trainer's `extra`, such as an accuracy: its mean over the samples of a batch
     * and of an epoch is told beside the loss. It is read where the loss is. NULL: none. */
    const char *train_accuracy;
} kn_fit_params;
KN_API void kn_fit_params_init(kn_fit_params *params);

typedef struct kn_fit_result {
    size_t size;
    kn_fit_end end;
    uint64_t step, epoch; /* steps done by the trainer, as its states are now; epochs begun */
    double loss;          /* of the last step; NaN if there was none */
    kn_score validation; /* of the weights as they are now; samples 0 if they were not judged: stopped amid an
                            epoch */
    double samples_per_s; /* over the whole call, validation left out */
    double data_seconds;  /* that the device waited: from the end of a step until the next batch was ready */
    char message[600];    /* what went wrong, or what find_not_finite found */
    uint64_t taken_back;  /* steps undone at the end, those after the best epoch; with patience */
    double training_seconds; /* of the whole call, validation left out; data_seconds are among them */
    /* Mean over the samples of the last epoch begun, each before its update, or of the best epoch where it
     * went back to that; NaN where none of them was trained on in this call, nor is remembered. */
    double epoch_loss;
    double epoch_accuracy; /* the same of train_accuracy */
} kn_fit_result;
#define KN_FIT_RESULT_DEFAULTS                                                                               \
    { sizeof(kn_fit_result), KN_FIT_DONE, 0, 0, 0, KN_SCORE_DEFAULTS, 0, 0, "", 0, 0, 0, 0 }

/* Trains on `dataset`, whose fields are fed by their names ("x", "y"). Continues where the trainer's steps
 * are: the same order of samples as in one go. A loss that is not finite ends it with KN_ERROR_NOT_FINITE. */
KN_API kn_status kn_fit(kn_trainer *trainer, const kn_dataset *dataset, const kn_fit_params *params,
                        kn_fit_result *result);

#ifdef __cplusplus
}
#endif
#endif
