/* Texts as inputs of koine infer, for models that compute a vector for each text. */
#ifndef KOINE_COMMAND_INFER_TEXTS_H
#define KOINE_COMMAND_INFER_TEXTS_H

#include "infer_input.h"

/* Reads one text, or a text per line of the files (*.txt); each becomes tokens of the vocabulary of the model
 * at `path`, and a text with too many of them is cut. Opens the model again if its window is longer than the
 * longest text needs. Sets the two inputs, x and length, which the caller closes in any case; returns false
 * after an error message. */
bool texts_read(const char *path, kn_model **model, const char *text, const char *const *files, int count,
                infer_input inputs[2]);

#endif
