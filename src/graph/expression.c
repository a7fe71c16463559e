/* Pointwise expressions: parsing, and evaluation in double precision. */
#include <math.h>
#include <string.h>

#include "graph/graph_private.h"

/* ---- reading ---------------------------------------------------------------------------------------
 *
 * choice  = or [ "?" choice ":" choice ]        or  = and { "||" and }        and = compare { "&&" compare }
 * compare = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
 * sum     = product { ("+" | "-") product }     product = factor { ("*" | "/") factor }
 * factor  = ("-" | "!") factor | number | name | function "(" choice { "," choice } ")" | "(" choice ")"  */

typedef struct expression_reader {
    kn_arena *arena;
    kn_expression *expression;
    const char *text;
    size_t position;
    int depth;
    kn_error *error;
} expression_reader;

static const struct {
    const char *name;
    int arguments;
} functions[] = {
    [KN_FUNCTION_EXP] = {"exp", 1},
    [KN_FUNCTION_LOG] = {"log", 1},
    [KN_FUNCTION_SQRT] = {"sqrt", 1},
    [KN_FUNCTION_RSQRT] = {"rsqrt", 1},
    [KN_FUNCTION_ABS] = {"abs", 1},
    [KN_FUNCTION_SIN] = {"sin", 1},
    [KN_FUNCTION_COS] = {"cos", 1},
    [KN_FUNCTION_TANH] = {"tanh", 1},
    [KN_FUNCTION_ERF] = {"erf", 1},
    [KN_FUNCTION_POW] = {"pow", 2},
    [KN_FUNCTION_MIN] = {"min", 2},
    [KN_FUNCTION_MAX] = {"max", 2},
    [KN_FUNCTION_FLOOR] = {"floor", 1},
    [KN_FUNCTION_ISNAN] = {"isnan", 1},
    [KN_FUNCTION_SIGMOID] = {"sigmoid", 1},
    [KN_FUNCTION_SOFTPLUS] = {"softplus", 1},
    [KN_FUNCTION_CEIL] = {"ceil", 1},
    [KN_FUNCTION_ROUND] = {"round", 1},
    [KN_FUNCTION_TAN] = {"tan", 1},
    [KN_FUNCTION_ASIN] = {"asin", 1},
    [KN_FUNCTION_ACOS] = {"acos", 1},
    [KN_FUNCTION_ATAN] = {"atan", 1},
    [KN_FUNCTION_SINH] = {"sinh", 1},
    [KN_FUNCTION_COSH] = {"cosh", 1},
    [KN_FUNCTION_ASINH] = {"asinh", 1},
    [KN_FUNCTION_ACOSH] = {"acosh", 1},
    [KN_FUNCTION_ATANH] = {"atanh", 1},
    [KN_FUNCTION_ATAN2] = {"atan2", 2},
    [KN_FUNCTION_FMOD] = {"fmod", 2},
    [KN_FUNCTION_QUOTIENT] = {"quotient", 2},
    [KN_FUNCTION_LOG1P] = {"log1p", 1},
    [KN_FUNCTION_EXPM1] = {"expm1", 1},
    [KN_FUNCTION_BIT_AND] = {"bit_and", 2},
    [KN_FUNCTION_BIT_OR] = {"bit_or", 2},
    [KN_FUNCTION_BIT_XOR] = {"bit_xor", 2},
    [KN_FUNCTION_BIT_LEFT] = {"bit_left", 2},
    [KN_FUNCTION_BIT_RIGHT] = {"bit_right", 2},
    [KN_FUNCTION_COARSE] = {"coarse", 3},
};

static bool begins_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool in_name(char c) {
    return begins_name(c) || kn_is_digit(c);
}

static char next(expression_reader *reader) {
    while (reader->text[reader->position] == ' ' || reader->text[reader->position] == '\n')
        reader->position++;
    return reader->text[reader->position];
}

static kn_status fail_at(expression_reader *reader, const char *expected) {
    if (next(reader) == '\0')
        return kn_fail(reader->error, KN_ERROR_FORMAT, "expression '%.300s' ends where %s was expected",
                       reader->text, expected);
    return kn_fail(reader->error, KN_ERROR_FORMAT,
                   "expression '%.300s', column %zu: expected %s, found '%.20s'", reader->text,
                   reader->position + 1, expected, reader->text + reader->position);
}

