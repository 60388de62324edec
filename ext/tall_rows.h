/* Tall matrices times narrow blocks, one panel of rows at a time: Q'W, W - Q C, W'W and W B.
 *
 * W is narrow (one or two vectors of 64 bytes), Q wide and read once. BLAS would pack Q first, which costs as much as
 * the product; here 8 rows of W stay in registers while the sums (or C) run through the L1 cache. */
#ifndef LAGWISE_TALL_ROWS_H
#define LAGWISE_TALL_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include "simd.h"

#define TR_CHUNK 256   /* rows summed in the precision of the data before they join the float64 total */
#define TR_MAX_WIDTH 32 /* columns of W at most */

typedef float tr_vec_float __attribute__((vector_size(64), aligned(4), may_alias));
typedef double tr_vec_double __attribute__((vector_size(64), aligned(8), may_alias));

/* The same columns of the 8 rows to come. */
#define TR_FETCH(at, stride) \
  _Pragma("GCC unroll 8") for (int r = 8; r < 16; r++) LAGWISE_PREFETCH((at) + r * (stride))

#define TR_DEFINE(REAL)                                                                                               \
  /* sums[i] += q[r][i] w[r], r < n rows, one vector of columns. */                                                   \
  LAGWISE_INLINE void tr_add_##REAL(const REAL *q, ptrdiff_t q_stride, const REAL *w, ptrdiff_t w_stride, int n,      \
                                    ptrdiff_t m, ptrdiff_t width, REAL *sums) {                                       \
    tr_vec_##REAL rows[8];                                                                                            \
    _Pragma("GCC unroll 8") for (int r = 0; r < n; r++) rows[r] = *(const tr_vec_##REAL *)(w + r * w_stride);         \
    for (ptrdiff_t i = 0; i < m; i++) {                                                                               \
      if (n == 8 && i % (ptrdiff_t)(64 / sizeof(REAL)) == 0) TR_FETCH(q + i, q_stride);                               \
      tr_vec_##REAL sum = *(tr_vec_##REAL *)(sums + i * width);                                                       \
      _Pragma("GCC unroll 8") for (int r = 0; r < n; r++) sum += q[r * q_stride + i] * rows[r];                       \
      *(tr_vec_##REAL *)(sums + i * width) = sum;                                                                     \
    }                                                                                                                 \
  }                                                                                                                   \
  /* out = Q'W in float64. Q (n, m), W (n, width), scratch and out (m, width); width a multiple of a vector. */       \
  LAGWISE_CLONES static void tr_inner_##REAL(const REAL *q, ptrdiff_t q_stride, const REAL *w, ptrdiff_t w_stride,    \
                                             ptrdiff_t n, ptrdiff_t m, ptrdiff_t width, REAL *scratch, double *out) { \
    const ptrdiff_t lanes = (ptrdiff_t)(64 / sizeof(REAL));                                                           \
    for (ptrdiff_t j = 0; j < m * width; j++) out[j] = 0;                                                             \
    for (ptrdiff_t first = 0; first < n; first += TR_CHUNK) {                                                         \
      const ptrdiff_t stop = n - first < TR_CHUNK ? n : first + TR_CHUNK;                                             \
      for (ptrdiff_t j = 0; j < m * width; j++) scratch[j] = 0;                                                       \
      ptrdiff_t r = first;                                                                                            \
      for (; r + 8 <= stop; r += 8)                                                                                   \
        for (ptrdiff_t c = 0; c < width; c += lanes)                                                                  \
          tr_add_##REAL(q + r * q_stride, q_stride, w + r * w_stride + c, w_stride, 8, m, width, scratch + c);        \
      for (; r < stop; r++)                                                                                           \
        for (ptrdiff_t c = 0; c < width; c += lanes)                                                                  \
          tr_add_##REAL(q + r * q_stride, q_stride, w + r * w_stride + c, w_stride, 1, m, width, scratch + c);        \
      for (ptrdiff_t j = 0; j < m * width; j++) out[j] += scratch[j];                                                 \
    }                                                                                                                 \
  }                                                                                                                   \
  /* x[r] -= sum_i q[r][i] c[i], r < n rows, one vector of columns. */                                                \
  LAGWISE_INLINE void tr_take_##REAL(REAL *x, ptrdiff_t x_stride, const REAL *q, ptrdiff_t q_stride, const REAL *c,   \
                                     int n, ptrdiff_t m, ptrdiff_t width) {                                           \
    tr_vec_##REAL sums[8] = {{0}};                                                                                    \
    for (ptrdiff_t i = 0; i < m; i++) {                                                                               \
      if (n == 8 && i % (ptrdiff_t)(64 / sizeof(REAL)) == 0) TR_FETCH(q + i, q_stride);                               \
      const tr_vec_##REAL one = *(const tr_vec_##REAL *)(c + i * width);                                              \
      _Pragma("GCC unroll 8") for (int r = 0; r < n; r++) sums[r] += q[r * q_stride + i] * one;                       \
    }                                                                                                                 \
    _Pragma("GCC unroll 8") for (int r = 0; r < n; r++) *(tr_vec_##REAL *)(x + r * x_stride) -= sums[r];              \
  }                                                                                                                   \
  /* X -= Q C. X (n, width), Q (n, m), C (m, width). */                                                               \
  LAGWISE_CLONES static void tr_subtract_##REAL(REAL *x, ptrdiff_t x_stride, const REAL *q, ptrdiff_t q_stride,       \
                                                const REAL *coefficients, ptrdiff_t n, ptrdiff_t m,                   \
                                                ptrdiff_t width) {                                                    \
    const ptrdiff_t lanes = (ptrdiff_t)(64 / sizeof(REAL));                                                           \
    ptrdiff_t r = 0;                                                                                                  \
    for (; r + 8 <= n; r += 8)                                                                                        \
      for (ptrdiff_t c = 0; c < width; c += lanes)                                                                    \
        tr_take_##REAL(x + r * x_stride + c, x_stride, q + r * q_stride, q_stride, coefficients + c, 8, m, width);    \
    for (; r < n; r++)                                                                                                \
      for (ptrdiff_t c = 0; c < width; c += lanes)                                                                    \
        tr_take_##REAL(x + r * x_stride + c, x_stride, q + r * q_stride, q_stride, coefficients + c, 1, m, width);    \
  }                                                                                                                   \
  /* out = X'X, everything in float64; X (n, width), out (width, width). */                                           \
  LAGWISE_CLONES static void tr_gram_##REAL(const REAL *x, ptrdiff_t x_stride, ptrdiff_t n, ptrdiff_t width,          \
                                            double *out) {                                                            \
    double row[TR_MAX_WIDTH];                                                                                         \
    for (ptrdiff_t j = 0; j < width * width; j++) out[j] = 0;                                                         \
    for (ptrdiff_t r = 0; r < n; r++) {                                                                               \
      for (ptrdiff_t j = 0; j < width; j++) row[j] = x[r * x_stride + j];                                             \
      for (ptrdiff_t i = 0; i < width; i++)                                                                           \
        for (ptrdiff_t j = 0; j < width; j++) out[i * width + j] += row[i] * row[j];                                  \
    }                                                                                                                 \
  }                                                                                                                   \
  /* X <- X B, sums in float64; X (n, width), B (width, width). */                                                     \
  LAGWISE_CLONES static void tr_scale_##REAL(REAL *x, ptrdiff_t x_stride, const double *b, ptrdiff_t n,               \
                                             ptrdiff_t width) {                                                       \
    double sum[TR_MAX_WIDTH];                                                                                         \
    for (ptrdiff_t r = 0; r < n; r++) {                                                                               \
      REAL *own = x + r * x_stride;                                                                                   \
      for (ptrdiff_t j = 0; j < width; j++) sum[j] = 0;                                                               \
      for (ptrdiff_t i = 0; i < width; i++) {                                                                         \
        const double one = own[i];                                                                                    \
        for (ptrdiff_t j = 0; j < width; j++) sum[j] += one * b[i * width + j];                                       \
      }                                                                                                               \
      for (ptrdiff_t j = 0; j < width; j++) own[j] = (REAL)sum[j];                                                    \
    }                                                                                                                 \
  }

TR_DEFINE(float)
TR_DEFINE(double)

#define tr_inner(q, ...) _Generic((q), const float *: tr_inner_float, const double *: tr_inner_double)(q, __VA_ARGS__)
#define tr_subtract(x, ...) _Generic((x), float *: tr_subtract_float, double *: tr_subtract_double)(x, __VA_ARGS__)
#define tr_gram(x, ...) _Generic((x), const float *: tr_gram_float, const double *: tr_gram_double)(x, __VA_ARGS__)
#define tr_scale(x, ...) _Generic((x), float *: tr_scale_float, double *: tr_scale_double)(x, __VA_ARGS__)

#endif
