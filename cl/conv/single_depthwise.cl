/* A 1x1 convolution and the depthwise one of its result, for wide-vector devices (CPUs), float32: the rows in between,
 * often six times as many channels as there are around, stay in a work-item's own memory, next to the processor.
 *
 * x is (N, C/W, H, W', W), blocked by W = KN_WIDTH channels, the first filter packed (conv/wide.cl), (1,1) with one pixel
 * a step; weight, of the second, is plain, (K,1,R,S), without dilation; y is (N, K/W, P, Q, W). C and K are multiples
 * of W. Sums have the order of conv/wide_single.cl and conv/depthwise_wide.cl, whatever item_rows is, and for finite
 * weights their bits.
 *
 * A work-item has some channels of an image, and a band of its rows. It makes rows of the first result as they are
 * needed, a tile of pixels after the other, over the ends of rows, and keeps as many as the second filter looks at, and
 * what a tile is ahead of them, in a ring of rows; around each row of it are zeros.
 *
 * Defines: those of common/pixel_tile.cl; KN_TAPS 64, the most taps of a filter; KN_RING 16384, floats
 * of the ring; KN_BEFORE_VECTOR and KN_BEFORE_PARAMETERS, pointwise work on the first result.
 *
 * kn_single_depthwise(x, filter, weight, y, x_channels, y_channels, x_height, x_width, y_height, y_width,
 *                     filter_height, filter_width, stride_y, stride_x, pad_y, pad_x, ring_rows, ring_width, item_rows,
 *                     stream, BEFORE, EPILOGUE)
 *   Work-groups (1,1,1), global size (ceil(y_height / item_rows), panels, images), panels = ceil(K / KN_COLUMNS).
 *   ring_rows: filter_height + ceil((KN_ROWS - 1) / x_width). ring_width: pixels, at least pad_x + x_width and
 *   stride_x * (max(8, y_width) - 1) + filter_width; KN_COLUMNS * ring_rows * ring_width is at most KN_RING, and
 *   x_height * x_width at least KN_ROWS.
 *   stream: 1 where y is too large for caches.
 * y shares memory with no input or operand. */
#define KN_WHOLE_VECTORS 1
#include "common/stream.cl"
#include "common/vector.cl"
#include "conv/beside.cl"

#ifndef KN_TAPS
#define KN_TAPS 64
#endif
#ifndef KN_RING
#define KN_RING 16384
#endif
#ifndef KN_BEFORE_PARAMETERS
#define KN_BEFORE_PARAMETERS
#endif
#ifndef KN_BEFORE_VECTOR
#define KN_BEFORE_VECTOR(v, outer, middle, inner) (v)
#endif

#define KN_PIXELS 8
#define KN_EACH_PIXEL(X) KN_ROWS_8(X)
#define KN_BEGIN(i) vector pixel##i = 0.0f;
#define KN_TAP(i) pixel##i += load(0, from + i * move) * right;
#define KN_KEEP_PIXEL(i) store(pixel##i, i, pixels);
#define KN_PUT(i)                                                                                            \
    {                                                                                                        \
        const int place = row * y_width + begin + i;                                                         \
        const vector result =                                                                                \
            KN_EPILOGUE_VECTOR(load(i, pixels), image, (KN_INDEX)channel, (KN_INDEX)place);                  \
        if (streams)                                                                                         \
            KN_STREAM(result, (global vector *)to + place, store(result, place, to));                        \
        else                                                                                                 \
            store(result, place, to);                                                                        \
    }
#define KN_PUT_FOUND(i)                                                                                      \
    if (i < y_width) KN_PUT(i)

/* What the first convolution made of pixel `row` of a tile, with its pointwise work. */
#define KN_MADE(row)                                                                                         \
    KN_BEFORE_VECTOR(load(row *KN_VECTORS + v, sums), image, (KN_INDEX)(block0 + v) * KN_WIDTH,              \
                     (KN_INDEX)begin + row)
#define KN_PUT_MADE(row) store(KN_MADE(row), row, to);

/* pixels (8,W): the taps of rows [0, rows) of a filter over rows of the ring, from `slot` on; `move` from pixel to
 * pixel. */
KN_INLINE void add_taps(const float *ring, const float *weights, float *pixels, int rows, int slot, int ring_rows,
                        int row_floats, int filter_width, int move) {
    KN_EACH_PIXEL(KN_BEGIN)
    for (int i = 0; i < rows; i++) {
        const float *from = ring + slot * row_floats;
        for (int j = 0; j < filter_width; j++, from += KN_WIDTH, weights += KN_WIDTH) {
            const vector right = load(0, weights);
            KN_EACH_PIXEL(KN_TAP)
        }
        if (++slot == ring_rows) slot = 0;
    }
    KN_EACH_PIXEL(KN_KEEP_PIXEL)
}

