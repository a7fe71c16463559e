/* The tests of the ops module: usage: test-ops GOLDEN_OPERATORS_JSON */
#include "ops_tests.h"

int main(int count, char **arguments) {
    if (count != 2) {
        print_error("usage: test-ops tests/golden/operators.json\n");
        return 2;
    }
    return test_pointwise_values() + test_shapes() + test_builders() + test_made_shapes() + test_layers() +
           test_spectrogram() + test_rows() + test_fragments() + test_lowering() + test_golden(arguments[1]);
}
