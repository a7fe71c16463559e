/* Devices described by files: their properties, and what they refuse. The command's tests read incorrect
 * files (tests/tools/targets.py). */
#include "device_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char wide_target[] = "koine-target 1\r\n"
                                  "\tname Some  CPU \r\n"
                                  "kernels cpu # of eight numbers\n"
                                  "vector_width 8\nvector_registers 32\n"
                                  "compute_units 3\nclock_mhz 2500\nwork_group_items 4096\n"
                                  "local_memory 0\nmemory 8GiB\nlargest_allocation 2048MiB\nalignment 128\n"
                                  "opencl_c 3.0\ncapabilities double  integer_dot\tshared_memory\n"
                                  "peak_gflops 1.5e2\nbandwidth_gbytes 20";

static kn_context *describe(const char *text, int kind, uint64_t largest_block_bytes) {
    char path[] = "/tmp/koine-target-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (long)strlen(text));
    close(file);
    kn_context_params params;
    kn_context_params_init(&params);
    params.target = path;
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = kind;
    debug.largest_block_bytes = largest_block_bytes;
    params.cache_folder = "/nowhere/that/can/be/made"; /* no warning: it is not used */
    kn_context *context = open_context(&params);
    unlink(path);
    return context;
}

TEST(a_described_device_is_as_its_file_says) {
    kn_context *context = describe(wide_target, 0, 0);
    const kn_device_info *info = kn_context_device(context);
    const kn_capabilities *known = kn_context_capabilities(context);
    assert_string_equal(info->name, "Some  CPU");
    assert_int_equal(info->type, KN_DEVICE_CPU);
    assert_int_equal(info->clock_mhz, 2500);
    assert_true(known->wide_vector && known->vector_width == 8 && known->vector_registers == 32);
    assert_int_equal(known->compute_units, 3);
    assert_int_equal(known->work_group_items, 4096);
    assert_int_equal(known->local_bytes, 0);
    assert_int_equal(known->memory_bytes, (uint64_t)8 << 30);
    assert_int_equal(known->largest_block_bytes, (uint64_t)2 << 30);
    assert_int_equal(known->alignment_bytes, 128);
    assert_true(known->double_precision && known->integer_dot && known->shares_memory);
    kn_limits limits = {.size = sizeof limits};
    assert_int_equal(kn_context_measure_limits(context, true, &limits), KN_OK);
    assert_true(limits.gflops == 150 && limits.gbytes == 20);
    kn_context_destroy(&context);
    /* Parameters of the context take precedence. */
    context = describe(wide_target, 2, 1 << 24);
    assert_false(kn_context_capabilities(context)->wide_vector);
    assert_int_equal(kn_context_capabilities(context)->largest_block_bytes, 1 << 24);
    kn_context_destroy(&context);
}

TEST(a_described_device_computes_nothing) {
    kn_context *context = describe(wide_target, 0, 0), *other = describe(wide_target, 0, 0);
    kn_error error = {0};
    kn_buffer *buffer = NULL;
    kn_program *program = NULL;
    const kn_program_request request = {.file = "probe/matmul.cl", .prelude = "#define X 1"};
    kn_transfers transfers = {.size = sizeof transfers};
    assert_int_equal(kn_buffer_create(context, 64, &buffer, &error), KN_ERROR_CANCELLED);
    assert_non_null(strstr(error.text, "Some  CPU is only described"));
    assert_int_equal(kn_program_get(context, &request, &program, &error), KN_ERROR_CANCELLED);
    assert_null(program);
    assert_int_equal(kn_context_measure_transfers(context, &transfers), KN_ERROR_CANCELLED);
    assert_int_equal(kn_queue_finish(context, KN_QUEUE_COMPUTE, &error), KN_OK);
    assert_int_equal(kn_context_join(context, "other", &other), KN_ERROR_UNSUPPORTED);
    double value = 0;
    assert_true(kn_verdict_expect(context, "some/variant", 1, &value) && value == 1);
    kn_verdict_put(context, "some/variant", 0); /* is not stored */
    assert_false(kn_verdict_get(context, "some/variant", &value));
    size_t count = 1;
    assert_null(kn_context_timeline(context, &count));
    assert_int_equal(count, 0);
    kn_context_timeline_clear(context);
    kn_text text, options;
    kn_text_init(&text, kn_context_host(context));
    kn_text_init(&options, kn_context_host(context));
    assert_int_equal(kn_program_write(context, &request, &text, &options, &error), KN_OK);
    assert_int_equal(strncmp(text.data, "#define X 1\n#line 1 \"probe/matmul.cl\"", 37), 0);
    assert_string_equal(options.data, "-cl-std=CL1.2");
    kn_text_finish(&text);
    kn_text_finish(&options);
    kn_context_destroy(&context);
    kn_context_destroy(&other);
}

TEST(a_target_and_an_opencl_context_exclude_each_other) {
    kn_context *context = open_context(NULL);
    kn_context_params params;
    kn_context_params_init(&params);
    params.target = "some.target";
    kn_context *both = kn_context_create_opencl(&params, context->context, context->found.device, NULL);
    assert_int_equal(kn_context_status(both), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_context_error(both), "\"some.target\""));
    kn_context_destroy(&both);
    kn_context_destroy(&context);
}

TEST_FILE(test_target, NULL, NULL)
