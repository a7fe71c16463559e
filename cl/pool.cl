/* Pooling over windows of images: maxima, averages, and their gradients. Each gradient gathers: a pixel looks
 * at the windows that it lies in, so that nothing is added up by several work-items.
 *
 * A plane is one image and one channel, or with KN_BLOCK lanes one image and one block of channels (the
 * blocked layout): x is (planes,H,W,KN_BLOCK), y is (planes,P,Q,KN_BLOCK).
 *
 * Defines, with their defaults:
 *   KN_BLOCK 1         channels side by side: 1 (plain layout), 4, 8 or 16
 *   KN_T float         type of the numbers
 *   KN_A KN_T          type of sums
 *   KN_PLACE uchar     type of places in a window (row * window_x + column); int for windows above 256
 *   KN_DILATION_Y 1, KN_DILATION_X 1   from one tap of a window to the next
 *   KN_ADAPTIVE 0      windows share the image: the first of P rows of windows reads rows 0 to H / P, rounded up
 *   KN_INDEX int       type of offsets; long for values above 2^31 elements
 *   KN_EPILOGUE_PARAMETERS and KN_EPILOGUE(v, outer, middle, inner), with lanes KN_EPILOGUE_VECTOR: pointwise
 *                      work on each result, which lies at (image, channel, pixel)
 *
 * All kernels end in (total, share, blocks, height, width, out_height, out_width, window_y, window_x,
 * stride_y, stride_x, pad_top, pad_left, bottom, right, EPILOGUE): work-item i makes the pixels from i * share on, of
 * `total`, lanes not counted; an image has `blocks` planes. Many threads take a share of 1; one share a core
 * suits devices with few. bottom and right are where the padding ends: height and width and what is added behind.
 *
 * kn_max_pool(x, y, places, …)
 *   places may be null. NaN wins, as does the first of equal ones.
 * kn_max_pool_data(dy, places, dx, …)
 * kn_average_pool(x, y, skip_padding, …)
 *   divides by the window up to the end of the padding, or by what of it lies inside the image.
 * kn_average_pool_data(dy, dx, skip_padding, …) */
#include "common/wanted.cl"
#ifndef KN_BLOCK
#define KN_BLOCK 1
#endif
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A KN_T
#endif
#ifndef KN_PLACE
#define KN_PLACE uchar
#endif
#ifndef KN_DILATION_Y
#define KN_DILATION_Y 1
#endif
#ifndef KN_DILATION_X
#define KN_DILATION_X 1
#endif
#ifndef KN_ADAPTIVE
#define KN_ADAPTIVE 0
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE(v, outer, middle, inner) (v)
#define KN_EPILOGUE_VECTOR(v, outer, middle, inner) (v)
#endif

#define KN_JOIN_(a, b) a##b
#define KN_JOIN(a, b) KN_JOIN_(a, b)
#if KN_BLOCK == 1
#define KN_LANES(type) type
#define KN_LOAD(at, from) (from)[at]
#define KN_STORE(value, at, to) (to)[at] = (value)
#else
#define KN_LANES(type) KN_JOIN(type, KN_BLOCK)
#define KN_LOAD(at, from) KN_JOIN(vload, KN_BLOCK)(at, from)
#define KN_STORE(value, at, to) KN_JOIN(vstore, KN_BLOCK)(value, at, to)
#endif
#define KN_TO(type, value) KN_JOIN(convert_, KN_LANES(type))(value)
typedef KN_LANES(KN_A) lanes;
typedef KN_LANES(int) lane_places;

#define KN_WINDOWS                                                                                           \
    KN_INDEX total, KN_INDEX share, int blocks, int height, int width, int out_height, int out_width,        \
        int window_y, int window_x, int stride_y, int stride_x, int pad_top, int pad_left, int bottom,       \
        int right KN_EPILOGUE_PARAMETERS
/* The pixels of a share, row by row: those of [at, row_end) lie in row `row` of plane `plane`, from `column`
 * on. */
#define KN_EACH_ROW(at)                                                                                      \
    const KN_INDEX start = get_global_id(0) * share, stop = min(start + share, total);                       \
    for (KN_INDEX at = start, row_end; at < stop; at = row_end)
#define KN_ROW(at, rows, columns)                                                                            \
    const KN_INDEX plane = at / columns / rows;                                                              \
    const int row = at / columns % rows, image = plane / blocks, block = plane % blocks;                     \
    int column = at % columns;                                                                               \
    row_end = min(stop, at + columns - column);

