/* The tests of placing memory, states, sessions and runs, on the device at hand. */
#include "run_tests.h"

int main(void) {
    int failures = test_fit() + test_states() + test_sessions() + test_bindings() + test_bytes() +
                   test_running() + test_guard() + test_once() + test_statistics() + test_producers() +
                   test_measured() + test_devices() + test_signatures() + test_launches() +
                   test_precompile() + test_faults();
    return failures != 0;
}
