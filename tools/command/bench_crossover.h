/* Declarations shared by the files of koine bench-crossover. */
#ifndef KOINE_COMMAND_BENCH_CROSSOVER_H
#define KOINE_COMMAND_BENCH_CROSSOVER_H

#include "bench.h"

enum { CROSS_DEVICES = 8, CROSS_SIZES = 12, CROSS_OPERATIONS = 3 };

typedef struct cross_operation {
    const char *name, *title;
    int64_t first; /* the smallest size; each size doubles the previous one */
} cross_operation;
extern const cross_operation cross_operations[CROSS_OPERATIONS];

/* The measurements of an operation. */
typedef struct cross_curve {
    const cross_operation *operation;
    int sizes;
    int64_t size[CROSS_SIZES];
    double flops[CROSS_SIZES];
    double seconds[CROSS_SIZES][CROSS_DEVICES]; /* NaN: not measured */
    int fastest[CROSS_SIZES];                   /* -1: none */
} cross_curve;

typedef struct cross_devices {
    kn_context *contexts[CROSS_DEVICES];
    const kn_device_info *infos[CROSS_DEVICES];
    int count;
} cross_devices;

/* Seconds per step of an operation at a size, including uploads and downloads. If it cannot run, reports why
 * and returns NaN (bench_crossover_case.c). */
double cross_measure(kn_context *context, const cross_operation *operation, int64_t size,
                     const arithmetic *how, double seconds, double *flops);
/* Draws the curves with logarithmic axes, one panel per operation. If the file cannot be written, reports why
 * and returns false (bench_crossover_plot.c). */
bool cross_plot(const char *path, const cross_curve *curves, int count, const cross_devices *devices);

#endif
