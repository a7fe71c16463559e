/* Arrays that may be stored in 16 bits, and are converted to float for computation. For each such parameter, for
 * instance `x`, there is a macro KN_HALF_x, which the host defines if the array has 16 bits:
 *   0   elements of KN_T (common/types.cl), the default below, where a parameter with a new name is added
 *   1   float16
 *   2   bfloat16, the upper half of a float
 * and with that macro as `kind`:
 *   KN_STORED(kind)          the type that the pointer points to
 *   KN_READ_AS(kind, p)      the element at p                 KN_WRITE_AS(kind, v, p)    stores one
 *   KN_READ_4_AS(kind, p)    four, p being aligned to them    KN_WRITE_4_AS(kind, v, p)  stores four
 *   KN_READ_8_AS(kind, p)    eight, the same                  KN_WRITE_8_AS(kind, v, p)  stores eight
 *   KN_READ_16_AS(kind, p)   sixteen, aligned as eight
 * of n elements at p + at * n, at any alignment:
 *   KN_READ_N_AS(n, kind, at, p)                                  KN_WRITE_N_AS(n, kind, v, at, p)
 * and of KN_WIDTH elements, as the load and the store of common/vector.cl:
 *   KN_READ_VECTOR_AS(kind, at, p)                                KN_WRITE_VECTOR_AS(kind, v, at, p)
 * Elements are rounded to nearest even. A file may define another default before it includes this one. */
#ifndef KN_STORAGE_CL
#define KN_STORAGE_CL
#include "common/types.cl"
#ifndef KN_HALF_a
#define KN_HALF_a 0
#endif
#ifndef KN_HALF_b
#define KN_HALF_b 0
#endif
#ifndef KN_HALF_c
#define KN_HALF_c 0
#endif
#ifndef KN_HALF_dk
#define KN_HALF_dk 0
#endif
#ifndef KN_HALF_dq
#define KN_HALF_dq 0
#endif
#ifndef KN_HALF_dv
#define KN_HALF_dv 0
#endif
#ifndef KN_HALF_dw
#define KN_HALF_dw 0
#endif
#ifndef KN_HALF_dx
#define KN_HALF_dx 0
#endif
#ifndef KN_HALF_dy
#define KN_HALF_dy 0
#endif
#ifndef KN_HALF_g
#define KN_HALF_g 0
#endif
#ifndef KN_HALF_in
#define KN_HALF_in 0
#endif
#ifndef KN_HALF_k
#define KN_HALF_k 0
#endif
#ifndef KN_HALF_kept
#define KN_HALF_kept 0
#endif
#ifndef KN_HALF_mask
#define KN_HALF_mask 0
#endif
#ifndef KN_HALF_out
#define KN_HALF_out 0
#endif
#ifndef KN_HALF_q
#define KN_HALF_q 0
#endif
#ifndef KN_HALF_result
#define KN_HALF_result 0
#endif
#ifndef KN_HALF_v
#define KN_HALF_v 0
#endif
#ifndef KN_HALF_weight
#define KN_HALF_weight 0
#endif
#ifndef KN_HALF_x
#define KN_HALF_x 0
#endif
#ifndef KN_HALF_y
#define KN_HALF_y 0
#endif
#define KN_PASTE_(a, b) a##b
#define KN_PASTE(a, b) KN_PASTE_(a, b)
#define KN_STORED(kind) KN_PASTE(KN_STORED_, kind)
#define KN_STORED_0 KN_T
#define KN_STORED_1 half
#define KN_STORED_2 ushort
#define KN_READ_AS(kind, p) KN_PASTE(KN_READ_AS_, kind)(p)
#define KN_READ_AS_0(p) (*(p))
#define KN_READ_AS_1(p) vload_half(0, p)
#define KN_READ_AS_2(p) as_float((uint)*(p) << 16)
#define KN_READ_4_AS(kind, p) KN_PASTE(KN_READ_4_AS_, kind)(p)
#define KN_READ_4_AS_0(p) (*(global const KN_PASTE(KN_T, 4) *)(p))
#define KN_READ_4_AS_1(p) vloada_half4(0, p)
#define KN_READ_4_AS_2(p) as_float4(convert_uint4(*(global const ushort4 *)(p)) << 16)
#define KN_READ_8_AS(kind, p) KN_PASTE(KN_READ_8_AS_, kind)(p)
#define KN_READ_8_AS_0(p) (*(global const KN_PASTE(KN_T, 8) *)(p))
#define KN_READ_8_AS_1(p) vloada_half8(0, p)
#define KN_READ_8_AS_2(p) as_float8(convert_uint8(*(global const ushort8 *)(p)) << 16)
#define KN_READ_16_AS(kind, p) (KN_PASTE(KN_T, 16))(KN_READ_8_AS(kind, p), KN_READ_8_AS(kind, (p) + 8))
#define KN_READ_N_AS(n, kind, at, p) KN_PASTE(KN_READ_N_AS_, kind)(n, at, p)
#define KN_READ_N_AS_0(n, at, p) KN_PASTE(vload, n)(at, p)
#define KN_READ_N_AS_2(n, at, p)                                                                             \
    KN_PASTE(as_float, n)(KN_PASTE(convert_uint, n)(KN_LOAD_BITS(n, at, p)) << 16)
