/* KN_EMULATED: 1 if instructions of a CPU are emulated by plain code; by default 0 if the compiler targets a CPU with vectors
 * of 16 lanes directly. Not all compilers know all CPUs, so the device decides whether kernels use the instructions. */
#ifndef KN_EMULATED
#if defined(__x86_64__) && defined(__AVX512F__)
#define KN_EMULATED 0
#else
#define KN_EMULATED 1
#endif
#endif
