/* Convolution with filters of a single pixel for wide-vector devices (CPUs), float32: forward, and with one pixel a
 * step the gradient of x, too. It is a matrix product over channels, with less around each tile than
 * conv/wide.cl has: where channels are few, that is most of the time.
 *
 * Layouts, packed filters and the order of sums are those of conv/wide.cl: x is (N, C/W, H, W', W), or plain,
 * (N, C, H, W'); y is (N, K/W, P, Q, W), with channels padded by zeros to a multiple of W = KN_WIDTH. How pixels
 * and panels are shared out changes no bit.
 *
 * Defines: those of common/pixel_tile.cl.
 *
 * kn_conv_single(x, filter, y, x_image, y_image, x_channels, y_channels, rows, columns, x_row, x_column, x_pass,
 *                pass_channels, channel_step, pixels, item_pixels, item_panels, STATISTICS, EPILOGUE)
 *   Work-groups (1,1,1), global size (ceil(pixels / item_pixels), ceil(panels / item_panels)). An item goes through
 *   its panels one after the other, so that its pixels of x, best within a cache, are brought near once.
 *   Elements of x: x_image from image to image, x_row and x_column from pixel to pixel of y (the steps of the
 *   convolution are in them), channel_step from channel to channel of those pass_channels that lie so, and x_pass
 *   from these to the next: W, 1 and a block in the blocked layout; all, a plane and anything in the plain one.
 *   pixels = images * rows * columns, of y. item_pixels should be a multiple of KN_ROWS.
 *   STATISTICS: as in conv/wide.cl.
 * y shares memory with no input or operand. */
#define KN_WHOLE_VECTORS 1
#include "common/vector.cl"
#include "common/parts.cl"
#include "common/statistics.cl"
#include "conv/beside.cl"

#define KN_AIM(row) global const float *pixel##row = x + places[row];
/* The same pixel in the next block of channels, which is too far away for the device to guess. */
#define KN_AHEAD(row) KN_PREFETCH(pixel##row + x_pass)
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const vector value = pixel##row[at];                                                                 \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_FINISH(row)                                                                                       \
    {                                                                                                        \
        const vector value = KN_EPILOGUE_VECTOR(load(row *KN_VECTORS, from), (KN_INDEX)image,                \
                                                (KN_INDEX)channel, (KN_INDEX)pixel + row);                   \
        KN_GATHER(value, row == 0)                                                                           \
        store(value, row, to);                                                                               \
    }

/* sums (KN_ROWS,KN_COLUMNS) of the pixels at `places`, by all channels. */
KN_APART void add_channels(global const float *x, const KN_INDEX *places, global const float *filter, float *sums,
                           int channels, int pass_channels, KN_INDEX x_pass, KN_INDEX channel_step) {
    KN_EACH_ROW(KN_START)
    for (int first = 0; first < channels; first += pass_channels, x += x_pass) {
        const int count = min(pass_channels, channels - first);
        KN_EACH_ROW(KN_AIM)
        if (channel_step == 1 && first + count < channels) { KN_EACH_ROW(KN_AHEAD) }
        KN_INDEX at = 0;
        for (int i = 0; i < count; i++, at += channel_step, filter += KN_COLUMNS) {
            KN_EACH(KN_RIGHT, 0)
            KN_EACH_ROW(KN_STEP)
        }
    }
    KN_EACH_ROW(KN_KEEP)
}

/* Where KN_ROWS pixels of y, numbered over images from `pixel` of `image` on, are in x; after `count` of them the last
 * again, which is never stored. */
KN_INLINE void find_places(KN_INDEX *places, int count, int image, int pixel, int rows, int columns,
                           KN_INDEX x_image, KN_INDEX x_row, KN_INDEX x_column) {
    int row = pixel / columns, column = pixel % columns;
    for (int r = 0; r < KN_ROWS; r++) {
        places[r] = image * x_image + row * x_row + column * x_column;
        if (r + 1 >= count) continue;
        if (++column < columns) continue;
        column = 0;
        if (++row < rows) continue;
        row = 0;
        image++;
    }
}

