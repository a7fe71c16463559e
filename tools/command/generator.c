/* Text generation: the model's prediction of the next token after a text. */
#include "generator.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "batch.h"
#include "training.h"

enum { MAX_TOKENS = 1 << 20 };

int context_option_check(uint64_t context) {
    return context <= INT32_MAX ? EXIT_DONE
                                : command_misuse("--context is %llu; expected at most %d",
                                                 (unsigned long long)context, INT32_MAX);
}

/* ---- tokens ----------------------------------------------------------------------------------------- */

static bool open_words(generator *self, const char *file) {
    struct stat about;
    const bool own = path_ends(file, ".gguf", false) || (stat(file, &about) == 0 && S_ISDIR(about.st_mode));
    self->words = own ? kn_vocabulary_open(file, NULL) : NULL;
    if (own && kn_vocabulary_status(self->words) != KN_OK)
        return failure_set(&self->failure, FAILURE_OTHER, "%s",
                           self->words ? kn_vocabulary_error(self->words) : "out of memory");
    self->token_count = kn_vocabulary_size(self->words);
    return own ||
           failure_set(&self->failure, FAILURE_OTHER,
                       "'%s' has no vocabulary: expected a folder, a GGUF file, or a model trained on text, "
                       "as by koine train char-rnn --data text:FILE",
                       file);
}

static bool read_vocabulary(generator *self, const char *file) {
    self->vocabulary = kn_model_metadata(self->model, "data.vocabulary");
    if (!self->vocabulary) return open_words(self, file);
    if (!self->vocabulary[0]) {
        self->token_count = 256;
        return true;
    }
    size_t bytes = strlen(self->vocabulary);
    self->begins = malloc((bytes + 1) * sizeof *self->begins);
    if (!self->begins || bytes > 4 * MAX_TOKENS)
        return failure_set(&self->failure, FAILURE_MEMORY, "out of memory");
    self->between = tokens_are_joined(self->vocabulary);
    for (size_t i = 0; i < bytes; i++)
        if (self->between ? i > 0 && self->vocabulary[i - 1] == 0x1e
                          : ((unsigned char)self->vocabulary[i] & 0xc0) != 0x80)
            self->begins[self->token_count++] = (uint32_t)i;
    self->begins[self->token_count] = (uint32_t)bytes + self->between;
    return true;
}

static bool encode_words(generator *self, const char *prompt, size_t bytes, int32_t *tokens, size_t room,
                         size_t *count) {
    const unsigned flags = KN_TEXT_ADD_ENDS | KN_TEXT_READ_SPECIAL;
    kn_status status = kn_vocabulary_encode(self->words, prompt, bytes, flags, tokens, room, count);
    return status == KN_OK || failure_set(&self->failure, failure_cause_of(status, FAILURE_REQUEST),
                                          "the prompt: %s", kn_status_message(status));
}

static bool encode_characters(generator *self, const char *prompt, size_t bytes, int32_t *tokens,
                              size_t *count) {
    size_t known;
    if (memchr(prompt, 0, bytes))
        return failure_set(&self->failure, FAILURE_REQUEST, "the prompt has a zero byte");
    kn_status status = kn_text_encode(NULL, self->vocabulary, prompt, tokens, count, &known);
    if (status == KN_OK) return true;
    const char *at = prompt + known;
    if (status != KN_ERROR_NOT_FOUND)
        return failure_set(&self->failure, failure_cause_of(status, FAILURE_REQUEST), "the prompt: %s",
                           kn_status_message(status));
    return failure_set(
        &self->failure, FAILURE_REQUEST,
        "the prompt has '%.*s…', which is not a token of the text that the model was trained on",
        (int)strcspn(at, "\n") < 12 ? (int)strcspn(at, "\n") : 12, at);
}

/* What a text without a prompt begins with: the token for it, or as after a newline. */
static int32_t first_token(const generator *self) {
    int32_t begin = 0;
    size_t count, bytes;
    if (self->words) {
        begin = kn_vocabulary_role(self->words, KN_TEXT_ROLE_BEGIN);
        return begin < 0 ? kn_vocabulary_role(self->words, KN_TEXT_ROLE_END) : begin;
    }
    return kn_text_encode(NULL, self->vocabulary, "\n", &begin, &count, &bytes) == KN_OK ? begin : 0;
}

