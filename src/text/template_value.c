/* Values of the template language, and messages with places in a template. */
#include "text/template_private.h"

#include <stdio.h>
#include <string.h>

/* Limits of what is compared or printed: nested lists and mappings, and values. Lists that share items can
 * have more values than memory could hold. */
enum { DEPTH = 200, COMPARED = 1000000 };

kn_cell kn_cell_bool(bool truth) {
    return (kn_cell){.sort = KN_SORT_BOOL, .integer = truth};
}

kn_cell kn_cell_integer(int64_t number) {
    return (kn_cell){.sort = KN_SORT_INTEGER, .integer = number};
}

kn_cell kn_cell_text(kn_arena *arena, const char *text, size_t length) {
    char *copy = kn_arena_take(arena, length + 1, 1);
    if (!copy) return (kn_cell){0};
    if (length) memcpy(copy, text, length);
    return (kn_cell){.sort = KN_SORT_TEXT, .text = copy, .length = length};
}

bool kn_cell_truth(const kn_cell *cell) {
    switch (cell->sort) {
    case KN_SORT_UNDEFINED:
    case KN_SORT_NONE:
        return false;
    case KN_SORT_BOOL:
    case KN_SORT_INTEGER:
        return cell->integer != 0;
    case KN_SORT_REAL:
        return cell->real < 0 || cell->real > 0 || cell->real != cell->real;
    case KN_SORT_TEXT:
        return cell->length > 0;
    case KN_SORT_LIST:
    case KN_SORT_MAP:
        return cell->list->count > 0;
    }
    return false;
}

static bool is_number(const kn_cell *cell) {
    return cell->sort == KN_SORT_BOOL || cell->sort == KN_SORT_INTEGER || cell->sort == KN_SORT_REAL;
}

static double number_of(const kn_cell *cell) {
    return cell->sort == KN_SORT_REAL ? cell->real : (double)cell->integer;
}

bool kn_cell_is_namespace(const kn_cell *cell) {
    return cell->sort == KN_SORT_MAP && cell->real > 0;
}

static bool equal_numbers(const kn_cell *one, const kn_cell *other) {
    if (one->sort != KN_SORT_REAL && other->sort != KN_SORT_REAL) return one->integer == other->integer;
    double left = number_of(one), right = number_of(other);
    return left >= right && left <= right;
}

/* kn_cell_equal for values at a depth; *left is how many more values may be compared. */
static bool compare(const kn_cell *one, const kn_cell *other, int depth, uint32_t *left, bool *equal) {
    *equal = false;
    if (depth > DEPTH || !*left) return false;
    --*left;
    if (is_number(one) && is_number(other)) {
        *equal = equal_numbers(one, other);
        return true;
    }
    if (one->sort != other->sort) return true;
    if (one->sort == KN_SORT_TEXT) {
        *equal = one->length == other->length && memcmp(one->text, other->text, one->length) == 0;
        return true;
    }
    *equal = true;
    if (one->sort != KN_SORT_LIST && one->sort != KN_SORT_MAP) return true;
    if (kn_cell_is_namespace(one) || kn_cell_is_namespace(other) || one->list->count != other->list->count) {
        *equal = one->list == other->list;
        return true;
    }
    const bool map = one->sort == KN_SORT_MAP;
    for (size_t i = 0; *equal && i < one->list->count; i += map ? 2 : 1) {
        const kn_cell *item = one->list->items + i, *twin = other->list->items + i;
        if (map) twin = kn_cell_member(other, item->text, item->length);
        if (!twin)
            *equal = false;
        else if (!compare(item + map, twin, depth + 1, left, equal))
            return false;
    }
    return true;
}

bool kn_cell_equal(const kn_cell *one, const kn_cell *other, bool *equal) {
    uint32_t left = COMPARED;
    return compare(one, other, 0, &left, equal);
}

bool kn_cell_push(kn_arena *arena, kn_cell_list *list, kn_cell item) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        kn_cell *items = kn_arena_take(arena, capacity, sizeof *items);
        if (!items) return false;
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return true;
}

kn_cell *kn_cell_member(const kn_cell *map, const char *key, size_t length) {
    for (size_t i = 0; i < map->list->count; i += 2)
        if (map->list->items[i].length == length && memcmp(map->list->items[i].text, key, length) == 0)
            return map->list->items + i + 1;
    return NULL;
}

bool kn_cell_put(kn_arena *arena, kn_cell *map, kn_cell key, kn_cell value) {
    kn_cell *old = kn_cell_member(map, key.text, key.length);
    if (old) {
        *old = value;
        return true;
    }
    return kn_cell_push(arena, map->list, key) && kn_cell_push(arena, map->list, value);
}

