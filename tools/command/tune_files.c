/* koine tune --list, --export and --import: the stored results of a device. */
#include <string.h>

#include "tune.h"

const char *tune_word(kn_tuner_event event) {
    static const char *const words[] = {"", "failed", "wrong", "hung"};
    return words[event];
}

/* The part of a key after the version and the kernels. */
static const char *shapes_of(const char *key) {
    for (int slashes = 0; slashes < 4 && *key; key++)
        slashes += *key == '/';
    return key;
}

static void print_entry(const kn_tuner_entry *entry, bool json) {
    if (json) {
        printf("{\"key\": ");
        json_text(stdout, entry->key);
        json_text_member(stdout, "kernel", entry->kernel);
        if (entry->outcome == KN_TUNER_EVENT_START) {
            json_measure_member(stdout, "us", entry->microseconds);
            json_measure_member(stdout, "untuned_us", entry->untuned_microseconds);
        } else
            json_text_member(stdout, "end", tune_word(entry->outcome));
        printf(", \"used\": %s}\n", entry->current ? "true" : "false");
        return;
    }
    char operator_name[64];
    snprintf(operator_name, sizeof operator_name, "%.*s", (int)strcspn(entry->key, "/"), entry->key);
    if (entry->outcome == KN_TUNER_EVENT_START)
        printf("%10.1f us of %10.1f", entry->microseconds, entry->untuned_microseconds);
    else
        printf("%27s", tune_word(entry->outcome));
    printf("  %s %s  %s\n", operator_name, entry->kernel, shapes_of(entry->key));
}

static int list_entries(const tune_run *run) {
    const bool json = run->options->common.json;
    kn_tuner_entry entry = KN_TUNER_ENTRY_DEFAULTS;
    int shown = 0, others = 0;
    for (int i = 0; kn_tuner_entry_at(run->tuner, i, &entry) == KN_OK; i++) {
        others += !entry.current;
        if (!json && !entry.current) continue;
        print_entry(&entry, json);
        shown++;
    }
    if (!json && !shown) puts("nothing is tuned on this device");
    if (!json && others) printf("%d entries are of other versions of the kernels\n", others);
    return EXIT_DONE;
}

static int import_entries(const tune_run *run) {
    kn_tuner_counts counts = KN_TUNER_COUNTS_DEFAULTS;
    if (kn_tuner_import(run->tuner, run->options->import, &counts) != KN_OK)
        return command_fail("nothing was taken: %s", kn_tuner_error(run->tuner));
    const struct {
        int count;
        const char *why;
    } rows[] = {{counts.other_kernels, "of other kernels or another version"},
                {counts.unknown, "of unknown operators or kernels"},
                {counts.damaged, "damaged lines"}};
    if (run->options->common.json) {
        printf("{\"taken\": %d, \"kernels\": %d, \"unknown\": %d, \"damaged\": %d}\n", counts.imported,
               counts.other_kernels, counts.unknown, counts.damaged);
        return EXIT_DONE;
    }
    int refused = counts.other_kernels + counts.unknown + counts.damaged, printed = 0;
    printf("%d entries taken, %d refused", counts.imported, refused);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].count) printf("%s%d %s", printed++ ? ", " : ": ", rows[i].count, rows[i].why);
    putchar('\n');
    return EXIT_DONE;
}

int tune_files(tune_run *run) {
    const tune_options *options = run->options;
    if (options->list) return list_entries(run);
    if (options->import) return import_entries(run);
    if (kn_tuner_export(run->tuner, options->export) != KN_OK)
        return command_fail("%s", kn_tuner_error(run->tuner));
    return EXIT_DONE;
}
