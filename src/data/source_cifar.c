/* A folder of CIFAR's binary files: CIFAR-10 in five training files and a test file, or CIFAR-100 in one of
 * each. */
#include "data/dataset_private.h"

#include <string.h>

enum { MAX_FILES = 5, MAX_CLASSES = KN_CIFAR_FINE };
static const uint64_t most_file = 1ull << 32, most_names = 1 << 20;

typedef struct cifar_kind {
    const char *word;
    int classes;
    const char *train[MAX_FILES + 1], *test[2], *names; /* lists of files end with NULL */
} cifar_kind;

static const cifar_kind kinds[] = {
    {"cifar10",
     KN_CIFAR_COARSE,
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
      NULL},
     {"test_batch.bin", NULL},
     "batches.meta.txt"},
    {"cifar100", KN_CIFAR_FINE, {"train.bin", NULL}, {"test.bin", NULL}, "fine_label_names.txt"},
};

/* Appends the records of one file to those in *block. */
static kn_status add_file(const kn_host *host, const char *path, const cifar_kind *kind, void **block,
                          kn_cifar *all, kn_error *error) {
    kn_file_view view;
    kn_cifar file;
    kn_status status = kn_file_open_view(host, path, &view, error);
    if (status != KN_OK) return status;
    if (view.count > most_file)
        status = kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: %llu bytes; at most %llu are supported", path,
                         (unsigned long long)view.count, (unsigned long long)most_file);
    if (status == KN_OK) status = kn_cifar_read(path, view.bytes, view.count, kind->classes, &file, error);
    if (status == KN_OK) {
        size_t used = (size_t)all->count * file.record_bytes;
        uint8_t *grown = kn_resize(host, *block, used + (size_t)view.count, 1);
        if (grown) {
            memcpy(grown + used, view.bytes, (size_t)view.count);
            *block = grown;
            file.count += all->count;
            *all = file;
        } else {
            status = kn_fail_memory(error, used + (size_t)view.count);
        }
    }
    kn_file_close_view(host, &view);
    return status;
}

/* Reads the names of the classes, one per line; none if the file is missing. */
static kn_status name_classes(kn_arena *arena, const char *folder, const cifar_kind *kind,
                              kn_sample_store *store, kn_error *error) {
    const char *path = kn_path_join(arena, folder, kind->names), *names[MAX_CLASSES];
    uint8_t *text;
    uint64_t length;
    int count = 0;
    store->classes = kind->classes;
    if (!path) return kn_fail_memory(error, strlen(folder));
    if (!kn_path_exists(path)) return KN_OK;
    kn_status status = kn_file_read(arena->host, path, most_names, &text, &length, error);
    if (status != KN_OK) return status;
    for (char *line = (char *)text; line;) {
        char *end = strpbrk(line, "\r\n");
        if (end) *end = '\0';
        if (line[0] && count < kind->classes) names[count] = line;
        count += line[0] != '\0';
        line = end ? end + 1 : NULL;
    }
    if (count != kind->classes)
        status = kn_fail(error, KN_ERROR_FORMAT, "%s: found %d lines, expected the names of %d classes", path,
                         count, kind->classes);
    if (status == KN_OK) status = kn_sample_store_name_classes(store, names, (size_t)count, error);
    kn_release(arena->host, text);
    return status;
}

/* Opens one part; *store stays NULL if none of its files exist. If some exist, all must exist, so that an
 * incomplete download is noticed. */
static kn_status open_part(kn_arena *arena, const char *folder, const cifar_kind *kind,
                           const char *const *names, const kn_source_options *options,
                           kn_sample_store **store, kn_error *error) {
    const char *missing = NULL, *paths[MAX_FILES];
    int there = 0, files = 0;
    *store = NULL;
    for (; names[files]; files++) {
        paths[files] = kn_path_join(arena, folder, names[files]);
        if (!paths[files]) return kn_fail_memory(error, strlen(folder));
        if (kn_path_exists(paths[files]))
            there++;
        else
            missing = names[files];
    }
    if (there == 0) return KN_OK;
    if (missing)
        return kn_fail(error, KN_ERROR_NOT_FOUND,
                       "data \"%s:%s\": %s is missing, but other files are present", kind->word, folder,
                       missing);
    kn_sample_store *made = kn_sample_store_create(arena->host, error);
    if (!made) return error->status;
    const kn_tensor_info picture = {KN_UINT8, 3, {3, KN_CIFAR_SIDE, KN_CIFAR_SIDE}},
                         label = {KN_UINT8, 0, {0}};
    kn_sample_field *x, *y;
    kn_cifar all = {.count = 0};
    kn_status status = KN_OK;
    for (int i = 0; i < files && status == KN_OK; i++)
        status = add_file(arena->host, paths[i], kind, &made->blocks[0], &all, error);
    if (status == KN_OK && all.count > UINT32_MAX)
        status = kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: more than 4294967295 samples", folder);
    if (status == KN_OK) status = kn_sample_store_add(made, "x", &picture, KN_FLOAT32, 1.0 / 255, &x, error);
    if (status == KN_OK) status = kn_sample_store_add(made, "y", &label, KN_INT32, 1, &y, error);
    if (status == KN_OK) status = name_classes(arena, folder, kind, made, error);
    if (status != KN_OK) {
        kn_sample_store_leave(made);
        return status;
    }
    made->count = all.count < options->max_samples ? all.count : options->max_samples;
    x->bytes = (const uint8_t *)made->blocks[0] + all.pixels_at;
    y->bytes = (const uint8_t *)made->blocks[0] + all.label_at;
    x->step_bytes = y->step_bytes = all.record_bytes;
    y->is_label = true;
    *store = made;
    return KN_OK;
}

static kn_status open_kind(kn_dataset *dataset, const char *folder, const cifar_kind *kind,
                           const kn_source_options *options) {
    kn_error *error = &dataset->error;
    if (!kn_path_is_folder(folder))
        return kn_fail(error, KN_ERROR_FILE, "data \"%s:%s\": the folder does not exist", kind->word, folder);
    kn_arena arena;
    kn_sample_store *train = NULL, *test = NULL;
    kn_arena_init(&arena, &dataset->host);
    kn_status status = open_part(&arena, folder, kind, kind->train, options, &train, error);
    if (status == KN_OK) status = open_part(&arena, folder, kind, kind->test, options, &test, error);
    kn_arena_finish(&arena);
    if (status == KN_OK && !train && !test)
        status = kn_fail(error, KN_ERROR_NOT_FOUND,
                         "data \"%s:%s\": expected %s%s and %s of the binary version in the folder",
                         kind->word, folder, kind->train[0],
                         kind->train[1] ? " and the other training files" : "", kind->test[0]);
    return kn_dataset_take_parts(dataset, train, test, status);
}

static kn_status open_cifar10(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    return open_kind(dataset, rest + 1, &kinds[0], options);
}

static kn_status open_cifar100(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    return open_kind(dataset, rest + 1, &kinds[1], options);
}

const kn_source_row kn_data_source_cifar10 = {
    .name = "cifar10",
    .usage = "cifar10:FOLDER",
    .text = "the six .bin files of CIFAR-10's binary version; classes have names if batches.meta.txt\n"
            "is present",
    .open = open_cifar10};

const kn_source_row kn_data_source_cifar100 = {
    .name = "cifar100",
    .usage = "cifar100:FOLDER",
    .text = "train.bin and test.bin of CIFAR-100's binary version; classes are the hundred names of\n"
            "fine_label_names.txt",
    .open = open_cifar100};
