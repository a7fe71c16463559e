/* Declarations of the built-in functions that the kernels call, instead of the compiler's header.
 *
 * Compilers based on Clang read a header of 18,000 lines before each program, which takes longer than most programs.
 * Where cl/probe/compiler.cl shows that this file can replace it, programs begin with this file and are compiled with
 * -D_OPENCL_H_, which omits the header. A program that does not compile this way is compiled with the header.
 *
 * A function that is declared for one scalar type is declared for all of them: otherwise an argument of a missing
 * type would be converted implicitly. Vectors are never converted, so only those in use are declared. */
#define KN_BUILTIN __attribute__((overloadable))
#define KN_BUILTIN_CONST __attribute__((overloadable, const)) /* depends only on its arguments */
#define KN_BUILTIN_PURE __attribute__((overloadable, pure))   /* reads memory */

/* X of each type, or of T and each type. */
#define KN_EACH_WIDTH(X, T) X(T) X(T##4) X(T##8) X(T##16)
#define KN_EACH_INTEGER(X) X(char) X(uchar) X(short) X(ushort) X(int) X(uint) X(long) X(ulong)
#define KN_WITH_EACH_INTEGER(X, T)                                                                           \
    X(T, char) X(T, uchar) X(T, short) X(T, ushort) X(T, int) X(T, uint) X(T, long) X(T, ulong)

/* Work-items */

#define KN_DECLARE_ITEM(name) size_t KN_BUILTIN_CONST name(uint);
KN_DECLARE_ITEM(get_global_id) KN_DECLARE_ITEM(get_global_size) KN_DECLARE_ITEM(get_local_id)
KN_DECLARE_ITEM(get_local_size) KN_DECLARE_ITEM(get_group_id) KN_DECLARE_ITEM(get_num_groups)
KN_DECLARE_ITEM(get_global_offset)
void __attribute__((overloadable, convergent)) barrier(cl_mem_fence_flags);

/* Floating-point functions */

#define KN_DECLARE_1(T, name) T KN_BUILTIN_CONST name(T);
#define KN_DECLARE_2(T, name) T KN_BUILTIN_CONST name(T, T);
#define KN_DECLARE_MATH(T)                                                                                   \
    KN_DECLARE_1(T, acos) KN_DECLARE_1(T, acosh) KN_DECLARE_1(T, asin) KN_DECLARE_1(T, asinh)                \
    KN_DECLARE_1(T, atan) KN_DECLARE_1(T, atanh) KN_DECLARE_1(T, ceil) KN_DECLARE_1(T, cos)                  \
    KN_DECLARE_1(T, cosh) KN_DECLARE_1(T, erf) KN_DECLARE_1(T, exp) KN_DECLARE_1(T, expm1)                   \
    KN_DECLARE_1(T, fabs) KN_DECLARE_1(T, floor) KN_DECLARE_1(T, log) KN_DECLARE_1(T, log1p)                 \
    KN_DECLARE_1(T, rint) KN_DECLARE_1(T, rsqrt) KN_DECLARE_1(T, sin) KN_DECLARE_1(T, sinh)                  \
    KN_DECLARE_1(T, sqrt) KN_DECLARE_1(T, tan) KN_DECLARE_1(T, tanh) KN_DECLARE_2(T, atan2)                  \
    KN_DECLARE_2(T, fmax) KN_DECLARE_2(T, fmin) KN_DECLARE_2(T, fmod) KN_DECLARE_2(T, pow)                   \
    KN_DECLARE_2(T, copysign) T KN_BUILTIN_CONST fma(T, T, T);
KN_EACH_WIDTH(KN_DECLARE_MATH, float)
int KN_BUILTIN_CONST isnan(float);
int4 KN_BUILTIN_CONST isnan(float4);
int8 KN_BUILTIN_CONST isnan(float8);
int16 KN_BUILTIN_CONST isnan(float16);
#ifdef cl_khr_fp64
KN_EACH_WIDTH(KN_DECLARE_MATH, double)
int KN_BUILTIN_CONST isnan(double);
#endif
/* One instruction, where PoCL's function takes 25 per vector. */
#if defined(__SSE4_1__) || defined(__aarch64__)
#if __has_builtin(__builtin_elementwise_roundeven)
#define rint __builtin_elementwise_roundeven
#endif
#endif

