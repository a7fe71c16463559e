/* The vocabulary of a GGUF file as a tokenizer.json. */
#include "text/text_private.h"

#include <string.h>

typedef struct writing {
    const kn_vocabulary *vocabulary;
    kn_text *text;
    kn_error *error;
    kn_pairs scored; /* merges that follow from scores: their order, and the merged token */
    bool bytes;      /* byte-level pairs instead of scored ones */
} writing;

static kn_status refuse(const writing *w, const char *what) {
    return kn_fail(w->error, KN_ERROR_UNSUPPORTED,
                   "%s: the vocabulary cannot be written as tokenizer.json: %s", w->vocabulary->name, what);
}

/* ---- tokens -------------------------------------------------------------------------------------- */

static const char *word_at(const writing *w, int64_t token, size_t *length) {
    return kn_words_at(&w->vocabulary->model.words, token, length);
}

/* Every token needs a text of its own, in UTF-8 without zero bytes. */
static kn_status check_words(const writing *w) {
    const kn_words *words = &w->vocabulary->model.words;
    for (size_t token = 0; token < words->count; token++) {
        size_t length = 0, size;
        uint32_t code;
        const char *word = word_at(w, (int64_t)token, &length);
        const uint8_t *bytes = (const uint8_t *)word;
        for (size_t at = 0; word && at < length; at += size)
            if (!(size = kn_utf8_read(bytes + at, length - at, &code)) || !code)
                return kn_fail(w->error, KN_ERROR_UNSUPPORTED,
                               "%s: token %d cannot be written as tokenizer.json: it is not UTF-8",
                               w->vocabulary->name, (int)token);
        if (word && kn_words_find(words, word, length) != (int64_t)token)
            return kn_fail(
                w->error, KN_ERROR_UNSUPPORTED,
                "%s: token %d cannot be written as tokenizer.json: another token has the same text",
                w->vocabulary->name, (int)token);
    }
    return KN_OK;
}

static void put_words(const writing *w) {
    bool first = true;
    kn_text_add(w->text, "    \"vocab\": {");
    for (size_t token = 0; token < w->vocabulary->model.words.count; token++) {
        size_t length;
        const char *word = word_at(w, (int64_t)token, &length);
        if (!word) continue;
        kn_text_add(w->text, first ? "\n      " : ",\n      ");
        kn_text_json(w->text, word);
        kn_text_format(w->text, ": %d", (int)token);
        first = false;
    }
    kn_text_add(w->text, "\n    },\n");
}

/* Tokens that are cut out of texts before anything else. */
static void put_added(const writing *w) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    kn_text_add(w->text, "  \"added_tokens\": [");
    for (size_t i = 0; i < vocabulary->added_count; i++) {
        const kn_added *added = &vocabulary->added[i];
        kn_text_format(w->text, "%s\n    {\"id\": %d, \"content\": ", i ? "," : "", (int)added->token);
        kn_text_json(w->text, added->text);
        kn_text_format(w->text,
                       ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": "
                       "false, \"special\": %s}",
                       added->special ? "true" : "false");
    }
    kn_text_add(w->text, "\n  ],\n");
}

/* ---- merges -------------------------------------------------------------------------------------- */

static bool is_added(const writing *w, int64_t token) {
    size_t length;
    return token >= 0 && kn_words_at(&w->vocabulary->added_words, token, &length);
}

/* All pairs of tokens whose joint text is this token. */
static bool find_merges(writing *w, int64_t token) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    const kn_text_model *model = &vocabulary->model;
    size_t length = 0;
    const char *text = word_at(w, token, &length);
    if (!text || is_added(w, token)) return true;
    for (size_t at = 1; at < length; at++) {
        if (((uint8_t)text[at] & 0xc0) == 0x80) continue; /* within a character */
        const int64_t left = kn_words_find(&model->words, text, at);
        const int64_t right = left < 0 ? -1 : kn_words_find(&model->words, text + at, length - at);
        if (right < 0 || is_added(w, left) || is_added(w, right)) continue;
        kn_pair *made = kn_pairs_put(&w->scored, &vocabulary->host, (uint32_t)left, (uint32_t)right);
        if (!made) return false;
        made->first = kn_score_order(model->scores[token]);
        made->second = (uint32_t)token;
    }
    return true;
}

