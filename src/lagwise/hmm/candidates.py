"""The states that a position can have on a best path: those it can emit from, less those that others always beat."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

_SLACK = 1e-6  # nats beyond the margin, so that rounding decides nothing


@dataclasses.dataclass
class Candidates:
    """The states that each emission row leaves possible: those of row r at ``first[r] : first[r + 1]``.

    Attributes
    ----------
    first : ndarray of int64, shape (R + 1,)
    states : ndarray of int32, shape (n,)
        Rising within each row.
    costs : ndarray of float64, shape (n,)
        Their negative log emissions.
    """

    first: np.ndarray
    states: np.ndarray
    costs: np.ndarray

    @cached_property
    def most(self) -> int:
        """The largest number of states of a row, at least 1."""
        return int(np.diff(self.first).max(initial=1))

    @classmethod
    def of(cls, log_table: np.ndarray, keep: np.ndarray | None = None) -> Candidates:
        """From log emissions (R, K): the finite ones, or those that `keep` (R, K) says."""
        keep = log_table > -np.inf if keep is None else keep
        first = np.concatenate(([0], np.cumsum(np.count_nonzero(keep, axis=1)))).astype(np.int64)
        return cls(first, np.nonzero(keep)[1].astype(np.int32), -log_table[keep])


def dominance_margins(logs: dict[str, np.ndarray]) -> np.ndarray:
    """By how much the rest of an order-2 path can prefer state c to state d, nats, (K, K) at [c, d]; >= 0.

    A state c is followed and preceded by whatever suits it best: the margin is the sum, over the three factors of a
    path that hold the state of one position, of the largest log P(c in place) - log P(d in place).

    Parameters
    ----------
    logs : dict
        Logarithms as `lagwise.hmm.packing.log_arrays` makes them.
    """
    A, second, K = logs["transition"], logs["second"], logs["start"].size

    def most(*factors: np.ndarray) -> np.ndarray:  # each (contexts, K)
        worst = np.full((K, K), -np.inf)
        for factor in factors:
            with np.errstate(invalid="ignore"):  # -inf - -inf: neither state can be there
                gain = factor.reshape(-1, K)[:, :, None] - factor.reshape(-1, K)[:, None, :]
            worst = np.maximum(worst, np.where(np.isnan(gain), -np.inf, gain).max(axis=0, initial=-np.inf))
        return worst

    reached = most(logs["start"], second, A)
    left = most(second.T, A.transpose(0, 2, 1), logs["final"], logs["final1"])
    later = most(A.transpose(1, 2, 0), logs["final"].T)
    with np.errstate(invalid="ignore"):
        margins = reached + left + np.maximum(later, 0.0)
    margins = np.where(np.isnan(margins), np.inf, margins)
    np.fill_diagonal(margins, np.inf)
    return margins


def undominated(log_table: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """Which states of each emission row can be on a best path, bool (R, K).

    State c of a row never is if another state's emission exceeds its own by more than the margin: putting that one in
    its place would make any path better.
    """
    with np.errstate(invalid="ignore"):
        keep = log_table > -np.inf
        for d in range(log_table.shape[1]):
            keep &= ~(log_table[:, d, None] - log_table > margins[:, d] + _SLACK)
    return keep
