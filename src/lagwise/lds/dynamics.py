"""What the transition matrix says: pairs of directions, now and next, with their words; eigenvalues as half-lives."""

from __future__ import annotations

from typing import Any, NamedTuple

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


def token_pairs(A: np.ndarray, S_xx: np.ndarray, G: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Singular triplets of what one token says of the next, C A S_xx C' in a word space with Gram matrix G = C'C.

    As `singular_pairs`; gains are relative to the largest.
    """
    root, inverse = symmetric_roots(G)
    left, gains, right = np.linalg.svd(root @ A @ S_xx @ root)
    return inverse @ right.T, gains / max(gains[0], np.finfo(np.float64).tiny), inverse @ left


def cosines(now: np.ndarray, after: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Of the angles between columns under x' metric y."""
    across, *sizes = (np.einsum("ij,ij->j", X, metric @ Y) for X, Y in ((now, after), (now, now), (after, after)))
    return across / np.maximum(np.sqrt(sizes[0] * sizes[1]), np.finfo(np.float64).tiny)


def word_lists(now: np.ndarray, after: np.ndarray, words: Any, top: int) -> list[list[str]]:
    """Words of a pair by falling weight, weights (V,): now, after, and both turned round.

    `now` is turned so that it has the word with the greatest weight of either sign.
    """
    size = np.abs(now)
    sign = np.sign(now[np.argmax(size >= (1 - 1e-6) * size.max())]) or 1.0
    orders = [np.argsort(-sign * weights, kind="stable") for weights in (now, after)]
    return [[words[j] for j in order[:top]] for order in (*orders, *(order[::-1] for order in orders))]
