/* The parser of templates. Blocks are trimmed as transformers does: the newline after a block is removed, and
 * the blanks before one that begins its line. */
#include "text/template_private.h"

#include <string.h>

enum { DEPTH = 100 };

typedef struct parser {
    kn_arena *arena;
    const char *name, *text;
    size_t at, count;
    int depth, loops;
    kn_error *error;
} parser;

static kn_status refuse(parser *in, size_t at, const char *what) {
    return kn_template_fail(in->name, in->text, at, KN_ERROR_UNSUPPORTED, in->error, "%s", what);
}

static kn_status expected(parser *in, const char *what) {
    size_t length = 0;
    while (in->at + length < in->count && length < 20 && in->text[in->at + length] != '\n')
        length++;
    return kn_template_fail(in->name, in->text, in->at, KN_ERROR_FORMAT, in->error,
                            "found '%.*s', expected %s", (int)length, in->text + in->at, what);
}

static kn_branch *make(parser *in, kn_branch_kind kind, size_t at) {
    kn_branch *made = kn_arena_take(in->arena, 1, sizeof *made);
    if (!made) {
        kn_fail_memory(in->error, sizeof *made);
        return NULL;
    }
    made->kind = kind;
    made->at = at;
    return made;
}

/* ---- tokens -------------------------------------------------------------------------------------- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static char peek_at(const parser *in, size_t offset) {
    return in->at + offset < in->count ? in->text[in->at + offset] : '\0';
}

static void skip_blanks(parser *in) {
    while (in->at < in->count && strchr(" \t\r\n", in->text[in->at]) && in->text[in->at])
        in->at++;
}

/* The length of the word at the current place. */
static size_t word_length(const parser *in) {
    size_t length = 0;
    if (is_letter(peek_at(in, 0)))
        while (is_letter(peek_at(in, length)) || kn_is_digit(peek_at(in, length)))
            length++;
    return length;
}

static bool at_word(parser *in, const char *word) {
    skip_blanks(in);
    size_t length = word_length(in);
    return length == strlen(word) && memcmp(in->text + in->at, word, length) == 0;
}

static bool take_word(parser *in, const char *word) {
    if (!at_word(in, word)) return false;
    in->at += strlen(word);
    return true;
}

static bool take_sign(parser *in, const char *sign) {
    skip_blanks(in);
    size_t length = strlen(sign);
    if (in->count - in->at < length || memcmp(in->text + in->at, sign, length) != 0) return false;
    in->at += length;
    return true;
}

/* Copies a word; NULL with an error if there is none. */
static const char *read_word(parser *in, const char *what) {
    skip_blanks(in);
    size_t length = word_length(in);
    if (!length) {
        expected(in, what);
        return NULL;
    }
    char *word = kn_arena_take(in->arena, length + 1, 1);
    if (!word) {
        kn_fail_memory(in->error, length);
        return NULL;
    }
    memcpy(word, in->text + in->at, length);
    in->at += length;
    return word;
}

/* ---- expressions --------------------------------------------------------------------------------- */

static kn_branch *read_expression(parser *in);
static kn_branch *read_unary(parser *in);

static kn_branch *read_text(parser *in) {
    char quote = in->text[in->at];
    size_t begin = in->at++;
    kn_text made;
    kn_text_init(&made, in->arena->host);
    while (in->at < in->count && in->text[in->at] != quote) {
        char c = in->text[in->at++];
        if (c == '\\' && in->at < in->count) {
            static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
            const char *found = strchr(from, in->text[in->at]);
            if (!found || !in->text[in->at]) {
                kn_text_finish(&made);
                refuse(in, in->at - 1, "an escape other than \\n \\t \\r \\\\ \\' \\\"");
                return NULL;
            }
            c = to[found - from];
            in->at++;
        }
        kn_text_add_bytes(&made, &c, 1);
    }
    kn_branch *value = NULL;
    if (in->at == in->count)
        expected(in, "the quote that ends a string");
    else if (made.failed)
        kn_fail_memory(in->error, made.length);
    else if ((value = make(in, KN_BRANCH_VALUE, begin))) {
        value->value = kn_cell_text(in->arena, made.data, made.length);
        if (!value->value.text) value = NULL, kn_fail_memory(in->error, made.length);
        in->at++;
    }
    kn_text_finish(&made);
    return value;
}

