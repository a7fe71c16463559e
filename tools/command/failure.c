/* Errors that are not printed. */
#include "failure.h"

bool failure_set(failure *self, bool refused, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(self->text, sizeof self->text, format, arguments);
    va_end(arguments);
    self->refused = refused;
    return false;
}

bool failure_set_session(failure *self, const kn_session *session, kn_status status) {
    const char *text = session ? kn_session_error(session) : "out of memory";
    return failure_set(self, false, "%s", text[0] ? text : kn_status_message(status));
}

bool failure_print(const failure *self) {
    return self->text[0] ? command_error("%s", self->text) : false;
}
