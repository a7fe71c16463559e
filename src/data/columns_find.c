/* Detects what the columns of a table hold: numbers, dates or categories, with their statistics. */
#include "data/columns_private.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

/* With more than FEW_ROWS rows, text that never repeats is a key. A category has at most MAX_VALUES values, a
 * target at most MAX_CLASSES classes; a target with up to MAX_NUMBERED consecutive integers from 0 or 1 is a
 * class index. */
enum { FEW_ROWS = 16, MAX_VALUES = 64, MAX_CLASSES = 4096, MAX_NUMBERED = 32 };

/* A value of a column and its number of occurrences. */
typedef struct counted {
    const char *text;
    size_t count;
    double number;
} counted;

/* The analysis of one column. */
typedef struct survey {
    kn_arena *arena; /* for this analysis only */
    const kn_csv *table;
    const char *name;
    double *numbers; /* (rows): for a column of numbers or dates the value of each row, NaN if missing */
    kn_error *error;
} survey;

/* Copies a cell to an arena as a terminated string; NULL when out of memory. */
static char *copy_cell(kn_arena *arena, const kn_csv_cell *cell) {
    char *text = kn_arena_take(arena, cell->length + 1, 1);
    if (text) memcpy(text, cell->text, cell->length);
    return text;
}

/* The kind that all present cells parse as: no cell is both a number and a date. Counts missing cells. */
static kn_column_kind kind_of(const survey *look, size_t at, kn_column *column) {
    const kn_csv *table = look->table;
    bool numbers = true, dates = true;
    for (size_t row = 0; row < table->rows; row++) {
        const kn_csv_cell own = kn_csv_at(table, row, at), *cell = &own;
        bool time = false;
        if (kn_cell_missing(cell)) {
            column->absent++;
            look->numbers[row] = NAN;
            continue;
        }
        numbers = numbers && kn_cell_number(table, cell, &look->numbers[row]);
        dates = dates && kn_cell_date(cell, &look->numbers[row], &time);
        column->time = column->time || time;
    }
    if (column->absent == table->rows) return KN_COLUMN_SKIPPED;
    return dates ? KN_COLUMN_DATE : numbers ? KN_COLUMN_NUMBER : KN_COLUMN_CATEGORY;
}

/* Computes mean and deviation of look->numbers. */
static void measure(const survey *look, kn_column *column) {
    double sum = 0, squares = 0;
    size_t there = 0;
    for (size_t row = 0; row < look->table->rows; row++)
        if (!isnan(look->numbers[row])) {
            there++;
            sum += look->numbers[row];
        }
    column->mean = there ? sum / (double)there : 0;
    if (!isfinite(column->mean)) column->mean = 0;
    for (size_t row = 0; row < look->table->rows; row++) {
        const double value = look->numbers[row];
        if (!isnan(value)) squares += (value - column->mean) * (value - column->mean);
    }
    column->deviation = there ? sqrt(squares / (double)there) : 0;
    if (!(column->deviation > 0) || !isfinite(column->deviation)) column->deviation = 1;
}

static int by_number(const void *left, const void *right) {
    const counted *a = left, *b = right;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return strcmp(a->text, b->text);
}

static int by_text(const void *left, const void *right) {
    const counted *a = left, *b = right;
    return strcmp(a->text, b->text);
}

static int by_count(const void *left, const void *right) {
    const counted *a = left, *b = right;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return strcmp(a->text, b->text);
}

/* Counts the distinct values of a column, up to `most`; *all_numbers: each is a number. */
static kn_status count_values(const survey *look, size_t at, size_t most, counted **values, size_t *count,
                              bool *all_numbers) {
    const kn_csv *table = look->table;
    kn_map counts;
    kn_status status = KN_OK;
    size_t used = 0;
    kn_map_init(&counts, look->arena->host);
    counted *list = kn_arena_take(look->arena, table->rows + 1, sizeof *list);
    if (!list) status = kn_fail_memory(look->error, (table->rows + 1) * sizeof *list);
    *all_numbers = true;
    for (size_t row = 0; row < table->rows && used < most && status == KN_OK; row++) {
        const kn_csv_cell own = kn_csv_at(table, row, at), *cell = &own;
        if (kn_cell_missing(cell)) continue;
        counted *entry = kn_map_get(&counts, cell->text, cell->length);
        if (!entry) {
            entry = &list[used++];
            const char *text = copy_cell(look->arena, cell);
            if (!text || !kn_map_put(&counts, cell->text, cell->length, entry)) {
                status = kn_fail_memory(look->error, cell->length);
                break;
            }
            entry->text = text;
            if (!kn_csv_cell_is(cell, text)) /* a zero byte would end the string early */
                status = kn_fail(look->error, KN_ERROR_FORMAT, "%s: row %zu has a zero byte; expected text",
                                 look->name, row + 1);
            *all_numbers = kn_cell_number(table, cell, &entry->number) && *all_numbers;
        }
        entry->count++;
    }
    kn_map_finish(&counts);
    *values = list;
    *count = used;
    return status;
}

