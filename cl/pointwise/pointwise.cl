/* A pointwise kernel: reads operands, computes, writes results, for each element of a space. The plan defines
 * the macros; with the defaults this file copies p0 to p1.
 *
 *   KN_INDEX       common/types.cl
 *   KN_CHUNKS      1: few work-items, each processing a contiguous chunk; 0: many, KN_STRIDE apart
 *   KN_STRIDE 262144  maximum number of work-items of a launch on many-thread devices
 *   KN_RANK        axes of the space; more than 1 if an operand is broadcast along some of them
 *   KN_PARAMETERS  sizes of the axes except the first, then pointers, each with its strides
 *                  (pointers are KN_RESTRICT, which this file defines)
 *   KN_ARGUMENTS   their names
 *   KN_ROW         computes the beginning of row `row` in each operand (rank above 1)
 *   KN_BODY        computes element j of a row
 *   KN_VECTOR_BODY the same for elements j to j + KN_WIDTH - 1, with KN_CHUNKS; without it vectorization is left to
 *                  the compiler, which cannot vectorize functions such as exp
 *   KN_RANDOM      1: the body draws random numbers
 *   KN_SMALL_FLOATS  1: the body reads or writes floating-point numbers of a byte
 *   KN_BUCKET_PARAMETERS, KN_BUCKET_CALLS   several sets of operands in one launch */
#include "common/types.cl"
#ifndef KN_CHUNKS
#define KN_CHUNKS 0
#endif
#ifndef KN_STRIDE
#define KN_STRIDE 262144
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
#include "common/storage.cl"
#ifdef KN_SMALL_FLOATS
#include "common/small_float.cl"
#endif
#if KN_RANDOM
#include "common/random.cl"
#endif
#ifdef KN_VECTOR_BODY
#include "common/store.cl"
#if KN_RANDOM
#include "common/keep.cl"
#endif
/* Processes whole vectors of a row starting at j; afterwards j is the first remaining element. */
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

/* Only the kernel's parameters are restrict: for functions it has no effect, and Oclgrind does not support it.
 * */
#define KN_RESTRICT
static void kn_walk(const KN_INDEX count KN_PARAMETERS) {
#if KN_CHUNKS
    /* Chunks begin at multiples of 64, so that only the last has partial vectors. */
    const KN_INDEX items = (KN_INDEX)get_global_size(0);
    const KN_INDEX chunk = ((count + items - 1) / items + 63) / 64 * 64;
    const KN_INDEX begin = min(count, chunk * (KN_INDEX)get_global_id(0));
    const KN_INDEX end = min(count, begin + chunk);
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
    for (KN_INDEX i = (KN_INDEX)get_global_id(0); i < count; i += KN_STRIDE) {
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
