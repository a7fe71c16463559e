/* The version of the C API, which is separate from the release version.
 *
 *     #if KN_API_VERSION_AT_LEAST(0, 1)
 *         printf("built for %d.%d, running with %s\n", KN_API_VERSION_MAJOR, KN_API_VERSION_MINOR,
 *                kn_version_text());
 *     #endif
 */
#ifndef KOINE_VERSION_H
#define KOINE_VERSION_H

#include <koine/export.h>

/* A program must be rebuilt when the major number changes; until 1.0, when the minor number changes. From 1.0
 * on the minor number counts additions; the patch number counts fixes. Comments on what was added say "Since
 * 0.2"; everything else is there since 0.1. */
#define KN_API_VERSION_MAJOR 0
#define KN_API_VERSION_MINOR 1
#define KN_API_VERSION_PATCH 0
/* Whether these headers have at least this version. */
#define KN_API_VERSION_AT_LEAST(major, minor)                                                                \
    (KN_API_VERSION_MAJOR > (major) || (KN_API_VERSION_MAJOR == (major) && KN_API_VERSION_MINOR >= (minor)))

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the loaded library, as "0.1.0" and as major * 10000 + minor * 100 + patch. Thread-safe. */
KN_API const char *kn_version_text(void);
KN_API int kn_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
