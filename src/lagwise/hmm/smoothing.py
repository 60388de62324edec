"""Interpolation of n-gram tag transitions with weights from held-one-out counts (Brants 2000, TnT, section 2.2)."""

from __future__ import annotations

import numpy as np


def tag_ngrams(sequences: list[np.ndarray], n_tags: int) -> np.ndarray:
    """Trigram counts with boundaries, float64 (K + 1, K + 1, K + 1); index K is before the start and after the end."""
    K = n_tags
    size = K + 1
    parts = [np.concatenate(([K, K], tags, [K])) for tags in sequences if len(tags)]
    flat = [(p[:-2] * size + p[1:-1]) * size + p[2:] for p in parts]
    total = np.concatenate(flat) if flat else np.zeros(0, dtype=np.int64)
    return np.bincount(total.astype(np.int64), minlength=size**3).reshape(size, size, size).astype(np.float64)


def interpolation_weights(trigrams: np.ndarray, order: int = 2) -> np.ndarray:
    """Weights of the uni-, bi- and (order 2) trigram estimates, summing to 1.

    Each n-gram's count goes to the estimate that predicts it best once one occurrence of it is taken out; equally good
    estimates share it. The unigrams keep at least one occurrence, so that no sequence of tags is impossible for not having
    been seen.
    """
    unigrams, bigrams = trigrams.sum(axis=(0, 1)), trigrams.sum(axis=0)
    contexts = bigrams.sum(axis=1)

    def held_out(counts: np.ndarray, context: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(context > 1, (counts - 1) / (context - 1), 0.0)

    one = held_out(unigrams, unigrams.sum())
    two = held_out(bigrams, contexts[:, None])
    if order == 1:
        counts, estimates = bigrams, np.stack((np.broadcast_to(one, bigrams.shape), two))
    else:
        three = held_out(trigrams, trigrams.sum(axis=2, keepdims=True))
        counts = trigrams
        estimates = np.stack((np.broadcast_to(one, trigrams.shape), np.broadcast_to(two, trigrams.shape), three))
    best = estimates == estimates.max(axis=0)
    share = np.where(best, counts / best.sum(axis=0), 0.0).reshape(order + 1, -1).sum(axis=1)
    share[0] = max(share[0], 1.0)
    return share / share.sum()


def interpolated_transitions(trigrams: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """P(c | a, b) of order 2, (K + 1,) * 3, or P(c | b) of order 1, (K + 1,) * 2; each row sums to 1.

    A context that never occurred leaves its weight to the shorter ones.
    """
    unigrams, bigrams = trigrams.sum(axis=(0, 1)), trigrams.sum(axis=0)

    def mix(shorter: np.ndarray, counts: np.ndarray, weight: float) -> np.ndarray:
        totals = counts.sum(axis=-1, keepdims=True)
        own = np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), shorter)
        return (1 - weight) * shorter + weight * own

    one = np.broadcast_to(unigrams / unigrams.sum(), bigrams.shape)
    if len(weights) == 2:
        return mix(one, bigrams, float(weights[1]))
    low = weights[0] + weights[1]
    two = mix(one, bigrams, float(weights[1] / low) if low > 0 else 0.0)
    return mix(np.broadcast_to(two, trigrams.shape), trigrams, float(weights[2]))