/* Consumes the operator if it is next. */
static bool take(expression_reader *reader, const char *symbol) {
    size_t length = strlen(symbol);
    if (next(reader) != symbol[0] || strncmp(reader->text + reader->position, symbol, length) != 0)
        return false;
    reader->position += length;
    return true;
}

/* min, max and softplus print their operands twice, and integer fmod and quotient print their second operand
 * four and nine times; nested, the text would grow exponentially. */
static kn_status finish_term(expression_reader *reader, kn_term *term, const kn_term **result) {
    int copies = 1;
    if (term->kind == KN_TERM_CALL &&
        (term->function == KN_FUNCTION_MIN || term->function == KN_FUNCTION_MAX ||
         term->function == KN_FUNCTION_SOFTPLUS))
        copies = 2;
    if (term->kind == KN_TERM_CALL && term->function == KN_FUNCTION_FMOD) copies = 4;
    if (term->kind == KN_TERM_CALL && term->function == KN_FUNCTION_QUOTIENT) copies = 9;
    term->weight = 1;
    for (int i = 0; i < 3 && term->parts[i]; i++)
        term->weight += copies * term->parts[i]->weight;
    if (term->weight > KN_EXPRESSION_WEIGHT)
        return kn_fail(reader->error, KN_ERROR_UNSUPPORTED,
                       "expression '%.300s' is too long; split it into two operators", reader->text);
    *result = term;
    return KN_OK;
}

static kn_status make(expression_reader *reader, kn_term_kind kind, const kn_term *first,
                      const kn_term *second, const kn_term *third, const kn_term **result) {
    kn_term *term = kn_arena_take(reader->arena, 1, sizeof *term);
    if (!term) return kn_fail_memory(reader->error, sizeof *term);
    *term = (kn_term){.kind = kind, .parts = {first, second, third}};
    return finish_term(reader, term, result);
}

static kn_status read_choice(expression_reader *reader, const kn_term **result);

