/* Samples from folders of files: a folder per class, or train/ and test/ or val/ with a folder per class. All
 * files are read when the dataset is opened. */
#include "data/sample_files.h"

#include <string.h>

enum { MAX_DEPTH = 16 }; /* maximum nesting of folders: symbolic links may form a cycle */

/* ---- finding ---------------------------------------------------------------------------- */

static kn_status find_class(kn_arena *arena, const char *folder, int class, const kn_sample_kind *kind,
                            kn_sample_files *found, size_t *capacity, kn_error *error) {
    char **names;
    size_t count;
    kn_status status = kn_folder_list(arena, folder, &names, &count, error);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (!kind->is(names[i])) continue;
        const char *path = kn_path_join(arena, folder, names[i]);
        if (!path || !kn_reserve(arena->host, (void **)&found->files, capacity, (size_t)found->count + 1,
                                 sizeof *found->files))
            status = kn_fail_memory(error, (size_t)found->count * sizeof *found->files);
        else
            found->files[found->count++] = (kn_sample_file){.name = path, .class = class};
    }
    return status;
}

/* The files in a folder, then in its subfolders, whatever their classes. */
static kn_status find_all(kn_arena *arena, const char *folder, int depth, const kn_sample_kind *kind,
                          kn_sample_files *found, size_t *capacity, kn_error *error) {
    char **names;
    size_t count;
    kn_status status = find_class(arena, folder, 0, kind, found, capacity, error);
    if (status == KN_OK) status = kn_folder_list(arena, folder, &names, &count, error);
    for (size_t i = 0; status == KN_OK && i < count && depth < MAX_DEPTH; i++) {
        const char *path = kn_path_join(arena, folder, names[i]);
        if (!path)
            status = kn_fail_memory(error, strlen(folder));
        else if (kn_path_is_folder(path))
            status = find_all(arena, path, depth + 1, kind, found, capacity, error);
    }
    return status;
}

/* The subfolders of `folder`, which are the classes. */
static kn_status find_classes(kn_arena *arena, const char *folder, char ***classes, size_t *count,
                              kn_error *error) {
    char **names;
    size_t all;
    kn_status status = kn_folder_list(arena, folder, &names, &all, error);
    *count = 0;
    for (size_t i = 0; i < all && status == KN_OK; i++) {
        const char *path = kn_path_join(arena, folder, names[i]);
        if (!path) status = kn_fail_memory(error, strlen(folder));
        if (path && kn_path_is_folder(path)) names[(*count)++] = names[i];
    }
    *classes = names;
    if (status == KN_OK && (*count == 0 || *count > KN_CLASSES_MAX))
        return kn_fail(error, KN_ERROR_NOT_FOUND, "\"%s\" has %zu folders; expected one per class", folder,
                       *count);
    return status;
}

static kn_status check_count(const char *folder, const char *where, const kn_sample_kind *kind,
                             const kn_sample_files *found, kn_error *error) {
    if (found->count == 0)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "%s\"%s\" contain%s no %s", where, folder,
                       where[0] ? "" : "s", kind->endings);
    if (found->count > UINT32_MAX)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "\"%s\" contains more than 4294967295 %s", folder,
                       kind->what);
    return KN_OK;
}

/* The files of the classes known from the training part. */
static kn_status find_part(kn_arena *arena, const char *folder, char **classes, size_t count,
                           const kn_sample_kind *kind, kn_sample_files *found, kn_error *error) {
    char **names;
    size_t own, capacity = 0;
    kn_status status = find_classes(arena, folder, &names, &own, error);
    for (size_t i = 0; i < own && status == KN_OK; i++) {
        size_t class = 0;
        while (class < count && strcmp(classes[class], names[i]) != 0)
            class ++;
        const char *path = kn_path_join(arena, folder, names[i]);
        if (class == count)
            status = kn_fail(error, KN_ERROR_NOT_FOUND,
                             "\"%s\" has a folder \"%s\" that the training part lacks", folder, names[i]);
        else
            status = path ? find_class(arena, path, (int)class, kind, found, &capacity, error)
                          : kn_fail_memory(error, 1);
    }
    return status == KN_OK ? check_count(folder, "the folders in ", kind, found, error) : status;
}

