/* Whether a CPU multiplies bytes (AVX512-VNNI), which compilers of OpenCL C may not know. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "device/device_private.h"

#if defined(__x86_64__)
static bool has_vnni(void) {
    enum { FEATURES = 7, AVX512_VNNI = 1 << 11 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(FEATURES, 0, &eax, &ebx, &ecx, &edx) && ecx & AVX512_VNNI;
}
#else
static bool has_vnni(void) {
    return false;
}
#endif

bool kn_context_byte_products(const kn_context *context) {
    const bool own = !kn_context_is_described(context) && has_vnni();
    return context->capabilities.wide_vector && (own || kn_context_emulates_matrix_unit(context));
}
