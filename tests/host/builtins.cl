/* The built-in functions that kernels call, for the host: those that cl/common/builtins.cl declares, over the
 * C library. Vectors are computed lane by lane, and loaded and stored element by element, so that the
 * sanitizers see a pointer that is not aligned for its element. */
#define OVERLOAD __attribute__((overloadable))

/* X of each type, and of each width of vectors in use. */
#define EACH_INTEGER(X) X(char) X(uchar) X(short) X(ushort) X(int) X(uint) X(long) X(ulong)
#define EACH_NUMBER(X) EACH_INTEGER(X) X(float) X(double)
#define EACH_WIDTH(X, ...) X(4, __VA_ARGS__) X(8, __VA_ARGS__) X(16, __VA_ARGS__)
#define LANES(n, T, value)                                                                                   \
    {                                                                                                        \
        T##n y;                                                                                              \
        for (int i = 0; i < n; i++)                                                                          \
            y[i] = value;                                                                                    \
        return y;                                                                                            \
    }
/* Vector functions from the scalar one. */
#define LANES_1(n, T, name) T##n OVERLOAD name(T##n a) LANES(n, T, name(a[i]))
#define LANES_2(n, T, name) T##n OVERLOAD name(T##n a, T##n b) LANES(n, T, name(a[i], b[i]))
#define LANES_3(n, T, name) T##n OVERLOAD name(T##n a, T##n b, T##n c) LANES(n, T, name(a[i], b[i], c[i]))

/* ---- work-items: driver.c answers ------------------------------------------------------------ */

