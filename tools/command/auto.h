/* --device auto: the device that a step is fastest on. */
#ifndef KOINE_COMMAND_AUTO_H
#define KOINE_COMMAND_AUTO_H

#include "training.h"

/* A step as the command will do it, transfers included: it returns when its results are on the host. */
typedef struct auto_trial {
    const char *what; /* "a training step of 64 samples" */
    kn_model *model;  /* what is computed: pins are the same wherever the rest runs */
    void *user;
    bool (*prepare)(void *user, kn_context *context); /* says what is wrong and answers false */
    bool (*step)(void *user);
    void (*finish)(void *user); /* after the steps, and after a failure; the context is not its own */
} auto_trial;

/* Times the trial on each device that can be used, and puts the fastest into common->device, with a line that
 * says why. Does nothing where auto is not asked for (device_is_auto), and leaves auto where no device can do
 * it, which is said. False: out of memory. */
bool device_auto(common_options *common, const auto_trial *trial);

/* The same for a training step and for the judging of a batch; setup_data has been called. `params` are the
 * trainer's. */
bool device_auto_training(common_options *common, training_setup *setup, const kn_trainer_params *params,
                          uint64_t batch);
bool device_auto_judging(common_options *common, training_setup *setup, uint64_t batch);

#endif
