/* Private to the device module. The only private header with OpenCL types. */
#ifndef KN_DEVICE_PRIVATE_H
#define KN_DEVICE_PRIVATE_H

#include <stdatomic.h>

#include <koine/debug.h>
#include <koine/opencl.h>

#include "base/base.h"
#include "device/device.h"

/* ---- characters, independent of the locale ----------------------------------------------- */

static inline bool kn_is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static inline char kn_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* ---- errors (cl_error.c) ----------------------------------------------------------- */

/* "CL_INVALID_VALUE" and so on; never NULL. */
const char *kn_cl_name(cl_int code);
/* Fills `error` with the message, the name of the code and, for common codes, advice. */
kn_status kn_fail_cl(kn_error *error, cl_int code, const char *format, ...) KN_PRINTF(3, 4);

/* ---- discovery (discovery.c, hidden_gpus.c) ------------------------------------------ */

typedef struct kn_found_device {
    kn_device_info info;
    cl_platform_id platform; /* NULL, like device, for entries that only explain a problem */
    cl_device_id device;
    uint32_t vendor_id;
    /* claims to be a CPU and a GPU at once, as simulators do; simulators compile in one thread */
    bool simulated;
    char pci[24]; /* its place on the PCI bus, the same for all its drivers; "": unknown */
    char platform_version[128];
    char language[64]; /* such as "OpenCL C 1.2 ..." */
} kn_found_device;

struct kn_device_list {
    kn_host host;
    kn_found_device *entries;
    int count;
    size_t capacity;
};

/* Queries the driver about one device. Never fails: missing answers leave fields empty or 0. */
void kn_found_describe(const kn_host *host, kn_found_device *found, cl_platform_id platform,
                       cl_device_id device);
/* One line that identifies device, driver and platform, for caches. */
void kn_found_identity(const kn_found_device *found, char *text, size_t bytes);
/* The number in "OpenCL 1.2 ..." or "OpenCL C 1.2 ..." as 120; 0 if there is none. */
int kn_opencl_version_number(const char *text);
/* Whether the compiler supports -cl-std for this version (120, 200, 300): some drivers abort on unsupported
 * versions. */
bool kn_device_speaks(const kn_host *host, const kn_found_device *found, int version);
/* A numeric device property; a conservative default if the query fails or returns an impossible value. */
uint64_t kn_device_number(cl_device_id device, cl_device_info what);
/* Whether a device extension is claimed, as a whole word. */
bool kn_device_claims(cl_device_id device, const char *extension);
/* Adds all platforms and their devices; false when out of memory. */
bool kn_platforms_add(kn_device_list *list);
/* Adds an entry for each GPU that the operating system shows below `system` ("/sys") or `nodes` ("/dev") and
 * that no OpenCL GPU in the list corresponds to. Returns false when out of memory. */
bool kn_hidden_gpus_add(kn_device_list *list, const char *system, const char *nodes);
/* Appends a cleared entry; NULL when out of memory. */
kn_found_device *kn_device_list_add(kn_device_list *list);

/* ---- parts (part.c) ------------------------------------------------------------------ */

/* Selects the part of the device that the parameters request, if the driver can divide it. */
void kn_context_take_part(kn_context *context);
/* Called before the queues are released: waits for the driver to release the part, or gives it up. */
void kn_context_return_part(kn_context *context);

/* ---- verdicts (verdict.c): measurements of a device, in a small text file -------------------- */

typedef struct kn_verdicts {
    kn_host host;
    kn_map values; /* key -> double on the heap */
    char *identity;
    char *path;         /* NULL: nothing is stored */
    kn_mark *mark;      /* names the newest attempt; NULL: there is no attempt, or no file can be created */
    kn_attempt *newest; /* the current attempts */
    bool may_hang;      /* the device may hang the whole machine, so the mark is synced to disk */
    kn_interrupt *interrupt; /* kn_context_params.interrupt */
} kn_verdicts;

/* Reads the file; a missing or malformed file counts as empty. */
bool kn_verdicts_open(kn_verdicts *verdicts, const kn_host *host, const char *cache_folder,
                      const char *identity);
