/* Tokens of language models: a vocabulary from a file. */
#include "data/tokens.h"

kn_status kn_words_open(kn_words *words, const kn_host *host, const char *path, kn_error *error) {
    *words = (kn_words){.host = host, .vocabulary = kn_vocabulary_open(path, &host->allocator)};
    if (!words->vocabulary) return kn_fail_memory(error, sizeof(void *));
    const kn_status status = kn_vocabulary_status(words->vocabulary);
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s", kn_vocabulary_error(words->vocabulary));
}

void kn_words_close(kn_words *words) {
    kn_vocabulary_destroy(&words->vocabulary);
}

kn_status kn_words_encode(const kn_words *words, const char *source, const char *text, size_t bytes,
                          unsigned flags, int32_t **tokens, size_t *count, kn_error *error) {
    /* A text has at most a token per byte, and those that a vocabulary adds; most have far fewer. */
    size_t room = bytes / 3 + 64, found = 0;
    kn_status status = KN_OK;
    *tokens = NULL;
    *count = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        kn_release(words->host, *tokens);
        *tokens = kn_allocate(words->host, room, sizeof **tokens);
        if (!*tokens) return kn_fail_memory_for(error, "the tokens of the text", room, sizeof **tokens);
        status =
            kn_vocabulary_encode(words->vocabulary, text ? text : "", bytes, flags, *tokens, room, &found);
        if (status != KN_OK) {
            kn_release(words->host, *tokens);
            *tokens = NULL;
            return kn_fail(error, status, "%s: the text cannot be encoded with the vocabulary (%s): %s",
                           source, kn_vocabulary_summary(words->vocabulary), kn_status_message(status));
        }
        if (found <= room) break;
        room = found;
    }
    *count = found;
    return KN_OK;
}
