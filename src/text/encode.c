/* Text to tokens. */
#include "text/text_private.h"

#include <string.h>

enum { TEXT_BYTES = 1 << 30 };

typedef struct encoding {
    const kn_vocabulary *vocabulary;
    unsigned flags;
    kn_workspace work;
    kn_tokens tokens;
    kn_text normalized;
    kn_run from, to;
    const char *text; /* the whole text, to see whether a part begins it */
    bool begins;
} encoding;

/* A part of a normalized text without added tokens. */
static kn_status encode_pieces(encoding *by, const char *text, size_t count, bool begins) {
    const kn_vocabulary *vocabulary = by->vocabulary;
    kn_run_clear(&by->from);
    kn_text_add_bytes(&by->from.text, text, count);
    kn_run_end(&by->from);
    kn_status status = by->from.text.failed ? KN_ERROR_MEMORY : KN_OK;
    for (size_t i = 0; i < vocabulary->splitter_count && status == KN_OK; i++) {
        kn_run_clear(&by->to);
        status = kn_run_split(&vocabulary->host, vocabulary->splitters + i, &by->from, begins, &by->to);
        kn_run swap = by->from;
        by->from = by->to;
        by->to = swap;
    }
    for (size_t i = 0, begin = 0; i < by->from.count && status == KN_OK; begin = by->from.ends[i++])
        status = kn_piece_tokens(&vocabulary->model, &by->work, by->from.text.data + begin,
                                 by->from.ends[i] - begin, &by->tokens);
    return status;
}

static kn_status encode_normalized(void *user, int32_t token, const char *text, size_t count) {
    encoding *by = user;
    if (token < 0) return encode_pieces(by, text, count, by->begins && text == by->normalized.data);
    kn_tokens_add(&by->tokens, token);
    return by->tokens.failed ? KN_ERROR_MEMORY : KN_OK;
}

static kn_status encode_raw(void *user, int32_t token, const char *text, size_t count) {
    encoding *by = user;
    if (token >= 0) {
        kn_tokens_add(&by->tokens, token);
        return by->tokens.failed ? KN_ERROR_MEMORY : KN_OK;
    }
    by->begins = text == by->text;
    kn_text_clear(&by->normalized);
    kn_status status = kn_vocabulary_normalize(by->vocabulary, text, count, &by->normalized);
    if (status != KN_OK) return status;
    return kn_added_split(by->vocabulary, &by->vocabulary->normalized, by->flags, by->normalized.data,
                          by->normalized.length, encode_normalized, by);
}

/* Removes tokens before those at the end, until `capacity` remain. */
static kn_status cut(const kn_vocabulary *vocabulary, unsigned flags, size_t capacity, kn_tokens *tokens) {
    const bool ends = (flags & KN_TEXT_ADD_ENDS) != 0;
    const size_t after = ends ? vocabulary->after_count : 0;
    if (capacity < after + (ends ? vocabulary->before_count : 0)) return KN_ERROR_ARGUMENT;
    if (tokens->count <= capacity) return KN_OK;
    memmove(tokens->items + capacity - after, tokens->items + tokens->count - after,
            after * sizeof *tokens->items);
    tokens->count = capacity;
    return KN_OK;
}

kn_status kn_vocabulary_encode(const kn_vocabulary *vocabulary, const char *text, size_t bytes,
                               unsigned flags, int32_t *tokens, size_t capacity, size_t *count) {
    if (!vocabulary || vocabulary->error.status != KN_OK || (!text && bytes) || (!tokens && capacity) ||
        !count || bytes > TEXT_BYTES)
        return KN_ERROR_ARGUMENT;
    const kn_host *host = &vocabulary->host;
    encoding by = {.vocabulary = vocabulary, .flags = flags, .text = text, .tokens.host = host};
    kn_workspace_init(&by.work, host);
    kn_text_init(&by.normalized, host);
    kn_run_init(&by.from, host);
    kn_run_init(&by.to, host);
    if (flags & KN_TEXT_ADD_ENDS)
        for (size_t i = 0; i < vocabulary->before_count; i++)
            kn_tokens_add(&by.tokens, vocabulary->before[i]);
    kn_status status =
        bytes ? kn_added_split(vocabulary, &vocabulary->raw, flags, text, bytes, encode_raw, &by) : KN_OK;
    if (flags & KN_TEXT_ADD_ENDS)
        for (size_t i = 0; i < vocabulary->after_count; i++)
            kn_tokens_add(&by.tokens, vocabulary->after[i]);
    if (status == KN_OK && by.tokens.failed) status = KN_ERROR_MEMORY;
    if (status == KN_OK && flags & KN_TEXT_CUT) status = cut(vocabulary, flags, capacity, &by.tokens);
    if (status == KN_OK) {
        *count = by.tokens.count;
        size_t written = *count < capacity ? *count : capacity;
        if (written) memcpy(tokens, by.tokens.items, written * sizeof *tokens);
    }
    kn_release(host, by.tokens.items);
    kn_workspace_finish(&by.work);
    kn_text_finish(&by.normalized);
    kn_run_finish(&by.from);
    kn_run_finish(&by.to);
    return status;
}