void kn_verdicts_close(kn_verdicts *verdicts);
bool kn_verdicts_get(const kn_verdicts *verdicts, const char *key, double *value);
/* Stores the value and writes the file; failure to write is ignored. */
void kn_verdicts_put(kn_verdicts *verdicts, const char *key, double value);
/* Between begin and end, the mark names `key`, which must stay valid. */
void kn_verdicts_begin(kn_verdicts *verdicts, kn_attempt *attempt, const char *key);
/* Notes in the mark that the newest attempt's kernels run from now on, or that one is being compiled. */
void kn_verdicts_phase(kn_verdicts *verdicts, bool runs);
void kn_verdicts_end(kn_verdicts *verdicts, kn_attempt *attempt);
/* Whether nothing is known under a key because a process ended while trying it, and it must not be tried yet.
 */
bool kn_verdicts_deadly(const kn_verdicts *verdicts, const char *key);
/* Logs each of these keys. `device` is the device's name. */
void kn_verdicts_log(const kn_verdicts *verdicts, const char *device);
/* Forgets all deaths. Returns the number of these keys. */
size_t kn_verdicts_forget_deaths(kn_verdicts *verdicts);

/* ---- tuned choices (tuned.c), in a text file next to the verdicts ------------------------------ */

typedef struct kn_tunings {
    kn_host host;
    kn_map entries; /* "key", or for a kernel that must not be tried again "key kernel", -> kn_tuned on the
                     * heap */
    const char *identity;
    char *path;  /* NULL: nothing is stored */
    bool warned; /* about ignored lines */
} kn_tunings;

/* Reads the file of the device with these verdicts, which must stay valid; malformed lines are ignored, with
 * one warning. */
bool kn_tunings_open(kn_tunings *tunings, const kn_verdicts *verdicts);
void kn_tunings_close(kn_tunings *tunings);

/* ---- the context (context.c) ------------------------------------------------------------ */

typedef struct kn_timeline {
    kn_map labels; /* the text itself -> its copy in the timeline */
    struct kn_timeline_pending {
        cl_event event;
        kn_timeline_entry work; /* a command without its times */
    } * pending;
    size_t pending_count, pending_capacity;
    kn_timeline_entry *entries;
    size_t count, capacity;
    kn_timeline_entry *shown; /* the copy that the caller reads while work continues */
    size_t shown_capacity;
    double offset; /* seconds to add to the device's clock */
} kn_timeline;

enum { KN_MATRIX_TYPES = 4 };

struct kn_context {
    kn_host host;
    kn_error failure;
    kn_found_device found;    /* its `device` is the selected part, if any */
    cl_device_id part_device; /* NULL: the whole device is used */
    int part, parts;
    kn_capabilities capabilities;
    kn_context_counts counts;
    kn_interrupt *interrupt;
    atomic_bool trying;            /* there is an attempt */
    atomic_uint_fast64_t launches; /* the launches in counts, separate because launches take no lock */
    /* Copies of the parameters. */
    char *cache_folder, *kernel_folder;
    kn_progress progress;
    bool wide_indices, local_is_global, trust_claims, precompile, records, used_products;
    bool described; /* described by a file: there is no device */
    /* For float16, bfloat16, tf32, int8; known: already determined. */
    kn_matrix_unit matrix_units[KN_MATRIX_TYPES], matrix_only; /* matrix_only: no other unit is tried */
    kn_matrix_unit matrix_stated;                              /* from the file that describes the device */
    bool matrix_known[KN_MATRIX_TYPES], matrix_emulated, reported_tf32;
    kn_limits stated;   /* from the file that describes the device */
    bool short_header;  /* programs begin with common/builtins.cl instead of the compiler's own header */
    bool keeps_nothing; /* the cache cannot be written, and the reason was logged */
    /* The compiler option that gives a work-item more registers, for programs that define KN_REGISTERS; or
     * NULL. */
    const char *register_option;
    char stated_option[128]; /* from the file that describes the device */
    uint64_t largest_block_bytes;
    int vector_width, kind;
    /* OpenCL objects. Both queues are the same if the caller provided one. */
    cl_context context;
    cl_command_queue queues[2];
    cl_mem nothing;      /* the buffer passed for absent arguments; NULL at first */
    bool borrowed;       /* provided by the caller */
    kn_mutex *mutex;     /* guards counts, verdicts, tunings, refused, programs and the timeline */
    kn_mutex *reporting; /* serialises progress callbacks */
    kn_condition *built;
    kn_map programs; /* "file, newline, prelude" -> kn_program */
    kn_verdicts verdicts;
    kn_tunings tunings;
    void *tuner;
    kn_map refused; /* names of refused variants */
    kn_timeline timeline;
    double made; /* kn_clock when the context was created */
    /* The joined devices, owned by this context (joined.c). */
    struct kn_joined {
        char *name;
        kn_context *context;
    } joined[KN_CONTEXT_MAX_DEVICES - 1];
    int joined_count;
    bool belongs; /* owned by the context that it was joined to */
};

