/* 3x3 convolutions of stride 1 by Winograd's algorithm for many-thread devices: forward, and the gradient of x, by the
 * same kernels; and the gradient of the filter. Between the transforms are KN_POINTS matrix products (matmul/tiled.cl).
 *
 * F(KN_TILE x KN_TILE, 3x3): a tile of KN_TILE x KN_TILE results needs KN_REACH x KN_REACH pixels, which are transformed
 * into as many points (KN_POINTS). At each point filters (targets,sources) times images (sources,columns) give sums
 * (targets,columns), which are transformed back: 4 times fewer multiplications than the direct sum for KN_TILE 4, 2.25
 * for 2. Errors: conv/winograd.cl.
 *
 * Images are (N,C,H,W). Tiles are numbered by image, row and column, `columns` of them are computed at a time,
 * starting at first_tile; tiles >= `tiles` do not exist, and have zeros for points. Adjacent work-items have adjacent
 * tiles. Points, the elements before and after the product, are float.
 *
 * Defines: KN_TILE of conv/winograd_points.cl, KN_HALF_weight, KN_HALF_x, KN_HALF_y, KN_HALF_dy and KN_HALF_dw
 * (common/storage.cl), those of common/epilogue.cl, and, with its default:
 *   KN_VECTOR 1   4: loads or stores four adjacent pixels of a tile at a time. Line lengths are multiples of 4, and
 *                 for images pad_left is 1; with KN_TILE 4
 *
 * All work-groups may have any size; `items` is the number of work-items; surplus work-items are ignored.
 * `*_multiplier`: common/divide.cl. row_tiles are the tiles of a row, image_tiles those of an image.
 *
 * kn_winograd_filters(weight, filters, items, turned)
 *   items: pairs of channels of weight (pairs,3,3). filters is (KN_POINTS,pairs). turned: 1 rotates each 3x3 by 180 degrees
 * kn_winograd_images(x, images, items, columns, columns_multiplier, first_tile, tiles, image_tiles, image_multiplier,
 *                    row_tiles, row_multiplier, channels, height, width, pad_top, pad_left)
 *   items: channels * columns; images is (KN_POINTS,channels,columns)
 * kn_winograd_results(sums, y, items, parts, columns, columns_multiplier, first_tile, tiles, image_tiles,
 *                     image_multiplier, row_tiles, row_multiplier, channels, height, width, EPILOGUE)
 *   items: channels * columns; sums is (parts,KN_POINTS,channels,columns), whose parts are added in their order. The
 *   epilogue sees (image, channel, pixel)
 *
 * The gradient of the filter multiplies the points of dy, (outputs,columns), and those of images, (channels,columns), at
 * each point, summing over columns:
 * kn_winograd_gradients(dy, gradients, items, columns, columns_multiplier, first_tile, tiles, image_tiles,
 *                       image_multiplier, row_tiles, row_multiplier, channels, height, width)
 *   items: channels * columns; gradients is (KN_POINTS,channels,columns)
 * kn_winograd_unfilters(sums, total, dw, items, parts, first, last)
 *   items: pairs of channels of dw (pairs,3,3); sums is (parts,KN_POINTS,pairs). total (pairs,3,3) holds the gradient
 *   of earlier chunks (except for the first), and includes this chunk (except for the last, which writes dw) */
#include "common/divide.cl"
#include "common/epilogue.cl"
#include "common/storage.cl"
#include "common/unroll.cl"
#include "common/wanted.cl"
typedef float vector;
#include "conv/winograd_points.cl"

#ifndef KN_VECTOR
#define KN_VECTOR 1
#endif

/* A channel's tile: the image, and its first result's position there. */
typedef struct tile {
    int channel, image, row, column;
    bool exists;
} tile;

static inline tile tile_of(const int item, const int columns, const uint columns_multiplier, const int first_tile,
                           const int tiles, const int image_tiles, const uint image_multiplier, const int row_tiles,
                           const uint row_multiplier) {
    tile tile;
    tile.channel = divide(item, columns, columns_multiplier);
    const int number = first_tile + item - tile.channel * columns;
    tile.exists = number < tiles;
    tile.image = divide(number, image_tiles, image_multiplier);
    const int inside = number - tile.image * image_tiles, row = divide(inside, row_tiles, row_multiplier);
    tile.row = row * KN_TILE;
    tile.column = (inside - row * row_tiles) * KN_TILE;
    return tile;
}

/* The points of one tile or filter: sums is (parts,KN_POINTS,items), whose parts are added in their order. */
static inline void load_points(global const float *restrict sums, const KN_INDEX items, const int parts,
                               float points[KN_REACH][KN_REACH]) {
    KN_UNROLL for (int at = 0; at < KN_POINTS; at++) points[at / KN_REACH][at % KN_REACH] = sums[at * items];
    for (int part = 1; part < parts; part++) {
        sums += KN_POINTS * items;
        KN_UNROLL for (int at = 0; at < KN_POINTS; at++) points[at / KN_REACH][at % KN_REACH] += sums[at * items];
    }
}

