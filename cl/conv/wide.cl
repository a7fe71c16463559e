/* Convolution for wide-vector devices (CPUs), float32: forward, and the gradient of x, by one kernel.
 *
 * Values are blocked by the vector width W = KN_WIDTH: x is (N, C/W, H, W', W), y is (N, K/W, H, W', W), with
 * channels padded by zeros to a multiple of W; an x with few channels may be plain instead. No halo: a pixel
 * outside the image is read from a line of zeros. Filters are packed in panels of KN_COLUMNS = W * KN_VECTORS
 * target channels: [group][panel][source block][ky][kx][source lane][KN_COLUMNS], and W zeros behind them all
 * (see layout.cl). A tile is KN_ROWS pixels, numbered over rows and images, times KN_COLUMNS channels, in
 * vector registers. A number of y is the sum over source blocks, ky, kx, lanes, in this order: neither
 * item_pixels nor, for filters of up to KN_TAPS taps, pass_blocks changes a bit.
 *
 * Defines: those of common/pixel_tile.cl, and, with their defaults:
 *   KN_TAPS 64   taps handled at once; larger filters take several rounds
 *   KN_PLAIN 0   1: x is plain, always
 *
 * kn_conv(x, filter, y, images, x_image, y_image, x_channels, x_lanes, y_channels, x_height, x_width,
 *         y_height, y_width, filter_height, filter_width, stride_y, stride_x, pad_y, pad_x,
 *         dilation_y, dilation_x, gradient, item_pixels, pass_blocks, accumulate, STATISTICS, EPILOGUE)
 *   Work-groups (1,1,1), global size (phases, ceil(pixels / item_pixels), groups * panels) with
 *   panels = ceil(ceil(y_channels / W) / KN_VECTORS). Phases have unlike work, so that they lie side by side.
 *   x_channels and y_channels are those of one group; with more than one group both are multiples of W.
 *   x_lanes: W, or 1 where x is plain, (N, C, H, W'): right for the first layer, with few channels.
 *   x_image and y_image: elements from image to image.
 *   gradient 0: y = x * filter. phases = 1, pixels = images * y_height * y_width.
 *   gradient 1: x is the gradient of the convolution's result and y becomes the gradient of its input. The
 *   filter is packed with its channel roles swapped; stride, pad and dilation are the convolution's own.
 *   phases = stride_y * stride_x, pixels = images * ceil(y_height / stride_y) * ceil(y_width / stride_x).
 *   This is a transposed convolution's forward pass, too; its gradient of x is gradient 0.
 *   item_pixels: should be a multiple of KN_ROWS.
 *   pass_blocks: source blocks in one sweep over an item's pixels, at least 1. Choose it so that the filter
 *   of a sweep, taps * pass_blocks * W * KN_COLUMNS * 4 bytes, stays in the L2 cache.
 *   accumulate: 1 starts the sums from what y holds, 0 from zero.
 *   STATISTICS: where wanted, of y with its epilogue, of parts of `part` pixels (common/statistics.cl); part is a
 *   multiple of KN_ROWS, item_pixels one of part, phases is 1.
 *   EPILOGUE: its operands; the epilogue sees (image, channel, pixel), with the first of W channels of y.
 * y shares memory with no input or operand. */
#define KN_WHOLE_VECTORS 1
#include "common/pixel_tile.cl"
#include "common/parts.cl"
#include "common/statistics.cl"

#ifndef KN_TAPS
#define KN_TAPS 64
#endif
#ifndef KN_PLAIN
#define KN_PLAIN 0
#endif

/* ---- the convolution ------------------------------------------------------- */

#define KN_RESUME_VECTOR(row, v) sum##row##_##v = load(row * KN_VECTORS + v, result);
#define KN_RESUME(row) KN_EACH(KN_RESUME_VECTOR, row)
#define KN_AIM(row)                                                                                          \
    global const float *restrict pixel##row = reach[tap][row] < 0 ? zeros : from + reach[tap][row];
/* The same pixel in the next block of channels, which is too far away for the device to guess. */
#define KN_AHEAD(row) KN_PREFETCH(pixel##row + x_plane)
#define KN_PLACE(row) global const float *restrict pixel##row = x + source[row];
#define KN_RIGHT(row, v) const vector right##v = load(v, weights);
#define KN_ADD(row, v) sum##row##_##v += value * right##v;
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const vector value = pixel##row[lane];                                                               \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, row *KN_VECTORS + v, result);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)

