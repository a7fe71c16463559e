/* Depthwise convolution for wide-vector devices (CPUs), float32: forward, the gradient of x, and that of the
 * filter.
 *
 * Each channel has one filter of its own. Values are blocked by the vector width W = KN_WIDTH: x is (N, C/W,
 * H, W', W) and y is (N, C/W, P, Q, W), with C a multiple of W; filters are plain, (C, 1, R, S), and each
 * work-item takes those of its block into its own memory. There are few operations for each byte, so that
 * eight pixels of a row share the reading of the filter, and nothing else is read twice from afar. A number
 * is the sum over ky, kx in this order: item_rows and item_images change no bit; part_rows does, so the host
 * takes it from the shape alone.
 *
 * Defines: those of common/vector.cl, and KN_TAPS 64, the most taps of a filter.
 *
 * SIZES: images, x_height, x_width, y_height, y_width, filter_height, filter_width, stride_y, stride_x,
 * pad_y, pad_x, dilation_y, dilation_x. Work-groups are (1,1,1).
 *
 * kn_depthwise(x, filter, y, SIZES, gradient, item_rows, item_images, stream, EPILOGUE)
 *   global size (ceil(y_height / item_rows), blocks, ceil(images / item_images)).
 *   stream: 1 where y is too large for caches.
 *   gradient 0: y = x * filter. gradient 1: x is the gradient of the convolution's result and y becomes that
 * of its input; stride, pad and dilation are the convolution's own. kn_depthwise_weights(dy, x, shares,
 * SIZES, part_rows) global size (parts, blocks): a part has part_rows rows of dy, counted over all images.
 * shares is (parts, blocks, taps, W). kn_depthwise_weights_sum(shares, dw, taps, parts) global size (blocks):
 * dw (C,1,R,S) = the sum of the parts, in order. */
#include "common/wanted.cl"
#define KN_WHOLE_VECTORS 1
#include "common/stream.cl"
#include "common/vector.cl"

#ifndef KN_TAPS
#define KN_TAPS 64
#endif
#define KN_SIZES                                                                                             \
    int images, int x_height, int x_width, int y_height, int y_width, int filter_height, int filter_width,   \
        int stride_y, int stride_x, int pad_y, int pad_x, int dilation_y, int dilation_x

/* The pixels of a row that find all taps inside are [low, high) of them. */
#define KN_LOW(offset, move) ((offset) < 0 ? ((move)-1 - (offset)) / (move) : 0)
#define KN_HIGH(offset, move, size) ((offset) < (size) ? ((size)-1 - (offset)) / (move) + 1 : 0)

#define KN_START(i) vector sum##i = 0.0f;
#define KN_STEP(i) sum##i += load(0, from + i * move_floats) * right;
#define KN_PUT(value, at)                                                                                    \
    {                                                                                                        \
        const vector result = KN_EPILOGUE_VECTOR(value, image, block *KN_WIDTH, at);                         \
        if (streams)                                                                                         \
            KN_STREAM(result, (global vector *)plane + (at), store(result, at, plane));                      \
        else                                                                                                 \
            store(result, at, plane);                                                                        \
    }
#define KN_KEEP(i) KN_PUT(sum##i, pixel + i * step_x)
#define KN_STEP_INSIDE(i)                                                                                    \
    if ((uint)(column + i * move) < (uint)x_width) KN_STEP(i)
#define KN_KEEP_FOUND(i)                                                                                     \
    if (i < found) KN_KEEP(i)
#define KN_PIXELS 8
#define KN_EACH_PIXEL(X) KN_ROWS_8(X)
#define KN_FEW 4
#define KN_EACH_OF_FEW(X) KN_ROWS_4(X)

