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
 *   KN_INDEX int       type of offsets; long for values above 2^31 elements
 *   KN_EPILOGUE_PARAMETERS and KN_EPILOGUE(v, outer, middle, inner), with lanes KN_EPILOGUE_VECTOR: pointwise
 *                      work on each result, which lies at (image, channel, pixel)
 *
 * All kernels end in (total, share, blocks, height, width, out_height, out_width, window_y, window_x,
 * stride_y, stride_x, pad_top, pad_left, EPILOGUE): work-item i makes the pixels from i * share on, of
 * `total`, lanes not counted; an image has `blocks` planes. Many threads take a share of 1; one share a core
 * suits devices with few.
 *
 * kn_max_pool(x, y, places, …)
 *   places may be null. NaN wins, as does the first of equal ones.
 * kn_max_pool_data(dy, places, dx, …)
 * kn_average_pool(x, y, skip_padding, …)
 *   divides by the window, or by what of it lies inside the image.
 * kn_average_pool_data(dy, dx, skip_padding, …) */
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
        int window_y, int window_x, int stride_y, int stride_x, int pad_top,                                 \
        int pad_left KN_EPILOGUE_PARAMETERS
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

/* The window of a pixel of y, cut off at the borders of the image: [y0,y1) x [x0,x1). */
#define KN_WINDOW_ROWS                                                                                       \
    const int top = row * stride_y - pad_top, y0 = max(top, 0), y1 = min(top + window_y, height);
#define KN_WINDOW_COLUMNS                                                                                    \
    const int left = column * stride_x - pad_left, x0 = max(left, 0), x1 = min(left + window_x, width);

/* The windows that a pixel of the image, counted from the padded corner, lies in: [p0,p1) x [q0,q1). */
#define KN_ROWS_AROUND                                                                                       \
    const int y = row + pad_top, p0 = y < window_y ? 0 : (y - window_y) / stride_y + 1;                      \
    const int p1 = min(y / stride_y + 1, out_height);                                                        \
    int x = column + pad_left, q0 = x < window_x ? 0 : (x - window_x) / stride_x + 1;                        \
    int q1 = min(x / stride_x + 1, out_width);
/* The same for the next pixel of the row. */
#define KN_COLUMNS_ON                                                                                        \
    x++;                                                                                                     \
    column++;                                                                                                \
    q0 += x >= q0 * stride_x + window_x;                                                                     \
    q1 += q1 < out_width && x >= q1 * stride_x;

#if KN_BLOCK == 1
#define KN_RESULT(v, pixel) KN_EPILOGUE(v, image, block, pixel)
#else
#define KN_RESULT(v, pixel) KN_EPILOGUE_VECTOR(v, image, block *KN_BLOCK, pixel)
#endif
#define KN_STORE_Y(v, at) KN_STORE(KN_TO(KN_T, KN_RESULT(v, (KN_INDEX)row *out_width + column)), at, y)
#define KN_STORE_DX(v, at) KN_STORE(KN_TO(KN_T, KN_RESULT(v, (KN_INDEX)row *width + column)), at, dx)

kernel void kn_max_pool(global const KN_T *restrict x, global KN_T *restrict y,
                        global KN_PLACE *restrict places, KN_WINDOWS) {
    KN_EACH_ROW(first) {
        KN_ROW(first, out_height, out_width)
        KN_WINDOW_ROWS
        for (KN_INDEX i = first; i < row_end; i++, column++) {
            KN_WINDOW_COLUMNS
            lanes most = -INFINITY;
            lane_places place = (y0 - top) * window_x + x0 - left;
            for (int v = y0; v < y1; v++)
                for (int u = x0; u < x1; u++) {
                    const lanes next = KN_TO(KN_A, KN_LOAD((plane * height + v) * width + u, x));
                    const lane_places here = (v - top) * window_x + u - left;
                    place = ((next > most) | (next != next)) ? here : place;
                    most = ((next > most) | (next != next)) ? next : most;
                }
            KN_STORE_Y(most, i);
            if (places) KN_STORE(KN_TO(KN_PLACE, place), i, places);
        }
    }
}

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
                    const lane_places here = (y - p * stride_y) * window_x + x - q * stride_x;
                    const lanes zero = 0;
                    sum += KN_TO(int, KN_LOAD(from, places)) == here ? KN_TO(KN_A, KN_LOAD(from, dy)) : zero;
                }
            KN_STORE_DX(sum, i);
            KN_COLUMNS_ON
        }
    }
}

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
            const int count = skip_padding ? (y1 - y0) * (x1 - x0) : window_y * window_x;
            sum /= (KN_A)count;
            KN_STORE_Y(sum, i);
        }
    }
}

kernel void kn_average_pool_data(global const KN_T *restrict dy, global KN_T *restrict dx, int skip_padding,
                                 KN_WINDOWS) {
    KN_EACH_ROW(first) {
        KN_ROW(first, height, width)
        KN_ROWS_AROUND
        for (KN_INDEX i = first; i < row_end; i++) {
            lanes sum = 0;
            for (int p = p0; p < p1; p++)
                for (int q = q0; q < q1; q++) {
                    const int top = p * stride_y - pad_top, left = q * stride_x - pad_left;
                    const int rows = min(top + window_y, height) - max(top, 0);
                    const int columns = min(left + window_x, width) - max(left, 0);
                    const int count = skip_padding ? rows * columns : window_y * window_x;
                    sum += KN_TO(KN_A, KN_LOAD((plane * out_height + p) * out_width + q, dy)) / (KN_A)count;
                }
            KN_STORE_DX(sum, i);
            KN_COLUMNS_ON
        }
    }
}
