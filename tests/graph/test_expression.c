/* Pointwise expressions: reading, computing, writing as OpenCL C. */
#include "graph_tests.h"

#include <math.h>

static double evaluate(const char *text, double x, double y) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_error error = {0};
    kn_expression *expression;
    double inputs[8];
    kn_arena_init(&arena, &host);
    if (kn_expression_parse(&arena, text, &expression, &error) != KN_OK) fail_msg("%s", error.text);
    for (int i = 0; i < kn_expression_name_count(expression); i++)
        inputs[i] = strcmp(kn_expression_name(expression, i), "x") == 0 ? x : y;
    double result = kn_expression_evaluate(expression, inputs);
    kn_arena_finish(&arena);
    return result;
}

TEST(test_values) {
    const struct {
        const char *text;
        double x, y, result;
    } cases[] = {
        {"1 + 2 * 3", 0, 0, 7},
        {"(1 + 2) * 3", 0, 0, 9},
        {"8 / 2 / 2", 0, 0, 2},
        {"8 - 2 - 2", 0, 0, 4},
        {"-x * -y", 3, 4, 12},
        {"- -x", 3, 0, 3},
        {"1e-2 + .5 + 2.", 0, 0, 2.51},
        {"x > 0 ? x : y * x", -2, 0.5, -1},
        {"x > 0 ? 1 : x < 0 ? 2 : 3", 0, 0, 3},
        {"(x > 0) + (y > 0)", 1, 1, 2},
        {"x >= 1 && y <= 1 || x == y", 1, 1, 1},
        {"x != y && !(x < y)", 2, 1, 1},
        {"!x", 0, 0, 1},
        {"!x", 5, 0, 0},
        {"x && y", 0.5, 2, 1},
        {"exp(0) + log(1) + sqrt(4) + rsqrt(4)", 0, 0, 3.5},
        {"abs(x) + floor(y)", -3, -1.5, 1},
        {"sin(0) + cos(0) + tanh(0) + erf(0)", 0, 0, 1},
        {"pow(x, y)", 2, 10, 1024},
        {"min(x, y) * 10 + max(x, y)", 3, 7, 37},
        {"isnan(x) + isnan(x / x)", 0, 0, 1},
        {"sigmoid(0) + softplus(0)", 0, 0, 0.5 + 0.69314718055994531},
        {"sigmoid(x)", -1000, 0, 0},
        {"sigmoid(x)", 1000, 0, 1},
        {"softplus(x)", 1000, 0, 1000},
        {"softplus(x)", -1000, 0, 0},
        {"softplus(x)", INFINITY, 0, INFINITY},
        {"softplus(x)", -40, 0, 4.248354255291589e-18},
        {"coarse(x, y, 16)", 1 + 0x1p-8, 0.4999, 1},
        {"coarse(x, y, 16)", 1 + 0x1p-8, 0.5, 1 + 0x1p-7},
        {"coarse(x, y, 16)", -1 - 0x1p-9, 0.75, -1 - 0x1p-7},
        {"coarse(x, y, 16)", -1 - 0x1p-9, 0.7499, -1},
        {"coarse(x, y, 16)", 3, 0.99999, 3},
        {"coarse(x, y, 16)", INFINITY, 0.99999, INFINITY},
        {"coarse(x, y, 20)", -1 - 0x1p-4, 0.5, -1.125},
        {"coarse(x, 0, 23)", 0x1.fp-20, 0, 0x1p-20},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        double found = evaluate(cases[i].text, cases[i].x, cases[i].y);
        if (!(fabs(found - cases[i].result) <= 1e-15 * fabs(cases[i].result)) && found != cases[i].result)
            fail_msg("%s is %.17g, expected %.17g", cases[i].text, found, cases[i].result);
    }
}

TEST(test_not_a_number) {
    assert_true(isnan(evaluate("max(x, 0)", NAN, 0)));
    assert_true(isnan(evaluate("max(0, x)", NAN, 0)));
    assert_true(isnan(evaluate("min(x, y)", 1, NAN)));
    assert_true(isnan(evaluate("min(x, y)", NAN, 1)));
    assert_true(evaluate("x > 0 ? x : 0", NAN, 0) == 0);
    assert_true(evaluate("x == x", NAN, 0) == 0);
    assert_true(evaluate("x != x", NAN, 0) == 1);
    assert_true(isnan(evaluate("softplus(x)", NAN, 0)));
    assert_true(isnan(evaluate("sigmoid(x)", NAN, 0)));
}

