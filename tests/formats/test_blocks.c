/* Blocks are quantized to ggml's bytes. Dequantization, to the bit, against the loops by which ggml defines
 * the formats: weights in the order of the stored bytes, with scales unpacked by words where the library does
 * it by bytes. */
#include "formats_tests.h"

#include <math.h>
#include <string.h>

static float half(const uint8_t *at) {
    return kn_float_from_half((uint16_t)(at[0] | at[1] << 8));
}

static uint32_t word(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void f32(const uint8_t *block, float *to) {
    uint32_t bits = word(block);
    memcpy(to, &bits, 4);
}

static void f16(const uint8_t *block, float *to) {
    to[0] = half(block);
}

static void bf16(const uint8_t *block, float *to) {
    uint32_t bits = (uint32_t)block[0] << 16 | (uint32_t)block[1] << 24;
    memcpy(to, &bits, 4);
}

static void q8_0(const uint8_t *block, float *to) {
    for (int i = 0; i < 32; i++)
        to[i] = (float)(block[2 + i] < 128 ? block[2 + i] : block[2 + i] - 256) * half(block);
}

/* Both nibbles of one byte are weights j and j + 16. */
static void q4_0(const uint8_t *block, float *to) {
    for (int j = 0; j < 16; j++) {
        to[j] = (float)((block[2 + j] & 0x0f) - 8) * half(block);
        to[j + 16] = (float)((block[2 + j] >> 4) - 8) * half(block);
    }
}

static void q4_1(const uint8_t *block, float *to) {
    for (int j = 0; j < 16; j++) {
        to[j] = (float)(block[4 + j] & 0x0f) * half(block) + half(block + 2);
        to[j + 16] = (float)(block[4 + j] >> 4) * half(block) + half(block + 2);
    }
}

static void q5(const uint8_t *high, const uint8_t *codes, int *low, int *upper, int j) {
    *low = (codes[j] & 0x0f) | (int)((word(high) >> j) << 4 & 0x10);
    *upper = codes[j] >> 4 | (int)(word(high) >> (j + 12) & 0x10);
}

static void q5_0(const uint8_t *block, float *to) {
    for (int j = 0; j < 16; j++) {
        int low, upper;
        q5(block + 2, block + 6, &low, &upper, j);
        to[j] = (float)(low - 16) * half(block);
        to[j + 16] = (float)(upper - 16) * half(block);
    }
}

static void q5_1(const uint8_t *block, float *to) {
    for (int j = 0; j < 16; j++) {
        int low, upper;
        q5(block + 4, block + 8, &low, &upper, j);
        to[j] = (float)low * half(block) + half(block + 2);
        to[j + 16] = (float)upper * half(block) + half(block + 2);
    }
}

static void iq4_nl(const uint8_t *block, float *to) {
    static const int values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    for (int j = 0; j < 16; j++) {
        to[j] = half(block) * (float)values[block[2 + j] % 16];
        to[j + 16] = half(block) * (float)values[block[2 + j] / 16];
    }
}

static void q2_k(const uint8_t *block, float *to) {
    const uint8_t *q = block + 16, *scales = block;
    for (int n = 0; n < 256; n += 128, q += 32)
        for (int shift = 0; shift < 8; shift += 2)
            for (int part = 0; part < 32; part += 16, scales++)
                for (int l = 0; l < 16; l++)
                    *to++ = half(block + 80) * (float)(*scales & 0xf) * (float)(q[part + l] >> shift & 3) -
                            half(block + 82) * (float)(*scales >> 4);
}

static void q3_k(const uint8_t *block, float *to) {
    const uint8_t *q = block + 32;
    uint32_t aux[4] = {word(block + 96), word(block + 100), word(block + 104), 0};
    uint32_t tmp = aux[2];
    aux[2] = (aux[0] >> 4 & 0x0f0f0f0f) | (tmp >> 4 & 0x03030303) << 4;
    aux[3] = (aux[1] >> 4 & 0x0f0f0f0f) | (tmp >> 6 & 0x03030303) << 4;
    aux[0] = (aux[0] & 0x0f0f0f0f) | (tmp & 0x03030303) << 4;
    aux[1] = (aux[1] & 0x0f0f0f0f) | (tmp >> 2 & 0x03030303) << 4;
    int group = 0;
    uint8_t mask = 1;
    for (int n = 0; n < 256; n += 128, q += 32)
        for (int shift = 0; shift < 8; shift += 2, mask = (uint8_t)(mask << 1))
            for (int part = 0; part < 32; part += 16, group++) {
                int scale = (int)(aux[group / 4] >> 8 * (group % 4) & 0xff) - 32;
                for (int l = part; l < part + 16; l++)
                    *to++ = half(block + 108) * (float)scale *
                            (float)((q[l] >> shift & 3) - (block[l] & mask ? 0 : 4));
            }
}

static void k_scale(int j, const uint8_t *q, int *d, int *m) {
    *d = j < 4 ? q[j] & 63 : (q[j + 4] & 0xF) | (q[j - 4] >> 6) << 4;
    *m = j < 4 ? q[j + 4] & 63 : q[j + 4] >> 4 | (q[j] >> 6) << 4;
}

static void k45(const uint8_t *block, const uint8_t *high, const uint8_t *q, float *to) {
    for (int j = 0; j < 8; j += 2, q += 32)
        for (int upper = 0; upper < 2; upper++) {
            int d, m;
            k_scale(j + upper, block + 4, &d, &m);
            for (int l = 0; l < 32; l++) {
                int code = upper ? q[l] / 16 : q[l] % 16;
                if (high && high[l] & 1 << (j + upper)) code += 16;
                *to++ = half(block) * (float)d * (float)code - half(block + 2) * (float)m;
            }
        }
}

static void q4_k(const uint8_t *block, float *to) {
    k45(block, NULL, block + 16, to);
}

static void q5_k(const uint8_t *block, float *to) {
    k45(block, block + 16, block + 48, to);
}

static void q6_k(const uint8_t *block, float *to) {
    const uint8_t *ql = block, *qh = block + 128, *scales = block + 192;
    for (int n = 0; n < 256; n += 128, ql += 64, qh += 32, scales += 8, to += 128)
        for (int l = 0; l < 32; l++)
            for (int k = 0; k < 4; k++) {
                int low = k < 2 ? ql[l + 32 * k] & 0xF : ql[l + 32 * (k - 2)] >> 4;
                int code = (low | (qh[l] >> 2 * k & 3) << 4) - 32;
                int scale = scales[l / 16 + 2 * k];
                to[l + 32 * k] = half(block + 208) * (float)(scale < 128 ? scale : scale - 256) * (float)code;
            }
}

static const struct {
    const char *name;
    void (*widen)(const uint8_t *block, float *to);
} references[] = {
    {"F32", f32},   {"F16", f16},   {"BF16", bf16}, {"Q8_0", q8_0},     {"Q4_0", q4_0},
    {"Q4_1", q4_1}, {"Q5_0", q5_0}, {"Q5_1", q5_1}, {"Q2_K", q2_k},     {"Q3_K", q3_k},
    {"Q4_K", q4_k}, {"Q5_K", q5_k}, {"Q6_K", q6_k}, {"IQ4_NL", iq4_nl},
};

/* Random bytes, so scales are of any size and sign, infinities and NaN included. */
TEST(blocks_have_the_bits_of_the_reference) {
    size_t count;
    const kn_block_type *blocks = kn_block_types(&count);
    assert_int_equal(count, KN_COUNT_OF(references));
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < count && strcmp(references[at].name, blocks[i].name) != 0)
            at++;
        assert_true(at < count);
        assert_ptr_equal(kn_block_type_find(blocks[i].number), &blocks[i]);
        for (uint64_t round = 0; round < 2000; round++) {
            uint8_t bytes[256];
            float found[256], expected[256];
            uint64_t key = kn_random_key(round, blocks[i].name);
            for (int j = 0; j < blocks[i].bytes; j++)
                bytes[j] = (uint8_t)kn_random_word(key, (uint64_t)j);
            kn_blocks_widen(&blocks[i], bytes, 1, found);
            references[at].widen(bytes, expected);
            for (int j = 0; j < blocks[i].weights; j++) {
                /* The sign and payload of a computed NaN depend on the order of the operands. */
                bool same = memcmp(&found[j], &expected[j], sizeof(float)) == 0;
                if (!same && !(found[j] != found[j] && expected[j] != expected[j]))
                    fail_msg("%s, round %llu, weight %d: %a, expected %a", blocks[i].name,
                             (unsigned long long)round, j, (double)found[j], (double)expected[j]);
            }
        }
    }
}

