/* Training: an optimizer, a schedule, and the step that applies them to a loss.
 *
 * Thread-safety: a trainer belongs to one thread at a time. */
#ifndef KOINE_TRAIN_H
#define KOINE_TRAIN_H

#include <koine/communicator.h>
#include <koine/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- how to train ---------------------------------------------------------------------------------- */

/* All but LAMB (You et al. 2020, with bias-corrected moments) and Lion (Chen et al. 2023) compute what
 * PyTorch's optimizers of the same names compute. */
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
/* How many there are, and the name of each, such as "adamw"; NULL past the last. Static; thread-safe. */
KN_API int kn_optimizer_count(void);
KN_API const char *kn_optimizer_name(kn_optimizer optimizer);
/* Whether the optimizer reads this field of kn_trainer_params: "momentum", "dampening", "nesterov",
 * "amsgrad", "centered", "beta1", "beta2", "epsilon", "rate_decay" or "accumulator". Thread-safe. */
KN_API bool kn_optimizer_reads(kn_optimizer optimizer, const char *field);

/* The learning rate as a function of the update. Positions (milestones, total_steps, multiples of step_every)
 * count from the first update; everything else counts from the end of the warm-up, which precedes them. */
typedef enum kn_schedule {
    KN_CONSTANT = 0,
    KN_STEP = 1,        /* multiplied by step_factor every step_every updates */
    KN_COSINE = 2,      /* half a cosine down to final_share of the rate at total_steps */
    KN_MULTI_STEP = 3,  /* multiplied by step_factor at each milestone */
    KN_EXPONENTIAL = 4, /* multiplied by step_factor per step_every (0: 1) updates, smoothly */
    /* a cosine over restart_every updates, restarted; each restart_factor times as long as the last */
    KN_COSINE_RESTARTS = 5,
    /* cosines: from 1 / cycle_divisor up, then down to 1 / (cycle_divisor * cycle_final_divisor) */
    KN_ONE_CYCLE = 6,
    /* down to final_share of the rate at total_steps, as a power of the remaining fraction */
    KN_POLYNOMIAL = 7,
    KN_PLATEAU = 8, /* multiplied by step_factor when the validation loss stops falling: kn_trainer_judged */
} kn_schedule;

/* Parameters with their own training settings. */
typedef struct kn_parameter_group {
    size_t size;
    const char *pattern; /* of their names: * matches any characters, ? matches one: "*.bias", "conv1.*" */
    double rate_factor;  /* 1; multiplies the learning rate */
    double weight_decay; /* -1: that of the trainer */
    bool frozen;         /* not trained at all */
} kn_parameter_group;
#define KN_PARAMETER_GROUP_DEFAULTS                                                                          \
    KN_DEFAULTS(kn_parameter_group, KN_FIELD(rate_factor, 1), KN_FIELD(weight_decay, -1))

/* How moments are stored: the states PARAMETER.KIND in which an optimizer keeps averages and sums of
 * gradients, such as those of Adam and the momentum of SGD. Updates are computed in float32 all the same;
 * weights, their moving averages and accumulated gradients stay float32. In bfloat16 they have half the
 * bytes. In 8 bits they are float8e4m3fn, times a power of two for each row, after the state
 * PARAMETER.KIND.bound; what cannot be negative is stored as its root; those of parameters with less than
 * 4096 elements, and of tables of embeddings, stay float32. Numbers are rounded up or down at random, by the
 * seed and the step, so that averages of any slowness follow. Each type gives another result. Not with
 * `centered`, which subtracts moments. A file with float32 or bfloat16 is converted to the other if the step
 * was compiled before it is loaded. X(name, number, text). */
#define KN_MOMENTS_LIST(X)                                                                                   \
    X(KN_MOMENTS_FLOAT32, 0, "float32")                                                                      \
    X(KN_MOMENTS_BFLOAT16, 1, "bfloat16")                                                                    \
    X(KN_MOMENTS_8BIT, 2, "8bit")
