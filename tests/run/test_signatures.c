/* The signatures that steps are checked against are those that the device's compiler reports. */
#include "run_tests.h"

#include <stdio.h>
#include <string.h>

#include "device/device_private.h"
#include "device/embedded.h"
#include "graph/graph_private.h"
#include "graph/signature.h"

enum { MAX_ARGUMENTS = 64, MAX_KERNELS = 32 };

static bool has_signatures(const char *file) {
    for (const kn_signature *row = kn_signatures; row->file; row++)
        if (!strcmp(row->file, file)) return strncmp(file, "probe/", 6) != 0;
    return false;
}

static kn_argument_kind kind_of(cl_kernel kernel, cl_uint at) {
    cl_kernel_arg_address_qualifier where = CL_KERNEL_ARG_ADDRESS_PRIVATE;
    char type[64] = "";
    clGetKernelArgInfo(kernel, at, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, NULL);
    clGetKernelArgInfo(kernel, at, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL);
    if (where == CL_KERNEL_ARG_ADDRESS_GLOBAL) return KN_ARGUMENT_VALUE;
    if (where == CL_KERNEL_ARG_ADDRESS_LOCAL) return KN_ARGUMENT_LOCAL;
    if (!strcmp(type, "long")) return KN_ARGUMENT_INDEX; /* KN_INDEX */
    if (!strcmp(type, "int")) return KN_ARGUMENT_INT;
    if (!strcmp(type, "uint")) return KN_ARGUMENT_UINT;
    return KN_ARGUMENT_FLOAT;
}

static void check_kernel(const char *file, cl_kernel kernel) {
    kn_argument arguments[MAX_ARGUMENTS] = {{.name = NULL}};
    char names[MAX_ARGUMENTS][64], name[128] = "";
    cl_uint count = 0;
    kn_error error = {0};
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    assert_int_equal(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL), CL_SUCCESS);
    assert_in_range(count, 1, MAX_ARGUMENTS);
    for (cl_uint i = 0; i < count; i++) {
        cl_int code = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof names[i], names[i], NULL);
        if (code == CL_KERNEL_ARG_INFO_NOT_AVAILABLE)
            skip_because("a driver that does not tell of parameters");
        assert_int_equal(code, CL_SUCCESS);
        /* PoCL marks parameters with the name of a function. */
        arguments[i].name = strncmp(names[i], "_cl_", 4) ? names[i] : names[i] + 4;
        arguments[i].kind = kind_of(kernel, i);
    }
    const kn_step step = {
        .label = "test", .file = file, .kernel = name, .arguments = arguments, .argument_count = (int)count};
    if (kn_step_check_arguments(&step, &error)) fail_msg("%s", error.text);
}

static int check_file(kn_context *context, const char *file) {
    kn_source source;
    kn_error error = {0};
    cl_kernel kernels[MAX_KERNELS];
    cl_uint count = 0;
    cl_int code;
    char options[128];
    if (kn_source_file(context, file, "#define KN_INDEX long\n", context->short_header, &source, &error))
        fail_msg("%s", error.text);
    const char *text = source.text.data;
    cl_program program = clCreateProgramWithSource(context->context, 1, &text, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    snprintf(options, sizeof options, "%s -cl-kernel-arg-info", source.options);
    kn_source_finish(&source);
    if (clBuildProgram(program, 1, &context->found.device, options, NULL, NULL))
        fail_msg("%s did not compile", file);
    assert_int_equal(clCreateKernelsInProgram(program, MAX_KERNELS, kernels, &count), CL_SUCCESS);
    for (cl_uint i = 0; i < count; i++) {
        check_kernel(file, kernels[i]);
        clReleaseKernel(kernels[i]);
    }
    clReleaseProgram(program);
    return (int)count;
}

static void compilers_see_the_same_parameters(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    int kernels = 0;
    for (unsigned long i = 0; i < kn_embedded_file_count; i++)
        if (has_signatures(kn_embedded_files[i].name))
            kernels += check_file(*state, kn_embedded_files[i].name);
    assert_true(kernels > 60);
}

int test_signatures(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compilers_see_the_same_parameters)};
    return cmocka_run_group_tests_name("signatures", tests, open_shared, close_shared);
}
