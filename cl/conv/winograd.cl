/* 3x3 convolutions of stride 1 by Winograd's method for wide-vector devices (CPUs), float32: forward, and the
 * gradient of x, by the same kernels; and the gradient of the filter.
 *
 * F(KN_TILE x KN_TILE, 3x3): a tile of KN_TILE x KN_TILE results needs KN_REACH x KN_REACH pixels, which are
 * transformed into as many points (KN_POINTS); at each point a plain matrix product over channels remains,
 * (tiles, x_channels) times (x_channels, y_channels), and its results are transformed back. That takes 4 times
 * fewer multiplications than the direct sum for KN_TILE 4, 2.25 for 2. The largest error is some 1e-5 of the
 * results' RMS for KN_TILE 4, where the direct sum has 5e-6, and 2e-6 for KN_TILE 2.
 *
 * Values are blocked by the vector width W = KN_WIDTH, as in conv/wide.cl: x is (N, C/W, H, W', W) and y is
 * (N, K/W, H, W', W); C and K are multiples of W. Filters are transformed and packed beforehand:
 * [point][panel][source][KN_COLUMNS], each point padded by W floats against conflicts in caches, and W zeros
 * behind them all, read for pixels outside the image. Tiles are numbered by image, row, column.
 * Each number of y is a sum over channels in an order of its own: how tiles are shared out changes no bit.
 *
 * Defines: those of common/vector.cl, and, with their defaults:
 *   KN_TILE 4   results of a tile along each side: 4 or 2
 *   KN_SUM 128  channels that are added up before they are added to the rest
 *   KN_ROWS     tiles in a register tile: 6 for 4 vectors, 8 for 3, 12 for 2 or 1; for KN_WIDTH 8: 6, 12
 *
 * All work-groups are (1,1,1). panels = ceil(K/W / KN_VECTORS); a gradient of x has the channels of the filter
 * swapped, the filter turned by half a circle, and 2 - pad where the convolution has pad.
 *
 * kn_winograd_filter(plain, packed, targets, sources, plain_target, plain_source, turned)
 *   global size (sources / W, panels). plain is (targets, sources, 3, 3) with strides in
 *   elements; turned: 1 reads each 3x3 backwards. packed takes
 *   KN_POINTS * (panels * sources * KN_COLUMNS + W) + W floats.
 * kn_winograd(x, filter, scratch, y, images, x_image, y_image, x_channels, y_channels, x_height, x_width,
 *             y_height, y_width, pad_y, pad_x, block_tiles, STATISTICS, EPILOGUE)
 *   global size (items): work-items share out blocks of block_tiles tiles, and each takes a block through all
 *   three phases in its own part of the scratch memory:
 *   KN_POINTS * (block_tiles * (x_channels + panels * KN_COLUMNS) + 2 * W) floats, best within a cache.
 * kn_winograd_zeros(zeros)
 *   global size (1): W zeros, for
 * kn_winograd_source(x, zeros, sources, x_image, x_channels, x_height, x_width, y_height, y_width, pad_y, pad_x,
 *                    first_tile, tiles, item_tiles)
 * kn_winograd_product(sources, filter, targets, tiles, x_channels, y_channels, item_tiles)
 * kn_winograd_target(targets, y, images, y_image, y_channels, y_height, y_width, item_tiles, STATISTICS,
 *                    EPILOGUE)
 *   the three phases one after the other, where the filter is too large for a cache. Global sizes
 *   (ceil(tiles / item_tiles)), (KN_POINTS * panels, ceil(tiles / item_tiles)), (ceil(tiles / item_tiles));
 *   sources takes KN_POINTS * (tiles * x_channels + W) floats, targets as many with panels * KN_COLUMNS.
 *
 * The gradient of the filter takes the transformed sources of `tiles` tiles from first_tile on, the likewise
 * transformed tiles of dy, and multiplies them at each point, summing over tiles:
 * kn_winograd_gradient(dy, gradients, y_image, y_channels, y_height, y_width, first_tile, tiles, item_tiles)
 *   global size (ceil(tiles / item_tiles)); gradients is [point][tile][panels * KN_COLUMNS], each point padded
 *   by W floats
 * kn_winograd_weights(sources, gradients, sums, tiles, x_channels, y_channels, item_channels, accumulate)
 *   global size (KN_POINTS * panels, ceil(x_channels / item_channels)); sums is a packed filter without the
 *   zeros behind it. accumulate: 1 adds to it, which makes long sums of shorter ones, 0 writes it
 * kn_winograd_unfilter(sums, plain, targets, sources, plain_target)
 *   global size (sources / W, panels): the gradient of the plain filter (targets, sources, 3, 3), whose sources lie
 *   side by side
 * STATISTICS: where wanted, of y with its epilogue, of parts of `part` tiles (common/statistics.cl); block_tiles and
 * item_tiles are multiples of part.
 * EPILOGUE: its operands; the epilogue sees (image, channel, pixel), with the first of W channels of y.
 * y shares memory with no input or operand. */
