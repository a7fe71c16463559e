/* Vocabularies of language models: text to token ids and back.
 *
 *     kn_vocabulary *words = kn_vocabulary_open("smollm2.gguf", NULL); // or a folder, or a tokenizer.json
 *     int32_t tokens[64];
 *     size_t count;
 *     if (kn_vocabulary_encode(words, "Hello", 5, KN_TEXT_ADD_ENDS, tokens, 64, &count) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_vocabulary_error(words));
 *
 * docs/language-models.md lists the kinds of tokenizers. Thread-safety: an open vocabulary does not change;
 * any number of threads may use it. A kn_decoding belongs to one thread at a time. */
#ifndef KOINE_TEXT_H
#define KOINE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <koine/defaults.h>
#include <koine/host.h>
#include <koine/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_vocabulary kn_vocabulary;

/* Opens the vocabulary of a `tokenizer.json`, of a folder that contains one, or of a GGUF file. Next to a
 * `tokenizer.json`, the files `tokenizer_config.json`, `generation_config.json` and `chat_template.jinja` are
 * read if they exist. allocator NULL: the C library's. Returns NULL only when out of memory, otherwise a
 * handle that may carry an error: KN_ERROR_UNSUPPORTED for a component that Koine does not have, named in the
 * message. Truncation and padding of the file are ignored: encode returns all tokens. The caller destroys
 * it. */
KN_API KN_NODISCARD kn_vocabulary *kn_vocabulary_open(const char *path, const kn_allocator *allocator);
KN_API void kn_vocabulary_destroy(kn_vocabulary **vocabulary);
KN_API kn_status kn_vocabulary_status(const kn_vocabulary *vocabulary);
KN_API const char *kn_vocabulary_error(const kn_vocabulary *vocabulary);

/* Flags of encode and decode. */
typedef enum kn_text_mode {
    /* encode: adds the tokens that the vocabulary puts before and after a text, such as <bos> or [CLS]. */
    KN_TEXT_ADD_ENDS = 1,
    /* encode: a special token that is spelled out in the text, such as <|im_end|>, becomes that token.
     * Without the flag it is ordinary text, which is right for text of untrusted origin. */
    KN_TEXT_READ_SPECIAL = 2,
    /* decode: leaves special tokens out. */
    KN_TEXT_SKIP_SPECIAL = 4,
    /* encode: drop the last tokens of a text that exceeds the capacity, but keep those that the vocabulary
     * adds at the end. */
    KN_TEXT_CUT = 8,
} kn_text_mode;

/* One more than the largest token id; 0 for a failed vocabulary. */
KN_API int32_t kn_vocabulary_size(const kn_vocabulary *vocabulary);
/* Writes the tokens of a text to tokens, (capacity), at most `capacity` of them; *count is the number that
 * the text has, which may be larger. capacity 0 only counts. With KN_TEXT_CUT, *count is the number of tokens
 * written, and KN_ERROR_ARGUMENT means that those at the ends do not fit. text needs no terminator
 * and may contain zero bytes and invalid UTF-8, each byte of which is one character: byte-level
 * vocabularies and those with byte tokens keep them. KN_ERROR_NOT_FOUND if the vocabulary has neither a token
 * for a character nor one for unknown text, KN_ERROR_ARGUMENT for more than 1 GiB, KN_ERROR_UNSUPPORTED if a
 * regular expression of the vocabulary exceeds its limits on this text. */
KN_API kn_status kn_vocabulary_encode(const kn_vocabulary *vocabulary, const char *text, size_t bytes,
                                      unsigned flags, int32_t *tokens, size_t capacity, size_t *count);

/* The state of decoding one text in several calls: set `size` to its size and the rest to 0. */
typedef struct kn_decoding {
    size_t size;
    uint8_t begun;      /* private: whether a token was decoded */
    uint8_t kept_count; /* private: incomplete UTF-8 at the end, which the next call writes if completed */
    uint8_t kept[4];    /* private */
} kn_decoding;
#define KN_DECODING_DEFAULTS KN_DEFAULTS_ZERO(kn_decoding)

/* Writes the text of `count` tokens to text[capacity], without a terminator; *bytes is the length that it
 * has. If that exceeds the capacity, the text is cut and `state` is unchanged: call again with more room.
 * `state` connects calls: with it, half of a UTF-8 character is kept back until its other half arrives. NULL:
 * one whole text, which may end with half a character. KN_ERROR_ARGUMENT for an id that is not in the
 * vocabulary. */
