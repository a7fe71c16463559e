/* The growing string, JSON, and similarity of words. */
#include "base_tests.h"

#include <math.h>
#include <string.h>

TEST(a_text_grows) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_text text;
    kn_text_init(&text, &host);
    assert_string_equal(text.data, "");
    assert_int_equal(memory.calls, 0);
    kn_text_add(&text, "one");
    kn_text_add_bytes(&text, ", two, three", 5);
    kn_text_format(&text, " and %d%s", 3, "!");
    assert_string_equal(text.data, "one, two and 3!");
    assert_int_equal(text.length, 15);
    kn_text_clear(&text);
    assert_string_equal(text.data, "");
    for (int i = 0; i < 10000; i++)
        kn_text_format(&text, "%04d", i);
    assert_int_equal(text.length, 40000);
    assert_memory_equal(text.data + 4 * 1234, "1234", 4);
    assert_int_equal(strlen(text.data), 40000);
    kn_text_clear(&text);
    kn_text_format(&text, "%9000d", 5);
    assert_int_equal(strlen(text.data), 9000);
    kn_text_add_bytes(&text, "\0x", 2);
    assert_int_equal(text.length, 9002);
    assert_int_equal(text.data[9001], 'x');
    assert_false(kn_text_failed(&text));
    kn_text_finish(&text);
    assert_string_equal(text.data, "");
    kn_text_finish(&text);
    assert_int_equal(memory.live, 0);
}

TEST(a_text_is_moved) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_text text;
    kn_text_init(&text, &host);
    char *empty = kn_text_take(&text);
    assert_string_equal(empty, "");
    kn_text_add(&text, "words");
    char *words = kn_text_take(&text);
    assert_string_equal(words, "words");
    assert_string_equal(text.data, "");
    assert_int_equal(text.length, 0);
    kn_text_add(&text, "others");
    assert_string_equal(words, "words");
    kn_text_finish(&text);
    kn_release(&host, empty);
    kn_release(&host, words);
    assert_int_equal(memory.live, 0);
}

TEST(a_failed_text_stays_failed) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_text text;
    kn_text_init(&text, &host);
    kn_text_add(&text, "before");
    kn_text_add_bytes(&text, "", SIZE_MAX - 3); /* the sum overflows: nothing may be read */
    assert_true(kn_text_failed(&text));
    size_t calls = memory.calls;
    kn_text_add(&text, "a text much longer than the room that there was before");
    kn_text_format(&text, "%d", 1);
    kn_text_json(&text, "x");
    kn_text_number(&text, 0.5);
    assert_string_equal(text.data, "before");
    assert_int_equal(memory.calls, calls);
    assert_null(kn_text_take(&text));
    assert_true(kn_text_failed(&text));
    kn_text_clear(&text);
    assert_false(kn_text_failed(&text));
    kn_text_add(&text, "again");
    assert_string_equal(text.data, "again");
    kn_text_finish(&text);
    assert_int_equal(memory.live, 0);
}

TEST(a_text_survives_failing_memory) {
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_text text;
        kn_text_init(&text, &host);
        for (int i = 0; i < 20; i++) {
            kn_text_add(&text, "some words");
            kn_text_format(&text, "%30d", i);
            kn_text_json(&text, "a \"quoted\"\n\xff");
            kn_text_number(&text, 0.1 * i);
            kn_text_number_float(&text, 0.1f);
            kn_text_fixed(&text, 2.5, 3);
            kn_text_json_number(&text, 1e300);
            assert_int_equal(strlen(text.data), text.length);
        }
        bool failed = kn_text_failed(&text);
        assert_int_equal(failed, memory.calls >= fail_at);
        char *taken = kn_text_take(&text);
        assert_int_equal(taken == NULL, failed);
        kn_release(&host, taken);
        kn_text_finish(&text);
        assert_int_equal(memory.live, 0);
        if (!failed) {
            assert_true(fail_at > 5);
            return;
        }
    }
}

static void check_json(const char *value, const char *expected) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    kn_text_json(&text, value);
    assert_string_equal(text.data, expected);
    kn_text_finish(&text);
}

TEST(json_escapes) {
    check_json("", "\"\"");
    check_json(NULL, "null");
    check_json("plain /text/ \x7f", "\"plain /text/ \x7f\"");
    check_json("say \"yes\\no\"", "\"say \\\"yes\\\\no\\\"\"");
    check_json("\n\r\t", "\"\\n\\r\\t\"");
    check_json("\x01\x08\x0c\x1f", "\"\\u0001\\u0008\\u000c\\u001f\"");
}

#define ODD "\xEF\xBF\xBD"

