/* Declarations shared by the files of `koine train`. */
#ifndef KOINE_COMMAND_TRAIN_H
#define KOINE_COMMAND_TRAIN_H

#include <pthread.h>
#include <stdatomic.h>

#include "training.h"

/* ---- train_config.c: settings of the trainer ------------------------------------------------------- */

enum {
    CONFIG_SETTINGS = 64,
    CONFIG_MILESTONES = 32,
    CONFIG_GROUPS = 16,
    CONFIG_GROUP_BYTES = 1024,
    CONFIG_HELP = 200,
    CONFIG_NUMBER = 64
};
typedef struct train_config {
    kn_trainer_params params; /* from config_check on; its lists are those below */
    /* As given, by the position of kn_trainer_setting_at; NULL or false: not given. */
    const char *texts[CONFIG_SETTINGS];
    bool flags[CONFIG_SETTINGS];
    const char *milestones, *groups, *freeze;
    bool constant; /* without --schedule the rate is constant */
    bool cosine;   /* without --schedule it falls towards the end, which is known */
    uint64_t milestone_list[CONFIG_MILESTONES];
    kn_parameter_group group_list[CONFIG_GROUPS];
    size_t milestone_count, group_count;
    char group_text[CONFIG_GROUP_BYTES], freeze_text[CONFIG_GROUP_BYTES];
    char help[CONFIG_SETTINGS][CONFIG_HELP]; /* from config_rows on */
} train_config;

/* Fills in the option rows of a group of settings; returns their number. */
size_t config_rows(train_config *config, kn_setting_group group, option *rows);
/* Whether the option of this setting was given. */
bool config_gives(const train_config *config, const char *name);
/* Sets the parameters from the options. EXIT_DONE, or reports an error and returns EXIT_USAGE. end_known:
 * whether the number of steps is limited. */
int config_check(train_config *config, bool end_known);

/* ---- train_options.c ----------------------------------------------------------------------------- */

enum { RUN_PATH = 4096, WORKERS_MOST = 64, WORKER_NAME = 128, WORKER_SHARDS = 1024 };

/* What is written where. */
typedef struct train_outputs {
    const char *save, *log, *report, *run, *tensorboard, *trace, *checkpoints, *every;
    uint64_t keep;
    bool replaces;               /* the file at `path` belongs to this training run or may be replaced */
    char path[RUN_PATH];         /* destination of the model */
    char mark[17];               /* identifies this training run in the files written with the model */
    char run_files[5][RUN_PATH]; /* with --run */
} train_outputs;

/* The devices and processes, and the shards of each. */
typedef struct train_crew {
    const char *devices, *dealt; /* --devices, --shard-counts */
    const char *sum_word;        /* --all-reduce */
    uint64_t shards;             /* UINT64_MAX: not given */
    double timeout;              /* seconds; 0: forever */
    int count;                   /* number of workers in all processes */
    int device_count;            /* 0: without --devices */
    char device_names[WORKERS_MOST][WORKER_NAME];
    int deal[WORKERS_MOST], deal_count;
    char kept_deal[300]; /* the shards per device for different devices (train_deal.c); "": none */
    bool follows;        /* another process reports and writes the files */
} train_crew;

typedef struct train_options {
    common_options common;
    train_config config;
    train_outputs outputs;
    train_crew crew;
    const char *lora, *loss_on;
    lora_options adapter; /* from `lora` */
    uint64_t length;      /* --length; 0: the model's */
    const char *data, *loss, *init, *resume, *set, *bad, *batch_norm, *augment, *class_weights, *file;
    char **arguments; /* the command line */
    int argument_count;
    uint64_t epochs, steps, batch, seed, patience, memory, cache, workers;
    uint64_t part;              /* the largest number of samples that fits on a device at once; 0: all */
    double seconds, validation; /* validation NaN: not given */
    uint64_t validate_samples;  /* UINT64_MAX: all */
    bool unvalidated;           /* --validation 0 */
    bool no_shuffle, drop_last, in_sequence, find_nan, skip_bad, oversample, check;
    bool goes_on;          /* --resume was given, even if it found nothing */
    kn_trainer_params how; /* the resulting trainer parameters */
} train_options;

