/* Hostile texts: mutations of valid ones, limits, and a host without memory. */
#include "models_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static const char everything[] = "koine 1\n"
                                 "# a network with all there is\n"
                                 "model all-1\n"
                                 "task regression\n"
                                 "loss huber delta=2\n"
                                 "input z lengthx3 float32\n"
                                 "input x 2x8x8\n"
                                 "block unit @in channels width=channels/2 stride=1\n"
                                 "    conv width 3 stride=stride padding=same bias=no init=normal:0.02\n"
                                 "    batchnorm\n"
                                 "    relu\n"
                                 "    side = conv channels 1x1 padding=0,0 dilation=1\n"
                                 "    output side conv1\n"
                                 "end\n"
                                 "stage = repeat 2 i\n"
                                 "    unit @ 4*i (i+1)*2 freeze\n"
                                 "end\n"
                                 "a = unit @stage1 6\n"
                                 "b = unit @stage1 6 share=a\n"
                                 "add @a @b:0\n"
                                 "leaky_relu slope=0.1\n"
                                 "p = parameter 6x1x1 init=zero\n"
                                 "mul @add1 @p\n"
                                 "repeat 2 k\n"
                                 "    drop{k} = dropout 0.1\n"
                                 "end\n"
                                 "flatten\n"
                                 "logits = linear 3\n"
                                 "w = linear @z 3 share=logits2\n"
                                 "output logits\n";

/* The text above without the line that is wrong on purpose. */
static size_t good_text(char *text, size_t room) {
    snprintf(text, room, "%s", everything);
    char *line = strstr(text, "w = linear"), *next = strchr(line, '\n') + 1;
    memmove(line, next, strlen(next) + 1);
    return strlen(text);
}

/* Whether the text is a valid model. */
static bool check(const char *text, size_t bytes, uint64_t seed) {
    char sentence[2048], copy[8193];
    if (!text_is_treated_well(text, bytes, sentence, sizeof sentence))
        fail_msg("seed %llu: %s\nin:\n%.*s", (unsigned long long)seed, sentence, (int)bytes, text);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    kn_model *model = kn_model_parse(copy, NULL);
    bool good = kn_model_status(model) == KN_OK;
    kn_model_destroy(&model);
    return good;
}

TEST(base_text) {
    char text[4096];
    good_text(text, sizeof text);
    kn_model *model = parse(text);
    kn_model_destroy(&model);
    assert_false(check(everything, strlen(everything), 0));
}

TEST(cut_off) {
    char text[4096];
    size_t bytes = good_text(text, sizeof text);
    for (size_t i = 0; i <= bytes; i++)
        check(text, i, i);
}

/* One change: a byte, a range moved or doubled, a word of the language inserted, a large number. */
static size_t mutate(char *text, size_t bytes, size_t room, uint64_t seed, uint64_t step) {
    static const char *const words[] = {
        " @",           "=",         "#",        "\n",      "{",           "}",          "(", ")",  "end\n",
        "repeat 3 i\n", "block b\n", " share=a", " freeze", "99999999999", "*",          "-", ",",  "x",
        ":1",           "\xff",      "{i}",      "unit",    "koine 1\n",   "output x\n", ".", "/0", "%0",
        "2147483647",   "stage1."};
    uint64_t key = kn_random_key(seed, "mutation");
    uint32_t what = kn_random_below(key, 4 * step, 5),
             place = kn_random_below(key, 4 * step + 1, (uint32_t)bytes + 1);
    uint32_t other = kn_random_below(key, 4 * step + 2, (uint32_t)bytes + 1);
    uint32_t number = kn_random_below(key, 4 * step + 3, 1 << 16);
    const char *piece = words[number % KN_COUNT_OF(words)];
    size_t length = strlen(piece);
    char copy[64];
    if (what == 0 && place < bytes) text[place] = (char)(number & 255);
    if (what == 1 && place < bytes) { /* removed */
        size_t count = 1 + number % 30;
        if (count > bytes - place) count = bytes - place;
        memmove(text + place, text + place + count, bytes - place - count);
        return bytes - count;
    }
    if (what == 2) { /* copied from elsewhere */
        length = 1 + number % 40;
        if (length > bytes - other) length = bytes - other;
        memcpy(copy, text + other, length);
        piece = copy;
    }
    if (what >= 2 && bytes + length <= room) {
        memmove(text + place + length, text + place, bytes - place);
        memcpy(text + place, piece, length);
        return bytes + length;
    }
    return bytes;
}

TEST(mutations) {
    enum { ROUNDS = 20000 };
    int accepted = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        char text[8192];
        size_t bytes = good_text(text, sizeof text);
        uint64_t changes = 1 + kn_random_below(kn_random_key(seed, "count"), 0, 3);
        for (uint64_t step = 0; step < changes; step++)
            bytes = mutate(text, bytes, sizeof text, seed, step);
        accepted += check(text, bytes, seed);
    }
    assert_in_range(accepted, ROUNDS / 200, ROUNDS - ROUNDS / 200); /* both outcomes occurred */
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* `text` is freed; the message must contain these words. */
static void refused_with(char *text, const char *words) {
    kn_model *model = kn_model_parse(text, NULL);
    free(text);
    assert_non_null(model);
    assert_int_not_equal(kn_model_status(model), KN_OK);
    if (!strstr(kn_model_error(model), words)) fail_msg("expected '%s' in: %s", words, kn_model_error(model));
    kn_model_destroy(&model);
}

