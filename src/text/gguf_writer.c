/* The vocabulary of a tokenizer.json as keys of a GGUF file, if llama.cpp has a tokenizer with its rules. */
#include "text/text_private.h"

#include <string.h>

typedef struct writing {
    const kn_vocabulary *vocabulary;
    kn_gguf_head *head;
    kn_error *error;
    int64_t size;
    const kn_pair **merges; /* (merge_count), by rank */
    size_t merge_count;
} writing;

static kn_status refuse(const writing *w, const char *what) {
    return kn_fail(w->error, KN_ERROR_UNSUPPORTED, "%s: the tokenizer cannot be written to a GGUF file: %s",
                   w->vocabulary->name, what);
}

/* ---- tokens -------------------------------------------------------------------------------------- */

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

static int type_of(const writing *w, int32_t token, bool scored) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    size_t length;
    if (scored && token == vocabulary->roles[KN_TEXT_ROLE_UNKNOWN]) return TYPE_UNKNOWN;
    if (kn_words_at(&vocabulary->added_words, token, &length))
        return kn_vocabulary_is_special(vocabulary, token) ? TYPE_CONTROL : TYPE_USER;
    if (!kn_words_at(&vocabulary->model.words, token, &length)) return TYPE_UNUSED;
    return TYPE_NORMAL;
}

static kn_status put_types(writing *w, bool scored) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    int32_t *types = kn_allocate(&vocabulary->host, (size_t)w->size + 1, sizeof *types);
    if (!types) return kn_fail_memory(w->error, (uint64_t)w->size * sizeof *types);
    for (int64_t i = 0; i < w->size; i++)
        types[i] = type_of(w, (int32_t)i, scored);
    for (int i = 0; i < 256 && scored; i++) {
        const int32_t token = vocabulary->model.bytes[i];
        if (token >= 0 && token < w->size && types[token] == TYPE_NORMAL) types[token] = TYPE_BYTE;
    }
    kn_gguf_put_array(w->head, "tokenizer.ggml.token_type", KN_GGUF_INT32, (uint64_t)w->size);
    for (int64_t i = 0; i < w->size; i++)
        kn_gguf_add_integer(w->head, KN_GGUF_INT32, types[i]);
    kn_release(&vocabulary->host, types);
    return KN_OK;
}

static kn_status put_tokens(writing *w, bool scored) {
    if (w->size < w->vocabulary->size)
        return kn_fail(w->error, KN_ERROR_FORMAT,
                       "%s: the vocabulary has %d tokens, but the model's table %lld rows",
                       w->vocabulary->name, (int)w->vocabulary->size, (long long)w->size);
    kn_text unused;
    kn_text_init(&unused, &w->vocabulary->host);
    kn_gguf_put_array(w->head, "tokenizer.ggml.tokens", KN_GGUF_STRING, (uint64_t)w->size);
    for (int64_t i = 0; i < w->size; i++) {
        size_t length = 0;
        const char *text = kn_vocabulary_token(w->vocabulary, (int32_t)i, &length);
        kn_text_clear(&unused);
        if (!text) kn_text_format(&unused, "[PAD%lld]", (long long)i);
        kn_gguf_add_string(w->head, text ? text : unused.data, text ? length : unused.length);
    }
    const bool failed = kn_text_failed(&unused);
    kn_text_finish(&unused);
    if (failed) return kn_fail_memory(w->error, 0);
    return put_types(w, scored);
}

/* Whether the tokens before or after a text are none, or only the one with a role. */
static bool only(const int32_t *list, size_t count, int32_t role) {
    return count == 0 || (count == 1 && list[0] == role);
}

static kn_status put_roles(writing *w) {
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    const kn_vocabulary *vocabulary = w->vocabulary;
    if (!only(vocabulary->before, vocabulary->before_count, vocabulary->roles[KN_TEXT_ROLE_BEGIN]) ||
        !only(vocabulary->after, vocabulary->after_count, vocabulary->roles[KN_TEXT_ROLE_END]))
        return refuse(w, "its post-processor adds tokens besides bos_token and eos_token");
    for (int role = 0; role < 4; role++)
        if (vocabulary->roles[role] >= 0)
            kn_gguf_put_integer(w->head, keys[role], KN_GGUF_UINT32, vocabulary->roles[role]);
    kn_gguf_put_integer(w->head, "tokenizer.ggml.add_bos_token", KN_GGUF_BOOL, vocabulary->before_count > 0);
    kn_gguf_put_integer(w->head, "tokenizer.ggml.add_eos_token", KN_GGUF_BOOL, vocabulary->after_count > 0);
    if (vocabulary->chat_template)
        kn_gguf_put_string(w->head, "tokenizer.chat_template", vocabulary->chat_template);
    return KN_OK;
}