/* Functions of all numbers */

#define KN_DECLARE_ORDER(T) KN_DECLARE_2(T, min) KN_DECLARE_2(T, max) T KN_BUILTIN_CONST clamp(T, T, T);
#define KN_DECLARE_ORDER_BY(T, F)                                                                            \
    T KN_BUILTIN_CONST min(T, F);                                                                            \
    T KN_BUILTIN_CONST max(T, F);                                                                            \
    T KN_BUILTIN_CONST clamp(T, F, F);
#define KN_DECLARE_INTEGER(T) KN_DECLARE_ORDER(T) KN_DECLARE_2(T, mul_hi) KN_DECLARE_1(T, clz)
#define KN_DECLARE_SELECT(T, I) T KN_BUILTIN_CONST select(T, T, I);
#define KN_DECLARE_ABS(T) u##T KN_BUILTIN_CONST abs(T); u##T KN_BUILTIN_CONST abs(u##T);
KN_EACH_INTEGER(KN_DECLARE_INTEGER)
KN_EACH_WIDTH(KN_DECLARE_ORDER, float) KN_DECLARE_ORDER(int4) KN_DECLARE_ORDER(int8) KN_DECLARE_ORDER(int16)
KN_DECLARE_ORDER_BY(float4, float) KN_DECLARE_ORDER_BY(float8, float) KN_DECLARE_ORDER_BY(float16, float)
KN_DECLARE_SELECT(float, int) KN_DECLARE_SELECT(float4, int4) KN_DECLARE_SELECT(float8, int8)
KN_DECLARE_SELECT(float16, int16) KN_DECLARE_SELECT(uint4, uint4) KN_DECLARE_SELECT(uint8, uint8)
KN_DECLARE_SELECT(uint16, uint16) KN_DECLARE_SELECT(int, int) KN_DECLARE_SELECT(uint, uint) KN_DECLARE_SELECT(long, long)
KN_DECLARE_2(uint4, mul_hi) KN_DECLARE_2(uint8, mul_hi) KN_DECLARE_2(uint16, mul_hi)
KN_DECLARE_ABS(char) KN_DECLARE_ABS(short) KN_DECLARE_ABS(int) KN_DECLARE_ABS(long)
#ifdef cl_khr_fp64
KN_DECLARE_ORDER(double) KN_DECLARE_SELECT(double, long)
#endif

/* Conversions */

#define KN_DECLARE_CONVERT(T, F) T KN_BUILTIN_CONST convert_##T(F);
#define KN_DECLARE_CONVERTS(T) KN_WITH_EACH_INTEGER(KN_DECLARE_CONVERT, T) KN_DECLARE_CONVERT(T, float)
#define KN_DECLARE_VECTORS(T, F)                                                                             \
    T##4 KN_BUILTIN_CONST convert_##T##4(F##4);                                                              \
    T##8 KN_BUILTIN_CONST convert_##T##8(F##8);                                                              \
    T##16 KN_BUILTIN_CONST convert_##T##16(F##16);
