/* The signatures that steps are checked against are those that the device's compiler reports. */
#include "run_tests.h"

#include <stdio.h>
#include <string.h>

#include "device/device_private.h"
#include "device/embedded.h"
#include "graph/graph_private.h"
#include "graph/signature.h"

enum { MAX_ARGUMENTS = 128, MAX_KERNELS = 32 };

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

/* Compiles a file with information about its parameters. */
static cl_program build(kn_context *context, const char *file, const char *prelude) {
    kn_source source;
    kn_error error = {0};
    cl_int code;
    char options[256];
    if (kn_source_file(context, file, prelude, context->short_header, &source, &error))
        fail_msg("%s", error.text);
    const char *text = source.text.data;
    cl_program program = clCreateProgramWithSource(context->context, 1, &text, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    snprintf(options, sizeof options, "%s -cl-kernel-arg-info", source.options);
    kn_source_finish(&source);
    if (clBuildProgram(program, 1, &context->found.device, options, NULL, NULL))
        fail_msg("%s did not compile", file);
    return program;
}

static cl_uint arguments_of(cl_kernel kernel, char names[MAX_ARGUMENTS][64]) {
    cl_uint count = 0;
    assert_int_equal(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL), CL_SUCCESS);
    assert_in_range(count, 1, MAX_ARGUMENTS);
    for (cl_uint i = 0; i < count; i++) {
        char name[64];
        cl_int code = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof name, name, NULL);
        if (code == CL_KERNEL_ARG_INFO_NOT_AVAILABLE)
            skip_because("a driver that does not report parameters");
        assert_int_equal(code, CL_SUCCESS);
        /* PoCL marks parameters with the name of a function. */
        strcpy(names[i], strncmp(name, "_cl_", 4) ? name : name + 4);
    }
    return count;
}

static void check_kernel(const char *file, cl_kernel kernel) {
    kn_argument arguments[MAX_ARGUMENTS] = {{.name = NULL}};
    char names[MAX_ARGUMENTS][64], name[128] = "";
    kn_error error = {0};
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    cl_uint count = arguments_of(kernel, names);
    for (cl_uint i = 0; i < count; i++) {
        arguments[i].name = names[i];
        arguments[i].kind = kind_of(kernel, i);
    }
    kn_step step = {
        .label = "test", .file = file, .kernel = name, .arguments = arguments, .argument_count = (int)count};
    if (kn_step_order_arguments(&step, &error)) fail_msg("%s", error.text);
}

static int check_file(kn_context *context, const char *file) {
    cl_kernel kernels[MAX_KERNELS];
    cl_uint count = 0;
    cl_program program = build(context, file, "#define KN_INDEX long\n");
    assert_int_equal(clCreateKernelsInProgram(program, MAX_KERNELS, kernels, &count), CL_SUCCESS);
    for (cl_uint i = 0; i < count; i++) {
        check_kernel(file, kernels[i]);
        clReleaseKernel(kernels[i]);
    }
    clReleaseProgram(program);
    return (int)count;
}

TEST(compilers_see_the_same_parameters) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    int kernels = 0;
    for (unsigned long i = 0; i < kn_embedded_file_count; i++)
        if (has_signatures(kn_embedded_files[i].name))
            kernels += check_file(*state, kn_embedded_files[i].name);
    assert_true(kernels > 60);
}

/* The generated parameters of a step have the names, types and order of its arguments. */
static void check_generated(kn_context *context, const kn_step *step, const char *const *macros, int *seen) {
    char names[MAX_ARGUMENTS][64], type[64], expected[64];
    bool generated = false;
    for (int i = 0; i < step->argument_count; i++)
        generated = generated || step->arguments[i].macro;
    if (!generated) return;
    cl_int code;
    cl_program program = build(context, step->file, step->prelude);
    cl_kernel kernel = clCreateKernel(program, step->kernel, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(arguments_of(kernel, names), step->argument_count);
    for (int i = 0; i < step->argument_count; i++) {
        const kn_argument *argument = &step->arguments[i];
        const bool pointer = argument->kind == KN_ARGUMENT_VALUE;
        cl_kernel_arg_type_qualifier qualifier = 0;
        if (!argument->macro) continue;
        for (int m = 0; macros[m]; m++)
            seen[m] += !strcmp(argument->macro, macros[m]);
        assert_string_equal(names[i], argument->name);
        snprintf(expected, sizeof expected, "%s*",
                 pointer ? kn_opencl_type(argument->value->shape.dtype) : "");
        clGetKernelArgInfo(kernel, (cl_uint)i, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL);
        assert_string_equal(type, pointer ? expected : argument->kind == KN_ARGUMENT_UINT ? "uint" : "int");
        clGetKernelArgInfo(kernel, (cl_uint)i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifier, &qualifier,
                           NULL);
        if (pointer) assert_int_equal((qualifier & CL_KERNEL_ARG_TYPE_CONST) != 0, !argument->writes);
    }
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

/* Pointwise kernels with several axes and random numbers, two in one launch, an epilogue, and a fused
 * producer with an epilogue. */
static kn_session *open_generating(kn_context *context) {
    const kn_initializer some = {KN_INITIALIZER_UNIFORM, 0.5};
    const kn_conv_params single = {.size = sizeof single, .bias = &some};
    const kn_conv_params each = {.size = sizeof each, .bias = &some, .groups = 32, .padding = {1}};
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "5,7"), *u = kn_input(graph, "u", KN_FLOAT32, "9");
    kn_value *y = kn_input(graph, "y", KN_FLOAT32, "5,3"), *v = kn_input(graph, "v", KN_FLOAT32, "11");
    kn_value *image = kn_input(graph, "image", KN_FLOAT32, "1,16,6,6");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "7,3", &some);
    kn_value *fused = kn_conv(kn_relu6(kn_conv(image, 32, 1, 1, &single)), 32, 3, 3, &each);
    kn_value *values[] = {
        kn_dropout(kn_exp(kn_mul(x, kn_parameter(graph, "b", KN_FLOAT32, "7", &some))), 0.5),
        kn_relu(kn_add(kn_matmul(x, w, false, false), y)), kn_tanh(u), kn_tanh(v), kn_relu(fused)};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = true;
    params.switches = "producers=fused";
    kn_session *session = kn_session_create(context, values, KN_COUNT_OF(values), &params);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_status(session));
    session_good(session, kn_session_compile(session, NULL, 0));
    return session;
}

TEST(generated_parameters_are_as_emitted) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    kn_context_params wide = device_params();
    const kn_context_debug debug = {.size = sizeof debug, .kernels = KN_KERNELS_CPU, .vector_width = 4};
    wide.debug = &debug;
    wide.trust_claims = true;
    kn_context *context = device_open(&wide);
    kn_session *session = open_generating(context);
    static const char *const macros[] = {"KN", "KN_BUCKET", "KN_EPILOGUE", "KN_PRODUCER", NULL};
    int seen[KN_COUNT_OF(macros)] = {0};
    const kn_plan *plan = &session->current->plan;
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i]->kind == KN_STEP_KERNEL) check_generated(context, plan->steps[i], macros, seen);
    for (int m = 0; macros[m]; m++)
        if (!seen[m]) fail_msg("no parameters of %s were generated", macros[m]);
    kn_session_destroy(&session);
    kn_context_destroy(&context);
}

TEST_FILE(test_signatures, device_setup, device_teardown)
