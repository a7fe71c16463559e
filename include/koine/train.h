/* Training: an optimizer, a schedule and the step that ties them to a loss.
 *
 * Thread-safety: a trainer belongs to one thread at a time. */
#ifndef KOINE_TRAIN_H
#define KOINE_TRAIN_H

#include <koine/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kn_optimizer { KN_SGD = 0, KN_ADAM = 1, KN_ADAMW = 2 } kn_optimizer;
typedef enum kn_schedule { KN_CONSTANT = 0, KN_STEP = 1, KN_COSINE = 2 } kn_schedule;

typedef struct kn_trainer_params {
    size_t size;
    kn_optimizer optimizer;
    double learning_rate; /* 0.01 */
    double momentum;      /* SGD: 0.9 */
    bool nesterov;
    double beta1, beta2, epsilon; /* Adam: 0.9, 0.999, 1e-8 */
    double weight_decay;  /* 0; SGD and Adam add it to the gradient, AdamW shrinks the weights */
    double clip_norm;     /* 0: off; gradients are scaled so that their common norm is at most this */
    kn_schedule schedule; /* of the learning rate, after the warm-up */
    uint64_t warmup_steps; /* rises evenly from 1 / warmup_steps of the rate to all of it */
    uint64_t total_steps; /* COSINE: where the rate reaches final_share of itself */
    double final_share;   /* 0 */
    uint64_t step_every;  /* STEP: the rate is multiplied by step_factor each so many steps */
    double step_factor;   /* 0.1 */
    uint64_t seed;
    bool fast_math;       /* as in kn_session_params: false by default */
    bool skip_not_finite; /* leave out updates whose gradients are not finite, instead of spoiling the weights */
    kn_states *states;    /* shared with other sessions; NULL: states of its own, from seed */
    const char *variants; /* as in kn_session_params */
    kn_value *const *extra; /* values to compute beside the loss, such as an accuracy */
    size_t extra_count;
    kn_progress progress; /* of compiling */
    uint64_t memory_bytes;  /* refuse plans that need more device memory; 0: the device's */
} kn_trainer_params;
KN_API void kn_trainer_params_init(kn_trainer_params *params);
#define KN_TRAINER_DEFAULTS                                                                                  \
    {sizeof(kn_trainer_params), KN_SGD, 0.01, 0.9, false, 0.9, 0.999, 1e-8, 0, 0, KN_CONSTANT, 0, 0, 0, 0, 0.1, 0,       \
     false, false, 0, 0, 0, 0, {0, 0}, 0}

typedef struct kn_trainer kn_trainer;

/* Trains all unfrozen parameters that `loss`, a scalar, depends on. Mistakes of the graph show here.
 * NULL only when out of memory. The caller destroys it, before the context. */
KN_API kn_trainer *kn_trainer_create(kn_context *context, kn_value *loss, const kn_trainer_params *params);
KN_API void kn_trainer_destroy(kn_trainer **trainer);
KN_API kn_status kn_trainer_status(const kn_trainer *trainer);
/* What went wrong last; "" if nothing. Valid until the next call on this trainer. */
KN_API const char *kn_trainer_error(const kn_trainer *trainer);

/* One update from `count` samples: binds the symbol "batch", where the graph has it, to count. loss NULL: does not
 * wait; otherwise the loss of this step (before its update) in *loss. Feed data may be changed when this returns. */
KN_API kn_status kn_trainer_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count, double *loss);
/* The same, fetching the extra values by name as well. */
KN_API kn_status kn_trainer_step_fetch(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                       double *loss, const kn_fetch *fetches, size_t fetch_count);
/* Computes values of the graph without training: dropout off, running statistics. */
KN_API kn_status kn_trainer_evaluate(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                     kn_value *const *values, const kn_fetch *fetches, size_t value_count);
/* Compiles the step for batches of `count` without running it. */
KN_API kn_status kn_trainer_compile(kn_trainer *trainer, int64_t count);
KN_API kn_status kn_trainer_wait(kn_trainer *trainer);

/* Parameters, moments, statistics, step counter: everything that continues a training bit by bit. */
KN_API kn_states *kn_trainer_states(kn_trainer *trainer);
KN_API uint64_t kn_trainer_steps(const kn_trainer *trainer);
/* For a resumed training: the number of steps already done (after its states were set). */
KN_API void kn_trainer_set_steps(kn_trainer *trainer, uint64_t steps);
KN_API double kn_trainer_learning_rate(const kn_trainer *trainer); /* of the next step */
KN_API kn_status kn_trainer_plan(kn_trainer *trainer, kn_plan_info *info);
KN_API char *kn_trainer_plan_text(kn_trainer *trainer);
KN_API void kn_trainer_free_text(kn_trainer *trainer, char *text);
/* Computes the last step again without updating, operator by operator, and names the first whose
 * result is not finite: writes a sentence. KN_ERROR_NOT_FOUND if all are finite. */
KN_API kn_status kn_trainer_find_not_finite(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                            char *sentence, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
