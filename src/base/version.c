/* The version of the library. */
#include <koine/version.h>

#define KN_TEXT(number) #number
#define KN_DOTTED(major, minor, patch) KN_TEXT(major) "." KN_TEXT(minor) "." KN_TEXT(patch)

const char *kn_version_text(void) {
    return KN_DOTTED(KN_API_VERSION_MAJOR, KN_API_VERSION_MINOR, KN_API_VERSION_PATCH);
}

int kn_version_number(void) {
    return KN_API_VERSION_MAJOR * 10000 + KN_API_VERSION_MINOR * 100 + KN_API_VERSION_PATCH;
}
