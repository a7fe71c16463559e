/* --device auto: selects the device that runs a step fastest. */
#ifndef KOINE_COMMAND_AUTO_H
#define KOINE_COMMAND_AUTO_H

#include "training.h"

/* A step as the command will run it, including transfers: it returns when its results are on the host. */
typedef struct auto_trial {
    const char *what; /* "a training step of 64 samples" */
    kn_model *model;  /* the model to run: its pins are the same whatever the main device is */
    void *user;
    bool (*prepare)(void *user, kn_context *context); /* reports an error and returns false */
    bool (*step)(void *user);
    void (*finish)(void *user); /* called after the steps and after a failure; does not own the context */
} auto_trial;

/* Times the trial on each usable device, stores the fastest in common->device, and prints the reason. Does
 * nothing unless auto was requested (device_is_auto). If no device can run the trial, reports this and keeps
 * auto. False: out of memory. */
bool device_auto(common_options *common, const auto_trial *trial);

/* The same for a training step and for the evaluation of a batch, after setup_data. `params` are the
 * trainer's parameters. */
bool device_auto_training(common_options *common, training_setup *setup, const kn_trainer_params *params,
                          uint64_t batch);
bool device_auto_evaluation(common_options *common, training_setup *setup, uint64_t batch);

#endif
