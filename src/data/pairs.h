/* Byte-pair vocabularies, whose signs are characters and what often stands together: inside of the data room
 * only.
 *
 * As a text, each sign of such a vocabulary has U+001E in front; other vocabularies are characters one after
 * the other. */
#ifndef KN_PAIRS_H
#define KN_PAIRS_H

#include "data/dataset_private.h"

enum { KN_PAIRS_MOST = 4096 };

typedef struct kn_pairs {
    const kn_host *host;
    char *text;       /* as above */
    uint32_t *begins; /* of each sign in the text, and of what would follow the last */
    int count;
    bool joined;    /* signs may be of several characters */
    kn_map numbers; /* from a sign's bytes to its entry in `begins` */
} kn_pairs;

/* Whether a vocabulary is of that kind. */
bool kn_pairs_is(const char *vocabulary);
/* A vocabulary of either kind; pairs are to be closed also when that fails. */
kn_status kn_pairs_open(kn_pairs *pairs, const kn_host *host, const char *vocabulary, kn_error *error);
/* One of `wanted` signs, as far as anything comes twice, learnt from a text: the characters of `alphabet`,
 * which has all of the text's, and what stands together. `path` is for messages. */
kn_status kn_pairs_learn(kn_pairs *pairs, const kn_host *host, const char *path, const uint8_t *bytes,
                         uint64_t count, const char *alphabet, uint64_t wanted, kn_error *error);
void kn_pairs_close(kn_pairs *pairs);

/* The numbers of the first signs of a text of count > 0 bytes, at most KN_PIECE_MOST of them; answers how
 * many, and in *used of how many bytes they are. 0: the first character is no sign. */
enum { KN_PIECE_MOST = 256 };
int kn_pairs_encode(const kn_pairs *pairs, const uint8_t *bytes, uint64_t count,
                    int32_t numbers[KN_PIECE_MOST], uint64_t *used);

#endif
