/* Step profile: the context's timeline by kernel and by node. Speeds are those of the best launches. The
 * fraction of the limit is the minimum time on this device divided by the measured time; the minimum is the
 * longer of the direct method's arithmetic and of accessing each byte once. Winograd's method and caches can
 * raise it above 100%. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Launches with the same name: a kernel, or a node's kernel. */
typedef struct profile_row {
    const char *label, *kernel; /* label NULL: all launches of the kernel */
    int queue;
    double seconds, flops, bytes;
    double best; /* per run: the sum of the best times of its launches */
    size_t launches, seen;
    double *bests; /* per node: one for each launch of a run */
} profile_row;

typedef struct bench_profile {
    profile_row *rows;
    size_t count;
} bench_profile;

/* The lower bound of a row's time, as far as it is known. */
typedef struct row_bound {
    double fraction; /* 0: unknown */
    const char *by;
} row_bound;

static bool same_text(const char *left, const char *right) {
    return left == right || (left && right && !strcmp(left, right));
}

static profile_row *find_row(const bench_profile *profile, const kn_timeline_entry *entry,
                             const char *label) {
    profile_row *row = profile->rows;
    const profile_row *end = profile->rows + profile->count;
    while (row < end && !(row->queue == entry->queue && same_text(row->label, label) &&
                          same_text(row->kernel, entry->kernel)))
        row++;
    return row;
}

static void add_entry(bench_profile *profile, const kn_timeline_entry *entry, bool by_node) {
    const char *label = by_node || !*entry->kernel ? entry->label : NULL;
    profile_row *row = find_row(profile, entry, label);
    if (row == profile->rows + profile->count) {
        *row = (profile_row){.label = label, .kernel = entry->kernel, .queue = entry->queue};
        profile->count++;
    }
    row->seconds += entry->end - entry->start;
    row->flops += entry->flops;
    row->bytes += entry->bytes;
    row->launches++;
}

static int slower(const void *left, const void *right) {
    double a = ((const profile_row *)left)->seconds, b = ((const profile_row *)right)->seconds;
    return (a < b) - (a > b);
}

/* The number of distinct launches per node and run, which are timed separately. */
static size_t launches_apart(const profile_row *node, int runs) {
    size_t count = (size_t)runs;
    return node->launches % count == 0 ? node->launches / count : 1;
}

/* On a busy machine some steps are slower; the sum of the best times of the parts estimates the undisturbed
 * time. `bests` has an entry per timeline entry. */
static void add_best(bench_profile *kernels, bench_profile *nodes, const kn_timeline_entry *entries,
                     size_t count, double *bests, int runs) {
    for (size_t n = 0; n < nodes->count; n++) {
        nodes->rows[n].bests = bests;
        bests += launches_apart(&nodes->rows[n], runs);
    }
    for (size_t i = 0; i < count; i++) {
        profile_row *node = find_row(nodes, &entries[i], entries[i].label);
        double seconds = entries[i].end - entries[i].start;
        size_t apart = launches_apart(node, runs);
        double *best = &node->bests[node->seen % apart];
        if (node->seen++ < apart || seconds < *best) *best = seconds;
    }
    for (size_t n = 0; n < nodes->count; n++) {
        profile_row *node = &nodes->rows[n];
        size_t apart = launches_apart(node, runs);
        for (size_t i = 0; i < apart; i++)
            node->best += node->bests[i] * (double)node->launches / (double)(apart * (size_t)runs);
        for (size_t k = 0; k < kernels->count; k++) {
            profile_row *kernel = &kernels->rows[k];
            if (kernel->queue == node->queue && same_text(node->kernel, kernel->kernel) &&
                (!kernel->label || same_text(node->label, kernel->label)))
                kernel->best += node->best;
        }
    }
}

static row_bound bound_of(const profile_row *row, const kn_limits *limits, int runs) {
    double math = limits->gflops > 0 ? row->flops / runs / limits->gflops * 1e-9 : 0;
    double memory = limits->gbytes > 0 ? row->bytes / runs / limits->gbytes * 1e-9 : 0;
    double least = math > memory ? math : memory;
    if (row->queue || !(least > 0) || !(row->best > 0)) return (row_bound){0, NULL};
    return (row_bound){least / row->best, math > memory ? "math" : "memory"};
}

static void print_number(double number) {
    if (number > 0)
        printf(" %9.1f", number);
    else
        printf(" %9s", "");
}

static void print_rows(const bench_profile *profile, const char *title, int runs, double busy,
                       const kn_limits *limits, size_t most) {
    printf("\n%9s %6s %9s %9s %9s %12s %7s  %s\n", "ms", "part", "best ms", "GFLOP/s", "GB/s", "of limit",
           "times", title);
    for (size_t i = 0; i < profile->count && i < most; i++) {
        const profile_row *row = &profile->rows[i];
        double best = row->best > 0 ? row->best : 1e-12;
        row_bound bound = bound_of(row, limits, runs);
        printf("%9.3f %5.1f%% %9.3f", 1e3 * row->seconds / runs, 100 * row->seconds / busy, 1e3 * row->best);
        print_number(row->flops / runs / best * 1e-9);
        print_number(row->bytes / runs / best * 1e-9);
        if (bound.by)
            printf(" %4.0f%% %-6s", 100 * bound.fraction, bound.by);
        else
            printf(" %12s", "");
        printf(" %7.4g  %s%s%s%s\n", (double)row->launches / runs, row->label ? row->label : "",
               row->label && *row->kernel ? ": " : "", row->kernel, row->queue ? " (transfer)" : "");
    }
    if (profile->count > most) printf("%9s and %zu more\n", "", profile->count - most);
}