void host_barrier(void);
void OVERLOAD barrier(cl_mem_fence_flags flags) { host_barrier(); }
#define ITEM(name)                                                                                           \
    size_t host_##name(uint);                                                                                \
    size_t OVERLOAD name(uint dimension) { return host_##name(dimension); }
ITEM(get_global_id) ITEM(get_local_id) ITEM(get_group_id)
ITEM(get_global_size) ITEM(get_local_size) ITEM(get_num_groups) ITEM(get_global_offset)

/* ---- floating-point numbers: the C library's functions --------------------------------------- */

#define MATH_1(name)                                                                                         \
    float c_float_##name(float) __asm__(#name "f");                                                          \
    double c_double_##name(double) __asm__(#name);                                                           \
    float OVERLOAD name(float a) { return c_float_##name(a); }                                               \
    double OVERLOAD name(double a) { return c_double_##name(a); }                                            \
    EACH_WIDTH(LANES_1, float, name)
#define MATH_2(name)                                                                                         \
    float c_float_##name(float, float) __asm__(#name "f");                                                   \
    double c_double_##name(double, double) __asm__(#name);                                                   \
    float OVERLOAD name(float a, float b) { return c_float_##name(a, b); }                                   \
    double OVERLOAD name(double a, double b) { return c_double_##name(a, b); }                               \
    EACH_WIDTH(LANES_2, float, name)
MATH_1(acos) MATH_1(acosh) MATH_1(asin) MATH_1(asinh) MATH_1(atan) MATH_1(atanh) MATH_1(ceil) MATH_1(cos)
MATH_1(cosh) MATH_1(erf) MATH_1(exp) MATH_1(expm1) MATH_1(fabs) MATH_1(floor) MATH_1(log) MATH_1(log1p)
MATH_1(rint) MATH_1(sin) MATH_1(sinh) MATH_1(sqrt) MATH_1(tan) MATH_1(tanh)
MATH_2(atan2) MATH_2(fmax) MATH_2(fmin) MATH_2(fmod) MATH_2(pow)

float c_float_fma(float, float, float) __asm__("fmaf");
double c_double_fma(double, double, double) __asm__("fma");
float OVERLOAD fma(float a, float b, float c) { return c_float_fma(a, b, c); }
double OVERLOAD fma(double a, double b, double c) { return c_double_fma(a, b, c); }
EACH_WIDTH(LANES_3, float, fma)
float OVERLOAD rsqrt(float a) { return 1 / sqrt(a); }
double OVERLOAD rsqrt(double a) { return 1 / sqrt(a); }
EACH_WIDTH(LANES_1, float, rsqrt)
int OVERLOAD isnan(float a) { return a != a; }
int OVERLOAD isnan(double a) { return a != a; }
#define VECTOR_ISNAN(n, T) int##n OVERLOAD isnan(T##n a) { return a != a; }
EACH_WIDTH(VECTOR_ISNAN, float)

/* ---- all numbers ------------------------------------------------------------------------------ */

#define ORDER(T)                                                                                             \
    T OVERLOAD min(T a, T b) { return b < a ? b : a; }                                                       \
    T OVERLOAD max(T a, T b) { return a < b ? b : a; }                                                       \
    T OVERLOAD clamp(T a, T low, T high) { return min(max(a, low), high); }
EACH_NUMBER(ORDER)
#define VECTOR_ORDER(n, T, ...)                                                                              \
    LANES_2(n, T, min) LANES_2(n, T, max) LANES_3(n, T, clamp)
EACH_WIDTH(VECTOR_ORDER, float) EACH_WIDTH(VECTOR_ORDER, int)
#define VECTOR_ORDER_BY(n, T, ...)                                                                           \
    T##n OVERLOAD min(T##n a, T b) LANES(n, T, min(a[i], b))                                                 \
    T##n OVERLOAD max(T##n a, T b) LANES(n, T, max(a[i], b))                                                 \
    T##n OVERLOAD clamp(T##n a, T low, T high) LANES(n, T, clamp(a[i], low, high))
EACH_WIDTH(VECTOR_ORDER_BY, float)

/* A scalar select looks at the whole of its last operand, a vector's at each highest bit. */
#define SELECT(T, I) T OVERLOAD select(T a, T b, I c) { return c ? b : a; }
SELECT(float, int) SELECT(int, int) SELECT(uint, uint) SELECT(long, long) SELECT(double, long)
#define VECTOR_SELECT(n, T, I, S)                                                                            \
    T##n OVERLOAD select(T##n a, T##n b, I##n c) LANES(n, T, (S)c[i] < 0 ? b[i] : a[i])
EACH_WIDTH(VECTOR_SELECT, float, int, int) EACH_WIDTH(VECTOR_SELECT, uint, uint, int)

#define ABSOLUTE(T)                                                                                          \
    u##T OVERLOAD abs(T a) { return a < 0 ? 0 - (u##T)a : (u##T)a; }                                         \
    u##T OVERLOAD abs(u##T a) { return a; }
ABSOLUTE(char) ABSOLUTE(short) ABSOLUTE(int) ABSOLUTE(long)
#define HIGH(T, wider, bits) T OVERLOAD mul_hi(T a, T b) { return (wider)a * b >> bits; }
HIGH(char, int, 8) HIGH(uchar, uint, 8) HIGH(short, int, 16) HIGH(ushort, uint, 16) HIGH(int, long, 32)
HIGH(uint, ulong, 32) HIGH(long, __int128, 64) HIGH(ulong, unsigned __int128, 64)
EACH_WIDTH(LANES_2, uint, mul_hi)
int OVERLOAD clz(int a) { return a ? __builtin_clz((uint)a) : 32; }
uint OVERLOAD clz(uint a) { return a ? __builtin_clz(a) : 32; }

/* ---- conversions -------------------------------------------------------------------------------- */

#define CONVERT(T, F)                                                                                        \
    T OVERLOAD convert_##T(F a) { return (T)a; }                                                             \
    EACH_WIDTH(VECTOR_CONVERT, T, F)
#define VECTOR_CONVERT(n, T, F) T##n OVERLOAD convert_##T##n(F##n a) LANES(n, T, convert_##T(a[i]))
#define CONVERTS(T)                                                                                          \
    CONVERT(T, char) CONVERT(T, uchar) CONVERT(T, short) CONVERT(T, ushort) CONVERT(T, int)                  \
    CONVERT(T, uint) CONVERT(T, long) CONVERT(T, ulong) CONVERT(T, float) CONVERT(T, double)
EACH_NUMBER(CONVERTS)

/* ---- vectors in memory ---------------------------------------------------------------------------- */

#define EACH_SPACE(X, ...) X(global, __VA_ARGS__) X(local, __VA_ARGS__) X(private, __VA_ARGS__)
#define LOAD(space, n, T) T##n OVERLOAD vload##n(size_t at, const space T *p) LANES(n, T, p[at * n + i])
#define STORE(space, n, T)                                                                                   \
    void OVERLOAD vstore##n(T##n value, size_t at, space T *p) {                                             \
        for (int i = 0; i < n; i++)                                                                          \
            p[at * n + i] = value[i];                                                                        \
    }
#define MEMORY_OF(n, T) EACH_SPACE(LOAD, n, T) LOAD(constant, n, T) EACH_SPACE(STORE, n, T)
#define MEMORY(T) EACH_WIDTH(MEMORY_OF, T)
EACH_NUMBER(MEMORY)

/* Scaled by 2^112, the bits of a half are those of a float. */
static float from_half(ushort bits) {
    const uint sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return as_float(sign | 0x7f800000u | rest << 13);
    return as_float(sign | as_uint(as_float(rest << 13) * 0x1p112f));
}
/* To the nearest, ties to even. */
static ushort to_half(float value) {
    const uint sign = as_uint(value) >> 16 & 0x8000u, bits = as_uint(value) & 0x7fffffffu;
    const float size = as_float(bits);
    if (bits > 0x7f800000u) return sign | 0x7e00u;
    if (size >= 65520) return sign | 0x7c00u;
    if (size < 0x1p-14f) return sign | (uint)rint(size * 0x1p24f);
    return sign | ((bits + 0xfffu + (bits >> 13 & 1u)) >> 13) - (112u << 10);
}
#define HALF_LANES(space, n)                                                                                 \
    float##n OVERLOAD vload_half##n(size_t at, const space half *p) LANES(n, float, vload_half(at * n + i, p)) \
    void OVERLOAD vstore_half##n##_rte(float##n value, size_t at, space half *p) {                           \
        for (int i = 0; i < n; i++)                                                                          \
            ((space ushort *)p)[at * n + i] = to_half(value[i]);                                             \
    }
/* Aligned to all four. */
#define HALF_ALIGNED(space)                                                                                  \
    float4 OVERLOAD vloada_half4(size_t at, const space half *p) {                                           \
        const ushort4 bits = ((const space ushort4 *)p)[at];                                                 \
        return (float4)(from_half(bits.s0), from_half(bits.s1), from_half(bits.s2), from_half(bits.s3));     \
    }                                                                                                        \
    void OVERLOAD vstorea_half4_rte(float4 value, size_t at, space half *p) {                                \
        ((space ushort4 *)p)[at] =                                                                           \
            (ushort4)(to_half(value.s0), to_half(value.s1), to_half(value.s2), to_half(value.s3));           \
    }
#define HALF(space, ...)                                                                                     \
    float OVERLOAD vload_half(size_t at, const space half *p) {                                              \
        return from_half(((const space ushort *)p)[at]);                                                     \
    }                                                                                                        \
    HALF_LANES(space, 4) HALF_LANES(space, 8) HALF_LANES(space, 16) HALF_ALIGNED(space)                      \
    void OVERLOAD vstore_half_rte(float value, size_t at, space half *p) {                                   \
        ((space ushort *)p)[at] = to_half(value);                                                            \
    }
EACH_SPACE(HALF)
