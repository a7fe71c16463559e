/* Grouped convolution for wide-vector devices (CPUs), float32: forward, the gradient of x, and that of the filter, for
 * groups whose channels fill no vectors.
 *
 * Values are blocked by the vector width W = KN_WIDTH: x is (N, C/W, H, W', W) and y is (N, K/W, P, Q, W), with channels
 * padded by zeros to a multiple of W. A vector of results has channels of several groups, and the lanes of a group need
 * the same `sources` channels of x. A work-item copies the lines of x that it reads to private memory, with zeros beside
 * them, once for each of the sources: copy i of a pixel has, in each lane, channel i of the lane's group. Then every
 * lane multiplies its own source by its own weight, as in a depthwise convolution with `sources` times as many taps. A
 * line of private memory is (sources, pitch, W); the lines are a ring: row r of x is in line r % ring_lines.
 *
 * A result is the sum over ky, sources, kx, in this order: item_rows, item_columns and item_images do not affect
 * results. An element of dw is the sum over the pixels of a part, band by band; part_rows, band_rows and item_columns
 * affect its rounding, so the host derives them from the shape only.
 *
 * Defines: those of common/vector.cl, and, with their defaults:
 *   KN_GROUP 0      the channels of a group of both sides, if they are 1 or a power of two below W: copies are
 *                   permutations of a vector. 0: any numbers
 *   KN_MOVE 1       distance in x between adjacent results: stride_x, but 1 for the gradient of x
 *   KN_PIXELS 8     adjacent results of a tile: 4, 7, 8, 10, 12 or 14
 *   KN_DEEP 4, KN_VECTORS   of kn_grouped_weights: sources times columns of the filter in a tile. KN_DEEP is 1, 2, 3, 4,
 *                   6, 8 or 12, and neither exceeds what there is
 *   KN_LINES 16384  floats of private memory
 *   KN_TAPS 256     the most rows, and columns, of a filter
 *
 * SIZES: images, x_channels, y_channels, x_height, x_width, y_height, y_width, filter_height, filter_width, stride_y,
 * stride_x, pad_top, pad_left, dilation_y, dilation_x, groups. Work-groups are (1,1,1).
 *
 * kn_grouped_filter(plain, packed, targets, sources, filter_height, filter_width, channels, plain_target, plain_source)
 *   packs a filter (K,C/groups,R,S): packed is (blocks of targets, ky, sources, kx, W), zero beyond `channels`, which are
 *   those of all groups; targets and sources are channels of a group. Forward: plain_target = sources * taps,
 *   plain_source = taps; for the gradient of x: plain_target = taps, plain_source = targets * taps.
 *   global size (blocks).
 * kn_grouped(x, filter, y, SIZES, gradient, item_rows, item_columns, item_images, ring_lines, pitch, stream, STATISTICS,
 *            EPILOGUE)
 *   global size (ceil(y_height / item_rows) * ceil(y_width / item_columns), blocks of y, ceil(images / item_images)).
 *   gradient 0: y = x * filter. gradient 1: x is the gradient of the convolution's result, and y becomes that of its
 *   input; stride, pad and dilation are the convolution's own, and item_columns is a multiple of stride_x.
 *   ring_lines: at least the rows of x between the first and the last that a row of y reads. pitch: at least the columns
 *   of x that an item reads, with whole tiles. ring_lines * (sources * pitch + 1) * W is at most KN_LINES.
 *   stream: 1 if y is too large for caches.
 *   STATISTICS: if enabled, of y after its epilogue, of parts of `part` rows and item_columns columns, the last of an
 *   image perhaps less (common/statistics.cl); item_rows is a multiple of part, and a gradient has stride_x 1.
 * kn_grouped_weights(dy, x, partials, SIZES, part_rows, band_rows, item_columns, ring_lines, pitch)
 *   global size (parts, blocks of dy): a part has part_rows rows of dy, counted over all images. partials is
 *   (parts, blocks, sources, ky, kx, W), which kn_depthwise_weights_sum of conv/depthwise_wide.cl adds.
 *   band_rows: rows of dy between additions to the partial sums; ring_lines holds what they read. */
