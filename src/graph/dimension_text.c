/* Dimensions and shapes as text: "2*batch+1", "float32 (batch,1,28,28)". */
#include <inttypes.h>
#include <string.h>

#include "graph/graph_private.h"

/* ---- writing ------------------------------------------------------------------------------------- */

/* Whether an operand of a quotient can be printed without parentheses: "(n+1)/2", "n/2", "n/(2*m)". */
static bool is_single(const kn_graph *graph, kn_dim dim) {
    kn_dim_sum sum;
    kn_dim_load(graph, dim, &sum);
    if (sum.count == 0) return true;
    if (sum.count > 1) return false;
    if (sum.terms[0].degree == 0) return sum.terms[0].coefficient > 0;
    return sum.terms[0].degree == 1 && sum.terms[0].coefficient == 1 &&
           graph->dims->atoms[sum.terms[0].atoms[0]].symbol;
}

static void write_part(const kn_graph *graph, kn_dim dim, kn_text *text) {
    bool single = is_single(graph, dim);
    if (!single) kn_text_add(text, "(");
    kn_dim_text(graph, dim, text);
    if (!single) kn_text_add(text, ")");
}

static void write_term(const kn_graph *graph, const kn_dim_term *term, bool first, kn_text *text) {
    if (term->coefficient < 0)
        kn_text_add(text, "-");
    else if (!first)
        kn_text_add(text, "+");
    uint64_t size = term->coefficient < 0 ? 0 - (uint64_t)term->coefficient : (uint64_t)term->coefficient;
    bool number = size != 1 || term->degree == 0;
    if (number) kn_text_format(text, "%" PRIu64, size);
    for (int i = 0; i < term->degree; i++) {
        const kn_dim_atom *atom = &graph->dims->atoms[term->atoms[i]];
        if (i > 0 || number) kn_text_add(text, "*");
        if (atom->symbol) {
            kn_text_add(text, atom->symbol);
            continue;
        }
        bool alone = term->degree == 1 && !number && term->coefficient > 0;
        if (!alone) kn_text_add(text, "(");
        write_part(graph, atom->numerator, text);
        kn_text_add(text, "/");
        write_part(graph, atom->denominator, text);
        if (!alone) kn_text_add(text, ")");
    }
}

void kn_dim_text(const kn_graph *graph, kn_dim dim, kn_text *text) {
    if (kn_dim_known(dim)) {
        kn_text_format(text, "%" PRId64, dim);
        return;
    }
    kn_dim_sum sum;
    kn_dim_load(graph, dim, &sum);
    for (int i = 0; i < sum.count; i++)
        write_term(graph, &sum.terms[i], i == 0, text);
}

void kn_shape_text(const kn_graph *graph, const kn_shape *shape, kn_text *text) {
    kn_text_format(text, "%s (", kn_dtype_name(shape->dtype));
    for (int i = 0; i < shape->rank; i++) {
        if (i > 0) kn_text_add(text, ",");
        kn_dim_text(graph, shape->dims[i], text);
    }
    kn_text_add(text, ")");
}

const char *kn_shape_words(kn_graph *graph, const kn_shape *shape) {
    kn_text text;
    kn_text_init(&text, &graph->host);
    kn_shape_text(graph, shape, &text);
    const char *words = kn_text_failed(&text) ? NULL : kn_arena_text(&graph->arena, text.data);
    kn_text_finish(&text);
    return words ? words : "(a shape)"; /* only if out of memory, which is reported elsewhere */
}

/* ---- reading -------------------------------------------------------------------------------------- */

/* Printing a quotient adds at most a '-' and two '(' around its operands, so everything that prints can be
 * parsed. */
enum { MAX_DEPTH = 3 * KN_DIM_WEIGHT };

typedef struct dim_reader {
    kn_graph *graph;
    const char *text;
    size_t length, position;
    int depth;
    kn_error *error;
} dim_reader;

static void skip_blanks(dim_reader *reader) {
    while (reader->position < reader->length &&
           (reader->text[reader->position] == ' ' || reader->text[reader->position] == '\t'))
        reader->position++;
}

/* The next non-blank character; 0 at the end. */
static char next(dim_reader *reader) {
    skip_blanks(reader);
    return reader->position < reader->length ? reader->text[reader->position] : '\0';
}

static kn_status fail_at(dim_reader *reader, const char *expected) {
    char found[32] = "the end";
    if (next(reader) != '\0') {
        size_t rest = reader->length - reader->position;
        size_t shown = rest < sizeof found - 3 ? rest : sizeof found - 3;
        found[0] = '\'';
        memcpy(found + 1, reader->text + reader->position, shown);
        memcpy(found + 1 + shown, "'", 2);
    }
    return kn_fail(reader->error, KN_ERROR_FORMAT,
                   "'%.*s' is not a size: at column %zu expected %s, found %s",
                   (int)(reader->length < 200 ? reader->length : 200), reader->text, reader->position + 1,
                   expected, found);
}

static bool begins_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static kn_status read_sum(dim_reader *reader, kn_dim *result);

