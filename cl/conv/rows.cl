/* Convolution of plain images to plain images with vectors along the pixels of a row, for wide-vector devices (CPUs),
 * float32, forward: for depthwise and grouped convolutions, and for those with few results per pixel, whose channels
 * fill no vector.
 *
 * x is (N,C,H,W'), filter (K,C/groups,R,S), y (N,K,P,Q). A work-item computes a band of rows of y, or a part of one row,
 * for the channels of a group. It copies the lines of x that it reads to private memory, with zeros around them, and
 * separates them by their phases (row % stride_y, column % stride_x), so that each tap is a vector at a fixed offset from
 * the result. In a band, a line has `pitch` elements: the results of a row and those at its end that only the taps of
 * others read. `flat` treats the band as one row of them, which is faster if rows are narrow.
 * A tile is KN_ROWS channels times KN_VECTORS vectors of results. A result is the sum over channels, ky, kx in this order:
 * neither the band nor item_channels changes it.
 *
 * Defines: those of common/pixel_tile.cl (here, rows are channels of y), and, with their defaults:
 *   KN_LINES 12288   floats of the lines in private memory
 *   KN_SUMS 8192     floats of sums in private memory
 *   KN_TAPS 1024     the most taps of a filter
 *
 * kn_conv_rows(x, filter, y, SIZES, item_rows, item_columns, item_channels, flat, EPILOGUE)
 *   SIZES: channels, height, width, outputs, out_height, out_width, filter_height, filter_width, stride_y, stride_x,
 *   pad_top, pad_left, dilation_y, dilation_x, groups.
 *   Work-groups (1,1,1), global size (bands * parts, groups, images): bands of item_rows rows, parts of item_columns columns.
 *   If a row has several parts, item_rows is 1. item_channels: how many channels of a group are copied at once; all of them
 *   unless their lines exceed KN_LINES.
 *   The lines of a channel are min(stride_y, reach_y + 1) * min(stride_x, reach_x + 1) * (item_rows + reach_y / stride_y) *
 *   (item_columns + reach_x / stride_x) floats, with reach = (filter - 1) * dilation; with item_channels of them, KN_WIDTH
 *   more are at most KN_LINES. KN_ROWS times the results of a band, in lines of `pitch` if it is flat, otherwise of
 *   whole vectors, are at most KN_SUMS, with KN_WIDTH more for each row of the tile.
 * y must not alias an input or operand. */
#define KN_WHOLE_VECTORS 1
#include "common/pixel_tile.cl"

#ifndef KN_LINES
#define KN_LINES 12288
#endif
#ifndef KN_SUMS
#define KN_SUMS 8192
#endif
#ifndef KN_TAPS
#define KN_TAPS 1024
#endif

/* The filter of each row of the tile; rows beyond `count` repeat the last. */
#define KN_FILTER(row) global const float *filter##row = filter + (KN_INDEX)min(row, count - 1) * filter_floats;
#define KN_NEXT(row) filter##row += taps;
#define KN_ADD(row, v) sum##row##_##v += value##v * weight;
#define KN_VALUE(row, v) const vector value##v = load(v, from);
#define KN_TAP(row)                                                                                          \
    {                                                                                                        \
        const float weight = filter##row[tap];                                                               \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_RESUME_VECTOR(row, v) vector sum##row##_##v = first ? (vector)(0.0f) : load(v, sums + row * sums_row);
#define KN_RESUME(row) KN_EACH(KN_RESUME_VECTOR, row)
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, v, sums + row * sums_row);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)
#define KN_TILE                                                                                              \
    KN_EACH_ROW(KN_FILTER)                                                                                   \
    KN_EACH_ROW(KN_RESUME)                                                                                   \
    for (int channel = 0; channel < channels; channel++, lines += lines_channel) {                           \
        for (int tap = 0; tap < taps; tap++) {                                                               \
            const float *from = lines + places[tap];                                                         \
            KN_EACH(KN_VALUE, 0)                                                                             \
            KN_EACH_ROW(KN_TAP)                                                                              \
        }                                                                                                    \
        KN_EACH_ROW(KN_NEXT)                                                                                 \
    }                                                                                                        \
    KN_EACH_ROW(KN_KEEP)

/* Adds `channels` channels to sums (KN_ROWS, sums_row) of KN_COLUMNS adjacent results; `first`: starts with zero. */
KN_NOINLINE void add_tile(const float *lines, int lines_channel, int channels, const int *places, int taps,
                       global const float *filter, KN_INDEX filter_floats, int count, float *sums, int sums_row,
                       int first) {
    KN_TILE
}

/* The same for one vector. */
#undef KN_EACH
#define KN_EACH(X, row) KN_VECTORS_1(X, row)
KN_NOINLINE void add_vector(const float *lines, int lines_channel, int channels, const int *places, int taps,
                         global const float *filter, KN_INDEX filter_floats, int count, float *sums, int sums_row,
                         int first) {
    KN_TILE
}

/* Copies every step-th element of a line from column `column`, with zeros outside of [0, width). */
KN_INLINE void copy_line(global const float *x, int width, int column, int step, int count, float *to) {
    const int begin = min(count, column < 0 ? (step - 1 - column) / step : 0);
    const int end = column < width ? max(begin, min(count, (width - 1 - column) / step + 1)) : begin;
    int i = 0;
    for (; i < begin; i++)
        to[i] = 0.0f;
    if (step == 1) {
        for (; i + KN_WIDTH <= end; i += KN_WIDTH)
            store(load(0, x + column + i), 0, to + i);
        for (; i < end; i++)
            to[i] = x[column + i];
    } else {
        for (; i < end; i++)
            to[i] = x[column + i * step];
    }
    for (; i < count; i++)
        to[i] = 0.0f;
}

