/* Table cells as numbers: parsing of cells, and the numbers of a row. */
#include "data/columns_private.h"

#include <math.h>
#include <string.h>

#define TURN 6.28318530717958647692

/* ---- cells ------------------------------------------------------------------------------------ */

bool kn_cell_missing(const kn_csv_cell *cell) {
    static const char *const words[] = {"",    "NA",   "N/A",  "n/a",  "na", "NaN",
                                        "nan", "NULL", "null", "None", "?",  "-"};
    if (cell->length > 4 || (cell->length && !strchr("Nn?-", cell->text[0]))) return false; /* like most */
    for (size_t i = 0; i < KN_COUNT_OF(words); i++)
        if (kn_csv_cell_is(cell, words[i])) return true;
    return false;
}

bool kn_cell_number(const kn_csv *table, const kn_csv_cell *cell, double *number) {
    const bool comma = table->separator != ',';
    char text[64];
    double value;
    const char *end;
    if (cell->length == 0 || cell->length >= sizeof text) return false;
    if (kn_parse_short(cell->text, cell->length, comma ? ',' : '.', number)) return true;
    for (size_t i = 0; i < cell->length; i++) {
        text[i] = comma && cell->text[i] == ',' ? '.' : cell->text[i];
        if (!strchr("+-.0123456789eE", text[i]) || !text[i]) return false;
    }
    text[cell->length] = '\0';
    if (!kn_parse_double(text, &end, &value) || *end || !isfinite(value)) return false;
    *number = value;
    return true;
}

/* Reads 1 to `most` digits at *at; returns the number, or -1. */
static int read_digits(const char **at, const char *end, int most) {
    int number = 0, digits = 0;
    for (; *at < end && **at >= '0' && **at <= '9' && digits < most; ++*at, digits++)
        number = 10 * number + (**at - '0');
    return digits ? number : -1;
}

static bool skip(const char **at, const char *end, char separator) {
    if (*at == end || **at != separator) return false;
    ++*at;
    return true;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar; months count from March, so that the leap day is
 * last. */
static double days_of(int year, int month, int day) {
    int from_march = (month + 9) % 12, years = month <= 2 ? year - 1 : year;
    int century = years / 100;
    return 365.0 * years + years / 4 - century + century / 4 + (153 * from_march + 2) / 5 + day - 1 - 719468;
}

static bool is_day(int year, int month, int day) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1 || month < 1 || month > 12 || day < 1) return false;
    bool longer = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= lengths[month - 1] + longer;
}

bool kn_cell_date(const kn_csv_cell *cell, double *days, bool *time) {
    const char *at = cell->text, *end = at + cell->length;
    int first = read_digits(&at, end, 4), second, third, year, day, clock[3] = {0, 0, 0};
    if (first < 0 || at == end) return false;
    char separator = *at;
    if ((separator != '-' && separator != '/' && separator != '.') || !skip(&at, end, separator))
        return false;
    second = read_digits(&at, end, 2);
    if (second < 0 || !skip(&at, end, separator)) return false;
    third = read_digits(&at, end, 4);
    bool day_first = separator == '.';
    year = day_first ? third : first;
    day = day_first ? first : third;
    if (third < 0 || year < 1000 || !is_day(year, second, day)) return false;
    *time = false;
    if (at < end && (*at == 'T' || *at == ' ')) {
        at++;
        for (int i = 0; i < 3; i++) {
            if (i == 2 && (at == end || *at != ':')) break;
            if (i > 0 && !skip(&at, end, ':')) return false;
            if ((clock[i] = read_digits(&at, end, 2)) < 0 || clock[i] > (i == 0 ? 23 : 59)) return false;
        }
        if (skip(&at, end, '.') && read_digits(&at, end, 9) < 0) return false;
        skip(&at, end, 'Z');
        *time = true;
    }
    *days = days_of(year, second, day) + (clock[0] * 3600 + clock[1] * 60 + clock[2]) / 86400.0;
    return at == end;
}

/* ---- rows ------------------------------------------------------------------------------------- */

size_t kn_column_width(const kn_column *column) {
    size_t own = 0;
    if (column->kind == KN_COLUMN_NUMBER) own = 1;
    if (column->kind == KN_COLUMN_CATEGORY) own = column->value_count + column->others;
    if (column->kind == KN_COLUMN_DATE) own = column->time ? 5 : 3;
    return own ? own + column->missing : 0;
}

