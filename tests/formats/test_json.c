/* JSON: what is valid, what is not, and the positions in messages. */
#include "formats_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parsed {
    kn_arena arena;
    kn_json *root;
    kn_error error;
    kn_status status;
} parsed;

static parsed parse_bytes(const char *text, size_t count, uint64_t size_limit, int depth_limit) {
    parsed result = {.status = KN_OK};
    kn_arena_init(&result.arena, NULL);
    result.status = kn_json_read(&result.arena, "a.json", text, count, size_limit, depth_limit, &result.root,
                                 &result.error);
    return result;
}

static parsed parse(const char *text) {
    return parse_bytes(text, strlen(text), 1 << 20, 16);
}

TEST(values_are_read) {
    parsed all = parse(" {\"a\" : [1, -2.5e2, true,false, null, \"x\"], \"b\":{}, \"\": [] }\n");
    assert_fine(all.status, &all.error);
    assert_int_equal(all.root->kind, KN_JSON_OBJECT);
    assert_int_equal(all.root->count, 3);
    const kn_json *a = kn_json_member(all.root, "a"), *item = a->first;
    assert_int_equal(a->count, 6);
    int64_t number = 0;
    assert_true(item->kind == KN_JSON_NUMBER && item->number == 1 && kn_json_int64(item, &number) &&
                number == 1);
    item = item->next;
    assert_true(item->number == -250 && !kn_json_int64(item, &number) && number == 1);
    assert_string_equal(item->text, "-2.5e2");
    item = item->next;
    assert_true(item->kind == KN_JSON_BOOL && item->truth);
    item = item->next;
    assert_true(item->kind == KN_JSON_BOOL && !item->truth);
    item = item->next;
    assert_int_equal(item->kind, KN_JSON_NULL);
    item = item->next;
    assert_string_equal(item->text, "x");
    assert_null(item->next);
    /* Members keep their order. */
    assert_string_equal(all.root->first->next->key, "b");
    assert_string_equal(all.root->first->next->next->key, "");
    assert_int_equal(kn_json_member(all.root, "b")->kind, KN_JSON_OBJECT);
    assert_null(kn_json_member(all.root, "c"));
    assert_null(kn_json_member(a, "a"));
    assert_null(kn_json_member(NULL, "a"));
    assert_string_equal(kn_json_kind_name(KN_JSON_ARRAY), "an array");
    kn_arena_finish(&all.arena);
}

TEST(numbers_are_kept_as_written) {
    static const struct {
        const char *text;
        double value;
        bool integer;
    } cases[] = {
        {"0", 0, true},
        {"-0", 0, true},
        {"9223372036854775807", 9223372036854775807.0, true},
        {"9223372036854775808", 9223372036854775808.0, false},
        {"1.0", 1, false},
        {"1e2", 100, false},
        {"1E+2", 100, false},
        {"0.5e-1", 0.05, false},
        {"1e-999", 0, false},
        {"123456789012345678901234567890", 123456789012345678901234567890.0, false},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        parsed one = parse(cases[i].text);
        assert_fine(one.status, &one.error);
        assert_true(one.root->number == cases[i].value);
        assert_string_equal(one.root->text, cases[i].text);
        int64_t number;
        assert_int_equal(kn_json_int64(one.root, &number), cases[i].integer);
        kn_arena_finish(&one.arena);
    }
}

TEST(strings_are_decoded) {
    static const struct {
        const char *text, *value;
        size_t length;
    } cases[] = {
        {"\"\"", "", 0},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", 6},
        {"\"\\ud83d\\uDE00\"", "\xf0\x9f\x98\x80", 4},
        {"\"a\\u0000b\"", "a\0b", 3},
        {"\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf\"",
         "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf", 16},
        {"\"\x7f\"", "\x7f", 1},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        parsed one = parse(cases[i].text);
        assert_fine(one.status, &one.error);
        assert_int_equal(one.root->length, cases[i].length);
        assert_memory_equal(one.root->text, cases[i].value, cases[i].length + 1);
        kn_arena_finish(&one.arena);
    }
}

