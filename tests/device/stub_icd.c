/* A small OpenCL driver for the tests: platforms and devices with faults of real drivers. It compiles
 * nothing; it recognizes the probes' kernels by name and runs C instead, on some devices incorrectly. The
 * loader finds it like any driver. It has only the functions that Koine calls. */
#include "../icd.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const cl_icd_dispatch dispatch;

struct _cl_platform_id {
    const cl_icd_dispatch *dispatch;
    const char *name, *version;
};
struct _cl_device_id {
    const cl_icd_dispatch *dispatch;
    cl_platform_id platform;
    const char *name, *version, *extensions;
    cl_device_type type;
    bool away, mute;                                    /* not available; without a compiler */
    bool no_kernel;                                     /* its compiler always fails */
    bool frail;                                         /* it fails as the environment requests */
    cl_ulong local_bytes;                               /* 0: 32768 */
    bool wrong_double, wrong_product, no_double_kernel; /* computes or compiles wrongly */
    bool short_loops;                                   /* loops end early */
    int matrix;         /* its compiler claims mma: 1 it multiplies right, 2 wrongly, 3 it does not compile */
    cl_uint capability; /* ten times its compute capability, if the extension is claimed */
    int few_registers;  /* spills with 1: 64 sums per work-item, 2: also 32, 3: 64 without an option */
    int few_sums;       /* fails to compile with 1: 64 sums per work-item, 2: any product */
    bool reports_spills;        /* separately from private memory */
    bool compiles_binaries;     /* returning a binary takes long */
    bool embedded;              /* has the embedded profile */
    cl_device_fp_config floats; /* 0: as the full profile */
    size_t argument_bytes;      /* 0: 1024 */
    bool unified, slow_shared;  /* shares memory with the host, which may be slow */
    bool no_reads;              /* fails to launch the kernel that measures memory */
    cl_uint slot;               /* on the PCI bus, if the extension is claimed */
    bool slow;                  /* takes 50 ms for a product */
};
struct _cl_context {
    const cl_icd_dispatch *dispatch;
    cl_device_id device;
};
struct _cl_command_queue {
    const cl_icd_dispatch *dispatch;
    cl_device_id device;
};
struct _cl_mem {
    const cl_icd_dispatch *dispatch;
    size_t size;
    unsigned char *bytes;
    bool shared;
};
struct _cl_event {
    const cl_icd_dispatch *dispatch;
};
struct _cl_program {
    const cl_icd_dispatch *dispatch;
    cl_device_id device;
    bool double_precision, many_registers;
    char *text;
};
struct _cl_kernel {
    const cl_icd_dispatch *dispatch;
    char name[64];
    cl_mem arguments[4];
    cl_program program;
    cl_int number;
};

