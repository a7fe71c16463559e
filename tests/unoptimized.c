/* Whether PoCL compiles without optimization: exit status 0 if each PoCL device here does, 1 or a signal if
 * not, 77 if there is none. PoCL 6.0 aborts the program on a kernel with an unused array in local memory;
 * PoCL 7.1 passes half of a float16 to functions on processors with AVX-512. */
#define _POSIX_C_SOURCE 200809L
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] = "kernel void squares(global const float *x, global float *y) {\n"
                             "    local float unused[64];\n"
                             "    const float16 vector = vload16(get_global_id(0), x);\n"
                             "    vstore16(fma(vector, vector, (float16)(1.0f)), get_global_id(0), y);\n"
                             "}\n";

static int computes(cl_device_id device) {
    enum { WIDTH = 16, ITEMS = 4, ELEMENTS = WIDTH * ITEMS };
    const char *text = source;
    const size_t items = ITEMS;
    float x[ELEMENTS], y[ELEMENTS] = {0};
    int right = 0;
    cl_int status;
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)i + 1;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    if (!context) return 0;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    if (!queue || !program || clBuildProgram(program, 1, &device, "-cl-opt-disable", NULL, NULL)) return 0;
    cl_kernel kernel = clCreateKernel(program, "squares", &status);
    cl_mem from = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof x, x, &status);
    cl_mem to = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof y, NULL, &status);
    if (!kernel || !from || !to || clSetKernelArg(kernel, 0, sizeof from, &from) ||
        clSetKernelArg(kernel, 1, sizeof to, &to) ||
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL) ||
        clEnqueueReadBuffer(queue, to, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL))
        return 0;
    for (int i = 0; i < ELEMENTS; i++)
        right += y[i] == x[i] * x[i] + 1;
    return right == ELEMENTS;
}

int main(void) {
    enum { PLATFORMS = 16 };
    cl_platform_id platforms[PLATFORMS];
    cl_uint count = 0;
    int found = 0;
    setenv("POCL_KERNEL_CACHE", "0", 1);
    if (clGetPlatformIDs(PLATFORMS, platforms, &count)) return 77;
    for (cl_uint p = 0; p < count && p < PLATFORMS; p++) {
        char name[256] = "";
        cl_device_id device;
        clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name, name, NULL);
        if (!strstr(name, "Portable Computing Language") ||
            clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &device, NULL))
            continue;
        found = 1;
        if (!computes(device)) return 1;
    }
    return found ? 0 : 77;
}