#include "common/wanted.cl"
#define KN_WHOLE_VECTORS 1
#include "common/stream.cl"
#include "common/vector.cl"
#include "common/statistics.cl"

#ifndef KN_GROUP
#define KN_GROUP 0
#endif
#ifndef KN_MOVE
#define KN_MOVE 1
#endif
#ifndef KN_PIXELS
#define KN_PIXELS 8
#endif
#ifndef KN_DEEP
#define KN_DEEP 4
#endif
#ifndef KN_LINES
#define KN_LINES 16384
#endif
#ifndef KN_TAPS
#define KN_TAPS 256
#endif
#define KN_SIZES                                                                                             \
    int images, int x_channels, int y_channels, int x_height, int x_width, int y_height, int y_width,        \
        int filter_height, int filter_width, int stride_y, int stride_x, int pad_top, int pad_left,          \
        int dilation_y, int dilation_x, int groups
#define KN_BLOCKS(channels) (((channels) + KN_WIDTH - 1) / KN_WIDTH)
#define KN_ROWS_3(X) KN_ROWS_2(X) X(2)
#define KN_ROWS_7(X) KN_ROWS_6(X) X(6)
#define KN_ROWS_10(X) KN_ROWS_8(X) X(8) X(9)
#define KN_ROWS_14(X) KN_ROWS_12(X) X(12) X(13)
#define KN_EACH_PIXEL(X) KN_CONCAT(KN_ROWS_, KN_PIXELS)(X)

/* ---- copies ---------------------------------------------------------------------------------------------- */

/* KN_EACH_COPY(X) expands to X(i, lanes) for each copy i: the lanes of its sources. */
#define KN_TWO_OF_8(a, b) s##a##a##a##a##a##a##a##a##b##b##b##b##b##b##b##b
#define KN_FOUR_OF_4(a, b, c, d) s##a##a##a##a##b##b##b##b##c##c##c##c##d##d##d##d
#define KN_EIGHT_OF_2(a, b, c, d, e, f, g, h) s##a##a##b##b##c##c##d##d##e##e##f##f##g##g##h##h
#define KN_TWO_OF_4(a, b) s##a##a##a##a##b##b##b##b
#define KN_FOUR_OF_2(a, b, c, d) s##a##a##b##b##c##c##d##d
#define KN_TWO_OF_2(a, b) s##a##a##b##b
#if KN_WIDTH == 16 && KN_GROUP == 8
#define KN_EACH_COPY(X)                                                                                      \
    X(0, KN_TWO_OF_8(0, 8)) X(1, KN_TWO_OF_8(1, 9)) X(2, KN_TWO_OF_8(2, a)) X(3, KN_TWO_OF_8(3, b))          \
    X(4, KN_TWO_OF_8(4, c)) X(5, KN_TWO_OF_8(5, d)) X(6, KN_TWO_OF_8(6, e)) X(7, KN_TWO_OF_8(7, f))
#elif KN_WIDTH == 16 && KN_GROUP == 4
#define KN_EACH_COPY(X)                                                                                      \
    X(0, KN_FOUR_OF_4(0, 4, 8, c)) X(1, KN_FOUR_OF_4(1, 5, 9, d)) X(2, KN_FOUR_OF_4(2, 6, a, e))             \
    X(3, KN_FOUR_OF_4(3, 7, b, f))
