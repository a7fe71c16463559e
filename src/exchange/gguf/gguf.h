/* Shared by the files that open a language model from a GGUF file: its metadata becomes a text model, whose
 * parameters have the names of the file's tensors ("blk.0.attn_q.weight" is "blk0.attn_q.weight"). */
#ifndef KN_EXCHANGE_GGUF_H
#define KN_EXCHANGE_GGUF_H

#include "exchange/exchange.h"

/* Limits, since files may be hostile. */
enum { KN_LANGUAGE_LAYERS = 1000, KN_LANGUAGE_SIZE = 1 << 24 };

/* What an architecture implies and files do not say. */
typedef struct kn_language_family {
    const char *name;    /* general.architecture */
    bool interleaved;    /* rotated pairs are adjacent */
    bool scaled_table;   /* the embedding is multiplied by the root of its width */
    const char *gate;    /* the activation of the gate */
    int sliding_of;      /* of this many layers, all but the last see only a window; 0: no layer has one */
    double sliding_base; /* base of the rotation in these layers, unless the file says it */
    int wide_scale;      /* with this many layers, the scale of scores is sqrt(heads / width); 0: never */
} kn_language_family;

/* A decoder of tokens with gated feed-forward layers. */
typedef struct kn_language {
    const kn_language_family *family;
    int64_t layers, width, hidden, vocabulary, heads, key_heads, head, context;
    int64_t window; /* of sliding layers; 0: there are none */
    double epsilon, base, sliding_base;
    double divisor;  /* of positions, except in sliding layers */
    double scale;    /* of scores; 0: 1 / sqrt(head) */
    bool divisors;   /* the angles of rotations have divisors, the tensor rope_freqs.weight */
    bool biases;     /* q, k and v have biases */
    bool head_norms; /* q and k are normalized by head */
    bool post_norms; /* attention and feed-forward results are normalized before they are added */
    bool tied;       /* the output uses the embedding's table */
} kn_language;

/* Reads and checks the metadata. False: the model's error is set. */
bool kn_language_read(kn_model *model, const kn_gguf *file, kn_language *language);
/* Appends the model as a text. */
void kn_language_write(const kn_language *language, kn_text *text);

#endif
