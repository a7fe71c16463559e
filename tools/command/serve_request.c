/* Requests in OpenAI's form: JSON to a serve_request. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "formats/formats.h"
#include "serve.h"

enum {
    DEPTH = 32,
    MAX_VALUES = 100000, /* of JSON: each takes many times the memory of its text */
    MAX_SAMPLES = 128,
    MAX_INPUTS = 2048,
    MAX_STOPS = 16,
    MAX_STOP_BYTES = 1000,
    DEFAULT_COMPLETION = 16
};

bool serve_refuse(serve_error *error, int status, const char *code, const char *param, const char *format,
                  ...) {
    va_list arguments;
    *error = (serve_error){.status = status, .code = code};
    snprintf(error->param, sizeof error->param, "%s", param);
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return false;
}

bool serve_refuse_failure(serve_error *error, const failure *failed, const char *param) {
    switch (failed->cause) {
    case FAILURE_REQUEST:
        return serve_refuse(error, 400, "invalid_value", param, "%s", failed->text);
    case FAILURE_MEMORY:
        return serve_refuse(error, 503, "out_of_memory", "", "%s", failed->text);
    default:
        return serve_refuse(error, 500, "failed", "", "%s", failed->text);
    }
}

bool serve_refuse_memory(serve_error *error, const char *what) {
    return serve_refuse(error, 503, "out_of_memory", "", "out of memory for %s", what);
}

bool serve_refuse_ending(serve_error *error) {
    return serve_refuse(error, 503, "shutting_down", "", "the server is shutting down");
}

bool serve_refuse_model(serve_error *error, const char *asked, const char *model) {
    return serve_refuse(error, 404, "model_not_found", "model",
                        "the model '%.200s' does not exist; this server has '%s'", asked, model);
}

void serve_error_write(FILE *stream, const serve_error *error) {
    const char *type = error->status == 401   ? "authentication_error"
                       : error->status == 429 ? "rate_limit_error"
                       : error->status >= 500 ? "server_error"
                                              : "invalid_request_error";
    fputs("{\"error\": {\"message\": ", stream);
    json_text(stream, error->message);
    fprintf(stream, ", \"type\": \"%s\", \"param\": ", type);
    if (error->param[0])
        json_text(stream, error->param);
    else
        fputs("null", stream);
    fprintf(stream, ", \"code\": \"%s\"}}", error->code);
}

/* ---- values ----------------------------------------------------------------------------------------- */

/* What a request points to. */
typedef struct request_memory {
    kn_host host; /* of the arena */
    kn_arena arena;
} request_memory;

typedef struct reading {
    serve_request *request;
    kn_arena *arena;
    serve_error *error;
    const char *model;
} reading;

/* Keys and strings may have zero bytes. */
static bool is_text(const char *text, size_t length, const char *word) {
    return strlen(word) == length && !memcmp(text, word, length);
}

static bool is_called(const kn_json *member, const char *name) {
    return is_text(member->key, member->key_length, name);
}

static bool is_word(const kn_json *value, const char *word) {
    return value && value->kind == KN_JSON_STRING && is_text(value->text, value->length, word);
}

static bool wrong(reading *in, const char *name, const kn_json *value, const char *expected) {
    return serve_refuse(in->error, 400, "invalid_type", name, "'%s' is %s; expected %s", name,
                        kn_json_kind_name(value->kind), expected);
}

static bool beyond(reading *in, const char *name, const kn_json *value, const char *expected) {
    return serve_refuse(in->error, 400, "invalid_value", name, "'%s' is %.40s; expected %s", name,
                        value->text, expected);
}

static bool unsupported(reading *in, const char *name, const char *expected) {
    return serve_refuse(in->error, 400, "unsupported_parameter", name,
                        "this server does not support '%s'; expected %s, or no such parameter", name,
                        expected);
}

static bool out_of_memory(reading *in) {
    return serve_refuse_memory(in->error, "the request");
}

static bool read_text(reading *in, const char *name, const kn_json *value, serve_text *text) {
    if (value->kind != KN_JSON_STRING) return wrong(in, name, value, "a string");
    if (memchr(value->text, 0, value->length))
        return serve_refuse(in->error, 400, "invalid_value", name, "'%s' has a character U+0000", name);
    *text = (serve_text){value->text, value->length};
    return true;
}

