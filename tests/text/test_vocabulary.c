/* Vocabularies from tokenizer.json: each kind of model and component, what is refused, bytes that are not
 * UTF-8, and decoding in parts. tests/python/vocabularies.py compares with the tokenizers package. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/text.h>

#include "text_tests.h"

static char *folder;

static int make_folder(void **state) {
    folder = test_folder_make();
    return 0;
}

static int remove_folder(void **state) {
    test_folder_remove(folder);
    return 0;
}

static kn_vocabulary *open_json(const char *json, const kn_allocator *allocator) {
    char path[4096];
    FILE *file = fopen(test_path(path, sizeof path, folder, "tokenizer.json"), "wb");
    assert_non_null(file);
    assert_int_equal(fputs(json, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
    return kn_vocabulary_open(path, allocator);
}

#define LETTERS                                                                                              \
    "\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"ab\":4,\"abc\":5,\" \":6,\"\xe2\x96\x81\":7,\"\xe2\x96\x81"       \
    "ab\":8"
#define BPE(more, rest)                                                                                      \
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\"," more "\"vocab\":{" LETTERS                       \
    "},\"merges\":[\"a b\",[\"ab\",\"c\"],\"\xe2\x96\x81 ab\"]}" rest "}"
#define WORDPIECE(rest)                                                                                      \
    "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"un\":1,\"##do\":2," \
    "\"##ne\":3,\"do\":4,\"u\":5,\"[CLS]\":6,\"[SEP]\":7,\".\":8}}" rest "}"
#define SPACES ",\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}"
#define ADDED(more) ",\"added_tokens\":[{\"id\":9,\"content\":\"<s>\"," more "\"special\":true}]"

static const struct {
    const char *json, *text, *tokens;
} cases[] = {
    {BPE("", ""), "abcab", "5 4"},
    {BPE("", ""), "xxa", "0 0 1"},
    {BPE("\"fuse_unk\":true,", ""), "xxa", "0 1"},
    {BPE("\"ignore_merges\":true,", SPACES), "abc c", "5 3"},
    {BPE("", ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
             "\"\xe2\x96"
             "\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]}"),
     "ab c", "8 7 3"},
    {BPE("", ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":"
             "\"first\"}" ADDED("")),
     "ab ab<s>ab", "8 8 9 4"},
    {BPE("", ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},\"behavior\":"
             "\"MergedWithNext\",\"invert\":false}"),
     "abbc", "1 2 2 3"},
    {BPE("", ADDED("")), "ab <s>c", "4 6 9 3"},
    {BPE("", ADDED("\"lstrip\":true,\"rstrip\":true,")), "ab  <s> c", "4 9 3"},
    {WORDPIECE(SPACES), "undone undo doun", "1 2 3 1 2 0"},
    {WORDPIECE(
         SPACES
         ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",7],\"cls\":[\"[CLS]\",6]}"),
     "do", "6 4 7"},
    {WORDPIECE(SPACES
               ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
               "\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],"
               "\"special_tokens\":{\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[6],\"tokens\":[\"[CLS]\"]}}}"),
     "do", "6 4"},
    {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"b\",-1],[\"ab\",-"
     "1.5],[\"bc\","
     "-0.1]]}}",
     "abcabzz", "1 4 3 0"},
    {"{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"one\":1}}" SPACES "}",
     "one two", "1 0"},
};

TEST(tokens_are_those_of_the_rules) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kn_vocabulary *words = open_json(cases[i].json, NULL);
        if (kn_vocabulary_status(words) != KN_OK) fail_msg("case %zu: %s", i, kn_vocabulary_error(words));
        int32_t tokens[64];
        size_t count = 0, used = 0;
        char found[256] = "";
        assert_int_equal(kn_vocabulary_encode(words, cases[i].text, strlen(cases[i].text),
                                              KN_TEXT_ADD_ENDS | KN_TEXT_READ_SPECIAL, tokens, 64, &count),
                         KN_OK);
        for (size_t k = 0; k < count; k++)
            used += (size_t)snprintf(found + used, sizeof found - used, "%s%d", k ? " " : "", (int)tokens[k]);
        if (strcmp(found, cases[i].tokens) != 0)
            fail_msg("case %zu: '%s' has the tokens %s, expected %s", i, cases[i].text, found,
                     cases[i].tokens);
        kn_vocabulary_destroy(&words);
    }
}

static const struct {
    const char *json, *message;
} wrong[] = {
    {"{}", "model is missing"},
    {"[", "the text ends here"},
    {"{\"model\":{\"type\":\"Markov\"}}", "the model \"Markov\" is not supported"},
    {BPE("\"dropout\":0.1,", ""), "dropout"},
    {BPE("", ",\"normalizer\":{\"type\":\"Precompiled\"}"), "the normalizer \"Precompiled\""},
    {BPE("", ",\"decoder\":{\"type\":\"CTC\"}"), "the decoder \"CTC\""},
    {BPE("", ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}"), "has the text 0 times"},
    {BPE("", ",\"added_tokens\":[{\"id\":-1,\"content\":\"x\"}]"), "added_tokens.id"},
    {BPE("", ",\"added_tokens\":[{\"id\":9,\"content\":\"x\"},{\"id\":9,\"content\":\"y\"}]"),
     "have the id 9"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}", "their joint token"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4194304},\"merges\":[]}}", "expected 0 to 4194303"},
    {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":5,\"vocab\":[[\"a\",0]]}}", "unk_id"},
};

TEST(what_is_unknown_is_refused_by_name) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_vocabulary *words = open_json(wrong[i].json, NULL);
        assert_int_not_equal(kn_vocabulary_status(words), KN_OK);
        if (!strstr(kn_vocabulary_error(words), wrong[i].message))
            fail_msg("case %zu: '%s' does not have '%s'", i, kn_vocabulary_error(words), wrong[i].message);
        kn_vocabulary_destroy(&words);
    }
}

/* A byte-level vocabulary of the 256 letters, without merges. */
static void write_bytes(char *json) {
    static const char end[] =
        "},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"use_regex\":false},\"decoder\":{\"type\":\"ByteLevel\"}}";
    json += sprintf(json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0, next = 256; i < 256; i++) {
        bool own = (i >= '!' && i <= '~') || (i >= 0xa1 && i <= 0xac) || i >= 0xae;
        json += sprintf(json, "%s\"\\u%04x\":%d", i ? "," : "", (unsigned)(own ? i : next++), i);
    }
    strcpy(json, end);
}