/* Opens a device, for measuring or for use: without probing, with the cache. Uses the caller's cl_context and
 * queue if given. Sets context->failure on failure. */
kn_status kn_context_open(kn_context *context, const kn_found_device *found, cl_context shared,
                          cl_command_queue queue);
/* The common start of the public create functions: *known becomes the parameters with defaults filled in. The
 * context may already carry an error; NULL when out of memory. */
kn_context *kn_context_begin(const kn_context_params *params, kn_context_params *known);
/* An unopened context with copies of the parameters; NULL when out of memory. */
kn_context *kn_context_prepare(const kn_host *host, const kn_context_params *params);
/* Warns, once per context, that compiled programs cannot be cached. */
void kn_context_keeps_nothing(kn_context *context, const char *reason);

/* ---- selection (selection.c) --------------------------------------------------------------- */

/* The index of the entry that `wanted` selects (NULL or "": the fastest); -1 with an error if none matches.
 */
int kn_device_select(const kn_device_list *list, const char *wanted, const kn_context_params *params,
                     kn_error *error);

/* ---- probes (probe.c) ------------------------------------------------------------------------ */

/* A small kernel with one input and up to two outputs, the last of which is read back. */
typedef struct kn_probe {
    const char *name; /* in verdicts and messages */
    const char *file, *kernel;
    const char *prelude;
    const void *input;
    size_t input_bytes;
    size_t kept_bytes; /* of a buffer between input and output; 0 for none */
    void *output;
    size_t output_bytes;
    size_t local;
    bool passing; /* do not store it in the disk cache */
} kn_probe;

/* Whether the threads of this process may use tile registers (tiles.c). */
bool kn_tiles_allowed(void);
/* Reads the parameter matrix_unit of a context (matrix_unit.c). */
kn_status kn_context_force_matrix_unit(kn_context *context, const char *word, kn_error *error);
/* *unit: for 16-bit floats, from the verdicts of a device; false: it must be tried. The context, which need
 * not be open, has the kernels that were tried. */
bool kn_matrix_unit_stored(const kn_context *context, const kn_verdicts *verdicts, kn_matrix_unit *unit);

enum { KN_PROBE_ITEMS = 64 };
/* Compiles the kernel and launches it with KN_PROBE_ITEMS work-items (probe_run.c). */
kn_status kn_probe_run(kn_context *context, const kn_probe *task, kn_error *error);
/* Sets context->capabilities by running small kernels for features that the driver claims. */
kn_status kn_context_probe(kn_context *context, kn_error *error);
/* Sets the capabilities wide_vector and vector_width: `wide` and `width` are the device's values, which the
 * context's parameters may override. */
static inline void kn_context_set_kind(kn_context *context, bool wide, int width) {
    kn_capabilities *capabilities = &context->capabilities;
    capabilities->wide_vector = context->kind ? context->kind == 1 : wide;
    capabilities->vector_width = width;
    if (!capabilities->wide_vector) return;
    if (width == 1) capabilities->vector_width = 4;
    if (context->vector_width) capabilities->vector_width = context->vector_width;
}
/* For a GPU whose driver says that it shares memory with the host: times blocks of both kinds once, and
 * clears capabilities.shares_memory if plain blocks are clearly faster (limits.c). */