static bool read_number(reading *in, const char *name, const kn_json *value, double least, double most,
                        bool above, const char *expected, double *number) {
    if (value->kind != KN_JSON_NUMBER) return wrong(in, name, value, expected);
    if (!(value->number >= least && value->number <= most) || (above && !(value->number > least)))
        return beyond(in, name, value, expected);
    *number = value->number;
    return true;
}

static bool read_count(reading *in, const char *name, const kn_json *value, int64_t least, int64_t most,
                       const char *expected, uint64_t *count) {
    int64_t number;
    if (value->kind != KN_JSON_NUMBER) return wrong(in, name, value, expected);
    if (!kn_json_int64(value, &number) || number < least || number > most)
        return beyond(in, name, value, expected);
    *count = (uint64_t)number;
    return true;
}

static bool read_flag(reading *in, const char *name, const kn_json *value, bool *flag) {
    if (value->kind != KN_JSON_BOOL) return wrong(in, name, value, "true or false");
    *flag = value->truth;
    return true;
}

/* A string, or an array of `most` strings. */
static bool read_texts(reading *in, const char *name, const kn_json *value, size_t most, serve_text **texts,
                       size_t *count) {
    const bool list = value->kind == KN_JSON_ARRAY;
    if (!list && value->kind != KN_JSON_STRING) return wrong(in, name, value, "a string or an array of them");
    *count = list ? value->count : 1;
    if (*count > most)
        return serve_refuse(in->error, 400, "invalid_value", name, "'%s' has %zu items; expected at most %zu",
                            name, *count, most);
    if (!(*texts = kn_arena_take(in->arena, *count + 1, sizeof **texts))) return out_of_memory(in);
    size_t i = 0;
    for (const kn_json *item = list ? value->first : value; i < *count; item = item->next, i++)
        if (!read_text(in, name, item, &(*texts)[i])) return false;
    return true;
}

/* ---- messages --------------------------------------------------------------------------------------- */

/* Text parts, one after the other. */
static bool join_parts(reading *in, const kn_json *content, const char **text) {
    size_t room = 1, used = 0;
    for (const kn_json *part = content->first; part; part = part->next) {
        const kn_json *type = kn_json_member(part, "type"), *words = kn_json_member(part, "text");
        serve_text one = {"", 0};
        if (!is_word(type, "text") || !words)
            return serve_refuse(in->error, 400, "invalid_value", "messages",
                                "the content of a message has a part that is not {\"type\": \"text\", "
                                "\"text\": …}: this model reads only text");
        if (!read_text(in, "messages", words, &one)) return false;
        room += one.bytes;
    }
    char *made = kn_arena_take(in->arena, room, 1);
    if (!made) return out_of_memory(in);
    for (const kn_json *part = content->first; part; part = part->next) {
        const kn_json *words = kn_json_member(part, "text");
        memcpy(made + used, words->text, words->length);
        used += words->length;
    }
    made[used] = '\0';
    *text = made;
    return true;
}

