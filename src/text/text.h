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

#endif
