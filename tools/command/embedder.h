/* Vectors of texts by an encoder, a few texts at a time. */
#ifndef KOINE_COMMAND_EMBEDDER_H
#define KOINE_COMMAND_EMBEDDER_H

#include "failure.h"

/* The maximum number of lengths that are compiled (texts_window), and of texts per run. */
enum { EMBEDDER_LENGTHS = 24, EMBEDDER_ROWS = 32 };

typedef struct embedder {
    const common_options *common;
    const char *file;
    failure failure;

    kn_vocabulary *words;
    kn_context *context;
    kn_states *states;
    kn_model *model;                    /* of the whole window */
    kn_model *models[EMBEDDER_LENGTHS]; /* of shorter ones, opened with their sessions when first needed */
    kn_session *sessions[EMBEDDER_LENGTHS];
    int64_t window, width; /* of the model; elements of a vector */
    int32_t *tokens;       /* (EMBEDDER_ROWS,window) */
} embedder;

/* Takes over the model, which texts_fit. */
bool embedder_start(embedder *self, kn_model *model);
/* The vectors of 1 to EMBEDDER_ROWS texts: (count,width). Adds the number of their tokens to *tokens. A text
 * with more tokens than the window is cut. */
bool embedder_run(embedder *self, const char *const *texts, const size_t *bytes, size_t count, float *vectors,
                  uint64_t *tokens);
void embedder_finish(embedder *self);

#endif
