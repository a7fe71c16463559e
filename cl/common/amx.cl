/* The matrix unit of processors with tile registers (AMX): products of 32 x 32 sums, for one work-item. Both sides have
 * 16 bits, bfloat16, in chunks of 32 along the sum; two tiles of a side are multiplied by two of the other.
 *
 * A tile of the left is (16 rows, 32 of k): KN_AMX_LEFT(side, k). One of the right is (16 pairs of k, 16 columns, 2):
 * KN_AMX_RIGHT(side, k). Both have KN_AMX_TILE numbers, without gaps. Numbers that are not there are 0.
 *
 *   KN_EMULATED   1: plain code does what the unit would, but adds in another order; 0, the default for processors with
 *                 vectors of 16 lanes */
#ifndef KN_AMX_CL
#define KN_AMX_CL
#include "common/storage.cl"
#ifndef KN_EMULATED
#if defined(__x86_64__) && defined(__AVX512F__)
#define KN_EMULATED 0
#else
#define KN_EMULATED 1
#endif
#endif
#define KN_AMX_SIDE 32
#define KN_AMX_CHUNK 32
#define KN_AMX_TILE 512
#define KN_AMX_LEFT(side, k) ((side) * 32 + (k))
#define KN_AMX_RIGHT(side, k) ((k) / 2 * 32 + (side) * 2 + (k) % 2)

/* Between begin and end the tile registers are in use. Compilers know nothing of them, and use none themselves. */
#if KN_EMULATED
static inline void amx_begin(void) {}
static inline void amx_end(void) {}
#else
static inline void amx_begin(void) {
    /* The first form of tiles; each of eight has 64 bytes in a row, and 16 rows. */
    const uint form[16] = {1, 0, 0, 0, 0x400040, 0x400040, 0x400040, 0x400040, 0, 0, 0, 0, 0x10101010, 0x10101010, 0, 0};
    __asm__ volatile("ldtilecfg (%0)" ::"r"((ulong)form) : "memory");
}
static inline void amx_end(void) {
    __asm__ volatile("tilerelease" ::: "memory");
}
#endif

/* 16 numbers stored as `kind` (common/storage.cl), as bits: rounded to nearest even, and none too small for a normal
 * number. */
#define KN_AMX_BITS(kind, p) KN_PASTE(KN_AMX_BITS_, kind)(p)
#define KN_AMX_BITS_2(p) KN_LOAD_BITS(16, 0, p)
#define KN_AMX_BITS_0(p) KN_AMX_ROUND(vload16(0, p))
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
#define KN_AMX_BIT(kind, p) KN_PASTE(KN_AMX_BIT_, kind)(p)
#define KN_AMX_BIT_2(p) (*(p))
#define KN_AMX_BIT_0(p) kn_to_bfloat(*(p))

/* sums (32,32) = left (32,chunks*32) times right (chunks*32,32). Of a side, tile (half, chunk) is at
 * (half * pitch + chunk) * KN_AMX_TILE. Inlined, as what else gets an array of local memory: PoCL gives a separate
 * function, which a compiler has made to know the array, another one. */
static inline __attribute__((always_inline)) void amx_multiply(local const ushort *left, local const ushort *right,
                                                               const int left_pitch, const int right_pitch,
                                                               const int chunks, local float *sums) {
#if KN_EMULATED
    for (int at = 0; at < KN_AMX_SIDE * KN_AMX_SIDE; at++) {
        const int row = at / KN_AMX_SIDE, column = at % KN_AMX_SIDE;
        float sum = 0;
        for (int k = 0; k < chunks * KN_AMX_CHUNK; k++) {
            const int chunk = k / KN_AMX_CHUNK, in = k % KN_AMX_CHUNK;
            const ushort a = left[(row / 16 * left_pitch + chunk) * KN_AMX_TILE + KN_AMX_LEFT(row % 16, in)];
            const ushort b = right[(column / 16 * right_pitch + chunk) * KN_AMX_TILE + KN_AMX_RIGHT(column % 16, in)];
            sum += as_float((uint)a << 16) * as_float((uint)b << 16);
        }
        sums[at] = sum;
    }
#else
    local const ushort *a0 = left, *a1 = left + left_pitch * KN_AMX_TILE;
    local const ushort *b0 = right, *b1 = right + right_pitch * KN_AMX_TILE;
    long left_over = chunks;
    const long row = 64, sums_row = 4 * KN_AMX_SIDE;
    /* The loop too, since some compilers fail to analyse one with tiles in it. A tile has 1024 bytes. */
    __asm__ volatile("tilezero %%tmm0\n\t"
                     "tilezero %%tmm1\n\t"
                     "tilezero %%tmm2\n\t"
                     "tilezero %%tmm3\n\t"
                     "test %4, %4\n\t"
                     "jle 2f\n"
                     "1:\n\t"
                     "tileloadd (%0,%5,1), %%tmm4\n\t"
                     "tileloadd (%2,%5,1), %%tmm6\n\t"
                     "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                     "tileloadd (%3,%5,1), %%tmm7\n\t"
                     "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                     "tileloadd (%1,%5,1), %%tmm5\n\t"
                     "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                     "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                     "add $1024, %0\n\t"
                     "add $1024, %1\n\t"
                     "add $1024, %2\n\t"
                     "add $1024, %3\n\t"
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