#if KN_WANTED(kn_depthwise)
KN_WIDE kn_depthwise(global const float *restrict x, global const float *restrict filter,
                     global float *restrict y, KN_SIZES, int gradient, int item_rows,
                     int item_images, int stream KN_EPILOGUE_PARAMETERS) {
    float weights[KN_TAPS * KN_WIDTH];
    int column_place[KN_TAPS], column_weight[KN_TAPS];
    int tap_place[KN_TAPS], tap_column[KN_TAPS], tap_weight[KN_TAPS];
    const int block = get_global_id(1), blocks = get_global_size(1), streams = KN_STREAMS(stream, y, vector);
    const int filter_taps = filter_height * filter_width;
    const int end_row = min((int)(get_global_id(0) + 1) * item_rows, y_height);
    const int end_image = min((int)(get_global_id(2) + 1) * item_images, images);
    filter += block * KN_WIDTH * filter_taps;
    for (int tap = 0; tap < filter_taps; tap++)
        for (int lane = 0; lane < KN_WIDTH; lane++)
            weights[tap * KN_WIDTH + lane] = filter[lane * filter_taps + tap];

    /* Pixels of a phase share their taps: every stride_x-th of a gradient, all otherwise. Pixel `at` of a
     * phase is pixel phase + step_x * at of y, and looks at x around move * at. Those in [low, high) find the
     * taps of all columns inside. */
    const int step_x = gradient ? stride_x : 1, move = gradient ? 1 : stride_x;
    const int move_floats = move * KN_WIDTH;
    for (int phase = 0; phase < min(step_x, y_width); phase++) {
        const int count = (y_width - phase + step_x - 1) / step_x;
        int columns = 0, low = 0, high = count;
        for (int kx = 0; kx < filter_width; kx++) {
            int column = kx * dilation_x - pad_x;
            if (gradient) {
                column = phase - column;
                if (column % stride_x != 0) continue;
                column /= stride_x;
            }
            low = max(low, KN_LOW(column, move));
            high = min(high, KN_HIGH(column, move, x_width));
            column_place[columns] = column;
            column_weight[columns++] = kx * KN_WIDTH;
        }
        for (int image = get_global_id(2) * item_images; image < end_image; image++) {
            const KN_INDEX planes = (KN_INDEX)image * blocks + block;
            global const float *source = x + planes * x_height * x_width * KN_WIDTH;
            global float *plane = y + planes * y_height * y_width * KN_WIDTH;
            for (int row = get_global_id(0) * item_rows; row < end_row; row++) {
                int taps = 0;
                for (int ky = 0; ky < filter_height; ky++) {
                    int source_row = row * (gradient ? 1 : stride_y) + ky * dilation_y - pad_y;
                    if (gradient) {
                        source_row = row + pad_y - ky * dilation_y;
                        if (source_row % stride_y != 0) continue;
                        source_row /= stride_y;
                    }
                    if (source_row < 0 || source_row >= x_height) continue;
                    for (int i = 0; i < columns; i++) {
                        tap_place[taps] = source_row * x_width + column_place[i];
                        tap_column[taps] = column_place[i];
                        tap_weight[taps++] = ky * filter_width * KN_WIDTH + column_weight[i];
                    }
                }
                /* Groups of eight, the last of which may do again what the one before has done; at the ends,
                 * and where a row is narrow, a few that look where they are. */
                const int first = row * y_width + phase;
                for (int at = 0; at < count;) {
                    if (at >= low && at + KN_FEW < high && high - low >= KN_PIXELS) {
                        const int begin = min(at, high - KN_PIXELS), pixel = first + begin * step_x;
                        KN_EACH_PIXEL(KN_START)
                        for (int tap = 0; tap < taps; tap++) {
                            const vector right = load(0, weights + tap_weight[tap]);
                            global const float *from = source + (tap_place[tap] + begin * move) * KN_WIDTH;
                            KN_EACH_PIXEL(KN_STEP)
                        }
                        KN_EACH_PIXEL(KN_KEEP)
                        at = begin + KN_PIXELS;
                        continue;
                    }
                    const int begin = max(0, min(at, count - KN_FEW)), pixel = first + begin * step_x;
                    const int found = count - begin;
                    KN_EACH_OF_FEW(KN_START)
                    for (int tap = 0; tap < taps; tap++) {
                        const vector right = load(0, weights + tap_weight[tap]);
                        const int column = begin * move + tap_column[tap];
                        global const float *from = source + (tap_place[tap] + begin * move) * KN_WIDTH;
                        KN_EACH_OF_FEW(KN_STEP_INSIDE)
                    }
                    KN_EACH_OF_FEW(KN_KEEP_FOUND)
                    at = begin + KN_FEW;
                }
            }
        }
    }
}
#endif

