/* libFuzzer's entry to chat templates. */
#include <stdlib.h>
#include <string.h>

#include "text/template_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static const char variables[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a "
                                    "b\"},{\"role\":\"assistant\",\"content\":\"\\u00e9\"}],"
                                    "\"tools\":[{\"name\":\"f\",\"n\":[1,2.5,null,true]}],\"add_generation_"
                                    "prompt\":true,\"bos_token\":\"<s>\"}";
    kn_host host = kn_host_defaults();
    kn_error error = {0};
    kn_arena arena;
    kn_text out;
    kn_json *root;
    kn_cell given;
    kn_arena_init(&arena, &host);
    kn_text_init(&out, &host);
    if (kn_json_read(&arena, "x", variables, sizeof variables - 1, 1 << 20, 64, &root, &error) != KN_OK ||
        !kn_cell_from_json(&arena, root, &given))
        abort();
    char *text = malloc(count + 1);
    if (text) {
        memcpy(text, bytes, count);
        text[count] = '\0';
        if (kn_template_write(&arena, "x", text, count, &given, &out, &error) != KN_OK && !error.text[0])
            abort();
    }
    free(text);
    kn_text_finish(&out);
    kn_arena_finish(&arena);
    return 0;
}