#include "common/wanted.cl"
#define KN_WHOLE_VECTORS 1
#include "common/weave.cl"
#include "common/statistics.cl"

#ifndef KN_TILE
#define KN_TILE 4
#endif
#ifndef KN_ROWS
#if KN_VECTORS == 4 || (KN_WIDTH == 8 && KN_VECTORS == 2)
#define KN_ROWS 6
#elif KN_VECTORS == 3
#define KN_ROWS 8
#else
#define KN_ROWS 12
#endif
#endif
#ifndef KN_SUM
#define KN_SUM 128
#endif
#define KN_REACH (KN_TILE + 2)
#define KN_POINTS (KN_REACH * KN_REACH)
#define KN_EACH_ROW(X) KN_JOIN(KN_ROWS_, KN_ROWS)(X)

/* ---- transforms of one line ------------------------------------------------------ */

/* X(0), X(1) … for the points of a line, and for its results. */
#if KN_TILE == 4
#define KN_EACH_POINT(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define KN_EACH_RESULT(X) X(0) X(1) X(2) X(3)
/* The points are 0, +-A, +-B and infinity, with A and B chosen for small errors: with 1 and 2 they are three
 * times as large. All numbers but those of filters are exact. */
#define KN_A 0.625f
#define KN_B 1.5f
#define KN_A2 (KN_A * KN_A)
#define KN_B2 (KN_B * KN_B)
/* d0 … d5 become the points p0 … p5 of a line of six pixels. */
#define KN_TO_POINTS(d, p)                                                                                   \
    const vector p##a = d##4 - KN_B2 * d##2, p##b = d##3 - KN_B2 * d##1, p##c = d##4 - KN_A2 * d##2,         \
                 p##d = d##3 - KN_A2 * d##1;                                                                 \
    const vector p##0 = KN_A2 * KN_B2 * d##0 - (KN_A2 + KN_B2) * d##2 + d##4, p##1 = p##a + KN_A * p##b,     \
                 p##2 = p##a - KN_A * p##b, p##3 = p##c + KN_B * p##d, p##4 = p##c - KN_B * p##d,            \
                 p##5 = KN_A2 * KN_B2 * d##1 - (KN_A2 + KN_B2) * d##3 + d##5;
/* m0 … m5 become the four results r0 … r3. */
#define KN_TO_RESULTS(m, r)                                                                                  \
    const vector r##a = m##1 + m##2, r##b = m##1 - m##2, r##c = m##3 + m##4, r##d = m##3 - m##4;             \
    const vector r##0 = m##0 + r##a + r##c, r##1 = KN_A * r##b + KN_B * r##d,                                \
                 r##2 = KN_A2 * r##a + KN_B2 * r##c, r##3 = KN_A2 * KN_A * r##b + KN_B2 * KN_B * r##d + m##5;
/* g0, g1, g2 become the points f0 … f5 of a line of a filter. */
#define KN_SHARE(x, y) (0.5f / ((x) * ((x) - (y))))
#define KN_FILTER_POINTS(g, f)                                                                               \
    const vector f##a = (g##0 + KN_A2 * g##2) * KN_SHARE(KN_A2, KN_B2),                                      \
                 f##b = g##1 * (KN_A * KN_SHARE(KN_A2, KN_B2)),                                              \
                 f##c = (g##0 + KN_B2 * g##2) * KN_SHARE(KN_B2, KN_A2),                                      \
                 f##d = g##1 * (KN_B * KN_SHARE(KN_B2, KN_A2));                                              \
    const vector f##0 = g##0 * (1.0f / (KN_A2 * KN_B2)), f##1 = f##a + f##b, f##2 = f##a - f##b,             \
                 f##3 = f##c + f##d, f##4 = f##c - f##d, f##5 = g##2;