TEST(mistakes_are_located) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "a.json:1:1: the text ends here, expected a value"},
        {"  \n ", "a.json:2:2: the text ends"},
        {"{\n  \"a\": 1,\n  \"b\" 2\n}", "a.json:3:7: found \"2\\x0a}\", expected ':'"},
        {"{\"a\": 1,}", "1:9: found \"}\", expected a key"},
        {"{a: 1}", "1:2: found \"a: 1}\", expected a key in quotes"},
        {"[1, 2", "1:6: the text ends here, expected ',' or ']'"},
        {"[1 2]", "1:4: found \"2]\", expected ',' or ']'"},
        {"[1,]", "1:4: found \"]\", expected a value"},
        {"{\"a\":1 \"b\"}", "',' or '}'"},
        {"nul", "expected a value"},
        {"True", "expected a value"},
        {"NaN", "expected a value"},
        {"-", "1:1: found \"-\", expected a number"},
        {"01", "1:2: found \"1\", expected nothing after the value"},
        {"1.", "1:3: the text ends here, expected a digit after"},
        {".5", "expected a value"},
        {"+1", "expected a value"},
        {"1e", "a digit of the exponent"},
        {"1e400", "1:1: found \"1e400\", expected a number within the range"},
        {"\"abc", "the '\"' that ends a string"},
        {"\"abc\\\"", "the '\"' that ends a string"},
        {"\"a\nb\"", "1:3: found \"\\x0ab\\x22\", expected escapes for control"},
        {"\"\\x\"", "1:2: found \"\\x\"\", expected an escape"},
        {"\"\\u12g4\"", "four hexadecimal digits"},
        {"\"\\u12\"", "four hexadecimal digits"},
        {"\"\\ud800\"", "a pair of surrogates"},
        {"\"\\ud800\\u0041\"", "a pair of surrogates"},
        {"\"\\udc00\"", "a pair of surrogates"},
        {"\"\x80\"", "expected UTF-8"},
        {"\"\xc0\x80\"", "expected UTF-8"},
        {"\"\xc3\"", "expected UTF-8"},
        {"\"\xe0\x80\x80\"", "expected UTF-8"},
        {"\"\xed\xa0\x80\"", "expected UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "expected UTF-8"},
        {"\"\xff\"", "expected UTF-8"},
        {"{\"a\":1,\"a\":2}", "1:8: found \"\\x22a\\x22:2}\", expected distinct keys"},
        {"1 2", "1:3: found \"2\", expected nothing after the value"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        parsed one = parse(cases[i].text);
        char part[200];
        /* \x22 in `part` stands for a quote that the message shows as it is. */
        size_t used = 0;
        for (const char *c = cases[i].part; *c && used < sizeof part - 1; c++) {
            bool quote = strncmp(c, "\\x22", 4) == 0;
            part[used++] = quote ? '"' : *c;
            if (quote) c += 3;
        }
        part[used] = '\0';
        assert_null(one.root);
        assert_refused(one.status, &one.error, KN_ERROR_FORMAT, part);
        kn_arena_finish(&one.arena);
    }
}

TEST(limits_hold) {
    parsed one = parse_bytes("[1]", 3, 2, 16);
    assert_refused(one.status, &one.error, KN_ERROR_FORMAT, "3 bytes of JSON; expected at most 2");
    one = parse_bytes("[[1]]", 5, 5, 2);
    assert_fine(one.status, &one.error);
    kn_arena_finish(&one.arena);
    one = parse_bytes("[[{}]]", 6, 6, 2);
    assert_refused(one.status, &one.error, KN_ERROR_FORMAT, "a.json:1:3: found \"{}]]\", expected no deeper");
    kn_arena_finish(&one.arena);
    /* Any limit may be requested; the stack never overflows. */
    enum { DEEP = 200000 };
    char *deep = malloc(DEEP);
    memset(deep, '[', DEEP);
    one = parse_bytes(deep, DEEP, DEEP, 1 << 30);
    assert_refused(one.status, &one.error, KN_ERROR_FORMAT, "a.json:1:257: ");
    kn_arena_finish(&one.arena);
    free(deep);
}

/* Duplicate keys are found among few and many members, in less than quadratic time. */
TEST(doubled_keys_are_found) {
    for (int count = 2; count < 40; count++)
        for (int twice = 0; twice < count - 1; twice++) {
            kn_text text;
            kn_text_init(&text, NULL);
            kn_text_add(&text, "{");
            for (int i = 0; i < count; i++)
                kn_text_format(&text, "%s\"k%d\":0", i > 0 ? "," : "", i == count - 1 ? twice : i);
            kn_text_add(&text, "}");
            parsed one = parse(text.data);
            assert_refused(one.status, &one.error, KN_ERROR_FORMAT, "distinct keys");
            kn_arena_finish(&one.arena);
            /* Without the duplicate it is valid. */
            char *last = strrchr(text.data, ',');
            memcpy(last, "}", 2);
            one = parse(text.data);
            assert_fine(one.status, &one.error);
            assert_int_equal(one.root->count, count - 1);
            kn_arena_finish(&one.arena);
            kn_text_finish(&text);
        }
    kn_text text;
    kn_text_init(&text, NULL);
    for (int i = 0; i < 50000; i++)
        kn_text_format(&text, "%c\"%d\":[]", i > 0 ? ',' : '{', i);
    kn_text_add(&text, "}");
    double began = kn_clock();
    parsed one = parse(text.data);
    assert_fine(one.status, &one.error);
    assert_true(kn_clock() - began < 5);
    kn_arena_finish(&one.arena);
    kn_text_finish(&text);
}

TEST(memory_may_run_out) {
    static const char text[] =
        "{\"a\":[1,2,\"text\"],\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0}";
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_error error = {0};
        kn_status status = read_json(&host, (const uint8_t *)text, sizeof text - 1, &error);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK) break;
        assert_int_equal(status, KN_ERROR_MEMORY);
    }
}

TEST_FILE(test_json, NULL, NULL)