KN_WIDE kn_single_depthwise(global const float *restrict x, global const float *restrict filter,
                            global const float *restrict weight, global float *restrict y, int x_channels,
                            int y_channels, int x_height, int x_width, int y_height, int y_width,
                            int filter_height, int filter_width, int stride_y, int stride_x, int pad_y, int pad_x,
                            int ring_rows, int ring_width, int item_rows,
                            int stream KN_BEFORE_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    float ring[KN_RING], weights[KN_TAPS * KN_COLUMNS], sums[KN_ROWS * KN_COLUMNS],
        pixels[KN_PIXELS * KN_WIDTH];
    const int block0 = get_global_id(1) * KN_VECTORS, blocks = y_channels / KN_WIDTH;
    const int vectors = min(KN_VECTORS, blocks - block0), taps = filter_height * filter_width;
    const int plane = x_height * x_width, ring_floats = ring_rows * ring_width * KN_WIDTH, move = stride_x * KN_WIDTH;
    const int row0 = get_global_id(0) * item_rows, row_end = min(row0 + item_rows, y_height);
    const KN_INDEX image = get_global_id(2), y_plane = (KN_INDEX)y_height * y_width * KN_WIDTH;
    const int streams = KN_STREAMS(stream, y, vector);
    filter += (KN_INDEX)get_global_id(1) * x_channels * KN_COLUMNS;
    weight += (KN_INDEX)block0 * KN_WIDTH * taps;
    x += image * x_channels * plane;
    y += (image * blocks + block0) * y_plane;
    for (int v = 0; v < vectors; v++)
        for (int tap = 0; tap < taps; tap++)
            for (int lane = 0; lane < KN_WIDTH; lane++)
                weights[(v * taps + tap) * KN_WIDTH + lane] = weight[(v * KN_WIDTH + lane) * taps + tap];
    for (int i = 0; i < vectors * ring_rows * ring_width; i++)
        store((vector)(0.0f), i, ring);

    /* The first pixel that is not yet in the ring, and where it will be. */
    int made_row = max(row0 * stride_y - pad_y, 0), made = made_row * x_width;
    int made_slot = made_row % ring_rows, made_column = 0;
    for (int row = row0; row < row_end; row++) {
        const int top = row * stride_y - pad_y, first = max(top, 0), last = min(top + filter_height, x_height);
        while (made < last * x_width) {
            /* The last tile may do again what the one before has done. */
            const int begin = min(made, plane - KN_ROWS);
            if (begin < made) made_slot = begin / x_width % ring_rows, made_column = begin % x_width;
            add_blocks(x + (KN_INDEX)begin * KN_WIDTH, filter, sums, x_channels, (KN_INDEX)plane * KN_WIDTH);
            int slot = made_slot, column = made_column;
            for (int v = 0; v < vectors; v++) {
                float *to = ring + v * ring_floats + (made_slot * ring_width + pad_x + made_column) * KN_WIDTH;
                slot = made_slot, column = made_column + KN_ROWS;
                if (column <= x_width) {
                    KN_EACH_ROW(KN_PUT_MADE)
                    continue;
                }
                column = made_column;
                for (int r = 0; r < KN_ROWS; r++) {
                    store(KN_MADE(r), 0, to);
                    to += KN_WIDTH;
                    if (++column < x_width) continue;
                    column = 0;
                    if (++slot == ring_rows) slot = 0;
                    to = ring + v * ring_floats + (slot * ring_width + pad_x) * KN_WIDTH;
                }
            }
            made = begin + KN_ROWS;
            made_slot = slot, made_column = column;
            if (made_column == x_width) {
                made_column = 0;
                if (++made_slot == ring_rows) made_slot = 0;
            }
        }
        const int slot = first % ring_rows, rows = last - first, row_floats = ring_width * KN_WIDTH;
        for (int v = 0; v < vectors; v++) {
            const int channel = (block0 + v) * KN_WIDTH;
            global float *to = y + v * y_plane;
            /* Groups of eight, the last of which may do again what the one before has done. */
            for (int begin = 0; begin < y_width; begin += KN_PIXELS) {
                if (begin + KN_PIXELS > y_width) begin = max(y_width - KN_PIXELS, 0);
                const float *from = ring + v * ring_floats + begin * move;
                const float *rights = weights + (v * taps + (first - top) * filter_width) * KN_WIDTH;
                /* The filters that networks have, with numbers that a compiler knows. */
                if (filter_width == 3 && stride_x == 1)
                    add_taps(from, rights, pixels, rows, slot, ring_rows, row_floats, 3, KN_WIDTH);
                else if (filter_width == 3 && stride_x == 2)
                    add_taps(from, rights, pixels, rows, slot, ring_rows, row_floats, 3, 2 * KN_WIDTH);
                else
                    add_taps(from, rights, pixels, rows, slot, ring_rows, row_floats, filter_width, move);
                if (y_width >= KN_PIXELS) {
                    KN_EACH_PIXEL(KN_PUT)
                } else {
                    KN_EACH_PIXEL(KN_PUT_FOUND)
                }
            }
        }
    }
}
