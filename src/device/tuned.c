/* Tuned choices: the kernels that measured fastest, in a text file next to the device's verdicts.
 *
 *     koine tuned 1
 *     the device's identity
 *     key kernel microseconds untuned
 *     key kernel failed
 *
 * The last kind is a kernel that must not be tried again, since it failed, was wrong or hung. The file may
 * come from anywhere, so all other lines are ignored. The verify module interprets the names. */
#include <math.h>
#include <string.h>

#include "device/device_private.h"

static const char first_line[] = "koine tuned 1";
static const uint64_t file_limit = 4u << 20;
static const char *const words[] = {NULL, "failed", "wrong", "hung"};

/* ---- entries in memory ----------------------------------------------------------------------------- */

/* The name of an entry in the map. */
static void name_entry(const kn_tuned *entry, char name[KN_TUNED_KEY + KN_TUNED_KERNEL]) {
    size_t length = strlen(entry->key);
    memcpy(name, entry->key, length + 1);
    if (entry->end == KN_TUNED_MEASURED) return;
    name[length] = ' ';
    memcpy(name + length + 1, entry->kernel, strlen(entry->kernel) + 1);
}

static void keep(kn_tunings *tunings, const kn_tuned *entry) {
    char name[KN_TUNED_KEY + KN_TUNED_KERNEL];
    name_entry(entry, name);
    kn_tuned *slot = kn_map_get_text(&tunings->entries, name);
    if (!slot) {
        slot = kn_allocate(&tunings->host, 1, sizeof *slot);
        if (!slot) return;
        if (!kn_map_put_text(&tunings->entries, name, slot)) {
            kn_release(&tunings->host, slot);
            return;
        }
    }
    *slot = *entry;
}

static void clear(kn_tunings *tunings) {
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&tunings->entries, &position)) != NULL;)
        kn_release(&tunings->host, entry->value);
    kn_map_finish(&tunings->entries);
    kn_map_init(&tunings->entries, &tunings->host);
}

static void warn(kn_tunings *tunings, const char *path) {
    if (!tunings->warned)
        kn_log_write(&tunings->host, KN_LOG_WARNING,
                     "some entries of %s are damaged or have unknown names, and are ignored", path);
    tunings->warned = true;
}

/* ---- the text ---------------------------------------------------------------------------------------- */

/* Copies a word that ends at a space or the end of the line; false if it is empty, too long or has special
 * characters. */
static bool take_word(const char **line, char *word, size_t room) {
    size_t length = strcspn(*line, " ");
    if (!length || length >= room) return false;
    for (size_t i = 0; i < length; i++)
        if ((*line)[i] <= ' ' || (*line)[i] > '~') return false;
    memcpy(word, *line, length);
    word[length] = '\0';
    *line += length + ((*line)[length] == ' ');
    return true;
}

static bool take_number(const char **line, double *number) {
    char word[40];
    const char *end = NULL;
    return take_word(line, word, sizeof word) && kn_parse_double(word, &end, number) && !*end &&
           *number >= 0 && *number < 1e15;
}

static bool parse_line(const char *line, kn_tuned *entry) {
    *entry = (kn_tuned){.end = KN_TUNED_MEASURED};
    if (!take_word(&line, entry->key, sizeof entry->key) ||
        !take_word(&line, entry->kernel, sizeof entry->kernel))
        return false;
    for (int end = KN_TUNED_FAILED; end <= KN_TUNED_HUNG; end++)
        if (!strcmp(line, words[end])) entry->end = (kn_tuned_end)end;
    return entry->end != KN_TUNED_MEASURED ||
           (take_number(&line, &entry->microseconds) && take_number(&line, &entry->untuned) && !*line &&
            entry->microseconds > 0);
}

static kn_status write_entries(const kn_tunings *tunings, const char *path, kn_error *error) {
    kn_text text;
    kn_text_init(&text, &tunings->host);
    kn_text_format(&text, "%s\n%s\n", first_line, tunings->identity);
    size_t position = 0;
    for (const kn_map_entry *found; (found = kn_map_next(&tunings->entries, &position)) != NULL;) {
        const kn_tuned *entry = found->value;
        kn_text_format(&text, "%s %s ", entry->key, entry->kernel);
        if (entry->end != KN_TUNED_MEASURED) {
            kn_text_format(&text, "%s\n", words[entry->end]);
            continue;
        }
        kn_text_fixed(&text, entry->microseconds, 3);
        kn_text_add(&text, " ");
        kn_text_fixed(&text, entry->untuned, 3);
        kn_text_add(&text, "\n");
    }
    kn_status status = kn_text_failed(&text)
                           ? kn_fail_memory(error, text.length)
                           : kn_file_write(&tunings->host, path, text.data, text.length, error);
    kn_text_finish(&text);
    return status;
}