#elif KN_WIDTH == 16 && KN_GROUP == 2
#define KN_EACH_COPY(X) X(0, KN_EIGHT_OF_2(0, 2, 4, 6, 8, a, c, e)) X(1, KN_EIGHT_OF_2(1, 3, 5, 7, 9, b, d, f))
#elif KN_WIDTH == 8 && KN_GROUP == 4
#define KN_EACH_COPY(X)                                                                                      \
    X(0, KN_TWO_OF_4(0, 4)) X(1, KN_TWO_OF_4(1, 5)) X(2, KN_TWO_OF_4(2, 6)) X(3, KN_TWO_OF_4(3, 7))
#elif KN_WIDTH == 8 && KN_GROUP == 2
#define KN_EACH_COPY(X) X(0, KN_FOUR_OF_2(0, 2, 4, 6)) X(1, KN_FOUR_OF_2(1, 3, 5, 7))
#elif KN_WIDTH == 4 && KN_GROUP == 2
#define KN_EACH_COPY(X) X(0, KN_TWO_OF_2(0, 2)) X(1, KN_TWO_OF_2(1, 3))
#endif

/* Where the copies of a block's pixels are in x. The lanes of the block belong to `segments` groups; those of segment s
 * begin at lane `lane[s]`, and channel i of its group is place[s] + i. */
typedef struct sources {
    int count, segments, lane[KN_WIDTH], place[KN_WIDTH];
} sources;

KN_INLINE void find_sources(sources *from, int block, int x_channels, int y_channels, int groups) {
    const int targets = y_channels / groups, first = block * KN_WIDTH, group = first / targets;
    from->count = x_channels / groups;
    from->segments = (min(first + KN_WIDTH, y_channels) - 1) / targets - group + 1;
    for (int s = 0; s < from->segments; s++) {
        from->lane[s] = max((group + s) * targets - first, 0);
        from->place[s] = (group + s) * from->count;
    }
}

/* Copies pixels `column` to column + pitch of a line of x, with zeros outside of [0, width). x_plane: floats of a block
 * of an image. `to` is (sources,pitch,W); W floats after it are overwritten. */
KN_INLINE void copy_line(global const float *x, KN_INDEX x_plane, const sources *from, int block, int column, int width,
                         int pitch, float *to) {
    const int begin = min(max(-column, 0), pitch), end = max(begin, min(width - column, pitch));
    for (int i = 0; i < from->count; i++) {
        float *copy = to + i * pitch * KN_WIDTH;
        for (int at = 0; at < begin; at++)
            store((vector)0.0f, at, copy);
#if KN_GROUP == 0
        /* Each segment fills the rest of the vector and is overwritten by the next. */
        global const float *place[KN_WIDTH];
        for (int s = 0; s < from->segments; s++) {
            const int channel = from->place[s] + i;
            place[s] = x + channel / KN_WIDTH * x_plane + channel % KN_WIDTH + (KN_INDEX)column * KN_WIDTH;
        }
        for (int at = begin; at < end; at++)
            for (int s = 0; s < from->segments; s++)
                store((vector)place[s][(KN_INDEX)at * KN_WIDTH], at, copy + from->lane[s]);
#endif
        for (int at = end; at < pitch; at++)
            store((vector)0.0f, at, copy);
    }
#if KN_GROUP
    x += block * x_plane + (KN_INDEX)column * KN_WIDTH;
    for (int at = begin; at < end; at++) {
        const vector value = load(at, x);
#if KN_GROUP == 1
        store(value, at, to);
#else
#define KN_SPREAD(i, lanes) store(value.lanes, i * pitch + at, to);
        KN_EACH_COPY(KN_SPREAD)
#endif
    }
#endif
}

