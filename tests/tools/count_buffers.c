/* Preloaded before the OpenCL loader: writes to the file that COUNT_BUFFERS names how many buffers a program
 * asked for, and the most bytes that they had at a time. From the one on whose number FAIL_BUFFERS is, from
 * 1, there are none. The file that LIST_QUEUES names gets a letter for each queue: p if it is profiled, else
 * t. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static int created;
static atomic_ullong live, most;

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("COUNT_BUFFERS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%d %llu\n", created, most);
    fclose(file);
}

static void CL_CALLBACK destroyed(cl_mem memory, void *size) {
    live -= (size_t)size;
}

static void add(cl_mem memory, size_t size) {
    const unsigned long long now = live += size;
    unsigned long long before = most;
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
        ;
    union {
        void *found;
        cl_int (*call)(cl_mem, void(CL_CALLBACK *)(cl_mem, void *), void *);
    } callback = {.found = dlsym(RTLD_DEFAULT, "clSetMemObjectDestructorCallback")};
    if (callback.found) callback.call(memory, destroyed, (void *)size);
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
    cl_mem made = next.call(context, flags, size, memory, code);
    if (made) add(made, size);
    return made;
}

__attribute__((visibility("default"))) cl_command_queue
clCreateCommandQueue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                     cl_int *code) {
    union {
        void *found;
        cl_command_queue (*call)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
    } next = {.found = dlsym(RTLD_NEXT, "clCreateCommandQueue")};
    const char *path = getenv("LIST_QUEUES");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fputc(properties & CL_QUEUE_PROFILING_ENABLE ? 'p' : 't', file);
        fclose(file);
    }
    return next.call(context, device, properties, code);
}
