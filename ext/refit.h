/* Weighted least squares of the rows of a sparse matrix on fixed orthonormal contexts, by conjugate gradients.
 *
 * Contexts and words are padded to whole vectors of 64 bytes a row. Four nonzeros are taken at a time, so that their
 * dot products run side by side and the sum is loaded and stored once. Needs the vector extension of GCC and Clang. */
#ifndef LAGWISE_REFIT_H
#define LAGWISE_REFIT_H

#include <math.h>
#include "csr_rows.h"

#define LW_REFIT_LANES 16 /* floats of a vector */

LAGWISE_INLINE float lw_lanes(lw_vec_float v) {
  float s[LW_REFIT_LANES];
  __builtin_memcpy(s, &v, sizeof s);
  for (int half = LW_REFIT_LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++) s[l] += s[l + half];
  return s[0];
}

LAGWISE_INLINE float lw_refit_dot(const lw_vec_float *a, const lw_vec_float *b, int vectors) {
  lw_vec_float sum = {0};
  for (int v = 0; v < vectors; v++) sum += a[v] * b[v];
  return lw_lanes(sum);
}

/* Over the contexts c_p = contexts[indices[p]] of one row. */
#define LW_DEFINE_REFIT(NAME, INDEX)                                                                                  \
  /* The next four contexts, and their products with x lane by lane; those to come are fetched, `left` from here. */  \
  LAGWISE_INLINE void NAME##_dots(const INDEX *indices, int64_t left, const lw_vec_float *contexts, int vectors,      \
                                  const lw_vec_float *x, const lw_vec_float *c[4], lw_vec_float dots[4]) {            \
    for (int q = 0; q < 4; q++) {                                                                                     \
      c[q] = contexts + (ptrdiff_t)indices[q] * vectors;                                                              \
      if (q + LW_AHEAD < left) {                                                                                      \
        const lw_vec_float *next = contexts + (ptrdiff_t)indices[q + LW_AHEAD] * vectors;                             \
        for (int v = 0; v < vectors; v++) LAGWISE_PREFETCH(next + v);                                                 \
      }                                                                                                               \
    }                                                                                                                 \
    for (int v = 0; v < vectors; v++)                                                                                 \
      for (int q = 0; q < 4; q++) dots[q] += c[q][v] * x[v];                                                          \
  }                                                                                                                   \
  /* out = x + sum_p (extra[p] (c_p . x) - target[p]) c_p; target is left out where it is NULL. */                    \
  LAGWISE_INLINE void NAME##_apply(const float *extra, const float *target, const INDEX *indices, int64_t length,     \
                                   int64_t ahead, const lw_vec_float *contexts, int vectors, const lw_vec_float *x,   \
                                   lw_vec_float *out) {                                                               \
    int64_t p = 0;                                                                                                    \
    for (int v = 0; v < vectors; v++) out[v] = x[v];                                                                  \
    for (; p + 3 < length; p += 4) {                                                                                  \
      const lw_vec_float *c[4];                                                                                       \
      lw_vec_float dots[4] = {{0}};                                                                                   \
      float f[4];                                                                                                     \
      NAME##_dots(indices + p, ahead - p, contexts, vectors, x, c, dots);                                             \
      for (int q = 0; q < 4; q++) f[q] = extra[p + q] * lw_lanes(dots[q]) - (target ? target[p + q] : 0);             \
      for (int v = 0; v < vectors; v++)                                                                               \
        out[v] += (c[0][v] * f[0] + c[1][v] * f[1]) + (c[2][v] * f[2] + c[3][v] * f[3]);                              \
    }                                                                                                                 \
    for (; p < length; p++) {                                                                                         \
      const lw_vec_float *one = contexts + (ptrdiff_t)indices[p] * vectors;                                           \
      const float f = extra[p] * lw_refit_dot(one, x, vectors) - (target ? target[p] : 0);                            \
      for (int v = 0; v < vectors; v++) out[v] += one[v] * f;                                                         \
    }                                                                                                                 \
  }                                                                                                                   \
  /* x . x + sum_p extra[p] (c_p . x)^2: the curvature along x, without its image. */                                 \
  LAGWISE_INLINE float NAME##_curvature(const float *extra, const INDEX *indices, int64_t length, int64_t ahead,      \
                                        const lw_vec_float *contexts, int vectors, const lw_vec_float *x) {           \
    float sum = lw_refit_dot(x, x, vectors);                                                                          \
    int64_t p = 0;                                                                                                    \
    for (; p + 3 < length; p += 4) {                                                                                  \
      const lw_vec_float *c[4];                                                                                       \
      lw_vec_float dots[4] = {{0}};                                                                                   \
      float part = 0;                                                                                                 \
      NAME##_dots(indices + p, ahead - p, contexts, vectors, x, c, dots);                                             \
      for (int q = 0; q < 4; q++) {                                                                                   \
        const float dot = lw_lanes(dots[q]);                                                                          \
        part += extra[p + q] * dot * dot;                                                                             \
      }                                                                                                               \
      sum += part;                                                                                                    \
    }                                                                                                                 \
    for (; p < length; p++) {                                                                                         \
      const float dot = lw_refit_dot(contexts + (ptrdiff_t)indices[p] * vectors, x, vectors);                         \
      sum += extra[p] * dot * dot;                                                                                    \
    }                                                                                                                 \
    return sum;                                                                                                       \
  }                                                                                                                   \
  /* Rows begin..end. Scratch: the longest row in extra and target each, 3 * vectors vectors at `blocks`. */          \
  LAGWISE_CLONES static void NAME(const float *data, const INDEX *indices, const int64_t *indptr, int64_t n_stored,   \
                                  int64_t begin, int64_t end, const float *row_log, const float *column_log,          \
                                  float factor, float most, const float *row_scale, const float *column_scale,        \
                                  const float *context_rows, float *word_rows, int vectors, int steps, float *extra,  \
                                  float *target, float *blocks) {                                                     \
    const lw_vec_float *contexts = (const lw_vec_float *)context_rows;                                                \
    lw_vec_float *residual = (lw_vec_float *)blocks, *direction = residual + vectors, *image = direction + vectors;   \
    for (int64_t i = begin; i < end; i++) {                                                                           \
      const int64_t start = indptr[i], length = indptr[i + 1] - start, ahead = n_stored - start;                      \
      const INDEX *columns = indices + start;                                                                         \
      lw_vec_float *word = (lw_vec_float *)word_rows + i * vectors;                                                   \
      for (int64_t p = 0; p < length; p++) {                                                                          \
        const float value = data[start + p], log_count = value + row_log[i] + column_log[columns[p]];                 \
        extra[p] = factor * exp2f(0.5f * (log_count < most ? log_count : most));                                      \
        target[p] = (1 + extra[p]) * value;                                                                           \
        if (row_scale) target[p] *= row_scale[i] * column_scale[columns[p]];                                          \
      }                                                                                                               \
      NAME##_apply(extra, target, columns, length, ahead, contexts, vectors, word, residual);                         \
      for (int v = 0; v < vectors; v++) direction[v] = residual[v] = -residual[v];                                    \
      float square = lw_refit_dot(residual, residual, vectors);                                                       \
      for (int step = 0; step < steps && square > 0; step++) {                                                        \
        float curvature;                                                                                              \
        if (step + 1 == steps) {                                                                                      \
          curvature = NAME##_curvature(extra, columns, length, ahead, contexts, vectors, direction);                  \
        } else {                                                                                                      \
          NAME##_apply(extra, NULL, columns, length, ahead, contexts, vectors, direction, image);                     \
          curvature = lw_refit_dot(direction, image, vectors);                                                        \
        }                                                                                                             \
        if (!(curvature > 0)) break;                                                                                  \
        const float along = square / curvature;                                                                       \
        for (int v = 0; v < vectors; v++) word[v] += along * direction[v];                                            \
        if (step + 1 == steps) break;                                                                                 \
        for (int v = 0; v < vectors; v++) residual[v] -= along * image[v];                                            \
        const float next = lw_refit_dot(residual, residual, vectors);                                                 \
        for (int v = 0; v < vectors; v++) direction[v] = residual[v] + direction[v] * (next / square);                \
        square = next;                                                                                                \
      }                                                                                                               \
    }                                                                                                                 \
  }

LW_DEFINE_REFIT(lw_refit_i32, int32_t)
LW_DEFINE_REFIT(lw_refit_i64, int64_t)

#define refit_rows(data, indices, ...) \
  _Generic((indices), const int32_t *: lw_refit_i32, const int64_t *: lw_refit_i64)(data, indices, __VA_ARGS__)

#endif
