/* Functions that the linker calls instead of others (-Wl,--wrap). */
#ifndef KN_TESTS_WRAPPING_H
#define KN_TESTS_WRAPPING_H

/* Begins the definition of the function that replaces `name`, which calls the original as __real_name. */
#define WRAPPED(type, name, parameters)                                                                      \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters

#endif
