/* Opening devices: parameters, selection, capabilities, and measured limits. */
#include "device_tests.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(a_context_describes_its_device) {
    kn_context *context = open_context(NULL);
    const kn_device_info *info = kn_context_device(context);
    const kn_capabilities *capabilities = kn_context_capabilities(context);
    assert_string_equal(kn_context_error(context), "");
    assert_true(info->usable);
    assert_true(strlen(info->name) > 0 && strlen(info->platform) > 0);
    assert_true(capabilities->compute_units >= 1);
    assert_true(capabilities->work_group_items >= 1);
    /* Programs get less of a GPU's memory than the driver reports. */
    const uint64_t memory = capabilities->memory_bytes;
    assert_int_equal(capabilities->largest_block_bytes,
                     info->largest_block_bytes < memory ? info->largest_block_bytes : memory);
    assert_true(memory > 0 && info->largest_block_bytes > 0);
    cl_uint bits = 0;
    clGetDeviceInfo(context->found.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
    uint32_t alignment = capabilities->alignment_bytes;
    assert_true(alignment >= 64 && (alignment & (alignment - 1)) == 0 && alignment >= bits / 8);
    assert_true(capabilities->double_claimed || !capabilities->double_precision);
    assert_true(capabilities->integer_dot_claimed || !capabilities->integer_dot);
    if (capabilities->wide_vector) assert_true(capabilities->vector_width >= 4);
    kn_context_destroy(&context);
    assert_null(context);
    kn_context_destroy(&context);
    kn_context_destroy(NULL);
}

/* Every failure: the status, a text that names the cause, and functions that return the same error. */
static void refuse(const kn_context_params *params, kn_status status, const char *part) {
    kn_context *context = kn_context_create(params);
    assert_non_null(context);
    assert_int_equal(kn_context_status(context), status);
    if (!strstr(kn_context_error(context), part))
        fail_msg("\"%s\" does not speak of \"%s\"", kn_context_error(context), part);
    kn_error error = {0};
    kn_buffer *buffer = NULL;
    kn_program *program = NULL;
    kn_program_request request = {.file = "probe/matmul.cl"};
    assert_int_equal(kn_buffer_create(context, 64, &buffer, &error), status);
    assert_null(buffer);
    assert_int_equal(kn_program_get(context, &request, &program, &error), status);
    assert_null(program);
    assert_int_equal(kn_program_get_all(context, &request, 1, NULL, &program, NULL, &error), status);
    assert_string_equal(error.text, kn_context_error(context));
    size_t count = 1;
    assert_null(kn_context_timeline(context, &count));
    assert_int_equal(count, 0);
    kn_limits limits = {.size = sizeof limits};
    assert_int_equal(kn_context_measure_limits(context, true, &limits), status);
    kn_context_timeline_clear(context);
    double value;
    assert_false(kn_verdict_get(context, "x", &value));
    kn_verdict_put(context, "x", 1);
    cl_event event = NULL;
    assert_int_equal(kn_context_marker(context, &event), status);
    assert_int_equal(kn_context_wait_for(context, NULL, 0), status);
    assert_null(kn_buffer_from_opencl(context, NULL, 0, 0));
    kn_context_destroy(&context);
}

/* A stored limit is kept; measuring again never lowers it. */
TEST(limits_are_measured_once) {
    kn_context *context = open_context(NULL);
    kn_limits first = {.size = sizeof first}, second = first, third = first, none = {.size = 0};
    assert_int_equal(kn_context_measure_limits(context, false, &none), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_context_measure_limits(context, false, &first), KN_OK);
    assert_true(first.gflops > 0 && first.gbytes > 0);
    assert_int_equal(kn_context_measure_limits(context, false, &second), KN_OK);
    assert_true(second.gflops == first.gflops && second.gbytes == first.gbytes);
    assert_int_equal(kn_context_measure_limits(context, true, &third), KN_OK);
    assert_true(third.gflops >= first.gflops && third.gbytes >= first.gbytes);
    kn_context_counts counts = {.size = sizeof counts};
    assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
    assert_int_equal(counts.device_bytes, 0);
    kn_context_destroy(&context);
}

