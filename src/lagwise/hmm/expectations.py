"""Expected counts of parts of the data, which add up."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import exact
from .observations import EmissionRows, Sequences
from .packing import Packed
from .parameters import Parameters
from .plan import Plan
from .recursions import forward_backward


class Counts:
    """Expected counts of some sequences, additive over disjoint parts of the data.

    Attributes
    ----------
    expected : Parameters
        Counts in the shapes of the parameters; `emission` is (V, K).
    log_likelihood : float
        Nats, of these sequences.
    n_symbols, n_sequences : int
        How many were seen.
    stop_state : bool
        Of the model that counted; `expected` has the counts of ends in any case.
    """

    def __init__(
        self, expected: Parameters, log_likelihood: float, n_symbols: int, n_sequences: int, stop_state: bool = False
    ):
        self.expected, self.log_likelihood = expected, log_likelihood
        self.n_symbols, self.n_sequences, self.stop_state = n_symbols, n_sequences, stop_state

    @property
    def kind(self) -> dict[str, Any]:
        """K, V, order and stop_state of the model."""
        return kind_of(self.expected) | {"stop_state": self.stop_state}

    def __add__(self, other: Any) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if self.kind != other.kind:
            raise ValueError(f"counts of different models do not add up: {_said(self.kind)} and {_said(other.kind)}")
        return Counts(
            self.expected + other.expected,
            self.log_likelihood + other.log_likelihood,
            self.n_symbols + other.n_symbols,
            self.n_sequences + other.n_sequences,
            self.stop_state,
        )

    def __radd__(self, other: Any) -> Counts:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self
        return NotImplemented


def kind_of(parameters: Parameters) -> dict[str, Any]:
    """K, V, order and stop_state of a model with these parameters."""
    V, K = parameters.emission.shape
    return {"K": K, "V": V, "order": parameters.order, "stop_state": parameters.stop is not None}


def _said(kind: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in kind.items())


def check_counts(counts: Any, own: Parameters) -> Counts:
    """Return `counts` if they are those of a model like `own`; TypeError or ValueError if not."""
    if not isinstance(counts, Counts):
        raise TypeError(f"counts is a {type(counts).__name__}; expected what expected_counts returns, or a sum of such")
    if counts.kind != kind_of(own):
        raise ValueError(f"counts are those of a model with {_said(counts.kind)}; this model has {_said(kind_of(own))}")
    return counts


def expect(parameters: Parameters, sequences: Sequences, labels: np.ndarray | None, n_threads: int) -> Counts:
    """The E step; ValueError naming a sequence that is impossible."""
    V, K = parameters.emission.shape
    data, offsets = EmissionRows.of(sequences.ids, labels, V, K), sequences.offsets
    plan = Plan(data.rows, offsets, K, data.n_rows, parameters.order)
    packed = Packed.of(parameters, data.table(parameters.emission), plan)
    loglik, counts, _ = forward_backward(plan, packed, n_threads)
    if np.any(loglik == -np.inf):
        i = int(np.argmax(loglik == -np.inf))
        raise ValueError(exact.impossible_message(packed.logs, data.rows[offsets[i] : offsets[i + 1]], i))
    assert counts is not None
    counts.emission = data.fold(counts.emission)
    size, number = int(data.rows.size), int(sequences.lengths.size)
    return Counts(counts, float(np.sum(loglik)), size, number, parameters.stop is not None)
