/* Messages for mistakes in a text: position, what was found, what was expected, and the nearest known word.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "models/layers_private.h"
#include "models/scope_private.h"

/* Appends ", in block 'residual', used in line 30", from the innermost block outwards. */
static void add_uses(const kn_model *model, char *text, size_t bytes) {
    enum { SHOWN = 3 };
    int count = 0;
    for (const kn_scope *scope = model->text->scope; scope; scope = scope->outer) {
        size_t length = strlen(text);
        if (!scope->use || length + 1 >= bytes) continue;
        if (++count > SHOWN) {
            snprintf(text + length, bytes - length, ", and so on");
            return;
        }
        snprintf(text + length, bytes - length, " (in block '%s', used in line %d)", scope->use->word.text,
                 scope->use->number);
    }
}

bool kn_mistake(kn_model *model, const kn_line *line, int column, const char *format, ...) {
    if (model->error.status != KN_OK) return false;
    char text[sizeof model->error.text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text - 256, format, arguments);
    va_end(arguments);
    add_uses(model, text, sizeof text);
    kn_fail(&model->error, KN_ERROR_FORMAT, "%s:%d:%d: %s", model->source, line->number, column, text);
    return false;
}

kn_value *kn_layer_mistake(const kn_layer_call *call, const char *format, ...) {
    char text[sizeof call->model->error.text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kn_mistake(call->model, call->line, call->line->word.column, "%s", text);
    return NULL;
}

bool kn_mistake_here(kn_model *model, const kn_line *line, int column) {
    kn_error failed = model->error;
    failed.text[sizeof failed.text - 512] = '\0';
    add_uses(model, failed.text, sizeof failed.text);
    kn_fail(&model->error, failed.status, "%s:%d:%d: %s", model->source, line->number, column, failed.text);
    return false;
}

bool kn_model_no_memory(kn_model *model) {
    if (model->error.status == KN_OK)
        kn_fail(&model->error, KN_ERROR_MEMORY, "%s: out of host memory while reading a model",
                model->source);
    return false;
}

const char *kn_found(const char *word, char buffer[KN_FOUND_BYTES]) {
    enum { SHOWN = KN_FOUND_BYTES - 8 };
    size_t length = strlen(word);
    bool cut = length > SHOWN;
    if (cut) {
        length = SHOWN;
        while (length > 0 && ((unsigned char)word[length] & 0xc0) == 0x80)
            length--; /* whole characters only */
    }
    snprintf(buffer, KN_FOUND_BYTES, "'%.*s%s'", (int)length, word, cut ? "..." : "");
    return buffer;
}

/* kn_nearest_word, after trying transposed letters, which it counts as two edits. */
static const char *nearest(const char *word, const char *const *words, size_t count) {
    char tried[KN_MODEL_NAME_BYTES + 1];
    size_t length = strlen(word);
    if (length == 0 || length >= sizeof tried) return NULL;
    for (size_t i = 0; i <= length; i++)
        tried[i] = word[i] == '-' ? '_' : (char)tolower((unsigned char)word[i]);
    for (size_t i = 0; i < length; i++) {
        if (i > 0) {
            char kept = tried[i - 1];
            tried[i - 1] = tried[i];
            tried[i] = kept;
        }
        for (size_t k = 0; k < count; k++)
            if (words[k] && !strcmp(words[k], tried)) return words[k];
        if (i > 0) {
            char kept = tried[i - 1];
            tried[i - 1] = tried[i];
            tried[i] = kept;
        }
    }
    return kn_nearest_word(tried, words, count);
}

const char *kn_guess(const char *word, const char *const *words, size_t count, char buffer[KN_GUESS_BYTES]) {
    const char *near = nearest(word, words, count);
    buffer[0] = '\0';
    if (near) snprintf(buffer, KN_GUESS_BYTES, "; did you mean '%.*s'?", KN_MODEL_NAME_BYTES, near);
    return buffer;
}