static kn_branch *read_number(parser *in) {
    size_t begin = in->at;
    bool real = false;
    while (kn_is_digit(peek_at(in, 0)) || (peek_at(in, 0) == '.' && kn_is_digit(peek_at(in, 1)) && !real))
        real |= in->text[in->at++] == '.';
    kn_branch *value = make(in, KN_BRANCH_VALUE, begin);
    char *text = value ? kn_arena_take(in->arena, in->at - begin + 1, 1) : NULL;
    if (!text) {
        kn_fail_memory(in->error, in->at - begin + 1);
        return NULL;
    }
    memcpy(text, in->text + begin, in->at - begin);
    const char *end;
    if (real) {
        value->value.sort = KN_SORT_REAL;
        if (kn_parse_double(text, &end, &value->value.real)) return value;
    } else {
        value->value.sort = KN_SORT_INTEGER;
        if (kn_parse_int64(text, &end, &value->value.integer)) return value;
    }
    refuse(in, begin, "a number that is too large");
    return NULL;
}

/* Expressions between commas, up to a sign; with keywords for calls, as pairs for maps. */
static bool read_items(parser *in, const char *end, bool call, bool map, kn_branch **list, size_t *count) {
    kn_branch **link = list;
    *count = 0;
    while (!take_sign(in, end)) {
        if (*count && !take_sign(in, ",")) return expected(in, "',' or the end of a list"), false;
        if (*count && take_sign(in, end)) break;
        const char *keyword = NULL;
        skip_blanks(in);
        size_t length = word_length(in), after = length;
        while (after && strchr(" \t\n", peek_at(in, after)) && peek_at(in, after))
            after++;
        if (call && length && peek_at(in, after) == '=' && peek_at(in, after + 1) != '=') {
            if (!(keyword = read_word(in, "a name"))) return false;
            take_sign(in, "=");
        }
        kn_branch *item = read_expression(in);
        if (!item) return false;
        if (map) {
            if (!take_sign(in, ":")) return expected(in, "':'"), false;
            *link = item;
            link = &item->next;
            if (!(item = read_expression(in))) return false;
        }
        if (item->next) return refuse(in, item->at, "an expression here"), false;
        item->keyword = keyword;
        *link = item;
        link = &item->next;
        if (++*count > 1000) return refuse(in, in->at, "more than 1000 items"), false;
    }
    return true;
}

static kn_branch *read_primary(parser *in) {
    skip_blanks(in);
    size_t begin = in->at, count;
    char c = peek_at(in, 0);
    if (c == '"' || c == '\'') return read_text(in);
    if (kn_is_digit(c)) return read_number(in);
    if (c == '(') {
        in->at++;
        kn_branch *inner = read_expression(in);
        if (!inner) return NULL;
        if (!take_sign(in, ")")) return expected(in, "')'; tuples are not in the subset"), NULL;
        return inner;
    }
    if (c == '[' || c == '{') {
        kn_branch *list = make(in, c == '[' ? KN_BRANCH_LIST : KN_BRANCH_MAP, begin);
        in->at++;
        return list && read_items(in, c == '[' ? "]" : "}", false, c == '{', &list->body, &count) ? list
                                                                                                  : NULL;
    }
    const char *word = read_word(in, "an expression");
    if (!word) return NULL;
    static const struct {
        const char *word;
        kn_cell value;
    } constants[] = {{"true", {.sort = KN_SORT_BOOL, .integer = 1}},
                     {"True", {.sort = KN_SORT_BOOL, .integer = 1}},
                     {"false", {.sort = KN_SORT_BOOL}},
                     {"False", {.sort = KN_SORT_BOOL}},
                     {"none", {.sort = KN_SORT_NONE}},
                     {"None", {.sort = KN_SORT_NONE}}};
    kn_branch *made = make(in, KN_BRANCH_NAME, begin);
    if (!made) return NULL;
    made->text = word;
    for (size_t i = 0; i < KN_COUNT_OF(constants); i++)
        if (strcmp(constants[i].word, word) == 0) {
            made->kind = KN_BRANCH_VALUE;
            made->value = constants[i].value;
        }
    return made;
}