TEST(bytes_that_are_not_utf8_come_back) {
    static char json[8192];
    write_bytes(json);
    kn_vocabulary *words = open_json(json, NULL);
    assert_string_equal(kn_vocabulary_error(words), "");
    for (unsigned seed = 0; seed < 200; seed++) {
        char text[64], back[64];
        int32_t tokens[64];
        size_t length = seed % 64, count = 0, bytes = 0;
        for (size_t i = 0; i < length; i++)
            text[i] = (char)((seed * 2654435761u + i * 40503u * (seed + 1)) >> 7);
        assert_int_equal(kn_vocabulary_encode(words, text, length, 0, tokens, 64, &count), KN_OK);
        assert_int_equal(count, length);
        assert_int_equal(kn_vocabulary_decode(words, tokens, count, 0, NULL, back, sizeof back, &bytes),
                         KN_OK);
        assert_int_equal(bytes, length);
        assert_memory_equal(text, back, length);
    }
    kn_vocabulary_destroy(&words);
}

TEST(half_a_character_waits_for_its_other_half) {
    static char json[8192];
    write_bytes(json);
    kn_vocabulary *words = open_json(json, NULL);
    static const char text[] = "\xe2\x96\x81x\xf0\x9f\x98\x80";
    kn_decoding decoding = KN_DECODING_DEFAULTS;
    char all[32];
    size_t used = 0;
    for (size_t i = 0; i < strlen(text); i++) {
        int32_t token = (uint8_t)text[i];
        size_t bytes = 0;
        assert_int_equal(kn_vocabulary_decode(words, &token, 1, 0, &decoding, all + used, 0, &bytes), KN_OK);
        assert_int_equal(bytes, i == 2 ? 3 : i == 3 ? 1 : i == 7 ? 4 : 0);
        if (bytes) /* there was no room: the state is unchanged */
            assert_int_equal(kn_vocabulary_decode(words, &token, 1, 0, &decoding, all + used, bytes, &bytes),
                             KN_OK);
        used += bytes;
    }
    assert_int_equal(used, strlen(text));
    assert_memory_equal(all, text, used);
    int32_t token = 256;
    assert_int_equal(kn_vocabulary_decode(words, &token, 1, 0, NULL, all, 32, &used), KN_ERROR_ARGUMENT);
    kn_vocabulary_destroy(&words);
}

