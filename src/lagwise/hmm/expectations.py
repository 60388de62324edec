"""Expected counts of parts of the data, which add up."""

from __future__ import annotations

from typing import Any

from .parameters import Parameters


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
    """

    def __init__(self, expected: Parameters, log_likelihood: float, n_symbols: int, n_sequences: int):
        self.expected, self.log_likelihood = expected, log_likelihood
        self.n_symbols, self.n_sequences = n_symbols, n_sequences

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.expected + other.expected,
            self.log_likelihood + other.log_likelihood,
            self.n_symbols + other.n_symbols,
            self.n_sequences + other.n_sequences,
        )

    def __radd__(self, other: Any) -> Counts:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self
        return NotImplemented
