/* Packing and unpacking of filters, float32.
 *
 * Packed filters hold KN_COLUMNS = W * KN_VECTORS adjacent target channels, W = KN_WIDTH, in the order in
 * which a convolution reads them: [group][panel][source block][tap][lane][KN_COLUMNS], padded with zeros, and
 * W zeros after them all; a source block has `lanes` channels, W for blocked sources and 1 for plain ones.
 *
 * Defines: those of common/vector.cl; KN_VECTORS must be that of the convolution.
 *
 * Work-groups are (1,1,1); strides count elements; no memory outside the shapes is accessed.
 *
 * kn_pack_filter(plain, packed, targets, sources, taps, plain_group, plain_target, plain_source, lanes)
 *   global size (ceil(sources / lanes), groups * panels), panels = ceil(ceil(targets / W) / KN_VECTORS);
 *   targets and sources are the channels of one group, plain_group = targets * sources * taps. packed takes
 *   groups * panels * KN_COLUMNS * ceil(sources / lanes) * lanes * taps + W floats.
 *   Forward, from filters (K, C/groups, taps): targets = K/groups, sources = C/groups,
 *   plain_target = C/groups * taps, plain_source = taps.
 *   For the gradient of x, or a transposed convolution: targets and sources swapped, and their strides.
 * kn_unpack_filter(packed, plain, targets, sources, taps, plain_group, plain_target, plain_source, lanes,
 *                  parts, packed_part, accumulate)
 *   the inverse, for the gradient of a filter, with the same global size: sums `parts` packed filters in
 *   order, packed_part elements apart. accumulate: 1 adds to plain, 0 writes it. */
#include "common/wanted.cl"
#include "common/transpose_lanes.cl"

/* If the sources and taps of a target are contiguous in the plain filter, KN_WIDTH of them of KN_WIDTH targets are
 * transposed at once. `row` counts the packed rows of KN_COLUMNS in the plain order. */
typedef struct packed_row {
    int lane, tap;
} packed_row;
#define KN_NEXT_ROW                                                                                          \
    if (++row.tap == taps) row.tap = 0, row.lane++;
