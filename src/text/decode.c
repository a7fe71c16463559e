/* Tokens to text. Each token goes through the decoders by itself; only the first one is treated differently.
 */
#include "text/text_private.h"

#include <string.h>

typedef struct decoding {
    const kn_vocabulary *vocabulary;
    bool first;
    kn_text one, two; /* the token before and after a decoder */
} decoding;

typedef struct replacing {
    const kn_decoder *decoder;
    const char *text;
    kn_text *to;
} replacing;

static void replace_part(void *user, size_t begin, size_t end, bool match) {
    const replacing *by = user;
    if (match)
        kn_text_add_bytes(by->to, by->decoder->content, by->decoder->content_length);
    else
        kn_text_add_bytes(by->to, by->text + begin, end - begin);
}

/* Letters to bytes; a token with another character stays as it is. */
static void decode_bytes(const kn_text *from, kn_text *to) {
    for (size_t at = 0; at < from->length;) {
        uint32_t code;
        at += kn_character_read(from->data + at, from->length - at, &code);
        int byte = code == KN_CHARACTER_INVALID ? -1 : kn_byte_of_letter(code);
        if (byte < 0) {
            kn_text_clear(to);
            kn_text_add_bytes(to, from->data, from->length);
            return;
        }
        char letter = (char)byte;
        kn_text_add_bytes(to, &letter, 1);
    }
}

static int hex_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* "<0x41>" to its byte. */
static void decode_fallback(const kn_text *from, kn_text *to) {
    const char *text = from->data;
    if (from->length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' && hex_of(text[3]) >= 0 &&
        hex_of(text[4]) >= 0) {
        char byte = (char)(hex_of(text[3]) * 16 + hex_of(text[4]));
        kn_text_add_bytes(to, &byte, 1);
    } else {
        kn_text_add_bytes(to, text, from->length);
    }
}

static void decode_strip(const kn_decoder *decoder, const kn_text *from, kn_text *to) {
    const kn_pattern *letter = &decoder->pattern;
    size_t begin = 0, end = from->length;
    for (int64_t i = 0; i < decoder->start && end - begin >= letter->length &&
                        memcmp(from->data + begin, letter->text, letter->length) == 0;
         i++)
        begin += letter->length;
    for (int64_t i = 0; i < decoder->stop && end - begin >= letter->length &&
                        memcmp(from->data + end - letter->length, letter->text, letter->length) == 0;
         i++)
        end -= letter->length;
    kn_text_add_bytes(to, from->data + begin, end - begin);
}

/* Removes the spaces that words and punctuation do not have between them in English, one rule after another.
 */
static bool clean_up(kn_text *text) {
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    kn_text made;
    kn_text_init(&made, text->host);
    for (size_t i = 0; i < KN_COUNT_OF(rules); i++) {
        kn_pattern pattern = {rules[i][0], strlen(rules[i][0]), NULL};
        kn_decoder decoder = {.content = rules[i][1], .content_length = strlen(rules[i][1])};
        replacing by = {&decoder, text->data, &made};
        kn_text_clear(&made);
        kn_pattern_search(text->host, &pattern, text->data, text->length, replace_part, &by);
        kn_text_clear(text);
        kn_text_add_bytes(text, made.data, made.length);
    }
    bool ok = !made.failed && !text->failed;
    kn_text_finish(&made);
    return ok;
}

static bool decode_wordpiece(const kn_decoder *decoder, bool first, const kn_text *from, kn_text *to) {
    bool continues = from->length >= decoder->content_length &&
                     memcmp(from->data, decoder->content, decoder->content_length) == 0;
    size_t skipped = !first && continues ? decoder->content_length : 0;
    if (!first && !continues) kn_text_add_bytes(to, " ", 1);
    kn_text_add_bytes(to, from->data + skipped, from->length - skipped);
    return !decoder->clean || clean_up(to);
}

/* The letter is a space; at the beginning of the text, nothing. */
static void decode_metaspace(const kn_decoder *decoder, bool first, const kn_text *from, kn_text *to) {
    const kn_pattern *letter = &decoder->pattern;
    for (size_t at = 0, length; at < from->length; at += length) {
        bool here =
            from->length - at >= letter->length && memcmp(from->data + at, letter->text, letter->length) == 0;
        length = here ? letter->length : 1;
        if (!here)
            kn_text_add_bytes(to, from->data + at, 1);
        else if (!first || decoder->prepend == KN_PREPEND_NEVER)
            kn_text_add_bytes(to, " ", 1);
    }
}

