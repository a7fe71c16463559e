/* libFuzzer's entry to the readers of shapes, attributes and expressions. */
#include <stdio.h>
#include <stdlib.h>

#include "graph_tests.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    char *text = malloc(count + 1);
    if (!text) return 0;
    if (count) memcpy(text, bytes, count);
    text[count] = '\0';
    const char *wrong = read_texts(text);
    free(text);
    if (!wrong) return 0;
    fprintf(stderr, "%s\n", wrong);
    abort();
}