TEST(wrong_parameters_are_named) {
    kn_context_params params = {0};
    refuse(&params, KN_ERROR_ARGUMENT, "size");
    params = test_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.vector_width = 5;
    refuse(&params, KN_ERROR_ARGUMENT, "vector_width is 5");
    debug = (kn_context_debug){.size = sizeof debug, .kernels = (kn_kernels)3};
    refuse(&params, KN_ERROR_ARGUMENT, "kernels is 3");
    debug.kernels = (kn_kernels)-1;
    refuse(&params, KN_ERROR_ARGUMENT, "kernels is -1");
    debug = (kn_context_debug){.size = 0};
    refuse(&params, KN_ERROR_ARGUMENT, "the size of a kn_context_debug is 0");
    params = test_params();
    params.parts = params.part = 2;
    refuse(&params, KN_ERROR_ARGUMENT, "part is 2 of 2");
    params.part = -1;
    refuse(&params, KN_ERROR_ARGUMENT, "part is -1 of 2");
}

/* PoCL divides a device of several units; any other driver may. Plans see the whole device. */
TEST(a_device_is_opened_in_parts) {
    kn_context_params params = test_params();
    kn_context *context = open_context(&params);
    const int units = kn_context_capabilities(context)->compute_units;
    const bool divides = strstr(kn_context_device(context)->platform, "Portable Computing Language") != NULL;
    assert_int_equal(kn_context_capabilities(context)->used_units, units);
    kn_context_destroy(&context);
    int used = 0;
    for (params.parts = 2; params.part < 2; params.part++) {
        context = open_context(&params);
        const kn_capabilities *can = kn_context_capabilities(context);
        assert_int_equal(can->compute_units, units);
        assert_true(can->used_units > 0 && can->used_units <= units);
        if (divides && units > 1) assert_true(can->used_units < units);
        used += can->used_units;
        kn_context_destroy(&context);
    }
    if (divides && units > 1) assert_int_equal(used, units);
    params.part = 0;
    params.parts = units + 1;
    context = open_context(&params);
    assert_int_equal(kn_context_capabilities(context)->used_units, units);
    kn_context_destroy(&context);
}

/* What a thread of the driver still holds keeps the part of the device in use. */
TEST(a_part_outlives_its_queues) {
    kn_context_params params = test_params();
    params.parts = 2;
    for (int held = 0; held < 2; held++) {
        kn_context *context = open_context(&params);
        const cl_device_id part = context->part_device;
        if (!part) {
            kn_context_destroy(&context);
            skip_because("this device is not divided");
        }
        wrapped_reset();
        wrapped_calls.holds = held ? INT_MAX : 5;
        kn_context_destroy(&context);
        if (!held) assert_int_equal(wrapped_calls.holds, 0);
        assert_int_equal(wrapped_calls.devices_released, held ? 0 : 1);
        wrapped_reset();
        if (held) clReleaseDevice(part);
    }
}

TEST(null_contexts_return_errors) {
    assert_int_equal(kn_context_status(NULL), KN_ERROR_MEMORY);
    assert_true(strlen(kn_context_error(NULL)) > 0);
    assert_null(kn_context_device(NULL));
    assert_null(kn_context_capabilities(NULL));
    kn_context_counts counts = {.size = sizeof counts};
    assert_int_equal(kn_context_get_counts(NULL, &counts), KN_ERROR_ARGUMENT);
    size_t count = 1;
    assert_null(kn_context_timeline(NULL, &count));
    kn_context_timeline_clear(NULL);
}

/* A program built when the struct ended after `device` passes that size; later fields are not read. */
TEST(an_older_program_is_understood) {
    kn_context_params params = test_params();
    params.size = offsetof(kn_context_params, cache_folder);
    params.cache_folder = "/never/looked/at";
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = 77;
    kn_context *context = open_context(&params);
    assert_null(context->cache_folder);
    kn_context_counts counts = {.size = offsetof(kn_context_counts, programs_loaded), .programs_loaded = 99};
    assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
    assert_int_equal(counts.programs_loaded, 99);
    counts.size = 0;
    assert_int_equal(kn_context_get_counts(context, &counts), KN_ERROR_ARGUMENT);
    kn_context_destroy(&context);
}

/* Opens `wanted` and requires the device of that platform and index. */
static void expect_device(const char *wanted, int platform, int device) {
    kn_context_params params = test_params();
    params.device = wanted;
    kn_context *context = open_context(&params);
    if (platform >= 0) assert_int_equal(kn_context_device(context)->platform_index, platform);
    if (device >= 0) assert_int_equal(kn_context_device(context)->device_index, device);
    kn_context_destroy(&context);
}