TEST(test_names) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_expression *expression;
    kn_arena_init(&arena, &host);
    assert_int_equal(kn_expression_parse(&arena, "y + slope * y - exp(x_2)", &expression, NULL), KN_OK);
    assert_int_equal(kn_expression_name_count(expression), 3);
    assert_string_equal(kn_expression_name(expression, 0), "y");
    assert_string_equal(kn_expression_name(expression, 1), "slope");
    assert_string_equal(kn_expression_name(expression, 2), "x_2");
    assert_null(kn_expression_name(expression, 3));
    assert_true(kn_expression_reads(expression, "slope"));
    assert_false(kn_expression_reads(expression, "exp"));
    assert_false(kn_expression_reads(expression, "x"));
    kn_arena_finish(&arena);
}

TEST(test_mistakes) {
    const struct {
        const char *text, *word;
    } cases[] = {
        {"", "ends where a number"},
        {"x +", "ends where a number"},
        {"x + * y", "column 5"},
        {"(x", "')'"},
        {"x)", "column 2"},
        {"x y", "an operator or the end"},
        {"x ? y", "':'"},
        {"expp(x)", "unknown function 'expp'; did you mean 'exp'?"},
        {"exp()", "a number"},
        {"exp(x, y)", "')'"},
        {"pow(x)", "','"},
        {"coarse(x, y, 24)", "a number of bits from 1 to 23"},
        {"coarse(x, y, y)", "a number of bits from 1 to 23"},
        {"x < y < 2", "parentheses around one of two comparisons"},
        {"x = y", "an operator"},
        {"2x", "an operator after the number"},
        {"1e999", "range of double"},
        {"x $ y", "'$ y'"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_host host = kn_host_defaults();
        kn_arena arena;
        kn_error error = {0};
        kn_expression *expression;
        kn_arena_init(&arena, &host);
        assert_int_equal(kn_expression_parse(&arena, cases[i].text, &expression, &error), KN_ERROR_FORMAT);
        assert_null(expression);
        assert_words(error.text, cases[i].word);
        kn_arena_finish(&arena);
    }
}

/* `piece` repeated, then `end`, then `tail` repeated as often. */
static kn_status parse_repeated(const char *piece, int count, const char *end, const char *tail) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_text text;
    kn_expression *expression;
    kn_arena_init(&arena, &host);
    kn_text_init(&text, &host);
    for (int i = 0; i < count; i++)
        kn_text_add(&text, piece);
    kn_text_add(&text, end);
    for (int i = 0; i < count; i++)
        kn_text_add(&text, tail);
    kn_status status = kn_expression_parse(&arena, text.data, &expression, NULL);
    kn_text_finish(&text);
    kn_arena_finish(&arena);
    return status;
}

TEST(test_limits) {
    assert_int_equal(parse_repeated("(", 20, "x", ")"), KN_OK);
    assert_int_equal(parse_repeated("(", 100000, "x", ")"), KN_ERROR_FORMAT);
    assert_int_equal(parse_repeated("-", 100000, "x", ""), KN_ERROR_FORMAT);
    assert_int_equal(parse_repeated("x + ", 40, "x", ""), KN_OK);
    assert_int_equal(parse_repeated("x + ", 100000, "x", ""), KN_ERROR_FORMAT);
    assert_int_equal(parse_repeated("x ? x : ", 100000, "x", ""), KN_ERROR_FORMAT);
    assert_int_equal(parse_repeated("max(", 3, "x", ", 0)"), KN_OK);
    assert_int_equal(parse_repeated("max(", 20, "x", ", 0)"), KN_ERROR_UNSUPPORTED); /* 2^20 times x */
    kn_text text;
    kn_host host = kn_host_defaults();
    kn_text_init(&text, &host);
    for (int i = 0; i < 33; i++)
        kn_text_format(&text, "%sn%d", i ? " + " : "", i);
    kn_arena arena;
    kn_expression *expression;
    kn_arena_init(&arena, &host);
    assert_int_equal(kn_expression_parse(&arena, text.data, &expression, NULL), KN_ERROR_UNSUPPORTED);
    kn_arena_finish(&arena);
    kn_text_finish(&text);
}

static void assert_printed(const char *expression_text, const char *type, const char *expected) {
    const char *const replacements[] = {"a", "b", "c"};
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_text text;
    kn_expression *expression;
    kn_arena_init(&arena, &host);
    kn_text_init(&text, &host);
    assert_int_equal(kn_expression_parse(&arena, expression_text, &expression, NULL), KN_OK);
    kn_expression_print(expression, type, replacements, &text);
    assert_string_equal(text.data, expected);
    kn_text_finish(&text);
    kn_arena_finish(&arena);
}

