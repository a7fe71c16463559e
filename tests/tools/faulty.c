/* Preloaded before the OpenCL loader: a driver with faults.
 *
 * FAULT_KERNEL: where a program makes the kernel of this name, it crashes, or hangs if FAULT_WAY is hang.
 *
 * FAULT_STARTS: a file to which each process appends its command line.
 *
 * SLOW_COMPILER: devices are GPUs whose compiler takes this many seconds longer per program, for one program
 * at a time, and whose binaries load at once (they are the source). Each compilation appends a line to the
 * file SLOW_COMPILER_LOG: the process, and a hash of the source. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
/* Declares `next`, the function that this one replaces. */
#define NEXT(name, result, ...)                                                                              \
    union {                                                                                                  \
        void *found;                                                                                         \
        result (*call)(__VA_ARGS__);                                                                         \
    } next = {.found = dlsym(RTLD_NEXT, #name)}

EXPORT cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code) {
    NEXT(clCreateKernel, cl_kernel, cl_program, const char *, cl_int *);
    const char *wanted = getenv("FAULT_KERNEL"), *way = getenv("FAULT_WAY");
    if (wanted && !strcmp(wanted, name)) {
        while (way && !strcmp(way, "hang"))
            pause();
        abort();
    }
    return next.call(program, name, code);
}

__attribute__((constructor)) static void log_start(void) {
    const char *path = getenv("FAULT_STARTS");
    FILE *line = path ? fopen("/proc/self/cmdline", "r") : NULL, *log = line ? fopen(path, "a") : NULL;
    char words[8192];
    size_t count = log ? fread(words, 1, sizeof words - 1, line) : 0;
    for (size_t i = 0; i + 1 < count; i++)
        if (!words[i]) words[i] = ' ';
    words[count] = '\0';
    if (log) fprintf(log, "%s\n", words);
    if (log) fclose(log);
    if (line) fclose(line);
}

/* ---- a slow compiler ----------------------------------------------------------------------------- */

enum { MAX_PROGRAMS = 4096 };

/* The text of each program; entries are never removed. */
static struct {
    cl_program program;
    char *text;
    bool compiled; /* made from a binary */
} programs[MAX_PROGRAMS];
static int program_count;
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER, compiling = PTHREAD_MUTEX_INITIALIZER;

static double slow_seconds(void) {
    const char *seconds = getenv("SLOW_COMPILER");
    return seconds ? atof(seconds) : 0;
}

static void note(cl_program program, char *text, bool compiled) {
    pthread_mutex_lock(&listing);
    if (program && text && program_count < MAX_PROGRAMS) {
        programs[program_count].program = program;
        programs[program_count].text = text;
        programs[program_count++].compiled = compiled;
    }
    pthread_mutex_unlock(&listing);
}

/* The index of the newest entry of a program; -1: there is none. */
static int entry_of(cl_program program) {
    pthread_mutex_lock(&listing);
    int i = program_count - 1;
    while (i >= 0 && programs[i].program != program)
        i--;
    pthread_mutex_unlock(&listing);
    return i;
}

static void log_compilation(const char *text) {
    const char *path = getenv("SLOW_COMPILER_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    unsigned hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    if (log) fprintf(log, "%d %08x\n", (int)getpid(), hash);
    if (log) fclose(log);
}

EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void *target,
                              size_t *needed) {
    NEXT(clGetDeviceInfo, cl_int, cl_device_id, cl_device_info, size_t, void *, size_t *);
    cl_int code = next.call(device, what, room, target, needed);
    if (slow_seconds() > 0 && what == CL_DEVICE_TYPE && target && code == CL_SUCCESS)
        *(cl_device_type *)target = CL_DEVICE_TYPE_GPU;
    return code;
}

EXPORT cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                            const size_t *lengths, cl_int *code) {
    NEXT(clCreateProgramWithSource, cl_program, cl_context, cl_uint, const char **, const size_t *, cl_int *);
    cl_program program = next.call(context, count, strings, lengths, code);
    if (slow_seconds() > 0 && count == 1) {
        const size_t length = lengths && lengths[0] ? lengths[0] : strlen(strings[0]);
        note(program, strndup(strings[0], length), false);
    }
    return program;
}

EXPORT cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                            const size_t *lengths, const unsigned char **binaries,
                                            cl_int *statuses, cl_int *code) {
    NEXT(clCreateProgramWithBinary, cl_program, cl_context, cl_uint, const cl_device_id *, const size_t *,
         const unsigned char **, cl_int *, cl_int *);
    if (!(slow_seconds() > 0) || count != 1)
        return next.call(context, count, devices, lengths, binaries, statuses, code);
    const char *text = (const char *)binaries[0];
    cl_program program = clCreateProgramWithSource(context, 1, &text, lengths, code);
    const int entry = entry_of(program);
    if (entry >= 0) programs[entry].compiled = true;
    if (statuses) statuses[0] = CL_SUCCESS;
    return program;
}

EXPORT cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                             const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *user) {
    NEXT(clBuildProgram, cl_int, cl_program, cl_uint, const cl_device_id *, const char *,
         void(CL_CALLBACK *)(cl_program, void *), void *);
    const cl_int code = next.call(program, count, devices, options, notify, user);
    const int entry = entry_of(program);
    if (entry < 0 || programs[entry].compiled || code != CL_SUCCESS) return code;
    const double seconds = slow_seconds();
    log_compilation(programs[entry].text);
    pthread_mutex_lock(&compiling);
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
    pthread_mutex_unlock(&compiling);
    return code;
}

EXPORT cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t room, void *target,
                               size_t *needed) {
    NEXT(clGetProgramInfo, cl_int, cl_program, cl_program_info, size_t, void *, size_t *);
    const int entry = entry_of(program);
    if (entry < 0 || !target || (what != CL_PROGRAM_BINARY_SIZES && what != CL_PROGRAM_BINARIES))
        return next.call(program, what, room, target, needed);
    const size_t length = strlen(programs[entry].text);
    if (what == CL_PROGRAM_BINARY_SIZES)
        *(size_t *)target = length;
    else
        memcpy(*(unsigned char **)target, programs[entry].text, length);
    return CL_SUCCESS;
}
