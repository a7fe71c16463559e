/* Samples from an archive of files, which is read in place: a folder per class, optionally in train/ and
 * test/ or val/; parent folders are ignored. Without a target all files form one part, whatever their
 * folders. The archive is read twice, for the names and for the contents, which are decoded in groups. */
#include "data/sample_files.h"

#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 256 };                         /* maximum number of encoded files in memory, */
static const uint64_t max_together = 1ull << 26; /* and number of their bytes after which they are decoded */
static const char *const part_names[] = {"train", "test", "val"};
enum { TRAIN, TEST, VAL, PARTS };

/* One file of the archive. */
typedef struct entry {
    const char *name, *class;
    size_t root; /* length of the path before part and class */
    int part;    /* PARTS: there are no part folders */
} entry;

typedef struct listing {
    kn_arena *arena;
    const kn_sample_kind *kind;
    bool inputs_only;
    entry *entries;
    size_t count, capacity;
    bool failed;
} listing;

/* Moves from `end` to the beginning of the path component that ends there. */
static size_t component_begin(const char *name, size_t end) {
    while (end > 0 && name[end - 1] != '/')
        end--;
    return end;
}

/* Parses "photos/train/cat/1.png": the class is the last folder. */
static bool read_name(kn_arena *arena, const kn_sample_kind *kind, const char *name, entry *read) {
    size_t file = component_begin(name, strlen(name));
    if (file == 0 || !kind->is(name) || name[file] == '.') return false;
    size_t class = component_begin(name, file - 1);
    if (class + 1 == file || name[class] == '.') return false;
    char *copy = kn_arena_copy(arena, name + class, file - class, 1);
    *read = (entry){.name = kn_arena_text(arena, name), .class = copy, .root = class, .part = PARTS};
    if (copy) copy[file - 1 - class] = '\0';
    for (int part = 0; part<PARTS &&class> 0; part++) {
        size_t above = component_begin(name, class - 1), length = strlen(part_names[part]);
        if (class - 1 - above != length || memcmp(name + above, part_names[part], length) != 0) continue;
        read->part = part;
        read->root = above;
    }
    return true;
}

/* Whether the file or one of its folders is hidden; "./" is not. */
static bool is_hidden(const char *name) {
    for (const char *at = name; at; at = strchr(at, '/')) {
        if (*at == '/') at++;
        if (*at == '.' && at[1] != '/') return true;
    }
    return false;
}

/* The name without a target: folders are ignored. */
static bool read_plain_name(kn_arena *arena, const kn_sample_kind *kind, const char *name, entry *read) {
    if (!kind->is(name) || is_hidden(name)) return false;
    *read = (entry){.name = kn_arena_text(arena, name), .class = "", .part = PARTS};
    return true;
}

static bool list_name(void *user, const char *name) {
    listing *found = user;
    entry read;
    if (found->failed) return false;
    if (!(found->inputs_only ? read_plain_name : read_name)(found->arena, found->kind, name, &read))
        return false;
    if (!read.name || !read.class ||
        !kn_reserve(found->arena->host, (void **)&found->entries, &found->capacity, found->count + 1,
                    sizeof *found->entries))
        found->failed = true;
    else
        found->entries[found->count++] = read;
    return false;
}

static kn_status take_none(void *user, const char *name, void *bytes, size_t count) {
    (void)user;
    (void)name;
    (void)bytes;
    (void)count;
    return KN_ERROR_INTERNAL; /* no file was requested */
}

static kn_status go_through(const kn_host *host, const kn_source_options *options, const char *path,
                            const kn_archive_visitor *visitor, kn_error *error) {
    char message[300] = "";
    const kn_archive_reader *reader = &options->archives;
    kn_status status = reader->read(reader->user, &host->allocator, path, KN_SAMPLE_FILE_BYTES, visitor,
                                    message, sizeof message);
    /* The visitor has reported its own errors. */
    if (status != KN_OK && error->status == KN_OK) kn_fail(error, status, "%s: %s", path, message);
    return status;
}

/* The order in which folders are read. */
static int compare(const void *one, const void *other) {
    const entry *a = one, *b = other;
    int class = strcmp(a->class, b->class);
    return class ? class : strcmp(a->name, b->name);
}

/* ---- parts and classes ------------------------------------------------------------------------- */

typedef struct archive_part {
    kn_sample_files files;
    kn_map by_name; /* name -> file */
    kn_sample_store *store;
    uint64_t seen;
} archive_part;

static kn_status check_roots(const char *path, const listing *found, kn_error *error) {
    if (found->count == 0)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "\"%s\" has no %s%s", path, found->kind->endings,
                       found->inputs_only ? "" : " in a folder: expected one per class");
    const entry *first = &found->entries[0];
    for (size_t i = 1; i < found->count; i++) {
        const entry *self = &found->entries[i];
        if (self->root != first->root || memcmp(self->name, first->name, self->root) != 0 ||
            (self->part == PARTS) != (first->part == PARTS))
            return kn_fail(error, KN_ERROR_FORMAT,
                           "\"%s\" has %s at different depths: %s and %s; expected one folder per class, all "
                           "in the same folder or in train and test",
                           path, found->kind->what, first->name, self->name);
        if (compare(self, self - 1) == 0)
            return kn_fail(error, KN_ERROR_FORMAT, "\"%s\" has %s twice", path, self->name);
    }
    return KN_OK;
}