/* Members that a message has, or that change nothing. */
static bool is_known(const kn_json *member) {
    static const char *const names[] = {"role", "content", "name", "refusal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_called(member, names[i])) return true;
    return false;
}

static bool has_member(reading *in, const kn_json *message, const char *name, const kn_json **value) {
    *value = kn_json_member(message, name);
    return *value ||
           serve_refuse(in->error, 400, "missing_parameter", "messages", "a message lacks '%s'", name);
}

static bool read_message(reading *in, const kn_json *message, const char **role, const char **content) {
    static const char *const roles[] = {"system", "user", "assistant"};
    serve_text text = {"", 0};
    if (message->kind != KN_JSON_OBJECT) return wrong(in, "messages", message, "an array of objects");
    for (const kn_json *member = message->first; member; member = member->next)
        if (!is_known(member) && member->kind != KN_JSON_NULL)
            return serve_refuse(in->error, 400, "unknown_parameter", "messages",
                                "a message has '%.60s', which this server does not support", member->key);
    const kn_json *value;
    if (!has_member(in, message, "role", &value) || !read_text(in, "role", value, &text)) return false;
    *role = !strcmp(text.text, "developer") ? "system" : NULL;
    for (size_t i = 0; i < sizeof roles / sizeof *roles && !*role; i++)
        if (!strcmp(text.text, roles[i])) *role = roles[i];
    if (!*role)
        return serve_refuse(in->error, 400, "invalid_value", "messages",
                            "the role '%.60s' is unknown; expected system, user or assistant", text.text);
    if (!has_member(in, message, "content", &value)) return false;
    if (value->kind == KN_JSON_ARRAY) return join_parts(in, value, content);
    if (!read_text(in, "content", value, &text)) return false;
    *content = text.text;
    return true;
}

static bool read_messages(reading *in, const char *name, const kn_json *value) {
    const char *role = NULL, *content = NULL;
    size_t ignored = 0;
    if (value->kind != KN_JSON_ARRAY) return wrong(in, name, value, "an array of messages");
    if (!value->first) return serve_refuse(in->error, 400, "invalid_value", name, "'messages' is empty");
    FILE *stream = open_memstream(&in->request->messages, &ignored);
    bool fine = stream != NULL;
    for (const kn_json *item = value->first; item && fine; item = item->next)
        if ((fine = read_message(in, item, &role, &content)))
            chat_write(stream, role, content, item == value->first);
    if (!stream || fclose(stream)) return out_of_memory(in);
    return fine;
}

/* ---- parameters ------------------------------------------------------------------------------------- */

static bool read_model(reading *in, const char *name, const kn_json *value) {
    serve_text text = {"", 0};
    if (!read_text(in, name, value, &text)) return false;
    return !strcmp(text.text, in->model) || serve_refuse_model(in->error, text.text, in->model);
}

/* Prompts, or texts to be embedded. */
static bool read_input(reading *in, const char *name, const kn_json *value) {
    serve_request *request = in->request;
    const size_t most = request->kind == SERVE_EMBEDDING ? MAX_INPUTS : MAX_SAMPLES;
    if (!read_texts(in, name, value, most, &request->texts, &request->text_count)) return false;
    return request->text_count || serve_refuse(in->error, 400, "invalid_value", name, "'%s' is empty", name);
}

static bool read_format(reading *in, const char *name, const kn_json *value) {
    serve_text text = {"", 0};
    if (!read_text(in, name, value, &text)) return false;
    in->request->base64 = !strcmp(text.text, "base64");
    return in->request->base64 || !strcmp(text.text, "float") || beyond(in, name, value, "float or base64");
}

static bool read_dimensions(reading *in, const char *name, const kn_json *value) {
    return read_count(in, name, value, 1, INT32_MAX, "an integer of at least 1", &in->request->dimensions);
}

static bool read_tokens(reading *in, const char *name, const kn_json *value) {
    return read_count(in, name, value, 1, INT32_MAX, "an integer of at least 1", &in->request->tokens);
}

static bool read_samples(reading *in, const char *name, const kn_json *value) {
    return read_count(in, name, value, 1, MAX_SAMPLES, "an integer from 1 to 128", &in->request->samples);
}

static bool read_temperature(reading *in, const char *name, const kn_json *value) {
    return read_number(in, name, value, 0, 2, false, "a number from 0 to 2",
                       &in->request->drawing.temperature);
}

static bool read_top_p(reading *in, const char *name, const kn_json *value) {
    return read_number(in, name, value, 0, 1, true, "a number above 0, up to 1", &in->request->drawing.top_p);
}

static bool read_min_p(reading *in, const char *name, const kn_json *value) {
    return read_number(in, name, value, 0, 1, false, "a number from 0 to 1", &in->request->drawing.min_p);
}

static bool read_repetition(reading *in, const char *name, const kn_json *value) {
    return read_number(in, name, value, 0, 1e9, true, "a number above 0", &in->request->drawing.repetition);
}

/* 0 and -1 are all tokens. */
static bool read_top_k(reading *in, const char *name, const kn_json *value) {
    if (!read_count(in, name, value, -1, INT32_MAX, "an integer", &in->request->drawing.top_k)) return false;
    if (in->request->drawing.top_k == (uint64_t)-1) in->request->drawing.top_k = 0;
    return true;
}

static bool read_seed(reading *in, const char *name, const kn_json *value) {
    in->request->seeded = true;
    return read_count(in, name, value, INT64_MIN, INT64_MAX, "an integer of 64 bits",
                      &in->request->drawing.seed);
}

static bool read_stop(reading *in, const char *name, const kn_json *value) {
    serve_request *request = in->request;
    serve_text *texts = NULL;
    if (!read_texts(in, name, value, MAX_STOPS, &texts, &request->stop_count)) return false;
    request->stops = kn_arena_take(in->arena, request->stop_count + 1, sizeof *request->stops);
    if (!request->stops) return out_of_memory(in);
    for (size_t i = 0; i < request->stop_count; i++) {
        if (!texts[i].bytes || texts[i].bytes > MAX_STOP_BYTES)
            return serve_refuse(in->error, 400, "invalid_value", name,
                                "'%s' has a text of %zu bytes; expected 1 to %d", name, texts[i].bytes,
                                MAX_STOP_BYTES);
        request->stops[i] = texts[i].text;
    }
    return true;
}

static bool read_stream(reading *in, const char *name, const kn_json *value) {
    return read_flag(in, name, value, &in->request->stream);
}

static bool read_stream_options(reading *in, const char *name, const kn_json *value) {
    bool ignored;
    if (value->kind != KN_JSON_OBJECT) return wrong(in, name, value, "an object");
    for (const kn_json *member = value->first; member; member = member->next) {
        const bool usage = is_called(member, "include_usage");
        if (!usage && !is_called(member, "include_obfuscation"))
            return serve_refuse(in->error, 400, "unknown_parameter", name,
                                "'%s' has '%.60s'; expected "
                                "include_usage",
                                name, member->key);
        if (!read_flag(in, member->key, member, usage ? &in->request->usage : &ignored)) return false;
    }
    return true;
}

/* Parameters that the server does not support, except with values that change nothing. */
static bool read_zero(reading *in, const char *name, const kn_json *value) {
    return (value->kind == KN_JSON_NUMBER && value->number == 0) || unsupported(in, name, "0");
}

static bool read_one(reading *in, const char *name, const kn_json *value) {
    return (value->kind == KN_JSON_NUMBER && value->number == 1) || unsupported(in, name, "1");
}

static bool read_false(reading *in, const char *name, const kn_json *value) {
    return (value->kind == KN_JSON_BOOL && !value->truth) || unsupported(in, name, "false");
}

static bool read_empty(reading *in, const char *name, const kn_json *value) {
    return ((value->kind == KN_JSON_ARRAY || value->kind == KN_JSON_OBJECT) && !value->count) ||
           unsupported(in, name, "nothing in it");
}

static bool read_tool_choice(reading *in, const char *name, const kn_json *value) {
    return is_word(value, "none") || is_word(value, "auto") || unsupported(in, name, "none or auto");
}

static bool read_response_format(reading *in, const char *name, const kn_json *value) {
    return is_word(kn_json_member(value, "type"), "text") || unsupported(in, name, "the type text");
}

static bool read_harmless(reading *in, const char *name, const kn_json *value) {
    (void)in, (void)name, (void)value;
    return true;
}

enum {
    CHAT = 1 << SERVE_CHAT,
    COMPLETION = 1 << SERVE_COMPLETION,
    TEXT = CHAT | COMPLETION,
    EMBEDDING = 1 << SERVE_EMBEDDING,
    ANY = TEXT | EMBEDDING
};

static const struct parameter {
    const char *name;
    unsigned kinds; /* of requests that have it */
    bool (*read)(reading *in, const char *name, const kn_json *value);
    bool needed;
} parameters[] = {
    {"model", ANY, read_model},
    {"messages", CHAT, read_messages, true},
    {"prompt", COMPLETION, read_input, true},
    {"input", EMBEDDING, read_input, true},
    {"encoding_format", EMBEDDING, read_format},
    {"dimensions", EMBEDDING, read_dimensions},
    {"max_tokens", TEXT, read_tokens},
    {"max_completion_tokens", CHAT, read_tokens},
    {"n", TEXT, read_samples},
    {"temperature", TEXT, read_temperature},
    {"top_p", TEXT, read_top_p},
    {"top_k", TEXT, read_top_k},
    {"min_p", TEXT, read_min_p},
    {"repetition_penalty", TEXT, read_repetition},
    {"seed", TEXT, read_seed},
    {"stop", TEXT, read_stop},
    {"stream", TEXT, read_stream},
    {"stream_options", TEXT, read_stream_options},
    {"frequency_penalty", TEXT, read_zero},
    {"presence_penalty", TEXT, read_zero},
    {"logprobs", TEXT, read_false}, /* with 0, a completion has the log-probabilities of its tokens */
    {"top_logprobs", CHAT, read_zero},
    {"logit_bias", TEXT, read_empty},
    {"best_of", COMPLETION, read_one},
    {"echo", COMPLETION, read_false},
    {"tools", CHAT, read_empty},
    {"tool_choice", CHAT, read_tool_choice},
    {"response_format", CHAT, read_response_format},
    {"parallel_tool_calls", CHAT, read_harmless},
    {"user", ANY, read_harmless},
    {"store", TEXT, read_harmless},
    {"metadata", TEXT, read_harmless},
    {"service_tier", TEXT, read_harmless},
    {"safety_identifier", TEXT, read_harmless},
    {"prompt_cache_key", TEXT, read_harmless},
    {"prompt_cache_retention", TEXT, read_harmless},
};

enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static bool belongs(const struct parameter *row, const reading *in) {
    return row->kinds >> in->request->kind & 1;
}

static bool read_member(reading *in, const kn_json *member) {
    for (int i = 0; i < PARAMETERS; i++) {
        const struct parameter *row = &parameters[i];
        if (!is_called(member, row->name) || !belongs(row, in)) continue;
        /* Clients write null for what they leave out. */
        return member->kind == KN_JSON_NULL || row->read(in, row->name, member);
    }
    if (member->kind == KN_JSON_NULL) return true;
    char name[64];
    snprintf(name, sizeof name, "%.60s", member->key);
    return serve_refuse(in->error, 400, "unknown_parameter", name, "the parameter '%s' is unknown", name);
}

static bool read_members(reading *in, const kn_json *root) {
    serve_request *request = in->request;
    if (root->kind != KN_JSON_OBJECT)
        return serve_refuse(in->error, 400, "invalid_type", "", "the request is %s; expected an object",
                            kn_json_kind_name(root->kind));
    for (const kn_json *member = root->first; member; member = member->next)
        if (!read_member(in, member)) return false;
    for (int i = 0; i < PARAMETERS; i++) {
        const struct parameter *row = &parameters[i];
        const kn_json *given = kn_json_member(root, row->name);
        if (row->needed && belongs(row, in) && (!given || given->kind == KN_JSON_NULL))
            return serve_refuse(in->error, 400, "missing_parameter", row->name, "'%s' is missing", row->name);
    }
    if (request->kind == SERVE_COMPLETION && request->text_count * request->samples > MAX_SAMPLES)
        return serve_refuse(in->error, 400, "invalid_value", "n",
                            "%zu prompts with %llu samples each; expected at most %d samples",
                            request->text_count, (unsigned long long)request->samples, MAX_SAMPLES);
    return true;
}

/* How many values a text of JSON has, at most: each follows a comma or a bracket, or is the first. */
static size_t count_values(const char *text, size_t bytes) {
    size_t count = 1;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"') quoted = !quoted;
        if (quoted && text[i] == '\\') i++;
        if (!quoted) count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return count;
}

bool serve_request_read(serve_request *request, serve_kind kind, const char *model, const char *body,
                        size_t bytes, serve_error *error) {
    request_memory *memory = malloc(sizeof *memory);
    kn_error cause = {0};
    kn_json *root;
    *request = (serve_request){.kind = kind, .samples = 1};
    request->tokens = kind == SERVE_COMPLETION ? DEFAULT_COMPLETION : UINT64_MAX;
    kn_draw_params_init(&request->drawing);
    request->drawing.temperature = 1;
    reading in = {request, memory ? &memory->arena : NULL, error, model};
    if (!memory) return out_of_memory(&in);
    request->memory = memory;
    memory->host = kn_host_defaults();
    kn_arena_init(&memory->arena, &memory->host);
    if (count_values(body, bytes) > MAX_VALUES)
        return serve_refuse(error, 400, "invalid_json", "", "the request has more than %d values of JSON",
                            MAX_VALUES);
    kn_status status = kn_json_read(in.arena, "the request", body, bytes, bytes, DEPTH, &root, &cause);
    if (status == KN_ERROR_MEMORY) return out_of_memory(&in);
    if (status != KN_OK) return serve_refuse(error, 400, "invalid_json", "", "%s", cause.text);
    return read_members(&in, root);
}

void serve_request_release(serve_request *request) {
    request_memory *memory = request->memory;
    if (memory) kn_arena_finish(&memory->arena);
    free(memory);
    free(request->messages);
    *request = (serve_request){.kind = SERVE_CHAT};
}
