/* Public to all other modules. Nothing here depends on tensors, devices or file formats. */
#ifndef KN_BASE_H
#define KN_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <koine/host.h>
#include <koine/status.h>

#if defined(__GNUC__)
#define KN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define KN_PRINTF(text, first)
#endif

#define KN_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Quotients and multiples rounded up: of counts, and of bytes. The sum of both arguments must not overflow.
 */
static inline int64_t kn_divide_up(int64_t number, int64_t by) {
    return (number + by - 1) / by;
}
static inline int64_t kn_round_up(int64_t number, int64_t to) {
    return kn_divide_up(number, to) * to;
}
/* Rounds down, as dimensions do: -1 / 2 is -1. `by` must be positive. */
static inline int64_t kn_floor_divide(int64_t number, int64_t by) {
    const int64_t quotient = number / by;
    return number % by < 0 ? quotient - 1 : quotient;
}
/* For division in kernels without a division instruction (cl/common/divide.cl): n / divisor is n * multiplier
 * >> (31 + bits), where 2^bits is the least power of two that is not below the divisor, for all 0 <= n <
 * 2^31; 0 for a divisor of 1. 1 <= divisor < 2^31. */
static inline uint32_t kn_divide_multiplier(int64_t divisor) {
    int bits = 0;
    while ((int64_t)1 << bits < divisor)
        bits++;
    return bits ? (uint32_t)(((uint64_t)1 << (31 + bits)) / (uint64_t)divisor + 1) : 0;
}
/* Maximum size of a kernel's arguments, which every usable device allows. */
enum { KN_ARGUMENT_BYTES = 1024 };
static inline uint64_t kn_align_up(uint64_t bytes, uint64_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

/* ---- errors (error.c) -------------------------------------------------- */

/* Where a failing function stores its status and a message for the user. Owned by the caller; initialise it
 * with kn_error_clear or {0}. */
typedef struct kn_error {
    kn_status status;
    char text[1536];
} kn_error;

void kn_error_clear(kn_error *error);
/* Fills in `error` (may be NULL) and returns `status`, so that a failure is written `return kn_fail(error,
 * KN_ERROR_SHAPE, "...")`. Long messages are truncated; control characters become question marks. */
kn_status kn_fail(kn_error *error, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
/* Copies the status and message of `from` to `error` (may be NULL); returns the status. */
kn_status kn_error_copy(kn_error *error, const kn_error *from);
/* Prepends "where: " to the message of an existing error. */
kn_status kn_fail_in(kn_error *error, const char *format, ...) KN_PRINTF(2, 3);
/* Reports a failed allocation. bytes 0: the size is unknown; above PTRDIFF_MAX: the size overflows. */
kn_status kn_fail_memory(kn_error *error, size_t bytes);
/* Reports a failed allocation of count * size bytes, which may overflow, for `what`. */
kn_status kn_fail_memory_for(kn_error *error, const char *what, uint64_t count, size_t size);

/* ---- the host: allocator and log (host.c) -------------------------------- */

/* Every handle has a copy of its creator's allocator and log. kn_host_defaults sets realloc/free and a log
 * that drops all messages. */
typedef struct kn_host {
    kn_allocator allocator;
    kn_logger log;
} kn_host;

kn_host kn_host_defaults(void);
/* kn_host_defaults with a caller's allocator, unless it is NULL or zeros. */
kn_host kn_host_with(const kn_allocator *allocator);
/* Zeroed memory of count * size bytes; NULL on overflow or failure, or for 0 bytes. */
void *kn_allocate(const kn_host *host, size_t count, size_t size);
/* Resizes; on failure returns NULL and the old block stays valid. New bytes are not cleared. */
void *kn_resize(const kn_host *host, void *pointer, size_t count, size_t size);
void kn_release(const kn_host *host, void *pointer);
char *kn_copy_text(const kn_host *host, const char *text);
/* Grows an array by doubling to hold `needed` items. Returns false on failure, with the array unchanged. */
bool kn_reserve(const kn_host *host, void **items, size_t *capacity, size_t needed, size_t size);
/* Advises the system to use large pages for the whole pages within the memory, which reduces TLB misses; best
 * called before the memory is first touched. The advice may outlive the memory. */
void kn_advise_large_pages(void *memory, size_t bytes);
void kn_log_write(const kn_host *host, kn_log_level level, const char *format, ...) KN_PRINTF(3, 4);

/* ---- structs that begin with their size (params.c) ------------------------------- */

/* Public parameter and result structs begin with `size_t size`: the size of the struct in the header that the
 * calling program was built with. An older program's struct has fewer fields, a newer program's more. */

/* False for NULL and for a struct whose size does not even include the field `size`. */
bool kn_has_size(const void *given);
/* Replaces the defaults in *own, a struct of `type`, by the fields that `given` has, and sets own's size.
 * given NULL: keeps the defaults. Fails and keeps the defaults if `given` has no size, or if a program that
 * was built for a newer library sets a field that this one does not have. */
#define KN_PARAMS_TAKE(type, own, given, error)                                                              \
    kn_params_take(#type, 1 ? (own) : (type *)0, 1 ? (given) : (const type *)0, sizeof(type), error)
kn_status kn_params_take(const char *type, void *own, const void *given, size_t size, kn_error *error);
/* Copies *own, a struct of `type`, to the fields that the caller's `result` has; the size in `result` is
 * unchanged. KN_ERROR_ARGUMENT if `result` is NULL or has no size. */
#define KN_RESULT_GIVE(type, result, own)                                                                    \
    kn_result_give(1 ? (result) : (type *)0, 1 ? (own) : (const type *)0, sizeof(type))
kn_status kn_result_give(void *result, const void *own, size_t size);
/* Defines the function that sets a struct to the defaults of its macro. */
#define KN_DEFINE_INIT(type, defaults)                                                                       \
    void type##_init(type *params) {                                                                         \
        if (params) *params = (type)defaults;                                                                \
    }

/* ---- arena (arena.c): many small allocations freed together --------------------- */

typedef struct kn_arena_block kn_arena_block;
typedef struct kn_arena {
    const kn_host *host;
    kn_arena_block *blocks;
    size_t bytes; /* allocated so far */
} kn_arena;

void kn_arena_init(kn_arena *arena, const kn_host *host);
void kn_arena_finish(kn_arena *arena);
/* Zeroed and aligned to 16 bytes; NULL on overflow or failure. Size 0 gives a valid pointer. */
void *kn_arena_take(kn_arena *arena, size_t count, size_t size);
char *kn_arena_text(kn_arena *arena, const char *text);
char *kn_arena_format(kn_arena *arena, const char *format, ...) KN_PRINTF(2, 3);
void *kn_arena_copy(kn_arena *arena, const void *bytes, size_t count, size_t size);

/* ---- text (text.c): a growing string, and locale-independent numbers ------------- */

static inline bool kn_is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* A key with its value in the metadata of a file. */
typedef struct kn_text_pair {
    const char *key, *value;
} kn_text_pair;

/* Appending to a failed text does nothing, so one check with kn_text_failed at the end is enough. data is
 * always terminated (never NULL after init). */
typedef struct kn_text {
    const kn_host *host;
    char *data;
    size_t length, capacity;
    bool failed;
} kn_text;

void kn_text_init(kn_text *text, const kn_host *host);
void kn_text_finish(kn_text *text);
void kn_text_clear(kn_text *text);
void kn_text_add(kn_text *text, const char *piece);
void kn_text_add_bytes(kn_text *text, const char *bytes, size_t count);
/* Not for %f, %g and %e, which depend on the locale: use kn_text_number. */
void kn_text_format(kn_text *text, const char *format, ...) KN_PRINTF(2, 3);
/* The shortest decimal that reads back as the same double (float for _float); "nan", "inf" or "-inf". */
void kn_text_number(kn_text *text, double value);
void kn_text_number_float(kn_text *text, float value);
/* A fixed number of decimals, with a point in every locale. */
void kn_text_fixed(kn_text *text, double value, int decimals);
/* A quoted JSON string; invalid UTF-8 becomes U+FFFD. */
void kn_text_json(kn_text *text, const char *value);
/* A JSON number; null if it is not finite. */
void kn_text_json_number(kn_text *text, double value);
bool kn_text_failed(const kn_text *text);
/* Returns the bytes, to be released with kn_release, and empties the text. Returns NULL if the text has
 * failed, frees its memory and leaves it failed. */
char *kn_text_take(kn_text *text);

/* Read a number from the start of `text`, independent of the locale, and set *end after it. Return false,
 * with nothing changed, if there is none or it overflows. parse_double also reads nan, inf and
 * hexadecimal. */
bool kn_parse_double(const char *text, const char **end, double *value);
/* Reads all of text[0..length), which needs no terminator: sign, digits with at most one point or `comma`,
 * exponent. Yields the same number as kn_parse_double, much faster; returns false, with nothing changed, for
 * other texts and for numbers with too many digits: use kn_parse_double for these. */
bool kn_parse_short(const char *text, size_t length, char comma, double *value);
bool kn_parse_int64(const char *text, const char **end, int64_t *value);
/* The smallest number of single-character edits from one word to another (lengths up to 64). */
int kn_edit_distance(const char *left, const char *right);
/* The word nearest to `word` among `words`, or NULL if none is within a third of its length. */
const char *kn_nearest_word(const char *word, const char *const *words, size_t count);
/* Whether a name matches a pattern: * matches any characters, ? matches one. */
bool kn_pattern_fits(const char *pattern, const char *name);

/* ---- hashes and maps (hash.c, map.c) ------------------------------------------ */

#define KN_HASH_START 0xcbf29ce484222325ull
/* FNV-1a, 64 bits. Chain calls by passing the previous result as `seed`. */
uint64_t kn_hash_bytes(uint64_t seed, const void *bytes, size_t count);
uint64_t kn_hash_text(uint64_t seed, const char *text);
/* Hashes its eight bytes, little-endian. */
uint64_t kn_hash_number(uint64_t seed, uint64_t number);
/* A hash of large memory at about memory speed, for detecting changes. It depends on the machine's byte
 * order. */
uint64_t kn_fingerprint(const void *bytes, size_t count);

/* A map from byte strings to pointers. Keys are copied. Iteration is in insertion order, so that nothing
 * depends on addresses. */
typedef struct kn_map_entry {
    void *key; /* terminated by an additional zero byte */
    size_t key_bytes;
    uint64_t hash;
    void *value;
    bool removed;
} kn_map_entry;
typedef struct kn_map {
    const kn_host *host;
    kn_map_entry *entries;
    size_t used, capacity; /* entries, including removed ones */
    size_t count;          /* entries, without removed ones */
    uint32_t *slots;
    size_t slot_count;
} kn_map;

void kn_map_init(kn_map *map, const kn_host *host);
void kn_map_finish(kn_map *map);
bool kn_map_put(kn_map *map, const void *key, size_t key_bytes, void *value);
void *kn_map_get(const kn_map *map, const void *key, size_t key_bytes);
bool kn_map_has(const kn_map *map, const void *key, size_t key_bytes);
bool kn_map_remove(kn_map *map, const void *key, size_t key_bytes);
bool kn_map_put_text(kn_map *map, const char *key, void *value);
void *kn_map_get_text(const kn_map *map, const char *key);
/* Iterates over the entries: *position starts at 0; NULL at the end. */
const kn_map_entry *kn_map_next(const kn_map *map, size_t *position);

/* ---- random numbers (random.c): Philox4x32-10, counter-based -------------------- */

/* The four words of counter block `block` under `key`. Counter words are
 * (low and high word of block, 0, 0); key words are (low, high word of key). */
void kn_philox(uint64_t key, uint64_t block, uint32_t words[4]);
/* Element `index` of the stream of `key`: word index % 4 of block index / 4. */
uint32_t kn_random_word(uint64_t key, uint64_t index);
/* In [0, 1): the word's top 24 bits times 2^-24, exact in a float. */
float kn_random_uniform(uint64_t key, uint64_t index);
/* Standard normal by Box-Muller from words 2i and 2i + 1 of the stream, computed in double. */
float kn_random_normal(uint64_t key, uint64_t index);
/* In [0, bound), bound > 0, with negligible bias (64-bit multiply). */
uint32_t kn_random_below(uint64_t key, uint64_t index, uint32_t bound);
/* The key of a named stream: FNV-1a over the eight bytes of seed (little-endian), then the name. */
uint64_t kn_random_key(uint64_t seed, const char *name);
/* Fisher-Yates over items[0..count), driven by the stream of `key`. */
void kn_random_shuffle(uint64_t key, uint32_t *items, size_t count);

/* ---- bytes of files ------------------------------------------------------------ */

static inline uint64_t kn_little_uint(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static inline void kn_little_put(void *bytes, uint64_t value, int count) {
    for (int i = 0; i < count; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(value >> (8 * i));
}

/* ---- threads (thread.c) -------------------------------------------------------- */

typedef struct kn_mutex kn_mutex; /* opaque, on the heap */
typedef struct kn_condition kn_condition;
typedef struct kn_thread kn_thread;

kn_mutex *kn_mutex_create(const kn_host *host);
void kn_mutex_destroy(const kn_host *host, kn_mutex **mutex);
void kn_mutex_lock(kn_mutex *mutex);
void kn_mutex_unlock(kn_mutex *mutex);
kn_condition *kn_condition_create(const kn_host *host);
void kn_condition_destroy(const kn_host *host, kn_condition **condition);
void kn_condition_wait(kn_condition *condition, kn_mutex *mutex);
void kn_condition_broadcast(kn_condition *condition); /* wakes all */
kn_thread *kn_thread_start(const kn_host *host, void (*work)(void *), void *argument);
void kn_thread_join(const kn_host *host, kn_thread **thread);
int kn_processor_count(void);
/* Does work item `index` of 0 to count - 1. May be called from several threads at once. */
typedef kn_status kn_work(void *user, size_t index, kn_error *error);
/* Does all work items, on one thread per processor including the calling thread; after a failure no more
 * items are started. Returns the failure with the lowest index, like a sequential loop. (parallel.c) */
kn_status kn_in_parallel(const kn_host *host, size_t count, kn_work *work, void *user, kn_error *error);
/* Seconds on a monotonic clock. */
double kn_clock(void);

/* ---- files (file.c) ------------------------------------------------------------- */

/* A file mapped or read into memory, read-only. */
typedef struct kn_file_view {
    const uint8_t *bytes;
    uint64_t count;
    void *mapping; /* private */
} kn_file_view;
kn_status kn_file_open_view(const kn_host *host, const char *path, kn_file_view *view, kn_error *error);
/* Opens the file at the relative path `name` below `folder`, for untrusted names: refuses "..", similar
 * components and symbolic links below the folder. */
kn_status kn_file_open_view_below(const kn_host *host, const char *folder, const char *name,
                                  kn_file_view *view, kn_error *error);
void kn_file_close_view(const kn_host *host, kn_file_view *view);
/* Reads a whole file of at most `limit` bytes; *bytes has one additional zero byte at the end and is released
 * with kn_release. */
kn_status kn_file_read(const kn_host *host, const char *path, uint64_t limit, uint8_t **bytes,
                       uint64_t *count, kn_error *error);

/* A mapped file with several owners, in any threads: the last release closes it. It uses malloc's memory,
 * since it may outlive the allocator of the owner that opened it (shared_file.c). */
typedef struct kn_shared_file kn_shared_file;
kn_status kn_shared_file_open(const char *path, kn_shared_file **file, kn_error *error);
const kn_file_view *kn_shared_file_view(const kn_shared_file *file);
kn_shared_file *kn_shared_file_retain(kn_shared_file *file);
void kn_shared_file_release(kn_shared_file **file);
/* Advises the system that these bytes of the file are not needed soon, so that they need not stay in memory.
 * They remain readable. */
void kn_shared_file_forget(const kn_shared_file *file, const uint8_t *bytes, uint64_t count);

/* Writes a file atomically: to a temporary file in the same folder, then fsync, rename, and fsync of the
 * folder. Abandoning it leaves the old file at `path`, if any. */
typedef struct kn_file_writer kn_file_writer;
kn_status kn_file_writer_open(const kn_host *host, const char *path, kn_file_writer **writer,
                              kn_error *error);
kn_status kn_file_writer_add(kn_file_writer *writer, const void *bytes, size_t count, kn_error *error);
kn_status kn_file_writer_commit(kn_file_writer **writer, kn_error *error); /* always destroys it */
void kn_file_writer_abandon(kn_file_writer **writer);
kn_status kn_file_write(const kn_host *host, const char *path, const void *bytes, size_t count,
                        kn_error *error);
bool kn_path_exists(const char *path);
bool kn_path_is_folder(const char *path);
/* Overwrites bytes that were added before. */
kn_status kn_file_writer_change(kn_file_writer *writer, uint64_t offset, const void *bytes, size_t count,
                                kn_error *error);
/* Removes temporary files that killed programs left in a folder if they were last written at least this many
 * seconds ago: 0 if no other program is writing there. */
void kn_folder_sweep(const char *path, uint64_t seconds);
kn_status kn_file_remove(const char *path, kn_error *error);
kn_status kn_file_rename(const char *path, const char *to, kn_error *error);
/* Creates a folder and its parents (mode 0700 for new ones); no error if it exists. */
kn_status kn_folder_make(const kn_host *host, const char *path, kn_error *error);
/* kn_folder_make for the folder that contains a file. */
kn_status kn_folder_make_for(const kn_host *host, const char *file, kn_error *error);
/* Whether this process may create files in a folder. */
bool kn_folder_takes_files(const char *path);
/* Lists the names in a folder, sorted bytewise, without those that begin with a dot. In the arena. */
kn_status kn_folder_list(kn_arena *arena, const char *path, char ***names, size_t *count, kn_error *error);
/* A mark records what this process is doing, for a process that runs after this one died (mark.c). It is a
 * file with a new name that begins with the path `prefix` and ends with KN_MARK_END. NULL if it cannot be
 * created. `slots`: see kn_marks_clear; NULL: none. */
#define KN_MARK_END ".trying"
typedef struct kn_mark kn_mark;
kn_mark *kn_mark_open(const kn_host *host, const char *prefix, int64_t *slots, int slot_count);
/* Replaces the text. It survives the death of the process and, with `sync`, of the machine. hang_seconds: see
 * kn_marks_clear; 0: it never hangs. Failures are ignored. */
void kn_mark_write(kn_mark *mark, const char *text, int hang_seconds, bool sync);
void kn_mark_close(kn_mark **mark);
/* Empties the open marks that have one of the slots, because the user is about to end this process, except
 * those that were written more than their hang_seconds ago. Async-signal-safe. */
void kn_marks_clear(int64_t *slots, int slot_count);
/* Takes a mark whose process has ended: removes it and returns its text, "" if it was emptied, to be released
 * with kn_release. False if the process is running. Among several processes, only one gets it. */
bool kn_mark_take(const kn_host *host, const char *path, char **text);
/* A lock between processes, and between contexts of one, on a file that it creates (lock.c). It avoids double
 * work; correctness must not depend on it. Waits up to `seconds`. NULL if it was not taken; *held: because
 * another has it. */
typedef struct kn_lock kn_lock;
kn_lock *kn_lock_take(const kn_host *host, const char *path, double seconds, bool *held);
/* Also removes the file. */
void kn_lock_release(kn_lock **lock);
/* folder + "/" + name, in the arena. */
char *kn_path_join(kn_arena *arena, const char *folder, const char *name);

#include "base/blocks.h"
#include "base/shards.h"
#include "base/small_float.h"

#endif