bool generator_encode(generator *self, const char *prompt, size_t bytes, int32_t **tokens, size_t *count) {
    size_t room = bytes;
    *tokens = NULL;
    if (self->words && !encode_words(self, prompt, bytes, NULL, 0, &room)) return false;
    int32_t *made = malloc((room + 1) * sizeof *made);
    if (!made) return failure_set(&self->failure, FAILURE_MEMORY, "out of memory for the text");
    if (!(self->words ? encode_words(self, prompt, bytes, made, room, count)
                      : encode_characters(self, prompt, bytes, made, count))) {
        free(made);
        return false;
    }
    if (!*count) made[(*count)++] = first_token(self);
    *tokens = made;
    return true;
}

size_t generator_shared(const generator_text *text, const int32_t *tokens, size_t count) {
    size_t same = 0;
    while (same < text->kept && same + 1 < count && text->tokens[same] == tokens[same])
        same++;
    return same;
}

bool generator_take(generator *self, generator_text *text, int32_t *tokens, size_t count, bool continued) {
    char ignored_text[1024];
    size_t ignored;
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= self->answers) {
            failure_set(&self->failure, FAILURE_REQUEST,
                        "the text has the token %d, but the model has only %lld", (int)tokens[i],
                        (long long)self->answers);
            free(tokens);
            return false;
        }
    const size_t same = generator_shared(text, tokens, count);
    free(text->tokens);
    text->tokens = tokens;
    text->used = text->room = count;
    text->kept = self->words && !self->on ? same : 0; /* recurrent states cannot go back */
    text->answer_bytes = 0;
    text->stopped = false;
    text->decoding = (kn_decoding)KN_DECODING_DEFAULTS;
    if (!self->words || !continued) return true;
    return kn_vocabulary_decode(self->words, tokens + count - 1, 1, 0, &text->decoding, ignored_text,
                                sizeof ignored_text, &ignored) == KN_OK ||
           failure_set(&self->failure, FAILURE_REQUEST, "the prompt cannot be decoded");
}

bool generator_has_room(const generator *self, const generator_text *text) {
    return self->on || text->used < (uint64_t)self->window;
}

bool generator_ends(const generator *self, int32_t token) {
    return self->words && kn_vocabulary_ends(self->words, token);
}

/* ---- the answer ------------------------------------------------------------------------------------- */

size_t generator_ready(const generator_text *text) {
    size_t most = 0;
    for (size_t i = 0; i < text->stop_count; i++) {
        size_t length = strlen(text->stops[i]);
        if (length > text->answer_bytes) length = text->answer_bytes;
        while (length > most &&
               memcmp(text->answer + text->answer_bytes - length, text->stops[i], length) != 0)
            length--;
        if (length > most) most = length;
    }
    return text->answer_bytes - most;
}

/* Ends the answer before the first stop text that ends after its first `before` bytes. */
static void find_stop(generator_text *text, size_t before) {
    size_t found = text->answer_bytes;
    for (size_t i = 0; i < text->stop_count; i++) {
        const size_t length = strlen(text->stops[i]);
        for (size_t at = before < length ? 0 : before - length + 1;
             length && at < found && at + length <= text->answer_bytes; at++)
            if (memcmp(text->answer + at, text->stops[i], length) == 0) found = at;
    }
    if (found == text->answer_bytes) return;
    text->answer_bytes = found;
    text->stopped = true;
}

static bool add_answer(generator *self, generator_text *text, const char *added, size_t bytes) {
    const size_t before = text->answer_bytes;
    if (before + bytes + 1 > text->answer_room) {
        const size_t room = 2 * (before + bytes + 1);
        char *more = realloc(text->answer, room);
        if (!more) return failure_set(&self->failure, FAILURE_MEMORY, "out of memory for the text");
        text->answer = more;
        text->answer_room = room;
    }
    memcpy(text->answer + before, added, bytes);
    text->answer_bytes += bytes;
    find_stop(text, before);
    text->answer[text->answer_bytes] = '\0';
    return true;
}