TEST(long_texts_are_cut_before_their_end) {
    kn_vocabulary *words = open_json(
        WORDPIECE(SPACES ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",7],\"cls\":"
                         "[\"[CLS]\",6]}"),
        NULL);
    const unsigned flags = KN_TEXT_ADD_ENDS | KN_TEXT_CUT;
    const char *text = "do undone";
    int32_t tokens[8];
    size_t count = 0;
    static const int32_t expected[] = {6, 4, 1, 7}, all[] = {6, 4, 1, 2, 3, 7};
    assert_int_equal(kn_vocabulary_encode(words, text, strlen(text), flags, tokens, 8, &count), KN_OK);
    assert_int_equal(count, 6);
    assert_memory_equal(tokens, all, sizeof all);
    assert_int_equal(kn_vocabulary_encode(words, text, strlen(text), flags, tokens, 4, &count), KN_OK);
    assert_int_equal(count, 4);
    assert_memory_equal(tokens, expected, sizeof expected);
    assert_int_equal(kn_vocabulary_encode(words, text, strlen(text), flags, tokens, 2, &count), KN_OK);
    assert_int_equal(count, 2);
    assert_int_equal(tokens[1], 7);
    assert_int_equal(kn_vocabulary_encode(words, text, strlen(text), flags, tokens, 1, &count),
                     KN_ERROR_ARGUMENT);
    assert_int_equal(kn_vocabulary_encode(words, text, strlen(text), KN_TEXT_CUT, tokens, 1, &count), KN_OK);
    assert_int_equal(count, 1);
    assert_int_equal(tokens[0], 4);
    kn_vocabulary_destroy(&words);
}

TEST(special_text_needs_a_flag) {
    kn_vocabulary *words = open_json(BPE("", ADDED("")), NULL);
    int32_t tokens[8];
    size_t count = 0;
    assert_int_equal(kn_vocabulary_encode(words, "<s>a", 4, 0, tokens, 8, &count), KN_OK);
    assert_int_equal(count, 4); /* "<", "s" and ">" are unknown */
    assert_int_equal(kn_vocabulary_encode(words, "<s>a", 4, KN_TEXT_READ_SPECIAL, tokens, 1, &count), KN_OK);
    assert_int_equal(count, 2);
    assert_int_equal(tokens[0], 9);
    assert_true(kn_vocabulary_is_special(words, 9));
    assert_false(kn_vocabulary_is_special(words, 1));
    assert_int_equal(kn_vocabulary_find(words, "<s>"), 9);
    assert_string_equal(kn_vocabulary_token(words, 9, NULL), "<s>");
    assert_int_equal(kn_vocabulary_size(words), 10);
    assert_int_equal(kn_vocabulary_role(words, KN_TEXT_ROLE_UNKNOWN), 0);
    assert_int_equal(kn_vocabulary_role(words, KN_TEXT_ROLE_END), -1);
    kn_vocabulary_destroy(&words);
}

