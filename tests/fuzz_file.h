/* A fuzzer's bytes as a file, for readers that take a path. */
#ifndef KN_FUZZ_FILE_H
#define KN_FUZZ_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The path of a file in memory with these bytes, the same in each call; NULL if it could not be written. */
static inline const char *fuzz_file(const uint8_t *bytes, size_t count) {
    static char path[40];
    static int file = -1;
    if (file < 0) {
        file = (int)syscall(SYS_memfd_create, "fuzz", 0u);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (file < 0 || ftruncate(file, 0) != 0) return NULL;
    for (size_t done = 0; done < count;) {
        ssize_t now = pwrite(file, bytes + done, count - done, (off_t)done);
        if (now <= 0) return NULL;
        done += (size_t)now;
    }
    return path;
}

#endif