bool generator_add(generator *self, generator_text *text, int32_t token) {
    char added[1024] = {(char)token};
    size_t bytes = 1;
    if (text->used == text->room) {
        const uint64_t room = 2 * text->room;
        int32_t *more = realloc(text->tokens, (size_t)room * sizeof *more);
        if (!more) return failure_set(&self->failure, FAILURE_MEMORY, "out of memory for the text");
        text->tokens = more;
        text->room = room;
    }
    text->tokens[text->used++] = token;
    if (self->words) {
        kn_vocabulary_decode(self->words, &token, 1, KN_TEXT_SKIP_SPECIAL, &text->decoding, added,
                             sizeof added, &bytes);
        return add_answer(self, text, added, bytes < sizeof added ? bytes : sizeof added);
    }
    if (!self->begins) return add_answer(self, text, added, 1);
    return add_answer(self, text, self->vocabulary + self->begins[token],
                      self->begins[token + 1] - self->begins[token] - self->between);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

/* x is (1,window) and the output (1,window,answers): the next token's logits at each position. */
bool generator_open(generator *self, const char *file, kn_model *model) {
    if (!(self->model = model)) return false;
    if (self->adapter && kn_model_open_adapter(model, self->adapter) != KN_OK)
        return failure_set(&self->failure, FAILURE_OTHER, "--adapter: %s", kn_model_error(model));
    if (!read_vocabulary(self, file)) return false;
    self->input = kn_model_input_at(self->model, 0);
    self->output = kn_model_output_at(self->model, 0);
    bool fits = kn_model_input_count(self->model) == 1 && kn_value_dtype(self->input) == KN_INT32 &&
                kn_value_rank(self->input) == 2 && kn_value_rank(self->output) == 3;
    if (fits) {
        self->window = kn_value_dimension(self->input, 1);
        self->answers = kn_value_dimension(self->output, 2);
        fits = self->window > 0 && self->answers >= self->token_count &&
               kn_value_dimension(self->output, 1) == self->window &&
               self->window < INT32_MAX / self->answers;
    }
    if (!fits)
        return failure_set(&self->failure, FAILURE_OTHER,
                           "'%s' cannot generate text: expected one input of (batch,length) tokens and an "
                           "output of (batch,length,%d) for the next token",
                           file, self->token_count);
    self->x = calloc((size_t)self->window + GENERATOR_SLOTS, sizeof *self->x);
    return self->x || failure_set(&self->failure, FAILURE_MEMORY, "out of memory for the text");
}

static kn_session_params session_params(const generator *self) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = self->states;
    arithmetic_apply(&self->common->arithmetic, &params);
    return params;
}

/* A session for a graph of incremental decoding; NULL if the model does not support it. */
static kn_session *open_graph(const generator *self, kn_graph *graph, kn_value *output) {
    const kn_session_params params = session_params(self);
    if (!graph) return NULL;
    kn_session *session = kn_session_create(self->context, &output, 1, &params);
    kn_graph_destroy(&graph);
    if (kn_session_status(session) != KN_OK) kn_session_destroy(&session);
    return session;
}

/* It reads `rows` tokens of one text at once, and returns the logits of the last. */
static kn_session *open_step(const generator *self, int64_t rows) {
    kn_value *output;
    kn_graph *graph = self->slots > 1 ? kn_model_step_slot(self->model, rows, self->slots, &output)
                                      : kn_model_step_last(self->model, rows, &output);
    return open_graph(self, graph, output);
}

/* It reads a token of each text in the first slots, as many as a power of two, at most all. */
static int64_t slots_together(const generator *self, int power) {
    return (int64_t)1 << power < self->slots ? (int64_t)1 << power : self->slots;
}

static kn_session *open_together(const generator *self, int power) {
    kn_value *output;
    kn_graph *graph = kn_model_step_texts(self->model, slots_together(self, power), self->slots, &output);
    return open_graph(self, graph, output);
}

static int64_t piece_rows(const generator *self, int piece) {
    const int64_t rows = (int64_t)GENERATOR_LEAST << piece;
    return rows < self->window ? rows : self->window;
}

