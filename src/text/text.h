/* Public to other modules: vocabularies, text to tokens and back. */
#ifndef KN_TEXT_H
#define KN_TEXT_H

#include <koine/text.h>

#include "base/base.h"
#include "formats/formats.h"

/* Adds the keys of the vocabulary of a tokenizer.json to a GGUF file: `size` tokens, of which those that the
 * vocabulary does not have are unused. KN_ERROR_UNSUPPORTED if llama.cpp, and so a GGUF file, has no
 * tokenizer with the same rules. */
kn_status kn_vocabulary_write_gguf(const kn_vocabulary *vocabulary, int64_t size, kn_gguf_head *head,
                                   kn_error *error);

/* Appends the tokenizer.json of the vocabulary of a GGUF file. KN_ERROR_UNSUPPORTED if the tokenizers package
 * would read texts in another way, or a token is not UTF-8. */
kn_status kn_vocabulary_write_json(const kn_vocabulary *vocabulary, kn_text *text, kn_error *error);
/* NULL if there is none. */
const char *kn_vocabulary_chat_template(const kn_vocabulary *vocabulary);

/* ---- regular expressions (regex.c), by PCRE2 -------------------------------------------------------- */

typedef struct kn_regex kn_regex;
/* KN_ERROR_UNSUPPORTED if Koine was built without PCRE2, or for an unsupported construct. */
kn_status kn_regex_create(const kn_host *host, const char *pattern, size_t length, kn_regex **regex,
                          kn_error *error);
void kn_regex_destroy(const kn_host *host, kn_regex **regex);
/* A search in one text, on one thread. */
typedef struct kn_regex_search kn_regex_search;
kn_regex_search *kn_regex_search_create(const kn_host *host, const kn_regex *regex);
void kn_regex_search_destroy(const kn_host *host, kn_regex_search **search);
/* The first match that is not empty in valid UTF-8, from `from` on. *found is false if there is none. */
kn_status kn_regex_find(kn_regex_search *search, const char *text, size_t count, size_t from, size_t *begin,
                        size_t *end, bool *found);

#endif
