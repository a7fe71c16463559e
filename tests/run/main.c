/* Tests of memory placement, states, sessions and runs, on the selected device. */
#include "run_tests.h"

/* With arguments PART PARTS, runs one of PARTS slices of the long tests. */
int main(int argc, char **argv) {
    const test_part part = test_part_of(argc, argv);
    if (part.parts) return test_producers(part) + test_launches(part) != 0;
    int failures = test_fit() + test_states() + test_blocks() + test_sessions() + test_bindings() +
                   test_bytes() + test_small_floats() + test_byte_functions() + test_running() +
                   test_guard() + test_once() + test_packs() + test_statistics() + test_producers(part) +
                   test_joined() + test_measured() + test_tuning() + test_devices() + test_signatures() +
                   test_communicator() + test_launches(part) + test_precompile() + test_staging() +
                   test_faults();
    return failures != 0;
}
