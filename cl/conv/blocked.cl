/* Convolution of blocked 16-bit images on a matrix unit, and its gradient with respect to the data: result
 * (N,T/8,H',W',8) of source (N,S/8,H,W,8) and a filter, and an epilogue. An implicit matrix product
 * (conv/blocked_tile.cl): rows are the channels T of the result, columns its pixels in all images, and the sum runs over
 * (tap,S), so that eight elements along it are one load on both sides. A work-item loads the same position in each
 * slice, counting taps and blocks of channels as it advances.
 *
 * Defines, besides those of conv/blocked_tile.cl:
 *   KN_DATA 0          1: the gradient: source is dy, and the result dx. Pixels whose distance from each other is a
 *                      multiple of the stride use the same taps: they are a phase (conv/phase.cl)
 *   KN_HALF_source, _packed 2, KN_HALF_weight, _result 0   storage types (common/storage.cl)
 *   KN_PACK_ITEMS 64, KN_SOURCES 64, KN_PLACES 16   of kn_pack_blocked
 *
 * kn_pack_blocked(weight0, packed0, sources0, places0, source_stride0, group_stride0, groups0, weight1, …, groups15)
 *   packed (places,sources) in 16 bits, places being (targets,taps). A work-group of KN_PACK_ITEMS packs KN_PLACES
 *   places, which are adjacent in weight, and KN_SOURCES sources, a multiple of 8, through local memory. source_stride
 *   and group_stride are distances in weight, between sources and between the places of consecutive groups.
 *   Work-groups: groups0 = ceil(places0 / KN_PLACES) * ceil(sources0 / KN_SOURCES) for filter 0, then those of
 *   filter 1, and so on; absent filters have none
 * kn_conv_blocked(source, packed, result, partials, images, sources, source_height, source_width, targets,
 *                 target_height, target_width, filter_height, filter_width, stride_y, stride_x, pad_top, pad_left,
 *                 dilation_y, dilation_x, parts, part_depth, EPILOGUE)
 *   work-groups of (KN_ITEMS,1,1), numbering (ceil(pixels / KN_TILE_N), ceil(targets / KN_TILE_M), parts), where
 *   pixels are those of all images (for the gradient those of the largest phase), and parts are multiplied by the
 *   number of phases. With parts > 1, part p sums from p * part_depth, a multiple of KN_TILE_K, and stores its
 *   partial sums in partials (parts,N,T/4,H',W',4), so that work-items that store or load 16 bytes at a time are
 *   adjacent, for
 * kn_sum_blocked(partials, result, vectors, parts, blocks, pixels, EPILOGUE)
 *   one work-item per block of eight of the result, which adds its parts in order. */
#include "common/epilogue.cl"
#include "common/storage.cl"
#include "common/wanted.cl"
#include "conv/phase.cl"
#ifndef KN_HALF_source
#define KN_HALF_source 2
#endif
#ifndef KN_HALF_packed
#define KN_HALF_packed 2
#endif

#if KN_WANTED(kn_pack_blocked)
#ifndef KN_PACK_ITEMS
#define KN_PACK_ITEMS 64
#endif
#ifndef KN_SOURCES
#define KN_SOURCES 64
#endif
#ifndef KN_PLACES
#define KN_PLACES 16
#endif
/* The position of an element in the tile: elements of different sources are in different banks. */
#define KN_TILE_PLACE(number) ((number) + (number) / 32)
#define KN_FILTER(i)                                                                                         \
    global const KN_STORED(KN_HALF_weight) *restrict weight##i,                                              \
        global KN_STORED(KN_HALF_packed) *restrict packed##i, KN_INDEX sources##i, KN_INDEX places##i,       \
        KN_INDEX source_stride##i, KN_INDEX group_stride##i, int groups##i
#define KN_CHOOSE(i)                                                                                         \
    if (number < groups##i) {                                                                                \
        weight = weight##i;                                                                                  \
        packed = packed##i;                                                                                  \
        sources = sources##i;                                                                                \
        places = places##i;                                                                                  \
        source_stride = source_stride##i;                                                                    \
        group_stride = group_stride##i;                                                                      \
        break;                                                                                               \
    }                                                                                                        \
    number -= groups##i;