/* [index] or [from:to:step], after the bracket. */
static kn_branch *read_index(parser *in, kn_branch *of) {
    kn_branch *made = make(in, KN_BRANCH_INDEX, of->at), **parts[3];
    if (!made) return NULL;
    parts[0] = &made->second;
    parts[1] = &made->third;
    parts[2] = &made->fourth;
    made->first = of;
    for (int i = 0; i < 3; i++) {
        skip_blanks(in);
        if (peek_at(in, 0) != ':' && peek_at(in, 0) != ']' && !(*parts[i] = read_expression(in))) return NULL;
        if (take_sign(in, "]")) {
            if (i == 0 && !made->second) return expected(in, "an index"), NULL;
            return made;
        }
        if (!take_sign(in, ":")) break;
        made->kind = KN_BRANCH_SLICE;
    }
    expected(in, "']'");
    return NULL;
}

static kn_branch *unknown(parser *in, size_t at, const char *kind, const char *name) {
    kn_template_fail(in->name, in->text, at, KN_ERROR_UNSUPPORTED, in->error,
                     "the %s '%s' is not in the subset", kind, name);
    return NULL;
}

static kn_branch *read_postfix(parser *in, kn_branch *of) {
    size_t count;
    for (;;) {
        skip_blanks(in);
        size_t at = in->at;
        kn_branch *made;
        if (take_sign(in, ".")) {
            if (!(made = make(in, KN_BRANCH_MEMBER, at))) return NULL;
            made->first = of;
            if (!(made->text = read_word(in, "the name of a member"))) return NULL;
        } else if (take_sign(in, "[")) {
            if (!(made = read_index(in, of))) return NULL;
        } else if (take_sign(in, "(")) {
            if (of->kind != KN_BRANCH_NAME && of->kind != KN_BRANCH_MEMBER)
                return refuse(in, at, "this call"), NULL;
            bool method = of->kind == KN_BRANCH_MEMBER;
            if (method ? !kn_template_has_method(of->text) : !kn_template_has_function(of->text))
                return unknown(in, of->at, method ? "method" : "function", of->text);
            if (!(made = make(in, KN_BRANCH_CALL, of->at))) return NULL;
            made->first = of->first;
            made->text = of->text;
            if (!read_items(in, ")", true, false, &made->body, &count)) return NULL;
        } else {
            return of;
        }
        of = made;
    }
}

/* Filters and tests, which bind closer than operators. */
static kn_branch *read_filters(parser *in, kn_branch *of) {
    size_t count;
    while (of) {
        skip_blanks(in);
        size_t at = in->at;
        bool filter = peek_at(in, 0) == '|';
        if (!filter && !at_word(in, "is")) return of;
        in->at += filter ? 1 : 2;
        bool negative = !filter && take_word(in, "not");
        kn_branch *made = make(in, filter ? KN_BRANCH_FILTER : KN_BRANCH_TEST, at);
        if (!made || !(made->text = read_word(in, filter ? "the name of a filter" : "the name of a test")))
            return NULL;
        if (filter ? !kn_template_has_filter(made->text) : !kn_template_has_test(made->text))
            return unknown(in, at, filter ? "filter" : "test", made->text);
        made->first = of;
        if (take_sign(in, "(") && !read_items(in, ")", true, false, &made->body, &count)) return NULL;
        of = made;
        if (negative) {
            if (!(of = make(in, KN_BRANCH_NOT, at))) return NULL;
            of->first = made;
        }
    }
    return of;
}

static kn_branch *read_unary(parser *in) {
    skip_blanks(in);
    size_t at = in->at;
    if (++in->depth > DEPTH) return refuse(in, at, "deeper nesting"), NULL;
    kn_branch *made;
    if (take_sign(in, "-")) {
        kn_branch *inner = read_unary(in);
        made = inner ? make(in, KN_BRANCH_MINUS, at) : NULL;
        if (made) made->first = inner;
    } else {
        made = read_primary(in);
        if (made) made = read_postfix(in, made);
        made = made ? read_filters(in, made) : NULL;
    }
    in->depth--;
    return made;
}

