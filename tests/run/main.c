/* The tests of placing memory, states, sessions and runs, on the device at hand. */
#include "run_tests.h"

/* With an argument: launches, with each operator of the table. */
int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return test_launches(true) != 0;
    int failures = test_fit() + test_states() + test_sessions() + test_bindings() + test_bytes() +
                   test_running() + test_guard() + test_once() + test_statistics() + test_producers() +
                   test_measured() + test_devices() + test_signatures() + test_launches(false) +
                   test_precompile() + test_faults();
    return failures != 0;
}
