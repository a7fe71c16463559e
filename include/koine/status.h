/* Status codes. One list gives the code, name and message of each.
 *
 *     kn_status status = kn_context_status(context);
 *     if (status != KN_OK)
 *         fprintf(stderr, "%s: %s\n", kn_status_name(status), kn_status_message(status)); */
#ifndef KOINE_STATUS_H
#define KOINE_STATUS_H

#include <koine/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, message). Numbers never change once released. */
#define KN_STATUS_LIST(X)                                                                                    \
    X(KN_OK, 0, "success")                                                                                   \
    X(KN_ERROR_MEMORY, 1, "out of host memory")                                                              \
    X(KN_ERROR_ARGUMENT, 2, "an argument is not valid")                                                      \
    X(KN_ERROR_SHAPE, 3, "shapes do not fit together")                                                       \
    X(KN_ERROR_DTYPE, 4, "element types do not fit together")                                                \
    X(KN_ERROR_UNSUPPORTED, 5, "not supported here")                                                         \
    X(KN_ERROR_NO_DEVICE, 6, "no usable OpenCL device")                                                      \
    X(KN_ERROR_DEVICE, 7, "an OpenCL call failed")                                                           \
    X(KN_ERROR_DEVICE_MEMORY, 8, "out of device memory")                                                     \
    X(KN_ERROR_COMPILE, 9, "a kernel did not compile")                                                       \
    X(KN_ERROR_FILE, 10, "a file could not be read or written")                                              \
    X(KN_ERROR_FORMAT, 11, "a file or text is malformed")                                                    \
    X(KN_ERROR_NOT_FOUND, 12, "nothing has that name")                                                       \
    X(KN_ERROR_NOT_FINITE, 13, "a value is not finite")                                                      \
    X(KN_ERROR_MISMATCH, 14, "a result differs from its reference")                                          \
    X(KN_ERROR_CANCELLED, 15, "stopped on request")                                                          \
    X(KN_ERROR_INTERNAL, 16, "an inconsistency inside Koine; please report it")                              \
    X(KN_ERROR_COMMUNICATION, 17, "a message between workers failed")

typedef enum kn_status {
#define KN_STATUS_ENUM(name, number, message) name = number,
    KN_STATUS_LIST(KN_STATUS_ENUM)
#undef KN_STATUS_ENUM
} kn_status;

/* The name of a code, such as "KN_ERROR_SHAPE"; "unknown" for other numbers. The string is static.
 * Thread-safe. */
KN_API const char *kn_status_name(kn_status status);

/* One sentence that says what a code means; same lifetime and thread safety. */
KN_API const char *kn_status_message(kn_status status);

#ifdef __cplusplus
}
#endif
#endif