TEST(a_device_is_chosen_by_number_type_or_name) {
    kn_context *context = open_context(NULL);
    kn_device_info info = *kn_context_device(context);
    kn_context_destroy(&context);
    char text[64];
    snprintf(text, sizeof text, "%d", info.index);
    expect_device(text, info.platform_index, info.device_index);
    snprintf(text, sizeof text, "%d:%d", info.platform_index, info.device_index);
    expect_device(text, info.platform_index, info.device_index);
    expect_device(info.name, -1, -1);
    for (char *place = info.name; *place; place++)
        *place = *place >= 'a' && *place <= 'z' ? (char)(*place - 32) : *place;
    expect_device(info.name + 1, -1, -1);
    expect_device("", -1, -1);
    expect_device(info.type == KN_DEVICE_CPU   ? "CPU"
                  : info.type == KN_DEVICE_GPU ? "Gpu"
                                               : "accelerator",
                  -1, -1);

    kn_context_params params = test_params();
    static const char *const wrong[] = {
        "zebra", "99", "0:77", "77:0", "1:", ":1", "-1", "0:0x", "99999999999999999999"};
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++) {
        params.device = wrong[i];
        refuse(&params, KN_ERROR_NO_DEVICE, wrong[i]);
    }
    /* The message lists the devices. */
    snprintf(text, sizeof text, "%d: ", info.index);
    params.device = "zebra";
    refuse(&params, KN_ERROR_NO_DEVICE, text);
}

TEST(kinds_and_widths_can_be_forced) {
    kn_context_params params = test_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    kn_context *context = open_context(&params);
    assert_false(kn_context_capabilities(context)->wide_vector);
    kn_context_destroy(&context);
    debug.kernels = KN_KERNELS_CPU;
    params.trust_claims = true; /* not every device can allocate them */
    static const int widths[] = {4, 8, 16};
    for (size_t i = 0; i < KN_COUNT_OF(widths); i++) {
        debug.vector_width = widths[i];
        context = open_context(&params);
        assert_true(kn_context_capabilities(context)->wide_vector);
        assert_int_equal(kn_context_capabilities(context)->vector_width, widths[i]);
        assert_true(kn_context_capabilities(context)->vector_registers >= 16);
        kn_context_destroy(&context);
    }
    debug = (kn_context_debug)KN_CONTEXT_DEBUG_DEFAULTS;
    params = test_params();
    params.debug = &debug;
    assert_false(kn_context_wide_indices(context = open_context(&params)));
    kn_context_destroy(&context);
    debug.wide_indices = true;
    assert_true(kn_context_wide_indices(context = open_context(&params)));
    kn_context_destroy(&context);
}

TEST(the_cache_folder_is_suggested) {
    char folder[32];
    assert_true(kn_default_cache_folder("/c", "/h", folder, sizeof folder));
    assert_string_equal(folder, "/c/koine");
    assert_true(kn_default_cache_folder(NULL, "/h", folder, sizeof folder));
    assert_string_equal(folder, "/h/.cache/koine");
    assert_true(kn_default_cache_folder("", "/h", folder, sizeof folder));
    assert_true(kn_default_cache_folder("relative", "/h", folder, sizeof folder));
    assert_string_equal(folder, "/h/.cache/koine");
    assert_false(kn_default_cache_folder(NULL, NULL, folder, sizeof folder));
    assert_string_equal(folder, "");
    assert_false(kn_default_cache_folder("", "", folder, sizeof folder));
    assert_true(kn_default_cache_folder("/a-folder-with-a-name-of-some-length", NULL, folder, sizeof folder));
    assert_int_equal(strlen(folder), sizeof folder - 1);
    assert_false(kn_default_cache_folder("/c", NULL, folder, 0));
}

TEST(refused_variants_are_counted_and_logged) {
    remembered lines;
    kn_context_params params = test_params();
    params.log = remembering_log(&lines);
    kn_context *context = open_context(&params);
    kn_variant_refused(context, "matmul/wide 6x64", "element 3 is 7 instead of 8");
    kn_context_counts counts = {.size = sizeof counts};
    assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
    assert_int_equal(counts.variants_refused, 1);
    assert_non_null(strstr(lines.all, "matmul/wide 6x64"));
    assert_non_null(strstr(lines.all, "element 3 is 7"));
    /* Each caller reports the variant; it is counted once. */
    kn_variant_refused(context, "matmul/wide 6x64", "it computed wrongly here before");
    kn_variant_refused(context, "conv2d/wide", "element 5 is 1 instead of 2");
    assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
    assert_int_equal(counts.variants_refused, 2);
    assert_null(strstr(lines.all, "here before"));
    kn_context_destroy(&context);
}

/* ---- verdicts ------------------------------------------------------------------------ */

static kn_host quiet_host;

