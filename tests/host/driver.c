/* An OpenCL driver for the tests that runs kernels as functions of the host, which compile.py compiles with
 * Clang's sanitizers. Work-items of a group take turns at barriers; nothing runs at the same time. Memory
 * begins at addresses that are multiples of what the device promises and of no more; it is not zero, and
 * local memory is not zero either. What Koine's operators do not call is missing.
 *
 * Environment: KOINE_HOST_COMPILER, a command to which the program's path, the library's and options are
 * added; KOINE_HOST_FOLDER, where both lie, and `builtins.so`. Each launch is a line on stderr, before what
 * the sanitizers say of it. */
#define _GNU_SOURCE
#include "../icd.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { ALIGNMENT = 64, PAGE = 4096, ITEMS = 256, PARAMETERS = 256, STACK_BYTES = 1 << 20, LOG_BYTES = 8192 };

static const cl_icd_dispatch dispatch;

struct _cl_platform_id {
    const cl_icd_dispatch *dispatch;
};
struct _cl_device_id {
    const cl_icd_dispatch *dispatch;
};
static struct _cl_platform_id the_platform = {&dispatch};
static struct _cl_device_id the_device = {&dispatch};

/* The beginning of all that is counted. */
#define OBJECT                                                                                               \
    const cl_icd_dispatch *dispatch;                                                                         \
    int references
typedef struct object {
    OBJECT;
} object;
struct _cl_context {
    OBJECT;
};
struct _cl_command_queue {
    OBJECT;
};
struct _cl_event {
    OBJECT;
    cl_command_queue queue;
};
struct _cl_mem {
    OBJECT;
    cl_mem whole; /* of which it is a part, or NULL */
    size_t size;
    unsigned char *bytes, *block;
};
struct _cl_program {
    OBJECT;
    char *text, log[LOG_BYTES];
    void *library;
    unsigned char *local_begin, *local_end; /* the variables of kernels in local memory */
};
typedef void call(void **arguments);
typedef unsigned char *place(void);
struct _cl_kernel {
    OBJECT;
    cl_program program;
    char name[128];
    const char *parameters;
    call *call;
    uint64_t values[PARAMETERS][2];
    size_t local_bytes[PARAMETERS];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* A new object of so many bytes, with one reference. */
static void *object_new(size_t bytes, cl_int *code) {
    object *made = calloc(1, bytes);
    if (made) *made = (object){&dispatch, 1};
    if (code) *code = made ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return made;
}
static cl_int retain(void *given) {
    __atomic_add_fetch(&((object *)given)->references, 1, __ATOMIC_SEQ_CST);
    return CL_SUCCESS;
}
/* Whether that was the last reference. */
static bool is_last(void *given) {
    return __atomic_sub_fetch(&((object *)given)->references, 1, __ATOMIC_SEQ_CST) == 0;
}
static cl_int release(void *given) {
    if (is_last(given)) free(given);
    return CL_SUCCESS;
}
#define RELEASE(type, name)                                                                                  \
    static cl_int CL_API_CALL name(type given) {                                                             \
        return release(given);                                                                               \
    }
RELEASE(cl_context, release_context)
RELEASE(cl_command_queue, release_queue)
RELEASE(cl_event, release_event)
RELEASE(cl_kernel, release_kernel)

/* ---- platform and device ------------------------------------------------------------------- */

static cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *found, cl_uint *count) {
    if (count) *count = 1;
    if (found && room) *found = &the_platform;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t room,
                                        void *target, size_t *needed) {
    switch (what) {
    case CL_PLATFORM_VERSION:
        return ANSWER_TEXT("OpenCL 1.2 host");
    case CL_PLATFORM_PROFILE:
        return ANSWER_TEXT("FULL_PROFILE");
    case CL_PLATFORM_EXTENSIONS:
        return ANSWER_TEXT("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return ANSWER_TEXT("HOST");
    }
    return ANSWER_TEXT("Koine's tests");
}

static cl_int CL_API_CALL get_devices(cl_platform_id platform, cl_device_type type, cl_uint room,
                                      cl_device_id *found, cl_uint *count) {
    if (!(type & CL_DEVICE_TYPE_CPU)) return CL_DEVICE_NOT_FOUND;
    if (count) *count = 1;
    if (found && room) *found = &the_device;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t room, void *target,
                                      size_t *needed) {
    switch (what) {
    case CL_DEVICE_NAME:
        return ANSWER_TEXT("Host under sanitizers");
    case CL_DEVICE_VENDOR:
        return ANSWER_TEXT("Koine's tests");
    case CL_DEVICE_VERSION:
        return ANSWER_TEXT("OpenCL 1.2 host");
    case CL_DRIVER_VERSION:
        return ANSWER_TEXT("1");
    case CL_DEVICE_OPENCL_C_VERSION:
        return ANSWER_TEXT("OpenCL C 1.2 host");
    case CL_DEVICE_EXTENSIONS:
        return ANSWER_TEXT("cl_khr_fp64");
    case CL_DEVICE_TYPE:
        return ANSWER(cl_device_type, CL_DEVICE_TYPE_CPU);
    case CL_DEVICE_PLATFORM:
        return ANSWER(cl_platform_id, &the_platform);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
        return ANSWER(cl_bool, CL_TRUE);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return ANSWER(size_t, ITEMS);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: /* in bits */
        return ANSWER(cl_uint, 8 * ALIGNMENT);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return ANSWER(cl_uint, 2);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return ANSWER(cl_ulong, (cl_ulong)4 << 30);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return ANSWER(cl_ulong, 1 << 30);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return ANSWER(cl_ulong, 32768);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return ANSWER(cl_uint, 8);
    case CL_DEVICE_VENDOR_ID:
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return ANSWER(cl_uint, 0);
    }
    return CL_INVALID_VALUE;
}

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *list,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code) {
    return object_new(sizeof(struct _cl_context), code);
}

