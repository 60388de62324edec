"""Second-order statistics of numeric series, whitened by the Cholesky factor of their covariance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .._validation import check_int
from ._tall import Tall
from .statistics import Covariances


class SeriesSpace(Covariances):
    """Whitened coordinates of numeric series.

    Parameters
    ----------
    mean : ndarray of float64, shape (p,)
    factor : ndarray of float64, shape (p, p)
        Lower Cholesky factor of Psi_0.
    """

    def __init__(self, mean: np.ndarray, factor: np.ndarray):
        self.mean, self.factor = np.asarray(mean, dtype=np.float64), np.asarray(factor, dtype=np.float64)
        self.n_features = self.n_dimensions = len(self.mean)
        self.n_samples, self.max_lag = 0, 0
        self.variances = np.ones(self.n_features)
        self.dtype, self.tall = np.dtype(np.float64), Tall(1)

    def whiten(self, y: np.ndarray) -> np.ndarray:
        """Whitened rows of a series (T, p)."""
        return np.linalg.solve(self.factor, (y - self.mean).T).T

    def log_volume(self, dimensions: int) -> float:
        """What a log density loses when it is given in the series' own coordinates."""
        return float(np.sum(np.log(np.diag(self.factor))))


class LagCovariances(SeriesSpace):
    """Lagged covariances of real vectors, a second input of `LDS.fit` beside a count store.

    Parameters
    ----------
    covariances : array_like, shape (K + 1, p, p)
        Psi_k = E[y_{t+k} y_t'] of the centred series for k = 0..K; the later time is in the row.
    mean : array_like, shape (p,), optional
        What was subtracted; zero by default.
    n_samples : int
        Time steps behind the estimates; 0 where they are exact.

    Raises
    ------
    ValueError
        If shapes disagree, values are not finite, or a coordinate is constant or a mixture of others.
    """

    def __init__(self, covariances: Any, mean: Any = None, n_samples: int = 0):
        psi = np.array(covariances, dtype=np.float64)
        if psi.ndim != 3 or psi.shape[1] != psi.shape[2] or len(psi) < 2:
            raise ValueError(f"covariances have shape {psi.shape}; expected (K + 1, p, p) with K at least 1")
        if not np.isfinite(psi).all():
            raise ValueError("covariances hold NaN or infinite values")
        center = np.zeros(psi.shape[1]) if mean is None else np.array(mean, dtype=np.float64)
        if center.shape != (psi.shape[1],):
            raise ValueError(f"the mean has shape {center.shape}; expected ({psi.shape[1]},)")
        super().__init__(center, covariance_factor(psi[0]))
        self.raw, self.max_lag, self.n_samples = psi, len(psi) - 1, int(n_samples)
        half = np.linalg.solve(self.factor, psi)
        self.whitened = np.ascontiguousarray(np.linalg.solve(self.factor, half.transpose(0, 2, 1)).transpose(0, 2, 1))

    @classmethod
    def from_series(cls, y: Any, max_lag: int, offsets: Any = None, circular: bool = False) -> LagCovariances:
        """Estimate lagged covariances.

        Parameters
        ----------
        y : array_like, shape (T, p)
            Missing values are NaN.
        max_lag : int
        offsets : array_like of int, shape (n_sequences + 1,), optional
            Sequence i is ``y[offsets[i]:offsets[i + 1]]``; no pair crosses a boundary. One sequence by default.
        circular : bool
            Let each sequence run on from its end to its beginning (exact for periodic series).

        Notes
        -----
        Sums over the pairs that exist are divided by T at every lag, a missing value counts as the mean, and each
        coordinate is scaled to the variance of its observed values. So the block Toeplitz matrix of the covariances
        is positive semidefinite whatever is missing; lagged covariances shrink with the share of missing pairs.
        """
        y = check_series(y)
        max_lag = check_int("max_lag", max_lag, 1)
        bounds = check_offsets(offsets, len(y))
        seen = ~np.isnan(y)
        if not seen.any(axis=0).all():
            raise ValueError(f"coordinate {int(np.flatnonzero(~seen.any(axis=0))[0])} has no observed value")
        if np.diff(bounds).max() <= max_lag:
            raise ValueError(f"the longest sequence has {np.diff(bounds).max()} steps; lags 1..{max_lag} need more")
        mean = np.nanmean(y, axis=0)
        centred = np.where(seen, y - mean, 0.0) / np.sqrt(seen.mean(axis=0))
        psi = np.zeros((max_lag + 1, y.shape[1], y.shape[1]))
        for start, stop in itertools.pairwise(bounds):
            part = centred[start:stop]
            for k in range(max_lag + 1):
                if circular:
                    psi[k] += np.roll(part, -k, axis=0).T @ part
                elif k < len(part):
                    psi[k] += part[k:].T @ part[: len(part) - k]
        return cls(psi / len(y), mean, len(y))

    def matmat(self, k: int, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.matmul(self.whitened[k], X, out=out)

    def rmatmat(self, k: int, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.matmul(self.whitened[k].T, X, out=out)

    def __repr__(self) -> str:
        return f"LagCovariances({self.n_features} coordinates, lags 0..{self.max_lag})"


def check_series(y: Any, empty: bool = False) -> np.ndarray:
    """A float64 array (T, p) from numbers in which NaN marks a missing value; T may be 0 where `empty` says so."""
    array = np.asarray(y)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"a numeric series has dtype {array.dtype}; expected real numbers")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0 or (len(array) == 0 and not empty):
        raise ValueError(f"a numeric series has shape {np.shape(y)}; expected (T, p)")
    array = array.astype(np.float64)
    if np.isinf(array).any():
        raise ValueError("the series holds infinite values; mark missing values by NaN")
    return array


def check_offsets(offsets: Any, total: int) -> np.ndarray:
    """Offsets of sequences, int64 (n + 1,), from 0 to `total` and never falling."""
    if offsets is None:
        return np.array([0, total], dtype=np.int64)
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds.dtype.kind not in "iu":
        raise ValueError(f"offsets have shape {bounds.shape} and dtype {bounds.dtype}; expected whole numbers (n + 1,)")
    bounds = bounds.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != total or (np.diff(bounds) < 0).any():
        raise ValueError(
            f"offsets must rise from 0 to the number of steps, {total}; they go from {bounds[0]} to {bounds[-1]}"
        )
    return bounds


def covariance_factor(psi_0: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor of a covariance; ValueError naming the coordinate that has no variance of its own."""
    variances = np.diag(psi_0)
    scale = np.abs(variances).max()
    for i, value in enumerate(variances):
        if not value > 1e-12 * scale or scale == 0:
            raise ValueError(f"coordinate {i} has variance {value:.3g}: it is constant; leave it out")
    try:
        factor = np.linalg.cholesky(0.5 * (psi_0 + psi_0.T))
    except np.linalg.LinAlgError:
        factor = None
    own = None if factor is None else np.diag(factor) ** 2 / variances
    if own is None or own.min() < 1e-12:
        which = "one coordinate" if own is None else f"coordinate {int(own.argmin())}"
        raise ValueError(f"{which} is a mixture of the others (the covariance is singular); leave it out")
    return factor  # type: ignore[return-value]