/* ---- reading ------------------------------------------------------------------------------ */

static kn_status measure(const kn_host *host, kn_sample_job *job, const kn_sample_files *from,
                         kn_error *error) {
    for (uint64_t i = 0; i < from->count && !job->known; i++) {
        kn_status status = job->kind->measure(host, job, &from->files[i], error);
        job->known = status == KN_OK;
        if (status == KN_OK) break;
        if (!job->options->skip_bad || status == KN_ERROR_MEMORY || i + 1 == from->count) return status;
        kn_error_clear(error);
    }
    return KN_OK;
}

static kn_sample_store *read_part(const kn_host *host, kn_sample_files *from, kn_sample_job *job,
                                  char **classes, size_t count, kn_error *error) {
    kn_sample_store *store =
        kn_sample_files_store(host, from, job, (const char *const *)classes, count, error);
    if (!store) return NULL;
    kn_status status = kn_sample_files_decode(store, from, NULL, store->count, job, error);
    if (status == KN_OK) status = kn_sample_files_finish(store, from, job, error);
    if (status == KN_OK) return store;
    kn_sample_store_leave(store);
    return NULL;
}

/* Samples without classes: one file, or all files in a folder and its subfolders. */
static kn_status find_inputs(kn_arena *arena, const char *path, const kn_sample_kind *kind,
                             kn_sample_files *found, kn_error *error) {
    size_t capacity = 0;
    if (kn_path_is_folder(path)) {
        kn_status status = find_all(arena, path, 0, kind, found, &capacity, error);
        return status == KN_OK ? check_count(path, "", kind, found, error) : status;
    }
    if (!kn_reserve(arena->host, (void **)&found->files, &capacity, 1, sizeof *found->files))
        return kn_fail_memory(error, sizeof *found->files);
    found->files[found->count++] = (kn_sample_file){.name = path};
    return KN_OK;
}

static kn_status open_parts(kn_dataset *dataset, kn_arena *arena, const char *path, kn_sample_job *job,
                            kn_sample_files parts[2]) {
    static const char *const others[] = {"test", "val"};
    kn_error *error = &dataset->error;
    const kn_host *host = &dataset->host;
    const kn_sample_kind *kind = job->kind;
    char **classes = NULL;
    size_t count = 0;
    const char *test = NULL;
    kn_status status;
    if (job->options->inputs_only || !kn_path_is_folder(path)) {
        status = find_inputs(arena, path, kind, &parts[0], error);
    } else {
        const char *train = kn_path_join(arena, path, "train");
        if (!train) return kn_fail_memory(error, strlen(path));
        if (!kn_path_is_folder(train)) train = path;
        for (size_t i = 0; i < KN_COUNT_OF(others) && !test && train != path; i++) {
            test = kn_path_join(arena, path, others[i]);
            if (test && !kn_path_is_folder(test)) test = NULL;
        }
        status = find_classes(arena, train, &classes, &count, error);
        if (status == KN_OK) status = find_part(arena, train, classes, count, kind, &parts[0], error);
        if (status == KN_OK && test) status = find_part(arena, test, classes, count, kind, &parts[1], error);
    }
    if (status == KN_OK) status = measure(host, job, &parts[0], error);
    if (status == KN_OK) dataset->store = read_part(host, &parts[0], job, classes, count, error);
    if (dataset->store && test) dataset->test = read_part(host, &parts[1], job, classes, count, error);
    return error->status;
}

kn_status kn_sample_files_open(kn_dataset *dataset, const char *path, kn_sample_job *job) {
    kn_arena arena;
    kn_sample_files parts[2] = {{NULL, 0}, {NULL, 0}};
    kn_arena_init(&arena, &dataset->host);
    kn_status status = open_parts(dataset, &arena, path, job, parts);
    for (int i = 0; i < 2; i++)
        kn_sample_files_release(&dataset->host, &parts[i]);
    kn_arena_finish(&arena);
    return status;
}