#define GPU CL_DEVICE_TYPE_GPU
#define CPU CL_DEVICE_TYPE_CPU
#ifdef STUB_SICK /* for koine doctor */
static struct _cl_platform_id platforms[] = {
    {&dispatch, "rusticl", "OpenCL 1.2 stub"},
    {&dispatch, "Stub Sick", "OpenCL 1.2 stub"},
};
static struct _cl_device_id devices[] = {
    {&dispatch, &platforms[1], "Stub Mute", "OpenCL 1.2 stub", "", .type = GPU, .mute = true},
    {&dispatch, &platforms[1], "Stub Frail", "OpenCL 1.2 stub", "", .type = GPU, .no_kernel = true,
     .frail = true},
    {&dispatch, &platforms[1], "Stub Small", "OpenCL 1.2 stub", "", .type = GPU, .no_kernel = true,
     .local_bytes = 1024},
};
#else
static struct _cl_platform_id platforms[] = {
    {&dispatch, "Stub Empty", "OpenCL 1.2 stub"},
    {&dispatch, "Stub Old", "OpenCL 1.1 stub"},
    {&dispatch, "Stub Main", "OpenCL 1.2 stub"},
    {&dispatch, "Stub Open", "OpenCL 1.2 stub"},
};
static struct _cl_device_id devices[] = {
    {&dispatch, &platforms[1], "Stub Modern", "OpenCL 1.2 stub", "", .type = GPU},
    {&dispatch, &platforms[2], "Stub Antique", "OpenCL 1.1 stub", "", .type = GPU},
    {&dispatch, &platforms[2], "Stub Mute", "OpenCL 1.2 stub", "", .type = GPU, .mute = true},
    {&dispatch, &platforms[2], "Stub Away", "OpenCL 1.2 stub", "", .type = GPU, .away = true},
    {&dispatch, &platforms[2], "Stub Broken", "OpenCL 1.2 stub", "cl_khr_fp64",
     .type = CL_DEVICE_TYPE_ACCELERATOR, .few_registers = 3, .wrong_product = true, .no_double_kernel = true,
     .matrix = 3},
    {&dispatch, &platforms[2], "Stub Liar", "OpenCL 1.2 stub", "cl_khr_fp64", .type = GPU,
     .wrong_double = true, .short_loops = true, .matrix = 2},
    {&dispatch, &platforms[2], "Stub Honest", "OpenCL 1.2 stub with tenderness",
     "cl_khr_fp64 cl_khr_integer_dot_product_extra cl_nv_device_attribute_query", .type = GPU,
     .few_registers = 1, .matrix = 1, .capability = 80},
    {&dispatch, &platforms[2], "Stub Twice", "OpenCL 1.2 stub", "cl_intel_required_subgroup_size",
     .type = GPU, .compiles_binaries = true, .few_registers = 2, .reports_spills = true},
    {&dispatch, &platforms[2], "Stub Pocket", "OpenCL 1.2 stub", "", .type = CPU, .embedded = true,
     .floats = CL_FP_ROUND_TO_ZERO, .argument_bytes = 256},
    {&dispatch, &platforms[2], "Stub Tablet", "OpenCL 1.2 stub", "cles_khr_int64", .type = CPU,
     .wrong_product = true, .embedded = true, .floats = CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN},
    /* Two GPUs, each with two drivers. Only one driver of the first has the matrix unit. */
    {&dispatch, &platforms[2], "Stub Card One", "OpenCL 1.2 stub", "cl_khr_pci_bus_info", .type = GPU,
     .matrix = 1, .slot = 1, .slow = true},
    {&dispatch, &platforms[2], "Stub Card Two", "OpenCL 1.2 stub", "cl_khr_pci_bus_info", .type = GPU,
     .slot = 2, .slow = true},
    {&dispatch, &platforms[3], "Stub Card One (open)", "OpenCL 1.2 stub", "cl_khr_pci_bus_info", .type = GPU,
     .slot = 1, .slow = true},
    {&dispatch, &platforms[3], "Stub Card Two (open)", "OpenCL 1.2 stub", "cl_khr_pci_bus_info", .type = GPU,
     .slot = 2, .slow = true},
    {&dispatch, &platforms[2], "Stub Turing", "OpenCL 1.2 stub", "cl_nv_device_attribute_query", .type = GPU,
     .matrix = 3, .capability = 75},
    {&dispatch, &platforms[2], "Stub Volta", "OpenCL 1.2 stub", "cl_nv_device_attribute_query", .type = GPU,
     .matrix = 3, .capability = 70},
    {&dispatch, &platforms[2], "Stub Phone", "OpenCL 1.2 stub", "", .type = GPU, .unified = true},
    {&dispatch, &platforms[2], "Stub Superchip", "OpenCL 1.2 stub", "", .type = GPU, .unified = true,
     .slow_shared = true},
    {&dispatch, &platforms[2], "Stub Watch", "OpenCL 1.2 stub", "", .type = GPU, .unified = true,
     .no_reads = true, .few_sums = 1},
    {&dispatch, &platforms[2], "Stub Drawing", "OpenCL 1.2 stub", "", .type = GPU, .few_sums = 2},
};
#endif
enum { PLATFORMS = sizeof platforms / sizeof platforms[0], DEVICES = sizeof devices / sizeof devices[0] };

/* Aborts, exits or never returns, if the environment requests it for this call. */
static void suffer(const char *call) {
    const char *dies = getenv("STUB_ABORT"), *ends = getenv("STUB_EXIT"), *hangs = getenv("STUB_HANG");
    if (dies && strcmp(dies, call) == 0) abort();
    if (ends && strcmp(ends, call) == 0) _Exit(3);
    while (hangs && strcmp(hangs, call) == 0)
        nanosleep(&(struct timespec){1, 0}, NULL);
}

/* Aborts if the environment variable names this call and text: "build kn_probe_double", "open Stub Liar". */
static void suffer_from(const char *call, const char *text) {
    const char *dies = getenv("STUB_DIES"), *of = dies ? strchr(dies, ' ') : NULL;
    if (of && strncmp(dies, call, strlen(call)) == 0 && strstr(text, of + 1)) abort();
}

