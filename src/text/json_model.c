/* The model of a tokenizer.json: its words and merges. */
#include <string.h>

#include "text/json_part.h"

static kn_status add_word(kn_part_reader *in, int64_t token, const char *text, size_t length) {
    size_t unused;
    if (token < 0 || token >= KN_WORD_NUMBERS)
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: the id of '%s' in %s.vocab is %lld; expected 0 to %d",
                       in->vocabulary->name, text, in->where, (long long)token, KN_WORD_NUMBERS - 1);
    if (kn_words_at(&in->vocabulary->model.words, token, &unused))
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: two words of %s.vocab have the id %lld",
                       in->vocabulary->name, in->where, (long long)token);
    return kn_words_put(&in->vocabulary->model.words, (uint32_t)token, text, length)
               ? KN_OK
               : kn_fail_memory(in->error, length);
}

/* {"word": id} */
static kn_status read_words(kn_part_reader *in, const kn_json *part) {
    const kn_json *vocab = kn_json_member(part, "vocab");
    if (!vocab || vocab->kind != KN_JSON_OBJECT) return kn_part_wrong(in, "vocab", vocab, "an object");
    for (const kn_json *word = vocab->first; word; word = word->next) {
        int64_t token;
        if (!kn_json_int64(word, &token)) return kn_part_wrong(in, "vocab", word, "an integer for each word");
        kn_status status = add_word(in, token, word->key, word->key_length);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

static kn_status get_unknown(kn_part_reader *in, const kn_json *part) {
    const char *text = NULL;
    size_t length = 0;
    kn_status status = kn_part_text_or(in, part, "unk_token", &text, &length);
    if (status != KN_OK || !text) return status;
    in->vocabulary->model.unknown = kn_words_find(&in->vocabulary->model.words, text, length);
    return KN_OK;
}

/* Both tokens of a merge: "a b", or ["a", "b"]. */
static bool get_merge(const kn_json *item, const char *texts[2], size_t lengths[2]) {
    if (item->kind == KN_JSON_ARRAY && item->count == 2 && item->first->kind == KN_JSON_STRING &&
        item->first->next->kind == KN_JSON_STRING) {
        texts[0] = item->first->text;
        lengths[0] = item->first->length;
        texts[1] = item->first->next->text;
        lengths[1] = item->first->next->length;
        return true;
    }
    const char *space = item->kind == KN_JSON_STRING ? memchr(item->text, ' ', item->length) : NULL;
    if (!space) return false;
    texts[0] = item->text;
    lengths[0] = (size_t)(space - item->text);
    texts[1] = space + 1;
    lengths[1] = item->length - lengths[0] - 1;
    return true;
}

static kn_status read_merges(kn_part_reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_json *merges = kn_json_member(part, "merges");
    if (!merges || merges->kind != KN_JSON_ARRAY) return kn_part_wrong(in, "merges", merges, "an array");
    uint32_t rank = 0;
    for (const kn_json *item = merges->first; item; item = item->next, rank++) {
        const char *texts[2];
        size_t lengths[2];
        if (!get_merge(item, texts, lengths))
            return kn_part_wrong(in, "merges", item, "two tokens in each item");
        const char *missing = kn_text_model_add_merge(model, &in->vocabulary->host, rank, texts[0],
                                                      lengths[0], texts[1], lengths[1]);
        if (missing && !missing[0]) return kn_fail_memory(in->error, 0);
        if (missing)
            return kn_fail(in->error, KN_ERROR_FORMAT,
                           "%s: merge %u of %s.merges, '%.*s' and '%.*s': %s is not in the vocabulary",
                           in->vocabulary->name, (unsigned)rank, in->where, (int)(lengths[0] & 0xff),
                           texts[0], (int)(lengths[1] & 0xff), texts[1], missing);
    }
    return KN_OK;
}

static kn_status read_bpe(kn_part_reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_json *dropout = kn_json_member(part, "dropout");
    size_t unused;
    model->name = "BPE";
    model->encode = kn_bpe_encode;
    if (!kn_part_is_null(dropout) && !(dropout->kind == KN_JSON_NUMBER && dropout->number == 0))
        return kn_fail(in->error, KN_ERROR_UNSUPPORTED,
                       "%s: %s.dropout is set, which makes tokens random; expected null",
                       in->vocabulary->name, in->where);
    kn_status status = read_words(in, part);
    if (status == KN_OK) status = get_unknown(in, part);
    if (status == KN_OK) status = kn_part_bool(in, part, "fuse_unk", &model->fuse_unknown);
    if (status == KN_OK) status = kn_part_bool(in, part, "byte_fallback", &model->byte_fallback);
    if (status == KN_OK) status = kn_part_bool(in, part, "ignore_merges", &model->ignore_merges);
    if (status == KN_OK)
        status = kn_part_text_or(in, part, "continuing_subword_prefix", &model->prefix, &unused);
    if (status == KN_OK) status = kn_part_text_or(in, part, "end_of_word_suffix", &model->suffix, &unused);
    return status == KN_OK ? read_merges(in, part) : status;
}

static kn_status read_wordpiece(kn_part_reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    size_t length = 2;
    int64_t longest = 100;
    model->name = "WordPiece";
    model->encode = kn_wordpiece_encode;
    model->prefix = "##";
    kn_status status = read_words(in, part);
    if (status == KN_OK) status = get_unknown(in, part);
    if (status == KN_OK)
        status = kn_part_text_or(in, part, "continuing_subword_prefix", &model->prefix, &length);
    if (status == KN_OK) status = kn_part_count(in, part, "max_input_chars_per_word", &longest);
    if (status != KN_OK) return status;
    model->longest = (size_t)longest;
    if (!kn_text_model_grow(model, &in->vocabulary->host)) return kn_fail_memory(in->error, 0);
    model->continues = kn_trie_node(&model->trie, model->prefix, length);
    return KN_OK;
}

static kn_status read_wordlevel(kn_part_reader *in, const kn_json *part) {
    in->vocabulary->model.name = "WordLevel";
    in->vocabulary->model.encode = kn_wordlevel_encode;
    kn_status status = read_words(in, part);
    return status == KN_OK ? get_unknown(in, part) : status;
}

/* [["word", score], …], the position is the id. */
static kn_status read_unigram(kn_part_reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_json *vocab = kn_json_member(part, "vocab"), *unknown = kn_json_member(part, "unk_id");
    model->name = "Unigram";
    model->encode = kn_unigram_encode;
    if (!vocab || vocab->kind != KN_JSON_ARRAY) return kn_part_wrong(in, "vocab", vocab, "an array");
    double *scores = kn_arena_take(in->arena, vocab->count, sizeof *scores);
    if (!scores) return kn_fail_memory(in->error, vocab->count * sizeof *scores);
    model->scores = scores;
    int64_t token = 0;
    for (const kn_json *item = vocab->first; item; item = item->next, token++) {
        const kn_json *word = item->first, *score = word ? word->next : NULL;
        if (item->kind != KN_JSON_ARRAY || item->count != 2 || word->kind != KN_JSON_STRING ||
            score->kind != KN_JSON_NUMBER)
            return kn_part_wrong(in, "vocab", item, "an array of a string and a number for each word");
        kn_status status = add_word(in, token, word->text, word->length);
        if (status != KN_OK) return status;
        scores[token] = score->number;
        if (token == 0 || score->number < model->least) model->least = score->number;
    }
    kn_status status = kn_part_bool(in, part, "byte_fallback", &model->byte_fallback);
    if (status != KN_OK) return status;
    if (!kn_part_is_null(unknown) &&
        (!kn_json_int64(unknown, &model->unknown) || model->unknown < 0 || model->unknown >= token))
        return kn_part_wrong(in, "unk_id", unknown, "the id of a word");
    return kn_text_model_grow(model, &in->vocabulary->host) ? KN_OK : kn_fail_memory(in->error, 0);
}

static const kn_component models[] = {
    {"BPE", read_bpe, false},
    {"WordPiece", read_wordpiece, false},
    {"Unigram", read_unigram, false},
    {"WordLevel", read_wordlevel, false},
};

kn_status kn_model_part_read(kn_part_reader *in, const kn_json *model) {
    /* Old files have no type. */
    kn_status status = kn_json_member(model, "type")
                           ? kn_component_read(in, model, models, KN_COUNT_OF(models))
                       : kn_json_member(model, "merges") ? read_bpe(in, model)
                                                         : kn_part_wrong(in, "type", NULL, "a string");
    kn_text_model_find_bytes(&in->vocabulary->model);
    return status;
}
