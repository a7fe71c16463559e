/* OpenCL calls that the linker redirects to the tests: counted, and failing on request. */
#ifndef KN_DEVICE_WRAPPED_H
#define KN_DEVICE_WRAPPED_H

#include <stdbool.h>

#include <koine/opencl.h>

typedef struct wrapped {
    int sources, binaries, builds; /* programs made from source, from a binary; all builds */
    int buffers;
    int finishes;
    int calls;             /* of all wrapped functions */
    char options[128];     /* of the last build */
    bool shows_warnings;   /* a compiler that does not accept -w */
    const char *fail_name; /* the function that fails with fail_code */
    int fail_at;           /* or: the call with this number fails; 0 for none */
    cl_int fail_code;
    const char *failed;       /* which function failed last */
    cl_device_info lie_about; /* clGetDeviceInfo returns `lie` for this query; 0 for none */
    cl_ulong lie;
    int holds;            /* number of times that a queue's reported reference count is one too high */
    int devices_released; /* calls of clReleaseDevice */
} wrapped;

extern wrapped wrapped_calls;
/* Resets the counters; nothing fails. */
void wrapped_reset(void);

#endif
