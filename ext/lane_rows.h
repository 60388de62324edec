/* Linear recursions along many sequences at once: x <- R x + table[id], each step a product of small matrices.
 *
 * A lane is a stretch of rows of the text. Lanes are independent, so LR_LANES of them go through all their steps while
 * their states and R stay in the cache. R comes packed: panels of two vectors of 64 bytes (the last perhaps one), each
 * panel h rows long, b[u][c] = R[c][u]. */
#ifndef LAGWISE_LANE_ROWS_H
#define LAGWISE_LANE_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include "simd.h"

#define LR_LANES 64 /* a multiple of 8 */

typedef float lr_vec_float __attribute__((vector_size(64), aligned(4), may_alias));
typedef double lr_vec_double __attribute__((vector_size(64), aligned(8), may_alias));

#define LR_FETCH(address, bytes) \
  for (ptrdiff_t line = 0; line < (ptrdiff_t)(bytes); line += 64) LAGWISE_PREFETCH((const char *)(address) + line)

/* y[r][c] = sum_u x[r][u] b[u][c], 8 rows and NV vectors of columns, everything in registers. */
#define LR_DEFINE_TILE(REAL, NV)                                                                                      \
  LAGWISE_INLINE void lr_tile_##REAL##_##NV(const REAL *x, ptrdiff_t h, const REAL *b, REAL *y, ptrdiff_t stride) {   \
    const lr_vec_##REAL *panel = (const lr_vec_##REAL *)b;                                                            \
    lr_vec_##REAL sums[8][NV] = {{{0}}};                                                                              \
    for (ptrdiff_t u = 0; u < h; u++) {                                                                               \
      _Pragma("GCC unroll 8") for (int r = 0; r < 8; r++) {                                                           \
        const REAL one = x[r * h + u];                                                                                \
        _Pragma("GCC unroll 2") for (int v = 0; v < NV; v++) sums[r][v] += one * panel[u * NV + v];                   \
      }                                                                                                               \
    }                                                                                                                 \
    _Pragma("GCC unroll 8") for (int r = 0; r < 8; r++)                                                               \
      _Pragma("GCC unroll 2") for (int v = 0; v < NV; v++) ((lr_vec_##REAL *)(y + r * stride))[v] = sums[r][v];       \
  }

/* Steps t0 .. t1 - 1 of all lanes, forwards (direction 1) or from their last rows back (-1). A step makes y = R x; where
 * `add` it is added to the row of `states`, and x = y + table[id]; else x goes to the row. table may be NULL where `add`.
 * Lengths fall. x has n_lanes rows, and as many more to read as make a multiple of 8; y has LR_LANES rows of `width`. */
#define LR_DEFINE_WALK(REAL)                                                                                          \
  LR_DEFINE_TILE(REAL, 2)                                                                                             \
  LR_DEFINE_TILE(REAL, 1)                                                                                             \
  LAGWISE_CLONES static void lr_walk_##REAL(const REAL *table, const int32_t *ids, const int64_t *begins,             \
                                            const int64_t *lengths, int64_t n_lanes, ptrdiff_t h, int direction,      \
                                            const REAL *packed, int64_t t0, int64_t t1, int add, REAL *x, REAL *y,    \
                                            ptrdiff_t width, REAL *states) {                                          \
    const ptrdiff_t lanes = (ptrdiff_t)(64 / sizeof(REAL)), bytes = h * (ptrdiff_t)sizeof(REAL);                      \
    for (int64_t first = 0; first < n_lanes; first += LR_LANES) {                                                     \
      int64_t n = n_lanes - first < LR_LANES ? n_lanes - first : LR_LANES;                                            \
      for (int64_t t = t0; t < t1; t++) {                                                                             \
        while (n > 0 && lengths[first + n - 1] <= t) n--;                                                             \
        if (n == 0) break;                                                                                            \
        const REAL *panel = packed;                                                                                   \
        ptrdiff_t c = 0;                                                                                              \
        for (; c + 2 * lanes <= width; c += 2 * lanes, panel += 2 * lanes * h)                                        \
          for (int64_t r = 0; r < n; r += 8) lr_tile_##REAL##_2(x + (first + r) * h, h, panel, y + r * width + c, width); \
        if (c < width)                                                                                                \
          for (int64_t r = 0; r < n; r += 8) lr_tile_##REAL##_1(x + (first + r) * h, h, panel, y + r * width + c, width); \
        for (int64_t r = 0; r < n; r++) {                                                                             \
          const int64_t lane = first + r;                                                                             \
          const int64_t at = direction > 0 ? begins[lane] + t : begins[lane] + lengths[lane] - 1 - t;                 \
          const REAL *sum = y + r * width;                                                                            \
          REAL *own = x + lane * h, *out = states + at * h;                                                           \
          if (t + 1 < lengths[lane]) {                                                                                \
            if (table) LR_FETCH(table + (ptrdiff_t)ids[at + direction] * h, bytes);                                   \
            LR_FETCH(out + direction * h, bytes);                                                                     \
          }                                                                                                           \
          if (!table) {                                                                                               \
            for (ptrdiff_t j = 0; j < h; j++) out[j] += sum[j];                                                       \
            for (ptrdiff_t j = 0; j < h; j++) own[j] = sum[j];                                                        \
            continue;                                                                                                 \
          }                                                                                                           \
          const REAL *word = table + (ptrdiff_t)ids[at] * h;                                                          \
          if (add)                                                                                                    \
            for (ptrdiff_t j = 0; j < h; j++) out[j] += sum[j];                                                       \
          for (ptrdiff_t j = 0; j < h; j++) own[j] = sum[j] + word[j];                                                \
          if (!add)                                                                                                   \
            for (ptrdiff_t j = 0; j < h; j++) out[j] = own[j];                                                        \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
  }

LR_DEFINE_WALK(float)
LR_DEFINE_WALK(double)

#define lr_walk(table, ...) _Generic((table), const float *: lr_walk_float, const double *: lr_walk_double)(table, __VA_ARGS__)

#endif