/* The sorted classes of one part; returns their number. */
static size_t list_classes(const listing *found, int part, const char **classes) {
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++)
        if (found->entries[i].part == part &&
            (count == 0 || strcmp(classes[count - 1], found->entries[i].class) != 0))
            classes[count++] = found->entries[i].class;
    return count;
}

static kn_status fill_part(const kn_host *host, const char *path, const listing *found, int part,
                           const char **classes, size_t count, uint64_t most, archive_part *made,
                           kn_error *error) {
    size_t class = 0;
    kn_map_init(&made->by_name, host);
    made->files.files = kn_allocate(host, found->count, sizeof *made->files.files);
    if (!made->files.files) return kn_fail_memory(error, found->count * sizeof *made->files.files);
    for (size_t i = 0; i < found->count; i++) {
        const entry *self = &found->entries[i];
        if (self->part != part) continue;
        while (class < count && strcmp(classes[class], self->class) != 0)
            class ++;
        if (class == count)
            return kn_fail(error, KN_ERROR_NOT_FOUND,
                           "\"%s\" has a folder \"%s\" in %s, which the training part lacks", path,
                           self->class, part_names[part]);
        kn_sample_file *file = &made->files.files[made->files.count];
        *file = (kn_sample_file){.name = self->name, .class = (int)class};
        if (made->files.count++ < most && !kn_map_put_text(&made->by_name, self->name, file))
            return kn_fail_memory(error, strlen(self->name));
    }
    return KN_OK;
}

/* ---- reading ------------------------------------------------------------------------------------- */

typedef struct reading {
    archive_part *parts;
    kn_sample_job *job;
    kn_error *error;
    uint64_t pending[2][TOGETHER];
    uint64_t counts[2], bytes;
    const char *only; /* a single file, passed to `first`; NULL: all */
    kn_sample_file first;
} reading;

static kn_status decode_pending(reading *work) {
    kn_status status = KN_OK;
    for (int p = 0; p < 2 && status == KN_OK; p++) {
        if (work->counts[p] > 0)
            status = kn_sample_files_decode(work->parts[p].store, &work->parts[p].files, work->pending[p],
                                            work->counts[p], work->job, work->error);
        work->counts[p] = 0;
    }
    work->bytes = 0;
    return status;
}

static bool want(void *user, const char *name) {
    reading *work = user;
    if (work->only) return strcmp(name, work->only) == 0;
    return kn_map_get_text(&work->parts[0].by_name, name) || kn_map_get_text(&work->parts[1].by_name, name);
}

static kn_status take(void *user, const char *name, void *bytes, size_t count) {
    reading *work = user;
    int p = 0;
    kn_sample_file *file = work->only ? &work->first : kn_map_get_text(&work->parts[0].by_name, name);
    if (!file) file = kn_map_get_text(&work->parts[p = 1].by_name, name);
    if (file->bytes) {
        kn_release(work->parts[0].by_name.host, bytes);
        return kn_fail(work->error, KN_ERROR_FORMAT, "%s occurs twice", name);
    }
    file->bytes = bytes;
    file->count = count;
    if (work->only) return KN_OK;
    work->parts[p].seen++;
    work->pending[p][work->counts[p]++] = (uint64_t)(file - work->parts[p].files.files);
    work->bytes += count;
    return work->counts[p] == TOGETHER || work->bytes >= max_together ? decode_pending(work) : KN_OK;
}

/* Takes the shape from the first readable file, if nothing else determines it. */
static kn_status choose_sample(const kn_host *host, const char *path, reading *work) {
    const kn_sample_files *all = &work->parts[0].files;
    const kn_archive_visitor visitor = {work, want, take};
    kn_status status = KN_OK;
    for (uint64_t i = 0; i < all->count && !work->job->known; i++) {
        work->first = (kn_sample_file){.name = all->files[i].name};
        work->only = work->first.name;
        status = go_through(host, work->job->options, path, &visitor, work->error);
        const bool gone = status == KN_OK && !work->first.bytes;
        if (gone)
            status = kn_fail(work->error, KN_ERROR_FILE, "%s changed while it was read: %s is missing", path,
                             work->only);
        const bool there = status == KN_OK;
        if (there) status = work->job->kind->measure(host, work->job, &work->first, work->error);
        kn_release(host, work->first.bytes);
        work->job->known = status == KN_OK;
        if (work->job->known) break;
        if (!there || !work->job->options->skip_bad || status == KN_ERROR_MEMORY || i + 1 == all->count)
            break;
        kn_error_clear(work->error);
    }
    work->only = NULL;
    return status;
}