/* A transform takes the elements of `grid` along its columns j and then along its rows i: these load some as s0, s1 …,
 * and store the transformed elements t0, t1 …, in place or as points of an item, the first of which is at
 * `first_point`. */
#define KN_LOAD_DOWN(i) const vector s##i = grid[i][j];
#define KN_KEEP_DOWN(i) grid[i][j] = t##i;
#define KN_LOAD_ACROSS(j) const vector s##j = grid[i][j];
#define KN_STORE_POINT(j) first_point[(i * KN_REACH + j) * items] = t##j;
#define KN_EACH_TAP(X) X(0) X(1) X(2)

#if KN_WANTED(kn_winograd_filters)
kernel void kn_winograd_filters(global const KN_STORED(KN_HALF_weight) *restrict weight, global float *restrict filters,
                                KN_INDEX items, int turned) {
    const KN_INDEX pair = get_global_id(0);
    if (pair >= items) return;
    global float *first_point = filters + pair;
    float grid[KN_REACH][3];
    KN_UNROLL for (int tap = 0; tap < 9; tap++) grid[tap / 3][tap % 3] =
        KN_READ_AS(KN_HALF_weight, weight + (pair * 9 + (turned ? 8 - tap : tap)));
    KN_UNROLL for (int j = 0; j < 3; j++) {
        KN_EACH_TAP(KN_LOAD_DOWN)
        KN_FILTER_POINTS(s, t)
        KN_EACH_POINT(KN_KEEP_DOWN)
    }
    KN_UNROLL for (int i = 0; i < KN_REACH; i++) {
        KN_EACH_TAP(KN_LOAD_ACROSS)
        KN_FILTER_POINTS(s, t)
        KN_EACH_POINT(KN_STORE_POINT)
    }
}
#endif

#if KN_WANTED(kn_winograd_images)
kernel void kn_winograd_images(global const KN_STORED(KN_HALF_x) *restrict x, global float *restrict images,
                               KN_INDEX items, int columns, uint columns_multiplier, int first_tile, int tiles,
                               int image_tiles, uint image_multiplier, int row_tiles, uint row_multiplier, int channels,
                               int height, int width, int pad_top, int pad_left) {
    const KN_INDEX item = get_global_id(0);
    if (item >= items) return;
    const tile tile = tile_of(item, columns, columns_multiplier, first_tile, tiles, image_tiles, image_multiplier,
                              row_tiles, row_multiplier);
    const int row = tile.row - pad_top, column = tile.column - pad_left;
    const KN_INDEX plane = ((KN_INDEX)tile.image * channels + tile.channel) * height * width;
    global float *first_point = images + item;
    float grid[KN_REACH][KN_REACH];
    KN_UNROLL for (int i = 0; i < KN_REACH; i++) {
        const bool inside = tile.exists && row + i >= 0 && row + i < height;
        const KN_INDEX line = plane + (KN_INDEX)(row + i) * width + column;
#if KN_VECTOR == 4
        const float4 four = inside && column + 1 < width ? KN_READ_4_AS(KN_HALF_x, x + (line + 1)) : (float4)0;
        grid[i][0] = inside && column >= 0 && column < width ? KN_READ_AS(KN_HALF_x, x + line) : 0;
        grid[i][1] = four.s0;
        grid[i][2] = four.s1;
        grid[i][3] = four.s2;
        grid[i][4] = four.s3;
        grid[i][5] = inside && column + 5 < width ? KN_READ_AS(KN_HALF_x, x + (line + 5)) : 0;
#else
        KN_UNROLL for (int j = 0; j < KN_REACH; j++) grid[i][j] =
            inside && column + j >= 0 && column + j < width ? KN_READ_AS(KN_HALF_x, x + (line + j)) : 0;
#endif
    }
    KN_UNROLL for (int j = 0; j < KN_REACH; j++) {
        KN_EACH_POINT(KN_LOAD_DOWN)
        KN_TO_POINTS(s, t)
        KN_EACH_POINT(KN_KEEP_DOWN)
    }
    KN_UNROLL for (int i = 0; i < KN_REACH; i++) {
        KN_EACH_POINT(KN_LOAD_ACROSS)
        KN_TO_POINTS(s, t)
        KN_EACH_POINT(KN_STORE_POINT)
    }
}
#endif