/* ---- merges -------------------------------------------------------------------------------------- */

static const char *half_of(const writing *w, const kn_pair *merge, bool right, size_t *length) {
    return kn_words_at(&w->vocabulary->model.words, right ? (uint32_t)merge->key : merge->key >> 32, length);
}

static kn_status put_merges(writing *w) {
    kn_text text;
    kn_text_init(&text, &w->vocabulary->host);
    kn_gguf_put_array(w->head, "tokenizer.ggml.merges", KN_GGUF_STRING, w->merge_count);
    for (size_t i = 0; i < w->merge_count; i++) {
        kn_text_clear(&text);
        for (int right = 0; right < 2; right++) {
            size_t length = 0;
            const char *half = half_of(w, w->merges[i], right, &length);
            if (right) kn_text_add(&text, " ");
            kn_text_add_bytes(&text, half, length);
        }
        kn_gguf_add_string(w->head, text.data, text.length);
    }
    const bool failed = kn_text_failed(&text);
    kn_text_finish(&text);
    return failed ? kn_fail_memory(w->error, 0) : KN_OK;
}

/* ---- byte-level pairs ---------------------------------------------------------------------------- */

static kn_status write_bytes(writing *w) {
    const kn_vocabulary *vocabulary = w->vocabulary;
    const size_t count = vocabulary->splitter_count - 1; /* without the bytes */
    const char *regexes[2] = {NULL, NULL};
    bool fine = count <= 2 && count > 0;
    for (size_t i = 0; i < count && fine; i++) {
        const kn_splitter *splitter = &vocabulary->splitters[i];
        const bool digits = splitter->kind == KN_SPLITTER_DIGITS;
        fine = splitter->behavior == KN_SPLIT_ISOLATED && !splitter->invert &&
               (digits || (splitter->kind == KN_SPLITTER_PATTERN && splitter->pattern.source));
        regexes[i] = digits ? "\\p{N}" : splitter->pattern.source;
    }
    const char *pre =
        fine ? kn_gguf_pre_named(regexes[0], regexes[1], vocabulary->model.ignore_merges) : NULL;
    if (!pre) return refuse(w, "its pre-tokenizer is not one that GGUF files can name");
    /* Converters leave out NFC, too. */
    const kn_normalizer *normal = vocabulary->normalizers;
    if (vocabulary->normalizer_count > 1 ||
        (vocabulary->normalizer_count &&
         !(normal->kind == KN_NORMALIZER_FORM && normal->composed && !normal->compatible)))
        return refuse(w, "its normalizer is not NFC");
    kn_gguf_put_string(w->head, "tokenizer.ggml.model", "gpt2");
    kn_gguf_put_string(w->head, "tokenizer.ggml.pre", pre);
    kn_status status = put_tokens(w, false);
    return status == KN_OK ? put_merges(w) : status;
}

/* ---- pairs by score ------------------------------------------------------------------------------ */

/* A space becomes a letter, perhaps after one in front of the text. */
static bool reads_spaces(const kn_vocabulary *vocabulary, bool *prefix) {
    size_t count = vocabulary->normalizer_count, splitters = vocabulary->splitter_count;
    const kn_normalizer *normal = vocabulary->normalizers;
    const kn_splitter *splitter = vocabulary->splitters;
#define IS_LETTER(text, length) ((length) == 3 && !memcmp((text), KN_SPACE_LETTER, 3))
    *prefix = false;
    if (!count && splitters == 1 && splitter->kind == KN_SPLITTER_METASPACE &&
        splitter->behavior == KN_SPLIT_ISOLATED) {
        *prefix = splitter->prepend != KN_PREPEND_NEVER;
        return IS_LETTER(splitter->pattern.text, splitter->pattern.length);
    }
    if (count == 2 && normal->kind == KN_NORMALIZER_PREPEND &&
        IS_LETTER(normal->content, normal->content_length)) {
        *prefix = true;
        normal++;
        count--;
    }
    /* Gemma splits at spaces, of which the normalizer leaves none. */
    if (splitters == 1 && splitter->kind == KN_SPLITTER_PATTERN && splitter->pattern.length == 1 &&
        splitter->pattern.text && splitter->pattern.text[0] == ' ' && !splitter->invert)
        splitters = 0;
    return count == 1 && splitters == 0 && normal->kind == KN_NORMALIZER_REPLACE && normal->pattern.text &&
           normal->pattern.length == 1 && normal->pattern.text[0] == ' ' &&
           IS_LETTER(normal->content, normal->content_length);
#undef IS_LETTER
}

