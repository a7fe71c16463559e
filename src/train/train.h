/* The door of the train room: optimizers and schedules as graphs and numbers. The public side is
 * koine/train.h. */
#ifndef KN_TRAIN_DOOR_H
#define KN_TRAIN_DOOR_H

#include <koine/train.h>

#include "run/run.h"

/* ---- schedule.c: rates over time -------------------------------------------------------------- */

/* The learning rate of update `update`, counted from 0; for PLATEAU without its reductions. */
double kn_schedule_rate(const kn_trainer_params *params, uint64_t update);

/* Scalars that the host sets before each step; they are states of the trainer's graphs. Scalars of a setting
 * have its number appended to their name, except for setting 0. */
typedef enum kn_train_scalar {
    KN_TRAIN_RATE,   /* of a setting: the factor of the step */
    KN_TRAIN_SHRINK, /* of a setting, AdamW and Lion: 1 - rate * decay */
    /* of a setting: the weight decay, added to the step (LAMB) or the gradient (if settings differ) */
    KN_TRAIN_DECAY,
    KN_TRAIN_ROOT,    /* Adam and LAMB: 1 / sqrt(1 - beta2^t) */
    KN_TRAIN_MEAN,    /* LAMB: 1 / (1 - beta1^t) */
    KN_TRAIN_GAIN,    /* SGD with dampening: the fraction of the gradient that enters the momentum */
    KN_TRAIN_FIRST,   /* accumulation: 1 in the first step of an update, otherwise 0 */
    KN_TRAIN_WAIT,    /* accumulation: 0 in the last step of an update, otherwise 1 */
    KN_TRAIN_WEIGHT,  /* shards: the part of the batch that is in this one */
    KN_TRAIN_RATIO,   /* shards: samples of the batch divided by those that this run computes */
    KN_TRAIN_COUNTED, /* shards: 0 for a shard that computes a sample of another for nothing, otherwise 1 */
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

/* How a set of parameters is updated. Setting 0 is that of parameters without a group; group g has settings 2
 * (g + 1) and, without weight decay, the one after it. */
typedef struct kn_update_setting {
    double rate_factor, weight_decay;
    /* bit mask of the scalars that the update reads; that of setting 0 is the union of all settings */
    unsigned needs;
} kn_update_setting;

/* One run of a step's plan: of a shard, of a part of one, or of a step that is one run. */
typedef struct kn_train_run {
    uint64_t first, samples; /* of the batch */
    double weight, ratio;    /* KN_TRAIN_WEIGHT, KN_TRAIN_RATIO */
    bool more;               /* the step has another run after it */
    bool holds;              /* the shard has another part after this one */
    int shard;
    uint64_t part; /* of the shard, counted from 0 */
} kn_train_run;
/* The values of a setting's scalars in a run of step `step`, counted from 0; `plateau`: the fraction of the
 * rate that PLATEAU left. */
typedef struct kn_train_moment {
    uint64_t step;
    double plateau;
    kn_train_run run;
} kn_train_moment;
void kn_train_scalars_of(const kn_trainer_params *params, const kn_update_setting *setting,
                         const kn_train_moment *moment, double scalars[KN_TRAIN_SCALARS]);

/* ---- shards.c: the runs of a step ------------------------------------------------------------------- */

/* A state for each sum over a whole batch (counts.c). */
#define KN_TRAIN_TOTAL "koine.total"

/* A state that the host sets: what nodes that draw random numbers count, instead of steps. */
#define KN_TRAIN_DRAW "koine.draw"
/* The name of a scalar for a place on the stack of sums. */
void kn_train_place_name(const char *kind, int place, char name[KN_TRAIN_NAME_BYTES]);
/* Sets the scalars for a run in step `step`, except those of kn_train_scalars_of. */
kn_status kn_shard_set(kn_session *session, const kn_shards *shards, const kn_train_run *run, uint64_t step);

/* ---- optimizer.c: the update as a graph -------------------------------------------------------- */

/* Adds to a bound graph the gradients of the loss, the first of `values`, with respect to all its parameters,
 * their accumulation and clipping, the update of each parameter, moment and average, and of the step counter.
 * settings: 2 (groups + 1) entries, whose `needs` it sets. In float16 the loss is scaled. shards: NULL, or
 * then values become their means over the shards. */
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
/* States that belong to a parameter are named PARAMETER.KIND, those that belong to such a state STATE.KIND.
 * Writes the name of the state of `owner`; false: it is too long, and cut. */
bool kn_train_state_name(const char *owner, const char *kind, char name[KN_TRAIN_STATE_BYTES]);

/* The setting of a parameter, or -1 if its group is frozen (parameters.c). */
int kn_trainer_setting_of(const kn_trainer_params *params, const kn_value *parameter);
/* Whether a value is a parameter that is trained. */
bool kn_trainer_trains(const kn_trainer_params *params, const kn_value *value);

#endif
