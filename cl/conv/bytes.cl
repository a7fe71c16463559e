/* Convolution of plain 8-bit images by 8-bit filters, minus their zero points, for wide-vector devices (CPUs): the exact
 * int32 sums, converted to float32.
 *
 * x is (N,C,H,W'), filter (K,C/groups,R,S), y (N,K,P,Q). Vectors lie along the pixels of y. The images are first copied to
 * lines of pairs: an int has the elements of two channels as 16-bit numbers, minus the zero point, with zeros around the
 * image. CPUs have an instruction that multiplies pairs by pairs and adds both products. Lines are separated by their phases
 * (row % step_y, column % step_x), so that each tap is a vector at a fixed offset from the result:
 *   lines (N,groups,pairs,phases_y,phases_x,rows,pitch), where the lines of a pair take `plane` ints
 * The result at row p and column q is at p * pitch + q; results at columns from Q to `pitch` are computed and dropped, so
 * that narrow rows fill whole vectors.
 *
 * Defines: those of common/vector.cl, and, with their defaults:
 *   KN_T uchar        type of x; char if signed
 *   KN_FILTER_T char  type of the filter; uchar if unsigned
 *   KN_SUMS 512       places of a filter's results in private memory, a multiple of KN_COLUMNS
 *   KN_TAPS 1024      the most taps of a filter
 *
 * Work-groups are (1,1,1).
 * kn_conv_bytes_lines(x, x_zero, lines, present, channels, height, width, pairs, plane, phases_y, phases_x, rows, pitch,
 *                     step_y, step_x, pad_top, pad_left, item_lines)
 *   global size (groups * pairs, ceil(phases_y * rows / item_lines), N). channels: those of a group. x_zero: a scalar, or
 *   absent.
 * kn_conv_bytes_filter(filter, filter_zero, packed, present, channels, outputs, taps, pairs, zero_step)
 *   global size (ceil(outputs / 6), groups): packed (groups,ceil(outputs/6),R*S,pairs,6) ints. outputs: those of a group.
 *   filter_zero: a number for each of the K filters, at distance zero_step, or absent.
 * kn_conv_bytes(lines, filter, y, outputs, out_height, out_width, filter_height, filter_width, pairs, plane, phases_x, rows,
 *               pitch, step_y, step_x, dilation_y, dilation_x, item_rows, item_columns, item_blocks, EPILOGUE)
 *   global size (bands * parts, groups * ceil(blocks / item_blocks), N), for bands of item_rows rows, parts of item_columns
 *   columns, and blocks of 6 filters. If there are several parts, item_rows is 1.
 *   (item_rows - 1) * pitch + item_columns is at most KN_SUMS. Vectors may read KN_COLUMNS ints beyond the lines.
 * kn_conv_bytes_plain(x, filter, y, x_zero, filter_zero, present, elements, SIZES)
 *   a work-item per result; SIZES as in conv/plain.cl. */
#include "common/present.cl"
#include "common/wanted.cl"
#define KN_WHOLE_VECTORS 1
#ifndef KN_T
#define KN_T uchar
#endif
#include "common/pairs.cl"

#ifndef KN_FILTER_T
#define KN_FILTER_T char
#endif
#ifndef KN_SUMS
#define KN_SUMS 512
#endif
#ifndef KN_TAPS
#define KN_TAPS 1024
#endif
#define KN_BLOCK 6

#define KN_TO_INTS KN_CONCAT(convert_int, KN_WIDTH)
#define KN_LOAD KN_CONCAT(vload, KN_WIDTH)

#if KN_WANTED(kn_conv_bytes_lines)
/* Adds the elements x[first + i * step] - less, where x has `width`, to halves of the pairs to[i], `up` by 0 or 16 bits;
 * elements outside of x are 0. The first half also clears the second. */
KN_INLINE void copy_half(global const KN_T *x, int less, int width, int first, int step, int count, int up,
                         global int *to) {
    const int begin = clamp(first < 0 ? (step - 1 - first) / step : 0, 0, count);
    const int end = first < width ? clamp((width - 1 - first) / step + 1, begin, count) : begin;
    int i = 0;
    for (; i < begin && !up; i++)
        to[i] = 0;
    i = begin;
    if (step == 1)
        for (; i + KN_WIDTH <= end; i += KN_WIDTH) {
            const ints value = KN_TO_INTS(KN_LOAD(0, x + first + i)) - less;
            KN_CONCAT(vstore, KN_WIDTH)(up ? KN_LOAD(0, to + i) | value << 16 : value & 0xffff, 0, to + i);
        }
    for (; i < end; i++) {
        const int value = x[first + i * step] - less;
        to[i] = up ? to[i] | value << 16 : value & 0xffff;
    }
    for (; i < count && !up; i++)
        to[i] = 0;
}

