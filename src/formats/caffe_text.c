/* Caffe nets as text, in the text format of protocol buffers: `name: value` and `name { ... }`. */
#include "formats/caffe_private.h"

#include <string.h>

typedef struct scanner {
    kn_caffe_reader *in;
    const char *at, *end;
    uint64_t line;
} scanner;

/* "net.prototxt: line 3: found 'x', expected ..." */
static kn_status refuse(scanner *s, const char *expected) {
    char found[KN_QUOTE_BYTES];
    size_t count = 0, left = (size_t)(s->end - s->at);
    while (count < left && count < 16 && !strchr(" \t\r\n", s->at[count]))
        count++;
    if (left == 0)
        return kn_fail(s->in->error, KN_ERROR_FORMAT, "%s: line %llu: found the end of the file, expected %s",
                       s->in->name, (unsigned long long)s->line, expected);
    return kn_fail(s->in->error, KN_ERROR_FORMAT, "%s: line %llu: found %s, expected %s", s->in->name,
                   (unsigned long long)s->line, kn_quote(s->at, count ? count : 1, found), expected);
}

/* Skips blanks, newlines and comments. */
static void skip(scanner *s) {
    for (; s->at < s->end; s->at++) {
        if (*s->at == '#')
            while (s->at + 1 < s->end && s->at[1] != '\n')
                s->at++;
        else if (*s->at == '\n')
            s->line++;
        else if (*s->at != ' ' && *s->at != '\t' && *s->at != '\r')
            return;
    }
}

/* Consumes a character if it is next. */
static bool take(scanner *s, char character) {
    skip(s);
    if (s->at == s->end || *s->at != character) return false;
    s->at++;
    return true;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_of_number(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
}

/* The length of the word or number that begins here. */
static size_t word_length(const scanner *s) {
    size_t length = 0, left = (size_t)(s->end - s->at);
    while (length < left && (is_letter(s->at[length]) || is_of_number(s->at[length])))
        length++;
    return length;
}

static int hexadecimal(char c) {
    const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c | 32) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Reads what follows a backslash; false if it is not a known escape. */
static bool take_escape(scanner *s, char *byte) {
    static const char letters[] = "nrtabfv\\'\"?", bytes[] = "\n\r\t\a\b\f\v\\'\"?";
    char c = s->at < s->end ? *s->at++ : '\0';
    const char *letter = c ? strchr(letters, c) : NULL;
    int value = 0, digits = 0;
    if (letter) {
        *byte = bytes[letter - letters];
        return true;
    }
    if (c == 'x' || c == 'X') {
        for (; digits < 2 && s->at < s->end && hexadecimal(*s->at) >= 0; digits++)
            value = value * 16 + hexadecimal(*s->at++);
    } else {
        for (s->at--; digits < 3 && s->at < s->end && *s->at >= '0' && *s->at <= '7'; digits++)
            value = value * 8 + (*s->at++ - '0');
    }
    *byte = (char)value;
    return digits > 0;
}

/* Adjacent strings are concatenated. */
static kn_status read_strings(scanner *s, kn_caffe_item *item) {
    char text[KN_CAFFE_NAME_BYTES];
    size_t length = 0;
    for (skip(s); s->at < s->end && (*s->at == '"' || *s->at == '\''); skip(s)) {
        char quote = *s->at++;
        while (s->at < s->end && *s->at != quote && *s->at != '\n') {
            if (length == sizeof text) return refuse(s, "a shorter string");
            char byte = *s->at++;
            if (byte == '\\' && !take_escape(s, &byte))
                return refuse(s, "a known character after the backslash");
            text[length++] = byte;
        }
        if (s->at == s->end || *s->at != quote) return refuse(s, "the quote that ends a string");
        s->at++;
    }
    item->as.text = kn_caffe_keep_text(s->in, text, length);
    return item->as.text ? KN_OK : s->in->error->status;
}

static kn_status read_number(scanner *s, kn_caffe_item *item) {
    char text[64];
    const char *end;
    size_t length = word_length(s);
    if (length >= sizeof text) return refuse(s, "a number");
    memcpy(text, s->at, length);
    text[length] = '\0';
    if (!kn_parse_double(text, &end, &item->as.number) || (*end && strcmp(end, "f")))
        return refuse(s, "a number");
    s->at += length;
    return KN_OK;
}

static kn_status read_fields(scanner *s, kn_caffe_item *message, char close, int depth);

/* Reads one value, which may be a message. */
static kn_status read_value(scanner *s, kn_caffe_item ***last, const char *name, int depth) {
    skip(s);
    const char first = s->at < s->end ? *s->at : '\0';
    const bool message = first == '{' || first == '<', string = first == '"' || first == '\'';
    const kn_caffe_kind kind = message            ? KN_CAFFE_MESSAGE
                               : string           ? KN_CAFFE_TEXT
                               : is_letter(first) ? KN_CAFFE_WORD
                                                  : KN_CAFFE_NUMBER;
    if (kind == KN_CAFFE_NUMBER && !is_of_number(first)) return refuse(s, "a value");
    kn_caffe_item *item = kn_caffe_add(s->in, last, name, kind, s->line);
    if (!item) return s->in->error->status;
    if (message) {
        s->at++;
        return read_fields(s, item, first == '{' ? '}' : '>', depth + 1);
    }
    if (string) return read_strings(s, item);
    if (kind == KN_CAFFE_NUMBER) return read_number(s, item);
    size_t length = word_length(s);
    item->as.text = kn_caffe_keep_text(s->in, s->at, length);
    s->at += length;
    return item->as.text ? KN_OK : s->in->error->status;
}

/* Reads the values of a repeated field: `[1, 2]`. */
static kn_status read_list(scanner *s, kn_caffe_item ***last, const char *name, int depth) {
    if (take(s, ']')) return KN_OK;
    do {
        kn_status status = read_value(s, last, name, depth);
        if (status != KN_OK) return status;
    } while (take(s, ','));
    return take(s, ']') ? KN_OK : refuse(s, "',' or ']'");
}

/* Reads fields up to `close`, which is 0 for the end of the file. */
static kn_status read_fields(scanner *s, kn_caffe_item *message, char close, int depth) {
    kn_caffe_item **last = &message->as.first;
    if (depth > KN_CAFFE_DEPTH) return refuse(s, "less deeply nested messages");
    for (skip(s); s->at < s->end || close; skip(s)) {
        if (close && take(s, close)) return KN_OK;
        if (s->at == s->end || !is_letter(*s->at))
            return refuse(s, close ? "a field, or the end of the message" : "a field");
        size_t length = word_length(s);
        const char *name = kn_caffe_keep_text(s->in, s->at, length);
        if (!name) return s->in->error->status;
        s->at += length;
        bool colon = take(s, ':');
        skip(s);
        if (!colon && (s->at == s->end || (*s->at != '{' && *s->at != '<'))) return refuse(s, "':' or '{'");
        kn_status status =
            colon && take(s, '[') ? read_list(s, &last, name, depth) : read_value(s, &last, name, depth);
        if (status != KN_OK) return status;
        if (!take(s, ',')) take(s, ';');
    }
    return KN_OK;
}

kn_status kn_caffe_read_text(kn_caffe_reader *in, const char *text, size_t count) {
    enum { MOST = 64 << 20 };
    scanner s = {.in = in, .at = text, .end = text + count, .line = 1};
    if (count > MOST)
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: %zu bytes; expected a text of at most %d", in->name,
                       count, MOST);
    if (count == 0) return KN_OK;
    return read_fields(&s, in->net->root, '\0', 0);
}
