/* The gradient of a convolution with respect to its data, for many-thread devices: dx (N,C,H,W) from dy (N,K,P,Q) and
 * weight (K,C/groups,R,S). As an implicit matrix product (conv/implicit_tile.cl): rows are the channels of a group,
 * columns pixels of all images of dx, and the sum runs over (k,r,s). Pixels whose distance from each other is a
 * multiple of the stride use the same taps of the filter: they are a phase of stride_y * stride_x, in which the
 * gradient is that of a dense convolution, so that nothing is multiplied by 0. Tiles and their defines:
 * common/tile.cl; those of phases: conv/phase.cl.
 *
 * kn_conv_data(dy, weight, dx, partials, …, parts, part_depth, EPILOGUE)
 *   takes the sizes of kn_conv (conv/implicit.cl), with the same meaning: channels, height and width are
 *   those of dx. Work-groups of (KN_ITEMS,1,1), numbering
 *   (ceil(images * ceil(H / stride_y) * ceil(W / stride_x) / KN_TILE_N), ceil(channels / groups / KN_TILE_M),
 *   groups * stride_y * stride_x * parts). partials is (parts,N,C,H,W). */
#define KN_LEFT_HALF KN_HALF_weight
#define KN_RIGHT_HALF KN_HALF_dy
#define KN_RESULT_HALF KN_HALF_dx
#include "common/tile.cl"
#include "common/sum_parts.cl"
#include "conv/implicit_tile.cl"
#include "conv/phase.cl"

#define KN_WRITE_ENTRY(k)                                                                                    \
    const int output = divide_short(k, taps_multiplier), tap = (k) - output * taps;                          \
    const int tap_y = divide_short(tap, width_multiplier), tap_x = tap - tap_y * in_x.taps;                  \
    entry.y = -tap_y * in_y.distance;                                                                        \
    entry.x = -tap_x * in_x.distance;                                                                        \
    entry.at = (KN_INDEX)output * out_height * out_width + KN_OFFSET(entry.y, entry.x);                      \
    entry.left = (KN_INDEX)output * group_channels * left_row +                                              \
                 (in_y.tap + tap_y * in_y.tap_step) * filter_width + in_x.tap + tap_x * in_x.tap_step;       \
    KN_SET_TAP(tap)
#define KN_RESULT(sum, channel, l) KN_EPILOGUE(sum, outer, channel, inner + (l))
#define KN_RESULT_COLUMN(column)                                                                             \
    const KN_INDEX outer = column / per_image, pixel = column % per_image;                                   \
    const KN_INDEX inner = (in_y.first + pixel / per_row * KN_STRIDE(stride_y)) * width + in_x.first +       \
                           pixel % per_row * KN_STRIDE(stride_x);                                            \
    const KN_INDEX first = outer * channels * plane + inner;

KN_WORK_GROUP kernel void kn_conv_data(global const KN_STORED(KN_HALF_dy) *restrict dy,
                                       global const KN_STORED(KN_HALF_weight) *restrict weight,
                                       global KN_STORED(KN_HALF_dx) *restrict dx, global KN_A *restrict partials,
                                       int images, int channels, int height, int width, int outputs, int out_height,
                                       int out_width, int filter_height, int filter_width, int stride_y,
                                       int stride_x, int pad_top, int pad_left, int dilation_y,
                                       int dilation_x, int groups, int parts,
                                       int part_depth KN_EPILOGUE_PARAMETERS) {
    KN_LOCAL_MEMORY
    const int part = KN_GROUP(2, 1) % parts, phases = KN_STRIDE(stride_y) * KN_STRIDE(stride_x);
    const int group = KN_GROUP(2, 1) / parts / phases, rest = KN_GROUP(2, 1) / parts % phases;
    const phase in_y = find_phase(rest / KN_STRIDE(stride_x), KN_STRIDE(stride_y), pad_top, dilation_y,
                                  filter_height, height);
    const phase in_x = find_phase(rest % KN_STRIDE(stride_x), KN_STRIDE(stride_x), pad_left, dilation_x,
                                  filter_width, width);
    const int group_channels = channels / groups, group_outputs = outputs / groups;
    const int taps = in_y.taps * in_x.taps, depth = group_outputs * taps;
    const uint taps_multiplier = multiplier_of(taps), width_multiplier = multiplier_of(in_x.taps);
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M;
    const KN_INDEX column0 = (KN_INDEX)KN_GROUP(0, KN_ITEMS) * KN_TILE_N, plane = (KN_INDEX)height * width;
    const KN_INDEX pixels = (KN_INDEX)in_y.count * in_x.count, columns = images * pixels;
    /* Nonzero divisors also for a phase without pixels. */
    const KN_INDEX per_image = max(pixels, (KN_INDEX)1), per_row = max(in_x.count, 1);
    /* If another phase has more pixels than this one, there is nothing to sum. */
    const int k_first = part * part_depth, k_last = parts > 1 ? min(k_first + part_depth, depth) : depth;
    const int k_end = column0 < columns ? k_last : k_first;
    const window window = {out_height, out_width};
    const KN_INDEX left_row = filter_height * filter_width;
    const int row_end = group_channels;
    global const KN_STORED(KN_HALF_dy) *right_from = dy;
    global const KN_STORED(KN_HALF_weight) *left_from =
        weight + (KN_INDEX)group * group_outputs * group_channels * left_row;
    KN_EACH_PLACE {
        const KN_INDEX column = column0 + KN_PLACE_COLUMN(q), image = column / per_image;
        const int pixel = column - image * pixels;
        places[q].y = pixel / (int)per_row + in_y.base;
        places[q].x = pixel % (int)per_row + in_x.base;
        places[q].at = (image * outputs + group * group_outputs) * out_height * out_width +
                       KN_OFFSET(places[q].y, places[q].x);
        set_taps(&places[q], in_y.taps, in_x.taps, -in_y.distance, -in_x.distance, window);
        if (column >= columns) places[q].y = KN_OUTSIDE;
    }
    KN_IMPLICIT_PRODUCT
    if (parts > 1) partials += part * images * channels * plane;
    KN_STORE_SUMS(dx, partials, row0, group_channels, column0, columns, group * group_channels, plane)
}
