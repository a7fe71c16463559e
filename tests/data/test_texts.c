/* Text as data: generated sentences and files. */
#include "data_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/made_private.h"
#include "formats/formats.h"

/* FNV-1a over the first 2,000 sentences of each part. They must never change. */
static const uint64_t sentences[2] = {0xfbc473ab8bbdbeccull, 0xa1801bb39c822bf4ull};

TEST(same_sentences_everywhere) {
    char text[KN_SENTENCE_MAX];
    for (int test = 0; test < 2; test++) {
        uint64_t all = KN_HASH_START;
        for (uint64_t i = 0; i < 2000; i++) {
            int length = kn_made_sentence(test, i, text);
            assert_in_range(length, 10,
                            KN_SENTENCE_MAX - 200); /* a full buffer could mean that words were left out */
            assert_true(text[length - 2] == '.' && (text[length - 1] == ' ' || text[length - 1] == '\n'));
            all = kn_hash_bytes(all, text, (size_t)length);
        }
        if (all != sentences[test]) fail_msg("part %d: 0x%016llxull", test, (unsigned long long)all);
    }
}

/* "if" is followed by "then", "either" by "or", and quotes are closed. */
TEST(sentences_agree) {
    char text[KN_SENTENCE_MAX + 1];
    int seen = 0;
    for (uint64_t i = 0; i < 500; i++) {
        text[kn_made_sentence(false, i, text)] = 0;
        bool asks = !strncmp(text, "if ", 3), either = !strncmp(text, "either ", 7);
        assert_int_equal(strstr(text, " then ") != NULL, asks);
        assert_int_equal(strstr(text, " or ") != NULL, either);
        const char *quote = strchr(text, '"');
        assert_true(!quote || (strchr(quote + 1, '"') && !strchr(strchr(quote + 1, '"') + 1, '"')));
        seen |= asks | either << 1 | (quote != NULL) << 2;
    }
    assert_int_equal(seen, 7);
}

