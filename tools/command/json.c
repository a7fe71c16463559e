/* Strings and numbers as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* The length of the UTF-8 character at `text`, of at most `count` bytes; 0 if it is invalid. */
static int letter_bytes(const unsigned char *text, size_t count) {
    int more = text[0] < 0x80                       ? 0
               : text[0] >= 0xc2 && text[0] <= 0xdf ? 1
               : (text[0] & 0xf0) == 0xe0           ? 2
               : text[0] >= 0xf0 && text[0] <= 0xf4 ? 3
                                                    : -1;
    if (more > 0 && (size_t)more >= count) return 0;
    for (int i = 1; i <= more; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    if (text[0] == 0xe0 && text[1] < 0xa0) return 0; /* overlong */
    if (text[0] == 0xed && text[1] > 0x9f) return 0; /* half of a surrogate pair */
    if (text[0] == 0xf0 && text[1] < 0x90) return 0;
    if (text[0] == 0xf4 && text[1] > 0x8f) return 0;
    return more + 1;
}

/* File names and driver strings may contain any bytes; JSON is UTF-8. */
void json_text(FILE *stream, const char *text) {
    json_bytes(stream, text, strlen(text));
}

void json_bytes(FILE *stream, const char *text, size_t count) {
    const unsigned char *at = (const unsigned char *)text, *end = at + count;
    fputc('"', stream);
    while (at < end) {
        int bytes = letter_bytes(at, (size_t)(end - at));
        if (*at == '"' || *at == '\\')
            fprintf(stream, "\\%c", *at);
        else if (*at < 0x20)
            fprintf(stream, "\\u%04x", *at);
        else if (bytes)
            fwrite(at, 1, (size_t)bytes, stream);
        else
            fputs("\\ufffd", stream);
        at += bytes ? bytes : 1;
    }
    fputc('"', stream);
}

void json_float(FILE *stream, double number) {
    char text[40];
    if (!isfinite(number)) {
        fputs("null", stream);
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if ((float)strtod(text, NULL) == (float)number) break;
    }
    fputs(text, stream);
}

void json_measure(FILE *stream, double number) {
    if (isfinite(number))
        fprintf(stream, "%.6g", number);
    else
        fputs("null", stream);
}

void json_count(FILE *stream, uint64_t number) {
    fprintf(stream, "%llu", (unsigned long long)number);
}

static void write_name(FILE *stream, const char *name) {
    fprintf(stream, ", \"%s\": ", name);
}

void json_text_member(FILE *stream, const char *name, const char *text) {
    write_name(stream, name);
    json_text(stream, text);
}

void json_float_member(FILE *stream, const char *name, double number) {
    write_name(stream, name);
    json_float(stream, number);
}

void json_measure_member(FILE *stream, const char *name, double number) {
    write_name(stream, name);
    json_measure(stream, number);
}

void base64_write(FILE *file, const uint8_t *bytes, size_t count) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (i + 2 < count ? bytes[i + 2] : 0);
        fputc(letters[three >> 18], file);
        fputc(letters[three >> 12 & 63], file);
        fputc(i + 1 < count ? letters[three >> 6 & 63] : '=', file);
        fputc(i + 2 < count ? letters[three & 63] : '=', file);
    }
}
