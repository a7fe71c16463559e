/* Unigram: the split of a piece whose tokens have the largest sum of scores, by dynamic programming. */
#include "text/text_private.h"

/* The best split of the text up to a position. */
typedef struct kn_path {
    double score;
    uint32_t begin; /* of the last token */
    int32_t token;  /* NONE: not reached; UNKNOWN */
} kn_path;
enum { NONE = -2, UNKNOWN = -1 };
/* An unknown character counts so much less than the worst token. */
static const double unknown_penalty = 10;

static void reach(kn_path *end, double score, size_t begin, int64_t token) {
    if (end->token == NONE || score > end->score) *end = (kn_path){score, (uint32_t)begin, (int32_t)token};
}

/* Fills in path[0..length]. */
static kn_status find_path(const kn_text_model *model, kn_path *path, const char *piece, size_t length) {
    for (size_t i = 0; i <= length; i++)
        path[i] = (kn_path){.token = NONE};
    for (size_t at = 0, size; at < length; at += size) {
        uint32_t code, node = 0;
        size = kn_character_read(piece + at, length - at, &code);
        double score = path[at].score;
        bool single = false, on = true;
        for (size_t end = at; on && end < length; end++) {
            int64_t token = kn_trie_next(&model->trie, &node, (uint8_t)piece[end], &on);
            if (token < 0) continue;
            reach(path + end + 1, score + model->scores[token], at, token);
            single |= end + 1 == at + size;
        }
        if (!single) reach(path + at + size, score + (model->least - unknown_penalty), at, UNKNOWN);
    }
    return KN_OK;
}

/* The tokens of text that no token of the vocabulary covers. */
static kn_status add_unknown(const kn_text_model *model, const char *text, size_t length, kn_tokens *tokens) {
    int64_t known = kn_words_find(&model->words, text, length); /* the unknown token, spelled out */
    if (known >= 0) {
        kn_tokens_add(tokens, known);
        return KN_OK;
    }
    if (kn_text_model_fall_back(model, text, length, tokens)) return KN_OK;
    if (model->unknown < 0) return KN_ERROR_NOT_FOUND;
    kn_tokens_add(tokens, model->unknown);
    return KN_OK;
}

kn_status kn_unigram_encode(const kn_text_model *model, kn_workspace *work, const char *piece, size_t length,
                            kn_tokens *tokens) {
    if (!kn_reserve(work->host, (void **)&work->path, &work->path_capacity, length + 1, sizeof *work->path))
        return KN_ERROR_MEMORY;
    kn_path *path = work->path;
    kn_status status = find_path(model, path, piece, length);
    /* Turns the links around: path[i].begin becomes the end of the token that begins at i. */
    for (size_t end = length, after = 0, begin; status == KN_OK && end > 0; end = begin) {
        if (path[end].token == NONE) return KN_ERROR_INTERNAL;
        begin = path[end].begin;
        path[end].begin = (uint32_t)after;
        after = end;
        if (begin == 0) path[0].begin = (uint32_t)after;
    }
    for (size_t at = 0, end; status == KN_OK && at < length; at = end) {
        end = path[at].begin;
        if (path[end].token != UNKNOWN && path[end].token != model->unknown) {
            kn_tokens_add(tokens, path[end].token);
            continue;
        }
        /* Neighbouring unknown characters are one token. */
        while (end < length &&
               (path[path[end].begin].token == UNKNOWN || path[path[end].begin].token == model->unknown))
            end = path[end].begin;
        status = add_unknown(model, piece + at, end - at, tokens);
    }
    return status == KN_OK && tokens->failed ? KN_ERROR_MEMORY : status;
}