/* Windows that share an image of `size`: where one of `count` begins, and where it ends. */
#define KN_SHARE_BEGIN(place, size, count) ((int)((long)(place) * (size) / (count)))
#define KN_SHARE_END(place, size, count) ((int)(((long)((place) + 1) * (size) + (count)-1) / (count)))
/* The taps of a window that lie inside reach from `first` on, in steps of the dilation, and end before this. */
#define KN_FIRST_TAP(begin, dilation) ((begin) < 0 ? (begin) + (-(begin) + (dilation)-1) / (dilation) * (dilation) : (begin))
#define KN_WINDOW_Y ((window_y - 1) * KN_DILATION_Y + 1)
#define KN_WINDOW_X ((window_x - 1) * KN_DILATION_X + 1)

/* The window of a pixel of y, cut off at the borders of the image: [y0,y1) x [x0,x1). */
#if KN_ADAPTIVE
#define KN_WINDOW_ROWS                                                                                       \
    const int top = KN_SHARE_BEGIN(row, height, out_height), y0 = top;                                       \
    const int y1 = KN_SHARE_END(row, height, out_height);
#define KN_WINDOW_COLUMNS                                                                                    \
    const int left = KN_SHARE_BEGIN(column, width, out_width), x0 = left;                                    \
    const int x1 = KN_SHARE_END(column, width, out_width);
#else
#define KN_WINDOW_ROWS                                                                                       \
    const int top = row * stride_y - pad_top, y0 = KN_FIRST_TAP(top, KN_DILATION_Y);                         \
    const int y1 = min(top + KN_WINDOW_Y, height);
#define KN_WINDOW_COLUMNS                                                                                    \
    const int left = column * stride_x - pad_left, x0 = KN_FIRST_TAP(left, KN_DILATION_X);                   \
    const int x1 = min(left + KN_WINDOW_X, width);
#endif

/* The windows that a pixel of the image lies in: [p0,p1) x [q0,q1), and what the next pixel of the row changes. Pixels are
 * counted from the padded corner. */
#if KN_ADAPTIVE
#define KN_COLUMNS_AROUND                                                                                    \
    q0 = KN_SHARE_BEGIN(column, out_width, width);                                                           \
    q1 = KN_SHARE_END(column, out_width, width);
#define KN_ROWS_AROUND                                                                                       \
    const int y = row, p0 = KN_SHARE_BEGIN(row, out_height, height);                                         \
    const int p1 = KN_SHARE_END(row, out_height, height);                                                    \
    int x = column, q0, q1;                                                                                  \
    KN_COLUMNS_AROUND
#define KN_COLUMNS_ON                                                                                        \
    x++;                                                                                                     \
    column++;                                                                                                \
    KN_COLUMNS_AROUND
#define KN_TOP(p) KN_SHARE_BEGIN(p, height, out_height)
#define KN_LEFT(q) KN_SHARE_BEGIN(q, width, out_width)
#else
#define KN_ROWS_AROUND                                                                                       \
    const int y = row + pad_top, p0 = y < KN_WINDOW_Y ? 0 : (y - KN_WINDOW_Y) / stride_y + 1;                \
    const int p1 = min(y / stride_y + 1, out_height);                                                        \
    int x = column + pad_left, q0 = x < KN_WINDOW_X ? 0 : (x - KN_WINDOW_X) / stride_x + 1;                  \
    int q1 = min(x / stride_x + 1, out_width);
#define KN_COLUMNS_ON                                                                                        \
    x++;                                                                                                     \
    column++;                                                                                                \
    q0 += x >= q0 * stride_x + KN_WINDOW_X;                                                                  \
    q1 += q1 < out_width && x >= q1 * stride_x;
#define KN_TOP(p) ((p)*stride_y)
#define KN_LEFT(q) ((q)*stride_x)
#endif

#if KN_BLOCK == 1
#define KN_RESULT(v, pixel) KN_EPILOGUE(v, image, block, pixel)
#else
#define KN_RESULT(v, pixel) KN_EPILOGUE_VECTOR(v, image, block *KN_BLOCK, pixel)
#endif
#define KN_STORE_Y(v, at) KN_STORE(KN_TO(KN_T, KN_RESULT(v, (KN_INDEX)row *out_width + column)), at, y)
#define KN_STORE_DX(v, at) KN_STORE(KN_TO(KN_T, KN_RESULT(v, (KN_INDEX)row *width + column)), at, dx)