static kn_status read_factor(dim_reader *reader, kn_dim *result) {
    char c = next(reader);
    kn_status status = KN_OK;
    if (kn_is_digit(c)) {
        int64_t number = 0;
        for (; reader->position < reader->length && kn_is_digit(reader->text[reader->position]);
             reader->position++)
            if (!kn_multiply_fits(number, 10, &number) ||
                !kn_add_fits(number, reader->text[reader->position] - '0', &number))
                return kn_fail(reader->error, KN_ERROR_FORMAT, "'%.*s': a number exceeds 64 bits",
                               (int)(reader->length < 200 ? reader->length : 200), reader->text);
        *result = number;
        return KN_OK;
    }
    if (begins_name(c)) {
        const char *name = reader->text + reader->position;
        size_t length = 0;
        while (reader->position < reader->length &&
               (begins_name(name[length]) || kn_is_digit(name[length]))) {
            reader->position++;
            length++;
            if (reader->position == reader->length) break;
        }
        return kn_dim_name(reader->graph, name, length, result, reader->error);
    }
    if (c != '(' && c != '-') return fail_at(reader, "a number, a symbol, '-' or '('");
    if (++reader->depth > MAX_DEPTH) return fail_at(reader, "less nesting");
    reader->position++;
    if (c == '-') {
        kn_dim operand = 0;
        status = read_factor(reader, &operand);
        if (status == KN_OK)
            status = kn_dim_combine(reader->graph, KN_DIM_SUBTRACT, 0, operand, result, reader->error);
    } else {
        status = read_sum(reader, result);
        if (status == KN_OK && next(reader) != ')') status = fail_at(reader, "')'");
        if (status == KN_OK) reader->position++;
    }
    reader->depth--;
    return status;
}

static kn_status read_product(dim_reader *reader, kn_dim *result) {
    kn_status status = read_factor(reader, result);
    for (char c = next(reader); status == KN_OK && (c == '*' || c == '/'); c = next(reader)) {
        kn_dim operand = 0;
        reader->position++;
        status = read_factor(reader, &operand);
        if (status == KN_OK)
            status = kn_dim_combine(reader->graph, c == '*' ? KN_DIM_MULTIPLY : KN_DIM_DIVIDE, *result,
                                    operand, result, reader->error);
    }
    return status;
}

static kn_status read_sum(dim_reader *reader, kn_dim *result) {
    kn_status status = read_product(reader, result);
    for (char c = next(reader); status == KN_OK && (c == '+' || c == '-'); c = next(reader)) {
        kn_dim operand = 0;
        reader->position++;
        status = read_product(reader, &operand);
        if (status == KN_OK)
            status = kn_dim_combine(reader->graph, c == '+' ? KN_DIM_ADD : KN_DIM_SUBTRACT, *result, operand,
                                    result, reader->error);
    }
    return status;
}

kn_status kn_dim_read(kn_graph *graph, const char *text, size_t length, kn_dim *result, kn_error *error) {
    dim_reader reader = {.graph = graph, .text = text, .length = length, .error = error};
    kn_dim read = 0;
    kn_status status = read_sum(&reader, &read);
    if (status == KN_OK && next(&reader) != '\0') status = fail_at(&reader, "an operator or the end");
    if (status == KN_OK) *result = read;
    return status;
}

kn_dim kn_dim_parse(kn_graph *graph, const char *text, size_t length) {
    kn_error error = {0};
    kn_dim result = 0;
    if (kn_dim_read(graph, text ? text : "", text ? length : 0, &result, &error) == KN_OK) return result;
    kn_graph_fail_with(graph, &error);
    return 0;
}

/* The length of the list item that begins at `text`; commas inside parentheses do not end it. */
static size_t item_length(const char *text) {
    size_t length = 0;
    for (int depth = 0; text[length] != '\0'; length++) {
        if (text[length] == '(') depth++;
        if (text[length] == ')') depth--;
        if (text[length] == ',' && depth <= 0) break;
    }
    return length;
}

kn_status kn_shape_parse(kn_graph *graph, const char *text, kn_shape *shape, kn_error *error) {
    shape->rank = 0;
    if (!text) return kn_fail(error, KN_ERROR_ARGUMENT, "the shape is NULL; write \"\" for a scalar");
    const char *rest = text;
    while (*rest == ' ')
        rest++;
    while (*rest != '\0') {
        if (shape->rank == KN_MAX_RANK)
            return kn_fail(error, KN_ERROR_SHAPE, "shape '%.200s' has more than %d dimensions", text,
                           KN_MAX_RANK);
        size_t length = item_length(rest);
        kn_dim dim = 0;
        int64_t number;
        kn_status status = kn_dim_read(graph, rest, length, &dim, error);
        if (status != KN_OK) return kn_fail_in(error, "shape '%.200s'", text);
        if (kn_dim_constant(graph, dim, &number) && number < 0)
            return kn_fail(error, KN_ERROR_SHAPE, "shape '%.200s': dimension %d is negative", text,
                           shape->rank);
        shape->dims[shape->rank++] = dim;
        rest += length;
        if (*rest == ',' && *++rest == '\0')
            return kn_fail(error, KN_ERROR_FORMAT, "shape '%.200s' ends in a comma", text);
    }
    return KN_OK;
}