__attribute__((reqd_work_group_size(KN_PACK_ITEMS, 1, 1))) kernel void
kn_pack_blocked(KN_FILTER(0), KN_FILTER(1), KN_FILTER(2), KN_FILTER(3), KN_FILTER(4), KN_FILTER(5), KN_FILTER(6),
                KN_FILTER(7), KN_FILTER(8), KN_FILTER(9), KN_FILTER(10), KN_FILTER(11), KN_FILTER(12), KN_FILTER(13),
                KN_FILTER(14), KN_FILTER(15)) {
    global const KN_STORED(KN_HALF_weight) *weight = weight0;
    global KN_STORED(KN_HALF_packed) *packed = packed0;
    KN_INDEX sources = 0, places = 0, source_stride = 0, group_stride = 0;
    int number = KN_GROUP(0, KN_PACK_ITEMS);
    do {
        KN_CHOOSE(0) KN_CHOOSE(1) KN_CHOOSE(2) KN_CHOOSE(3) KN_CHOOSE(4) KN_CHOOSE(5) KN_CHOOSE(6) KN_CHOOSE(7)
        KN_CHOOSE(8) KN_CHOOSE(9) KN_CHOOSE(10) KN_CHOOSE(11) KN_CHOOSE(12) KN_CHOOSE(13) KN_CHOOSE(14) KN_CHOOSE(15)
    } while (false);
    const int across = max((int)((places + KN_PLACES - 1) / KN_PLACES), 1);
    const KN_INDEX group = number % across, place0 = group * KN_PLACES;
    const KN_INDEX source0 = (KN_INDEX)(number / across) * KN_SOURCES;
    local float tile[KN_TILE_PLACE(KN_SOURCES * KN_PLACES)];
    weight += group * group_stride + source0 * source_stride;
    for (int i = get_local_id(0); i < KN_SOURCES * KN_PLACES; i += KN_PACK_ITEMS)
        if (source0 + i / KN_PLACES < sources && place0 + i % KN_PLACES < places)
            tile[KN_TILE_PLACE(i)] =
                KN_READ_AS(KN_HALF_weight, weight + i / KN_PLACES * source_stride + i % KN_PLACES);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(0); i < KN_SOURCES / 8 * KN_PLACES; i += KN_PACK_ITEMS) {
        const int source = i % (KN_SOURCES / 8) * 8, place = i / (KN_SOURCES / 8);
        if (source0 + source >= sources || place0 + place >= places) continue;
#define KN_TRANSPOSED(i) tile[KN_TILE_PLACE((source + (i)) * KN_PLACES + place)]
        const float8 eight = {KN_TRANSPOSED(0), KN_TRANSPOSED(1), KN_TRANSPOSED(2), KN_TRANSPOSED(3),
                              KN_TRANSPOSED(4), KN_TRANSPOSED(5), KN_TRANSPOSED(6), KN_TRANSPOSED(7)};
        KN_WRITE_8_AS(KN_HALF_packed, eight, packed + (place0 + place) * sources + source0 + source);
    }
}
#endif

#if KN_WANTED(kn_sum_blocked)
kernel void kn_sum_blocked(global const float *restrict partials,
                           global KN_STORED(KN_HALF_result) *restrict result, KN_INDEX vectors, int parts,
                           KN_INDEX blocks, KN_INDEX pixels KN_EPILOGUE_PARAMETERS) {
    const KN_INDEX i = get_global_id(0);
    if (i >= vectors) return;
    const KN_INDEX pixel = i % pixels, block = i / pixels % blocks, image = i / pixels / blocks;
    global const float4 *from = (global const float4 *)partials + 2 * i - pixel;
    float8 sum = (float8)(from[0], from[pixels]);
    for (int part = 1; part < parts; part++) {
        from += 2 * vectors;
        sum += (float8)(from[0], from[pixels]);
    }
    KN_WRITE_8_AS(KN_HALF_result, KN_EPILOGUE_VECTOR(sum, image, block * 8, pixel), result + i * 8);
}
#endif

#if KN_WANTED(kn_conv_blocked)
#include "conv/blocked_tile.cl"
#ifndef KN_DATA
#define KN_DATA 0
#endif
#define KN_LEFT_PIECES KN_PIECES(KN_TILE_M, KN_BLOCK, KN_ALONG)
#define KN_RIGHT_PIECES KN_PIECES(KN_TILE_N, KN_BLOCK, KN_ALONG)
#define KN_LEFT_AT(p) piece_at(p, KN_ALONG, KN_TILE_M, KN_BLOCK)
#define KN_RIGHT_AT(p) piece_at(p, KN_ALONG, KN_TILE_N, KN_BLOCK)