/* The transposes of the latter two: a line of four of dy becomes six points, and six points a line of a filter. */
#define KN_GRADIENT_POINTS(d, z)                                                                             \
    const vector z##a = d##0 + KN_A2 * d##2, z##b = KN_A * d##1 + KN_A2 * KN_A * d##3,                       \
                 z##c = d##0 + KN_B2 * d##2, z##d = KN_B * d##1 + KN_B2 * KN_B * d##3;                       \
    const vector z##0 = d##0, z##1 = z##a + z##b, z##2 = z##a - z##b, z##3 = z##c + z##d,                    \
                 z##4 = z##c - z##d, z##5 = d##3;
#define KN_POINTS_FILTER(u, g)                                                                               \
    const vector g##a = (u##1 + u##2) * KN_SHARE(KN_A2, KN_B2),                                              \
                 g##b = (u##1 - u##2) * KN_SHARE(KN_A2, KN_B2),                                              \
                 g##c = (u##3 + u##4) * KN_SHARE(KN_B2, KN_A2),                                              \
                 g##d = (u##3 - u##4) * KN_SHARE(KN_B2, KN_A2);                                              \
    const vector g##0 = u##0 * (1.0f / (KN_A2 * KN_B2)) + g##a + g##c, g##1 = KN_A * g##b + KN_B * g##d,     \
                 g##2 = KN_A2 * g##a + KN_B2 * g##c + u##5;
#else
#define KN_EACH_POINT(X) X(0) X(1) X(2) X(3)
#define KN_EACH_RESULT(X) X(0) X(1)
#define KN_TO_POINTS(d, p)                                                                                   \
    const vector p##0 = d##0 - d##2, p##1 = d##1 + d##2, p##2 = d##2 - d##1, p##3 = d##1 - d##3;
#define KN_TO_RESULTS(m, r) const vector r##0 = m##0 + m##1 + m##2, r##1 = m##1 - m##2 - m##3;
#define KN_FILTER_POINTS(g, f)                                                                               \
    const vector f##a = 0.5f * (g##0 + g##2), f##b = 0.5f * g##1;                                            \
    const vector f##0 = g##0, f##1 = f##a + f##b, f##2 = f##a - f##b, f##3 = g##2;
#define KN_GRADIENT_POINTS(d, z)                                                                             \
    const vector z##0 = d##0, z##1 = d##0 + d##1, z##2 = d##0 - d##1, z##3 = -d##1;
#define KN_POINTS_FILTER(u, g)                                                                               \
    const vector g##a = 0.5f * (u##1 + u##2), g##1 = 0.5f * (u##1 - u##2);                                   \
    const vector g##0 = u##0 + g##a, g##2 = g##a + u##3;
#endif

/* ---- filters ------------------------------------------------------------------------ */

/* Floats from point to point of a packed filter. */
KN_INLINE KN_INDEX filter_plane(int panels, int sources) {
    return (KN_INDEX)panels * sources * KN_COLUMNS + KN_WIDTH;
}

#define KN_LOAD_PLAIN(i) const vector x##i = load(part, from + i * plain_target);
#define KN_KEEP_PLAIN(i) store(t##i, part *KN_WIDTH + i, filters);
#define KN_LOAD_FILTER(i) const vector g##i = load(i * 3 + j, filter);
#define KN_KEEP_FILTER(i) store(f##i, i * 3 + j, lines);
#define KN_LOAD_LINE(j) const vector g##j = load(i * 3 + j, lines);
#define KN_STORE_FILTER(j) store(f##j, 0, to + (i * KN_REACH + j) * plane);