#define KN_WRITE_N_AS(n, kind, v, at, p) KN_PASTE(KN_WRITE_N_AS_, kind)(n, v, at, p)
#define KN_WRITE_N_AS_0(n, v, at, p) KN_PASTE(vstore, n)(v, at, p)
#define KN_WRITE_N_AS_1(n, v, at, p) KN_STORE_BITS(n, KN_PASTE(kn_to_half_, n)(v), at, p)
#define KN_WRITE_N_AS_2(n, v, at, p) KN_STORE_BITS(n, KN_PASTE(kn_to_bfloat_, n)(v), at, p)
/* Whole vectors of 16-bit elements in global memory, at any element address. Only if the compiler targets the CPU
 * directly: some of those split vload and vstore into an access per lane. */
#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
typedef ushort4 kn_loose_4 __attribute__((aligned(2)));
typedef ushort8 kn_loose_8 __attribute__((aligned(2)));
typedef ushort16 kn_loose_16 __attribute__((aligned(2)));
#define KN_LOAD_BITS(n, at, p) (*(global const KN_PASTE(kn_loose_, n) *)((p) + (size_t)(at) * n))
#define KN_STORE_BITS(n, bits, at, p) (*(global KN_PASTE(kn_loose_, n) *)((p) + (size_t)(at) * n) = (bits))
#define KN_READ_N_AS_1(n, at, p) KN_PASTE(kn_from_half_, n)(KN_LOAD_BITS(n, at, p))
#else
#define KN_LOAD_BITS(n, at, p) KN_PASTE(vload, n)(at, p)
#define KN_STORE_BITS(n, bits, at, p) KN_PASTE(vstore, n)(bits, at, (global ushort *)(p))
#define KN_READ_N_AS_1(n, at, p) KN_PASTE(vload_half, n)(at, p)
#endif
#define KN_READ_VECTOR_AS(kind, at, p) KN_PASTE(KN_READ_VECTOR_AS_, kind)(at, p)
#define KN_READ_VECTOR_AS_0(at, p) load(at, p)
#define KN_READ_VECTOR_AS_1(at, p) KN_READ_N_AS_1(KN_WIDTH, at, p)
#define KN_READ_VECTOR_AS_2(at, p) KN_READ_N_AS_2(KN_WIDTH, at, p)
#define KN_WRITE_VECTOR_AS(kind, v, at, p) KN_PASTE(KN_WRITE_VECTOR_AS_, kind)(v, at, p)
#define KN_WRITE_VECTOR_AS_0(v, at, p) store(v, at, p)
#define KN_WRITE_VECTOR_AS_1(v, at, p) KN_WRITE_N_AS_1(KN_WIDTH, v, at, p)
#define KN_WRITE_VECTOR_AS_2(v, at, p) KN_WRITE_N_AS_2(KN_WIDTH, v, at, p)
#define KN_WRITE_AS(kind, v, p) KN_PASTE(KN_WRITE_AS_, kind)(v, p)
#define KN_WRITE_AS_0(v, p) (*(p) = (v))
#define KN_WRITE_AS_1(v, p) vstore_half_rte(v, 0, p)
#define KN_WRITE_AS_2(v, p) (*(p) = kn_to_bfloat(v))
#define KN_WRITE_4_AS(kind, v, p) KN_PASTE(KN_WRITE_4_AS_, kind)(v, p)
#define KN_WRITE_4_AS_0(v, p) (*(global KN_PASTE(KN_T, 4) *)(p) = (v))
#define KN_WRITE_4_AS_1(v, p) vstorea_half4_rte(v, 0, p)
#define KN_WRITE_4_AS_2(v, p) (*(global ushort4 *)(p) = kn_to_bfloat_4(v))
#define KN_WRITE_8_AS(kind, v, p) KN_PASTE(KN_WRITE_8_AS_, kind)(v, p)
#define KN_WRITE_8_AS_0(v, p) (*(global KN_PASTE(KN_T, 8) *)(p) = (v))
#define KN_WRITE_8_AS_1(v, p) vstorea_half8_rte(v, 0, p)
#define KN_WRITE_8_AS_2(v, p) (*(global ushort8 *)(p) = kn_to_bfloat_8(v))

