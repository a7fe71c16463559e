/* Operator attributes: defaults, and parsing from text. */
#include <inttypes.h>
#include <string.h>

#include "graph/graph_private.h"

enum { MAX_ITEMS = 2 * KN_MAX_RANK };

static const kn_attribute_value nothing;

/* The index of a word of `length` bytes in a list such as "none same valid"; -1 if absent. */
static int choice_position(const char *choices, const char *word, size_t length) {
    for (int position = 0; *choices != '\0'; position++) {
        size_t item = strcspn(choices, " ");
        if (item == length && strncmp(choices, word, length) == 0) return position;
        choices += item;
        choices += strspn(choices, " ");
    }
    return -1;
}

/* Reads an integer that fills all `length` bytes; the text need not be terminated. */
static bool read_integer(const char *text, size_t length, int64_t *number) {
    char copy[32];
    const char *end;
    if (length == 0 || length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return kn_parse_int64(copy, &end, number) && *end == '\0';
}

static bool read_number(const char *text, size_t length, double *number) {
    char copy[64];
    const char *end;
    if (length == 0 || length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return kn_parse_double(copy, &end, number) && *end == '\0';
}

/* Reads comma-separated items; commas inside parentheses do not separate. */
static kn_status read_list(kn_graph *graph, bool symbols, const char *text, size_t length,
                           kn_attribute_value *value, kn_error *error) {
    value->count = 0;
    size_t start = 0;
    int depth = 0;
    for (size_t i = 0; length > 0 && i <= length; i++) {
        if (i < length && text[i] == '(') depth++;
        if (i < length && text[i] == ')') depth--;
        if (i < length && (text[i] != ',' || depth > 0)) continue;
        if (value->count == MAX_ITEMS)
            return kn_fail(error, KN_ERROR_ARGUMENT, "more than %d numbers in a list", MAX_ITEMS);
        kn_dim *item = &value->list[value->count++];
        if (symbols) {
            kn_status status = kn_dim_read(graph, text + start, i - start, item, error);
            if (status != KN_OK) return status;
        } else if (!read_integer(text + start, i - start, item))
            return kn_fail(error, KN_ERROR_ARGUMENT, "expected integers separated by commas, as in 0,2");
        start = i + 1;
    }
    return KN_OK;
}

static kn_status read_value(kn_graph *graph, const kn_attribute *attribute, const char *text, size_t length,
                            kn_attribute_value *value, kn_error *error) {
    switch (attribute->kind) {
    case KN_ATTRIBUTE_INT:
        if (!read_integer(text, length, &value->integer))
            return kn_fail(error, KN_ERROR_ARGUMENT, "expected an integer");
        value->number = (double)value->integer;
        return KN_OK;
    case KN_ATTRIBUTE_FLOAT:
        if (!read_number(text, length, &value->number))
            return kn_fail(error, KN_ERROR_ARGUMENT, "expected a number, as in 0.1");
        return KN_OK;
    case KN_ATTRIBUTE_BOOL: {
        int position = choice_position("false true 0 1", text, length);
        if (position < 0) return kn_fail(error, KN_ERROR_ARGUMENT, "expected true or false");
        value->integer = position % 2;
        value->number = (double)value->integer;
        return KN_OK;
    }
    case KN_ATTRIBUTE_INTS:
        return read_list(graph, false, text, length, value, error);
    case KN_ATTRIBUTE_DIMS:
        return read_list(graph, true, text, length, value, error);
    case KN_ATTRIBUTE_CHOICE: {
        int position = choice_position(attribute->list, text, length);
        if (position < 0) return kn_fail(error, KN_ERROR_ARGUMENT, "expected one of: %s", attribute->list);
        value->integer = position;
        value->number = position;
        return KN_OK;
    }
    }
    return kn_fail(error, KN_ERROR_INTERNAL, "attribute '%s' has an unknown kind", attribute->name);
}

static kn_status set_defaults(kn_graph *graph, const kn_operator *row, kn_attribute_value *attributes,
                              kn_error *error) {
    memset(attributes, 0, KN_MAX_ATTRIBUTES * sizeof *attributes);
    if (row->attribute_count > KN_MAX_ATTRIBUTES)
        return kn_fail(error, KN_ERROR_INTERNAL, "%s has more than %d attributes", row->name,
                       KN_MAX_ATTRIBUTES);
    for (int i = 0; i < row->attribute_count; i++) {
        const kn_attribute *attribute = &row->attributes[i];
        bool is_list = attribute->kind == KN_ATTRIBUTE_INTS || attribute->kind == KN_ATTRIBUTE_DIMS;
        attributes[i].number = attribute->number;
        if (attribute->kind != KN_ATTRIBUTE_FLOAT) attributes[i].integer = (int64_t)attribute->number;
        if (!is_list || !attribute->list) continue;
        kn_status status =
            read_value(graph, attribute, attribute->list, strlen(attribute->list), &attributes[i], error);
        if (status != KN_OK)
            return kn_fail_in(error, "the default of %s's attribute '%s'", row->name, attribute->name);
    }
    return KN_OK;
}

void kn_attributes_defaults(kn_graph *graph, const kn_operator *row, kn_attribute_value *attributes) {
    kn_error error = {0};
    if (set_defaults(graph, row, attributes, &error) != KN_OK) kn_graph_fail_with(graph, &error);
}

static kn_status fail_unknown(kn_graph *graph, const kn_operator *row, const char *word, size_t length,
                              kn_error *error) {
    const char *names[KN_MAX_ATTRIBUTES];
    char copy[65];
    size_t cut = length < sizeof copy - 1 ? length : sizeof copy - 1;
    memcpy(copy, word, cut);
    copy[cut] = '\0';
    if (row->attribute_count == 0)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "%s has no attributes, found '%s'", row->name, copy);
    kn_text list;
    kn_text_init(&list, &graph->host);
    for (int i = 0; i < row->attribute_count; i++) {
        names[i] = row->attributes[i].name;
        kn_text_format(&list, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = kn_nearest_word(copy, names, (size_t)row->attribute_count);
    kn_status status =
        kn_fail(error, KN_ERROR_NOT_FOUND, "%s has no attribute '%s'%s%s%s; it has %s", row->name, copy,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", list.data);
    kn_text_finish(&list);
    return status;
}

kn_status kn_attributes_parse(kn_graph *graph, const kn_operator *row, const char *text,
                              kn_attribute_value *attributes, kn_error *error) {
    kn_status status = set_defaults(graph, row, attributes, error);
    bool given[KN_MAX_ATTRIBUTES] = {false};
    while (status == KN_OK && text) {
        text += strspn(text, " \t\r\n");
        size_t length = strcspn(text, " \t\r\n");
        if (length == 0) break;
        const char *equals = memchr(text, '=', length);
        size_t name_length = equals ? (size_t)(equals - text) : length;
        int found = -1;
        for (int i = 0; i < row->attribute_count; i++)
            if (strlen(row->attributes[i].name) == name_length &&
                strncmp(row->attributes[i].name, text, name_length) == 0)
                found = i;
        if (found < 0) return fail_unknown(graph, row, text, name_length, error);
        const char *name = row->attributes[found].name;
        if (!equals)
            return kn_fail(error, KN_ERROR_FORMAT, "%s: attribute '%s' has no value; use %s=VALUE", row->name,
                           name, name);
        if (given[found])
            return kn_fail(error, KN_ERROR_FORMAT, "%s: attribute '%s' is given twice", row->name, name);
        given[found] = true;
        size_t value_length = length - name_length - 1;
        status =
            read_value(graph, &row->attributes[found], equals + 1, value_length, &attributes[found], error);
        if (status != KN_OK)
            return kn_fail_in(error, "%s: %s=%.*s", row->name, name,
                              (int)(value_length < 80 ? value_length : 80), equals + 1);
        text += length;
    }
    return status;
}

const kn_attribute_value *kn_attribute_in(const kn_operator *row, const kn_attribute_value *attributes,
                                          const char *name) {
    for (int i = 0; i < row->attribute_count && i < KN_MAX_ATTRIBUTES; i++)
        if (strcmp(row->attributes[i].name, name) == 0) return &attributes[i];
    return NULL;
}

const kn_attribute_value *kn_attribute_of(const kn_node *node, const char *name) {
    const kn_attribute_value *value = kn_attribute_in(node->op, node->attributes, name);
    if (value) return value;
    kn_graph_fail((node->output_count ? node->outputs[0] : node->inputs[0])->graph, KN_ERROR_INTERNAL,
                  "%s '%s': its row has no attribute '%s'", node->op->name, node->name, name);
    return &nothing;
}
