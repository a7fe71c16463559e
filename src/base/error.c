/* Errors as values: a status and a message for the user. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

#include "base/text_private.h"

void kn_error_clear(kn_error *error) {
    if (!error) return;
    error->status = KN_OK;
    error->text[0] = '\0';
}

size_t kn_mark_cut(char *buffer, size_t size) {
    size_t length = size - 4;
    /* Continuation bytes are 10xxxxxx: step back to the start of the character. */
    while (length > 0 && ((unsigned char)buffer[length] & 0xC0) == 0x80)
        length--;
    memcpy(buffer + length, "...", 4);
    return length + 3;
}

size_t kn_format_cut(char *buffer, size_t size, const char *format, va_list arguments) {
    int needed = vsnprintf(buffer, size, format, arguments);
    if (needed < 0) {
        buffer[0] = '\0';
        return 0;
    }
    if ((size_t)needed < size) return (size_t)needed;
    return kn_mark_cut(buffer, size);
}

/* Names in messages may come from files, and messages go to terminals: replace control characters and keep
 * one line. */
static void replace_control_characters(char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
        /* UTF-8 has more control characters, of two bytes. */
        if ((unsigned char)text[0] == 0xC2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xA0)
            text[0] = text[1] = '?';
    }
}

kn_status kn_fail(kn_error *error, kn_status status, const char *format, ...) {
    if (!error) return status;
    /* Formatted separately, because an argument may be the error's own text. */
    char text[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    size_t length = kn_format_cut(text, sizeof text, format, arguments);
    va_end(arguments);
    replace_control_characters(text);
    memcpy(error->text, text, length + 1);
    error->status = status;
    return status;
}

kn_status kn_error_copy(kn_error *error, const kn_error *from) {
    if (error && error != from) *error = *from;
    return from->status;
}

kn_status kn_fail_in(kn_error *error, const char *format, ...) {
    /* Without an error, the status is unknown. */
    if (!error) return KN_ERROR_INTERNAL;
    if (error->status == KN_OK) return KN_OK;
    char text[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    size_t length = kn_format_cut(text, sizeof text, format, arguments);
    va_end(arguments);
    replace_control_characters(text);

    char whole[sizeof error->text];
    int needed = snprintf(whole, sizeof whole, "%.*s: %s", (int)length, text, error->text);
    size_t count = needed < 0 ? 0 : (size_t)needed;
    if (count >= sizeof whole) count = kn_mark_cut(whole, sizeof whole);
    if (needed >= 0) memcpy(error->text, whole, count + 1);
    return error->status;
}

kn_status kn_fail_memory(kn_error *error, size_t bytes) {
    if (bytes == 0) return kn_fail(error, KN_ERROR_MEMORY, "out of host memory");
    if (bytes > PTRDIFF_MAX)
        return kn_fail(error, KN_ERROR_MEMORY, "the size of an allocation exceeds the address space");
    return kn_fail(error, KN_ERROR_MEMORY, "out of host memory: %zu bytes could not be allocated", bytes);
}

kn_status kn_fail_memory_for(kn_error *error, const char *what, uint64_t count, size_t size) {
    const bool fits = size == 0 || count <= PTRDIFF_MAX / size;
    kn_fail_memory(error, fits ? (size_t)count * size : SIZE_MAX);
    kn_fail_in(error, "%s (%llu times %zu bytes)", what, (unsigned long long)count, size);
    return KN_ERROR_MEMORY;
}
