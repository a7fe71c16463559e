/* koine tune: its options and the recorded shapes. */
#ifndef KOINE_COMMAND_TUNE_H
#define KOINE_COMMAND_TUNE_H

#include "training.h"

typedef struct tune_options {
    common_options common;
    const char *model, *set, *operators; /* a model or operators */
    const char *import, *export;
    bool training, retune, list;
    kn_optimizer optimizer;
    uint64_t batch;
    double seconds, timeout;
    char **arguments; /* the command's arguments, for the measuring process */
    int count;
} tune_options;

typedef struct tune_run {
    const tune_options *options;
    training_setup setup;
    kn_context *context;
    kn_tuner *tuner;
} tune_run;

/* Opens the device and records the shapes of the plans (tune_plans.c). Reports an error and returns false. */
bool tune_open(tune_run *run);
/* Opens only the device. */
bool tune_open_device(tune_run *run);
void tune_close(tune_run *run);
/* The words for a shape or an entry that failed: "failed", "wrong", "hung". */
const char *tune_word(kn_tuner_event event);
/* Tries candidates in this process, and prints its progress for the parent process (tune_apart.c). */
int tune_measure(tune_run *run, double seconds);
/* Prints, imports or exports the stored results (tune_files.c). */
int tune_files(tune_run *run);
/* Tunes all shapes in watched processes (tune_watch.c). */
int tune_watch(tune_run *run);

#endif