TEST(generated_text_opens) {
    kn_tensor_info wanted = {KN_INT32, 1, {32}};
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    kn_dataset *usual = kn_dataset_open("text", NULL);
    params.expected = &wanted;
    kn_dataset *fitted = kn_dataset_open("text", &params);
    kn_dataset *asked = kn_dataset_open("text,length=20,stride=10", &params);
    kn_dataset *sets[3] = {usual, fitted, asked};
    static const int lengths[3] = {64, 32, 20}, strides[3] = {64, 32, 10};
    for (int s = 0; s < 3; s++) {
        kn_dataset *test = kn_dataset_test(sets[s]);
        kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
        int32_t x[3][64], y[3][64];
        assert_usable(sets[s]);
        assert_usable(test);
        assert_true(kn_dataset_field_at(sets[s], 0, &field));
        assert_int_equal(field.info.dtype, KN_INT32);
        assert_int_equal(field.info.rank, 1);
        assert_int_equal(field.info.shape[0], lengths[s]);
        assert_int_equal(kn_dataset_count(sets[s]), (1000000 - 1 - lengths[s]) / strides[s] + 1);
        assert_int_equal(kn_dataset_count(test), (100000 - 1 - lengths[s]) / strides[s] + 1);
        assert_int_equal(kn_dataset_classes(sets[s]), 30);
        assert_int_equal(strlen(kn_dataset_vocabulary(sets[s])), 30);
        const uint64_t rows[3] = {0, 1, kn_dataset_count(sets[s]) - 1};
        for (int r = 0; r < 3; r++) {
            assert_int_equal(kn_dataset_read(sets[s], &rows[r], 1, 0, x[r], (size_t)lengths[s] * 4, NULL, 0),
                             KN_OK);
            assert_int_equal(kn_dataset_read(sets[s], &rows[r], 1, 1, y[r], (size_t)lengths[s] * 4, NULL, 0),
                             KN_OK);
            assert_memory_equal(x[r] + 1, y[r], (size_t)(lengths[s] - 1) * 4);
        }
        /* The first sentence, and consecutive windows. */
        char text[KN_SENTENCE_MAX];
        kn_made_sentence(false, 0, text);
        for (int i = 0; i < 10; i++)
            assert_int_equal(kn_dataset_vocabulary(sets[s])[x[0][i]], text[i]);
        assert_int_equal(x[1][0], strides[s] == lengths[s] ? y[0][lengths[s] - 1] : x[0][strides[s]]);
        kn_dataset_destroy(&test);
        kn_dataset_destroy(&sets[s]);
    }
    assert_failed(kn_dataset_open("text,lenght=3", NULL), KN_ERROR_ARGUMENT, "did you mean \"length\"?");
    assert_failed(kn_dataset_open("text,length=0", NULL), KN_ERROR_ARGUMENT, "above 0");
    assert_failed(kn_dataset_open("text,length=3x", NULL), KN_ERROR_ARGUMENT, "above 0");
    assert_failed(kn_dataset_open("text,bytes", NULL), KN_ERROR_ARGUMENT, "needs a file");
    assert_failed(kn_dataset_open("text,bytes=1", NULL), KN_ERROR_ARGUMENT, "takes no value");
    assert_failed(kn_dataset_open("text,length=99999999", NULL), KN_ERROR_ARGUMENT, "at most 16777216");
    assert_failed(kn_dataset_open("text,length=100000", NULL), KN_ERROR_SHAPE, "too short");
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Writes the file and returns "text:FOLDER/NAME" with the options. */
static const char *text_spec(const char *folder, const char *name, const char *text, size_t bytes,
                             const char *options) {
    static char spec[600];
    char path[500];
    kn_error error = {0};
    test_path(path, sizeof path, folder, name);
    if (kn_file_write(NULL, path, text, bytes, &error) != KN_OK) fail_msg("%s", error.text);
    snprintf(spec, sizeof spec, "text:%s%s", path, options);
    return spec;
}

static void expect_row(const kn_dataset *dataset, uint64_t row, int count, const int32_t *x,
                       const int32_t *y) {
    int32_t found[16];
    assert_int_equal(kn_dataset_read(dataset, &row, 1, 0, found, (size_t)count * 4, NULL, 0), KN_OK);
    assert_memory_equal(found, x, (size_t)count * 4);
    assert_int_equal(kn_dataset_read(dataset, &row, 1, 1, found, (size_t)count * 4, NULL, 0), KN_OK);
    assert_memory_equal(found, y, (size_t)count * 4);
}

/* 30 characters, of which the last three are the test part. */
static const char few_signs[] = "b\xc3\xa4"
                                "b\xc3\xa4"
                                "b\xc3\xa4"
                                "aaaaaaaaaaaaaaaaaaaaa"
                                "\xe2\x82\xac"
                                "b\n";

TEST_IN_FOLDER(characters_of_a_file) {
    kn_dataset *train =
        kn_dataset_open(text_spec(*state, "t", few_signs, sizeof few_signs - 1, ",length=2"), NULL);
    kn_dataset *test = kn_dataset_test(train);
    assert_usable(train);
    assert_usable(test);
    assert_string_equal(kn_dataset_vocabulary(train), "\nab\xc3\xa4\xe2\x82\xac");
    assert_int_equal(kn_dataset_classes(train), 5);
    assert_int_equal(kn_dataset_count(train), 13);
    assert_int_equal(kn_dataset_count(test), 1);
    expect_row(train, 0, 2, (const int32_t[]){2, 3}, (const int32_t[]){3, 2});
    expect_row(train, 2, 2, (const int32_t[]){2, 3}, (const int32_t[]){3, 1});
    expect_row(test, 0, 2, (const int32_t[]){4, 2}, (const int32_t[]){2, 0});
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

TEST_IN_FOLDER(another_vocabulary) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.vocabulary = "xb\xc3\xa4"
                        "a";
    const char *spec = text_spec(*state, "t", "abababababababababab", 20, ",length=1");
    kn_dataset *read = kn_dataset_open(spec, &params);
    assert_usable(read);
    assert_string_equal(kn_dataset_vocabulary(read), params.vocabulary);
    assert_int_equal(kn_dataset_classes(read), 4);
    expect_row(read, 0, 1, (const int32_t[]){3}, (const int32_t[]){1});
    kn_dataset_destroy(&read);
    params.vocabulary = ""; /* bytes */
    read = kn_dataset_open(spec, &params);
    assert_usable(read);
    assert_int_equal(kn_dataset_classes(read), 256);
    kn_dataset_destroy(&read);
    params.vocabulary = "x\xff";
    assert_failed(kn_dataset_open(spec, &params), KN_ERROR_FORMAT, "byte 1");
    params.vocabulary = "xa";
    assert_failed(kn_dataset_open(text_spec(*state, "t", "aaa\naba", 7, ",length=1"), &params),
                  KN_ERROR_FORMAT, "line 1 has the character U+000A");
    params.vocabulary = "a\n";
    assert_failed(kn_dataset_open(text_spec(*state, "t", "aaa\naba", 7, ",length=1"), &params),
                  KN_ERROR_FORMAT, "line 2 has the character U+0062");
}

TEST_IN_FOLDER(bytes_of_a_file) {
    static const char bytes[20] = {0, -1, 2, 3, 0, -1, 2, 3, 0, -1, 2, 3, 0, -1, 2, 3, 7, 8, 9, 10};
    kn_dataset *train =
        kn_dataset_open(text_spec(*state, "what,", bytes, sizeof bytes, ",bytes,length=1,stride=2"), NULL);
    kn_dataset *test = kn_dataset_test(train);
    assert_usable(train);
    assert_usable(test);
    assert_string_equal(kn_dataset_vocabulary(train), "");
    assert_int_equal(kn_dataset_classes(train), 256);
    assert_int_equal(kn_dataset_count(train), 9);
    expect_row(train, 0, 1, (const int32_t[]){0}, (const int32_t[]){255});
    expect_row(train, 1, 1, (const int32_t[]){2}, (const int32_t[]){3});
    expect_row(test, 0, 1, (const int32_t[]){9}, (const int32_t[]){10});
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

/* 100 times "abab ": first "ab" is merged, then "abab", then "abab" with the space before it; no other pair
 * occurs twice. */
TEST_IN_FOLDER(trained_vocabulary) {
    static const char trained[] = "\x1e \x1e"
                                  "a\x1e"
                                  "b\x1e"
                                  "ab\x1e"
                                  "abab\x1e abab";
    char text[501];
    for (int i = 0; i < 500; i++)
        text[i] = "abab "[i % 5];
    text[500] = 0;
    kn_dataset *train = kn_dataset_open(text_spec(*state, "t", text, 500, ",vocabulary=300,length=1"), NULL);
    assert_usable(train);
    assert_string_equal(kn_dataset_vocabulary(train), trained);
    assert_int_equal(kn_dataset_classes(train), 6);
    assert_int_equal(kn_dataset_count(train), 90); /* of 101 tokens, the last being the space */
    expect_row(train, 0, 1, (const int32_t[]){4}, (const int32_t[]){5});
    kn_dataset_destroy(&train);
    train = kn_dataset_open(text_spec(*state, "t", text, 500, ",vocabulary=5,length=2"), NULL);
    assert_usable(train);
    assert_int_equal(kn_dataset_classes(train), 5);
    expect_row(train, 0, 2, (const int32_t[]){4, 0}, (const int32_t[]){0, 4});
    kn_dataset_destroy(&train);
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.vocabulary = trained;
    train = kn_dataset_open(text_spec(*state, "t", "bab ab bab ab bab ab bab ab bab ab", 34, ",length=1"),
                            &params);
    assert_usable(train);
    expect_row(train, 0, 1, (const int32_t[]){2}, (const int32_t[]){3});
    expect_row(train, 1, 1, (const int32_t[]){3}, (const int32_t[]){0});
    kn_dataset_destroy(&train);
    assert_failed(kn_dataset_open(text_spec(*state, "t", "ab\nab", 5, ",length=1"), &params), KN_ERROR_FORMAT,
                  "line 1 has a character that is not among the 6");
    static const struct {
        const char *options, *part;
    } wrong[] = {{",vocabulary=2", "more distinct characters"},
                 {",vocabulary=5000", "2 to 4096"},
                 {",vocabulary=9,bytes", "expected either bytes or vocabulary"}};
    for (size_t i = 0; i < 3; i++)
        assert_failed(kn_dataset_open(text_spec(*state, "t", text, 500, wrong[i].options), NULL),
                      KN_ERROR_ARGUMENT, wrong[i].part);
    assert_failed(kn_dataset_open("text,vocabulary=40", NULL), KN_ERROR_ARGUMENT, "needs a file");
    assert_failed(kn_dataset_open(text_spec(*state, "t", "ab\x1e", 3, ",vocabulary=9"), NULL),
                  KN_ERROR_FORMAT, "U+001E");
}

TEST(texts_become_numbers) {
    static const char trained[] = "\x1e \x1e"
                                  "a\x1e"
                                  "b\x1e"
                                  "ab\x1e"
                                  "abab\x1e abab";
    int32_t numbers[16];
    size_t count, bytes;
    assert_int_equal(kn_text_encode(NULL, trained, "bab abab", numbers, &count, &bytes), KN_OK);
    assert_int_equal(count * 100 + bytes, 308);
    assert_memory_equal(numbers, ((const int32_t[]){2, 3, 5}), 12);
    assert_int_equal(kn_text_encode(NULL, trained, "abz", numbers, &count, &bytes), KN_ERROR_NOT_FOUND);
    assert_int_equal(count * 100 + bytes, 102);
    assert_int_equal(numbers[0], 3);
    assert_int_equal(kn_text_encode(NULL, "\nab\xc3\xa4",
                                    "\xc3\xa4"
                                    "b",
                                    numbers, &count, &bytes),
                     KN_OK);
    assert_int_equal(count * 100 + bytes, 203);
    assert_memory_equal(numbers, ((const int32_t[]){3, 2}), 8);
    assert_int_equal(kn_text_encode(NULL, "", "\xff", numbers, &count, &bytes), KN_OK);
    assert_int_equal(count * 1000 + (size_t)numbers[0], 1255);
    assert_int_equal(kn_text_encode(NULL, "a\xff", "a", numbers, &count, &bytes), KN_ERROR_FORMAT);
}

TEST_IN_FOLDER(wide_vocabulary) {
    /* 300 characters from U+0100 on, each twice. */
    char text[1200];
    size_t used = 0;
    for (uint32_t i = 0; i < 600; i++)
        used += kn_utf8_write(text + used, 0x100 + i % 300);
    kn_dataset *train = kn_dataset_open(text_spec(*state, "t", text, used, ",length=1"), NULL);
    assert_usable(train);
    assert_int_equal(kn_dataset_classes(train), 300);
    expect_row(train, 299, 1, (const int32_t[]){299}, (const int32_t[]){0});
    expect_row(train, 300, 1, (const int32_t[]){0}, (const int32_t[]){1});
    kn_dataset_destroy(&train);
}

TEST_IN_FOLDER(text_faults_are_named) {
    assert_failed(
        kn_dataset_open(text_spec(*state, "t", "a\nb\n\xff..................", 23, ",length=2"), NULL),
        KN_ERROR_FORMAT, "line 3 is not valid UTF-8 (byte 4");
    assert_failed(kn_dataset_open(text_spec(*state, "t", "a\n\0b..................", 23, ",length=2"), NULL),
                  KN_ERROR_FORMAT, "line 2 is not valid UTF-8");
    assert_failed(kn_dataset_open(text_spec(*state, "t", "abc", 3, ""), NULL), KN_ERROR_SHAPE, "too short");
    assert_failed(kn_dataset_open(text_spec(*state, "t", "", 0, ""), NULL), KN_ERROR_SHAPE, "too short");
    assert_failed(kn_dataset_open(text_spec(*state, "t", "abc", 3, ",colour"), NULL), KN_ERROR_ARGUMENT,
                  "length=NUMBER, stride=NUMBER, vocabulary=NUMBER or bytes");
    assert_failed(kn_dataset_open("text:/nonexistent/file", NULL), KN_ERROR_FILE, "/nonexistent/file");
}

/* Any allocation may fail: an error, and no leak. */
TEST_IN_FOLDER(memory_may_run_out) {
    char specs[2][600];
    static const char pairs[] = "ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab";
    snprintf(specs[0], sizeof specs[0], "%s",
             text_spec(*state, "t", few_signs, sizeof few_signs - 1, ",length=2"));
    snprintf(specs[1], sizeof specs[1], "%s",
             text_spec(*state, "p", pairs, sizeof pairs - 1, ",length=1,vocabulary=9"));
    int tried = 0;
    for (size_t fail_at = 1; tried < 2; fail_at++) {
        const char *spec = specs[tried];
        failing memory = {.fail_at = fail_at};
        kn_dataset_params params = watched(&memory);
        kn_dataset *dataset = kn_dataset_open(spec, &params);
        kn_status status = kn_dataset_status(dataset);
        kn_dataset_destroy(&dataset);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK) {
            tried++;
            fail_at = 0;
            continue;
        }
        assert_int_equal(status, KN_ERROR_MEMORY);
        assert_true(fail_at < 100);
    }
}

TEST_FILE(test_texts, NULL, NULL)
