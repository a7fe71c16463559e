/* What the files of this room share. The only private header that knows OpenCL types. */
#ifndef KN_DEVICE_PRIVATE_H
#define KN_DEVICE_PRIVATE_H

#include <koine/opencl.h>

#include "base/base.h"
#include "device/device.h"

/* ---- letters, whatever the locale ----------------------------------------------------- */

static inline bool kn_is_digit(char c) {
    return c >= '0' && c <= '9';
}
static inline bool kn_is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static inline char kn_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* ---- errors (cl_error.c) ----------------------------------------------------------- */

/* "CL_INVALID_VALUE" and so on; never NULL. */
const char *kn_cl_name(cl_int code);
/* Fills `error` with the message, the name of the code and, for common codes, what to do. */
kn_status kn_fail_cl(kn_error *error, cl_int code, const char *format, ...) KN_PRINTF(3, 4);

/* ---- discovery (discovery.c, hidden_gpus.c) ------------------------------------------ */

typedef struct kn_found_device {
    kn_device_info info;
    cl_platform_id platform; /* NULL, as device, for entries that only explain */
    cl_device_id device;
    uint32_t vendor_id;
    bool simulated; /* claims to be a CPU and a GPU at once, as simulators do; those compile in one thread
                       only */
    char platform_version[128];
    char language[64]; /* such as "OpenCL C 1.2 ..." */
} kn_found_device;

struct kn_device_list {
    kn_host host;
    kn_found_device *entries;
    int count;
    size_t capacity;
};

/* Reads what the driver says of one device. Never fails: what is not answered stays empty or 0. */
void kn_found_describe(kn_found_device *found, cl_platform_id platform, cl_device_id device);
/* "a, b and c" in one line: what identifies device, driver and platform, for caches. */
void kn_found_identity(const kn_found_device *found, char *text, size_t bytes);
/* The number in "OpenCL 1.2 ..." or "OpenCL C 1.2 ..." as 120; 0 when there is none. */
int kn_opencl_version_number(const char *text);
/* Whether the compiler takes -cl-std for this version (120, 200, 300): some drivers abort on others. */
bool kn_device_speaks(const kn_host *host, const kn_found_device *found, int version);
/* Whether a device extension is claimed, as a whole word. */
/* A number that the driver tells; where it fails, or tells one that no device has, the one to be careful
 * with. */
uint64_t kn_device_number(cl_device_id device, cl_device_info what);
bool kn_device_claims(const kn_host *host, cl_device_id device, const char *extension);
/* Adds an entry for each GPU that the operating system shows below `root` ("/sys") and that no
 * OpenCL GPU in the list accounts for. Returns false when out of memory. */
bool kn_hidden_gpus_add(kn_device_list *list, const char *root);
/* Room for one more entry, cleared; NULL when out of memory. */
kn_found_device *kn_device_list_add(kn_device_list *list);

/* ---- verdicts (verdict.c): what was learnt of a device, in a small text file ---------- */

typedef struct kn_verdicts {
    kn_host host;
    kn_map values; /* key -> double on the heap */
    char *identity;
    char *path; /* NULL: nothing is kept */
} kn_verdicts;

/* Reads what is known; a file that is missing or malformed counts as empty. */
bool kn_verdicts_open(kn_verdicts *verdicts, const kn_host *host, const char *cache_folder,
                      const char *identity);
void kn_verdicts_close(kn_verdicts *verdicts);
bool kn_verdicts_get(const kn_verdicts *verdicts, const char *key, double *value);
/* Remembers, and writes the file; a folder that cannot be written is no failure. */
void kn_verdicts_put(kn_verdicts *verdicts, const char *key, double value);

/* ---- the context (context.c) ------------------------------------------------------------ */

typedef struct kn_timeline {
    kn_map labels; /* the text itself -> the copy kept here */
    struct kn_timeline_pending {
        cl_event event;
        kn_timeline_entry work; /* times to come */
    } * pending;
    size_t pending_count, pending_capacity;
    kn_timeline_entry *entries;
    size_t count, capacity;
    kn_timeline_entry *shown; /* the copy that a caller looks at while work goes on */
    size_t shown_capacity;
    double offset; /* seconds to add to the device's clock */
} kn_timeline;

struct kn_context {
    kn_host host;
    kn_error failure;
    kn_found_device found;
    kn_capabilities capabilities;
    kn_context_counts counts;
    /* Copies of the parameters. */
    char *cache_folder, *kernel_folder;
    kn_progress progress;
    bool wide_indices, trust_claims, precompile, records, used_products;
    bool short_header;  /* programs begin with common/builtins.cl in place of the compiler's own header */
    bool keeps_nothing; /* in the cache, and it was told why */
    bool driver_keeps;  /* compiled programs, and would compile them once more to hand over a binary */
    uint64_t largest_block_bytes;
    int vector_width, kind;
    /* OpenCL. The queues are the same one where the caller brought it. */
    cl_context context;
    cl_command_queue queues[2];
    bool borrowed;       /* the caller's */
    kn_mutex *mutex;     /* guards counts, verdicts, refused, programs and the timeline */
    kn_mutex *reporting; /* one report of progress at a time */
    kn_condition *built;
    kn_map programs; /* "file, newline, prelude" -> kn_program */
    kn_verdicts verdicts;
    kn_map refused; /* names of variants */
    kn_timeline timeline;
    double made; /* kn_clock when the context was made */
    /* The other devices, which are the context's own (joined.c). */
    struct kn_joined {
        char *name;
        kn_context *context;
    } joined[KN_CONTEXT_DEVICES - 1];
    int joined_count;
    bool belongs; /* to a context that it was joined to, which destroys it */
};

