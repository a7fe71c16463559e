/* Where the time of a step goes: the context's timeline by kernel, and by node. Speeds are those of the best
 * launches. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Work of one name: of a kernel, or of a node's kernel. */
typedef struct profile_row {
    const char *label, *kernel; /* label NULL: all of the kernel */
    int queue;
    double seconds, flops, bytes;
    double best; /* of one launch; of a kernel: of one run, its launches at their best together */
    size_t launches;
} profile_row;

typedef struct bench_profile {
    profile_row *rows;
    size_t count;
} bench_profile;

static bool same_text(const char *left, const char *right) {
    return left == right || (left && right && !strcmp(left, right));
}

static void add_entry(bench_profile *profile, const kn_timeline_entry *entry, bool by_node) {
    const char *label = by_node || !*entry->kernel ? entry->label : NULL;
    profile_row *row = profile->rows;
    const profile_row *end = profile->rows + profile->count;
    while (row < end && !(row->queue == entry->queue && same_text(row->label, label) &&
                          same_text(row->kernel, entry->kernel)))
        row++;
    if (row == end) {
        *row = (profile_row){.label = label, .kernel = entry->kernel, .queue = entry->queue};
        profile->count++;
    }
    double seconds = entry->end - entry->start;
    if (row->launches == 0 || seconds < row->best) row->best = seconds;
    row->seconds += seconds;
    row->flops += entry->flops;
    row->bytes += entry->bytes;
    row->launches++;
}

static int slower(const void *left, const void *right) {
    double a = ((const profile_row *)left)->seconds, b = ((const profile_row *)right)->seconds;
    return (a < b) - (a > b);
}

/* A step on a busy machine takes longer now and then; what its parts took at their best adds up to what it
 * could take. */
static void add_best(bench_profile *kernels, const bench_profile *nodes, int runs) {
    for (size_t k = 0; k < kernels->count; k++) {
        profile_row *kernel = &kernels->rows[k];
        kernel->best = 0;
        for (size_t n = 0; n < nodes->count; n++) {
            const profile_row *node = &nodes->rows[n];
            bool same = node->queue == kernel->queue && same_text(node->kernel, kernel->kernel) &&
                        (!kernel->label || same_text(node->label, kernel->label));
            if (same) kernel->best += node->best * (double)node->launches / runs;
        }
    }
    for (size_t n = 0; n < nodes->count; n++)
        nodes->rows[n].best *= (double)nodes->rows[n].launches / runs;
}

static void print_rows(bench_profile *profile, const char *title, int runs, double busy, size_t most) {
    qsort(profile->rows, profile->count, sizeof *profile->rows, slower);
    printf("\n%9s %6s %9s %9s %9s %7s  %s\n", "ms", "share", "best ms", "GFLOP/s", "GB/s", "times", title);
    for (size_t i = 0; i < profile->count && i < most; i++) {
        const profile_row *row = &profile->rows[i];
        double seconds = row->seconds > 0 ? row->seconds : 1e-12;
        double best = row->best > 0 ? row->best : 1e-12;
        printf("%9.3f %5.1f%% %9.3f", 1e3 * seconds / runs, 100 * seconds / busy, 1e3 * row->best);
        if (row->flops > 0)
            printf(" %9.1f", row->flops / runs / best * 1e-9);
        else
            printf(" %9s", "");
        if (row->bytes > 0)
            printf(" %9.1f", row->bytes / runs / best * 1e-9);
        else
            printf(" %9s", "");
        printf(" %7.4g  %s%s%s%s\n", (double)row->launches / runs, row->label ? row->label : "",
               row->label && *row->kernel ? ": " : "", row->kernel, row->queue ? " (transfer)" : "");
    }
    if (profile->count > most) printf("%9s and %zu more\n", "", profile->count - most);
}

bool bench_profile_print(kn_context *context, int runs, double seconds) {
    size_t count = 0;
    const kn_timeline_entry *entries = kn_context_timeline(context, &count);
    if (!entries) return command_fail("the device keeps no times, so there is no profile") == EXIT_DONE;
    bench_profile kernels = {.rows = calloc(count + 1, sizeof *kernels.rows)};
    bench_profile nodes = {.rows = calloc(count + 1, sizeof *nodes.rows)};
    if (!kernels.rows || !nodes.rows) {
        free(kernels.rows);
        free(nodes.rows);
        return command_fail("out of memory") == EXIT_DONE;
    }
    double busy = 0, best = 0;
    for (size_t i = 0; i < count; i++) {
        add_entry(&kernels, &entries[i], false);
        add_entry(&nodes, &entries[i], true);
        if (entries[i].queue == 0) busy += entries[i].end - entries[i].start;
    }
    if (!(busy > 0)) busy = 1e-12;
    add_best(&kernels, &nodes, runs);
    for (size_t i = 0; i < kernels.count; i++)
        if (kernels.rows[i].queue == 0) best += kernels.rows[i].best;
    print_rows(&kernels, "kernel", runs, busy, 40);
    print_rows(&nodes, "node", runs, busy, 40);
    printf("\n%.3f ms a step, of which kernels ran %.3f; each at its best: %.3f\n", 1e3 * seconds / runs,
           1e3 * busy / runs, 1e3 * best);
    free(kernels.rows);
    free(nodes.rows);
    return true;
}
