/* Public to other modules: optimizers and schedules as graphs and numbers. The public side is koine/train.h.
 */
#ifndef KN_TRAIN_DOOR_H
#define KN_TRAIN_DOOR_H

#include <koine/train.h>

#include "run/run.h"

/* ---- schedule.c: learning rates over time -------------------------------------------------------------- */

/* The learning rate of update `update`, counted from 0; for PLATEAU without its reductions. */
double kn_schedule_rate(const kn_trainer_params *params, uint64_t update);

/* Scalars that the host sets before each step; they are states of the trainer's graphs. The names of a
 * setting's scalars have its number appended, except for setting 0. */
typedef enum kn_train_scalar {
    KN_TRAIN_RATE,   /* per setting: the factor of the step */
    KN_TRAIN_SHRINK, /* per setting, AdamW and Lion: 1 - rate * decay */
    /* per setting: the weight decay, added to the step (LAMB) or the gradient (if settings differ) */
    KN_TRAIN_DECAY,
    KN_TRAIN_ROOT,   /* Adam and LAMB: 1 / sqrt(1 - beta2^t); per setting with variable_momentum */
    KN_TRAIN_MEAN,   /* LAMB: 1 / (1 - beta1^t); likewise */
    KN_TRAIN_KEPT1,  /* per setting, variable_momentum: the momentum, or beta1 */
    KN_TRAIN_FRESH1, /* 1 - KN_TRAIN_KEPT1, exact to float32 */
    KN_TRAIN_KEPT2,  /* the same for beta2 */
    KN_TRAIN_FRESH2,
    KN_TRAIN_GAIN,    /* SGD with dampening: the fraction of the gradient that enters the momentum */
    KN_TRAIN_FIRST,   /* accumulation: 1 in the first step of an update, otherwise 0 */
    KN_TRAIN_WAIT,    /* accumulation: 0 in the last step of an update, otherwise 1 */
    KN_TRAIN_WEIGHT,  /* shards: the shard's fraction of the batch */
    KN_TRAIN_RATIO,   /* shards: samples of the batch / samples of this run */
    KN_TRAIN_COUNTED, /* shards: 0 for a shard whose only sample is computed for nothing, otherwise 1 */
    KN_TRAIN_MORE,    /* shards: 0 in the last run of a step, otherwise 1 */
    KN_TRAIN_FOLLOWS, /* parts: 0 for the first part of a shard, otherwise 1 */
    KN_TRAIN_HOLDS,   /* parts: 0 for the last part of a shard, otherwise 1 */
    KN_TRAIN_SCALARS
} kn_train_scalar;
/* Whether a scalar belongs to one run of a step: it is neither listed nor saved. */
static inline bool kn_train_is_of_run(kn_train_scalar scalar) {
    return scalar >= KN_TRAIN_WEIGHT && scalar < KN_TRAIN_SCALARS;
}
enum { KN_TRAIN_NAME_BYTES = 48 };
void kn_train_scalar_name(kn_train_scalar scalar, int setting, char name[KN_TRAIN_NAME_BYTES]);

/* How a set of parameters is updated. Setting 0 is for parameters without a group; group g has settings 2 (g
 * + 1) and, without weight decay, the following one. */
typedef struct kn_update_setting {
    double rate_factor, weight_decay;
    double momentum, beta2; /* momentum: beta1 for optimizers without a momentum */
    /* bit mask of the scalars that the update reads; for setting 0 the union over all settings */
    unsigned needs;
} kn_update_setting;

/* One run of a step's plan: for a shard, for a part of a shard, or for a whole step. */
typedef struct kn_train_run {
    uint64_t first, samples; /* position in the batch */
    double weight, ratio;    /* KN_TRAIN_WEIGHT, KN_TRAIN_RATIO */
    bool more;               /* the step has another run after it */
    bool holds;              /* the shard has another part after this one */
    int shard;
    uint64_t part; /* index of the part in the shard */
} kn_train_run;
/* The values of a setting's scalars in a run of step `step`, counted from 0; `plateau`: the remaining
 * fraction of the rate after PLATEAU's reductions. */
typedef struct kn_train_moment {
    uint64_t step;
    double plateau;
    kn_train_run run;
} kn_train_moment;
void kn_train_scalars_of(const kn_trainer_params *params, const kn_update_setting *setting,
                         const kn_train_moment *moment, double scalars[KN_TRAIN_SCALARS]);

/* ---- shards.c: the runs of a step ------------------------------------------------------------------- */

/* A state for each sum over a whole batch (batch_sums.c). */
#define KN_TRAIN_TOTAL "koine.total"

/* A state set by the host that random nodes count instead of steps. */
#define KN_TRAIN_DRAW "koine.draw"
/* The name of a scalar for a place on the stack of sums. */
void kn_train_place_name(const char *kind, int place, char name[KN_TRAIN_NAME_BYTES]);
/* Sets the scalars for a run in step `step`, except those of kn_train_scalars_of. */
kn_status kn_shard_set(kn_session *session, const kn_shards *shards, const kn_train_run *run, uint64_t step);

/* ---- optimizer.c: the update as a graph -------------------------------------------------------- */

/* Adds to a bound graph the gradients of the loss, the first of `values`, with respect to all its parameters,
 * their accumulation and clipping, the update of each parameter, moment and average, and of the step counter.
 * settings: 2 (groups + 1) entries, whose `needs` it sets. In float16 the loss is scaled. With `shards`,
 * values become their means over the shards. */
kn_status kn_optimizer_extend(const kn_trainer_params *params, kn_update_setting *settings,
                              kn_precision precision, const kn_shards *shards, kn_graph *bound,
                              kn_value **values, size_t value_count, kn_error *error);

/* A state that the device counts: the number of updates in the moving averages. */
#define KN_TRAIN_AVERAGED "koine.averaged"
/* States that the device changes: the factor of the loss, and NAME.good, the number of updates since it
 * changed. */
#define KN_TRAIN_LOSS_SCALE "koine.loss_scale"
#define KN_TRAIN_AVERAGE "average"
enum { KN_TRAIN_STATE_BYTES = 300 };
/* States that belong to a parameter are named PARAMETER.KIND, and states that belong to such a state
 * STATE.KIND. Writes the name of the state of `owner`; false if it is too long, and truncated. */
bool kn_train_state_name(const char *owner, const char *kind, char name[KN_TRAIN_STATE_BYTES]);

/* The setting of a parameter, or -1 if its group is frozen (parameters.c). */
int kn_trainer_setting_of(const kn_trainer_params *params, const kn_value *parameter);
/* Whether a value is a trained parameter. */
bool kn_trainer_trains(const kn_trainer_params *params, const kn_value *value);

#endif
