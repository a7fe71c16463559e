/* The answers to requests for text, in OpenAI's form: whole ones, or streams of events. Each answer that is
 * being written has a slot of the generator; a step continues all of them. */
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "serve.h"

typedef struct serve_answering {
    serve_model *model;
    serve_job *job;
    serve_error error;
    generator_text *text; /* of the slot */
    char id[48];
    FILE *choices; /* of an answer that is not a stream, into choice_text */
    char *choice_text;
    size_t choice_bytes;
    uint64_t prompt_tokens, tokens;
    /* The choice that is being written. */
    size_t place; /* of its prompt in the request */
    int32_t *prompt;
    size_t prompt_count;
    uint64_t sample, made; /* made: its tokens */
    size_t index;          /* in the answer */
    size_t shown;          /* bytes of its text that were streamed */
} answering;

/* ---- the stream ------------------------------------------------------------------------------------- */

static bool fail_memory(answering *now) {
    return serve_refuse_memory(&now->error, "the answer");
}

/* Whole UTF-8 characters at the beginning of a text; a byte that is not UTF-8 is one by itself. */
static size_t whole_letters(const char *text, size_t bytes) {
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        const unsigned char byte = (unsigned char)text[bytes - back];
        if (byte < 0x80) return bytes;
        if (byte < 0xc0) continue;
        return back < (byte < 0xe0 ? 2u : byte < 0xf0 ? 3u : 4u) ? bytes - back : bytes;
    }
    return bytes;
}

static FILE *begin_object(answering *now, char **text, size_t *bytes) {
    const bool talk = now->job->request.kind == SERVE_CHAT, stream = now->job->request.stream;
    FILE *file = open_memstream(text, bytes);
    if (!file) {
        fail_memory(now);
        return NULL;
    }
    fprintf(file,
            "%s{\"id\": \"%s\", \"object\": \"%s\", \"created\": %lld, \"model\": ", stream ? "data: " : "",
            now->id,
            !talk    ? "text_completion"
            : stream ? "chat.completion.chunk"
                     : "chat.completion",
            now->model->created);
    json_text(file, now->model->name);
    fputs(", \"choices\": [", file);
    return file;
}

/* Sends what was written to the file, and closes it. */
static bool send_object(answering *now, FILE *file, char **text, const size_t *bytes) {
    fputs(now->job->request.stream ? "}\n\n" : "}\n", file);
    const bool fine = !fclose(file) && serve_job_write(now->job, 200, *text, *bytes);
    free(*text);
    return fine || fail_memory(now);
}

/* An event with the next part of a choice; text NULL: only its beginning or its end. */
static bool send_part(answering *now, const char *text, size_t count, const char *finish) {
    char *out = NULL;
    size_t bytes = 0;
    FILE *file = begin_object(now, &out, &bytes);
    if (!file) return false;
    fprintf(file, "{\"index\": %zu, ", now->index);
    if (now->job->request.kind == SERVE_CHAT) {
        fputs("\"delta\": {", file);
        if (!text && !finish) fputs("\"role\": \"assistant\", \"content\": \"\"", file);
        if (text) fputs("\"content\": ", file);
        if (text) json_bytes(file, text, count);
        putc('}', file);
    } else {
        fputs("\"text\": ", file);
        json_bytes(file, text ? text : "", count);
    }
    fputs(", \"logprobs\": null, \"finish_reason\": ", file);
    fprintf(file, finish ? "\"%s\"}]" : "null}]", finish);
    if (now->job->request.usage) fputs(", \"usage\": null", file);
    return send_object(now, file, &out, &bytes);
}

/* Streams what is final of the answer. */
static bool show(answering *now, bool end) {
    const generator_text *writer = now->text;
    size_t ready = end ? writer->answer_bytes : generator_ready(writer);
    if (!end) ready = now->shown + whole_letters(writer->answer + now->shown, ready - now->shown);
    if (!now->job->request.stream || ready <= now->shown) return true;
    const size_t before = now->shown;
    now->shown = ready;
    return send_part(now, writer->answer + before, ready - before, NULL);
}

/* ---- one choice ------------------------------------------------------------------------------------- */

bool serve_must_end(serve_job *job, serve_error *error) {
    if (serve_job_is_gone(job)) return !serve_refuse(error, 499, "gone", "", "the client has gone");
    if (interrupted()) return !serve_refuse_ending(error);
    if (!(clock_now() < job->deadline))
        return !serve_refuse(error, 503, "timeout", "",
                             "the answer was not complete within the time limit of the server (--timeout)");
    return false;
}

static bool fail_generator(answering *now) {
    return serve_refuse_failure(&now->error, &now->model->generator.failure, "");
}

