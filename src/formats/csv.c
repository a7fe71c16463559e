/* CSV as in RFC 4180: a line of names, then one line per row; the separator is detected from the first line.
 * Several threads read the rows in chunks. */
#include "formats/formats_private.h"

#include <string.h>

/* A code of a cell is its offset, in the file or beyond its end in the unquoted text, and its length in
 * LENGTH_BITS bits. */
enum { COLUMNS_MAX = 1 << 16, PIECE = 1 << 20, LENGTH_BITS = 24, LENGTH_MAX = (1 << LENGTH_BITS) - 1 };
#define BYTES_MAX ((uint64_t)1 << 39)

typedef struct reader {
    const char *name;
    const uint8_t *bytes;
    uint64_t count, at, line;
    char separator;
    /* total bytes so far of cells with doubled quotes; the offset of the next cell's unquoted text */
    uint64_t doubled;
    char *unquoted; /* unquoted text of these cells; NULL: not wanted */
} reader;

/* The cell of a code. */
static kn_csv_cell cell_at(const uint8_t *bytes, uint64_t count, const char *unquoted, uint64_t code) {
    const uint64_t at = code >> LENGTH_BITS;
    return (kn_csv_cell){at < count ? (const char *)bytes + at : unquoted + (at - count),
                         (size_t)(code & LENGTH_MAX)};
}

kn_csv_cell kn_csv_at(const kn_csv *table, size_t row, size_t column) {
    return cell_at(table->bytes, table->count, table->unquoted, table->codes[row * table->columns + column]);
}

bool kn_csv_cell_is(const kn_csv_cell *cell, const char *text) {
    return strlen(text) == cell->length && memcmp(text, cell->text, cell->length) == 0;
}

/* The most frequent separator in the first line, outside quotes; a comma if there is none. */
static char find_separator(const uint8_t *bytes, uint64_t count) {
    static const char separators[] = ",;\t";
    uint64_t found[3] = {0};
    bool quoted = false;
    for (uint64_t i = 0; i < count && (quoted || (bytes[i] != '\n' && bytes[i] != '\r')); i++) {
        if (bytes[i] == '"') quoted = !quoted;
        const char *code = quoted || !bytes[i] ? NULL : strchr(separators, bytes[i]);
        if (code) found[code - separators]++;
    }
    int best = 0;
    for (int i = 1; i < 3; i++)
        if (found[i] > found[best]) best = i;
    return separators[best];
}

static bool at_end_of_line(const reader *read) {
    return read->at == read->count || read->bytes[read->at] == '\n' || read->bytes[read->at] == '\r';
}

/* Skips the end of a line: "\n", "\r\n" or "\r". */
static void skip_end(reader *read) {
    if (read->at < read->count && read->bytes[read->at] == '\r') {
        read->at++;
        if (read->at < read->count && read->bytes[read->at] == '\n') read->at++;
    } else if (read->at < read->count) {
        read->at++;
    }
    read->line++;
}

/* Moves to the next non-empty line; false at the end. */
static bool next_line(reader *read) {
    while (read->at < read->count && at_end_of_line(read))
        skip_end(read);
    return read->at < read->count;
}

/* Reads a quoted cell, which may contain separators, newlines, and doubled quotes. */
static kn_status read_quoted(reader *read, uint64_t *at, uint64_t *length, kn_error *error) {
    const uint64_t line = read->line;
    uint64_t doubled = 0;
    *at = ++read->at;
    for (;; read->at++) {
        if (read->at == read->count)
            return kn_fail(error, KN_ERROR_FORMAT, "%s: line %llu: a quote is never closed", read->name,
                           (unsigned long long)line);
        if (read->bytes[read->at] == '\n') read->line++;
        if (read->bytes[read->at] != '"') continue;
        if (read->at + 1 == read->count || read->bytes[read->at + 1] != '"') break;
        doubled++;
        read->at++;
    }
    *length = read->at - *at;
    read->at++;
    if (!at_end_of_line(read) && (char)read->bytes[read->at] != read->separator)
        return kn_fail(
            error, KN_ERROR_FORMAT,
            "%s: line %llu: text after the closing quote of a value; quotes within a value must be doubled",
            read->name, (unsigned long long)read->line);
    if (!doubled) return KN_OK;
    const uint8_t *text = read->bytes + *at;
    *at = read->count + read->doubled;
    for (uint64_t i = 0, to = read->doubled; i < *length && read->unquoted; i += text[i] == '"' ? 2 : 1)
        read->unquoted[to++] = (char)text[i];
    *length -= doubled;
    read->doubled += *length;
    return KN_OK;
}

