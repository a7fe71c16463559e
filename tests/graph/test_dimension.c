/* Sizes as expressions of symbols: one normal form, text, numbers, overflow. */
#include "graph_tests.h"

#include <stdio.h>

static kn_dim parse(kn_graph *graph, const char *text) {
    kn_dim dim = kn_dim_parse(graph, text, strlen(text));
    if (kn_graph_status(graph) != KN_OK) fail_msg("%s: %s", text, kn_graph_error(graph));
    return dim;
}

static void assert_text(kn_graph *graph, kn_dim dim, const char *expected) {
    kn_text text;
    kn_text_init(&text, &graph->host);
    kn_dim_text(graph, dim, &text);
    assert_string_equal(text.data, expected);
    kn_text_finish(&text);
}

/* The left expression is the same kn_dim as the right one, and prints like the right one. */
TEST(test_normal_form) {
    const char *const pairs[][2] = {
        {"1+2*3", "7"},
        {"batch", "batch"},
        {"2*batch+1", "2*batch+1"},
        {"1 + batch * 2", "2*batch+1"},
        {"batch+batch", "2*batch"},
        {"batch-batch", "0"},
        {"batch-batch+3", "3"},
        {"n*batch", "batch*n"},
        {"(batch+1)*(batch-1)", "batch*batch-1"},
        {"(batch+n)*(batch+n)-batch*batch-2*batch*n", "n*n"},
        {"-(3-batch)", "batch-3"},
        {"7/2", "3"},
        {"(0-7)/2", "-4"},
        {"6*batch/3", "2*batch"},
        {"(2*batch+3)/2", "batch+1"},
        {"batch*n/n", "batch"},
        {"(batch*n+n)/n", "batch+1"},
        {"(batch+1)/(batch+1)", "1"},
        {"(64*batch*n+64*batch)/(16*n+16)", "4*batch"},
        {"(batch*batch-n*n)/(batch-n)", "batch+n"},
        {"(batch*n+n-3*batch-3)/(3-n)", "-batch-1"},
        {"(batch*(n/2)+n/2)/(batch+1)", "n/2"},
        {"(batch*n+n)/(2*batch+2)", "(batch*n+n)/(2*batch+2)"},
        {"(batch*n+n+1)/(batch+1)", "(batch*n+n+1)/(batch+1)"},
        {"(batch-1)/2+1", "(batch+1)/2"},
        {"(batch-3)/2+1", "(batch+1)/2-1"},
        {"(batch/2)/3", "batch/6"},
        {"((batch+1)/2+1)/2", "(batch+3)/4"},
        {"2*batch/4", "batch/2"},
        {"(2*batch+1)/4", "batch/2"},
        {"batch/1", "batch"},
        {"0*batch", "0"},
        {"0/batch", "0"},
        {"3*(batch/2)", "3*(batch/2)"},
        {"batch/(n*2)", "batch/(2*n)"},
    };
    kn_graph *graph = graph_make();
    kn_dim_symbol(graph, "batch");
    for (size_t i = 0; i < KN_COUNT_OF(pairs); i++) {
        kn_dim left = parse(graph, pairs[i][0]), right = parse(graph, pairs[i][1]);
        if (left != right) fail_msg("%s is not %s", pairs[i][0], pairs[i][1]);
        assert_text(graph, left, pairs[i][1]);
    }
    assert_true(parse(graph, "batch/2*2") != parse(graph, "batch"));
    assert_true(parse(graph, "batch") != parse(graph, "n"));
    kn_graph_destroy(&graph);
}

