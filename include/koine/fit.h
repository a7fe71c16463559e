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

/* ---- training within memory ---------------------------------------------------------------------------- */

/* What has to fit into device memory together: steps on a batch, and an evaluation of the same states. */
typedef struct kn_memory_request {
    size_t size;
    uint64_t batch; /* samples of a batch, of all workers together */
    /* What one sample feeds to training and to evaluation: names, sizes and scales. */
    const kn_feed *feeds, *eval_feeds;
    size_t feed_count;            /* of each */
    kn_value *const *eval_values; /* what the evaluation computes, such as a loss and an accuracy */
    size_t eval_value_count;      /* 0: there is none */
    bool whole; /* the batch is not cut into parts (samples go on in the next batch), but made smaller */
    bool fixed; /* the batch and the place of the moments are not changed: another worker decides them */
} kn_memory_request;
#define KN_MEMORY_REQUEST_DEFAULTS KN_DEFAULTS_ZERO(kn_memory_request)
typedef struct kn_memory_fit {
    size_t size;
    uint64_t batch;             /* as requested, or with `whole` the largest that fits */
    uint64_t part;              /* samples that are computed at once by all workers; 0: the whole batch */
    uint64_t bytes;             /* device memory of training and evaluation */
    uint64_t host_bytes;        /* of moments in host memory */
    int recomputed;             /* groups of nodes that are computed twice in a step, */
    double recomputed_fraction; /* and their fraction of its FLOPs */
    char message[700];          /* the error, or why the batch does not fit as it is; "" if it does */
} kn_memory_fit;
#define KN_MEMORY_FIT_DEFAULTS KN_DEFAULTS_ZERO(kn_memory_fit)
/* Opens a trainer, and an inference session on its states (NULL without eval_values), that fit together into
 * kn_session_params.memory_bytes or the device's memory (docs/memory.md). Measures are taken in this order,
 * none before it is needed: activations are recomputed, the session keeps nothing between runs, moments move
 * to host memory (params->offload_optimizer), and the batch is computed in parts (params->micro_batch). Both
 * fields are set accordingly; params has the size of this version. The caller destroys the session, then the
 * trainer; both are NULL after an error, which is in the message. fit may be NULL. */
KN_API KN_NODISCARD kn_status kn_fit_prepare(kn_context *context, kn_value *loss, kn_trainer_params *params,
                                             const kn_memory_request *request, kn_trainer **trainer,
                                             kn_session **evaluation, kn_memory_fit *fit);

/* ---- the shards of several workers --------------------------------------------------------------------- */

/* How many shards a batch should have (kn_trainer_params.shards): one per worker if the workers are equal and
 * a power of two, otherwise at least 16, which workers of different speed can share; not more than samples.
 */
KN_API int kn_shard_count(int workers, bool equal, uint64_t batch);
/* Measures the seconds that a training step takes on one shard of a batch of batches->batch samples on this
 * device: the shortest of three. An error is written to message, unless that is NULL, and the seconds are
 * infinite. */
KN_API kn_status kn_shard_seconds(kn_context *context, kn_value *loss, const kn_trainer_params *params,
                                  const kn_dataset *dataset, const kn_loader_params *batches, double *seconds,
                                  char *message, size_t size);
/* Distributes `shards` among workers by their seconds per shard, so that the step takes the least time:
 * counts[i] is for kn_trainer_params.shard_counts. The first worker gets at least one shard; a worker with 0
 * is not worth using. */
KN_API kn_status kn_deal_shards(const double *seconds, int workers, int shards, int *counts);

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
