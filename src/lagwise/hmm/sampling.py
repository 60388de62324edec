"""Draw sequences from a model."""

from __future__ import annotations

import numpy as np

from .parameters import Parameters


def draw(parameters: Parameters, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One sequence of n symbols, shorter where the stop probability ends it: (symbols, states), int64."""
    K, order = parameters.n_states, parameters.order

    def cumulate(table: np.ndarray, stop: np.ndarray | None) -> np.ndarray:
        full = table if stop is None else np.concatenate((table, stop[..., None]), axis=-1)
        sums = np.cumsum(full, axis=-1)
        return sums / sums[..., -1:]

    start = cumulate(parameters.start, None)
    transition = cumulate(parameters.transition, parameters.stop)
    second = None if parameters.second is None else cumulate(parameters.second, parameters.stop1)
    states = np.empty(n, dtype=np.int64)
    uniforms = rng.random(n)
    used = n
    for t in range(n):
        if t == 0:
            row = start
        elif order == 1:
            row = transition[states[t - 1]]
        elif t == 1:
            assert second is not None
            row = second[states[0]]
        else:
            row = transition[states[t - 2], states[t - 1]]
        states[t] = row.searchsorted(uniforms[t], side="right")
        if states[t] == K:  # the end was drawn
            used = t
            break
    states = states[:used]
    emission = cumulate(parameters.emission.T, None)
    symbols, uniforms = np.empty(used, dtype=np.int64), rng.random(used)
    for k in range(K):
        mine = states == k
        symbols[mine] = emission[k].searchsorted(uniforms[mine], side="right")
    return symbols, states
