/* Declarations shared by the benchmarks. */
#ifndef KOINE_COMMAND_BENCH_H
#define KOINE_COMMAND_BENCH_H

#include <math.h>

#include "command.h"

enum { BENCH_MAX_STEPS = 1 << 20 };

/* Times of steps after the warm-up, in seconds. */
typedef struct bench_times {
    double seconds[BENCH_MAX_STEPS];
    int count;
    double first; /* from program start to the end of the first step */
} bench_times;

/* The printed fields that every case has. */
typedef struct bench_result {
    const char *name, *mode, *math, *precision, *device;
    int64_t batch;
    double flops; /* FLOPs per step, by the direct methods */
    double loss;  /* NaN: none */
    uint64_t kernels, plan_bytes, rss_base_bytes;
} bench_result;

/* Runs `step` four times to warm up, then at least 5 times and for at least this many seconds. */
bool bench_measure(bool (*step)(void *user), void *user, double seconds, bench_times *times);
/* Sorts the times. */
double bench_median(double *seconds, int count);
/* Median, minimum and 99th percentile; sorts the times. */
void bench_summary(bench_times *times, double *median, double *best, double *p99);
/* Prints the common fields as the beginning of a JSON object, without its last brace. */
void bench_print_json(const bench_result *result, bench_times *times);
/* Memory of the process in bytes: current, and peak. */
uint64_t bench_rss(void);
uint64_t bench_peak_rss(void);
extern double bench_start; /* time of program start */

/* ---- --power and --price (bench_power.c) ---- */

typedef struct bench_power {
    bool wanted;
    const char *root, *command; /* "/sys", and NULL or a command that prints watts */
    double price;               /* per hour of this machine; 0: unknown */
    double watts, per_joule;    /* NaN if unknown */
    char about[300];            /* source of the measurement */
} bench_power;
/* Runs steps for this many seconds while measuring their energy. If energy cannot be measured, reports it,
 * but does not fail. Returns false if a step failed. */
bool bench_power_measure(bench_power *power, const kn_device_info *device, bool (*step)(void *user),
                         void *user, double seconds, int64_t batch);
/* Prints the result after the line of the case, or as more fields of its JSON object. per_s: samples per
 * second. */
void bench_power_text(const bench_power *power, double per_s);
void bench_power_json(const bench_power *power, double per_s);

/* One of several concurrent workers, and the medians of its steps. */
typedef struct bench_among {
    const kn_communicator *all; /* the number of ranks is a power of two */
    bool shares; /* one training run with a batch per worker; otherwise each worker trains independently */
    double alone, together;
    uint64_t parameters; /* elements of all parameters */
    double transfer;     /* seconds per byte from the device and back */
    int64_t batch;
} bench_among;
enum { BENCH_WORKERS = 64 }; /* maximum number of threads */

/* Options of a model benchmark. */
typedef struct bench_options {
    common_options common;
    bool training;
    uint64_t batch;                     /* 0: default */
    uint64_t memory;                    /* device memory limit; 0: all of it */
    double seconds;                     /* measuring time */
    const char *weights, *input, *dump; /* NULL: none */
    const char *set;                    /* --set, or NULL */
    const kn_optimizer *optimizer;      /* NULL: the default of the case */
    kn_moments moments;
    bench_power power;
    bench_among *among; /* NULL: one worker */
} bench_options;
#define BENCH_DEFAULTS                                                                                       \
    {                                                                                                        \
        .seconds = NAN, .power = {.root = "/sys", .price = NAN }                                             \
    }
/* Checks the options that all benchmarks have, and sets the default of --seconds. EXIT_DONE, or reports an
 * error and returns EXIT_USAGE. */
int bench_check(bench_options *options, double seconds);
/* The rows of an option table for them. */
#define POWER_OPTIONS(energy)                                                                                \
    {"power", OPTION_FLAG, NULL, "measure samples per joule by counters and sensors of this machine",        \
     &(energy).wanted},                                                                                      \
        {"power-command", OPTION_TEXT, "COMMAND",                                                            \
         "command that prints the current watts, run ten times per second (none)", &(energy).command},       \
        {"power-root", OPTION_TEXT, "DIR", "folder with class/powercap and class/hwmon (/sys)",              \
         &(energy).root},                                                                                    \
    {                                                                                                        \
        "price", OPTION_NUMBER, "N", "price of an hour of this machine, for samples per unit of money",      \
            &(energy).price                                                                                  \
    }
int bench_model(const char *name, const bench_options *options);
/* Times each step of the plan: prints a table, or with --json more fields of an object. */
int bench_model_steps(const char *name, const bench_options *options);
/* Times training steps of one of several workers; each worker calls it. Reports an error and returns
 * false. */
bool bench_model_among(const char *name, const bench_options *options, bench_among *among);
/* Training scalability, measured with threads of this process or with mpirun processes (bench_scaling.c). */
int bench_scaling(const char *name, const bench_options *options, int workers);

/* ---- exchange of arrays with other programs (bench_files.c) ---- */

/* Reads the samples of --input for a value of the model: `count` samples, row-major. If *count is 0, sets it
 * to the number in the file. If they do not fit, reports the file, the tensor and the expected shape, and
 * returns NULL. */
void *bench_read_samples(const char *path, const kn_value *value, int64_t *count);
/* Writes one tensor; reports an error and returns false. */
bool bench_write_tensor(const char *path, const char *name, const kn_tensor_info *info, const void *data);

/* Tables by kernel and by node, slowest first; or a table of the steps in plan order; or more fields of a
 * JSON object. */
typedef enum bench_profile_form { PROFILE_TABLES, PROFILE_STEPS, PROFILE_JSON } bench_profile_form;
/* Prints a profile of `runs` runs that took `seconds`, from the context's timeline. */
bool bench_profile_print(kn_context *context, int runs, double seconds, bench_profile_form form);

/* Builds the next operator in `only` (NULL: all) from *position, which starts at 0 and is advanced; NULL at
 * the end. */
kn_value *bench_operator_next(kn_graph *graph, const char *only, int *position);

#endif
