/* Products of bytes, four at a time.
 *   KN_EMULATED   common/emulated.cl; 0: by the instruction of AVX512-VNNI
 *   kn_add_quads(sum, left, right)   an int16: in each lane, sum + the products of the four signed bytes of left and
 *                                    the four unsigned bytes of right */
#ifndef KN_QUADS_CL
#define KN_QUADS_CL
#include "common/emulated.cl"
static inline __attribute__((always_inline)) int16 kn_add_quads(int16 sum, const int16 left, const int16 right) {
#if KN_EMULATED
    for (int bits = 0; bits < 32; bits += 8)
        sum += ((left << (24 - bits)) >> 24) * ((right >> bits) & 255);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left));
#endif
    return sum;
}
#endif
