/* Depthwise convolution, where each channel has one filter of its own: y (N,C,P,Q) of x (N,C,H,W) and weight
 * (C,1,R,S), its gradients, and an epilogue. It moves bytes more than it calculates, so a work-item simply
 * makes pixels. A plane is one image and one channel: x is (planes,H,W), y is (planes,P,Q).
 *
 * Defines, with their defaults:
 *   KN_ITEMS 1     work-items that share a sum of kn_depthwise_weight; a power of two
 *   KN_T float     type of the numbers
 *   KN_A KN_T      type of sums
 *   KN_INDEX int   type of offsets; long for values above 2^31 elements
 *   KN_EPILOGUE_PARAMETERS and KN_EPILOGUE(v, outer, middle, inner): pointwise work on each result, which
 * lies at (image, channel, pixel)
 *
 * SIZES: channels, height, width, out_height, out_width, filter_height, filter_width, stride_y, stride_x,
 * pad_top, pad_left, dilation_y, dilation_x.
 *
 * kn_depthwise(x, weight, y, total, share, SIZES, EPILOGUE)
 *   work-item i makes the pixels from i * share on, of `total`.
 * kn_depthwise_data(dy, weight, dx, total, share, SIZES, EPILOGUE)
 *   likewise.
 * kn_depthwise_weight(dy, x, shares, images, part, SIZES)
 *   work-groups (KN_ITEMS,1), of which (taps * parts, channels): a part has the pixels of `part` images.
 * shares is (parts,channels,taps). kn_depthwise_sum(shares, dw, elements, parts) one work-item per element of
 * dw (C,1,R,S): adds the parts in order. */
#ifndef KN_ITEMS
#define KN_ITEMS 1
#endif
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A KN_T
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE(v, outer, middle, inner) (v)
#endif

#define KN_JOIN_(a, b) a##b
#define KN_JOIN(a, b) KN_JOIN_(a, b)
#define KN_TO_T KN_JOIN(convert_, KN_T)
#define KN_READ(at, from) KN_JOIN(convert_, KN_A)((from)[at])
#define KN_RESULT(v, pixel) KN_TO_T(KN_EPILOGUE(v, at.image, at.channel, pixel))

#define KN_SIZES                                                                                             \
    int channels, int height, int width, int out_height, int out_width, int filter_height, int filter_width, \
        int stride_y, int stride_x, int pad_top, int pad_left, int dilation_y, int dilation_x

/* The first tap whose place is not below 0, and the first whose place is at `size` or beyond; tap 0 is at
 * `place`. Few pixels, at the borders, need a division. */
static inline int first_tap(int place, int step) {
    return place < 0 ? (step - 1 - place) / step : 0;
}
static inline int end_tap(int place, int step, int size, int taps) {
    if (place + (taps - 1) * step < size) return taps;
    return place < size ? (size - place + step - 1) / step : 0;
}

/* A pixel, and where the next one is. */
typedef struct spot {
    KN_INDEX plane;
    int image, channel, row, column;
} spot;
static inline spot spot_begin(KN_INDEX i, int channels, int height, int width) {
    spot spot;
    spot.column = i % width;
    spot.row = i / width % height;
    spot.plane = i / width / height;
    spot.channel = spot.plane % channels;
    spot.image = spot.plane / channels;
    return spot;
}
static inline void spot_on(spot *spot, int channels, int height, int width) {
    if (++spot->column < width) return;
    spot->column = 0;
    if (++spot->row < height) return;
    spot->row = 0;
    spot->plane++;
    if (++spot->channel < channels) return;
    spot->channel = 0;
    spot->image++;
}

kernel void kn_depthwise(global const KN_T *restrict x, global const KN_T *restrict weight,
                         global KN_T *restrict y, KN_INDEX total, KN_INDEX share,
                         KN_SIZES KN_EPILOGUE_PARAMETERS) {
    const KN_INDEX start = get_global_id(0) * share, stop = min(start + share, total);
    spot at = spot_begin(start, channels, out_height, out_width);
    for (KN_INDEX i = start; i < stop; i++, spot_on(&at, channels, out_height, out_width)) {
        const int top = at.row * stride_y - pad_top, left = at.column * stride_x - pad_left;
        const int r0 = first_tap(top, dilation_y), r1 = end_tap(top, dilation_y, height, filter_height);
        const int s0 = first_tap(left, dilation_x), s1 = end_tap(left, dilation_x, width, filter_width);
        KN_A sum = 0;
        for (int r = r0; r < r1; r++) {
            const KN_INDEX from = (at.plane * height + top + r * dilation_y) * width + left;
            for (int s = s0; s < s1; s++)
                sum += KN_READ(from + s * dilation_x, x) *
                       KN_READ((at.channel * filter_height + r) * filter_width + s, weight);
        }
        y[i] = KN_RESULT(sum, (KN_INDEX)at.row * out_width + at.column);
    }
}

