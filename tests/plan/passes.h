/* Runs the planning passes one by one on a bound graph, without a device. */
#ifndef KN_TESTS_PASSES_H
#define KN_TESTS_PASSES_H

#include "plan/plan_private.h"

typedef struct pass_run {
    kn_host host;
    kn_error error;
    kn_arena arena;
    kn_graph *graph;
    kn_value *bound_outputs[8];
    kn_planner planner;
    kn_plan_request request;
    kn_target target;
    kn_switches switches;
    int done; /* passes that have run */
} pass_run;

/* Binds `outputs` (batch is 6) and prepares everything for the first pass; extend as in kn_session_request.
 */
void passes_begin(pass_run *passes, kn_value *const *outputs, size_t count, bool training,
                  kn_status (*extend)(void *user, kn_graph *bound, kn_value **values, size_t count,
                                      kn_error *error),
                  void *user);
/* From the next call on the device is a CPU with vectors of `width`. `switches` forces the kernels that would
 * otherwise be tried on a device first. */
void passes_wide(pass_run *passes, int width, const char *switches);
/* Fails the test if the switches are invalid. */
void passes_switch(pass_run *passes, const char *switches);
/* Runs the passes that have not run yet, up to and with the one of that name. Fails the test if one fails,
 * reads or writes a field that its row of kn_passes does not name, or writes one that it names as read only.
 */
void passes_run(pass_run *passes, const char *last);
void passes_end(pass_run *passes);
/* The number of groups, nodes or steps that satisfy a condition. */
int passes_count_nodes(const pass_run *passes, const char *operator_name);
int passes_count_steps(const pass_run *passes, const char *file);
kn_group *passes_group_of(pass_run *passes, const char *operator_name);

#endif