/* A printed size reads back to the same size. */
TEST(test_text_round_trip) {
    const char *const texts[] = {
        "-batch",        "-2*batch*n+n-4",    "(batch+1)/(n-1)", "(batch+n)/3*((n+1)/2)",
        "-(batch/2)",    "n-(batch+1)/2*7",   "1/batch",         "(1-batch)/n",
        "batch/(1-n)/2", "(n*(batch/2)+1)/3", "2/(batch/n)",     "batch/n/n"};
    kn_graph *graph = graph_make();
    for (size_t i = 0; i < KN_COUNT_OF(texts); i++) {
        kn_dim dim = parse(graph, texts[i]);
        kn_text text;
        kn_text_init(&text, &graph->host);
        kn_dim_text(graph, dim, &text);
        if (parse(graph, text.data) != dim) fail_msg("%s became %s", texts[i], text.data);
        kn_text_finish(&text);
    }
    kn_graph_destroy(&graph);
}

/* The functions agree with integer arithmetic, for many expressions and bindings. */
TEST(test_arithmetic_agrees) {
    kn_graph *graph = graph_make();
    uint64_t random = 0;
    for (int round = 0; round < 3000; round++) {
        int64_t batch = kn_random_below(1, random++, 50), n = kn_random_below(1, random++, 50) + 1;
        kn_binding bindings[] = {{"batch", batch}, {"n", n}};
        kn_dim dim = kn_dim_symbol(graph, "batch");
        int64_t number = batch, found;
        for (int depth = 0; depth < 4; depth++) {
            int64_t operand = kn_random_below(1, random, 9) + 1;
            kn_dim other = operand > 7 ? kn_dim_symbol(graph, "n") : operand;
            if (operand > 7) operand = n;
            random++;
            switch (kn_random_below(1, random++, 4)) {
            case 0:
                dim = kn_dim_add(graph, dim, other);
                number += operand;
                break;
            case 1:
                dim = kn_dim_subtract(graph, dim, other);
                number -= operand;
                break;
            case 2:
                dim = kn_dim_multiply(graph, dim, other);
                number *= operand;
                break;
            default:
                dim = kn_dim_divide(graph, dim, other);
                number = number / operand - (number % operand < 0 ? 1 : 0);
                break;
            }
        }
        assert_int_equal(kn_graph_status(graph), KN_OK);
        kn_error error = {0};
        kn_status status = kn_dim_evaluate(graph, dim, bindings, 2, &found, &error);
        if (number < 0)
            assert_int_equal(status, KN_ERROR_SHAPE);
        else if (status != KN_OK || found != number)
            fail_msg("round %d: expected %lld, found %lld %s", round, (long long)number, (long long)found,
                     error.text);
    }
    kn_graph_destroy(&graph);
}

TEST(test_minus_one) {
    kn_graph *graph = graph_make();
    int64_t number = 0;
    assert_true(parse(graph, "-1") == -1);
    assert_true(kn_dim_subtract(graph, 3, 4) == -1);
    assert_true(kn_dim_constant(graph, -1, &number) && number == -1);
    assert_true(kn_dim_constant(graph, parse(graph, "-7"), &number) && number == -7);
    assert_true(kn_dim_constant(graph, parse(graph, "-7"), &number) && number == -7);
    assert_true(kn_dim_constant(graph, parse(graph, "-2"), &number) && number == -2);
    assert_false(kn_dim_constant(graph, parse(graph, "batch"), &number));
    assert_false(kn_dim_known(parse(graph, "batch")));
    assert_string_equal(kn_graph_symbol(graph, 0), "batch");
    assert_null(kn_graph_symbol(graph, 1));
    kn_graph_destroy(&graph);
}

static void assert_parse_fails(const char *text, kn_status status, const char *word) {
    kn_graph *graph = graph_make();
    assert_true(kn_dim_parse(graph, text, strlen(text)) == 0);
    assert_graph_error(graph, status, word, NULL);
    kn_graph_destroy(&graph);
}

