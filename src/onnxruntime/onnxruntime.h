/* libkoine-onnxruntime: ONNX Runtime's C interface on Koine's public functions. Declarations for its files.
 *
 * Every function of the table is ort_NAME, implemented in the file of its subject. */
#ifndef KN_ORT_H
#define KN_ORT_H

#include <pthread.h>
#include <stdatomic.h>

#include <koine/koine.h>

#include "interface.h"

#define DONE(index, tier, type, name, parameters) type ort_##name parameters;
#define OPEN(index, tier, gives, name)
#include "functions.def"

/* ---- status.c ---------------------------------------------------------------------------- */

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
OrtStatus *
ort_fail(OrtErrorCode code, const char *format, ...);
/* NULL for KN_OK, otherwise the code for a status of Koine. */
OrtStatus *ort_fail_as(kn_status status, const char *message);
OrtStatus *ort_no_memory(void);
/* "Run" from "ort_Run"; other names are unchanged. */
const char *ort_function(const char *name);
/* Returns an error that names the calling function if a pointer is NULL; ORT_NEED_FOR: unless there are no
 * elements to point at. */
#define ORT_NEED_FOR(count, pointer)                                                                         \
    do                                                                                                       \
        if (!(pointer) && (count) > 0)                                                                       \
            return ort_fail(ORT_INVALID_ARGUMENT, "%s: %s is NULL", ort_function(__func__), #pointer);       \
    while (0)
#define ORT_NEED(pointer) ORT_NEED_FOR(1, pointer)
/* Makes *out a new object of zeros; an error when out of memory. */
#define ORT_NEW(out) ((*(out) = calloc(1, sizeof **(out))) ? NULL : ort_no_memory())

/* A function that gives a value of an object: `type *object`. */
#define ORT_GETTER(name, type, object, result, value)                                                        \
    OrtStatus *ort_##name(type *object, result *out) {                                                       \
        ORT_NEED(object);                                                                                    \
        ORT_NEED(out);                                                                                       \
        *out = (value);                                                                                      \
        return NULL;                                                                                         \
    }
/* A function that is accepted, without effect. */
#define ORT_ACCEPTED(name, object, ...)                                                                      \
    OrtStatus *ort_##name(__VA_ARGS__) {                                                                     \
        ORT_NEED(object);                                                                                    \
        return NULL;                                                                                         \
    }

/* ---- pairs.c ----------------------------------------------------------------------------- */

/* Texts by key, in the order in which the keys were added. */
struct OrtKeyValuePairs {
    char **keys, **values;
    size_t count;
};
typedef OrtKeyValuePairs ort_pairs;
/* Adds a pair, or replaces its value; false when out of memory. */
bool ort_pairs_put(ort_pairs *pairs, const char *key, const char *value);
/* NULL if the key is absent. */
const char *ort_pairs_get(const ort_pairs *pairs, const char *key);
bool ort_pairs_copy(const ort_pairs *pairs, ort_pairs *copy);
void ort_pairs_clear(ort_pairs *pairs);
/* A copy, or NULL when out of memory. */
char *ort_copy_text(const char *text);
/* Makes *text a copy of another one; it is unchanged when out of memory. */
OrtStatus *ort_replace_text(char **text, const char *other);

/* ---- env.c ------------------------------------------------------------------------------- */

/* Where messages go; `function` NULL: nowhere. */
typedef struct ort_logger {
    OrtLoggingFunction function;
    void *user;
    OrtLoggingLevel level;
    char id[64];
} ort_logger;
ort_logger ort_env_logger(void);
/* The logger as Koine's, which points to it. */
kn_logger ort_logger_for_koine(ort_logger *logger);
/* Whether the environment was created with CreateEnvWithGlobalThreadPools. */
bool ort_env_has_pools(void);

/* An open device, which sessions share. */
typedef struct ort_device ort_device;
/* NULL, with *status, on failure. device and cache may be NULL; a cache "" keeps nothing. A device that
 * records its timeline is not shared. */
