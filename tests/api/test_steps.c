/* A model that generates token by token computes the same as for its whole window. */
#include "api_tests.h"

#include <math.h>
#include <stdio.h>

enum { WINDOW = 9, ANSWERS = 7, PROMPT = 4 };

static const char text[] = "koine 1\n"
                           "model small\n"
                           "input x 9 int32\n"
                           "place = parameter 9x12 init=normal:1\n"
                           "sign = embedding @x 7 12\n"
                           "begin = add @sign @place\n"
                           "layernorm\n"
                           "linear 36\n"
                           "attention heads=2 causal=1\n"
                           "seen = add @ @begin\n"
                           "dropout 0.5\n"
                           "q = linear @seen 12\n"
                           "k = linear @seen 6\n"
                           "turned = rotary @q heads=2\n"
                           "attention_dropout @turned @k @k heads=2 key_heads=1 causal rate=0.5\n"
                           "gelu_tanh\n"
                           "logits = linear 7 bias=no\n";

/* Likewise for a layer whose state training carries from step to step: outside training it starts with zeros.
 */
static const char recurrent_text[] = "koine 1\n"
                                     "model walk\n"
                                     "input x 9 int32\n"
                                     "embedding 7 12\n"
                                     "lstm 5 layers=2\n"
                                     "gru 6 stateful=yes\n"
                                     "rnn 4\n"
                                     "logits = linear 7 bias=no\n";

static void good(const kn_session *session, kn_status status) {
    if (status != KN_OK) fail_msg("%s", session ? kn_session_error(session) : "no memory");
}

static kn_session *open_output(kn_context *context, kn_states *states, kn_value *output) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    kn_session *session = kn_session_create(context, &output, 1, &params);
    good(session, kn_session_status(session));
    return session;
}

/* Destroys the graph, which makes a step of the model. */
static kn_session *open_graph(kn_context *context, kn_states *states, kn_graph *graph, kn_value *output) {
    assert_non_null(graph);
    kn_session *session = open_output(context, states, output);
    kn_graph_destroy(&graph);
    return session;
}

static kn_session *open_step(const kn_model *model, kn_context *context, kn_states *states, int64_t rows) {
    kn_value *output;
    if (!rows) return open_output(context, states, kn_model_output_at(model, 0));
    kn_graph *graph = kn_model_step(model, rows, &output);
    return open_graph(context, states, graph, output);
}

static void run(kn_session *session, const int32_t *x, int32_t start, int32_t rows, float *logits) {
    kn_feed feeds[3] = {
        {"x", x, (size_t)rows * sizeof *x}, {"step.start", &start, sizeof start}, {"step.count", &rows, 4}};
    kn_fetch fetch = {"logits", logits, (size_t)rows * ANSWERS * sizeof *logits};
    good(session, kn_session_run(session, feeds, start < 0 ? 1 : 3, &fetch, 1));
}

static void compare(const float *got, const float *expected, int place, int rows) {
    for (int i = 0; i < rows * ANSWERS; i++)
        if (!(fabsf(got[i] - expected[place * ANSWERS + i]) <= 1e-5f))
            fail_msg("place %d, number %d: %g; expected %g", place, i, (double)got[i],
                     (double)expected[place * ANSWERS + i]);
}