/* ---- queues and events: all is done at once ------------------------------------------------------ */

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties, cl_int *code) {
    return object_new(sizeof(struct _cl_command_queue), code);
}
static cl_int CL_API_CALL finish(cl_command_queue queue) {
    return CL_SUCCESS;
}
static cl_int complete(cl_command_queue queue, cl_event *event) {
    cl_int code = CL_SUCCESS;
    if (event && (*event = object_new(sizeof **event, &code)) != NULL) (*event)->queue = queue;
    return code;
}
static cl_int CL_API_CALL wait_events(cl_uint count, const cl_event *events) {
    return CL_SUCCESS;
}
static cl_int CL_API_CALL order(cl_command_queue queue, cl_uint waits, const cl_event *wait,
                                cl_event *event) {
    return complete(queue, event);
}
static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t room, void *target,
                                     size_t *needed) {
    return what == CL_EVENT_COMMAND_QUEUE ? ANSWER(cl_command_queue, event->queue) : CL_INVALID_VALUE;
}
static cl_int CL_API_CALL retain_event(cl_event event) {
    return retain(event);
}

/* ---- memory ----------------------------------------------------------------------------------------- */

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                                        cl_int *code) {
    cl_mem memory = object_new(sizeof *memory, code);
    if (!memory) return NULL;
    memory->size = size;
    memory->block = malloc(size + 2 * PAGE);
    if (!memory->block) {
        free(memory);
        *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    const size_t past = (uintptr_t)memory->block % PAGE;
    memory->bytes = memory->block + (PAGE - past) + ALIGNMENT;
    memset(memory->bytes, 0xff, size); /* NaN as a number, -1 as an index */
    return memory;
}
static cl_mem CL_API_CALL create_part(cl_mem whole, cl_mem_flags flags, cl_buffer_create_type type,
                                      const void *region, cl_int *code) {
    const cl_buffer_region *part = region;
    cl_mem memory = NULL;
    if (part->origin % ALIGNMENT != 0)
        *code = CL_MISALIGNED_SUB_BUFFER_OFFSET;
    else if (part->size == 0 || part->origin > whole->size || part->size > whole->size - part->origin)
        *code = CL_INVALID_VALUE;
    else
        memory = object_new(sizeof *memory, code);
    if (!memory) return NULL;
    retain(whole);
    memory->whole = whole;
    memory->size = part->size;
    memory->bytes = whole->bytes + part->origin;
    return memory;
}
static cl_int CL_API_CALL retain_memory(cl_mem memory) {
    return retain(memory);
}
static cl_int CL_API_CALL release_memory(cl_mem memory) {
    if (!is_last(memory)) return CL_SUCCESS;
    if (memory->whole) release_memory(memory->whole);
    free(memory->block);
    free(memory);
    return CL_SUCCESS;
}
static bool has(cl_mem memory, size_t offset, size_t bytes) {
    return offset <= memory->size && bytes <= memory->size - offset;
}
static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                       size_t bytes, const void *source, cl_uint waits, const cl_event *wait,
                                       cl_event *event) {
    if (!has(memory, offset, bytes)) return CL_INVALID_VALUE;
    memcpy(memory->bytes + offset, source, bytes);
    return complete(queue, event);
}
static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                      size_t bytes, void *target, cl_uint waits, const cl_event *wait,
                                      cl_event *event) {
    if (!has(memory, offset, bytes)) return CL_INVALID_VALUE;
    memcpy(target, memory->bytes + offset, bytes);
    return complete(queue, event);
}
static cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem source, cl_mem target,
                                      size_t source_offset, size_t target_offset, size_t bytes, cl_uint waits,
                                      const cl_event *wait, cl_event *event) {
    if (!has(source, source_offset, bytes) || !has(target, target_offset, bytes)) return CL_INVALID_VALUE;
    memmove(target->bytes + target_offset, source->bytes + source_offset, bytes);
    return complete(queue, event);
}
static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                      size_t pattern_bytes, size_t offset, size_t bytes, cl_uint waits,
                                      const cl_event *wait, cl_event *event) {
    if (!has(memory, offset, bytes) || offset % pattern_bytes || bytes % pattern_bytes)
        return CL_INVALID_VALUE;
    for (size_t at = 0; at < bytes; at += pattern_bytes)
        memcpy(memory->bytes + offset + at, pattern, pattern_bytes);
    return complete(queue, event);
}
/* All memory is the host's. */
static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                    cl_map_flags flags, size_t offset, size_t bytes, cl_uint waits,
                                    const cl_event *wait, cl_event *event, cl_int *code) {
    const cl_int status = has(memory, offset, bytes) ? complete(queue, event) : CL_INVALID_VALUE;
    if (code) *code = status;
    return status == CL_SUCCESS ? memory->bytes + offset : NULL;
}
static cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem memory, void *mapped, cl_uint waits,
                                const cl_event *wait, cl_event *event) {
    return complete(queue, event);
}

