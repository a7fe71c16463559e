/* The tests of the base room. */
#include "base_tests.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static void *failing_resize(void *user, void *pointer, size_t bytes) {
    failing *state = user;
    if (bytes == 0) {
        if (pointer) state->live--;
        free(pointer);
        return NULL;
    }
    state->calls++;
    if (state->fail_at > 0 &&
        (state->calls == state->fail_at || (state->fail_after && state->calls > state->fail_at)))
        return NULL;
    void *moved = realloc(pointer, bytes);
    if (!pointer && moved) {
        state->live++;
        memset(moved, 0xA5, bytes); /* whoever wants zeros must write them */
    }
    return moved;
}

kn_host failing_host(failing *state) {
    kn_host host = kn_host_defaults();
    host.allocator.user = state;
    host.allocator.resize = failing_resize;
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
    return test_errors() + test_memory() + test_map() + test_text() + test_numbers() + test_random() +
           test_threads() + test_files() + test_file_writer();
}