/* ---- platforms and devices ---------------------------------------------------------------- */

static cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *found, cl_uint *count) {
    suffer("platforms");
    if (count) *count = PLATFORMS;
    for (cl_uint i = 0; found && i < room && i < PLATFORMS; i++)
        found[i] = &platforms[i];
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t room,
                                        void *target, size_t *needed) {
    switch (what) {
    case CL_PLATFORM_NAME:
        return ANSWER_TEXT(platform->name);
    case CL_PLATFORM_VERSION:
        return ANSWER_TEXT(platform->version);
    case CL_PLATFORM_VENDOR:
        return ANSWER_TEXT("Koine's tests");
    case CL_PLATFORM_PROFILE:
        return ANSWER_TEXT("FULL_PROFILE");
    case CL_PLATFORM_EXTENSIONS:
        return ANSWER_TEXT("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return ANSWER_TEXT("STUB");
    }
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL get_devices(cl_platform_id platform, cl_device_type type, cl_uint room,
                                      cl_device_id *found, cl_uint *count) {
    cl_uint number = 0;
    suffer("devices");
    for (int i = 0; i < DEVICES; i++) {
        if (devices[i].platform != platform || !(devices[i].type & type)) continue;
        if (found && number < room) found[number] = &devices[i];
        number++;
    }
    if (count) *count = number;
    return number ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t room, void *target,
                                      size_t *needed) {
    suffer("info");
    switch (what) {
    case CL_DEVICE_NAME:
        return ANSWER_TEXT(device->name);
    case CL_DEVICE_VENDOR:
        return ANSWER_TEXT("  Koine's tests ");
    case CL_DEVICE_VERSION:
        return ANSWER_TEXT(device->version);
    case CL_DRIVER_VERSION:
        return ANSWER_TEXT("1");
    case CL_DEVICE_OPENCL_C_VERSION:
        return ANSWER_TEXT("OpenCL C 1.2 stub");
    case CL_DEVICE_PROFILE:
        return ANSWER_TEXT(device->embedded ? "EMBEDDED_PROFILE" : "FULL_PROFILE");
    case CL_DEVICE_SINGLE_FP_CONFIG:
        return ANSWER(cl_device_fp_config, device->floats
                                               ? device->floats
                                               : CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN | CL_FP_DENORM);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        return ANSWER(size_t, device->argument_bytes ? device->argument_bytes : 1024);
    case CL_DEVICE_EXTENSIONS:
        return ANSWER_TEXT(device->extensions);
    case CL_DEVICE_TYPE:
        return ANSWER(cl_device_type, device->type);
    case CL_DEVICE_PLATFORM:
        return ANSWER(cl_platform_id, device->platform);
    case CL_DEVICE_VENDOR_ID:
        return ANSWER(cl_uint, 0x1234);
    case CL_DEVICE_AVAILABLE:
        return ANSWER(cl_bool, !device->away);
    case CL_DEVICE_COMPILER_AVAILABLE:
        return ANSWER(cl_bool, !device->mute);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return ANSWER(size_t, 256);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return ANSWER(cl_uint, 2048);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return ANSWER(cl_uint, 4);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return ANSWER(cl_ulong, 1 << 30);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return ANSWER(cl_ulong, 1 << 28);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return ANSWER(cl_ulong, device->local_bytes ? device->local_bytes : 32768);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return ANSWER(cl_uint, 1);
    case 0x410f: { /* the PCI place of cl_khr_pci_bus_info */
        const cl_uint place[4] = {0, device->slot, 0, 0};
        if (needed) *needed = sizeof place;
        if (target && room >= sizeof place) memcpy(target, place, sizeof place);
        return device->slot ? CL_SUCCESS : CL_INVALID_VALUE;
    }
    case 0x4000: /* the compute capability of cl_nv_device_attribute_query */
        return device->capability ? ANSWER(cl_uint, device->capability / 10) : CL_INVALID_VALUE;
    case 0x4001:
        return device->capability ? ANSWER(cl_uint, device->capability % 10) : CL_INVALID_VALUE;
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
        return ANSWER(cl_uint, 0);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return ANSWER(cl_bool, device->unified);
    }
    return CL_INVALID_VALUE;
}

/* ---- objects, which live as long as their one owner says ------------------------------------- */

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *list,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code) {
    suffer_from("open", list[0]->name);
    cl_context context = calloc(1, sizeof *context);
    *code = context ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (context) *context = (struct _cl_context){&dispatch, list[0]};
    return context;
}
static cl_int CL_API_CALL release_context(cl_context context) {
    free(context);
    return CL_SUCCESS;
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties, cl_int *code) {
    cl_command_queue queue = calloc(1, sizeof *queue);
    *code = queue ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (queue) *queue = (struct _cl_command_queue){&dispatch, device};
    return queue;
}
static cl_int CL_API_CALL release_queue(cl_command_queue queue) {
    free(queue);
    return CL_SUCCESS;
}
static cl_int CL_API_CALL finish(cl_command_queue queue) {
    return CL_SUCCESS;
}

/* All commands are executed at once, so an event is complete when it is created. */
static cl_int complete(cl_event *event) {
    if (!event) return CL_SUCCESS;
    *event = calloc(1, sizeof **event);
    if (!*event) return CL_OUT_OF_HOST_MEMORY;
    (*event)->dispatch = &dispatch;
    return CL_SUCCESS;
}
static cl_int CL_API_CALL wait_events(cl_uint count, const cl_event *events) {
    return CL_SUCCESS;
}
static cl_int CL_API_CALL mark(cl_command_queue queue, cl_uint waits, const cl_event *wait, cl_event *event) {
    return complete(event);
}
static cl_int CL_API_CALL release_event(cl_event event) {
    free(event);
    return CL_SUCCESS;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                                        cl_int *code) {
    cl_mem memory = calloc(1, sizeof *memory);
    unsigned char *bytes = calloc(1, size);
    *code = memory && bytes ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (*code != CL_SUCCESS) {
        free(memory);
        free(bytes);
        return NULL;
    }
    *memory = (struct _cl_mem){&dispatch, size, bytes, (flags & CL_MEM_ALLOC_HOST_PTR) != 0};
    return memory;
}
static cl_int CL_API_CALL release_memory(cl_mem memory) {
    free(memory->bytes);
    free(memory);
    return CL_SUCCESS;
}
static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                       size_t bytes, const void *source, cl_uint waits, const cl_event *wait,
                                       cl_event *event) {
    if (offset > memory->size || bytes > memory->size - offset) return CL_INVALID_VALUE;
    memcpy(memory->bytes + offset, source, bytes);
    return complete(event);
}
static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                      size_t bytes, void *target, cl_uint waits, const cl_event *wait,
                                      cl_event *event) {
    if (offset > memory->size || bytes > memory->size - offset) return CL_INVALID_VALUE;
    memcpy(target, memory->bytes + offset, bytes);
    return complete(event);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                      size_t pattern_bytes, size_t offset, size_t bytes, cl_uint waits,
                                      const cl_event *wait, cl_event *event) {
    if (offset > memory->size || bytes > memory->size - offset || bytes % pattern_bytes)
        return CL_INVALID_VALUE;
    for (size_t at = 0; at < bytes; at += pattern_bytes)
        memcpy(memory->bytes + offset + at, pattern, pattern_bytes);
    return complete(event);
}

