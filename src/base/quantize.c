/* Quantizes float32 weights to blocks: the bytes of ggml's reference, which fixes the order of all operations
 * in float32. Nothing here may be computed in double or in a different order. */
#include <math.h>
#include <string.h>

#include "base/base.h"

/* Scales smaller than this are zero. */
#define TINY 1e-15f

static void put_half(uint8_t *bytes, float number) {
    kn_little_put(bytes, kn_half_from_float(number), 2);
}

static float half_at(const uint8_t *bytes) {
    return kn_float_from_half((uint16_t)kn_little_uint(bytes, 2));
}

/* The nearest integer, ties to even, from low to high. */
static int nearest(float number, int low, int high) {
    const float rounded = rintf(number);
    if (!(rounded > (float)low)) return low;
    return rounded < (float)high ? (int)rounded : high;
}

static void narrow_f32(const float *from, uint8_t *block) {
    kn_little_put(block, kn_bits_of_float(*from), 4);
}

static void narrow_f16(const float *from, uint8_t *block) {
    put_half(block, *from);
}

static void narrow_bf16(const float *from, uint8_t *block) {
    kn_little_put(block, kn_bfloat_from_float(*from), 2);
}

/* ---- blocks of 32: one scale --------------------------------------------------------------------------- */

/* The number of largest size, the first of several. */
static float largest(const float *from, int count) {
    float found = 0, size = 0;
    for (int i = 0; i < count; i++)
        if (fabsf(from[i]) > size) {
            size = fabsf(from[i]);
            found = from[i];
        }
    return found;
}

static void narrow_q8_0(const float *from, uint8_t *block) {
    const float d = fabsf(largest(from, 32)) / 127, inverse = d > 0 ? 1 / d : 0;
    put_half(block, d);
    for (int i = 0; i < 32; i++)
        block[2 + i] = (uint8_t)(int8_t)nearest(roundf(from[i] * inverse), -127, 127);
}

/* Codes around `zero`; the number of largest magnitude has code 0. */
static float scale_around(const float *from, int zero, uint8_t codes[32]) {
    const float d = largest(from, 32) / (float)-zero, inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i++)
        codes[i] = (uint8_t)nearest(truncf(from[i] * inverse + ((float)zero + 0.5f)), 0, 2 * zero - 1);
    return d;
}

static void narrow_q4_0(const float *from, uint8_t *block) {
    uint8_t codes[32];
    put_half(block, scale_around(from, 8, codes));
    for (int i = 0; i < 16; i++)
        block[2 + i] = (uint8_t)(codes[i] | codes[i + 16] << 4);
}

static void narrow_q5_0(const float *from, uint8_t *block) {
    uint8_t codes[32];
    uint32_t high = 0;
    put_half(block, scale_around(from, 16, codes));
    for (int i = 0; i < 16; i++)
        block[6 + i] = (uint8_t)((codes[i] & 15) | (codes[i + 16] & 15) << 4);
    for (int i = 0; i < 32; i++)
        high |= (uint32_t)(codes[i] >> 4) << i;
    kn_little_put(block + 2, high, 4);
}

/* ---- blocks of 256: groups whose scales are quantized, too --------------------------------------- */

/* A group of 32 numbers as scale * code - minimum. */
typedef struct affine {
    float scale, minimum;
    uint8_t codes[32];
} affine;

/* Least squares with these weights: candidates are the codes from scales somewhat above and below that which
 * spans the group from its minimum, each with the scale and minimum that are best for its codes. Candidates
 * after an improvement begin from its minimum. */