/* Reads an unquoted cell, without surrounding blanks. */
static void read_bare(reader *read, uint64_t *at, uint64_t *length) {
    const uint8_t *first = read->bytes + read->at, *last = read->bytes + read->count, *end = first;
    const uint8_t separator = (uint8_t)read->separator;
    while (end < last && *end != separator && *end != '\n' && *end != '\r')
        end++;
    read->at += (uint64_t)(end - first);
    while (first < end && *first == ' ')
        first++;
    while (end > first && end[-1] == ' ')
        end--;
    *at = (uint64_t)(first - read->bytes);
    *length = (uint64_t)(end - first);
}

/* Reads the cells of a line into codes[0..most), unless that is NULL; counts all cells. */
static kn_status read_line(reader *read, uint64_t *codes, size_t most, size_t *count, kn_error *error) {
    for (*count = 0;;) {
        uint64_t at = 0, length = 0;
        if (read->at < read->count && read->bytes[read->at] == '"') {
            kn_status status = read_quoted(read, &at, &length, error);
            if (status != KN_OK) return status;
        } else {
            read_bare(read, &at, &length);
        }
        if (length > LENGTH_MAX)
            return kn_fail(error, KN_ERROR_UNSUPPORTED,
                           "%s: line %llu: has a value of %llu bytes; at most %d are supported", read->name,
                           (unsigned long long)read->line, (unsigned long long)length, LENGTH_MAX);
        if (*count < most && codes) codes[*count] = at << LENGTH_BITS | length;
        ++*count;
        if (at_end_of_line(read)) break;
        read->at++; /* the separator, which is always followed by another cell */
    }
    skip_end(read);
    return KN_OK;
}

/* The length of the valid UTF-8 at the beginning. */
static uint64_t text_bytes(const uint8_t *bytes, uint64_t count) {
    uint64_t at = 0, eight;
    uint32_t code;
    while (at < count) {
        for (; count - at >= sizeof eight; at += sizeof eight) {
            memcpy(&eight, bytes + at, sizeof eight);
            if (eight & 0x8080808080808080) break;
        }
        if (at == count) break;
        const size_t length = kn_utf8_read(bytes + at, count - at, &code);
        if (length == 0) break;
        at += length;
    }
    return at;
}

/* ---- errors: finds the first error in the file --------------------------------------------------------- */

/* Checks that each row has as many cells as the first line has names. */
static kn_status check_rows(reader read, size_t columns, kn_error *error) {
    while (next_line(&read)) {
        uint64_t line = read.line;
        size_t found;
        kn_status status = read_line(&read, NULL, 0, &found, error);
        if (status != KN_OK) return status;
        if (found != columns)
            return kn_fail(error, KN_ERROR_FORMAT,
                           "%s: line %llu: found %zu values, expected %zu as in the first line", read.name,
                           (unsigned long long)line, found, columns);
    }
    return KN_OK;
}

/* Checks for UTF-8: cells become names and JSON. */
static kn_status check_text(const reader *read, kn_error *error) {
    const uint64_t fine = text_bytes(read->bytes, read->count);
    uint64_t line = 1;
    for (uint64_t i = 0; i < fine; i++)
        line += read->bytes[i] == '\n';
    if (fine == read->count) return KN_OK;
    return kn_fail(error, KN_ERROR_FORMAT, "%s: line %llu: found bytes that are not UTF-8", read->name,
                   (unsigned long long)line);
}