KN_API kn_status kn_vocabulary_decode(const kn_vocabulary *vocabulary, const int32_t *tokens, size_t count,
                                      unsigned flags, kn_decoding *state, char *text, size_t capacity,
                                      size_t *bytes);

/* A token as the vocabulary spells it ("Ġthe", "##ing"), terminated and valid until the vocabulary is
 * destroyed; NULL if there is none. length (may be NULL): without the terminator, since a token may contain
 * zero bytes. */
KN_API const char *kn_vocabulary_token(const kn_vocabulary *vocabulary, int32_t token, size_t *length);
/* The token with this spelling, added tokens first; -1 if there is none. */
KN_API int32_t kn_vocabulary_find(const kn_vocabulary *vocabulary, const char *spelling);
/* Tokens with a role. */
typedef enum kn_text_role {
    KN_TEXT_ROLE_BEGIN,   /* bos */
    KN_TEXT_ROLE_END,     /* eos */
    KN_TEXT_ROLE_UNKNOWN, /* for text without a token */
    KN_TEXT_ROLE_PADDING,
} kn_text_role;
/* -1 if the vocabulary has no such token. */
KN_API int32_t kn_vocabulary_role(const kn_vocabulary *vocabulary, kn_text_role role);
/* Whether a token is special: control tokens, which are not text. */
KN_API bool kn_vocabulary_is_special(const kn_vocabulary *vocabulary, int32_t token);
/* Whether generation ends with this token: the end of text, or the end of a turn. */
KN_API bool kn_vocabulary_ends(const kn_vocabulary *vocabulary, int32_t token);
/* Writes a conversation as the text that the model was trained on, by the chat template of the vocabulary, at
 * most `capacity` bytes without a terminator; *bytes is the length that it has. variables is a JSON object:
 * {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true}, with whatever else the
 * template reads, such as "tools"; tokens such as bos_token come from the vocabulary. Encode the text with
 * KN_TEXT_READ_SPECIAL and without KN_TEXT_ADD_ENDS: the template writes all special tokens. A message's own
 * text may contain them, too. An error is written to `message`, truncated to `size` bytes: KN_ERROR_NOT_FOUND
 * without a template, KN_ERROR_ARGUMENT if the template refuses the conversation, KN_ERROR_UNSUPPORTED for a
 * construct of Jinja that Koine does not have. */
KN_API kn_status kn_vocabulary_chat(const kn_vocabulary *vocabulary, const char *variables, char *text,
                                    size_t capacity, size_t *bytes, char *message, size_t size);
/* What the vocabulary is, in words: "BPE, 49152 tokens". Valid until the vocabulary is destroyed. */
KN_API const char *kn_vocabulary_summary(const kn_vocabulary *vocabulary);

/* How the next token is drawn. In this order: the repetition penalty, top_k, top_p, min_p; probabilities are
 * those after division by the temperature. */
typedef struct kn_draw_params {
    size_t size;
    double temperature; /* divides the logits; 0: the most likely token (default 0.8) */
    uint64_t top_k;     /* only the most likely tokens, this many; 0: all (default) */
    double top_p;       /* only the most likely tokens with this total probability (default 1) */
    double min_p;       /* only tokens with this part of the largest probability (default 0) */
    double repetition;  /* divides positive logits of tokens seen, multiplies negative ones (default 1) */
    uint64_t seed;      /* (default 1) */
} kn_draw_params;
#define KN_DRAW_DEFAULTS                                                                                     \
    KN_DEFAULTS(kn_draw_params, KN_FIELD(temperature, 0.8), KN_FIELD(top_p, 1), KN_FIELD(repetition, 1),     \
                KN_FIELD(seed, 1))
KN_API void kn_draw_params_init(kn_draw_params *params);
/* Draws a token from logits, (count). seen, (seen_count), are the tokens that the repetition penalty applies
 * to; other ids are ignored. The same seed and step give the same token. Tokens with the logit -infinity
 * or NaN are never drawn; KN_ERROR_NOT_FINITE if there is no other, or if one is +infinity. params NULL:
 * defaults. Thread-safe. */
KN_API KN_NODISCARD kn_status kn_draw_token(const kn_draw_params *params, const float *logits, size_t count,
                                            const int32_t *seen, size_t seen_count, uint64_t step,
                                            int32_t *token);

#ifdef __cplusplus
}
#endif
#endif