/* Of two merges with the same score the leftmost comes first; in tokenizer.json it is always the same one. */
static kn_status check_order(const writing *w, const kn_pair *const *merges, size_t count) {
    for (size_t i = 1; i < count && !w->bytes; i++)
        if (merges[i]->first == merges[i - 1]->first && merges[i]->second != merges[i - 1]->second)
            return refuse(w, "merges to different tokens have the same score");
    return KN_OK;
}

static void put_merges(const writing *w, const kn_pair *const *merges, size_t count) {
    kn_text_add(w->text, "    \"merges\": [");
    for (size_t i = 0; i < count; i++) {
        size_t length;
        kn_text_add(w->text, i ? ",\n      [" : "\n      [");
        kn_text_json(w->text, word_at(w, (int64_t)(merges[i]->key >> 32), &length));
        kn_text_add(w->text, ", ");
        kn_text_json(w->text, word_at(w, (uint32_t)merges[i]->key, &length));
        kn_text_add(w->text, "]");
    }
    kn_text_add(w->text, "\n    ]\n");
}

static kn_status put_model(writing *w) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    const kn_text_model *model = &vocabulary->model;
    const kn_pairs *pairs = w->bytes ? &model->merges : &w->scored;
    size_t length;
    for (size_t token = 0; token < model->words.count && !w->bytes; token++)
        if (!find_merges(w, (int64_t)token)) return kn_fail_memory(w->error, pairs->slot_count);
    const kn_pair **merges = kn_pairs_sorted(pairs, &vocabulary->host);
    if (!merges) return kn_fail_memory(w->error, pairs->count * sizeof *merges);
    kn_status status = check_order(w, merges, pairs->count);
    kn_text_add(w->text,
                "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ");
    kn_text_json(w->text, w->bytes ? NULL : word_at(w, model->unknown, &length));
    kn_text_format(w->text,
                   ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
                   "    \"fuse_unk\": %s,\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
                   w->bytes ? "false" : "true", model->byte_fallback ? "true" : "false",
                   model->ignore_merges ? "true" : "false");
    put_words(w);
    put_merges(w, merges, pairs->count);
    kn_text_add(w->text, "  }\n");
    kn_release(&vocabulary->host, merges);
    return status;
}

/* ---- before and after the model ------------------------------------------------------------------ */

#define REPLACE(from, to)                                                                                    \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"
#define LETTER KN_SPACE_LETTER

/* Byte-level pairs: expressions in turn, then bytes as letters. */
static void put_bytes(const writing *w) {
    kn_text_add(
        w->text,
        "  \"normalizer\": null,\n  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [");
    for (size_t i = 0; i < w->vocabulary->splitter_count; i++) {
        const kn_splitter *splitter = &w->vocabulary->splitters[i];
        if (splitter->kind != KN_SPLITTER_PATTERN) continue;
        kn_text_add(w->text, "\n    {\"type\": \"Split\", \"pattern\": {\"Regex\": ");
        kn_text_json(w->text, splitter->pattern.source);
        kn_text_add(w->text, "}, \"behavior\": \"Isolated\", \"invert\": false},");
    }
    kn_text_add(
        w->text,
        "\n    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, "
        "\"use_regex\": false}\n  ]},\n  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
        "false, \"trim_offsets\": false, \"use_regex\": false},\n");
}

