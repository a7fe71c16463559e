/* The description of a table's columns as JSON, which is stored with a model. */
#include "data/columns_private.h"

#include <string.h>

enum { SIZE_LIMIT = 16 << 20, DEPTH_LIMIT = 8, FORMAT = 1 };

static const char *const kind_words[] = {"skipped", "number", "category", "date"};

/* ---- writing ---------------------------------------------------------------------------------- */

static void add_flag(kn_text *text, const char *name, bool flag) {
    if (flag) kn_text_format(text, ",\"%s\":true", name);
}

static void add_column(kn_text *text, const kn_column *column) {
    kn_text_add(text, "{\"name\":");
    kn_text_json(text, column->name);
    kn_text_format(text, ",\"kind\":\"%s\"", kind_words[column->kind]);
    if (column->kind == KN_COLUMN_NUMBER || column->kind == KN_COLUMN_DATE) {
        kn_text_add(text, ",\"mean\":");
        kn_text_json_number(text, column->mean);
        kn_text_add(text, ",\"deviation\":");
        kn_text_json_number(text, column->deviation);
    }
    if (column->kind == KN_COLUMN_CATEGORY) {
        kn_text_add(text, ",\"values\":[");
        for (size_t i = 0; i < column->value_count; i++) {
            if (i) kn_text_add(text, ",");
            kn_text_json(text, column->values[i]);
        }
        kn_text_add(text, "]");
    }
    add_flag(text, "others", column->others);
    add_flag(text, "time", column->time);
    add_flag(text, "missing", column->missing);
    kn_text_add(text, "}");
}

char *kn_columns_text(const kn_host *host, const kn_columns *columns) {
    kn_text text;
    kn_text_init(&text, host);
    kn_text_format(&text, "{\"format\":%d,\"target\":", FORMAT);
    add_column(&text, &columns->target);
    kn_text_add(&text, ",\"inputs\":[");
    for (size_t i = 0; i < columns->count; i++) {
        if (i) kn_text_add(&text, ",");
        add_column(&text, &columns->inputs[i]);
    }
    kn_text_add(&text, "]}");
    return kn_text_take(&text);
}

static void add_about(kn_text *text, const kn_column *column, bool target) {
    kn_text_format(text, "  %s: ", column->name);
    if (column->kind == KN_COLUMN_SKIPPED) kn_text_add(text, "skipped");
    if (column->kind == KN_COLUMN_NUMBER) kn_text_add(text, "number, mean ");
    if (column->kind == KN_COLUMN_DATE) kn_text_add(text, column->time ? "date and time" : "date");
    if (column->kind == KN_COLUMN_NUMBER) {
        kn_text_number_float(text, (float)column->mean);
        kn_text_add(text, ", deviation ");
        kn_text_number_float(text, (float)column->deviation);
    }
    if (column->kind == KN_COLUMN_CATEGORY) {
        kn_text_format(text, target ? "%zu classes" : "category of %zu", column->value_count);
        for (size_t i = 0; i < column->value_count && i < 6; i++)
            kn_text_format(text, "%s%s", i ? ", " : ": ", column->values[i]);
        if (column->value_count > 6) kn_text_add(text, ", …");
        if (column->others) kn_text_add(text, " and other values");
    }
    if (column->absent) kn_text_format(text, ", %zu missing", column->absent);
    kn_text_add(text, target ? " (target)\n" : "\n");
}

char *kn_columns_about(const kn_host *host, const kn_columns *columns, size_t rows, size_t count) {
    kn_text text;
    kn_text_init(&text, host);
    kn_text_format(&text, "%zu columns become %zu inputs\n", columns->count, kn_columns_width(columns));
    for (size_t i = 0; i < columns->count; i++)
        add_about(&text, &columns->inputs[i], false);
    add_about(&text, &columns->target, true);
    if (count < rows) kn_text_format(&text, "  %zu rows without a target are skipped\n", rows - count);
    if (text.length) text.data[--text.length] = '\0'; /* removes the last newline */
    return kn_text_take(&text);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static const char *text_of(const kn_json *object, const char *key) {
    const kn_json *member = kn_json_member(object, key);
    return member && member->kind == KN_JSON_STRING && strlen(member->text) == member->length ? member->text
                                                                                              : NULL;
}

static bool flag_of(const kn_json *object, const char *key) {
    const kn_json *member = kn_json_member(object, key);
    return member && member->kind == KN_JSON_BOOL && member->truth;
}

static bool read_values(kn_arena *arena, const kn_json *list, kn_column *column) {
    if (!list || list->kind != KN_JSON_ARRAY) return false;
    column->values = kn_arena_take(arena, list->count + 1, sizeof *column->values);
    if (!column->values) return false;
    for (const kn_json *item = list->first; item; item = item->next) {
        if (item->kind != KN_JSON_STRING || strlen(item->text) != item->length) return false;
        column->values[column->value_count++] = item->text;
    }
    return true;
}

static bool read_column(kn_arena *arena, const kn_json *object, kn_column *column) {
    const char *kind = text_of(object, "kind");
    *column = (kn_column){.name = text_of(object, "name"), .deviation = 1, .cell = SIZE_MAX};
    size_t found = 0;
    while (kind && found < KN_COUNT_OF(kind_words) && strcmp(kind_words[found], kind) != 0)
        found++;
    if (!column->name || !kind || found == KN_COUNT_OF(kind_words)) return false;
    column->kind = (kn_column_kind)found;
    column->others = flag_of(object, "others");
    column->time = flag_of(object, "time");
    column->missing = flag_of(object, "missing");
    if (column->kind == KN_COLUMN_CATEGORY)
        return read_values(arena, kn_json_member(object, "values"), column);
    if (column->kind == KN_COLUMN_SKIPPED) return true;
    const kn_json *mean = kn_json_member(object, "mean"), *deviation = kn_json_member(object, "deviation");
    if (!mean || mean->kind != KN_JSON_NUMBER || !deviation || !(deviation->number > 0)) return false;
    column->mean = mean->number;
    column->deviation = deviation->number;
    return true;
}

kn_status kn_columns_read(kn_arena *arena, const char *text, kn_columns *columns, kn_error *error) {
    *columns = (kn_columns){0};
    kn_json *root;
    kn_status status = kn_json_read(arena, "the columns of a table", text, strlen(text), SIZE_LIMIT,
                                    DEPTH_LIMIT, &root, error);
    if (status != KN_OK) return status;
    int64_t format = 0;
    const kn_json *inputs = kn_json_member(root, "inputs"), *version = kn_json_member(root, "format");
    if (!version || !kn_json_int64(version, &format) || format != FORMAT)
        return kn_fail(error, KN_ERROR_FORMAT, "table columns: format %lld; expected %d", (long long)format,
                       FORMAT);
    bool fine = inputs && inputs->kind == KN_JSON_ARRAY;
    columns->inputs = kn_arena_take(arena, fine ? inputs->count + 1 : 1, sizeof *columns->inputs);
    if (!columns->inputs) return kn_fail_memory(error, sizeof *columns->inputs);
    fine = fine && read_column(arena, kn_json_member(root, "target"), &columns->target);
    for (const kn_json *item = fine ? inputs->first : NULL; item && fine; item = item->next)
        fine = read_column(arena, item, &columns->inputs[columns->count++]);
    if (fine) return KN_OK;
    return kn_fail(error, KN_ERROR_FORMAT,
                   "table columns differ from the format of kn_dataset_columns: expected inputs and a "
                   "target, each with name, kind and the fields of its kind");
}
