/* Convolution of plain images to plain images with vectors along the pixels of a row, for wide-vector devices (CPUs),
 * float32, forward: for depthwise and grouped convolutions, and for those with few results per pixel, whose channels
 * fill no vector.
 *
 * x is (N,C,H,W'), filter (K,C/groups,R,S), y (N,K,P,Q). A work-item computes a band of rows of y, or a part of one row,
 * for some groups of channels. It copies the lines of x that it reads to private memory, with zeros around them, and
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
 * kn_conv_rows(x, filter, y, SIZES, item_rows, item_columns, item_channels, item_groups, flat, EPILOGUE)
 *   SIZES: channels, height, width, outputs, out_height, out_width, filter_height, filter_width, stride_y, stride_x,
 *   pad_top, pad_left, dilation_y, dilation_x, groups.
 *   Work-groups (1,1,1), global size (bands * parts, ceil(groups / item_groups), images): bands of item_rows rows, parts of
 *   item_columns columns.
 *   If a row has several parts, item_rows is 1. item_channels: how many channels of a group are copied at once; all of them
 *   unless their lines exceed KN_LINES.
 *   The lines of a channel are min(stride_y, reach_y + 1) * min(stride_x, reach_x + 1) * (item_rows + reach_y / stride_y) *
 *   (item_columns + reach_x / stride_x) floats, with reach = (filter - 1) * dilation; with item_channels of them, KN_WIDTH
 *   more are at most KN_LINES. KN_ROWS times the results of a band, in lines of `pitch` if it is flat, otherwise of
 *   whole vectors, are at most KN_SUMS, with KN_WIDTH more for each row of the tile.
 * y must not alias an input or operand. */
#define KN_WHOLE_VECTORS 1
#include "common/pixel_tile.cl"
/* Tiles of few rows have more vectors than those of other kernels. */
#define KN_VECTORS_6(X, row) KN_VECTORS_4(X, row) X(row, 4) X(row, 5)
#define KN_VECTORS_8(X, row) KN_VECTORS_6(X, row) X(row, 6) X(row, 7)

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