KN_WIDE kn_conv_bytes_lines(global const KN_T *restrict x, global const KN_T *restrict x_zero, global int *restrict lines,
                            uint present, int channels, int height, int width, int pairs, KN_INDEX plane, int phases_y,
                            int phases_x, int rows, int pitch, int step_y, int step_x, int pad_top, int pad_left,
                            int item_lines) {
    enum { kn_at_x_zero = 1 };
    const int number = get_global_id(0), group = number / pairs, pair = number - group * pairs;
    const int channel = 2 * pair, less = KN_PRESENT(x_zero) ? x_zero[0] : 0;
    const KN_INDEX image = get_global_id(2), size = (KN_INDEX)height * width;
    const int begin = get_global_id(1) * item_lines, end = min(begin + item_lines, phases_y * rows);
    x += (image * (get_global_size(0) / pairs) * channels + group * channels + channel) * size;
    lines += (image * get_global_size(0) + number) * plane;
    for (int line = begin; line < end; line++) {
        const int phase_y = line / rows, row = (line - phase_y * rows) * step_y + phase_y - pad_top;
        const int inside = (uint)row < (uint)height;
        global const KN_T *from = x + (inside ? (KN_INDEX)row * width : 0);
        for (int phase = 0; phase < phases_x; phase++) {
            global int *to = lines + ((KN_INDEX)(phase_y * phases_x + phase) * rows + line - phase_y * rows) * pitch;
            copy_half(from, less, inside ? width : 0, phase - pad_left, step_x, pitch, 0, to);
            if (channel + 1 < channels)
                copy_half(from + size, less, inside ? width : 0, phase - pad_left, step_x, pitch, 1, to);
        }
    }
}
#endif

#if KN_WANTED(kn_conv_bytes_filter)
KN_WIDE kn_conv_bytes_filter(global const KN_FILTER_T *restrict filter, global const KN_FILTER_T *restrict filter_zero,
                             global int *restrict packed, uint present, int channels, int outputs, int taps, int pairs,
                             int zero_step) {
    enum { kn_at_filter_zero = 1 };
    const int block = get_global_id(0), group = get_global_id(1);
    packed += (group * (KN_INDEX)get_global_size(0) + block) * taps * pairs * KN_BLOCK;
    for (int tap = 0; tap < taps; tap++)
        for (int pair = 0; pair < pairs; pair++)
            for (int row = 0; row < KN_BLOCK; row++) {
                const int output = block * KN_BLOCK + row, place = group * outputs + output;
                int first = 0, second = 0;
                if (output < outputs) {
                    const int less = KN_PRESENT(filter_zero) ? filter_zero[place * zero_step] : 0;
                    global const KN_FILTER_T *from = filter + ((KN_INDEX)place * channels + 2 * pair) * taps + tap;
                    first = from[0] - less;
                    if (2 * pair + 1 < channels) second = from[taps] - less;
                }
                *packed++ = KN_PAIR(first, second);
            }
}
#endif

#if KN_WANTED(kn_conv_bytes)
typedef ints loose_ints __attribute__((aligned(4)));
#define KN_WHOLE(v, from) (*(global const loose_ints *)((from) + (v)*KN_WIDTH))
#define KN_ZERO(row, v) ints sum##row##_##v = 0;
#define KN_START(row) KN_EACH(KN_ZERO, row)
#define KN_PIXELS(row, v) const ints pixels##v = KN_WHOLE(v, from);
#define KN_ADD(row, v) sum##row##_##v += KN_PAIR_PRODUCTS(weight, pixels##v);
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const ints weight = filter[row];                                                                     \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_KEEP_VECTOR(row, v) *(private loose_ints *)(sums + row * KN_SUMS + v * KN_WIDTH) = sum##row##_##v;
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)

/* sums (rows,KN_COLUMNS) with row stride KN_SUMS, of filters (taps,pairs,KN_BLOCK). */
#define KN_TILE(name, each_row)                                                                              \
    KN_NOINLINE void name(global const int *lines, KN_INDEX plane, int pairs, const int *places, int taps,      \
                          global const int *filter, int *sums) {                                             \
        each_row(KN_START);                                                                                  \
        for (int tap = 0; tap < taps; tap++) {                                                               \
            global const int *from = lines + places[tap];                                                    \
            for (int pair = 0; pair < pairs; pair++, from += plane, filter += KN_BLOCK) {                    \
                KN_EACH(KN_PIXELS, 0)                                                                        \
                each_row(KN_STEP)                                                                            \
            }                                                                                                \
        }                                                                                                    \
        each_row(KN_KEEP);                                                                                   \
    }
KN_TILE(tile_6, KN_ROWS_6)
KN_TILE(tile_4, KN_ROWS_4)
KN_TILE(tile_2, KN_ROWS_2)
KN_TILE(tile_1, KN_ROWS_1)

