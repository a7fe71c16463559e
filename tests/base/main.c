/* The tests of the base module. */
#include "base_tests.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

kn_host failing_host(failing *state) {
    kn_host host = kn_host_defaults();
    host.allocator = failing_allocator(state);
    return host;
}

uint64_t next_number(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

int open_descriptors(void) {
    int count = 0;
    for (int i = 0; i < 256; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

int main(void) {
    return test_errors() + test_params() + test_memory() + test_map() + test_text() + test_numbers() +
           test_small_floats() + test_shards() + test_random() + test_threads() + test_files() +
           test_file_writer();
}
