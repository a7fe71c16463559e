#include "text_tests.h"

int main(void) {
    return test_vocabularies() + test_gguf_vocabularies();
}
