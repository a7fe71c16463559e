/* libFuzzer's entry to the GGUF reader. */
#include <stdlib.h>

#include "readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    kn_error error = {0};
    kn_status status = read_gguf(NULL, bytes, count, &error);
    if (reader_inconsistent || (status != KN_OK && error.text[0] == '\0')) abort();
    return 0;
}