static void fit_affine(const float *from, const float *weights, affine *best) {
    enum { COUNT = 32, MOST = 15, CANDIDATES = 21 };
    float low = from[0], high = from[0], sum_w = 0, sum_x = 0, error = 0;
    for (int i = 0; i < COUNT; i++) {
        if (from[i] < low) low = from[i];
        if (from[i] > high) high = from[i];
        sum_w += weights[i];
        sum_x += weights[i] * from[i];
    }
    if (low > 0) low = 0;
    *best = (affine){.minimum = -low};
    if (high == low) return;
    for (int candidate = -1; candidate < CANDIDATES; candidate++) {
        const float more = candidate < 0 ? 0 : -1.0f + 0.1f * (float)candidate;
        const float inverse = (more + (float)MOST) / (high - low);
        float sum_c = 0, sum_cc = 0, sum_cx = 0, sum = 0, scale = 1 / inverse, offset = low;
        uint8_t codes[COUNT];
        for (int i = 0; i < COUNT; i++) {
            codes[i] = (uint8_t)nearest(inverse * (from[i] - low), 0, MOST);
            const float code = (float)codes[i];
            sum_c += weights[i] * code;
            sum_cc += weights[i] * code * code;
            sum_cx += weights[i] * code * from[i];
        }
        const float determinant = sum_w * sum_cc - sum_c * sum_c;
        if (candidate >= 0) {
            if (!(determinant > 0)) continue;
            scale = (sum_w * sum_cx - sum_x * sum_c) / determinant;
            offset = (sum_cc * sum_x - sum_c * sum_cx) / determinant;
            if (offset > 0) {
                offset = 0;
                scale = sum_cx / sum_cc;
            }
        }
        for (int i = 0; i < COUNT; i++) {
            const float off = scale * (float)codes[i] + offset - from[i];
            sum += weights[i] * (off * off);
        }
        if (candidate >= 0 && !(sum < error)) continue;
        error = sum;
        low = offset;
        *best = (affine){.scale = scale, .minimum = -offset};
        memcpy(best->codes, codes, sizeof codes);
    }
}

/* Numbers count by their size and by that of the group. */
static void weigh(const float *from, float weights[32]) {
    float squares = 0;
    for (int i = 0; i < 32; i++)
        squares += from[i] * from[i];
    const float usual = sqrtf(squares / 32);
    for (int i = 0; i < 32; i++)
        weights[i] = usual + fabsf(from[i]);
}

