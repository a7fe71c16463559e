/* The door of the train room: optimizers and schedules as graphs and numbers. The public side is
 * koine/train.h. */
#ifndef KN_TRAIN_DOOR_H
#define KN_TRAIN_DOOR_H

#include <koine/train.h>

#include "run/run.h"

/* ---- schedule.c: numbers over time ------------------------------------------------------------ */

/* The learning rate of update `update`, counted from 0; PLATEAU: before what the judgements made of it. */
double kn_schedule_rate(const kn_trainer_params *params, uint64_t update);

/* Scalars that the host sets before each step; states of the trainer's graphs. Those of a setting have its
 * number behind their name, setting 0 excepted. */
typedef enum kn_train_scalar {
    KN_TRAIN_RATE,   /* of a setting: what the step is multiplied by */
    KN_TRAIN_SHRINK, /* of a setting, AdamW and Lion: 1 - rate * decay */
    KN_TRAIN_DECAY,  /* of a setting: what is added to the step (LAMB) or the gradient (where settings differ)
                      */
    KN_TRAIN_ROOT,   /* Adam and LAMB: 1 / sqrt(1 - beta2^t) */
    KN_TRAIN_MEAN,   /* LAMB: 1 / (1 - beta1^t) */
    KN_TRAIN_GAIN,   /* SGD with dampening: what enters the momentum */
    KN_TRAIN_FIRST,  /* accumulation: 1 in the first step of an update, 0 in others */
    KN_TRAIN_WAIT,   /* accumulation: 0 in the last step of an update, 1 in others */
    KN_TRAIN_SCALARS
} kn_train_scalar;
enum { KN_TRAIN_NAME_BYTES = 48 };
void kn_train_scalar_name(kn_train_scalar scalar, int setting, char name[KN_TRAIN_NAME_BYTES]);

/* How parameters of one kind are updated. Setting 0 is that of parameters without a group; those of group g
 * are 2 (g + 1) and, without weight decay, the one after. */
typedef struct kn_update_setting {
    double rate_factor, weight_decay;
    unsigned
        needs; /* bits of the scalars that the update reads; setting 0 has those of all settings as well */
} kn_update_setting;

/* What a setting's scalars are in step `step`, counted from 0; `share`: what PLATEAU left of the rate. */
void kn_train_scalars_of(const kn_trainer_params *params, const kn_update_setting *setting, uint64_t step,
                         double share, double scalars[KN_TRAIN_SCALARS]);

/* ---- optimizer.c: the update as a graph -------------------------------------------------------- */

/* Adds to a bound graph the gradients of `loss` by all its parameters, their accumulation and clipping, the
 * update of each parameter, moment and average, and of the step counter. settings: 2 (groups + 1), whose
 * `needs` it sets. */
kn_status kn_optimizer_extend(const kn_trainer_params *params, kn_update_setting *settings, kn_graph *bound,
                              kn_value *loss, kn_error *error);

/* A state that the device counts: updates that entered the moving averages. */
#define KN_TRAIN_AVERAGED "koine.averaged"
/* What the states that belong to a parameter are called: PARAMETER.KIND. */
#define KN_TRAIN_AVERAGE "average"

/* The setting of a parameter, or -1 if its group is frozen (parameters.c). */
int kn_trainer_setting_of(const kn_trainer_params *params, const kn_value *parameter);

#endif
