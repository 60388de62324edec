"""The emission rows of words while texts are tagged part by part: those of training, and those of new words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from .candidates import Candidates


class Lexicon:
    """Rows of words outside the vocabulary, made once for each word; threads may share it.

    Parameters
    ----------
    find : callable or None
        list of words -> rows of `table` that they share with others (endings), int32.
    make : callable or None
        list of words -> emissions (n, K) of their own, appended to the table. One of the two is needed.
    table : ndarray of float64, shape (R, K)
        Emission rows to begin with.
    candidates : Candidates or None
        Their possible states, where a decoder wants them.
    restrict : callable, optional
        Emissions (n, K) -> their Candidates.
    """

    def __init__(
        self,
        find: Callable[[Sequence[str]], np.ndarray] | None,
        make: Callable[[Sequence[str]], np.ndarray] | None,
        table: np.ndarray,
        candidates: Candidates | None = None,
        restrict: Callable[[np.ndarray], Candidates] | None = None,
    ):
        self._find, self._make, self._restrict = find, make, restrict
        self._rows: dict[str, int] = {}
        self._lock = threading.Lock()
        self._table, self._candidates = Growing(table), candidates
        if candidates is not None:
            self._parts = [Growing(part) for part in (candidates.first, candidates.states, candidates.costs)]

    @property
    def table(self) -> np.ndarray:
        """Emission rows so far (R, K)."""
        return self._table.array

    @property
    def candidates(self) -> Candidates:
        """Possible states of the rows so far."""
        assert self._candidates is not None
        return self._candidates

    def add(self, words: Sequence[str]) -> np.ndarray:
        """Rows of distinct words outside the vocabulary, int32 (n,)."""
        with self._lock:
            new = [word for word in words if word not in self._rows]
            if new and self._find is not None:
                self._rows.update(zip(new, self._find(new).tolist()))
            elif new:
                assert self._make is not None
                first, emission = len(self._table.array), self._make(new)
                self._table.append(emission)
                if self._restrict is not None:
                    more = self._restrict(emission)
                    starts, states, costs = self._parts
                    starts.append(starts.array[-1] + more.first[1:])
                    states.append(more.states)
                    costs.append(more.costs)
                    self._candidates = Candidates(starts.array, states.array, costs.array)
                self._rows.update(zip(new, range(first, first + len(new))))
            return np.fromiter(map(self._rows.__getitem__, words), dtype=np.int32, count=len(words))


class Growing:
    """An array that rows are appended to; what was taken from it before stays as it was."""

    def __init__(self, array: np.ndarray):
        self.array = self._room = array

    def append(self, rows: np.ndarray) -> None:
        """Add rows behind those that are there."""
        n = len(self.array)
        if n + len(rows) > len(self._room):
            self._room = np.empty((2 * (n + len(rows)), *self.array.shape[1:]), dtype=self.array.dtype)
            self._room[:n] = self.array
        self._room[n : n + len(rows)] = rows
        self.array = self._room[: n + len(rows)]