/* One tap of a row, over those of its pixels that are not in [begin, end): sum of dy * x. `column` is where
 * pixel 0 finds it. */
KN_INLINE vector add_ends(vector sum, global const float *dy, global const float *x, int column, int stride,
                          int x_width, int y_width, int begin, int end) {
    const int low = KN_LOW(column, stride), high = min(KN_HIGH(column, stride, x_width), y_width);
    for (int at = low; at < min(begin, high); at++)
        sum += load(at, dy) * load(at * stride + column, x);
    for (int at = max(end, low); at < high; at++)
        sum += load(at, dy) * load(at * stride + column, x);
    return sum;
}

#if KN_WANTED(kn_depthwise_weights)
KN_WIDE kn_depthwise_weights(global const float *restrict dy, global const float *restrict x,
                             global float *restrict shares, KN_SIZES, int part_rows) {
    float sums[KN_TAPS * KN_WIDTH];
    const int block = get_global_id(1), blocks = get_global_size(1), taps = filter_height * filter_width;
    const int last = min((int)(get_global_id(0) + 1) * part_rows, images * y_height);
    for (int tap = 0; tap < taps; tap++)
        store((vector)0.0f, tap, sums);
    for (int at = get_global_id(0) * part_rows; at < last; at++) {
        const int image = at / y_height, row = at % y_height;
        global const float *slopes =
            dy + (((KN_INDEX)image * blocks + block) * y_height + row) * y_width * KN_WIDTH;
        for (int ky = 0; ky < filter_height; ky++) {
            const int source_row = row * stride_y + ky * dilation_y - pad_y;
            if (source_row < 0 || source_row >= x_height) continue;
            global const float *source =
                x + (((KN_INDEX)image * blocks + block) * x_height + source_row) * x_width * KN_WIDTH;
            /* Three taps at a time where all of them are inside, [begin, end). */
            for (int kx = 0; kx < filter_width; kx += 3) {
                float *to = sums + (ky * filter_width + kx) * KN_WIDTH;
                const int more = min(2, filter_width - 1 - kx), first = kx * dilation_x - pad_x;
                const int second = min(1, more) * dilation_x,
                          third = more * dilation_x; /* behind the first */
                const int begin = min(KN_LOW(first, stride_x), y_width);
                const int end = max(begin, min(KN_HIGH(first + third, stride_x, x_width), y_width));
                vector sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f;
                for (int i = begin; i < end; i++) {
                    const vector slope = load(i, slopes);
                    global const float *from = source + (i * stride_x + first) * KN_WIDTH;
                    sum0 += slope * load(0, from);
                    sum1 += slope * load(second, from);
                    sum2 += slope * load(third, from);
                }
                sum0 = add_ends(sum0, slopes, source, first, stride_x, x_width, y_width, begin, end);
                sum1 = add_ends(sum1, slopes, source, first + second, stride_x, x_width, y_width, begin, end);
                sum2 = add_ends(sum2, slopes, source, first + third, stride_x, x_width, y_width, begin, end);
                store(load(0, to) + sum0, 0, to);
                if (more > 0) store(load(1, to) + sum1, 1, to);
                if (more > 1) store(load(2, to) + sum2, 2, to);
            }
        }
    }
    shares += ((KN_INDEX)get_global_id(0) * blocks + block) * taps * KN_WIDTH;
    for (int tap = 0; tap < taps; tap++)
        store(load(tap, sums), tap, shares);
}
#endif

#if KN_WANTED(kn_depthwise_weights_sum)
KN_WIDE kn_depthwise_weights_sum(global const float *restrict shares, global float *restrict dw, int taps,
                                 int parts) {
    const int block = get_global_id(0);
    const KN_INDEX row = get_global_size(0) * taps;
    float lanes[KN_WIDTH];
    for (int tap = 0; tap < taps; tap++) {
        vector sum = 0.0f;
        for (int part = 0; part < parts; part++)
            sum += load(part * row + block * taps + tap, shares);
        store(sum, 0, lanes);
        for (int lane = 0; lane < KN_WIDTH; lane++)
            dw[(block * KN_WIDTH + lane) * taps + tap] = lanes[lane];
    }
}
#endif
