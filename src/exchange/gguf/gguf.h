/* Shared by the files that open a language model from a GGUF file. */
#ifndef KN_EXCHANGE_GGUF_H
#define KN_EXCHANGE_GGUF_H

#include "exchange/language/language.h"

/* Reads and checks the metadata. False: the model's error is set. */
bool kn_language_read(kn_model *model, const kn_gguf *file, kn_language *language);

#endif