/* read: at the beginning of the file. Returns KN_OK if there is no error. */
static kn_status find_fault(reader read, kn_error *error) {
    size_t columns;
    kn_status status = check_text(&read, error);
    if (status != KN_OK) return status;
    if (read.count >= BYTES_MAX)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: has %llu bytes; fewer than %llu are supported",
                       read.name, (unsigned long long)read.count, (unsigned long long)BYTES_MAX);
    if (!next_line(&read))
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: the file is empty; expected a first line with the names of the columns",
                       read.name);
    read.separator = find_separator(read.bytes + read.at, read.count - read.at);
    status = read_line(&read, NULL, 0, &columns, error);
    if (status != KN_OK) return status;
    if (columns > COLUMNS_MAX)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: has %zu columns; at most %d are supported",
                       read.name, columns, COLUMNS_MAX);
    return check_rows(read, columns, error);
}

/* ---- chunks --------------------------------------------------------------------------------- */

/* The lines that begin in a chunk. The beginning of a chunk is assumed to be the beginning of a line, which
 * is wrong within quotes: the end of the previous chunk's last line reveals that. */
typedef struct piece {
    uint64_t begin, end, stop; /* stop: after the last line */
    uint64_t rows, doubled;    /* doubled: bytes of unquoted text */
    uint64_t first_row, first_text;
    bool fine; /* each row has the right number of cells */
    bool text; /* all of it is UTF-8 */
} piece;

typedef struct pieces {
    reader read; /* after the first line */
    size_t columns, count;
    piece *list;
    char *unquoted;
    uint64_t *codes; /* (rows,columns) */
} pieces;

/* Reads the lines of a chunk; stores their cells in `codes` unless that is NULL. */
static void walk(const pieces *all, piece *self, uint64_t *codes) {
    reader read = all->read;
    read.at = self->begin;
    read.doubled = codes ? self->first_text : 0;
    read.unquoted = codes ? all->unquoted : NULL;
    self->rows = 0;
    self->fine = true;
    while (self->fine && read.at < self->end) {
        size_t found;
        if (at_end_of_line(&read)) {
            skip_end(&read);
            continue;
        }
        self->fine = read_line(&read, codes, all->columns, &found, NULL) == KN_OK && found == all->columns;
        self->rows++;
        if (codes) codes += all->columns;
    }
    self->stop = read.at;
    if (!codes) self->doubled = read.doubled;
}

static kn_status count_piece(void *user, size_t index, kn_error *error) {
    const pieces *all = user;
    piece *self = &all->list[index];
    (void)error;
    self->text =
        text_bytes(all->read.bytes + self->begin, self->end - self->begin) == self->end - self->begin;
    walk(all, self, NULL);
    return KN_OK;
}

static kn_status fill_piece(void *user, size_t index, kn_error *error) {
    const pieces *all = user;
    piece *self = &all->list[index];
    (void)error;
    walk(all, self, all->codes + self->first_row * all->columns);
    return KN_OK;
}

/* The beginning of the first line from `at` on, which is above 0. */
static uint64_t line_from(const reader *read, uint64_t at) {
    reader end = *read;
    end.at = at - 1;
    while (!at_end_of_line(&end))
        end.at++;
    skip_end(&end);
    return end.at;
}