static bool open_whole(generator *self) {
    const kn_session_params params = session_params(self);
    kn_session_destroy(&self->single);
    self->session = kn_session_create(self->context, &self->output, 1, &params);
    return kn_session_status(self->session) == KN_OK ||
           failure_set_session(&self->failure, self->session, kn_session_status(self->session));
}

bool generator_start(generator *self) {
    self->context = context_open(self->common);
    if (!self->context || !devices_join(self->context, self->common, self->model))
        return failure_set(&self->failure, FAILURE_OTHER, "%s", ""); /* it was reported */
    self->states = kn_states_create(self->context, 1);
    self->on = kn_model_can_stream(self->model);
    self->together[0] = self->slots > 1 && !self->on ? open_together(self, 0) : NULL;
    if (!self->together[0]) self->slots = 1; /* the model has no slots */
    self->single = self->slots > 1 ? NULL : open_step(self, 1);
    self->pieces[0] = self->together[0] || self->single ? open_step(self, piece_rows(self, 0)) : NULL;
    if (!self->pieces[0] && !open_whole(self)) return false;
    const size_t rows = (size_t)(self->session ? self->window : self->slots);
    self->logits = malloc(rows * (size_t)self->answers * sizeof *self->logits);
    if (!self->logits) return failure_set(&self->failure, FAILURE_MEMORY, "out of memory for the logits");
    if (kn_model_load(self->model, NULL, self->states, NULL, NULL) == KN_OK &&
        (!self->adapter || kn_model_load_adapter(self->model, self->adapter, self->states) == KN_OK))
        return true;
    return failure_set(&self->failure, FAILURE_OTHER, "%s", kn_model_error(self->model));
}

void generator_finish(generator *self) {
    kn_session_destroy(&self->session);
    for (int i = 0; i < GENERATOR_PIECES; i++)
        kn_session_destroy(&self->pieces[i]);
    kn_session_destroy(&self->single);
    for (int i = 0; i < GENERATOR_POWERS; i++)
        kn_session_destroy(&self->together[i]);
    kn_states_destroy(&self->states);
    kn_model_destroy(&self->model);
    kn_vocabulary_destroy(&self->words);
    kn_context_destroy(&self->context);
    free(self->begins);
    free(self->x);
    free(self->logits);
}

void generator_text_finish(generator_text *text) {
    free(text->tokens);
    free(text->answer);
    text->tokens = NULL;
    text->answer = NULL;
}

/* ---- generation ------------------------------------------------------------------------------------- */

/* Sets `results` rows of logits. */
static bool run_session(generator *self, kn_session *session, const kn_feed *feeds, size_t count,
                        int64_t results) {
    kn_fetch fetch = {kn_value_name(self->output), self->logits,
                      (size_t)(results * self->answers) * sizeof *self->logits};
    kn_status status = kn_session_run(session, feeds, count, &fetch, 1);
    return status == KN_OK || failure_set_session(&self->failure, session, status);
}

/* The tokens x that a session reads. */
static kn_feed tokens_feed(const generator *self, int64_t count) {
    return (kn_feed){kn_value_name(self->input), self->x, (size_t)count * sizeof *self->x};
}

/* Reads a piece of the text from token `begin` on, at position `start`; one token where a piece with its
 * padding would not fit in the window. */
