/* Conversions between the plain layout and the blocked one of many-thread devices, of elements of any type:
 * (N,C/8,P,8) for the plain (N,C,P), where P is the number of pixels of an image. Blocks of all images are contiguous
 * in both.
 *
 * Defines, with their defaults:
 *   KN_ELEMENT ushort   an unsigned type of the elements' size
 *
 * kn_to_blocks(plain, blocked, blocks, pixels)
 * kn_from_blocks(blocked, plain, blocks, pixels)
 *   one work-item per pixel of `blocks` blocks */
#include "common/types.cl"
#include "common/wanted.cl"
#ifndef KN_ELEMENT
#define KN_ELEMENT ushort
#endif
#define KN_CONCAT_(a, b) a##b
#define KN_CONCAT(a, b) KN_CONCAT_(a, b)
typedef KN_CONCAT(KN_ELEMENT, 8) eight;

#if KN_WANTED(kn_to_blocks)
kernel void kn_to_blocks(global const KN_ELEMENT *restrict plain, global KN_ELEMENT *restrict blocked, KN_INDEX blocks,
                         KN_INDEX pixels) {
    const KN_INDEX i = get_global_id(0), block = i / pixels;
    if (block >= blocks) return;
    plain += block * 8 * pixels + i % pixels;
    const eight channels = (eight)(plain[0], plain[pixels], plain[2 * pixels], plain[3 * pixels], plain[4 * pixels],
                                   plain[5 * pixels], plain[6 * pixels], plain[7 * pixels]);
    vstore8(channels, i, blocked);
}
#endif

#if KN_WANTED(kn_from_blocks)
kernel void kn_from_blocks(global const KN_ELEMENT *restrict blocked, global KN_ELEMENT *restrict plain,
                           KN_INDEX blocks, KN_INDEX pixels) {
    const KN_INDEX i = get_global_id(0), block = i / pixels;
    if (block >= blocks) return;
    const eight channels = *(global const eight *)(blocked + i * 8);
    plain += block * 8 * pixels + i % pixels;
    plain[0] = channels.s0;
    plain[pixels] = channels.s1;
    plain[2 * pixels] = channels.s2;
    plain[3 * pixels] = channels.s3;
    plain[4 * pixels] = channels.s4;
    plain[5 * pixels] = channels.s5;
    plain[6 * pixels] = channels.s6;
    plain[7 * pixels] = channels.s7;
}
#endif