/* Operators by how close they bind, the loosest first. A word is an operator only as a whole word. */
static const char *const operators[][9] = {
    {"or"},     {"and"}, {"==", "!=", "<=", ">=", "<", ">", "in", "not in"},
    {"+", "-"}, {"~"},   {"//", "*", "/", "%"},
};
enum { LEVELS = 6, LEVEL_NOT = 2 };

/* At %} or }}, with a sign before it. */
static bool at_end(const parser *in) {
    size_t sign = peek_at(in, 0) == '-' || peek_at(in, 0) == '+';
    return (peek_at(in, sign) == '%' || peek_at(in, sign) == '}') && peek_at(in, sign + 1) == '}';
}

static const char *take_operator(parser *in, int level) {
    skip_blanks(in);
    for (size_t i = 0; i < 9 && operators[level][i]; i++) {
        const char *sign = operators[level][i];
        size_t before = in->at;
        if (strcmp(sign, "not in") == 0) {
            if (take_word(in, "not") && take_word(in, "in")) return sign;
            in->at = before;
        } else if (is_letter(sign[0])) {
            if (take_word(in, sign)) return sign;
        } else if (at_end(in)) {
            return NULL;
        } else if (take_sign(in, sign)) {
            return sign;
        }
    }
    return NULL;
}

static kn_branch *read_level(parser *in, int level) {
    skip_blanks(in);
    size_t at = in->at;
    if (level == LEVELS) return read_unary(in);
    if (level == LEVEL_NOT && take_word(in, "not")) {
        if (++in->depth > DEPTH) return refuse(in, at, "deeper nesting"), NULL;
        kn_branch *inner = read_level(in, level), *made = inner ? make(in, KN_BRANCH_NOT, at) : NULL;
        if (made) made->first = inner;
        in->depth--;
        return made;
    }
    kn_branch *left = read_level(in, level + 1);
    const char *sign;
    for (int chained = 0; left && (sign = take_operator(in, level)); chained++) {
        if (level == LEVEL_NOT && chained) return refuse(in, at, "a chain of comparisons"), NULL;
        kn_branch *right = read_level(in, level + 1);
        kn_branch *made = right ? make(in, KN_BRANCH_BINARY, at) : NULL;
        if (!made) return NULL;
        made->text = sign;
        made->first = left;
        made->second = right;
        left = made;
    }
    return left;
}

static kn_branch *read_expression(parser *in) {
    if (++in->depth > DEPTH) return refuse(in, in->at, "deeper nesting"), NULL;
    kn_branch *left = read_level(in, 0);
    if (left && take_word(in, "if")) {
        kn_branch *made = make(in, KN_BRANCH_CHOICE, left->at);
        if (!made || !(made->second = read_level(in, 0))) return NULL;
        made->first = left;
        if (take_word(in, "else") && !(made->third = read_expression(in))) return NULL;
        left = made;
    }
    in->depth--;
    return left;
}

/* ---- statements ---------------------------------------------------------------------------------- */

/* The end of a block; what follows is trimmed. */
static kn_status end_block(parser *in, const char *end) {
    skip_blanks(in);
    bool trim = peek_at(in, 0) == '-', keep = peek_at(in, 0) == '+';
    if (trim || keep) in->at++;
    if (in->count - in->at < 2 || memcmp(in->text + in->at, end, 2) != 0) return expected(in, end);
    in->at += 2;
    if (trim)
        skip_blanks(in);
    else if (!keep && end[0] != '}') {
        if (peek_at(in, 0) == '\r' && peek_at(in, 1) == '\n') in->at++;
        if (peek_at(in, 0) == '\n') in->at++;
    }
    return KN_OK;
}

/* The place of the next {{, {% or {#, or the end. */
static size_t find_tag(const parser *in) {
    for (size_t at = in->at; at + 1 < in->count; at++)
        if (in->text[at] == '{' && strchr("{%#", in->text[at + 1]) && in->text[at + 1]) return at;
    return in->count;
}

