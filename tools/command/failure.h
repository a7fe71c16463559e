/* An error that is not printed, so that a server can answer with it. */
#ifndef KOINE_COMMAND_FAILURE_H
#define KOINE_COMMAND_FAILURE_H

#include "command.h"

typedef struct failure {
    char text[1600]; /* "": it was printed */
    bool refused;    /* caused by the text of a request, not by the machine */
} failure;

/* These return false. */
bool failure_set(failure *self, bool refused, const char *format, ...) COMMAND_PRINTF(3, 4);
/* The session's error; session NULL: out of memory. */
bool failure_set_session(failure *self, const kn_session *session, kn_status status);
/* Prints it as command_error does. */
bool failure_print(const failure *self);

#endif
