/* Verdicts: measurements of a device and driver, as numbers under short keys, in one small text file per
 * device.
 *
 *     koine verdicts 1
 *     the device's identity
 *     key value
 *     died/key time
 *     deaths/key number
 *
 * Several programs may write concurrently: each reads the entries of the others before it replaces the file.
 *
 * A driver may end or hang the process that tries something new. Therefore a mark next to the file names the
 * key that is being tried, and whether its kernel is running or is being compiled. A later process that finds
 * the mark of a process that has ended avoids the key: "died/key" is the time, in seconds since 1970, from
 * which it may be tried again. Processes are killed while they compile for reasons other than the kernel,
 * such as a user or a job scheduler that does not want to wait, so the pause is an hour after a first death
 * while compiling, a day after the second or after a death while running, and thirty days after more.
 * Programs that call kn_interrupt_clear leave no mark when the user stops them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device_private.h"

static const char first_line[] = "koine verdicts 1", died[] = "died/", deaths[] = "deaths/";
static const char compiling[] = "compiling ", running[] = "running ";
static const uint64_t file_limit = 1u << 20;
/* By the number of deaths; a death while running counts as two. */
static const double pauses[] = {3600, 86400, 30 * 86400.0};
enum { LONGEST = KN_COUNT_OF(pauses) - 1 };
/* A kernel that has run this long when the user ends the program hangs. Drivers of CPUs compile a kernel when
 * it first runs, which may take half a minute on a busy machine. */
enum { HANG_SECONDS = 5, HANG_SECONDS_OF_CPU = 60 };

static void keep(kn_verdicts *verdicts, const char *key, double value) {
    double *slot = kn_map_get_text(&verdicts->values, key);
    if (!slot) {
        slot = kn_allocate(&verdicts->host, 1, sizeof *slot);
        if (!slot) return;
        if (!kn_map_put_text(&verdicts->values, key, slot)) {
            kn_release(&verdicts->host, slot);
            return;
        }
    }
    *slot = value;
}

/* Returns the next line and advances *rest; NULL at the end. */
static char *next_line(char **rest) {
    if (!**rest) return NULL;
    char *line = *rest, *newline = strchr(line, '\n');
    if (newline) *newline = '\0';
    *rest = newline ? newline + 1 : line + strlen(line);
    return line;
}

/* Reads the file's entries that are not in memory. */
static void read_file(kn_verdicts *verdicts) {
    uint8_t *bytes = NULL;
    uint64_t count = 0;
    if (!verdicts->path ||
        kn_file_read(&verdicts->host, verdicts->path, file_limit, &bytes, &count, NULL) != KN_OK)
        return;
    char *rest = (char *)bytes, *line = next_line(&rest);
    bool ours = line && strcmp(line, first_line) == 0;
    line = ours ? next_line(&rest) : NULL;
    ours = line && strcmp(line, verdicts->identity) == 0;
    while (ours && (line = next_line(&rest)) != NULL) {
        char *space = strrchr(line, ' ');
        const char *end = NULL;
        double value;
        if (!space || space == line) continue;
        *space = '\0';
        if (!kn_parse_double(space + 1, &end, &value) || *end) continue;
        if (!kn_map_get_text(&verdicts->values, line)) keep(verdicts, line, value);
    }
    kn_release(&verdicts->host, bytes);
}

/* ---- attempts ----------------------------------------------------------------------------- */

/* prefix + text; NULL: out of memory. */
static char *joined(const kn_verdicts *verdicts, const char *prefix, const char *text) {
    kn_text whole;
    kn_text_init(&whole, &verdicts->host);
    kn_text_add(&whole, prefix);
    kn_text_add(&whole, text);
    return kn_text_take(&whole);
}

/* kn_verdicts_get of prefix + key. */
static bool get_joined(const kn_verdicts *verdicts, const char *prefix, const char *key, double *value) {
    char *name = joined(verdicts, prefix, key);
    bool known = name && kn_verdicts_get(verdicts, name, value);
    kn_release(&verdicts->host, name);
    return known;
}

static void put_joined(kn_verdicts *verdicts, const char *prefix, const char *key, double value) {
    char *name = joined(verdicts, prefix, key);
    if (name) kn_verdicts_put(verdicts, name, value);
    kn_release(&verdicts->host, name);
}

/* Seconds until an unknown `key` may be tried again; 0: now. A wait beyond the maximum comes from a clock
 * that was wrong. */
static double pause_of(const kn_verdicts *verdicts, const char *key) {
    double value;
    if (!get_joined(verdicts, died, key, &value)) return 0;
    const double pause = value - (double)time(NULL);
    return pause > 0 && pause <= pauses[LONGEST] && !kn_verdicts_get(verdicts, key, &value) ? pause : 0;
}

bool kn_verdicts_deadly(const kn_verdicts *verdicts, const char *key) {
    return pause_of(verdicts, key) > 0;
}

