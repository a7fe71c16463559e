/* kn_erf_float(x), kn_erf_float4, …: the error function in generated code, before which this file is inserted where it is
 * called. Some implementations of the built-in function take a hundred times as long for vectors. A quotient of polynomials
 * in x^2, fitted for the least relative error between -4 and 4; the error is six units in the last place. NaN propagates. */
#ifndef KN_ERF_CL
#define KN_ERF_CL
#define KN_DEFINE_ERF(T)                                                                                     \
    static inline T kn_erf_##T(T x) {                                                                        \
        /* Comparisons that are false for NaN. */                                                            \
        x = x < -4.0f ? (T)(-4.0f) : x;                                                                      \
        x = x > 4.0f ? (T)(4.0f) : x;                                                                        \
        const T t = x * x;                                                                                   \
        T above = t * 1.992455939e-6f + 2.845403809e-4f, below = t * 3.747766831e-5f + 1.183084513e-3f;      \
        above = above * t + 3.871166717e-3f;                                                                 \
        below = below * t + 1.518261094e-2f;                                                                 \
        above = above * t + 5.306485694e-2f;                                                                 \
        below = below * t + 1.152235288e-1f;                                                                 \
        above = above * t + 1.932279546e-1f;                                                                 \
        below = below * t + 5.04576395e-1f;                                                                  \
        above = above * t + 1.12837914f;                                                                     \
        below = below * t + 1.0f;                                                                            \
        T y = x * above / below;                                                                             \
        y = y < -1.0f ? (T)(-1.0f) : y;                                                                      \
        return y > 1.0f ? (T)(1.0f) : y;                                                                     \
    }
KN_DEFINE_ERF(float)
KN_DEFINE_ERF(float4)
KN_DEFINE_ERF(float8)
KN_DEFINE_ERF(float16)
#endif
