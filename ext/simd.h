/* Function clones: one source, built for several x86-64 levels and chosen when the module is loaded. */
#ifndef LAGWISE_SIMD_H
#define LAGWISE_SIMD_H

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define LAGWISE_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define LAGWISE_CLONES
#endif

#if defined(__GNUC__)
#define LAGWISE_PREFETCH(address) __builtin_prefetch(address)
#define LAGWISE_INLINE static inline __attribute__((always_inline))
#else
#define LAGWISE_PREFETCH(address) ((void)(address))
#define LAGWISE_INLINE static inline
#endif

#endif