/* The greatest integer that is at most a / b, for b > 0. */
KN_INLINE int floor_quotient(int a, int b) {
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* ---- filters --------------------------------------------------------------------------------------------- */

#if KN_WANTED(kn_grouped_filter)
KN_WIDE kn_grouped_filter(global const float *restrict plain, global float *restrict packed, int targets, int sources,
                          int filter_height, int filter_width, int channels, KN_INDEX plain_target,
                          KN_INDEX plain_source) {
    const int block = get_global_id(0), taps = filter_height * filter_width;
    packed += (KN_INDEX)block * sources * taps * KN_WIDTH;
    for (int lane = 0; lane < KN_WIDTH; lane++) {
        const int target = block * KN_WIDTH + lane, inside = target < channels, group = inside ? target / targets : 0;
        global const float *from =
            plain + (KN_INDEX)group * targets * sources * taps + (inside ? target - group * targets : 0) * plain_target;
        global float *to = packed + lane;
        for (int ky = 0; ky < filter_height; ky++)
            for (int i = 0; i < sources; i++)
                for (int kx = 0; kx < filter_width; kx++, to += KN_WIDTH)
                    *to = inside ? from[i * plain_source + ky * filter_width + kx] : 0.0f;
    }
}
#endif

/* ---- forward, and the gradient of x ---------------------------------------------------------------------- */

#define KN_START(i) vector sum##i = 0.0f;
#define KN_STEP(i) sum##i += load(i * KN_MOVE, pixel) * right;
#define KN_KEEP(i)                                                                                           \
    if (i < count - at) {                                                                                    \
        const int place = first + (at + i) * step_x;                                                         \
        const vector result = KN_EPILOGUE_VECTOR(sum##i, image, block *KN_WIDTH, place);                     \
        if (streams)                                                                                         \
            KN_STREAM(result, (global vector *)plane + place, store(result, place, plane));                  \
        else                                                                                                 \
            store(result, place, plane);                                                                     \
        KN_GATHER(result, i == 0 && at == 0)                                                                 \
    }

#if KN_WANTED(kn_grouped)
KN_WIDE kn_grouped(global const float *restrict x, global const float *restrict filter, global float *restrict y,
                   KN_SIZES, int gradient, int item_rows, int item_columns, int item_images, int ring_lines, int pitch,
                   int stream KN_STATISTICS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    KN_GATHERED(1)
    float lines[KN_LINES];
    /* The columns of the filter by phase of the result, and the rows that reach a line of x. */
    int column_place[KN_TAPS], column_weight[KN_TAPS], line_place[KN_TAPS], line_weight[KN_TAPS];
    sources from;
    const int block = get_global_id(1), x_blocks = KN_BLOCKS(x_channels), y_blocks = get_global_size(1);
    const int parts = (y_width + item_columns - 1) / item_columns, part_number = get_global_id(0) % parts;
    const int row0 = get_global_id(0) / parts * item_rows, end_row = min(row0 + item_rows, y_height);
    const int column0 = part_number * item_columns, columns = min(item_columns, y_width - column0);
    const int end_image = min((int)(get_global_id(2) + 1) * item_images, images);
    const int streams = KN_STREAMS(stream, y, vector);
    const KN_INDEX x_plane = (KN_INDEX)x_height * x_width * KN_WIDTH, y_plane = (KN_INDEX)y_height * y_width * KN_WIDTH;
    find_sources(&from, block, x_channels, y_channels, groups);
    const int copy_floats = pitch * KN_WIDTH, line_floats = from.count * copy_floats + KN_WIDTH;
    const int weights_row = filter_width * KN_WIDTH;
    filter += (KN_INDEX)block * filter_height * from.count * weights_row;

    /* In a gradient, results that are `step_x` columns apart use the same columns of the filter: they are a phase. In a
     * forward pass, step_x is 1 and there is one phase. Result `at` of a phase is at column column0 + phase + step_x * at;
     * its first column of x is left + KN_MOVE * at plus the offset of the phase's tap. */
    const int reach_y = (filter_height - 1) * dilation_y, reach_x = (filter_width - 1) * dilation_x;
    const int step_x = gradient ? stride_x : 1;
    const int before = gradient ? floor_quotient(pad_left - reach_x, stride_x) : -pad_left;
    const int left = column0 / step_x * KN_MOVE + before;

    for (int image = get_global_id(2) * item_images; image < end_image; image++) {
        global const float *source = x + (KN_INDEX)image * x_blocks * x_plane;
        global float *plane = y + ((KN_INDEX)image * y_blocks + block) * y_plane;
        for (int row = row0, next = 0; row < end_row; row++) {
            const int low = gradient ? max(row + pad_top - reach_y, 0) / stride_y : max(row * stride_y - pad_top, 0);
            const int high = gradient ? (row + pad_top) / stride_y : row * stride_y - pad_top + reach_y;
            next = max(next, low);
            for (; next <= min(high, x_height - 1); next++)
                copy_line(source + (KN_INDEX)next * x_width * KN_WIDTH, x_plane, &from, block, left, x_width, pitch,
                          lines + next % ring_lines * line_floats);
            int found = 0;
            for (int ky = 0; ky < filter_height; ky++) {
                int line = row * stride_y - pad_top + ky * dilation_y;
                if (gradient) {
                    line = row + pad_top - ky * dilation_y;
                    if (line < 0 || (stride_y > 1 && line % stride_y != 0)) continue;
                    if (stride_y > 1) line /= stride_y;
                }
                if ((uint)line >= (uint)x_height) continue;
                line_place[found] = line % ring_lines * line_floats;
                line_weight[found++] = ky * from.count * weights_row;
            }
            KN_GATHER_AT(row)
            KN_GATHER_FROM(0)
            for (int phase = 0; phase < min(step_x, columns); phase++) {
                int taps = 0;
                for (int kx = 0; kx < filter_width; kx++) {
                    int column = kx * dilation_x;
                    if (gradient) {
                        column = phase + pad_left - column - before * stride_x;
                        if (stride_x > 1 && column % stride_x != 0) continue;
                        if (stride_x > 1) column /= stride_x;
                    }
                    column_place[taps] = column * KN_WIDTH;
                    column_weight[taps++] = kx * KN_WIDTH;
                }
                const int count = (columns - phase + step_x - 1) / step_x;
                const int first = row * y_width + column0 + phase;
                for (int at = 0; at < count; at += KN_PIXELS) {
                    KN_EACH_PIXEL(KN_START)
                    for (int k = 0; k < found; k++) {
                        const float *line = lines + line_place[k] + at * KN_MOVE * KN_WIDTH;
                        global const float *weights = filter + line_weight[k];
                        for (int i = 0; i < from.count; i++, line += copy_floats, weights += weights_row)
                            for (int tap = 0; tap < taps; tap++) {
                                const vector right = load(0, weights + column_weight[tap]);
                                const float *pixel = line + column_place[tap];
                                KN_EACH_PIXEL(KN_STEP)
                            }
                    }
                    KN_EACH_PIXEL(KN_KEEP)
                }
            }
            KN_GATHER_TO(0)
#if KN_STATISTICS
            if ((row + 1) % part != 0 && row + 1 < y_height) continue;
            const int bands = (y_height + part - 1) / part;
            KN_GATHER_END(0, (row % part + 1) * columns, (image * bands + row / part) * parts + part_number, block,
                          y_blocks)
#endif
        }
    }
}
#endif

/* ---- the gradient of the filter --------------------------------------------------------------------------- */

#define KN_EACH_DEEP(X) KN_CONCAT(KN_ROWS_, KN_DEEP)(X)
/* The first elements that exist and are new: the tiles at the end of both axes overlap the tiles before them. */
#define KN_BEGIN_VECTOR(row, v) vector sum##row##_##v = load(row * taps + v, to);
#define KN_BEGIN(row) KN_EACH(KN_BEGIN_VECTOR, row)
#define KN_FROM(row, v) const float *from##v = line + v * across;
#define KN_ADD(row, v) sum##row##_##v += load(0, from##v + row * copy_floats) * slope;
#define KN_ADD_ROW(row) KN_EACH(KN_ADD, row)
#define KN_ADVANCE(row, v) from##v += KN_MOVE * KN_WIDTH;
#define KN_END_VECTOR(row, v)                                                                                \
    if (row >= new_row && v >= new_column) store(sum##row##_##v, row * taps + v, to);
#define KN_END(row) KN_EACH(KN_END_VECTOR, row)

#if KN_WANTED(kn_grouped_weights)
KN_WIDE kn_grouped_weights(global const float *restrict dy, global const float *restrict x,
                           global float *restrict partials, KN_SIZES, int part_rows, int band_rows, int item_columns,
                           int ring_lines, int pitch) {
    float lines[KN_LINES];
    sources from;
    const int block = get_global_id(1), x_blocks = KN_BLOCKS(x_channels), y_blocks = get_global_size(1);
    const int taps = filter_height * filter_width;
    const int last = min((int)(get_global_id(0) + 1) * part_rows, images * y_height);
    const KN_INDEX x_plane = (KN_INDEX)x_height * x_width * KN_WIDTH;
    find_sources(&from, block, x_channels, y_channels, groups);
    const int copy_floats = pitch * KN_WIDTH, line_floats = from.count * copy_floats + KN_WIDTH;
    const int reach_y = (filter_height - 1) * dilation_y, across = dilation_x * KN_WIDTH;
    partials += ((KN_INDEX)get_global_id(0) * y_blocks + block) * from.count * taps * KN_WIDTH;
    for (int i = 0; i < from.count * taps; i++)
        store((vector)0.0f, i, partials);

    for (int at = get_global_id(0) * part_rows; at < last;) {
        const int image = at / y_height, row0 = at - image * y_height, end_row = min(y_height, row0 + last - at);
        global const float *source = x + (KN_INDEX)image * x_blocks * x_plane;
        global const float *slopes = dy + ((KN_INDEX)image * y_blocks + block) * y_height * y_width * KN_WIDTH;
        at += end_row - row0;
        for (int column0 = 0; column0 < y_width; column0 += item_columns) {
            const int columns = min(item_columns, y_width - column0);
            for (int row = row0, next = 0; row < end_row; row += band_rows) {
                const int band_end = min(row + band_rows, end_row);
                next = max(next, row * stride_y - pad_top);
                for (; next <= min((band_end - 1) * stride_y - pad_top + reach_y, x_height - 1); next++)
                    copy_line(source + (KN_INDEX)next * x_width * KN_WIDTH, x_plane, &from, block,
                              column0 * stride_x - pad_left, x_width, pitch, lines + next % ring_lines * line_floats);
                for (int ky = 0; ky < filter_height; ky++)
                    for (int i = 0; i < from.count; i += KN_DEEP)
                        for (int kx = 0; kx < filter_width; kx += KN_VECTORS) {
                            const int first = min(i, from.count - KN_DEEP), new_row = i - first;
                            const int column = min(kx, filter_width - KN_VECTORS), new_column = kx - column;
                            global float *to = partials + (first * taps + ky * filter_width + column) * KN_WIDTH;
                            KN_EACH_DEEP(KN_BEGIN)
                            for (int r = row; r < band_end; r++) {
                                const int source_row = r * stride_y - pad_top + ky * dilation_y;
                                if ((uint)source_row >= (uint)x_height) continue;
                                const float *line = lines + source_row % ring_lines * line_floats +
                                                    first * copy_floats + column * across;
                                global const float *slope_row = slopes + (r * y_width + column0) * KN_WIDTH;
                                KN_EACH(KN_FROM, 0)
                                for (int p = 0; p < columns; p++) {
                                    const vector slope = load(p, slope_row);
                                    KN_EACH_DEEP(KN_ADD_ROW)
                                    KN_EACH(KN_ADVANCE, 0)
                                }
                            }
                            KN_EACH_DEEP(KN_END)
                        }
            }
        }
    }
}
#endif
