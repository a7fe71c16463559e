/* A small device (limited.h) behaves as intended, and detects a kernel that reads local memory that it has
 * not written. With the argument `unwritten` only that kernel runs, for Oclgrind to report. */
#include "changed_kernels.h"
#include "device_support.h"
#include "limited.h"

#include <koine/opencl.h>

#include <stdlib.h>
#include <string.h>

static kn_context *open_many(const char *kernel_folder) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    params.kernel_folder = kernel_folder;
    if (kernel_folder) params.cache_folder = NULL;
    return device_open(&params);
}

static void the_device_is_small(void **state) {
    kn_context *context = open_many(NULL);
    const kn_capabilities *device = kn_context_capabilities(context);
    assert_in_range(device->work_group_items, 1, LIMITED_ITEMS);
    assert_in_range(device->local_bytes, 1, LIMITED_LOCAL_BYTES);
    assert_in_range(device->largest_block_bytes, 1, LIMITED_BLOCK_BYTES);
    device_close(&context);
}

static kn_status sum_with(const char *kernel_folder, verify_outcome *seen) {
    kn_verify_params params;
    kn_verify_params_init(&params);
    params.operators = "sum";
    params.thoroughness = 2;
    params.user = seen;
    params.report = take_verify_result;
    kn_context *context = open_many(kernel_folder);
    kn_status status = kn_verify(context, &params, NULL, NULL);
    device_close(&context);
    return status;
}

/* Only the first lane writes its number before all are added. */
static kn_status sum_of_unwritten(verify_outcome *seen) {
    char *folder = test_folder_make();
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(folder, "common/lanes.cl", "*mine = value;", "if (lane == 0) *mine = value;");
    kn_status status = sum_with(folder, seen);
    test_folder_remove(folder);
    return status;
}

static void unwritten_local_memory_is_noticed(void **state) {
    static verify_outcome right, wrong;
    kn_status status = sum_with(NULL, &right);
    if (status != KN_OK || !right.right) fail_msg("%s%s", kn_status_name(status), right.failures);
    assert_true(limited_calls.launches > 0);
    assert_int_equal(limited_calls.refused, 0);
    if (!limited_calls.dirty) skip_because("this driver hands out local memory that is clean");
    assert_int_equal(sum_of_unwritten(&wrong), KN_ERROR_MISMATCH);
    assert_non_null(strstr(wrong.failures, "the device computed"));
}

int main(int argc, char **argv) {
    static verify_outcome seen;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_is_small),
        cmocka_unit_test(unwritten_local_memory_is_noticed),
    };
    if (!device_is_there()) return 77;
    if (argc > 1 && !strcmp(argv[1], "unwritten")) return sum_of_unwritten(&seen) == KN_ERROR_MEMORY;
    return cmocka_run_group_tests_name("a small device", tests, NULL, NULL) != 0;
}