/* ---- programs ------------------------------------------------------------------------------------- */

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts,
                                             const size_t *lengths, cl_int *code) {
    cl_program program = object_new(sizeof *program, code);
    if (!program) return NULL;
    program->text = strndup(texts[0], lengths && lengths[0] ? lengths[0] : strlen(texts[0]));
    return program;
}
static cl_int CL_API_CALL release_program(cl_program program) {
    if (!is_last(program)) return CL_SUCCESS;
    if (program->library) dlclose(program->library);
    free(program->text);
    free(program);
    return CL_SUCCESS;
}

/* Makes this driver's functions, the built-in ones and the sanitizers' visible to the libraries of kernels.
 */
static void open_builtins(void) {
    Dl_info self;
    char path[4096];
    snprintf(path, sizeof path, "%s/builtins.so", getenv("KOINE_HOST_FOLDER"));
    if (!dladdr(&dispatch, &self) || !dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) ||
        !dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        fprintf(stderr, "host: %s\n", dlerror());
}

static bool write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *list,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                        void *user) {
    static int number;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char source[4096], library[4096], command[16384];
    pthread_once(&once, open_builtins);
    const int mine = __atomic_add_fetch(&number, 1, __ATOMIC_SEQ_CST);
    snprintf(source, sizeof source, "%s/%d-%d.cl", getenv("KOINE_HOST_FOLDER"), (int)getpid(), mine);
    snprintf(library, sizeof library, "%s/%d-%d.so", getenv("KOINE_HOST_FOLDER"), (int)getpid(), mine);
    snprintf(command, sizeof command, "%s '%s' '%s' %s 2>&1", getenv("KOINE_HOST_COMPILER"), source, library,
             options ? options : "");
    FILE *log = write_text(source, program->text) ? popen(command, "r") : NULL;
    if (!log) return CL_OUT_OF_RESOURCES;
    program->log[fread(program->log, 1, sizeof program->log - 1, log)] = '\0';
    if (pclose(log) != 0) return CL_BUILD_PROGRAM_FAILURE;
    program->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!program->library) {
        snprintf(program->log, sizeof program->log, "error: %s\n", dlerror());
        return CL_BUILD_PROGRAM_FAILURE;
    }
    place *begin, *end;
    *(void **)&begin = dlsym(program->library, "host_local_begin");
    *(void **)&end = dlsym(program->library, "host_local_end");
    program->local_begin = begin();
    program->local_end = end();
    return CL_SUCCESS;
}
static cl_int CL_API_CALL build_info(cl_program program, cl_device_id device, cl_program_build_info what,
                                     size_t room, void *target, size_t *needed) {
    return ANSWER_TEXT(program->log);
}
static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t room, void *target,
                                       size_t *needed) {
    if (what == CL_PROGRAM_DEVICES) return ANSWER(cl_device_id, &the_device);
    if (what == CL_PROGRAM_BINARY_SIZES) return ANSWER(size_t, 0); /* it has none to give */
    return CL_INVALID_VALUE;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code) {
    char symbol[256];
    snprintf(symbol, sizeof symbol, "host_parameters_%s", name);
    const char *parameters = dlsym(program->library, symbol);
    snprintf(symbol, sizeof symbol, "host_call_%s", name);
    call *address;
    *(void **)&address = dlsym(program->library, symbol);
    if (!parameters || !address || strlen(parameters) > PARAMETERS) {
        *code = CL_INVALID_KERNEL_NAME;
        return NULL;
    }
    cl_kernel kernel = object_new(sizeof *kernel, code);
    if (!kernel) return NULL;
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->parameters = parameters;
    kernel->call = address;
    kernel->program = program;
    return kernel;
}
static cl_int CL_API_CALL kernel_info(cl_kernel kernel, cl_kernel_info what, size_t room, void *target,
                                      size_t *needed) {
    return what == CL_KERNEL_NUM_ARGS ? ANSWER(cl_uint, (cl_uint)strlen(kernel->parameters))
                                      : CL_INVALID_VALUE;
}
static cl_int CL_API_CALL group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                     size_t room, void *target, size_t *needed) {
    return what == CL_KERNEL_WORK_GROUP_SIZE ? ANSWER(size_t, ITEMS) : CL_INVALID_VALUE;
}
static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
    if (index >= strlen(kernel->parameters)) return CL_INVALID_ARG_INDEX;
    void *target = kernel->values[index];
    if (kernel->parameters[index] == 'b') {
        cl_mem memory = value ? *(const cl_mem *)value : NULL;
        memcpy(target, &(void *){memory ? memory->bytes : NULL}, sizeof(void *));
    } else if (kernel->parameters[index] == 'l') {
        kernel->local_bytes[index] = bytes;
    } else {
        if (bytes > sizeof kernel->values[index]) return CL_INVALID_ARG_SIZE;
        memcpy(target, value, bytes);
    }
    return CL_SUCCESS;
}

