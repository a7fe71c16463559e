/* What the kernels for wide-vector devices (CPUs) share: a work-item is a loop over vectors as wide as the
 * device's, with work-groups of (1,1,1). Tiles of rows times KN_COLUMNS numbers stay in registers; they are
 * written with macros that repeat, since arrays of vectors do not reach registers on every compiler.
 *
 * Defines, with their defaults:
 *   KN_WIDTH 16     lanes of a vector: 16 (AVX-512), 8 (AVX2) or 4 (NEON, SSE)
 *   KN_VECTORS 4    vectors in a row of a tile: 4, 3, 2 or 1; 3, 2 (default) or 1 for KN_WIDTH 8, with its 16
 *                   registers. Panels are KN_COLUMNS = KN_WIDTH * KN_VECTORS wide: what packs and what
 *                   multiplies must agree
 *   KN_INDEX int    type of strides and offsets; long for values above 2^31 elements
 *   KN_WHOLE_VECTORS 0
 *                   1 reads a vector as one, which is faster than vload of some implementations; files
 *                   define it before they include this one
 *   KN_EPILOGUE_VECTOR(v, outer, middle, inner), KN_EPILOGUE(v, outer, middle, inner)
 *                   pointwise work on a vector of results, or on one, before it is stored
 *   KN_EPILOGUE_NEAR(outer, middle, inner)
 *                   brings near what the epilogue reads for a vector of results
 *   KN_EPILOGUE_PARAMETERS
 *                   what they need, at the end of a kernel's parameters */
#ifndef KN_VECTOR_CL
#define KN_VECTOR_CL
#ifndef KN_WIDTH
#define KN_WIDTH 16
#endif
#ifndef KN_VECTORS
#if KN_WIDTH == 8
#define KN_VECTORS 2
#else
#define KN_VECTORS 4
#endif
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#include "common/store.cl"
#ifndef KN_WHOLE_VECTORS
#define KN_WHOLE_VECTORS 0
#endif
#ifndef KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE_PARAMETERS
#endif
#ifndef KN_EPILOGUE
#define KN_EPILOGUE(v, outer, middle, inner) (v)
#endif
#ifndef KN_EPILOGUE_NEAR
#define KN_EPILOGUE_NEAR(outer, middle, inner)
#endif
#ifndef KN_EPILOGUE_VECTOR
#define KN_EPILOGUE_VECTOR(v, outer, middle, inner) (v)
#endif

/* Brings memory near that is soon read; any address will do. Only where a compiler for the processor itself reads
 * this: some translators to an intermediate language fail at it. */
#define KN_PREFETCH(pointer)
#if defined(__has_builtin) && (defined(__x86_64__) || defined(__aarch64__))
#if __has_builtin(__builtin_prefetch)
#undef KN_PREFETCH
#define KN_PREFETCH(pointer) __builtin_prefetch(pointer);
#endif
#endif

#define KN_COLUMNS (KN_WIDTH * KN_VECTORS)
#define KN_JOIN_(a, b) a##b
#define KN_JOIN(a, b) KN_JOIN_(a, b)
#define KN_INLINE static inline __attribute__((always_inline))
/* A loop that needs all registers stands apart: inlined, the constants of an exp behind it would stay in some. */
#define KN_APART static __attribute__((noinline))

typedef KN_JOIN(float, KN_WIDTH) vector;
#define load(offset, pointer) KN_JOIN(vload, KN_WIDTH)(offset, pointer)
#define store(value, offset, pointer) KN_JOIN(kn_store, KN_WIDTH)(value, (pointer) + (size_t)(offset)*KN_WIDTH)
/* A vector as one, at any address of a float. vload is made of smaller ones on some implementations, and what stands
 * around it is then done in pieces, too. */
#if KN_WHOLE_VECTORS && (defined(__x86_64__) || defined(__aarch64__))
typedef vector loose_vector __attribute__((aligned(4)));
#define KN_OVERLOAD KN_INLINE __attribute__((overloadable))
KN_OVERLOAD vector load_whole(global const float *from) { return *(global const loose_vector *)from; }
KN_OVERLOAD vector load_whole(local const float *from) { return *(local const loose_vector *)from; }
KN_OVERLOAD vector load_whole(private const float *from) { return *(private const loose_vector *)from; }
#undef load
#define load(offset, pointer) load_whole((pointer) + (size_t)(offset)*KN_WIDTH)
#endif
/* The hint keeps runtimes from making vectors out of work-items. */
#define KN_WIDE __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vector))) kernel void

/* Repetition: X(row) for the rows of a tile, X(row, v) for the vectors of a row. */
#define KN_ROWS_1(X) X(0)
#define KN_ROWS_2(X) KN_ROWS_1(X) X(1)
#define KN_ROWS_4(X) KN_ROWS_2(X) X(2) X(3)
#define KN_ROWS_6(X) KN_ROWS_4(X) X(4) X(5)
#define KN_ROWS_8(X) KN_ROWS_6(X) X(6) X(7)
#define KN_ROWS_12(X) KN_ROWS_8(X) X(8) X(9) X(10) X(11)
#define KN_VECTORS_1(X, row) X(row, 0)
#define KN_VECTORS_2(X, row) KN_VECTORS_1(X, row) X(row, 1)
#define KN_VECTORS_3(X, row) KN_VECTORS_2(X, row) X(row, 2)
#define KN_VECTORS_4(X, row) KN_VECTORS_3(X, row) X(row, 3)
#define KN_EACH(X, row) KN_JOIN(KN_VECTORS_, KN_VECTORS)(X, row)
#endif
