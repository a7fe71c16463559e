/* The defaults of parameter and result structs, which begin with their size: it tells the library which
 * version of the header a program was built against.
 *
 *     kn_loader_params params = KN_LOADER_DEFAULTS;
 *
 * In C this is an initializer with designated fields, in C++ an expression: C++11 has no such initializers.
 * Fields that are not named are 0, so a new field with the default 0 changes nothing here. */
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
