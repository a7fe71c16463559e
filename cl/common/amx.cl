/* The matrix unit of CPUs with tile registers (AMX): products with 32 x 32 results, for one work-item. Both sides are
 * bfloat16, in chunks of 32 along the sum; two tiles of one side are multiplied by two of the other.
 *
 * A tile of the left is (16 rows, 32 of k): KN_AMX_LEFT(side, k). One of the right is (16 pairs of k, 16 columns, 2):
 * KN_AMX_RIGHT(side, k). Both have KN_AMX_TILE contiguous elements. Missing elements are 0.
 *
 *   KN_EMULATED   common/emulated.cl; the emulation adds in a different order
 *   KN_SPLIT 0    1: elements are float32, each the sum of two bfloat16. A tile of the high ones is followed by one of
 *                 the low ones, and a product is the sum of three: all except low times low */
#ifndef KN_AMX_CL
#define KN_AMX_CL
#include "common/storage.cl"
#include "common/emulated.cl"
#ifndef KN_SPLIT
#define KN_SPLIT 0
#endif
#define KN_AMX_SIDE 32
#define KN_AMX_CHUNK 32
#define KN_AMX_TILE 512
/* Elements between chunks. */
#define KN_AMX_STEP (KN_AMX_TILE * (1 + KN_SPLIT))
#define KN_AMX_LEFT(side, k) ((side) * 32 + (k))
#define KN_AMX_RIGHT(side, k) ((k) / 2 * 32 + (side) * 2 + (k) % 2)

/* Between begin and end the tile registers are in use. Compilers do not know about them, and never use them. */
#if KN_EMULATED
static inline void amx_begin(void) {}
static inline void amx_end(void) {}
#else
static inline void amx_begin(void) {
    /* The first tile format: each of eight tiles has 16 rows of 64 bytes. */
    const uint form[16] = {1, 0, 0, 0, 0x400040, 0x400040, 0x400040, 0x400040, 0, 0, 0, 0, 0x10101010, 0x10101010, 0, 0};
    __asm__ volatile("ldtilecfg (%0)" ::"r"((ulong)form) : "memory");
}
static inline void amx_end(void) {
    __asm__ volatile("tilerelease" ::: "memory");
}
#endif

/* The bits of 16 elements stored as `kind` (common/storage.cl): rounded to nearest even, with subnormal numbers flushed
 * to 0. With `low`, the rounded remainder of that rounding. */
#define KN_AMX_BITS(kind, low, p) KN_PASTE(KN_AMX_BITS_, kind)(low, p)
#define KN_AMX_BITS_2(low, p) KN_LOAD_BITS(16, 0, p)
#define KN_AMX_BITS_0(low, p) ((low) ? amx_low(vload16(0, p)) : KN_AMX_ROUND(vload16(0, p)))
#if KN_EMULATED
#define KN_AMX_ROUND(numbers) kn_to_bfloat_16(numbers)
#else
#define KN_AMX_ROUND(numbers) amx_round(numbers)
static inline ushort16 amx_round(const float16 numbers) {
    ushort16 bits;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(bits) : "v"(numbers));
    return bits;
}
#endif
static inline ushort16 amx_low(const float16 numbers) {
    const ushort16 high = KN_AMX_ROUND(numbers);
    return KN_AMX_ROUND(numbers - as_float16(convert_uint16(high) << 16));
}
#define KN_AMX_BIT(kind, low, p) KN_PASTE(KN_AMX_BIT_, kind)(low, p)
#define KN_AMX_BIT_2(low, p) (*(p))
#define KN_AMX_BIT_0(low, p) amx_bit(*(p), low)
static inline ushort amx_bit(const float number, const bool low) {
    const ushort high = kn_to_bfloat(number);
    return low ? kn_to_bfloat(number - as_float((uint)high << 16)) : high;
}

/* sums (32,32) = left (32,chunks*32) times right (chunks*32,32). For each side, tile (half, chunk) is at (half * pitch
 * + chunk) * KN_AMX_STEP. Inlined, like everything else that takes an array of local memory: PoCL passes a different
 * array to a function that a compiler has specialized for it. */
