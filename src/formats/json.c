/* JSON (RFC 8259): a small reader with limits. */
#include "formats/formats_private.h"

#include <string.h>

enum { DEPTH_MAX = 256, FEW_MEMBERS = 8 };

typedef struct reader {
    kn_arena *arena;
    const char *name;
    const uint8_t *bytes;
    uint64_t count, at;
    int depth, depth_limit;
    kn_error *error;
} reader;

/* "name:line:column: found "x", expected y", for position `at`. */
static kn_status refuse_at(reader *in, uint64_t at, const char *expected) {
    uint64_t line = 1, begin = 0;
    for (uint64_t i = 0; i < at; i++)
        if (in->bytes[i] == '\n') {
            line++;
            begin = i + 1;
        }
    char found[KN_QUOTE_BYTES];
    if (at >= in->count)
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s:%llu:%llu: the text ends here, expected %s", in->name,
                       (unsigned long long)line, (unsigned long long)(at - begin + 1), expected);
    return kn_fail(in->error, KN_ERROR_FORMAT, "%s:%llu:%llu: found %s, expected %s", in->name,
                   (unsigned long long)line, (unsigned long long)(at - begin + 1),
                   kn_quote(in->bytes + at, (size_t)(in->count - at), found), expected);
}

static kn_status refuse(reader *in, const char *expected) {
    return refuse_at(in, in->at, expected);
}

static void skip_blanks(reader *in) {
    while (in->at < in->count && (in->bytes[in->at] == ' ' || in->bytes[in->at] == '\t' ||
                                  in->bytes[in->at] == '\n' || in->bytes[in->at] == '\r'))
        in->at++;
}

/* The next byte, or -1 at the end. */
static int peek(const reader *in) {
    return in->at < in->count ? in->bytes[in->at] : -1;
}

static bool accept(reader *in, int byte) {
    if (peek(in) != byte) return false;
    in->at++;
    return true;
}

static bool accept_word(reader *in, const char *word) {
    size_t length = strlen(word);
    if (in->count - in->at < length || memcmp(in->bytes + in->at, word, length) != 0) return false;
    in->at += length;
    return true;
}

/* ---- strings ------------------------------------------------------------------------ */

static bool accept_hex4(reader *in, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(in);
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        *value = *value << 4 | digit;
        in->at++;
    }
    return true;
}

/* Reads what follows a backslash; *code is the character. */
static kn_status read_escape(reader *in, uint32_t *code) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint64_t begin = in->at - 1;
    int c = peek(in);
    const char *simple = c > 0 ? strchr(from, c) : NULL;
    if (simple) {
        *code = (uint8_t)to[simple - from];
        in->at++;
        return KN_OK;
    }
    if (!accept(in, 'u'))
        return refuse_at(in, begin, "an escape: one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
    if (!accept_hex4(in, code)) return refuse_at(in, begin, "four hexadecimal digits after \\u");
    if (*code < 0xd800 || *code >= 0xe000) return KN_OK;
    uint32_t low;
    if (*code >= 0xdc00 || !accept(in, '\\') || !accept(in, 'u') || !accept_hex4(in, &low) || low < 0xdc00 ||
        low >= 0xe000)
        return refuse_at(in, begin, "a pair of surrogates, \\ud800 to \\udbff then \\udc00 to \\udfff");
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return KN_OK;
}

static kn_status read_string(reader *in, const char **text, size_t *length) {
    if (!accept(in, '"')) return refuse(in, "a string");
    /* The decoded string is never longer than the encoded one. */
    uint64_t end = in->at;
    while (end < in->count && in->bytes[end] != '"')
        end += in->bytes[end] == '\\' ? 2 : 1;
    if (end >= in->count) return refuse_at(in, in->count, "the '\"' that ends a string");
    size_t room = (size_t)(end - in->at) + 1, used = 0;
    char *decoded = kn_arena_take(in->arena, room, 1);
    if (!decoded) return kn_fail_memory(in->error, room);
    while (in->at < end) {
        if (in->bytes[in->at] < 0x20) return refuse(in, "escapes for control characters in a string");
        if (accept(in, '\\')) {
            uint32_t code = 0;
            kn_status status = read_escape(in, &code);
            if (status != KN_OK) return status;
            used += kn_utf8_write(decoded + used, code);
        } else {
            uint32_t ignored;
            size_t bytes = kn_utf8_read(in->bytes + in->at, end - in->at, &ignored);
            if (bytes == 0) return refuse(in, "UTF-8");
            memcpy(decoded + used, in->bytes + in->at, bytes);
            used += bytes;
            in->at += bytes;
        }
    }
    in->at = end + 1;
    decoded[used] = '\0';
    *text = decoded;
    *length = used;
    return KN_OK;
}

/* ---- numbers --------------------------------------------------------------------------- */

static bool skip_digits(reader *in) {
    uint64_t begin = in->at;
    while (in->at < in->count && in->bytes[in->at] >= '0' && in->bytes[in->at] <= '9')
        in->at++;
    return in->at > begin;
}

static kn_status read_number(reader *in, kn_json *value) {
    uint64_t begin = in->at;
    accept(in, '-');
    if (!accept(in, '0') && !skip_digits(in)) return refuse_at(in, begin, "a number");
    if (accept(in, '.') && !skip_digits(in)) return refuse(in, "a digit after the decimal point");
    if (accept(in, 'e') || accept(in, 'E')) {
        if (!accept(in, '-')) accept(in, '+');
        if (!skip_digits(in)) return refuse(in, "a digit of the exponent");
    }
    value->kind = KN_JSON_NUMBER;
    value->length = (size_t)(in->at - begin);
    char *text = kn_arena_take(in->arena, value->length + 1, 1);
    if (!text) return kn_fail_memory(in->error, value->length + 1);
    memcpy(text, in->bytes + begin, value->length);
    text[value->length] = '\0';
    value->text = text;
    const char *end;
    if (!kn_parse_double(text, &end, &value->number) || *end != '\0')
        return refuse_at(in, begin, "a number within the range of a double");
    return KN_OK;
}

