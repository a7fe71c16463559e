/* The gradient of a convolution with respect to its weight, for blocked 16-bit images, on a matrix unit: dw (K,C,R,S),
 * plain, from dy (N,K/8,P,Q,8) and x (N,C/8,H,W,8). An implicit matrix product (conv/blocked_tile.cl): rows are the
 * channels of dy, columns are (C/8,tap,8), and the sum runs over the pixels of dy in all images, so that eight
 * elements across it are one load on both sides. A work-item loads the same two pixels of each slice, counting pixels
 * as it advances. The two are half a slice apart, so that work-items that load at the same time have adjacent pixels;
 * both sides of a slice have its pixels in that order.
 *
 * Defines, besides those of conv/blocked_tile.cl:
 *   KN_VECTOR 8          elements that are loaded together
 *   KN_RESULT_VECTOR 1   4: stores four columns at a time, which with one tap are adjacent in dw
 *   KN_HALF_dy, KN_HALF_x, KN_HALF_dw 0   storage types (common/storage.cl)
 *
 * kn_conv_blocked_weight(dy, x, dw, partials, channels, height, width, outputs, out_height, out_width,
 *                        filter_height, filter_width, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x,
 *                        depth, parts, part_depth, step_images, step_y, step_x, EPILOGUE)
 *   work-groups of (KN_ITEMS,1,1), numbering (ceil(channels * R * S / KN_TILE_N), ceil(outputs / KN_TILE_M), parts).
 *   depth: pixels of all images; KN_TILE_K pixels are step_images images, step_y lines and step_x pixels.
 *   With parts > 1, part p sums from p * part_depth, a multiple of KN_TILE_K, and stores its partial sums in
 *   partials (parts,K,C,R,S), for kn_sum_parts (common/sum_parts.cl), which has the epilogue. */
#ifndef KN_HALF_dy
#define KN_HALF_dy 2
#endif
#ifndef KN_HALF_x
#define KN_HALF_x 2
#endif
#include "conv/blocked_tile.cl"
#include "common/sum_parts.cl"

#if KN_WANTED(kn_conv_blocked_weight)
#ifndef KN_VECTOR
#define KN_VECTOR 8
#endif
#ifndef KN_RESULT_VECTOR
#define KN_RESULT_VECTOR 1
#endif
#define KN_PIECE KN_PASTE(piece_, KN_VECTOR)
#define KN_LEFT_PIECES KN_PIECES(KN_TILE_M, KN_VECTOR, KN_ACROSS)
#define KN_RIGHT_PIECES KN_PIECES(KN_TILE_N, KN_VECTOR, KN_ACROSS)
#define KN_LEFT_AT(p) piece_at(p, KN_ACROSS, KN_TILE_M, KN_VECTOR)
#define KN_RIGHT_AT(p) piece_at(p, KN_ACROSS, KN_TILE_N, KN_VECTOR)

/* A pixel of dy. */
typedef struct pixel {
    int image, y, x;
} pixel;
static inline pixel pixel_at(const int k, const int out_height, const int out_width) {
    const pixel place = {k / (out_height * out_width), k / out_width % out_height, k % out_width};
    return place;
}
/* The same position in the next slice. */
static inline void pixel_on(pixel *of, const int out_height, const int out_width, const int step_images,
                            const int step_y, const int step_x) {
    of->x += step_x;
    of->y += step_y + (of->x >= out_width ? 1 : 0);
    of->x -= of->x >= out_width ? out_width : 0;
    of->image += step_images + (of->y >= out_height ? 1 : 0);
    of->y -= of->y >= out_height ? out_height : 0;
}

#define KN_LEFT_LINE(pixel, k)                                                                               \
    KN_LOAD_RAW_IF(KN_IS_WANTED(k), KN_HALF_dy, KN_VECTOR, dy,                                               \
                   left_at[p] + (KN_INDEX)pixel.image * outputs * out_plane +                                \
                       ((KN_INDEX)pixel.y * out_width + pixel.x) * KN_BLOCK)
#define KN_RIGHT_LINE(pixel, k)                                                                              \
    KN_LOAD_RAW_IF(KN_IS_WANTED(k) && KN_IS_INSIDE(pixel.y * stride_y + down[p], pixel.x * stride_x + across[p],    \
                                                   height, width),                                           \
                   KN_HALF_x, KN_VECTOR, x,                                                                  \
                   right_at[p] + (KN_INDEX)pixel.image * channels * plane +                                  \
                       ((KN_INDEX)pixel.y * stride_y * width + pixel.x * stride_x) * KN_BLOCK)
