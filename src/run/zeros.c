/* Launches a kernel on zeros before there is memory for values: to compile it, or to check that it can be
 * launched. */
#include "run/run_private.h"

/* The size of a memory argument; 0 for others and for values that no step accesses. */
static uint64_t argument_bytes(const kn_executable *executable, const kn_argument *argument) {
    if (argument->kind == KN_ARGUMENT_SCRATCH) return executable->plan.scratches[argument->integer].bytes;
    if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) return 0;
    const kn_placement *placement = kn_executable_placement(executable, argument->value);
    return placement->last < 0 ? 0 : placement->bytes;
}

/* Zeros are valid indices, so a launch on them stays in bounds. */
static kn_status make_zeros(kn_context *context, uint64_t bytes, kn_buffer **zeros, kn_error *error) {
    static const unsigned char zero = 0;
    kn_status status = kn_buffer_create(context, bytes, zeros, error);
    return status == KN_OK
               ? kn_queue_fill(context, KN_QUEUE_COMPUTE, *zeros, 0, bytes, &zero, sizeof zero, NULL, error)
               : status;
}

static kn_status set_zeros(const kn_executable *executable, const kn_ready_step *ready, kn_buffer **zeros,
                           kn_error *error) {
    kn_status status = KN_OK;
    kn_present present = {0, 0};
    for (int a = 0; a < ready->step->argument_count && status == KN_OK; a++) {
        const kn_argument *argument = &ready->step->arguments[a];
        uint64_t bytes = argument_bytes(executable, argument);
        if (bytes) status = make_zeros(executable->context, bytes, &zeros[a], error);
        if (status == KN_OK)
            status =
                kn_executable_set_argument(executable, ready->kernel, a, argument, zeros[a], &present, error);
    }
    return status;
}

kn_status kn_executable_launch_on_zeros(const kn_executable *executable, const kn_ready_step *ready,
                                        const kn_launch *launch, kn_error *error) {
    int count = ready->step->argument_count;
    kn_buffer **zeros = kn_allocate(&executable->host, (size_t)count + 1, sizeof *zeros);
    if (!zeros) return kn_fail_memory(error, (size_t)count * sizeof *zeros);
    kn_status status = set_zeros(executable, ready, zeros, error);
    if (status == KN_OK)
        status = kn_kernel_launch(executable->context, ready->kernel, launch, ready->step->label, error);
    kn_status finished =
        kn_queue_finish(executable->context, KN_QUEUE_COMPUTE, status == KN_OK ? error : NULL);
    for (int a = 0; a < count; a++)
        kn_buffer_destroy(&zeros[a]);
    kn_release(&executable->host, zeros);
    return status == KN_OK ? finished : status;
}