/* ---- values -------------------------------------------------------------------------------- */

static kn_status read_value(reader *in, kn_json *value);

/* Checks that no two members of an object have the same key: few members are compared one by one, more use a
 * map, so that no file can make this slow. */
static kn_status check_key(reader *in, kn_json *object, kn_map *seen, kn_json *member) {
    bool twice = false;
    if (object->count <= FEW_MEMBERS) {
        for (const kn_json *other = object->first; other != member; other = other->next)
            twice |= other->key_length == member->key_length &&
                     memcmp(other->key, member->key, member->key_length) == 0;
        if (!twice && object->count < FEW_MEMBERS) return KN_OK;
    }
    if (!twice) twice = kn_map_has(seen, member->key, member->key_length);
    if (twice) return refuse_at(in, member->offset, "distinct keys in an object");
    /* When the limit is reached, all members enter the map; later members enter it directly. */
    kn_json *first = object->count == FEW_MEMBERS ? object->first : member;
    for (kn_json *entry = first;; entry = entry->next) {
        if (!kn_map_put(seen, entry->key, entry->key_length, entry))
            return kn_fail_memory(in->error, entry->key_length);
        if (entry == member) return KN_OK;
    }
}

static kn_status read_items(reader *in, kn_json *value, bool object, kn_map *seen) {
    const int close = object ? '}' : ']';
    kn_json **link = &value->first;
    in->at++;
    skip_blanks(in);
    if (accept(in, close)) return KN_OK;
    for (;;) {
        kn_json *item = kn_arena_take(in->arena, 1, sizeof *item);
        if (!item) return kn_fail_memory(in->error, sizeof *item);
        skip_blanks(in);
        kn_status status = KN_OK;
        item->offset = in->at;
        *link = item;
        value->count++;
        if (object) {
            if (peek(in) != '"') return refuse(in, "a key in quotes");
            status = read_string(in, &item->key, &item->key_length);
            if (status == KN_OK) status = check_key(in, value, seen, item);
            if (status != KN_OK) return status;
            skip_blanks(in);
            if (!accept(in, ':')) return refuse(in, "':'");
            skip_blanks(in);
        }
        status = read_value(in, item);
        if (status != KN_OK) return status;
        link = &item->next;
        skip_blanks(in);
        if (accept(in, close)) return KN_OK;
        if (!accept(in, ',')) return refuse(in, object ? "',' or '}'" : "',' or ']'");
    }
}

static kn_status read_container(reader *in, kn_json *value, bool object) {
    if (in->depth == in->depth_limit) return refuse(in, "no deeper nesting");
    in->depth++;
    value->kind = object ? KN_JSON_OBJECT : KN_JSON_ARRAY;
    kn_map seen;
    kn_map_init(&seen, in->arena->host);
    kn_status status = read_items(in, value, object, &seen);
    kn_map_finish(&seen);
    in->depth--;
    return status;
}

static kn_status read_value(reader *in, kn_json *value) {
    value->offset = in->at;
    int c = peek(in);
    if (c == '{' || c == '[') return read_container(in, value, c == '{');
    if (c == '"') {
        value->kind = KN_JSON_STRING;
        return read_string(in, &value->text, &value->length);
    }
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(in, value);
    if (accept_word(in, "null")) return KN_OK;
    value->kind = KN_JSON_BOOL;
    value->truth = accept_word(in, "true");
    if (value->truth || accept_word(in, "false")) return KN_OK;
    return refuse(in, "a value");
}

kn_status kn_json_read(kn_arena *arena, const char *name, const void *bytes, uint64_t count,
                       uint64_t size_limit, int depth_limit, kn_json **root, kn_error *error) {
    *root = NULL;
    if (count > size_limit)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: %llu bytes of JSON; expected at most %llu", name,
                       (unsigned long long)count, (unsigned long long)size_limit);
    reader in = {.arena = arena, .name = name, .bytes = bytes, .count = count, .error = error};
    in.depth_limit = depth_limit < DEPTH_MAX ? depth_limit : DEPTH_MAX;
    kn_json *value = kn_arena_take(arena, 1, sizeof *value);
    if (!value) return kn_fail_memory(error, sizeof *value);
    skip_blanks(&in);
    kn_status status = read_value(&in, value);
    if (status != KN_OK) return status;
    skip_blanks(&in);
    if (in.at < count) return refuse(&in, "nothing after the value");
    *root = value;
    return KN_OK;
}

const kn_json *kn_json_member(const kn_json *object, const char *key) {
    if (!object || object->kind != KN_JSON_OBJECT) return NULL;
    size_t length = strlen(key);
    for (const kn_json *member = object->first; member; member = member->next)
        if (member->key_length == length && memcmp(member->key, key, length) == 0) return member;
    return NULL;
}

bool kn_json_int64(const kn_json *value, int64_t *number) {
    if (!value || value->kind != KN_JSON_NUMBER) return false;
    const char *end;
    int64_t parsed;
    if (!kn_parse_int64(value->text, &end, &parsed) || *end != '\0') return false;
    *number = parsed;
    return true;
}

const char *kn_json_kind_name(kn_json_kind kind) {
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "an array",      "an object"};
    return (size_t)kind < KN_COUNT_OF(names) ? names[kind] : "unknown";
}