TEST(steps_are_the_whole) {
    kn_context *context = kn_context_create(NULL);
    kn_model *model = kn_model_parse(text, NULL);
    if (kn_model_status(model)) fail_msg("%s", kn_model_error(model));
    kn_states *states = kn_states_create(context, 3);
    kn_session *whole = open_step(model, context, states, 0),
               *prompt = open_step(model, context, states, PROMPT),
               *single = open_step(model, context, states, 1);
    const int32_t x[WINDOW] = {3, 1, 4, 1, 5, 0, 2, 6, 5}, unlike[PROMPT] = {3, 1, 0, 0};
    float expected[WINDOW * ANSWERS], got[WINDOW * ANSWERS];
    run(whole, x, -1, WINDOW, expected);
    run(prompt, unlike, 0, PROMPT, got); /* two tokens, and positions that are overwritten */
    compare(got, expected, 0, 2);
    for (int32_t place = 2; place < WINDOW; place++) {
        run(single, x + place, place, 1, got);
        compare(got, expected, place, 1);
    }
    run(prompt, x, 0, PROMPT, got);
    compare(got, expected, 0, PROMPT);
    run(prompt, x + PROMPT, PROMPT, PROMPT, got);
    compare(got, expected, PROMPT, PROMPT);
    kn_session_destroy(&whole);
    kn_session_destroy(&prompt);
    kn_session_destroy(&single);
    kn_states_destroy(&states);
    kn_model_destroy(&model);
    kn_context_destroy(&context);
}

enum { SLOTS = 3 };

static kn_session *open_slots(const kn_model *model, kn_context *context, kn_states *states, int64_t rows,
                              int64_t texts) {
    kn_value *output;
    kn_graph *graph = texts ? kn_model_step_texts(model, texts, SLOTS, &output)
                            : kn_model_step_slot(model, rows, SLOTS, &output);
    return open_graph(context, states, graph, output);
}

/* Reads `count` of PROMPT rows; the logits are those of the last one. */
static void run_slot(kn_session *session, int32_t slot, const int32_t *x, int32_t start, int32_t count,
                     float *logits) {
    const kn_feed feeds[] = {{"x", x, PROMPT * sizeof *x},
                             {"step.start", &start, sizeof start},
                             {"step.count", &count, sizeof count},
                             {"step.slot", &slot, sizeof slot}};
    kn_fetch fetch = {"logits", logits, ANSWERS * sizeof *logits};
    good(session, kn_session_run(session, feeds, 4, &fetch, 1));
}

/* A row of each text, at places[text]; -1: none. */
static void run_texts(kn_session *session, int32_t (*x)[WINDOW], const int32_t *places, int32_t texts,
                      float *logits) {
    int32_t rows[SLOTS] = {0};
    for (int32_t i = 0; i < texts; i++)
        if (places[i] >= 0) rows[i] = x[i][places[i]];
    const kn_feed feeds[] = {{"x", rows, (size_t)texts * sizeof *rows},
                             {"step.start", places, (size_t)texts * sizeof *places}};
    kn_fetch fetch = {"logits", logits, (size_t)texts * ANSWERS * sizeof *logits};
    good(session, kn_session_run(session, feeds, 2, &fetch, 1));
}

/* Texts in slots, of which some begin later and are read in pieces between the rows of the others. */
TEST(texts_in_slots_are_the_whole) {
    kn_context *context = kn_context_create(NULL);
    kn_model *model = kn_model_parse(text, NULL);
    if (kn_model_status(model)) fail_msg("%s", kn_model_error(model));
    kn_states *states = kn_states_create(context, 3);
    kn_session *whole = open_step(model, context, states, 0),
               *piece = open_slots(model, context, states, PROMPT, 0),
               *two = open_slots(model, context, states, 1, 2),
               *three = open_slots(model, context, states, 1, 3);
    int32_t x[SLOTS][WINDOW] = {
        {3, 1, 4, 1, 5, 0, 2, 6, 5}, {0, 6, 6, 2, 1, 3, 5, 4, 4}, {2, 2, 1, 0, 3, 3, 6, 1, 0}};
    float expected[SLOTS][WINDOW * ANSWERS], got[SLOTS * ANSWERS];
    for (int i = 0; i < SLOTS; i++)
        run(whole, x[i], -1, WINDOW, expected[i]);
    run_slot(piece, 1, x[1], 0, PROMPT, got);
    compare(got, expected[1], PROMPT - 1, 1);
    int32_t places[SLOTS] = {-1, PROMPT, -1};
    run_texts(two, x, places, 2, got);
    compare(got + ANSWERS, expected[1], PROMPT, 1);
    run_slot(piece, 0, x[0], 0, 2, got);
    compare(got, expected[0], 1, 1);
    run_slot(piece, 2, x[2], 0, 3, got);
    compare(got, expected[2], 2, 1);
    for (int step = 1; step < 4; step++) {
        places[0] = 1 + step;
        places[1] = PROMPT + step;
        places[2] = step < 3 ? 2 + step : -1;
        run_texts(step < 3 ? three : two, x, places, step < 3 ? 3 : 2, got);
        for (int i = 0; i < (step < 3 ? 3 : 2); i++)
            compare(got + (size_t)i * ANSWERS, expected[i], places[i], 1);
    }
    run_slot(piece, 2, x[2] + 5, 5, PROMPT, got);
    compare(got, expected[2], WINDOW - 1, 1);
    kn_session_destroy(&whole);
    kn_session_destroy(&piece);
    kn_session_destroy(&two);
    kn_session_destroy(&three);
    kn_states_destroy(&states);
    kn_model_destroy(&model);
    kn_context_destroy(&context);
}

