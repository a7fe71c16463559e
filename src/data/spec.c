/* Parses the text after the name of a source: a path and options. */
#include "data/dataset_private.h"

#include <stdio.h>
#include <string.h>

static kn_status fail_option(kn_error *error, const char *word, const char *found, size_t length,
                             const kn_spec_option *options, size_t count) {
    char list[200] = "", name[64] = "";
    const char *keys[16];
    if (length < sizeof name) memcpy(name, found, length);
    for (size_t i = 0; i < count && i < KN_COUNT_OF(keys); i++) {
        size_t used = strlen(list);
        keys[i] = options[i].key;
        snprintf(list + used, sizeof list - used, "%s%s%s",
                 i == 0           ? ""
                 : i + 1 == count ? " or "
                                  : ", ",
                 keys[i],
                 options[i].kind == KN_SPEC_FLAG   ? ""
                 : options[i].kind == KN_SPEC_TEXT ? "=NAME"
                 : options[i].kind == KN_SPEC_LIST ? "=NAME,NAME"
                 : options[i].kind == KN_SPEC_SIZE ? "=WIDTH[xHEIGHT]"
                                                   : "=NUMBER");
    }
    const char *near = kn_nearest_word(name, keys, count);
    return kn_fail(error, KN_ERROR_ARGUMENT, "data \"%s\" has no option \"%.*s\"; expected %s%s%s%s", word,
                   (int)(length < 60 ? length : 60), found, list, near ? "; did you mean \"" : "",
                   near ? near : "", near ? "\"?" : "");
}

static bool read_number(const char *text, const char **end, uint64_t *number) {
    int64_t read;
    if (!kn_parse_int64(text, end, &read) || read < 1) return false;
    *number = (uint64_t)read;
    return true;
}

/* Reads the text after the width: "x48", or nothing for a square. */
static bool read_height(const char **end, uint64_t numbers[2]) {
    numbers[1] = numbers[0];
    return **end != 'x' || read_number(*end + 1, end, &numbers[1]);
}

/* Reads one option, "KEY" or "KEY=VALUE". */
static kn_status read_option(const kn_host *host, const char *word, const char *text, size_t length,
                             const kn_spec_option *options, size_t count, kn_error *error) {
    const char *equals = memchr(text, '=', length);
    size_t key = equals ? (size_t)(equals - text) : length;
    for (size_t i = 0; i < count; i++) {
        const kn_spec_option *row = &options[i];
        if (strlen(row->key) != key || memcmp(row->key, text, key) != 0) continue;
        if (row->kind == KN_SPEC_FLAG) {
            if (equals)
                return kn_fail(error, KN_ERROR_ARGUMENT, "data \"%s\": option %s takes no value", word,
                               row->key);
            *(bool *)row->target = true;
            return KN_OK;
        }
        if (row->kind == KN_SPEC_TEXT || row->kind == KN_SPEC_LIST) {
            if (!equals || key + 1 == length)
                return kn_fail(error, KN_ERROR_ARGUMENT, "data \"%s\": found \"%.*s\", expected %s=NAME",
                               word, (int)(length < 60 ? length : 60), text, row->key);
            char **target = row->target;
            kn_release(host, *target);
            *target = kn_allocate(host, length - key, 1);
            if (!*target) return kn_fail_memory(error, length - key);
            memcpy(*target, equals + 1, length - key - 1);
            if (row->kind == KN_SPEC_TEXT) kn_spec_name(*target, *target);
            return KN_OK;
        }
        uint64_t *numbers = row->target;
        bool size = row->kind == KN_SPEC_SIZE;
        const char *end = equals ? equals + 1 : text;
        if (!equals || !read_number(end, &end, &numbers[0]) || (size && !read_height(&end, numbers)) ||
            end != text + length)
            return kn_fail(
                error, KN_ERROR_ARGUMENT, "data \"%s\": found \"%.*s\", expected %s=%s with numbers above 0",
                word, (int)(length < 60 ? length : 60), text, row->key, size ? "WIDTH[xHEIGHT]" : "NUMBER");
        return KN_OK;
    }
    return fail_option(error, word, text, key, options, count);
}

/* The comma that ends the path of a spec: the last one after an existing path, because paths may contain
 * commas, or the first; NULL if the whole is a path or has no comma. Modifies path, and restores it. */
static char *end_of_path(char *path) {
    char *found = NULL;
    if (kn_path_exists(path)) return NULL;
    for (char *comma = strchr(path, ','); comma; comma = strchr(comma + 1, ',')) {
        *comma = '\0';
        if (!found || kn_path_exists(path)) found = comma;
        *comma = ',';
    }
    return found;
}

/* Bytes of the name at the beginning of a text: up to the next comma, or all of a name in quotes, in which ""
 * is a quote, as in CSV files. */
static size_t name_length(const char *text) {
    const char *end = text[0] == '"' ? strchr(text + 1, '"') : NULL;
    while (end && end[1] == '"')
        end = strchr(end + 2, '"');
    return end && (end[1] == ',' || !end[1]) ? (size_t)(end + 1 - text) : strcspn(text, ",");
}

size_t kn_spec_name(char *name, const char *text) {
    const size_t length = name_length(text);
    const bool quoted = length > 1 && text[0] == '"' && text[length - 1] == '"';
    size_t used = 0;
    for (size_t i = quoted; i < length - quoted; i++) {
        name[used++] = text[i];
        i += quoted && text[i] == '"'; /* the second of "" */
    }
    name[used] = '\0';
    return length;
}

/* Bytes of the option at the beginning of a text: up to the next comma or, for a list, to the next option. */
static size_t option_length(const char *text, const kn_spec_option *options, size_t count) {
    size_t key = strcspn(text, "=,"), length = text[key] == '=' ? key + 1 + name_length(text + key + 1) : key;
    bool list = false;
    for (size_t i = 0; i < count; i++)
        list = list || (options[i].kind == KN_SPEC_LIST && strlen(options[i].key) == key &&
                        !memcmp(options[i].key, text, key));
    while (list && text[length]) {
        const char *next = text + length + 1;
        const size_t bytes = name_length(next);
        bool option = next[0] != '"' && memchr(next, '=', bytes) != NULL;
        for (size_t i = 0; i < count && !option; i++)
            option = options[i].kind == KN_SPEC_FLAG && strlen(options[i].key) == bytes &&
                     !memcmp(options[i].key, next, bytes);
        if (option) break;
        length += 1 + bytes;
    }
    return length;
}

kn_status kn_spec_read(const kn_host *host, const char *word, const char *rest, char **path,
                       const kn_spec_option *options, size_t count, kn_error *error) {
    *path = NULL;
    const char *mark = NULL;
    if (rest[0] == ':') {
        *path = kn_copy_text(host, rest + 1);
        if (!*path) return kn_fail_memory(error, strlen(rest));
        char *comma = end_of_path(*path);
        if (comma) {
            *comma = '\0';
            mark = rest + 1 + (comma - *path);
        }
    } else if (rest[0] == ',') {
        mark = rest;
    }
    kn_status status = KN_OK;
    while (mark && status == KN_OK) {
        const size_t length = option_length(mark + 1, options, count);
        status = read_option(host, word, mark + 1, length, options, count, error);
        mark = mark[1 + length] ? mark + 1 + length : NULL;
    }
    if (status != KN_OK) {
        kn_release(host, *path);
        *path = NULL;
    }
    return status;
}