void kn_context_choose_memory(kn_context *context);
/* How long a GPU is kept busy before a measurement, until its clock is up. */
static const double kn_wake_seconds = 0.3;
/* GFLOP/s of a short matrix product with a correct result; 0 if it failed or was wrong. Returns false if it
 * failed: another attempt may succeed. */
bool kn_context_measure(kn_context *context, double *gflops);

/* ---- described devices (target.c) ------------------------------------------------------------ */

/* Reads a target file instead of opening a device. Sets context->failure on failure. */
void kn_context_describe(kn_context *context, const char *path);

/* Sets context->short_header and capabilities.shares_programs by trial. Fails if the driver compiles nothing.
 */
kn_status kn_compiler_choose(kn_context *context, kn_error *error);

/* ---- programs (program.c, program_source.c, program_cache.c) ----------------------------------- */

/* The compiler's input. */
typedef struct kn_source {
    kn_text text;
    char options[192];
} kn_source;

typedef enum kn_program_state { KN_PROGRAM_EMPTY, KN_PROGRAM_BUILDING, KN_PROGRAM_READY } kn_program_state;

struct kn_program {
    char *name; /* for messages */
    cl_program program;
    kn_program_state state;
    kn_source *unsaved; /* the source it was compiled from, if not yet in the disk cache */
    bool kept;          /* to be stored in the disk cache */
    /* it does not compile with common/builtins.cl but does with the compiler's own header */
    bool full_header;
    kn_error *failure; /* of the last attempt, for the threads that waited for it */
};

void kn_source_finish(kn_source *source);
/* Reads a file of cl/, resolves its includes and prepends the prelude. `short_header`: begins with
 * common/builtins.cl, unless the prelude asks for a language. */
kn_status kn_source_file(const kn_context *context, const char *file, const char *prelude, bool short_header,
                         kn_source *source, kn_error *error);
/* kn_source_file for text that is not a file. */
kn_status kn_source_text(const kn_context *context, const char *name, const char *prelude, const char *text,
                         kn_source *source, kn_error *error);
void kn_programs_release(kn_context *context);

/* The built program from the disk cache, or NULL if there is none or it is invalid. *kept: it was compiled
 * before and the driver caches it. */
cl_program kn_program_cache_load(kn_context *context, const kn_source *source, bool *kept);
/* The program's binary for the context's device, after `front` bytes for the caller to fill, and its length;
 * NULL if the driver returns none. A caller's OpenCL context may have more devices and the program a binary
 * for each; the others are not requested. */
uint8_t *kn_program_binary(const kn_context *context, cl_program program, size_t front, size_t *bytes);
/* Whether a program is probably in the disk cache. */
bool kn_program_cache_has(const kn_context *context, const kn_source *source);
/* The lock of the process that compiles a program; see kn_lock_take. */
kn_lock *kn_program_cache_lock(kn_context *context, const kn_source *source, double seconds, bool *held);
/* Stores a built program, or a note that the driver caches it; ignores failure. */
void kn_program_cache_store(kn_context *context, const kn_source *source, cl_program program);

/* ---- products (product_library.c) ------------------------------------------------------------------ */

/* The library caches programs that hold the OpenCL context. */
void kn_products_release(kn_context *context);

/* ---- memory (memory.c) ------------------------------------------------------------------------- */

/* A small buffer for absent arguments, allocated once; it is not counted. */
kn_status kn_context_nothing(kn_context *context, cl_mem *memory, kn_error *error);

struct kn_buffer {
    kn_context *context;
    cl_mem root;   /* retained; transfers use it, adding base */
    cl_mem view;   /* passed to kernels: root or a sub-buffer of it; NULL if base is not aligned */
    uint64_t base; /* offset of this buffer in root */
    uint64_t bytes;
    uint64_t charged; /* bytes that it adds to counts.device_bytes */
};

/* ---- the timeline (timeline.c) ------------------------------------------------------------------ */

bool kn_timeline_open(kn_context *context);
void kn_timeline_close(kn_context *context);
/* Records enqueued work; retains the event. */
/* work: everything except its times; strings may be NULL and are copied. */
void kn_timeline_note(kn_context *context, const kn_timeline_entry *work, cl_event event);

#endif
