"""Dense twins of the sparse product kernels."""

import numpy as np


def dense(data, indices, indptr, shape):
    """The dense float64 matrix; entries stored twice add up."""
    matrix = np.zeros(shape)
    for row in range(shape[0]):
        for p in range(indptr[row], indptr[row + 1]):
            matrix[row, int(indices[p])] += float(data[p])
    return matrix


def sparse_minus_low_rank(matrix, scale, row_scale, col_scale, U, Z):
    """scale * diag(row_scale) matrix diag(col_scale) - U Z'."""
    result = scale * np.array(matrix, dtype=np.float64)
    if row_scale is not None:
        result = row_scale[:, None] * result
    if col_scale is not None:
        result = result * col_scale[None, :]
    return result if U is None else result - np.asarray(U, np.float64) @ np.asarray(Z, np.float64).T
