/* libFuzzer's entry to the reader of text models. */
#include <stdio.h>
#include <stdlib.h>

#include "models_tests.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    char sentence[1024];
    if (text_is_treated_well((const char *)bytes, count, sentence, sizeof sentence)) return 0;
    fprintf(stderr, "%s\n", sentence);
    abort();
}
