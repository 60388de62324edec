"""How sequences are cut into blocks for the recursions, and blocks into lanes that threads work on."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..operators import aligned_empty

_BLOCK = 64  # sequences of one block, at most: its rows then stay in the cache
_SLICE_NUMBERS = 2_000_000  # numbers of forward rows kept at a time
_SLICE_FLOPS = 2_000_000_000  # work of one kernel call, so that Ctrl-C is seen


@dataclasses.dataclass
class Block:
    """Sequences of similar length, time-major: `rows[starts[t] + i]` is the emission row of slot i at time t."""

    sequences: np.ndarray  # (n,) int64, longest first
    rows: np.ndarray  # (positions,) int32
    starts: np.ndarray  # (L + 1,) int64
    slices: list[tuple[int, int]]  # times worked on in one call


class Plan:
    """How a fixed set of sequences is cut into blocks, and blocks into lanes whose sums are added in a fixed order.

    Nothing here depends on the number of threads, so results do not either.
    """

    def __init__(self, rows: np.ndarray, offsets: np.ndarray, n_states: int, n_rows: int, order: int):
        self.rows, self.offsets, self.n_rows = np.ascontiguousarray(rows, dtype=np.int32), offsets, n_rows
        self.n_states, self.order = n_states, order
        self.width = -(-n_states // 8) * 8
        self.row_size = self.width**order
        lengths = np.diff(offsets)
        order_of = np.argsort(-lengths, kind="stable")
        order_of = order_of[: np.count_nonzero(lengths)]
        self.blocks = [
            self._block(order_of[i : i + size])
            for size in [_block_size(order_of.size)]
            for i in range(0, order_of.size, size)
        ]
        costs = [block.rows.size + 4 * block.starts.size for block in self.blocks]
        n_lanes = min(len(self.blocks), max(2, min(16, rows.size // (8 * n_rows + 1))))
        self.lanes: list[list[int]] = [[] for _ in range(n_lanes)]
        loads = [0] * n_lanes
        for number in sorted(range(len(self.blocks)), key=lambda b: (-costs[b], b)):
            lightest = loads.index(min(loads))
            self.lanes[lightest].append(number)
            loads[lightest] += costs[number]
        self.needs_exact = np.zeros(lengths.size, dtype=bool)  # grows during learning; kept from step to step
        self._kept: dict[str, np.ndarray] = {}
        self._scratch: list[dict[str, np.ndarray]] = []
        self._lane_sums: list[dict[str, np.ndarray]] = []
        self._lock = threading.Lock()

    def _block(self, sequences: np.ndarray) -> Block:
        begins, lengths = self.offsets[sequences], np.diff(self.offsets)[sequences]
        running = sequences.size - np.searchsorted(lengths[::-1], np.arange(int(lengths[0])), side="right")
        starts = np.concatenate(([0], np.cumsum(running))).astype(np.int64)
        rows = self.rows[positions_of(starts, begins)]
        fits = max(1, _SLICE_NUMBERS // self.row_size)
        works = max(1, _SLICE_FLOPS // (6 * self.n_states**2 * self.n_states ** (self.order - 1)))
        step, slices, t = min(fits, works), [], 0
        while t < running.size:
            end = max(t + 1, int(np.searchsorted(starts, starts[t] + step, side="right")) - 1)
            slices.append((t, end))
            t = end
        return Block(sequences, rows, starts, slices)

    def kept(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array of float64 that the next step of learning uses again: fresh memory costs more than what goes into it."""
        if name not in self._kept or self._kept[name].shape != shape:
            self._kept[name] = aligned_empty(shape, np.float64)
        return self._kept[name]

    def scratch(self) -> dict[str, np.ndarray]:
        """Work space of one thread, used again by the next lane."""
        with self._lock:
            if self._scratch:
                return self._scratch.pop()
        size = max((int(b.starts[t1] - b.starts[t0]) for b in self.blocks for t0, t1 in b.slices), default=1)
        most = max((b.sequences.size for b in self.blocks), default=1)
        S = self.row_size
        return {
            "alpha": aligned_empty((size, S), np.float64),
            "scale": np.empty(size),
            "work": aligned_empty((64, S), np.float64),
            "before": aligned_zeros((most, S)),
            "beta": aligned_empty((most, S), np.float64),
        }

    def give_back(self, scratch: dict[str, np.ndarray]) -> None:
        """Return work space."""
        with self._lock:
            self._scratch.append(scratch)

    def lane_sums(self, lane: int) -> dict[str, np.ndarray]:
        """The sums of a lane, set to zero."""
        with self._lock:
            while len(self._lane_sums) <= lane:
                P, S = self.width, self.row_size
                self._lane_sums.append(
                    {
                        "start": aligned_zeros((P,)),
                        "second": aligned_zeros((P * P,)),
                        "transition": aligned_zeros((S * P,)),
                        "stop1": aligned_zeros((P,)),
                        "stop": aligned_zeros((S,)),
                        "emission": aligned_zeros((self.n_rows, P)),
                    }
                )
        for array in self._lane_sums[lane].values():
            array.fill(0.0)
        return self._lane_sums[lane]


def aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros whose rows begin at cache lines where their length allows: whole vectors are then read at once."""
    array = aligned_empty(shape, np.float64)
    array.fill(0.0)
    return array


def _block_size(n_sequences: int) -> int:
    if n_sequences < 16:
        return max(1, -(-n_sequences // 2))
    return min(_BLOCK, 8 * -(-n_sequences // 128))


def positions_of(starts: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Positions in the flat text of a block's time-major rows, given where its sequences begin."""
    running = np.diff(starts)
    times = np.repeat(np.arange(running.size), running)
    return begins[np.arange(starts[-1]) - np.repeat(starts[:-1], running)] + times


class Workers:
    """Threads for many short pieces of work: started once, asleep in between."""

    def __init__(self, n_threads: int):
        self.n_threads = n_threads
        self.pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)


def run_in_threads(
    function: Callable[[Any], Any], items: Sequence[Any], threads: int | Workers, stop: threading.Event
) -> list[Any]:
    """``[function(item) for item in items]`` on threads. An exception or Ctrl-C sets `stop`, which `function` looks at."""
    if isinstance(threads, int):
        if threads == 1 or len(items) < 2:
            return [function(item) for item in items]
        with Workers(min(threads, len(items))) as workers:
            return run_in_threads(function, items, workers, stop)
    if threads.pool is None or len(items) < 2:
        return [function(item) for item in items]
    futures = [threads.pool.submit(function, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:
        stop.set()
        for future in futures:
            future.cancel()
        raise