/* Calls `take` for each entry of a file, and with NULL for each invalid line. */
static kn_status read_entries(const kn_tunings *tunings, const char *path,
                              void (*take)(void *user, const kn_tuned *entry), void *user, kn_error *error) {
    uint8_t *bytes = NULL;
    uint64_t count = 0;
    kn_status status = kn_file_read(&tunings->host, path, file_limit, &bytes, &count, error);
    if (status != KN_OK) return status;
    int number = 0;
    for (char *line = (char *)bytes, *next; status == KN_OK && line && *line; line = next, number++) {
        kn_tuned entry;
        if ((next = strchr(line, '\n')) != NULL) *next++ = '\0';
        if (number == 0 && strcmp(line, first_line) != 0)
            status = kn_fail(error, KN_ERROR_FORMAT, "%s: line 1 is not \"%s\"", path, first_line);
        else if (number == 1 && strcmp(line, tunings->identity) != 0)
            status = kn_fail(error, KN_ERROR_MISMATCH,
                             "%s belongs to a different device or driver: \"%s\"; this one is \"%s\"", path,
                             line, tunings->identity);
        else if (number > 1)
            take(user, parse_line(line, &entry) ? &entry : NULL);
    }
    if (status == KN_OK && number < 2)
        status = kn_fail(error, KN_ERROR_FORMAT, "%s ends before it names a device", path);
    kn_release(&tunings->host, bytes);
    return status;
}

/* ---- the file of the device ------------------------------------------------------------------ */

typedef struct reading {
    kn_tunings *tunings;
    int damaged;
} reading;

static void take_own(void *user, const kn_tuned *entry) {
    reading *self = user;
    self->damaged += !entry;
    if (entry) keep(self->tunings, entry);
}

/* The file replaces the entries in memory, since other programs may have written it. */
static void read_own(kn_tunings *tunings) {
    reading own = {.tunings = tunings};
    if (!tunings->path || !kn_path_exists(tunings->path)) return;
    clear(tunings);
    if (read_entries(tunings, tunings->path, take_own, &own, NULL) != KN_OK || own.damaged)
        warn(tunings, tunings->path);
}

static void write_own(kn_tunings *tunings) {
    kn_error error = {.status = KN_OK};
    if (!tunings->path) return;
    kn_status status = kn_folder_make_for(&tunings->host, tunings->path, &error);
    if (status == KN_OK) status = write_entries(tunings, tunings->path, &error);
    if (status != KN_OK)
        kn_log_write(&tunings->host, KN_LOG_WARNING, "tuned choices cannot be stored: %s", error.text);
}

bool kn_tunings_open(kn_tunings *tunings, const kn_verdicts *verdicts) {
    *tunings = (kn_tunings){.host = verdicts->host, .identity = verdicts->identity};
    kn_map_init(&tunings->entries, &tunings->host);
    if (!verdicts->path) return true;
    kn_text path;
    kn_text_init(&path, &tunings->host);
    kn_text_add_bytes(&path, verdicts->path, strlen(verdicts->path) - strlen(".txt"));
    kn_text_add(&path, ".tuned");
    tunings->path = kn_text_take(&path);
    if (tunings->path) read_own(tunings);
    return tunings->path != NULL;
}

void kn_tunings_close(kn_tunings *tunings) {
    if (!tunings->entries.host) return;
    clear(tunings);
    kn_map_finish(&tunings->entries);
    kn_release(&tunings->host, tunings->path);
    *tunings = (kn_tunings){.path = NULL};
}

/* ---- for other modules --------------------------------------------------------------------------------- */

/* The entry of a name, or NULL. */
static const kn_tuned *find(const kn_context *context, const char *name) {
    const kn_map *entries = &context->tunings.entries;
    return entries->host ? kn_map_get_text(entries, name) : NULL;
}

bool kn_tuned_any(kn_context *context) {
    kn_mutex_lock(context->mutex);
    bool any = context->tunings.entries.host && context->tunings.entries.count > 0;
    kn_mutex_unlock(context->mutex);
    return any;
}