/* Packs scale and minimum of group j, six bits each, into 12 bytes that are zero at first. */
static void pack_scales(uint8_t *packed, int j, unsigned scale, unsigned minimum) {
    if (j < 4) {
        packed[j] = (uint8_t)scale;
        packed[j + 4] = (uint8_t)minimum;
    } else {
        packed[j + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        packed[j - 4] = (uint8_t)(packed[j - 4] | scale >> 4 << 6);
        packed[j] = (uint8_t)(packed[j] | minimum >> 4 << 6);
    }
}

static void narrow_q4_k(const float *from, uint8_t *block) {
    affine groups[8];
    float weights[32], scale = 0, minimum = 0;
    memset(block, 0, 144);
    for (int j = 0; j < 8; j++) {
        weigh(from + 32 * j, weights);
        fit_affine(from + 32 * j, weights, &groups[j]);
        if (groups[j].scale > scale) scale = groups[j].scale;
        if (groups[j].minimum > minimum) minimum = groups[j].minimum;
    }
    const float by_scale = scale > 0 ? 63 / scale : 0, by_minimum = minimum > 0 ? 63 / minimum : 0;
    put_half(block, scale / 63);
    put_half(block + 2, minimum / 63);
    for (int j = 0; j < 8; j++) {
        const int s = nearest(by_scale * groups[j].scale, 0, 63);
        const int m = nearest(by_minimum * groups[j].minimum, 0, 63);
        pack_scales(block + 4, j, (unsigned)s, (unsigned)m);
        const float d = half_at(block) * (float)s, offset = half_at(block + 2) * (float)m;
        for (int i = 0; i < 32; i++) {
            if (d != 0) groups[j].codes[i] = (uint8_t)nearest((from[32 * j + i] + offset) / d, 0, 15);
            block[16 + j / 2 * 32 + i] =
                (uint8_t)(block[16 + j / 2 * 32 + i] | groups[j].codes[i] << 4 * (j % 2));
        }
    }
}

/* Sums over 16 numbers and their codes from -32 to 31, weighted by the numbers' squares: of number * code and
 * of code * code. Their quotient is the best scale for these codes. */
static void scaled_sums(const float *from, float inverse, float *sum_cx, float *sum_cc) {
    *sum_cx = *sum_cc = 0;
    for (int i = 0; i < 16; i++) {
        const float code = (float)nearest(inverse * from[i], -32, 31), weight = from[i] * from[i];
        *sum_cx += weight * from[i] * code;
        *sum_cc += weight * code * code;
    }
}

/* The best scale of a group of 16 numbers, and their codes + 32. */
static float fit_scale(const float *from, uint8_t codes[16]) {
    const float most = largest(from, 16);
    float sum_cx, sum_cc, scale, best, chosen;
    memset(codes, 0, 16);
    if (fabsf(most) < TINY) return 0;
    chosen = -32 / most;
    scaled_sums(from, chosen, &sum_cx, &sum_cc);
    scale = sum_cc != 0 ? sum_cx / sum_cc : 0;
    best = scale * sum_cx;
    for (int step = -9; step <= 9; step++) {
        if (step == 0) continue;
        const float inverse = -(32 + 0.1f * (float)step) / most;
        scaled_sums(from, inverse, &sum_cx, &sum_cc);
        if (!(sum_cc > 0 && sum_cx * sum_cx > best * sum_cc)) continue;
        scale = sum_cx / sum_cc;
        best = scale * sum_cx;
        chosen = inverse;
    }
    for (int i = 0; i < 16; i++)
        codes[i] = (uint8_t)(nearest(chosen * from[i], -32, 31) + 32);
    return scale;
}

static void narrow_q6_k(const float *from, uint8_t *block) {
    uint8_t codes[256];
    float scales[16];
    memset(block, 0, 210);
    for (int j = 0; j < 16; j++)
        scales[j] = fit_scale(from + 16 * j, codes + 16 * j);
    const float scale = largest(scales, 16);
    if (fabsf(scale) < TINY) return;
    const float inverse = -128 / scale;
    put_half(block + 208, 1 / inverse);
    for (int j = 0; j < 16; j++) {
        const int s = nearest(inverse * scales[j], -128, 127);
        block[192 + j] = (uint8_t)(int8_t)s;
        const float d = half_at(block + 208) * (float)s;
        for (int i = 16 * j; d != 0 && i < 16 * j + 16; i++)
            codes[i] = (uint8_t)(nearest(from[i] / d, -32, 31) + 32);
    }
    for (int i = 0; i < 256; i++) {
        uint8_t *low = &block[i / 128 * 64 + i % 64], *high = &block[128 + i / 128 * 32 + i % 32];
        *low = (uint8_t)(*low | (codes[i] & 15) << 4 * (i / 64 % 2));
        *high = (uint8_t)(*high | codes[i] >> 4 << 2 * (i / 32 % 4));
    }
}

/* ---- all types ----------------------------------------------------------------------------------- */

static const struct {
    int number;
    void (*narrow)(const float *weights, uint8_t *block);
} types[] = {{0, narrow_f32},  {1, narrow_f16},   {2, narrow_q4_0},  {6, narrow_q5_0},
             {8, narrow_q8_0}, {12, narrow_q4_k}, {14, narrow_q6_k}, {30, narrow_bf16}};

bool kn_blocks_narrow(const kn_block_type *type, const float *weights, uint64_t count, uint8_t *blocks) {
    for (size_t i = 0; i < KN_COUNT_OF(types); i++) {
        if (types[i].number != type->number) continue;
        for (uint64_t k = 0; k < count; k++)
            types[i].narrow(weights + k * (uint64_t)type->weights, blocks + k * (uint64_t)type->bytes);
        return true;
    }
    return false;
}
