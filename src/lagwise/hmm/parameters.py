"""The numbers of an HMM, checked, drawn at random, and packed for sums of counts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass
class Parameters:
    """Probabilities of an HMM of order 1 or 2; also holds expected counts, which have the same shapes.

    Attributes
    ----------
    start : ndarray of float64, shape (K,)
    transition : ndarray, shape (K, K) or, of order 2, (K, K, K)
        ``transition[i, j]`` = P(j | i); ``transition[a, b, c]`` = P(c | a, b).
    emission : ndarray, shape (V, K)
        Word-major: ``emission[w, k]`` = P(w | k).
    second : ndarray, shape (K, K), or None
        Order 2: the transition into the second position.
    stop : ndarray, shape (K,) or (K, K), or None
        Probability that a sequence ends after its last state (order 2: after its last two).
    stop1 : ndarray, shape (K,), or None
        Order 2: probability that a sequence ends after its first state.
    """

    start: np.ndarray
    transition: np.ndarray
    emission: np.ndarray
    second: np.ndarray | None = None
    stop: np.ndarray | None = None
    stop1: np.ndarray | None = None

    @property
    def order(self) -> int:
        """1 or 2."""
        return self.transition.ndim - 1

    @property
    def n_states(self) -> int:
        """K."""
        return self.start.size

    @classmethod
    def zeros(cls, n_states: int, n_rows: int, order: int, stop: bool) -> Parameters:
        """Counts to add to."""
        K = n_states
        return cls(
            np.zeros(K),
            np.zeros((K,) * (order + 1)),
            np.zeros((n_rows, K)),
            np.zeros((K, K)) if order == 2 else None,
            np.zeros((K,) * order) if stop else None,
            np.zeros(K) if stop and order == 2 else None,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are there, by name."""
        return {
            field.name: value for field in dataclasses.fields(self) if (value := getattr(self, field.name)) is not None
        }

    def __add__(self, other: Parameters) -> Parameters:
        return Parameters(**{name: value + getattr(other, name) for name, value in self.arrays().items()})


def check_distribution(
    name: str, array: Any, shape: tuple[int | None, ...], total: np.ndarray | float = 1.0
) -> np.ndarray:
    """Return `array` as C-ordered float64 whose last axis sums to `total`; None in `shape` leaves an axis free.

    Raises
    ------
    ValueError
        Naming the first row that is not a distribution.
    """
    values = np.array(array, dtype=np.float64, order="C")
    wanted = tuple(
        values.shape[axis] if size is None and axis < values.ndim else size for axis, size in enumerate(shape)
    )
    if values.shape != wanted:
        raise ValueError(f"{name} has shape {values.shape}; expected {wanted}")
    if not np.all(np.isfinite(values)) or values.min(initial=0.0) < 0:
        raise ValueError(f"{name} holds negative or non-finite numbers; expected probabilities")
    off = np.abs(values.sum(axis=-1) - total) > 1e-6
    if np.any(off):
        where = np.argwhere(np.atleast_1d(off))[0].tolist()
        raise ValueError(
            f"{name} row {where} sums to {float(np.atleast_1d(values.sum(axis=-1))[tuple(where)]):.9g}; "
            f"expected {float(np.broadcast_to(total, np.shape(np.atleast_1d(off)))[tuple(where)]):.9g}"
        )
    return values


def random_parameters(n_states: int, n_symbols: int, order: int, stop: bool, rng: np.random.Generator) -> Parameters:
    """Every distribution drawn from a flat Dirichlet; stop probabilities start equal, at 1 / (K + 1)."""
    K, share = n_states, (n_states / (n_states + 1.0) if stop else 1.0)
    start = rng.dirichlet(np.ones(K))
    second = rng.dirichlet(np.ones(K), size=K) * share if order == 2 else None
    transition = rng.dirichlet(np.ones(K), size=(K,) * order) * share
    emission = rng.standard_exponential((n_symbols, K))
    emission /= emission.sum(axis=0)
    return Parameters(start, transition, emission, second, *_equal_stops(K, order, stop))


def uniform_parameters(n_states: int, n_symbols: int, order: int, stop: bool) -> Parameters:
    """Every distribution flat."""
    K, share = n_states, (n_states / (n_states + 1.0) if stop else 1.0)
    return Parameters(
        np.full(K, 1.0 / K),
        np.full((K,) * (order + 1), share / K),
        np.full((n_symbols, K), 1.0 / n_symbols),
        np.full((K, K), share / K) if order == 2 else None,
        *_equal_stops(K, order, stop),
    )


def _equal_stops(K: int, order: int, stop: bool) -> tuple[np.ndarray | None, np.ndarray | None]:
    return (
        np.full((K,) * order, 1.0 / (K + 1)) if stop else None,
        np.full(K, 1.0 / (K + 1)) if stop and order == 2 else None,
    )