TEST(settings_name_roles_and_ends) {
    char path[4096];
    FILE *file = fopen(test_path(path, sizeof path, folder, "tokenizer_config.json"), "w");
    fputs("{\"eos_token\": {\"content\": \"<s>\"}, \"bos_token\": \"a\"}", file);
    fclose(file);
    kn_vocabulary *words = open_json(BPE("", ADDED("")), NULL);
    assert_int_equal(kn_vocabulary_role(words, KN_TEXT_ROLE_END), 9);
    assert_int_equal(kn_vocabulary_role(words, KN_TEXT_ROLE_BEGIN), 1);
    assert_true(kn_vocabulary_ends(words, 9));
    assert_false(kn_vocabulary_ends(words, 1));
    kn_vocabulary_destroy(&words);
    words = kn_vocabulary_open(folder, NULL);
    assert_int_equal(kn_vocabulary_status(words), KN_OK);
    kn_vocabulary_destroy(&words);
    assert_int_equal(remove(path), 0);
}

TEST(every_failed_allocation_is_reported) {
    static const char *const json[] = {
        BPE("", SPACES ADDED("")),
        WORDPIECE(SPACES),
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"b\",-1]]}}",
    };
    for (size_t i = 0; i < 3; i++)
        for (size_t at = 1, done = 0; !done; at++) {
            failing memory = {.fail_at = at};
            kn_allocator allocator = failing_allocator(&memory);
            kn_vocabulary *words = open_json(json[i], &allocator);
            if (kn_vocabulary_status(words) == KN_OK) {
                int32_t tokens[16];
                size_t count = 0;
                kn_status status = kn_vocabulary_encode(words, "ab <s>c", 7, 2, tokens, 16, &count);
                assert_true(status == KN_OK || status == KN_ERROR_MEMORY);
                done = memory.calls < at;
                assert_true(!done || status == KN_OK);
            } else if (words) {
                assert_int_equal(kn_vocabulary_status(words), KN_ERROR_MEMORY);
            }
            kn_vocabulary_destroy(&words);
            assert_int_equal(memory.live, 0);
            assert_true(at < 2000);
        }
}

TEST(chats_survive_failed_allocations) {
    char path[4096], message[200];
    FILE *file = fopen(test_path(path, sizeof path, folder, "chat_template.jinja"), "w");
    fputs("{% set n = namespace(a=1) %}{% for m in messages if m.role %}{{ loop.index ~ m['role'][::-1] | "
          "upper }}"
          "{{ {'k': [m]} | tojson }}{% endfor %}{{ 'a,b'.split(',') | join(n.a | string) }}",
          file);
    fclose(file);
    size_t wanted = 0;
    for (size_t at = 0;; at++) {
        failing memory = {.fail_at = at};
        kn_allocator allocator = failing_allocator(&memory);
        kn_vocabulary *words = open_json(BPE("", ""), &allocator);
        char text[200];
        size_t bytes = 0, before = memory.calls;
        kn_status status = kn_vocabulary_status(words);
        if (status == KN_OK)
            status = kn_vocabulary_chat(words, "{\"messages\": [{\"role\": \"user\"}]}", text, sizeof text,
                                        &bytes, message, sizeof message);
        if (at == 0) wanted = bytes;
        assert_true(status == KN_OK ? bytes == wanted && wanted == 33 : status == KN_ERROR_MEMORY);
        kn_vocabulary_destroy(&words);
        assert_int_equal(memory.live, 0);
        if (at && before < at && memory.calls < at) break;
    }
    assert_int_equal(remove(path), 0);
}

#define DOUBLE "{% set n = namespace(a=1) %}{% for i in range(150) %}{% set n.a = [n.a, n.a] %}{% endfor %}"
#define NEST "{% set n = namespace(a=1) %}{% for i in range(50000) %}{% set n.a = [n.a] %}{% endfor %}"

