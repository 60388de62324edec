"""What the transition matrix says: pairs of directions, now and next, with their words; eigenvalues as half-lives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Pair(NamedTuple):
    """One singular pair A v = gain u: a state like `now` makes the next like `after`.

    Each side lists words by how strongly the model then expects them, for (v, u) and for (-v, -u), which are one pair;
    `now` has the word with the greatest weight of either sign.
    `cosine` is cos(v, u): near 1 the direction stays what it is, a topic; near -1 it turns round with every token.
    """

    gain: float
    cosine: float
    now: list[str]
    after: list[str]
    now_opposite: list[str]
    after_opposite: list[str]


class Dynamics(NamedTuple):
    """Attributes: pairs, by falling gain; eigenvalues of A (h,), by falling modulus; half_lives (h,) in tokens."""

    pairs: list[Pair]
    eigenvalues: np.ndarray
    half_lives: np.ndarray


def half_lives(eigenvalues: np.ndarray) -> np.ndarray:
    """Tokens until a mode has halved: log(1/2) / log |lambda|; 0 for modes that die at once."""
    modulus = np.clip(np.abs(eigenvalues), 1e-300, 1 - 1e-16)
    return np.log(0.5) / np.log(modulus)


def symmetric_roots(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S^{1/2} and S^{-1/2} of a positive definite matrix; directions without variance count as nothing."""
    values, vectors = np.linalg.eigh(0.5 * (S + S.T))
    values = np.maximum(values, 0)
    live = values > 1e-14 * values[-1]
    inverse = np.where(live, 1 / np.sqrt(np.where(live, values, 1)), 0)
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors * inverse) @ vectors.T


def singular_pairs(A: np.ndarray, S_xx: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Singular triplets of A with the state rotated so that S_xx = I: (now (h, h), gains (h,), after (h, h)).

    Columns are directions in the model's own state coordinates; (v, u) and (-v, -u) are one pair.
    """
    root, inverse = symmetric_roots(S_xx)
    left, gains, right = np.linalg.svd(inverse @ A @ root)
    return root @ right.T, gains, root @ left