/* ---- train_memory.c: the trainer and evaluation, within memory limits ----------------------------- */

typedef struct train_learner {
    /* Set by the caller: */
    train_options *options;
    training_setup *setup;
    kn_context *context;
    uint64_t samples;
    const kn_communicator *communicator; /* communicator with the other workers; NULL: none */
    bool other;                          /* not the first worker of this process */
    /* Set by learner_open: */
    kn_trainer *trainer;
    kn_session *evaluator; /* NULL without validation data */
    uint64_t total_steps;
    uint64_t planned_bytes; /* device memory of training and evaluation */
} train_learner;

/* Both point to *session, which is set too. */
kn_trainer_params learner_params(const train_options *options, uint64_t samples, kn_session_params *session);
/* Batches per epoch. */
uint64_t learner_batches(const train_options *options, uint64_t samples);
/* Whether each step reports its accuracy; mixed samples have two classes. */
bool learner_reports_accuracy(const train_learner *learner);
/* The evaluation batch size. */
uint64_t learner_evaluation_batch(const train_options *options, uint64_t samples);
/* Opens the trainer and the evaluation for the batch size in the options. If memory is too small, splits the
 * batch into parts and changes the options. Reports an error and returns false. */
bool learner_open(train_learner *learner);
void learner_close(train_learner *learner);

/* ---- train_watch.c: workers that fail or stop responding ------------------------------------------ */

enum { WATCH_NAME = 300, WATCH_REASON = 1200 };
typedef struct train_watch train_watch;
typedef struct train_watched {
    train_watch *watch;
    kn_communicator inner;
    kn_context *context;
    char name[WATCH_NAME]; /* rank, host and device */
    atomic_uint passed;    /* number of completed messages */
    atomic_bool waits;     /* waits for a message */
} train_watched;
/* Initialise with zeros; do not move it. */
struct train_watch {
    const train_options *options;
    bool processes; /* this is one of several MPI processes */
    int count;      /* workers in this process */
    train_watched ranks[WORKERS_MOST];
    /* For processes: whether a process with a lower rank on this machine is alive, which then reports
     * instead. */
    bool (*another_reports)(void);
    pthread_t thread;
    bool started;
    atomic_bool ends;
};
/* Wraps `inner` and adds rank, host and device to its error messages. */
kn_communicator watch_rank(train_watch *watch, const kn_communicator *inner, kn_context *context);
/* Until watch_end, reports workers that do not respond (--timeout) and a launcher that ends this process, and
 * ends the process. Reports an error and returns false. */
bool watch_begin(train_watch *watch);
void watch_end(train_watch *watch);
/* How to resume after a failure, as the end of a sentence. */
const char *train_how_to_go_on(const train_options *options);
/* This machine's name. */
void train_host(char *name, size_t bytes);

/* ---- train_workers.c: --devices ---------------------------------------------------------------------- */

typedef struct train_workers train_workers;
typedef struct train_world train_world;

/* Reads --devices, --shard-counts and --shards. EXIT_DONE, or reports an error and returns EXIT_USAGE. */
int workers_check(train_options *own);
/* Opens the devices after the first and chooses the number of shards. The first uses the context of
 * `learner`, which gets its communicator. Does nothing without --devices. Reports an error and returns
 * false. */
bool workers_open(train_learner *learner, train_watch *watch, train_world *world, train_workers **workers);
/* Opens the trainers of the other workers like the first (learner_open), and copies its states. */
bool workers_prepare(train_workers *workers, const train_learner *first);
/* Starts training on the other workers; kn_fit of the first worker takes part in it. */
bool workers_start(train_workers *workers, const kn_dataset *dataset, const kn_fit_params *params);
void workers_wait(train_workers *workers);
/* `failed`: the other processes may be waiting for this process, which must end. */
void workers_close(train_workers **workers, bool failed);

/* ---- train_parts.c: workers that share a CPU ----------------------------------------------------------- */

