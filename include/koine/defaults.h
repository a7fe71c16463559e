/* The defaults of parameter and result structs. They begin with their size, by which the library knows the
 * version of the header that the program was built against.
 *
 *     kn_loader_params params = KN_LOADER_DEFAULTS;
 *
 * In C this is an initializer with designated fields, in C++ an expression: C++11 has no such initializers.
 * Fields that are not named are 0. Later versions add fields at the end, with the default 0: an older library
 * accepts a struct with new fields if they are 0, and otherwise refuses it (KN_ERROR_UNSUPPORTED). */
#ifndef KOINE_DEFAULTS_H
#define KOINE_DEFAULTS_H

/* KN_DEFAULTS(type, KN_FIELD(name, value), ...): the fields whose default is not 0; without any,
 * KN_DEFAULTS_ZERO(type). */
#ifdef __cplusplus
#define KN_DEFAULTS_ZERO(type) KN_DEFAULTS(type, (void)0)
#define KN_DEFAULTS(type, ...)                                                                               \
    ([]() -> type {                                                                                          \
        type kn_made = type();                                                                               \
        kn_made.size = sizeof(type), __VA_ARGS__;                                                            \
        return kn_made;                                                                                      \
    }())
#define KN_FIELD(name, value) kn_made.name = value
#else
#define KN_DEFAULTS_ZERO(type)                                                                               \
    { .size = sizeof(type) }
#define KN_DEFAULTS(type, ...)                                                                               \
    { .size = sizeof(type), __VA_ARGS__ }
#define KN_FIELD(name, value) .name = value
#endif

#endif
