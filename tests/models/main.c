/* The tests of the models module. */
#include "models_tests.h"

int main(void) {
    return (test_texts() + test_mistakes() + test_blocks() + test_layers() + test_zoo() + test_saved() +
            test_losses() + test_hostile() + test_checkpoints()) != 0;
}
