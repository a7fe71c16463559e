/* A second process that compiles the kernels of the same plan in reverse order. Some drivers compile one
 * kernel at a time, whatever the number of threads; with them, this uses two processors. The process starts
 * at the first kernel that this process has to compile, shares the driver's cache, and ends at this process's
 * first step. */
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

enum { MAX_ARGUMENTS = 256, MAX_SECONDS = 600 };

static bool is_precompiling;
static bool allowed, told, over;
static char *words[MAX_ARGUMENTS + 3]; /* the command line, with "precompile" added */
static pid_t child;

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
static bool many_processors(void) {
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set) > 1;
#endif
    return sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

void precompile_allow(const common_options *common, const kn_context *context) {
    allowed = !over && words[0] && !common->no_cache && kn_context_device(context)->type == KN_DEVICE_CPU &&
              many_processors();
    told = common->verbose;
}

void precompile_start(void) {
    if (!allowed) return;
    allowed = false;
    /* Ignore failures: precompiling only saves time. */
    if (process_start(words, true, &child)) child = 0;
    if (!child) return;
    atexit(precompile_end);
    if (told) command_info("koine: another process compiles the same kernels, the last ones first");
}

void precompile_end(void) {
    int result;
    allowed = false;
    over = true;
    if (!child) return;
    if (waitpid(child, &result, WNOHANG) == 0) {
        kill(child, SIGKILL);
        process_wait(child, &result);
    } else if (told && result != 0) {
        command_info("koine: the other process failed, which is harmless");
    }
    child = 0;
}