size_t kn_columns_width(const kn_columns *columns) {
    size_t width = 0;
    for (size_t i = 0; i < columns->count; i++)
        width += kn_column_width(&columns->inputs[i]);
    return width;
}

/* The index of a value among those of its column; value_count if it is missing. */
static size_t index_of(const kn_column *column, const kn_csv_cell *cell) {
    size_t i = 0;
    while (i < column->value_count && ((cell->length && cell->text[0] != column->values[i][0]) ||
                                       !kn_csv_cell_is(cell, column->values[i])))
        i++;
    return i;
}

static kn_status fail_cell(const char *name, const kn_column *column, size_t row, const kn_csv_cell *cell,
                           const char *expected, kn_error *error) {
    return kn_fail(error, KN_ERROR_FORMAT, "%s: row %zu, column \"%s\": found \"%.*s\", expected %s", name,
                   row + 1, column->name, (int)(cell->length < 60 ? cell->length : 60), cell->text, expected);
}

static float standardised(const kn_column *column, double value) {
    return (float)((value - column->mean) / column->deviation);
}

/* Writes the numbers of one input; x is all zero on entry. */
static kn_status input_numbers(const char *name, const kn_csv *table, const kn_column *column, size_t row,
                               float *x, kn_error *error) {
    const kn_csv_cell own = kn_csv_at(table, row, column->cell), *cell = &own;
    bool time;
    double value;
    if (kn_cell_missing(cell)) {
        if (column->missing) x[kn_column_width(column) - 1] = 1;
        return KN_OK;
    }
    if (column->kind == KN_COLUMN_CATEGORY) {
        size_t index = index_of(column, cell);
        if (index < column->value_count || column->others) x[index] = 1;
        return KN_OK;
    }
    if (column->kind == KN_COLUMN_NUMBER) {
        if (!kn_cell_number(table, cell, &value))
            return fail_cell(name, column, row, cell, "a number", error);
        x[0] = standardised(column, value);
        return KN_OK;
    }
    if (!kn_cell_date(cell, &value, &time))
        return fail_cell(name, column, row, cell, "a date such as 2024-05-31", error);
    x[0] = standardised(column, value);
    x[1] = (float)sin(TURN * value / 365.2425);
    x[2] = (float)cos(TURN * value / 365.2425);
    if (column->time) {
        x[3] = (float)sin(TURN * (value - floor(value)));
        x[4] = (float)cos(TURN * (value - floor(value)));
    }
    return KN_OK;
}

kn_status kn_columns_row(const char *name, const kn_csv *table, const kn_columns *columns, size_t row,
                         float *x, kn_error *error) {
    for (size_t i = 0; i < columns->count; i++) {
        const kn_column *column = &columns->inputs[i];
        size_t width = kn_column_width(column);
        for (size_t j = 0; j < width; j++)
            x[j] = 0;
        kn_status status = width ? input_numbers(name, table, column, row, x, error) : KN_OK;
        if (status != KN_OK) return status;
        x += width;
    }
    return KN_OK;
}

kn_status kn_columns_target(const char *name, const kn_csv *table, const kn_columns *columns, size_t row,
                            float *number, int32_t *class_number, bool *there, kn_error *error) {
    const kn_column *target = &columns->target;
    const kn_csv_cell own = kn_csv_at(table, row, target->cell), *cell = &own;
    double value;
    *there = !kn_cell_missing(cell);
    if (!*there) return KN_OK;
    if (target->kind == KN_COLUMN_CATEGORY) {
        size_t index = index_of(target, cell);
        if (index == target->value_count)
            return fail_cell(name, target, row, cell, "a class of the model", error);
        *class_number = (int32_t)index;
        return KN_OK;
    }
    if (!kn_cell_number(table, cell, &value)) return fail_cell(name, target, row, cell, "a number", error);
    *number = standardised(target, value);
    return KN_OK;
}

kn_status kn_columns_match(const char *name, const kn_csv *table, kn_columns *columns, kn_error *error) {
    for (size_t i = 0; i <= columns->count; i++) {
        kn_column *column = i < columns->count ? &columns->inputs[i] : &columns->target;
        column->cell = SIZE_MAX;
        for (size_t j = 0; j < table->columns; j++)
            if (kn_csv_cell_is(&table->names[j], column->name)) column->cell = j;
        if (column->cell == SIZE_MAX && i < columns->count && column->kind != KN_COLUMN_SKIPPED)
            return kn_fail(error, KN_ERROR_NOT_FOUND,
                           "%s lacks the column \"%s\" that the model was trained on", name, column->name);
    }
    return KN_OK;
}
