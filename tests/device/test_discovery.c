/* The list of devices, GPUs that OpenCL does not list, and the names of errors. */
#include "device_tests.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

TEST(every_entry_is_usable_or_explained) {
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    assert_non_null(list);
    int count = kn_device_list_count(list), usable = 0, next = 0;
    assert_true(count >= 1);
    for (int i = 0; i < count; i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        assert_non_null(info);
        assert_int_equal(info->usable, info->problem[0] == '\0');
        if (info->usable) assert_true(info->index >= 0);
        if (info->index >= 0) assert_int_equal(info->index, next++);
        usable += info->usable;
    }
    assert_true(usable >= 1);
    assert_null(kn_device_list_at(list, -1));
    assert_null(kn_device_list_at(list, count));
    assert_null(kn_device_list_at(NULL, 0));
    assert_int_equal(kn_device_list_count(NULL), 0);
    kn_device_list_destroy(&list);
    assert_null(list);
    kn_device_list_destroy(&list);
    kn_device_list_destroy(NULL);
}

TEST(drivers_that_fail_are_explained) {
    wrapped_reset();
    wrapped_calls.fail_name = "clGetPlatformIDs";
    wrapped_calls.fail_code = -1001;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    assert_non_null(list);
    assert_false(kn_device_list_at(list, 0)->usable);
    assert_non_null(strstr(kn_device_list_at(list, 0)->problem, "pocl-opencl-icd"));
    kn_device_list_destroy(&list);
    kn_context *context = kn_context_create(NULL);
    assert_int_equal(kn_context_status(context), KN_ERROR_NO_DEVICE);
    assert_non_null(strstr(kn_context_error(context), "pocl-opencl-icd"));
    kn_context_destroy(&context);
    /* Other errors do not mention what is installed. */
    wrapped_calls.fail_code = -6;
    list = kn_device_list_create(NULL, NULL);
    assert_string_equal(kn_device_list_at(list, 0)->problem,
                        "the OpenCL platforms could not be listed "
                        "(CL_OUT_OF_HOST_MEMORY): a driver or the ICD loader failed");
    kn_device_list_destroy(&list);

    wrapped_calls.fail_name = "clGetDeviceIDs";
    wrapped_calls.fail_code = -6;
    list = kn_device_list_create(NULL, NULL);
    assert_non_null(list);
    for (size_t i = 0; i < kn_device_list_count(list); i++)
        assert_false(kn_device_list_at(list, i)->usable);
    assert_non_null(strstr(kn_device_list_at(list, 0)->problem, "CL_OUT_OF_HOST_MEMORY"));
    kn_device_list_destroy(&list);
    wrapped_reset();
}

/* Creates folders down to root/path and a file with one line there. */
static void put(const char *root, const char *path, const char *line) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", line);
    fclose(file);
}