/* The values of a category: all of them, or the most frequent ones plus an entry for the rest. A column with
 * distinct text in most rows is a name or a key, and is skipped. */
static kn_status find_category(const survey *look, size_t at, kn_column *column, counted **values,
                               size_t *count) {
    bool numbers;
    kn_status status = count_values(look, at, SIZE_MAX, values, count, &numbers);
    if (status != KN_OK) return status;
    size_t there = look->table->rows - column->absent;
    if ((*count > MAX_VALUES && 2 * *count > there) || (*count == there && *count > FEW_ROWS)) {
        column->kind = KN_COLUMN_SKIPPED;
        *count = 0;
        return KN_OK;
    }
    qsort(*values, *count, sizeof **values, by_count);
    column->others = *count > MAX_VALUES;
    if (column->others) *count = MAX_VALUES - 1;
    qsort(*values, *count, sizeof **values, by_text);
    return KN_OK;
}

/* Whether the values are consecutive integers from 0 or 1; `values` is sorted by number. */
static bool are_numbered(const counted *values, size_t count) {
    if (count < 2 || count > MAX_NUMBERED || (values[0].number != 0 && values[0].number != 1)) return false;
    for (size_t i = 1; i < count; i++)
        if (values[i].number != values[0].number + (double)i) return false;
    return true;
}

/* The values become the classes; *count 0: the target is not a class. */
static kn_status find_target(const survey *look, size_t at, const kn_column_options *wanted,
                             kn_column *target, counted **values, size_t *count) {
    kn_column seen = *target;
    const bool plain = kind_of(look, at, &seen) == KN_COLUMN_NUMBER && !wanted->classes;
    bool numbers;
    /* Numbers with more distinct values are not classes, so stop counting. */
    kn_status status = count_values(look, at, plain ? MAX_NUMBERED + 1 : SIZE_MAX, values, count, &numbers);
    if (status != KN_OK) return status;
    if (*count == 0)
        return kn_fail(look->error, KN_ERROR_SHAPE, "%s: target \"%s\" is empty in all rows", look->name,
                       target->name);
    qsort(*values, *count, sizeof **values, numbers ? by_number : by_text);
    bool classes = !numbers || wanted->classes || (!wanted->number && are_numbered(*values, *count));
    if (classes && wanted->number)
        return kn_fail(look->error, KN_ERROR_FORMAT,
                       "%s: target \"%s\" has the value \"%.60s\"; expected numbers", look->name,
                       target->name, (*values)[0].text);
    target->kind = classes ? KN_COLUMN_CATEGORY : KN_COLUMN_NUMBER;
    target->missing = false;
    if (!classes) {
        *count = 0;
        measure(look, target);
        return KN_OK;
    }
    if (*count > MAX_CLASSES)
        return kn_fail(look->error, KN_ERROR_UNSUPPORTED,
                       "%s: target \"%s\" has %zu distinct texts; at most %d classes are supported",
                       look->name, target->name, *count, MAX_CLASSES);
    return KN_OK;
}

/* Whether a name is in a comma-separated list; `room` has the size of the list. */
static bool is_listed(const char *list, char *room, const char *name) {
    for (const char *at = list; at; at = *at ? at + 1 : NULL) {
        at += kn_spec_name(room, at);
        if (strcmp(room, name) == 0) return true;
    }
    return false;
}

static kn_status find_input(const survey *look, size_t at, const kn_column_options *wanted, kn_column *column,
                            counted **values, size_t *count) {
    const kn_column_kind kind = kind_of(look, at, column);
    column->missing = column->absent > 0;
    char *room = wanted->without ? kn_arena_take(look->arena, strlen(wanted->without) + 1, 1) : NULL;
    if (wanted->without && !room) return kn_fail_memory(look->error, strlen(wanted->without) + 1);
    if (is_listed(wanted->without, room, column->name)) {
        column->time = false;
        return KN_OK;
    }
    column->kind = kind;
    if (kind == KN_COLUMN_CATEGORY) return find_category(look, at, column, values, count);
    if (kind != KN_COLUMN_SKIPPED) measure(look, column);
    return KN_OK;
}

/* ---- all columns ------------------------------------------------------------------------------------ */

typedef struct columns_job {
    kn_arena *arena;
    kn_mutex *mutex; /* guards the arena */
    const kn_csv *table;
    const char *name;
    const kn_column_options *wanted;
    kn_columns *columns;
    size_t target;
} columns_job;

/* Copies values to the shared arena. */
static kn_status keep_values(const columns_job *job, kn_column *column, const counted *values, size_t count,
                             kn_error *error) {
    kn_mutex_lock(job->mutex);
    column->values = kn_arena_take(job->arena, count + 1, sizeof *column->values);
    bool fine = column->values != NULL;
    for (size_t i = 0; i < count && fine; i++)
        fine = (column->values[i] = kn_arena_text(job->arena, values[i].text)) != NULL;
    kn_mutex_unlock(job->mutex);
    column->value_count = fine ? count : 0;
    return fine ? KN_OK : kn_fail_memory(error, (count + 1) * sizeof *column->values);
}

