/* Linear recursions along many sequences at once: x <- R x + table[id], each step a product of small matrices.
 *
 * A lane is a stretch of rows of the text. Lanes are independent, so LR_LANES of them go through all their steps while
 * their states and R stay in the cache. R comes packed: panels of a vector of 64 bytes, at the end perhaps one of half a
 * vector, b[u][c] = R[c][u] for the u from reach[panel][0] up to reach[panel][1]: elsewhere R is zero, as on one side of
 * a triangle. */
#ifndef LAGWISE_LANE_ROWS_H
#define LAGWISE_LANE_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include "simd.h"

#define LR_LANES 96 /* a multiple of 8 */

typedef float lr_vec_float __attribute__((vector_size(64), aligned(4), may_alias));
typedef double lr_vec_double __attribute__((vector_size(64), aligned(8), may_alias));
typedef float lr_half_float __attribute__((vector_size(32), aligned(4), may_alias));
typedef double lr_half_double __attribute__((vector_size(32), aligned(8), may_alias));

/* One line of what a lane adds and one of where it goes, into L2: L1 is full of the panel. */
#define LR_FETCH(word, row) (__builtin_prefetch(word, 0, 2), __builtin_prefetch(row, 1, 2))

/* y[r][c] = sum_u x[r][u] b[u][c], u < n: 8 rows (of x h apart) and a vector of columns, everything in registers. */
#define LR_DEFINE_TILE(REAL, VEC)                                                                                     \
  LAGWISE_INLINE void lr_tile_##VEC(const REAL *x, ptrdiff_t h, const REAL *b, ptrdiff_t n, REAL *y, ptrdiff_t stride) {\
    const lr_##VEC *panel = (const lr_##VEC *)b;                                                                      \
    lr_##VEC sums[8] = {{0}};                                                                                         \
    for (ptrdiff_t u = 0; u < n; u++)                                                                                 \
      _Pragma("GCC unroll 8") for (int r = 0; r < 8; r++) sums[r] += x[r * h + u] * panel[u];                         \
    _Pragma("GCC unroll 8") for (int r = 0; r < 8; r++) *(lr_##VEC *)(y + r * stride) = sums[r];                      \
  }

/* Steps t0 .. t1 - 1 of all lanes, forwards (direction 1) or from their last rows back (-1). A step makes y = R x; where
 * `add` it is added to the row of `states`, and x = y + table[id]; else x goes to the row. table may be NULL where `add`.
 * Lengths fall. x has n_lanes rows, and as many more to read as make a multiple of 8; y has LR_LANES rows of
 * `stride` >= width, the columns of all panels. */
#define LR_DEFINE_WALK(REAL)                                                                                          \
  LR_DEFINE_TILE(REAL, vec_##REAL)                                                                                    \
  LR_DEFINE_TILE(REAL, half_##REAL)                                                                                   \
  LAGWISE_CLONES static void lr_walk_##REAL(const REAL *table, const int32_t *ids, const int64_t *begins,             \
                                            const int64_t *lengths, int64_t n_lanes, ptrdiff_t h, int direction,      \
                                            const REAL *packed, const int64_t *reach, ptrdiff_t width, int64_t t0,    \
                                            int64_t t1, int add, REAL *x, REAL *y, ptrdiff_t stride, REAL *states) {  \
    const ptrdiff_t lanes = (ptrdiff_t)(64 / sizeof(REAL));                                                           \
    const REAL *words[LR_LANES];                                                                                      \
    REAL *rows[LR_LANES];                                                                                             \
    for (int64_t first = 0; first < n_lanes; first += LR_LANES) {                                                     \
      int64_t n = n_lanes - first < LR_LANES ? n_lanes - first : LR_LANES;                                            \
      for (int64_t t = t0; t < t1; t++) {                                                                             \
        while (n > 0 && lengths[first + n - 1] <= t) n--;                                                             \
        if (n == 0) break;                                                                                            \
        for (int64_t r = 0; r < n; r++) {                                                                             \
          const int64_t lane = first + r;                                                                             \
          const int64_t at = direction > 0 ? begins[lane] + t : begins[lane] + lengths[lane] - 1 - t;                 \
          rows[r] = states + at * h;                                                                                  \
          words[r] = table ? table + (ptrdiff_t)ids[at] * h : rows[r];                                                \
        }                                                                                                             \
        const REAL *panel = packed;                                                                                   \
        const int64_t *from = reach;                                                                                  \
        for (ptrdiff_t c = 0, step, depth; c < width; c += step, panel += step * depth, from += 2) {                  \
          step = width - c >= lanes ? lanes : lanes / 2;                                                              \
          depth = (ptrdiff_t)(from[1] - from[0]);                                                                     \
          for (int64_t r = 0; r < n; r += 8) {                                                                        \
            /* What this step will add to these columns comes into L2 while they are computed. */                     \
            for (int64_t k = r; k < r + 8 && k < n; k++) LR_FETCH(words[k] + c, rows[k] + c);                         \
            const REAL *own = x + (first + r) * h + from[0];                                                          \
            REAL *sums = y + r * stride + c;                                                                          \
            if (step == lanes) lr_tile_vec_##REAL(own, h, panel, depth, sums, stride);                                \
            else lr_tile_half_##REAL(own, h, panel, depth, sums, stride);                                             \
          }                                                                                                           \
        }                                                                                                             \
        for (int64_t r = 0; r < n; r++) {                                                                             \
          const REAL *sum = y + r * stride, *word = words[r];                                                         \
          REAL *own = x + (first + r) * h, *out = rows[r];                                                            \
          ptrdiff_t j = 0;                                                                                            \
          for (; j + lanes <= h; j += lanes) {                                                                        \
            const lr_vec_##REAL step = *(const lr_vec_##REAL *)(sum + j);                                             \
            lr_vec_##REAL *to = (lr_vec_##REAL *)(out + j), now = step;                                               \
            if (table) now += *(const lr_vec_##REAL *)(word + j);                                                     \
            *(lr_vec_##REAL *)(own + j) = now;                                                                        \
            if (add) *to += step;                                                                                     \
            else *to = now;                                                                                           \
          }                                                                                                           \
          for (; j < h; j++) {                                                                                        \
            own[j] = table ? sum[j] + word[j] : sum[j];                                                               \
            out[j] = add ? out[j] + sum[j] : own[j];                                                                  \
          }                                                                                                           \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
  }

LR_DEFINE_WALK(float)
LR_DEFINE_WALK(double)

#define lr_walk(table, ...) _Generic((table), const float *: lr_walk_float, const double *: lr_walk_double)(table, __VA_ARGS__)

#endif