static bool read_piece(generator *self, generator_text *text, uint64_t begin, uint64_t start) {
    const uint64_t left = text->used - begin;
    int piece = 0;
    while (piece + 1 < GENERATOR_PIECES && (uint64_t)piece_rows(self, piece) < left &&
           piece_rows(self, piece) < self->window)
        piece++;
    while (piece > 0 && !self->on && start + (uint64_t)piece_rows(self, piece) > (uint64_t)self->window)
        piece--;
    int64_t rows = piece_rows(self, piece);
    kn_session **session = &self->pieces[piece];
    if (left == 1 || (!self->on && start + (uint64_t)rows > (uint64_t)self->window)) {
        rows = 1;
        session = &self->single;
    }
    if (!*session && !(*session = open_step(self, rows)))
        return failure_set(&self->failure, FAILURE_MEMORY, "out of memory for reading %lld tokens",
                           (long long)rows);
    const int32_t first = (int32_t)start, count = (int32_t)(left < (uint64_t)rows ? left : (uint64_t)rows);
    const kn_feed feeds[4] = {tokens_feed(self, rows),
                              {"step.start", &first, sizeof first},
                              {"step.count", &count, sizeof count},
                              {"step.slot", &text->slot, sizeof text->slot}};
    memset(self->x, 0, (size_t)rows * sizeof *self->x);
    memcpy(self->x, text->tokens + begin, (size_t)count * sizeof *self->x);
    if (!run_session(self, *session, feeds, self->slots > 1 ? 4 : 3, 1)) return false;
    text->kept = begin + (uint64_t)count;
    return true;
}

static bool draw(generator *self, const generator_text *text, const float *logits, int32_t *token) {
    kn_status status = kn_draw_token(&text->drawing, logits, (size_t)self->token_count, text->tokens,
                                     (size_t)text->used, text->used, token);
    return status == KN_OK || failure_set(&self->failure, FAILURE_OTHER, "cannot draw a token: %s",
                                          status == KN_ERROR_NOT_FINITE ? "the model's logits are not finite"
                                                                        : kn_status_message(status));
}

/* The model is causal: later tokens in the window do not affect earlier ones. While the window has room, or
 * the state stays valid beyond it, a stateful model reads only new tokens. */
bool generator_step(generator *self, generator_text *text, int32_t *token, bool *drawn) {
    const uint64_t window = (uint64_t)self->window, seen = text->used < window ? text->used : window;
    const float *logits = self->logits;
    *drawn = false;
    if (self->session) {
        const kn_feed feed = tokens_feed(self, self->window);
        memcpy(self->x, text->tokens + text->used - seen, (size_t)seen * sizeof *self->x);
        if (!run_session(self, self->session, &feed, 1, self->window)) return false;
        logits += (seen - 1) * (uint64_t)self->answers;
    } else if (text->used <= window || (self->on && text->kept > 0)) {
        if (!read_piece(self, text, text->kept, text->kept)) return false;
        if (text->kept < text->used) return true;
    } else {
        const uint64_t begin = text->used - seen;
        for (text->kept = begin; text->kept < text->used;)
            if (!read_piece(self, text, text->kept, text->kept - begin)) return false;
        if (!self->on) text->kept = 0; /* the next token moves all positions */
    }
    *drawn = draw(self, text, logits, token);
    return *drawn;
}

bool generator_can_join(const generator *self, const generator_text *text) {
    return self->slots > 1 && text->used - text->kept == 1 && text->used <= (uint64_t)self->window;
}

bool generator_step_together(generator *self, generator_text *const *texts, size_t count, int32_t *tokens) {
    int32_t starts[GENERATOR_SLOTS];
    int power = 0;
    for (size_t i = 0; i < count; i++)
        while (texts[i]->slot >= slots_together(self, power))
            power++;
    const int64_t slots = slots_together(self, power);
    kn_session **session = &self->together[power];
    if (!*session && !(*session = open_together(self, power)))
        return failure_set(&self->failure, FAILURE_MEMORY, "out of memory for %lld texts at once",
                           (long long)slots);
    for (int64_t i = 0; i < slots; i++) {
        self->x[i] = 0;
        starts[i] = -1; /* nothing to read */
    }
    for (size_t i = 0; i < count; i++) {
        self->x[texts[i]->slot] = texts[i]->tokens[texts[i]->kept];
        starts[texts[i]->slot] = (int32_t)texts[i]->kept;
    }
    const kn_feed feeds[2] = {tokens_feed(self, slots),
                              {"step.start", starts, (size_t)slots * sizeof *starts}};
    if (!run_session(self, *session, feeds, 2, slots)) return false;
    for (size_t i = 0; i < count; i++) {
        const float *logits = self->logits + (size_t)texts[i]->slot * (size_t)self->answers;
        if (!draw(self, texts[i], logits, &tokens[i])) return false;
        texts[i]->kept++;
    }
    return true;
}