/* Analyses the inputs in order, then the target. */
static kn_status find_one(void *user, size_t index, kn_error *error) {
    const columns_job *job = user;
    const bool last = index + 1 == job->columns->count;
    const size_t at = last ? job->target : index + (index >= job->target);
    kn_column *column = last ? &job->columns->target : &job->columns->inputs[at];
    const kn_host *host = job->arena->host;
    kn_arena arena;
    kn_arena_init(&arena, host);
    const survey look = {&arena, job->table, job->name,
                         kn_resize(host, NULL, job->table->rows + 1, sizeof *look.numbers), error};
    counted *values = NULL;
    size_t count = 0;
    kn_status status = !look.numbers ? kn_fail_memory(error, (job->table->rows + 1) * sizeof *look.numbers)
                       : last        ? find_target(&look, at, job->wanted, column, &values, &count)
                                     : find_input(&look, at, job->wanted, column, &values, &count);
    if (status == KN_OK && count) status = keep_values(job, column, values, count, error);
    kn_release(host, look.numbers);
    kn_arena_finish(&arena);
    return status;
}

static kn_status find_all(columns_job *job, kn_error *error) {
    job->mutex = kn_mutex_create(job->arena->host);
    if (!job->mutex) return kn_fail_memory(error, sizeof(void *));
    kn_status status = kn_in_parallel(job->arena->host, job->columns->count, find_one, job, error);
    kn_mutex_destroy(job->arena->host, &job->mutex);
    return status;
}

static kn_status fail_target(const char *table, const kn_columns *columns, const char *wished,
                             kn_error *error) {
    char list[300] = "";
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < columns->count; i++) {
        size_t used = strlen(list);
        const char *own = columns->inputs[i].name, *quote = strchr(own, ',') ? "\"" : "";
        if (used + strlen(own) + 8 < sizeof list)
            snprintf(list + used, sizeof list - used, "%s%s%s%s", i ? ", " : "", quote, own, quote);
        if (count < KN_COUNT_OF(names)) names[count++] = columns->inputs[i].name;
    }
    const char *near = wished ? kn_nearest_word(wished, names, count) : NULL;
    if (!wished)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "data \"csv:%s\": name the target column: csv:%s,target=COLUMN; the columns are: %s",
                       table, table, list);
    return kn_fail(error, KN_ERROR_NOT_FOUND, "%s has no column \"%s\"; it has %s%s%s%s", table, wished, list,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* Reads the names of the columns, which must be distinct. */
static kn_status name_columns(kn_arena *arena, const char *file, const kn_csv *table, kn_columns *columns,
                              kn_error *error) {
    columns->inputs = kn_arena_take(arena, table->columns, sizeof *columns->inputs);
    if (!columns->inputs) return kn_fail_memory(error, table->columns * sizeof *columns->inputs);
    kn_map seen;
    kn_status status = KN_OK;
    kn_map_init(&seen, arena->host);
    for (size_t i = 0; i < table->columns && status == KN_OK; i++) {
        const kn_csv_cell *cell = &table->names[i];
        char *name = copy_cell(arena, cell);
        if (!name) {
            status = kn_fail_memory(error, cell->length);
            break;
        }
        columns->inputs[i] = (kn_column){.name = name, .deviation = 1, .cell = i};
        if (!name[0] || !kn_csv_cell_is(cell, name))
            status = kn_fail(error, KN_ERROR_FORMAT,
                             "%s: column %zu has no name in the first line; expected a name for each column",
                             file, i + 1);
        else if (kn_map_get_text(&seen, name))
            status = kn_fail(error, KN_ERROR_FORMAT, "%s: two columns are named \"%s\"", file, name);
        else if (!kn_map_put_text(&seen, name, name))
            status = kn_fail_memory(error, cell->length);
    }
    kn_map_finish(&seen);
    columns->count = table->columns;
    return status;
}

kn_status kn_columns_find(kn_arena *arena, const char *name, const kn_csv *table,
                          const kn_column_options *wanted, kn_columns *columns, kn_error *error) {
    *columns = (kn_columns){0};
    kn_status status = name_columns(arena, name, table, columns, error);
    if (status != KN_OK) return status;
    size_t target = 0;
    while (wanted->target && target < columns->count &&
           strcmp(columns->inputs[target].name, wanted->target) != 0)
        target++;
    if (!wanted->target || target == columns->count) return fail_target(name, columns, wanted->target, error);
    columns->target = columns->inputs[target];
    columns_job job = {
        .arena = arena, .table = table, .name = name, .wanted = wanted, .columns = columns, .target = target};
    status = find_all(&job, error);
    /* The target is not an input. */
    for (size_t i = target; i + 1 < columns->count; i++)
        columns->inputs[i] = columns->inputs[i + 1];
    columns->count--;
    if (status == KN_OK && kn_columns_width(columns) == 0)
        status = kn_fail(error, KN_ERROR_SHAPE, "%s has no column besides the target \"%s\"", name,
                         wanted->target);
    return status;
}