TEST(rows_are_blocks_in_order) {
    uint8_t bytes[3 * 34 + 1];
    float all[96], one[32];
    const kn_block_type *q8 = kn_block_type_find(8);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 % 120);
    kn_blocks_widen(q8, bytes + 1, 3, all); /* unaligned */
    for (int i = 0; i < 3; i++) {
        q8->widen(bytes + 1 + 34 * i, one);
        assert_memory_equal(one, all + 32 * i, sizeof one);
    }
    assert_null(kn_block_type_find(4));
    assert_null(kn_block_type_find(-1));
}

/* ---- quantization -------------------------------------------------------------------------------- */

enum { NARROWED = 40 * 256 };

/* Rows of 256 numbers of eight kinds. */
static void fill(float numbers[NARROWED]) {
    uint32_t word = 1;
    for (int i = 0; i < NARROWED; i++) {
        word = word * 1664525u + 1013904223u;
        const float number = (float)((int32_t)(word >> 8) - (1 << 23)) / (float)(1 << 23);
        const float kinds[8] = {number,
                                number * number * number,
                                number < 0 ? -number : number,
                                number < 0 ? number : -number,
                                (word >> 11) % 8 == 0 ? number : 0,
                                number * 0x1p-20f,
                                0,
                                0.75f};
        numbers[i] = kinds[i / 256 % 8];
    }
}