/* Finds contexts of this process that share a CPU with other workers, of this process or of `world` (NULL:
 * only this process), and reopens each with a part of its compute units. Reports an error and returns false;
 * then contexts may be NULL. */
bool parts_take(const train_options *options, const kn_communicator *world, kn_context **contexts, int count);

/* ---- train_deal.c -------------------------------------------------------------------------------- */

/* Sets the number of shards in the options, unless it is given: one per worker if the workers are equal and
 * their number is a power of two, otherwise at least 16. Reports fewer shards than workers, or
 * --sync-batch-norm with several shards per worker, and returns false. */
bool shards_choose(train_options *options, int workers, bool equal);
/* Parses comma-separated shard counts and their sum; returns how many there are, 0 if invalid. Advances *text
 * to the rest. */
int deal_read(const char **text, int *deal, uint64_t *dealt);
/* Formats shard counts the same way; returns the length, `room` or more if truncated. */
size_t deal_write(const int *deal, int count, char *text, size_t room);
/* Stores the shard counts and the device identities in the options, for the model files. */
#define SHARD_COUNTS_KEY "train.shard_counts"
void deal_keep(train_options *options, kn_context *const *contexts, int count);
/* Uses the shard counts in the --resume file if the devices, their order and the number of shards match. */
bool deal_take(train_options *options, kn_context *const *contexts, int count);
/* Distributes the shards by the time per shard on each device, to minimise the step time. Reports devices
 * that get none; the first device gets at least one. */
void deal_by_speed(const train_learner *learner, kn_context *const *contexts, int count, int *deal);

/* ---- train_ranks.c: processes that mpirun has started -------------------------------------------- */

/* The place of this process among several. Initialise with zeros. */
struct train_world {
    bool found;
    kn_communicator all; /* connects the processes, not their workers */
    int workers;         /* workers in all processes */
    int most;            /* most workers in one process */
    bool equal;          /* all devices are of the same kind */
};
/* Opens the communicator and chooses the devices of this process. Reports an error and returns false. */
bool world_open(train_options *options, train_watch *watch, train_world *world);
/* Counts the workers of all processes and chooses the shards. `count`: the workers of this process. */
bool world_choose_shards(train_options *options, train_world *world, kn_context *const *contexts, int count);
/* Gathers a value from each process, (ranks), to be freed; reports an error and returns NULL. world NULL:
 * only this process. */
void *world_gather(const kn_communicator *world, const void *own, size_t bytes);
/* Sets the part size of all workers to the size that fits the worker with the least memory. */
bool world_choose_part(const train_world *world, train_learner *learner);
/* Whether all processes train the same model; the first process reports a mismatch. */
bool world_agrees(const train_world *world, const train_learner *learner);
/* After a failure (status), ends the other processes and this one. */
void world_close(const train_world *world, int status);

/* ---- train_run.c: --run ------------------------------------------------------------------------- */

/* Creates the --run folder, if requested, and directs model, log and report to it. Reports an error, such as
 * an existing run, and returns false. `model` is the model being trained. */
bool run_open(train_options *options, const char *model);
/* Writes the command line there. Reports an error and returns false. */
bool run_begin(const train_options *options);
/* The command, quoted for a shell. */
void command_line_write(FILE *stream, const train_options *options);

/* ---- train_augment.c ----------------------------------------------------------------------------- */

/* Parses "flip,crop=4,…" (NULL: nothing). EXIT_DONE, or reports an error and returns EXIT_USAGE. */
int train_augment_check(const char *text, kn_augmentation *into);

/* ---- train_hints.c ------------------------------------------------------------------------------ */

/* Reports about device and data before training, and suggests options. */
void train_print_hints(const train_options *options, const training_setup *setup, const kn_context *context);

/* ---- train_curve.c: the loss on a terminal ---------------------------------------------------- */

enum { CURVE_POINTS = 1024 };
typedef struct loss_curve {
    float losses[CURVE_POINTS]; /* every `stride`-th */
    size_t count;
    uint64_t seen, stride;
} loss_curve;

