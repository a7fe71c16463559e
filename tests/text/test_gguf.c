/* Vocabularies of GGUF files, written here: both kinds, and what is refused.
 * tests/python/vocabularies_gguf.py compares real ones with llama.cpp. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/text.h>

#include "../formats/gguf_bytes.h"
#include "text_tests.h"

enum { STRING = 8, INTEGER = 4, REAL = 6 };

/* A vocabulary of the model's kind; NULL for what the file lacks. */
typedef struct description {
    const char *model, *pre;
    const char *const *tokens;
    const float *scores;
    const uint32_t *types;
    const char *const *merges;
    const char *template;
} description;

static kn_vocabulary *open_made(const description *about) {
    gguf_made made = {0};
    uint64_t count = 0, merges = 0;
    while (about->tokens[count])
        count++;
    while (about->merges && about->merges[merges])
        merges++;
    if (about->model) gguf_add_string(&made, "tokenizer.ggml.model", about->model);
    if (about->pre) gguf_add_string(&made, "tokenizer.ggml.pre", about->pre);
    if (about->template) gguf_add_string(&made, "tokenizer.chat_template", about->template);
    gguf_add_array(&made, "tokenizer.ggml.tokens", STRING, count);
    for (uint64_t i = 0; i < count; i++)
        gguf_put_string(&made.values, about->tokens[i]);
    if (about->scores) {
        gguf_add_array(&made, "tokenizer.ggml.scores", REAL, count);
        gguf_put_bytes(&made.values, about->scores, (size_t)count * sizeof *about->scores);
    }
    if (about->types) {
        gguf_add_array(&made, "tokenizer.ggml.token_type", INTEGER, count);
        gguf_put_bytes(&made.values, about->types, (size_t)count * sizeof *about->types);
    }
    if (about->merges) {
        gguf_add_array(&made, "tokenizer.ggml.merges", STRING, merges);
        for (uint64_t i = 0; i < merges; i++)
            gguf_put_string(&made.values, about->merges[i]);
    }
    gguf_add_integer(&made, "tokenizer.ggml.bos_token_id", 1);
    gguf_add_integer(&made, "tokenizer.ggml.eos_token_id", 2);
    gguf_bytes bytes = gguf_finish(&made);
    char path[4096], *folder = test_folder_make();
    test_file_write(test_path(path, sizeof path, folder, "made.gguf"), bytes.bytes, bytes.count);
    kn_vocabulary *words = kn_vocabulary_open(path, NULL);
    test_folder_remove(folder);
    free(bytes.bytes);
    return words;
}

static void expect_tokens(const kn_vocabulary *words, const char *text, unsigned flags, const char *wanted) {
    int32_t tokens[64];
    size_t count = 0, used = 0;
    char found[256] = "";
    assert_int_equal(kn_vocabulary_encode(words, text, strlen(text), flags, tokens, 64, &count), KN_OK);
    for (size_t k = 0; k < count; k++)
        used += (size_t)snprintf(found + used, sizeof found - used, "%s%d", k ? " " : "", (int)tokens[k]);
    assert_string_equal(found, wanted);
}

#define SPACE "\xe2\x96\x81"
static const char *const scored_tokens[] = {"<unk>", "<s>", "</s>", "<0x78>", SPACE,     "a",
                                            "b",     "ab",  "bb",   "<turn>", "<turn>x", NULL};
static const float scores[] = {0, 0, 0, 0, -5, -6, -7, -1, -0.5f, 0, 0};
static const uint32_t scored_types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1, 3, 4};
static const description scored = {"llama", NULL, scored_tokens, scores, scored_types, NULL, "{{ x }}"};