static kn_status read_call(expression_reader *reader, size_t start, size_t length, const kn_term **result) {
    const char *names[KN_COUNT_OF(functions)];
    char word[33];
    kn_term *call = kn_arena_take(reader->arena, 1, sizeof *call);
    if (!call) return kn_fail_memory(reader->error, sizeof *call);
    size_t kept = length < sizeof word - 1 ? length : sizeof word - 1;
    memcpy(word, reader->text + start, kept);
    word[kept] = '\0';
    int found = -1;
    for (size_t i = 0; i < KN_COUNT_OF(functions); i++) {
        names[i] = functions[i].name;
        if (strcmp(names[i], word) == 0) found = (int)i;
    }
    if (found < 0) {
        const char *near = kn_nearest_word(word, names, KN_COUNT_OF(names));
        return kn_fail(reader->error, KN_ERROR_FORMAT,
                       "expression '%.300s', column %zu: unknown function '%s'%s%s%s", reader->text,
                       start + 1, word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    *call = (kn_term){.kind = KN_TERM_CALL, .function = (kn_function)found};
    for (int i = 0; i < functions[found].arguments; i++) {
        if (!take(reader, i == 0 ? "(" : ",")) return fail_at(reader, "','");
        kn_status status = read_choice(reader, &call->parts[i]);
        if (status != KN_OK) return status;
    }
    const kn_term *places = call->function == KN_FUNCTION_COARSE ? call->parts[2] : NULL;
    if (places && (places->kind != KN_TERM_NUMBER || places->number != floor(places->number) ||
                   !(places->number >= 1 && places->number <= 23)))
        return fail_at(reader, "a number of bits from 1 to 23");
    if (!take(reader, ")")) return fail_at(reader, "')'");
    return finish_term(reader, call, result);
}

static kn_status read_name(expression_reader *reader, const kn_term **result) {
    kn_expression *expression = reader->expression;
    size_t start = reader->position, length = 0;
    while (in_name(reader->text[start + length]))
        length++;
    reader->position += length;
    if (next(reader) == '(') return read_call(reader, start, length, result);
    int position = 0;
    while (position < expression->name_count &&
           (strlen(expression->names[position]) != length ||
            strncmp(expression->names[position], reader->text + start, length)))
        position++;
    if (position == expression->name_count) {
        if (position == KN_EXPRESSION_NAMES)
            return kn_fail(reader->error, KN_ERROR_UNSUPPORTED,
                           "expression '%.300s' reads more than %d names", reader->text, KN_EXPRESSION_NAMES);
        char *name = kn_arena_take(reader->arena, length + 1, 1);
        if (!name) return kn_fail_memory(reader->error, length + 1);
        memcpy(name, reader->text + start, length);
        expression->names[expression->name_count++] = name;
    }
    kn_term *term = kn_arena_take(reader->arena, 1, sizeof *term);
    if (!term) return kn_fail_memory(reader->error, sizeof *term);
    *term = (kn_term){.kind = KN_TERM_NAME, .name = position};
    return finish_term(reader, term, result);
}

static kn_status read_number(expression_reader *reader, const kn_term **result) {
    const char *start = reader->text + reader->position, *end;
    kn_term *term = kn_arena_take(reader->arena, 1, sizeof *term);
    if (!term) return kn_fail_memory(reader->error, sizeof *term);
    *term = (kn_term){.kind = KN_TERM_NUMBER};
    if (!kn_parse_double(start, &end, &term->number))
        return fail_at(reader, "a number within the range of double");
    reader->position += (size_t)(end - start);
    if (in_name(reader->text[reader->position])) return fail_at(reader, "an operator after the number");
    return finish_term(reader, term, result);
}

static kn_status read_factor(expression_reader *reader, const kn_term **result) {
    kn_status status;
    char c = next(reader);
    if (++reader->depth > KN_EXPRESSION_DEPTH) return fail_at(reader, "less nesting");
    if (c == '-' || c == '!') {
        reader->position++;
        status = read_factor(reader, result);
        if (status == KN_OK)
            status = make(reader, c == '-' ? KN_TERM_NEGATE : KN_TERM_NOT, *result, NULL, NULL, result);
    } else if (c == '(') {
        reader->position++;
        status = read_choice(reader, result);
        if (status == KN_OK && !take(reader, ")")) status = fail_at(reader, "')'");
    } else if (kn_is_digit(c) || (c == '.' && kn_is_digit(reader->text[reader->position + 1]))) {
        status = read_number(reader, result);
    } else if (begins_name(c))
        status = read_name(reader, result);
    else
        status = fail_at(reader, "a number, a name, '-', '!' or '('");
    reader->depth--;
    return status;
}

/* Binary operators by precedence, lowest first; within a level, longer ones first. */
static const struct {
    const char *text;
    kn_term_kind kind;
} operators[5][7] = {
    {{"||", KN_TERM_OR}},
    {{"&&", KN_TERM_AND}},
    {{"<=", KN_TERM_LESS_EQUAL},
     {">=", KN_TERM_GREATER_EQUAL},
     {"==", KN_TERM_EQUAL},
     {"!=", KN_TERM_NOT_EQUAL},
     {"<", KN_TERM_LESS},
     {">", KN_TERM_GREATER}},
    {{"+", KN_TERM_ADD}, {"-", KN_TERM_SUBTRACT}},
    {{"*", KN_TERM_MULTIPLY}, {"/", KN_TERM_DIVIDE}},
};
enum { COMPARISONS = 2, HIGHEST = 4 };

static kn_status read_level(expression_reader *reader, int level, const kn_term **result) {
    if (level > HIGHEST) return read_factor(reader, result);
    kn_status status = read_level(reader, level + 1, result);
    for (int length = 1; status == KN_OK;) {
        int found = -1;
        for (int i = 0; found < 0 && operators[level][i].text; i++)
            if (take(reader, operators[level][i].text)) found = i;
        if (found < 0) break;
        if (level == COMPARISONS && length > 1)
            return fail_at(reader, "parentheses around one of two comparisons");
        /* A chain counts as nesting because its tree is equally deep. */
        if (++length > KN_EXPRESSION_DEPTH) return fail_at(reader, "a shorter chain of operators");
        const kn_term *right = NULL;
        status = read_level(reader, level + 1, &right);
        if (status == KN_OK)
            status = make(reader, operators[level][found].kind, *result, right, NULL, result);
    }
    return status;
}

static kn_status read_choice(expression_reader *reader, const kn_term **result) {
    if (++reader->depth > KN_EXPRESSION_DEPTH) return fail_at(reader, "less nesting");
    kn_status status = read_level(reader, 0, result);
    if (status == KN_OK && take(reader, "?")) {
        const kn_term *yes = NULL, *no = NULL;
        status = read_choice(reader, &yes);
        if (status == KN_OK && !take(reader, ":")) status = fail_at(reader, "':'");
        if (status == KN_OK) status = read_choice(reader, &no);
        if (status == KN_OK) status = make(reader, KN_TERM_CHOOSE, *result, yes, no, result);
    }
    reader->depth--;
    return status;
}

kn_status kn_expression_parse(kn_arena *arena, const char *text, kn_expression **expression,
                              kn_error *error) {
    *expression = NULL;
    kn_expression *made = kn_arena_take(arena, 1, sizeof *made);
    if (!made) return kn_fail_memory(error, sizeof *made);
    made->text = kn_arena_text(arena, text ? text : "");
    made->names = kn_arena_take(arena, KN_EXPRESSION_NAMES, sizeof *made->names);
    if (!made->text || !made->names) return kn_fail_memory(error, sizeof *made);
    expression_reader reader = {.arena = arena, .expression = made, .text = made->text, .error = error};
    kn_status status = read_choice(&reader, &made->root);
    if (status == KN_OK && next(&reader) != '\0') status = fail_at(&reader, "an operator or the end");
    if (status == KN_OK) *expression = made;
    return status;
}

int kn_expression_name_count(const kn_expression *expression) {
    return expression->name_count;
}

const char *kn_expression_name(const kn_expression *expression, int position) {
    return position >= 0 && position < expression->name_count ? expression->names[position] : NULL;
}

bool kn_expression_reads(const kn_expression *expression, const char *name) {
    for (int i = 0; i < expression->name_count; i++)
        if (strcmp(expression->names[i], name) == 0) return true;
    return false;
}

bool kn_expression_is_name(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!in_name(text[i])) return false;
    return length > 0 && begins_name(text[0]);
}

bool kn_expression_text_reads(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *c = text; *c;) {
        size_t word = 0;
        while (in_name(c[word]))
            word++;
        if (word == length && strncmp(c, name, length) == 0) return true;
        c += word ? word : 1;
    }
    return false;
}

