"""Second-order statistics of text: whitened lagged covariances as sparse minus low rank, never formed.

Psi_k = E[w_{t+k} w_t'] of the centred, whitened word indicators (design: "Statistics"). The store's ``lag(k)`` has the
*earlier* word in the row; here the later word is. This module is the only place where that is turned round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._threads import resolve_threads
from ._tall import PANEL, Tall

SMALL = 100_000  # nonzeros of a lag below which waking threads costs more than the product
PARTS_A_PORTION = 8  # of the 64 parts that the operators cut their rows into


class Covariances:
    """What learning needs of its data: products with the whitened Psi_k, k = 1..max_lag.

    Attributes
    ----------
    n_features : int
        Rows V of an emission matrix.
    n_dimensions : int
        The rank n of Psi_0: V - 1 for text.
    n_samples : int
        Tokens or time steps behind the statistics; 0 where unknown.
    max_lag : int
    mu, q : ndarray of float64, shape (V,), or None
        Smoothed word frequencies and their root, the direction that carries no variance; None for numeric series.
    variances : ndarray of float64, shape (V,)
        The diagonal of Psi_0.
    dtype : dtype
        Of V x h arrays.
    tall : Tall
        The threads that work on them.
    """

    n_features: int
    n_dimensions: int
    n_samples: int
    max_lag: int
    mu: np.ndarray | None = None
    q: np.ndarray | None = None
    variances: np.ndarray
    dtype: np.dtype[Any]
    tall: Tall

    def matmat(self, k: int, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Psi_k X for X of shape (V, b)."""
        raise NotImplementedError

    def rmatmat(self, k: int, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Psi_k' X for X of shape (V, b)."""
        raise NotImplementedError

    def add_hankel(self, r: int, X: np.ndarray, out: np.ndarray, transpose: bool = False) -> None:
        """out = H_r X (or H_r' X) for word-major panels of shape (V, r, b): see `subspace.hankel_blocks`."""
        from .subspace import hankel_blocks

        out[...] = 0
        V, _, b = X.shape
        for k in range(1, 2 * r):
            left, right = hankel_blocks(r, k)
            if transpose:
                left, right = right, left
            block = np.ascontiguousarray(X[:, right]).reshape(V, -1)
            out[:, left] += (self.rmatmat if transpose else self.matmat)(k, block).reshape(V, -1, b)

    def project(self, X: np.ndarray) -> np.ndarray:
        """Psi_0 X: the part orthogonal to q."""
        if self.q is None:
            return X
        q = self.q.astype(X.dtype)
        return X - np.outer(q, self.tall.gram(q[:, None], X)[0].astype(X.dtype))

    def clean(self, X: np.ndarray) -> None:
        """Take what rounding left along q out of X, in place."""
        if self.q is not None:
            q = self.q.astype(X.dtype)
            X -= np.outer(q, self.tall.gram(q[:, None], X)[0].astype(X.dtype))

    @property
    def noise_floor(self) -> float:
        """About the size of the Hankel values per sqrt(r) that sampling alone produces: 2 sqrt(V / n_samples)."""
        return 2 * float(np.sqrt(self.n_features / self.n_samples)) if self.n_samples else 0.0


def smoothed_frequencies(unigrams: np.ndarray, pseudocount: float) -> tuple[np.ndarray, np.ndarray, float]:
    """(mu_0, mu, lambda): frequencies, plain and smoothed by `pseudocount` counts a word; uniform weight."""
    total, V = float(unigrams.sum()), len(unigrams)
    mu_0 = unigrams / total
    weight = pseudocount * V / (total + pseudocount * V)
    return mu_0, (1 - weight) * mu_0 + weight / V, weight


class WordSpace(Covariances):
    """Whitened coordinates of word indicators: what inference needs of the text that was learned from.

    Parameters
    ----------
    mu, mu_0 : ndarray of float64, shape (V,)
        Smoothed and plain word frequencies.
    dtype : dtype
    n_threads : int or None
    """

    def __init__(self, mu: np.ndarray, mu_0: np.ndarray, dtype: Any, n_threads: int | None = None):
        self.mu, self.mu_0 = np.asarray(mu, dtype=np.float64), np.asarray(mu_0, dtype=np.float64)
        self.n_features, self.n_dimensions, self.n_samples, self.max_lag = len(mu), len(mu) - 1, 0, 0
        self.dtype = np.dtype(dtype)
        self.n_threads = resolve_threads(n_threads)
        self.tall = Tall(self.n_threads)
        self.s, self.q = self.mu**-0.5, np.sqrt(self.mu)
        self.variances = 1 - self.mu

    def word_rows(self, N: np.ndarray, smoothed: bool = False) -> np.ndarray:
        """N'w of each word, (V, h) float64: s_i N_i less the mean, under mu_0 (filter) or mu (score)."""
        center = self.q if smoothed else self.s * self.mu_0
        return self.s[:, None] * N - self.tall.gram(center[:, None].astype(N.dtype), N)  # type: ignore[index]

    def own_terms(self, noise: str, scale: np.ndarray | None) -> np.ndarray:
        """w'B^+w of each word, (V,), centred by mu, for the base B of the noise."""
        mu = self.mu
        if noise == "bohning":
            return 2 * (1 - 2 * mu + np.sum(mu * mu))  # type: ignore[operator]
        if noise == "diagonal":
            delta = np.asarray(scale)
            return (1 / mu - 2) / delta + np.sum(mu / delta)  # type: ignore[operator]
        return (1 / mu - 1) / (float(np.asarray(scale)) if noise == "spherical" else 1.0)  # type: ignore[operator, return-value]

    def log_volume(self, dimensions: int) -> float:
        """What a log density loses when it is given in raw word space."""
        lost = 0.5 * float(np.sum(np.log(self.mu)))  # type: ignore[arg-type]
        return lost + 0.5 * np.log(self.n_features) if dimensions == self.n_dimensions else lost


class TextCovariances(WordSpace):
    """Whitened, smoothed lagged covariances of a text from its count store.

    Parameters
    ----------
    counts : CountStore
        With lags 1..`max_lag`.
    max_lag : int
    pseudocount : float
        Counts added to every word.
    dtype : {"float32", "float64"}
    n_threads : int or None

    Raises
    ------
    ValueError
        If the vocabulary has fewer than two words, a word has no mass, or a lag holds no pair.

    Notes
    -----
    Psi_k X = (1 - lambda)/T { s*(N_k (s*X)) - T_k [ (s*r_k)((s*mu_0)'X) + (s*mu_0)((s*c_k - s*mu_0)'X) ] } with
    s = mu^(-1/2). Dividing by T, not by the number T_k of pairs, keeps the sequence positive semidefinite across line
    ends and gaps; the factor 1 - lambda keeps it so when Psi_0 is smoothed.
    """

    def __init__(
        self, counts: Any, max_lag: int, pseudocount: float = 10.0, dtype: Any = "float32", n_threads: int | None = None
    ):
        check_counts(counts, max_lag, pseudocount)
        unigrams = np.asarray(counts.unigrams, dtype=np.float64)
        total = float(unigrams.sum())
        mu_0, mu, self.weight = smoothed_frequencies(unigrams, pseudocount)
        super().__init__(mu, mu_0, dtype, n_threads)
        self.max_lag, self.n_samples = max_lag, int(total)
        self._operators = [self._operator(counts.lag(k, raw=True), k, counts, total) for k in range(1, max_lag + 1)]

    def _operator(self, pairs: Any, k: int, counts: Any, total: float) -> tuple[Any, Any]:
        """Psi_k and its transpose, each with the sparse part in the order of its own rows."""
        from ..operators import SparseMinusLowRank

        turned = pairs.T.tocsr()  # rows are the later words from here on
        later = np.asarray(turned.sum(axis=1, dtype=np.float64)).ravel()
        earlier = np.asarray(pairs.sum(axis=1, dtype=np.float64)).ravel()
        n_pairs = float(later.sum())
        if n_pairs == 0:
            longest = f"{counts.longest_line} token{'s' * (counts.longest_line != 1)}"
            raise ValueError(
                f"no two words of the vocabulary stand {k} apart: the longest line has {longest} and lags "
                f"1..{self.max_lag} were asked for; use fewer lags or boundary='none'"
            )
        factor = (1 - self.weight) / total
        mean = self.s * self.mu_0
        U = factor * np.column_stack([self.s * later, n_pairs * mean])
        Z = np.column_stack([mean, self.s * earlier / n_pairs - mean])
        shared = {
            "row_scale": self.s,
            "col_scale": self.s,
            "n_threads": self.n_threads,
            "dtype": self.dtype,
        }
        return (
            SparseMinusLowRank(turned, factor, U=U, Z=Z, **shared),  # type: ignore[arg-type]
            SparseMinusLowRank(pairs, factor, U=Z, Z=U, **shared),  # type: ignore[arg-type]
        )

    def matmat(self, k: int, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return self._product(self._operators[k - 1][0], X, out)

    def rmatmat(self, k: int, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return self._product(self._operators[k - 1][1], X, out)

    def _product(self, operator: Any, X: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """The operator's product, with its row panels handed to the threads held for the whole iteration."""
        from .._kernels import spmm
        from ..operators import _tiles, aligned_empty

        (V, b), dtype = X.shape, X.dtype
        if out is None:
            out = np.empty((V, b), dtype)
        scale, U = self.s.astype(dtype), operator.U.astype(dtype)
        with self.tall.running():
            inner = self.tall.gram(operator.Z, X)
            for first, width in _tiles(b, dtype):
                stop = min(first + width, b)
                tile, corner = aligned_empty((1, V, width), dtype), aligned_empty((len(inner), width), dtype)
                corner[...] = 0
                corner[:, : stop - first] = inner[:, first:stop]

                def pack(rows: slice, block: np.ndarray = X[:, first:stop], tile: np.ndarray = tile) -> None:
                    spmm.block_pack(block[rows], scale[rows], tile[:, rows], 1)

                def multiply(
                    cuts: np.ndarray,
                    target: np.ndarray = out[:, first:stop],
                    tile: np.ndarray = tile,
                    corner: np.ndarray = corner,
                ) -> None:
                    parts = operator.data, operator.indices, operator.indptr
                    spmm.csr_matmat(*parts, cuts, tile[0], operator.scale, scale, U, corner, target, 1)

                self.tall.rows(pack, V)
                self.tall.tasks(multiply, _portions(operator))
        return out

    def add_hankel(self, r: int, X: np.ndarray, out: np.ndarray, transpose: bool = False) -> None:
        from .._kernels import hankel, spmm
        from ..operators import aligned_empty
        from .subspace import hankel_blocks

        (V, _, b), dtype = X.shape, X.dtype
        width = 64 // dtype.itemsize
        operators = [pair[transpose] for pair in self._operators[: 2 * r - 1]]
        blocks = [hankel_blocks(r, k)[:: -1 if transpose else 1] for k in range(1, 2 * r)]
        tile, sums = aligned_empty((V, r, width), dtype), aligned_empty((V, r, width), dtype)
        scale = np.repeat(self.s, r).astype(dtype)
        flat, flat_out = X.reshape(V * r, b), out.reshape(V * r, b)
        flat_tile, flat_sums = tile.reshape(1, V * r, width), sums.reshape(1, V * r, width)
        nothing = np.empty(0, dtype), np.empty((PANEL, 0), dtype), np.empty((0, width), dtype)
        with self.tall.running():
            for first in range(0, b, width):
                stop = min(first + width, b)

                def pack(rows: slice, block: np.ndarray = flat[:, first:stop]) -> None:
                    spmm.block_pack(block[rows], scale[rows], flat_tile[:, rows], 1)
                    flat_sums[:, rows] = 0

                def unpack(rows: slice, block: np.ndarray = flat_out[:, first:stop]) -> None:
                    target = block[rows]
                    corner = np.ascontiguousarray(nothing[2][:, : target.shape[1]])
                    spmm.block_unpack(flat_sums[:, rows], 1.0, nothing[0], nothing[1][: len(target)], corner, target, 1)

                self.tall.rows(pack, V * r)
                for operator, (left, right) in zip(operators, blocks):
                    row_scale = (operator.scale * self.s).astype(dtype)

                    def add(
                        cuts: np.ndarray,
                        operator: Any = operator,
                        row_scale: np.ndarray = row_scale,
                        left: slice = left,
                        right: slice = right,
                    ) -> None:
                        parts = operator.data, operator.indices, operator.indptr
                        n_blocks = left.stop - left.start
                        hankel.hankel_add(*parts, cuts, tile, right.start, row_scale, sums, left.start, n_blocks, 1)

                    self.tall.tasks(add, _portions(operator))
                self.tall.rows(unpack, V * r)
            # The low-rank parts of all lags at once: out[:, i] -= sum_k U_k (Z_k' X[:, j]).
            U = np.hstack([operator.U for operator in operators]).astype(dtype)
            Z = np.hstack([operator.Z for operator in operators]).astype(dtype)
            inner = self.tall.gram(Z, X.reshape(V, r * b)).reshape(len(operators), -1, r, b)
            weights = np.zeros_like(inner)
            for k, (left, right) in enumerate(blocks):
                weights[k, :, left] = inner[k, :, right]
            self.tall.mix(U, -weights.reshape(U.shape[1], r * b), out.reshape(V, r * b), add=True)


def _portions(operator: Any) -> list[np.ndarray]:
    """Row numbers that cut an operator into portions of like work, each short enough to let Ctrl-C in."""
    from ..operators import _cuts

    edges = _cuts(operator.indptr)
    if operator.nnz <= SMALL:
        return edges
    step = PARTS_A_PORTION
    return [piece[at : at + step + 1] for piece in edges for at in range(0, len(piece) - 1, step)]


def check_counts(counts: Any, max_lag: int, pseudocount: float) -> None:
    """Raise ValueError where a store cannot serve lags 1..max_lag with these pseudocounts."""
    if not hasattr(counts, "lag") or not hasattr(counts, "unigrams"):
        raise TypeError(
            f"LDS learns from a CountStore or LagCovariances, got {type(counts).__name__}; "
            "make one with lagwise.count(...) or LagCovariances.from_series(...)"
        )
    if counts.max_lag is None:
        raise ValueError(
            f"the counts hold a window, the LDS needs lags 1..{max_lag}; count again with max_lag={max_lag}"
        )
    if counts.max_lag < max_lag:
        raise ValueError(
            f"counts hold lags 1..{counts.max_lag}, lags 1..{max_lag} are needed (2 ssid_lags - 1, em_lags); "
            f"count again with max_lag={max_lag}"
        )
    V = len(counts.vocabulary)
    if V < 2:
        raise ValueError(f"the vocabulary has {V} word{'s' * (V != 1)}; a linear dynamical system needs at least 2")
    unigrams = np.asarray(counts.unigrams)
    if unigrams.sum() == 0:
        raise ValueError("the counts hold no tokens")
    if pseudocount == 0 and (unigrams == 0).any():
        word = counts.vocabulary[int(np.flatnonzero(unigrams == 0)[0])]
        raise ValueError(
            f"the word {word!r} was never seen and pseudocount is 0, so it has no variance; "
            "give a positive pseudocount or leave the word out"
        )
