/* Follows another process of this program by the lines that it writes. */
#ifndef KOINE_COMMAND_FOLLOW_H
#define KOINE_COMMAND_FOLLOW_H

#include "command.h"

typedef enum follow_end { FOLLOW_ENDED, FOLLOW_STOPPED, FOLLOW_INTERRUPTED, FOLLOW_LOST } follow_end;

typedef struct follow_reader {
    void *user;
    /* A line without its end; `errors`: of the standard error. */
    void (*line)(void *user, bool errors, const char *line);
    /* The time, by clock_now, at which the process is stopped unless it has ended; asked again after each
     * line. */
    double (*until)(void *user);
} follow_reader;

/* Starts this program with these arguments and reads its lines until it ends, its time is over or the user
 * interrupts; then it is killed. *code: an errno value if it did not start, which counts as ended; *result:
 * as of waitpid. FOLLOW_LOST: the system does not let it go. */
follow_end follow(char *const *arguments, const follow_reader *reader, int *result, int *code);

#endif