static double verdict_of(const char *folder, const char *identity, const char *key) {
    kn_verdicts verdicts;
    double value = -1;
    assert_true(kn_verdicts_open(&verdicts, &quiet_host, folder, identity));
    kn_verdicts_get(&verdicts, key, &value);
    kn_verdicts_close(&verdicts);
    return value;
}

TEST(verdicts_outlive_a_context) {
    char *folder = test_folder_make();
    kn_context_params params = test_params();
    params.cache_folder = folder;
    for (int round = 0; round < 2; round++) {
        kn_context *context = open_context(&params);
        double value = 0;
        assert_int_equal(kn_verdict_get(context, "answer", &value), round == 1);
        if (round == 1) assert_true(value == 0.1);
        kn_verdict_put(context, "answer", 0.2);
        kn_verdict_put(context, "answer", 0.1);
        assert_true(kn_verdict_get(context, "answer", &value) && value == 0.1);
        kn_context_destroy(&context);
    }
    /* Without a folder, verdicts live as long as the context. */
    params.cache_folder = NULL;
    kn_context *context = open_context(&params);
    double value;
    assert_false(kn_verdict_get(context, "answer", &value));
    kn_verdict_put(context, "answer", 3);
    assert_true(kn_verdict_get(context, "answer", &value) && value == 3);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

TEST(writers_keep_the_entries_of_others) {
    quiet_host = kn_host_defaults();
    char *folder = test_folder_make();
    kn_verdicts one, two;
    assert_true(kn_verdicts_open(&one, &quiet_host, folder, "a device"));
    assert_true(kn_verdicts_open(&two, &quiet_host, folder, "a device"));
    kn_verdicts_put(&one, "first", 1);
    kn_verdicts_put(&two, "second", 2);
    kn_verdicts_put(&one, "third", 3);
    kn_verdicts_close(&one);
    kn_verdicts_close(&two);
    assert_true(verdict_of(folder, "a device", "first") == 1);
    assert_true(verdict_of(folder, "a device", "second") == 2);
    assert_true(verdict_of(folder, "a device", "third") == 3);
    assert_true(verdict_of(folder, "another device", "first") == -1);
    assert_true(verdict_of(NULL, "a device", "first") == -1);
    test_folder_remove(folder);
}

TEST(bad_verdict_files_count_as_empty) {
    quiet_host = kn_host_defaults();
    char *folder = test_folder_make();
    kn_verdicts verdicts;
    assert_true(kn_verdicts_open(&verdicts, &quiet_host, folder, "a device"));
    kn_verdicts_put(&verdicts, "first", 1);
    static const char *const contents[] = {
        "",
        "\n\n\n",
        "koine verdicts 1",
        "koine verdicts 2\na device\nfirst 5\n",
        "koine verdicts 1\nanother device\nfirst 5\n",
        "koine verdicts 1\na device\nfirst\nfirst 5x\n 7\nfirst \n\nfirst five\n",
    };
    for (size_t i = 0; i < KN_COUNT_OF(contents); i++) {
        assert_int_equal(kn_file_write(&quiet_host, verdicts.path, contents[i], strlen(contents[i]), NULL),
                         KN_OK);
        assert_true(verdict_of(folder, "a device", "first") == -1);
    }
    static const char good[] = "koine verdicts 1\na device\nbroken\nkey with blanks 5\nfirst 0.5";
    assert_int_equal(kn_file_write(&quiet_host, verdicts.path, good, sizeof good - 1, NULL), KN_OK);
    assert_true(verdict_of(folder, "a device", "first") == 0.5);
    assert_true(verdict_of(folder, "a device", "key with blanks") == 5);
    kn_verdicts_close(&verdicts);
    test_folder_remove(folder);
}

TEST(probes_are_run_once) {
    char *folder = test_folder_make();
    kn_context_params params = test_params();
    params.cache_folder = folder;
    kn_context *context = open_context(&params);
    kn_capabilities first = *kn_context_capabilities(context);
    kn_context_destroy(&context);
    wrapped_reset();
    context = open_context(&params);
    assert_memory_equal(&first, kn_context_capabilities(context), sizeof first);
    assert_int_equal(wrapped_calls.builds, 0);
    kn_context_destroy(&context);
    /* trust_claims runs only the probe of the compiler's header */
    params.cache_folder = NULL;
    params.trust_claims = true;
    wrapped_reset();
    context = open_context(&params);
    if (!params.device) assert_true(wrapped_calls.builds <= 2); /* measuring several devices is not a probe */
    const kn_capabilities *capabilities = kn_context_capabilities(context);
    assert_int_equal(capabilities->double_precision, capabilities->double_claimed);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

TEST_FILE(test_context, NULL, NULL)
