/* Integer arithmetic in arguments, names and sizes: "2*n+1", "stage{i-1}", "channels/4x3". */
#include <inttypes.h>
#include <string.h>

#include "models/models_private.h"

typedef struct reader {
    kn_model *model;
    const kn_line *line;
    const kn_word *word;
    const kn_variables *variables;
    size_t position, end; /* in the word */
    int depth;
} reader;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool kn_is_name(const char *word) {
    if (!is_letter(*word) || *word == '_' || strlen(word) > KN_MODEL_NAME_BYTES) return false;
    while (is_letter(*word) || kn_is_digit(*word))
        word++;
    return *word == '\0';
}

const kn_variable *kn_variable_find(const kn_variables *variables, const char *name, size_t length) {
    for (; variables; variables = variables->outer)
        for (int i = variables->count - 1; i >= 0; i--) {
            const char *known = variables->items[i].name;
            if (strlen(known) == length && !memcmp(known, name, length)) return &variables->items[i];
        }
    return NULL;
}

kn_variables kn_settings_of(const kn_model *model) {
    return (kn_variables){.items = model->text->settings, .count = model->text->setting_count};
}

/* ---- arithmetic that detects overflow ------------------------------------------------------------------ */

/* INT64_MIN counts as overflow, so that every result can be negated. */
static bool add(int64_t left, int64_t right, int64_t *result) {
    if (right > 0 ? left > INT64_MAX - right : left < -INT64_MAX - right) return false;
    *result = left + right;
    return true;
}

static bool multiply(int64_t left, int64_t right, int64_t *result) {
    uint64_t a = left < 0 ? 0 - (uint64_t)left : (uint64_t)left,
             b = right < 0 ? 0 - (uint64_t)right : (uint64_t)right;
    if (a != 0 && b > (uint64_t)INT64_MAX / a) return false;
    *result = (left < 0) != (right < 0) ? -(int64_t)(a * b) : (int64_t)(a * b);
    return true;
}

