/* Conversations and texts as tokens of a language model: tokens and targets of each kind of line, what is cut
 * or left out, and mistakes. */
#include "data_tests.h"

#include <stdio.h>
#include <string.h>

enum { LENGTH = 8, N = -100 };

#define TOKENIZER                                                                                            \
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,"   \
    "\"ab\":4,\" \":5},\"merges\":[\"a b\"]},\"added_tokens\":["                                             \
    "{\"id\":6,\"content\":\"<u>\",\"special\":true},{\"id\":7,\"content\":\"<m>\",\"special\":true},"       \
    "{\"id\":8,\"content\":\"<e>\",\"special\":true}]}"
#define TEMPLATE                                                                                             \
    "{% for m in messages %}{{ '<u>' if m.role == 'user' else '<m>' }}{{ m.content }}<e>{% endfor %}"        \
    "{% if add_generation_prompt %}<m>{% endif %}"
/* Only the last message is complete, as for reasoning models. */
#define FORGETFUL                                                                                            \
    "{% for m in messages %}<u>{% if loop.last %}{{ m.content }}{% endif %}<e>{% endfor %}"                  \
    "{% if add_generation_prompt %}<m>{% endif %}"

static char *folder;

static int set_up(void **state) {
    folder = test_folder_make();
    add_file(folder, "words/tokenizer.json", TOKENIZER, strlen(TOKENIZER));
    add_file(folder, "words/tokenizer_config.json", "{\"eos_token\":\"<e>\"}", 19);
    add_file(folder, "words/chat_template.jinja", TEMPLATE, strlen(TEMPLATE));
    return 0;
}

static int tear_down(void **state) {
    test_folder_remove(folder);
    return 0;
}

static kn_dataset *open_lines(const char *kind, const char *options, const char *lines, bool all,
                              failing *memory) {
    static const kn_tensor_info wanted = {KN_INT32, 1, {LENGTH}};
    char path[4096], words[4096], spec[4200];
    add_file(folder, "lines.jsonl", lines, strlen(lines));
    test_path(path, sizeof path, folder, "lines.jsonl");
    test_path(words, sizeof words, folder, "words");
    kn_dataset_params params = memory ? watched(memory) : (kn_dataset_params)KN_DATASET_DEFAULTS;
    if (memory) params.log.level = KN_LOG_WARNING;
    params.tokenizer = words;
    params.expected = &wanted;
    params.all_tokens = all;
    snprintf(spec, sizeof spec, "%s:%s%s", kind, path, options);
    return kn_dataset_open(spec, &params);
}

static const struct {
    const char *line;
    bool all;
    int32_t x[LENGTH], y[LENGTH];
} cases[] = {
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"},{\"role\":\"assistant\",\"content\":\"ca\"}]}",
     false,
     {6, 4, 8, 7, 3, 1, 8, 0},
     {N, N, N, 3, 1, 8, N, N}},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"},{\"role\":\"assistant\",\"content\":\"ca\"}]}",
     true,
     {6, 4, 8, 7, 3, 1, 8, 0},
     {4, 8, 7, 3, 1, 8, N, N}},
    {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"\"},"
     "{\"role\":\"assistant\",\"content\":\"\\u0061\"}]}",
     false,
     {7, 2, 8, 6, 8, 7, 1, 8},
     {2, 8, N, N, N, 1, 8, N}},
    /* The first token of an answer may have a part of the prompt. */
    {"{\"prompt\":\"ca\",\"completion\":\"bc\"}", false, {3, 4, 3, 8, 0, 0, 0, 0}, {4, 3, 8, N, N, N, N, N}},
    {"{\"completion\":\"c\",\"prompt\":\"ab \"}", false, {4, 5, 3, 8, 0, 0, 0, 0}, {N, 3, 8, N, N, N, N, N}},
    {"{\"text\":\"cab<u>\"}", false, {3, 4, 0, 0, 0, 8, 0, 0}, {4, 0, 0, 0, 8, N, N, N}},
    {"{\"text\":\"cccccccccc\"}", false, {3, 3, 3, 3, 3, 3, 3, 3}, {3, 3, 3, 3, 3, 3, 3, 3}},
};

TEST_WITH(lines_become_tokens, set_up, tear_down) {
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_dataset *dataset = open_lines(i % 2 ? "jsonl" : "chat", "", cases[i].line, cases[i].all, NULL);
        int32_t tokens[2][LENGTH];
        assert_usable(dataset);
        assert_int_equal(kn_dataset_count(dataset), 1);
        assert_int_equal(kn_dataset_classes(dataset), 9);
        for (size_t field = 0; field < 2; field++)
            assert_int_equal(
                kn_dataset_read(dataset, NULL, 1, field, tokens[field], sizeof tokens[field], NULL, 0),
                KN_OK);
        for (int k = 0; k < LENGTH; k++)
            if (tokens[0][k] != cases[i].x[k] || tokens[1][k] != cases[i].y[k])
                fail_msg("case %zu, position %d: %d with the target %d", i, k, tokens[0][k], tokens[1][k]);
        kn_dataset_destroy(&dataset);
    }
}

