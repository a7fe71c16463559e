/* The gradient of a convolution with respect to its data, for many-thread devices: dx (N,C,H,W) of dy (N,K,P,Q) and
 * weight (K,C/groups,R,S). As an implicit matrix product (conv/implicit_tile.cl): rows are the channels
 * of a group, columns the pixels of all images of dx, and the sum runs over (k,r,s).
 * Tiles and their defines: common/tile.cl; KN_STRIDED 0: 1 where a stride is above 1.
 *
 * kn_conv_data(dy, weight, dx, partials, …)
 *   takes the sizes of kn_conv (conv/implicit.cl), with the same meaning: channels, height and width are
 *   those of dx. Work-groups of (KN_ITEMS,1,1), in number
 *   (ceil(images * H * W / KN_TILE_N), ceil(channels / groups / KN_TILE_M), groups * parts).
 *   partials is (parts,N,C,H,W). */
#include "common/tile.cl"
#include "common/sum_parts.cl"
#include "conv/implicit_tile.cl"

#define KN_PLACE_TABLE(k, at)                                                                                \
    const int output = (k) / taps, tap = (k) % taps;                                                         \
    table_base[at] = (KN_INDEX)output * out_height * out_width;                                              \
    table_left[at] = (KN_INDEX)output * group_channels * taps + tap;                                         \
    table_y[at] = -(tap / filter_width * dilation_y);                                                        \
    table_x[at] = -(tap % filter_width * dilation_x);
#define KN_RESULT(sum, channel) KN_EPILOGUE(sum, outer, channel, inner)
#define KN_RESULT_COLUMN(column)                                                                             \
    const KN_INDEX outer = column / pixels, inner = column % pixels;                                         \
    const KN_INDEX first = outer * channels * pixels + inner;

KN_WORK_GROUP kernel void kn_conv_data(global const KN_T *restrict dy, global const KN_T *restrict weight,
                                       global KN_T *restrict dx, global KN_A *restrict partials, int images,
                                       int channels, int height, int width, int outputs, int out_height,
                                       int out_width, int filter_height, int filter_width, int stride_y,
                                       int stride_x, int pad_top, int pad_left, int dilation_y,
                                       int dilation_x, int groups, int parts,
                                       int part_depth KN_EPILOGUE_PARAMETERS) {
    KN_LOCAL_MEMORY
    const int group = get_group_id(2) / parts, part = get_group_id(2) % parts;
    const int group_channels = channels / groups, group_outputs = outputs / groups;
    const int taps = filter_height * filter_width, depth = group_outputs * taps;
    const int k_first = part * part_depth, k_end = parts > 1 ? min(k_first + part_depth, depth) : depth;
    const int row0 = get_group_id(1) * KN_TILE_M;
    const KN_INDEX column0 = (KN_INDEX)get_group_id(0) * KN_TILE_N;
    const KN_INDEX pixels = (KN_INDEX)height * width, columns = images * pixels;
    const window window = {out_height, out_width, stride_y, stride_x};
    place places[KN_ITEM_COLUMNS];
    for (int c = 0; c < KN_ITEM_COLUMNS; c++) {
        const KN_INDEX column = column0 + (get_local_id(0) + c * KN_ITEMS) % KN_TILE_N;
        const KN_INDEX image = column / pixels;
        const int pixel = column % pixels;
        places[c].base = (image * outputs + group * group_outputs) * out_height * out_width;
        places[c].y = column < columns ? pixel / width + pad_top : KN_OUTSIDE;
        places[c].x = pixel % width + pad_left;
    }
    weight += (KN_INDEX)group * group_outputs * group_channels * taps;
    sums sums;
    KN_IMPLICIT_PRODUCT(weight, taps, row0, group_channels, dy, window, places)
    if (parts > 1) partials += part * columns * channels;
    KN_STORE_SUMS(dx, partials, row0, group_channels, column0, columns, group * group_channels, pixels)
}