static bool is_chat(const answering *now) {
    return now->job->request.kind == SERVE_CHAT;
}

/* Sets the tokens of the prompt. */
static bool encode_prompt(answering *now) {
    generator *writer = &now->model->generator;
    const serve_request *request = &now->job->request;
    free(now->prompt);
    now->prompt = NULL;
    if (is_chat(now) && !writer->words)
        return serve_refuse(&now->error, 400, "unsupported_model", "model",
                            "the model '%s' has no chat template; use /v1/completions", now->model->name);
    if (is_chat(now))
        now->prompt = chat_tokens(request->messages, writer->words, &now->prompt_count, &writer->failure);
    else
        generator_encode(writer, request->texts[now->place].text, request->texts[now->place].bytes,
                         &now->prompt, &now->prompt_count);
    if (!now->prompt) return fail_generator(now);
    now->prompt_tokens += now->prompt_count;
    return true;
}

static bool take_prompt(answering *now) {
    generator *writer = &now->model->generator;
    const size_t count = now->prompt_count;
    int32_t *copy = malloc(count * sizeof *copy);
    if (!copy) return fail_memory(now);
    memcpy(copy, now->prompt, count * sizeof *copy);
    if (!generator_take(writer, now->text, copy, count, !is_chat(now))) return fail_generator(now);
    return generator_has_room(writer, now->text) ||
           serve_refuse(&now->error, 400, "context_length_exceeded", is_chat(now) ? "messages" : "prompt",
                        "the %s has %zu tokens; expected fewer than %lld, the context of the model",
                        is_chat(now) ? "conversation" : "prompt", count, (long long)writer->window);
}

static bool begin_choice(answering *now) {
    const serve_request *request = &now->job->request;
    kn_draw_params *drawing = &now->text->drawing;
    *drawing = request->drawing;
    drawing->seed =
        now->sample + (request->seeded ? drawing->seed : now->model->seed + (now->job->number << 20));
    now->shown = 0;
    now->made = 0;
    return take_prompt(now) && (!is_chat(now) || !request->stream || send_part(now, NULL, 0, NULL));
}

static bool end_choice(answering *now, const char *finish) {
    const generator_text *text = now->text;
    if (!show(now, true)) return false;
    if (now->job->request.stream) {
        if (!send_part(now, NULL, 0, finish)) return false;
    } else {
        fprintf(now->choices, "%s{\"index\": %zu, %s: ", now->index ? ", " : "", now->index,
                is_chat(now) ? "\"message\": {\"role\": \"assistant\", \"content\"" : "\"text\"");
        json_bytes(now->choices, text->answer_bytes ? text->answer : "", text->answer_bytes);
        fprintf(now->choices, "%s, \"logprobs\": null, \"finish_reason\": \"%s\"}",
                is_chat(now) ? ", \"refusal\": null}" : "", finish);
    }
    now->index++;
    return true;
}

/* ---- the request ------------------------------------------------------------------------------------ */

static void write_usage(FILE *file, const answering *now) {
    fprintf(file,
            ", \"usage\": {\"prompt_tokens\": %llu, \"completion_tokens\": %llu, \"total_tokens\": %llu}",
            (unsigned long long)now->prompt_tokens, (unsigned long long)now->tokens,
            (unsigned long long)(now->prompt_tokens + now->tokens));
}

/* Ends a stream, or sends the whole answer with these choices. */
static bool send_end(answering *now, const char *choices) {
    const serve_request *request = &now->job->request;
    char *text = NULL;
    size_t bytes = 0;
    if (!request->stream || request->usage) {
        FILE *file = begin_object(now, &text, &bytes);
        if (!file) return false;
        fprintf(file, "%s]", choices);
        write_usage(file, now);
        if (!send_object(now, file, &text, &bytes)) return false;
    }
    static const char done[] = "data: [DONE]\n\n";
    return !request->stream || serve_job_write(now->job, 200, done, sizeof done - 1) || fail_memory(now);
}

/* Ends the answer with its error if it has one, and frees its slot. */
static void finish(answering *now) {
    serve_model *model = now->model;
    for (int i = 0; i < GENERATOR_SLOTS; i++)
        if (model->answers[i] == now) model->answers[i] = NULL;
    model->answer_count--;
    if (now->choices) fclose(now->choices);
    free(now->choice_text);
    free(now->prompt);
    if (now->error.status)
        serve_job_fail(now->job, &now->error);
    else
        serve_job_end(now->job);
    serve_job_release(now->job);
    free(now);
}

