/* A context on the device at hand, for tests that use the public interface: KOINE_DEVICE picks it, and
 * compiled programs are kept in the cache of the tests. */
#ifndef KN_TESTS_DEVICE_SUPPORT_H
#define KN_TESTS_DEVICE_SUPPORT_H

#include <koine/context.h>
#include <koine/verify.h>

#include "support.h"

/* A crash from here on ends the program, not the case alone: cmocka would leap out of whichever of the
 * driver's threads it was, and go on while that one's locks are held. device_open does it, too. */
void let_crashes_end_the_program(void);
/* Parameters that name the device and the cache folder. */
kn_context_params device_params(void);
/* NULL params: as above. Fails the test where there is no device that works. */
kn_context *device_open(const kn_context_params *params);
/* Fails unless nothing of the device's memory is held any more, then destroys the context. */
void device_close(kn_context **context);
/* Whether a device can be opened at all; says why not. For main, which answers 77 then. */
bool device_is_there(void);
kn_context_counts device_counts(const kn_context *context);

/* What kn_verify said, gathered by its report: how many were right, and the others, a line each. */
typedef struct verify_outcome {
    int right;
    char failures[8000];
} verify_outcome;
void take_verify_result(void *outcome, const kn_verify_result *result);

/* Setup and teardown of a group or a case: *state is the context. */
int device_setup(void **state);
int device_teardown(void **state);

#endif
