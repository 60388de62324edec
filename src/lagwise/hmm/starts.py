"""Starting parameters of an HMM: drawn, given, or from clusters of word vectors."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from .._validation import check_choice, check_fitted
from .constraints import LETTERS, Constraints
from .learning import count_labels, maximize
from .observations import Sequences
from .parameters import Parameters, check_distribution, random_parameters, uniform_parameters
from .prediction import Predictor

_FREQUENT = 3000  # words that are clustered; the others start with the average emission of every state
_SHARE = 0.9  # of a clustered word's mass that goes to its cluster's state


def initial_parameters(
    init: Any,
    sequences: Sequences,
    K: int,
    V: int,
    order: int,
    stop: bool,
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> Parameters:
    """What the argument `init` of `HMM` says: a kind of start, a model, or arrays."""
    if isinstance(init, str):
        check_choice("init", init, ("random", "uniform", "sens", "lds"))
        if init == "random":
            return random_parameters(K, V, order, stop, rng)
        if init == "uniform":
            return uniform_parameters(K, V, order, stop)
        return cluster_parameters(init, sequences, K, V, order, stop, rng, n_threads)
    if isinstance(init, Predictor):
        check_fitted(init, "startprob_")
        parameters = init._own_parameters(K, V)
        if parameters.order != order or (parameters.stop is not None) != stop:
            raise ValueError(
                f"init is an HMM with order={parameters.order}, stop_state={parameters.stop is not None}; "
                f"expected order={order}, stop_state={stop}"
            )
        return parameters
    if isinstance(init, (tuple, list)) and len(init) == 3:
        base = uniform_parameters(K, V, order, stop)
        share = 1.0 if base.stop is None else base.stop * K
        base.start = check_distribution("init start", init[0], (K,))
        base.transition = check_distribution("init transition", init[1], (K,) * (order + 1))
        if base.stop is not None:
            base.transition *= np.asarray(share)[..., None]
        base.emission = np.ascontiguousarray(check_distribution("init emission", init[2], (K, V)).T)
        return base
    raise ValueError(
        f"init is {init!r:.80}; expected 'random', 'uniform', 'sens', 'lds', an HMM, or (start, transition, emission)"
    )


def guessed_parameters(
    guess: np.ndarray, drawn: Parameters, sequences: Sequences, V: int, constraints: Constraints, stop: bool
) -> Parameters:
    """The M step of guessed labels (-1: not guessed), for what is trained; the rest stays as `drawn`."""
    counts = count_labels(sequences.ids, guess, sequences.offsets, drawn.n_states, V, drawn.order)
    if np.any(guess < 0):  # a few labels must not rule out what they do not show: add the drawn start once
        others = {name: getattr(drawn, name) for name in counts.arrays()}
        counts += Parameters(**{name: 0.0 if array is None else array for name, array in others.items()})  # type: ignore[arg-type]
    maximized, _ = maximize(counts, None, constraints, stop)
    result = dataclasses.replace(drawn)
    for letter in constraints.params:
        setattr(result, LETTERS[letter], getattr(maximized, LETTERS[letter]))
    if "t" in constraints.params:
        result.second, result.stop, result.stop1 = maximized.second, maximized.stop, maximized.stop1
    return result


def cluster_parameters(
    kind: str,
    sequences: Sequences,
    n_states: int,
    n_symbols: int,
    order: int,
    stop: bool,
    rng: np.random.Generator,
    n_threads: int | None = None,
    vectors: np.ndarray | None = None,
) -> Parameters:
    """Parameters in which each state emits mostly the words of one cluster, and follows others as its words do.

    Parameters
    ----------
    kind : {"sens", "lds"}
        Whose word vectors, learned from the sequences: SENS of the words before and after a word (see `word_vectors`),
        or the type vectors of a linear dynamical system.
    vectors : ndarray, shape (n_symbols, d), optional
        Vectors to use instead.
    """
    used = np.bincount(sequences.ids[sequences.ids >= 0], minlength=n_symbols)
    if vectors is None:
        vectors = word_vectors(kind, sequences, n_states, n_symbols, n_threads)
    frequent = np.argsort(-used, kind="stable")[: max(_FREQUENT, 10 * n_states)]
    frequent = frequent[(used[frequent] > 0) & (np.linalg.norm(vectors[frequent], axis=1) > 0)]
    if frequent.size < n_states:
        raise ValueError(
            f"{frequent.size} symbols have vectors to cluster; init={kind!r} needs at least n_states={n_states}"
        )
    unit = vectors[frequent] / np.linalg.norm(vectors[frequent], axis=1, keepdims=True)
    clusters = k_means(unit, used[frequent].astype(np.float64), n_states, rng)
    cluster_of = np.full(n_symbols + 1, -1, dtype=np.int64)
    cluster_of[frequent] = clusters
    labels = cluster_of[sequences.ids]  # missing symbols look up the last entry
    counts = count_labels(sequences.ids, labels, sequences.offsets, n_states, n_symbols, order)
    prior = {"start": 1.0, "transition": 1.0, "emission": 0.0}
    belief = np.full((n_symbols, n_states), 1.0 / n_states)
    belief[frequent] = (1 - _SHARE) / n_states
    belief[frequent, clusters] += _SHARE
    counts.emission = belief * (used + 0.1)[:, None]
    return maximize(counts, None, Constraints("ste", prior, {}), stop)[0]


def word_vectors(kind: str, sequences: Sequences, n_states: int, n_symbols: int, n_threads: int | None) -> np.ndarray:
    """Vectors of all symbols (zero where a symbol has none), float64 (n_symbols, d).

    "sens": SENS of the counts of adjacent words, in which every word has two roles, left and right in a pair: the
    matrix is [[0, N], [N', 0]] for N[i, j] = how often j follows i, so its vectors tell what comes after a word from
    what comes before it. A word's vector is that of both its roles.
    """
    from ..counting import count_ids

    ids, offsets = sequences.ids, sequences.offsets
    names = [str(i) for i in range(n_symbols)]
    n_seen = len(np.unique(ids[ids >= 0]))
    if kind == "sens":
        from scipy.sparse import block_array, csr_array

        from ..sens import SENS

        N = count_ids(ids, offsets, vocabulary=names, max_lag=1, n_threads=n_threads).lag(1)
        roles = csr_array(block_array([[None, N], [N.T, None]], format="csr"))
        # half of this matrix is zero, which adds one bit to every PMI: the shift takes it out again
        model: Any = SENS(max(1, min(n_states, 100, n_seen - 2)), shift=-1.0, n_threads=n_threads).fit(roles)
        vectors = np.asarray(model.components_, dtype=np.float64) * model.eigenvalues_
        return np.hstack((vectors[:n_symbols], vectors[n_symbols:]))
    from ..lds import LDS

    store = count_ids(ids, offsets, vocabulary=names, max_lag=7, n_threads=n_threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about exact statistics, which a start can do without
        model = LDS(n_components=max(1, min(2 * n_states, 50, n_seen - 2)), n_threads=n_threads).fit(store)
    return np.asarray(model.type_vectors(), dtype=np.float64)


def k_means(
    points: np.ndarray, weights: np.ndarray, n_clusters: int, rng: np.random.Generator, n_iter: int = 50
) -> np.ndarray:
    """Weighted k-means from k-means++ seeds; the cluster of each point, int64 (n,). A cluster never stays empty."""
    n = points.shape[0]
    centres = np.empty((n_clusters, points.shape[1]))
    nearest = np.full(n, np.inf)
    for k in range(n_clusters):
        chances = weights * (nearest if k else 1.0)
        total = chances.sum()
        chosen = int(rng.choice(n, p=chances / total)) if total > 0 else int(rng.integers(n))
        centres[k] = points[chosen]
        nearest = np.minimum(nearest, ((points - centres[k]) ** 2).sum(axis=1))
    clusters = np.full(n, -1)
    for _ in range(n_iter):
        distances = (centres**2).sum(axis=1) - 2 * points @ centres.T
        new = distances.argmin(axis=1)
        for k in np.setdiff1d(np.arange(n_clusters), new):
            worst = int(np.argmax(distances[np.arange(n), new] + (points**2).sum(axis=1)))
            new[worst], distances[worst] = k, -np.inf
        if np.array_equal(new, clusters):
            break
        clusters = new
        for k in range(n_clusters):
            mine = clusters == k
            centres[k] = np.average(points[mine], axis=0, weights=weights[mine])
    return clusters
