/* A tile of a 1x1 convolution: pixels that lie side by side in an image blocked by KN_WIDTH channels, so that all their
 * addresses are one, times a panel of a packed filter (conv/wide.cl).
 *
 * Defines: those of common/pixel_tile.cl. */
#ifndef KN_CONV_BESIDE_CL
#define KN_CONV_BESIDE_CL
#include "common/pixel_tile.cl"

#define KN_RIGHT(row, v) const vector right##v = load(v, filter);
#define KN_ADD(row, v) sum##row##_##v += value * right##v;
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, row *KN_VECTORS + v, sums);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)

/* So many blocks of channels ahead, pixels side by side are brought near: as long as memory takes. */
#define KN_FAR 8
/* Floats of the next panel that a tile brings near for each of its blocks: a line of memory. */
#define KN_NEXT 16
#define KN_STEP_BESIDE(row)                                                                                  \
    {                                                                                                        \
        const vector value = x[row * KN_WIDTH + lane];                                                       \
        KN_EACH(KN_ADD, row)                                                                                 \
    }

/* sums (KN_ROWS,KN_COLUMNS) = x (channels) of KN_ROWS pixels, the first of which is at x, times the panel at `filter`.
 * On the way the KN_NEXT * channels / KN_WIDTH floats at `next` are brought near. */
KN_APART void add_blocks(global const float *x, global const float *filter, global const float *next, float *sums,
                         int channels, KN_INDEX x_pass) {
    KN_EACH_ROW(KN_START)
    for (int first = 0; first < channels; first += KN_WIDTH, x += x_pass, next += KN_NEXT) {
        KN_PREFETCH(next)
        for (int ahead = 0; ahead < KN_ROWS * KN_WIDTH && first + KN_FAR * KN_WIDTH < channels; ahead += 16) {
            KN_PREFETCH(x + KN_FAR * x_pass + ahead)
        }
#pragma unroll
        for (int lane = 0; lane < KN_WIDTH; lane++, filter += KN_COLUMNS) {
            KN_EACH(KN_RIGHT, 0)
            KN_EACH_ROW(KN_STEP_BESIDE)
        }
    }
    KN_EACH_ROW(KN_KEEP)
}

/* The part of the next panel for the tile behind one that had `next`, until `end`; then again what is near, at `filter`. */
KN_INLINE global const float *part_behind(global const float *next, global const float *end, global const float *filter,
                                          int channels) {
    const int floats = channels / KN_WIDTH * KN_NEXT;
    return end - next >= 2 * floats ? next + floats : filter;
}
#endif
