/* Private to the base module: formatting into a buffer of fixed size. */
#ifndef KN_BASE_TEXT_PRIVATE_H
#define KN_BASE_TEXT_PRIVATE_H

#include <stdarg.h>
#include <stddef.h>

#include "base/base.h"

/* Like vsnprintf, but a truncated text ends in "..." and never within a UTF-8 character. Returns the length
 * of the text in `buffer`. size must be at least 4. */
size_t kn_format_cut(char *buffer, size_t size, const char *format, va_list arguments) KN_PRINTF(3, 0);
/* Ends a text that fills `buffer` up to size - 1 bytes with "...", as above. */
size_t kn_mark_cut(char *buffer, size_t size);

#endif
