/* Training: an optimizer, a schedule and the step that ties them to a loss.
 *
 * Thread-safety: a trainer belongs to one thread at a time. */
#ifndef KOINE_TRAIN_H
#define KOINE_TRAIN_H

#include <koine/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- how to train ---------------------------------------------------------------------------------- */

/* All but LAMB (You et al. 2020, with corrected moments) and Lion (Chen et al. 2023) compute what PyTorch's
 * optimizers of these names compute. */
typedef enum kn_optimizer {
    KN_SGD = 0,
    KN_ADAM = 1,
    KN_ADAMW = 2,
    KN_RMSPROP = 3,
    KN_ADAGRAD = 4,
    KN_ADADELTA = 5,
    KN_LAMB = 6,
    KN_LION = 7,
} kn_optimizer;

/* The learning rate over the updates. Positions (milestones, total_steps, the multiples of step_every) are
 * counted from the first update of all; everything else from the end of the warm-up, which comes before any
 * of them. */
typedef enum kn_schedule {
    KN_CONSTANT = 0,
    KN_STEP = 1,        /* times step_factor each step_every */
    KN_COSINE = 2,      /* half a cosine, until total_steps, down to final_share */
    KN_MULTI_STEP = 3,  /* times step_factor at each milestone */
    KN_EXPONENTIAL = 4, /* times step_factor over each step_every (0: 1), evenly */
    KN_COSINE_RESTARTS =
        5, /* a cosine over restart_every, begun again, each restart_factor as long as the one before */
    KN_ONE_CYCLE =
        6, /* cosines: from 1 / cycle_divisor up, then down to 1 / (cycle_divisor * cycle_final_divisor) */
    KN_POLYNOMIAL = 7, /* until total_steps, down to final_share, by the power of what is left of the way */
    KN_PLATEAU = 8,    /* times step_factor when the validation loss no longer falls: kn_trainer_judged */
} kn_schedule;

/* Parameters that are trained in their own way. */
typedef struct kn_parameter_group {
    size_t size;
    const char *pattern; /* of their names: * stands for any characters, ? for one: "*.bias", "conv1.*" */
    double rate_factor;  /* 1: their learning rate is that of the others times this */
    double weight_decay; /* -1: that of the others */
    bool frozen;         /* not trained at all */
} kn_parameter_group;
#define KN_PARAMETER_GROUP_DEFAULTS                                                                          \
    { sizeof(kn_parameter_group), 0, 1, -1, false }

typedef struct kn_trainer_params {
    size_t size;
    /* The rule. kn_trainer_params_choose sets what is usual for each. */
    kn_optimizer optimizer;
    double learning_rate; /* 0.01 */
    double momentum;      /* SGD and RMSprop: 0.9 */
    double dampening;     /* SGD: 0; the share of a gradient that does not enter the momentum */
    bool nesterov;        /* SGD */
    bool amsgrad;         /* Adam and AdamW: divide by the largest mean square so far */
    bool centered;        /* RMSprop: divide by the standard deviation */
    double beta1;         /* Adam, AdamW, LAMB and Lion: 0.9 */
    double beta2;         /* the same, RMSprop (PyTorch's alpha) and Adadelta (rho): 0.999 */
    double epsilon;       /* all but SGD and Lion: 1e-8 */
    double rate_decay;    /* Adagrad: 0; the rate is divided by 1 + rate_decay * updates */
    double accumulator;   /* Adagrad: 0; what the sums of squares begin with */

    /* What is done to gradients and weights, in this order. */
    uint64_t accumulate;  /* 1 (and 0): each step is an update; more: so many steps make one, by the mean
                             gradient */
    double clip_value;    /* 0: off; each number of a gradient is brought within this and its negative */
    double clip_norm;     /* 0: off; gradients are scaled so that their common norm is at most this */
    bool skip_not_finite; /* leave out updates whose gradients are not finite, instead of spoiling the weights
                           */
    double weight_decay;  /* 0; added to the gradient, but AdamW and Lion shrink the weights, LAMB adds to the
                             step */
    bool decay_matrices_only; /* no weight decay for parameters of rank 0 and 1, such as biases */
    const kn_parameter_group
        *groups; /* the last one that fits a name decides; a pattern that fits none is a mistake */
    size_t group_count;
    double
        average; /* 0: off; the weights' moving average keeps this share of itself: kn_trainer_use_averages */

    /* Of the learning rate; lengths are in updates. */
    kn_schedule schedule;
    uint64_t warmup_steps; /* rises evenly from 1 / warmup_steps of the rate to all of it */
    uint64_t total_steps;  /* COSINE, ONE_CYCLE, POLYNOMIAL: where it ends */
    double final_share;    /* 0; of the rate: where it ends, and what PLATEAU does not fall below */
    uint64_t step_every;
    double step_factor;         /* 0.1 */
    const uint64_t *milestones; /* rising */
    size_t milestone_count;
    uint64_t restart_every;
    double restart_factor;      /* 1 */
    double cycle_rise;          /* 0.3; the share of the way on which the rate rises */
    double cycle_divisor;       /* 25 */
    double cycle_final_divisor; /* 1e4 */
    double power;               /* 1 */
    uint64_t plateau_patience;  /* 10; so many judgements without a lower loss are waited for */
    uint64_t plateau_cooldown;  /* 0; judgements after a fall that do not count */
    double plateau_threshold;   /* 1e-4; a loss is lower if it is by this share of the lowest */

    uint64_t seed;
    bool fast_math;         /* as in kn_session_params: false by default */
    kn_states *states;      /* shared with other sessions; NULL: states of its own, from seed */
    const char *switches;   /* as in kn_session_params */
    kn_value *const *extra; /* values to compute beside the loss, such as an accuracy */
    size_t extra_count;
    kn_progress progress;  /* as of a session */
    uint64_t memory_bytes; /* refuse plans that need more device memory; 0: the device's */
} kn_trainer_params;
KN_API void kn_trainer_params_init(kn_trainer_params *params);
/* Sets the optimizer and the numbers that PyTorch or its authors take with it: learning rate, momentum,
 * betas, epsilon and weight decay. For SGD they are those of kn_trainer_params_init. */