/* The position of a work-item in the sum: at k, a channel of a tap. */
typedef struct walk {
    int k, channel, tap_y, tap_x;
} walk;
static inline walk walk_from(const int k, const int sources, const int taps_x) {
    const int tap = k / sources;
    const walk walk = {k, k - tap * sources, tap / max(taps_x, 1), tap % max(taps_x, 1)};
    return walk;
}
static inline void walk_on(walk *walk, const int sources, const int taps_x) {
    walk->k += KN_TILE_K;
    walk->channel += KN_TILE_K;
    while (walk->channel >= sources) {
        walk->channel -= sources;
        if (++walk->tap_x == taps_x) {
            walk->tap_x = 0;
            walk->tap_y++;
        }
    }
}

#define KN_FETCH_SLICE(k0)                                                                                   \
    const int down = at.tap_y * step_y, across = at.tap_x * step_x;                                          \
    const KN_INDEX inside = (KN_INDEX)down * source_width + across;                                          \
    const KN_INDEX from = (KN_INDEX)at.channel * source_plane + inside * KN_BLOCK;                           \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++)                                                      \
        right_next[p].line[0] = KN_LOAD_RAW_IF(                                                              \
            KN_IS_WANTED(at.k) && KN_IS_INSIDE(y[p] + down, x[p] + across, source_height, source_width),     \
            KN_HALF_source, KN_BLOCK, source, right_at[p] + from);                                           \
    const KN_INDEX along = (KN_INDEX)KN_LEFT_TAP * sources + at.channel;                                     \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++)                                                       \
        left_next[p].line[0] =                                                                               \
            KN_LOAD_RAW_IF(KN_IS_WANTED(at.k), KN_HALF_packed, KN_BLOCK, packed, left_at[p] + along);        \
    walk_on(&at, sources, taps_x);
#define KN_PUT_SLICE(turn)                                                                                   \
    KN_PUT_PIECES(left_next, KN_ALONG, KN_TILE_M, KN_BLOCK, 1, left + (turn) * KN_LEFT_SLICE)                \
    KN_PUT_PIECES(right_next, KN_ALONG, KN_TILE_N, KN_BLOCK, 0, right + (turn) * KN_RIGHT_SLICE)

