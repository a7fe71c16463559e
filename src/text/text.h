/* Public to other modules: vocabularies, text to tokens and back. */
#ifndef KN_TEXT_H
#define KN_TEXT_H

#include <koine/text.h>

#include "base/base.h"
#include "formats/formats.h"

/* The vocabulary of an open GGUF file, named `name` in messages; it keeps nothing of the file. Returns NULL
 * only when out of memory, otherwise a handle that may carry an error. */
kn_vocabulary *kn_vocabulary_from_gguf(const kn_host *host, const char *name, const kn_gguf *file);

#endif
