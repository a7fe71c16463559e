/* koine datasets: lists data sources, or describes one and measures its read speed. */
#include <string.h>

#include "train.h"

#include <koine/images.h>

/* Prints each line indented. */
static void print_text(const char *text) {
    for (const char *line = text; line;) {
        const char *end = strchr(line, '\n');
        printf("      %.*s\n", end ? (int)(end - line) : (int)strlen(line), line);
        line = end ? end + 1 : NULL;
    }
}

static void list_sources(bool json) {
    for (size_t i = 0; i < kn_data_source_count(); i++) {
        if (json) {
            printf("{\"data\": ");
            json_text(stdout, kn_data_source_usage_at(i));
            printf(", \"text\": ");
            json_text(stdout, kn_data_source_about_at(i));
            printf("}\n");
        } else {
            printf("  %s\n", kn_data_source_usage_at(i));
            print_text(kn_data_source_about_at(i));
        }
    }
}

/* ---- one dataset ---------------------------------------------------------------------------------- */

typedef struct reading {
    common_options common;
    kn_augmentation augmentation;
    uint64_t batch, workers, seed;
    bool skip_bad;
    uint64_t cache;
    kn_dataset *dataset;
    double opening, first, later; /* seconds to open it, and seconds of two epochs */
} reading;

/* Reads one epoch; false if out of memory. */
static bool read_epoch(kn_loader *loader, double *seconds) {
    kn_batch batch = KN_BATCH_DEFAULTS;
    const double begin = clock_now();
    kn_status status;
    while ((status = kn_loader_next(loader, &batch)) == KN_OK && batch.count > 0) {
    }
    *seconds = clock_now() - begin;
    return status == KN_OK;
}

static bool read_all(reading *run, const char *word) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    kn_loader_params how = KN_LOADER_DEFAULTS;
    params.images = kn_images_reader();
    params.archives = kn_images_archives();
    params.skip_bad = run->skip_bad;
    params.cache_bytes = run->cache;
    progress_now("opening %s", word);
    double begin = clock_now();
    run->dataset = kn_dataset_open(word, &params);
    run->opening = clock_now() - begin;
    if (kn_dataset_status(run->dataset) != KN_OK)
        return command_error("%s", run->dataset ? kn_dataset_error(run->dataset) : "out of memory");
    how.batch = run->batch;
    how.seed = run->seed;
    how.workers = (int)run->workers;
    how.augmentation = &run->augmentation;
    how.bytes = true; /* as training reads it */
    progress_now("reading %s", word);
    begin = clock_now();
    kn_loader *loader = kn_loader_create(run->dataset, &how);
    const double making = clock_now() - begin;
    bool fine = kn_loader_status(loader) == KN_OK;
    if (!fine) command_fail("%s", kn_loader_error(loader));
    fine = fine && read_epoch(loader, &run->first) && read_epoch(loader, &run->later);
    run->first += making;
    kn_loader_destroy(&loader);
    progress_clear();
    return fine;
}

static uint64_t count_test(const kn_dataset *dataset) {
    if (!kn_dataset_has_test(dataset)) return 0;
    kn_dataset *test = kn_dataset_test(dataset);
    const uint64_t count = kn_dataset_count(test);
    kn_dataset_destroy(&test);
    return count;
}

/* "float32 (3,32,32)" */
static void describe(const kn_dataset_field *field, char *text, size_t room) {
    snprintf(text, room, "%s (", kn_dtype_name(field->info.dtype));
    for (int d = 0; d < field->info.rank; d++)
        snprintf(text + strlen(text), room - strlen(text), "%s%lld", d ? "," : "",
                 (long long)field->info.shape[d]);
    snprintf(text + strlen(text), room - strlen(text), ")");
}

static void print_broken(const kn_dataset *dataset) {
    print_skipped(dataset, "for training");
    if (!kn_dataset_has_test(dataset)) return;
    kn_dataset *test = kn_dataset_test(dataset);
    print_skipped(test, "for testing");
    kn_dataset_destroy(&test);
}