#define KN_DECLARE_ALL_VECTORS(T) KN_WITH_EACH_INTEGER(KN_DECLARE_VECTORS, T) KN_DECLARE_VECTORS(T, float)
KN_EACH_INTEGER(KN_DECLARE_CONVERTS) KN_DECLARE_CONVERTS(float)
KN_DECLARE_ALL_VECTORS(float) KN_DECLARE_ALL_VECTORS(int) KN_DECLARE_ALL_VECTORS(uint)
KN_DECLARE_VECTORS(char, char) KN_DECLARE_VECTORS(uchar, uchar) KN_DECLARE_VECTORS(long, char)
KN_DECLARE_VECTORS(long, uchar) KN_DECLARE_VECTORS(long, int) KN_DECLARE_VECTORS(long, long)
KN_DECLARE_VECTORS(short, char) KN_DECLARE_VECTORS(short, uchar) KN_DECLARE_VECTORS(ushort, uint)
KN_DECLARE_VECTORS(ushort, float) KN_DECLARE_VECTORS(uchar, int) KN_DECLARE_VECTORS(char, int) KN_DECLARE_VECTORS(uchar, uint) KN_DECLARE_VECTORS(ulong, uint)
#ifdef cl_khr_fp64
#define KN_DECLARE_CONVERT_DOUBLE(T) KN_DECLARE_CONVERT(T, double)
KN_EACH_INTEGER(KN_DECLARE_CONVERT_DOUBLE) KN_DECLARE_CONVERT(float, double)
KN_DECLARE_CONVERTS(double) KN_DECLARE_CONVERT(double, double)
KN_DECLARE_VECTORS(float, double) KN_DECLARE_VECTORS(double, float) KN_DECLARE_VECTORS(double, double)
#endif

char16 KN_BUILTIN_CONST shuffle(char16, uchar16);

/* Vectors in memory */

#define KN_DECLARE_LOAD(T, n, space) T##n KN_BUILTIN_PURE vload##n(size_t, const space T *);
#define KN_DECLARE_STORE(T, n, space) void KN_BUILTIN vstore##n(T##n, size_t, space T *);
#define KN_DECLARE_MEMORY_OF(T, n)                                                                           \
    KN_DECLARE_LOAD(T, n, global) KN_DECLARE_LOAD(T, n, local) KN_DECLARE_LOAD(T, n, private)                \
    KN_DECLARE_LOAD(T, n, constant) KN_DECLARE_STORE(T, n, global) KN_DECLARE_STORE(T, n, local)             \
    KN_DECLARE_STORE(T, n, private)
#define KN_DECLARE_MEMORY(T) KN_DECLARE_MEMORY_OF(T, 4) KN_DECLARE_MEMORY_OF(T, 8) KN_DECLARE_MEMORY_OF(T, 16)
KN_DECLARE_MEMORY(float) KN_DECLARE_MEMORY(int) KN_DECLARE_MEMORY(uint) KN_DECLARE_MEMORY(char)
KN_DECLARE_MEMORY(uchar) KN_DECLARE_MEMORY(short) KN_DECLARE_MEMORY(ushort) KN_DECLARE_MEMORY(long)
#ifdef cl_khr_fp64
KN_DECLARE_MEMORY(double)
#endif

#define KN_DECLARE_HALVES(space)                                                                             \
    float KN_BUILTIN_PURE vload_half(size_t, const space half *);                                            \
    float4 KN_BUILTIN_PURE vload_half4(size_t, const space half *);                                          \
    float8 KN_BUILTIN_PURE vload_half8(size_t, const space half *);                                          \
    float16 KN_BUILTIN_PURE vload_half16(size_t, const space half *);                                        \
    float4 KN_BUILTIN_PURE vloada_half4(size_t, const space half *);                                         \
    float8 KN_BUILTIN_PURE vloada_half8(size_t, const space half *);                                         \
    void KN_BUILTIN vstore_half_rte(float, size_t, space half *);                                            \
    void KN_BUILTIN vstorea_half4_rte(float4, size_t, space half *);                                         \
    void KN_BUILTIN vstorea_half8_rte(float8, size_t, space half *);                                         \
    void KN_BUILTIN vstore_half4_rte(float4, size_t, space half *);                                          \
    void KN_BUILTIN vstore_half8_rte(float8, size_t, space half *);                                          \
    void KN_BUILTIN vstore_half16_rte(float16, size_t, space half *);
KN_DECLARE_HALVES(global) KN_DECLARE_HALVES(local) KN_DECLARE_HALVES(private)
