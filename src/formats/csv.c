/* CSV: a line of names, then a line for each row, as RFC 4180 has it; the separator is found from the first line. */
#include "formats/formats_private.h"

#include <string.h>

enum { COLUMNS_MAX = 1 << 16 };

typedef struct reader {
    const char *name;
    const uint8_t *bytes;
    uint64_t count, at, line;
    char separator;
} reader;

const kn_csv_cell *kn_csv_at(const kn_csv *table, size_t row, size_t column) {
    return &table->cells[row * table->columns + column];
}

bool kn_csv_cell_is(const kn_csv_cell *cell, const char *text) {
    return strlen(text) == cell->length && memcmp(text, cell->text, cell->length) == 0;
}

/* The most frequent of the separators in the first line, outside quotes; a comma if there is none. */
static char find_separator(const uint8_t *bytes, uint64_t count) {
    static const char separators[] = ",;\t";
    uint64_t found[3] = {0};
    bool quoted = false;
    for (uint64_t i = 0; i < count && (quoted || (bytes[i] != '\n' && bytes[i] != '\r')); i++) {
        if (bytes[i] == '"') quoted = !quoted;
        const char *place = quoted || !bytes[i] ? NULL : strchr(separators, bytes[i]);
        if (place) found[place - separators]++;
    }
    int best = 0;
    for (int i = 1; i < 3; i++)
        if (found[i] > found[best]) best = i;
    return separators[best];
}

static bool at_end_of_line(const reader *read) {
    return read->at == read->count || read->bytes[read->at] == '\n' || read->bytes[read->at] == '\r';
}

/* Over the end of a line: "\n", "\r\n" or "\r". */
static void skip_end(reader *read) {
    if (read->at < read->count && read->bytes[read->at] == '\r') {
        read->at++;
        if (read->at < read->count && read->bytes[read->at] == '\n') read->at++;
    } else if (read->at < read->count) {
        read->at++;
    }
    read->line++;
}

/* To the first line from here on that has something in it; false at the end. */
static bool next_line(reader *read) {
    while (read->at < read->count && at_end_of_line(read))
        skip_end(read);
    return read->at < read->count;
}

/* A cell in quotes, which may hold separators, ends of lines, and quotes written twice. */
static kn_status read_quoted(reader *read, kn_arena *arena, kn_csv_cell *cell, kn_error *error) {
    const uint64_t line = read->line, first = ++read->at;
    uint64_t doubled = 0;
    for (;; read->at++) {
        if (read->at == read->count)
            return kn_fail(error, KN_ERROR_FORMAT, "%s: line %llu: a quote is opened and never closed",
                           read->name, (unsigned long long)line);
        if (read->bytes[read->at] == '\n') read->line++;
        if (read->bytes[read->at] != '"') continue;
        if (read->at + 1 == read->count || read->bytes[read->at + 1] != '"') break;
        doubled++;
        read->at++;
    }
    *cell = (kn_csv_cell){(const char *)read->bytes + first, (size_t)(read->at - first)};
    read->at++;
    if (!at_end_of_line(read) && (char)read->bytes[read->at] != read->separator)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: line %llu: text behind the closing quote of a value; a quote within one is written twice",
                       read->name, (unsigned long long)read->line);
    if (!doubled || !arena) return KN_OK;
    char *text = kn_arena_take(arena, cell->length, 1);
    if (!text) return kn_fail_memory(error, cell->length);
    size_t length = 0;
    for (size_t i = 0; i < cell->length; i++) {
        text[length++] = cell->text[i];
        if (cell->text[i] == '"') i++;
    }
    *cell = (kn_csv_cell){text, length};
    return KN_OK;
}

