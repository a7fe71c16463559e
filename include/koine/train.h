/* Training: an optimizer, a learning rate schedule, and the step that applies them to a loss.
 *
 *     kn_trainer_params params = KN_TRAINER_DEFAULTS;
 *     kn_trainer_params_choose(&params, KN_OPTIMIZER_ADAMW);
 *     kn_trainer *trainer = kn_trainer_create(context, loss, &params);
 *     kn_feed feeds[] = {{"x", x, sizeof x, 0}, {"y", y, sizeof y, 0}};
 *     double value = 0;
 *     if (kn_trainer_step(trainer, BATCH, feeds, 2, &value) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_trainer_error(trainer));
 *     kn_trainer_destroy(&trainer);
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

/* The update rules. They compute what PyTorch's optimizers of these names compute, except LAMB (You et al.
 * 2020, with bias-corrected moments) and Lion (Chen et al. 2023), which PyTorch does not have. */
typedef enum kn_optimizer {
    KN_OPTIMIZER_SGD = 0,
    KN_OPTIMIZER_ADAM = 1,
    KN_OPTIMIZER_ADAMW = 2,
    KN_OPTIMIZER_RMSPROP = 3,
    KN_OPTIMIZER_ADAGRAD = 4,
    KN_OPTIMIZER_ADADELTA = 5,
    KN_OPTIMIZER_LAMB = 6,
    KN_OPTIMIZER_LION = 7,
} kn_optimizer;
/* The number of optimizers, and the name of each, such as "adamw"; NULL past the last. Static; thread-safe.
 */
KN_API size_t kn_optimizer_count(void);
KN_API const char *kn_optimizer_name(kn_optimizer optimizer);
/* Whether the optimizer reads this field of kn_trainer_params: "momentum", "dampening", "nesterov",
 * "amsgrad", "centered", "beta1", "beta2", "epsilon", "rate_decay" or "accumulator". Thread-safe. */
KN_API bool kn_optimizer_reads(kn_optimizer optimizer, const char *field);

/* The learning rate as a function of the update. Positions (milestones, total_steps, multiples of step_every)
 * count from the first update; all other lengths count from the end of the warm-up. */