/* A head, a piece repeated `count` times, a tail. */
static char *many(const char *head, const char *piece, size_t count, const char *tail) {
    size_t length = strlen(piece), start = strlen(head);
    char *text = malloc(start + count * length + strlen(tail) + 1);
    assert_non_null(text);
    memcpy(text, head, start);
    for (size_t i = 0; i < count; i++)
        memcpy(text + start + i * length, piece, length);
    memcpy(text + start + count * length, tail, strlen(tail) + 1);
    return text;
}

#define HEAD "koine 1\ninput x 3\n"

TEST(limits) {
    refused_with(many(HEAD, "#123456789\n", 400000, ""), "found a text of ");
    refused_with(many(HEAD, "\n", 60000, ""), "lines, expected at most 50000");
    refused_with(many(HEAD "concat", " @x", 160, "\n"), "found more than 160 words");
    refused_with(many(HEAD "concat", " @x", 70, "\n"), "found more than 64 inputs");
    refused_with(many(HEAD "linear ", "1", 201, "\n"), "found a word of 201 characters");
    refused_with(many(HEAD "linear ", "(", 60, "\n"), "fewer nested parentheses");
    refused_with(many(HEAD "linear ", "-", 60, "\n"), "fewer nested parentheses");
    refused_with(many(HEAD, "repeat 1\n", 40, ""), "found more than 32 nested blocks and repeats");
    refused_with(many(HEAD "block b", " a=1", 40, "\nend\n"), "found a second parameter 'a'");
    refused_with(many(HEAD "a", "a", 70, " = relu\n"), "expected a name");
    refused_with(many(HEAD, "repeat 1000\n", 4, "end\nend\nend\nend\n"), "found more than 100000 layers");
    refused_with(many(HEAD "input y 1", "x1", 7, "\n"), "found more than 7 sizes");
}

/* Each block uses the previous one twice: a short text that unrolls to a huge model. */
TEST(doubling) {
    char *text = malloc(1 << 16);
    assert_non_null(text);
    size_t length = (size_t)sprintf(text, HEAD "block b0\n    relu\nend\n");
    for (int i = 1; i <= 30; i++)
        length += (size_t)sprintf(text + length, "block b%d\n    b%d\n    b%d\nend\n", i, i - 1, i - 1);
    sprintf(text + length, "b30\n");
    refused_with(text, "found more than 100000 layers");
    text = malloc(1 << 16);
    assert_non_null(text);
    length = (size_t)sprintf(text, HEAD "block b0\n    relu\nend\n");
    for (int i = 1; i <= 40; i++)
        length += (size_t)sprintf(text + length, "block b%d\n    b%d\nend\n", i, i - 1);
    sprintf(text + length, "b40\n");
    refused_with(text, "nested more than 32 deep");
}

TEST(long_paths) {
    char *text = malloc(1 << 16), name[70];
    assert_non_null(text);
    memset(name, 'n', 60);
    name[60] = '\0';
    size_t length = (size_t)sprintf(text, HEAD "block b0\n    relu\nend\n");
    for (int i = 1; i <= 20; i++)
        length += (size_t)sprintf(text + length, "block b%d\n    %s = b%d\nend\n", i, name, i - 1);
    sprintf(text + length, "b20\n");
    refused_with(text, "expected shorter names");
}

/* A long text is read in reasonable time. */
TEST(long_texts) {
    char *text = many(HEAD, "relu\n", 20000, "");
    kn_model *model = kn_model_parse(text, NULL);
    assert_string_equal(kn_model_error(model), "");
    assert_string_equal(kn_value_name(kn_model_output_at(model, 0)), "relu20000");
    kn_model_destroy(&model);
    free(text);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Any allocation may fail: an error or no model, and no leak. */
TEST(without_memory) {
    char text[4096];
    good_text(text, sizeof text);
    size_t allowed = 0;
    for (bool done = false; !done; allowed++) {
        failing memory = {.fail_at = allowed + 1, .fail_after = true};
        kn_model_params params = KN_MODEL_DEFAULTS;
        params.allocator = failing_allocator(&memory);
        kn_model *model = kn_model_parse(text, &params);
        done = model && kn_model_status(model) == KN_OK;
        if (model && !done) {
            if (kn_model_status(model) != KN_ERROR_MEMORY)
                fail_msg("after %zu: %s", allowed, kn_model_error(model));
            assert_non_null(strstr(kn_model_error(model), "memory"));
        }
        kn_model_destroy(&model);
        assert_int_equal(memory.live, 0);
        assert_true(allowed < 100000);
    }
    assert_true(allowed > 20);
}

TEST_FILE(test_hostile, NULL, NULL)