KN_API void kn_trainer_params_choose(kn_trainer_params *params, kn_optimizer optimizer);
#define KN_TRAINER_DEFAULTS                                                                                  \
    {                                                                                                        \
        sizeof(kn_trainer_params), KN_SGD, 0.01, 0.9, 0, false, false, false, 0.9, 0.999, 1e-8, 0, 0, 1, 0,  \
            0, false, 0, false, 0, 0, 0, KN_CONSTANT, 0, 0, 0, 0, 0.1, 0, 0, 0, 1, 0.3, 25, 1e4, 1, 10, 0,   \
            1e-4, 0, false, 0, 0, 0, 0, {0, 0}, 0                                                            \
    }

/* ---- training ---------------------------------------------------------------------------------------- */

typedef struct kn_trainer kn_trainer;

/* Trains all unfrozen parameters that `loss`, a scalar, depends on. Mistakes of the graph show here.
 * NULL only when out of memory. The caller destroys it, before the context. */
KN_API kn_trainer *kn_trainer_create(kn_context *context, kn_value *loss, const kn_trainer_params *params);
KN_API void kn_trainer_destroy(kn_trainer **trainer);
KN_API kn_status kn_trainer_status(const kn_trainer *trainer);
/* What went wrong last; "" if nothing. Valid until the next call on this trainer. */
KN_API const char *kn_trainer_error(const kn_trainer *trainer);

/* One step from `count` samples: binds the symbol "batch", where the graph has it, to count. A step is an
 * update, unless several are accumulated; means of gradients count each step alike. loss NULL: does not wait;
 * otherwise the loss of this step (before its update) in *loss. Feed data may be changed when this returns.
 */
KN_API kn_status kn_trainer_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                 double *loss);
/* The same, fetching the extra values by name as well. */
KN_API kn_status kn_trainer_step_fetch(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                       size_t feed_count, double *loss, const kn_fetch *fetches,
                                       size_t fetch_count);
/* Computes values of the graph without training: dropout off, running statistics. */
KN_API kn_status kn_trainer_evaluate(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                     size_t feed_count, kn_value *const *values, const kn_fetch *fetches,
                                     size_t value_count);
/* Compiles the step for batches of `count` without running it. */
KN_API kn_status kn_trainer_compile(kn_trainer *trainer, int64_t count);
/* The same where sizes other than the batch are open: they are those of the feeds, whose data may be NULL. */
KN_API kn_status kn_trainer_compile_for(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                        size_t feed_count);
KN_API kn_status kn_trainer_wait(kn_trainer *trainer);

/* Parameters, moments, statistics, averages, step counter: everything that continues a training bit by bit.
 */
KN_API kn_states *kn_trainer_states(kn_trainer *trainer);
KN_API uint64_t kn_trainer_steps(const kn_trainer *trainer);
/* For a resumed training: the number of steps already done (after its states were set, which are looked at).
 */
KN_API void kn_trainer_set_steps(kn_trainer *trainer, uint64_t steps);
KN_API double kn_trainer_learning_rate(const kn_trainer *trainer); /* of the next step */
/* Tells the schedule PLATEAU of a validation loss; others do not mind. What it remembers is among the states.
 */
KN_API kn_status kn_trainer_judged(kn_trainer *trainer, double loss);
/* Puts the moving averages in the place of the weights, or the weights back: an exchange, so that what
 * evaluates, infers or saves finds the averages under the weights' names. Steps are refused meanwhile. States
 * that are saved and loaded remember which it is; call it with false before training goes on. Before the
 * first update there are no averages, and nothing is exchanged. Waits for the device. */
KN_API kn_status kn_trainer_use_averages(kn_trainer *trainer, bool use);
KN_API kn_status kn_trainer_plan(kn_trainer *trainer, kn_plan_info *info);
KN_API char *kn_trainer_plan_text(kn_trainer *trainer);
KN_API kn_status kn_trainer_plan_step(kn_trainer *trainer, int position, kn_plan_step *step);
KN_API void kn_trainer_free_text(kn_trainer *trainer, char *text);
/* Computes the last step again without updating, operator by operator, and names the first whose
 * result is not finite: writes a sentence. KN_ERROR_NOT_FOUND if all are finite. */
KN_API kn_status kn_trainer_find_not_finite(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                            size_t feed_count, char *sentence, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