KN_WORK_GROUP kernel void kn_conv_blocked(global const KN_STORED(KN_HALF_source) *restrict source,
                                          global const KN_STORED(KN_HALF_packed) *restrict packed,
                                          global KN_STORED(KN_HALF_result) *restrict result,
                                          global KN_A *restrict partials, int images, int sources, int source_height,
                                          int source_width, int targets, int target_height, int target_width,
                                          int filter_height, int filter_width, int stride_y, int stride_x,
                                          int pad_top, int pad_left, int dilation_y, int dilation_x, int parts,
                                          int part_depth KN_EPILOGUE_PARAMETERS) {
    KN_SLICES(2)
    const int part = KN_GROUP(2, 1) % parts, row0 = KN_GROUP(1, 1) * KN_TILE_M;
    const KN_INDEX column0 = (KN_INDEX)KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const KN_INDEX source_plane = (KN_INDEX)source_height * source_width;
#if KN_DATA
    const int rest = KN_GROUP(2, 1) / parts;
    const phase in_y = find_phase(rest / KN_STRIDE(stride_x), KN_STRIDE(stride_y), pad_top, dilation_y,
                                  filter_height, target_height);
    const phase in_x = find_phase(rest % KN_STRIDE(stride_x), KN_STRIDE(stride_x), pad_left, dilation_x,
                                  filter_width, target_width);
    const int rows = in_y.count, row = in_x.count, taps_y = in_y.taps, taps_x = in_x.taps;
    const int step_y = -in_y.distance, step_x = -in_x.distance;
#define KN_LEFT_TAP                                                                                          \
    ((in_y.tap + at.tap_y * in_y.tap_step) * filter_width + in_x.tap + at.tap_x * in_x.tap_step)
#define KN_SOURCE_Y(line) ((line) + in_y.base)
#define KN_SOURCE_X(line) ((line) + in_x.base)
#else
    const int rows = target_height, row = target_width, taps_y = filter_height, taps_x = filter_width;
    const int step_y = dilation_y, step_x = dilation_x;
#define KN_LEFT_TAP (at.tap_y * filter_width + at.tap_x)
#define KN_SOURCE_Y(line) ((line)*stride_y - pad_top)
#define KN_SOURCE_X(line) ((line)*stride_x - pad_left)
#endif
    const KN_INDEX columns = (KN_INDEX)images * rows * row;
    const int depth = taps_y * taps_x * sources, k_first = part * part_depth;
    const int k_last = parts > 1 ? min(k_first + part_depth, depth) : depth;
    /* If another phase has more pixels than this one, there is nothing to sum. */
    const int k_end = column0 < columns ? k_last : k_first;
    /* Nonzero divisors also for a phase without pixels. */
    const int pixels = max(rows * row, 1), line = max(row, 1);
    int y[KN_RIGHT_PIECES], x[KN_RIGHT_PIECES];
    KN_INDEX right_at[KN_RIGHT_PIECES], left_at[KN_LEFT_PIECES];
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++) {
        const KN_INDEX column = min(column0 + KN_RIGHT_AT(p).i, max(columns - 1, (KN_INDEX)0)), image = column / pixels;
        const int pixel = column - image * pixels;
        y[p] = KN_SOURCE_Y(pixel / line);
        x[p] = KN_SOURCE_X(pixel % line);
        right_at[p] = image * sources * source_plane + ((KN_INDEX)y[p] * source_width + x[p]) * KN_BLOCK;
    }
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++)
        left_at[p] = (KN_INDEX)min(row0 + KN_LEFT_AT(p).i, targets - 1) * filter_height * filter_width * sources;
    walk at = walk_from(k_first + KN_RIGHT_AT(0).k, sources, taps_x);
    piece_8 left_next[KN_LEFT_PIECES], right_next[KN_RIGHT_PIECES];
    sums sums;
    sums_clear(&sums);
    KN_ADD_SLICES(k_first, k_end, KN_FETCH_SLICE, KN_PUT_SLICE)

    /* Adjacent work-items store adjacent pixels; each work-item stores pixels of one column of the tile. */
    const KN_INDEX column = column0 + (int)get_local_id(0) % KN_TILE_N, target_plane = (KN_INDEX)target_height * target_width;
    const KN_INDEX image = column / pixels;
    const int pixel = column - image * pixels;
#if KN_DATA
    const KN_INDEX inner = (KN_INDEX)(in_y.first + pixel / line * KN_STRIDE(stride_y)) * target_width + in_x.first +
                           pixel % line * KN_STRIDE(stride_x);
#else
    const KN_INDEX inner = pixel;
#endif
    if (parts > 1) partials += part * images * targets * target_plane;
    KN_UNROLL_TILES for (int i = 0; i < KN_STAGES; i++) {
        sums_stage(&sums, i, stage);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int r = get_local_id(0) / KN_TILE_N * KN_BLOCK; r < KN_STAGE_ROWS; r += KN_ITEMS / KN_TILE_N * KN_BLOCK) {
            const int channel = row0 + KN_STAGED_ROW(i, r);
            local const KN_A *sum = stage + (int)get_local_id(0) % KN_TILE_N;
#define KN_STAGED_SUM(more) sum[KN_STAGE_LINE(r + (more)) * KN_STAGE_ROW]
            const float8 eight = {KN_STAGED_SUM(0), KN_STAGED_SUM(1), KN_STAGED_SUM(2), KN_STAGED_SUM(3),
                                  KN_STAGED_SUM(4), KN_STAGED_SUM(5), KN_STAGED_SUM(6), KN_STAGED_SUM(7)};
            const KN_INDEX to = (image * targets + channel) * target_plane + inner * KN_BLOCK;
            if (channel < targets && column < columns) {
                if (parts > 1) {
                    global float4 *half_block = (global float4 *)(partials + to - inner * (KN_BLOCK / 2));
                    half_block[0] = eight.lo;
                    half_block[target_plane] = eight.hi;
                } else {
                    KN_WRITE_8_AS(KN_HALF_result, KN_EPILOGUE_VECTOR(eight, image, channel, inner), result + to);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif
