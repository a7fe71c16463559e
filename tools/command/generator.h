/* Text generation: a model's sessions; the tokens of texts, how many of them the model has read, and their
 * generated ends. Functions that may fail return false after setting `failure`. */
#ifndef KOINE_COMMAND_GENERATOR_H
#define KOINE_COMMAND_GENERATOR_H

#include "failure.h"

/* Rows of a prompt that are read at once: so many powers of two from the least. */
enum { GENERATOR_LEAST = 8, GENERATOR_PIECES = 6 };
/* Texts that a model can write at once, at most, and the powers of two up to it. */
enum { GENERATOR_SLOTS = 64, GENERATOR_POWERS = 7 };

/* The row of an option table, and its check: EXIT_DONE, or reports an error and returns EXIT_USAGE. */
#define CONTEXT_OPTION(target)                                                                               \
    {                                                                                                        \
        "context", OPTION_COUNT, "N",                                                                        \
            "tokens that a language model keeps in memory (its own number, at most 2048)", &(target)         \
    }
int context_option_check(uint64_t context);

typedef struct generator {
    const common_options *common;
    const char *adapter; /* a file; NULL: none */
    failure failure;

    kn_model *model;

    kn_vocabulary *words;    /* of a language model; NULL: `vocabulary` */
    const char *vocabulary;  /* of a model trained on text; "": bytes */
    uint32_t *begins;        /* byte offset of each token in the vocabulary, and of its end */
    uint32_t between;        /* bytes of the separator: 1 if tokens may have several characters */
    int token_count;         /* 256 for bytes */
    int64_t window, answers; /* the input length, and the vocabulary size */

    int64_t slots; /* texts that the model can write at once; 0 before the start: 1 */
    kn_context *context;
    kn_states *states;
    kn_value *input, *output;
    /* Stateful sessions for one token and for pieces of a text, and, with several slots, for a token of each
     * text in the first 1, 2, 4 … slots, opened when first needed; or one for the whole window. */
    kn_session *single, *pieces[GENERATOR_PIECES], *together[GENERATOR_POWERS], *session;
    bool on;       /* the state remains valid beyond the window */
    int32_t *x;    /* the tokens of a run */
    float *logits; /* (slots,answers), or (1,window,answers) without stateful sessions */
} generator;

/* A text that the model writes. */
typedef struct generator_text {
    int32_t slot; /* its own, below the generator's slots */
    kn_draw_params drawing;
    int32_t *tokens; /* all so far: (room) */
    uint64_t used, room;
    uint64_t kept; /* how many of them are in the states */

    kn_decoding decoding;     /* the state of the generated text */
    const char *const *stops; /* texts before which it ends; owned by the caller */
    size_t stop_count;
    char *answer; /* the generated text, terminated; it may contain zero bytes */
    size_t answer_bytes, answer_room;
    bool stopped; /* by a stop text */
} generator_text;

/* Takes over the model of a file (NULL: `failure` is set) and opens the adapter; reads the vocabulary of the
 * file and the sizes of the model. Opens no device. */
bool generator_open(generator *self, const char *file, kn_model *model);
/* Opens the device and the sessions, and loads the weights. `slots` becomes 1 if the model can write only one
 * text at once. */
bool generator_start(generator *self);
void generator_finish(generator *self);
void generator_text_finish(generator_text *text);

/* The tokens of a prompt that the model continues, at least one; released with free. */
bool generator_encode(generator *self, const char *prompt, size_t bytes, int32_t **tokens, size_t *count);
/* How many of these tokens the model has read with the text in its slot. */
size_t generator_shared(const generator_text *text, const int32_t *tokens, size_t count);
/* Makes the tokens, which are taken over, the text, and begins an answer. What the model has read of them is
 * kept. `continued`: the answer continues the text, otherwise it is a new text, such as a turn in a
 * conversation. */
bool generator_take(generator *self, generator_text *text, int32_t *tokens, size_t count, bool continued);
/* Whether there is room for another token without dropping the beginning of the text. */
bool generator_has_room(const generator *self, const generator_text *text);
/* Reads the next piece of the text. Once it has read all, draws the next token and sets *drawn. */
bool generator_step(generator *self, generator_text *text, int32_t *token, bool *drawn);
/* Whether only the last token of the text is unread, so that a step may read it together with other texts. */
bool generator_can_join(const generator *self, const generator_text *text);
/* Reads the last token of each of these texts, and draws their next tokens, (count). */
bool generator_step_together(generator *self, generator_text *const *texts, size_t count, int32_t *tokens);
/* Appends a token to the text and to the answer. Half a character is kept back until the next token completes
 * it. Sets `stopped` if the answer has a stop text, and ends the answer before it. */
bool generator_add(generator *self, generator_text *text, int32_t token);
/* Whether the text ends with this token. */
bool generator_ends(const generator *self, int32_t token);
/* The bytes of the answer that cannot become part of a stop text. */
size_t generator_ready(const generator_text *text);

#endif
