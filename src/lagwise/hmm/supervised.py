"""Learning from complete labels: relative frequencies, of one text or of one batch after another."""

from __future__ import annotations

import warnings

import numpy as np

from . import learning, paths
from .constraints import LETTERS, Constraints
from .expectations import Counts
from .observations import EmissionRows, Sequences
from .parameters import Parameters


def is_complete(labels: np.ndarray | None) -> bool:
    """Every position has a label."""
    return labels is not None and bool(np.all(labels >= 0))


def supervised_step(
    counts: Parameters, start: Parameters, constraints: Constraints, stop: bool
) -> tuple[Parameters, dict[str, int]]:
    """Relative frequencies, flat where nothing was counted; what is not trained is `start`'s."""
    parameters, empty = learning.maximize(counts, None, constraints, stop)
    for letter, name in LETTERS.items():
        if letter not in constraints.params:
            setattr(parameters, name, getattr(start, name))
    if "t" not in constraints.params:
        parameters.second, parameters.stop, parameters.stop1 = start.second, start.stop, start.stop1
    return parameters, empty


def supervised_run(
    start: Parameters, sequences: Sequences, labels: np.ndarray, constraints: Constraints, stop: bool
) -> learning.Run:
    """The fit of a completely labelled text; a warning where distributions had no counts."""
    V, K = start.emission.shape
    counts = learning.count_labels(sequences.ids, labels, sequences.offsets, K, V, start.order)
    run = learning.Run(start)
    run.parameters, empty = supervised_step(counts, start, constraints, stop)
    missing = {
        name: n for name, n in empty.items() if n and not (start.order == 2 and name in ("transition", "second"))
    }
    if missing:
        warnings.warn(
            "no counts for "
            + ", ".join(f"{n} {name} distribution(s)" for name, n in missing.items())
            + ": they are uniform; use pseudocounts to smooth",
            stacklevel=3,
        )
    run.record(
        _joint_score(run.parameters, sequences, labels, constraints) + learning.log_prior(run.parameters, constraints)
    )
    run.n_iter, run.converged = 1, True
    return run


def labelled_batch(
    own: Parameters,
    sequences: Sequences,
    labels: np.ndarray,
    earlier: Counts | None,
    constraints: Constraints,
    first: bool,
) -> tuple[Parameters, Counts]:
    """The M step of a completely labelled batch and of the counts of `earlier` ones, which are added to it.

    Its score is the joint one of symbols and labels under the new parameters. Without counts a distribution stays as
    it was, and is flat if this is the `first` thing that a model learns.
    """
    V, K = own.emission.shape
    stop = own.stop is not None
    found = learning.count_labels(sequences.ids, labels, sequences.offsets, K, V, own.order)
    counts = Counts(found, 0.0, int(sequences.ids.size), int(sequences.lengths.size), stop)
    counts = counts if earlier is None else earlier + counts
    step = supervised_step if first else learning.maximize
    parameters, _ = step(counts.expected, own, constraints, stop)
    counts.log_likelihood += _joint_score(parameters, sequences, labels, constraints)
    return parameters, counts


def _joint_score(parameters: Parameters, sequences: Sequences, labels: np.ndarray, constraints: Constraints) -> float:
    V, K = parameters.emission.shape
    data = EmissionRows.of(sequences.ids, labels, V, K)
    score = paths.joint_score(parameters, data.table(parameters.emission), data.rows, sequences.offsets, labels)
    if score == -np.inf:
        raise ValueError(
            f"the labelled sequences have probability 0 under what params={constraints.params!r} does not train; "
            "train it, or correct the labels"
        )
    return score