/* The archive may change between the two passes. */
static kn_status check_seen(const char *path, const archive_part *part, kn_error *error) {
    if (part->seen == part->store->count) return KN_OK;
    return kn_fail(error, KN_ERROR_FILE, "%s changed while it was read: found %llu files, expected %llu",
                   path, (unsigned long long)part->seen, (unsigned long long)part->store->count);
}

static kn_status check_kept(const char *path, const kn_sample_store *store, const kn_sample_job *job,
                            kn_error *error) {
    if (store->kept == store->count) return KN_OK;
    return kn_fail(error, KN_ERROR_UNSUPPORTED,
                   "%s: %llu %s of %zu bytes exceed the cache of %llu bytes, and single files of an archive "
                   "cannot be read again: unpack the archive, or enlarge the cache",
                   path, (unsigned long long)store->count, job->kind->what, store->fields[0].stored_bytes,
                   (unsigned long long)job->options->cache_bytes);
}

static kn_status open_parts(kn_dataset *dataset, const char *path, const listing *found, kn_sample_job *job,
                            archive_part parts[2]) {
    kn_error *error = &dataset->error;
    const kn_host *host = &dataset->host;
    const bool parted = found->entries[0].part != PARTS;
    const char **classes = kn_arena_take(found->arena, found->count, sizeof *classes);
    reading *work = kn_arena_take(found->arena, 1, sizeof *work);
    if (!classes || !work) return kn_fail_memory(error, found->count * sizeof *classes + sizeof *work);
    *work = (reading){.parts = parts, .job = job, .error = error};
    int test = TEST;
    bool has_test = false;
    for (int part = TEST; part <= VAL && !has_test && parted; part++)
        for (size_t i = 0; i < found->count && !has_test; i++)
            if (found->entries[i].part == part) {
                has_test = true;
                test = part;
            }
    size_t count = list_classes(found, parted ? TRAIN : PARTS, classes);
    if (count == 0 || count > KN_CLASSES_MAX)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "\"%s\" has %zu folders in train; expected one per class",
                       path, count);
    uint64_t most = job->options->max_samples;
    kn_status status =
        fill_part(host, path, found, parted ? TRAIN : PARTS, classes, count, most, &parts[0], error);
    if (status == KN_OK && has_test)
        status = fill_part(host, path, found, test, classes, count, most, &parts[1], error);
    if (status == KN_OK) status = choose_sample(host, path, work);
    for (int p = 0; p < 2 && status == KN_OK; p++)
        if (parts[p].files.count > 0) {
            parts[p].store = kn_sample_files_store(host, &parts[p].files, job,
                                                   found->inputs_only ? NULL : classes, count, error);
            status = error->status;
            if (status == KN_OK) status = check_kept(path, parts[p].store, job, error);
        }
    const kn_archive_visitor visitor = {work, want, take};
    if (status == KN_OK) status = go_through(host, job->options, path, &visitor, error);
    if (status == KN_OK) status = decode_pending(work);
    for (int p = 0; p < 2 && status == KN_OK; p++)
        if (parts[p].store) status = check_seen(path, &parts[p], error);
    for (int p = 0; p < 2 && status == KN_OK; p++)
        if (parts[p].store) status = kn_sample_files_finish(parts[p].store, &parts[p].files, job, error);
    return status;
}

kn_status kn_sample_archive_open(kn_dataset *dataset, const char *path, kn_sample_job *job) {
    const kn_source_options *options = job->options;
    kn_error *error = &dataset->error;
    const kn_host *host = &dataset->host;
    if (!options->archives.read)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "\"%s\" is not a folder, and there is no archive reader: set `archives` of the "
                       "parameters, for example to kn_images_archives() of libkoine-images",
                       path);
    kn_arena arena;
    archive_part parts[2] = {{.store = NULL}, {.store = NULL}};
    listing found = {.arena = &arena, .kind = job->kind, .inputs_only = options->inputs_only};
    const kn_archive_visitor visitor = {&found, list_name, take_none};
    kn_arena_init(&arena, host);
    kn_map_init(&parts[0].by_name, host);
    kn_map_init(&parts[1].by_name, host);
    kn_status status = go_through(host, options, path, &visitor, error);
    if (status == KN_OK && found.failed) status = kn_fail_memory(error, found.count * sizeof *found.entries);
    if (status == KN_OK && found.count > 0) qsort(found.entries, found.count, sizeof *found.entries, compare);
    if (status == KN_OK) status = check_roots(path, &found, error);
    if (status == KN_OK) status = open_parts(dataset, path, &found, job, parts);
    for (int p = 0; p < 2; p++) {
        kn_sample_files_release(host, &parts[p].files);
        kn_map_finish(&parts[p].by_name);
        if (status != KN_OK) kn_sample_store_leave(parts[p].store);
    }
    kn_release(host, found.entries);
    kn_arena_finish(&arena);
    if (status == KN_OK) {
        dataset->store = parts[0].store;
        dataset->test = parts[1].store;
    }
    return status;
}
