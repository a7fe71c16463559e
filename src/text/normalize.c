/* Normalizers: text to text before it is split. */
#include "text/text_private.h"

#include <string.h>

typedef struct replacing {
    const char *text;
    const kn_normalizer *normalizer;
    kn_text *to;
} replacing;

static void replace_part(void *user, size_t begin, size_t end, bool match) {
    const replacing *by = user;
    if (match)
        kn_text_add_bytes(by->to, by->normalizer->content, by->normalizer->content_length);
    else
        kn_text_add_bytes(by->to, by->text + begin, end - begin);
}

static void strip(const kn_normalizer *normalizer, const char *text, size_t count, kn_text *to) {
    size_t begin = 0, end = count, last = 0;
    uint32_t code;
    for (size_t at = 0; at < count;) {
        at += kn_character_read(text + at, count - at, &code);
        if (!kn_character_is_space(code))
            last = at;
        else if (last == 0 && normalizer->left)
            begin = at;
    }
    if (normalizer->right) end = last > begin ? last : begin;
    kn_text_add_bytes(to, text + begin, end - begin);
}

static void strip_accents(kn_character_class marks, const char *text, size_t count, kn_text *to) {
    for (size_t at = 0, length; at < count; at += length) {
        uint32_t code;
        length = kn_character_read(text + at, count - at, &code);
        if (code < 0x80 || !kn_character_is(code, marks)) kn_text_add_bytes(to, text + at, length);
    }
}

static void lower(const char *text, size_t count, kn_text *to) {
    for (size_t at = 0, length; at < count; at += length) {
        uint32_t code;
        length = kn_character_read(text + at, count - at, &code);
        if (code >= 0x80) {
            kn_character_lower(text + at, length, code, to);
        } else {
            char small = code >= 'A' && code <= 'Z' ? (char)(code + 32) : (char)code;
            kn_text_add_bytes(to, &small, 1);
        }
    }
}

static bool is_chinese(uint32_t code) {
    return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) ||
           (code >= 0x20000 && code <= 0x2a6df) || (code >= 0x2a700 && code <= 0x2b73f) ||
           (code >= 0x2b740 && code <= 0x2b81f) || (code >= 0x2b920 && code <= 0x2ceaf) ||
           (code >= 0xf900 && code <= 0xfaff) || (code >= 0x2f800 && code <= 0x2fa1f);
}

/* Cleans, and puts spaces around Chinese characters. */
static void clean(const kn_normalizer *normalizer, const char *text, size_t count, kn_text *to) {
    for (size_t at = 0, length; at < count; at += length) {
        uint32_t code;
        length = kn_character_read(text + at, count - at, &code);
        if (normalizer->clean) {
            bool blank = code == '\t' || code == '\n' || code == '\r';
            if (code == 0 || code == 0xfffd ||
                (!blank &&
                 (code < 0x80 ? code < 0x20 || code == 0x7f : kn_character_is(code, KN_CHARACTER_OTHER))))
                continue;
            if (kn_character_is_space(code)) {
                kn_text_add_bytes(to, " ", 1);
                continue;
            }
        }
        bool apart = normalizer->chinese && is_chinese(code);
        if (apart) kn_text_add_bytes(to, " ", 1);
        kn_text_add_bytes(to, text + at, length);
        if (apart) kn_text_add_bytes(to, " ", 1);
    }
}

/* BERT's normalizer is four steps. */
static void bert(const kn_normalizer *normalizer, const char *text, size_t count, kn_text *to) {
    kn_text one, two;
    kn_text_init(&one, to->host);
    kn_text_init(&two, to->host);
    clean(normalizer, text, count, normalizer->accents || normalizer->lower ? &one : to);
    if (normalizer->accents) {
        kn_characters_normalize(one.data, one.length, false, false, &two);
        kn_text_clear(&one);
        strip_accents(KN_CHARACTER_MARK_NARROW, two.data, two.length, normalizer->lower ? &one : to);
    }
    if (normalizer->lower) lower(one.data, one.length, to);
    to->failed |= one.failed || two.failed;
    kn_text_finish(&one);
    kn_text_finish(&two);
}

kn_status kn_normalize(const kn_host *host, const kn_normalizer *normalizer, const char *text, size_t count,
                       kn_text *to) {
    replacing by = {text, normalizer, to};
    switch (normalizer->kind) {
    case KN_NORMALIZER_FORM:
        kn_characters_normalize(text, count, normalizer->compatible, normalizer->composed, to);
        break;
    case KN_NORMALIZER_LOWERCASE:
        lower(text, count, to);
        break;
    case KN_NORMALIZER_STRIP_ACCENTS:
        strip_accents(KN_CHARACTER_MARK, text, count, to);
        break;
    case KN_NORMALIZER_PREPEND:
        if (count) kn_text_add_bytes(to, normalizer->content, normalizer->content_length);
        kn_text_add_bytes(to, text, count);
        break;
    case KN_NORMALIZER_REPLACE: {
        kn_status status = kn_pattern_search(host, &normalizer->pattern, text, count, replace_part, &by);
        if (status != KN_OK) return status;
        break;
    }
    case KN_NORMALIZER_STRIP:
        strip(normalizer, text, count, to);
        break;
    case KN_NORMALIZER_BERT:
        bert(normalizer, text, count, to);
        break;
    case KN_NORMALIZER_BYTES:
        kn_byte_letters(text, count, to);
        break;
    }
    return kn_text_failed(to) ? KN_ERROR_MEMORY : KN_OK;
}
