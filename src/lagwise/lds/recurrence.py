"""x <- R x + table[id] along sequences or pieces of them, forwards or backwards, by the kernel that keeps R in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..operators import aligned_empty
from .pieces import Pieces, groups, longest_first, padded, run, settle, slices

NO_IDS = np.zeros(0, dtype=np.int32)


class Recurrence:
    """A matrix R (h, h), packed for the kernel in the dtype of the states; a triangle takes half the time."""

    def __init__(self, R: np.ndarray, dtype: Any):
        from lagwise._kernels import lanes

        self.h, itemsize = len(R), np.dtype(dtype).itemsize
        edges = lanes.panel_edges(self.h, itemsize)
        self.stride = -(-edges[-1] * itemsize // 64) * 64 // itemsize
        wide = np.zeros((self.h, edges[-1]), dtype)
        wide[:, : self.h] = R.T
        panels = []
        self.reach = np.zeros((len(edges) - 1, 2), np.int64)
        for reach, a, b in zip(self.reach, edges, edges[1:]):
            used = np.flatnonzero(wide[:, a:b].any(axis=1))
            if len(used):
                reach[:] = used[0], used[-1] + 1
            panels.append(wide[reach[0] : reach[1], a:b].ravel())
        self.packed = aligned_empty((sum(map(len, panels)),), dtype)
        np.concatenate(panels, out=self.packed)

    def advance(
        self,
        table: np.ndarray | None,
        ids: np.ndarray,
        begins: np.ndarray,
        lengths: np.ndarray,
        direction: int,
        steps: tuple[int, int],
        x: np.ndarray,
        states: np.ndarray,
        add: bool = True,
    ) -> None:
        """Some steps of lanes of falling length (see the kernel); x (padded number of lanes, h) is carried on."""
        from lagwise._kernels import lanes

        scratch = aligned_empty((lanes.LANES, self.stride), states.dtype)
        rows = states[:0] if table is None else table
        lanes.lanes_walk(
            rows, ids, begins, lengths, direction, self.packed, self.reach, *steps, add, x, scratch, states
        )

    def walk(
        self,
        table: np.ndarray,
        ids: np.ndarray,
        begins: np.ndarray,
        lengths: np.ndarray,
        direction: int,
        x: np.ndarray,
        states: np.ndarray,
        stopped: Callable[[], bool],
        add: bool = False,
    ) -> None:
        """All steps, in slices between which an interrupt is seen."""
        longest = int(lengths[0]) if len(lengths) else 0
        for steps in slices(len(begins), longest, 2 * self.h**2):
            if stopped():
                return
            self.advance(table, ids, begins, lengths, direction, steps, x, states, add)

    def settle(
        self,
        pieces: Pieces,
        heirs: np.ndarray,
        owed: np.ndarray,
        direction: int,
        states: np.ndarray,
        n_threads: int | None,
    ) -> None:
        """Add to the pieces `heirs` what they owe to the states `owed` (n, h) before their first steps."""

        def advance(lanes: np.ndarray, t0: int, t1: int, Z: np.ndarray) -> None:
            begins, lengths = pieces.begins[lanes], pieces.lengths[lanes]
            self.advance(None, NO_IDS, begins, lengths, direction, (t0, t1), Z, states)

        settle(advance, pieces, heirs, owed, direction, n_threads)

    def run(
        self,
        table: np.ndarray,
        ids: np.ndarray,
        offsets: np.ndarray,
        out: np.ndarray,
        n_threads: int | None = None,
        piece_length: int | None = None,
    ) -> None:
        """x_t = R x_{t-1} + table[id_t] into `out` (T, h), every sequence from zero."""
        pieces = Pieces.cut(offsets, piece_length)
        ids = np.ascontiguousarray(ids, dtype=np.int32)

        def local(lanes: np.ndarray, stopped: Callable[[], bool]) -> None:
            x = padded(len(lanes), out)
            self.walk(table, ids, pieces.begins[lanes], pieces.lengths[lanes], 1, x, out, stopped)

        run(local, groups(longest_first(pieces.lengths)), n_threads)
        heirs = np.flatnonzero(~pieces.first)
        owed = out[pieces.begins[heirs - 1] + pieces.lengths[heirs - 1] - 1]
        self.settle(pieces, heirs, owed, 1, out, n_threads)
