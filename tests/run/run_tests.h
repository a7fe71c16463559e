/* Helpers of the tests of running plans. */
#ifndef KN_PLAN_RUN_TESTS_H
#define KN_PLAN_RUN_TESTS_H

#include <koine/operators.h>

#include "device_support.h"
#include "run/run_private.h"
#include "run/session_private.h"
#include "wrapped.h"

/* Each runs one group and returns the number of its tests that failed. With a part they are the long ones. */
int test_fit(void);
int test_states(void);
int test_blocks(void);
int test_sessions(void);
int test_bindings(void);
int test_running(void);
int test_bytes(void);
int test_byte_functions(void);
int test_small_floats(void);
int test_guard(void);
int test_once(void);
int test_precompile(void);
int test_packs(void);
int test_statistics(void);
int test_producers(test_part part);
int test_joined(void);
int test_measured(void);
int test_tuning(void);
int test_faults(void);
int test_staging(void);
int test_devices(void);
int test_communicator(void);
int test_signatures(void);
int test_launches(test_part part);

/* Requires success, and shows the session's or the states' message otherwise. */
void session_good(const kn_session *session, kn_status status);
void states_good(const kn_states *states, kn_status status);
/* Requires a failure with this status whose text contains all of the words (NULL at the end). */
void session_bad(const kn_session *session, kn_status expected, kn_status status, ...);

/* y = relu(x w + b): x is (batch,3), w is (3,2), b is (2). The caller destroys the graph. */
typedef struct small_net {
    kn_graph *graph;
    kn_value *x, *w, *b, *y;
} small_net;
small_net small_net_make(void);
/* Requires that `y`, (rows,2), is the net's result for `x`, (rows,3), with these states. */
void small_net_check(kn_states *states, const float *x, size_t rows, const float *y);
/* Numbers in [-1, 1) that depend on `seed`. */
void fill_numbers(float *target, size_t count, uint64_t seed);

/* A graph with a state "sum" and an input "x", both (count): "sum" grows by x in each run. */
typedef struct adder {
    kn_graph *graph;
    kn_value *sum, *total; /* total is sum + x */
} adder;
adder adder_make(const char *shape);
/* The same where a run takes long before it reads x: "sum" and x are (256). `simulated`: less long. */
adder slow_adder_make(bool simulated);
/* The extension that writes the first value to the state "sum". */
kn_status adder_extend(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error);
/* A session that trains with it; destroys the graph. */
kn_session *adder_session(kn_context *context, adder *made);

#endif