/* ---- launches --------------------------------------------------------------------------------------- */

/* A stack on which work-items of the group run one after the other, until one reaches a barrier. */
typedef struct fiber {
    ucontext_t context;
    size_t item;
    bool ended;
} fiber;
static fiber fibers[ITEMS];
static unsigned char *stacks;

/* The work-group that runs. */
static struct {
    call *call;
    void **arguments;
    size_t global[3], local[3], offset[3], groups[3], group[3]; /* sizes, and which one */
    size_t items, next, passed; /* work-items, the first that has not begun, and those that have ended */
    fiber *now;
    ucontext_t back;
} run;

static size_t local_id(unsigned dimension) {
    if (dimension == 0) return run.now->item % run.local[0];
    if (dimension == 1) return run.now->item / run.local[0] % run.local[1];
    return dimension == 2 ? run.now->item / run.local[0] / run.local[1] : 0;
}
#define ANSWERS(name, value, beyond)                                                                         \
    ICD_EXPORT size_t name(unsigned dimension);                                                              \
    size_t name(unsigned dimension) {                                                                        \
        return dimension < 3 ? value : beyond;                                                               \
    }
ANSWERS(host_get_local_id, local_id(dimension), 0)
ANSWERS(host_get_group_id, run.group[dimension], 0)
ANSWERS(host_get_global_offset, run.offset[dimension], 0)
ANSWERS(host_get_global_id,
        run.offset[dimension] + run.group[dimension] * run.local[dimension] + local_id(dimension), 0)
ANSWERS(host_get_local_size, run.local[dimension], 1)
ANSWERS(host_get_num_groups, run.groups[dimension], 1)
ANSWERS(host_get_global_size, run.global[dimension], 1)

ICD_EXPORT void host_barrier(void);
void host_barrier(void) {
    swapcontext(&run.now->context, &run.back);
}

static void work(void) {
    while (run.next < run.items) {
        run.now->item = run.next++;
        run.call(run.arguments);
        run.passed++;
    }
    run.now->ended = true;
}

static void resume(fiber *one) {
    run.now = one;
    swapcontext(&run.back, &one->context);
}