TEST(test_printing) {
    assert_printed("x", "float", "(a)");
    assert_printed("x + 2 * y", "float", "((a + (2.0f * b)))");
    assert_printed("x - -0.5", "float", "((a - (-0.5f)))");
    assert_printed("1e-10 * x", "float", "((1e-10f * a))");
    assert_printed("x * 3", "double", "((a * 3.0))");
    assert_printed("x * 3", "half", "((a * (half)(3.0f)))");
    assert_printed("x * 3", "float8", "((a * (float8)(3.0f)))");
    assert_printed("x * 3", "half4", "((a * (half4)((half)3.0f)))");
    assert_printed("x / 3", "int", "((a / 3))");
    assert_printed("x > 0 ? x : y", "float", "(((a > 0.0f) ? a : b))");
    assert_printed("x > 0 ? x : y", "float4", "(select(b, a, (a > (float4)(0.0f))))");
    assert_printed("x > y", "float", "(((a > b) ? 1.0f : 0.0f))");
    assert_printed("x > y", "float4", "(select((float4)(0.0f), (float4)(1.0f), (a > b)))");
    assert_printed("x ? 1 : 2", "float", "(((a != 0.0f) ? 1.0f : 2.0f))");
    assert_printed(
        "!x && y < 1 || x == y", "float2",
        "(select((float2)(0.0f), (float2)(1.0f), (((!(a != (float2)(0.0f))) & (b < (float2)(1.0f))) | "
        "(a == b))))");
    assert_printed("max(x, 0)", "float", "(((a < 0.0f) ? 0.0f : a))");
    assert_printed("min(x, y)", "float", "((((a > b) | isnan(b)) ? b : a))");
    assert_printed("max(x, y)", "float16", "(select(a, b, ((a < b) | isnan(b))))");
    assert_printed("max(x, y)", "int", "(((a < b) ? b : a))");
    assert_printed("abs(x) + exp(y)", "float", "((fabs(a) + exp(b)))");
    assert_printed("abs(x)", "int", "(((a < 0) ? (-a) : a))");
    assert_printed("pow(x, 2)", "float4", "(pow(a, (float4)(2.0f)))");
    assert_printed(
        "log(x) + sqrt(x) + rsqrt(x) + sin(x) + cos(x) + tanh(x) + erf(x) + floor(x)", "half2",
        "((((((((log(a) + sqrt(a)) + rsqrt(a)) + sin(a)) + cos(a)) + tanh(a)) + erf(a)) + floor(a)))");
    assert_printed("erf(x)", "float8", "(kn_erf_float8(a))");
    assert_printed("erf(x)", "double", "(erf(a))");
    assert_printed("isnan(x) ? 0 : x", "float", "((isnan(a) ? 0.0f : a))");
    assert_printed(
        "coarse(x, y, 16)", "float4",
        "(convert_float4(as_float4((as_uint4(convert_float4(a)) + convert_uint4(convert_float4(b) * "
        "65536.0f)) & 0xffff0000u)))");
    assert_printed("sigmoid(x)", "float", "((1.0f / (1.0f + exp(-a))))");
    assert_printed("softplus(x)", "float", "((fmax(a, 0.0f) + log1p(exp(-fabs(a)))))");
}

static void assert_literal(double number, const char *type, const char *expected) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    kn_expression_literal(number, type, &text);
    assert_string_equal(text.data, expected);
    kn_text_finish(&text);
}

TEST(test_literals) {
    assert_literal(0, "float", "0.0f");
    assert_literal(-0.0, "float", "(-0.0f)");
    assert_literal(-1.5, "float", "(-1.5f)");
    assert_literal(0.1, "float", "0.1f");
    assert_literal(0.1, "double", "0.1");
    assert_literal(-0.1, "float2", "(float2)(-0.1f)");
    assert_literal(1e300, "float", "INFINITY");
    assert_literal(-1e300, "float", "(-INFINITY)");
    assert_literal(INFINITY, "float4", "(float4)(INFINITY)");
    assert_literal(-INFINITY, "float", "(float)(-INFINITY)");
    assert_literal(NAN, "float", "(float)(NAN)");
    assert_literal(7, "int4", "(int4)(7)");
    assert_literal(3000000000.0, "long", "3000000000L");
    assert_literal(1e10, "float", "10000000000.0f");
    assert_literal(1e30, "float", "1e30f");
}

TEST_FILE(test_expression, NULL, NULL)
