"""Sequences cut into pieces that run side by side as lanes of one matrix product a step, and what pieces owe each other.

A piece starts from zero; what the state before it adds is a power of the recursion times a carry, which dies out: it is
added until it no longer changes a digit, and handed on to the next piece where it lives longer than the piece. The
result does not depend on the cut beyond rounding, nor on threads at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .._kernels.lanes import LANES as BLOCK  # that the kernel takes through all their steps together
from .._threads import resolve_threads, single_threaded_blas

PIECES = 4 * BLOCK  # into which one long sequence is cut at least: fewer owe each other less, more share threads better
LONGEST = 8192
GROUP = 5 * BLOCK  # most lanes of one call
SLICE_FLOPS = 2e9  # about a tenth of a second: how long a kernel may run before it lets Ctrl-C in
CHECK_EVERY = 16


class Pieces(NamedTuple):
    """Sequences cut into pieces; int64 arrays of shape (n_pieces,), in the order of the text.

    `first` and `last` say whether a piece begins or ends its sequence.
    """

    begins: np.ndarray
    lengths: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def cut(cls, offsets: np.ndarray, length: int | None = None) -> Pieces:
        total = int(offsets[-1])
        if length is None:
            length = int(np.clip(-(-total // PIECES), 64, LONGEST))
        sizes = np.diff(offsets)
        counts = -(-sizes // length)
        owner = np.repeat(np.arange(len(sizes)), counts)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = offsets[:-1][owner] + number * length
        return cls(begins, np.minimum(length, offsets[1:][owner] - begins), number == 0, number == counts[owner] - 1)


def padded(n_lanes: int, like: np.ndarray) -> np.ndarray:
    """Zero states of lanes, (n_lanes up to a multiple of 8, h), in the dtype of `like` (rows, h)."""
    return np.zeros((-(-n_lanes // 8) * 8, like.shape[1]), like.dtype)


def groups(order: np.ndarray) -> list[np.ndarray]:
    """An order of pieces in portions of whole blocks of lanes: eight portions or more where there is enough."""
    size = int(np.clip(-(-len(order) // (8 * BLOCK)) * BLOCK, BLOCK, GROUP))
    return [order[i : i + size] for i in range(0, len(order), size)]


def longest_first(lengths: np.ndarray) -> np.ndarray:
    """Numbers of the pieces by falling length."""
    return np.argsort(-lengths, kind="stable")


def slices(n_lanes: int, longest: int, flops: int) -> list[tuple[int, int]]:
    """Steps that one call of a kernel takes, given the flops of one step of one lane."""
    step = max(CHECK_EVERY, int(SLICE_FLOPS / (flops * max(n_lanes, 1))))
    return [(t, min(t + step, int(longest))) for t in range(0, int(longest), step)]


def run(work: Callable[[Any, Callable[[], bool]], None], parts: list[Any], n_threads: int | None) -> None:
    """Run `work` on every part (lanes or rows); an interrupt stops the others at their next slice."""
    with single_threaded_blas():
        threads = min(resolve_threads(n_threads), len(parts))
        if threads < 2:
            for part in parts:
                work(part, lambda: False)
            return
        stop = threading.Event()
        pool = ThreadPoolExecutor(threads)
        try:
            for future in [pool.submit(work, part, stop.is_set) for part in parts]:
                future.result()
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def run_rows(work: Callable[[slice], None], n_rows: int, step: int, n_threads: int | None) -> None:
    """Run `work` on every `step` of the rows, as `run` does."""

    def portion(rows: slice, stopped: Callable[[], bool]) -> None:
        if not stopped():
            work(rows)

    run(portion, [slice(first, first + step) for first in range(0, n_rows, step)], n_threads)


def settle(
    advance: Callable[[np.ndarray, int, int, np.ndarray], None],
    pieces: Pieces,
    heirs: np.ndarray,
    carries: np.ndarray,
    direction: int,
    n_threads: int | None,
) -> None:
    """Add the carries to the pieces `heirs`; what outlives a piece goes on to the piece after (before) it."""
    carries = np.array(carries)
    if len(heirs) == 0:
        return
    negligible = 0.01 * np.finfo(carries.dtype).eps * max(float(np.abs(carries).max()), np.finfo(carries.dtype).tiny)
    while len(heirs):
        left = np.zeros_like(carries)

        def work(
            part: np.ndarray,
            stopped: Callable[[], bool],
            heirs: np.ndarray = heirs,
            carries: np.ndarray = carries,
            left: np.ndarray = left,
        ) -> None:
            Z = padded(len(part), carries)
            Z[: len(part)] = carries[part]
            lanes, t = heirs[part], 0
            lengths = pieces.lengths[lanes]
            while t < lengths[0] and not stopped():
                advance(lanes, t, t + CHECK_EVERY, Z)
                t += CHECK_EVERY
                if np.abs(Z).max() <= negligible:
                    return
            left[part] = Z[: len(part)]

        run(work, groups(longest_first(pieces.lengths[heirs])), n_threads)
        alive = np.abs(left).max(axis=1) > negligible
        alive &= ~(pieces.last if direction > 0 else pieces.first)[heirs]
        heirs, carries = heirs[alive] + direction, left[alive]