static kn_status decode_step(const kn_decoder *decoder, bool first, const kn_text *from, kn_text *to) {
    replacing by = {decoder, from->data, to};
    kn_status status = KN_OK;
    switch (decoder->kind) {
    case KN_DECODER_BYTES:
        decode_bytes(from, to);
        break;
    case KN_DECODER_REPLACE:
    case KN_DECODER_SUFFIX:
        status = kn_pattern_search(to->host, &decoder->pattern, from->data, from->length, replace_part, &by);
        break;
    case KN_DECODER_BYTE_FALLBACK:
        decode_fallback(from, to);
        break;
    case KN_DECODER_STRIP:
        if (decoder->whole && !first)
            kn_text_add_bytes(to, from->data, from->length);
        else
            decode_strip(decoder, from, to);
        break;
    case KN_DECODER_METASPACE:
        decode_metaspace(decoder, first, from, to);
        break;
    case KN_DECODER_WORDPIECE:
        if (!decode_wordpiece(decoder, first, from, to)) status = KN_ERROR_MEMORY;
        break;
    case KN_DECODER_SPACES:
        if (!first) kn_text_add_bytes(to, " ", 1);
        kn_text_add_bytes(to, from->data, from->length);
        break;
    }
    return status;
}

/* Leaves the token's text in by->one. */
static kn_status decode_token(decoding *by, int32_t token, bool last) {
    const kn_vocabulary *vocabulary = by->vocabulary;
    size_t length;
    const char *text = kn_words_at(&vocabulary->added_normal, token, &length);
    if (!text) text = kn_vocabulary_token(vocabulary, token, &length);
    if (!text) return KN_ERROR_ARGUMENT;
    kn_text_clear(&by->one);
    kn_text_add_bytes(&by->one, text, length);
    kn_status status = KN_OK;
    for (size_t i = 0; i < vocabulary->decoder_count && status == KN_OK; i++) {
        kn_decoder decoder = vocabulary->decoders[i];
        /* The end of the last word is not a space. */
        if (decoder.kind == KN_DECODER_SUFFIX && last) decoder.content_length = 0;
        kn_text_clear(&by->two);
        status = decode_step(&decoder, by->first, &by->one, &by->two);
        kn_text swap = by->one;
        by->one = by->two;
        by->two = swap;
    }
    by->first = false;
    return status == KN_OK && (by->one.failed || by->two.failed) ? KN_ERROR_MEMORY : status;
}

/* The length of the text without an incomplete character at its end. */
static size_t whole_length(const char *text, size_t length) {
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        uint8_t byte = (uint8_t)text[length - back];
        if (byte >> 6 == 2) continue;
        size_t needs = byte >> 5 == 6 ? 2 : byte >> 4 == 14 ? 3 : byte >> 3 == 30 ? 4 : 1;
        return needs > back ? length - back : length;
    }
    return length;
}

kn_status kn_vocabulary_decode(const kn_vocabulary *vocabulary, const int32_t *tokens, size_t count,
                               unsigned flags, kn_decoding *state, char *text, size_t capacity,
                               size_t *bytes) {
    if (!vocabulary || vocabulary->error.status != KN_OK || (!tokens && count) || (!text && capacity) ||
        !bytes || (state && state->size != sizeof *state))
        return KN_ERROR_ARGUMENT;
    kn_text all;
    decoding by = {.vocabulary = vocabulary, .first = !(state && state->begun)};
    kn_text_init(&all, &vocabulary->host);
    kn_text_init(&by.one, &vocabulary->host);
    kn_text_init(&by.two, &vocabulary->host);
    if (state && state->kept_count <= sizeof state->kept)
        kn_text_add_bytes(&all, (const char *)state->kept, state->kept_count);
    kn_status status = KN_OK;
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (flags & KN_TEXT_SKIP_SPECIAL && kn_vocabulary_is_special(vocabulary, tokens[i])) continue;
        status = decode_token(&by, tokens[i], !state && i + 1 == count);
        if (status == KN_OK) kn_text_add_bytes(&all, by.one.data, by.one.length);
    }
    if (status == KN_OK && all.failed) status = KN_ERROR_MEMORY;
    if (status == KN_OK) {
        size_t whole = state ? whole_length(all.data, all.length) : all.length;
        *bytes = whole;
        if (capacity) memcpy(text, all.data, whole < capacity ? whole : capacity);
        if (state && whole <= capacity) {
            state->begun = !by.first;
            state->kept_count = (uint8_t)(all.length - whole);
            memcpy(state->kept, all.data + whole, all.length - whole);
        }
    }
    kn_text_finish(&all);
    kn_text_finish(&by.one);
    kn_text_finish(&by.two);
    return status;
}
