/* Measures transfer speed to and from the device, and the cost of a launch. */
#include <string.h>

#include "device/device_private.h"

enum { MAX_BYTES = 32 << 20, RUNS = 5, LAUNCHES = 100, MIN_ITEMS = 64 };

/* The fastest of a few transfers on the transfer queue, in GB/s. */
static kn_status measure_direction(kn_context *context, kn_buffer *buffer, void *bytes, uint64_t count,
                                   bool up, double *gbytes, kn_error *error) {
    const kn_event none = {NULL};
    kn_status status = KN_OK;
    for (int run = 0; run <= RUNS && !status; run++) {
        double start = kn_clock();
        status =
            up ? kn_queue_write(context, KN_QUEUE_TRANSFER, buffer, 0, bytes, count, true, none, NULL, error)
               : kn_queue_read(context, KN_QUEUE_TRANSFER, buffer, 0, bytes, count, true, none, NULL, error);
        double speed = (double)count / (kn_clock() - start) * 1e-9;
        /* the first transfer may include page faults */
        if (!status && run > 0 && speed > *gbytes) *gbytes = speed;
    }
    return status;
}

/* Seconds per launch of a kernel that does almost nothing, launched many times. */
static kn_status measure_launch(kn_context *context, double *seconds, kn_error *error) {
    const float number = 1;
    const int32_t rounds = 0;
    kn_program_request request = {.file = "probe/limits.cl", .prelude = "#define KN_WIDTH 1\n"};
    kn_launch launch = {.dimensions = 1, .global = {MIN_ITEMS, 1, 1}, .local = {1, 1, 1}};
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_buffer *out = NULL;
    kn_status status = kn_program_get(context, &request, &program, error);
    if (!status) status = kn_kernel_create(context, program, "kn_probe_fma", &kernel, error);
    if (!status) status = kn_buffer_create(context, MIN_ITEMS * sizeof(float), &out, error);
    if (!status) status = kn_kernel_set_buffer(kernel, 0, out, error);
    for (int i = 1; i <= 3 && !status; i++)
        status = kn_kernel_set_bytes(kernel, i, &number, sizeof number, error);
    if (!status) status = kn_kernel_set_bytes(kernel, 4, &rounds, sizeof rounds, error);
    for (int run = 0; run <= RUNS && !status; run++) {
        double start = kn_clock();
        for (int i = 0; i < LAUNCHES && !status; i++)
            status = kn_kernel_launch(context, kernel, &launch, "launch", error);
        if (!status) status = kn_queue_finish(context, KN_QUEUE_COMPUTE, error);
        double each = (kn_clock() - start) / LAUNCHES;
        if (!status && run > 0 && (*seconds <= 0 || each < *seconds)) *seconds = each;
    }
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&out);
    return status;
}

kn_status kn_context_measure_transfers(kn_context *context, kn_transfers *transfers) {
    if (!context || !kn_has_size(transfers)) return KN_ERROR_ARGUMENT;
    if (context->failure.status) return context->failure.status;
    if (context->described) return KN_ERROR_CANCELLED;
    kn_transfers found = {.size = sizeof found};
    kn_error error = {0};
    kn_buffer *buffer = NULL;
    uint64_t count = MAX_BYTES;
    while (count > context->capabilities.largest_block_bytes ||
           count > context->capabilities.memory_bytes / 4)
        count /= 2;
    void *bytes = kn_allocate(&context->host, (size_t)count, 1);
    kn_status status =
        bytes ? kn_buffer_create(context, count, &buffer, &error) : kn_fail_memory(&error, (size_t)count);
    if (!status)
        status = measure_direction(context, buffer, bytes, count, true, &found.upload_gbytes, &error);
    if (!status)
        status = measure_direction(context, buffer, bytes, count, false, &found.download_gbytes, &error);
    if (!status) status = measure_launch(context, &found.launch_seconds, &error);
    if (status)
        kn_log_write(&context->host, KN_LOG_WARNING, "transfers and launches of %s could not be measured: %s",
                     context->found.info.name, error.text);
    kn_buffer_destroy(&buffer);
    kn_release(&context->host, bytes);
    KN_RESULT_GIVE(kn_transfers, transfers, &found);
    return status;
}
