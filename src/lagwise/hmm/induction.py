"""How well induced states match given tags, and which state of one model is which of another."""

from __future__ import annotations

from typing import Any

import numpy as np


def contingency(states: Any, tags: Any) -> np.ndarray:
    """Counts of (state, tag) pairs, int64 (n_states, n_tags); both numbered in sorted order of their values."""
    a, b = (
        np.concatenate([np.asarray(part) for part in x])
        if isinstance(x, (list, tuple)) and len(x) and np.ndim(x[0])
        else np.asarray(x)
        for x in (states, tags)
    )
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"states and tags have shapes {a.shape} and {b.shape}; expected two of the same length")
    if a.size == 0:
        raise ValueError("there are no tokens to compare")
    _, a = np.unique(a, return_inverse=True)
    _, b = np.unique(b, return_inverse=True)
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1), dtype=np.int64)
    np.add.at(table, (a.reshape(-1), b.reshape(-1)), 1)
    return table


def many_to_one(states: Any, tags: Any) -> float:
    """Accuracy when each state stands for the tag it meets most often."""
    table = contingency(states, tags)
    return float(table.max(axis=1).sum() / table.sum())


def one_to_one(states: Any, tags: Any) -> float:
    """Accuracy of the best assignment of states to tags in which no two states share a tag (Hungarian method)."""
    from scipy.optimize import linear_sum_assignment

    table = contingency(states, tags)
    return float(table[linear_sum_assignment(-table)].sum() / table.sum())


def v_measure(states: Any, tags: Any, beta: float = 1.0) -> float:
    """Weighted harmonic mean of homogeneity and completeness (Rosenberg and Hirschberg 2007)."""
    table = contingency(states, tags) / len(
        np.concatenate([np.ravel(x) for x in states])
        if isinstance(states, (list, tuple)) and len(states) and np.ndim(states[0])
        else np.ravel(states)
    )

    def entropy(p: np.ndarray) -> float:
        p = p[p > 0]
        return float(-np.sum(p * np.log(p)))

    joint, by_state, by_tag = entropy(table), entropy(table.sum(axis=1)), entropy(table.sum(axis=0))
    homogeneity = 1.0 if by_tag == 0 else 1 - (joint - by_state) / by_tag
    completeness = 1.0 if by_state == 0 else 1 - (joint - by_tag) / by_state
    if homogeneity + completeness <= 0:
        return 0.0
    return (1 + beta) * homogeneity * completeness / (beta * homogeneity + completeness)


def evaluate_induction(states: Any, tags: Any) -> dict[str, float]:
    """many_to_one, one_to_one and v_measure."""
    return {
        "many_to_one": many_to_one(states, tags),
        "one_to_one": one_to_one(states, tags),
        "v_measure": v_measure(states, tags),
    }


def align_states(reference: Any, other: Any) -> np.ndarray:
    """The permutation p (K,) for which state p[k] of `other` plays the part of state k of `reference`.

    Parameters
    ----------
    reference, other : HMM
        With the same symbols and numbers of states; emissions are compared by the overlap sum_w min(P(w|k), P'(w|l)).
    """
    from scipy.optimize import linear_sum_assignment

    A, B = np.asarray(reference.emissionprob_), np.asarray(other.emissionprob_)
    if A.shape != B.shape:
        raise ValueError(f"the models have emissions of shapes {A.shape} and {B.shape}; expected equal ones")
    overlap = np.array([[np.minimum(a, b).sum() for b in B] for a in A])
    return linear_sum_assignment(-overlap)[1]
