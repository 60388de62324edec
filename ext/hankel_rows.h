/* Rows of a CSR matrix times neighbouring blocks of a word-major panel, added to blocks of another.
 *
 * A panel row holds r blocks, each one vector of 64 bytes: a nonzero fetches the n blocks that it serves as one stretch.
 * Up to four blocks stand in registers; more are done in further sweeps over the (cached) row. */
#ifndef LAGWISE_HANKEL_ROWS_H
#define LAGWISE_HANKEL_ROWS_H

#include "csr_rows.h"

/* out[i, to + g] += row_scale[i] * sum_p data[p] * tile[indices[p], from + g], g = 0..n-1, for rows begin..end. */
#define LW_DEFINE_HANKEL(NAME, DATA, INDEX, REAL, VEC)                                                                \
  LAGWISE_INLINE void NAME##_n(const DATA *data, const INDEX *indices, const int64_t *indptr, int64_t n_stored,       \
                               int64_t begin, int64_t end, const VEC *tile, VEC *out, ptrdiff_t blocks,               \
                               const REAL *row_scale, const int n) {                                                  \
    for (int64_t i = begin; i < end; i++) {                                                                           \
      const int64_t stop = indptr[i + 1];                                                                             \
      VEC sums[4] = {{0}};                                                                                            \
      for (int64_t p = indptr[i]; p < stop; p++) {                                                                    \
        if (p + LW_AHEAD < n_stored) {                                                                                \
          const VEC *next = tile + (ptrdiff_t)indices[p + LW_AHEAD] * blocks;                                         \
          for (int g = 0; g < n; g++) LAGWISE_PREFETCH(next + g);                                                     \
        }                                                                                                             \
        const VEC *row = tile + (ptrdiff_t)indices[p] * blocks;                                                       \
        const REAL x = (REAL)data[p];                                                                                 \
        for (int g = 0; g < n; g++) sums[g] += x * row[g];                                                            \
      }                                                                                                               \
      VEC *target = out + (ptrdiff_t)i * blocks;                                                                      \
      for (int g = 0; g < n; g++) target[g] += row_scale[i] * sums[g];                                                \
    }                                                                                                                 \
  }                                                                                                                   \
  LAGWISE_CLONES static void NAME(const DATA *data, const INDEX *indices, const int64_t *indptr, int64_t n_stored,    \
                                  int64_t begin, int64_t end, const REAL *tile, REAL *out, ptrdiff_t blocks,          \
                                  int from, int to, int n, const REAL *row_scale) {                                   \
    for (int g = 0; g < n; g += 4) {                                                                                  \
      const VEC *source = (const VEC *)tile + from + g;                                                               \
      VEC *target = (VEC *)out + to + g;                                                                              \
      switch (n - g) {                                                                                                \
        case 1: NAME##_n(data, indices, indptr, n_stored, begin, end, source, target, blocks, row_scale, 1); break;   \
        case 2: NAME##_n(data, indices, indptr, n_stored, begin, end, source, target, blocks, row_scale, 2); break;   \
        case 3: NAME##_n(data, indices, indptr, n_stored, begin, end, source, target, blocks, row_scale, 3); break;   \
        default: NAME##_n(data, indices, indptr, n_stored, begin, end, source, target, blocks, row_scale, 4);         \
      }                                                                                                               \
    }                                                                                                                 \
  }

#define LW_DEFINE_HANKEL_BOTH(SUFFIX, DATA, INDEX)                                \
  LW_DEFINE_HANKEL(lw_hankel_##SUFFIX##_float, DATA, INDEX, float, lw_vec_float)  \
  LW_DEFINE_HANKEL(lw_hankel_##SUFFIX##_double, DATA, INDEX, double, lw_vec_double)
#define LW_DEFINE_HANKEL_DATA(SUFFIX, DATA)            \
  LW_DEFINE_HANKEL_BOTH(SUFFIX##_i32, DATA, int32_t)   \
  LW_DEFINE_HANKEL_BOTH(SUFFIX##_i64, DATA, int64_t)

LW_DEFINE_HANKEL_DATA(f32, float)
LW_DEFINE_HANKEL_DATA(f64, double)
LW_DEFINE_HANKEL_DATA(u8, uint8_t)
LW_DEFINE_HANKEL_DATA(u16, uint16_t)
LW_DEFINE_HANKEL_DATA(u32, uint32_t)
LW_DEFINE_HANKEL_DATA(u64, uint64_t)
LW_DEFINE_HANKEL_DATA(s64, int64_t)

#define hankel_rows(data, indices, indptr, n_stored, begin, end, tile, ...) \
  LW_BY_TYPES(lw_hankel, data, indices, tile)(data, indices, indptr, n_stored, begin, end, tile, __VA_ARGS__)

#endif
