/* Vocabularies in GGUF files, with llama.cpp's rules: it decides about these files. */
#include "text/text_private.h"

#include <string.h>

typedef struct reader {
    kn_vocabulary *vocabulary;
    const kn_gguf *file;
    kn_arena *arena;
    kn_error *error;
} reader;

/* ---- the kinds of byte-level vocabularies: how a text is split before merging -------------------- */

#define WORDS_OF_LLAMA3(endings, numbers)                                                                    \
    endings "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                                                        \
            "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define ENDINGS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define JSON_ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TEKKEN                                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"             \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"      \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3 WORDS_OF_LLAMA3(ENDINGS, "\\p{N}{1,3}")
#define JSON_LLAMA3 WORDS_OF_LLAMA3(JSON_ENDINGS, "\\p{N}{1,3}")
#define QWEN2 WORDS_OF_LLAMA3(ENDINGS, "\\p{N}")
#define JSON_QWEN2 WORDS_OF_LLAMA3(JSON_ENDINGS, "\\p{N}")

static const struct pre {
    const char *name;           /* tokenizer.ggml.pre */
    const char *regexes[2];     /* in turn */
    bool ignore_merges, begins; /* a whole piece in the vocabulary wins; a text begins with bos by default */
    const char *json;           /* instead of the first in a tokenizer.json; NULL: the same */
} pre_kinds[] = {
    {"gpt-2", {KN_REGEX_GPT2}, false, false, NULL},
    {"phi-2", {KN_REGEX_GPT2}, false, false, NULL},
    {"roberta-bpe", {KN_REGEX_GPT2}, false, false, NULL},
    {"smollm", {"\\p{N}", KN_REGEX_GPT2}, false, false, NULL},
    {"starcoder", {"\\p{N}", KN_REGEX_GPT2}, false, false, NULL},
    {"llama-bpe", {LLAMA3}, true, true, JSON_LLAMA3},
    {"llama3", {LLAMA3}, true, true, JSON_LLAMA3},
    {"llama-v3", {LLAMA3}, true, true, JSON_LLAMA3},
    {"qwen2", {QWEN2}, false, false, JSON_QWEN2},
    {"deepseek-r1-qwen", {QWEN2}, false, false, JSON_QWEN2},
    {"tekken", {TEKKEN}, true, true, NULL},
};

static bool same(const char *one, const char *other) {
    return one && other ? !strcmp(one, other) : one == other;
}

const char *kn_gguf_pre_named(const char *first, const char *second, bool ignore_merges) {
    for (size_t i = 0; i < KN_COUNT_OF(pre_kinds); i++)
        if (same(pre_kinds[i].json ? pre_kinds[i].json : pre_kinds[i].regexes[0], first) &&
            same(pre_kinds[i].regexes[1], second) && pre_kinds[i].ignore_merges == ignore_merges)
            return pre_kinds[i].name;
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* An array of the file; NULL with an error if it is missing, or has another kind or length. */
static const kn_gguf_value *array_of(reader *in, const char *key, uint64_t count) {
    const kn_gguf_value *value = kn_gguf_find(in->file, key);
    if (value && value->array && (count == 0 || value->count == count)) return value;
    if (!value)
        kn_fail(in->error, KN_ERROR_FORMAT, "%s: %s is missing; expected an array", in->vocabulary->name,
                key);
    else
        kn_fail(in->error, KN_ERROR_FORMAT, "%s: %s has %llu elements%s; expected an array of %llu",
                in->vocabulary->name, key, (unsigned long long)value->count,
                value->array ? "" : " and is not an array", (unsigned long long)count);
    return NULL;
}

static kn_status wrong_kind(reader *in, const char *key, const kn_gguf_value *value, const char *expected) {
    return kn_fail(in->error, KN_ERROR_FORMAT, "%s: the elements of %s are %s; expected %s",
                   in->vocabulary->name, key, kn_gguf_kind_name(value->kind), expected);
}

static kn_status read_tokens(reader *in) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_gguf_value *tokens = array_of(in, "tokenizer.ggml.tokens", 0);
    if (!tokens) return in->error->status;
    if (tokens->count > KN_WORD_NUMBERS)
        return kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: %llu tokens; expected at most %d",
                       in->vocabulary->name, (unsigned long long)tokens->count, KN_WORD_NUMBERS);
    for (uint64_t i = 0; i < tokens->count; i++) {
        kn_gguf_text text;
        if (!kn_gguf_text_at(tokens, i, &text)) return wrong_kind(in, tokens->key, tokens, "strings");
        if (!kn_words_put(&model->words, (uint32_t)i, text.bytes, (size_t)text.count))
            return kn_fail_memory(in->error, (size_t)text.count);
    }
    kn_text_model_find_bytes(model);
    return KN_OK;
}

enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4 };

/* Control tokens, unknown ones and those of the user are cut out of texts before anything else. */
static kn_status read_types(reader *in) {
    kn_vocabulary *vocabulary = in->vocabulary;
    if (!kn_gguf_find(in->file, "tokenizer.ggml.token_type")) return KN_OK;
    size_t count = vocabulary->model.words.count, added = 0;
    const kn_gguf_value *types = array_of(in, "tokenizer.ggml.token_type", count);
    if (!types) return in->error->status;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            int64_t type;
            if (!kn_gguf_integer_at(types, i, &type)) return wrong_kind(in, types->key, types, "integers");
            if (type != TYPE_UNKNOWN && type != TYPE_CONTROL && type != TYPE_USER) continue;
            if (pass) {
                kn_added *made = vocabulary->added + vocabulary->added_count;
                made->text = kn_words_at(&vocabulary->model.words, (int64_t)i, &made->length);
                made->token = (int32_t)i;
                made->special = type != TYPE_USER;
                vocabulary->added_count += made->length > 0;
            }
            added++;
        }
        if (!pass && !(vocabulary->added = kn_arena_take(in->arena, added, sizeof *vocabulary->added)))
            return kn_fail_memory(in->error, added * sizeof *vocabulary->added);
    }
    vocabulary->raw.longest_first = true;
    return KN_OK;
}

static kn_status read_scores(reader *in) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_gguf_value *scores = array_of(in, "tokenizer.ggml.scores", model->words.count);
    if (!scores) return in->error->status;
    double *numbers = kn_arena_take(in->arena, model->words.count, sizeof *numbers);
    if (!numbers) return kn_fail_memory(in->error, model->words.count * sizeof *numbers);
    for (size_t i = 0; i < model->words.count; i++)
        if (!kn_gguf_real_at(scores, i, numbers + i) || numbers[i] != numbers[i])
            return wrong_kind(in, scores->key, scores, "numbers");
    model->scores = numbers;
    return KN_OK;
}

/* "a b": the space that separates the parts is not the first byte. */
static kn_status read_merges(reader *in) {
    kn_vocabulary *vocabulary = in->vocabulary;
    const kn_gguf_value *merges = array_of(in, "tokenizer.ggml.merges", 0);
    if (!merges) return in->error->status;
    for (uint64_t i = 0; i < merges->count; i++) {
        kn_gguf_text text;
        if (!kn_gguf_text_at(merges, i, &text)) return wrong_kind(in, merges->key, merges, "strings");
        const char *space = text.count > 1 ? memchr(text.bytes + 1, ' ', (size_t)text.count - 1) : NULL;
        size_t length = space ? (size_t)(space - text.bytes) : 0;
        const char *missing = "a space";
        if (space)
            missing = kn_text_model_add_merge(&vocabulary->model, &vocabulary->host, (uint32_t)i, text.bytes,
                                              length, space + 1, (size_t)text.count - length - 1);
        if (missing && !missing[0]) return kn_fail_memory(in->error, 0);
        if (missing)
            return kn_fail(in->error, KN_ERROR_FORMAT, "%s: merge %llu of %s, '%.*s': %s is not in %s",
                           vocabulary->name, (unsigned long long)i, merges->key,
                           (int)(text.count < 100 ? text.count : 100), text.bytes, missing,
                           space ? "the vocabulary" : "it");
    }
    return KN_OK;
}

/* usual: the tokens of a file that does not name them. */
static kn_status read_roles(reader *in, const int usual[4]) {
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    kn_vocabulary *vocabulary = in->vocabulary;
    int64_t most = (int64_t)vocabulary->model.words.count - 1;
    for (int role = 0; role < 4; role++) {
        int64_t token = usual[role] <= most ? usual[role] : -1;
        kn_status status = kn_gguf_integer(in->file, keys[role], 0, most, &token, in->error);
        if (status != KN_OK) return status;
        vocabulary->roles[role] = (int32_t)token;
    }
    vocabulary->model.unknown = vocabulary->roles[KN_TEXT_ROLE_UNKNOWN];
    return KN_OK;
}

