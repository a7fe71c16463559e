/* The gradient of a convolution with respect to its weight, for many-thread devices: dw (K,C/groups,R,S) of dy
 * (N,K,P,Q) and x (N,C,H,W). As an implicit matrix product (conv/implicit_tile.cl): rows are the output
 * channels of a group, columns are (c,r,s), and the sum runs over the output pixels of all images.
 * Tiles and their defines: common/tile.cl.
 *
 * kn_conv_weight(dy, x, dw, partials, …)
 *   takes the sizes of kn_conv (conv/implicit.cl), with the same meaning. Work-groups of (KN_ITEMS,1,1), in
 *   number (ceil(channels / groups * R * S / KN_TILE_N), ceil(outputs / groups / KN_TILE_M), groups * parts).
 *   partials is (parts,K,C/groups,R,S). */
#include "common/tile.cl"
#include "common/sum_parts.cl"
#include "conv/implicit_tile.cl"

#define KN_PLACE_TABLE(k, at)                                                                                \
    const int image = (k) / pixels, pixel = (k) % pixels;                                                    \
    table_base[at] = (KN_INDEX)image * channels * height * width;                                            \
    table_left[at] = (KN_INDEX)image * outputs * pixels + pixel;                                             \
    table_y[at] = pixel / out_width * stride_y - pad_top;                                                    \
    table_x[at] = pixel % out_width * stride_x - pad_left;
#define KN_RESULT(sum, channel) KN_EPILOGUE(sum, channel, middle, inner)
#define KN_RESULT_COLUMN(column)                                                                             \
    const KN_INDEX middle = column / taps, inner = column % taps, first = column;

KN_WORK_GROUP kernel void kn_conv_weight(global const KN_T *restrict dy, global const KN_T *restrict x,
                                         global KN_T *restrict dw, global KN_A *restrict partials, int images,
                                         int channels, int height, int width, int outputs, int out_height,
                                         int out_width, int filter_height, int filter_width, int stride_y,
                                         int stride_x, int pad_top, int pad_left, int dilation_y,
                                         int dilation_x, int groups, int parts,
                                         int part_depth KN_EPILOGUE_PARAMETERS) {
    KN_LOCAL_MEMORY
    const int group = get_group_id(2) / parts, part = get_group_id(2) % parts;
    const int group_channels = channels / groups, group_outputs = outputs / groups;
    const int taps = filter_height * filter_width, columns = group_channels * taps;
    const int pixels = out_height * out_width, depth = images * pixels;
    const int k_first = part * part_depth, k_end = parts > 1 ? min(k_first + part_depth, depth) : depth;
    const int row0 = get_group_id(1) * KN_TILE_M, column0 = get_group_id(0) * KN_TILE_N;
    const window window = {height, width, 1, 1};
    place places[KN_ITEM_COLUMNS];
    for (int i = 0; i < KN_ITEM_COLUMNS; i++) {
        const int column = column0 + (get_local_id(0) + i * KN_ITEMS) % KN_TILE_N;
        const int c = column / taps, tap = column % taps;
        places[i].base = ((KN_INDEX)group * group_channels + c) * height * width;
        places[i].y = column < columns ? tap / filter_width * dilation_y : KN_OUTSIDE;
        places[i].x = tap % filter_width * dilation_x;
    }
    dy += (KN_INDEX)group * group_outputs * pixels;
    sums sums;
    KN_IMPLICIT_PRODUCT(dy, pixels, row0, group_outputs, x, window, places)
    if (parts > 1) partials += (KN_INDEX)part * outputs * columns;
    KN_STORE_SUMS(dw, partials, row0, group_outputs, column0, columns, group * group_outputs, columns)
}
