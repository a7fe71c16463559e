/* Convolution of plain images with few channels, as a network's first layer reads them, for wide-vector devices (CPUs),
 * float32, forward.
 *
 * x is (N,C,H,W'), y is (N,K/W,P,Q,W), blocked by W = KN_WIDTH channels, filters are packed as for conv/wide.cl, sources
 * one by one: [panel][C][R][KN_SIDE][KN_COLUMNS]; K is a multiple of W, there is one group and no dilation. For a row of y a work-item copies
 * the lines of x that it looks at to its own memory, with zeros around, so that no tile has to ask what is inside the
 * image, and all of its addresses are one. A tile is KN_ROWS pixels side by side. Sums have the order of conv/wide.cl:
 * channels, lines, columns.
 *
 * Defines: those of common/pixel_tile.cl, and, with their defaults:
 *   KN_SIDE 3        columns of a filter
 *   KN_STRIDE 1      pixels of x from one of y to the next in a row
 *   KN_PANELS 1      panels of the filter
 *   KN_LINES 16384   floats of the lines that a work-item keeps
 *
 * kn_conv_first(x, filter, y, x_channels, y_channels, x_height, x_width, y_height, y_width, filter_height, stride_y, pad_y,
 *               pad_x, line, item_rows, STATISTICS, EPILOGUE)
 *   Work-groups (1,1,1), global size (ceil(y_height / item_rows), images).
 *   line: floats of a line, at least KN_STRIDE * (y_width rounded up to KN_ROWS, less one) + KN_SIDE;
 *   x_channels * filter_height * line is at most KN_LINES.
 *   STATISTICS: where wanted, of y with its epilogue, of parts of `part` rows of an image; item_rows is one or more of
 *   them. EPILOGUE: its operands; the epilogue sees (image, channel, pixel), with the first of W channels of y.
 * y shares memory with no input or operand. */
#define KN_WHOLE_VECTORS 1
#include "common/pixel_tile.cl"
#include "common/parts.cl"
#include "common/statistics.cl"

#ifndef KN_SIDE
#define KN_SIDE 3
#endif
#ifndef KN_STRIDE
#define KN_STRIDE 1
#endif
#ifndef KN_PANELS
#define KN_PANELS 1
#endif
#ifndef KN_LINES
#define KN_LINES 16384
#endif

#define KN_RIGHT(row, v) const vector right##v = load(v, filter);
#define KN_ADD(row, v) sum##row##_##v += value * right##v;
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const vector value = lines[row * KN_STRIDE + column];                                                \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, row *KN_VECTORS + v, sums);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)
#define KN_FINISH(row)                                                                                       \
    {                                                                                                        \
        const vector value = KN_EPILOGUE_VECTOR(load(row *KN_VECTORS, from), (KN_INDEX)image,                \
                                                (KN_INDEX)channel, (KN_INDEX)pixel + row);                   \
        KN_GATHER(value, row == 0 && column == 0)                                                            \
        store(value, pixel + row, to);                                                                       \
    }

/* sums (KN_ROWS,KN_COLUMNS) of pixels side by side: `count` lines, of which the first pixel looks at KN_SIDE numbers from
 * `lines` on, times a panel. */
KN_APART void add_lines(const float *lines, int count, int line, global const float *filter, float *sums) {
    KN_EACH_ROW(KN_START)
    for (int i = 0; i < count; i++, lines += line) {
#pragma unroll
        for (int column = 0; column < KN_SIDE; column++, filter += KN_COLUMNS) {
            KN_EACH(KN_RIGHT, 0)
            KN_EACH_ROW(KN_STEP)
        }
    }
    KN_EACH_ROW(KN_KEEP)
}

/* `count` numbers of a line of x, or zeros where x is NULL. */
KN_INLINE void copy_line(global const float *x, float *to, int count) {
    int i = 0;
    for (; i + KN_WIDTH <= count; i += KN_WIDTH)
        store(x ? load(0, x + i) : (vector)(0.0f), 0, to + i);
    for (; i < count; i++)
        to[i] = x ? x[i] : 0.0f;
}

KN_WIDE kn_conv_first(global const float *restrict x, global const float *restrict filter, global float *restrict y,
                      int x_channels, int y_channels, int x_height, int x_width, int y_height, int y_width,
                      int filter_height, int stride_y, int pad_y, int pad_x, int line,
                      int item_rows KN_STATISTICS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    KN_GATHERED(KN_PANELS * KN_VECTORS)
    float lines[KN_LINES], sums[KN_ROWS * KN_COLUMNS];
    const KN_INDEX image = get_global_id(1), x_plane = (KN_INDEX)x_height * x_width,
                   y_plane = (KN_INDEX)y_height * y_width * KN_WIDTH;
    const int row0 = get_global_id(0) * item_rows, row_end = min(row0 + item_rows, y_height);
    const int blocks = y_channels / KN_WIDTH, count = x_channels * filter_height;
    const int inside = min(x_width, line - pad_x);
    x += image * x_channels * x_plane;
    y += image * blocks * y_plane;
    for (int i = 0; i < count * line; i++)
        lines[i] = 0.0f;

    for (int row = row0; row < row_end; row++) {
        for (int i = 0; i < count; i++) {
            const int from = row * stride_y - pad_y + i % filter_height;
            copy_line((uint)from < (uint)x_height ? x + i / filter_height * x_plane + (KN_INDEX)from * x_width : 0,
                      lines + i * line + pad_x, inside);
        }
        KN_GATHER_AT(row)
        for (int panel = 0; panel < KN_PANELS; panel++) {
            const int vectors = min(KN_VECTORS, blocks - panel * KN_VECTORS);
            for (int column = 0; column < y_width; column += KN_ROWS) {
                add_lines(lines + column * KN_STRIDE, count, line, filter + panel * count * KN_SIDE * KN_COLUMNS, sums);
                for (int v = 0; v < vectors; v++) {
                    const int block = panel * KN_VECTORS + v, channel = block * KN_WIDTH;
                    const KN_INDEX pixel = (KN_INDEX)row * y_width + column;
                    const float *from = sums + v * KN_WIDTH;
                    global float *to = y + block * y_plane;
                    KN_GATHER_FROM(block)
                    if (column + KN_ROWS <= y_width) {
                        KN_EACH_ROW(KN_FINISH)
                    } else {
                        for (int r = 0; r < y_width - column; r++)
                            KN_FINISH(r)
                    }
                    KN_GATHER_TO(block)
                }
            }
        }
#if KN_STATISTICS
        if ((row + 1) % part != 0 && row + 1 < y_height) continue;
        const int rows = row % part + 1, number = image * ((y_height + part - 1) / part) + row / part;
        for (int block = 0; block < blocks; block++)
            KN_GATHER_END(block, rows * y_width, number, block, blocks)
#endif
    }
}