bool kn_tuned_get(kn_context *context, const char *key, kn_tuned *entry) {
    kn_mutex_lock(context->mutex);
    const kn_tuned *found = find(context, key);
    if (found) *entry = *found;
    kn_mutex_unlock(context->mutex);
    return found != NULL;
}

kn_tuned_end kn_tuned_end_of(kn_context *context, const char *key, const char *kernel) {
    char name[KN_TUNED_KEY + KN_TUNED_KERNEL];
    if (strlen(key) >= KN_TUNED_KEY || strlen(kernel) >= KN_TUNED_KERNEL) return KN_TUNED_MEASURED;
    kn_tuned asked = {.end = KN_TUNED_FAILED};
    memcpy(asked.key, key, strlen(key) + 1);
    memcpy(asked.kernel, kernel, strlen(kernel) + 1);
    name_entry(&asked, name);
    kn_mutex_lock(context->mutex);
    const kn_tuned *found = find(context, name);
    kn_tuned_end end = found ? found->end : KN_TUNED_MEASURED;
    kn_mutex_unlock(context->mutex);
    return end;
}

void kn_tuned_put(kn_context *context, const kn_tuned *entry) {
    kn_mutex_lock(context->mutex);
    if (context->tunings.entries.host) {
        read_own(&context->tunings);
        keep(&context->tunings, entry);
        write_own(&context->tunings);
    }
    kn_mutex_unlock(context->mutex);
}

/* Removes one entry of a key from memory; false if none is left. */
static bool forget_one(kn_tunings *tunings, const char *key) {
    size_t position = 0;
    for (const kn_map_entry *found; (found = kn_map_next(&tunings->entries, &position)) != NULL;) {
        kn_tuned *entry = found->value;
        if (strcmp(entry->key, key) != 0) continue;
        kn_map_remove(&tunings->entries, found->key, found->key_bytes);
        kn_release(&tunings->host, entry);
        return true;
    }
    return false;
}

void kn_tuned_forget(kn_context *context, const char *key) {
    kn_mutex_lock(context->mutex);
    if (context->tunings.entries.host) {
        read_own(&context->tunings);
        while (forget_one(&context->tunings, key))
            continue;
        write_own(&context->tunings);
    }
    kn_mutex_unlock(context->mutex);
}

void kn_tuned_ignore(kn_context *context, const char *key) {
    kn_mutex_lock(context->mutex);
    if (find(context, key)) {
        forget_one(&context->tunings, key);
        warn(&context->tunings, context->tunings.path ? context->tunings.path : "the tuned choices");
    }
    kn_mutex_unlock(context->mutex);
}

bool kn_tuned_next(kn_context *context, size_t *position, kn_tuned *entry) {
    kn_mutex_lock(context->mutex);
    const kn_map_entry *found =
        context->tunings.entries.host ? kn_map_next(&context->tunings.entries, position) : NULL;
    if (found) *entry = *(const kn_tuned *)found->value;
    kn_mutex_unlock(context->mutex);
    return found != NULL;
}

kn_status kn_tuned_export(kn_context *context, const char *path, kn_error *error) {
    kn_mutex_lock(context->mutex);
    kn_status status = context->tunings.entries.host ? write_entries(&context->tunings, path, error)
                                                     : kn_fail_described(context, error);
    kn_mutex_unlock(context->mutex);
    return status;
}

typedef struct importing {
    kn_tunings *tunings;
    bool (*takes)(void *user, const kn_tuned *entry);
    void *user;
} importing;

static void take_foreign(void *user, const kn_tuned *entry) {
    const importing *from = user;
    if (from->takes(from->user, entry) && entry) keep(from->tunings, entry);
}

kn_status kn_tuned_import(kn_context *context, const char *path,
                          bool (*takes)(void *user, const kn_tuned *entry), void *user, kn_error *error) {
    if (!context->tunings.entries.host) return kn_fail_described(context, error);
    kn_mutex_lock(context->mutex);
    importing from = {&context->tunings, takes, user};
    read_own(&context->tunings);
    kn_status status = read_entries(&context->tunings, path, take_foreign, &from, error);
    if (status == KN_OK) write_own(&context->tunings);
    kn_mutex_unlock(context->mutex);
    return status;
}

void kn_context_set_tuner(kn_context *context, void *tuner) {
    context->tuner = tuner;
}

void *kn_context_tuner(const kn_context *context) {
    return context->tuner;
}