static const struct {
    const char *chat, *message; /* message NULL: the text is in `text` */
    const char *text;
} chats[] = {
    {"{% set n = namespace() %}{% set n.a = n %}{{ n | tojson }}", "has a namespace", NULL},
    {"{% set n = namespace() %}{% set n.a = n %}{{ n == n }}{{ n == namespace() }}", NULL, "TrueFalse"},
    {DOUBLE "{{ n.a | tojson }}", "nested too deeply", NULL},
    {NEST "{{ n.a | tojson }}", "nested too deeply", NULL},
    {DOUBLE "{% set b = n.a %}" DOUBLE "{{ n.a == b }}", "nested too deeply", NULL},
    {NEST "{{ n.a in [n.a] }}", "nested too deeply", NULL},
    {"{{ range(-9223372036854775807, 9223372036854775807) }}", "more than 100000 numbers", NULL},
    {"{{ 'abc'.startswith('b', 1) }}", "only one argument", NULL},
    {"{{ messages | map(attribute='content.a') | list | tojson }}", "without points", NULL},
    {"{{ messages | selectattr('content.a') | list | tojson }}", "without points", NULL},
    {"{{ ['a'] | join('b', attribute='c') }}", "only the argument d", NULL},
    {"{{ 'a' | tojson(ensure_ascii=true) }}", "ensure_ascii", NULL},
    {"{{ -messages[0].n }}", "beyond", NULL},
};

static void write_template(const char *text, size_t repeats, const char *end) {
    char path[4096];
    FILE *file = fopen(test_path(path, sizeof path, folder, "chat_template.jinja"), "w");
    assert_non_null(file);
    for (size_t i = 0; i < repeats; i++)
        fputs(text, file);
    fputs(end, file);
    assert_int_equal(fclose(file), 0);
}

TEST(templates_have_limits) {
    static const char variables[] =
        "{\"messages\": [{\"content\": {\"a\": 1}, \"n\": -9223372036854775808}]}";
    char path[4096], text[256], message[400];
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        write_template(chats[i].chat, 1, "");
        kn_vocabulary *words = open_json(BPE("", ""), NULL);
        kn_status status =
            kn_vocabulary_chat(words, variables, text, sizeof text, &bytes, message, sizeof message);
        if (chats[i].message ? status == KN_OK || !strstr(message, chats[i].message)
                             : status != KN_OK || bytes != strlen(chats[i].text) ||
                                   memcmp(text, chats[i].text, bytes) != 0)
            fail_msg("case %zu: %s '%s'", i, kn_status_message(status), message);
        kn_vocabulary_destroy(&words);
    }
    /* Chains of operators, filters and members, and a text that one call makes too long. */
    static const char *const parts[][2] = {{"{{ 1", "+1"}, {"{{ 'a'", "|trim"}, {"{{ a", ".a"}};
    for (size_t i = 0; i < 3; i++) {
        char *chain = malloc(300000);
        assert_non_null(chain);
        size_t used = (size_t)sprintf(chain, "%s", parts[i][0]);
        while (used < 290000)
            used += (size_t)sprintf(chain + used, "%s", parts[i][1]);
        strcpy(chain + used, " }}");
        write_template(chain, 1, "");
        free(chain);
        kn_vocabulary *words = open_json(BPE("", ""), NULL);
        assert_int_equal(
            kn_vocabulary_chat(words, variables, text, sizeof text, &bytes, message, sizeof message),
            KN_ERROR_UNSUPPORTED);
        assert_non_null(strstr(message, "nested"));
        kn_vocabulary_destroy(&words);
    }
    assert_int_equal(remove(test_path(path, sizeof path, folder, "chat_template.jinja")), 0);
}

TEST_FILE(test_vocabularies, make_folder, remove_folder)
