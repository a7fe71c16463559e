/* Vocabularies: what tokens are, and the tables that are made when all of a vocabulary was read. */
#include "text/text_private.h"

#include <string.h>

/* Tokens that end a turn or a text; the files name only one of them. */
static const char *const end_texts[] = {"<|eot_id|>",    "<|im_end|>", "<|end|>", "<end_of_turn>",
                                        "<|endoftext|>", "<|eom_id|>", "<EOT>",   "<|end_of_text|>"};

/* ---- questions -------------------------------------------------------------------------------- */

static bool is_open(const kn_vocabulary *vocabulary) {
    return vocabulary && vocabulary->error.status == KN_OK;
}

kn_status kn_vocabulary_status(const kn_vocabulary *vocabulary) {
    return vocabulary ? vocabulary->error.status : KN_ERROR_MEMORY;
}

const char *kn_vocabulary_error(const kn_vocabulary *vocabulary) {
    return vocabulary ? vocabulary->error.text : kn_status_message(KN_ERROR_MEMORY);
}

int32_t kn_vocabulary_size(const kn_vocabulary *vocabulary) {
    return is_open(vocabulary) ? vocabulary->size : 0;
}

const char *kn_vocabulary_token(const kn_vocabulary *vocabulary, int32_t token, size_t *length) {
    if (!is_open(vocabulary)) return NULL;
    size_t bytes = 0;
    const char *text = kn_words_at(&vocabulary->added_words, token, &bytes);
    if (!text) text = kn_words_at(&vocabulary->model.words, token, &bytes);
    if (length) *length = bytes;
    return text;
}

int32_t kn_vocabulary_find(const kn_vocabulary *vocabulary, const char *spelling) {
    if (!is_open(vocabulary) || !spelling) return -1;
    int64_t token = kn_words_find(&vocabulary->added_words, spelling, strlen(spelling));
    if (token < 0) token = kn_words_find(&vocabulary->model.words, spelling, strlen(spelling));
    return (int32_t)token;
}

int32_t kn_vocabulary_role(const kn_vocabulary *vocabulary, kn_text_role role) {
    if (!is_open(vocabulary) || (unsigned)role >= KN_COUNT_OF(vocabulary->roles)) return -1;
    return vocabulary->roles[role];
}

bool kn_vocabulary_is_special(const kn_vocabulary *vocabulary, int32_t token) {
    if (!is_open(vocabulary) || token < 0 || token >= vocabulary->size) return false;
    return vocabulary->special[token / 8] >> token % 8 & 1;
}

bool kn_vocabulary_ends(const kn_vocabulary *vocabulary, int32_t token) {
    if (!is_open(vocabulary)) return false;
    for (size_t i = 0; i < vocabulary->end_count; i++)
        if (vocabulary->ends[i] == token) return true;
    return false;
}

const char *kn_vocabulary_summary(const kn_vocabulary *vocabulary) {
    return is_open(vocabulary) ? vocabulary->summary : "";
}

/* ---- completing ---------------------------------------------------------------------------------- */

void kn_vocabulary_add_end(kn_vocabulary *vocabulary, int64_t token) {
    if (token < 0 || vocabulary->end_count == KN_VOCABULARY_ENDS) return;
    for (size_t i = 0; i < vocabulary->end_count; i++)
        if (vocabulary->ends[i] == token) return;
    vocabulary->ends[vocabulary->end_count++] = (int32_t)token;
}

kn_status kn_vocabulary_normalize(const kn_vocabulary *vocabulary, const char *text, size_t count,
                                  kn_text *to) {
    kn_text other;
    kn_text_init(&other, &vocabulary->host);
    kn_text_add_bytes(to, text, count);
    kn_status status = KN_OK;
    for (size_t i = 0; i < vocabulary->normalizer_count && status == KN_OK; i++) {
        kn_text_clear(&other);
        status = kn_normalize(&vocabulary->host, vocabulary->normalizers + i, to->data, to->length, &other);
        kn_text swap = *to;
        *to = other;
        other = swap;
    }
    if (status == KN_OK && to->failed) status = KN_ERROR_MEMORY;
    kn_text_finish(&other);
    return status;
}

