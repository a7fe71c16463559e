/* Pointwise expressions as OpenCL C, for scalars and vectors.
 *
 * OpenCL comparisons give 0 and 1 for scalars but 0 and -1, in integers as wide as the elements, for vectors;
 * a choice is ?: for scalars and select for vectors. Each term is therefore printed as a number or as a
 * condition and converted where necessary. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"

typedef struct expression_printer {
    const char *type;
    bool vector, whole; /* more than one lane; integer lanes */
    char base[16];      /* type of one lane */
    const char *const *replacements;
    kn_text *text;
} expression_printer;

static void print_number(const expression_printer *printer, const kn_term *term);
static void print_condition(const expression_printer *printer, const kn_term *term);

static void printer_init(expression_printer *printer, const char *type, const char *const *replacements,
                         kn_text *text) {
    size_t length = strcspn(type, "0123456789");
    if (length >= sizeof printer->base) length = sizeof printer->base - 1;
    *printer = (expression_printer){.type = type, .replacements = replacements, .text = text};
    memcpy(printer->base, type, length);
    printer->vector = type[strcspn(type, "0123456789")] != '\0';
    printer->whole =
        strcmp(printer->base, "float") && strcmp(printer->base, "double") && strcmp(printer->base, "half");
}

/* The element type of an OpenCL integer type. */
static kn_dtype integer_type_of(const char *base) {
    static const struct {
        const char *name;
        kn_dtype dtype;
    } types[] = {{"char", KN_INT8}, {"uchar", KN_UINT8}, {"short", KN_INT16}, {"ushort", KN_UINT16},
                 {"int", KN_INT32}, {"uint", KN_UINT32}, {"ulong", KN_UINT64}};
    for (size_t i = 0; i < KN_COUNT_OF(types); i++)
        if (!strcmp(base, types[i].name)) return types[i].dtype;
    return KN_INT64;
}

