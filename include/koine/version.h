/* The version of this interface, which is separate from the release version. */
#ifndef KOINE_VERSION_H
#define KOINE_VERSION_H

#include <koine/export.h>

/* A program must be rebuilt when the major number changes; the minor number counts additions, the patch
 * number fixes. */
#define KN_API_VERSION_MAJOR 0
#define KN_API_VERSION_MINOR 1
#define KN_API_VERSION_PATCH 0

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
