/* Calls that the linker redirects to the tests: counted, and failing on request. */
#ifndef KN_PLAN_RUN_WRAPPED_H
#define KN_PLAN_RUN_WRAPPED_H

#include <koine/opencl.h>

typedef struct wrapped {
    int memory; /* malloc, calloc and realloc from Koine's code */
    int buffers, slices, kernels, builds;
    int arguments;      /* set */
    int launches;       /* of kernels */
    size_t uploaded;    /* bytes that were written to buffers */
    int calls;          /* of all functions that can fail */
    int fail_at;        /* the call with this number fails; 0 for none */
    const char *failed; /* which function failed last */
} wrapped;

extern wrapped wrapped_calls;
void wrapped_reset(void);

#endif