TEST(the_best_score_is_merged_first) {
    kn_vocabulary *words = open_made(&scored);
    assert_string_equal(kn_vocabulary_error(words), "");
    expect_tokens(words, "abb", KN_TEXT_ADD_ENDS, "1 4 5 8"); /* "bb" before "ab" */
    expect_tokens(words, "abxab", 0, "4 7 3 7");
    expect_tokens(words, "a<turn>x", KN_TEXT_READ_SPECIAL, "4 5 10"); /* the longest is first */
    expect_tokens(words, "a<turn>a", KN_TEXT_READ_SPECIAL, "4 5 9 4 5");
    expect_tokens(words, "\xff", 0, "4 0");
    const int32_t tokens[] = {4, 5, 3, 4, 6};
    char text[16];
    size_t bytes;
    assert_int_equal(kn_vocabulary_decode(words, tokens, 5, 0, NULL, text, sizeof text, &bytes), KN_OK);
    assert_int_equal(bytes, 4);
    assert_memory_equal(text, "ax b", 4);
    assert_true(kn_vocabulary_ends(words, 2));
    kn_vocabulary_destroy(&words);
}

static const char *const letter_tokens[] = {"<unk>",
                                            "<s>",
                                            "</s>",
                                            "a",
                                            "b",
                                            "\xc4\xa0",
                                            "ab",
                                            "\xc4\xa0"
                                            "ab",
                                            "1",
                                            "11",
                                            NULL};
static const char *const letter_merges[] = {"a b", "\xc4\xa0 ab", "1 1", NULL};
static const char *const wrong_merges[] = {"a z", NULL};
static const uint32_t letter_types[] = {3, 3, 3, 1, 1, 1, 1, 1, 1, 1};

TEST(bytes_are_split_and_merged) {
    description about = {"gpt2", "smollm", letter_tokens, NULL, letter_types, letter_merges, NULL};
    kn_vocabulary *words = open_made(&about);
    if (kn_vocabulary_status(words) == KN_ERROR_UNSUPPORTED) {
        kn_vocabulary_destroy(&words);
        skip_because("this build has no regular expressions");
    }
    assert_string_equal(kn_vocabulary_error(words), "");
    expect_tokens(words, "ab ab", KN_TEXT_ADD_ENDS, "6 7"); /* no bos by default */
    expect_tokens(words, "11", 0, "8 8");
    expect_tokens(words,
                  "a\x01"
                  "b",
                  0, "3 4"); /* the byte has no letter, and separates its neighbours */
    kn_vocabulary_destroy(&words);
    about.pre = "gpt-2";
    words = open_made(&about);
    expect_tokens(words, "11", 0, "9");
    kn_vocabulary_destroy(&words);
}

TEST(wrong_files_are_refused) {
    static const char *const none[] = {NULL};
    const struct {
        description about;
        const char *message;
    } wrong[] = {
        {{NULL, NULL, scored_tokens, scores, scored_types, NULL, NULL}, "has no vocabulary"},
        {{"rwkv", NULL, scored_tokens, scores, scored_types, NULL, NULL},
         "is 'rwkv', which Koine does not support"},
        {{"gpt2", "mine", letter_tokens, NULL, letter_types, letter_merges, NULL}, "is 'mine'"},
        {{"gpt2", "smollm", letter_tokens, NULL, letter_types, NULL, NULL},
         "tokenizer.ggml.merges is missing"},
        {{"gpt2", "smollm", letter_tokens, NULL, letter_types, wrong_merges, NULL},
         "the second is not in the vocabulary"},
        {{"llama", NULL, scored_tokens, NULL, scored_types, NULL, NULL}, "tokenizer.ggml.scores is missing"},
        {{"llama", NULL, none, NULL, NULL, NULL, NULL}, "tokenizer.ggml.bos_token_id"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_vocabulary *words = open_made(&wrong[i].about);
        if (!strstr(kn_vocabulary_error(words), wrong[i].message))
            fail_msg("case %zu: '%s' does not have '%s'", i, kn_vocabulary_error(words), wrong[i].message);
        kn_vocabulary_destroy(&words);
    }
}

TEST_FILE(test_gguf_vocabularies, NULL, NULL)
