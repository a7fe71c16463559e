/* Precompiling: one kernel of each kind of a plan, the last first, compiled and launched once on zeros, since
 * some drivers compile no sooner. What they keep of it is then there for a process that makes the same plan
 * from its other end. */
#include <string.h>

#include "plan/run_private.h"

/* The bytes of an argument that is memory; 0 for others and for what no step reads or writes. */
static uint64_t bytes_of(const kn_plan *plan, const kn_argument *argument) {
    if (argument->kind == KN_ARGUMENT_SCRATCH) return plan->scratches[argument->integer].bytes;
    if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) return 0;
    const kn_placement *placement = kn_plan_placement(plan, argument->value);
    return placement->last < 0 ? 0 : placement->bytes;
}

/* Numbers that stand for positions are in their range where they are 0. */
static kn_status make_zeros(kn_context *context, uint64_t bytes, kn_buffer **zeros, kn_error *error) {
    static const unsigned char zero = 0;
    kn_status status = kn_buffer_create(context, bytes, zeros, error);
    return status == KN_OK
               ? kn_queue_fill(context, KN_QUEUE_COMPUTE, *zeros, 0, bytes, &zero, sizeof zero, NULL, error)
               : status;
}

static kn_status set_zeros(const kn_plan *plan, const kn_ready_step *ready, kn_buffer **zeros,
                           kn_error *error) {
    kn_status status = KN_OK;
    for (int a = 0; a < ready->step->argument_count && status == KN_OK; a++) {
        const kn_argument *argument = &ready->step->arguments[a];
        uint64_t bytes = bytes_of(plan, argument);
        if (bytes) status = make_zeros(plan->context, bytes, &zeros[a], error);
        if (status == KN_OK) status = kn_plan_set_argument(plan, ready->kernel, a, argument, zeros[a], error);
    }
    return status;
}

static kn_status launch(const kn_plan *plan, const kn_ready_step *ready, kn_error *error) {
    int count = ready->step->argument_count;
    kn_buffer **zeros = kn_allocate(&plan->host, (size_t)count + 1, sizeof *zeros);
    if (!zeros) return kn_fail_memory(error, (size_t)count * sizeof *zeros);
    kn_status status = set_zeros(plan, ready, zeros, error);
    if (status == KN_OK)
        status = kn_kernel_launch(plan->context, ready->kernel, &ready->launch, ready->step->label, error);
    kn_status finished = kn_queue_finish(plan->context, KN_QUEUE_COMPUTE, status == KN_OK ? error : NULL);
    for (int a = 0; a < count; a++)
        kn_buffer_destroy(&zeros[a]);
    kn_release(&plan->host, zeros);
    return status == KN_OK ? finished : status;
}

/* Drivers may compile a kernel anew for work-groups of another size, so a program is launched again where
 * that differs from its last launch, which is in `last`. */
static kn_status precompile_step(kn_plan *plan, const kn_step_programs *list, int step, kn_launch *last,
                                 kn_error *error) {
    kn_program *program = NULL;
    kn_ready_step *ready = &plan->steps[step];
    kn_launch *before = &last[list->program_of[step]];
    kn_status status =
        kn_program_get(plan->context, &list->requests[list->program_of[step]], &program, error);
    if (status == KN_OK) status = kn_plan_make_kernel(plan, step, program, error);
    if (status != KN_OK || !memcmp(before->local, ready->launch.local, sizeof before->local)) return status;
    *before = ready->launch;
    return launch(plan, ready, error);
}

kn_status kn_plan_precompile(kn_plan *plan, const kn_step_programs *list, kn_error *error) {
    kn_launch *last = kn_allocate(&plan->host, list->count + 1, sizeof *last);
    if (!last) return kn_fail_memory(error, list->count * sizeof *last);
    kn_status status = KN_OK;
    for (int i = plan->step_count - 1; i >= 0 && status == KN_OK; i--)
        if (list->program_of[i] >= 0) status = precompile_step(plan, list, i, last, error);
    kn_release(&plan->host, last);
    return status;
}