bool kn_cell_from_json(kn_arena *arena, const kn_json *json, kn_cell *cell) {
    *cell = (kn_cell){.sort = KN_SORT_NONE};
    int64_t integer;
    switch (json->kind) {
    case KN_JSON_NULL:
        return true;
    case KN_JSON_BOOL:
        *cell = kn_cell_bool(json->truth);
        return true;
    case KN_JSON_NUMBER:
        if (kn_json_int64(json, &integer))
            *cell = kn_cell_integer(integer);
        else
            *cell = (kn_cell){.sort = KN_SORT_REAL, .real = json->number};
        return true;
    case KN_JSON_STRING:
        *cell = kn_cell_text(arena, json->text, json->length);
        return cell->text != NULL;
    case KN_JSON_ARRAY:
    case KN_JSON_OBJECT:
        break;
    }
    cell->sort = json->kind == KN_JSON_ARRAY ? KN_SORT_LIST : KN_SORT_MAP;
    cell->list = kn_arena_take(arena, 1, sizeof *cell->list);
    if (!cell->list) return false;
    for (const kn_json *item = json->first; item; item = item->next) {
        kn_cell value, key;
        if (cell->sort == KN_SORT_MAP) {
            key = kn_cell_text(arena, item->key, item->key_length);
            if (!key.text || !kn_cell_push(arena, cell->list, key)) return false;
        }
        if (!kn_cell_from_json(arena, item, &value) || !kn_cell_push(arena, cell->list, value)) return false;
    }
    return true;
}

/* As Python's float: 1.0, not 1. */
static void print_real(double value, kn_text *to) {
    size_t begin = to->length;
    kn_text_number(to, value);
    if (!to->failed && !strpbrk(to->data + begin, ".en")) kn_text_add(to, ".0");
}

bool kn_cell_print(const kn_cell *cell, kn_text *to) {
    switch (cell->sort) {
    case KN_SORT_UNDEFINED:
        return true;
    case KN_SORT_NONE:
        kn_text_add(to, "None");
        return true;
    case KN_SORT_BOOL:
        kn_text_add(to, cell->integer ? "True" : "False");
        return true;
    case KN_SORT_INTEGER:
        kn_text_format(to, "%lld", (long long)cell->integer);
        return true;
    case KN_SORT_REAL:
        print_real(cell->real, to);
        return true;
    case KN_SORT_TEXT:
        kn_text_add_bytes(to, cell->text, cell->length);
        return true;
    case KN_SORT_LIST:
    case KN_SORT_MAP:
        break;
    }
    return false;
}

static void json_text(const char *text, size_t length, kn_text *to) {
    static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    kn_text_add(to, "\"");
    for (size_t i = 0; i < length; i++) {
        const char *found = text[i] ? strchr(letters, text[i]) : NULL;
        if (found)
            kn_text_format(to, "\\%c", names[found - letters]);
        else if ((uint8_t)text[i] < 0x20)
            kn_text_format(to, "\\u%04x", (unsigned)(uint8_t)text[i]);
        else
            kn_text_add_bytes(to, text + i, 1);
    }
    kn_text_add(to, "\"");
}

static void new_line(int64_t indent, int depth, kn_text *to) {
    kn_text_add(to, "\n");
    for (int64_t i = 0; i < indent * depth; i++)
        kn_text_add(to, " ");
}

bool kn_cell_json(const kn_cell *cell, int64_t indent, int depth, kn_text *to) {
    if (depth > DEPTH || to->length > KN_TEMPLATE_TEXT_BYTES || kn_cell_is_namespace(cell)) return false;
    if (cell->sort == KN_SORT_TEXT) {
        json_text(cell->text, cell->length, to);
    } else if (cell->sort == KN_SORT_NONE || cell->sort == KN_SORT_UNDEFINED) {
        kn_text_add(to, "null");
    } else if (cell->sort == KN_SORT_BOOL) {
        kn_text_add(to, cell->integer ? "true" : "false");
    } else if (cell->sort != KN_SORT_LIST && cell->sort != KN_SORT_MAP) {
        kn_cell_print(cell, to);
    } else {
        bool map = cell->sort == KN_SORT_MAP;
        kn_text_add(to, map ? "{" : "[");
        for (size_t i = 0; i < cell->list->count; i += map ? 2 : 1) {
            if (i) kn_text_add(to, indent < 0 ? ", " : ",");
            if (indent >= 0) new_line(indent, depth + 1, to);
            if (map) {
                json_text(cell->list->items[i].text, cell->list->items[i].length, to);
                kn_text_add(to, ": ");
            }
            if (!kn_cell_json(cell->list->items + i + map, indent, depth + 1, to)) return false;
        }
        if (indent >= 0 && cell->list->count) new_line(indent, depth, to);
        kn_text_add(to, map ? "}" : "]");
    }
    return true;
}

const char *kn_cell_sort_name(const kn_cell *cell) {
    static const char *const names[] = {"undefined", "none",     "true or false", "an integer",
                                        "a number",  "a string", "a list",        "a mapping"};
    return names[cell->sort];
}

kn_status kn_template_fail(const char *name, const char *text, size_t at, kn_status status, kn_error *error,
                           const char *format, ...) {
    char message[400];
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return kn_fail(error, status, "%s:%zu:%zu: %s", name, line, column, message);
}
