/* Texts as inputs of koine infer, for models that compute a vector for each text. */
#ifndef KOINE_COMMAND_INFER_TEXTS_H
#define KOINE_COMMAND_INFER_TEXTS_H

#include "infer_input.h"

/* Whether the model's inputs are x, (batch,window) tokens, and length, (batch), and its output is
 * (batch,columns); sets the window. */
bool texts_fit(const kn_model *model, int64_t *window);
/* Writes the tokens of a text, at most `window`, and their number. */
kn_status texts_encode(const kn_vocabulary *words, const char *text, size_t bytes, int32_t *tokens,
                       int64_t window, size_t *length);
/* The length to which texts are padded if the longest one has `longest` tokens: 16 times a power of two, so
 * that few lengths are compiled, at most the window. */
int64_t texts_window(int64_t longest, int64_t window);
/* Makes tokens, (count,window), (count,shorter). */
void texts_shorten(int32_t *tokens, size_t count, int64_t window, int64_t shorter);
/* Reads one text, or a text per line of the files (*.txt); each becomes tokens of the vocabulary of the model
 * at `path`, and a text with too many of them is cut. Opens the model again if its window is longer than the
 * longest text needs. Sets the two inputs, x and length, which the caller closes in any case; returns false
 * after an error message. */
bool texts_read(const char *path, kn_model **model, const char *text, const char *const *files, int count,
                infer_input inputs[2]);

#endif
