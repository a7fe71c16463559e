/* Runs another process of this program and reads its output line by line. */
#ifndef KOINE_COMMAND_FOLLOW_H
#define KOINE_COMMAND_FOLLOW_H

#include "command.h"

typedef enum follow_end { FOLLOW_ENDED, FOLLOW_STOPPED, FOLLOW_INTERRUPTED, FOLLOW_LOST } follow_end;

typedef struct follow_reader {
    void *user;
    /* A line without its newline; `errors`: from standard error. */
    void (*line)(void *user, bool errors, const char *line);
    /* The deadline, by clock_now, after which the process is killed; called again after each line. */
    double (*until)(void *user);
} follow_reader;

/* Starts this program with these arguments and reads its lines until it ends. Kills it at the deadline or
 * when the user interrupts. *code: an errno value if it did not start, which counts as ended; *result: as
 * from waitpid. FOLLOW_LOST: the killed process does not end. */
follow_end follow(char *const *arguments, const follow_reader *reader, int *result, int *code);

#endif
