/* Prefetches memory that is read soon; any address is allowed. Only if the compiler targets the CPU directly: some
 * translators to an intermediate language do not support it. */
#ifndef KN_PREFETCH_CL
#define KN_PREFETCH_CL
#define KN_PREFETCH(pointer) ;
#if defined(__has_builtin) && (defined(__x86_64__) || defined(__aarch64__))
#if __has_builtin(__builtin_prefetch)
#undef KN_PREFETCH
#define KN_PREFETCH(pointer) __builtin_prefetch(pointer);
#endif
#endif
#endif
