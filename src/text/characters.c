/* Characters: reading, categories and normal forms. */
#include "text/text_private.h"

#include <stdlib.h>
#include <string.h>

#if defined(KN_HAVE_UTF8PROC)
#include <utf8proc.h>
#endif

size_t kn_character_read(const char *bytes, size_t count, uint32_t *code) {
    size_t length = kn_utf8_read((const uint8_t *)bytes, count, code);
    if (length) return length;
    *code = KN_CHARACTER_INVALID;
    return 1;
}

bool kn_character_is_space(uint32_t code) {
    return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
           code == 0x205f || code == 0x3000;
}

#if defined(KN_HAVE_UTF8PROC)

kn_status kn_characters_check(const char *what, kn_error *error) {
    return KN_OK;
}

bool kn_character_is(uint32_t code, kn_character_class what) {
    if (code == KN_CHARACTER_INVALID) return false;
    int category = utf8proc_category((utf8proc_int32_t)code);
    switch (what) {
    case KN_CHARACTER_MARK:
        return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
    case KN_CHARACTER_MARK_NARROW:
        return category == UTF8PROC_CATEGORY_MN;
    case KN_CHARACTER_NUMBER:
        return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
    case KN_CHARACTER_PUNCTUATION:
        return (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) ||
               (code < 0x80 && category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO);
    case KN_CHARACTER_OTHER:
        return category >= UTF8PROC_CATEGORY_CC;
    case KN_CHARACTER_WORD:
        /* The circled and squared letters are alphabetic symbols; 200c and 200d join letters. */
        return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
               category == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d ||
               (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
               (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
    }
    return false;
}

static void add_character(kn_text *to, uint32_t code) {
    char bytes[4];
    kn_text_add_bytes(to, bytes, kn_utf8_write(bytes, code));
}

void kn_character_lower(const char *bytes, size_t count, uint32_t code, kn_text *to) {
    if (code == KN_CHARACTER_INVALID)
        kn_text_add_bytes(to, bytes, count);
    else if (code == 0x130) /* the only one whose lower case has two characters */
        kn_text_add(to, "i\xcc\x87");
    else
        add_character(to, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
}

static int class_of(utf8proc_int32_t code) {
    return utf8proc_get_property(code)->combining_class;
}

/* Sorts marks by their combining class, keeping the order of equal ones; linear, for any text. */
static bool order_marks(const kn_host *host, utf8proc_int32_t *codes, size_t count) {
    for (size_t begin = 0; begin < count;) {
        size_t end = begin;
        while (end < count && class_of(codes[end]) != 0)
            end++;
        size_t marks = end - begin;
        if (marks > 1) {
            size_t starts[257] = {0};
            utf8proc_int32_t *sorted = kn_allocate(host, marks, sizeof *sorted);
            if (!sorted) return false;
            for (size_t i = begin; i < end; i++)
                starts[class_of(codes[i]) + 1]++;
            for (int i = 0; i < 256; i++)
                starts[i + 1] += starts[i];
            for (size_t i = begin; i < end; i++)
                sorted[starts[class_of(codes[i])]++] = codes[i];
            memcpy(codes + begin, sorted, marks * sizeof *sorted);
            kn_release(host, sorted);
        }
        begin = end + 1;
    }
    return true;
}

/* Appends the normal form of characters, all valid. */
static void normalize_part(const char *bytes, size_t count, bool compatible, bool composed, kn_text *to) {
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    utf8proc_int32_t *codes = NULL;
    size_t used = 0, capacity = 0;
    for (size_t at = 0; at < count && !to->failed;) {
        uint32_t code;
        at += kn_character_read(bytes + at, count - at, &code);
        utf8proc_int32_t parts[64];
        int last_class = 0;
        utf8proc_ssize_t made =
            utf8proc_decompose_char((utf8proc_int32_t)code, parts, KN_COUNT_OF(parts), options, &last_class);
        if (made < 0 || made > (utf8proc_ssize_t)KN_COUNT_OF(parts) ||
            !kn_reserve(to->host, (void **)&codes, &capacity, used + (size_t)made, sizeof *codes)) {
            to->failed = true;
            break;
        }
        memcpy(codes + used, parts, (size_t)made * sizeof *codes);
        used += (size_t)made;
    }
    if (!to->failed && !order_marks(to->host, codes, used)) to->failed = true;
    if (composed && used && !to->failed) {
        utf8proc_ssize_t left =
            utf8proc_normalize_utf32(codes, (utf8proc_ssize_t)used, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (left < 0)
            to->failed = true;
        else
            used = (size_t)left;
    }
    for (size_t i = 0; i < used && !to->failed; i++)
        add_character(to, (uint32_t)codes[i]);
    kn_release(to->host, codes);
}

/* ASCII before ASCII, and invalid bytes, stay as they are; an ASCII character composes only with what follows
 * it. */
void kn_characters_normalize(const char *bytes, size_t count, bool compatible, bool composed, kn_text *to) {
    for (size_t at = 0; at < count && !to->failed;) {
        size_t plain = at;
        while (plain < count && !((uint8_t)bytes[plain] & 0x80))
            plain++;
        if (plain > at && plain < count) plain--;
        kn_text_add_bytes(to, bytes + at, plain - at);
        at = plain;
        if (at == count) break;
        size_t end = at;
        uint32_t code = 0;
        while (end < count && (end == at || (uint8_t)bytes[end] & 0x80)) {
            size_t length = kn_character_read(bytes + end, count - end, &code);
            if (code == KN_CHARACTER_INVALID) break;
            end += length;
        }
        normalize_part(bytes + at, end - at, compatible, composed, to);
        at = end;
        if (code == KN_CHARACTER_INVALID) {
            kn_text_add_bytes(to, bytes + at, 1);
            at++;
        }
    }
}

#else

kn_status kn_characters_check(const char *what, kn_error *error) {
    return kn_fail(
        error, KN_ERROR_UNSUPPORTED,
        "%s needs Unicode tables, and this Koine was built without utf8proc; install libutf8proc-dev "
        "and build Koine again",
        what);
}

bool kn_character_is(uint32_t code, kn_character_class what) {
    return false;
}

void kn_character_lower(const char *bytes, size_t count, uint32_t code, kn_text *to) {
    kn_text_add_bytes(to, bytes, count);
}

void kn_characters_normalize(const char *bytes, size_t count, bool compatible, bool composed, kn_text *to) {
    kn_text_add_bytes(to, bytes, count);
}

#endif
