/* Conversations: messages as JSON, and their tokens by the model's chat template. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

void chat_write(FILE *stream, const char *role, const char *content, bool first) {
    fprintf(stream, "%s{\"role\": ", first ? "" : ", ");
    json_text(stream, role);
    fputs(", \"content\": ", stream);
    json_text(stream, content);
    putc('}', stream);
}

bool chat_add(chat *self, const char *role, const char *content) {
    char *made = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&made, &length);
    if (stream && self->json) fputs(self->json, stream);
    if (stream) chat_write(stream, role, content, !self->count);
    if (!stream || fclose(stream)) {
        free(made);
        return command_error("out of memory for the conversation");
    }
    free(self->json);
    self->json = made;
    self->count++;
    return true;
}

/* The text of the conversation, to be released with free; NULL after setting the failure. */
static char *write_text(const char *json, const kn_vocabulary *words, size_t *bytes, failure *failed) {
    static const char before[] = "{\"messages\": [", after[] = "], \"add_generation_prompt\": true}";
    const size_t length = strlen(json) + sizeof before + sizeof after;
    char *variables = malloc(length), *text = NULL;
    char error[sizeof failed->text] = "";
    size_t size = 0;
    kn_status status = variables ? KN_OK : KN_ERROR_MEMORY;
    if (status == KN_OK) {
        snprintf(variables, length, "%s%s%s", before, json, after);
        status = kn_vocabulary_chat(words, variables, NULL, 0, &size, error, sizeof error);
    }
    if (status == KN_OK && !(text = malloc(size + 1))) status = KN_ERROR_MEMORY;
    if (status == KN_OK)
        status = kn_vocabulary_chat(words, variables, text, size, bytes, error, sizeof error);
    free(variables);
    if (status == KN_OK) return text;
    failure_set(failed, failure_cause_of(status, FAILURE_REQUEST), "%s",
                status == KN_ERROR_MEMORY ? "out of memory for the conversation" : error);
    free(text);
    return NULL;
}

int32_t *chat_tokens(const char *json, const kn_vocabulary *words, size_t *count, failure *failed) {
    size_t bytes = 0;
    char *text = write_text(json, words, &bytes, failed);
    if (!text) return NULL;
    int32_t *tokens = NULL;
    kn_status status = kn_vocabulary_encode(words, text, bytes, KN_TEXT_READ_SPECIAL, NULL, 0, count);
    if (status == KN_OK && !(tokens = malloc((*count + 1) * sizeof *tokens))) status = KN_ERROR_MEMORY;
    if (status == KN_OK)
        status = kn_vocabulary_encode(words, text, bytes, KN_TEXT_READ_SPECIAL, tokens, *count, count);
    free(text);
    if (status == KN_OK && *count) return tokens;
    failure_set(failed, failure_cause_of(status, FAILURE_REQUEST), "the conversation: %s",
                status == KN_OK ? "it has no tokens" : kn_status_message(status));
    free(tokens);
    return NULL;
}

void chat_finish(chat *self) {
    free(self->json);
}