/* Begins the next choice, or sends the end of the answer and sets *done. */
static bool next_choice(answering *now, bool *done) {
    const serve_request *request = &now->job->request;
    const size_t prompts = is_chat(now) ? 1 : request->text_count;
    if (++now->sample == request->samples) {
        now->sample = 0;
        *done = ++now->place == prompts;
        if (*done) return (!fflush(now->choices) || fail_memory(now)) && send_end(now, now->choice_text);
        if (!encode_prompt(now)) return false;
    }
    return begin_choice(now);
}

/* Adds a token that was drawn. */
static bool add_token(answering *now, int32_t token, bool *done) {
    serve_model *model = now->model;
    generator *writer = &model->generator;
    const uint64_t own = now->job->request.tokens, most = model->settings->tokens;
    const bool ends = generator_ends(writer, token);
    now->made++;
    now->tokens++;
    if (!ends && !generator_add(writer, now->text, token)) return fail_generator(now);
    const bool stops = ends || now->text->stopped;
    if (!stops && now->made < own && now->made < most && generator_has_room(writer, now->text))
        return show(now, false);
    return end_choice(now, stops ? "stop" : "length") && next_choice(now, done);
}

/* Continues the answer with a drawn token, and ends it if it is complete or fails. */
static void continue_answer(answering *now, int32_t token) {
    bool done = false;
    if (!add_token(now, token, &done) || done) finish(now);
}

/* The free slot that keeps most of the prompt; without any, the first one: fewer slots are faster. */
static int choose_slot(const serve_model *model, const answering *now) {
    size_t most = 0;
    int chosen = -1;
    for (int i = 0; i < (int)model->generator.slots; i++) {
        const size_t same = generator_shared(&model->texts[i], now->prompt, now->prompt_count);
        if (model->answers[i] || (chosen >= 0 && same <= most)) continue;
        chosen = i;
        most = same;
    }
    return chosen;
}

/* Until the slot is chosen, the answer has none. */
static bool begin_answer(answering *now) {
    serve_model *model = now->model;
    const serve_request *request = &now->job->request;
    snprintf(now->id, sizeof now->id, "%s-%016llx", is_chat(now) ? "chatcmpl" : "cmpl",
             (unsigned long long)(model->seed + now->job->number));
    now->choices = open_memstream(&now->choice_text, &now->choice_bytes);
    if (!now->choices) return fail_memory(now);
    if (!encode_prompt(now)) return false;
    const int slot = choose_slot(model, now);
    model->answers[slot] = now;
    now->text = &model->texts[slot];
    now->text->slot = slot;
    now->text->stops = request->stops;
    now->text->stop_count = request->stop_count;
    return begin_choice(now);
}

void serve_answer_begin(serve_model *model, serve_job *job) {
    serve_error error;
    answering *now = calloc(1, sizeof *now);
    if (!now) {
        serve_refuse_memory(&error, "the answer");
        serve_job_fail(job, &error);
        serve_job_release(job);
        return;
    }
    model->answer_count++;
    now->model = model;
    now->job = job;
    if (!begin_answer(now)) finish(now);
}

/* Reads the last tokens of these answers together. */
static void step_together(serve_model *model, answering **all, size_t count) {
    generator_text *texts[GENERATOR_SLOTS];
    int32_t tokens[GENERATOR_SLOTS];
    for (size_t i = 0; i < count; i++)
        texts[i] = all[i]->text;
    const bool fine = generator_step_together(&model->generator, texts, count, tokens);
    for (size_t i = 0; i < count; i++) {
        if (fine) {
            continue_answer(all[i], tokens[i]);
        } else {
            fail_generator(all[i]);
            finish(all[i]);
        }
    }
}

/* Reads a piece of the prompt of one answer, or all by itself. */
static void step_one(answering *now) {
    int32_t token = 0;
    bool drawn = false;
    if (!generator_step(&now->model->generator, now->text, &token, &drawn)) {
        fail_generator(now);
        finish(now);
    } else if (drawn) {
        continue_answer(now, token);
    }
}

void serve_answers_step(serve_model *model) {
    answering *together[GENERATOR_SLOTS], *oldest = NULL;
    size_t count = 0;
    for (int i = 0; i < GENERATOR_SLOTS; i++) {
        answering *now = model->answers[i];
        if (!now) continue;
        if (serve_must_end(now->job, &now->error))
            finish(now);
        else if (generator_can_join(&model->generator, now->text))
            together[count++] = now;
        else if (!oldest || now->job->number < oldest->job->number)
            oldest = now;
    }
    if (oldest) step_one(oldest);
    if (count) step_together(model, together, count);
}

void serve_answers_end(serve_model *model) {
    for (int i = 0; i < GENERATOR_SLOTS; i++) {
        answering *now = model->answers[i];
        if (now) serve_refuse_ending(&now->error);
        if (now) finish(now);
        generator_text_finish(&model->texts[i]);
    }
}