typedef enum kn_moments {
#define KN_MOMENTS_ENUM(name, number, text) name = number,
    KN_MOMENTS_LIST(KN_MOMENTS_ENUM)
#undef KN_MOMENTS_ENUM
} kn_moments;
/* "float32" and so on; NULL past the last. Static; thread-safe. */
KN_API const char *kn_moments_name(kn_moments moments);

typedef struct kn_trainer_params {
    size_t size;
    /* The update rule. kn_trainer_params_choose sets the usual values for each. */
    kn_optimizer optimizer;
    double learning_rate; /* 0.01 */
    double momentum;      /* SGD and RMSprop: 0.9 */
    double dampening;     /* SGD: 0; the fraction of a gradient that does not enter the momentum */
    bool nesterov;        /* SGD */
    bool amsgrad;         /* Adam and AdamW: divide by the largest mean square so far */
    bool centered;        /* RMSprop: divide by the standard deviation */
    double beta1;         /* Adam, AdamW, LAMB and Lion: 0.9 */
    double beta2;         /* the same optimizers, RMSprop (PyTorch's alpha) and Adadelta (rho): 0.999 */
    double epsilon;       /* all but SGD and Lion: 1e-8 */
    double rate_decay;    /* Adagrad: 0; the rate is divided by 1 + rate_decay * updates */
    double accumulator;   /* Adagrad: 0; initial value of the sums of squares */
    kn_moments moments;   /* KN_MOMENTS_FLOAT32; how what the rule keeps is stored */

    /* Applied to gradients and weights, in this order. */
    /* 1 (and 0): each step is an update; more: this many steps make one update with the mean gradient, of
     * losses that divide by the counts of one batch each */
    uint64_t accumulate;
    double clip_value;    /* 0: off; clips each element of a gradient to [-clip_value, clip_value] */
    double clip_norm;     /* 0: off; scales the gradients so that their joint norm is at most this */
    bool skip_not_finite; /* skip updates whose gradients are not finite, which would spoil the weights */
    /* 0; added to the gradient; AdamW and Lion shrink the weights instead, LAMB adds it to the step */
    double weight_decay;
    bool decay_matrices_only; /* no weight decay for parameters of rank 0 or 1, such as biases */
    /* the last group that matches a name wins; a pattern without a match is an error */
    const kn_parameter_group *groups;
    size_t group_count;
    double average; /* 0: off; decay of the weights' moving average: kn_trainer_use_averages */

    /* The learning rate; lengths are in updates. */
    kn_schedule schedule;
    uint64_t warmup_steps; /* linear ramp from 1 / warmup_steps of the rate to all of it */
    uint64_t total_steps;  /* COSINE, ONE_CYCLE, POLYNOMIAL: the last update */
    double final_share;    /* 0; the fraction of the rate at the end, and the lower limit of PLATEAU */
    uint64_t step_every;
    double step_factor;         /* 0.1 */
    const uint64_t *milestones; /* ascending */
    size_t milestone_count;
    uint64_t restart_every;
    double restart_factor;      /* 1 */
    double cycle_rise;          /* 0.3; the fraction of the cycle in which the rate rises */
    double cycle_divisor;       /* 25 */
    double cycle_final_divisor; /* 1e4 */
    double power;               /* 1 */
    uint64_t plateau_patience;  /* 10; evaluations without a lower loss before the rate falls */
    uint64_t plateau_cooldown;  /* 0; evaluations after a fall that are not counted */
    /* 1e-4; a loss is lower if it improves on the lowest by more than this fraction of it */
    double plateau_threshold;

    /* States, seed, memory, precision and so on of its sessions. Copied; NULL: defaults. `training` is always
     * true. In float16 the loss is multiplied by the state "koine.loss_scale" before gradients are computed,
     * and those of parameters are divided by it: a step whose gradients are not finite updates nothing and
     * halves it; 2,000 steps without one double it. */
    const kn_session_params *session;
    kn_value *const *extra; /* values to compute besides the loss, such as an accuracy */
    size_t extra_count;

    /* Several workers train one model: each has a trainer of the same graph, on its own device, and makes the
     * same calls. A batch is cut into `shards` parts that differ by one sample at most. Each worker computes
     * the gradients of its shards and gets the mean over the batch, so that all make the same update; the
     * loss, running statistics and extra values, which must be float32 scalars, are means over the shards
     * too. A batch norm takes the statistics of its shard. Where "batch" is a symbol of the graph, kn_sum
     * over the batch is a sum over all shards. A sum or mean over the batch that depends on inputs alone,
     * such as the number of targets that count, is that of the whole batch in each shard, so that weighted
     * means are too; it is computed first. Sums follow a binary tree over the shards: with the same number of
     * shards, any number of workers on devices of one kind computes the same bits, one alone too. A failure
     * of one ends the calls of all. It must outlive the trainer; NULL: this worker is alone. */
    const kn_communicator *communicator;
    int shards;      /* a power of two; 0: one a worker or, if that is no power of two, at least 16 */
    const int *deal; /* how many shards each rank computes, at least one; NULL: as equally as possible */
    /* false; each worker keeps and updates a part of the moments: it gets the sums of the gradients of its
     * part, and gives the new weights of its part to the others. All compute the same bits as without, and
     * files are the same: any number of workers, with or without this, can go on with them. Parts are slices
     * of parameters, or small parameters; without KN_MOMENTS_FLOAT32 they are parameters, and so differ more
     * in size. Weights and their moving averages are whole with all. Clipping by a norm, skip_not_finite,
     * float16 and LAMB need whole gradients or steps, which cross the links once more. States of moments and
     * accumulated gradients are whole after kn_trainer_collect alone. */
    bool shard_optimizer;
    /* KN_FLOAT32; or KN_FLOAT16 or KN_BFLOAT16, in which gradients go to other workers, with half the bytes.
     * In shards, the mean gradient of each and each sum of two in their tree is rounded to it, to nearest
     * even, and added in float32: so the bits do not depend on the number of workers, but differ from those
     * of another type. Losses, statistics and new weights stay float32. float16 has no numbers above 65504
     * and few below 6e-5: it suits where the precision of the session is float16, whose loss is scaled. */
    kn_dtype gradient_type;
    /* false; sums over the workers are computed by the communicator's function `sum`, which may be faster, in
     * any order: then the bits depend on the number of workers, and may differ from run to run. Needs that
     * function, and float32 gradients. */
    bool sum_any_order;
    /* A batch norm takes the statistics of the whole batch, forward and backward, so that the result is that
     * of one worker with one shard, but for rounding. Needs one shard a worker (a power of two), since all
     * shards must be computed at the same time, and two exchanges for each norm in each step. */
    bool sync_batch_norm;
    /* 0: all; the most samples that are computed at once. A batch, or in shards a shard, that has more is
     * computed in parts, one after the other, whose gradients are added: the step needs the memory of one
     * part. The update is that of the whole batch, but for rounding: what a loss divides by is that of the
     * batch, as in shards. A batch norm takes the statistics of a part, and the running statistics follow the
     * mean over the parts; dropout draws other numbers in each. Extra values must be float32 scalars. Not
     * with sync_batch_norm. */
    uint64_t part_samples;
    /* 0: off. Workers over slow links train in rounds, as DiLoCo does (Douillard et al. 2023): each makes so
     * many steps alone, with the mean gradient over its own samples of each batch, and no message is sent. At
     * the end of a round they exchange how far their parameters went since its beginning, and all go on from
     * the same ones: a step of SGD with Nesterov momentum, of the outer rate and momentum, along the mean
     * change, in which each worker counts by the samples that it computed. Running statistics and moving
     * averages become their means; moments stay with each worker. The momentum is in the states
     * PARAMETER.outer. The loss and extra values are those of this worker's samples; shards only say which
     * these are, and it computes them at once. A worker alone makes the outer step along its own change. The
     * same workers with the same deal get the same bits each time; other numbers of workers get others.
     *
     * kn_trainer_collect ends a round early, as kn_fit does at the end of an epoch and of the call, and gives
     * the moments to the first worker, as the states koine.worker.RANK.NAME until its next step. As many
     * workers, of which each loads all states, go on to the same bits; other numbers go on with the moments
     * of the first.
     *
     * Not with shard_optimizer, sync_batch_norm, sum_any_order or a gradient_type, which are about what each
     * step exchanges. A multiple of `accumulate`: a round ends with an update. */
    uint64_t sync_every;
    double outer_rate;     /* 0.7; 1 without momentum: all go on from the mean of the parameters */
    double outer_momentum; /* 0.9 */
    /* false; moments wait in host memory, and are on the device for their updates alone, those of a few
     * parameters at a time. They cross to the device and back in each update. The bits are those of a
     * training without, and so are files. All trainers of the same states need the same. Not with
     * shard_optimizer. */
    bool host_moments;
} kn_trainer_params;
KN_API void kn_trainer_params_init(kn_trainer_params *params);
/* Sets the optimizer and the defaults of PyTorch, or of the optimizer's authors: learning rate, momentum,
 * betas, epsilon and weight decay. For SGD they are those of kn_trainer_params_init. */
