/* The door of the base room: what every other room stands on.
 * Nothing here knows tensors, devices or files of any particular format. */
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
static inline uint64_t kn_align_up(uint64_t bytes, uint64_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

/* ---- errors (error.c) -------------------------------------------------- */

/* Where a failing function leaves its status and what a person needs to know.
 * The caller owns it; kn_error_clear or {0} makes it ready. */
typedef struct kn_error {
    kn_status status;
    char text[1536];
} kn_error;

void kn_error_clear(kn_error *error);
/* Fills `error` (NULL is allowed) and returns `status`, so that a failure reads
 * `return kn_fail(error, KN_ERROR_SHAPE, "...")`. Long texts are cut, never overrun; control
 * characters become question marks. */
kn_status kn_fail(kn_error *error, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
/* Puts "where: " in front of the text of an error that already happened. */
kn_status kn_fail_in(kn_error *error, const char *format, ...) KN_PRINTF(2, 3);
/* The usual failure of an allocation. bytes 0: nobody knows how many; above PTRDIFF_MAX: more than there can
 * be. */
kn_status kn_fail_memory(kn_error *error, size_t bytes);
/* The same for so many of a size, whose product may be any: what they are is told. */
kn_status kn_fail_memory_for(kn_error *error, const char *what, uint64_t count, size_t size);

/* ---- the host: allocator and log (host.c) -------------------------------- */

/* Every handle holds one of these, copied from what its creator was given.
 * kn_host_defaults fills in realloc/free and a log that drops everything. */
typedef struct kn_host {
    kn_allocator allocator;
    kn_logger log;
} kn_host;

kn_host kn_host_defaults(void);
/* The same with a caller's allocator, unless that is NULL or zeros. */
kn_host kn_host_with(const kn_allocator *allocator);
/* Zeroed memory for count * size bytes; NULL when it overflows or fails, or is 0 bytes. */
void *kn_allocate(const kn_host *host, size_t count, size_t size);
/* Resizes; the old block stays valid on failure (NULL). New bytes are not cleared. */
void *kn_resize(const kn_host *host, void *pointer, size_t count, size_t size);
void kn_release(const kn_host *host, void *pointer);
char *kn_copy_text(const kn_host *host, const char *text);
/* Grows an array by doubling so that it has room for `needed` items.
 * Returns false on failure, the array untouched. */
bool kn_reserve(const kn_host *host, void **items, size_t *capacity, size_t needed, size_t size);
/* Asks the system for large pages where whole ones lie in the memory, best before it is first touched: there
 * are fewer addresses to look up then. Only an advice, which may outlive the memory. */
void kn_advise_large_pages(void *memory, size_t bytes);
void kn_log_write(const kn_host *host, kn_log_level level, const char *format, ...) KN_PRINTF(3, 4);

/* ---- arena (arena.c): many small things freed at once ---------------------- */

typedef struct kn_arena_block kn_arena_block;
typedef struct kn_arena {
    const kn_host *host;
    kn_arena_block *blocks;
    size_t bytes; /* taken so far */
} kn_arena;

void kn_arena_init(kn_arena *arena, const kn_host *host);
void kn_arena_finish(kn_arena *arena);
/* Zeroed, aligned to 16 bytes; NULL on overflow or failure. Size 0 gives a valid pointer. */
void *kn_arena_take(kn_arena *arena, size_t count, size_t size);
char *kn_arena_text(kn_arena *arena, const char *text);
char *kn_arena_format(kn_arena *arena, const char *format, ...) KN_PRINTF(2, 3);
void *kn_arena_copy(kn_arena *arena, const void *bytes, size_t count, size_t size);

/* ---- text (text.c): a growing string, and numbers without the locale -------- */

/* Appending to a text that has failed does nothing, so one check at the end is
 * enough: kn_text_failed. data is always terminated (never NULL after init). */
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
/* %f, %g and %e are not for this function (they follow the locale): use kn_text_number. */
void kn_text_format(kn_text *text, const char *format, ...) KN_PRINTF(2, 3);
/* The shortest decimal form that reads back to the same double (float for _float);
 * "nan", "inf", "-inf" for the others. */
void kn_text_number(kn_text *text, double value);
void kn_text_number_float(kn_text *text, float value);
/* A fixed number of decimals, with a point whatever the locale. */
void kn_text_fixed(kn_text *text, double value, int decimals);
/* A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. */
void kn_text_json(kn_text *text, const char *value);
/* A JSON number; null when it is not finite. */
void kn_text_json_number(kn_text *text, double value);
bool kn_text_failed(const kn_text *text);
/* Hands the bytes over (to be released with kn_release) and leaves the text empty; NULL if failed. */
char *kn_text_take(kn_text *text);

/* Read a number from the start of `text` whatever the locale; *end is set after
 * it. Return false, with nothing changed, when there is none or it overflows.
 * parse_double reads nan, inf and hexadecimal too. */
bool kn_parse_double(const char *text, const char **end, double *value);
/* All of text[0..length), which needs no terminator: sign, digits with at most one point or `comma`,
 * exponent. The same number as kn_parse_double's, found much faster; false, with nothing changed, for what is
 * no such number and for those that are too long for it, which kn_parse_double is left to tell apart. */
bool kn_parse_short(const char *text, size_t length, char comma, double *value);
bool kn_parse_int64(const char *text, const char **end, int64_t *value);
/* The smallest number of single-letter edits from one word to another (lengths up to 64). */
int kn_edit_distance(const char *left, const char *right);
/* The word nearest to `word` among `words`, or NULL if none is within a third of its length. */
const char *kn_nearest_word(const char *word, const char *const *words, size_t count);
/* Whether a name is what a pattern says: * stands for any characters, ? for one. */
bool kn_pattern_fits(const char *pattern, const char *name);

/* ---- hashes and maps (hash.c, map.c) ------------------------------------------ */

#define KN_HASH_START 0xcbf29ce484222325ull
/* FNV-1a, 64 bits: chain calls by passing the previous result as `seed`. */
uint64_t kn_hash_bytes(uint64_t seed, const void *bytes, size_t count);
uint64_t kn_hash_text(uint64_t seed, const char *text);
/* Of its eight bytes, little endian. */
uint64_t kn_hash_number(uint64_t seed, uint64_t number);

/* From byte strings to pointers. Keys are copied. Iteration is in insertion
 * order, so that nothing depends on addresses. */
typedef struct kn_map_entry {
    void *key; /* terminated by an extra zero byte */
    size_t key_bytes;
    uint64_t hash;
    void *value;
    bool removed;
} kn_map_entry;
typedef struct kn_map {
    const kn_host *host;
    kn_map_entry *entries;
    size_t used, capacity; /* entries, removed ones included */
    size_t count;          /* entries that exist */
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
/* Walks the entries: *position starts at 0; NULL at the end. */
const kn_map_entry *kn_map_next(const kn_map *map, size_t *position);

/* ---- random numbers (random.c): Philox4x32-10, counter based -------------------- */

/* The four words of counter block `block` under `key`. Counter words are
 * (low and high word of block, 0, 0); key words are (low, high word of key). */
void kn_philox(uint64_t key, uint64_t block, uint32_t words[4]);
/* Element `index` of the stream of `key`: word index % 4 of block index / 4. */
uint32_t kn_random_word(uint64_t key, uint64_t index);
/* In [0, 1): the word's top 24 bits times 2^-24, exact in a float. */
float kn_random_uniform(uint64_t key, uint64_t index);
/* Standard normal by Box-Muller from words 2i and 2i + 1 of the stream, computed in double. */
float kn_random_normal(uint64_t key, uint64_t index);
/* In [0, bound), bound > 0, without modulo bias worth speaking of (64-bit multiply). */
uint32_t kn_random_below(uint64_t key, uint64_t index, uint32_t bound);
/* The key of a named stream: FNV-1a over the eight bytes of seed (little endian), then the name. */
uint64_t kn_random_key(uint64_t seed, const char *name);
/* Fisher-Yates over items[0..count), driven by the stream of `key`. */
void kn_random_shuffle(uint64_t key, uint32_t *items, size_t count);

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
void kn_condition_signal(kn_condition *condition);    /* wakes one */
void kn_condition_broadcast(kn_condition *condition); /* wakes all */
kn_thread *kn_thread_start(const kn_host *host, void (*work)(void *), void *argument);
void kn_thread_join(const kn_host *host, kn_thread **thread);
int kn_processor_count(void);
/* Does one piece of work, of those from 0 to count - 1. Any thread, several at a time. */
typedef kn_status kn_work(void *user, size_t index, kn_error *error);
/* Does all of them by as many threads as there are processors, the caller's among them; after a failure no
 * more are begun. Answers the failure of the lowest index, which is the one that a loop would have met first.
 * (parallel.c) */
kn_status kn_in_parallel(const kn_host *host, size_t count, kn_work *work, void *user, kn_error *error);
/* Seconds on a clock that never goes back. */
double kn_clock(void);

/* ---- files (file.c) ------------------------------------------------------------- */

/* A file mapped or read into memory, read only. */
typedef struct kn_file_view {
    const uint8_t *bytes;
    uint64_t count;
    void *mapping; /* private */
} kn_file_view;
kn_status kn_file_open_view(const kn_host *host, const char *path, kn_file_view *view, kn_error *error);
/* The file that the relative path `name` leads to below `folder`, for names that nobody vouches for:
 * parts such as ".." and symbolic links below the folder are refused. */
kn_status kn_file_open_view_below(const kn_host *host, const char *folder, const char *name,
                                  kn_file_view *view, kn_error *error);
void kn_file_close_view(const kn_host *host, kn_file_view *view);
/* Reads a whole file of at most `limit` bytes; *bytes has one extra zero byte at
 * the end and is released with kn_release. */
kn_status kn_file_read(const kn_host *host, const char *path, uint64_t limit, uint8_t **bytes,
                       uint64_t *count, kn_error *error);

/* A file written whole or not at all: a temporary file in the same folder,
 * fsync, rename, fsync of the folder. Destroying it without commit leaves
 * whatever stood at `path` before. */
typedef struct kn_file_writer kn_file_writer;
kn_status kn_file_writer_open(const kn_host *host, const char *path, kn_file_writer **writer,
                              kn_error *error);
kn_status kn_file_writer_add(kn_file_writer *writer, const void *bytes, size_t count, kn_error *error);
kn_status kn_file_writer_commit(kn_file_writer **writer, kn_error *error); /* destroys it either way */
void kn_file_writer_abandon(kn_file_writer **writer);
kn_status kn_file_write(const kn_host *host, const char *path, const void *bytes, size_t count,
                        kn_error *error);
bool kn_path_exists(const char *path);
bool kn_path_is_folder(const char *path);
/* Writes over bytes that were added before. */
kn_status kn_file_writer_change(kn_file_writer *writer, uint64_t offset, const void *bytes, size_t count,
                                kn_error *error);
/* Removes temporary files that killed programs left in a folder, those last written so many seconds ago or
 * earlier: 0 where nobody else is writing there. */
void kn_folder_sweep(const char *path, uint64_t seconds);
kn_status kn_file_remove(const char *path, kn_error *error);
kn_status kn_file_rename(const char *path, const char *to, kn_error *error);
/* Makes a folder and those above it (mode 0700 for new ones); fine if it exists. */
kn_status kn_folder_make(const kn_host *host, const char *path, kn_error *error);
/* Whether this process may make files in a folder. */
bool kn_folder_takes_files(const char *path);
/* The names in a folder in the order of their bytes, without those that begin with a dot. In the arena. */
kn_status kn_folder_list(kn_arena *arena, const char *path, char ***names, size_t *count, kn_error *error);
/* folder + "/" + name, in the arena. */
char *kn_path_join(kn_arena *arena, const char *folder, const char *name);

#endif
