/* Vectors of pairs: each int has two signed 16-bit integers. CPUs have an instruction that adds the products of two pairs.
 * Defines: KN_WIDTH of common/vector.cl. */
#ifndef KN_PAIRS_CL
#define KN_PAIRS_CL
#include "common/vector.cl"

typedef KN_CONCAT(int, KN_WIDTH) ints;
#define KN_PAIR(first, second) (((first)&0xffff) | (second) << 16)

/* The sum of the products of both halves of each lane: one instruction if the compiler targets the CPU directly; few
 * compilers find it themselves. */
#if KN_WIDTH == 16 && defined(__AVX512BW__)
typedef short shorts __attribute__((ext_vector_type(32)));
#define KN_PAIR_PRODUCTS(a, b)                                                                               \
    __builtin_ia32_pmaddwd512(__builtin_astype(a, shorts), __builtin_astype(b, shorts))
#elif KN_WIDTH == 8 && defined(__AVX2__)
#define KN_PAIR_PRODUCTS(a, b) __builtin_ia32_pmaddwd256(as_short16(a), as_short16(b))
#elif KN_WIDTH == 4 && defined(__SSE2__)
#define KN_PAIR_PRODUCTS(a, b) __builtin_ia32_pmaddwd128(as_short8(a), as_short8(b))
#else
#define KN_PAIR_PRODUCTS(a, b) ((((a) << 16) >> 16) * (((b) << 16) >> 16) + ((a) >> 16) * ((b) >> 16))
#endif
#endif