/* ---- programs and kernels ------------------------------------------------------------------------ */

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts,
                                             const size_t *lengths, cl_int *code) {
    cl_program program = calloc(1, sizeof *program);
    *code = program ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (program)
        *program = (struct _cl_program){&dispatch, context->device, strstr(texts[0], "kn_probe_double"),
                                        false, strdup(texts[0])};
    return program;
}
static cl_int CL_API_CALL release_program(cl_program program) {
    free(program->text);
    free(program);
    return CL_SUCCESS;
}
static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *list,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                        void *user) {
    if (program->text) suffer_from("build", program->text);
    program->many_registers = options && strstr(options, "256-GRF");
    if (program->many_registers && program->device->few_registers != 3) return CL_INVALID_BUILD_OPTIONS;
    if (program->device->frail) suffer("build");
    if (program->device->no_kernel || getenv("STUB_COMPILES_NOTHING")) return CL_BUILD_PROGRAM_FAILURE;
    if (program->device->few_sums && program->text && strstr(program->text, "KN_ITEM_N ") &&
        (program->device->few_sums == 2 || strstr(program->text, "KN_ITEM_N 8")))
        return CL_BUILD_PROGRAM_FAILURE;
    if (program->device->matrix == 3 && program->text &&
        strstr(program->text, "KN_FRAGMENT 1\n#define KN_FORMAT"))
        return CL_BUILD_PROGRAM_FAILURE;
    return program->double_precision && program->device->no_double_kernel ? CL_BUILD_PROGRAM_FAILURE
                                                                          : CL_SUCCESS;
}
static cl_int CL_API_CALL build_info(cl_program program, cl_device_id device, cl_program_build_info what,
                                     size_t room, void *target, size_t *needed) {
    return ANSWER_TEXT(
        "warning: double is new\n<source>:3:1: error: unknown type name 'double'\ndouble x;\n^\n");
}
static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t room, void *target,
                                       size_t *needed) {
    if (what == CL_PROGRAM_DEVICES) return ANSWER(cl_device_id, program->device);
    if (what == CL_PROGRAM_BINARY_SIZES && program->device->compiles_binaries)
        nanosleep(&(struct timespec){0, 50 * 1000000L}, NULL);
    if (what == CL_PROGRAM_BINARY_SIZES) return ANSWER(size_t, 0); /* it has no binary */
    return CL_INVALID_VALUE;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code) {
    cl_kernel kernel = calloc(1, sizeof *kernel);
    *code = kernel ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (!kernel) return NULL;
    kernel->dispatch = &dispatch;
    kernel->program = program;
    strncpy(kernel->name, name, sizeof kernel->name - 1);
    return kernel;
}
static cl_int CL_API_CALL release_kernel(cl_kernel kernel) {
    free(kernel);
    return CL_SUCCESS;
}
static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
    if (index >= 4) return CL_INVALID_ARG_INDEX;
    if (bytes == sizeof(cl_int))
        memcpy(&kernel->number, value, bytes);
    else
        memcpy(&kernel->arguments[index], value, sizeof(cl_mem));
    return CL_SUCCESS;
}
static cl_int CL_API_CALL group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                     size_t room, void *target, size_t *needed) {
    const cl_kernel_work_group_info spill_mem_size = 0x4109;
    if (what == spill_mem_size && !device->reports_spills) return CL_INVALID_VALUE;
    if (what != CL_KERNEL_PRIVATE_MEM_SIZE && what != spill_mem_size) return ANSWER(size_t, 256);
    if (device->reports_spills && what == CL_KERNEL_PRIVATE_MEM_SIZE) return ANSWER(cl_ulong, 0);
    const int sums = strstr(kernel->program->text, "KN_ITEM_N 8") ? 64 : 32;
    const int most = kernel->program->many_registers ? 64 : (int[]){64, 32, 16, 16}[device->few_registers];
    return ANSWER(cl_ulong, sums > most ? 160 : 0);
}

