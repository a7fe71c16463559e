/* The door of the train room: optimizers and schedules as graphs and numbers. The public side is koine/train.h. */
#ifndef KN_TRAIN_DOOR_H
#define KN_TRAIN_DOOR_H

#include <koine/train.h>

#include "plan/plan.h"

/* ---- schedule.c ---------------------------------------------------------------------------- */

/* The learning rate of step `step`, counted from 0. */
double kn_schedule_rate(const kn_trainer_params *params, uint64_t step);

/* ---- optimizer.c: the update as a graph -------------------------------------------------------- */

/* Scalars that the host sets before each step; states of the trainer's graphs. */
#define KN_TRAIN_RATE "koine.rate"   /* SGD: the learning rate; Adam: over 1 - beta1^t */
#define KN_TRAIN_ROOT "koine.root"   /* Adam: 1 / sqrt(1 - beta2^t) */
#define KN_TRAIN_SHRINK "koine.shrink" /* AdamW: 1 - rate * decay */

/* What the scalars are in step `step`, counted from 0. */
typedef struct kn_train_scalars {
    double rate, root, shrink;
} kn_train_scalars;
kn_train_scalars kn_train_scalars_of(const kn_trainer_params *params, uint64_t step);

/* Adds to a bound graph the gradients of `loss` by all its parameters, their clipping, the update of each
 * parameter and moment, and of the step counter. */
kn_status kn_optimizer_extend(const kn_trainer_params *params, kn_graph *bound, kn_value *loss, kn_error *error);

#endif