/* Prints the literal of one lane. Single precision has a suffix; half has none. */
static void print_lane(const expression_printer *printer, double number) {
    kn_text *text = printer->text;
    bool is_double = strcmp(printer->base, "double") == 0;
    if (printer->whole) {
        /* An infinite bound becomes the limit of the type. */
        const kn_dtype own = integer_type_of(printer->base);
        int64_t integer, bits = 0;
        kn_element_set(own, &bits, 0, number);
        kn_element_set(KN_INT64, &integer, 0, kn_element_get(own, &bits, 0));
        kn_text_format(text, integer > INT32_MAX || integer < INT32_MIN ? "%lldL" : "%lld",
                       (long long)integer);
        return;
    }
    if (isnan(number) || isinf(number)) {
        kn_text_add(text, isnan(number) ? "NAN" : number > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    size_t start = text->length;
    if (is_double)
        kn_text_number(text, number);
    else
        kn_text_number_float(text, (float)number);
    if (kn_text_failed(text)) return;
    /* A double above the range of float prints as infinity. */
    if (strstr(text->data + start, "inf")) {
        text->length = start;
        kn_text_add(text, number > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    if (!strpbrk(text->data + start, ".e")) kn_text_add(text, ".0");
    if (!is_double) kn_text_add(text, "f");
}

static void print_literal(const expression_printer *printer, double number) {
    bool plain = !printer->vector && strcmp(printer->base, "half") && !isnan(number) && !isinf(number);
    bool negative = signbit(number) && !isnan(number);
    if (!plain) kn_text_format(printer->text, "(%s)", printer->type);
    if (!plain || negative) kn_text_add(printer->text, "(");
    if (printer->vector && strcmp(printer->base, "half") == 0) kn_text_add(printer->text, "(half)");
    print_lane(printer, number);
    if (!plain || negative) kn_text_add(printer->text, ")");
}

void kn_expression_literal(double number, const char *type, kn_text *text) {
    expression_printer printer;
    printer_init(&printer, type, NULL, text);
    print_literal(&printer, number);
}

static bool is_condition(const kn_term *term) {
    switch (term->kind) {
    case KN_TERM_NOT:
    case KN_TERM_LESS:
    case KN_TERM_LESS_EQUAL:
    case KN_TERM_GREATER:
    case KN_TERM_GREATER_EQUAL:
    case KN_TERM_EQUAL:
    case KN_TERM_NOT_EQUAL:
    case KN_TERM_AND:
    case KN_TERM_OR:
        return true;
    case KN_TERM_CALL:
        return term->function == KN_FUNCTION_ISNAN;
    default:
        return false;
    }
}

/* Prints (left operator right), with both sides as numbers or both as conditions. */
static void print_pair(const expression_printer *printer, const kn_term *term, const char *symbol,
                       bool conditions) {
    void (*print)(const expression_printer *, const kn_term *) = conditions ? print_condition : print_number;
    kn_text_add(printer->text, "(");
    print(printer, term->parts[0]);
    kn_text_format(printer->text, " %s ", symbol);
    print(printer, term->parts[1]);
    kn_text_add(printer->text, ")");
}

static void print_condition(const expression_printer *printer, const kn_term *term) {
    switch (term->kind) {
    case KN_TERM_LESS:
        print_pair(printer, term, "<", false);
        return;
    case KN_TERM_LESS_EQUAL:
        print_pair(printer, term, "<=", false);
        return;
    case KN_TERM_GREATER:
        print_pair(printer, term, ">", false);
        return;
    case KN_TERM_GREATER_EQUAL:
        print_pair(printer, term, ">=", false);
        return;
    case KN_TERM_EQUAL:
        print_pair(printer, term, "==", false);
        return;
    case KN_TERM_NOT_EQUAL:
        print_pair(printer, term, "!=", false);
        return;
    /* Each lane of a condition has all bits set or none, so & and | work for both forms. */
    case KN_TERM_AND:
        print_pair(printer, term, "&", true);
        return;
    case KN_TERM_OR:
        print_pair(printer, term, "|", true);
        return;
    case KN_TERM_NOT:
        kn_text_add(printer->text, "(!");
        print_condition(printer, term->parts[0]);
        kn_text_add(printer->text, ")");
        return;
    default:
        break;
    }
    if (is_condition(term)) { /* isnan */
        kn_text_add(printer->text, printer->whole ? "(0 != " : "isnan(");
        if (printer->whole) kn_text_add(printer->text, "0 * ");
        print_number(printer, term->parts[0]);
        kn_text_add(printer->text, ")");
        return;
    }
    kn_text_add(printer->text, "(");
    print_number(printer, term);
    kn_text_add(printer->text, " != ");
    print_literal(printer, 0);
    kn_text_add(printer->text, ")");
}

static void print_choice(const expression_printer *printer, const kn_term *condition, const kn_term *yes,
                         const kn_term *no) {
    kn_text *text = printer->text;
    if (printer->vector) {
        kn_text_add(text, "select(");
        print_number(printer, no);
        kn_text_add(text, ", ");
        print_number(printer, yes);
        kn_text_add(text, ", ");
        print_condition(printer, condition);
    } else {
        kn_text_add(text, "(");
        print_condition(printer, condition);
        kn_text_add(text, " ? ");
        print_number(printer, yes);
        kn_text_add(text, " : ");
        print_number(printer, no);
    }
    kn_text_add(text, ")");
}

static void print_function(const expression_printer *printer, const char *function, const kn_term *term) {
    kn_text_format(printer->text, "%s(", function);
    for (int i = 0; i < 2 && term->parts[i]; i++) {
        if (i > 0) kn_text_add(printer->text, ", ");
        print_number(printer, term->parts[i]);
    }
    kn_text_add(printer->text, ")");
}

/* Prints min and max as "y if x is beyond y or y is NaN, else x", which propagates NaN. */
static void print_extreme(const expression_printer *printer, const kn_term *term) {
    const kn_term *x = term->parts[0], *y = term->parts[1];
    kn_term beyond = {.kind = term->function == KN_FUNCTION_MAX ? KN_TERM_LESS : KN_TERM_GREATER,
                      .parts = {x, y}};
    kn_term missing = {.kind = KN_TERM_CALL, .function = KN_FUNCTION_ISNAN, .parts = {y}};
    kn_term either = {.kind = KN_TERM_OR, .parts = {&beyond, &missing}};
    bool never_missing = printer->whole || y->kind == KN_TERM_NUMBER;
    print_choice(printer, never_missing ? &beyond : &either, y, x);
}

static void print_sigmoid(const expression_printer *printer, const kn_term *x) {
    kn_text *text = printer->text;
    kn_text_add(text, "(");
    print_literal(printer, 1);
    kn_text_add(text, " / (");
    print_literal(printer, 1);
    kn_text_add(text, " + exp(-");
    print_number(printer, x);
    kn_text_add(text, ")))");
}

static void print_softplus(const expression_printer *printer, const kn_term *x) {
    kn_text *text = printer->text;
    kn_text_add(text, "(fmax(");
    print_number(printer, x);
    kn_text_add(text, ", ");
    print_literal(printer, 0);
    kn_text_add(text, ") + log1p(exp(-fabs(");
    print_number(printer, x);
    kn_text_add(text, "))))");
}

/* Prints (x operator y) of integers, with 1 instead of a divisor of -1, 0 or 1: a division by 0 and one that
 * overflows are undefined in OpenCL C. */
static void print_division(const expression_printer *printer, const kn_term *term, const char *symbol) {
    const kn_term *y = term->parts[1];
    kn_term zero = {.kind = KN_TERM_NUMBER}, one = {.kind = KN_TERM_NUMBER, .number = 1};
    kn_term above = {.kind = KN_TERM_GREATER, .parts = {y, &one}};
    kn_term negative = {.kind = KN_TERM_LESS, .parts = {y, &zero}}; /* always false for unsigned types */
    kn_term next = {.kind = KN_TERM_ADD, .parts = {y, &one}};
    kn_term next_negative = {.kind = KN_TERM_LESS, .parts = {&next, &zero}};
    kn_term below = {.kind = KN_TERM_AND, .parts = {&negative, &next_negative}};
    kn_term divides = {.kind = KN_TERM_OR, .parts = {&above, &below}};
    kn_text_add(printer->text, "(");
    print_number(printer, term->parts[0]);
    kn_text_format(printer->text, " %s ", symbol);
    print_choice(printer, &divides, y, &one);
    kn_text_add(printer->text, ")");
}

/* Integers: 0 for divisors -1, 0 and 1. */
static void print_remainder(const expression_printer *printer, const kn_term *term) {
    if (printer->whole)
        print_division(printer, term, "%");
    else
        print_function(printer, "fmod", term);
}

/* Integers: the sign is a factor for divisors -1, 0 and 1. */
static void print_quotient(const expression_printer *printer, const kn_term *term) {
    const kn_term *y = term->parts[1];
    kn_term zero = {.kind = KN_TERM_NUMBER}, one = {.kind = KN_TERM_NUMBER, .number = 1};
    kn_term minus = {.kind = KN_TERM_NUMBER, .number = -1};
    kn_term next = {.kind = KN_TERM_ADD, .parts = {y, &one}};
    kn_term negative = {.kind = KN_TERM_LESS, .parts = {y, &zero}};
    kn_term before_zero = {.kind = KN_TERM_EQUAL, .parts = {&next, &zero}};
    kn_term minus_one = {.kind = KN_TERM_AND, .parts = {&negative, &before_zero}};
    kn_term none = {.kind = KN_TERM_EQUAL, .parts = {y, &zero}};
    kn_term exact = {.kind = KN_TERM_DIVIDE, .parts = {term->parts[0], y}};
    kn_term below = {.kind = KN_TERM_LESS, .parts = {&exact, &zero}};
    kn_term up = {.kind = KN_TERM_CALL, .function = KN_FUNCTION_CEIL, .parts = {&exact}};
    kn_term down = {.kind = KN_TERM_CALL, .function = KN_FUNCTION_FLOOR, .parts = {&exact}};
    kn_term rounded = {.kind = KN_TERM_CHOOSE, .parts = {&below, &up, &down}};
    kn_term sign = {.kind = KN_TERM_CHOOSE, .parts = {&minus_one, &minus, &one}};
    if (!printer->whole) {
        print_choice(printer, &none, &zero, &rounded);
        return;
    }
    kn_text_add(printer->text, "(");
    print_division(printer, term, "/");
    kn_text_add(printer->text, " * ");
    print_choice(printer, &none, &zero, &sign);
    kn_text_add(printer->text, ")");
}

/* Prints (x operator y) on operands truncated to integers; NaN and infinities give NaN. */
static void print_bits(const expression_printer *printer, const kn_term *term, const char *symbol) {
    kn_text *text = printer->text;
    const char *whole = strcmp(printer->base, "double") == 0 ? "long" : "int";
    const char *lanes = printer->type + strcspn(printer->type, "0123456789");
    kn_text_format(text, printer->whole ? "((%s)(" : "(convert_%s(", printer->type);
    for (int i = 0; i < 2; i++) {
        if (i) kn_text_format(text, " %s ", symbol);
        if (!printer->whole) kn_text_format(text, "convert_%s%s(", whole, lanes);
        print_number(printer, term->parts[i]);
        if (!printer->whole) kn_text_add(text, ")");
    }
    kn_text_add(text, ")");
    for (int i = 0; i < 2 && !printer->whole; i++) {
        kn_text_add(text, " + ");
        print_literal(printer, 0);
        kn_text_add(text, " * ");
        print_number(printer, term->parts[i]);
    }
    kn_text_add(text, ")");
}

static void print_coarse(const expression_printer *printer, const kn_term *term) {
    kn_text *text = printer->text;
    const char *lanes = printer->type + strcspn(printer->type, "0123456789");
    const uint32_t carry = 1u << (int)term->parts[2]->number;
    kn_text_format(text, "convert_%s(as_float%s((as_uint%s(convert_float%s(", printer->type, lanes, lanes,
                   lanes);
    print_number(printer, term->parts[0]);
    kn_text_format(text, ")) + convert_uint%s(convert_float%s(", lanes, lanes);
    print_number(printer, term->parts[1]);
    kn_text_format(text, ") * %lu.0f)) & 0x%lxu))", (unsigned long)carry, (unsigned long)(0u - carry));
}

/* In single precision a function of cl/common/erf.cl. */
static void print_erf(const expression_printer *printer, const kn_term *term) {
    char name[32] = "erf";
    if (!strcmp(printer->base, "float")) snprintf(name, sizeof name, "kn_erf_%s", printer->type);
    print_function(printer, name, term);
}

static void print_call(const expression_printer *printer, const kn_term *term) {
    switch (term->function) {
    case KN_FUNCTION_EXP:
        print_function(printer, "exp", term);
        return;
    case KN_FUNCTION_LOG:
        print_function(printer, "log", term);
        return;
    case KN_FUNCTION_SQRT:
        print_function(printer, "sqrt", term);
        return;
    case KN_FUNCTION_RSQRT:
        print_function(printer, "rsqrt", term);
        return;
    case KN_FUNCTION_SIN:
        print_function(printer, "sin", term);
        return;
    case KN_FUNCTION_COS:
        print_function(printer, "cos", term);
        return;
    case KN_FUNCTION_TANH:
        print_function(printer, "tanh", term);
        return;
    case KN_FUNCTION_ERF:
        print_erf(printer, term);
        return;
    case KN_FUNCTION_POW:
        print_function(printer, "pow", term);
        return;
    case KN_FUNCTION_FLOOR:
        print_function(printer, printer->whole ? "" : "floor", term);
        return;
    case KN_FUNCTION_ABS: {
        kn_term zero = {.kind = KN_TERM_NUMBER},
                opposite = {.kind = KN_TERM_NEGATE, .parts = {term->parts[0]}};
        kn_term below = {.kind = KN_TERM_LESS, .parts = {term->parts[0], &zero}};
        /* OpenCL's abs of integers returns an unsigned type. */
        if (printer->whole)
            print_choice(printer, &below, &opposite, term->parts[0]);
        else
            print_function(printer, "fabs", term);
        return;
    }
    case KN_FUNCTION_MIN:
    case KN_FUNCTION_MAX:
        print_extreme(printer, term);
        return;
    case KN_FUNCTION_SIGMOID:
        print_sigmoid(printer, term->parts[0]);
        return;
    case KN_FUNCTION_SOFTPLUS:
        print_softplus(printer, term->parts[0]);
        return;
    case KN_FUNCTION_CEIL:
        print_function(printer, printer->whole ? "" : "ceil", term);
        return;
    case KN_FUNCTION_ROUND:
        print_function(printer, printer->whole ? "" : "rint", term);
        return;
    case KN_FUNCTION_TAN:
        print_function(printer, "tan", term);
        return;
    case KN_FUNCTION_ASIN:
        print_function(printer, "asin", term);
        return;
    case KN_FUNCTION_ACOS:
        print_function(printer, "acos", term);
        return;
    case KN_FUNCTION_ATAN:
        print_function(printer, "atan", term);
        return;
    case KN_FUNCTION_SINH:
        print_function(printer, "sinh", term);
        return;
    case KN_FUNCTION_COSH:
        print_function(printer, "cosh", term);
        return;
    case KN_FUNCTION_ASINH:
        print_function(printer, "asinh", term);
        return;
    case KN_FUNCTION_ACOSH:
        print_function(printer, "acosh", term);
        return;
    case KN_FUNCTION_ATANH:
        print_function(printer, "atanh", term);
        return;
    case KN_FUNCTION_ATAN2:
        print_function(printer, "atan2", term);
        return;
    case KN_FUNCTION_FMOD:
        print_remainder(printer, term);
        return;
    case KN_FUNCTION_QUOTIENT:
        print_quotient(printer, term);
        return;
    case KN_FUNCTION_LOG1P:
        print_function(printer, "log1p", term);
        return;
    case KN_FUNCTION_EXPM1:
        print_function(printer, "expm1", term);
        return;
    case KN_FUNCTION_BIT_AND:
        print_bits(printer, term, "&");
        return;
    case KN_FUNCTION_BIT_OR:
        print_bits(printer, term, "|");
        return;
    case KN_FUNCTION_BIT_XOR:
        print_bits(printer, term, "^");
        return;
    case KN_FUNCTION_BIT_LEFT:
        print_bits(printer, term, "<<");
        return;
    case KN_FUNCTION_BIT_RIGHT:
        print_bits(printer, term, ">>");
        return;
    case KN_FUNCTION_COARSE:
        print_coarse(printer, term);
        return;
    case KN_FUNCTION_ISNAN:
        return; /* a condition */
    }
}

static void print_number(const expression_printer *printer, const kn_term *term) {
    if (is_condition(term)) {
        kn_term one = {.kind = KN_TERM_NUMBER, .number = 1}, zero = {.kind = KN_TERM_NUMBER};
        print_choice(printer, term, &one, &zero);
        return;
    }
    switch (term->kind) {
    case KN_TERM_NUMBER:
        print_literal(printer, term->number);
        return;
    case KN_TERM_NAME: {
        const char *word = printer->replacements[term->name];
        kn_text_format(printer->text, *word == '-' ? "(%s)" : "%s",
                       word); /* "--" would be parsed as another operator */
        return;
    }
    case KN_TERM_NEGATE:
        kn_text_add(printer->text, "(-");
        print_number(printer, term->parts[0]);
        kn_text_add(printer->text, ")");
        return;
    case KN_TERM_ADD:
        print_pair(printer, term, "+", false);
        return;
    case KN_TERM_SUBTRACT:
        print_pair(printer, term, "-", false);
        return;
    case KN_TERM_MULTIPLY:
        print_pair(printer, term, "*", false);
        return;
    case KN_TERM_DIVIDE:
        print_pair(printer, term, "/", false);
        return;
    case KN_TERM_CHOOSE:
        print_choice(printer, term->parts[0], term->parts[1], term->parts[2]);
        return;
    default:
        print_call(printer, term);
        return;
    }
}

void kn_expression_print(const kn_expression *expression, const char *type, const char *const *replacements,
                         kn_text *text) {
    expression_printer printer;
    printer_init(&printer, type, replacements, text);
    kn_text_add(text, "(");
    print_number(&printer, expression->root);
    kn_text_add(text, ")");
}
