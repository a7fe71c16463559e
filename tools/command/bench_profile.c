/* Where the time of a step goes: the context's timeline by kernel, and by node. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Work of one name: of a kernel, or of a node's kernel. */
typedef struct profile_row {
    const char *label, *kernel; /* label NULL: all of the kernel */
    int queue;
    double seconds, flops, bytes;
    size_t launches;
} profile_row;

typedef struct profile {
    profile_row *rows;
    size_t count;
} profile;

static bool same_text(const char *left, const char *right) {
    return left == right || (left && right && !strcmp(left, right));
}

static void add_entry(profile *profile, const kn_timeline_entry *entry, bool by_node) {
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
    row->seconds += entry->end - entry->start;
    row->flops += entry->flops;
    row->bytes += entry->bytes;
    row->launches++;
}

static int slower(const void *left, const void *right) {
    double a = ((const profile_row *)left)->seconds, b = ((const profile_row *)right)->seconds;
    return (a < b) - (a > b);
}

static void print_rows(profile *profile, const char *title, int runs, double busy, size_t most) {
    qsort(profile->rows, profile->count, sizeof *profile->rows, slower);
    printf("\n%9s %6s %9s %9s %7s  %s\n", "ms", "share", "GFLOP/s", "GB/s", "times", title);
    for (size_t i = 0; i < profile->count && i < most; i++) {
        const profile_row *row = &profile->rows[i];
        double seconds = row->seconds > 0 ? row->seconds : 1e-12;
        printf("%9.3f %5.1f%%", 1e3 * seconds / runs, 100 * seconds / busy);
        if (row->flops > 0)
            printf(" %9.1f", row->flops / seconds * 1e-9);
        else
            printf(" %9s", "");
        if (row->bytes > 0)
            printf(" %9.1f", row->bytes / seconds * 1e-9);
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
    profile kernels = {.rows = calloc(count + 1, sizeof *kernels.rows)};
    profile nodes = {.rows = calloc(count + 1, sizeof *nodes.rows)};
    if (!kernels.rows || !nodes.rows) {
        free(kernels.rows);
        free(nodes.rows);
        return command_fail("out of memory") == EXIT_DONE;
    }
    double busy = 0;
    for (size_t i = 0; i < count; i++) {
        add_entry(&kernels, &entries[i], false);
        add_entry(&nodes, &entries[i], true);
        if (entries[i].queue == 0) busy += entries[i].end - entries[i].start;
    }
    if (!(busy > 0)) busy = 1e-12;
    print_rows(&kernels, "kernel", runs, busy, 40);
    print_rows(&nodes, "node", runs, busy, 40);
    printf("\n%.3f ms a step, of which kernels ran %.3f\n", 1e3 * seconds / runs, 1e3 * busy / runs);
    free(kernels.rows);
    free(nodes.rows);
    return true;
}
