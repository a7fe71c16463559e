/* Reads the parts of a tokenizer.json: members by type, and components by tables. */
#include <stdio.h>
#include <string.h>

#include "text/json_part.h"

enum { PARTS = 64 };

kn_status kn_part_wrong(kn_part_reader *in, const char *key, const kn_json *found, const char *expected) {
    return kn_fail(in->error, KN_ERROR_FORMAT, "%s: %s.%s is %s; expected %s", in->vocabulary->name,
                   in->where, key, found ? kn_json_kind_name(found->kind) : "missing", expected);
}

bool kn_part_is_null(const kn_json *value) {
    return !value || value->kind == KN_JSON_NULL;
}

kn_status kn_part_text(kn_part_reader *in, const kn_json *part, const char *key, const char **text,
                       size_t *length) {
    const kn_json *value = kn_json_member(part, key);
    if (!value || value->kind != KN_JSON_STRING) return kn_part_wrong(in, key, value, "a string");
    *text = kn_arena_copy(in->arena, value->text, value->length + 1, 1);
    *length = value->length;
    return *text ? KN_OK : kn_fail_memory(in->error, value->length);
}

/* A string that may be missing or null. */
kn_status kn_part_text_or(kn_part_reader *in, const kn_json *part, const char *key, const char **text,
                          size_t *length) {
    return kn_part_is_null(kn_json_member(part, key)) ? KN_OK : kn_part_text(in, part, key, text, length);
}

/* Missing or null: *truth stays as it is. */
kn_status kn_part_bool(kn_part_reader *in, const kn_json *part, const char *key, bool *truth) {
    const kn_json *value = kn_json_member(part, key);
    if (kn_part_is_null(value)) return KN_OK;
    if (value->kind != KN_JSON_BOOL) return kn_part_wrong(in, key, value, "true or false");
    *truth = value->truth;
    return KN_OK;
}

kn_status kn_part_count(kn_part_reader *in, const kn_json *part, const char *key, int64_t *number) {
    const kn_json *value = kn_json_member(part, key);
    if (kn_part_is_null(value)) return KN_OK;
    if (!kn_json_int64(value, number) || *number < 0 || *number > INT32_MAX)
        return kn_part_wrong(in, key, value, "an integer of at least 0");
    return KN_OK;
}

/* One of the names, by its position. */
kn_status kn_part_choice(kn_part_reader *in, const kn_json *part, const char *key, const char *const *names,
                         int count, int *choice) {
    const kn_json *value = kn_json_member(part, key);
    if (kn_part_is_null(value)) return KN_OK;
    for (int i = 0; value->kind == KN_JSON_STRING && i < count; i++)
        if (strcmp(value->text, names[i]) == 0) {
            *choice = i;
            return KN_OK;
        }
    if (value->kind != KN_JSON_STRING) return kn_part_wrong(in, key, value, "a string");
    return kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: %s.%s is \"%s\", which Koine does not support",
                   in->vocabulary->name, in->where, key, value->text);
}

/* {"String": …} or {"Regex": …}, or only the string. */
kn_status kn_part_pattern(kn_part_reader *in, const kn_json *part, kn_pattern *pattern) {
    const kn_json *value = kn_json_member(part, "pattern");
    if (value && value->kind == KN_JSON_STRING)
        return kn_part_text(in, part, "pattern", &pattern->text, &pattern->length);
    const kn_json *regex = kn_json_member(value, "Regex");
    if (!regex) return kn_part_text(in, value, "String", &pattern->text, &pattern->length);
    if (regex->kind != KN_JSON_STRING) return kn_part_wrong(in, "pattern.Regex", regex, "a string");
    pattern->source = kn_arena_text(in->arena, regex->text);
    if (!pattern->source) return kn_fail_memory(in->error, regex->length);
    kn_status status =
        kn_regex_create(&in->vocabulary->host, regex->text, regex->length, &pattern->regex, in->error);
    return status == KN_OK ? KN_OK : kn_fail_in(in->error, "%s: %s", in->vocabulary->name, in->where);
}

/* The members of a sequence in turn. */
kn_status kn_components_read(kn_part_reader *in, const kn_json *part, const char *key,
                             const kn_component *table, size_t count) {
    const kn_json *list = kn_json_member(part, key);
    if (!list || list->kind != KN_JSON_ARRAY) return kn_part_wrong(in, key, list, "an array");
    kn_status status = KN_OK;
    for (const kn_json *item = list->first; item && status == KN_OK; item = item->next)
        status = kn_component_read(in, item, table, count);
    return status;
}

kn_status kn_component_read(kn_part_reader *in, const kn_json *part, const kn_component *table,
                            size_t count) {
    const kn_json *type = kn_json_member(part, "type");
    if (!type || type->kind != KN_JSON_STRING) return kn_part_wrong(in, "type", type, "a string");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].type, type->text) != 0) continue;
        if (table[i].characters) {
            char what[96];
            kn_error unused;
            kn_status status = kn_characters_check("", &unused);
            if (status != KN_OK) {
                snprintf(what, sizeof what, "the %s %s", in->where, table[i].type);
                kn_characters_check(what, in->error);
                return kn_fail_in(in->error, "%s", in->vocabulary->name);
            }
        }
        return table[i].read(in, part);
    }
    return kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: the %s \"%s\" is not supported",
                   in->vocabulary->name, in->where, type->text);
}

/* Room for one more part of an array in the arena; NULL with an error if there are too many. */
void *kn_part_room(kn_part_reader *in, void **parts, size_t *count, size_t size) {
    if (*count == PARTS) {
        kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: more than %d parts of the %s", in->vocabulary->name,
                PARTS, in->where);
        return NULL;
    }
    if (!*parts && !(*parts = kn_arena_take(in->arena, PARTS, size))) {
        kn_fail_memory(in->error, PARTS * size);
        return NULL;
    }
    return (char *)*parts + size * (*count)++;
}
