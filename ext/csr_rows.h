/* Rows of a CSR matrix times a dense tile, and the transposed product, with the accumulators in registers.
 *
 * A tile holds 1, 2 or 4 vectors of 64 bytes a row (one cache line each): 16, 32 or 64 float columns, 8, 16 or 32
 * double columns. Fetching tile rows is what limits the product, so the rows of the nonzeros to come are prefetched.
 * Needs the vector extension of GCC and Clang; csr_rows and csr_scatter choose the function by the pointer types. */
#ifndef LAGWISE_CSR_ROWS_H
#define LAGWISE_CSR_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include "simd.h"

typedef float lw_vec_float __attribute__((vector_size(64)));
typedef double lw_vec_double __attribute__((vector_size(64)));

#define LW_AHEAD 16 /* nonzeros between a prefetch and its use */

/* out[i, :width] = scale * row_scale[i] * sum_p data[p] * tile[indices[p], :] - U[i, :] @ zx, for rows begin..end.
 * row_scale may be NULL; U is n_rows x q and zx is q x (vectors * lanes). The last entry of the matrix is at n_stored - 1. */
#define LW_DEFINE_ROWS(NAME, DATA, INDEX, REAL, VEC)                                                                  \
  LAGWISE_INLINE void NAME##_n(const DATA *data, const INDEX *indices, const int64_t *indptr, int64_t n_stored,       \
                               int64_t begin, int64_t end, const REAL *tile, REAL *out, ptrdiff_t stride, int width,  \
                               REAL scale, const REAL *row_scale, const REAL *U, int q, const REAL *zx,               \
                               const int vectors) {                                                                   \
    const VEC *rows = (const VEC *)tile;                                                                              \
    for (int64_t i = begin; i < end; i++) {                                                                           \
      VEC even[4] = {{0}}, odd[4] = {{0}};                                                                            \
      int64_t p = indptr[i];                                                                                          \
      const int64_t stop = indptr[i + 1];                                                                             \
      for (; p + 1 < stop; p += 2) {                                                                                  \
        if (p + 1 + LW_AHEAD < n_stored) {                                                                            \
          const VEC *next = rows + (ptrdiff_t)indices[p + LW_AHEAD] * vectors;                                        \
          const VEC *after = rows + (ptrdiff_t)indices[p + 1 + LW_AHEAD] * vectors;                                   \
          for (int v = 0; v < vectors; v++) LAGWISE_PREFETCH(next + v);                                               \
          for (int v = 0; v < vectors; v++) LAGWISE_PREFETCH(after + v);                                              \
        }                                                                                                             \
        const VEC *a = rows + (ptrdiff_t)indices[p] * vectors, *b = rows + (ptrdiff_t)indices[p + 1] * vectors;       \
        const REAL x = (REAL)data[p], y = (REAL)data[p + 1];                                                          \
        for (int v = 0; v < vectors; v++) even[v] += x * a[v];                                                        \
        for (int v = 0; v < vectors; v++) odd[v] += y * b[v];                                                         \
      }                                                                                                               \
      if (p < stop) {                                                                                                 \
        const VEC *a = rows + (ptrdiff_t)indices[p] * vectors;                                                        \
        const REAL x = (REAL)data[p];                                                                                 \
        for (int v = 0; v < vectors; v++) even[v] += x * a[v];                                                        \
      }                                                                                                               \
      const REAL factor = row_scale ? scale * row_scale[i] : scale;                                                   \
      for (int v = 0; v < vectors; v++) even[v] = (even[v] + odd[v]) * factor;                                        \
      for (int r = 0; r < q; r++) {                                                                                   \
        const VEC *z = (const VEC *)zx + (ptrdiff_t)r * vectors;                                                      \
        const REAL u = U[i * q + r];                                                                                  \
        for (int v = 0; v < vectors; v++) even[v] -= u * z[v];                                                        \
      }                                                                                                               \
      const REAL *sums = (const REAL *)even;                                                                          \
      REAL *row = out + i * stride;                                                                                   \
      for (int c = 0; c < width; c++) row[c] = sums[c];                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  LAGWISE_CLONES static void NAME(const DATA *data, const INDEX *indices, const int64_t *indptr, int64_t n_stored,    \
                                  int64_t begin, int64_t end, const REAL *tile, REAL *out, ptrdiff_t stride,          \
                                  int width, REAL scale, const REAL *row_scale, const REAL *U, int q,                 \
                                  const REAL *zx, int vectors) {                                                      \
    if (vectors == 1)                                                                                                 \
      NAME##_n(data, indices, indptr, n_stored, begin, end, tile, out, stride, width, scale, row_scale, U, q, zx, 1); \
    else if (vectors == 2)                                                                                            \
      NAME##_n(data, indices, indptr, n_stored, begin, end, tile, out, stride, width, scale, row_scale, U, q, zx, 2); \
    else                                                                                                              \
      NAME##_n(data, indices, indptr, n_stored, begin, end, tile, out, stride, width, scale, row_scale, U, q, zx, 4); \
  }

/* sums[indices[p], :] += data[p] * tile[i, :] for the nonzeros p of rows begin..end, in their order. */
#define LW_DEFINE_SCATTER(NAME, DATA, INDEX, REAL, VEC)                                                               \
  LAGWISE_INLINE void NAME##_n(const DATA *data, const INDEX *indices, const int64_t *indptr, int64_t n_stored,       \
                               int64_t begin, int64_t end, const REAL *tile, REAL *sums, const int vectors) {         \
    VEC *targets = (VEC *)sums;                                                                                       \
    for (int64_t i = begin; i < end; i++) {                                                                           \
      VEC row[4];                                                                                                     \
      for (int v = 0; v < vectors; v++) row[v] = ((const VEC *)tile)[i * vectors + v];                                \
      for (int64_t p = indptr[i]; p < indptr[i + 1]; p++) {                                                           \
        if (p + LW_AHEAD < n_stored)                                                                                  \
          for (int v = 0; v < vectors; v++)                                                                           \
            LAGWISE_PREFETCH(targets + (ptrdiff_t)indices[p + LW_AHEAD] * vectors + v);                               \
        VEC *target = targets + (ptrdiff_t)indices[p] * vectors;                                                      \
        const REAL x = (REAL)data[p];                                                                                 \
        for (int v = 0; v < vectors; v++) target[v] += x * row[v];                                                    \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  LAGWISE_CLONES static void NAME(const DATA *data, const INDEX *indices, const int64_t *indptr, int64_t n_stored,    \
                                  int64_t begin, int64_t end, const REAL *tile, REAL *sums, int vectors) {            \
    if (vectors == 1)                                                                                                 \
      NAME##_n(data, indices, indptr, n_stored, begin, end, tile, sums, 1);                                           \
    else if (vectors == 2)                                                                                            \
      NAME##_n(data, indices, indptr, n_stored, begin, end, tile, sums, 2);                                           \
    else                                                                                                              \
      NAME##_n(data, indices, indptr, n_stored, begin, end, tile, sums, 4);                                           \
  }

#define LW_DEFINE_BOTH(SUFFIX, DATA, INDEX)                                   \
  LW_DEFINE_ROWS(lw_rows_##SUFFIX##_float, DATA, INDEX, float, lw_vec_float)  \
  LW_DEFINE_ROWS(lw_rows_##SUFFIX##_double, DATA, INDEX, double, lw_vec_double) \
  LW_DEFINE_SCATTER(lw_scatter_##SUFFIX##_float, DATA, INDEX, float, lw_vec_float) \
  LW_DEFINE_SCATTER(lw_scatter_##SUFFIX##_double, DATA, INDEX, double, lw_vec_double)
#define LW_DEFINE_DATA(SUFFIX, DATA)             \
  LW_DEFINE_BOTH(SUFFIX##_i32, DATA, int32_t)    \
  LW_DEFINE_BOTH(SUFFIX##_i64, DATA, int64_t)

LW_DEFINE_DATA(f32, float)
LW_DEFINE_DATA(f64, double)
LW_DEFINE_DATA(u8, uint8_t)
LW_DEFINE_DATA(u16, uint16_t)
LW_DEFINE_DATA(u32, uint32_t)
LW_DEFINE_DATA(u64, uint64_t)
LW_DEFINE_DATA(s64, int64_t)

#define LW_BY_REAL(NAME, tile) _Generic((tile), const float *: NAME##_float, const double *: NAME##_double)
#define LW_BY_INDEX(NAME, indices, tile) \
  _Generic((indices), const int32_t *: LW_BY_REAL(NAME##_i32, tile), const int64_t *: LW_BY_REAL(NAME##_i64, tile))
#define LW_BY_TYPES(NAME, data, indices, tile)                  \
  _Generic((data),                                              \
      const float *: LW_BY_INDEX(NAME##_f32, indices, tile),    \
      const double *: LW_BY_INDEX(NAME##_f64, indices, tile),   \
      const uint8_t *: LW_BY_INDEX(NAME##_u8, indices, tile),   \
      const uint16_t *: LW_BY_INDEX(NAME##_u16, indices, tile), \
      const uint32_t *: LW_BY_INDEX(NAME##_u32, indices, tile), \
      const uint64_t *: LW_BY_INDEX(NAME##_u64, indices, tile), \
      const int64_t *: LW_BY_INDEX(NAME##_s64, indices, tile))

#define csr_rows(data, indices, indptr, n_stored, begin, end, tile, ...) \
  LW_BY_TYPES(lw_rows, data, indices, tile)(data, indices, indptr, n_stored, begin, end, tile, __VA_ARGS__)
#define csr_scatter(data, indices, indptr, n_stored, begin, end, tile, sums, vectors) \
  LW_BY_TYPES(lw_scatter, data, indices, tile)(data, indices, indptr, n_stored, begin, end, tile, sums, vectors)

#endif