/* NaN propagates: rounding its bits could make an infinity of it. */
static inline ushort kn_to_bfloat(const float number) {
    const uint bits = as_uint(number);
    return isnan(number) ? bits >> 16 | 64u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
#define KN_DEFINE_TO_BFLOAT(n)                                                                               \
    static inline ushort##n kn_to_bfloat_##n(const float##n numbers) {                                       \
        const uint##n bits = as_uint##n(numbers), rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;      \
        return convert_ushort##n(select(rounded, bits >> 16 | 64u, as_uint##n(isnan(numbers))));             \
    }
KN_DEFINE_TO_BFLOAT(4)
KN_DEFINE_TO_BFLOAT(8)
KN_DEFINE_TO_BFLOAT(16)
/* vstore_half writes a local vector of the function, since some implementations take its address, which must be aligned
 * to the vector. CPUs that do not convert as they load from any address have no such implementation. */
#define KN_DEFINE_TO_HALF(n)                                                                                 \
    static inline ushort##n kn_to_half_##n(const float##n numbers) {                                         \
        ushort##n bits;                                                                                      \
        vstore_half##n##_rte(numbers, 0, (half *)&bits);                                                     \
        return bits;                                                                                         \
    }
KN_DEFINE_TO_HALF(4)
KN_DEFINE_TO_HALF(8)
KN_DEFINE_TO_HALF(16)
/* The same for vload_half: that of PoCL on x86 loads a whole vector, which must be aligned. */
#define KN_DEFINE_FROM_HALF(n)                                                                               \
    static inline float##n kn_from_half_##n(const ushort##n bits) {                                          \
        return vload_half##n(0, (const half *)&bits);                                                        \
    }
KN_DEFINE_FROM_HALF(4)
KN_DEFINE_FROM_HALF(8)
KN_DEFINE_FROM_HALF(16)
static inline ushort kn_to_half(const float number) {
    ushort bits;
    vstore_half_rte(number, 0, (half *)&bits);
    return bits;
}
/* The number after rounding. */
static inline float kn_as_bfloat(const float number) {
    return as_float((uint)kn_to_bfloat(number) << 16);
}
static inline float kn_as_half(const float number) {
    const ushort bits = kn_to_half(number);
    return vload_half(0, (const half *)&bits);
}
#ifdef KN_WIDTH
#define KN_FLOATS KN_PASTE(float, KN_WIDTH)
static inline KN_FLOATS kn_as_bfloat_vector(const KN_FLOATS numbers) {
    const KN_PASTE(uint, KN_WIDTH) bits = KN_PASTE(convert_uint, KN_WIDTH)(KN_PASTE(kn_to_bfloat_, KN_WIDTH)(numbers));
    return KN_PASTE(as_float, KN_WIDTH)(bits << 16);
}
static inline KN_FLOATS kn_as_half_vector(const KN_FLOATS numbers) {
    return KN_PASTE(kn_from_half_, KN_WIDTH)(KN_PASTE(kn_to_half_, KN_WIDTH)(numbers));
}
#endif
#endif
