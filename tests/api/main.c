/* Wrong uses of the public interface. As far as possible it runs without a device. */
#include "api_tests.h"

int main(void) {
    int failures = test_null() + test_wrong_graphs() + test_custom(false);
    if (device_is_there()) failures += test_custom(true) + test_wrong_runs() + test_steps();
    return failures != 0;
}
