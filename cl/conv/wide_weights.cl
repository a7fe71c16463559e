/* Gradient of a convolution's filter and bias for wide-vector devices (CPUs), float32.
 *
 * The layouts are those of conv/wide.cl: x is (N, C/W, H, W', W) or plain, dy is (N, K/W, H, W', W), and the
 * gradient has the shape of a filter packed for the forward pass with the same KN_WIDTH and KN_VECTORS:
 * [group][panel][source block][ky][kx][source lane][KN_COLUMNS], without the zeros behind.
 * A tile is a few input channels times KN_COLUMNS output channels, in vector registers; for each tap it runs
 * over the pixels of a band that stays in the nearest cache. A number of dw is the sum over pixels, in order,
 * within each part; the parts are separate results, which kn_unpack_filter of layout.cl adds in order.
 * Neither item_taps, item_blocks nor KN_BAND changes a bit; part_pixels does, so the host takes it from the shape
 * alone.
 *
 * Defines: those of common/vector.cl, and, with their defaults:
 *   KN_BAND 96   the pixels in a band
 *   KN_ROWS      input channels of a tile: 8 for up to 3 vectors of 16, 4 for 3 of 8, 6 otherwise
 *
 * kn_conv_weights(x, dy, dw, images, x_image, y_image, x_channels, x_lanes, y_channels, x_height, x_width,
 *                 y_height, y_width, filter_height, filter_width, stride_y, stride_x, pad_y, pad_x,
 *                 dilation_y, dilation_x, item_blocks, item_taps, part_pixels, dw_part)
 *   Work-groups (1,1,1), global size (ceil(blocks / item_blocks) * ceil(taps / item_taps), groups * panels, parts)
 *   with blocks = ceil(x_channels / W), taps = filter_height * filter_width,
 *   panels = ceil(ceil(y_channels / W) / KN_VECTORS),
 *   parts = ceil(images * y_height * y_width / part_pixels).
 *   The other arguments are those of kn_conv with gradient 0. Part p is stored dw_part * p elements into dw;
 *   a part takes groups * panels * KN_COLUMNS * taps * (x_lanes == 1 ? x_channels : blocks * W) floats.
 * kn_conv_bias(dy, parts, images, y_image, pixels, part_images)
 *   Work-groups (1,1,1), global size (blocks of dy, ceil(images / part_images)): sums of dy over its images
 *   and pixels, W for each block: parts is (parts, blocks * W).
 * kn_conv_bias_sum(parts, db, channels, count, row, accumulate)
 *   global size (1): db[i] = the sum of parts[p * row + i] over p < count, in order; row is blocks * W. */
#include "common/wanted.cl"
#define KN_WHOLE_VECTORS 1
#include "common/vector.cl"

#ifndef KN_BAND
#define KN_BAND 96
#endif

#ifndef KN_ROWS
#if KN_WIDTH == 16 && KN_VECTORS < 4
#define KN_ROWS 8
#elif KN_WIDTH == 8 && KN_VECTORS == 3
#define KN_ROWS 4
#else
#define KN_ROWS 6
#endif
#endif

/* Channels and filters of an item are numbered from block to block. */
#define KN_OF_BLOCKS(number, block, lane) ((number) / KN_WIDTH * (block) + (number) % KN_WIDTH * (lane))
#define KN_START_VECTOR(row, v)                                                                              \
    vector sum##row##_##v = 0.0f;                                                                            \
    if (resume && row < rows && v < vectors) sum##row##_##v = load(v, dw##row);
#define KN_START(row)                                                                                        \
    const int number##row = first + min(row, rows - 1);                                                      \
    global const float *x##row = x + KN_OF_BLOCKS(number##row, x_block, x_lane);                             \
    global float *dw##row = dw + KN_OF_BLOCKS(number##row, dw_block, dw_lane);                               \
    KN_EACH(KN_START_VECTOR, row)