/* Destroys what was joined. */
void kn_joined_destroy(kn_context *context);

/* Opens a device for a measurement or for good: without probing, with the cache. The caller's
 * cl_context and queue are used where given. Fills context->failure when it fails. */
kn_status kn_context_open(kn_context *context, const kn_found_device *found, cl_context shared,
                          cl_command_queue queue);
/* The context that a public create function starts from: *known becomes the parameters with defaults filled
 * in. It may carry an error already; NULL when out of memory. */
kn_context *kn_context_begin(const kn_context_params *params, kn_context_params *known);
/* An empty context with copies of the parameters, not opened yet; NULL when out of memory. */
kn_context *kn_context_prepare(const kn_host *host, const kn_context_params *params);
/* Warns, once for a context, that the cache does not take what is compiled. */
void kn_context_keeps_nothing(kn_context *context, const char *reason);

/* ---- selection (selection.c) --------------------------------------------------------------- */

/* Which entry of the list `wanted` means (NULL or "": the fastest); -1 with an error when none fits. */
int kn_device_select(const kn_device_list *list, const char *wanted, const kn_context_params *params,
                     kn_error *error);

/* ---- probes (probe.c) ------------------------------------------------------------------------ */

/* One small kernel with one input and up to two outputs, of which the last is read back. */
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
    bool passing; /* not for the disk cache */
} kn_probe;

/* Compiles the kernel and launches it with 64 work-items. */
kn_status kn_probe_run(kn_context *context, const kn_probe *task, kn_error *error);
/* Fills in context->capabilities, running small kernels for what the driver claims. */
kn_status kn_context_probe(kn_context *context, kn_error *error);
/* GFLOP/s of a short matrix product whose result was right; 0 when it failed or was wrong. Answers false when
 * it failed: another try may tell more. */
bool kn_context_measure(kn_context *context, double *gflops);

/* Decides on context->short_header and driver_keeps, by trying. */
void kn_compiler_choose(kn_context *context);

/* ---- programs (program.c, program_source.c, program_cache.c) ----------------------------------- */

/* What is handed to the compiler. */
typedef struct kn_source {
    kn_text text;
    char options[64];
} kn_source;

typedef enum kn_program_state { KN_PROGRAM_EMPTY, KN_PROGRAM_BUILDING, KN_PROGRAM_READY } kn_program_state;

struct kn_program {
    char *name; /* for messages */
    cl_program program;
    kn_program_state state;
    kn_source *unsaved; /* compiled from this, and not in the disk cache yet */
    bool kept;          /* someone wants it there */
    bool
        full_header; /* it did not compile with common/builtins.cl, but does with the compiler's own header */
    kn_error *failure; /* of the last attempt, for those who waited for it */
};

void kn_source_finish(kn_source *source);
/* Reads a file of cl/, resolves its includes and puts the prelude in front. `short_header`: begins with
 * common/builtins.cl, unless the prelude asks for a language. */
kn_status kn_source_file(const kn_context *context, const char *file, const char *prelude, bool short_header,
                         kn_source *source, kn_error *error);
/* The same for text that is no file. */
kn_status kn_source_text(const kn_context *context, const char *name, const char *prelude, const char *text,
                         kn_source *source, kn_error *error);
void kn_programs_release(kn_context *context);

/* The built program of the disk cache, or NULL when there is none or it is not good. *kept: it was compiled
 * before, and the driver keeps it. */
cl_program kn_program_cache_load(kn_context *context, const kn_source *source, bool *kept);
/* The program's binary for the context's device, after `front` bytes that are the caller's to fill, and its
 * length; NULL when the driver gives none. A caller's OpenCL context may have more devices, and the program
 * then has a binary for each; those of the others are not asked for. */
uint8_t *kn_program_binary(const kn_context *context, cl_program program, size_t front, size_t *bytes);
/* Keeps a built program, or notes that the driver does; says nothing when it cannot. */
void kn_program_cache_store(kn_context *context, const kn_source *source, cl_program program);

/* ---- products (product_library.c) ------------------------------------------------------------------ */

/* The library keeps programs of its own, which hold the OpenCL context. */
void kn_products_release(kn_context *context);

/* ---- memory (memory.c) ------------------------------------------------------------------------- */

struct kn_buffer {
    kn_context *context;
    cl_mem root;   /* retained; transfers use it, with base added */
    cl_mem view;   /* what kernels get: root, or a sub-buffer of it; NULL if base is not aligned */
    uint64_t base; /* where this buffer begins in root */
    uint64_t bytes;
    uint64_t charged; /* what it adds to counts.device_bytes */
};

/* ---- the timeline (timeline.c) ------------------------------------------------------------------ */

bool kn_timeline_open(kn_context *context);
void kn_timeline_close(kn_context *context);
/* Notes work that was enqueued; keeps a reference of the event. */
/* work: all but its times; texts may be NULL, and are copied. */
void kn_timeline_note(kn_context *context, const kn_timeline_entry *work, cl_event event);

#endif
