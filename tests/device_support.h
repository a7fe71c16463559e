/* A context on the device under test, for tests that use the public interface: KOINE_DEVICE selects it, and
 * compiled programs are kept in the cache of the tests. */
#ifndef KN_TESTS_DEVICE_SUPPORT_H
#define KN_TESTS_DEVICE_SUPPORT_H

#include <koine/context.h>
#include <koine/debug.h>
#include <koine/session.h>
#include <koine/verify.h>

#include "support.h"

/* From here on, a crash ends the program, not only the case: cmocka would longjmp out of a driver thread and
 * continue while that thread's locks are held. device_open also calls it. */
void let_crashes_end_the_program(void);
/* Parameters that name the device and the cache folder. */
kn_context_params device_params(void);
/* NULL params: as above. Fails the test if no device works. */
kn_context *device_open(const kn_context_params *params);
/* Fails the test unless all device memory is freed, then destroys the context. */
void device_close(kn_context **context);
/* Whether a device can be opened; prints why not. For main, which returns 77 then. */
bool device_is_there(void);
kn_context_counts device_counts(const kn_context *context);

/* A hash of names, shapes and bytes of all states, in any order. */
kn_status states_read_hash(kn_states *states, uint64_t *hash);
/* The same; fails the test where a state cannot be read, or there is none. */
uint64_t states_hash(kn_states *states);

/* The result of kn_verify, collected by its report: the number of correct cases, and a line for each other
 * case. */
typedef struct verify_outcome {
    int right;
    char failures[8000];
} verify_outcome;
void take_verify_result(void *outcome, const kn_verify_result *result);

/* Setup and teardown of a group or a case: *state is the context. */
int device_setup(void **state);
int device_teardown(void **state);

#endif
