/* Conversations as text, by the vocabulary's template. */
#include "text/template_private.h"

#include <stdio.h>
#include <string.h>

enum { VARIABLE_BYTES = 1 << 26 };

/* bos_token and so on, unless the variables have them. */
static bool add_roles(const kn_vocabulary *vocabulary, kn_arena *arena, kn_cell *variables) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    for (int role = 0; role < 4; role++) {
        size_t length = 0, name = strlen(names[role]);
        const char *text = kn_vocabulary_token(vocabulary, vocabulary->roles[role], &length);
        if (!text || kn_cell_member(variables, names[role], name)) continue;
        kn_cell key = kn_cell_text(arena, names[role], name), value = kn_cell_text(arena, text, length);
        if (!key.text || !value.text || !kn_cell_put(arena, variables, key, value)) return false;
    }
    return true;
}

static kn_status write_chat(const kn_vocabulary *vocabulary, kn_arena *arena, const char *variables,
                            kn_text *out, kn_error *error) {
    kn_json *root;
    kn_cell given;
    if (!vocabulary->chat_template)
        return kn_fail(error, KN_ERROR_NOT_FOUND,
                       "%s has no chat template: it is not a model for conversations, or a folder that lacks "
                       "chat_template.jinja",
                       vocabulary->name);
    kn_status status = kn_json_read(arena, "the variables of the chat template", variables, strlen(variables),
                                    VARIABLE_BYTES, 64, &root, error);
    if (status != KN_OK) return status;
    if (root->kind != KN_JSON_OBJECT)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "the variables of the chat template are %s; expected an object",
                       kn_json_kind_name(root->kind));
    if (!kn_cell_from_json(arena, root, &given) || !add_roles(vocabulary, arena, &given))
        return kn_fail_memory(error, 0);
    return kn_template_write(arena, "the chat template", vocabulary->chat_template,
                             strlen(vocabulary->chat_template), &given, out, error);
}

kn_status kn_vocabulary_chat(const kn_vocabulary *vocabulary, const char *variables, char *text,
                             size_t capacity, size_t *bytes, char *message, size_t size) {
    if (message && size) message[0] = '\0';
    if (!vocabulary || vocabulary->error.status != KN_OK || !variables || (!text && capacity) || !bytes)
        return KN_ERROR_ARGUMENT;
    kn_error error = {0};
    kn_arena arena;
    kn_text out;
    kn_arena_init(&arena, &vocabulary->host);
    kn_text_init(&out, &vocabulary->host);
    kn_status status = write_chat(vocabulary, &arena, variables, &out, &error);
    if (status == KN_OK) {
        *bytes = out.length;
        if (capacity) memcpy(text, out.data, out.length < capacity ? out.length : capacity);
    } else if (message && size) {
        snprintf(message, size, "%s", error.text);
    }
    kn_text_finish(&out);
    kn_arena_finish(&arena);
    return status;
}