/* Finds the chunks and their numbers of rows; false if a chunk has an error, or when out of memory. */
static bool count_pieces(kn_arena *arena, pieces *all, uint64_t bytes_each) {
    const uint64_t begin = all->read.at, end = all->read.count;
    all->count = (size_t)((end - begin) / bytes_each + 1);
    all->list = kn_arena_take(arena, all->count, sizeof *all->list);
    if (!all->list) return false;
    for (size_t i = 0; i < all->count; i++) {
        const uint64_t at = begin + i * bytes_each, before = i ? all->list[i - 1].begin : begin;
        all->list[i].begin = at > before ? line_from(&all->read, at) : before;
        if (i) all->list[i - 1].end = all->list[i].begin;
    }
    all->list[all->count - 1].end = end;
    kn_in_parallel(arena->host, all->count, count_piece, all, NULL);
    for (size_t i = 0; i < all->count; i++) {
        piece *self = &all->list[i];
        if (i && self->begin != self[-1].stop) {
            self->begin = self[-1].stop;
            walk(all, self, NULL);
        }
        if (!self->fine || !self->text) return false;
    }
    return true;
}

/* Reads all cells except the names, which were counted before; unquoted texts are stored first. */
static bool read_rows(kn_arena *arena, pieces *all, uint64_t bytes_each, kn_csv *table) {
    uint64_t rows = 0, texts = all->read.doubled;
    if (!count_pieces(arena, all, bytes_each)) return false;
    for (size_t i = 0; i < all->count; i++) {
        piece *self = &all->list[i];
        self->first_row = rows;
        self->first_text = texts;
        rows += self->rows;
        texts += self->doubled;
    }
    table->rows = (size_t)rows;
    table->unquoted = all->unquoted = kn_arena_take(arena, (size_t)texts, 1);
    table->codes = all->codes = kn_arena_take(arena, ((size_t)rows + 1) * all->columns, sizeof *all->codes);
    if (!all->unquoted || !all->codes) return false;
    kn_in_parallel(arena->host, all->count, fill_piece, all, NULL);
    return true;
}

/* Reads the names in the first line. Their codes are stored after those of the rows, which have room for
 * them. */
static bool read_names(kn_arena *arena, reader first, const pieces *all, kn_csv *table) {
    kn_csv_cell *names = kn_arena_take(arena, all->columns, sizeof *names);
    uint64_t *codes = all->codes + table->rows * all->columns;
    size_t found;
    if (!names) return false;
    first.unquoted = all->unquoted;
    read_line(&first, codes, all->columns, &found, NULL);
    for (size_t i = 0; i < all->columns; i++)
        names[i] = cell_at(first.bytes, first.count, all->unquoted, codes[i]);
    table->names = names;
    return true;
}

kn_status kn_csv_read_pieces(kn_arena *arena, const char *name, const uint8_t *bytes, uint64_t count,
                             uint64_t bytes_each, kn_csv *table, kn_error *error) {
    *table = (kn_csv){0};
    if (count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) { /* the UTF-8 byte order mark */
        bytes += 3;
        count -= 3;
    }
    const reader begin = {.name = name, .bytes = bytes, .count = count, .line = 1, .separator = ','};
    pieces all = {.read = begin};
    bool fine = count < BYTES_MAX && next_line(&all.read);
    if (fine) all.read.separator = find_separator(bytes + all.read.at, count - all.read.at);
    const reader first = all.read;
    kn_csv made = {.separator = first.separator, .bytes = bytes, .count = count};
    fine = fine && read_line(&all.read, NULL, 0, &all.columns, NULL) == KN_OK && all.columns <= COLUMNS_MAX &&
           text_bytes(bytes, all.read.at) == all.read.at && read_rows(arena, &all, bytes_each, &made) &&
           read_names(arena, first, &all, &made);
    if (!fine) {
        kn_status status = find_fault(begin, error);
        return status == KN_OK ? kn_fail_memory(error, (size_t)count) : status;
    }
    made.columns = all.columns;
    *table = made;
    return KN_OK;
}

kn_status kn_csv_read(kn_arena *arena, const char *name, const uint8_t *bytes, uint64_t count, kn_csv *table,
                      kn_error *error) {
    return kn_csv_read_pieces(arena, name, bytes, count, PIECE, table, error);
}
