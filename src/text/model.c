/* What the models have in common: words, byte tokens, and a cache of pieces. */
#include "text/text_private.h"

#include <stdio.h>
#include <string.h>

enum { CACHED_BYTES = 64, CACHED_PIECES = 1 << 16 };

void kn_tokens_add(kn_tokens *tokens, int64_t token) {
    if (tokens->failed || !kn_reserve(tokens->host, (void **)&tokens->items, &tokens->capacity,
                                      tokens->count + 1, sizeof *tokens->items))
        tokens->failed = true;
    else
        tokens->items[tokens->count++] = (int32_t)token;
}

void kn_text_model_init(kn_text_model *model, const kn_host *host) {
    *model = (kn_text_model){.name = "", .unknown = -1, .prefix = "", .suffix = "", .continues = -1};
    for (int i = 0; i < 256; i++)
        model->bytes[i] = -1;
    kn_words_init(&model->words, host);
}

void kn_text_model_finish(kn_text_model *model, const kn_host *host) {
    kn_words_finish(&model->words);
    kn_pairs_finish(&model->merges, host);
    kn_trie_finish(&model->trie, host);
}

void kn_text_model_find_bytes(kn_text_model *model) {
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        model->bytes[i] = kn_words_find(&model->words, name, 6);
    }
}

bool kn_text_model_grow(kn_text_model *model, const kn_host *host) {
    for (size_t i = 0; i < model->words.count; i++) {
        size_t length = 0;
        const char *text = kn_words_at(&model->words, (int64_t)i, &length);
        if (text && !kn_trie_put(&model->trie, host, text, length, (uint32_t)i)) return false;
    }
    return true;
}

bool kn_text_model_fall_back(const kn_text_model *model, const char *bytes, size_t count, kn_tokens *tokens) {
    if (!model->byte_fallback) return false;
    for (size_t i = 0; i < count; i++)
        if (model->bytes[(uint8_t)bytes[i]] < 0) return false;
    for (size_t i = 0; i < count; i++)
        kn_tokens_add(tokens, model->bytes[(uint8_t)bytes[i]]);
    return true;
}

void kn_workspace_init(kn_workspace *work, const kn_host *host) {
    *work = (kn_workspace){.host = host, .cache.host = host};
    kn_words_init(&work->cached, host);
}

void kn_workspace_finish(kn_workspace *work) {
    kn_release(work->host, work->symbols);
    kn_release(work->host, work->heap);
    kn_release(work->host, work->path);
    kn_release(work->host, work->cache.items);
    kn_release(work->host, work->cache_ends);
    kn_words_finish(&work->cached);
}

kn_status kn_piece_tokens(const kn_text_model *model, kn_workspace *work, const char *piece, size_t length,
                          kn_tokens *tokens) {
    if (length > CACHED_BYTES) return model->encode(model, work, piece, length, tokens);
    int64_t known = kn_words_find(&work->cached, piece, length);
    if (known >= 0) {
        for (size_t i = known ? work->cache_ends[known - 1] : 0; i < work->cache_ends[known]; i++)
            kn_tokens_add(tokens, work->cache.items[i]);
        return tokens->failed ? KN_ERROR_MEMORY : KN_OK;
    }
    size_t before = tokens->count, number = work->cached.count;
    kn_status status = model->encode(model, work, piece, length, tokens);
    if (status != KN_OK || number == CACHED_PIECES) return status;
    for (size_t i = before; i < tokens->count; i++)
        kn_tokens_add(&work->cache, tokens->items[i]);
    if (work->cache.failed || !kn_reserve(work->host, (void **)&work->cache_ends, &work->cache_capacity,
                                          number + 1, sizeof *work->cache_ends))
        return KN_ERROR_MEMORY;
    work->cache_ends[number] = work->cache.count;
    return kn_words_put(&work->cached, (uint32_t)number, piece, length) ? KN_OK : KN_ERROR_MEMORY;
}