/* Runs a work-group. Between two barriers either all its work-items end or none. */
static bool run_group(void) {
    size_t begun = 0, standing = 0;
    for (run.next = run.passed = 0; run.next < run.items; begun++) {
        fiber *one = &fibers[begun];
        getcontext(&one->context);
        one->context.uc_stack.ss_sp = stacks + begun * STACK_BYTES;
        one->context.uc_stack.ss_size = STACK_BYTES;
        one->context.uc_link = &run.back;
        one->ended = false;
        makecontext(&one->context, work, 0);
        resume(one);
        standing += !one->ended;
    }
    while (standing > 0) {
        if (run.passed > 0) return false;
        for (size_t i = 0; i < begun; i++) {
            resume(&fibers[i]);
            standing -= fibers[i].ended;
        }
    }
    return true;
}

static cl_int run_groups(cl_kernel kernel) {
    void *arguments[PARAMETERS], *locals[PARAMETERS] = {NULL};
    const size_t count = strlen(kernel->parameters);
    const cl_program program = kernel->program;
    bool right = true;
    for (size_t i = 0; i < count; i++) {
        arguments[i] = kernel->values[i];
        if (kernel->parameters[i] != 'l') continue;
        locals[i] = aligned_alloc(ALIGNMENT, (kernel->local_bytes[i] / ALIGNMENT + 1) * ALIGNMENT);
        arguments[i] = &locals[i];
    }
    run.arguments = arguments;
    for (run.group[2] = 0; run.group[2] < run.groups[2]; run.group[2]++)
        for (run.group[1] = 0; run.group[1] < run.groups[1]; run.group[1]++)
            for (run.group[0] = 0; run.group[0] < run.groups[0]; run.group[0]++) {
                memset(program->local_begin, 0xff, (size_t)(program->local_end - program->local_begin));
                right = run_group() && right;
            }
    for (size_t i = 0; i < count; i++)
        free(locals[i]);
    if (!right) fprintf(stderr, "%s: runtime error: not all work-items come to a barrier\n", kernel->name);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                 const size_t *offset, const size_t *global, const size_t *local,
                                 cl_uint waits, const cl_event *wait, cl_event *event) {
    pthread_mutex_lock(&mutex);
    if (!stacks)
        stacks = mmap(NULL, (size_t)ITEMS * STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    run.call = kernel->call;
    run.items = 1;
    for (cl_uint i = 0; i < 3; i++) {
        run.global[i] = i < dimensions ? global[i] : 1;
        run.local[i] = i < dimensions ? local[i] : 1;
        run.offset[i] = i < dimensions && offset ? offset[i] : 0;
        run.groups[i] = run.global[i] / run.local[i];
        run.items *= run.local[i];
    }
    fprintf(stderr, "host: launch %s\n", kernel->name);
    cl_int code = stacks == MAP_FAILED ? CL_OUT_OF_RESOURCES
                  : run.items > ITEMS  ? CL_INVALID_WORK_GROUP_SIZE
                                       : run_groups(kernel);
    pthread_mutex_unlock(&mutex);
    return code == CL_SUCCESS ? complete(queue, event) : code;
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
    .clGetEventInfo = event_info,
    .clRetainEvent = retain_event,
    .clReleaseEvent = release_event,
    .clEnqueueMarkerWithWaitList = order,
    .clEnqueueBarrierWithWaitList = order,
    .clFinish = finish,
    .clFlush = finish,
    .clCreateBuffer = create_buffer,
    .clCreateSubBuffer = create_part,
    .clRetainMemObject = retain_memory,
    .clReleaseMemObject = release_memory,
    .clEnqueueWriteBuffer = write_buffer,
    .clEnqueueReadBuffer = read_buffer,
    .clEnqueueCopyBuffer = copy_buffer,
    .clEnqueueFillBuffer = fill_buffer,
    .clEnqueueMapBuffer = map_buffer,
    .clEnqueueUnmapMemObject = unmap,
    .clCreateProgramWithSource = create_program,
    .clReleaseProgram = release_program,
    .clBuildProgram = build_program,
    .clGetProgramBuildInfo = build_info,
    .clGetProgramInfo = program_info,
    .clCreateKernel = create_kernel,
    .clReleaseKernel = release_kernel,
    .clGetKernelInfo = kernel_info,
    .clSetKernelArg = set_argument,
    .clGetKernelWorkGroupInfo = group_info,
    .clEnqueueNDRangeKernel = launch,
};
