/* The groups of tests of src/text. */
#ifndef KN_TEXT_TESTS_H
#define KN_TEXT_TESTS_H

#include "support.h"

int test_vocabularies(void);
int test_gguf_vocabularies(void);

#endif