KN_WIDE kn_conv(global const float *restrict x, global const float *restrict filter, global float *restrict y,
                int images, KN_INDEX x_image, KN_INDEX y_image, int x_channels, int x_lanes, int y_channels,
                int x_height, int x_width, int y_height, int y_width, int filter_height, int filter_width,
                int stride_y, int stride_x, int pad_y, int pad_x, int dilation_y, int dilation_x,
                int gradient, int item_pixels, int pass_blocks,
                int accumulate KN_STATISTICS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    KN_GATHERED(KN_VECTORS)
    float result[KN_ROWS * KN_COLUMNS];
    int source_y[KN_ROWS], source_x[KN_ROWS], target_image[KN_ROWS], target_pixel[KN_ROWS];
    KN_INDEX source[KN_ROWS];
    KN_INDEX tap_filter[KN_TAPS];
    KN_INDEX reach[KN_TAPS][KN_ROWS]; /* where a tap finds a pixel, from the start of a block; -1 outside */

    const int x_blocks = (x_channels + x_lanes - 1) / x_lanes,
              y_blocks = (y_channels + KN_WIDTH - 1) / KN_WIDTH;
    const int panels = (y_blocks + KN_VECTORS - 1) / KN_VECTORS, groups = get_global_size(2) / panels;
    const int group = get_global_id(2) / panels, panel = get_global_id(2) % panels;
    const int panel_vectors = min(KN_VECTORS, y_blocks - panel * KN_VECTORS);
    const KN_INDEX x_plane = (KN_INDEX)x_height * x_width * x_lanes,
                   y_plane = (KN_INDEX)y_height * y_width * KN_WIDTH;
    const KN_INDEX tap_floats = x_lanes * KN_COLUMNS,
                   block_floats = filter_height * filter_width * tap_floats;
    global const float *zeros = filter + groups * panels * x_blocks * block_floats;
    filter += (group * panels + panel) * x_blocks * block_floats;
    x += group * x_blocks * x_plane;

    /* The pixels of a phase are those that share their taps: one in stride_y rows and stride_x columns of a
     * gradient, all otherwise. Pixel (i, j) of a phase is pixel (first + step * i, …) of y and looks at x
     * around (move * i, …). */
    const int step_y = gradient ? stride_y : 1, step_x = gradient ? stride_x : 1;
    const int move_y = gradient ? 1 : stride_y, move_x = gradient ? 1 : stride_x;
    const int first_y = get_global_id(0) / step_x, first_x = get_global_id(0) % step_x;
    const int rows = (y_height - first_y + step_y - 1) / step_y,
              columns = (y_width - first_x + step_x - 1) / step_x;
    if (rows <= 0 || columns <= 0) return;
    const int begin = get_global_id(1) * item_pixels, end = min(begin + item_pixels, images * rows * columns);

    for (int block0 = 0; block0 < x_blocks; block0 += pass_blocks) {
        const int block_end = min(block0 + pass_blocks, x_blocks);
        int image = begin / (rows * columns), i = begin % (rows * columns) / columns, j = begin % columns;
        for (int at = begin; at < end; at += KN_ROWS) {
            const int tile_rows = min(KN_ROWS, end - at);
            for (int r = 0; r < KN_ROWS; r++) {
                source_y[r] = i * move_y;
                source_x[r] = j * move_x;
                source[r] = image * x_image + ((KN_INDEX)i * move_y * x_width + j * move_x) * x_lanes;
                target_image[r] = image;
                target_pixel[r] = (first_y + i * step_y) * y_width + first_x + j * step_x;
                if (r + 1 >= tile_rows && r + 1 < KN_ROWS) continue; /* the last pixel again, never stored */
                if (++j < columns) continue;
                j = 0;
                if (++i < rows) continue;
                i = 0;
                image++;
            }
            KN_EACH_ROW(KN_START);
            if (block0 > 0 || accumulate) {
                for (int r = 0; r < KN_ROWS; r++)
                    for (int v = 0; v < KN_VECTORS; v++) {
                        const int block = group * y_blocks + panel * KN_VECTORS + min(v, panel_vectors - 1);
                        store(load(target_pixel[r], y + target_image[r] * y_image + block * y_plane),
                              r * KN_VECTORS + v, result);
                    }
                KN_EACH_ROW(KN_RESUME);
            }
            /* List the taps that reach any pixel of this tile, then sweep the source blocks over the list. */
            int taps = 0, first_row = 0;
#if KN_PLAIN
            /* Where a tile is in one row and all its taps are inside, as most are, nothing need be listed. */
            const int from_y = source_y[0] - pad_y, from_x = source_x[0] - pad_x, last = KN_ROWS - 1;
            if (tile_rows == KN_ROWS && !gradient && from_y >= 0 && from_x >= 0 &&
                source_x[last] - source_x[0] == last * stride_x &&
                from_y + (filter_height - 1) * dilation_y < x_height &&
                source_x[last] - pad_x + (filter_width - 1) * dilation_x < x_width) {
                global const float *weights = filter + block0 * block_floats;
                KN_EACH_ROW(KN_PLACE);
                for (int channel = block0; channel < block_end; channel++)
                    for (int ky = 0; ky < filter_height; ky++) {
                        const KN_INDEX row = (KN_INDEX)(ky * dilation_y - pad_y) * x_width;
                        KN_INDEX lane = channel * x_plane + row - pad_x;
                        for (int kx = 0; kx < filter_width; kx++, lane += dilation_x, weights += KN_COLUMNS) {
                            KN_EACH(KN_RIGHT, 0);
                            KN_EACH_ROW(KN_STEP);
                        }
                    }
                first_row = filter_height;
            }
#endif
            for (int ky = first_row, kx = 0; ky < filter_height;) {
                const int number = ky * filter_width + kx;
                int off_y = ky * dilation_y - pad_y, off_x = kx * dilation_x - pad_x, inside = 1;
                if (gradient) {
                    inside = (first_y - off_y) % stride_y == 0 && (first_x - off_x) % stride_x == 0;
                    off_y = (first_y - off_y) / stride_y;
                    off_x = (first_x - off_x) / stride_x;
                }
                if (inside) {
                    inside = 0;
                    for (int r = 0; r < KN_ROWS; r++) {
                        const int in = (uint)(source_y[r] + off_y) < (uint)x_height &&
                                       (uint)(source_x[r] + off_x) < (uint)x_width;
                        reach[taps][r] = in ? source[r] + ((KN_INDEX)off_y * x_width + off_x) * x_lanes : -1;
                        inside |= in;
                    }
                    tap_filter[taps] = number * tap_floats;
                    taps += inside;
                }
                if (++kx == filter_width) kx = 0, ky++;
                if (taps < KN_TAPS && ky < filter_height) continue;
                for (int block = block0; block < block_end; block++) {
                    const int lanes = min(x_lanes, x_channels - block * x_lanes);
                    global const float *from = x + block * x_plane,
                                       *block_filter = filter + block * block_floats;
                    for (int tap = 0; tap < taps; tap++) {
                        global const float *restrict weights = block_filter + tap_filter[tap];
                        KN_EACH_ROW(KN_AIM);
                        if (lanes > 1 && block + 1 < block_end) {
                            KN_EACH_ROW(KN_AHEAD);
                        }
                        for (int lane = 0; lane < lanes; lane++, weights += KN_COLUMNS) {
                            KN_EACH(KN_RIGHT, 0);
                            KN_EACH_ROW(KN_STEP);
                        }
                    }
                }
                taps = 0;
            }
            KN_EACH_ROW(KN_KEEP);
            KN_GATHER_AT(at)
            for (int v = 0; v < panel_vectors; v++) {
                const int channel = (panel * KN_VECTORS + v) * KN_WIDTH;
                const KN_INDEX block = group * y_blocks + panel * KN_VECTORS + v;
                KN_GATHER_FROM(v)
                for (int r = 0; r < tile_rows; r++) {
                    const KN_INDEX image = target_image[r], pixel = target_pixel[r];
                    vector value = load(r * KN_VECTORS + v, result);
                    if (block_end == x_blocks) {
                        value = KN_EPILOGUE_VECTOR(value, image, block * KN_WIDTH, pixel);
                        if (channel + KN_WIDTH > y_channels) value = keep_lanes(value, y_channels - channel);
                    }
                    KN_GATHER(value, r == 0)
                    store(value, pixel, y + image * y_image + block * y_plane);
                }
                KN_GATHER_TO(v)
            }
#if KN_STATISTICS
            if (block_end < x_blocks || ((at + KN_ROWS) % part != 0 && at + KN_ROWS < end)) continue;
            const int count = min(part, end - at / part * part);
            for (int v = 0; v < panel_vectors; v++)
                KN_GATHER_END(v, count, at / part, group * y_blocks + panel * KN_VECTORS + v, groups * y_blocks)
#endif
        }
    }
}