typedef enum kn_schedule {
    KN_SCHEDULE_CONSTANT = 0,
    KN_SCHEDULE_STEP = 1,        /* multiplied by step_factor every step_every updates */
    KN_SCHEDULE_COSINE = 2,      /* half a cosine, down to final_fraction of the rate at total_steps */
    KN_SCHEDULE_MULTI_STEP = 3,  /* multiplied by step_factor at each milestone */
    KN_SCHEDULE_EXPONENTIAL = 4, /* multiplied by step_factor per step_every (0: 1) updates, smoothly */
    /* a cosine over restart_every updates, restarted; each cycle is restart_factor times as long as the last
     */
    KN_SCHEDULE_COSINE_RESTARTS = 5,
    /* cosines: from 1 / cycle_divisor up, then down to 1 / (cycle_divisor * cycle_final_divisor) */
    KN_SCHEDULE_ONE_CYCLE = 6,
    /* down to final_fraction of the rate at total_steps, as a power of the remaining fraction */
    KN_SCHEDULE_POLYNOMIAL = 7,
    KN_SCHEDULE_PLATEAU = 8, /* multiplied by step_factor when the validation loss stops falling
                                (kn_trainer_report_validation) */
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

/* The type in which the optimizer's moments, the averages and sums of gradients that it keeps in the states
 * PARAMETER.KIND, are stored (docs/memory.md#optimizer-state-in-fewer-bits). Updates are computed in float32,
 * and rounded stochastically by the seed and the step; each type gives a different result. Weights, their
 * moving averages and accumulated gradients stay float32. 8-bit moments are float8e4m3fn times a power of two
 * per row, in the state PARAMETER.KIND.bound; moments that cannot be negative are stored as square roots;
 * those of embeddings and of parameters with less than 4096 elements stay float32. Not with `centered`. A
 * file with float32 or bfloat16 moments is converted if the step was compiled before the file is loaded.
 * X(name, number, text). */
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
    kn_optimizer optimizer; /* Adam; kn_trainer_params_choose sets the usual settings of another */
    double learning_rate;   /* 0.001 */
    double momentum;        /* SGD and RMSprop: 0.9 */
    double dampening;       /* SGD: 0; the fraction of a gradient that does not enter the momentum */
    bool nesterov;          /* SGD */
    bool amsgrad;           /* Adam and AdamW: divide by the largest mean square so far */
    bool centered;          /* RMSprop: divide by the standard deviation */
    double beta1;           /* Adam, AdamW, LAMB and Lion: 0.9 */
    double beta2;           /* the same optimizers, RMSprop (PyTorch's alpha) and Adadelta (rho): 0.999 */
    bool variable_momentum; /* false; kn_trainer_set_momentum may change the momentum and betas */
    double epsilon;         /* all but SGD and Lion: 1e-8 */
    double rate_decay;      /* Adagrad: 0; the rate is divided by 1 + rate_decay * updates */
    double accumulator;     /* Adagrad: 0; initial value of the sums of squares */
    kn_moments moments;     /* KN_MOMENTS_FLOAT32; the type in which the moments are stored */

    /* Applied to gradients and weights, in this order. */
    /* 1 (and 0): each step is an update; more: this many steps make one update with their mean gradient. A
     * loss divides by the counts of its own batch. */
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
    double final_fraction; /* 0; the fraction of the rate at the end, and the lower limit of PLATEAU */
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

    /* Settings of the trainer's sessions: states, seed, memory, precision and so on. Copied; NULL: defaults.
     * `training` is always true. With KN_PRECISION_FLOAT16 the loss is scaled by the state
     * "koine.loss_scale": a step with gradients that are not finite updates nothing and halves the scale;
     * 2,000 steps without one double it. */
    const kn_session_params *session;
    kn_value *const *extra; /* values to compute besides the loss, such as an accuracy */
    size_t extra_count;

    /* Several workers train one model (docs/several-devices-explained.md). Each worker has a
     * trainer of the same graph on its own device and makes the same calls. A batch is cut into `shards`
     * parts that differ by at most one sample; each worker computes the gradients of its shards, and all make
     * the same update with the mean over the batch. The same number of shards gives the same bits on any
     * number of workers with devices of one kind. Extra values must be float32 scalars; they, the loss and
     * running statistics are means over the shards. A sum or mean over the batch that depends only on inputs
     * is computed over the whole batch. The communicator must outlive the trainer; NULL: a single worker. */
    const kn_communicator *communicator;
    /* a power of two; 0: one per worker or, if the number of workers is not a power of two, at least 16 */
    int shards;
    const int *shard_counts; /* the number of shards that each rank computes, at least one; NULL: as equal as
                                possible */
    /* false; each worker keeps and updates only a part of the optimizer's moments. Results and files are the
     * same. States of moments and accumulated gradients are whole only after kn_trainer_collect. */
    bool shard_optimizer;
    /* KN_FLOAT32; or KN_FLOAT16 or KN_BFLOAT16: the type in which gradients are sent. Results differ from
     * KN_FLOAT32, but do not depend on the number of workers. */
    kn_dtype gradient_dtype;
    /* false; gradients are summed by the communicator's function `sum`, which may be faster: the bits then
     * depend on the number of workers and may differ from run to run. Needs float32 gradients. */
    bool sum_any_order;
    /* false; batch norms take the statistics of the whole batch. Needs one shard per worker, and exchanges
     * data twice per norm and step. */
    bool sync_batch_norm;
    /* 0: all; the most samples that are computed at once (docs/memory.md). A larger batch or shard is
     * computed in parts whose gradients are added, with the same update except for rounding, batch norms
     * (each part has its own statistics) and dropout. Extra values must be float32 scalars. Not with
     * sync_batch_norm. */
    uint64_t micro_batch;
    /* 0: off; DiLoCo (Douillard et al. 2023) for workers over slow links: each makes this many steps on its
     * own, then the workers exchange the changes of their parameters and continue from the same ones
     * (docs/several-devices-explained.md#local-steps). A multiple of `accumulate`. Not with shard_optimizer,
     * sync_batch_norm, sum_any_order or gradient_dtype. Until kn_trainer_collect or the end of a round, the
     * loss, extra values and parameters are this worker's own. */
    uint64_t sync_every;
    double outer_rate;     /* 0.7; 1 without momentum: all continue from the mean of the parameters */
    double outer_momentum; /* 0.9; kept in the states PARAMETER.outer */
    /* false; moments stay in host memory and are copied to the device for their updates, a few parameters at
     * a time (docs/memory.md#optimizer-state-in-host-memory). Results and files are the same. All trainers of
     * the same states need the same value. Not with shard_optimizer. */
    bool offload_optimizer;
} kn_trainer_params;
KN_API void kn_trainer_params_init(kn_trainer_params *params);
/* Sets the optimizer and its usual settings, which are PyTorch's or those of the optimizer's authors:
 * learning rate, momentum, betas, epsilon and weight decay. For Adam they are the defaults. */
