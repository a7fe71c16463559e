/* Compiles a tiny kernel, runs it once on given input, and reads its output. */
#include "device/device_private.h"

kn_status kn_probe_run(kn_context *context, const kn_probe *task, kn_error *error) {
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_buffer *input = NULL, *kept = NULL, *output = NULL;
    kn_event none = {NULL};
    int argument = 0;
    kn_program_request request = {.file = task->file, .prelude = task->prelude, .passing = task->passing};
    kn_status status = kn_program_get(context, &request, &program, error);
    if (!status) status = kn_kernel_create(context, program, task->kernel, &kernel, error);
    if (!status) status = kn_buffer_create(context, task->input_bytes, &input, error);
    if (!status && task->kept_bytes) status = kn_buffer_create(context, task->kept_bytes, &kept, error);
    if (!status) status = kn_buffer_create(context, task->output_bytes, &output, error);
    if (!status)
        status = kn_queue_write(context, KN_QUEUE_COMPUTE, input, 0, task->input, task->input_bytes, true,
                                none, NULL, error);
    if (!status) status = kn_kernel_set_buffer(kernel, argument++, input, error);
    if (!status && kept) status = kn_kernel_set_buffer(kernel, argument++, kept, error);
    if (!status) status = kn_kernel_set_buffer(kernel, argument++, output, error);
    if (!status) {
        size_t most = kn_kernel_work_group_items(kernel), local = task->local;
        while (local > most && local > 1)
            local /= 2;
        kn_launch launch = {.dimensions = 1, .global = {KN_PROBE_ITEMS, 1, 1}, .local = {local, 1, 1}};
        status = kn_kernel_launch(context, kernel, &launch, task->name, error);
    }
    if (!status)
        status = kn_queue_read(context, KN_QUEUE_COMPUTE, output, 0, task->output, task->output_bytes, true,
                               none, NULL, error);
    kn_buffer_destroy(&input);
    kn_buffer_destroy(&kept);
    kn_buffer_destroy(&output);
    kn_kernel_destroy(&kernel);
    return status;
}
