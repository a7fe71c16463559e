/* Preloaded before the OpenCL loader: writes to the file that COUNT_BUFFERS names how many buffers a program
 * asked for. From the one on whose number FAIL_BUFFERS is, from 1, there are none. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int created;

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("COUNT_BUFFERS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%d\n", created);
    fclose(file);
}

__attribute__((visibility("default"))) cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags,
                                                             size_t size, void *memory, cl_int *code) {
    union {
        void *found;
        cl_mem (*call)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    } next = {.found = dlsym(RTLD_NEXT, "clCreateBuffer")};
    const char *last = getenv("FAIL_BUFFERS");
    created++;
    if (last && created >= atoi(last)) {
        if (code) *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    return next.call(context, flags, size, memory, code);
}