/* Without the blanks around it, which people write behind commas. */
static void read_bare(reader *read, kn_csv_cell *cell) {
    uint64_t first = read->at;
    while (!at_end_of_line(read) && (char)read->bytes[read->at] != read->separator)
        read->at++;
    uint64_t end = read->at;
    while (first < end && read->bytes[first] == ' ')
        first++;
    while (end > first && read->bytes[end - 1] == ' ')
        end--;
    *cell = (kn_csv_cell){(const char *)read->bytes + first, (size_t)(end - first)};
}

/* The cells of one line go to cells[0..most); all are counted. With a NULL arena only that. */
static kn_status read_line(reader *read, kn_arena *arena, kn_csv_cell *cells, size_t most, size_t *count,
                           kn_error *error) {
    for (*count = 0;;) {
        kn_csv_cell cell;
        if (read->at < read->count && read->bytes[read->at] == '"') {
            kn_status status = read_quoted(read, arena, &cell, error);
            if (status != KN_OK) return status;
        } else {
            read_bare(read, &cell);
        }
        if (*count < most && cells) cells[*count] = cell;
        ++*count;
        if (at_end_of_line(read)) break;
        read->at++; /* the separator, behind which one more cell always stands */
    }
    skip_end(read);
    return KN_OK;
}

/* How many rows there are; each must have as many cells as the first line has names. */
static kn_status count_rows(reader read, size_t columns, uint64_t *rows, kn_error *error) {
    for (*rows = 0; next_line(&read); ++*rows) {
        uint64_t line = read.line;
        size_t found;
        kn_status status = read_line(&read, NULL, NULL, 0, &found, error);
        if (status != KN_OK) return status;
        if (found != columns)
            return kn_fail(error, KN_ERROR_FORMAT, "%s: line %llu: %zu values, expected %zu as in the first line",
                           read.name, (unsigned long long)line, found, columns);
    }
    return KN_OK;
}

/* What stands in cells becomes names and JSON. */
static kn_status check_text(const reader *read, kn_error *error) {
    uint64_t line = 1, at = 0;
    uint32_t code;
    while (at < read->count) {
        const size_t length = kn_utf8_read(read->bytes + at, read->count - at, &code);
        if (length == 0)
            return kn_fail(error, KN_ERROR_FORMAT, "%s: line %llu: bytes that are no UTF-8, which a table is expected in",
                           read->name, (unsigned long long)line);
        line += read->bytes[at] == '\n';
        at += length;
    }
    return KN_OK;
}

kn_status kn_csv_read(kn_arena *arena, const char *name, const uint8_t *bytes, uint64_t count, kn_csv *table,
                      kn_error *error) {
    *table = (kn_csv){0};
    if (count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) { /* a mark that says UTF-8 */
        bytes += 3;
        count -= 3;
    }
    reader read = {name, bytes, count, 0, 1, ','};
    kn_status text = check_text(&read, error);
    if (text != KN_OK) return text;
    if (!next_line(&read))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: nothing in it; expected a first line with the names of columns",
                       name);
    read.separator = find_separator(bytes + read.at, count - read.at);
    kn_csv made = {.separator = read.separator};
    reader again = read;
    kn_status status = read_line(&read, NULL, NULL, 0, &made.columns, error);
    if (status != KN_OK) return status;
    if (made.columns > COLUMNS_MAX)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: %zu columns, at most %d are possible", name, made.columns,
                       COLUMNS_MAX);
    uint64_t rows;
    status = count_rows(read, made.columns, &rows, error);
    if (status != KN_OK) return status;
    made.rows = (size_t)rows;
    kn_csv_cell *cells = kn_arena_take(arena, (made.rows + 1) * made.columns, sizeof *cells);
    if (!cells) return kn_fail_memory(error, (made.rows + 1) * made.columns * sizeof *cells);
    made.names = cells;
    made.cells = cells + made.columns;
    for (size_t row = 0; row <= made.rows; row++) {
        size_t found;
        next_line(&again);
        status = read_line(&again, arena, cells + row * made.columns, made.columns, &found, error);
        if (status != KN_OK) return status;
    }
    *table = made;
    return KN_OK;
}
