/* Tokens of language models as samples. Private to the data module. */
#ifndef KN_TOKENS_PRIVATE_H
#define KN_TOKENS_PRIVATE_H

#include <koine/text.h>

#include "data/dataset_private.h"

/* A vocabulary from a file. */
typedef struct kn_words {
    const kn_host *host;
    kn_vocabulary *vocabulary;
} kn_words;

/* Call kn_words_close even if it fails. */
kn_status kn_words_open(kn_words *words, const kn_host *host, const char *path, kn_error *error);
void kn_words_close(kn_words *words);
/* The tokens of a text, released by the caller. `source` is for messages; flags as in kn_vocabulary_encode.
 */
kn_status kn_words_encode(const kn_words *words, const char *source, const char *text, size_t bytes,
                          unsigned flags, int32_t **tokens, size_t *count, kn_error *error);

/* The row of each text. */
typedef struct kn_row_plan {
    uint32_t *row_of; /* released by the caller, even after a failure */
    size_t rows;
} kn_row_plan;
/* Distributes texts with these sizes, at most `length`, over few rows with `length` positions: the longest
 * first, each to the fullest row that has room. length 0: a row for each. (pack.c) */
kn_status kn_row_plan_make(kn_row_plan *plan, const kn_host *host, const uint32_t *sizes, size_t count,
                           uint64_t length, kn_error *error);

#endif
