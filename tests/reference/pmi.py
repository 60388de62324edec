"""PMI by its definition, dense."""

import numpy as np


def pmi_dense(counts, alpha=None, shift=0.0, smoothing=1.0, smooth="both"):
    """Base-2 PMI of the observed pairs above alpha, plus shift; other entries are 0."""
    X = np.asarray(counts, dtype=np.float64)
    total, rows = X.sum(), X.sum(axis=1)
    plain, smoothed = rows / total, rows**smoothing / (rows**smoothing).sum()
    left = smoothed if smooth == "both" else plain
    result = np.zeros_like(X)
    for i, j in zip(*np.nonzero(X)):
        value = np.log2(X[i, j] / total / (left[i] * smoothed[j]))
        if alpha is None or value > alpha:
            result[i, j] = value + shift
    return result