/* Puts the added tokens into the tables by which they are found. */
static kn_status index_added(kn_vocabulary *vocabulary) {
    const kn_host *host = &vocabulary->host;
    for (size_t i = 0; i < vocabulary->added_count; i++) {
        kn_added *added = vocabulary->added + i;
        if (kn_words_at(&vocabulary->added_words, added->token, &(size_t){0}))
            return kn_fail(&vocabulary->error, KN_ERROR_FORMAT,
                           "%s: two added tokens have the id %d; expected different ids", vocabulary->name,
                           (int)added->token);
        if (!kn_words_put(&vocabulary->added_words, (uint32_t)added->token, added->text, added->length))
            return kn_fail_memory(&vocabulary->error, added->length);
        if (added->normalized) {
            kn_text text;
            kn_text_init(&text, host);
            kn_status status = kn_vocabulary_normalize(vocabulary, added->text, added->length, &text);
            if (status == KN_OK &&
                !kn_words_put(&vocabulary->added_normal, (uint32_t)added->token, text.data, text.length))
                status = KN_ERROR_MEMORY;
            added->length = text.length;
            added->text = kn_arena_copy(&vocabulary->arena, text.data, text.length + 1, 1);
            kn_text_finish(&text);
            if (status != KN_OK || !added->text) return kn_fail_memory(&vocabulary->error, added->length);
        }
        kn_added_set *set = added->normalized ? &vocabulary->normalized : &vocabulary->raw;
        if (!kn_trie_put(&set->trie, host, added->text, added->length, (uint32_t)i) ||
            (!added->special && !kn_trie_put(&set->ordinary, host, added->text, added->length, (uint32_t)i)))
            return kn_fail_memory(&vocabulary->error, added->length);
    }
    return KN_OK;
}

kn_status kn_vocabulary_complete(kn_vocabulary *vocabulary) {
    kn_status status = index_added(vocabulary);
    if (status != KN_OK) return status;
    size_t size = vocabulary->model.words.count;
    if (vocabulary->added_words.count > size) size = vocabulary->added_words.count;
    vocabulary->size = (int32_t)size;
    vocabulary->special = kn_arena_take(&vocabulary->arena, size / 8 + 1, 1);
    if (!vocabulary->special) return kn_fail_memory(&vocabulary->error, size / 8 + 1);
    for (size_t i = 0; i < vocabulary->added_count; i++)
        if (vocabulary->added[i].special)
            vocabulary->special[vocabulary->added[i].token / 8] |=
                (uint8_t)(1 << vocabulary->added[i].token % 8);
    if (vocabulary->roles[KN_TEXT_ROLE_UNKNOWN] < 0)
        vocabulary->roles[KN_TEXT_ROLE_UNKNOWN] = (int32_t)vocabulary->model.unknown;
    kn_vocabulary_add_end(vocabulary, vocabulary->roles[KN_TEXT_ROLE_END]);
    for (size_t i = 0; i < KN_COUNT_OF(end_texts); i++)
        kn_vocabulary_add_end(vocabulary,
                              kn_words_find(&vocabulary->added_words, end_texts[i], strlen(end_texts[i])));
    vocabulary->summary =
        kn_arena_format(&vocabulary->arena, "%s, %d tokens", vocabulary->model.name, (int)vocabulary->size);
    return vocabulary->summary ? KN_OK : kn_fail_memory(&vocabulary->error, 0);
}

/* ---- making ------------------------------------------------------------------------------------- */

kn_vocabulary *kn_vocabulary_create(const kn_host *host) {
    kn_vocabulary *vocabulary = kn_allocate(host, 1, sizeof *vocabulary);
    if (!vocabulary) return NULL;
    vocabulary->host = *host;
    kn_arena_init(&vocabulary->arena, &vocabulary->host);
    kn_text_model_init(&vocabulary->model, &vocabulary->host);
    kn_words_init(&vocabulary->added_words, &vocabulary->host);
    kn_words_init(&vocabulary->added_normal, &vocabulary->host);
    for (size_t i = 0; i < KN_COUNT_OF(vocabulary->roles); i++)
        vocabulary->roles[i] = -1;
    return vocabulary;
}

void kn_vocabulary_destroy(kn_vocabulary **pointer) {
    if (!pointer || !*pointer) return;
    kn_vocabulary *vocabulary = *pointer;
    kn_host host = vocabulary->host;
    for (size_t i = 0; i < vocabulary->normalizer_count; i++)
        kn_regex_destroy(&host, &vocabulary->normalizers[i].pattern.regex);
    for (size_t i = 0; i < vocabulary->splitter_count; i++)
        kn_regex_destroy(&host, &vocabulary->splitters[i].pattern.regex);
    for (size_t i = 0; i < vocabulary->decoder_count; i++)
        kn_regex_destroy(&host, &vocabulary->decoders[i].pattern.regex);
    kn_text_model_finish(&vocabulary->model, &host);
    kn_words_finish(&vocabulary->added_words);
    kn_words_finish(&vocabulary->added_normal);
    kn_trie_finish(&vocabulary->raw.trie, &host);
    kn_trie_finish(&vocabulary->raw.ordinary, &host);
    kn_trie_finish(&vocabulary->normalized.trie, &host);
    kn_trie_finish(&vocabulary->normalized.ordinary, &host);
    kn_arena_finish(&vocabulary->arena);
    kn_release(&host, vocabulary);
    *pointer = NULL;
}