TEST(test_mistakes) {
    assert_parse_fails("", KN_ERROR_FORMAT, "found the end");
    assert_parse_fails("2*", KN_ERROR_FORMAT, "column 3");
    assert_parse_fails("(2", KN_ERROR_FORMAT, "')'");
    assert_parse_fails("2 3", KN_ERROR_FORMAT, "found '3'");
    assert_parse_fails("2%3", KN_ERROR_FORMAT, "an operator");
    assert_parse_fails("batch#", KN_ERROR_FORMAT, "'#'");
    assert_parse_fails("9223372036854775808", KN_ERROR_FORMAT, "64 bits");
    assert_parse_fails("9223372036854775807+1", KN_ERROR_SHAPE, "64 bits");
    assert_parse_fails("9223372036854775807*batch*2", KN_ERROR_SHAPE, "64 bits");
    assert_parse_fails("5/0", KN_ERROR_SHAPE, "zero");
    assert_parse_fails("batch/(n-n)", KN_ERROR_SHAPE, "zero");
    assert_parse_fails("a*a*a*a*a*a*a", KN_ERROR_UNSUPPORTED, "too complex");
    char deep[2000];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    assert_parse_fails(deep, KN_ERROR_FORMAT, "nesting");
    memset(deep, '-', sizeof deep - 1);
    assert_parse_fails(deep, KN_ERROR_FORMAT, "nesting");
}

/* A long chain of quotients prints with many parentheses, and reads back. */
TEST(test_chain) {
    kn_graph *graph = graph_make();
    char chain[300] = "n";
    for (int i = 0; i < 80; i++)
        strcat(chain, i % 2 ? "/k" : "/m");
    kn_dim dim = parse(graph, chain);
    kn_text text;
    kn_text_init(&text, &graph->host);
    kn_dim_text(graph, dim, &text);
    assert_true(parse(graph, text.data) == dim);
    kn_text_finish(&text);
    kn_graph_destroy(&graph);
}

/* Quotients of quotients that cannot be merged are refused before traversing them takes too long. */
TEST(test_complicated) {
    kn_graph *graph = graph_make();
    kn_dim dim = kn_dim_symbol(graph, "n");
    for (int i = 0; i < 100 && kn_graph_status(graph) == KN_OK; i++) {
        kn_dim other = kn_dim_add(graph, kn_dim_multiply(graph, dim, dim), 1);
        dim = kn_dim_divide(graph, kn_dim_add(graph, other, dim), kn_dim_symbol(graph, "m"));
    }
    assert_graph_error(graph, KN_ERROR_UNSUPPORTED, "too complex", NULL);
    kn_graph_destroy(&graph);
    graph = graph_make();
    char name[16];
    dim = 0;
    for (int i = 0; i < 100 && kn_graph_status(graph) == KN_OK; i++) {
        snprintf(name, sizeof name, "s%d", i);
        dim = kn_dim_add(graph, dim, kn_dim_symbol(graph, name));
    }
    assert_graph_error(graph, KN_ERROR_UNSUPPORTED, "too complex", NULL);
    kn_graph_destroy(&graph);
}

static void assert_evaluation(const char *text, int64_t batch, kn_status status, const char *word) {
    kn_graph *graph = graph_make();
    kn_binding bindings[] = {{"batch", batch}};
    int64_t number = 0;
    kn_error error = {0};
    assert_int_equal(kn_dim_evaluate(graph, parse(graph, text), bindings, 1, &number, &error), status);
    assert_words(error.text, word);
    kn_graph_destroy(&graph);
}

TEST(test_evaluation_fails) {
    assert_evaluation("batch+n", 3, KN_ERROR_NOT_FOUND, "'n' is not bound");
    assert_evaluation("batch-4", 3, KN_ERROR_SHAPE, "batch-4 would be -1");
    assert_evaluation("batch*batch", INT64_C(1) << 40, KN_ERROR_SHAPE, "batch*batch exceeds 64 bits");
    assert_evaluation("batch+9223372036854775807", 1, KN_ERROR_SHAPE, "64 bits");
    assert_evaluation("7/(batch-3)", 3, KN_ERROR_SHAPE, "is 0");
    assert_evaluation("batch*2", 3, KN_OK, "");
}

