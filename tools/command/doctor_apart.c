/* koine doctor, drivers: runs parts of the visit in a separate process, to report a driver that crashes or
 * hangs. Both processes share the visit's memory. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

enum { TIMEOUT = 120, MAX_PLATFORMS = 64 };

doctor_visit *doctor_begin(void) {
    doctor_visit *doctor =
        mmap(NULL, sizeof *doctor, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (doctor == MAP_FAILED) return NULL;
    doctor->root = "";
    doctor->timeout = TIMEOUT;
    return doctor;
}

void doctor_end(doctor_visit *doctor) {
    munmap(doctor, sizeof *doctor);
}

void doctor_step(const doctor_visit *doctor) {
    if (doctor->apart) alarm(doctor->timeout);
}

static void run_apart(doctor_visit *doctor, doctor_part *part, const char *about) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    doctor_step(doctor);
    part(doctor, about);
    doctor->finished = true;
    fflush(stdout);
    _exit(0);
}

bool doctor_apart(doctor_visit *doctor, doctor_part *part, const char *about) {
    int result = 0;
    doctor->finished = false;
    doctor->apart = true;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) run_apart(doctor, part, about);
    if (child < 0) {
        doctor->apart = false;
        part(doctor, about);
        return true;
    }
    while (waitpid(child, &result, 0) < 0)
        if (errno != EINTR) break;
    if (doctor->finished) return true;
    if (WIFSIGNALED(result) && WTERMSIG(result) == SIGALRM)
        snprintf(doctor->end, sizeof doctor->end, "it did not answer within %u s", doctor->timeout);
    else if (WIFSIGNALED(result))
        snprintf(doctor->end, sizeof doctor->end, "it ended the program by signal %d (%s)", WTERMSIG(result),
                 strsignal(WTERMSIG(result)));
    else
        snprintf(doctor->end, sizeof doctor->end, "it ended the program with status %d", WEXITSTATUS(result));
    return false;
}

/* ---- a driver's library ---------------------------------------------------------------------------- */

/* The interface between loader and driver, declared here so that no OpenCL headers are needed. */
typedef int platforms_function(unsigned room, void **platforms, unsigned *count);
typedef int devices_function(void *platform, unsigned long long type, unsigned room, void **devices,
                             unsigned *count);
enum { INDEX_OF_DEVICES = 2 }; /* index of clGetDeviceIDs in the table at the beginning of each platform */
static const unsigned long long all_types = 0xffffffff;

/* Queries platforms and the number of their devices, as a loader does. */
static void ask(void *library) {
    union {
        void *pointer;
        void *(*address)(const char *name);
        platforms_function *platforms;
        devices_function *devices;
    } function = {.pointer = dlsym(library, "clGetExtensionFunctionAddress")};
    void *platforms[MAX_PLATFORMS];
    unsigned count = 0, devices = 0;
    if (!function.pointer) return;
    function.pointer = function.address("clIcdGetPlatformIDsKHR");
    if (!function.pointer || function.platforms(0, NULL, &count) != 0 || !count || count > MAX_PLATFORMS)
        return;
    if (function.platforms(count, platforms, NULL) != 0) return;
    for (unsigned i = 0; i < count; i++) {
        function.pointer = (*(void ***)platforms[i])[INDEX_OF_DEVICES];
        function.devices(platforms[i], all_types, 0, NULL, &devices);
    }
}

static void try_library(doctor_visit *doctor, const char *path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    const char *said = library ? "" : dlerror();
    doctor->loaded = library != NULL;
    snprintf(doctor->reason, sizeof doctor->reason, "%s", said ? said : "it cannot be loaded");
    if (library) ask(library);
}

bool doctor_library(doctor_visit *doctor, const char *path) {
    doctor->loaded = false;
    doctor->reason[0] = '\0';
    return doctor_apart(doctor, try_library, path);
}