static void run_double(cl_device_id device, cl_kernel kernel, size_t items) {
    const float *x = (const float *)kernel->arguments[0]->bytes;
    float *y = (float *)kernel->arguments[2]->bytes;
    for (size_t i = 0; i < items; i++) {
        y[2 * i] = x[i];
        y[2 * i + 1] = x[i] * x[i] + (float)device->wrong_double;
    }
}

static void run_loops(cl_device_id device, cl_kernel kernel, size_t items) {
    const uint32_t *x = (const uint32_t *)kernel->arguments[0]->bytes;
    uint32_t *y = (uint32_t *)kernel->arguments[1]->bytes;
    for (size_t i = 0; i < items; i++)
        y[i] = x[1];
    for (uint32_t round = 0; round < x[0] && !(device->short_loops && round == 65536); round++) {
        y[0] ^= y[0] << 13;
        y[0] ^= y[0] >> 17;
        y[0] ^= y[0] << 5;
    }
}

static void run_product(cl_device_id device, cl_kernel kernel) {
    const float *a = (const float *)kernel->arguments[0]->bytes,
                *b = (const float *)kernel->arguments[1]->bytes;
    float *c = (float *)kernel->arguments[2]->bytes;
    size_t n = (size_t)kernel->number;
    if (device->wrong_product) return;
    if (device->slow) nanosleep(&(struct timespec){0, 50 * 1000000L}, NULL);
    memset(c, 0, n * n * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* Of a float16 or bfloat16 that is an integer from -3 to 3. */
static float small_number(uint16_t bits, bool bfloat16) {
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200}, bfloats[] = {0, 0x3f80, 0x4000, 0x4040};
    for (int i = 0; i < 4; i++)
        if ((bits & 0x7fff) == (bfloat16 ? bfloats : halves)[i]) return (float)(bits >> 15 ? -i : i);
    return 100;
}

/* Of an array of KN_FORMAT; is_signed: of one of bytes. */
static float matrix_number(const void *numbers, int at, int kind, bool is_signed) {
    if (kind == 5) return is_signed ? ((const int8_t *)numbers)[at] : ((const uint8_t *)numbers)[at];
    return kind == 3 ? ((const float *)numbers)[at]
                     : small_number(((const uint16_t *)numbers)[at], kind == 2);
}

static void run_matrix(cl_device_id device, cl_kernel kernel) {
    const void *numbers = kernel->arguments[0]->bytes;
    const char *text = kernel->program->text;
    const int kind = strstr(text, "define KN_FORMAT 5")   ? 5
                     : strstr(text, "define KN_FORMAT 3") ? 3
                     : strstr(text, "define KN_FORMAT 1") ? 1
                                                          : 2;
    const bool left = strstr(text, "define KN_SIGNED_A 1"), right = strstr(text, "define KN_SIGNED_B 1");
    const int depth = kind == 5 ? 64 : 32;
    float *y = (float *)kernel->arguments[1]->bytes;
    for (int row = 0; row < 64; row++)
        for (int column = 0; column < 32; column++) {
            float sum = device->matrix == 2 && row == 63 && column == 31;
            for (int k = 0; k < depth; k++)
                sum += matrix_number(numbers, row * depth + k, kind, left) *
                       matrix_number(numbers, (64 + column) * depth + k, kind, right);
            y[row * 32 + column] = sum;
        }
}

/* Of a launch that reads memory. */
static long device_milliseconds(cl_device_id device, cl_kernel kernel) {
    return device->slow_shared && kernel->arguments[1]->shared ? 100 : 25;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                 const size_t *offset, const size_t *global, const size_t *local,
                                 cl_uint waits, const cl_event *wait, cl_event *event) {
    suffer_from("launch", kernel->name);
    if (strcmp(kernel->name, "kn_probe_double") == 0)
        run_double(queue->device, kernel, global[0]);
    else if (strcmp(kernel->name, "kn_probe_loops") == 0)
        run_loops(queue->device, kernel, global[0]);
    else if (strcmp(kernel->name, "kn_probe_matmul") == 0)
        run_product(queue->device, kernel);
    else if (strcmp(kernel->name, "kn_probe_read") == 0 && !queue->device->no_reads)
        nanosleep(&(struct timespec){0, device_milliseconds(queue->device, kernel) * 1000000L}, NULL);
    else if (strcmp(kernel->name, "kn_probe_claims") == 0)
        *(uint32_t *)kernel->arguments[1]->bytes = queue->device->matrix ? 1u << 1 : 0;
    else if (strcmp(kernel->name, "kn_probe_matrix") == 0)
        run_matrix(queue->device, kernel);
    else
        return CL_INVALID_KERNEL;
    return complete(event);
}

static const cl_icd_dispatch dispatch = {
    .clGetPlatformIDs = get_platforms,
    .clGetPlatformInfo = platform_info,
    .clGetDeviceIDs = get_devices,
    .clGetDeviceInfo = device_info,
    .clCreateContext = create_context,
    .clReleaseContext = release_context,
    .clCreateCommandQueue = create_queue,
    .clReleaseCommandQueue = release_queue,
    .clWaitForEvents = wait_events,
    .clReleaseEvent = release_event,
    .clFinish = finish,
    .clFlush = finish,
    .clCreateBuffer = create_buffer,
    .clReleaseMemObject = release_memory,
    .clEnqueueWriteBuffer = write_buffer,
    .clEnqueueReadBuffer = read_buffer,
    .clEnqueueMarkerWithWaitList = mark,
    .clEnqueueFillBuffer = fill_buffer,
    .clCreateProgramWithSource = create_program,
    .clReleaseProgram = release_program,
    .clBuildProgram = build_program,
    .clGetProgramBuildInfo = build_info,
    .clGetProgramInfo = program_info,
    .clCreateKernel = create_kernel,
    .clReleaseKernel = release_kernel,
    .clSetKernelArg = set_argument,
    .clGetKernelWorkGroupInfo = group_info,
    .clEnqueueNDRangeKernel = launch,
};
