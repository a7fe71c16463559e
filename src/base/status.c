/* The names and messages of the status codes. */
#include <koine/status.h>

const char *kn_status_name(kn_status status) {
    switch (status) {
#define STATUS_NAME(name, number, message)                                                                   \
    case name:                                                                                               \
        return #name;
        KN_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "unknown";
}

const char *kn_status_message(kn_status status) {
    switch (status) {
#define STATUS_MESSAGE(name, number, message)                                                                \
    case name:                                                                                               \
        return message;
        KN_STATUS_LIST(STATUS_MESSAGE)
#undef STATUS_MESSAGE
    }
    return "unknown";
}
