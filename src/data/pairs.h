/* Byte-pair vocabularies, whose tokens are characters and frequent sequences of them: for the data room only.
 *
 * As text, each token of such a vocabulary is preceded by U+001E; other vocabularies are concatenated
 * characters. */
#ifndef KN_PAIRS_H
#define KN_PAIRS_H

#include "data/dataset_private.h"

enum { KN_PAIRS_MAX = 4096 };

typedef struct kn_pairs {
    const kn_host *host;
    char *text;       /* as above */
    uint32_t *begins; /* offset of each token in the text, and of the end */
    int count;
    bool joined;    /* tokens may have several characters */
    kn_map numbers; /* from a token's bytes to its entry in `begins` */
} kn_pairs;

/* Whether a vocabulary is of that kind. */
bool kn_pairs_is(const char *vocabulary);
/* Opens a vocabulary of either kind; call kn_pairs_close even if it fails. */
kn_status kn_pairs_open(kn_pairs *pairs, const kn_host *host, const char *vocabulary, kn_error *error);
/* Trains a vocabulary of `wanted` tokens, or fewer if nothing occurs twice, on a text: the characters of
 * `alphabet`, which must have all of the text's, and frequent sequences. `path` is for messages. */
kn_status kn_pairs_learn(kn_pairs *pairs, const kn_host *host, const char *path, const uint8_t *bytes,
                         uint64_t count, const char *alphabet, uint64_t wanted, kn_error *error);
void kn_pairs_close(kn_pairs *pairs);

/* Encodes the beginning of a text of count > 0 bytes as at most KN_PIECE_MAX token ids; returns their number
 * and sets *used to the bytes that they encode. 0: the first character is not a token. */
enum { KN_PIECE_MAX = 256 };
int kn_pairs_encode(const kn_pairs *pairs, const uint8_t *bytes, uint64_t count,
                    int32_t numbers[KN_PIECE_MAX], uint64_t *used);

#endif
