/* Precompiling: compiles each kernel of a plan, the last first, and launches it once on zeros, since some
 * drivers compile only at the first launch. Then the driver's cache has all kernels for a process that runs
 * the same plan. */
#include <string.h>

#include "run/run_private.h"

/* Drivers may recompile a kernel for a different work-group size, so a program is launched again if the size
 * differs from its last launch, recorded in `last`. */
static kn_status precompile_step(kn_executable *executable, const kn_executable_request *request,
                                 const kn_step_programs *list, int step, kn_launch *last, kn_error *error) {
    kn_program *program = NULL;
    kn_ready_step *ready = &executable->steps[step];
    kn_launch *before = &last[list->program_of[step]];
    kn_status status =
        kn_program_get(executable->context, &list->requests[list->program_of[step]], &program, error);
    if (status == KN_OK) status = kn_executable_make_kernel(executable, request, step, program, error);
    if (status != KN_OK || !memcmp(before->local, ready->launch.local, sizeof before->local)) return status;
    *before = ready->launch;
    return kn_executable_launch_on_zeros(executable, ready, &ready->launch, error);
}

kn_status kn_executable_precompile(kn_executable *executable, const kn_executable_request *request,
                                   const kn_step_programs *list, kn_error *error) {
    kn_launch *last = kn_allocate(&executable->host, list->count + 1, sizeof *last);
    if (!last) return kn_fail_memory(error, list->count * sizeof *last);
    kn_status status = KN_OK;
    for (int i = executable->plan.step_count - 1; i >= 0 && status == KN_OK; i--)
        if (list->program_of[i] >= 0) status = precompile_step(executable, request, list, i, last, error);
    kn_release(&executable->host, last);
    return status;
}
