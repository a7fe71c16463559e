/* The tests of the device module, on the device under test. */
#include "device_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void remember(void *user, kn_log_level level, const char *message) {
    remembered *lines = user;
    size_t used = strlen(lines->all);
    snprintf(lines->all + used, sizeof lines->all - used, "%s\n", message);
    if (level <= KN_LOG_WARNING) lines->loud++;
}

kn_logger remembering_log(remembered *lines) {
    memset(lines, 0, sizeof *lines);
    return (kn_logger){.user = lines, .level = KN_LOG_DEBUG, .write = remember};
}

kn_context_params test_params(void) {
    kn_context_params params;
    kn_context_params_init(&params);
    params.device = getenv("KOINE_DEVICE");
    return params;
}

kn_context *open_context(const kn_context_params *params) {
    kn_context_params defaults = test_params();
    kn_context *context = kn_context_create(params ? params : &defaults);
    assert_non_null(context);
    if (kn_context_status(context)) fail_msg("no context: %s", kn_context_error(context));
    return context;
}

const char twice_source[] =
    "kernel void twice(global float *x) { x[get_global_id(0)] *= 2.0f; }\n"
    "/* Slow enough to show what overtakes it. */\n"
    "kernel void slow_sum(global const float *x, global float *y, int count, int rounds) {\n"
    "    float sum = 0.0f;\n"
    "    for (int round = 0; round < rounds; round++)\n"
    "        for (int i = 0; i < count; i++) sum = x[i] + 0.5f * sum;\n"
    "    for (int i = 0; i < count; i++) y[i] = x[i];\n"
    "    y[count] = sum;\n"
    "}\n"
    "kernel void grouped(global int *y, local int *kept) {\n"
    "    kept[get_local_id(0)] = (int)get_local_id(0);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    y[get_global_id(0)] = kept[get_local_size(0) - 1 - get_local_id(0)];\n"
    "}\n";

kn_program *twice_program(kn_context *context) {
    kn_error error = {0};
    kn_program *program = NULL;
    if (kn_program_get_source(context, "twice.cl", twice_source, &program, &error))
        fail_msg("%s", error.text);
    return program;
}

void launch_twice(kn_context *context, kn_kernel *kernel, kn_buffer *buffer, size_t count) {
    kn_error error = {0};
    kn_launch launch = {.dimensions = 1, .global = {count, 1, 1}, .local = {1, 1, 1}};
    if (kn_kernel_set_buffer(kernel, 0, buffer, &error) ||
        kn_kernel_launch(context, kernel, &launch, "twice", &error))
        fail_msg("%s", error.text);
}

int main(void) {
    return test_context() + test_discovery() + test_memory() + test_queue() + test_launch() +
           test_programs() + test_cache() + test_target() + test_timeline() + test_opencl() + test_faults();
}