/* The part of a key that names a kernel: without the version or hash after it; "relu/wide" of
 * "refused/relu/wide/plain/7" (verify/verdicts.c). */
static const char *kernel_of(const char *key, int *length) {
    static const char refused[] = "refused/";
    const char *hash = strrchr(key, '_'), *end = NULL;
    for (const char *slash = strchr(key, '/'); slash && !end; slash = strchr(slash + 1, '/'))
        if (kn_is_digit(slash[1])) end = slash;
    if (!end) end = hash && strlen(hash) == 17 ? hash : key + strlen(key);
    if (strncmp(key, refused, strlen(refused)) == 0) {
        key += strlen(refused);
        const char *next = end; /* the variant that is used instead */
        while (next > key && next[-1] != '/')
            next--;
        if (next > key) end = next - 1;
    }
    *length = (int)(end - key);
    return key;
}

void kn_verdicts_log(const kn_verdicts *verdicts, const char *device) {
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&verdicts->values, &position)) != NULL;) {
        const char *key = (const char *)entry->key + strlen(died);
        if (strncmp(entry->key, died, strlen(died)) != 0 || !kn_verdicts_deadly(verdicts, key)) continue;
        const int hours = (int)ceil(pause_of(verdicts, key) / 3600);
        int length;
        const char *kernel = kernel_of(key, &length);
        double count = 0;
        get_joined(verdicts, deaths, key, &count);
        kn_log_write(&verdicts->host, KN_LOG_WARNING,
                     "%s: %.*s is not used for another %d hour%s: a program ended, or was killed, while it "
                     "was %s",
                     device, length, kernel, hours, hours == 1 ? "" : "s", count > 1 ? "tried" : "compiled");
    }
}

/* `mark`: the text of a mark. */
static void note_death(kn_verdicts *verdicts, const char *mark) {
    const bool ran = strncmp(mark, running, strlen(running)) == 0;
    if (!ran && strncmp(mark, compiling, strlen(compiling)) != 0) return;
    const char *key = mark + strlen(ran ? running : compiling);
    double count = 0;
    get_joined(verdicts, deaths, key, &count);
    count = (count >= 0 && count <= LONGEST ? count : LONGEST) + (ran ? 2 : 1);
    put_joined(verdicts, deaths, key, count);
    put_joined(verdicts, died, key,
               (double)time(NULL) + pauses[count - 1 < LONGEST ? (int)count - 1 : LONGEST]);
}

/* The beginning of this device's marks: the path of its file without ".txt", and a hyphen. */
static char *mark_prefix(const kn_verdicts *verdicts) {
    kn_text text;
    kn_text_init(&text, &verdicts->host);
    kn_text_add_bytes(&text, verdicts->path, strlen(verdicts->path) - strlen(".txt"));
    kn_text_add(&text, "-");
    return kn_text_take(&text);
}

/* Reads and removes the marks of processes that have ended. */
static void read_marks(kn_verdicts *verdicts) {
    char *prefix = verdicts->path ? mark_prefix(verdicts) : NULL, *key, **names;
    size_t count;
    if (!prefix) return;
    kn_arena arena;
    kn_arena_init(&arena, &verdicts->host);
    char *slash = strrchr(prefix, '/');
    *slash = '\0';
    const char *name = slash + 1;
    if (kn_folder_list(&arena, prefix, &names, &count, NULL) != KN_OK) count = 0;
    for (size_t i = 0; i < count; i++) {
        const char *end = strstr(names[i], KN_MARK_END);
        if (strncmp(names[i], name, strlen(name)) != 0 || !end || strcmp(end, KN_MARK_END) != 0) continue;
        const char *path = kn_path_join(&arena, prefix, names[i]);
        if (!path || !kn_mark_take(&verdicts->host, path, &key)) continue;
        if (key[0] && !strpbrk(key, "\r\n")) note_death(verdicts, key);
        kn_release(&verdicts->host, key);
    }
    kn_arena_finish(&arena);
    kn_release(&verdicts->host, prefix);
}

/* Writes a mark with the newest attempt; without attempts there is no file. */
static void write_mark(kn_verdicts *verdicts) {
    if (!verdicts->newest) {
        kn_mark_close(&verdicts->mark);
        return;
    }
    if (!verdicts->mark) {
        kn_status status = kn_folder_make_for(&verdicts->host, verdicts->path, NULL);
        char *prefix = status == KN_OK ? mark_prefix(verdicts) : NULL;
        int64_t *slots = verdicts->interrupt ? verdicts->interrupt->marks : NULL;
        if (prefix)
            verdicts->mark =
                kn_mark_open(&verdicts->host, prefix, slots, KN_COUNT_OF(verdicts->interrupt->marks));
        kn_release(&verdicts->host, prefix);
    }
    if (!verdicts->mark) return;
    const bool runs = verdicts->newest->runs;
    char *text = joined(verdicts, runs ? running : compiling, verdicts->newest->key);
    const int hangs = verdicts->may_hang ? HANG_SECONDS : HANG_SECONDS_OF_CPU;
    if (text) kn_mark_write(verdicts->mark, text, runs ? hangs : 0, verdicts->may_hang);
    kn_release(&verdicts->host, text);
}

