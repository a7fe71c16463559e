/* Instructions of CPUs that compilers of OpenCL C do not know: tile registers (AMX), which the operating
 * system grants to processes that request them, and products of bytes (AVX512-VNNI). */
#if defined(__linux__) && defined(__x86_64__)
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "device/device_private.h"

#if defined(__linux__) && defined(__x86_64__)
enum { GET_PERMISSION = 0x1022, ASK_PERMISSION = 0x1023, TILE_DATA = 18 }; /* of arch_prctl(2) */

bool kn_tiles_allowed(void) {
    unsigned long allowed = 0;
    return !syscall(SYS_arch_prctl, GET_PERMISSION, &allowed) && allowed >> TILE_DATA & 1;
}

bool kn_process_enable_amx(void) {
    return kn_tiles_allowed() ||
           (!syscall(SYS_arch_prctl, ASK_PERMISSION, (unsigned long)TILE_DATA) && kn_tiles_allowed());
}
#else
bool kn_tiles_allowed(void) {
    return false;
}

bool kn_process_enable_amx(void) {
    return false;
}
#endif

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