/* A prompt that fills some of the rows, then token by token, then from the start again. */
TEST(recurrent_steps_are_the_whole) {
    kn_context *context = kn_context_create(NULL);
    kn_model *model = kn_model_parse(recurrent_text, NULL);
    if (kn_model_status(model)) fail_msg("%s", kn_model_error(model));
    assert_true(kn_model_can_stream(model));
    kn_states *states = kn_states_create(context, 3);
    kn_session *whole = open_step(model, context, states, 0),
               *prompt = open_step(model, context, states, PROMPT),
               *single = open_step(model, context, states, 1);
    const int32_t x[WINDOW] = {3, 1, 4, 1, 5, 0, 2, 6, 5}, start = 0, count = 2;
    float expected[WINDOW * ANSWERS], got[WINDOW * ANSWERS];
    run(whole, x, -1, WINDOW, expected);
    for (int again = 0; again < 2; again++) {
        const kn_feed feeds[] = {
            {"x", x, sizeof *x * PROMPT}, {"step.start", &start, 4}, {"step.count", &count, 4}};
        kn_fetch fetch = {"logits", got, sizeof *got * PROMPT * ANSWERS};
        good(prompt, kn_session_run(prompt, feeds, 3, &fetch, 1));
        compare(got, expected, 0, count);
        for (int32_t place = count; place < WINDOW - 2 * again; place++) {
            run(single, x + place, place, 1, got);
            compare(got, expected, place, 1);
        }
    }
    run(prompt, x, 0, PROMPT, got);
    run(prompt, x + PROMPT, PROMPT, PROMPT, got);
    compare(got, expected, PROMPT, PROMPT);
    kn_session_destroy(&whole);
    kn_session_destroy(&prompt);
    kn_session_destroy(&single);
    kn_states_destroy(&states);
    kn_model_destroy(&model);
    kn_context_destroy(&context);
}

/* A model that reads other positions in a different way has no steps. */
TEST(others_are_refused) {
    static const char *const lines[] = {
        "attention heads=2", "lstm 36 bidirectional", "transpose permutation=0,2,1",
        "softmax axis=1",    "cumsum axis=1",         "flip axes=1"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char words[200];
        snprintf(words, sizeof words, "koine 1\ninput x 9 int32\nembedding @x 7 36\n%s\n", lines[i]);
        kn_model *model = kn_model_parse(words, NULL);
        if (kn_model_status(model)) fail_msg("%s", kn_model_error(model));
        kn_value *output;
        assert_null(kn_model_step(model, 1, &output));
        assert_null(output);
        assert_null(kn_model_step(model, 0, &output));
        assert_false(kn_model_can_stream(model));
        kn_model_destroy(&model);
    }
}

TEST_FILE(test_steps, NULL, NULL)