static kn_status read_end(reader *in, const char *key, int32_t token, bool usual, int32_t **list,
                          size_t *count) {
    kn_status status = kn_gguf_bool(in->file, key, &usual, in->error);
    if (status != KN_OK || !usual || token < 0) return status;
    if (!(*list = kn_arena_take(in->arena, 1, sizeof **list)))
        return kn_fail_memory(in->error, sizeof **list);
    (*list)[0] = token;
    *count = 1;
    return KN_OK;
}

/* What is added before and after a text, unless the file says so only if `usual`. */
static kn_status read_ends(reader *in, int32_t begin, int32_t end, bool usual_begin, bool usual_end) {
    kn_vocabulary *vocabulary = in->vocabulary;
    kn_status status = read_end(in, "tokenizer.ggml.add_bos_token", begin, usual_begin, &vocabulary->before,
                                &vocabulary->before_count);
    if (status != KN_OK) return status;
    return read_end(in, "tokenizer.ggml.add_eos_token", end, usual_end, &vocabulary->after,
                    &vocabulary->after_count);
}

/* ---- the kinds ----------------------------------------------------------------------------------- */

static bool make_parts(reader *in, size_t normalizers, size_t splitters, size_t decoders) {
    kn_vocabulary *vocabulary = in->vocabulary;
    vocabulary->normalizers = kn_arena_take(in->arena, normalizers, sizeof *vocabulary->normalizers);
    vocabulary->splitters = kn_arena_take(in->arena, splitters, sizeof *vocabulary->splitters);
    vocabulary->decoders = kn_arena_take(in->arena, decoders, sizeof *vocabulary->decoders);
    if (vocabulary->normalizers && vocabulary->splitters && vocabulary->decoders) return true;
    kn_fail_memory(in->error, 0);
    return false;
}

/* SentencePiece's byte pairs, by score: spaces are letters, and a text begins with one. */
static kn_status read_llama(reader *in) {
    kn_vocabulary *vocabulary = in->vocabulary;
    bool prefix = true;
    vocabulary->model.name = "scored BPE";
    vocabulary->model.encode = kn_scored_encode;
    vocabulary->model.byte_fallback = true;
    kn_status status = read_scores(in);
    if (status == KN_OK)
        status = kn_gguf_bool(in->file, "tokenizer.ggml.add_space_prefix", &prefix, in->error);
    if (status == KN_OK) status = read_ends(in, vocabulary->roles[0], vocabulary->roles[1], true, false);
    if (status != KN_OK || !make_parts(in, 2, 0, 3)) return in->error->status;
    if (prefix)
        vocabulary->normalizers[vocabulary->normalizer_count++] =
            (kn_normalizer){.kind = KN_NORMALIZER_PREPEND, .content = KN_SPACE_LETTER, .content_length = 3};
    vocabulary->normalizers[vocabulary->normalizer_count++] = (kn_normalizer){.kind = KN_NORMALIZER_REPLACE,
                                                                              .pattern = {" ", 1, NULL},
                                                                              .content = KN_SPACE_LETTER,
                                                                              .content_length = 3};
    vocabulary->decoders[vocabulary->decoder_count++] = (kn_decoder){.kind = KN_DECODER_REPLACE,
                                                                     .pattern = {KN_SPACE_LETTER, 3, NULL},
                                                                     .content = " ",
                                                                     .content_length = 1};
    vocabulary->decoders[vocabulary->decoder_count++] = (kn_decoder){.kind = KN_DECODER_BYTE_FALLBACK};
    if (prefix)
        vocabulary->decoders[vocabulary->decoder_count++] =
            (kn_decoder){.kind = KN_DECODER_STRIP, .pattern = {" ", 1, NULL}, .start = 1, .whole = true};
    return KN_OK;
}

static kn_status unknown_pre(reader *in, const kn_gguf_text *name) {
    char known[512];
    size_t used = 0;
    for (size_t i = 0; i < KN_COUNT_OF(pre_kinds) && used < sizeof known - 32; i++) {
        const char *between = i ? ", " : "";
        memcpy(known + used, between, strlen(between));
        used += strlen(between);
        memcpy(known + used, pre_kinds[i].name, strlen(pre_kinds[i].name));
        used += strlen(pre_kinds[i].name);
    }
    return kn_fail(in->error, KN_ERROR_UNSUPPORTED,
                   "%s: tokenizer.ggml.pre is '%.*s', which Koine does not support; it supports %.*s",
                   in->vocabulary->name, (int)(name->count < 100 ? name->count : 100), name->bytes, (int)used,
                   known);
}

