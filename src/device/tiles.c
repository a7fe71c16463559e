/* Tile registers of CPUs (AMX), which the operating system grants to processes that request them. */
#if defined(__linux__) && defined(__x86_64__)
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
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
