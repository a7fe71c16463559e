/* The answers to requests for text, in OpenAI's form: a whole one, or a stream of events. */
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "serve.h"

typedef struct answering {
    serve_model *model;
    serve_job *job;
    serve_error error;
    char id[48];
    FILE *choices; /* of an answer that is not a stream */
    uint64_t prompt_tokens, tokens;
    size_t index; /* of the choice */
    size_t shown; /* bytes of its text that were streamed */
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
    const generator *writer = &now->model->generator;
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

/* The tokens of a prompt, to be released with free. */
static bool encode_prompt(answering *now, size_t place, int32_t **tokens, size_t *count) {
    generator *writer = &now->model->generator;
    const serve_request *request = &now->job->request;
    const bool talk = request->kind == SERVE_CHAT;
    if (talk && !writer->words)
        return serve_refuse(&now->error, 400, "unsupported_model", "model",
                            "the model '%s' has no chat template; use /v1/completions", now->model->name);
    if (talk) *tokens = chat_tokens(request->messages, writer->words, count, &writer->failure);
    if (talk ? !*tokens
             : !generator_encode(writer, request->texts[place].text, request->texts[place].bytes, tokens,
                                 count))
        return fail_generator(now);
    now->prompt_tokens += *count;
    return true;
}

static bool take_prompt(answering *now, const int32_t *tokens, size_t count) {
    generator *writer = &now->model->generator;
    const bool talk = now->job->request.kind == SERVE_CHAT;
    int32_t *copy = malloc(count * sizeof *copy);
    if (!copy) return fail_memory(now);
    memcpy(copy, tokens, count * sizeof *copy);
    if (!generator_take(writer, copy, count, !talk)) return fail_generator(now);
    return generator_has_room(writer) ||
           serve_refuse(&now->error, 400, "context_length_exceeded", talk ? "messages" : "prompt",
                        "the %s has %zu tokens; expected fewer than %lld, the context of the model",
                        talk ? "conversation" : "prompt", count, (long long)writer->window);
}

/* Generates until the end; *finish is why it ended. */
static bool generate(answering *now, uint64_t most, const char **finish) {
    generator *writer = &now->model->generator;
    *finish = "length";
    for (uint64_t i = 0; i < most && generator_has_room(writer);) {
        int32_t token = 0;
        bool drawn = false;
        if (serve_must_end(now->job, &now->error)) return false;
        if (!generator_step(writer, &token, &drawn)) return fail_generator(now);
        if (!drawn) continue;
        i++;
        now->tokens++;
        const bool ends = generator_ends(writer, token);
        if (!ends && !generator_add(writer, token)) return fail_generator(now);
        if (ends || writer->stopped) {
            *finish = "stop";
            return true;
        }
        if (!show(now, false)) return false;
    }
    return true;
}

static bool write_choice(answering *now, const int32_t *tokens, size_t count, uint64_t sample) {
    serve_model *model = now->model;
    generator *writer = &model->generator;
    const serve_request *request = &now->job->request;
    const bool talk = request->kind == SERVE_CHAT;
    const uint64_t most =
        request->tokens < model->settings->tokens ? request->tokens : model->settings->tokens;
    const char *finish;
    writer->drawing = request->drawing;
    writer->drawing.seed =
        sample + (request->seeded ? request->drawing.seed : model->seed + (now->job->number << 20));
    now->shown = 0;
    if (!take_prompt(now, tokens, count) || (talk && request->stream && !send_part(now, NULL, 0, NULL)) ||
        !generate(now, most, &finish) || !show(now, true))
        return false;
    if (request->stream) {
        if (!send_part(now, NULL, 0, finish)) return false;
        now->index++;
        return true;
    }
    fprintf(now->choices, "%s{\"index\": %zu, %s: ", now->index ? ", " : "", now->index,
            talk ? "\"message\": {\"role\": \"assistant\", \"content\"" : "\"text\"");
    json_bytes(now->choices, writer->answer_bytes ? writer->answer : "", writer->answer_bytes);
    fprintf(now->choices, "%s, \"logprobs\": null, \"finish_reason\": \"%s\"}",
            talk ? ", \"refusal\": null}" : "", finish);
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

void serve_answer(serve_model *model, serve_job *job) {
    const serve_request *request = &job->request;
    const size_t prompts = request->kind == SERVE_CHAT ? 1 : request->text_count;
    answering now = {.model = model, .job = job};
    char *choices = NULL;
    size_t bytes = 0;
    snprintf(now.id, sizeof now.id, "%s-%016llx", request->kind == SERVE_CHAT ? "chatcmpl" : "cmpl",
             (unsigned long long)(model->seed + job->number));
    now.choices = open_memstream(&choices, &bytes);
    model->generator.stops = request->stops;
    model->generator.stop_count = request->stop_count;
    bool fine = now.choices || fail_memory(&now);
    for (size_t prompt = 0; prompt < prompts && fine; prompt++) {
        int32_t *tokens = NULL;
        size_t count = 0;
        fine = encode_prompt(&now, prompt, &tokens, &count);
        for (uint64_t sample = 0; sample < request->samples && fine; sample++)
            fine = write_choice(&now, tokens, count, sample);
        free(tokens);
    }
    if (now.choices && fclose(now.choices)) fine = fail_memory(&now);
    fine = fine && send_end(&now, choices);
    free(choices);
    if (fine)
        serve_job_end(job);
    else
        serve_job_fail(job, &now.error);
}
