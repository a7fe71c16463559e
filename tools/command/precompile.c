/* A second process that makes the same plan from its other end while this one compiles: drivers that compile
 * one kernel at a time, whatever the threads, keep two processors busy then. It begins with the first kernel
 * that this one has to compile, shares what the driver keeps, and is over with this one's first step. */
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

enum { MOST_ARGUMENTS = 256, MOST_SECONDS = 600 };

static bool is_precompiling;
static bool allowed, told, over;
static char *words[MOST_ARGUMENTS + 3]; /* of this process, with "precompile" behind the program */
static pid_t child;

void precompile_begin(int *count, char **arguments) {
    static char program[] = "koine", verb[] = "precompile";
    is_precompiling = *count > 1 && !strcmp(arguments[1], verb);
    if (is_precompiling) {
        --*count;
        memmove(arguments + 1, arguments + 2, (size_t)*count * sizeof *arguments);
        /* Nobody ends it where the other process was killed. */
        alarm(MOST_SECONDS);
        return;
    }
    if (*count > MOST_ARGUMENTS) return;
    words[0] = program;
    words[1] = verb;
    memcpy(words + 2, arguments + 1, (size_t)*count * sizeof *arguments);
}

bool precompiling(void) {
    return is_precompiling;
}

/* That this process may use. */
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
    /* Without it all is as it would be, and takes longer. */
    if (process_start(words, true, &child)) child = 0;
    if (!child) return;
    atexit(precompile_end);
    if (told) command_tell("koine: another process compiles the same kernels, the last ones first");
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
        command_tell("koine: the other process failed, which does no harm");
    }
    child = 0;
}
