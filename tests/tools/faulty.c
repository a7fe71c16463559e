/* Preloaded before the OpenCL loader: where a program makes the kernel that FAULT_KERNEL names, it crashes,
 * or hangs if FAULT_WAY is hang. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) cl_kernel clCreateKernel(cl_program program, const char *name,
                                                                cl_int *code) {
    union {
        void *found;
        cl_kernel (*call)(cl_program, const char *, cl_int *);
    } next = {.found = dlsym(RTLD_NEXT, "clCreateKernel")};
    const char *wanted = getenv("FAULT_KERNEL"), *way = getenv("FAULT_WAY");
    if (wanted && !strcmp(wanted, name)) {
        while (way && !strcmp(way, "hang"))
            pause();
        abort();
    }
    return next.call(program, name, code);
}