#if KN_WANTED(kn_winograd_filter)
KN_WIDE kn_winograd_filter(global const float *restrict plain, global float *restrict packed, int targets,
                           int sources, KN_INDEX plain_target, KN_INDEX plain_source, int turned) {
    float filters[KN_WIDTH * 9 * KN_WIDTH], lines[KN_REACH * 3 * KN_WIDTH];
    const int panel = get_global_id(1), panels = get_global_size(1);
    const int begin = get_global_id(0) * KN_WIDTH, count = min(KN_WIDTH, sources - begin);
    const KN_INDEX plane = filter_plane(panels, sources);
    for (int first = 0; first < KN_COLUMNS; first += KN_WIDTH) {
        const int target = panel * KN_COLUMNS + first;
        global const float *from = plain + target * plain_target + begin * plain_source;
        global float *to = packed + ((KN_INDEX)panel * sources + begin) * KN_COLUMNS + first;
        /* Nine times KN_WIDTH numbers lie side by side for each target. */
        const int whole = plain_source == 9 && !turned && count == KN_WIDTH && target < targets;
        for (int part = 0; part < 9 && whole; part++) {
            KN_EACH_LANE(KN_LOAD_PLAIN)
            KN_TRANSPOSE(x)
            KN_EACH_LANE(KN_KEEP_PLAIN)
        }
        for (int lane = 0; lane < KN_WIDTH && !whole; lane++)
            for (int source = 0; source < count; source++)
                for (int tap = 0; tap < 9; tap++)
                    filters[(source * 9 + (turned ? 8 - tap : tap)) * KN_WIDTH + lane] =
                        target < targets ? from[lane * plain_target + source * plain_source + tap] : 0.0f;
        for (int source = 0; source < count; source++, to += KN_COLUMNS) {
            const float *filter = filters + source * 9 * KN_WIDTH;
            for (int j = 0; j < 3; j++) {
                KN_LOAD_FILTER(0) KN_LOAD_FILTER(1) KN_LOAD_FILTER(2)
                KN_FILTER_POINTS(g, f)
                KN_EACH_POINT(KN_KEEP_FILTER)
            }
            for (int i = 0; i < KN_REACH; i++) {
                KN_LOAD_LINE(0) KN_LOAD_LINE(1) KN_LOAD_LINE(2)
                KN_FILTER_POINTS(g, f)
                KN_EACH_POINT(KN_STORE_FILTER)
            }
        }
    }
    if (panel + 1 == panels && begin + count == sources) store((vector)0.0f, 0, packed + KN_POINTS * plane);
}
#endif

/* ---- the phases ---------------------------------------------------------------------- */

#define KN_LOAD_PIXEL(i)                                                                                     \
    const vector d##i = load(0, reach[i * KN_REACH + j] < 0 ? zeros : from + reach[i * KN_REACH + j]);
#define KN_KEEP_POINT(i) store(p##i, i * KN_REACH + j, lines);
#define KN_LOAD_POINT(j) const vector d##j = load(i * KN_REACH + j, lines);
#define KN_STORE_POINT(j) store(p##j, 0, to + (i * KN_REACH + j) * plane);

/* sources [point][tile][channel] of the tiles from begin to end, `plane` floats from point to point. */
KN_INLINE void transform_sources(global const float *x, global const float *zeros, global float *sources,
                                 KN_INDEX plane, int begin, int end, KN_INDEX x_image, int channels,
                                 int height, int width, int rows, int columns, int pad_y, int pad_x) {
    KN_INDEX reach[KN_POINTS]; /* where a pixel of a tile lies, from the start of a block; -1 outside */
    float lines[KN_POINTS * KN_WIDTH];
    for (int tile = begin; tile < end; tile++, sources += channels) {
        const int image = tile / (rows * columns), row = tile / columns % rows, column = tile % columns;
        for (int i = 0; i < KN_REACH; i++)
            for (int j = 0; j < KN_REACH; j++) {
                const int y = row * KN_TILE - pad_y + i, at = column * KN_TILE - pad_x + j;
                const int inside = (uint)y < (uint)height && (uint)at < (uint)width;
                reach[i * KN_REACH + j] = inside ? ((KN_INDEX)y * width + at) * KN_WIDTH : -1;
            }
        global const float *from = x + image * x_image;
        global float *to = sources;
        for (int block = 0; block < channels / KN_WIDTH; block++) {
            for (int j = 0; j < KN_REACH; j++) {
                KN_EACH_POINT(KN_LOAD_PIXEL)
                KN_TO_POINTS(d, p)
                KN_EACH_POINT(KN_KEEP_POINT)
            }
            for (int i = 0; i < KN_REACH; i++) {
                KN_EACH_POINT(KN_LOAD_POINT)
                KN_TO_POINTS(d, p)
                KN_EACH_POINT(KN_STORE_POINT)
            }
            from += (KN_INDEX)height * width * KN_WIDTH;
            to += KN_WIDTH;
        }
    }
}

