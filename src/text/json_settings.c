/* tokenizer_config.json and generation_config.json: the roles of tokens, the ends of generation, and the chat
 * template. */
#include "text/text_private.h"

#include <string.h>

/* A token as text, or as an object with the text. */
static int64_t token_of(const kn_vocabulary *vocabulary, const kn_json *value) {
    if (value && value->kind == KN_JSON_OBJECT) value = kn_json_member(value, "content");
    if (!value || value->kind != KN_JSON_STRING) return -1;
    for (size_t i = 0; i < vocabulary->added_count; i++)
        if (vocabulary->added[i].length == value->length &&
            memcmp(vocabulary->added[i].text, value->text, value->length) == 0)
            return vocabulary->added[i].token;
    return kn_words_find(&vocabulary->model.words, value->text, value->length);
}

/* A template, or a list of named ones, of which "default" is used. */
static const kn_json *template_of(const kn_json *value) {
    if (!value || value->kind != KN_JSON_ARRAY) return value;
    for (const kn_json *item = value->first; item; item = item->next) {
        const kn_json *name = kn_json_member(item, "name");
        if (name && name->kind == KN_JSON_STRING && strcmp(name->text, "default") == 0)
            return kn_json_member(item, "template");
    }
    return NULL;
}

kn_status kn_tokenizer_read_settings(kn_vocabulary *vocabulary, const kn_json *root) {
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    for (int role = 0; role < 4; role++)
        vocabulary->roles[role] = (int32_t)token_of(vocabulary, kn_json_member(root, keys[role]));
    const kn_json *chat = template_of(kn_json_member(root, "chat_template"));
    if (!chat || chat->kind != KN_JSON_STRING) return KN_OK;
    vocabulary->chat_template = kn_arena_copy(&vocabulary->arena, chat->text, chat->length + 1, 1);
    return vocabulary->chat_template ? KN_OK : kn_fail_memory(&vocabulary->error, chat->length);
}

kn_status kn_tokenizer_read_generation(kn_vocabulary *vocabulary, const kn_json *root) {
    const kn_json *ends = kn_json_member(root, "eos_token_id");
    bool list = ends && ends->kind == KN_JSON_ARRAY;
    for (const kn_json *item = list ? ends->first : ends; item; item = list ? item->next : NULL) {
        int64_t token;
        if (kn_json_int64(item, &token) && token >= 0 && token < KN_WORD_NUMBERS)
            kn_vocabulary_add_end(vocabulary, token);
    }
    return KN_OK;
}
