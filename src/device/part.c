/* Partial devices: some compute units of a device, so that several workers can share it without disturbing
 * each other. Plans and operators see the whole device, so that they choose the same kernels. */
#include <sched.h>
#include <string.h>

#include "device/device_private.h"

enum { PARTS_MOST = 256, WAYS = 16 };

/* How long a closing context waits for the driver to release its queues. */
static const double REST_SECONDS = 0.1;

/* Whether the driver supports this kind of partition. */
static bool divides(cl_device_id device, cl_device_partition_property way) {
    cl_device_partition_property ways[WAYS] = {0};
    size_t bytes = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, sizeof ways, ways, &bytes) != CL_SUCCESS)
        return false;
    for (size_t i = 0; i < bytes / sizeof *ways; i++)
        if (ways[i] == way) return true;
    return false;
}

/* Divides the device into `parts`, equal up to one unit if the driver accepts counts. */
static bool divide(cl_device_id device, int units, int parts, cl_device_id *made) {
    cl_device_partition_property words[PARTS_MOST + 3] = {0};
    cl_uint count = 0;
    if (divides(device, CL_DEVICE_PARTITION_BY_COUNTS)) {
        words[0] = CL_DEVICE_PARTITION_BY_COUNTS;
        for (int i = 0; i < parts; i++)
            words[i + 1] = units / parts + (i < units % parts);
        words[parts + 1] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
    } else if (divides(device, CL_DEVICE_PARTITION_EQUALLY)) {
        words[0] = CL_DEVICE_PARTITION_EQUALLY;
        words[1] = units / parts;
    } else {
        return false;
    }
    /* Remaining units may form an additional part. */
    if (clCreateSubDevices(device, words, 0, NULL, &count) != CL_SUCCESS || count < (cl_uint)parts ||
        count > PARTS_MOST)
        return false;
    return clCreateSubDevices(device, words, count, made, &count) == CL_SUCCESS && count >= (cl_uint)parts;
}

void kn_context_take_part(kn_context *context) {
    const int parts = context->parts, units = context->found.info.compute_units;
    cl_device_id made[PARTS_MOST] = {NULL};
    if (parts < 2 || parts > units || parts > PARTS_MOST) return;
    const bool divided = divide(context->found.device, units, parts, made);
    for (int i = 0; i < PARTS_MOST; i++)
        if (made[i] && !(divided && i == context->part)) clReleaseDevice(made[i]);
    if (!divided) return;
    context->found.device = context->part_device = made[context->part];
    context->capabilities.used_units =
        (int)kn_device_number(context->part_device, CL_DEVICE_MAX_COMPUTE_UNITS);
}

static bool is_at_rest(cl_command_queue queue) {
    cl_uint holders = 0;
    const cl_int code =
        clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof holders, &holders, NULL);
    return code == CL_SUCCESS && holders == 1;
}

/* In PoCL 3.1, neither a context nor a queue retains its sub-device, and a driver thread uses the queue of a
 * command for a moment after the command's end. The sub-device must outlive that moment; if an object of the
 * program keeps the queue alive, the sub-device is not released. */
void kn_context_return_part(kn_context *context) {
    const double start = kn_clock();
    if (!context->part_device) return;
    for (int i = 0; i < 2; i++)
        while (context->queues[i] && !is_at_rest(context->queues[i])) {
            if (!(kn_clock() - start < REST_SECONDS)) {
                context->part_device = NULL;
                return;
            }
            sched_yield();
        }
}
