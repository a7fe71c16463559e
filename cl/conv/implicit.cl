/* Convolution for many-thread devices: y (N,K,P,Q) from x (N,C,H,W) and weight (K,C/groups,R,S), and an
 * epilogue. The portable variant: an implicit matrix product, whose right side is never stored
 * (conv/implicit_tile.cl): rows are the output channels of a group, columns the output pixels of all images, and the
 * sum runs over (c,r,s). Tiles and their defines: common/tile.cl.
 *
 * kn_conv(x, weight, y, partials, images, channels, height, width, outputs, out_height, out_width,
 *         filter_height, filter_width, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups,
 *         parts, part_depth, taps_multiplier, width_multiplier, EPILOGUE)
 *   channels and outputs are those of all groups; the multipliers are those of R * S and of S
 *   (common/divide.cl). Work-groups of (KN_ITEMS,1,1), numbering
 *   (ceil(images * P * Q / KN_TILE_N), ceil(outputs / groups / KN_TILE_M), groups * parts).
 *   With parts > 1, part p sums k from p * part_depth, a multiple of KN_TILE_K, and stores its partial sums in
 *   partials (parts,N,K,P,Q), for kn_sum_parts (common/sum_parts.cl), which has the epilogue. */
#define KN_LEFT_HALF KN_HALF_weight
#define KN_RIGHT_HALF KN_HALF_x
#define KN_RESULT_HALF KN_HALF_y
#include "common/tile.cl"
#include "common/sum_parts.cl"
#include "conv/implicit_tile.cl"

#define KN_WRITE_ENTRY(k)                                                                                    \
    const int c = divide(k, taps, taps_multiplier), tap = (k) - c * taps;                                    \
    const int tap_y = divide(tap, filter_width, width_multiplier), tap_x = tap - tap_y * filter_width;       \
    entry.y = tap_y * dilation_y;                                                                            \
    entry.x = tap_x * dilation_x;                                                                            \
    entry.at = (KN_INDEX)c * height * width + KN_OFFSET(entry.y, entry.x);                                   \
    entry.left = k;                                                                                          \
    KN_SET_TAP(tap)
#define KN_RESULT(sum, channel, l) KN_EPILOGUE(sum, outer, channel, inner + (l))
#define KN_RESULT_COLUMN(column)                                                                             \
    const KN_INDEX outer = column / pixels, inner = column % pixels;                                         \
    const KN_INDEX first = outer * outputs * pixels + inner;

KN_WORK_GROUP kernel void kn_conv(global const KN_STORED(KN_HALF_x) *restrict x,
                                  global const KN_STORED(KN_HALF_weight) *restrict weight,
                                  global KN_STORED(KN_HALF_y) *restrict y, global KN_A *restrict partials,
                                  int images, int channels, int height, int width, int outputs, int out_height,
                                  int out_width, int filter_height, int filter_width, int stride_y,
                                  int stride_x, int pad_top, int pad_left, int dilation_y, int dilation_x,
                                  int groups, int parts, int part_depth, uint taps_multiplier,
                                  uint width_multiplier KN_EPILOGUE_PARAMETERS) {
    KN_LOCAL_MEMORY
    const int group = KN_GROUP(2, 1) / parts, part = KN_GROUP(2, 1) % parts;
    const int group_channels = channels / groups, group_outputs = outputs / groups;
    const int taps = filter_height * filter_width, depth = group_channels * taps;
    const int k_first = part * part_depth, k_end = parts > 1 ? min(k_first + part_depth, depth) : depth;
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M;
    const KN_INDEX column0 = (KN_INDEX)KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const KN_INDEX pixels = (KN_INDEX)out_height * out_width, columns = images * pixels;
    const window window = {height, width};
    const KN_INDEX left_row = depth;
    const int row_end = group_outputs;
    global const KN_STORED(KN_HALF_weight) *left_from = weight + (KN_INDEX)group * group_outputs * depth;
    global const KN_STORED(KN_HALF_x) *right_from = x;
    KN_EACH_PLACE {
        const KN_INDEX column = column0 + KN_PLACE_COLUMN(q), image = column / pixels;
        const int pixel = column % pixels;
        places[q].y = pixel / out_width * stride_y - pad_top;
        places[q].x = pixel % out_width * stride_x - pad_left;
        places[q].at = (image * channels + group * group_channels) * height * width +
                       KN_OFFSET(places[q].y, places[q].x);
        set_taps(&places[q], filter_height, filter_width, dilation_y, dilation_x, window);
        if (column >= columns) places[q].y = KN_OUTSIDE;
    }
    KN_IMPLICIT_PRODUCT
    if (parts > 1) partials += part * columns * outputs;
    KN_STORE_SUMS(y, partials, row0, group_outputs, column0, columns, group * group_outputs, pixels)
}
