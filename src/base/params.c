/* Structs that begin with their size: parameters from a caller, results for one. */
#include <string.h>

#include "base/base.h"

bool kn_has_size(const void *given) {
    size_t known = 0;
    if (given) memcpy(&known, given, sizeof known);
    return known >= sizeof known;
}

kn_status kn_params_take(const char *type, void *own, const void *given, size_t size, kn_error *error) {
    size_t known = 0;
    if (!given) return KN_OK;
    memcpy(&known, given, sizeof known);
    if (!kn_has_size(given))
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "the size of a %s is %zu; initialise it with its KN_..._DEFAULTS or kn_..._init", type,
                       known);
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