void curve_add(loss_curve *curve, double loss);
/* If the terminal is wide enough and supports UTF-8; without colour if NO_COLOR is set. */
void curve_show(const loss_curve *curve);

/* ---- train_report.c: progress and results -------------------------------------------------------- */
/* Prints what is trained on what. */
void report_begin(const kn_model *model, uint64_t samples, const char *data, const kn_context *context);

typedef struct train_report {
    const train_options *options;
    FILE *log;            /* NULL: none */
    uint64_t total_steps; /* 0: unknown */
    const training_setup *setup;
    uint64_t memory_bytes; /* device memory for training and evaluation together */
    kn_score score;        /* score of the last evaluation; samples 0: none yet */
    loss_curve curve;
    double warm_since; /* by clock_now: end of the first step of this run */
    uint64_t warm_at;  /* number of that step; 0: none yet */
    uint64_t epoch;    /* epoch of the last step */
    double loss;       /* loss of the last step */
} train_report;

/* For kn_fit_params; `user` is a train_report. */
bool report_step(void *user, const kn_fit_step *step);
bool report_epoch(void *user, const kn_fit_epoch *epoch);
void report_validation(train_report *report, uint64_t samples, uint64_t all);
/* Writes the last object of the log (path NULL), or prints the result of --json, which also has the total
 * time and the path of the model. */
void report_end_json(FILE *stream, const training_setup *setup, const kn_fit_result *result,
                     const char *path);
void report_end_text(const training_setup *setup, const kn_fit_result *result, uint64_t steps_before,
                     const char *path);

/* ---- train_files.c: input and output files --------------------------------------------------------- */

/* Measures the statistics of the model's `standardize` on the training samples; reports an error. */
bool train_measure(training_setup *setup, kn_trainer *trainer);

/* Chooses the destination of the model (--save, the --resume file, or an unused name), once the --resume file
 * is known, and whether it replaces a file. Reports an error and returns false. */
bool train_choose_path(train_options *options, const training_setup *setup);
/* Sets the mark: equal for the same model, data and rule, whatever the number of steps. */
void train_mark(train_options *options, const training_setup *setup);
/* Whether an existing file may be replaced: with --overwrite, or with --resume of the training run that wrote
 * it. */
bool train_replaces(const train_options *options, const char *path);
/* The settings besides the model that affect the result, as metadata, to detect that a run is resumed with
 * different settings. */
enum {
    TRAIN_SETTINGS = 80,
    TRAIN_KEY_BYTES = 40,
    TRAIN_SETTING_BYTES = 300,
    TRAIN_PAIRS = TRAIN_SETTINGS + 5
};
typedef struct train_settings {
    char keys[TRAIN_SETTINGS][TRAIN_KEY_BYTES];
    char values[TRAIN_SETTINGS][TRAIN_SETTING_BYTES]; /* "": not stored */
    char rate[24];
} train_settings;
/* Reads the number of shards from the --resume file, unless --shards is given. Reports an error and returns
 * false. */
bool train_take_shards(train_options *options);
/* Fills in at most TRAIN_PAIRS pairs, which point into `settings`; returns their number. */
size_t train_pairs(const training_setup *setup, const train_options *options, train_settings *settings,
                   kn_model_pair *pairs);
/* Changes `path` to an unused name if another program has created the file in the meantime. */
bool train_save(training_setup *setup, kn_trainer *trainer, train_options *options);
/* Whether the saved file has what --resume needs. */
bool train_saves_state(const train_options *options);
/* Loads the weights of --init, --resume or the model's file. */
bool train_load(training_setup *setup, kn_trainer *trainer, const train_options *options);
/* Loads weights, moments and steps of a saved training run; reports an error and returns false. */
bool train_load_training(training_setup *setup, kn_trainer *trainer, const char *path, uint64_t *steps);

/* ---- train_events.c: for TensorBoard --------------------------------------------------------------- */

typedef struct train_events {
    kn_events *file; /* NULL: not requested */
} train_events;