TEST(hidden_gpus_come_with_their_package) {
    char *root = test_folder_make();
    put(root, "bus/pci/devices/0000:03:00.0/class", "0x030000");
    put(root, "bus/pci/devices/0000:03:00.0/vendor", "0x10de");
    put(root, "bus/pci/devices/0000:04:00.0/class", "0x030200");
    put(root, "bus/pci/devices/0000:04:00.0/vendor", "0x1002");
    put(root, "bus/pci/devices/0000:02:00.0/class", "0x038000");
    put(root, "bus/pci/devices/0000:02:00.0/vendor", "0x8086");
    put(root, "bus/pci/devices/0000:05:00.0/class", "0x020000"); /* a network card */
    put(root, "bus/pci/devices/0000:05:00.0/vendor", "0x10de");
    put(root, "bus/pci/devices/0000:06:00.0/class", "0x030000"); /* a service processor's display */
    put(root, "bus/pci/devices/0000:06:00.0/vendor", "0x1a03");
    put(root, "bus/pci/devices/0000:07:00.0/class", "0x030000"); /* no vendor file */
    put(root, "class/drm/card0/device/vendor", "0x10de");        /* the first one again */
    put(root, "class/drm/card1/device/uevent", "DRIVER=panfrost");
    put(root, "class/drm/card1-HDMI/device/uevent", "DRIVER=panfrost");
    put(root, "class/drm/card2/device/uevent", "DRIVER=simple-framebuffer");

    kn_device_list *list = kn_device_list_create(NULL, NULL);
    int before = list->count;
    for (int i = 0; i < before; i++)
        list->entries[i].info.type = KN_DEVICE_CPU; /* no GPU is listed */
    assert_true(kn_hidden_gpus_add(list, root, root));
    assert_int_equal(list->count, before + 4);
    static const struct {
        const char *name, *problem;
    } expected[] = {{"Intel GPU at 0000:02:00.0", "intel-opencl-icd"},
                    {"NVIDIA GPU at 0000:03:00.0", "nvidia-opencl-icd"},
                    {"AMD GPU at 0000:04:00.0", "mesa-opencl-icd"},
                    {"panfrost GPU at card1", "mesa-opencl-icd"}};
    for (int i = 0; i < 4; i++) {
        const kn_device_info *info = kn_device_list_at(list, before + i);
        assert_string_equal(info->name, expected[i].name);
        assert_non_null(strstr(info->problem, expected[i].problem));
        assert_int_equal(info->type, KN_DEVICE_GPU);
        assert_int_equal(info->index, -1);
        assert_false(info->usable);
    }
    /* Requesting it reports what to install. */
    kn_error error = {0};
    kn_context_params params = test_params();
    assert_int_equal(kn_device_select(list, "nvidia gpu", &params, &error), -1);
    assert_int_equal(error.status, KN_ERROR_NO_DEVICE);
    assert_non_null(strstr(error.text, "nvidia-opencl-icd"));

    /* A GPU that OpenCL lists accounts for cards of its vendor, and for any board. */
    list->count = before;
    list->entries[0].device = (cl_device_id)list; /* never followed */
    list->entries[0].info.type = KN_DEVICE_GPU;
    list->entries[0].vendor_id = 0x10de;
    assert_true(kn_hidden_gpus_add(list, root, root));
    assert_int_equal(list->count, before + 2);
    assert_string_equal(kn_device_list_at(list, before)->vendor, "Intel");
    assert_string_equal(kn_device_list_at(list, before + 1)->vendor, "AMD");
    list->count = before;
    assert_true(kn_hidden_gpus_add(list, "/nowhere/at/all", "/nowhere/at/all"));
    assert_int_equal(list->count, before);
    /* In a container only the node may be there; where the bus is shown too, it is the same GPU. */
    list->entries[0].info.type = KN_DEVICE_CPU;
    put(root, "nodes/nvidia0", "");
    put(root, "nodes/nvidiactl", "");
    char nodes[600];
    snprintf(nodes, sizeof nodes, "%s/nodes", root);
    assert_true(kn_hidden_gpus_add(list, "/nowhere/at/all", nodes));
    assert_int_equal(list->count, before + 1);
    assert_non_null(strstr(kn_device_list_at(list, before)->problem, "nvidia.icd"));
    list->count = before;
    assert_true(kn_hidden_gpus_add(list, root, nodes));
    assert_int_equal(list->count, before + 4);
    list->count = before;
    kn_device_list_destroy(&list);
    test_folder_remove(root);
}

TEST(errors_have_names_and_advice) {
    assert_string_equal(kn_cl_name(0), "CL_SUCCESS");
    assert_string_equal(kn_cl_name(-5), "CL_OUT_OF_RESOURCES");
    assert_string_equal(kn_cl_name(-54), "CL_INVALID_WORK_GROUP_SIZE");
    assert_non_null(kn_cl_name(-123456));
    kn_error error = {0};
    assert_int_equal(kn_fail_cl(&error, -52, "kernel %d", 7), KN_ERROR_DEVICE);
    assert_string_equal(error.text,
                        "kernel 7: OpenCL returned CL_INVALID_KERNEL_ARGS (-52); not all arguments are set");
    assert_int_equal(kn_fail_cl(&error, -6, "x"), KN_ERROR_MEMORY);
    assert_int_equal(kn_fail_cl(&error, -4, "x"), KN_ERROR_DEVICE_MEMORY);
    assert_null(strstr(error.text, "batch")); /* of a queue, for which it would not help */
    assert_int_equal(kn_fail_cl(NULL, -4, "x"), KN_ERROR_DEVICE_MEMORY);
}

TEST(versions_are_read) {
    assert_int_equal(kn_opencl_version_number("OpenCL 1.2 pocl"), 120);
    assert_int_equal(kn_opencl_version_number("OpenCL C 3.0"), 300);
    assert_int_equal(kn_opencl_version_number("OpenCL 1.1 Mesa 22.3.6"), 110);
    assert_int_equal(kn_opencl_version_number(""), 0);
    assert_int_equal(kn_opencl_version_number("OpenCL 1"), 0);
    assert_int_equal(kn_opencl_version_number("OpenCL 1."), 0);
}

TEST_FILE(test_discovery, NULL, NULL)