TEST(json_is_always_utf8) {
    /* The first and the last character of each length. */
    check_json("\xC2\x80\xDF\xBF", "\"\xC2\x80\xDF\xBF\"");
    check_json("\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF",
               "\"\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\"");
    check_json("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", "\"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\"");
    /* Continuation bytes without a lead byte, lead bytes without a continuation, and bytes that UTF-8 never
     * contains. */
    check_json("\x80", "\"" ODD "\"");
    check_json("a\xBFz", "\"a" ODD "z\"");
    check_json("\xC3", "\"" ODD "\"");
    check_json("\xC3(", "\"" ODD "(\"");
    check_json("\xE2\x82", "\"" ODD ODD "\"");
    check_json("\xE2\x82\"", "\"" ODD ODD "\\\"\"");
    check_json("\xF0\x9F\x90", "\"" ODD ODD ODD "\"");
    check_json("\xF0\x9F", "\"" ODD ODD "\"");
    check_json("\xFE\xFF", "\"" ODD ODD "\"");
    /* Overlong forms, surrogates, and code points beyond the last. */
    check_json("\xC0\xAF", "\"" ODD ODD "\"");
    check_json("\xC1\xBF", "\"" ODD ODD "\"");
    check_json("\xE0\x9F\xBF", "\"" ODD ODD ODD "\"");
    check_json("\xED\xA0\x80", "\"" ODD ODD ODD "\"");
    check_json("\xF0\x8F\xBF\xBF", "\"" ODD ODD ODD ODD "\"");
    check_json("\xF4\x90\x80\x80", "\"" ODD ODD ODD ODD "\"");
    check_json("\xF5\x80\x80\x80", "\"" ODD ODD ODD ODD "\"");
}

TEST(json_numbers_are_finite) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    const double values[] = {0.1, -3, (double)NAN, HUGE_VAL, -HUGE_VAL, 1e-300};
    for (size_t i = 0; i < KN_COUNT_OF(values); i++) {
        kn_text_json_number(&text, values[i]);
        kn_text_add(&text, " ");
    }
    assert_string_equal(text.data, "0.1 -3 null null null 1e-300 ");
    kn_text_finish(&text);
}

TEST(distances_count_edits) {
    const struct {
        const char *left, *right;
        int distance;
    } list[] = {
        {"", "", 0},         {"", "abc", 3},       {"conv", "conv", 0},      {"conv", "cnov", 2},
        {"conv", "con", 1},  {"conv", "convv", 1}, {"kitten", "sitting", 3}, {"saturday", "sunday", 3},
        {"flaw", "lawn", 2}, {"relu", "gelu", 1},  {"abc", "xyz", 3},        {"ab", "ba", 2},
    };
    for (size_t i = 0; i < KN_COUNT_OF(list); i++) {
        assert_int_equal(kn_edit_distance(list[i].left, list[i].right), list[i].distance);
        assert_int_equal(kn_edit_distance(list[i].right, list[i].left), list[i].distance);
    }
    char most[65], more[66];
    memset(most, 'a', 64);
    memset(more, 'a', 65);
    most[64] = more[65] = '\0';
    assert_int_equal(kn_edit_distance(most, most), 0);
    assert_int_equal(kn_edit_distance(most, ""), 64);
    most[10] = 'b';
    more[5] = 'c';
    more[63] = '\0';
    assert_int_equal(kn_edit_distance(most, more), 2);
    more[63] = 'a'; /* longer than the measured length: never an underestimate, never an overrun */
    assert_int_equal(kn_edit_distance(most, more), 65);
}

TEST(the_nearest_word_is_near) {
    const char *const words[] = {"relu", "leaky_relu", "conv", NULL, "maxpool", "avgpool", "sigmoid", "lr"};
    const size_t count = KN_COUNT_OF(words);
    assert_string_equal(kn_nearest_word("rellu", words, count), "relu");
    assert_string_equal(kn_nearest_word("maxpol", words, count), "maxpool");
    assert_string_equal(kn_nearest_word("sigmiod", words, count), "sigmoid");
    assert_string_equal(kn_nearest_word("leakyrelu", words, count), "leaky_relu");
    assert_string_equal(kn_nearest_word("conv", words, count), "conv");
    assert_string_equal(kn_nearest_word("lr", words, count), "lr");
    assert_string_equal(kn_nearest_word("bvgpool", words, count), "avgpool");
    /* More than a third of the letters differ: not similar. */
    assert_null(kn_nearest_word("rl", words, count));
    assert_null(kn_nearest_word("softmax", words, count));
    assert_null(kn_nearest_word("", words, count));
    assert_null(kn_nearest_word("relu", words, 0));
    char longest[100];
    memset(longest, 'r', 99);
    longest[99] = '\0';
    assert_null(kn_nearest_word(longest, words, count));
}

TEST_FILE(test_text, NULL, NULL)
