/* An error that is not printed, so that a server can answer with it. */
#ifndef KOINE_COMMAND_FAILURE_H
#define KOINE_COMMAND_FAILURE_H

#include "command.h"

typedef enum failure_cause { FAILURE_OTHER, FAILURE_MEMORY, FAILURE_REQUEST } failure_cause;

typedef struct failure {
    char text[1600]; /* "": it was printed */
    failure_cause cause;
} failure;

/* FAILURE_MEMORY for a status that reports a lack of memory, otherwise `other`. */
failure_cause failure_cause_of(kn_status status, failure_cause other);
/* These return false. */
bool failure_set(failure *self, failure_cause cause, const char *format, ...) COMMAND_PRINTF(3, 4);
/* The session's error; session NULL: out of memory. */
bool failure_set_session(failure *self, const kn_session *session, kn_status status);
/* Opens a model that has weights, with this window (0: its own), or sets the failure and returns NULL. */
kn_model *model_open_window(const char *file, int64_t window, failure *failed);
/* Prints it as command_error does. */
bool failure_print(const failure *self);

#endif
