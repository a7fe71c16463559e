/* libFuzzer's entry to tokenizer.json: the file, a zero byte, and a text. */
#include <stdlib.h>
#include <string.h>

#include <koine/text.h>

#include "../fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const uint8_t *zero = count ? memchr(bytes, 0, count) : NULL;
    size_t length = zero ? (size_t)(zero - bytes) : count;
    const char *path = fuzz_file(bytes, length);
    if (!path) return 0;
    kn_vocabulary *words = kn_vocabulary_open(path, NULL);
    if (kn_vocabulary_status(words) == KN_OK) {
        enum { ROOM = 4096 };
        static int32_t tokens[ROOM];
        static char text[ROOM];
        size_t token_count = 0, size;
        const char *rest = zero ? (const char *)zero + 1 : "A bc\xff 12";
        size_t rest_count = zero ? count - length - 1 : 8;
        if (kn_vocabulary_encode(words, rest, rest_count, 3, tokens, ROOM, &token_count) == KN_OK &&
            token_count <= ROOM)
            kn_vocabulary_decode(words, tokens, token_count, 0, NULL, text, ROOM, &size);
    } else if (words && !kn_vocabulary_error(words)[0]) {
        abort();
    }
    kn_vocabulary_destroy(&words);
    return 0;
}