static bool is_added(const writing *w, int64_t token) {
    size_t length;
    return token >= 0 && kn_words_at(&w->vocabulary->added_words, token, &length);
}

/* Scores decide between tokens, not between merges: all merges that make a token must follow one another, and
 * any two tokens whose joint text is a token must be a merge. */
static kn_status check_scores(const writing *w, const float *scores) {
    const kn_text_model *model = &w->vocabulary->model;
    for (size_t i = 1; i < w->merge_count; i++)
        if (w->merges[i]->second != w->merges[i - 1]->second &&
            scores[w->merges[i]->second] != -(float)w->merges[i]->first)
            return refuse(w, "merges that make the same token have different priorities");
    for (size_t token = 0; token < model->words.count; token++) {
        size_t length = 0;
        const char *text = kn_words_at(&model->words, (int64_t)token, &length);
        if (!text || is_added(w, (int64_t)token)) continue;
        for (size_t at = 1; at < length; at++) {
            if (((uint8_t)text[at] & 0xc0) == 0x80) continue;
            const int64_t left = kn_words_find(&model->words, text, at);
            const int64_t right = left < 0 ? -1 : kn_words_find(&model->words, text + at, length - at);
            if (right < 0 || is_added(w, left) || is_added(w, right)) continue;
            if (!kn_pairs_find(&model->merges, (uint32_t)left, (uint32_t)right))
                return refuse(w, "two tokens whose joint text is a token have no merge");
        }
    }
    return KN_OK;
}

static kn_status put_scores(writing *w) {
    float *scores = kn_allocate(&w->vocabulary->host, (size_t)w->size + 1, sizeof *scores);
    if (!scores) return kn_fail_memory(w->error, (size_t)w->size * sizeof *scores);
    for (size_t i = w->merge_count; i-- > 0;) /* the first of a token last */
        scores[w->merges[i]->second] = -(float)w->merges[i]->first;
    kn_status status = check_scores(w, scores);
    kn_gguf_put_array(w->head, "tokenizer.ggml.scores", KN_GGUF_FLOAT32, (uint64_t)w->size);
    for (int64_t i = 0; i < w->size; i++)
        kn_gguf_add_real(w->head, (double)scores[i]);
    kn_release(&w->vocabulary->host, scores);
    return status;
}

static kn_status write_scored(writing *w) {
    bool prefix;
    if (!reads_spaces(w->vocabulary, &prefix) || w->vocabulary->model.ignore_merges)
        return refuse(w, "its normalizer or pre-tokenizer is not one that GGUF files can name");
    kn_gguf_put_string(w->head, "tokenizer.ggml.model", "llama");
    kn_gguf_put_string(w->head, "tokenizer.ggml.pre", "default");
    kn_gguf_put_integer(w->head, "tokenizer.ggml.add_space_prefix", KN_GGUF_BOOL, prefix);
    kn_status status = put_tokens(w, true);
    return status == KN_OK ? put_scores(w) : status;
}

/* ---- the function -------------------------------------------------------------------------------- */

kn_status kn_vocabulary_write_gguf(const kn_vocabulary *vocabulary, int64_t size, kn_gguf_head *head,
                                   kn_error *error) {
    const kn_text_model *model = &vocabulary->model;
    const size_t splitters = vocabulary->splitter_count;
    writing w = {.vocabulary = vocabulary, .head = head, .error = error, .size = size};
    if (vocabulary->error.status != KN_OK)
        return kn_fail(error, vocabulary->error.status, "%s", vocabulary->error.text);
    const bool parts = (model->prefix && *model->prefix) || (model->suffix && *model->suffix);
    const bool bytes = splitters && vocabulary->splitters[splitters - 1].kind == KN_SPLITTER_BYTES;
    if (model->encode != kn_bpe_encode || parts || (!bytes && !model->byte_fallback))
        return refuse(&w, "it is not BPE with bytes or byte fallback");
    w.merges = kn_pairs_sorted(&model->merges, &vocabulary->host);
    w.merge_count = model->merges.count;
    if (!w.merges) return kn_fail_memory(error, w.merge_count * sizeof *w.merges);
    kn_status status = bytes ? write_bytes(&w) : write_scored(&w);
    if (status == KN_OK) status = put_roles(&w);
    kn_release(&vocabulary->host, w.merges);
    return status;
}
