/* What the benchmarks share. */
#ifndef KOINE_COMMAND_BENCH_H
#define KOINE_COMMAND_BENCH_H

#include "command.h"

enum { BENCH_MOST = 1 << 20 };

/* Times of steps after the warm-up, in seconds. */
typedef struct bench_times {
    double seconds[BENCH_MOST];
    int count;
    double first; /* from the program's start to the end of the first step */
} bench_times;

/* What is printed of a case; the fields that every case has. */
typedef struct bench_result {
    const char *name, *mode, *math, *device;
    int64_t batch;
    double flops; /* of one step, by the direct methods */
    double loss;  /* NaN: there is none */
    uint64_t kernels, plan_bytes, rss_base_bytes;
} bench_result;

/* Runs `step` four times to warm up, then for at least so many seconds and 5 times. */
bool bench_measure(bool (*step)(void *user), void *user, double seconds, bench_times *times);
/* Median, best and 99th percentile; sorts the times. */
void bench_summary(bench_times *times, double *median, double *best, double *p99);
/* Prints the fields that every case has as the beginning of a JSON object, without its last brace. */
void bench_print_json(const bench_result *result, bench_times *times);
/* Memory of the process in bytes: now, and the most that it had. */
uint64_t bench_rss(void);
uint64_t bench_peak_rss(void);
extern double bench_start; /* when the program began */

/* ---- --power and --price (bench_power.c) ---- */

typedef struct bench_power {
    bool wanted;
    const char *root, *command; /* "/sys", and NULL or what prints watts */
    double price;               /* of an hour of this machine; 0: not told */
    double watts, per_joule;    /* NaN where they are not known */
    char about[300];            /* what told them */
} bench_power;
/* Runs steps for so many seconds while their energy is measured; not knowing it is said, and no failure.
 * Answers false where a step failed. */
bool bench_power_measure(bench_power *power, const kn_device_info *device, bool (*step)(void *user),
                         void *user, double seconds, int64_t batch);
/* What was found, behind the line of the case; or more fields of its object. per_s: samples in a second. */
void bench_power_text(const bench_power *power, double per_s);
void bench_power_json(const bench_power *power, double per_s);

/* What was asked for of a model. */
typedef struct bench_options {
    common_options common;
    bool training;
    uint64_t batch;                     /* 0: not said */
    double seconds;                     /* to measure */
    const char *weights, *input, *dump; /* NULL: none */
    const char *set;                    /* --set, or NULL */
    const kn_optimizer *optimizer;      /* NULL: that of the case */
    bench_power power;
} bench_options;
int bench_model(const char *name, const bench_options *options);
/* Only what each step of the plan takes: a table, or with --json fields that follow others of an object. */
int bench_model_steps(const char *name, const bench_options *options);

/* ---- arrays from and to other programs (bench_files.c) ---- */

/* The samples of --input for a value of the model: `count` of them, row-major. Where *count is 0 it becomes
 * the number that the file has. NULL, with the file, the tensor and the expected shape said, where they do
 * not fit. */
void *bench_read_samples(const char *path, const kn_value *value, int64_t *count);
/* Writes one tensor; says what is wrong and answers false. */
bool bench_write_tensor(const char *path, const char *name, const kn_tensor_info *info, const void *data);

/* Tables by kernel and by node, the slowest first; or a table of the steps in the order of the plan; or more
 * fields of a JSON object. */
typedef enum bench_profile_form { PROFILE_TABLES, PROFILE_STEPS, PROFILE_JSON } bench_profile_form;
/* Prints where the time of `runs` runs in `seconds` went, from the context's timeline. */
bool bench_profile_print(kn_context *context, int runs, double seconds, bench_profile_form form);

/* Each operator (only: those of a list with commas, or NULL), forward and gradient, of the device's limits.
 */
int bench_operators(const bench_options *options, const char *only);

/* Operations at growing sizes on each device beside one another. only: as for operators; plot: an SVG file,
 * or NULL. */
int bench_crossover(const bench_options *options, const char *only, int sizes, const char *plot);
int bench_crossover_check(const char *only, uint64_t sizes);

/* Planning at growing numbers of layers, pass by pass. */
enum { BENCH_PLAN_SIZES = 8 };
int bench_plan(const bench_options *options, int sizes);

/* A product of m by k and k by n: the device's time, and the ratio to plain C on one core and on all. */
int bench_gemm(const bench_options *options, int64_t m, int64_t n, int64_t k);

#endif