ort_device *ort_device_open(const char *device, const char *cache, bool timeline, OrtStatus **status);
void ort_device_close(ort_device *device);
kn_context *ort_device_context(const ort_device *device);

/* ---- options.c --------------------------------------------------------------------------- */

/* An initializer, or a file of external ones. */
typedef struct ort_initializer {
    char *name;
    OrtValue *value;    /* NULL: a file */
    const char *buffer; /* of a file, the program's */
    size_t length;
    bool external; /* replaces only an external one, which must be there */
} ort_initializer;
typedef struct ort_initializers {
    ort_initializer *rows;
    size_t count;
} ort_initializers;

struct OrtSessionOptions {
    ort_initializers initializers;
    ort_pairs config;
    ort_pairs sizes;    /* of symbols, as texts */
    ort_pairs provider; /* options of the provider Koine */
    ort_logger logger;
    bool has_logger, has_level; /* instead of the environment's */
    bool shared_threads;
    bool memory_pattern;
    ExecutionMode mode;
    atomic_bool cancelled;                 /* by another thread, while a session is created */
    char *optimized_path, *profile_prefix; /* NULL: none */
};

struct OrtRunOptions {
    ort_pairs config;
    char *tag;
    int severity, verbosity;
    atomic_bool terminate;
};

/* ---- initializers.c ---------------------------------------------------------------------- */

void ort_initializers_clear(ort_initializers *list);
/* Adds the rows of a list to a copy; false when out of memory. */
bool ort_initializers_copy(const ort_initializers *list, ort_initializers *copy);
/* The model with these initializers, in new memory. A damaged part of the model is copied as it is. */
OrtStatus *ort_replace_initializers(const ort_initializers *list, const void *bytes, size_t count, void **out,
                                    size_t *out_count);

/* ---- types.c ----------------------------------------------------------------------------- */

struct OrtTensorTypeAndShapeInfo {
    ONNXTensorElementDataType type;
    bool has_shape;
    size_t rank;
    int64_t *sizes; /* -1: open */
    char **symbols; /* "" for a size without one */
};

struct OrtTypeInfo {
    ONNXType kind;
    OrtTensorTypeAndShapeInfo
        tensor;                      /* of a tensor, of those in a sequence or optional, or of a map's keys */
    ONNXTensorElementDataType value; /* of a map */
};

/* "float" for messages, as in "tensor(float)". */
const char *ort_element_name(ONNXTensorElementDataType type);
/* Of a packed element; 0 for strings and unknown types. */
size_t ort_element_bits(ONNXTensorElementDataType type);
/* Koine's type; false if it has none with the same bytes. */
bool ort_element_to(ONNXTensorElementDataType type, kn_dtype *dtype);
ONNXTensorElementDataType ort_element_from(kn_dtype dtype);
/* From Koine's name of a type in a file: "float32", "a sequence". */
ONNXType ort_type_from(const char *text, ONNXTensorElementDataType *element);
/* A new description; NULL when out of memory. `sizes` and `symbols` may be NULL. */
OrtTypeInfo *ort_type_info_new(ONNXType kind, ONNXTensorElementDataType type, bool has_shape, size_t rank,
                               const int64_t *sizes, const char *const *symbols);
/* The number of elements; false if a size is negative, or if elements of 16 bytes would overflow a size_t. */
bool ort_count_elements(const int64_t *sizes, size_t rank, size_t *count);

/* ---- memory.c ---------------------------------------------------------------------------- */

struct OrtMemoryInfo {
    char name[64];
    int id;
    OrtMemType memory;
    OrtAllocatorType allocator;
};
extern const OrtMemoryInfo ort_host_memory;
OrtAllocator *ort_default_allocator(void);
/* A copy of a text in memory of the allocator; NULL when out of memory. */
char *ort_allocate_text(OrtAllocator *allocator, const char *text);

/* ---- value.c ----------------------------------------------------------------------------- */