KN_API void kn_trainer_params_choose(kn_trainer_params *params, kn_optimizer optimizer);
#define KN_TRAINER_DEFAULTS                                                                                  \
    KN_DEFAULTS(kn_trainer_params, KN_FIELD(learning_rate, 0.01), KN_FIELD(momentum, 0.9),                   \
                KN_FIELD(beta1, 0.9), KN_FIELD(beta2, 0.999), KN_FIELD(epsilon, 1e-8),                       \
                KN_FIELD(accumulate, 1), KN_FIELD(step_factor, 0.1), KN_FIELD(restart_factor, 1),            \
                KN_FIELD(cycle_rise, 0.3), KN_FIELD(cycle_divisor, 25), KN_FIELD(cycle_final_divisor, 1e4),  \
                KN_FIELD(power, 1), KN_FIELD(plateau_patience, 10), KN_FIELD(plateau_threshold, 1e-4),       \
                KN_FIELD(outer_rate, 0.7), KN_FIELD(outer_momentum, 0.9))

/* ---- training ---------------------------------------------------------------------------------------- */

typedef struct kn_trainer kn_trainer;

/* Trains all unfrozen parameters that `loss`, a scalar, depends on. Reports errors of the graph. Returns NULL
 * only when out of memory. The caller destroys it before the context. */