static int64_t divide(int64_t left, int64_t right) {
    int64_t quotient = left / right;
    return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static char next(const reader *r) {
    return r->position < r->end ? r->word->text[r->position] : '\0';
}
static int column(const reader *r) {
    return r->word->column + (int)r->position;
}

static bool mistake(reader *r, const char *expected) {
    char found[KN_FOUND_BYTES];
    if (!*r->word->text)
        return kn_mistake(r->model, r->line, column(r), "found nothing, expected %s", expected);
    return kn_mistake(r->model, r->line, column(r), "found %s in '%s', expected %s",
                      r->position >= r->end ? "the end" : kn_found(r->word->text + r->position, found),
                      r->word->text, expected);
}

static bool too_large(reader *r) {
    return kn_mistake(r->model, r->line, r->word->column, "'%s' is beyond 64 bits; expected a smaller number",
                      r->word->text);
}

static bool read_sum(reader *r, int64_t *number);

static bool unknown(reader *r, const char *name) {
    const char *words[2 * KN_MODEL_PARAMETERS] = {NULL};
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    size_t count = 0;
    for (const kn_variables *v = r->variables; v; v = v->outer)
        for (int i = 0; i < v->count && count < KN_COUNT_OF(words); i++)
            words[count++] = v->items[i].name;
    return kn_mistake(r->model, r->line, column(r), "found %s, expected an integer%s%s",
                      kn_found(name, found), count ? ", a parameter of the block or a counter" : "",
                      kn_guess(name, words, count, guess));
}

static bool read_name(reader *r, int64_t *number) {
    char name[KN_MODEL_WORD_BYTES + 1];
    size_t length = 0;
    while (r->position + length < r->end && (is_letter(r->word->text[r->position + length]) ||
                                             kn_is_digit(r->word->text[r->position + length])))
        length++;
    memcpy(name, r->word->text + r->position, length);
    name[length] = '\0';
    const kn_variable *variable = kn_variable_find(r->variables, name, length);
    if (!variable) return unknown(r, name);
    if (!variable->whole)
        return kn_mistake(r->model, r->line, column(r), "found '%s', which is %s here, expected an integer",
                          name, variable->word);
    r->position += length;
    *number = variable->number;
    return true;
}

static bool read_factor(reader *r, int64_t *number) {
    char c = next(r);
    if (is_letter(c)) return read_name(r, number);
    if (kn_is_digit(c)) {
        for (*number = 0; kn_is_digit(next(r)); r->position++)
            if (!multiply(*number, 10, number) || !add(*number, next(r) - '0', number)) return too_large(r);
        if (next(r) == '.' || is_letter(next(r))) return mistake(r, "an integer");
        return true;
    }
    if (c != '(' && c != '-') return mistake(r, "an integer, a name, '-' or '('");
    if (++r->depth > KN_MODEL_DEPTH) return mistake(r, "fewer nested parentheses");
    r->position++;
    if (c == '-') {
        if (!read_factor(r, number)) return false;
        if (!multiply(*number, -1, number)) return too_large(r);
    } else {
        if (!read_sum(r, number)) return false;
        if (next(r) != ')') return mistake(r, "')' (expressions have no spaces)");
        r->position++;
    }
    r->depth--;
    return true;
}

static bool read_product(reader *r, int64_t *number) {
    if (!read_factor(r, number)) return false;
    for (char c; (c = next(r)) == '*' || c == '/' || c == '%';) {
        int64_t right;
        int at = column(r);
        r->position++;
        if (!read_factor(r, &right)) return false;
        if (c != '*' && right == 0)
            return kn_mistake(r->model, r->line, at, "'%s' divides by 0; expected a nonzero divisor",
                              r->word->text);
        if (c == '*' && !multiply(*number, right, number)) return too_large(r);
        if (c == '/') *number = divide(*number, right);
        if (c == '%') *number -= divide(*number, right) * right;
    }
    return true;
}

static bool read_sum(reader *r, int64_t *number) {
    if (!read_product(r, number)) return false;
    for (char c; (c = next(r)) == '+' || c == '-';) {
        int64_t right;
        r->position++;
        if (!read_product(r, &right)) return false;
        if (!add(*number, c == '+' ? right : -right, number)) return too_large(r);
    }
    return true;
}

bool kn_arithmetic(kn_model *model, const kn_line *line, const kn_word *word, size_t offset, size_t length,
                   const kn_variables *variables, int64_t *number) {
    reader r = {model, line, word, variables, offset, offset + length, 0};
    if (!read_sum(&r, number)) return false;
    return r.position == r.end || mistake(&r, "one of + - * / % or the end");
}

/* ---- names and sizes that contain numbers -------------------------------------------------------------- */

const char *kn_fill_name(kn_model *model, const kn_line *line, const kn_word *word,
                         const kn_variables *variables) {
    if (!strchr(word->text, '{')) return word->text;
    kn_text text;
    const char *filled = NULL;
    bool good = true;
    kn_text_init(&text, &model->host);
    for (size_t i = 0; good && word->text[i]; i++) {
        if (word->text[i] != '{') {
            kn_text_add_bytes(&text, word->text + i, 1);
            continue;
        }
        size_t length = strcspn(word->text + i + 1, "}");
        int64_t number;
        if (!word->text[i + 1 + length])
            good =
                kn_mistake(model, line, word->column + (int)i, "found '{' without '}' in '%s'", word->text);
        else
            good = kn_arithmetic(model, line, word, i + 1, length, variables, &number);
        if (good) kn_text_format(&text, "%" PRId64, number);
        i += length + 1;
    }
    if (good) {
        filled = kn_text_failed(&text) ? NULL : kn_arena_text(&model->arena, text.data);
        if (!filled) kn_model_no_memory(model);
    }
    kn_text_finish(&text);
    return filled;
}

/* Whether part of a word remains symbolic after variables are replaced. */
static bool holds_symbol(const char *text, size_t length, const kn_variables *variables) {
    for (size_t i = 0; i < length;) {
        size_t start = i;
        while (i < length && (is_letter(text[i]) || (i > start && kn_is_digit(text[i]))))
            i++;
        if (i == start)
            i++;
        else if (!kn_variable_find(variables, text + start, i - start))
            return true;
    }
    return false;
}

bool kn_fill_size(kn_model *model, const kn_line *line, const kn_word *word, size_t offset, size_t length,
                  const kn_variables *variables, kn_text *text) {
    const char *part = word->text + offset;
    if (!holds_symbol(part, length, variables)) {
        int64_t number;
        if (!kn_arithmetic(model, line, word, offset, length, variables, &number)) return false;
        kn_text_format(text, "%" PRId64, number);
        return true;
    }
    for (size_t i = 0; i < length;) {
        size_t start = i;
        while (i < length && (is_letter(part[i]) || (i > start && kn_is_digit(part[i]))))
            i++;
        if (i == start) {
            kn_text_add_bytes(text, part + i++, 1);
            continue;
        }
        const kn_variable *variable = kn_variable_find(variables, part + start, i - start);
        if (!variable) {
            kn_text_add_bytes(text, part + start, i - start);
        } else if (!variable->whole) {
            return kn_mistake(model, line, word->column + (int)(offset + start),
                              "found '%s', which is %s here, expected an integer", variable->name,
                              variable->word);
        } else {
            kn_text_format(text, "(%" PRId64 ")", variable->number);
        }
    }
    return true;
}

const char *kn_fill_word(kn_model *model, const kn_word *word, const kn_variables *variables) {
    const char *part = word->text;
    size_t length = strlen(part);
    const kn_variable *whole = kn_variable_find(variables, part, length);
    kn_text text;
    if (whole) return whole->word;
    kn_text_init(&text, &model->host);
    for (size_t i = 0; i < length;) {
        size_t start = i;
        while (i < length && (is_letter(part[i]) || (i > start && kn_is_digit(part[i]))))
            i++;
        const kn_variable *variable = i > start ? kn_variable_find(variables, part + start, i - start) : NULL;
        if (i == start) i++;
        if (variable)
            kn_text_format(&text, variable->whole ? "(%s)" : "%s", variable->word);
        else
            kn_text_add_bytes(&text, part + start, i - start);
    }
    const char *filled = kn_text_failed(&text) ? NULL : kn_arena_text(&model->arena, text.data);
    if (!filled) kn_model_no_memory(model);
    kn_text_finish(&text);
    return filled;
}

bool kn_is_whole(const kn_word *word, const kn_variables *variables) {
    size_t length = strlen(word->text);
    return length > 0 && !strpbrk(word->text, ",.:") && !holds_symbol(word->text, length, variables);
}

size_t kn_size_end(const char *text, size_t start, bool commas) {
    int depth = 0;
    size_t i = start;
    for (; text[i]; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth > 0) continue;
        if (commas ? text[i] == ','
                   : text[i] == 'x' && i > start &&
                         (kn_is_digit(text[i - 1]) || text[i - 1] == ')' || kn_is_digit(text[i + 1]) ||
                          text[i + 1] == '('))
            break;
    }
    return i;
}