#if KN_WANTED(kn_winograd_results)
#define KN_STORE_RESULT(j)                                                                                   \
    if (tile.column + j < width)                                                                             \
        KN_WRITE_AS(KN_HALF_y, KN_EPILOGUE(t##j, tile.image, tile.channel, pixel + j), y + (plane + pixel + j));

kernel void kn_winograd_results(global const float *restrict sums, global KN_STORED(KN_HALF_y) *restrict y, KN_INDEX items,
                                int parts, int columns, uint columns_multiplier, int first_tile, int tiles,
                                int image_tiles, uint image_multiplier, int row_tiles, uint row_multiplier, int channels,
                                int height, int width KN_EPILOGUE_PARAMETERS) {
    const KN_INDEX item = get_global_id(0);
    if (item >= items) return;
    const tile tile = tile_of(item, columns, columns_multiplier, first_tile, tiles, image_tiles, image_multiplier,
                              row_tiles, row_multiplier);
    if (!tile.exists) return;
    const KN_INDEX plane = ((KN_INDEX)tile.image * channels + tile.channel) * height * width;
    float grid[KN_REACH][KN_REACH];
    load_points(sums + item, items, parts, grid);
    KN_UNROLL for (int j = 0; j < KN_REACH; j++) {
        KN_EACH_POINT(KN_LOAD_DOWN)
        KN_TO_RESULTS(s, t)
        KN_EACH_RESULT(KN_KEEP_DOWN)
    }
    KN_UNROLL for (int i = 0; i < KN_TILE; i++) {
        KN_EACH_POINT(KN_LOAD_ACROSS)
        KN_TO_RESULTS(s, t)
        const KN_INDEX pixel = (KN_INDEX)(tile.row + i) * width + tile.column;
        if (tile.row + i >= height) continue;
#if KN_VECTOR == 4
        /* As pairs: Oclgrind stores a vector of four single elements first as undefined and then element by element. */
        const float4 four = (float4)((float2)(t0, t1), (float2)(t2, t3));
        KN_WRITE_4_AS(KN_HALF_y, KN_EPILOGUE_4(four, tile.image, tile.channel, pixel), y + (plane + pixel));
#else
        KN_EACH_RESULT(KN_STORE_RESULT)
#endif
    }
}
#endif

#if KN_WANTED(kn_winograd_gradients)
kernel void kn_winograd_gradients(global const KN_STORED(KN_HALF_dy) *restrict dy, global float *restrict gradients,
                                  KN_INDEX items, int columns, uint columns_multiplier, int first_tile, int tiles,
                                  int image_tiles, uint image_multiplier, int row_tiles, uint row_multiplier,
                                  int channels, int height, int width) {
    const KN_INDEX item = get_global_id(0);
    if (item >= items) return;
    const tile tile = tile_of(item, columns, columns_multiplier, first_tile, tiles, image_tiles, image_multiplier,
                              row_tiles, row_multiplier);
    const KN_INDEX plane = ((KN_INDEX)tile.image * channels + tile.channel) * height * width;
    global float *first_point = gradients + item;
    float grid[KN_REACH][KN_TILE];
    KN_UNROLL for (int i = 0; i < KN_TILE; i++) {
        const bool inside = tile.exists && tile.row + i < height;
        const KN_INDEX line = plane + (KN_INDEX)(tile.row + i) * width + tile.column;
#if KN_VECTOR == 4
        const float4 four = inside ? KN_READ_4_AS(KN_HALF_dy, dy + line) : (float4)0;
        grid[i][0] = four.s0;
        grid[i][1] = four.s1;
        grid[i][2] = four.s2;
        grid[i][3] = four.s3;
#else
        KN_UNROLL for (int j = 0; j < KN_TILE; j++) grid[i][j] =
            inside && tile.column + j < width ? KN_READ_AS(KN_HALF_dy, dy + (line + j)) : 0;
#endif
    }
    KN_UNROLL for (int j = 0; j < KN_TILE; j++) {
        KN_EACH_RESULT(KN_LOAD_DOWN)
        KN_GRADIENT_POINTS(s, t)
        KN_EACH_POINT(KN_KEEP_DOWN)
    }
    KN_UNROLL for (int i = 0; i < KN_REACH; i++) {
        KN_EACH_RESULT(KN_LOAD_ACROSS)
        KN_GRADIENT_POINTS(s, t)
        KN_EACH_POINT(KN_STORE_POINT)
    }
}
#endif

#if KN_WANTED(kn_winograd_unfilters)
#define KN_STORE_TAP(j)                                                                                      \
    {                                                                                                        \
        const KN_INDEX at = pair * 9 + i * 3 + j;                                                            \
        const float tap = first ? t##j : total[at] + t##j;                                                   \
        if (last)                                                                                            \
            KN_WRITE_AS(KN_HALF_dw, tap, dw + at);                                                           \
        else                                                                                                 \
            total[at] = tap;                                                                                 \
    }

kernel void kn_winograd_unfilters(global const float *restrict sums, global float *restrict total,
                                  global KN_STORED(KN_HALF_dw) *restrict dw, KN_INDEX items, int parts, int first,
                                  int last) {
    const KN_INDEX pair = get_global_id(0);
    if (pair >= items) return;
    float grid[KN_REACH][KN_REACH];
    load_points(sums + pair, items, parts, grid);
    KN_UNROLL for (int j = 0; j < KN_REACH; j++) {
        KN_EACH_POINT(KN_LOAD_DOWN)
        KN_POINTS_FILTER(s, t)
        KN_EACH_TAP(KN_KEEP_DOWN)
    }
    KN_UNROLL for (int i = 0; i < 3; i++) {
        KN_EACH_POINT(KN_LOAD_ACROSS)
        KN_POINTS_FILTER(s, t)
        KN_EACH_TAP(KN_STORE_TAP)
    }
}
#endif