bool events_open(const train_options *options, train_events *events);
/* If something could not be written, reports why and returns false. */
bool events_close(train_events *events);
void events_step(train_events *events, const kn_fit_step *step);
void events_epoch(train_events *events, const training_setup *setup, kn_trainer *trainer,
                  const kn_fit_epoch *epoch);

/* ---- train_filters.c -------------------------------------------------------------------------------- */

/* The elements of a parameter, to be freed; NULL if there are none to show. */
float *parameter_numbers(kn_states *states, const kn_value *parameter, size_t *count);
/* Whether the parameter contains image filters. */
bool parameter_is_filters(const kn_value *parameter);
/* Tiles at most 64 filters, with 0 as grey: (height,width,channels), to be freed. */
uint8_t *filters_picture(const kn_value *parameter, const float *weight, int size[3]);

/* ---- train_page.c: --report --------------------------------------------------------------------- */

typedef struct train_page train_page;

/* NULL if out of memory; the other functions accept NULL for no report. */
train_page *page_open(const train_options *options);
void page_close(train_page **page);
/* Call it before the context's timeline is cleared; clears the timeline if no other part needs it. */
/* Whether the page shows operator times of the next step, which then does not overlap with others. */
bool page_times_step(const train_page *page);
void page_step(train_page *page, kn_context *context, const kn_fit_step *step);
void page_epoch(train_page *page, kn_context *context, const training_setup *setup,
                const kn_fit_epoch *epoch);
/* Evaluates the trained model and writes the page. Reports an error and returns false. */
bool page_write(train_page *page, training_setup *setup, kn_context *context, kn_trainer *trainer,
                const kn_fit_result *result);

/* ---- train_check.c ------------------------------------------------------------------------------- */

/* Overfits one batch with a trainer compiled for it, and reports problems that the whole training run of
 * `total_steps` (0: unknown) would have. Saves nothing. EXIT_FAILED if there are problems. */
int train_check(const train_options *options, training_setup *setup, kn_context *context, kn_trainer *trainer,
                uint64_t total_steps);

/* ---- train_checkpoints.c ------------------------------------------------------------------------ */

typedef struct train_checkpoints {
    const train_options *options;
    training_setup *setup;
    kn_trainer *trainer;
    kn_checkpoints *files; /* NULL: not requested */
    uint64_t batches;      /* per epoch */
    uint64_t every_steps;
    double every_seconds; /* neither: at the end of each epoch */
    double written_at;
    uint64_t written_step, due_step;
    bool waits;    /* due, but delayed until the workers of --sync-every have the same parameters */
    bool failed;   /* the last one could not be written */
    char *resumed; /* the path that --resume auto found */
} train_checkpoints;

bool train_resumes_by_itself(const train_options *options);
/* EXIT_DONE, or reports an error and returns EXIT_USAGE. */
int checkpoints_check(const train_options *options, train_checkpoints *checkpoints);
/* Opens the folder; for --resume auto it sets `resume` to the newest intact checkpoint, or to NULL. */
bool checkpoints_open(train_options *options, train_checkpoints *checkpoints);
void checkpoints_close(train_checkpoints *checkpoints);
/* Whether a checkpoint is due after that step, which on_step of that step writes. */
bool checkpoints_wait_for(train_checkpoints *checkpoints, uint64_t step);
/* Writes the files that are due. If training cannot continue, reports why and returns false. */
bool checkpoints_after_step(train_checkpoints *checkpoints, uint64_t step);
bool checkpoints_after_epoch(train_checkpoints *checkpoints, const kn_fit_epoch *epoch);
/* False if the last one could not be written. */
bool checkpoints_at_end(train_checkpoints *checkpoints, const kn_fit_result *result);
/* Restores the states of the best epoch to the trainer. */
bool checkpoints_to_best(train_checkpoints *checkpoints);

/* ---- train.c: the run ---------------------------------------------------------------------------- */

/* Trains a model as the checked options say; NULL: the model of the newest checkpoint. Returns the status of
 * the command. */
int train_with_options(train_options *options, const char *model, const train_checkpoints *checkpoints);

#endif