#define KN_PACKED_ROW ((KN_INDEX)row.tap * lanes + row.lane) * KN_COLUMNS
#define KN_LOAD_TARGET(i) const vector x##i = load(0, from + i * plain_target + at);
#define KN_STORE_ROW(i)                                                                                      \
    store(t##i, 0, to + KN_PACKED_ROW);                                                                      \
    KN_NEXT_ROW
#define KN_LOAD_ROW(i)                                                                                       \
    vector x##i = 0.0f;                                                                                      \
    for (int part = 0; part < parts; part++)                                                                 \
        x##i += load(0, from + part * packed_part + KN_PACKED_ROW);                                          \
    KN_NEXT_ROW
#define KN_STORE_TARGET(i) store(t##i, 0, to + i * plain_target + at);

/* Packs KN_WIDTH targets, `run` sources and taps of each. Not inlined, which halves the compile time. */
KN_NOINLINE void pack_run(global const float *from, global float *to, int run, int taps, int lanes,
                       KN_INDEX plain_target) {
    packed_row row = {0, 0};
    int at = 0;
    for (; at + KN_WIDTH <= run; at += KN_WIDTH) {
        KN_EACH_LANE(KN_LOAD_TARGET)
        KN_TRANSPOSE(x)
        KN_EACH_LANE(KN_STORE_ROW)
    }
    for (; at < run; at++) {
        for (int i = 0; i < KN_WIDTH; i++)
            to[KN_PACKED_ROW + i] = from[i * plain_target + at];
        KN_NEXT_ROW
    }
}

KN_NOINLINE void unpack_run(global const float *from, global float *to, int run, int taps, int lanes,
                         KN_INDEX plain_target, int parts, KN_INDEX packed_part) {
    packed_row row = {0, 0};
    int at = 0;
    for (; at + KN_WIDTH <= run; at += KN_WIDTH) {
        KN_EACH_LANE(KN_LOAD_ROW)
        KN_TRANSPOSE(x)
        KN_EACH_LANE(KN_STORE_TARGET)
    }
    for (; at < run; at++) {
        for (int i = 0; i < KN_WIDTH; i++) {
            float sum = 0.0f;
            for (int part = 0; part < parts; part++)
                sum += from[part * packed_part + KN_PACKED_ROW + i];
            to[i * plain_target + at] = sum;
        }
        KN_NEXT_ROW
    }
}

#if KN_WANTED(kn_pack_filter)
KN_WIDE kn_pack_filter(global const float *restrict plain, global float *restrict packed, int targets,
                       int sources, int taps, KN_INDEX plain_group, KN_INDEX plain_target,
                       KN_INDEX plain_source, int lanes) {
    const int panels = ((targets + KN_WIDTH - 1) / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS;
    const int block = get_global_id(0), group = get_global_id(1) / panels, panel = get_global_id(1) % panels;
    const KN_INDEX cell = (KN_INDEX)get_global_id(1) * get_global_size(0) + block;
    global float *restrict to = packed + cell * taps * lanes * KN_COLUMNS;
    plain += group * plain_group;
    const int whole = (block + 1) * lanes <= sources;
    for (int first = 0; first < KN_COLUMNS; first += KN_WIDTH) {
        const int target = panel * KN_COLUMNS + first, count = min(KN_WIDTH, targets - target);
        if (whole && count == KN_WIDTH && plain_source == taps) {
            pack_run(plain + target * plain_target + block * lanes * plain_source, to + first, lanes * taps,
                     taps, lanes, plain_target);
            continue;
        }
        for (int lane = 0; lane < lanes; lane++) {
            const int source = block * lanes + lane, columns = source < sources ? count : 0;
            global const float *restrict from = plain + target * plain_target + source * plain_source;
            if (columns == KN_WIDTH && plain_target == 1) {
                store(load(0, from), 0, to + (KN_INDEX)lane * KN_COLUMNS + first);
                continue;
            }
            for (int tap = 0; tap < taps; tap++)
                for (int i = 0; i < KN_WIDTH; i++)
                    to[((KN_INDEX)tap * lanes + lane) * KN_COLUMNS + first + i] =
                        i < columns ? from[i * plain_target + tap] : 0.0f;
        }
    }
    if (cell + 1 == (KN_INDEX)get_global_size(0) * get_global_size(1))
        for (int i = 0; i < KN_WIDTH; i++)
            to[(KN_INDEX)taps * lanes * KN_COLUMNS + i] = 0.0f;
}
#endif

#if KN_WANTED(kn_unpack_filter)
KN_WIDE kn_unpack_filter(global const float *restrict packed, global float *restrict plain, int targets,
                         int sources, int taps, KN_INDEX plain_group, KN_INDEX plain_target,
                         KN_INDEX plain_source, int lanes, int parts, KN_INDEX packed_part, int accumulate) {
    const int panels = ((targets + KN_WIDTH - 1) / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS;
    const int block = get_global_id(0), group = get_global_id(1) / panels, panel = get_global_id(1) % panels;
    const KN_INDEX cell = (KN_INDEX)get_global_id(1) * get_global_size(0) + block;
    const int columns = min(KN_COLUMNS, targets - panel * KN_COLUMNS),
              rows = min(lanes, sources - block * lanes);
    packed += cell * taps * lanes * KN_COLUMNS;
    plain += group * plain_group;
    int column = 0;
    if (rows == lanes && plain_source == taps && !accumulate)
        for (; column + KN_WIDTH <= columns; column += KN_WIDTH)
            unpack_run(packed + column,
                       plain + (panel * KN_COLUMNS + column) * plain_target + block * lanes * plain_source,
                       lanes * taps, taps, lanes, plain_target, parts, packed_part);
    for (; column < columns; column++)
        for (int lane = 0; lane < rows; lane++) {
            global float *restrict to =
                plain + (panel * KN_COLUMNS + column) * plain_target + (block * lanes + lane) * plain_source;
            for (int tap = 0; tap < taps; tap++) {
                global const float *from = packed + ((KN_INDEX)tap * lanes + lane) * KN_COLUMNS + column;
                float sum = accumulate ? to[tap] : 0.0f;
                for (int part = 0; part < parts; part++)
                    sum += from[part * packed_part];
                to[tap] = sum;
            }
        }
}
#endif