KN_API kn_trainer *kn_trainer_create(kn_context *context, kn_value *loss, const kn_trainer_params *params);
KN_API void kn_trainer_destroy(kn_trainer **trainer);
KN_API kn_status kn_trainer_status(const kn_trainer *trainer);
/* The last error message; "" if none. Valid until the next call on this trainer. */
KN_API const char *kn_trainer_error(const kn_trainer *trainer);

/* The samples that this worker computes of a batch of `count`: *own from *first on. Alone, all. In a batch
 * that is smaller than the number of shards, some workers compute the last sample for nothing. */
KN_API kn_status kn_trainer_part(const kn_trainer *trainer, uint64_t count, uint64_t *first, uint64_t *own);
/* One step on `count` samples: binds the symbol "batch", if the graph has it, to count. A step is an
 * update unless gradients are accumulated; the mean gradient weights all steps equally. loss NULL: does
 * not block; otherwise *loss is the loss of this step, before its update. Feed data may be modified after
 * this returns. In shards, count is that of the whole batch, the feeds have the samples of kn_trainer_part
 * along their first dimension, and with other workers the call waits for them. */
KN_API kn_status kn_trainer_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                 double *loss);
/* The same; also fetches the extra values by name. */
KN_API kn_status kn_trainer_step_fetch(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                       size_t feed_count, double *loss, const kn_fetch *fetches,
                                       size_t fetch_count);
