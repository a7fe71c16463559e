/* Rows of plain numbers as samples, for koine infer. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer_input.h"

typedef struct number_rows {
    const char *shown;
    size_t width; /* numbers per row */
    bool whole;
    char *data; /* float or int32_t, which have the same size */
    size_t rows, room;
} number_rows;

static bool make_room(number_rows *read) {
    if (read->rows < read->room) return true;
    size_t room = read->room ? 2 * read->room : 64;
    if (room > SIZE_MAX / 8 / read->width) return false;
    char *more = realloc(read->data, room * read->width * sizeof(float));
    if (!more) return false;
    read->data = more;
    read->room = room;
    return true;
}

/* The number in a field; NAN if it is not a number. */
static double field_number(const char *field, const char **end) {
    char *after;
    double number = strtod(field, &after);
    bool some = after != field && isfinite(number);
    while (*after == ' ' || *after == '\t')
        after++;
    *end = after;
    return some && (*after == ',' || *after == 0) ? number : NAN;
}

/* Whether no field is a number. */
static bool is_heading(const char *text) {
    for (const char *field = text, *end; field; field = strchr(field, ',')) {
        field += field != text;
        if (!isnan(field_number(field, &end))) return false;
    }
    return true;
}

static bool read_row(number_rows *read, const char *text, size_t line) {
    for (size_t i = 0; i < read->width; i++) {
        const char *end;
        double number = field_number(text, &end);
        if (isnan(number) || (read->whole && (number != floor(number) || fabs(number) > INT32_MAX)))
            return command_error("%s, line %zu: expected a %s number in column %zu, found '%.*s'",
                                 read->shown, line, read->whole ? "whole" : "finite", i + 1,
                                 (int)strcspn(text, ","), text);
        size_t place = read->rows * read->width + i;
        if (read->whole)
            ((int32_t *)(void *)read->data)[place] = (int32_t)number;
        else
            ((float *)(void *)read->data)[place] = (float)number;
        bool last = i + 1 == read->width;
        if (*end != (last ? 0 : ','))
            return command_error("%s, line %zu: expected %zu numbers, as the model reads them, found %s",
                                 read->shown, line, read->width, last ? "more" : "less");
        text = end + 1;
    }
    read->rows++;
    return true;
}

static bool read_rows(number_rows *read, FILE *file) {
    char *text = NULL;
    size_t room = 0, line = 0;
    bool fine = true;
    for (ssize_t length; fine && (length = getline(&text, &room, file)) >= 0;) {
        while (length > 0 && strchr("\r\n \t", text[length - 1]))
            text[--length] = 0;
        /* skip a byte order mark */
        const char *row = !line++ && !strncmp(text, "\xEF\xBB\xBF", 3) ? text + 3 : text;
        if (!*row || (line == 1 && is_heading(row))) continue;
        fine = make_room(read) ? read_row(read, row, line)
                               : command_error("%s: out of memory for its rows", read->shown);
    }
    if (fine && ferror(file)) fine = command_error("%s: %s", read->shown, strerror(errno));
    free(text);
    return fine;
}

bool numbers_read(const kn_value *value, const char *path, const char *shown, kn_tensor_info *info,
                  char **data) {
    number_rows read = {.shown = shown, .width = 1, .whole = kn_value_dtype(value) == KN_INT32};
    const int rank = kn_value_rank(value);
    char wanted[160];
    kn_value_shape_text(value, wanted, sizeof wanted);
    bool known = rank > 0 && (read.whole || kn_value_dtype(value) == KN_FLOAT32);
    for (int d = 1; known && d < rank; d++) {
        int64_t size = kn_value_dimension(value, d);
        known = size > 0 && read.width <= (SIZE_MAX / 8) / (size_t)size;
        if (known) read.width *= (size_t)size;
    }
    if (!known)
        return command_error("the model's input '%s' is (%s), which rows of numbers cannot represent: "
                             "expected an array, X.npy",
                             kn_value_name(value), wanted);
    FILE *file = fopen(path, "r");
    if (!file) return command_error("cannot open \"%s\": %s", shown, strerror(errno));
    bool fine = read_rows(&read, file);
    fclose(file);
    *data = read.data;
    *info = (kn_tensor_info){kn_value_dtype(value), rank, {(int64_t)read.rows}};
    for (int d = 1; d < rank; d++)
        info->shape[d] = kn_value_dimension(value, d);
    return fine;
}
