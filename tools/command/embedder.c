/* Vectors of texts by an encoder, a few texts at a time. */
#include "embedder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "infer_texts.h"

bool embedder_start(embedder *self, kn_model *model) {
    self->model = model;
    texts_fit(model, &self->window);
    self->width = kn_value_dimension(kn_model_output_at(model, 0), 1);
    if (self->width < 1 || self->width > INT32_MAX)
        return failure_set(&self->failure, FAILURE_OTHER, "'%s' computes vectors of unknown size",
                           self->file);
    self->words = kn_vocabulary_open(self->file, NULL);
    if (kn_vocabulary_status(self->words) != KN_OK)
        return failure_set(&self->failure, FAILURE_OTHER, "%s",
                           self->words ? kn_vocabulary_error(self->words) : "out of memory");
    self->tokens = malloc(EMBEDDER_ROWS * (size_t)self->window * sizeof *self->tokens);
    if (!self->tokens) return failure_set(&self->failure, FAILURE_MEMORY, "out of memory for the tokens");
    self->context = context_open(self->common);
    if (!self->context || !devices_join(self->context, self->common, model))
        return failure_set(&self->failure, FAILURE_OTHER, "%s", ""); /* it was reported */
    self->states = kn_states_create(self->context, 1);
    return true;
}

/* The session for texts of this length, the `place`-th one. Weights have the same names in all models of a
 * file, which therefore share them. */
static kn_session *session_of(embedder *self, int64_t length, int place) {
    kn_session **session = &self->sessions[place];
    kn_model *model = self->model;
    if (*session) return *session;
    if (length < self->window) {
        kn_model_destroy(&self->models[place]);
        model = self->models[place] = model_open_window(self->file, length, &self->failure);
        if (!model) return NULL;
    }
    kn_value *output = kn_model_output_at(model, 0);
    *session = batch_session(self->context, &output, 1, self->states, &self->common->arithmetic, NULL);
    if (kn_session_status(*session) != KN_OK)
        failure_set_session(&self->failure, *session, kn_session_status(*session));
    else if (kn_model_load(model, NULL, self->states, NULL, NULL) != KN_OK)
        failure_set(&self->failure, FAILURE_OTHER, "%s", kn_model_error(model));
    else
        return *session;
    kn_session_destroy(session);
    return NULL;
}

bool embedder_run(embedder *self, const char *const *texts, const size_t *bytes, size_t count, float *vectors,
                  uint64_t *tokens) {
    int32_t lengths[EMBEDDER_ROWS];
    int64_t longest = 0;
    memset(self->tokens, 0, count * (size_t)self->window * sizeof *self->tokens);
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        kn_status status = texts_encode(self->words, texts[i], bytes[i],
                                        self->tokens + i * (size_t)self->window, self->window, &length);
        if (status != KN_OK)
            return failure_set(&self->failure, failure_cause_of(status, FAILURE_REQUEST), "a text: %s",
                               kn_status_message(status));
        if (!length) return failure_set(&self->failure, FAILURE_REQUEST, "a text has no tokens");
        lengths[i] = (int32_t)length;
        *tokens += length;
        if (lengths[i] > longest) longest = lengths[i];
    }
    const int64_t window = texts_window(longest, self->window);
    int place = 0;
    while (texts_window(1, self->window) << place < window)
        place++;
    texts_shorten(self->tokens, count, self->window, window);
    kn_session *session = session_of(self, window, place);
    if (!session) return false;
    const kn_feed feeds[2] = {{"x", self->tokens, count * (size_t)window * sizeof *self->tokens},
                              {"length", lengths, count * sizeof *lengths}};
    const kn_model *model = self->models[place] ? self->models[place] : self->model;
    const kn_fetch fetch = {kn_value_name(kn_model_output_at(model, 0)), vectors,
                            count * (size_t)self->width * sizeof *vectors};
    kn_status status = batch_bind(session, (int64_t)count);
    if (status == KN_OK) status = kn_session_run(session, feeds, 2, &fetch, 1);
    if (status != KN_OK) return failure_set_session(&self->failure, session, status);
    for (size_t i = 0; i < count * (size_t)self->width; i++)
        if (!isfinite(vectors[i]))
            return failure_set(&self->failure, FAILURE_OTHER, "the vector of a text is not finite");
    return true;
}

void embedder_finish(embedder *self) {
    for (int i = 0; i < EMBEDDER_LENGTHS; i++) {
        kn_session_destroy(&self->sessions[i]);
        kn_model_destroy(&self->models[i]);
    }
    kn_states_destroy(&self->states);
    kn_model_destroy(&self->model);
    kn_vocabulary_destroy(&self->words);
    kn_context_destroy(&self->context);
    free(self->tokens);
}
