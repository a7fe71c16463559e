/* What a program provides to the library: a memory allocator and a log callback.
 *
 *     kn_context_params params = KN_CONTEXT_DEFAULTS;
 *     params.log.write = print_message; // void print_message(void *user, kn_log_level level, const char
 * *message) params.log.level = KN_LOG_INFO; kn_context *context = kn_context_create(&params); */
#ifndef KOINE_HOST_H
#define KOINE_HOST_H

#include <stddef.h>

#include <koine/defaults.h>
#include <koine/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory. `resize` allocates if pointer is NULL, frees and returns NULL if bytes is 0, and otherwise resizes
 * like realloc: if it fails, it returns NULL and leaves the old block untouched. It must be callable from any
 * thread. NULL means the C library's realloc and free. */
typedef struct kn_allocator {
    void *user;
    void *(*resize)(void *user, void *pointer, size_t bytes);
} kn_allocator;

typedef enum kn_log_level {
    KN_LOG_ERROR = 0,
    KN_LOG_WARNING = 1,
    KN_LOG_INFO = 2,
    KN_LOG_DEBUG = 3,
} kn_log_level;

/* Log messages. `message` is one line without a newline, valid during the call. The callback may be called
 * from any thread and must not call Koine. Messages above `level` are never formatted. write NULL drops all
 * messages. */
typedef struct kn_logger {
    void *user;
    kn_log_level level;
    void (*write)(void *user, kn_log_level level, const char *message);
} kn_logger;

#ifdef __cplusplus
}
#endif
#endif
