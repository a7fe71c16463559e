/* Conversions between the plain layout and the one that wide-vector devices use, float32.
 *
 * Blocked values hold W = KN_WIDTH channels side by side: (N, C/W, P, W) for the plain (N, C, P), where P
 * stands for all pixels of an image; channels are padded with zeros to a multiple of W. Packed filters hold
 * KN_COLUMNS = W * KN_VECTORS target channels side by side, in the order in which a convolution reads them:
 * [group][panel][source block][tap][lane][KN_COLUMNS], padded with zeros, and W zeros behind them all; a
 * source block has `lanes` channels, W for blocked sources and 1 for plain ones.
 *
 * Defines: those of common/vector.cl; KN_VECTORS must be that of the convolution.
 *
 * Work-groups are (1,1,1); strides count elements; nothing beyond the shapes is touched.
 *
 * kn_block(plain, blocked, channels, pixels, plain_image, plain_channel, blocked_image, item_pixels)
 * kn_unblock(blocked, plain, channels, pixels, blocked_image, plain_image, plain_channel, item_pixels,
 *            EPILOGUE)
 *   global size (ceil(pixels / item_pixels), ceil(channels / W), images), item_pixels a multiple of W. The
 *   strides are those from image to image and from channel to channel.
 * kn_pack_filter(plain, packed, targets, sources, taps, plain_group, plain_target, plain_source, lanes)
 *   global size (ceil(sources / lanes), groups * panels), panels = ceil(ceil(targets / W) / KN_VECTORS);
 *   targets and sources are the channels of one group, plain_group = targets * sources * taps. packed takes
 *   groups * panels * KN_COLUMNS * ceil(sources / lanes) * lanes * taps + W floats.
 *   Forward, from filters (K, C/groups, taps): targets = K/groups, sources = C/groups,
 *   plain_target = C/groups * taps, plain_source = taps.
 *   For the gradient of x, or a transposed convolution: targets and sources swapped, and their strides.
 * kn_unpack_filter(packed, plain, targets, sources, taps, plain_group, plain_target, plain_source, lanes,
 *                  parts, packed_part, accumulate)
 *   the way back, for the gradient of a filter, with the same global size: sums `parts` packed filters in
 *   order, each packed_part elements after the one before. accumulate: 1 adds to plain, 0 writes it. */
#include "common/weave.cl"

/* ---- values ---------------------------------------------------------------- */

#define KN_LOAD_CHANNEL(i)                                                                                   \
    vector x##i = 0.0f;                                                                                      \
    if (i < count) x##i = load(0, plain + i * plain_channel + pixel);
#define KN_STORE_PIXEL(i) store(t##i, pixel + i, blocked);
#define KN_LOAD_PIXEL(i) const vector x##i = load(pixel + i, blocked);
#define KN_STORE_CHANNEL(i)                                                                                  \
    if (i < count)                                                                                           \
        store(KN_EPILOGUE_VECTOR(t##i, image, block *KN_WIDTH + i, pixel), 0,                                \
              plain + i * plain_channel + pixel);

KN_WIDE kn_block(global const float *restrict plain, global float *restrict blocked, int channels, int pixels,
                 KN_INDEX plain_image, KN_INDEX plain_channel, KN_INDEX blocked_image, int item_pixels) {
    const KN_INDEX image = get_global_id(2), block = get_global_id(1);
    const int count = channels - (int)block * KN_WIDTH;
    int pixel = get_global_id(0) * item_pixels;
    const int end = min(pixel + item_pixels, pixels);
    plain += image * plain_image + block * KN_WIDTH * plain_channel;
    blocked += image * blocked_image + block * pixels * KN_WIDTH;
    for (; pixel + KN_WIDTH <= end; pixel += KN_WIDTH) {
        KN_EACH_LANE(KN_LOAD_CHANNEL);
        KN_TRANSPOSE(x);
        KN_EACH_LANE(KN_STORE_PIXEL);
    }
    for (; pixel < end; pixel++)
        for (int i = 0; i < KN_WIDTH; i++)
            blocked[(KN_INDEX)pixel * KN_WIDTH + i] = i < count ? plain[i * plain_channel + pixel] : 0.0f;
}

KN_WIDE kn_unblock(global const float *restrict blocked, global float *restrict plain, int channels,
                   int pixels, KN_INDEX blocked_image, KN_INDEX plain_image, KN_INDEX plain_channel,
                   int item_pixels KN_EPILOGUE_PARAMETERS) {
    const KN_INDEX image = get_global_id(2), block = get_global_id(1);
    const int count = min(KN_WIDTH, channels - (int)block * KN_WIDTH);
    int pixel = get_global_id(0) * item_pixels;
    const int end = min(pixel + item_pixels, pixels);
    plain += image * plain_image + block * KN_WIDTH * plain_channel;
    blocked += image * blocked_image + block * pixels * KN_WIDTH;
    for (; pixel + KN_WIDTH <= end; pixel += KN_WIDTH) {
        KN_EACH_LANE(KN_LOAD_PIXEL);
        KN_TRANSPOSE(x);
        KN_EACH_LANE(KN_STORE_CHANNEL);
    }
    for (; pixel < end; pixel++)
        for (int i = 0; i < count; i++)
            plain[i * plain_channel + pixel] =
                KN_EPILOGUE(blocked[(KN_INDEX)pixel * KN_WIDTH + i], image, block * KN_WIDTH + i, pixel);
}

/* ---- filters --------------------------------------------------------------- */

KN_WIDE kn_pack_filter(global const float *restrict plain, global float *restrict packed, int targets,
                       int sources, int taps, KN_INDEX plain_group, KN_INDEX plain_target,
                       KN_INDEX plain_source, int lanes) {
    const int panels = ((targets + KN_WIDTH - 1) / KN_WIDTH + KN_VECTORS - 1) / KN_VECTORS;
    const int block = get_global_id(0), group = get_global_id(1) / panels, panel = get_global_id(1) % panels;
    const KN_INDEX cell = (KN_INDEX)get_global_id(1) * get_global_size(0) + block;
    global float *restrict to = packed + cell * taps * lanes * KN_COLUMNS;
    plain += group * plain_group;
    for (int first = 0; first < KN_COLUMNS; first += KN_WIDTH) {
        const int target = panel * KN_COLUMNS + first, count = min(KN_WIDTH, targets - target);
        for (int lane = 0; lane < lanes; lane++) {
            const int source = block * lanes + lane, columns = source < sources ? count : 0;
            global const float *restrict from = plain + target * plain_target + source * plain_source;
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
    for (int column = 0; column < columns; column++)
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
