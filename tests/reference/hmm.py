"""HMMs by enumeration of every state path: exact for a few states and a few symbols."""

import itertools
import math

import numpy as np


def path_probabilities(start, transition, emission, symbols, second=None, stop=None, stop1=None):
    """dict from state path to P(path, symbols); symbol -1 is missing. `emission` is (K, V)."""
    K, order = len(start), np.ndim(transition) - 1
    found = {}
    for path in itertools.product(range(K), repeat=len(symbols)):
        p = start[path[0]]
        for t in range(1, len(path)):
            if order == 1:
                p *= transition[path[t - 1]][path[t]]
            elif t == 1:
                p *= second[path[0]][path[1]]
            else:
                p *= transition[path[t - 2]][path[t - 1]][path[t]]
        for state, symbol in zip(path, symbols):
            p *= 1.0 if symbol < 0 else emission[state][symbol]
        if stop is not None:
            if order == 1:
                p *= stop[path[-1]]
            else:
                p *= stop1[path[0]] if len(path) == 1 else stop[path[-2]][path[-1]]
        found[path] = p
    return found


def expected_counts(weights, symbols, K, V, order):
    """Expected counts from the probabilities of all paths, normalised to their total."""
    total = math.fsum(weights.values())
    start, emission = np.zeros(K), np.zeros((K, V))
    second, transition = np.zeros((K, K)), np.zeros((K,) * (order + 1))
    posterior = np.zeros((len(symbols), K))
    for path, weight in weights.items():
        w = weight / total
        start[path[0]] += w
        for t, (state, symbol) in enumerate(zip(path, symbols)):
            posterior[t, state] += w
            if symbol >= 0:
                emission[state, symbol] += w
            if t >= 1 and order == 1:
                transition[path[t - 1], state] += w
            elif t == 1:
                second[path[0], state] += w
            elif t >= 2:
                transition[path[t - 2], path[t - 1], state] += w
    return {
        "log": math.log(total),
        "start": start,
        "transition": transition,
        "second": second,
        "emission": emission,
        "posterior": posterior,
    }


def random_model(rng, K, V, order=1, zeros=0.0, stop=False):
    """A random model; a share `zeros` of transition and emission entries is 0 (each row keeps one)."""

    def rows(shape):
        values = rng.random(shape) ** 3 + 1e-3
        values *= rng.random(shape) >= zeros
        keep = rng.integers(shape[-1], size=shape[:-1])
        np.put_along_axis(values, keep[..., None], 1.0, axis=-1)
        return values / values.sum(axis=-1, keepdims=True)

    model = {"start": rows((K,)), "transition": rows((K,) * (order + 1)), "emission": rows((K, V))}
    if order == 2:
        model["second"] = rows((K, K))
    if stop:
        model["stop"] = rng.random((K,) * order) * 0.8 + 0.1
        model["transition"] = model["transition"] * (1 - model["stop"])[..., None]
        if order == 2:
            model["stop1"] = rng.random(K) * 0.8 + 0.1
            model["second"] = model["second"] * (1 - model["stop1"])[:, None]
    return model