/* Copies every step-th element of a line from column `column`, with zeros outside of [0, width). Division is slow. */
KN_INLINE void copy_line(global const float *x, int width, int column, int step, int count, float *to) {
    const int before = step == 1 ? -column : (step - 1 - column) / step,
              inside = step == 1 ? width - column : (width - 1 - column) / step + 1;
    const int begin = min(count, column < 0 ? before : 0);
    const int end = column < width ? max(begin, min(count, inside)) : begin;
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

/* The offset of each tap in the lines of a channel. A position p of a line is element p / stride of phase p % stride, which
 * is counted without dividing. */
KN_INLINE void find_places(int *places, int filter_height, int filter_width, int dilation_y, int dilation_x, int stride_y,
                           int stride_x, int phases_x, int phase, int pitch) {
    const int far_y = dilation_y / stride_y, rest_y = dilation_y - far_y * stride_y;
    const int far_x = dilation_x / stride_x, rest_x = dilation_x - far_x * stride_x;
    for (int ky = 0, phase_y = 0, line = 0; ky < filter_height; ky++) {
        for (int kx = 0, phase_x = 0, column = 0; kx < filter_width; kx++) {
            *places++ = (phase_y * phases_x + phase_x) * phase + line * pitch + column;
            column += far_x;
            phase_x += rest_x;
            if (phase_x >= stride_x) phase_x -= stride_x, column++;
        }
        line += far_y;
        phase_y += rest_y;
        if (phase_y >= stride_y) phase_y -= stride_y, line++;
    }
}

/* The layout of lines and sums. */
typedef struct band {
    int rows, columns, phases_y, phases_x, phase_lines, pitch, phase, row, column;
} band;

/* Copies the lines of a channel. */
KN_INLINE void copy_lines(global const float *x, const band *at, int height, int width, int stride_y, int stride_x,
                          float *to) {
    for (int down = 0; down < at->phases_y; down++)
        for (int right = 0; right < at->phases_x; right++)
            for (int line = 0; line < at->phase_lines; line++, to += at->pitch) {
                const int row = at->row + line * stride_y + down, inside = (uint)row < (uint)height;
                copy_line(x + (inside ? (KN_INDEX)row * width : 0), inside ? width : 0, at->column + right, stride_x,
                          at->pitch, to);
            }
}

KN_WIDE kn_conv_rows(global const float *restrict x, global const float *restrict filter, global float *restrict y,
                     int channels, int height, int width, int outputs, int out_height, int out_width,
                     int filter_height, int filter_width, int stride_y, int stride_x, int pad_top, int pad_left,
                     int dilation_y, int dilation_x, int groups, int item_rows, int item_columns, int item_channels,
                     int item_groups, int flat KN_EPILOGUE_PARAMETERS) {
    float lines[KN_LINES], sums[KN_SUMS];
    int places[KN_TAPS];
    band at;
    const int parts = (out_width + item_columns - 1) / item_columns;
    const int number = get_global_id(0), band_number = number / parts;
    const int row0 = band_number * item_rows, column0 = (number - band_number * parts) * item_columns;
    const int group0 = get_global_id(1) * item_groups, group_end = min(group0 + item_groups, groups);
    const KN_INDEX image = get_global_id(2), plane = (KN_INDEX)out_height * out_width;
    const int group_channels = channels / groups, group_outputs = outputs / groups, taps = filter_height * filter_width;
    const int reach_y = (filter_height - 1) * dilation_y, reach_x = (filter_width - 1) * dilation_x;
    const int rows = min(item_rows, out_height - row0), columns = min(item_columns, out_width - column0);
    at.phases_y = min(stride_y, reach_y + 1);
    at.phases_x = min(stride_x, reach_x + 1);
    at.phase_lines = rows + reach_y / stride_y;
    at.pitch = columns + reach_x / stride_x;
    at.phase = at.phase_lines * at.pitch;
    at.row = row0 * stride_y - pad_top;
    at.column = column0 * stride_x - pad_left;
    const int lines_channel = at.phases_y * at.phases_x * at.phase;
    /* Runs of adjacent results: one for all rows, or one for each. */
    const int runs = flat ? 1 : rows, run = flat ? (rows - 1) * at.pitch + columns : columns;
    const int run_sums = (run + KN_WIDTH - 1) / KN_WIDTH * KN_WIDTH, sums_row = runs * run_sums;
    const int filled = flat ? at.pitch : run_sums;
    const KN_INDEX filter_floats = (KN_INDEX)group_channels * taps, pixel = (KN_INDEX)row0 * out_width + column0;
    find_places(places, filter_height, filter_width, dilation_y, dilation_x, stride_y, stride_x, at.phases_x, at.phase,
                at.pitch);
    /* The last vectors of a run may read beyond the lines of the last channel. */
    for (int i = 0; i < KN_WIDTH; i++)
        lines[item_channels * lines_channel + i] = 0.0f;

    for (int group = group0; group < group_end; group++) {
        global const float *source = x + (image * channels + group * group_channels) * (KN_INDEX)height * width;
        for (int output = 0; output < group_outputs; output += KN_ROWS) {
            const int count = min(KN_ROWS, group_outputs - output), y_channel = group * group_outputs + output;
            for (int first = 0; first < group_channels; first += item_channels) {
                const int copied = min(item_channels, group_channels - first);
                /* Lines of all channels are copied once for all results. */
                for (int channel = 0; channel < copied && (output == 0 || item_channels < group_channels); channel++)
                    copy_lines(source + (KN_INDEX)(first + channel) * height * width, &at, height, width, stride_y,
                               stride_x, lines + channel * lines_channel);
                global const float *weights = filter + y_channel * filter_floats + (KN_INDEX)first * taps;
                for (int i = 0; i < runs; i++) {
                    const float *from = lines + i * at.pitch;
                    float *to = sums + i * run_sums;
                    int begin = 0;
                    for (; begin + KN_COLUMNS <= run_sums; begin += KN_COLUMNS)
                        add_tile(from + begin, lines_channel, copied, places, taps, weights, filter_floats, count,
                                 to + begin, sums_row, first == 0);
                    for (; begin < run_sums; begin += KN_WIDTH)
                        add_vector(from + begin, lines_channel, copied, places, taps, weights, filter_floats, count,
                                   to + begin, sums_row, first == 0);
                }
            }
            for (int i = 0; i < count; i++) {
                float *from = sums + i * sums_row;
                const KN_INDEX channel = y_channel + i;
                global float *to = y + (image * outputs + channel) * plane + pixel;
                /* Results of several rows are adjacent in y. */
                for (int row = 1; row < rows && columns < filled; row++)
                    for (int column = 0; column < columns; column++)
                        from[row * columns + column] = from[row * filled + column];
                const int results = rows * columns;
                int done = 0;
                for (; done + KN_WIDTH <= results; done += KN_WIDTH)
                    store(KN_EPILOGUE_VECTOR(load(0, from + done), image, channel, pixel + done), 0, to + done);
                for (; done < results; done++)
                    to[done] = KN_EPILOGUE(from[done], image, channel, pixel + done);
            }
        }
    }
}
