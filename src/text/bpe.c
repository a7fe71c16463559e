/* Byte-pair encoding: neighbours are merged in the order of a list, or, in vocabularies with scores, by the
 * score of the merged token. A priority queue makes both O(n log n) for a piece of n characters. */
#include "text/text_private.h"

#include <string.h>

/* A part of the piece, in a list. */
typedef struct kn_symbol {
    uint32_t begin, length; /* length 0: merged into its neighbour */
    uint32_t previous, next;
    int64_t token; /* -1: none */
} kn_symbol;

/* A possible merge of a symbol with the next one. */
typedef struct kn_candidate {
    uint64_t order; /* the smallest is first: rank, then position */
    uint32_t value; /* the merged token, or the merged length */
} kn_candidate;

enum { NOTHING = UINT32_MAX };

static bool heap_push(kn_workspace *work, uint64_t order, uint32_t value) {
    if (!kn_reserve(work->host, (void **)&work->heap, &work->heap_capacity, work->heap_count + 1,
                    sizeof *work->heap))
        return false;
    kn_candidate *heap = work->heap;
    size_t at = work->heap_count++;
    for (; at > 0 && heap[(at - 1) / 2].order > order; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = (kn_candidate){order, value};
    return true;
}

static kn_candidate heap_pop(kn_workspace *work) {
    kn_candidate *heap = work->heap, top = heap[0], last = heap[--work->heap_count];
    size_t at = 0, count = work->heap_count;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].order < heap[child].order) child++;
        if (heap[child].order >= last.order) break;
        heap[at] = heap[child];
    }
    if (count) heap[at] = last;
    return top;
}

static bool add_symbol(kn_workspace *work, size_t *count, size_t begin, size_t length, int64_t token) {
    if (!kn_reserve(work->host, (void **)&work->symbols, &work->symbol_capacity, *count + 1,
                    sizeof *work->symbols))
        return false;
    uint32_t here = (uint32_t)*count;
    if (here) work->symbols[here - 1].next = here;
    work->symbols[here] =
        (kn_symbol){(uint32_t)begin, (uint32_t)length, here ? here - 1 : NOTHING, NOTHING, token};
    ++*count;
    return true;
}

static void join(kn_symbol *symbols, uint32_t at, int64_t token) {
    kn_symbol *left = symbols + at, *right = symbols + left->next;
    left->token = token;
    left->length += right->length;
    right->length = 0;
    left->next = right->next;
    if (right->next != NOTHING) symbols[right->next].previous = at;
}

const char *kn_text_model_add_merge(kn_text_model *model, const kn_host *host, uint32_t rank,
                                    const char *left, size_t left_length, const char *right,
                                    size_t right_length) {
    int64_t first = kn_words_find(&model->words, left, left_length);
    int64_t second = kn_words_find(&model->words, right, right_length);
    if (first < 0 || second < 0) return first < 0 ? "the first" : "the second";
    size_t prefix = strlen(model->prefix);
    if (prefix > right_length || memcmp(right, model->prefix, prefix) != 0) prefix = 0;
    kn_text text;
    kn_text_init(&text, host);
    kn_text_add_bytes(&text, left, left_length);
    kn_text_add_bytes(&text, right + prefix, right_length - prefix);
    bool ok = !kn_text_failed(&text);
    int64_t merged = ok ? kn_words_find(&model->words, text.data, text.length) : -1;
    kn_text_finish(&text);
    if (!ok) return "";
    if (merged < 0) return "their joint token";
    kn_pair *pair = kn_pairs_put(&model->merges, host, (uint32_t)first, (uint32_t)second);
    if (!pair) return "";
    pair->first = rank;
    pair->second = (uint32_t)merged;
    return NULL;
}

/* ---- by a list of merges -------------------------------------------------------------------------- */

static const kn_pair *merge_of(const kn_text_model *model, const kn_symbol *symbols, uint32_t at) {
    return at == NOTHING || symbols[at].next == NOTHING
               ? NULL
               : kn_pairs_find(&model->merges, (uint32_t)symbols[at].token,
                               (uint32_t)symbols[symbols[at].next].token);
}

static bool propose(const kn_text_model *model, kn_workspace *work, uint32_t at) {
    const kn_pair *merge = merge_of(model, work->symbols, at);
    return !merge || heap_push(work, (uint64_t)merge->first << 32 | at, merge->second);
}

/* The text of a character with the prefix of words that continue and the suffix of their end. */
static int64_t find_character(const kn_text_model *model, kn_text *spelled, const char *text, size_t length,
                              bool first, bool last) {
    const char *prefix = first ? "" : model->prefix, *suffix = last ? model->suffix : "";
    if (!prefix[0] && !suffix[0]) return kn_words_find(&model->words, text, length);
    kn_text_clear(spelled);
    kn_text_add(spelled, prefix);
    kn_text_add_bytes(spelled, text, length);
    kn_text_add(spelled, suffix);
    return kn_words_find(&model->words, spelled->data, spelled->length);
}