KN_WIDE kn_conv_rows(global const float *restrict x, global const float *restrict filter, global float *restrict y,
                     int channels, int height, int width, int outputs, int out_height, int out_width,
                     int filter_height, int filter_width, int stride_y, int stride_x, int pad_top, int pad_left,
                     int dilation_y, int dilation_x, int groups, int item_rows, int item_columns, int item_channels,
                     int flat KN_EPILOGUE_PARAMETERS) {
    float lines[KN_LINES], sums[KN_SUMS];
    int places[KN_TAPS];
    const int parts = (out_width + item_columns - 1) / item_columns, group = get_global_id(1);
    const int row0 = get_global_id(0) / parts * item_rows, rows = min(item_rows, out_height - row0);
    const int column0 = get_global_id(0) % parts * item_columns, columns = min(item_columns, out_width - column0);
    const KN_INDEX image = get_global_id(2), plane = (KN_INDEX)out_height * out_width;
    const int group_channels = channels / groups, group_outputs = outputs / groups, taps = filter_height * filter_width;
    const int reach_y = (filter_height - 1) * dilation_y, reach_x = (filter_width - 1) * dilation_x;
    const int phases_y = min(stride_y, reach_y + 1), phases_x = min(stride_x, reach_x + 1);
    const int phase_lines = rows + reach_y / stride_y, pitch = columns + reach_x / stride_x;
    const int phase = phase_lines * pitch, lines_channel = phases_y * phases_x * phase;
    /* Runs of adjacent results: one for all rows, or one for each. */
    const int runs = flat ? 1 : rows, run = flat ? (rows - 1) * pitch + columns : columns;
    const int run_sums = (run + KN_WIDTH - 1) / KN_WIDTH * KN_WIDTH, sums_row = runs * run_sums;
    const int filled = flat ? pitch : run_sums;
    const KN_INDEX filter_floats = (KN_INDEX)group_channels * taps;
    for (int tap = 0; tap < taps; tap++) {
        const int down = tap / filter_width * dilation_y, right = tap % filter_width * dilation_x;
        places[tap] = (down % stride_y * phases_x + right % stride_x) * phase + down / stride_y * pitch +
                      right / stride_x;
    }
    x += (image * channels + group * group_channels) * (KN_INDEX)height * width;
    y += (image * outputs + group * group_outputs) * plane;
    filter += group * group_outputs * filter_floats;
    /* The last vectors of a run may read beyond the lines of the last channel. */
    for (int i = 0; i < KN_WIDTH; i++)
        lines[item_channels * lines_channel + i] = 0.0f;

    for (int output = 0; output < group_outputs; output += KN_ROWS) {
        const int count = min(KN_ROWS, group_outputs - output);
        for (int first = 0; first < group_channels; first += item_channels) {
            const int copied = min(item_channels, group_channels - first);
            /* Lines of all channels are copied once for all results. */
            for (int channel = 0; channel < copied && (output == 0 || item_channels < group_channels); channel++) {
                global const float *source = x + (KN_INDEX)(first + channel) * height * width;
                for (int down = 0; down < phases_y; down++)
                    for (int right = 0; right < phases_x; right++)
                        for (int line = 0; line < phase_lines; line++) {
                            const int row = (row0 + line) * stride_y + down - pad_top;
                            const int inside = (uint)row < (uint)height;
                            copy_line(source + (inside ? (KN_INDEX)row * width : 0), inside ? width : 0,
                                      column0 * stride_x + right - pad_left, stride_x, pitch,
                                      lines + channel * lines_channel + (down * phases_x + right) * phase +
                                          line * pitch);
                        }
            }
            global const float *weights = filter + output * filter_floats + (KN_INDEX)first * taps;
            for (int i = 0; i < runs; i++) {
                const float *from = lines + i * pitch;
                float *to = sums + i * run_sums;
                int at = 0;
                for (; at + KN_COLUMNS <= run_sums; at += KN_COLUMNS)
                    add_tile(from + at, lines_channel, copied, places, taps, weights, filter_floats, count, to + at,
                             sums_row, first == 0);
                for (; at < run_sums; at += KN_WIDTH)
                    add_vector(from + at, lines_channel, copied, places, taps, weights, filter_floats, count, to + at,
                               sums_row, first == 0);
            }
        }
        for (int i = 0; i < count; i++) {
            float *from = sums + i * sums_row;
            const KN_INDEX channel = group * group_outputs + output + i;
            const KN_INDEX pixel = (KN_INDEX)row0 * out_width + column0;
            global float *to = y + (output + i) * plane + pixel;
            /* Results of several rows are adjacent in y. */
            for (int row = 1; row < rows && columns < filled; row++)
                for (int column = 0; column < columns; column++)
                    from[row * columns + column] = from[row * filled + column];
            const int results = rows * columns;
            int at = 0;
            for (; at + KN_WIDTH <= results; at += KN_WIDTH)
                store(KN_EPILOGUE_VECTOR(load(0, from + at), image, channel, pixel + at), 0, to + at);
            for (; at < results; at++)
                to[at] = KN_EPILOGUE(from[at], image, channel, pixel + at);
        }
    }
}