/* The text before a tag, without what the tag strips. */
static kn_status add_plain(parser *in, size_t begin, size_t tag, kn_branch ***link) {
    size_t end = tag;
    bool sign = tag + 2 < in->count;
    if (tag < in->count && sign && in->text[tag + 2] == '-') {
        while (end > begin && strchr(" \t\r\n", in->text[end - 1]))
            end--;
    } else if (tag < in->count && in->text[tag + 1] != '{' && !(sign && in->text[tag + 2] == '+')) {
        size_t line = end;
        while (line > begin && (in->text[line - 1] == ' ' || in->text[line - 1] == '\t'))
            line--;
        if (line == 0 || in->text[line - 1] == '\n') end = line;
    } else if (tag == in->count && end > begin && in->text[end - 1] == '\n') {
        end--; /* of the last newline of the file */
        if (end > begin && in->text[end - 1] == '\r') end--;
    }
    if (end == begin) return KN_OK;
    kn_branch *made = make(in, KN_BRANCH_TEXT, begin);
    char *copy = made ? kn_arena_take(in->arena, end - begin + 1, 1) : NULL;
    if (!copy) return kn_fail_memory(in->error, end - begin);
    for (size_t i = begin; i < end; i++)
        if (in->text[i] != '\r' || i + 1 == end || in->text[i + 1] != '\n')
            copy[made->length++] = in->text[i];
    made->text = copy;
    **link = made;
    *link = &made->next;
    return KN_OK;
}

static kn_status read_body(parser *in, kn_branch **body, const char **ended);

static kn_status read_set(parser *in, kn_branch *made) {
    made->kind = KN_BRANCH_SET;
    if (!(made->text = read_word(in, "a name"))) return in->error->status;
    if (take_sign(in, ".") && !(made->text2 = read_word(in, "the name of a member")))
        return in->error->status;
    skip_blanks(in);
    if (peek_at(in, 0) == ',') return refuse(in, in->at, "set with several names");
    if (!take_sign(in, "=")) return refuse(in, in->at, "set without '='");
    made->first = read_expression(in);
    return made->first ? end_block(in, "%}") : in->error->status;
}

/* if, elif and else up to endif. */
static kn_status read_if(parser *in, kn_branch *made) {
    const char *ended = "";
    made->kind = KN_BRANCH_IF;
    if (!(made->first = read_expression(in))) return in->error->status;
    kn_status status = end_block(in, "%}");
    if (status == KN_OK) status = read_body(in, &made->body, &ended);
    if (status != KN_OK) return status;
    if (strcmp(ended, "elif") == 0) {
        if (++in->depth > DEPTH) return refuse(in, in->at, "deeper nesting");
        made->other = make(in, KN_BRANCH_IF, in->at);
        status = made->other ? read_if(in, made->other) : in->error->status;
        in->depth--;
        return status;
    }
    if (strcmp(ended, "else") == 0) {
        status = end_block(in, "%}");
        if (status == KN_OK) status = read_body(in, &made->other, &ended);
        if (status != KN_OK) return status;
    }
    if (strcmp(ended, "endif") != 0) return expected(in, "{% endif %}");
    return end_block(in, "%}");
}

static kn_status read_for(parser *in, kn_branch *made) {
    const char *ended = "";
    made->kind = KN_BRANCH_FOR;
    if (!(made->text = read_word(in, "a name"))) return in->error->status;
    if (take_sign(in, ",") && !(made->text2 = read_word(in, "a name"))) return in->error->status;
    if (!take_word(in, "in")) return expected(in, "'in'");
    /* Not a choice: `if` is the condition of the loop. */
    if (!(made->first = read_level(in, 0))) return in->error->status;
    if (take_word(in, "if") && !(made->second = read_expression(in))) return in->error->status;
    if (at_word(in, "recursive")) return refuse(in, in->at, "a recursive loop");
    kn_status status = end_block(in, "%}");
    in->loops++;
    if (status == KN_OK) status = read_body(in, &made->body, &ended);
    in->loops--;
    if (status == KN_OK && strcmp(ended, "else") == 0) {
        status = end_block(in, "%}");
        if (status == KN_OK) status = read_body(in, &made->other, &ended);
    }
    if (status != KN_OK) return status;
    return strcmp(ended, "endfor") == 0 ? end_block(in, "%}") : expected(in, "{% endfor %}");
}