#define KN_AIM(row) global const float *source##row = sources + min(row, rows - 1) * depth;
#define KN_ZERO(row, v) vector sum##row##_##v = 0.0f;
#define KN_START(row) KN_EACH(KN_ZERO, row)
#define KN_RIGHT(row, v) const vector right##v = load(v, filter);
#define KN_ADD(row, v) sum##row##_##v += value * right##v;
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const vector value = source##row[i];                                                                 \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_RESUME_VECTOR(row, v) sum##row##_##v += load(v, targets + row * target_row);
#define KN_RESUME(row)                                                                                       \
    if (row < rows) { KN_EACH(KN_RESUME_VECTOR, row) }
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, v, targets + row * target_row);
#define KN_KEEP(row)                                                                                         \
    if (row < rows) { KN_EACH(KN_KEEP_VECTOR, row) }

/* targets (tiles,KN_COLUMNS) = sources (tiles,depth) * filter (depth,KN_COLUMNS), for up to KN_ROWS tiles. Long
 * sums are made of shorter ones, whose rounding is less. */
KN_INLINE void multiply(global const float *sources, global const float *filter, global float *targets,
                        int depth, int target_row, int rows) {
    KN_EACH_ROW(KN_AIM)
    for (int begin = 0; begin < depth; begin += KN_SUM) {
        const int end = min(begin + KN_SUM, depth);
        KN_EACH_ROW(KN_START)
        for (int i = begin; i < end; i++, filter += KN_COLUMNS) {
            KN_EACH(KN_RIGHT, 0)
            KN_EACH_ROW(KN_STEP)
        }
        if (begin > 0) { KN_EACH_ROW(KN_RESUME) }
        KN_EACH_ROW(KN_KEEP)
    }
}

#define KN_LOAD_SUM(i) const vector m##i = load(0, from + (i * KN_REACH + j) * plane);
#define KN_KEEP_LINE(i) store(r##i, i * KN_REACH + j, lines);
#define KN_LOAD_SUMS(j) const vector m##j = load(i * KN_REACH + j, lines);
#define KN_KEEP_RESULT(j) store(r##j, j, results);

/* y of targets [point][tile][channel] for the tiles from begin to end, a group of tiles at a time: a part of the
 * statistics, where these are gathered. A macro: the epilogue's operands are the kernel's. */
#if KN_STATISTICS
#define KN_GROUP part
#else
#define KN_GROUP 1
#endif
#define KN_TRANSFORM_TARGETS(targets, plane, begin, end)                                                     \
    for (int group = begin; group < (end); group += KN_GROUP) {                                              \
        const int group_end = min(group + KN_GROUP, end);                                                    \
        for (int block = 0; block < y_channels / KN_WIDTH; block++) {                                        \
            int gathers = 0;                                                                                 \
            KN_GATHER_AT(group)                                                                              \
            for (int tile = group; tile < group_end; tile++) {                                               \
                const KN_INDEX image = tile / (rows * columns);                                              \
                const int row = tile / columns % rows * KN_TILE, column = tile % columns * KN_TILE;          \
                global const float *from =                                                                   \
                    targets + (KN_INDEX)(tile - (begin)) * panels * KN_COLUMNS + block * KN_WIDTH;           \
                global float *to = y + image * y_image + (KN_INDEX)block * y_height * y_width * KN_WIDTH;    \
                for (int j = 0; j < KN_REACH; j++) {                                                         \
                    KN_EACH_POINT(KN_LOAD_SUM)                                                               \
                    KN_TO_RESULTS(m, r)                                                                      \
                    KN_EACH_RESULT(KN_KEEP_LINE)                                                             \
                }                                                                                            \
                KN_GATHER_FROM(0)                                                                            \
                for (int i = 0; i < min(KN_TILE, y_height - row); i++) {                                     \
                    KN_EACH_POINT(KN_LOAD_SUMS)                                                              \
                    KN_TO_RESULTS(m, r)                                                                      \
                    KN_EACH_RESULT(KN_KEEP_RESULT)                                                           \
                    for (int j = 0; j < min(KN_TILE, y_width - column); j++, gathers++) {                    \
                        const KN_INDEX pixel = (KN_INDEX)(row + i) * y_width + column + j;                   \
                        const vector value =                                                                 \
                            KN_EPILOGUE_VECTOR(load(j, results), image, block *KN_WIDTH, pixel);             \
                        KN_GATHER(value, gathers == 0)                                                       \
                        store(value, pixel, to);                                                             \
                    }                                                                                        \
                }                                                                                            \
                KN_GATHER_TO(0)                                                                              \
            }                                                                                                \
            KN_GATHER_END(0, gathers, group / part, block, y_channels / KN_WIDTH)                            \
        }                                                                                                    \
    }

