/* libFuzzer's entry to the readers of shapes, attributes and expressions. */
#include <stdlib.h>

#include "graph_tests.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    char *text = malloc(count + 1);
    if (!text) return 0;
    if (count) memcpy(text, bytes, count);
    text[count] = '\0';
    if (read_texts(text)) abort();
    free(text);
    return 0;
}