/* The longest first, each in the fullest sample with room; in the order of the file there. */
TEST_WITH(texts_share_samples, set_up, tear_down) {
    static const int32_t expected[3][3][LENGTH] = {
        {{3, 3, 3, 3, 3, 3, 3, 3}, {3, 3, 3, 3, 3, 3, 3, 3}, {0}},
        {{3, 3, 3, 1, 1, 1, 1, 1}, {3, 3, 8, 1, 1, 1, 1, 8}, {0, 0, 0, 3, 3, 3, 3, 3}},
        {{2, 2, 3, 5, 0, 0, 0, 0}, {2, 8, 5, 8, N, N, N, N}, {0, 0, 2, 2, 4, 4, 4, 4}}};
    failing memory = {0};
    kn_dataset *dataset = open_lines("jsonl", ",pack",
                                     "{\"text\":\"bb\"}\n{\"text\":\"ccc\"}\n{\"text\":\"cccccccccccc\"}\n"
                                     "{\"text\":\"aaaaa\"}\n{\"prompt\":\"c\",\"completion\":\" \"}\n"
                                     "{\"prompt\":\"ccccccccc\",\"completion\":\" \"}\n",
                                     false, &memory);
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), 3);
    for (size_t field = 0; field < 3; field++) {
        int32_t found[3][LENGTH];
        assert_int_equal(kn_dataset_read(dataset, NULL, 3, field, found, sizeof found, NULL, 0), KN_OK);
        for (int row = 0; row < 3; row++)
            for (int k = 0; k < LENGTH; k++)
                if (found[row][k] != expected[row][field][k])
                    fail_msg("sample %d, field %zu, position %d: %d", row, field, k, found[row][k]);
    }
    kn_dataset_destroy(&dataset);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(long_lines_are_cut, set_up, tear_down) {
    failing memory = {0};
    kn_dataset *dataset = open_lines("jsonl", "",
                                     "{\"text\":\"ccccccccccc\"}\n \r\n{\"prompt\":\"ccccccccccc\","
                                     "\"completion\":\"a\"}\n{\"text\":\"a\"}\n",
                                     false, &memory);
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), 2);
    if (!strstr(memory.message, "left out 1 of 3 samples")) fail_msg("%s", memory.message);
    kn_dataset_destroy(&dataset);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(mistakes_are_named, set_up, tear_down) {
    assert_failed(open_lines("chat", "", "{\"text\":\"a\"}\n{\"words\":\"a\"}", false, NULL), KN_ERROR_FORMAT,
                  "lines.jsonl: line 2: expected an object with \"messages\"");
    assert_failed(open_lines("chat", "", "{\"text\":\"a\"}\n{", false, NULL), KN_ERROR_FORMAT, "line 2:1:2");
    assert_failed(open_lines("chat", "", "[1]", false, NULL), KN_ERROR_FORMAT, "line 1: expected an object");
    assert_failed(open_lines("chat", "", "{\"messages\":3}", false, NULL), KN_ERROR_FORMAT, "not an array");
    assert_failed(open_lines("chat", "", "{\"messages\":[{\"content\":\"a\"}]}", false, NULL),
                  KN_ERROR_FORMAT, "no \"role\"");
    assert_failed(
        open_lines("chat", "", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\\u0000\"}]}", false, NULL),
        KN_ERROR_FORMAT, "zero byte");
    /* Such a key is not "messages". */
    assert_failed(open_lines("chat", "",
                             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                             "\"messages\\u0000\":5}",
                             false, NULL),
                  KN_ERROR_FORMAT, "zero byte");
    assert_failed(
        open_lines("chat", "", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", false, NULL),
        KN_ERROR_SHAPE, "no sample with a target");
    assert_failed(open_lines("chat", "", "", false, NULL), KN_ERROR_SHAPE, "no sample with a target");
    add_file(folder, "words/chat_template.jinja", FORGETFUL, strlen(FORGETFUL));
    assert_failed(open_lines("chat", "", cases[2].line, false, NULL), KN_ERROR_FORMAT, "on a separate line");
    kn_dataset *dataset = open_lines("chat", "", cases[2].line, true, NULL);
    assert_usable(dataset);
    kn_dataset_destroy(&dataset);
    assert_failed(kn_dataset_open("chat:nowhere.jsonl", NULL), KN_ERROR_ARGUMENT, "vocabulary");
}

/* text: with the same vocabulary; a short end is not a test part. */
TEST_WITH(texts_have_tokens, set_up, tear_down) {
    int32_t y[LENGTH];
    kn_dataset *dataset = open_lines("text", "", "ab c ab c ab c", false, NULL);
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), 1);
    assert_false(kn_dataset_has_test(dataset));
    assert_null(kn_dataset_vocabulary(dataset));
    assert_int_equal(kn_dataset_read(dataset, NULL, 1, 1, y, sizeof y, NULL, 0), KN_OK);
    assert_memory_equal(y, ((int32_t[]){5, 3, 5, 4, 5, 3, 5, 4}), sizeof y);
    kn_dataset_destroy(&dataset);
    char many[200] = "";
    for (int i = 0; i < 95; i++)
        strcat(many, "a ");
    dataset = open_lines("text", "", many, false, NULL);
    assert_usable(dataset);
    assert_true(kn_dataset_has_test(dataset) && kn_dataset_count(dataset) == 21);
    kn_dataset_destroy(&dataset);
    assert_failed(open_lines("text", "", "ab c", false, NULL), KN_ERROR_SHAPE,
                  "a part of 3 tokens is too short");
}

TEST_WITH(memory_may_run_out, set_up, tear_down) {
    char lines[2000] = "";
    for (size_t i = 0; i < 5; i++)
        strcat(strcat(lines, cases[i].line), "\n");
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset *dataset = open_lines("chat", ",pack", lines, false, &memory);
        kn_status status = kn_dataset_status(dataset);
        kn_dataset_destroy(&dataset);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK) break;
        assert_int_equal(status, KN_ERROR_MEMORY);
        assert_true(fail_at < 100000);
    }
}

TEST_FILE(test_chats, NULL, NULL)