static kn_status read_gpt2(reader *in) {
    kn_vocabulary *vocabulary = in->vocabulary;
    kn_gguf_text name = {"gpt-2", 5};
    kn_status status = kn_gguf_string(in->file, "tokenizer.ggml.pre", &name, in->error);
    if (status != KN_OK) return status;
    const struct pre *pre = NULL;
    for (size_t i = 0; i < KN_COUNT_OF(pre_kinds); i++)
        if (strlen(pre_kinds[i].name) == name.count && memcmp(pre_kinds[i].name, name.bytes, name.count) == 0)
            pre = pre_kinds + i;
    if (!pre) return unknown_pre(in, &name);
    vocabulary->model.name = "byte-level BPE";
    vocabulary->model.encode = kn_bpe_encode;
    vocabulary->model.ignore_merges = pre->ignore_merges;
    vocabulary->model.barriers = true;
    vocabulary->model.unknown = -1;
    status = read_merges(in);
    if (status == KN_OK)
        status = read_ends(in, vocabulary->roles[0], vocabulary->roles[1], pre->begins, false);
    if (status != KN_OK || !make_parts(in, 0, 3, 1)) return in->error->status;
    for (int i = 0; i < 2 && pre->regexes[i]; i++) {
        kn_splitter *made = vocabulary->splitters + vocabulary->splitter_count++;
        *made = (kn_splitter){.kind = KN_SPLITTER_PATTERN, .behavior = KN_SPLIT_ISOLATED};
        made->pattern.source = !i && pre->json ? pre->json : pre->regexes[i];
        status = kn_regex_create(&vocabulary->host, pre->regexes[i], strlen(pre->regexes[i]),
                                 &made->pattern.regex, in->error);
        if (status != KN_OK) return kn_fail_in(in->error, "%s", vocabulary->name);
    }
    vocabulary->splitters[vocabulary->splitter_count++] = (kn_splitter){.kind = KN_SPLITTER_BYTES};
    vocabulary->decoders[vocabulary->decoder_count++] = (kn_decoder){.kind = KN_DECODER_BYTES};
    return KN_OK;
}

static const struct {
    const char *name; /* tokenizer.ggml.model */
    int roles[4];     /* bos, eos, unknown, padding if the file does not name them */
    kn_status (*read)(reader *in);
} kinds[] = {{"llama", {1, 2, 0, -1}, read_llama}, {"gpt2", {11, 11, -1, -1}, read_gpt2}};

static kn_status read_file(reader *in) {
    kn_gguf_text name = {"", 0}, chat = {NULL, 0};
    kn_status status = kn_gguf_string(in->file, "tokenizer.ggml.model", &name, in->error);
    if (status != KN_OK) return status;
    for (size_t i = 0; i < KN_COUNT_OF(kinds); i++) {
        if (strlen(kinds[i].name) != name.count || memcmp(kinds[i].name, name.bytes, name.count) != 0)
            continue;
        status = read_tokens(in);
        if (status == KN_OK) status = read_roles(in, kinds[i].roles);
        if (status == KN_OK) status = read_types(in);
        if (status == KN_OK) status = kinds[i].read(in);
        if (status == KN_OK) status = kn_gguf_string(in->file, "tokenizer.chat_template", &chat, in->error);
        if (status != KN_OK) return status;
        if (chat.bytes) {
            char *copy = kn_arena_take(in->arena, (size_t)chat.count + 1, 1);
            if (!copy) return kn_fail_memory(in->error, (size_t)chat.count + 1);
            memcpy(copy, chat.bytes, (size_t)chat.count);
            in->vocabulary->chat_template = copy;
        }
        return kn_vocabulary_complete(in->vocabulary);
    }
    if (!name.count)
        return kn_fail(in->error, KN_ERROR_NOT_FOUND,
                       "%s: the file has no vocabulary; expected tokenizer.ggml.model", in->vocabulary->name);
    return kn_fail(
        in->error, KN_ERROR_UNSUPPORTED,
        "%s: tokenizer.ggml.model is '%.*s', which Koine does not support; it supports llama and gpt2",
        in->vocabulary->name, (int)(name.count < 100 ? name.count : 100), name.bytes);
}

kn_status kn_vocabulary_read_gguf(kn_vocabulary *vocabulary, const kn_gguf *file) {
    reader in = {vocabulary, file, &vocabulary->arena, &vocabulary->error};
    return read_file(&in);
}
