/* Convolutions, one work-item per result, for devices where no other kernel works correctly: y (N,K,P,Q) from x
 * (N,C,H,W) and weight (K,C/groups,R,S), and the gradients. No local memory, no vectors; sums are computed in runs to
 * limit rounding errors.
 *
 * Defines: KN_T and KN_A of common/types.cl, KN_HALF_x and so on of common/storage.cl.
 *
 * kn_conv_plain(x, weight, y, count, SIZES), kn_conv_data_plain(dy, weight, dx, count, SIZES),
 * kn_conv_weight_plain(dy, x, dw, count, SIZES)
 *   count results; SIZES are those of kn_conv (conv/implicit.cl). */
#include "common/storage.cl"
#include "common/types.cl"
#include "common/wanted.cl"

#define KN_SIZES                                                                                             \
    KN_INDEX count, int images, int channels, int height, int width, int outputs, int out_height,            \
        int out_width, int filter_height, int filter_width, int stride_y, int stride_x, int pad_top,         \
        int pad_left, int dilation_y, int dilation_x, int groups
#define KN_PLACE                                                                                             \
    const KN_INDEX i = get_global_id(0);                                                                     \
    if (i >= count) return;                                                                                  \
    const int group_channels = channels / groups, group_outputs = outputs / groups;

#if KN_WANTED(kn_conv_plain)
kernel void kn_conv_plain(global const KN_STORED(KN_HALF_x) *restrict x, global const KN_STORED(KN_HALF_weight) *restrict weight,
                          global KN_STORED(KN_HALF_y) *restrict y, KN_SIZES) {
    KN_PLACE
    const int q = i % out_width, p = i / out_width % out_height, k = i / out_width / out_height % outputs;
    const KN_INDEX image = i / out_width / out_height / outputs;
    KN_A sum = 0;
    for (int c = 0; c < group_channels; c++) {
        const KN_INDEX plane = image * channels + k / group_outputs * group_channels + c;
        KN_A run = 0;
        for (int r = 0; r < filter_height; r++)
            for (int s = 0; s < filter_width; s++) {
                const int v = p * stride_y - pad_top + r * dilation_y, u = q * stride_x - pad_left + s * dilation_x;
                if (v < 0 || v >= height || u < 0 || u >= width) continue;
                run += (KN_A)KN_READ_AS(KN_HALF_x, x + ((plane * height + v) * width + u)) *
                       (KN_A)KN_READ_AS(KN_HALF_weight, weight + ((((KN_INDEX)k * group_channels + c) * filter_height + r) * filter_width + s));
            }
        sum += run;
    }
    KN_WRITE_AS(KN_HALF_y, (KN_T)sum, y + i);
}
#endif

#if KN_WANTED(kn_conv_data_plain)
kernel void kn_conv_data_plain(global const KN_STORED(KN_HALF_dy) *restrict dy, global const KN_STORED(KN_HALF_weight) *restrict weight,
                               global KN_STORED(KN_HALF_dx) *restrict dx, KN_SIZES) {
    KN_PLACE
    const int u = i % width, v = i / width % height, c = i / width / height % channels;
    const KN_INDEX image = i / width / height / channels;
    KN_A sum = 0;
    for (int at = 0; at < group_outputs; at++) {
        const KN_INDEX k = c / group_channels * group_outputs + at, plane = image * outputs + k;
        KN_A run = 0;
        for (int r = 0; r < filter_height; r++)
            for (int s = 0; s < filter_width; s++) {
                const int above = v + pad_top - r * dilation_y, before = u + pad_left - s * dilation_x;
                if (above < 0 || before < 0 || above % stride_y || before % stride_x) continue;
                const int p = above / stride_y, q = before / stride_x;
                if (p >= out_height || q >= out_width) continue;
                run += (KN_A)KN_READ_AS(KN_HALF_dy, dy + ((plane * out_height + p) * out_width + q)) *
                       (KN_A)KN_READ_AS(KN_HALF_weight, weight + (((k * group_channels + c % group_channels) * filter_height + r) * filter_width + s));
            }
        sum += run;
    }
    KN_WRITE_AS(KN_HALF_dx, (KN_T)sum, dx + i);
}
#endif

#if KN_WANTED(kn_conv_weight_plain)
kernel void kn_conv_weight_plain(global const KN_STORED(KN_HALF_dy) *restrict dy, global const KN_STORED(KN_HALF_x) *restrict x,
                                 global KN_STORED(KN_HALF_dw) *restrict dw, KN_SIZES) {
    KN_PLACE
    const int s = i % filter_width, r = i / filter_width % filter_height;
    const int c = i / filter_width / filter_height % group_channels;
    const KN_INDEX k = i / filter_width / filter_height / group_channels;
    KN_A sum = 0;
    for (KN_INDEX image = 0; image < images; image++) {
        const KN_INDEX plane = image * channels + k / group_outputs * group_channels + c;
        KN_A all = 0;
        for (int p = 0; p < out_height; p++) {
            const int v = p * stride_y - pad_top + r * dilation_y;
            if (v < 0 || v >= height) continue;
            KN_A run = 0;
            for (int q = 0; q < out_width; q++) {
                const int u = q * stride_x - pad_left + s * dilation_x;
                if (u < 0 || u >= width) continue;
                run += (KN_A)KN_READ_AS(KN_HALF_dy, dy + (((image * outputs + k) * out_height + p) * out_width + q)) *
                       (KN_A)KN_READ_AS(KN_HALF_x, x + ((plane * height + v) * width + u));
            }
            all += run;
        }
        sum += all;
    }
    KN_WRITE_AS(KN_HALF_dw, (KN_T)sum, dw + i);
}
#endif
