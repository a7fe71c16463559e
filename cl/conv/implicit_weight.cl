/* The gradient of a convolution with respect to its weight, for many-thread devices: dw (K,C/groups,R,S) from dy
 * (N,K,P,Q) and x (N,C,H,W). As an implicit matrix product (conv/implicit_tile.cl): rows are the output channels of a
 * group, columns are (c,r,s), and the sum runs over the output pixels of all images. Tiles and their defines:
 * common/tile.cl.
 *
 * kn_conv_weight(dy, x, dw, partials, …)
 *   takes the sizes of kn_conv (conv/implicit.cl), with the same meaning, except that the multipliers are for P * Q
 *   and Q. Work-groups of (KN_ITEMS,1,1), numbering
 *   (ceil(channels / groups * R * S / KN_TILE_N), ceil(outputs / groups / KN_TILE_M), groups * parts).
 *   partials is (parts,K,C/groups,R,S). */
/* Adjacent k are adjacent pixels. */
#define KN_RIGHT_ACROSS 0
#define KN_LEFT_HALF KN_HALF_dy
#define KN_RIGHT_HALF KN_HALF_x
#define KN_RESULT_HALF KN_HALF_dw
#include "common/tile.cl"
#include "common/sum_parts.cl"
#include "conv/implicit_tile.cl"

#define KN_WRITE_ENTRY(k)                                                                                    \
    const int image = divide(k, pixels, pixels_multiplier), pixel = (k) - image * pixels;                    \
    const int row = divide(pixel, out_width, width_multiplier), column = pixel - row * out_width;            \
    entry.y = row * stride_y - pad_top;                                                                      \
    entry.x = column * stride_x - pad_left;                                                                  \
    entry.at = (KN_INDEX)image * channels * height * width + KN_OFFSET(entry.y, entry.x);                    \
    entry.left = (KN_INDEX)image * outputs * pixels + pixel;
#define KN_RESULT(sum, channel, l) KN_EPILOGUE(sum, channel, (first + (l)) / taps, (first + (l)) % taps)
#define KN_RESULT_COLUMN(column) const KN_INDEX first = column;

KN_WORK_GROUP kernel void kn_conv_weight(global const KN_STORED(KN_HALF_dy) *restrict dy,
                                         global const KN_STORED(KN_HALF_x) *restrict x,
                                         global KN_STORED(KN_HALF_dw) *restrict dw, global KN_A *restrict partials,
                                         int images, int channels, int height, int width, int outputs, int out_height,
                                         int out_width, int filter_height, int filter_width, int stride_y,
                                         int stride_x, int pad_top, int pad_left, int dilation_y,
                                         int dilation_x, int groups, int parts, int part_depth, uint pixels_multiplier,
                                         uint width_multiplier KN_EPILOGUE_PARAMETERS) {
    KN_LOCAL_MEMORY
    const int group = KN_GROUP(2, 1) / parts, part = KN_GROUP(2, 1) % parts;
    const int group_channels = channels / groups, group_outputs = outputs / groups;
    const int taps = filter_height * filter_width, columns = group_channels * taps;
    const int pixels = out_height * out_width, depth = images * pixels;
    const int k_first = part * part_depth, k_end = parts > 1 ? min(k_first + part_depth, depth) : depth;
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M, column0 = KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const window window = {height, width};
    const KN_INDEX left_row = pixels;
    const int row_end = group_outputs;
    global const KN_STORED(KN_HALF_dy) *left_from = dy + (KN_INDEX)group * group_outputs * pixels;
    global const KN_STORED(KN_HALF_x) *right_from = x;
    KN_EACH_PLACE {
        const int column = column0 + KN_PLACE_COLUMN(q), c = column / taps, tap = column % taps;
        const int y = tap / filter_width * dilation_y, x = tap % filter_width * dilation_x;
        places[q].at = ((KN_INDEX)group * group_channels + c) * height * width + KN_OFFSET(y, x);
        places[q].y = column < columns ? y : KN_OUTSIDE;
        places[q].x = x;
    }
    KN_IMPLICIT_PRODUCT
    if (parts > 1) partials += (KN_INDEX)part * outputs * columns;
    KN_STORE_SUMS(dw, partials, row0, group_outputs, column0, columns, group * group_outputs, columns)
}