/* A value with as many holders as `users`; each releases it once. */
struct OrtValue {
    atomic_int users;
    ONNXType kind; /* a tensor, a sequence, a map; ONNX_TYPE_UNKNOWN: an optional without a value */
    ONNXTensorElementDataType type;
    size_t rank, count; /* count: of elements, or of items */
    int64_t *sizes;
    void *data; /* of a tensor that is not of strings */
    size_t bytes;
    char **strings;          /* of a tensor of strings; a zero byte follows each */
    size_t *lengths;         /* of these, in bytes, which may be zero bytes */
    OrtValue **items;        /* of a sequence; of a map its keys and its values */
    OrtAllocator *allocator; /* to free `data`; NULL: the program owns it */
    OrtMemoryInfo memory;
};
/* A tensor in new memory. */
OrtStatus *ort_tensor_new(OrtAllocator *allocator, const int64_t *sizes, size_t rank,
                          ONNXTensorElementDataType type, OrtValue **value);
/* A sequence or a map, which holds the items, or an optional without a value; NULL when out of memory. */
OrtValue *ort_list_new(ONNXType kind, ONNXTensorElementDataType type, OrtValue *const *items, size_t count);
/* One more holder. */
OrtValue *ort_value_hold(const OrtValue *value);

/* ---- profile.c --------------------------------------------------------------------------- */

/* Written while it runs; the lock of its session protects it. */
typedef struct ort_profile ort_profile;
/* The file's name is the prefix with the date. */
OrtStatus *ort_profile_start(const char *prefix, ort_profile **out);
/* Microseconds since the start; 0 without a profile. */
double ort_profile_now(const ort_profile *profile);
/* Adds an event of the session, from `start` until now; nothing without a profile. */
void ort_profile_span(ort_profile *profile, const char *name, double start);
/* Adds a run with what the device has recorded, which is then cleared; nothing without a profile. */
void ort_profile_run(ort_profile *profile, kn_context *context, double start);
/* Completes the file, once. */
OrtStatus *ort_profile_end(ort_profile *profile);
void ort_profile_destroy(ort_profile *profile);

/* ---- session.c --------------------------------------------------------------------------- */

/* An input or output of the file. */
typedef struct ort_port {
    const char *name;
    ONNXType kind;
    ONNXTensorElementDataType type; /* of elements; of those of the tensors in a sequence or optional */
    int rank;                       /* -1: open, or not a tensor */
    int64_t *sizes;                 /* -1: open */
    const char **symbols;
} ort_port;

/* A graph for certain inputs, and its session (plan.c). */
typedef struct ort_plan ort_plan;

struct OrtSession {
    pthread_mutex_t lock; /* for runs: one at a time */
    void *memory;         /* of a model from memory; to be freed */
    const void *bytes;    /* the model, in it */
    kn_onnx_file *file;
    kn_model *model;
    kn_states *states;
    ort_device *device;
    ort_logger logger;
    ort_profile *profile; /* NULL: none */
    kn_session_params params;
    ort_port *inputs, *outputs;
    size_t input_count, output_count;
    bool lists;      /* some outputs are not tensors */
    uint32_t runs;   /* number of runs so far */
    ort_plan *plans; /* the most recently used first */
};

/* A session for the model whose `count` bytes are in `memory`, from malloc, which it owns, even on failure.
 */
OrtStatus *ort_session_open(void *memory, const void *bytes, size_t count, const OrtSessionOptions *options,
                            OrtSession **out);

/* ---- run.c, plan.c ----------------------------------------------------------------------- */

/* Returns memory for the elements of output `output`, an index among the outputs of the run. */
typedef struct ort_output_memory {
    OrtStatus *(*give)(void *user, size_t output, const kn_tensor_info *info, void **data);
    void *user;
} ort_output_memory;
/* As ort_Run, but outputs without a value are created on this memory. */
OrtStatus *ort_run_into(OrtSession *session, const char *const *input_names, const OrtValue *const *inputs,
                        size_t input_count, const char *const *output_names, size_t output_count,
                        OrtValue **outputs, ort_output_memory memory);

/* Compiles a model all of whose sizes are known, so that its first run takes no longer than the others. */
OrtStatus *ort_prepare(OrtSession *session);
void ort_plans_release(OrtSession *session);

#endif