void kn_verdicts_begin(kn_verdicts *verdicts, kn_attempt *attempt, const char *key) {
    if (!verdicts->path) return;
    *attempt = (kn_attempt){.key = key, .before = verdicts->newest};
    verdicts->newest = attempt;
    write_mark(verdicts);
}

void kn_verdicts_phase(kn_verdicts *verdicts, bool runs) {
    if (!verdicts->newest || verdicts->newest->runs == runs) return;
    verdicts->newest->runs = runs;
    write_mark(verdicts);
}

void kn_verdicts_end(kn_verdicts *verdicts, kn_attempt *attempt) {
    kn_attempt **slot = &verdicts->newest;
    while (*slot && *slot != attempt)
        slot = &(*slot)->before;
    if (!*slot) return;
    *slot = attempt->before;
    write_mark(verdicts);
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

bool kn_verdicts_open(kn_verdicts *verdicts, const kn_host *host, const char *cache_folder,
                      const char *identity) {
    memset(verdicts, 0, sizeof *verdicts);
    verdicts->host = *host;
    kn_map_init(&verdicts->values, &verdicts->host);
    verdicts->identity = kn_copy_text(host, identity);
    if (!verdicts->identity) {
        kn_verdicts_close(verdicts);
        return false;
    }
    for (char *slot = verdicts->identity; *slot; slot++)
        if (*slot == '\n' || *slot == '\r') *slot = ' ';
    if (cache_folder && cache_folder[0]) {
        kn_text path;
        kn_text_init(&path, host);
        kn_text_format(&path, "%s/devices/%016llx.txt", cache_folder,
                       (unsigned long long)kn_hash_text(KN_HASH_START, verdicts->identity));
        verdicts->path = kn_text_take(&path);
        if (!verdicts->path) {
            kn_verdicts_close(verdicts);
            return false;
        }
        read_file(verdicts);
        read_marks(verdicts);
    }
    return true;
}

void kn_verdicts_close(kn_verdicts *verdicts) {
    if (!verdicts->values.host) return;
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&verdicts->values, &position)) != NULL;)
        kn_release(&verdicts->host, entry->value);
    kn_map_finish(&verdicts->values);
    kn_mark_close(&verdicts->mark);
    kn_release(&verdicts->host, verdicts->identity);
    kn_release(&verdicts->host, verdicts->path);
    memset(verdicts, 0, sizeof *verdicts);
}

bool kn_verdicts_get(const kn_verdicts *verdicts, const char *key, double *value) {
    const double *slot = kn_map_get_text(&verdicts->values, key);
    if (slot) *value = *slot;
    return slot != NULL;
}

/* Replaces the file by the entries in memory. */
static void write_file(const kn_verdicts *verdicts) {
    kn_text text;
    kn_text_init(&text, &verdicts->host);
    kn_text_format(&text, "%s\n%s\n", first_line, verdicts->identity);
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&verdicts->values, &position)) != NULL;) {
        kn_text_add(&text, entry->key);
        kn_text_add(&text, " ");
        kn_text_number(&text, *(const double *)entry->value);
        kn_text_add(&text, "\n");
    }
    kn_status status = kn_folder_make_for(&verdicts->host, verdicts->path, NULL);
    if (!status && !kn_text_failed(&text))
        status = kn_file_write(&verdicts->host, verdicts->path, text.data, text.length, NULL);
    if (status)
        kn_log_write(&verdicts->host, KN_LOG_DEBUG, "device measurements could not be written to %s",
                     verdicts->path);
    kn_text_finish(&text);
}

void kn_verdicts_put(kn_verdicts *verdicts, const char *key, double value) {
    keep(verdicts, key, value);
    if (!verdicts->path) return;
    read_file(verdicts);
    write_file(verdicts);
}

size_t kn_verdicts_forget_deaths(kn_verdicts *verdicts) {
    size_t position = 0, count = 0;
    if (!verdicts->path) return 0;
    read_file(verdicts);
    for (const kn_map_entry *entry; (entry = kn_map_next(&verdicts->values, &position)) != NULL;) {
        const bool ban = strncmp(entry->key, died, strlen(died)) == 0;
        if (!ban && strncmp(entry->key, deaths, strlen(deaths)) != 0) continue;
        count += ban && kn_verdicts_deadly(verdicts, (const char *)entry->key + strlen(died));
        kn_release(&verdicts->host, entry->value);
        kn_map_remove(&verdicts->values, entry->key, entry->key_bytes);
    }
    write_file(verdicts);
    return count;
}