/* Calls of bit operations on integers. */
static bool is_bit_call(const kn_term *term) {
    return term->kind == KN_TERM_CALL &&
           (term->function == KN_FUNCTION_BIT_AND || term->function == KN_FUNCTION_BIT_OR ||
            term->function == KN_FUNCTION_BIT_XOR || term->function == KN_FUNCTION_BIT_LEFT ||
            term->function == KN_FUNCTION_BIT_RIGHT);
}

static bool is_integer(const kn_term *term) {
    switch (term->kind) {
    case KN_TERM_NUMBER:
        if (term->number != floor(term->number)) return false;
        break;
    case KN_TERM_DIVIDE:
        return false;
    case KN_TERM_CALL:
        if (term->function != KN_FUNCTION_ABS && term->function != KN_FUNCTION_MIN &&
            term->function != KN_FUNCTION_MAX && term->function != KN_FUNCTION_FLOOR &&
            term->function != KN_FUNCTION_ISNAN && term->function != KN_FUNCTION_CEIL &&
            term->function != KN_FUNCTION_ROUND && term->function != KN_FUNCTION_FMOD &&
            term->function != KN_FUNCTION_QUOTIENT && !is_bit_call(term))
            return false;
        break;
    default:
        break;
    }
    for (int i = 0; i < 3 && term->parts[i]; i++)
        if (!is_integer(term->parts[i])) return false;
    return true;
}

bool kn_expression_keeps_integers(const kn_expression *expression) {
    return is_integer(expression->root);
}

/* ---- computing ---------------------------------------------------------------------------------------- */

static double call_bits(kn_function function, double x, double y) {
    int64_t a, b;
    if (!isfinite(x) || !isfinite(y)) return NAN;
    kn_element_set(KN_INT64, &a, 0, trunc(x));
    kn_element_set(KN_INT64, &b, 0, trunc(y));
    if (function == KN_FUNCTION_BIT_AND) return (double)(a & b);
    if (function == KN_FUNCTION_BIT_OR) return (double)(a | b);
    if (function == KN_FUNCTION_BIT_XOR) return (double)(a ^ b);
    if (b < 0 || b > 63) return 0;
    return function == KN_FUNCTION_BIT_LEFT ? ldexp((double)a, (int)b) : floor(ldexp((double)a, -(int)b));
}

/* Adds the discarded bits and u, and carries into the last remaining bit. */
static double call_coarse(double x, double u, int places) {
    const uint32_t bits = kn_bits_of_float((float)x);
    return kn_float_of_bits((bits + (uint32_t)ldexp(u, places)) & (0xffffffffu << places));
}

