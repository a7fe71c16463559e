/* Preloaded: goes wrong in the worker whose number FAULT_WORKER is, of those of `koine train --devices`.
 * FAULT is what happens: `launch-fails`, `launch-hangs`, `launch-kills` or `launch-stops` (the
 * process) at its kernel launch number FAULT_AT, `message-fails` or `message-hangs` at its message. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "group_end.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16 };

static int number_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? atoi(text) : -1;
}

/* Whether it goes wrong here; then a hang does not return. */
static bool strikes(const char *what, int worker, atomic_int *count) {
    const char *wanted = getenv("FAULT");
    const size_t length = strlen(what);
    if (!wanted || strncmp(wanted, what, length) != 0 || worker != number_of("FAULT_WORKER")) return false;
    if (atomic_fetch_add(count, 1) + 1 != number_of("FAULT_AT")) return false;
    if (!strcmp(wanted + length, "-kills")) kill(getpid(), SIGKILL);
    if (!strcmp(wanted + length, "-stops")) kill(getpid(), SIGSTOP);
    while (!strcmp(wanted + length, "-hangs"))
        pause();
    return true;
}

/* ---- devices: a worker is a context, in the order of their creation; one that is opened anew takes its
 * place */

static _Atomic(cl_context) contexts[MOST];
static atomic_int launches, messages;

__attribute__((visibility("default"))) cl_context
clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
                cl_int *code) {
    union {
        void *found;
        cl_context (*call)(const cl_context_properties *, cl_uint, const cl_device_id *,
                           void(CL_CALLBACK *)(const char *, const void *, size_t, void *), void *, cl_int *);
    } next = {.found = dlsym(RTLD_NEXT, "clCreateContext")};
    cl_context made = next.call(properties, count, devices, notify, user, code);
    for (int i = 0; i < MOST; i++) {
        cl_context none = NULL;
        if (atomic_compare_exchange_strong(&contexts[i], &none, made)) break;
    }
    return made;
}

__attribute__((visibility("default"))) cl_int clReleaseContext(cl_context context) {
    union {
        void *found;
        cl_int (*call)(cl_context);
    } next = {.found = dlsym(RTLD_NEXT, "clReleaseContext")};
    for (int i = 0; i < MOST; i++) {
        cl_context expected = context;
        if (context) atomic_compare_exchange_strong(&contexts[i], &expected, NULL);
    }
    return next.call(context);
}

static int worker_of(cl_command_queue queue) {
    cl_context context = NULL;
    clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    for (int i = 0; i < MOST; i++)
        if (contexts[i] == context) return i;
    return -1;
}

__attribute__((visibility("default"))) cl_int
clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                       const size_t *global, const size_t *local, cl_uint count, const cl_event *events,
                       cl_event *event) {
    union {
        void *found;
        cl_int (*call)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,
                       cl_uint, const cl_event *, cl_event *);
    } next = {.found = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel")};
    if (strikes("launch", worker_of(queue), &launches)) return CL_OUT_OF_RESOURCES;
    return next.call(queue, kernel, dimensions, offset, global, local, count, events, event);
}

/* ---- the communicator ---------------------------------------------------------------------------------- */

typedef struct end {
    forwarded base;
    bool failed;
} end;
static end ends[MOST];

static kn_status end_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    end *own = user;
    *request = NULL;
    own->failed = own->failed || strikes("message", own->base.inner->rank, &messages);
    return own->failed ? KN_ERROR_COMMUNICATION
                       : own->base.inner->send(own->base.inner->user, rank, tag, data, bytes, request);
}

static const char *end_error(void *user) {
    end *own = user;
    const char *text = own->base.inner->error(own->base.inner->user);
    return own->failed && !text[0] ? "a planted failure of a message" : text;
}

__attribute__((visibility("default"))) const kn_communicator *kn_group_communicator(kn_group *group,
                                                                                    int rank) {
    kn_communicator *outer = rank >= 0 && rank < MOST ? group_end_open(&ends[rank].base, group, rank) : NULL;
    if (!outer) return NULL;
    outer->send = end_send;
    outer->error = end_error;
    return outer;
}
