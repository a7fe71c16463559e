/* Detects whether an MPI launcher started this process, and loads libkoine-mpi. */
#include "command/ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <koine/version.h>

/* Open MPI; MPICH, Intel MPI and others with a PMI; MVAPICH; srun. Batch scripts also have SLURM_NTASKS. */
static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        "SLURM_STEP_NUM_TASKS"};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

int ranks_of_environment(const char **variable) {
    if (variable) *variable = NULL;
    for (int i = 0; i < VARIABLES; i++) {
        const char *text = getenv(variables[i]);
        char *end = NULL;
        const long ranks = text ? strtol(text, &end, 10) : 0;
        if (ranks < 2 || ranks > 1000000 || *end) continue;
        if (variable) *variable = variables[i];
        return (int)ranks;
    }
    return 1;
}

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#if KN_API_VERSION_MAJOR == 0
#define SOVERSION TEXT(KN_API_VERSION_MAJOR) "." TEXT(KN_API_VERSION_MINOR)
#else
#define SOVERSION TEXT(KN_API_VERSION_MAJOR)
#endif
#if defined(__APPLE__)
static const char *const names[] = {"libkoine-mpi." SOVERSION ".dylib", "libkoine-mpi.dylib"};
#else
static const char *const names[] = {"libkoine-mpi.so." SOVERSION, "libkoine-mpi.so"};
#endif

/* A function of the library, which stays loaded because MPI cannot be unloaded. NULL: not found. */
static void *find(const char *function) {
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL); /* plugins of some MPIs need its symbols */
    return library ? dlsym(library, function) : NULL;
}

kn_status ranks_open(kn_communicator *communicator, char *error, size_t bytes) {
    const char *variable = NULL;
    const int started = ranks_of_environment(&variable);
    union {
        void *pointer;
        kn_status (*call)(kn_communicator *communicator, char *error, size_t bytes);
    } open = {.pointer = find("kn_mpi_create")};
    if (!open.pointer) {
        const char *reason = dlerror();
        snprintf(
            error, bytes,
            "%s cannot be loaded (%s): build Koine with -Dmpi=enabled, which needs the headers of an MPI "
            "(libopenmpi-dev on Debian and Ubuntu)",
            names[0], reason ? reason : "it lacks kn_mpi_create");
        return KN_ERROR_UNSUPPORTED;
    }
    kn_status status = open.call(communicator, error, bytes);
    if (status || !variable || communicator->ranks == started) return status;
    snprintf(
        error, bytes,
        "%s is %d and MPI counts %d processes: %s was built with another MPI than the one whose mpirun, or "
        "srun, has started them (-Dmpi_packages chooses it)",
        variable, started, communicator->ranks, names[0]);
    ranks_close(communicator);
    return KN_ERROR_UNSUPPORTED;
}

void ranks_close(kn_communicator *communicator) {
    union {
        void *pointer;
        void (*call)(kn_communicator *communicator);
    } close = {.pointer = find("kn_mpi_destroy")};
    if (close.pointer) close.call(communicator);
}

kn_status ranks_open_workers(const kn_communicator *const *within, int count, kn_mpi_workers **workers,
                             char *error, size_t bytes) {
    union {
        void *pointer;
        kn_status (*call)(const kn_communicator *const *within, int count, kn_mpi_workers **workers,
                          char *error, size_t bytes);
    } open = {.pointer = find("kn_mpi_workers_create")};
    if (open.pointer) return open.call(within, count, workers, error, bytes);
    snprintf(
        error, bytes,
        "%s lacks kn_mpi_workers_create, so that each process can have one device: install the one of this "
        "version of Koine",
        names[0]);
    return KN_ERROR_UNSUPPORTED;
}

const kn_communicator *ranks_worker(kn_mpi_workers *workers, int number) {
    union {
        void *pointer;
        const kn_communicator *(*call)(kn_mpi_workers *workers, int number);
    } rank = {.pointer = find("kn_mpi_workers_communicator")};
    return rank.pointer ? rank.call(workers, number) : NULL;
}

void ranks_close_workers(kn_mpi_workers **workers) {
    union {
        void *pointer;
        void (*call)(kn_mpi_workers **workers);
    } close = {.pointer = find("kn_mpi_workers_destroy")};
    if (close.pointer) close.call(workers);
}
