"""Second-order statistics of numeric series, whitened by the Cholesky factor of their covariance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .._validation import check_int
from ._tall import Tall
from .statistics import Covariances

MOST = 1e100  # in size, of values whose squares and sums must stay finite


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
        super().__init__(check_mean(mean, psi.shape[1]), covariance_factor(psi[0]))
        self.raw, self.max_lag, self.n_samples = psi, len(psi) - 1, check_int("n_samples", n_samples, 0)
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
        constant = np.sqrt(np.mean(centred**2, axis=0)) <= 1e-14 * np.abs(mean)  # but for the rounding of the mean
        if constant.any():
            raise ValueError(f"coordinate {int(constant.argmax())} is constant; leave it out")
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
    """A float64 array (T, p) from numbers in which NaN (or a mask) marks a missing value; T may be 0 where `empty`."""
    try:
        array = np.asarray(y)
    except ValueError:
        raise ValueError("the series is a list of arrays of several lengths; join them and pass lengths=") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"a numeric series has dtype {array.dtype}; expected real numbers")
    array = array.astype(np.float64)
    if isinstance(y, np.ma.MaskedArray):
        array[np.ma.getmaskarray(y)] = np.nan
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim == 3:
        raise ValueError(f"the series has shape {array.shape}; join the series to one of (T, p) and pass lengths=")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"a numeric series has shape {array.shape}; expected (T, p)")
    if len(array) == 0 and not empty:
        raise ValueError(f"the series has no time steps (shape {array.shape})")
    if np.isinf(array).any():
        raise ValueError("the series holds infinite values; mark missing values by NaN")
    most = float(np.nanmax(np.abs(array), initial=0.0))
    if most > MOST:
        raise ValueError(
            f"the series holds a value of size {most:.3g}; expected at most {MOST:g}: scale the series down"
        )
    return array


def check_mean(mean: Any, n: int) -> np.ndarray:
    """A finite float64 vector of n numbers; zeros for None."""
    center = np.zeros(n) if mean is None else np.array(mean, dtype=np.float64)
    if center.shape != (n,):
        raise ValueError(f"the mean has shape {center.shape}; expected ({n},)")
    if not (np.abs(center) <= MOST).all():
        raise ValueError(f"the mean is {center}; expected finite numbers up to {MOST:g}")
    return center


def check_system(A: Any, C: Any, Q: Any, R: Any, mean: Any) -> tuple[np.ndarray, ...]:
    """Known parameters of a numeric series as float64 arrays (A, C, Q, R, mean); ValueError naming what is wrong."""
    A, Q, R = (np.atleast_2d(np.asarray(X, dtype=np.float64)) for X in (A, Q, R))
    C = np.asarray(C, dtype=np.float64)
    C = C.reshape(len(R), len(A)) if C.ndim < 2 and C.size == len(R) * len(A) else C
    for name, array, shape in (
        ("A", A, (len(A),) * 2),
        ("Q", Q, A.shape),
        ("R", R, (len(R),) * 2),
        ("C", C, (len(R), len(A))),
    ):
        if array.shape != shape:
            raise ValueError(
                f"{name} has shape {array.shape}; expected {shape} (A (h, h), C (p, h), Q (h, h), R (p, p))"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinite values")
    for name, array in (("Q", Q), ("R", R)):
        if not np.allclose(array, array.T, rtol=1e-10, atol=0):
            raise ValueError(f"{name} is not symmetric; expected a covariance")
        least, most = np.linalg.eigvalsh(array)[[0, -1]]
        if least < -1e-12 * abs(most) or (name == "R" and least <= 0):
            kind = "positive definite" if name == "R" else "positive semidefinite"
            raise ValueError(f"{name} has the eigenvalue {least:.3g}; expected a {kind} covariance")
    radius = float(np.abs(np.linalg.eigvals(A)).max())
    if radius >= 1:
        raise ValueError(f"A has spectral radius {radius:.6g}; expected less than 1")
    return A, C, Q, R, check_mean(mean, len(R))


def check_offsets(offsets: Any, total: int) -> np.ndarray:
    """Offsets of sequences, int64 (n + 1,), from 0 to `total` and never falling."""
    if offsets is None:
        return np.array([0, total], dtype=np.int64)
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds.dtype.kind not in "iu":
        raise ValueError(f"offsets have shape {bounds.shape} and dtype {bounds.dtype}; expected whole numbers (n + 1,)")
    bounds = bounds.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != total or (np.diff(bounds) < 0).any():
        falls = np.flatnonzero(np.diff(bounds) < 0)
        came = f"go from {bounds[0]} to {bounds[-1]}" if not len(falls) else f"fall behind number {falls[0]}"
        raise ValueError(f"offsets must rise from 0 to the number of steps, {total}; they {came}")
    return bounds


def covariance_factor(psi_0: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor of a covariance; ValueError naming the coordinate that has no variance of its own."""
    variances = np.diag(psi_0)
    for i, value in enumerate(variances):
        if not value > 0:
            raise ValueError(
                f"coordinate {i} has variance {value:.3g}: it is constant, or too small: leave it out or scale it"
            )
    deviation = np.sqrt(variances)
    correlations = 0.5 * (psi_0 + psi_0.T) / deviation / deviation[:, None]  # coordinates of any scale
    try:
        factor = np.linalg.cholesky(correlations)
    except np.linalg.LinAlgError:
        factor = None
    own = None if factor is None else np.diag(factor) ** 2
    if factor is None or own is None or own.min() < 1e-12:
        which = "one coordinate" if own is None else f"coordinate {int(own.argmin())}"
        raise ValueError(f"{which} is a mixture of the others (the covariance is singular); leave it out")
    return factor * deviation[:, None]