KN_WIDE kn_conv_bytes(global const int *restrict lines, global const int *restrict filter,
                      global KN_RESULT_T *restrict y, int outputs, int out_height, int out_width, int filter_height, int filter_width,
                      int pairs, KN_INDEX plane, int phases_x, int rows, int pitch, int step_y, int step_x,
                      int dilation_y, int dilation_x, int item_rows, int item_columns,
                      int item_blocks KN_EPILOGUE_PARAMETERS) {
    int sums[KN_BLOCK * KN_SUMS], places[KN_TAPS];
    const int blocks = (outputs + KN_BLOCK - 1) / KN_BLOCK, block_items = (blocks + item_blocks - 1) / item_blocks;
    const int groups = get_global_size(1) / block_items, taps = filter_height * filter_width;
    const int group = get_global_id(1) / block_items, first = (get_global_id(1) - group * block_items) * item_blocks;
    const int parts = (out_width + item_columns - 1) / item_columns, number = get_global_id(0), band = number / parts;
    const int row0 = band * item_rows, column0 = (number - band * parts) * item_columns;
    const int band_rows = min(item_rows, out_height - row0), columns = min(item_columns, out_width - column0);
    const int positions = (band_rows - 1) * pitch + columns, results = band_rows * columns;
    const KN_INDEX image = get_global_id(2), pixel = (KN_INDEX)row0 * out_width + column0;
    for (int ky = 0; ky < filter_height; ky++)
        for (int kx = 0; kx < filter_width; kx++) {
            const int row = ky * dilation_y, column = kx * dilation_x;
            const int phase = row % step_y * phases_x + column % step_x;
            places[ky * filter_width + kx] = (phase * rows + row / step_y) * pitch + column / step_x;
        }
    lines += (image * groups + group) * pairs * plane + row0 * pitch + column0;
    for (int block = first; block < min(first + item_blocks, blocks); block++) {
        const int count = min(KN_BLOCK, outputs - block * KN_BLOCK);
        global const int *weights = filter + ((KN_INDEX)group * blocks + block) * taps * pairs * KN_BLOCK;
        for (int at = 0; at < positions; at += KN_COLUMNS) {
            if (count > 4)
                tile_6(lines + at, plane, pairs, places, taps, weights, sums + at);
            else if (count > 2)
                tile_4(lines + at, plane, pairs, places, taps, weights, sums + at);
            else if (count > 1)
                tile_2(lines + at, plane, pairs, places, taps, weights, sums + at);
            else
                tile_1(lines + at, plane, pairs, places, taps, weights, sums + at);
        }
        for (int i = 0; i < count; i++) {
            int *from = sums + i * KN_SUMS;
            const int output = group * outputs + block * KN_BLOCK + i;
            global KN_RESULT_T *to = y + (image * groups * outputs + output) * (KN_INDEX)out_height * out_width + pixel;
            for (int row = 1; row < band_rows && columns < pitch; row++)
                for (int column = 0; column < columns; column++)
                    from[row * columns + column] = from[row * pitch + column];
            int done = 0;
            for (; done + KN_WIDTH <= results; done += KN_WIDTH)
                KN_STORE_RESULTS(KN_EPILOGUE_VECTOR(KN_CONCAT(convert_float, KN_WIDTH)(KN_LOAD(0, from + done)), image,
                                                    output, pixel + done),
                                 to + done);
            for (; done < results; done++)
                to[done] = KN_AS_RESULT(KN_EPILOGUE((float)from[done], image, output, pixel + done));
        }
    }
}
#endif

#if KN_WANTED(kn_conv_bytes_plain)
enum { kn_at_x_zero = 3, kn_at_filter_zero = 4 };
kernel void kn_conv_bytes_plain(global const KN_T *restrict x, global const KN_FILTER_T *restrict filter,
                                global float *restrict y, global const KN_T *restrict x_zero,
                                global const KN_FILTER_T *restrict filter_zero, uint present, KN_INDEX elements,
                                int channels, int height, int width, int outputs, int out_height, int out_width,
                                int filter_height, int filter_width, int stride_y, int stride_x, int pad_top,
                                int pad_left, int dilation_y, int dilation_x, int groups, int zero_step) {
    const KN_INDEX i = get_global_id(0);
    if (i >= elements) return;
    const int column = i % out_width * stride_x - pad_left;
    const int row = i / out_width % out_height * stride_y - pad_top;
    const KN_INDEX place = i / out_width / out_height;
    const int output = place % outputs, group = output / (outputs / groups), own = channels / groups;
    const int less = KN_PRESENT(x_zero) ? x_zero[0] : 0;
    const int filter_less = KN_PRESENT(filter_zero) ? filter_zero[output * zero_step] : 0;
    int sum = 0;
    for (int c = 0; c < own; c++)
        for (int ky = 0; ky < filter_height; ky++)
            for (int kx = 0; kx < filter_width; kx++) {
                const int v = row + ky * dilation_y, u = column + kx * dilation_x;
                if ((uint)v >= (uint)height || (uint)u >= (uint)width) continue;
                const KN_INDEX from = ((place / outputs * channels + group * own + c) * height + v) * width + u;
                const KN_INDEX with = (((KN_INDEX)output * own + c) * filter_height + ky) * filter_width + kx;
                sum += (x[from] - less) * (filter[with] - filter_less);
            }
    y[i] = sum;
}
#endif
