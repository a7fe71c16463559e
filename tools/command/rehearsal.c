/* A second process that makes the same plan from its other end while this one compiles: drivers that compile one kernel
 * at a time, whatever the threads, keep two processors busy then. It begins with the first kernel that this one has to
 * compile, shares what the driver keeps, and is over with this one's first step. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <unistd.h>

#include "command.h"

enum { MOST_ARGUMENTS = 256 };

static bool is_rehearsal;
static bool allowed, told;
static char *words[MOST_ARGUMENTS + 3]; /* of this process, with "rehearse" behind the program */
static pid_t child;

void rehearsal_begin(int *count, char **arguments) {
    static char program[] = "koine", verb[] = "rehearse";
    is_rehearsal = *count > 1 && !strcmp(arguments[1], verb);
    if (is_rehearsal) {
        --*count;
        memmove(arguments + 1, arguments + 2, (size_t)*count * sizeof *arguments);
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        return;
    }
    if (*count > MOST_ARGUMENTS) return;
    words[0] = program;
    words[1] = verb;
    memcpy(words + 2, arguments + 1, (size_t)*count * sizeof *arguments);
}

bool rehearsing(void) {
    return is_rehearsal;
}

void rehearsal_allow(const common_options *common) {
    allowed = words[0] && !common->no_cache && !device_is_auto(common) && sysconf(_SC_NPROCESSORS_ONLN) > 1;
    told = common->verbose;
}

void rehearsal_start(void) {
    if (!allowed) return;
    allowed = false;
    /* Without it all is as it would be, and takes longer. */
    if (process_start(words, true, &child)) child = 0;
    if (!child) return;
    atexit(rehearsal_end);
    if (told) command_tell("koine: another process compiles the same kernels, the last ones first");
}

void rehearsal_end(void) {
    int result;
    allowed = false;
    if (!child) return;
    kill(child, SIGKILL);
    process_wait(child, &result);
    child = 0;
}
