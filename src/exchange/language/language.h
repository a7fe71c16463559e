/* Shared by the readers of language models: a file becomes a text model, whose parameters have the names of
 * tensors in GGUF files, without the dot after `blk`: "blk0.attn_q.weight". */
#ifndef KN_EXCHANGE_LANGUAGE_H
#define KN_EXCHANGE_LANGUAGE_H

#include "exchange/exchange.h"

/* Limits, since files may be hostile. */
enum { KN_LANGUAGE_LAYERS = 1000, KN_LANGUAGE_SIZE = 1 << 24 };

/* Positions that a model computes at once, at most, unless the caller sets `window`. */
enum { KN_LANGUAGE_WINDOW = 2048 };

/* How a layer differs from the others, as bits. */
enum {
    KN_LAYER_SLIDES = 1,    /* attention is limited to the window */
    KN_LAYER_UNROTATED = 2, /* q and k are not rotated */
    KN_LAYER_KINDS = 4,     /* combinations of these bits */
};

/* How q and k are rotated. */
typedef struct kn_language_rotation {
    double base, divisor; /* divisor: of positions */
    bool divisors;        /* the angles of pairs have divisors, the parameter rope_freqs */
} kn_language_rotation;

/* A decoder of tokens. */
typedef struct kn_language {
    const char *name; /* of the architecture */
    const char *gate; /* the activation of the feed-forward layer, an operator */
    int64_t layers, width, hidden, vocabulary, heads, key_heads, head, context;
    int64_t window;                    /* of sliding layers */
    uint8_t kinds[KN_LANGUAGE_LAYERS]; /* by layer: bits of KN_LAYER_ */
    double epsilon;
    kn_language_rotation rotation, sliding_rotation;
    double scale;          /* of scores; 0: 1 / sqrt(head) */
    double table_scale;    /* of the embedding; 0: 1 */
    double softcap;        /* scores s become softcap * tanh(s / softcap); 0: they stay */
    double output_softcap; /* the same for the logits */
    bool interleaved;      /* rotated pairs are adjacent */
    bool biases;           /* q, k and v have biases */
    bool output_bias;      /* the product after attention has one */
    bool hidden_biases;    /* products of the feed-forward layer have biases */
    bool head_norms;       /* q and k are normalized by head */
    bool post_norms;       /* attention and feed-forward results are normalized before they are added */
    bool tied;             /* the output uses the embedding's table */
    bool plain;            /* feed-forward layers have no gate, and norms subtract the mean and have biases */
    bool parallel;         /* feed-forward layers read what attention reads */
    int64_t positions;     /* rows of a table that is added to the embedding; 0: there is none */
} kn_language;

/* How the vectors of tokens become the vector of a text. */
typedef enum kn_encoder_pooling {
    KN_POOLING_NONE, /* a vector for each token */
    KN_POOLING_MEAN,
    KN_POOLING_FIRST, /* that of the first token */
} kn_encoder_pooling;

/* An encoder whose tokens see all tokens of their text, or those around them. */
typedef struct kn_encoder {
    const char *name;       /* of the architecture */
    const char *activation; /* an operator */
    int64_t layers, width, hidden, vocabulary, heads;
    int64_t positions, first_position; /* rows of the table of positions; the row of the first token */
    int64_t types;  /* rows of the table of token types, the first of which is used; 0: none */
    int64_t window; /* tokens of a text, unless the caller sets it */
    double epsilon;
    kn_encoder_pooling pooling;
    bool normalized; /* the vector of a text has length 1 */
    /* ModernBERT: norms come before attention and feed-forward layers, which have gates; there are no tables
     * of positions and types, but rotations of q and k. For the other encoders the rest is zero. */
    bool modern;
    bool norm_bias, attention_bias, hidden_bias;
    uint8_t kinds[KN_LANGUAGE_LAYERS]; /* by layer: KN_LAYER_SLIDES, or 0 */
    int64_t near;                      /* sliding layers see tokens fewer than this many away */
    kn_language_rotation rotation, near_rotation;
} kn_encoder;

/* Appends the model as a text. Inputs are x, (batch,window) tokens, and length, (batch): the number of tokens
 * of each text, at least 1; those after it are masked. */
void kn_encoder_write(const kn_encoder *encoder, kn_text *text);
/* The same for a decoder, whose input is x. */
void kn_language_write(const kn_language *language, kn_text *text);
/* The numbers of a weight from the states, as float32: *numbers has room for *room of them and grows; it is
 * released by the caller. False with the model's error set. */
bool kn_language_numbers(kn_model *model, kn_states *states, const kn_value *value, float **numbers,
                         size_t *room);
/* Reads the text into the model; messages about it name its source. */
bool kn_language_open(kn_model *model, const kn_text *text);

#endif