static double call_function(kn_function function, double x, double y) {
    switch (function) {
    case KN_FUNCTION_EXP:
        return exp(x);
    case KN_FUNCTION_LOG:
        return log(x);
    case KN_FUNCTION_SQRT:
        return sqrt(x);
    case KN_FUNCTION_RSQRT:
        return 1 / sqrt(x);
    case KN_FUNCTION_ABS:
        return fabs(x);
    case KN_FUNCTION_SIN:
        return sin(x);
    case KN_FUNCTION_COS:
        return cos(x);
    case KN_FUNCTION_TANH:
        return tanh(x);
    case KN_FUNCTION_ERF:
        return erf(x);
    case KN_FUNCTION_POW:
        return pow(x, y);
    case KN_FUNCTION_MIN:
        return x > y || isnan(y) ? y : x;
    case KN_FUNCTION_MAX:
        return x < y || isnan(y) ? y : x;
    case KN_FUNCTION_FLOOR:
        return floor(x);
    case KN_FUNCTION_ISNAN:
        return isnan(x) ? 1 : 0;
    case KN_FUNCTION_SIGMOID:
        return 1 / (1 + exp(-x)); /* exp overflows to infinity and the quotient becomes 0 */
    case KN_FUNCTION_SOFTPLUS:
        return fmax(x, 0) + log1p(exp(-fabs(x)));
    case KN_FUNCTION_CEIL:
        return ceil(x);
    case KN_FUNCTION_ROUND:
        return rint(x);
    case KN_FUNCTION_TAN:
        return tan(x);
    case KN_FUNCTION_ASIN:
        return asin(x);
    case KN_FUNCTION_ACOS:
        return acos(x);
    case KN_FUNCTION_ATAN:
        return atan(x);
    case KN_FUNCTION_SINH:
        return sinh(x);
    case KN_FUNCTION_COSH:
        return cosh(x);
    case KN_FUNCTION_ASINH:
        return asinh(x);
    case KN_FUNCTION_ACOSH:
        return acosh(x);
    case KN_FUNCTION_ATANH:
        return atanh(x);
    case KN_FUNCTION_ATAN2:
        return atan2(x, y);
    case KN_FUNCTION_FMOD:
        return fmod(x, y);
    case KN_FUNCTION_QUOTIENT:
        return y == 0 ? 0 : trunc(x / y);
    case KN_FUNCTION_LOG1P:
        return log1p(x);
    case KN_FUNCTION_EXPM1:
        return expm1(x);
    case KN_FUNCTION_BIT_AND:
    case KN_FUNCTION_BIT_OR:
    case KN_FUNCTION_BIT_XOR:
    case KN_FUNCTION_BIT_LEFT:
    case KN_FUNCTION_BIT_RIGHT:
        return call_bits(function, x, y);
    case KN_FUNCTION_COARSE:
        break; /* has three operands */
    }
    return NAN;
}

static double evaluate(const kn_term *term, const double *numbers) {
    switch (term->kind) {
    case KN_TERM_NUMBER:
        return term->number;
    case KN_TERM_NAME:
        return numbers[term->name];
    case KN_TERM_CHOOSE:
        return evaluate(term->parts[evaluate(term->parts[0], numbers) != 0 ? 1 : 2], numbers);
    default:
        break;
    }
    double x = evaluate(term->parts[0], numbers);
    double y = term->parts[1] ? evaluate(term->parts[1], numbers) : 0;
    switch (term->kind) {
    case KN_TERM_NEGATE:
        return -x;
    case KN_TERM_NOT:
        return x == 0;
    case KN_TERM_ADD:
        return x + y;
    case KN_TERM_SUBTRACT:
        return x - y;
    case KN_TERM_MULTIPLY:
        return x * y;
    case KN_TERM_DIVIDE:
        return x / y;
    case KN_TERM_LESS:
        return x < y;
    case KN_TERM_LESS_EQUAL:
        return x <= y;
    case KN_TERM_GREATER:
        return x > y;
    case KN_TERM_GREATER_EQUAL:
        return x >= y;
    case KN_TERM_EQUAL:
        return x == y;
    case KN_TERM_NOT_EQUAL:
        return x != y;
    case KN_TERM_AND:
        return x != 0 && y != 0;
    case KN_TERM_OR:
        return x != 0 || y != 0;
    case KN_TERM_CALL:
        return term->function == KN_FUNCTION_COARSE ? call_coarse(x, y, (int)term->parts[2]->number)
                                                    : call_function(term->function, x, y);
    default:
        return NAN;
    }
}

double kn_expression_evaluate(const kn_expression *expression, const double *numbers) {
    return evaluate(expression->root, numbers);
}