KN_WIDE kn_conv_single(global const float *restrict x, global const float *restrict filter,
                       global float *restrict y, KN_INDEX x_image, KN_INDEX y_image, int x_channels,
                       int y_channels, int rows, int columns, KN_INDEX x_row, KN_INDEX x_column,
                       KN_INDEX x_pass, int pass_channels, KN_INDEX channel_step, int pixels,
                       int item_pixels, int item_panels KN_STATISTICS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    KN_GATHERED(KN_VECTORS)
    float sums[KN_ROWS * KN_COLUMNS];
    KN_INDEX places[KN_ROWS];
    const int blocks = (y_channels + KN_WIDTH - 1) / KN_WIDTH, panels = (blocks + KN_VECTORS - 1) / KN_VECTORS;
    const int plane = rows * columns, begin = get_global_id(0) * item_pixels, end = min(begin + item_pixels, pixels);
    const int panel_begin = get_global_id(1) * item_panels, panel_end = min(panel_begin + item_panels, panels);
    const KN_INDEX panel_floats =
        (KN_INDEX)(x_channels + pass_channels - 1) / pass_channels * pass_channels * KN_COLUMNS;
    const int beside = channel_step == 1 && pass_channels == KN_WIDTH && x_channels % KN_WIDTH == 0 &&
                       x_column == KN_WIDTH && x_row == columns * KN_WIDTH;
    filter += panel_begin * panel_floats;
    for (int panel = panel_begin; panel < panel_end; panel++, filter += panel_floats) {
        const int vectors = min(KN_VECTORS, blocks - panel * KN_VECTORS);
        /* Few pixels leave no time to wait for weights: those of the panel behind come while this one's tiles are made. */
        global const float *next = panel + 1 < panels ? filter + panel_floats : filter, *next_end = next + panel_floats;
        int image = begin / plane, pixel = begin % plane;
        for (int first = begin; first < end; first += KN_ROWS) {
            const int count = min(KN_ROWS, end - first);
            if (beside && count == KN_ROWS && pixel + KN_ROWS <= plane) {
                add_blocks(x + image * x_image + (KN_INDEX)pixel * KN_WIDTH, filter, next, sums, x_channels,
                           x_pass);
                next = part_behind(next, next_end, filter, x_channels);
            } else {
                find_places(places, count, image, pixel, rows, columns, x_image, x_row, x_column);
                add_channels(x, places, filter, sums, x_channels, pass_channels, x_pass, channel_step);
            }
            KN_GATHER_AT(first)
            int whole = 0;
            /* Whole tiles, which most are, without a loop around each vector. */
            if (count == KN_ROWS && pixel + KN_ROWS < plane && y_channels % KN_WIDTH == 0) {
                for (int v = 0; v < vectors; v++) {
                    const int channel = (panel * KN_VECTORS + v) * KN_WIDTH;
                    const float *from = sums + v * KN_WIDTH;
                    global float *to = y + image * y_image + (KN_INDEX)channel * plane + pixel * KN_WIDTH;
                    KN_GATHER_FROM(v)
                    KN_EACH_ROW(KN_FINISH)
                    KN_GATHER_TO(v)
                }
                pixel += KN_ROWS;
                whole = 1;
            }
            /* Pixels of one image lie one behind the other. */
            for (int r = 0, run; r < count && !whole; r += run) {
                run = min(count - r, plane - pixel);
                for (int v = 0; v < vectors; v++) {
                    const int channel = (panel * KN_VECTORS + v) * KN_WIDTH, lanes = y_channels - channel;
                    global float *to = y + image * y_image + (KN_INDEX)channel * plane;
                    KN_GATHER_FROM(v)
                    for (int i = pixel; i < pixel + run; i++) {
                        vector value = load((r + i - pixel) * KN_VECTORS + v, sums);
                        value = KN_EPILOGUE_VECTOR(value, (KN_INDEX)image, (KN_INDEX)channel, (KN_INDEX)i);
                        if (lanes < KN_WIDTH) value = keep_lanes(value, lanes);
                        KN_GATHER(value, r == 0 && i == pixel)
                        store(value, i, to);
                    }
                    KN_GATHER_TO(v)
                }
                pixel += run;
                if (pixel < plane) continue;
                pixel = 0;
                image++;
            }
#if KN_STATISTICS
            if ((first + KN_ROWS) % part != 0 && first + KN_ROWS < end) continue;
            const int gathers = min(part, end - first / part * part);
            for (int v = 0; v < vectors; v++)
                KN_GATHER_END(v, gathers, first / part, panel * KN_VECTORS + v, blocks)
#endif
        }
    }
}