#define KN_PLANE(row, v) global const float *dy##v = dy + min(v, vectors - 1) * y_plane;
#define KN_RIGHT(row, v) const vector right##v = load(0, dy##v + to);
#define KN_ADD(row, v) sum##row##_##v += value * right##v;
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const vector value = x##row[from];                                                                   \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_KEEP_VECTOR(row, v)                                                                               \
    if (row < rows) store(v < vectors ? sum##row##_##v : (vector)0.0f, v, dw##row);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)

/* dw (rows,KN_COLUMNS) += x(rows,count) · dy(count,KN_COLUMNS), of the channels from `first` on and for the pixels
 * listed in x_at and y_at. */
#define KN_SWEEP(name, each_row)                                                                             \
    KN_INLINE void name(global const float *x, KN_INDEX x_block, KN_INDEX x_lane, global const float *dy,    \
                        KN_INDEX y_plane, global float *dw, KN_INDEX dw_block, KN_INDEX dw_lane, int first,  \
                        int rows, int vectors, const KN_INDEX *x_at, const KN_INDEX *y_at, int count,        \
                        int resume) {                                                                        \
        KN_EACH(KN_PLANE, 0);                                                                                \
        each_row(KN_START);                                                                                  \
        for (int i = 0; i < count; i++) {                                                                    \
            const KN_INDEX from = x_at[i], to = y_at[i];                                                     \
            KN_EACH(KN_RIGHT, 0);                                                                            \
            each_row(KN_STEP);                                                                               \
        }                                                                                                    \
        each_row(KN_KEEP);                                                                                   \
    }
KN_SWEEP(sweep_4, KN_ROWS_4)
#if KN_ROWS > 4
KN_SWEEP(sweep, KN_JOIN(KN_ROWS_, KN_ROWS))
#else
#define sweep sweep_4
#endif

/* The pixels of dy from `begin` on, `count` of them, whose tap lies inside x: where to find both sides.
 * Returns how many. low and high bound the columns whose tap lies inside. */
KN_INLINE int list_pixels(int image, int row, int column, int count, KN_INDEX x_image, KN_INDEX y_image,
                          int x_height, int x_width, int y_height, int y_width, int stride_y, int stride_x,
                          int off_y, int off_x, int low, int high, int x_pixel, KN_INDEX *x_at,
                          KN_INDEX *y_at) {
    int listed = 0;
    while (count > 0) {
        const int run = min(count, y_width - column), source_row = row * stride_y + off_y;
        if (source_row >= 0 && source_row < x_height) {
            const int first = max(column, low), last = min(column + run, high);
            KN_INDEX from =
                image * x_image + ((KN_INDEX)source_row * x_width + first * stride_x + off_x) * x_pixel;
            KN_INDEX to = image * y_image + ((KN_INDEX)row * y_width + first) * KN_WIDTH;
            for (int i = 0; i < last - first; i++) {
                x_at[listed + i] = from + i * stride_x * x_pixel;
                y_at[listed + i] = to + i * KN_WIDTH;
            }
            listed += max(last - first, 0);
        }
        count -= run;
        column = 0;
        if (++row == y_height) {
            row = 0;
            image++;
        }
    }
    return listed;
}

#if KN_WANTED(kn_conv_weights)
KN_WIDE kn_conv_weights(global const float *restrict x, global const float *restrict dy,
                        global float *restrict dw, int images, KN_INDEX x_image, KN_INDEX y_image,
                        int x_channels, int x_lanes, int y_channels, int x_height, int x_width, int y_height,
                        int y_width, int filter_height, int filter_width, int stride_y, int stride_x,
                        int pad_y, int pad_x, int dilation_y, int dilation_x, int item_blocks, int item_taps,
                        int part_pixels, KN_INDEX dw_part) {
    KN_INDEX x_at[KN_BAND], y_at[KN_BAND];
    const int taps = filter_height * filter_width, tap_items = (taps + item_taps - 1) / item_taps;
    const int blocks = (x_channels + KN_WIDTH - 1) / KN_WIDTH;
    const int y_blocks = (y_channels + KN_WIDTH - 1) / KN_WIDTH;
    const int panels = (y_blocks + KN_VECTORS - 1) / KN_VECTORS;
    const int block = get_global_id(0) / tap_items * item_blocks,
              first_tap = get_global_id(0) % tap_items * item_taps;
    const int group = get_global_id(1) / panels, panel = get_global_id(1) % panels;
    const int channels = min(item_blocks * KN_WIDTH, x_channels - block * KN_WIDTH);
    const int vectors = min(KN_VECTORS, y_blocks - panel * KN_VECTORS);

    /* A plain x is a block whose lanes are a plane apart; its dw has no padded channels. */
    const int plain = x_lanes == 1, x_pixel = plain ? 1 : KN_WIDTH;
    const KN_INDEX x_plane = (KN_INDEX)x_height * x_width, y_plane = (KN_INDEX)y_height * y_width * KN_WIDTH;
    const KN_INDEX x_block = x_plane * KN_WIDTH, x_lane = plain ? x_plane : 1;
    const KN_INDEX dw_block = taps * KN_WIDTH * KN_COLUMNS, dw_lane = plain ? taps * KN_COLUMNS : KN_COLUMNS;
    const KN_INDEX dw_tap = plain ? KN_COLUMNS : KN_WIDTH * KN_COLUMNS;
    const KN_INDEX dw_panel = (KN_INDEX)(plain ? x_channels : blocks * KN_WIDTH) * taps * KN_COLUMNS;
    x += (group * blocks + block) * x_block;
    dy += (group * y_blocks + panel * KN_VECTORS) * y_plane;
    dw += get_global_id(2) * dw_part + get_global_id(1) * dw_panel + block * dw_block;

    const int begin = get_global_id(2) * part_pixels;
    const int end = min(begin + part_pixels, images * y_height * y_width);
    for (int at = begin; at < end; at += KN_BAND) {
        const int image = at / (y_height * y_width), row = at % (y_height * y_width) / y_width;
        const int resume = at > begin;
        for (int tap = first_tap; tap < min(first_tap + item_taps, taps); tap++) {
            const int off_y = tap / filter_width * dilation_y - pad_y;
            const int off_x = tap % filter_width * dilation_x - pad_x;
            const int low = off_x < 0 ? (stride_x - 1 - off_x) / stride_x : 0;
            const int high = off_x < x_width ? min((x_width - 1 - off_x) / stride_x + 1, y_width) : 0;
            const int count = list_pixels(image, row, at % y_width, min(KN_BAND, end - at), x_image, y_image,
                                          x_height, x_width, y_height, y_width, stride_y, stride_x, off_y,
                                          off_x, low, high, x_pixel, x_at, y_at);
            if (count == 0 && resume) continue;
            global float *to = dw + tap * dw_tap;
            for (int first = 0, rows; first < channels; first += rows) {
                const int left = channels - first;
                rows = left == 8 && KN_ROWS < 8 ? 4 : min(KN_ROWS, left); /* 4 and 4, not 6 and 2 */
                if (rows > 4)
                    sweep(x, x_block, x_lane, dy, y_plane, to, dw_block, dw_lane, first, rows, vectors, x_at, y_at,
                          count, resume);
                else
                    sweep_4(x, x_block, x_lane, dy, y_plane, to, dw_block, dw_lane, first, rows, vectors, x_at,
                            y_at, count, resume);
            }
            /* Channels that pad the last block. */
            for (int pad = channels; !plain && !resume && pad % KN_WIDTH != 0; pad++)
                for (int v = 0; v < KN_VECTORS; v++)
                    store((vector)0.0f, v, to + KN_OF_BLOCKS(pad, dw_block, dw_lane));
        }
    }
}
#endif

/* ---- bias ------------------------------------------------------------------ */

#if KN_WANTED(kn_conv_bias)
KN_WIDE kn_conv_bias(global const float *restrict dy, global float *restrict parts, int images,
                     KN_INDEX y_image, int pixels, int part_images) {
    const int block = get_global_id(0), first = get_global_id(1) * part_images;
    vector total = 0.0f;
    for (int image = first; image < min(first + part_images, images); image++) {
        global const float *from = dy + image * y_image + (KN_INDEX)block * pixels * KN_WIDTH;
        vector sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
        int i = 0;
        for (; i + 4 <= pixels; i += 4) {
            sum0 += load(i, from);
            sum1 += load(i + 1, from);
            sum2 += load(i + 2, from);
            sum3 += load(i + 3, from);
        }
        for (; i < pixels; i++)
            sum0 += load(i, from);
        total += (sum0 + sum1) + (sum2 + sum3);
    }
    store(total, block, parts + (KN_INDEX)get_global_id(1) * get_global_size(0) * KN_WIDTH);
}
#endif

#if KN_WANTED(kn_conv_bias_sum)
KN_WIDE kn_conv_bias_sum(global const float *restrict parts, global float *restrict db, int channels,
                         int count, KN_INDEX row, int accumulate) {
    for (int i = 0; i < channels; i++) {
        float sum = accumulate ? db[i] : 0.0f;
        for (int part = 0; part < count; part++)
            sum += parts[part * row + i];
        db[i] = sum;
    }
}
#endif
