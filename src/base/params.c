/* Structs that begin with their size: parameters from a caller, results for a caller. */
#include <string.h>

#include "base/base.h"

/* No struct is larger, in any version: a larger size is uninitialized memory. */
enum { MAX_SIZE = 1 << 16 };

bool kn_has_size(const void *given) {
    size_t known = 0;
    if (given) memcpy(&known, given, sizeof known);
    return known >= sizeof known;
}

/* Whether a newer program's struct sets a field beyond the `size` bytes that this library knows. */
static bool sets_more(const uint8_t *given, size_t size, size_t known) {
    for (size_t i = size; i < known; i++)
        if (given[i]) return true;
    return false;
}

kn_status kn_params_take(const char *type, void *own, const void *given, size_t size, kn_error *error) {
    size_t known = 0;
    if (!given) return KN_OK;
    memcpy(&known, given, sizeof known);
    if (!kn_has_size(given) || known > MAX_SIZE)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "the size of a %s is %zu; initialise it with its KN_..._DEFAULTS or kn_..._init", type,
                       known);
    if (sets_more(given, size, known))
        return kn_fail(
            error, KN_ERROR_UNSUPPORTED,
            "a %s of %zu bytes sets a field that this library, which knows %zu bytes of it, does not "
            "have; install the version of Koine that the program was built for, or leave the field 0",
            type, known, size);
    memcpy(own, given, known < size ? known : size);
    memcpy(own, &size, sizeof size);
    return KN_OK;
}

kn_status kn_result_give(void *result, const void *own, size_t size) {
    size_t known = 0;
    if (!kn_has_size(result)) return KN_ERROR_ARGUMENT;
    memcpy(&known, result, sizeof known);
    memcpy(result, own, known < size ? known : size);
    memcpy(result, &known, sizeof known);
    return KN_OK;
}