#if KN_WANTED(kn_max_pool)
kernel void kn_max_pool(global const KN_T *restrict x, global KN_T *restrict y,
                        global KN_PLACE *restrict places, KN_WINDOWS) {
    KN_EACH_ROW(first) {
        KN_ROW(first, out_height, out_width)
        KN_WINDOW_ROWS
        for (KN_INDEX i = first; i < row_end; i++, column++) {
            KN_WINDOW_COLUMNS
            lanes most = -INFINITY;
            lane_places place = (y0 - top) / KN_DILATION_Y * window_x + (x0 - left) / KN_DILATION_X;
            for (int v = y0; v < y1; v += KN_DILATION_Y)
                for (int u = x0; u < x1; u += KN_DILATION_X) {
                    const lanes next = KN_TO(KN_A, KN_LOAD((plane * height + v) * width + u, x));
                    const lane_places here = (v - top) / KN_DILATION_Y * window_x + (u - left) / KN_DILATION_X;
                    place = ((next > most) | (next != next)) ? here : place;
                    most = ((next > most) | (next != next)) ? next : most;
                }
            KN_STORE_Y(most, i);
            if (places) KN_STORE(KN_TO(KN_PLACE, place), i, places);
        }
    }
}
#endif

#if KN_WANTED(kn_max_pool_data)
kernel void kn_max_pool_data(global const KN_T *restrict dy, global const KN_PLACE *restrict places,
                             global KN_T *restrict dx, KN_WINDOWS) {
    KN_EACH_ROW(first) {
        KN_ROW(first, height, width)
        KN_ROWS_AROUND
        for (KN_INDEX i = first; i < row_end; i++) {
            lanes sum = 0;
            for (int p = p0; p < p1; p++)
                for (int q = q0; q < q1; q++) {
                    const KN_INDEX from = (plane * out_height + p) * out_width + q;
                    const int down = y - KN_TOP(p), across = x - KN_LEFT(q);
                    if (down % KN_DILATION_Y || across % KN_DILATION_X) continue;
                    const lane_places here = down / KN_DILATION_Y * window_x + across / KN_DILATION_X;
                    const lanes zero = 0;
                    sum += KN_TO(int, KN_LOAD(from, places)) == here ? KN_TO(KN_A, KN_LOAD(from, dy)) : zero;
                }
            KN_STORE_DX(sum, i);
            KN_COLUMNS_ON
        }
    }
}
#endif

#if KN_WANTED(kn_average_pool)
kernel void kn_average_pool(global const KN_T *restrict x, global KN_T *restrict y, int skip_padding,
                            KN_WINDOWS) {
    KN_EACH_ROW(first) {
        KN_ROW(first, out_height, out_width)
        KN_WINDOW_ROWS
        for (KN_INDEX i = first; i < row_end; i++, column++) {
            KN_WINDOW_COLUMNS
            lanes sum = 0;
            for (int v = y0; v < y1; v++)
                for (int u = x0; u < x1; u++)
                    sum += KN_TO(KN_A, KN_LOAD((plane * height + v) * width + u, x));
            const int all = (min(top + window_y, bottom) - top) * (min(left + window_x, right) - left);
            const int count = skip_padding ? (y1 - y0) * (x1 - x0) : all;
            sum /= (KN_A)count;
            KN_STORE_Y(sum, i);
        }
    }
}
#endif

#if KN_WANTED(kn_average_pool_data)
kernel void kn_average_pool_data(global const KN_T *restrict dy, global KN_T *restrict dx, int skip_padding,
                                 KN_WINDOWS) {
    KN_EACH_ROW(first) {
        KN_ROW(first, height, width)
        KN_ROWS_AROUND
        for (KN_INDEX i = first; i < row_end; i++) {
            lanes sum = 0;
            for (int p = p0; p < p1; p++)
                for (int q = q0; q < q1; q++) {
#if KN_ADAPTIVE
                    const int rows = KN_SHARE_END(p, height, out_height) - KN_TOP(p);
                    const int count = rows * (KN_SHARE_END(q, width, out_width) - KN_LEFT(q));
#else
                    const int top = p * stride_y - pad_top, left = q * stride_x - pad_left;
                    const int rows = min(top + window_y, height) - max(top, 0);
                    const int columns = min(left + window_x, width) - max(left, 0);
                    const int all = (min(top + window_y, bottom) - top) * (min(left + window_x, right) - left);
                    const int count = skip_padding ? rows * columns : all;
#endif
                    sum += KN_TO(KN_A, KN_LOAD((plane * out_height + p) * out_width + q, dy)) / (KN_A)count;
                }
            KN_STORE_DX(sum, i);
            KN_COLUMNS_ON
        }
    }
}
#endif
