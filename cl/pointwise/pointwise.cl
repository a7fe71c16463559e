/* A pointwise kernel: reads operands, computes, writes results, element by element of a space. The plan fills
 * in the holes; compiled alone this file copies p0 to p1.
 *
 *   KN_INDEX       common/types.cl
 *   KN_SHARES      1: few work-items, each walking its share; 0: many, striding
 *   KN_RANK        axes of the space; more than 1 where an operand repeats in some of them
 *   KN_PARAMETERS  sizes of the axes but the first, then pointers, each with its strides
 *                  (pointers are KN_RESTRICT, which this file defines)
 *   KN_ARGUMENTS   their names
 *   KN_ROW         where row `row` begins in each operand (rank above 1)
 *   KN_BODY        what happens to element j of a row
 *   KN_VECTOR_BODY the same for elements j to j + KN_WIDTH - 1, where KN_SHARES; without it the compiler makes vectors
 *                  where it can, which it cannot of functions such as exp
 *   KN_RANDOM      1: the body draws random numbers
 *   KN_BUCKET_PARAMETERS, KN_BUCKET_CALLS   several sets of operands in one launch */
#include "common/types.cl"
#ifndef KN_SHARES
#define KN_SHARES 0
#endif
#ifndef KN_RANDOM
#define KN_RANDOM 0
#endif
#ifndef KN_BODY
#define KN_RANK 1
#define KN_PARAMETERS , global const float *KN_RESTRICT p0, global float *KN_RESTRICT p1
#define KN_ARGUMENTS , p0, p1
#define KN_ROW
#define KN_BODY p1[j] = p0[j];
#endif
/* Numbers of 16 bits are computed as float. Of bfloat16 those are the upper bits, rounded to nearest even. */
#define KN_LOAD_BFLOAT(place, from) as_float((uint)(from)[place] << 16)
#define KN_BFLOAT_BITS(bits) (((bits) & 0x7fffffffu) > 0x7f800000u ? (bits) >> 16 | 64u : ((bits) + 0x7fffu + ((bits) >> 16 & 1u)) >> 16)
#define KN_STORE_BFLOAT(number, place, to) (to)[place] = (ushort)KN_BFLOAT_BITS(as_uint(number))
static float kn_round_half(const float number) {
    ushort bits;
    vstore_half_rte(number, 0, (half *)&bits);
    return vload_half(0, (half *)&bits);
}
static float kn_round_bfloat(const float number) {
    const uint bits = as_uint(number);
    return as_float(KN_BFLOAT_BITS(bits) << 16);
}
#if KN_RANDOM
#include "common/random.cl"
#endif
#ifdef KN_VECTOR_BODY
#include "common/store.cl"
#if KN_RANDOM
#include "common/keep.cl"
#endif
/* Whole vectors of a row from j on; afterwards j is the first element that is left. */
#define KN_VECTORS_TO(end)                                                                                   \
    for (; j + KN_WIDTH <= (end); j += KN_WIDTH) {                                                           \
        KN_VECTOR_BODY                                                                                       \
    }
#else
#define KN_VECTORS_TO(end)
#endif

#if KN_RANK == 1
#define KN_INNER count
#elif KN_RANK == 2
#define KN_INNER size1
#elif KN_RANK == 3
#define KN_INNER size2
#elif KN_RANK == 4
#define KN_INNER size3
#elif KN_RANK == 5
#define KN_INNER size4
#elif KN_RANK == 6
#define KN_INNER size5
#elif KN_RANK == 7
#define KN_INNER size6
#elif KN_RANK == 8
#define KN_INNER size7
#else
#define KN_INNER size8
#endif

/* Only the kernel's own pointers: in functions it does nothing more, and Oclgrind does not know what comes of it. */
#define KN_RESTRICT
static void kn_walk(const KN_INDEX count KN_PARAMETERS) {
#if KN_SHARES
    /* Shares begin at multiples of 64, so that vectors stay whole. */
    const KN_INDEX items = (KN_INDEX)get_global_size(0);
    const KN_INDEX share = ((count + items - 1) / items + 63) / 64 * 64;
    const KN_INDEX begin = min(count, share * (KN_INDEX)get_global_id(0));
    const KN_INDEX end = min(count, begin + share);
#if KN_RANK == 1
    KN_INDEX j = begin;
    KN_VECTORS_TO(end)
    for (; j < end; j++) {
        KN_BODY
    }
#else
    KN_INDEX i = begin;
    while (i < end) {
        const KN_INDEX row = i / KN_INNER;
        const KN_INDEX first = i - row * KN_INNER;
        const KN_INDEX last = min((KN_INDEX)KN_INNER, first + (end - i));
        KN_ROW
        KN_INDEX j = first;
        KN_VECTORS_TO(last)
        for (; j < last; j++) {
            KN_BODY
        }
        i += last - first;
    }
#endif
#else
    for (KN_INDEX i = (KN_INDEX)get_global_id(0); i < count; i += (KN_INDEX)get_global_size(0)) {
#if KN_RANK == 1
        const KN_INDEX j = i;
#else
        const KN_INDEX row = i / KN_INNER;
        const KN_INDEX j = i - row * KN_INNER;
        KN_ROW
#endif
        KN_BODY
    }
#endif
}

#undef KN_RESTRICT
#define KN_RESTRICT restrict
#ifdef KN_BUCKET_CALLS
kernel void pointwise_bucket(KN_BUCKET_PARAMETERS) { KN_BUCKET_CALLS }
#else
kernel void pointwise(const KN_INDEX count KN_PARAMETERS) { kn_walk(count KN_ARGUMENTS); }
#endif
