/* Conversations and texts, one JSON object per line, as tokens of a language model: each is a separate
 * sample, padded to the length, whose targets outside answers are ignored; or a sample has several of them.
 */
#include <stdio.h>
#include <string.h>

#include "data/tokens.h"

enum { LENGTH = 512, LINE_BYTES = 1 << 26, DEPTH = 64, IGNORED = -100 };

typedef struct chat_reading {
    const kn_host *host;
    const kn_source_options *options;
    const char *path;
    kn_words words;
    kn_arena arena; /* of one line */
    uint64_t line;
    uint64_t length; /* positions per sample */
    bool packed;     /* a sample has several texts */
    int32_t *x, *y;  /* the tokens of all texts, one after another, and their targets */
    size_t used, room;
    uint32_t *sizes; /* of the texts */
    size_t count, count_room;
    uint64_t cut, dropped;
    /* The tokens of the line, and whether each is part of an answer. */
    int32_t *tokens;
    bool *answers;
    size_t token_count;
    kn_error *error;
} chat_reading;

static kn_status fail_line(chat_reading *r, const char *what) {
    return kn_fail(r->error, KN_ERROR_FORMAT, "%s: line %llu: %s", r->path, (unsigned long long)r->line,
                   what);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static bool write_json(kn_text *text, const kn_json *value) {
    switch (value->kind) {
    case KN_JSON_NULL:
        kn_text_add(text, "null");
        break;
    case KN_JSON_BOOL:
        kn_text_add(text, value->truth ? "true" : "false");
        break;
    case KN_JSON_NUMBER:
        kn_text_add(text, value->text);
        break;
    case KN_JSON_STRING:
        kn_text_json(text, value->text);
        return strlen(value->text) == value->length;
    default: {
        const bool object = value->kind == KN_JSON_OBJECT;
        kn_text_add(text, object ? "{" : "[");
        for (const kn_json *item = value->first; item; item = item->next) {
            if (object) {
                kn_text_json(text, item->key);
                kn_text_add(text, ": ");
            }
            if (!write_json(text, item) || (object && strlen(item->key) != item->key_length)) return false;
            if (item->next) kn_text_add(text, ", ");
        }
        kn_text_add(text, object ? "}" : "]");
    }
    }
    return true;
}

/* The string of a member; NULL if there is none. */
static const kn_json *string_of(const kn_json *object, const char *key) {
    const kn_json *member = kn_json_member(object, key);
    return member && member->kind == KN_JSON_STRING ? member : NULL;
}

/* ---- tokens of a line ---------------------------------------------------------------------------------- */

static bool take_tokens(chat_reading *r, int32_t *tokens, size_t count) {
    kn_release(r->host, r->tokens);
    kn_release(r->host, r->answers);
    r->tokens = tokens;
    r->token_count = count;
    r->answers = kn_allocate(r->host, count + 1, sizeof *r->answers);
    if (!r->answers) kn_fail_memory(r->error, count);
    return r->answers != NULL;
}

static kn_status encode(chat_reading *r, const char *text, size_t bytes, unsigned flags, int32_t **tokens,
                        size_t *count) {
    char source[300];
    snprintf(source, sizeof source, "%.200s: line %llu", r->path, (unsigned long long)r->line);
    return kn_words_encode(&r->words, source, text, bytes, flags, tokens, count, r->error);
}

/* The number of tokens that a part of the text at its beginning has in common with the whole. A token that
 * crosses the end of the part is not counted. */
static kn_status common(chat_reading *r, const char *text, size_t bytes, unsigned flags, size_t *count) {
    int32_t *tokens;
    size_t found;
    kn_status status = encode(r, text, bytes, flags, &tokens, &found);
    *count = 0;
    while (status == KN_OK && *count < found && *count < r->token_count &&
           tokens[*count] == r->tokens[*count])
        ++*count;
    kn_release(r->host, tokens);
    return status;
}

/* ---- conversations ------------------------------------------------------------------------------------- */

/* The text of the first `count` messages; asks: with the start of an answer. NULL with the error set. */
static char *chat_text(chat_reading *r, const kn_json *line, size_t count, bool asks, size_t *bytes) {
    kn_text variables;
    char message[300], *made = NULL;
    kn_text_init(&variables, r->host);
    kn_text_format(&variables, "{\"add_generation_prompt\": %s", asks ? "true" : "false");
    bool fine = true;
    for (const kn_json *member = line->first; member && fine; member = member->next) {
        if (!strcmp(member->key, "add_generation_prompt")) continue;
        fine = strlen(member->key) == member->key_length;
        if (!fine) break;
        kn_text_add(&variables, ", ");
        kn_text_json(&variables, member->key);
        kn_text_add(&variables, ": ");
        if (strcmp(member->key, "messages") != 0) {
            fine = write_json(&variables, member);
            continue;
        }
        const kn_json *item = member->first;
        kn_text_add(&variables, "[");
        for (size_t i = 0; i < count && fine; i++, item = item->next) {
            if (i) kn_text_add(&variables, ", ");
            fine = write_json(&variables, item);
        }
        kn_text_add(&variables, "]");
    }
    kn_text_add(&variables, "}");
    size_t room = 0;
    kn_status status = KN_OK;
    if (!fine)
        fail_line(r, "a text has a zero byte");
    else if (kn_text_failed(&variables))
        kn_fail_memory(r->error, variables.length);
    else
        for (int attempt = 0; attempt < 2 && status == KN_OK; attempt++) {
            if (attempt) made = kn_arena_take(&r->arena, room + 1, 1);
            if (attempt && !made) kn_fail_memory(r->error, room + 1);
            if (attempt && !made) break;
            status = kn_vocabulary_chat(r->words.vocabulary, variables.data, made, room, bytes, message,
                                        sizeof message);
            room = *bytes;
        }
    kn_text_finish(&variables);
    if (status == KN_OK) return r->error->status == KN_OK ? made : NULL;
    kn_fail(r->error, status, "%s: line %llu: %s", r->path, (unsigned long long)r->line, message);
    return NULL;
}

static bool begins_with(const char *text, size_t bytes, const char *part, size_t part_bytes) {
    return part_bytes <= bytes && memcmp(text, part, part_bytes) == 0;
}

/* Marks the tokens of the answer that is message `index`. */
static kn_status mark_answer(chat_reading *r, const kn_json *line, size_t index, const char *whole,
                             size_t bytes) {
    size_t before_bytes, after_bytes, first, end;
    const char *before = chat_text(r, line, index, true, &before_bytes);
    const char *after = before ? chat_text(r, line, index + 1, false, &after_bytes) : NULL;
    if (!after) return r->error->status;
    if (!begins_with(whole, bytes, before, before_bytes) || !begins_with(whole, bytes, after, after_bytes) ||
        after_bytes <= before_bytes)
        return fail_line(r, "the chat template writes an answer differently when messages follow it, so that "
                            "its place is unknown: put each answer on a separate line, as the last message, "
                            "or make all tokens targets");
    kn_status status = common(r, before, before_bytes, KN_TEXT_READ_SPECIAL, &first);
    if (status == KN_OK) status = common(r, after, after_bytes, KN_TEXT_READ_SPECIAL, &end);
    for (size_t i = first; status == KN_OK && i < end; i++)
        r->answers[i] = true;
    return status;
}

static kn_status read_chat(chat_reading *r, const kn_json *line, const kn_json *messages) {
    int32_t *tokens;
    size_t bytes, count;
    if (messages->kind != KN_JSON_ARRAY || !messages->count)
        return fail_line(r, "\"messages\" is not an array of messages");
    const char *whole = chat_text(r, line, messages->count, false, &bytes);
    if (!whole) return r->error->status;
    kn_status status = encode(r, whole, bytes, KN_TEXT_READ_SPECIAL, &tokens, &count);
    if (status != KN_OK || !take_tokens(r, tokens, count)) return r->error->status;
    size_t index = 0;
    for (const kn_json *item = messages->first; item && status == KN_OK; item = item->next, index++) {
        const kn_json *role = string_of(item, "role");
        if (!role) return fail_line(r, "a message has no \"role\"");
        if (!r->options->all_tokens && !strcmp(role->text, "assistant"))
            status = mark_answer(r, line, index, whole, bytes);
    }
    return status;
}

/* ---- texts --------------------------------------------------------------------------------------------- */

/* A text, whose first `before` bytes are not part of the answer; the end of text follows. */
static kn_status read_text(chat_reading *r, const char *text, size_t bytes, size_t before) {
    int32_t *tokens;
    size_t count, first = 0;
    kn_status status = encode(r, text, bytes, KN_TEXT_ADD_ENDS, &tokens, &count);
    if (status != KN_OK) return status;
    const int32_t end = kn_vocabulary_role(r->words.vocabulary, KN_TEXT_ROLE_END);
    if (end >= 0 && (!count || tokens[count - 1] != end)) {
        int32_t *more = kn_resize(r->host, tokens, count + 1, sizeof *tokens);
        if (!more) {
            kn_release(r->host, tokens);
            return kn_fail_memory(r->error, (count + 1) * sizeof *tokens);
        }
        tokens = more;
        tokens[count++] = end;
    }
    if (!take_tokens(r, tokens, count)) return r->error->status;
    if (before) status = common(r, text, before, KN_TEXT_ADD_ENDS, &first);
    for (size_t i = first; i < count; i++)
        r->answers[i] = true;
    return status;
}

static kn_status read_line(chat_reading *r, const kn_json *line) {
    const kn_json *messages = kn_json_member(line, "messages"), *text = string_of(line, "text");
    const kn_json *prompt = string_of(line, "prompt"), *completion = string_of(line, "completion");
    if (line->kind == KN_JSON_OBJECT && messages) return read_chat(r, line, messages);
    if (text) return read_text(r, text->text, text->length, 0);
    if (!prompt || !completion)
        return fail_line(r, "expected an object with \"messages\", with the strings \"prompt\" and "
                            "\"completion\", or with the string \"text\"");
    char *both = kn_arena_take(&r->arena, prompt->length + completion->length + 1, 1);
    if (!both) return kn_fail_memory(r->error, prompt->length + completion->length);
    memcpy(both, prompt->text, prompt->length);
    memcpy(both + prompt->length, completion->text, completion->length);
    return read_text(r, both, prompt->length + completion->length, prompt->length);
}

/* ---- samples ------------------------------------------------------------------------------------------- */

/* Makes room for a text of `size` tokens. */
static kn_status reserve(chat_reading *r, size_t size) {
    size_t room = r->room, x_room = room;
    if (!kn_reserve(r->host, (void **)&r->x, &x_room, r->used + size, sizeof *r->x) ||
        !kn_reserve(r->host, (void **)&r->y, &room, r->used + size, sizeof *r->y))
        return kn_fail_memory_for(r->error, "the tokens of the samples", r->used + size, 2 * sizeof *r->x);
    r->room = room;
    return kn_reserve(r->host, (void **)&r->sizes, &r->count_room, r->count + 1, sizeof *r->sizes)
               ? KN_OK
               : kn_fail_memory_for(r->error, "the sizes of the samples", r->count, sizeof *r->sizes);
}

/* Adds the tokens of the line, unless none is a target. The last token, which has no target, is left out of
 * samples with several texts. */
static kn_status add_text(chat_reading *r) {
    const size_t length = (size_t)r->length, most = r->token_count - (r->packed && r->token_count > 0);
    const size_t size = most < length ? most : length;
    if (reserve(r, size) != KN_OK) return r->error->status;
    int32_t *x = r->x + r->used, *y = r->y + r->used;
    bool any = false;
    r->cut += r->token_count > length + 1;
    for (size_t i = 0; i < size; i++) {
        const bool counts = i + 1 < r->token_count && (r->options->all_tokens || r->answers[i + 1]);
        x[i] = r->tokens[i];
        y[i] = counts ? r->tokens[i + 1] : IGNORED;
        any = any || counts;
    }
    r->dropped += !any;
    if (!any) return KN_OK;
    r->sizes[r->count++] = (uint32_t)size;
    r->used += size;
    return KN_OK;
}

static bool is_blank(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (!memchr(" \t\r", text[i], 3)) return false;
    return true;
}

static kn_status read_lines(chat_reading *r, const char *text, uint64_t bytes) {
    kn_status status = KN_OK;
    for (uint64_t at = 0; at < bytes && status == KN_OK && r->count < r->options->max_samples;) {
        const char *begin = text + at, *end = memchr(begin, '\n', (size_t)(bytes - at));
        const size_t length = end ? (size_t)(end - begin) : (size_t)(bytes - at);
        char name[300];
        kn_json *line;
        r->line++;
        at += length + 1;
        if (is_blank(begin, length)) continue;
        snprintf(name, sizeof name, "%.200s: line %llu", r->path, (unsigned long long)r->line);
        kn_arena_init(&r->arena, r->host);
        status = kn_json_read(&r->arena, name, begin, length, LINE_BYTES, DEPTH, &line, r->error);
        if (status == KN_OK) status = read_line(r, line);
        kn_arena_finish(&r->arena);
        if (status == KN_OK) status = add_text(r);
    }
    return status;
}

enum { X, Y, FIRST, FIELDS };

/* Fills the fields, (rows,length) each, with the texts of the rows. */
static kn_status fill(const chat_reading *r, const kn_row_plan *plan, int32_t *const *fields) {
    const size_t length = (size_t)r->length;
    uint32_t *ends = kn_allocate(r->host, plan->rows + 1, sizeof *ends);
    if (!ends) return kn_fail_memory_for(r->error, "the rows", plan->rows, sizeof *ends);
    for (size_t i = 0, from = 0; i < r->count; from += r->sizes[i++]) {
        const size_t row = plan->row_of[i], at = row * length + ends[row], size = r->sizes[i];
        memcpy(fields[X] + at, r->x + from, size * sizeof *r->x);
        memcpy(fields[Y] + at, r->y + from, size * sizeof *r->y);
        for (size_t k = 0; k < size && fields[FIRST]; k++)
            fields[FIRST][at + k] = (int32_t)ends[row];
        ends[row] += (uint32_t)size;
    }
    for (size_t row = 0; row < plan->rows; row++)
        for (size_t at = row * length + ends[row]; at < (row + 1) * length; at++) {
            fields[Y][at] = IGNORED;
            if (fields[FIRST]) fields[FIRST][at] = (int32_t)ends[row];
        }
    kn_release(r->host, ends);
    return KN_OK;
}

static kn_status make_store(chat_reading *r, const kn_row_plan *plan, kn_sample_store **made) {
    static const char *const names[FIELDS] = {"x", "y", "first"};
    const kn_tensor_info sample = {KN_INT32, 1, {(int64_t)r->length}};
    kn_sample_store *store = *made = kn_sample_store_create(r->host, r->error);
    kn_sample_field *field;
    int32_t *fields[FIELDS] = {NULL};
    const size_t count = plan->rows * (size_t)r->length;
    if (!store) return r->error->status;
    store->count = plan->rows;
    store->classes = kn_vocabulary_size(r->words.vocabulary);
    for (int i = 0; i < FIELDS - !r->packed; i++) {
        const kn_status status = kn_sample_store_add(store, names[i], &sample, KN_INT32, 1, &field, r->error);
        if (status != KN_OK) return status;
        store->blocks[i] = fields[i] = kn_allocate(r->host, count, sizeof *fields[i]);
        if (!fields[i])
            return kn_fail_memory_for(r->error, "the tokens of the samples", count, sizeof *fields[i]);
        field->bytes = store->blocks[i];
    }
    return fill(r, plan, fields);
}

static kn_status make_rows(chat_reading *r, kn_sample_store **made) {
    kn_row_plan plan = {.rows = 0};
    kn_status status =
        kn_row_plan_make(&plan, r->host, r->sizes, r->count, r->packed ? r->length : 0, r->error);
    if (status == KN_OK) status = make_store(r, &plan, made);
    kn_release(r->host, plan.row_of);
    return status;
}

static void report(const chat_reading *r) {
    if (r->cut)
        kn_log_write(r->host, KN_LOG_WARNING,
                     "%s: %llu of %llu samples are longer than %llu tokens, and were cut", r->path,
                     (unsigned long long)r->cut, (unsigned long long)(r->count + r->dropped),
                     (unsigned long long)r->length);
    if (r->dropped)
        kn_log_write(r->host, KN_LOG_WARNING,
                     "%s: left out %llu of %llu samples: none of their first %llu tokens "
                     "is a target",
                     r->path, (unsigned long long)r->dropped, (unsigned long long)(r->count + r->dropped),
                     (unsigned long long)r->length);
}

static kn_status read_file(chat_reading *r, kn_dataset *dataset) {
    kn_file_view view;
    kn_status status = kn_words_open(&r->words, r->host, r->options->tokenizer, r->error);
    if (status == KN_OK) status = kn_file_open_view(r->host, r->path, &view, r->error);
    if (status == KN_OK) {
        status = read_lines(r, (const char *)view.bytes, view.count);
        kn_file_close_view(r->host, &view);
        if (status == KN_OK) report(r);
        if (status == KN_OK && !r->count)
            status = kn_fail(r->error, KN_ERROR_SHAPE,
                             "%s: has no sample with a target; expected lines with "
                             "answers (messages of the role \"assistant\")",
                             r->path);
        if (status == KN_OK) status = make_rows(r, &dataset->store);
    }
    kn_release(r->host, r->x);
    kn_release(r->host, r->y);
    kn_release(r->host, r->sizes);
    kn_release(r->host, r->tokens);
    kn_release(r->host, r->answers);
    kn_words_close(&r->words);
    return status;
}

static kn_status open_chat(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    chat_reading r = {.host = &dataset->host, .options = options, .error = &dataset->error};
    const kn_spec_option known[] = {{"length", KN_SPEC_COUNT, &r.length}, {"pack", KN_SPEC_FLAG, &r.packed}};
    char *path;
    kn_status status = kn_spec_read(r.host, "chat", rest, &path, known, KN_COUNT_OF(known), r.error);
    if (status != KN_OK) return status;
    r.path = path;
    if (!r.length)
        r.length = options->expected && options->expected->rank == 1 && options->expected->shape[0] > 0
                       ? (uint64_t)options->expected->shape[0]
                       : LENGTH;
    if (!path)
        status =
            kn_fail(r.error, KN_ERROR_ARGUMENT, "data \"chat%s\": expected a file, as in chat:FILE", rest);
    else if (r.length > 1 << 24)
        status = kn_fail(r.error, KN_ERROR_ARGUMENT, "data \"chat%s\": expected a length of at most 16777216",
                         rest);
    else if (!options->tokenizer)
        status = kn_fail(r.error, KN_ERROR_ARGUMENT,
                         "data \"chat%s\": conversations need the vocabulary of a language model, such as a "
                         "GGUF file",
                         rest);
    else
        status = read_file(&r, dataset);
    kn_release(r.host, path);
    return status;
}

const kn_source_row kn_data_source_chat = {
    .name = "chat",
    .usage = "chat:FILE[,length=N][,pack]",
    .text = "for language models: a conversation or text per line, as JSON: {\"messages\": [...]},\n"
            "{\"prompt\": ..., \"completion\": ...} or {\"text\": ...}; only answers are targets; pack: a\n"
            "sample has as many of them as fit",
    .open = open_chat};

const kn_source_row kn_data_source_jsonl = {.name = "jsonl",
                                            .usage = "jsonl:FILE[,length=N][,pack]",
                                            .text = "the same as chat:FILE",
                                            .open = open_chat};
