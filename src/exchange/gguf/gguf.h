/* Shared by the files that open language models from GGUF files and write them. */
#ifndef KN_EXCHANGE_GGUF_H
#define KN_EXCHANGE_GGUF_H

#include "exchange/language/language.h"

/* What an architecture implies and files do not store. */
typedef struct kn_gguf_family {
    const char *name;    /* general.architecture */
    bool interleaved;    /* rotated pairs are adjacent */
    bool scaled_table;   /* the embedding is multiplied by the root of its width */
    bool all_biases;     /* any product may have a bias */
    const char *gate;    /* the activation of the gate */
    int sliding_of;      /* of this many layers, all but the last see only a window; 0: no layer has one */
    double sliding_base; /* base of the rotation in these layers, unless the file has it; 0: of all */
    double softcap, output_softcap; /* unless the file has them */
    int64_t window;                 /* the same; 0: the file must have it */
    int wide_scale; /* with this many layers, the scale of scores is sqrt(heads / width); 0: never */
} kn_gguf_family;
/* Sets which layers see only a window, and the scales of scores and of the embedding, from the sizes. */
void kn_gguf_family_imply(const kn_gguf_family *family, kn_language *language);
/* NULL if Koine does not have the architecture. */
const kn_gguf_family *kn_gguf_family_find(const char *name, size_t length);

/* Reads and checks the metadata. False: the model's error is set. */
bool kn_language_read(kn_model *model, const kn_gguf *file, kn_language *language);
/* Adds the metadata of a decoder that was read from another kind of file, and the name of its architecture in
 * *family (describe.c). False with the model's error set, if such files cannot express the decoder. */
bool kn_language_describe(kn_model *model, const kn_language *language, kn_gguf_head *head,
                          const kn_gguf_family **family);
/* Writes a language model from a GGUF file or a folder (save.c). */
kn_status kn_gguf_save(kn_model *model, const char *path, kn_states *states,
                       const kn_model_save_params *params);

#endif
