/* WordPiece: the longest token that a word begins with, then the longest that continues it. WordLevel: the
 * whole word. */
#include "text/text_private.h"

static kn_status add_unknown(const kn_text_model *model, kn_tokens *tokens) {
    if (model->unknown < 0) return KN_ERROR_NOT_FOUND;
    kn_tokens_add(tokens, model->unknown);
    return tokens->failed ? KN_ERROR_MEMORY : KN_OK;
}

kn_status kn_wordpiece_encode(const kn_text_model *model, kn_workspace *work, const char *piece,
                              size_t length, kn_tokens *tokens) {
    size_t characters = 0, before = tokens->count;
    uint32_t code;
    for (size_t at = 0; at < length; characters++)
        at += kn_character_read(piece + at, length - at, &code);
    if (characters > model->longest) return add_unknown(model, tokens);
    for (size_t at = 0, size = 0; at < length; at += size) {
        int64_t node = at ? model->continues : 0;
        int64_t token =
            node < 0 ? -1 : kn_trie_longest(&model->trie, (uint32_t)node, piece + at, length - at, &size);
        if (token < 0) {
            tokens->count = before;
            return add_unknown(model, tokens);
        }
        kn_tokens_add(tokens, token);
    }
    return tokens->failed ? KN_ERROR_MEMORY : KN_OK;
}

kn_status kn_wordlevel_encode(const kn_text_model *model, kn_workspace *work, const char *piece,
                              size_t length, kn_tokens *tokens) {
    int64_t token = kn_words_find(&model->words, piece, length);
    if (token < 0) return add_unknown(model, tokens);
    kn_tokens_add(tokens, token);
    return tokens->failed ? KN_ERROR_MEMORY : KN_OK;
}
