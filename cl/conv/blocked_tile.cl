/* Convolutions of blocked 16-bit images on a matrix unit, as implicit matrix products: code shared by the files
 * blocked*.cl. An image is (N,C/8,H,W,8): eight adjacent channels of a pixel are one aligned load of 16 bytes.
 *
 * Defines, with their defaults:
 *   KN_FRAGMENT 1, KN_FORMAT 2   the unit and its element format; emulated by default (KN_EMULATED 1)
 *   KN_POINTWISE 0   1: a 1x1 filter without padding: no pixel is outside the image
 *   KN_TAIL 1        0: the length of every sum is a multiple of KN_TILE_K
 * and those of common/tile.cl, except that KN_TILE_K is 32 by default. */
#ifndef KN_BLOCKED_TILE_CL
#define KN_BLOCKED_TILE_CL
#ifndef KN_FRAGMENT
#define KN_FRAGMENT 1
#define KN_EMULATED 1
#endif
#ifndef KN_TILE_K
#define KN_TILE_K 32
#endif
#include "common/storage.cl"
#include "common/tile.cl"
#ifndef KN_POINTWISE
#define KN_POINTWISE 0
#endif
#ifndef KN_TAIL
#define KN_TAIL 1
#endif

/* The channels of a block. */
#define KN_BLOCK 8

/* Whether k is inside the sum, and whether a pixel is inside the image. */
#define KN_IS_WANTED(k) (!KN_TAIL || (k) < k_end)
#define KN_IS_INSIDE(y, x, height, width)                                                                    \
    (KN_POINTWISE || (((uint)(y) < (uint)(height)) & ((uint)(x) < (uint)(width))))
#endif