#define KN_FETCH_SLICE(k0)                                                                                   \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++) {                                                    \
        right_next[p].line[0] = KN_RIGHT_LINE(first, k);                                                     \
        right_next[p].line[1] = KN_RIGHT_LINE(second, k + KN_TILE_K / 2);                                    \
    }                                                                                                        \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {                                                     \
        left_next[p].line[0] = KN_LEFT_LINE(first, k);                                                       \
        left_next[p].line[1] = KN_LEFT_LINE(second, k + KN_TILE_K / 2);                                      \
    }                                                                                                        \
    k += KN_TILE_K;                                                                                          \
    pixel_on(&first, out_height, out_width, step_images, step_y, step_x);                                    \
    pixel_on(&second, out_height, out_width, step_images, step_y, step_x);
#define KN_PUT_SLICE(turn)                                                                                   \
    KN_PUT_PIECES(left_next, KN_ACROSS, KN_TILE_M, KN_VECTOR, 1, left + (turn) * KN_LEFT_SLICE)              \
    KN_PUT_PIECES(right_next, KN_ACROSS, KN_TILE_N, KN_VECTOR, 0, right + (turn) * KN_RIGHT_SLICE)

#define KN_RESULT(sum, l) KN_EPILOGUE(sum, row, (element + (l)) / taps, (element + (l)) % taps)
#define KN_STORE_ROW(row_at, from)                                                                           \
    const KN_INDEX row = row0 + (row_at), to = row * columns + element;                                      \
    if (row < outputs && column < columns) { KN_STORE_RESULT(from) }
#if KN_RESULT_VECTOR == 4
#define KN_STORE_RESULT(from)                                                                                \
    const KN_A4 four = *(local const KN_A4 *)(from);                                                         \
    KN_STORE_ADJACENT(KN_HALF_dw, dw + to, partials + to, four, KN_RESULT)
#else
#define KN_STORE_RESULT(from)                                                                                \
    const KN_A sum = *(from);                                                                                \
    if (parts > 1)                                                                                           \
        partials[to] = sum;                                                                                  \
    else                                                                                                     \
        KN_WRITE_AS(KN_HALF_dw, KN_TO_T(KN_RESULT(sum, 0)), dw + to);
#endif

KN_WORK_GROUP kernel void
kn_conv_blocked_weight(global const KN_STORED(KN_HALF_dy) *restrict dy, global const KN_STORED(KN_HALF_x) *restrict x,
                       global KN_STORED(KN_HALF_dw) *restrict dw, global KN_A *restrict partials, int channels,
                       int height, int width, int outputs, int out_height, int out_width, int filter_height,
                       int filter_width, int stride_y, int stride_x, int pad_top, int pad_left, int dilation_y,
                       int dilation_x, int depth, int parts, int part_depth, int step_images, int step_y,
                       int step_x KN_EPILOGUE_PARAMETERS) {
    KN_SLICES(2)
    const int part = KN_GROUP(2, 1), row0 = KN_GROUP(1, 1) * KN_TILE_M, column0 = KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const int taps = filter_height * filter_width, columns = channels * taps;
    const int k_first = part * part_depth, k_end = parts > 1 ? min(k_first + part_depth, depth) : depth;
    const KN_INDEX plane = (KN_INDEX)height * width, out_plane = (KN_INDEX)out_height * out_width;
    int down[KN_RIGHT_PIECES], across[KN_RIGHT_PIECES];
    KN_INDEX left_at[KN_LEFT_PIECES], right_at[KN_RIGHT_PIECES];
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {
        const int i = min(row0 + KN_LEFT_AT(p).i, outputs - KN_VECTOR);
        left_at[p] = i / KN_BLOCK * KN_BLOCK * out_plane + i % KN_BLOCK;
    }
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++) {
        const int i = min(column0 + KN_RIGHT_AT(p).i, columns - KN_VECTOR);
        const int block = i / KN_BLOCK / taps, tap = i / KN_BLOCK % taps;
        down[p] = tap / filter_width * dilation_y - pad_top;
        across[p] = tap % filter_width * dilation_x - pad_left;
        right_at[p] = (block * plane + down[p] * width + across[p]) * KN_BLOCK + i % KN_BLOCK;
    }
    /* The pixels of its two lines, the same for all pieces. */
    int k = k_first + KN_LEFT_AT(0).k / 2;
    pixel first = pixel_at(k, out_height, out_width), second = pixel_at(k + KN_TILE_K / 2, out_height, out_width);
    KN_PIECE left_next[KN_LEFT_PIECES], right_next[KN_RIGHT_PIECES];
    sums sums;
    sums_clear(&sums);
    KN_ADD_SLICES(k_first, k_end, KN_FETCH_SLICE, KN_PUT_SLICE)
    if (parts > 1) partials += (KN_INDEX)part * outputs * columns;
    const int column = column0 + KN_STAGED_COLUMN(KN_RESULT_VECTOR), unit = column / KN_BLOCK;
    const KN_INDEX element =
        (KN_INDEX)(unit / taps * KN_BLOCK + column % KN_BLOCK) * taps + unit % taps;
    KN_STORE_STAGED(KN_RESULT_VECTOR, KN_STORE_ROW)
}
#endif
