/* Public to other modules: vocabularies, text to tokens and back. */
#ifndef KN_TEXT_H
#define KN_TEXT_H

#include <koine/text.h>

#include "base/base.h"
#include "formats/formats.h"

/* The vocabulary of an open GGUF file, named `name` in messages; it keeps nothing of the file. Returns NULL
 * only when out of memory, otherwise a handle that may carry an error. */
kn_vocabulary *kn_vocabulary_from_gguf(const kn_host *host, const char *name, const kn_gguf *file);
/* Adds the keys of the vocabulary of a tokenizer.json to a GGUF file: `size` tokens, of which those that the
 * vocabulary does not have are unused. KN_ERROR_UNSUPPORTED if llama.cpp, and so a GGUF file, has no
 * tokenizer with the same rules. */
kn_status kn_vocabulary_write_gguf(const kn_vocabulary *vocabulary, int64_t size, kn_gguf_head *head,
                                   kn_error *error);

#endif
