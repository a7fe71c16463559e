/* Helpers of the tests of the device module. */
#ifndef KN_DEVICE_TESTS_H
#define KN_DEVICE_TESTS_H

#include "device/device_private.h"
#include "support.h"

#include "wrapped.h"

/* A log that keeps its lines, those above DEBUG separately. */
typedef struct remembered {
    char all[16384];
    int loud; /* messages at WARNING or ERROR */
} remembered;
kn_logger remembering_log(remembered *lines);

/* Parameters for the device under test: KOINE_DEVICE, or the default one. */
kn_context_params test_params(void);
/* Opens a context and requires that it works. NULL: test_params. */
kn_context *open_context(const kn_context_params *params);

/* Kernels that several tests use. */
extern const char twice_source[];
kn_program *twice_program(kn_context *context);
/* Doubles `count` floats of a buffer, in work-groups of one. */
void launch_twice(kn_context *context, kn_kernel *kernel, kn_buffer *buffer, size_t count);

int test_context(void);
int test_discovery(void);
int test_memory(void);
int test_queue(void);
int test_launch(void);
int test_programs(void);
int test_cache(void);
int test_target(void);
int test_timeline(void);
int test_opencl(void);
int test_faults(void);

#endif
