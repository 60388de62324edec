/* Rows of several CSR matrices added into a dense accumulator. */
#ifndef LAGWISE_ROWS_H
#define LAGWISE_ROWS_H

#include <stdint.h>

#include "marks.h"

typedef struct {
    const int64_t *indptr;
    const int32_t *indices;
    const void *data;
    int width;               /* bytes of one value, unsigned */
    const int32_t *new_rows; /* row of the sum -> row here or -1; NULL: the same */
    const int32_t *new_columns; /* column here -> column of the sum, NULL: the same */
} lw_csr;

#define LAGWISE_ADD_ROW(type, number)                                                   \
    for (int64_t p = begin; p < end; p++) {                                             \
        int32_t j = matrix->new_columns ? matrix->new_columns[matrix->indices[p]] : matrix->indices[p]; \
        if (j < 0) continue;                                                            \
        acc[j] += factor * (number)((const type *)matrix->data)[p];                     \
        lw_mark(map, j);                                                                \
    }

#define LAGWISE_SUM_ROW(name, number)                                                                             \
    static int64_t name(const lw_csr *matrices, int64_t n, const number *factors, int64_t row, number *acc,       \
                        const lw_marks *map, int32_t *indices, number *values) {                                 \
        int64_t length = 0;                                                                                       \
        for (int64_t m = 0; m < n; m++) {                                                                         \
            const lw_csr *matrix = matrices + m;                                                                  \
            const int64_t r = matrix->new_rows ? matrix->new_rows[row] : row;                                     \
            if (r < 0) continue;                                                                                  \
            const int64_t begin = matrix->indptr[r], end = matrix->indptr[r + 1];                                 \
            const number factor = factors[m];                                                                     \
            if (matrix->width == 1) { LAGWISE_ADD_ROW(uint8_t, number) }                                          \
            else if (matrix->width == 2) { LAGWISE_ADD_ROW(uint16_t, number) }                                    \
            else if (matrix->width == 4) { LAGWISE_ADD_ROW(uint32_t, number) }                                    \
            else { LAGWISE_ADD_ROW(uint64_t, number) }                                                            \
        }                                                                                                         \
        LAGWISE_FOR_EACH_MARKED(map, j, {                                                                        \
            if (acc[j] != 0) {                                                                                    \
                indices[length] = (int32_t)j;                                                                     \
                values[length++] = acc[j];                                                                        \
                acc[j] = 0;                                                                                       \
            }                                                                                                     \
        })                                                                                                        \
        return length;                                                                                            \
    }

LAGWISE_SUM_ROW(lw_sum_row_integer, uint64_t)
LAGWISE_SUM_ROW(lw_sum_row_real, double)

#endif
