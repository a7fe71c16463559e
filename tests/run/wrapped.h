/* Calls that the linker redirects to the tests: counted, and failing on request. */
#ifndef KN_PLAN_RUN_WRAPPED_H
#define KN_PLAN_RUN_WRAPPED_H

#include <stdbool.h>
#include <stddef.h>

#include <koine/opencl.h>

typedef struct wrapped {
    int memory; /* malloc, calloc and realloc from Koine's code */
    int buffers, slices, kernels, builds;
    int arguments;      /* set */
    int launches;       /* of kernels */
    int divisible;      /* of these, with more than one work-group */
    size_t most_groups; /* of a launch, along its second or third dimension */
    int flushes;
    size_t uploaded;    /* bytes that were written to buffers */
    int waited_uploads; /* writes to buffers that the caller waits for */
    int staged_uploads; /* those from memory that is mapped */
    int staged_after;   /* how many of them wait for work of the other queue */
    int overwritten;    /* from memory from which an upload was not complete */
    int unordered;      /* kernels that were launched before their queue waits for such an upload */
    int calls;          /* of all functions that can fail */
    /* What no driver must get: null memory for a kernel, more than 65,535 work-groups in y or z, a work-group
     * above the kernel's limit. */
    int null_arguments, too_many_groups, too_large_groups;
    /* A driver with faults; it is to be set after wrapped_reset. */
    size_t most_items;  /* limits the work-group size; 0: as the device */
    const char *kernel; /* … of this kernel only, which the device's limit does not include; NULL: of all */
    const char *text;   /* programs whose source contains this, such as the name of a file of cl/, … */
    const char *unless; /* … and not this; NULL: any */
    enum wrapped_fault {
        WRAPPED_NONE,
        WRAPPED_FAILS, /* programs that do not compile */
        WRAPPED_DIES,  /* … end the process when they are compiled */
        WRAPPED_LIES,  /* … compute nothing */
    } fault;
    int faults;         /* how often that happened */
    bool apart;         /* the device reports that its memory is separate from the host's */
    bool no_staging;    /* it has no memory of the host */
    bool no_maps;       /* it maps nothing */
    int fail_at;        /* the call with this number fails; 0 for none */
    const char *failed; /* which function failed last */
} wrapped;

extern wrapped wrapped_calls;
extern int wrapped_maps; /* that exist; wrapped_reset leaves it */
void wrapped_reset(void);

#endif