bool kn_fill_shape(kn_model *model, const kn_line *line, const kn_word *word, const kn_variables *variables,
                   kn_text *text, int *count) {
    bool commas = strchr(word->text, ',') != NULL;
    int sizes = 0;
    if (count) *count = 0;
    if (!strcmp(word->text, "scalar")) return true;
    for (size_t start = 0;;) {
        size_t end = kn_size_end(word->text, start, commas);
        const kn_variable *variable = kn_variable_find(variables, word->text + start, end - start);
        if (++sizes >= KN_MAX_RANK)
            return kn_mistake(model, line, word->column + (int)start,
                              "found more than %d sizes in '%s', expected at most %d with the batch",
                              KN_MAX_RANK - 1, word->text, KN_MAX_RANK);
        if (!commas && !variable && memchr(word->text + start, 'x', end - start) && word->text[start] != '(')
            return kn_mistake(model, line, word->column + (int)start,
                              "'%s' is ambiguous; expected commas between sizes, or parentheses around "
                              "a size whose name has an x",
                              word->text);
        if (sizes > 1) kn_text_add(text, ",");
        if (!kn_fill_size(model, line, word, start, end - start, variables, text)) return false;
        if (!word->text[end]) break;
        start = end + 1;
    }
    if (count) *count = sizes;
    return true;
}