KN_API void kn_trainer_params_choose(kn_trainer_params *params, kn_optimizer optimizer);
#define KN_TRAINER_DEFAULTS                                                                                  \
    KN_DEFAULTS(kn_trainer_params, KN_FIELD(optimizer, KN_OPTIMIZER_ADAM), KN_FIELD(learning_rate, 0.001),   \
                KN_FIELD(momentum, 0.9), KN_FIELD(beta1, 0.9), KN_FIELD(beta2, 0.999),                       \
                KN_FIELD(epsilon, 1e-8), KN_FIELD(accumulate, 1), KN_FIELD(step_factor, 0.1),                \
                KN_FIELD(restart_factor, 1), KN_FIELD(cycle_rise, 0.3), KN_FIELD(cycle_divisor, 25),         \
                KN_FIELD(cycle_final_divisor, 1e4), KN_FIELD(power, 1), KN_FIELD(plateau_patience, 10),      \
                KN_FIELD(plateau_threshold, 1e-4), KN_FIELD(outer_rate, 0.7), KN_FIELD(outer_momentum, 0.9))

/* ---- settings by name --------------------------------------------------------------------------------- */

/* What a setting is about. */
typedef enum kn_setting_group {
    KN_SETTING_GROUP_OPTIMIZER = 0,
    KN_SETTING_GROUP_SCHEDULE = 1,
    KN_SETTING_GROUP_WORKERS = 2,
} kn_setting_group;

/* A field of kn_trainer_params that is a bool, an integer, a number or a word. kn_trainer_create checks the
 * fields, and koine train, Python and saved models name them, by these rows. */
typedef struct kn_trainer_setting {
    size_t size;
    const char *name;     /* of the field, such as "learning_rate" */
    const char *option;   /* of koine train, such as "lr"; NULL: none */
    const char *argument; /* stands for the value in help, such as "RATE"; NULL: a flag */
    const char *help;
    kn_setting_group group;
    /* the setting that decides whether this one is used: "optimizer", "schedule" or "sync_every"; NULL: it
     * always is */
    const char *owner;
    bool is_count;    /* an integer of at least 0 */
    bool same_result; /* results do not depend on it */
} kn_trainer_setting;
#define KN_TRAINER_SETTING_DEFAULTS KN_DEFAULTS_ZERO(kn_trainer_setting)
/* The settings in the order of the help; false past the last. The texts are static. Thread-safe. */
KN_API bool kn_trainer_setting_at(size_t position, kn_trainer_setting *setting);
/* The words of a setting, such as "adam" of "optimizer"; NULL past the last, and for other settings. Static;
 * thread-safe. */
