/* Loops that are unrolled, so that small arrays stay in registers. The host defines KN_ROLLED for compilers that fail
 * on the unrolled kernel. */
#ifndef KN_UNROLL_CL
#define KN_UNROLL_CL
#ifdef KN_ROLLED
#define KN_UNROLL _Pragma("unroll 1")
#define KN_UNROLL_FOUR KN_UNROLL
#define KN_UNROLL_EIGHT KN_UNROLL
#else
#define KN_UNROLL _Pragma("unroll")
#define KN_UNROLL_FOUR _Pragma("unroll 4")
#define KN_UNROLL_EIGHT _Pragma("unroll 8")
#endif
#endif