/* Computes values of the graph in inference mode: no dropout, running statistics. */
KN_API kn_status kn_trainer_evaluate(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                     size_t feed_count, kn_value *const *values, const kn_fetch *fetches,
                                     size_t value_count);
/* Compiles the step for batches of `count` without running it. */
KN_API kn_status kn_trainer_compile(kn_trainer *trainer, int64_t count);
/* The same for graphs with other open sizes than the batch, and for inputs that are fed as bytes: sizes and
 * scales are taken from the feeds, those of kn_trainer_step, whose data may be NULL. */
KN_API kn_status kn_trainer_compile_for(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                        size_t feed_count);
KN_API kn_status kn_trainer_wait(kn_trainer *trainer);

/* Parameters, moments, statistics, averages, step counter: everything needed to resume training bit for
 * bit. */
KN_API kn_states *kn_trainer_states(kn_trainer *trainer);
/* All workers make this call before the states are saved or evaluated; kn_fit does so where its callbacks may
 * save. With kn_trainer_params.shard_optimizer the first gets the states of which each has a part as a whole,
 * in host memory, and can get and save them until its next step. With sync_every it ends the round. Otherwise
 * it does nothing. */
KN_API kn_status kn_trainer_collect(kn_trainer *trainer);
/* With sync_every: the steps that this worker has made alone since the last round; 0: all workers have the
 * same parameters. */
KN_API uint64_t kn_trainer_steps_alone(const kn_trainer *trainer);
KN_API uint64_t kn_trainer_steps(const kn_trainer *trainer);
/* For a resumed training run: the number of steps already done. Call it after the states are set; it reads
 * them. */
KN_API void kn_trainer_set_steps(kn_trainer *trainer, uint64_t steps);
KN_API double kn_trainer_learning_rate(const kn_trainer *trainer); /* of the next step */
/* Changes the learning rate that the schedule starts from; group: a position in the trainer's groups, whose
 * rate_factor it changes, or -1. Steps from the next on use it, and nothing is compiled again. */
KN_API kn_status kn_trainer_set_rate(kn_trainer *trainer, int group, double rate);
/* Reports a validation loss to the schedule PLATEAU; other schedules ignore it. The schedule's memory is part
 * of the states. */
KN_API kn_status kn_trainer_judged(kn_trainer *trainer, double loss);
/* Exchanges the weights for their moving averages, or back, so that evaluation, inference and saving find the
 * averages under the names of the weights. Training steps are refused meanwhile. Saved and loaded states
 * remember which set is in place; call it with false before training continues. Before the first update there
 * are no averages and nothing is exchanged. Waits for the device. */
KN_API kn_status kn_trainer_use_averages(kn_trainer *trainer, bool use);
/* Changes kn_session_params.memory_bytes for what is compiled from now on, as where an evaluation on the same
 * device needs a part of the memory. */
KN_API void kn_trainer_set_memory(kn_trainer *trainer, uint64_t memory_bytes);
KN_API kn_status kn_trainer_plan(kn_trainer *trainer, kn_plan_info *info);
KN_API char *kn_trainer_plan_text(kn_trainer *trainer);
KN_API kn_status kn_trainer_plan_step(kn_trainer *trainer, int position, kn_plan_step *step);
KN_API kn_status kn_trainer_plan_pass(kn_trainer *trainer, int position, kn_plan_pass *pass);
KN_API kn_status kn_trainer_write_programs(kn_trainer *trainer, const char *folder);
KN_API void kn_trainer_free_text(kn_trainer *trainer, char *text);
/* Recomputes the last step without updating, operator by operator, and writes a sentence that names the first
 * operator with a non-finite result. KN_ERROR_NOT_FOUND if all are finite. */
KN_API kn_status kn_trainer_find_not_finite(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                            size_t feed_count, char *sentence, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
