/* The program's allocator and log. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_private.h"

static void *resize_default(void *user, void *pointer, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return realloc(pointer, bytes);
}

kn_host kn_host_defaults(void) {
    kn_host host = {
        .allocator = {.user = NULL, .resize = resize_default},
        .log = {.user = NULL, .level = KN_LOG_ERROR, .write = NULL},
    };
    return host;
}

kn_host kn_host_with(const kn_allocator *allocator) {
    kn_host host = kn_host_defaults();
    if (allocator && allocator->resize) host.allocator = *allocator;
    return host;
}

static bool is_default(const kn_host *host) {
    return !host || !host->allocator.resize || host->allocator.resize == resize_default;
}

static void *resize(const kn_host *host, void *pointer, size_t bytes) {
    if (is_default(host)) return resize_default(NULL, pointer, bytes);
    return host->allocator.resize(host->allocator.user, pointer, bytes);
}

/* False if count * size is 0 or exceeds PTRDIFF_MAX. */
static bool product(size_t count, size_t size, size_t *bytes) {
    if (count == 0 || size == 0 || count > (size_t)PTRDIFF_MAX / size) return false;
    *bytes = count * size;
    return true;
}

void *kn_allocate(const kn_host *host, size_t count, size_t size) {
    size_t bytes;
    if (!product(count, size, &bytes)) return NULL;
    /* calloc does not touch pages that are already zero. */
    if (is_default(host)) return calloc(1, bytes);
    void *pointer = resize(host, NULL, bytes);
    if (pointer) memset(pointer, 0, bytes);
    return pointer;
}

void *kn_resize(const kn_host *host, void *pointer, size_t count, size_t size) {
    size_t bytes;
    if (!product(count, size, &bytes)) return NULL;
    return resize(host, pointer, bytes);
}

void kn_release(const kn_host *host, void *pointer) {
    if (pointer) resize(host, pointer, 0);
}

char *kn_copy_text(const kn_host *host, const char *text) {
    if (!text) return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = kn_allocate(host, bytes, 1);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

bool kn_reserve(const kn_host *host, void **items, size_t *capacity, size_t needed, size_t size) {
    if (needed <= *capacity) return true;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < needed) {
        /* Doubling would overflow: take exactly what is needed. */
        if (wanted > SIZE_MAX / 2) {
            wanted = needed;
            break;
        }
        wanted *= 2;
    }
    void *grown = kn_resize(host, *items, wanted, size);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

void kn_log_write(const kn_host *host, kn_log_level level, const char *format, ...) {
    if (!host || !host->log.write || level > host->log.level) return;
    char message[2048];
    va_list arguments;
    va_start(arguments, format);
    size_t length = kn_format_cut(message, sizeof message, format, arguments);
    va_end(arguments);
    /* A message is one line. */
    while (length > 0 && (message[length - 1] == '\n' || message[length - 1] == '\r'))
        message[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (message[i] == '\n' || message[i] == '\r') message[i] = ' ';
    host->log.write(host->log.user, level, message);
}