/* Fills in the symbols of a piece: its characters, bytes of characters without a token, and unknown ones. */
static kn_status first_symbols(const kn_text_model *model, kn_workspace *work, const char *piece,
                               size_t length, size_t *count) {
    kn_text spelled;
    kn_text_init(&spelled, work->host);
    size_t unknown_begin = 0, unknown_length = 0;
    bool ok = true;
    for (size_t at = 0, size; ok && at < length; at += size) {
        uint32_t code;
        size = kn_character_read(piece + at, length - at, &code);
        int64_t token = find_character(model, &spelled, piece + at, size, at == 0, at + size == length);
        if (token >= 0) {
            if (unknown_length) ok = add_symbol(work, count, unknown_begin, unknown_length, model->unknown);
            unknown_length = 0;
            ok = ok && add_symbol(work, count, at, size, token);
            continue;
        }
        bool bytes = model->byte_fallback;
        for (size_t i = 0; bytes && i < size; i++)
            bytes = model->bytes[(uint8_t)piece[at + i]] >= 0;
        if (bytes) {
            for (size_t i = 0; ok && i < size; i++)
                ok = add_symbol(work, count, at + i, 1, model->bytes[(uint8_t)piece[at + i]]);
        } else if (model->unknown >= 0) {
            if (unknown_length && !model->fuse_unknown) {
                ok = add_symbol(work, count, unknown_begin, unknown_length, model->unknown);
                unknown_length = 0;
            }
            if (!unknown_length) unknown_begin = at;
            unknown_length += size;
        } else if (model->barriers) {
            ok = add_symbol(work, count, at, size, -1);
        }
        /* Without a token for unknown text, the character is dropped, as by the tokenizers package. */
    }
    if (ok && unknown_length) ok = add_symbol(work, count, unknown_begin, unknown_length, model->unknown);
    ok = ok && !kn_text_failed(&spelled);
    kn_text_finish(&spelled);
    return ok ? KN_OK : KN_ERROR_MEMORY;
}

kn_status kn_bpe_encode(const kn_text_model *model, kn_workspace *work, const char *piece, size_t length,
                        kn_tokens *tokens) {
    if (model->ignore_merges) {
        int64_t whole = kn_words_find(&model->words, piece, length);
        if (whole >= 0) {
            kn_tokens_add(tokens, whole);
            return tokens->failed ? KN_ERROR_MEMORY : KN_OK;
        }
    }
    size_t count = 0;
    kn_status status = first_symbols(model, work, piece, length, &count);
    if (status != KN_OK) return status;
    work->heap_count = 0;
    for (uint32_t i = 0; i + 1 < count; i++)
        if (!propose(model, work, i)) return KN_ERROR_MEMORY;
    while (work->heap_count) {
        kn_candidate top = heap_pop(work);
        uint32_t at = (uint32_t)top.order;
        if (!work->symbols[at].length) continue;
        const kn_pair *merge = merge_of(model, work->symbols, at);
        if (!merge || merge->second != top.value) continue;
        join(work->symbols, at, merge->second);
        if (!propose(model, work, work->symbols[at].previous) || !propose(model, work, at))
            return KN_ERROR_MEMORY;
    }
    for (uint32_t at = count ? 0 : NOTHING; at != NOTHING; at = work->symbols[at].next)
        if (work->symbols[at].token >= 0) kn_tokens_add(tokens, work->symbols[at].token);
    return tokens->failed ? KN_ERROR_MEMORY : KN_OK;
}

/* ---- by scores ------------------------------------------------------------------------------------- */

uint32_t kn_score_order(double score) {
    union {
        float real;
        uint32_t bits;
    } value = {.real = (float)score};
    return value.bits & 0x80000000u ? value.bits : 0x7fffffffu - value.bits;
}

static bool propose_scored(const kn_text_model *model, kn_workspace *work, const char *piece, uint32_t at) {
    if (at == NOTHING || work->symbols[at].next == NOTHING) return true;
    const kn_symbol *left = work->symbols + at, *right = work->symbols + left->next;
    uint32_t length = left->length + right->length;
    int64_t token = kn_words_find(&model->words, piece + left->begin, length);
    return token < 0 || heap_push(work, (uint64_t)kn_score_order(model->scores[token]) << 32 | at, length);
}

kn_status kn_scored_encode(const kn_text_model *model, kn_workspace *work, const char *piece, size_t length,
                           kn_tokens *tokens) {
    size_t count = 0;
    for (size_t at = 0, size; at < length; at += size) {
        uint32_t code;
        size = kn_character_read(piece + at, length - at, &code);
        if (!add_symbol(work, &count, at, size, -1)) return KN_ERROR_MEMORY;
    }
    work->heap_count = 0;
    for (uint32_t i = 0; i + 1 < count; i++)
        if (!propose_scored(model, work, piece, i)) return KN_ERROR_MEMORY;
    while (work->heap_count) {
        kn_candidate top = heap_pop(work);
        uint32_t at = (uint32_t)top.order;
        const kn_symbol *left = work->symbols + at;
        if (!left->length || left->next == NOTHING ||
            left->length + work->symbols[left->next].length != top.value)
            continue;
        join(work->symbols, at, -1);
        if (!propose_scored(model, work, piece, work->symbols[at].previous) ||
            !propose_scored(model, work, piece, at))
            return KN_ERROR_MEMORY;
    }
    for (uint32_t at = count ? 0 : NOTHING; at != NOTHING; at = work->symbols[at].next) {
        const kn_symbol *symbol = work->symbols + at;
        int64_t token = kn_words_find(&model->words, piece + symbol->begin, symbol->length);
        if (token >= 0)
            kn_tokens_add(tokens, token);
        else if (!kn_text_model_fall_back(model, piece + symbol->begin, symbol->length, tokens)) {
            if (model->unknown < 0) return KN_ERROR_NOT_FOUND;
            kn_tokens_add(tokens, model->unknown);
        }
    }
    return tokens->failed ? KN_ERROR_MEMORY : KN_OK;
}
