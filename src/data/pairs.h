/* Byte-pair vocabularies, whose tokens are characters and frequent sequences of characters. Private to the
 * data module.
 *
 * As text, each token is preceded by U+001E; other vocabularies are concatenated characters. */
#ifndef KN_PAIRS_H
#define KN_PAIRS_H

#include "data/dataset_private.h"

enum { KN_PAIRS_MAX = 4096 };

typedef struct kn_pairs {
    const kn_host *host;
    char *text;       /* in the form above */
    uint32_t *begins; /* offset of each token in the text, and of the end */
    int count;
    bool joined;    /* tokens may have several characters */
    kn_map numbers; /* bytes of a token -> its entry in `begins` */
} kn_pairs;

/* Whether a vocabulary is a byte-pair vocabulary. */
bool kn_pairs_is(const char *vocabulary);
/* Opens a vocabulary of either kind; call kn_pairs_close even if it fails. */
kn_status kn_pairs_open(kn_pairs *pairs, const kn_host *host, const char *vocabulary, kn_error *error);
/* Trains a vocabulary of `wanted` tokens on a text, or fewer if no pair occurs twice: the characters of
 * `alphabet`, which must include all characters of the text, and frequent sequences. `path` is for messages.
 */
kn_status kn_pairs_learn(kn_pairs *pairs, const kn_host *host, const char *path, const uint8_t *bytes,
                         uint64_t count, const char *alphabet, uint64_t wanted, kn_error *error);
void kn_pairs_close(kn_pairs *pairs);

/* Encodes the beginning of a text of count > 0 bytes as at most KN_PIECE_MAX token ids; returns their number
 * and sets *used to the number of encoded bytes. 0: the first character is not a token. */
enum { KN_PIECE_MAX = 256 };
int kn_pairs_encode(const kn_pairs *pairs, const uint8_t *bytes, uint64_t count,
                    int32_t numbers[KN_PIECE_MAX], uint64_t *used);

#endif