TEST(test_shapes) {
    kn_graph *graph = graph_make();
    kn_shape a = {.dtype = KN_FLOAT32}, b = {.dtype = KN_INT32}, both;
    assert_int_equal(kn_shape_parse(graph, " batch , (n+1)/2, 28", &a, NULL), KN_OK);
    assert_string_equal(kn_shape_words(graph, &a), "float32 (batch,(n+1)/2,28)");
    assert_true(kn_shape_elements(&a) == -1);
    assert_int_equal(kn_shape_parse(graph, "(n+1)/2,1", &b, NULL), KN_OK);
    assert_true(kn_shape_broadcast(graph, &b, &a, &both));
    assert_string_equal(kn_shape_words(graph, &both), "int32 (batch,(n+1)/2,28)");
    assert_int_equal(kn_shape_parse(graph, "n,28", &b, NULL), KN_OK);
    assert_false(kn_shape_broadcast(graph, &a, &b, &both));
    assert_int_equal(kn_shape_parse(graph, "0,5", &a, NULL), KN_OK);
    assert_true(kn_shape_elements(&a) == 0);
    assert_int_equal(kn_shape_parse(graph, "1,5", &b, NULL), KN_OK);
    assert_true(kn_shape_broadcast(graph, &a, &b, &a)); /* the result may be one of them */
    assert_true(a.dims[0] == 0 && a.dims[1] == 5);
    assert_int_equal(kn_shape_parse(graph, "", &a, NULL), KN_OK);
    assert_string_equal(kn_shape_words(graph, &a), "float32 ()");
    assert_true(kn_shape_elements(&a) == 1);
    kn_error error = {0};
    assert_int_equal(kn_shape_parse(graph, "1,2,3,4,5,6,7,8,9", &a, &error), KN_ERROR_SHAPE);
    assert_words(error.text, "more than 8");
    assert_int_equal(kn_shape_parse(graph, "3,", &a, &error), KN_ERROR_FORMAT);
    assert_int_equal(kn_shape_parse(graph, "3,,4", &a, &error), KN_ERROR_FORMAT);
    assert_int_equal(kn_shape_parse(graph, "3,-4", &a, &error), KN_ERROR_SHAPE);
    assert_words(error.text, "dimension 1 is negative");
    assert_int_equal(kn_shape_parse(graph, "1x28", &a, &error), KN_ERROR_FORMAT);
    assert_int_equal(kn_shape_parse(graph, NULL, &a, &error), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_graph_status(graph), KN_OK); /* these failures are the caller's mistakes */
    kn_graph_destroy(&graph);
}

TEST(test_solve) {
    const struct {
        const char *shape;
        int64_t elements, number;
        const char *problem;
    } cases[] = {
        {"batch,28,28", 784 * 5, 5, NULL},
        {"batch,28,28", 784 * 5 + 1, 0, "no value of 'batch' gives 3921 elements"},
        {"batch,28", 0, 0, NULL},
        {"2*batch+1,3", 33, 5, NULL},
        {"batch/4,3", 30, 40, NULL},
        {"batch,batch", 49, 7, NULL},
        {"batch,n", 10, 0, "several"},
        {"3,4", 12, -1, NULL},
        {"3,4", 13, 0, "expected 12 elements"},
        {"batch,length", 21, 7, NULL},
    };
    kn_binding bindings[] = {{"length", 3}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_graph *graph = graph_make();
        kn_shape shape = {.dtype = KN_FLOAT32};
        const char *symbol;
        int64_t number = -1;
        kn_error error = {0};
        assert_int_equal(kn_shape_parse(graph, cases[i].shape, &shape, NULL), KN_OK);
        kn_status status =
            kn_shape_solve(graph, &shape, cases[i].elements, bindings, 1, &symbol, &number, &error);
        if (cases[i].problem) {
            assert_int_equal(status, KN_ERROR_SHAPE);
            assert_words(error.text, cases[i].problem);
            assert_null(symbol);
        } else {
            assert_int_equal(status, KN_OK);
            assert_true(number == cases[i].number);
            if (number >= 0)
                assert_string_equal(symbol, "batch");
            else
                assert_null(symbol);
        }
        kn_graph_destroy(&graph);
    }
}

TEST_FILE(test_dimension, NULL, NULL)