/* ---- kernels ---------------------------------------------------------------------------- */

#if KN_WANTED(kn_winograd)
KN_WIDE kn_winograd(global const float *restrict x, global const float *restrict filter,
                    global float *restrict scratch, global float *restrict y, int images, KN_INDEX x_image,
                    KN_INDEX y_image, int x_channels, int y_channels, int x_height, int x_width, int y_height,
                    int y_width, int pad_y, int pad_x, int block_tiles KN_STATISTICS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    KN_GATHERED(1)
    float lines[KN_TILE * KN_REACH * KN_WIDTH], results[KN_TILE * KN_WIDTH];
    const int rows = (y_height + KN_TILE - 1) / KN_TILE, columns = (y_width + KN_TILE - 1) / KN_TILE;
    const int panels = (y_channels / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS, tiles = images * rows * columns;
    const KN_INDEX plane = filter_plane(panels, x_channels);
    const KN_INDEX source_plane = (KN_INDEX)block_tiles * x_channels + KN_WIDTH,
                   target_plane = (KN_INDEX)block_tiles * panels * KN_COLUMNS + KN_WIDTH;
    global float *sources = scratch + get_global_id(0) * KN_POINTS * (source_plane + target_plane);
    global float *targets = sources + KN_POINTS * source_plane;
    const int items = get_global_size(0);
    for (int begin = (int)get_global_id(0) * block_tiles; begin < tiles; begin += items * block_tiles) {
        const int count = min(block_tiles, tiles - begin);
        transform_sources(x, filter + KN_POINTS * plane, sources, source_plane, begin, begin + count, x_image,
                          x_channels, x_height, x_width, rows, columns, pad_y, pad_x);
        for (int point = 0; point < KN_POINTS; point++)
            for (int panel = 0; panel < panels; panel++)
                for (int tile = 0; tile < count; tile += KN_ROWS)
                    multiply(sources + point * source_plane + tile * x_channels,
                             filter + point * plane + (KN_INDEX)panel * x_channels * KN_COLUMNS,
                             targets + point * target_plane + tile * panels * KN_COLUMNS + panel * KN_COLUMNS,
                             x_channels, panels * KN_COLUMNS, min(KN_ROWS, count - tile));
        const KN_INDEX plane = target_plane;
        KN_TRANSFORM_TARGETS(targets, plane, begin, begin + count)
    }
}
#endif

#if KN_WANTED(kn_winograd_zeros)
KN_WIDE kn_winograd_zeros(global float *restrict zeros) {
    store((vector)0.0f, 0, zeros);
}
#endif

#if KN_WANTED(kn_winograd_source)
KN_WIDE kn_winograd_source(global const float *restrict x, global const float *restrict zeros,
                           global float *restrict sources, KN_INDEX x_image, int x_channels, int x_height,
                           int x_width, int y_height, int y_width, int pad_y, int pad_x, int first_tile,
                           int tiles, int item_tiles) {
    const int rows = (y_height + KN_TILE - 1) / KN_TILE, columns = (y_width + KN_TILE - 1) / KN_TILE;
    const int begin = get_global_id(0) * item_tiles;
    transform_sources(x, zeros, sources + (KN_INDEX)begin * x_channels,
                      (KN_INDEX)tiles * x_channels + KN_WIDTH, first_tile + begin,
                      first_tile + min(begin + item_tiles, tiles), x_image, x_channels, x_height, x_width,
                      rows, columns, pad_y, pad_x);
}
#endif

#if KN_WANTED(kn_winograd_product)
KN_WIDE kn_winograd_product(global const float *restrict sources, global const float *restrict filter,
                            global float *restrict targets, int tiles, int x_channels, int y_channels,
                            int item_tiles) {
    const int panels = (y_channels / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS;
    const int point = get_global_id(0) / panels, panel = get_global_id(0) % panels;
    const int begin = get_global_id(1) * item_tiles, end = min(begin + item_tiles, tiles);
    const KN_INDEX row = panels * KN_COLUMNS;
    sources += point * ((KN_INDEX)tiles * x_channels + KN_WIDTH);
    filter += point * filter_plane(panels, x_channels) + (KN_INDEX)panel * x_channels * KN_COLUMNS;
    targets += point * (tiles * row + KN_WIDTH) + panel * KN_COLUMNS;
    for (int tile = begin; tile < end; tile += KN_ROWS)
        multiply(sources + (KN_INDEX)tile * x_channels, filter, targets + tile * row, x_channels, row,
                 min(KN_ROWS, end - tile));
}
#endif

#if KN_WANTED(kn_winograd_target)
KN_WIDE kn_winograd_target(global const float *restrict targets, global float *restrict y, int images,
                           KN_INDEX y_image, int y_channels, int y_height, int y_width,
                           int item_tiles KN_STATISTICS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    KN_GATHERED(1)
    float lines[KN_TILE * KN_REACH * KN_WIDTH], results[KN_TILE * KN_WIDTH];
    const int rows = (y_height + KN_TILE - 1) / KN_TILE, columns = (y_width + KN_TILE - 1) / KN_TILE;
    const int panels = (y_channels / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS, tiles = images * rows * columns;
    const KN_INDEX plane = (KN_INDEX)tiles * panels * KN_COLUMNS + KN_WIDTH;
    const int begin = get_global_id(0) * item_tiles, end = min(begin + item_tiles, tiles);
    targets += (KN_INDEX)begin * panels * KN_COLUMNS;
    KN_TRANSFORM_TARGETS(targets, plane, begin, end)
}
#endif

/* ---- the gradient of the filter --------------------------------------------------------------- */

#define KN_LOAD_RESULT(i)                                                                                    \
    vector d##i = 0.0f;                                                                                      \
    if (row + i < y_height && column + j < y_width)                                                          \
        d##i = load(0, from + ((KN_INDEX)(row + i) * y_width + column + j) * KN_WIDTH);
#define KN_KEEP_GRADIENT(i) store(z##i, i * KN_TILE + j, lines);
#define KN_LOAD_GRADIENT(j) const vector d##j = load(i * KN_TILE + j, lines);
#define KN_STORE_GRADIENT(j) store(z##j, 0, to + (i * KN_REACH + j) * plane);

#if KN_WANTED(kn_winograd_gradient)
KN_WIDE kn_winograd_gradient(global const float *restrict dy, global float *restrict gradients,
                             KN_INDEX y_image, int y_channels, int y_height, int y_width, int first_tile,
                             int tiles, int item_tiles) {
    float lines[KN_REACH * KN_TILE * KN_WIDTH];
    const int rows = (y_height + KN_TILE - 1) / KN_TILE, columns = (y_width + KN_TILE - 1) / KN_TILE;
    const int panels = (y_channels / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS;
    const KN_INDEX plane = (KN_INDEX)tiles * panels * KN_COLUMNS + KN_WIDTH;
    const int begin = get_global_id(0) * item_tiles;
    for (int tile = begin; tile < min(begin + item_tiles, tiles); tile++) {
        const int place = first_tile + tile;
        const KN_INDEX image = place / (rows * columns);
        const int row = place / columns % rows * KN_TILE, column = place % columns * KN_TILE;
        for (int block = 0; block < y_channels / KN_WIDTH; block++) {
            global const float *from = dy + image * y_image + (KN_INDEX)block * y_height * y_width * KN_WIDTH;
            global float *to = gradients + (KN_INDEX)tile * panels * KN_COLUMNS + block * KN_WIDTH;
            for (int j = 0; j < KN_TILE; j++) {
                KN_EACH_RESULT(KN_LOAD_RESULT)
                KN_GRADIENT_POINTS(d, z)
                KN_EACH_POINT(KN_KEEP_GRADIENT)
            }
            for (int i = 0; i < KN_REACH; i++) {
                KN_EACH_RESULT(KN_LOAD_GRADIENT)
                KN_GRADIENT_POINTS(d, z)
                KN_EACH_POINT(KN_STORE_GRADIENT)
            }
        }
    }
}
#endif

#define KN_ADD_SUM(row, v) sum##row##_##v += load(v, sums + row * KN_COLUMNS);
#define KN_ADD_SUMS(row)                                                                                     \
    if (row < rows) { KN_EACH(KN_ADD_SUM, row) }
#define KN_STORE_SUM(row, v) store(sum##row##_##v, v, sums + row * KN_COLUMNS);
#define KN_STORE_SUMS(row)                                                                                   \
    if (row < rows) { KN_EACH(KN_STORE_SUM, row) }
#define KN_LINE(row, v) const vector right##v = load(v, gradients);
#define KN_TIMES(row)                                                                                        \
    {                                                                                                        \
        const vector value = sources[min(row, rows - 1)];                                                    \
        KN_EACH(KN_ADD, row)                                                                                 \
    }

#if KN_WANTED(kn_winograd_weights)
KN_WIDE kn_winograd_weights(global const float *restrict all_sources,
                            global const float *restrict all_gradients, global float *restrict all_sums,
                            int tiles, int x_channels, int y_channels, int item_channels, int accumulate) {
    const int panels = (y_channels / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS;
    const int point = get_global_id(0) / panels, panel = get_global_id(0) % panels;
    const int begin = get_global_id(1) * item_channels, end = min(begin + item_channels, x_channels);
    const KN_INDEX line = panels * KN_COLUMNS;
    for (int channel = begin; channel < end; channel += KN_ROWS) {
        const int rows = min(KN_ROWS, end - channel);
        global const float *sources = all_sources + point * ((KN_INDEX)tiles * x_channels + KN_WIDTH) + channel;
        global const float *gradients = all_gradients + point * (tiles * line + KN_WIDTH) + panel * KN_COLUMNS;
        global float *sums = all_sums + point * filter_plane(panels, x_channels) +
                             ((KN_INDEX)panel * x_channels + channel) * KN_COLUMNS;
        KN_EACH_ROW(KN_START)
        for (int tile = 0; tile < tiles; tile++, sources += x_channels, gradients += line) {
            KN_EACH(KN_LINE, 0)
            KN_EACH_ROW(KN_TIMES)
        }
        if (accumulate) { KN_EACH_ROW(KN_ADD_SUMS) }
        KN_EACH_ROW(KN_STORE_SUMS)
    }
}
#endif

#define KN_LOAD_UNFILTER(i) const vector u##i = load(0, from + (i * KN_REACH + j) * plane);
#define KN_LOAD_UNLINE(j) const vector u##j = load(i * KN_REACH + j, lines);

#define KN_LOAD_ROW(i) const vector x##i = load(part * KN_WIDTH + i, filters);
#define KN_STORE_PLAIN(i) store(t##i, part, to + i * plain_target);

#if KN_WANTED(kn_winograd_unfilter)
KN_WIDE kn_winograd_unfilter(global const float *restrict sums, global float *restrict plain, int targets,
                             int sources, KN_INDEX plain_target) {
    float lines[3 * KN_REACH * KN_WIDTH], filters[KN_WIDTH * 9 * KN_WIDTH];
    const int panel = get_global_id(1), panels = get_global_size(1), begin = get_global_id(0) * KN_WIDTH;
    const KN_INDEX plane = filter_plane(panels, sources);
    for (int first = 0; first < KN_COLUMNS; first += KN_WIDTH) {
        const int target = panel * KN_COLUMNS + first;
        if (target >= targets) break;
        for (int source = 0; source < KN_WIDTH; source++) {
            global const float *from = sums + ((KN_INDEX)panel * sources + begin + source) * KN_COLUMNS + first;
            float *filter = filters + source * 9 * KN_WIDTH;
            for (int j = 0; j < KN_REACH; j++) {
                KN_EACH_POINT(KN_LOAD_UNFILTER)
                KN_POINTS_FILTER(u, g)
                store(g0, j, lines);
                store(g1, KN_REACH + j, lines);
                store(g2, 2 * KN_REACH + j, lines);
            }
            for (int i = 0; i < 3; i++) {
                KN_EACH_POINT(KN_LOAD_UNLINE)
                KN_POINTS_FILTER(u, g)
                store(g0, i * 3, filter);
                store(g1, i * 3 + 1, filter);
                store(g2, i * 3 + 2, filter);
            }
        }
        global float *to = plain + target * plain_target + begin * 9;
        for (int part = 0; part < 9; part++) {
            KN_EACH_LANE(KN_LOAD_ROW)
            KN_TRANSPOSE(x)
            KN_EACH_LANE(KN_STORE_PLAIN)
        }
    }
}
#endif
