/* A stand-in for the CUDA driver, with the functions that tools/gpu-lab/ptx.py calls. Device memory is host
 * memory. It runs no PTX: kn_matmul is computed in C from the type that the program's first line names, and
 * other kernels do nothing. STUB_CUDA=wrong: products are wrong; =refuses: programs do not load. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NO_BINARY = 209 };
typedef struct module {
    int is_bfloat16;
} module;
typedef struct function {
    const module *of;
    int multiplies;
} function;

static int is_asked(const char *word) {
    const char *way = getenv("STUB_CUDA");
    return way && strcmp(way, word) == 0;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    return flags != 0;
}
int cuDeviceGet(int *device, int index);
int cuDeviceGet(int *device, int index) {
    *device = index;
    return 0;
}
int cuDeviceGetName(char *name, int room, int device);
int cuDeviceGetName(char *name, int room, int device) {
    strncpy(name, "Stub H200", (size_t)room);
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) {
    static int one;
    *context = &one;
    return 0;
}
int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) {
    return context == NULL;
}
int cuCtxSynchronize(void);
int cuCtxSynchronize(void) {
    return 0;
}
int cuGetErrorName(int code, const char **name);
int cuGetErrorName(int code, const char **name) {
    *name = code == NO_BINARY ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_UNKNOWN";
    return 0;
}

int cuModuleLoadData(module **made, const char *text);
int cuModuleLoadData(module **made, const char *text) {
    if (is_asked("refuses") || !strstr(text, ".entry")) return NO_BINARY;
    *made = malloc(sizeof **made);
    (*made)->is_bfloat16 = strncmp(text, "// bfloat16", 11) == 0;
    return 0;
}
int cuModuleGetFunction(function **made, const module *of, const char *name);
int cuModuleGetFunction(function **made, const module *of, const char *name) {
    *made = malloc(sizeof **made);
    **made = (function){of, strcmp(name, "kn_matmul") == 0};
    return 0;
}

int cuMemAlloc_v2(uint64_t *place, size_t bytes);
int cuMemAlloc_v2(uint64_t *place, size_t bytes) {
    *place = (uint64_t)(uintptr_t)malloc(bytes);
    return *place == 0;
}
int cuMemFree_v2(uint64_t place);
int cuMemFree_v2(uint64_t place) {
    free((void *)(uintptr_t)place); // NOLINT
    return 0;
}
int cuMemsetD8_v2(uint64_t place, unsigned char value, size_t bytes);
int cuMemsetD8_v2(uint64_t place, unsigned char value, size_t bytes) {
    memset((void *)(uintptr_t)place, value, bytes); // NOLINT
    return 0;
}
int cuMemcpyHtoD_v2(uint64_t place, const void *source, size_t bytes);
int cuMemcpyHtoD_v2(uint64_t place, const void *source, size_t bytes) {
    memcpy((void *)(uintptr_t)place, source, bytes); // NOLINT
    return 0;
}
int cuMemcpyDtoH_v2(void *target, uint64_t place, size_t bytes);
int cuMemcpyDtoH_v2(void *target, uint64_t place, size_t bytes) {
    memcpy(target, (const void *)(uintptr_t)place, bytes); // NOLINT
    return 0;
}

static float number(const void *numbers, int at, int is_bfloat16) {
    if (!is_bfloat16) return ((const float *)numbers)[at];
    const uint32_t bits = (uint32_t)((const uint16_t *)numbers)[at] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* a is (m,k), b is (n,k), c is (m,n): arguments 0 to 2; 4 to 6 are m, n and k. */
static void multiply(const function *kernel, void **arguments) {
    const void *a = *(void **)arguments[0], *b = *(void **)arguments[1];
    float *c = *(void **)arguments[2];
    const int m = *(int *)arguments[4], n = *(int *)arguments[5], k = *(int *)arguments[6];
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++) {
            float sum = row == m - 1 && column == n - 1 && is_asked("wrong");
            for (int i = 0; i < k; i++)
                sum += number(a, row * k + i, kernel->of->is_bfloat16) *
                       number(b, column * k + i, kernel->of->is_bfloat16);
            c[row * n + column] = sum;
        }
}

int cuLaunchKernel(const function *kernel, unsigned x, unsigned y, unsigned z, unsigned local_x,
                   unsigned local_y, unsigned local_z, unsigned shared, void *stream, void **arguments,
                   void **extra);
int cuLaunchKernel(const function *kernel, unsigned x, unsigned y, unsigned z, unsigned local_x,
                   unsigned local_y, unsigned local_z, unsigned shared, void *stream, void **arguments,
                   void **extra) {
    if (!x || !y || !z || local_x * local_y * local_z != 128 || shared || stream || extra) return 1;
    if (kernel->multiplies) multiply(kernel, arguments);
    return 0;
}

int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
    static int one;
    *event = &one;
    return flags != 0;
}
int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
    return !event || stream;
}
int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event) {
    return !event;
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to);
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    *milliseconds = 1;
    return !from || !to;
}
