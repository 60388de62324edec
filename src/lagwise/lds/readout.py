"""Inference and answers of a fitted model: states, scores, forecasts, type vectors, dynamics."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..linalg.stein import solve_lyapunov
from . import exact
from .dynamics import Dynamics, Pair, cosines, half_lives, singular_pairs, symmetric_roots, token_pairs, word_lists
from .inference import MISSING, Recursion, filter_sequences, predict_from_filtered, smooth_sequences
from .kalman import steady_state
from .parameters import Parameters, observe
from .pieces import run_rows
from .series import SeriesSpace, check_series
from .statistics import WordSpace
from .two_sided import TwoSided, smooth_words

BLOCK = 16384  # tokens scored at a time
ROWS = 1024  # states whitened at a time


class Readout:
    """Fitted parameters in the coordinates of their data (a `WordSpace` or a `SeriesSpace`).

    Parameters
    ----------
    parameters : Parameters
    space : WordSpace or SeriesSpace
    S_xx : ndarray of float64, shape (h, h)
        E[x_t x_t'].
    unknown : {"zero", "missing"}
        What a word that the model does not know says: w = 0, or nothing.
    """

    def __init__(self, parameters: Parameters, space: Any, S_xx: np.ndarray, unknown: str = "zero"):
        self.parameters, self.space, self.S_xx, self.unknown = parameters, space, S_xx, unknown
        with space.tall.running():
            self.observation = observe(parameters, space)
            self.state = steady_state(parameters.A, parameters.Q, self.observation)
        self.recursion = Recursion.of(parameters.A, self.state, space.dtype)

    @cached_property
    def two_sided(self) -> TwoSided | None:
        """The recursions of smoothing without missing words; None where they would lose digits."""
        return TwoSided.of(self.state, self.space.dtype)

    @cached_property
    def stationary(self) -> np.ndarray:
        """Covariance of the state under A and Q alone."""
        return solve_lyapunov(self.parameters.A, self.parameters.Q)

    # What each word adds: N'w under the filter's and under the score's centring, K w, w'B^+w.
    @cached_property
    def word_rows(self) -> np.ndarray:
        return self.space.word_rows(self.observation.N)

    @cached_property
    def gains(self) -> np.ndarray:
        """K w of every word, (V + 1, h); the last row is the unknown word's zero."""
        return self._gains(self.state.L)

    @cached_property
    def smoothing_gains(self) -> np.ndarray:
        """P K w of every word, likewise (see `two_sided`)."""
        assert self.two_sided is not None
        return self._gains(self.two_sided.P @ self.state.L)

    def _gains(self, L: np.ndarray) -> np.ndarray:
        table = np.zeros((self.space.n_features + 1, len(self.S_xx)), dtype=self.space.dtype)
        table[:-1] = self.word_rows @ L.T
        return table

    def _ids_for_filter(self, ids: np.ndarray) -> np.ndarray:
        return np.where(ids < 0, MISSING if self.unknown == "missing" else self.space.n_features, ids).astype(np.int32)

    def _series_inputs(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        missing = np.isnan(y).all(axis=1)
        w = self.space.whiten(np.where(missing[:, None], self.space.mean, y))
        return w, missing

    # --- states -----------------------------------------------------------------------------------------------------

    def states(
        self,
        data: np.ndarray,
        offsets: np.ndarray,
        kind: str,
        steady: bool = True,
        out: np.ndarray | None = None,
        n_threads: int | None = None,
    ) -> np.ndarray:
        """Filtered, smoothed or predicted states (T, h) of ids (T,) or of a numeric series (T, p)."""
        h = len(self.S_xx)
        if out is None:
            out = np.empty((len(data), h), dtype=self.space.dtype)
        if not steady or self._partly_missing(data):
            filtered = self._steps(data, offsets, steady)
            if kind == "predicted":
                out[...] = filtered.predicted
            elif kind == "filtered":
                out[...] = filtered.means
            elif not steady:
                out[...] = exact.smooth_steps(self.parameters.A, self.parameters.Q, filtered, offsets)
            else:
                out[...] = filtered.means
                smooth_sequences(self.recursion, offsets, out, n_threads)
            return out
        series = isinstance(self.space, SeriesSpace)
        if series:
            w, missing = self._series_inputs(data)
            ids = np.where(missing, MISSING, np.arange(len(data)))
        else:
            ids = self._ids_for_filter(data)
        both = self.two_sided if kind == "smoothed" and not np.any(ids == MISSING) else None
        if series:
            table = (w @ self.observation.N) @ (self.state.L if both is None else both.P @ self.state.L).T
        else:
            table = self.gains if both is None else self.smoothing_gains
        table = np.ascontiguousarray(table)
        if both is not None:
            smooth_words(both, table, ids, offsets, out, n_threads)
            return out
        filter_sequences(self.recursion, table, ids, offsets, out, n_threads)
        if kind == "smoothed":
            smooth_sequences(self.recursion, offsets, out, n_threads)
        elif kind == "predicted":
            predict_from_filtered(self.recursion, offsets, out)
        return out

    def _partly_missing(self, data: np.ndarray) -> bool:
        if not isinstance(self.space, SeriesSpace):
            return False
        nan = np.isnan(data)
        return bool((nan.any(axis=1) & ~nan.all(axis=1)).any())

    def _steps(self, data: np.ndarray, offsets: np.ndarray, steady: bool) -> exact.Filtered:
        par, N = self.parameters, self.observation.N
        if isinstance(self.space, SeriesSpace):
            if np.isnan(data).any():
                factor = self.space.factor
                C = factor @ par.C
                R = factor @ self._series_noise() @ factor.T
                measure = exact.partial_measure(data - self.space.mean, C, R)
                if steady:
                    return exact.filter_steps(par.A, par.Q, self.stationary, offsets, measure, self.state.Sigma_1)
                return exact.filter_steps(par.A, par.Q, self.stationary, offsets, measure)
            rows = (w := self.space.whiten(data)) @ N
            own = self._series_own(w)
            kinds, scored = np.zeros(len(data), dtype=np.int8), rows
        else:
            known = data >= 0
            rows, scored = np.zeros((len(data), N.shape[1])), np.zeros((len(data), N.shape[1]))
            own = np.zeros(len(data))
            rows[known] = self.word_rows[data[known]]
            scored[known] = rows[known] + self._shift
            own[known] = np.broadcast_to(self._own, self.space.n_features)[data[known]]
            kinds = np.where(known, 0, 2 if self.unknown == "missing" else 1)
        measure = exact.whitened_measure(self.observation, rows, scored, own, kinds)
        return exact.filter_steps(
            par.A, par.Q, self.stationary, offsets, measure, self.state.Sigma_1 if steady else None
        )

    def _series_noise(self) -> np.ndarray:
        par, p = self.parameters, self.space.n_features
        if par.noise == "full":
            return np.eye(p) - par.C @ par.M @ par.C.T
        return np.eye(p) * np.asarray(par.scale) if par.noise == "spherical" else np.diag(np.asarray(par.scale))

    def _series_own(self, w: np.ndarray) -> np.ndarray:
        scale = self.parameters.scale
        return np.einsum("ij,ij->i", w, w if scale is None else w / np.asarray(scale))

    # --- scores -----------------------------------------------------------------------------------------------------

    @cached_property
    def _shift(self) -> np.ndarray:
        """From the filter's centring of N'w to the score's."""
        mean = (self.space.s * self.space.mu_0 - self.space.q).astype(self.space.dtype)
        return self.space.tall.gram(mean[:, None], self.observation.N)[0]

    @cached_property
    def _own(self) -> Any:
        return self.space.own_terms(self.parameters.noise, self.parameters.scale)

    def log_likelihoods(
        self,
        data: np.ndarray,
        offsets: np.ndarray,
        steady: bool = True,
        relative: bool = False,
        n_threads: int | None = None,
    ) -> np.ndarray:
        """Nats of each token (T,), in the data's own coordinates; zero where nothing is known.

        With `relative` less those of the model without a state.
        """
        obs, state = self.observation, self.state
        series = isinstance(self.space, SeriesSpace)
        if series and np.isnan(data).any():
            values = self._steps(data, offsets, steady).log_likelihoods
            return values - self._iid_series(data) if relative else values
        if steady:
            a = self.states(data, offsets, "predicted", n_threads=n_threads).astype(np.float64, copy=False)
            values = np.zeros(len(data))
            size = obs.logdet + state.logdet + obs.dimensions * np.log(2 * np.pi)
            for start in range(0, len(data), BLOCK):
                part = slice(start, start + BLOCK)
                if series:
                    w = self.space.whiten(data[part])
                    rows, own = w @ obs.N, self._series_own(w)
                else:
                    at = np.maximum(data[part], 0)
                    rows = self.word_rows[at] + self._shift
                    own = np.broadcast_to(self._own, self.space.n_features)[at]
                aG = a[part] @ obs.G
                e = rows - aG
                square = own + np.einsum("ij,ij->i", aG - 2 * rows, a[part]) + np.einsum("ij,ij->i", e @ state.Omega, e)
                values[part] = -0.5 * (size + square)
        else:
            values = self._steps(data, offsets, False).log_likelihoods
        seen = np.ones(len(data), dtype=bool) if series else data >= 0
        values = np.where(seen, values - self.space.log_volume(obs.dimensions), 0.0)
        return np.where(seen, values - self._iid(data), 0.0) if relative else values

    def _iid(self, data: np.ndarray) -> np.ndarray:
        """Nats of each token under independent draws with covariance Psi_0."""
        space = self.space
        if isinstance(space, SeriesSpace):
            square = np.sum(space.whiten(data) ** 2, axis=1)
        else:
            square = (1 / space.mu - 1)[np.maximum(data, 0)]
        n = space.n_dimensions
        return -0.5 * (n * np.log(2 * np.pi) + square) - space.log_volume(n)

    def _iid_series(self, data: np.ndarray) -> np.ndarray:
        S = self.space.factor @ self.space.factor.T
        measure = exact.partial_measure(data - self.space.mean, np.zeros((len(S), 1)), S)
        zero = np.zeros((1, 1))
        return np.array([measure(t, np.zeros(1), zero)[2] for t in range(len(data))])

    # --- what the model has learned ---------------------------------------------------------------------------------

    def forecast(self, state: np.ndarray, steps: int = 1) -> np.ndarray:
        """Tendency of every word `steps` after a filtered state: q * (C A^steps x) + mu, (V,); or the series' mean."""
        ahead = np.linalg.matrix_power(self.parameters.A, steps) @ np.asarray(state, dtype=np.float64)
        expected = self.parameters.C @ ahead
        if isinstance(self.space, SeriesSpace):
            return self.space.factor @ expected + self.space.mean
        return self.space.q * expected + self.space.mu

    def type_vectors(self) -> np.ndarray:
        """What one occurrence of each word adds to the state, s_i C_i L', (V, h)."""
        if isinstance(self.space, SeriesSpace):
            return (np.linalg.inv(self.space.factor).T @ self.observation.N) @ self.state.L.T
        return ((self.space.s[:, None] * self.observation.N) @ self.state.L.T).astype(self.space.dtype)

    def whitener(self) -> np.ndarray:
        """S_xx^{-1/2}, (h, h)."""
        return symmetric_roots(self.S_xx)[1]

    def dynamics(self, words: Any, top: int, n_pairs: int | None, rank: str, by: str = "state") -> Dynamics:
        """See `LDS.dynamics`."""
        A, C = self.parameters.A, self.parameters.C
        if by == "tokens":
            weighted = np.sqrt(self.space.q)[:, None].astype(C.dtype) * C
            metric = self.space.tall.gram(weighted, weighted)
            now, gains, after = token_pairs(A, self.S_xx, metric)
        else:
            now, gains, after = singular_pairs(A, self.S_xx)
            metric = np.linalg.pinv(self.S_xx, hermitian=True)
        scale, pairs = self._ranking(rank), []
        angles = cosines(now, after, metric)
        for i in range(len(A) if n_pairs is None else min(n_pairs, len(A))):
            lists = word_lists(scale * (C @ now[:, i]), scale * (C @ after[:, i]), words, top)
            pairs.append(Pair(float(gains[i]), float(angles[i]), *lists))
        eigenvalues = np.linalg.eigvals(A)
        eigenvalues = eigenvalues[np.lexsort((eigenvalues.imag, eigenvalues.real, -np.abs(eigenvalues).round(12)))]
        return Dynamics(pairs, eigenvalues, half_lives(eigenvalues))

    def _ranking(self, rank: str) -> Any:
        if not isinstance(self.space, WordSpace) or rank == "correlation":
            return 1.0
        return self.space.q if rank == "raw" else self.space.s


def check_data(X: Any, space: Any) -> np.ndarray:
    """A numeric series as the model wants it; ValueError where the number of coordinates differs."""
    y = check_series(X, empty=True)
    if y.shape[1] != space.n_features:
        raise ValueError(f"the series has {y.shape[1]} coordinates, the model {space.n_features}")
    return y


def check_out(out: Any, shape: tuple[int, int], dtype: Any) -> None:
    """ValueError, or TypeError, saying why states cannot be written to `out`."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; expected an ndarray of shape {shape} and dtype {dtype}")
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out has shape {out.shape} and dtype {out.dtype}; expected {shape} and {dtype}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        what = "is read-only" if not out.flags.writeable else "has gaps between its rows or columns"
        raise ValueError(f"out {what}; expected a writeable array in C order")


def finish(states: np.ndarray, root: np.ndarray | None, unit: bool, n_threads: int | None = None) -> None:
    """Multiply states (T, h) by `root` (h, h) and scale them to unit length, as asked, in place."""

    def work(rows: slice) -> None:
        block = states[rows] if root is None else states[rows] @ root
        states[rows] = unit_rows(block) if unit else block

    run_rows(work, len(states), ROWS, n_threads)


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Rows of finite numbers scaled to unit length; zero rows stay zero."""
    wide = X.astype(np.float64, copy=False)
    squares = np.einsum("ij,ij->i", wide, wide)
    odd = np.flatnonzero(~((squares > 1e-280) & (squares < np.inf)))  # a square has left the range of numbers
    if len(odd):
        wide, rows = wide.copy(), wide[odd]
        most = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
        wide[odd] = rows = rows / np.where(most > 0, most, 1)
        squares[odd] = np.einsum("ij,ij->i", rows, rows)
    return (wide * (1 / np.sqrt(np.where(squares > 0, squares, 1)))[:, None]).astype(X.dtype, copy=False)