static void print_reading(const reading *run, const char *word) {
    const kn_dataset *dataset = run->dataset;
    const uint64_t count = kn_dataset_count(dataset), test = count_test(dataset),
                   left = kn_dataset_skipped(dataset);
    const int classes = kn_dataset_classes(dataset);
    const double all = (double)(count + test), samples = (double)count;
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    char text[200];
    if (run->common.json) {
        printf("{\"data\": ");
        json_text(stdout, word);
        printf(", \"samples\": %llu, \"test_samples\": %llu, \"left_out\": %llu, \"classes\": %d, "
               "\"opening_s\": ",
               (unsigned long long)count, (unsigned long long)test, (unsigned long long)left, classes);
        json_measure(stdout, run->opening);
        printf(", \"first_epoch_s\": ");
        json_measure(stdout, run->first);
        printf(", \"later_epoch_s\": ");
        json_measure(stdout, run->later);
        printf("}\n");
        return;
    }
    printf("%llu samples", (unsigned long long)count);
    if (test) printf(" and %llu for testing", (unsigned long long)test);
    if (left) printf(", %llu left out that could not be read", (unsigned long long)left);
    for (size_t i = 0; kn_dataset_field_at(dataset, i, &field); i++) {
        describe(&field, text, sizeof text);
        printf(", %s %s", field.name, text);
    }
    if (classes) printf(", %d classes", classes);
    printf("\nopened in %.3f s, %.0f samples/s; batches of %llu: %.0f samples/s in the first epoch, %.0f "
           "later\n",
           run->opening, all / run->opening, (unsigned long long)run->batch, samples / run->first,
           samples / run->later);
}

static int run(int count, char **arguments) {
    reading run = {.batch = 64, .augmentation = KN_AUGMENTATION_DEFAULTS};
    const char *augment = NULL, *bad = NULL;
    const option options[] = {
        HEADING("data"),
        {"augment", OPTION_TEXT, "LIST", "random changes of the samples, as for koine train", &augment},
        {"batch", OPTION_COUNT, "N", "samples per batch (64)", &run.batch},
        {"workers", OPTION_COUNT, "N", "threads that prepare batches (automatic)", &run.workers},
        {"seed", OPTION_COUNT, "N", "random seed of order and changes (0)", &run.seed},
        BAD_SAMPLE_OPTION(bad),
        CACHE_OPTION(run.cache),
        HEADING("messages"),
        JSON_OPTION(run.common.json),
        QUIET_OPTION(run.common.quiet),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_datasets, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (run.batch < 1 || run.batch > INT32_MAX || run.workers > 16)
        return command_misuse("expected a --batch from 1 to %d, and at most 16 --workers", INT32_MAX);
    if ((status = bad_sample_check(bad, &run.skip_bad)) ||
        (status = train_augment_check(augment, &run.augmentation)))
        return status;
    if (!word_count) {
        list_sources(run.common.json);
        return EXIT_DONE;
    }
    progress_setup(&run.common);
    status = EXIT_FAILED;
    if (read_all(&run, words[0])) {
        print_broken(run.dataset);
        print_reading(&run, words[0]);
        status = EXIT_DONE;
    }
    kn_dataset_destroy(&run.dataset);
    return status;
}

const command command_datasets = {
    "datasets",
    "list the data sources, or read one",
    "[DATA] [--OPTION …]",
    "augment batch workers json quiet",
    "koine datasets\n"
    "koine datasets digits\n"
    "koine datasets images:photos,size=64 --augment flip,crop=4\n"
    "koine datasets csv:wind.csv,target=speed --json",
    "Lists the sources that --data of other commands accepts. Generated data is the same on every machine;\n"
    "NAME:train and NAME:test are its parts. Options follow a source after commas: csv:FILE,target=COLUMN. "
    "If\n"
    "a path contains commas, the longest existing path is used.\n"
    "\n"
    "With DATA, reads it twice in batches and prints the number and kind of its samples, and how many are\n"
    "read per second without training.",
    run};
