/* Processes that compile the kernels of the same plan. Some drivers compile one kernel at a time, whatever
 * the number of threads; with them, this uses several processors. The processes start at the first kernel
 * that this process has to compile, share the cache of programs, and end at this process's first step. */
#ifdef __linux__
#define _GNU_SOURCE
#include <sched.h>
#endif
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

enum { MAX_ARGUMENTS = 256, MAX_SECONDS = 600, MIN_CHILDREN = 3, MAX_CHILDREN = 7 };

static bool is_precompiling;
static bool told, over;
static int allowed;                    /* processes to start */
static char *words[MAX_ARGUMENTS + 3]; /* the command line, with "precompile" added */
static pid_t children[MAX_CHILDREN];
static int child_count;

void precompile_begin(int *count, char **arguments) {
    static char program[] = "koine", verb[] = "precompile";
    is_precompiling = *count > 1 && !strcmp(arguments[1], verb);
    if (is_precompiling) {
        --*count;
        memmove(arguments + 1, arguments + 2, (size_t)*count * sizeof *arguments);
        /* End together with the parent process, even if it is killed. */
        alarm(MAX_SECONDS);
        return;
    }
    if (*count > MAX_ARGUMENTS) return;
    words[0] = program;
    words[1] = verb;
    memcpy(words + 2, arguments + 1, (size_t)*count * sizeof *arguments);
}

bool precompiling(void) {
    return is_precompiling;
}

/* The processors that this process may use. */
static int processors(void) {
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void precompile_allow(const common_options *common, const kn_context *context) {
    const int others = processors() - 1;
    const bool cpu = kn_context_device(context)->type == KN_DEVICE_CPU;
    told = common->verbose;
    allowed = 0;
    if (over || !words[0] || common->no_cache || others < 1) return;
    if (cpu) {
        allowed = 1; /* its kernels need the processors, too */
    } else if (kn_context_capabilities(context)->shares_programs) {
        /* Compilers for GPUs often wait, so that more processes than processors pay. Otherwise there are
         * none: a process would use the memory of the device. */
        allowed = 2 * others;
        if (allowed < MIN_CHILDREN) allowed = MIN_CHILDREN;
        if (allowed > MAX_CHILDREN) allowed = MAX_CHILDREN;
    }
}

void precompile_start(void) {
    if (!allowed) return;
    /* Ignore failures: precompiling only saves time. */
    while (child_count < allowed && !process_start(words, true, &children[child_count]))
        child_count++;
    allowed = 0;
    if (!child_count) return;
    atexit(precompile_end);
    if (told)
        command_info("koine: %d other process%s compile%s the same kernels", child_count,
                     child_count == 1 ? "" : "es", child_count == 1 ? "s" : "");
}

void precompile_end(void) {
    bool failed = false;
    allowed = 0;
    over = true;
    for (int i = 0; i < child_count; i++) {
        int result = 0;
        if (waitpid(children[i], &result, WNOHANG) == 0) {
            kill(children[i], SIGKILL);
            process_wait(children[i], &result);
        } else if (result != 0) {
            failed = true;
        }
    }
    if (failed && told) command_info("koine: a process that compiled kernels failed, which is harmless");
    child_count = 0;
}
