/* Precompiling: compiles the kernels of a plan, for a process that runs the same plan at the same time.
 *
 * Where programs are shared through the disk cache, several processes compile in the order of the plan, each
 * what no other has compiled. Otherwise one process compiles from the last kernel to the first, and launches
 * each once on zeros, since drivers with their own cache may compile only at the first launch. */
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

static kn_status precompile_shared(kn_executable *executable, const kn_step_programs *list, kn_error *error) {
    bool *done = kn_allocate(&executable->host, list->count + 1, sizeof *done);
    if (!done) return kn_fail_memory(error, list->count * sizeof *done);
    kn_status status = KN_OK;
    for (int i = 0; i < executable->plan.step_count && status == KN_OK; i++) {
        const int number = list->program_of[i];
        if (number < 0 || done[number]) continue;
        done[number] = true;
        kn_program *program = NULL;
        kn_kernel *kernel = NULL;
        kn_program_request from = list->requests[number];
        from.spare = true;
        status = kn_program_get(executable->context, &from, &program, error);
        /* Some drivers compile when a kernel is created. */
        if (status == KN_OK && program)
            status = kn_kernel_create(executable->context, program, executable->plan.steps[i]->kernel,
                                      &kernel, error);
        kn_kernel_destroy(&kernel);
    }
    kn_release(&executable->host, done);
    return status;
}

kn_status kn_executable_precompile(kn_executable *executable, const kn_executable_request *request,
                                   const kn_step_programs *list, kn_error *error) {
    if (kn_context_capabilities(executable->context)->shares_programs)
        return precompile_shared(executable, list, error);
    kn_launch *last = kn_allocate(&executable->host, list->count + 1, sizeof *last);
    if (!last) return kn_fail_memory(error, list->count * sizeof *last);
    kn_status status = KN_OK;
    for (int i = executable->plan.step_count - 1; i >= 0 && status == KN_OK; i--)
        if (list->program_of[i] >= 0) status = precompile_step(executable, request, list, i, last, error);
    kn_release(&executable->host, last);
    return status;
}