KN_API const char *kn_trainer_setting_word_at(const char *name, size_t position);
/* Whether a trainer with these parameters uses the setting: with momentum 0.9, Adam has no momentum. */
KN_API bool kn_trainer_params_use(const kn_trainer_params *params, const char *name);
/* Sets a field from text: "yes" or "no", an integer, a number or a word. The optimizer also sets its usual
 * settings (kn_trainer_params_choose), so it comes first. KN_ERROR_ARGUMENT: there is no such setting, and
 * the message is "", or the text is not a value of it, and the message is such as "is '2'; expected a number
 * of at least 0 and below 1". */
KN_API kn_status kn_trainer_params_set(kn_trainer_params *params, const char *name, const char *text,
                                       char *message, size_t size);
/* Writes the value of a field as kn_trainer_params_set reads it. KN_ERROR_ARGUMENT: there is no such
 * setting. */
KN_API kn_status kn_trainer_params_get(const kn_trainer_params *params, const char *name, char *text,
                                       size_t room);
/* The checks of kn_trainer_create that need no graph. An error is written to message, unless that is NULL.
 * Thread-safe. */
KN_API kn_status kn_trainer_params_check(const kn_trainer_params *params, char *message, size_t size);

/* ---- training ---------------------------------------------------------------------------------------- */

typedef struct kn_trainer kn_trainer;

/* Trains all unfrozen parameters that `loss`, a scalar, depends on. Reports errors of the graph. Returns NULL
 * only when out of memory. The caller destroys it before the context. */
KN_API KN_NODISCARD kn_trainer *kn_trainer_create(kn_context *context, kn_value *loss,
                                                  const kn_trainer_params *params);
KN_API void kn_trainer_destroy(kn_trainer **trainer);
KN_API kn_status kn_trainer_status(const kn_trainer *trainer);
/* The last error message; "" if none. Valid until the next call on this trainer. */
KN_API const char *kn_trainer_error(const kn_trainer *trainer);

/* The samples of a batch of `count` that this worker computes: *own samples from *first on; a single worker
 * gets all. In a batch that is smaller than the number of shards, some workers compute the last sample
 * needlessly. */
KN_API kn_status kn_trainer_local_samples(const kn_trainer *trainer, uint64_t count, uint64_t *first,
                                          uint64_t *own);
/* One step on `count` samples; binds the symbol "batch", if the graph has it, to count. A step is an update
 * unless gradients are accumulated. loss NULL: does not block; otherwise *loss is set to the loss before the
 * update. Feed data may be modified after this returns. With several workers, count is the size of the whole
 * batch, the feeds have the samples of kn_trainer_local_samples along their first dimension, and the call
 * waits for the other workers. */
KN_API KN_NODISCARD kn_status kn_trainer_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                              size_t feed_count, double *loss);
/* kn_trainer_step that does not wait for its own loss, so that the device is never idle, as in kn_fit: *loss
 * becomes the loss of the previous call of this function, NaN in the first; loss may be NULL. */
KN_API KN_NODISCARD kn_status kn_trainer_step_late(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                                   size_t feed_count, double *loss);
/* kn_trainer_step; also fetches the extra values by name. */
KN_API KN_NODISCARD kn_status kn_trainer_step_fetch(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                                    size_t feed_count, double *loss, const kn_fetch *fetches,
                                                    size_t fetch_count);
/* Computes values of the graph in inference mode: no dropout, running statistics. */
KN_API KN_NODISCARD kn_status kn_trainer_evaluate(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                                  size_t feed_count, kn_value *const *values,
                                                  const kn_fetch *fetches, size_t value_count);
/* Compiles the step for batches of `count` without running it. */
KN_API kn_status kn_trainer_compile(kn_trainer *trainer, int64_t count);
/* The same for graphs with more symbols than "batch" and for inputs that are fed as bytes: sizes and scales
 * are taken from the feeds, whose data may be NULL. */
