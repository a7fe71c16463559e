/* What the files of `koine train` share. */
#ifndef KOINE_COMMAND_TRAIN_H
#define KOINE_COMMAND_TRAIN_H

#include "training.h"

typedef struct train_options {
    common_options common;
    const char *data, *optimizer, *schedule, *loss, *init, *log, *save, *resume;
    uint64_t epochs, steps, batch, seed, patience, warmup, step_every, memory;
    double seconds, validation, rate, momentum, decay, clip, step_factor;
    bool nesterov, no_shuffle, drop_last, find_nan;
    kn_trainer_params how; /* what they mean to the trainer */
} train_options;

/* ---- train_report.c: what is told on the way and at the end ---------------------------------- */

typedef struct train_report {
    const train_options *options;
    FILE *log;            /* NULL: none */
    uint64_t total_steps; /* 0: not known */
    double accuracy;      /* of the last judging; NaN: none yet */
    double begun;
} train_report;

/* For kn_fit_params; `user` is a train_report. */
bool report_step(void *user, const kn_fit_step *step);
bool report_epoch(void *user, const kn_fit_epoch *epoch);
/* The last object of the log, and what --json prints. */
void report_end_json(FILE *stream, const kn_fit_result *result);
void report_end_text(const kn_fit_result *result, uint64_t steps_before, const char *path);

/* ---- train_files.c: what is read before and written after --------------------------------------- */

/* Where the model goes; the text is static. */
const char *train_save_path(const train_options *options, const training_setup *setup);
bool train_save(training_setup *setup, kn_trainer *trainer, const train_options *options, const char *path);
/* Weights of --init, --resume or the model's own file. */
bool train_load(training_setup *setup, kn_trainer *trainer, const train_options *options);

#endif