/* A {% block %}; *ended is the word of one that ends a body. */
static kn_status read_block(parser *in, kn_branch ***link, const char **ended) {
    static const char *const ends[] = {"elif", "else", "endif", "endfor", "endgeneration"};
    skip_blanks(in);
    size_t at = in->at;
    const char *word = read_word(in, "a statement");
    if (!word) return in->error->status;
    for (size_t i = 0; i < KN_COUNT_OF(ends); i++)
        if (strcmp(word, ends[i]) == 0) {
            *ended = ends[i];
            return KN_OK;
        }
    kn_branch *made = make(in, KN_BRANCH_TEXT, at);
    if (!made) return in->error->status;
    kn_status status;
    if (strcmp(word, "set") == 0)
        status = read_set(in, made);
    else if (strcmp(word, "if") == 0)
        status = read_if(in, made);
    else if (strcmp(word, "for") == 0)
        status = read_for(in, made);
    else if (strcmp(word, "generation") == 0) {
        /* Marks what the model wrote; the text is the same. */
        const char *end = "";
        made->kind = KN_BRANCH_IF;
        if (!(made->first = make(in, KN_BRANCH_VALUE, at))) return in->error->status;
        made->first->value = kn_cell_bool(true);
        status = end_block(in, "%}");
        if (status == KN_OK) status = read_body(in, &made->body, &end);
        if (status == KN_OK)
            status =
                strcmp(end, "endgeneration") == 0 ? end_block(in, "%}") : expected(in, "{% endgeneration %}");
    } else if ((strcmp(word, "break") == 0 || strcmp(word, "continue") == 0) && in->loops) {
        made->kind = word[0] == 'b' ? KN_BRANCH_BREAK : KN_BRANCH_CONTINUE;
        status = end_block(in, "%}");
    } else {
        return kn_template_fail(in->name, in->text, at, KN_ERROR_UNSUPPORTED, in->error,
                                "the statement '%s' is not in the subset", word);
    }
    **link = made;
    *link = &made->next;
    return status;
}

/* Statements up to one that ends a body, whose word is *ended, or the end of the template. */
static kn_status read_body(parser *in, kn_branch **body, const char **ended) {
    kn_branch **link = body;
    *ended = "";
    if (++in->depth > DEPTH) return refuse(in, in->at, "deeper nesting");
    while (in->at < in->count && !(*ended)[0]) {
        size_t tag = find_tag(in), begin = in->at;
        kn_status status = add_plain(in, begin, tag, &link);
        if (status != KN_OK) return status;
        in->at = tag;
        if (tag == in->count) break;
        char kind = in->text[tag + 1];
        in->at += 2;
        if (kind == '#') {
            while (in->at + 1 < in->count && !(in->text[in->at] == '#' && in->text[in->at + 1] == '}'))
                in->at++;
            if (in->at > tag + 2 && in->text[in->at - 1] == '-') in->at--;
            status = end_block(in, "#}");
        } else {
            if (peek_at(in, 0) == '-' || peek_at(in, 0) == '+') in->at++;
            if (kind == '%') {
                status = read_block(in, &link, ended);
            } else {
                kn_branch *made = make(in, KN_BRANCH_PRINT, tag);
                if (!made || !(made->first = read_expression(in))) return in->error->status;
                status = end_block(in, "}}");
                *link = made;
                link = &made->next;
            }
        }
        if (status != KN_OK) return status;
    }
    in->depth--;
    return KN_OK;
}

kn_status kn_template_parse(kn_arena *arena, const char *name, const char *text, size_t length,
                            kn_branch **tree, kn_error *error) {
    parser in = {.arena = arena, .name = name, .text = text, .count = length, .error = error};
    const char *ended;
    *tree = NULL;
    kn_status status = read_body(&in, tree, &ended);
    if (status == KN_OK && ended[0])
        return kn_template_fail(name, text, in.at, KN_ERROR_FORMAT, error, "found '%s' without its beginning",
                                ended);
    return status;
}