/* Without dilation the taps that reach a pixel are `stride` apart, and the pixels that they come from side by
 * side; otherwise each tap is tried. */
kernel void kn_depthwise_data(global const KN_T *restrict dy, global const KN_T *restrict weight,
                              global KN_T *restrict dx, KN_INDEX total, KN_INDEX share,
                              KN_SIZES KN_EPILOGUE_PARAMETERS) {
    const KN_INDEX start = get_global_id(0) * share, stop = min(start + share, total);
    const int jump_y = dilation_y == 1 ? stride_y : 1, jump_x = dilation_x == 1 ? stride_x : 1;
    spot at = spot_begin(start, channels, height, width);
    for (KN_INDEX i = start; i < stop; i++, spot_on(&at, channels, height, width)) {
        const int v = at.row + pad_top, u = at.column + pad_left;
        const int r0 = jump_y == 1 ? 0 : v % stride_y, s0 = jump_x == 1 ? 0 : u % stride_x;
        int p = jump_y == 1 ? v : v / stride_y;
        const int q0 = jump_x == 1 ? u : u / stride_x;
        KN_A sum = 0;
        for (int r = r0; r < filter_height; r += jump_y, p--) {
            if (dilation_y > 1) {
                const int above = v - r * dilation_y;
                p = above < 0 || above % stride_y != 0 ? -1 : above / stride_y;
            }
            if (p < 0 || p >= out_height) continue;
            int q = q0;
            for (int s = s0; s < filter_width; s += jump_x, q--) {
                if (dilation_x > 1) {
                    const int before = u - s * dilation_x;
                    q = before < 0 || before % stride_x != 0 ? -1 : before / stride_x;
                }
                if (q < 0 || q >= out_width) continue;
                sum += KN_READ((at.plane * out_height + p) * out_width + q, dy) *
                       KN_READ((at.channel * filter_height + r) * filter_width + s, weight);
            }
        }
        dx[i] = KN_RESULT(sum, (KN_INDEX)at.row * width + at.column);
    }
}

__attribute__((reqd_work_group_size(KN_ITEMS, 1, 1))) kernel void
kn_depthwise_weight(global const KN_T *restrict dy, global const KN_T *restrict x,
                    global KN_A *restrict shares, int images, int part, KN_SIZES) {
    const int taps = filter_height * filter_width, tap = get_group_id(0) % taps,
              share = get_group_id(0) / taps;
    const int channel = get_group_id(1), item = get_local_id(0);
    /* Pixel (p, q) of dy meets pixel (p * stride_y + off_y, q * stride_x + off_x) of x, where that exists. */
    const int off_y = tap / filter_width * dilation_y - pad_top,
              off_x = tap % filter_width * dilation_x - pad_left;
    const int p0 = first_tap(off_y, stride_y), p1 = end_tap(off_y, stride_y, height, out_height);
    const int q0 = first_tap(off_x, stride_x), q1 = end_tap(off_x, stride_x, width, out_width);
    KN_A sum = 0;
    for (int image = share * part; image < min((share + 1) * part, images); image++) {
        const KN_INDEX plane = (KN_INDEX)image * channels + channel;
        for (int p = p0; p < p1; p++) {
            const KN_INDEX to = (plane * out_height + p) * out_width;
            const KN_INDEX from = (plane * height + p * stride_y + off_y) * width + off_x;
            KN_A row = 0;
            for (int q = q0 + item; q < q1; q += KN_ITEMS)
                row += KN_READ(to + q, dy) * KN_READ(from + q * stride_x, x);
            sum += row;
        }
    }
#if KN_ITEMS > 1
    local KN_A sums[KN_ITEMS];
    for (int reach = KN_ITEMS / 2; reach > 0; reach /= 2) {
        if (item >= reach && item < 2 * reach) sums[item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < reach) sum += sums[item + reach];
    }
#endif
    if (item == 0) shares[((KN_INDEX)share * channels + channel) * taps + tap] = sum;
}

kernel void kn_depthwise_sum(global const KN_A *restrict shares, global KN_T *restrict dw, int elements,
                             int parts) {
    const int i = get_global_id(0);
    if (i >= elements) return;
    KN_A sum = 0;
    for (int part = 0; part < parts; part++)
        sum += shares[(KN_INDEX)part * elements + i];
    dw[i] = KN_TO_T(sum);
}