KN_API kn_status kn_trainer_compile_for(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                        size_t feed_count);
/* Waits for all steps so far. */
KN_API kn_status kn_trainer_wait(kn_trainer *trainer);

/* Parameters, moments, statistics, moving averages and the step counter: everything needed to resume training
 * bit for bit. */
KN_API kn_states *kn_trainer_states(kn_trainer *trainer);
/* All workers make this call before the states are saved or evaluated; kn_fit does where its callbacks may
 * save. With shard_optimizer, the first worker gets the sharded states as a whole, in host memory, until its
 * next step. With sync_every, the round ends and the first worker gets the moments of all workers as the
 * states koine.worker.RANK.NAME. Otherwise it does nothing. */
KN_API kn_status kn_trainer_collect(kn_trainer *trainer);
/* With sync_every: the steps that this worker has made since the last round; 0: all workers have the same
 * parameters. */
KN_API uint64_t kn_trainer_local_steps(const kn_trainer *trainer);
KN_API uint64_t kn_trainer_steps(const kn_trainer *trainer);
/* For a resumed training run: sets the number of steps already done. Call it after the states are set; it
 * reads them. */
KN_API void kn_trainer_set_steps(kn_trainer *trainer, uint64_t steps);
KN_API double kn_trainer_learning_rate(const kn_trainer *trainer); /* of the next step */
/* Changes the learning rate that the schedule starts from; group: the position of a group whose rate_factor
 * is changed instead, or -1. Used from the next step on; nothing is recompiled. */
KN_API kn_status kn_trainer_set_learning_rate(kn_trainer *trainer, int group, double rate);
/* With variable_momentum: changes `momentum`, or `beta1` for optimizers without a momentum, and `beta2`, all
 * at least 0 and below 1; group: the position of a group that has its own values from now on, or -1 for the
 * parameters without a group. Used from the next step on; nothing is recompiled. Saved states do not have
 * them. */
KN_API kn_status kn_trainer_set_momentum(kn_trainer *trainer, int group, double momentum, double beta2);
/* Reports a validation loss to the schedule KN_SCHEDULE_PLATEAU, which keeps it in the states; other
 * schedules ignore it. */
KN_API kn_status kn_trainer_report_validation(kn_trainer *trainer, double loss);
/* Exchanges the weights for their moving averages, or back, so that evaluation, inference and saving find the
 * averages under the names of the weights. Until they are restored, training steps are refused. Saved and
 * loaded states record which set is in place; call it with false before training continues. Before the first
 * update there are no averages and nothing is exchanged. Waits for the device. */
KN_API kn_status kn_trainer_use_averages(kn_trainer *trainer, bool use);
/* Changes kn_session_params.memory_bytes for what is compiled from now on, for example when an evaluation on
 * the same device needs a part of the memory. */
KN_API void kn_trainer_set_memory_bytes(kn_trainer *trainer, uint64_t memory_bytes);
/* The plan of the step, like the functions of sessions with these names. */
KN_API kn_status kn_trainer_plan(kn_trainer *trainer, kn_plan_info *info);
KN_API KN_NODISCARD char *kn_trainer_plan_text(kn_trainer *trainer);
KN_API void kn_trainer_free_text(kn_trainer *trainer, char *text);
KN_API kn_status kn_trainer_plan_step_at(kn_trainer *trainer, size_t position, kn_plan_step *step);
KN_API kn_status kn_trainer_plan_pass_at(kn_trainer *trainer, size_t position, kn_plan_pass *pass);
KN_API kn_status kn_trainer_write_programs(kn_trainer *trainer, const char *folder);
/* Recomputes the last step without updating, operator by operator, and writes a message that names the first
 * operator with a non-finite result. KN_ERROR_NOT_FOUND if all are finite. */
KN_API kn_status kn_trainer_find_not_finite(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                            size_t feed_count, char *message, size_t size);

#ifdef __cplusplus
}
#endif
#endif