static void json_field(const char *name, double number) {
    printf(", \"%s\": ", name);
    json_measure(stdout, number);
}

/* Fields of the JSON object being printed. */
static void print_json(const bench_profile *nodes, int runs, const kn_limits *limits, double busy,
                       double best) {
    json_field("limit_gflops", limits->gflops);
    json_field("limit_gb_s", limits->gbytes);
    json_field("busy_ms", 1e3 * busy / runs);
    json_field("busy_best_ms", 1e3 * best);
    printf(", \"parts\": [");
    for (size_t i = 0; i < nodes->count; i++) {
        const profile_row *row = &nodes->rows[i];
        row_bound bound = bound_of(row, limits, runs);
        printf("%s{\"label\": ", i ? ", " : "");
        json_text(stdout, row->label);
        printf(", \"kernel\": ");
        json_text(stdout, row->kernel);
        printf(", \"queue\": \"%s\"", row->queue ? "transfer" : "compute");
        json_field("times", (double)row->launches / runs);
        json_field("ms", 1e3 * row->seconds / runs);
        json_field("best_ms", 1e3 * row->best);
        json_field("gflops", row->flops / runs / row->best * 1e-9);
        json_field("gb_s", row->bytes / runs / row->best * 1e-9);
        json_field("of_limit", bound.by ? bound.fraction : NAN);
        printf(", \"bound\": ");
        if (bound.by)
            json_text(stdout, bound.by);
        else
            printf("null");
        printf("}");
    }
    printf("]");
}

/* The step time if every part ran at its limit. */
static double least_seconds(const bench_profile *nodes, int runs, const kn_limits *limits) {
    double least = 0;
    for (size_t i = 0; i < nodes->count; i++)
        least += bound_of(&nodes->rows[i], limits, runs).fraction * nodes->rows[i].best;
    return least;
}

static void print_tables(bench_profile *kernels, bench_profile *nodes, int runs, const kn_limits *limits,
                         double seconds, double busy, double best, bench_profile_form form) {
    double least = least_seconds(nodes, runs, limits);
    if (form == PROFILE_TABLES) {
        qsort(kernels->rows, kernels->count, sizeof *kernels->rows, slower);
        qsort(nodes->rows, nodes->count, sizeof *nodes->rows, slower);
        print_rows(kernels, "kernel", runs, busy, limits, 40);
        print_rows(nodes, "node", runs, busy, limits, 40);
    } else {
        print_rows(nodes, "step, as it runs", runs, busy, limits, SIZE_MAX);
    }
    printf("\n%.3f ms a step, of which kernels ran %.3f; each at its best: %.3f\n", 1e3 * seconds / runs,
           1e3 * busy / runs, 1e3 * best);
    if (least > 0)
        printf("the device's limits are %.0f GFLOP/s and %.1f GB/s: no less than %.3f ms by these methods\n",
               limits->gflops, limits->gbytes, 1e3 * least);
}

bool bench_profile_print(kn_context *context, int runs, double seconds, bench_profile_form form) {
    size_t count = 0;
    const kn_timeline_entry *entries = kn_context_timeline(context, &count);
    if (!entries) return command_error("the device does not record times, so there is no profile");
    bench_profile kernels = {.rows = calloc(count + 1, sizeof *kernels.rows)};
    bench_profile nodes = {.rows = calloc(count + 1, sizeof *nodes.rows)};
    double *bests = calloc(count + 1, sizeof *bests);
    if (!kernels.rows || !nodes.rows || !bests) {
        free(bests);
        free(kernels.rows);
        free(nodes.rows);
        return command_error("out of memory");
    }
    double busy = 0, best = 0;
    for (size_t i = 0; i < count; i++) {
        add_entry(&kernels, &entries[i], false);
        add_entry(&nodes, &entries[i], true);
        if (entries[i].queue == 0) busy += entries[i].end - entries[i].start;
    }
    if (!(busy > 0)) busy = 1e-12;
    add_best(&kernels, &nodes, entries, count, bests, runs);
    free(bests);
    for (size_t i = 0; i < kernels.count; i++)
        if (kernels.rows[i].queue == 0) best += kernels.rows[i].best;
    /* Measure after reading the entries, so that they do not include these launches. Measure again because
     * the load of the machine may have changed. */
    kn_limits limits = {.size = sizeof limits};
    kn_context_measure_limits(context, true, &limits);
    if (form != PROFILE_JSON && kn_context_device_count(context) > 1)
        printf("\non %s only; --trace shows the other devices as well\n",
               kn_context_device_name_at(context, 0));
    if (form == PROFILE_JSON)
        print_json(&nodes, runs, &limits, busy, best);
    else
        print_tables(&kernels, &nodes, runs, &limits, seconds, busy, best, form);
    free(kernels.rows);
    free(nodes.rows);
    return true;
}