#if KN_EMULATED
static inline float amx_number(local const ushort *number) {
    return as_float((uint)*number << 16);
}
#else
/* Adds the products of two tiles of left and two of right, at offsets from the tiles of this chunk. */
#define KN_AMX_PRODUCTS(left, right)                                                                         \
    "tileloadd " left "(%0,%5,1), %%tmm4\n\t"                                                                \
    "tileloadd " right "(%2,%5,1), %%tmm6\n\t"                                                               \
    "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"                                                                   \
    "tileloadd " right "(%3,%5,1), %%tmm7\n\t"                                                               \
    "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"                                                                   \
    "tileloadd " left "(%1,%5,1), %%tmm5\n\t"                                                                \
    "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"                                                                   \
    "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
/* A tile has 1024 bytes. */
#if KN_SPLIT
#define KN_AMX_CHUNK_PRODUCTS KN_AMX_PRODUCTS("1024", "") KN_AMX_PRODUCTS("", "1024") KN_AMX_PRODUCTS("", "")
#define KN_AMX_STEP_BYTES "2048"
#else
#define KN_AMX_CHUNK_PRODUCTS KN_AMX_PRODUCTS("", "")
#define KN_AMX_STEP_BYTES "1024"
#endif
#endif
static inline __attribute__((always_inline)) void amx_multiply(local const ushort *left, local const ushort *right,
                                                               const int left_pitch, const int right_pitch,
                                                               const int chunks, local float *sums) {
#if KN_EMULATED
    for (int at = 0; at < KN_AMX_SIDE * KN_AMX_SIDE; at++) {
        const int row = at / KN_AMX_SIDE, column = at % KN_AMX_SIDE;
        float sum = 0;
        for (int k = 0; k < chunks * KN_AMX_CHUNK; k++) {
            const int chunk = k / KN_AMX_CHUNK, in = k % KN_AMX_CHUNK;
            local const ushort *a =
                left + (row / 16 * left_pitch + chunk) * KN_AMX_STEP + KN_AMX_LEFT(row % 16, in);
            local const ushort *b =
                right + (column / 16 * right_pitch + chunk) * KN_AMX_STEP + KN_AMX_RIGHT(column % 16, in);
#if KN_SPLIT
            sum += amx_number(a + KN_AMX_TILE) * amx_number(b);
            sum += amx_number(a) * amx_number(b + KN_AMX_TILE);
#endif
            sum += amx_number(a) * amx_number(b);
        }
        sums[at] = sum;
    }
#else
    local const ushort *a0 = left, *a1 = left + left_pitch * KN_AMX_STEP;
    local const ushort *b0 = right, *b1 = right + right_pitch * KN_AMX_STEP;
    long left_over = chunks;
    const long row = 64, sums_row = 4 * KN_AMX_SIDE;
    /* Includes the loop, since some compilers fail to analyze loops that use tiles. */
    __asm__ volatile("tilezero %%tmm0\n\t"
                     "tilezero %%tmm1\n\t"
                     "tilezero %%tmm2\n\t"
                     "tilezero %%tmm3\n\t"
                     "test %4, %4\n\t"
                     "jle 2f\n"
                     "1:\n\t" KN_AMX_CHUNK_PRODUCTS
                     "add $" KN_AMX_STEP_BYTES ", %0\n\t"
                     "add $" KN_AMX_STEP_BYTES ", %1\n\t"
                     "add $" KN_AMX_STEP_BYTES ", %2\n\t"
                     "add $" KN_AMX_STEP_BYTES ", %3\n\t"
                     "sub $1, %4\n\t"
                     "jnz 1b\n"
                     "2:\n\t"
                     "tilestored %%tmm0, (%6,%7,1)\n\t"
                     "tilestored %%tmm1, 64(%6,%7,1)\n\t"
                     "tilestored %%tmm2, 2048(%6,%7,1)\n\t"
                     "tilestored %%tmm3, 2112(%6,%7,1)"
                     : "+r"(a0), "+r"(a1), "+r"(b0), "+r"(b1), "+r"(left_over)
                     : "r"(row), "r"(sums), "r"(sums_row)
                     : "memory", "cc");
#endif
}
#endif