/* Scored pairs: a space is a letter, which may be put in front of a text. */
static void put_spaces(const writing *w) {
    const bool prefix = w->vocabulary->normalizer_count > 1;
    kn_text_add(w->text, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [\n    ");
    if (prefix) kn_text_add(w->text, "{\"type\": \"Prepend\", \"prepend\": \"" LETTER "\"},\n    ");
    kn_text_add(
        w->text,
        REPLACE(" ", LETTER) "\n  ]},\n  \"pre_tokenizer\": null,\n"
                             "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [\n    " REPLACE(
                                 LETTER,
                                 " ") ",\n    {\"type\": \"ByteFallback\"},\n    {\"type\": \"Fuse\"}");
    if (prefix)
        kn_text_add(w->text, ",\n    {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
    kn_text_add(w->text, "\n  ]},\n");
}

/* The tokens before or after a text, as parts of a template. */
static void put_ends(const writing *w, const int32_t *tokens, size_t count, int type, bool *first) {
    for (size_t i = 0; i < count; i++, *first = false) {
        size_t length;
        kn_text_add(w->text, *first ? "\n      {\"SpecialToken\": {\"id\": "
                                    : ",\n      {\"SpecialToken\": {\"id\": ");
        kn_text_json(w->text, word_at(w, tokens[i], &length));
        kn_text_format(w->text, ", \"type_id\": %d}}", type);
    }
}

static void put_template(const writing *w, int texts) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    bool first = true;
    kn_text_format(w->text, "    \"%s\": [", texts == 1 ? "single" : "pair");
    for (int i = 0; i < texts; i++) {
        put_ends(w, vocabulary->before, vocabulary->before_count, i, &first);
        kn_text_format(w->text, "%s\n      {\"Sequence\": {\"id\": \"%c\", \"type_id\": %d}}",
                       first ? "" : ",", 'A' + i, i);
        first = false;
        put_ends(w, vocabulary->after, vocabulary->after_count, i, &first);
    }
    kn_text_add(w->text, "\n    ],\n");
}

static void put_processor(const writing *w) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    const int32_t *const lists[] = {vocabulary->before, vocabulary->after};
    const size_t counts[] = {vocabulary->before_count, vocabulary->after_count};
    bool first = true;
    if (!counts[0] && !counts[1]) {
        kn_text_add(w->text, "  \"post_processor\": null,\n");
        return;
    }
    kn_text_add(w->text, "  \"post_processor\": {\n    \"type\": \"TemplateProcessing\",\n");
    put_template(w, 1);
    put_template(w, 2);
    kn_text_add(w->text, "    \"special_tokens\": {");
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < counts[side]; i++) {
            size_t length;
            const int32_t token = lists[side][i];
            const char *text = word_at(w, token, &length);
            if (side && counts[0] && lists[0][0] == token) continue;
            kn_text_add(w->text, first ? "\n      " : ",\n      ");
            kn_text_json(w->text, text);
            kn_text_add(w->text, ": {\"id\": ");
            kn_text_json(w->text, text);
            kn_text_format(w->text, ", \"ids\": [%d], \"tokens\": [", (int)token);
            kn_text_json(w->text, text);
            kn_text_add(w->text, "]}");
            first = false;
        }
    kn_text_add(w->text, "\n    }\n  },\n");
}

/* ---- the functions ------------------------------------------------------------------------------- */

kn_status kn_vocabulary_write_json(const kn_vocabulary *vocabulary, kn_text *text, kn_error *error) {
    writing w = {.vocabulary = vocabulary, .text = text, .error = error};
    if (vocabulary->error.status != KN_OK)
        return kn_fail(error, vocabulary->error.status, "%s", vocabulary->error.text);
    w.bytes = vocabulary->model.encode == kn_bpe_encode;
    if (!w.bytes && vocabulary->model.encode != kn_scored_encode)
        return refuse(&w, "it is not from a GGUF file");
    kn_status status = check_words(&w);
    kn_text_add(text, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_added(&w);
    if (w.bytes)
        put_bytes(&w);
    else
        put_spaces(&w);
    put_processor(&w);
    if (status == KN_OK) status = put_model(&w);
    kn_text_add(text, "}\n");
    kn_pairs_finish(&w.scored, &vocabulary->host);
    return status == KN_OK && kn_text_failed(text) ? kn_fail_memory(error, text->length) : status;
}

const char *kn_vocabulary_chat_template(const kn_vocabulary *vocabulary) {
    return vocabulary->error.status == KN_OK ? vocabulary->chat_template : NULL;
}