/* Hashes of what ggml_quantize_chunk writes for these numbers. */
TEST(blocks_are_quantized_as_ggml_does) {
    static const struct {
        const char *name;
        uint64_t hash;
    } known[] = {{"Q4_0", 0x09df1d0bdb8a31d8u},
                 {"Q5_0", 0xf69bb9d178147153u},
                 {"Q8_0", 0x82d542b81f9d715fu},
                 {"Q4_K", 0xef8840317a273323u},
                 {"Q6_K", 0x44065f7dcf3b32b8u}};
    static float numbers[NARROWED];
    static uint8_t blocks[NARROWED * 2];
    fill(numbers);
    for (size_t i = 0; i < KN_COUNT_OF(known); i++) {
        const kn_block_type *type = kn_block_type_named(known[i].name);
        const uint64_t count = NARROWED / type->weights;
        assert_true(kn_blocks_narrow(type, numbers, count, blocks));
        if (kn_hash_bytes(KN_HASH_START, blocks, (size_t)count * (size_t)type->bytes) != known[i].hash)
            fail_msg("%s differs from ggml", known[i].name);
    }
}

/* Numbers so small that a scale is a subnormal number, or its inverse infinite. */
TEST(tiny_numbers_are_quantized) {
    float numbers[256], widened[256];
    uint8_t block[256];
    size_t count;
    const kn_block_type *blocks = kn_block_types(&count);
    for (int e = -149; e < -100; e++)
        for (size_t t = 0; t < count; t++) {
            if (blocks[t].weights == 1 || !kn_blocks_narrow(&blocks[t], numbers, 0, block)) continue;
            for (int i = 0; i < 256; i++)
                numbers[i] = (float)(i % 3 - 1) * (float)ldexp(1, e);
            assert_true(kn_blocks_narrow(&blocks[t], numbers, 1, block));
            kn_blocks_widen(&blocks[t], block, 1, widened);
            for (int i = 0; i < blocks[t].weights; i++)
                assert_true(widened[i] == 0);
        }
}

TEST(elements_are_blocks_of_one) {
    const float numbers[] = {1, -2.5f, 0x1.004p0f, INFINITY};
    const uint8_t half[] = {0x00, 0x3c, 0x00, 0xc1, 0x01, 0x3c, 0x00, 0x7c};
    const uint8_t bfloat[] = {0x80, 0x3f, 0x20, 0xc0, 0x80, 0x3f, 0x80, 0x7f};
    uint8_t found[16];
    float back[4];
    assert_true(kn_blocks_narrow(kn_block_type_named("F16"), numbers, 4, found));
    assert_memory_equal(found, half, sizeof half);
    assert_true(kn_blocks_narrow(kn_block_type_named("BF16"), numbers, 4, found));
    assert_memory_equal(found, bfloat, sizeof bfloat);
    assert_true(kn_blocks_narrow(kn_block_type_named("F32"), numbers, 4, found));
    kn_blocks_widen(kn_block_type_named("F32"), found, 4, back);
    assert_memory_equal(back, numbers, sizeof numbers);
    assert_false(kn_blocks_narrow(kn_block_type_named("Q3_K"), numbers, 0, found));
    assert_null(kn_block_type_named("Q9_K"));
}

TEST_FILE(test_blocks, NULL, NULL)
