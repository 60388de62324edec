"""Tables with a row for each symbol, worked on part by part: a part stays in the cache, and threads share the parts.

Parts do not depend on the number of threads, so sums do not either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..operators import aligned_empty
from .plan import Workers, run_in_threads

_PART = 1024  # rows
_FEW = 16 * _PART  # rows that one thread is done with before others have begun


def each_part(function: Callable[[slice], Any], n_rows: int, threads: int | Workers) -> list[Any]:
    """What `function` returns for each part of the rows, in their order."""
    parts = [slice(i, min(i + _PART, n_rows)) for i in range(0, n_rows, _PART)]
    return run_in_threads(function, parts, 1 if n_rows <= _FEW else threads, threading.Event())


def scaled_rows(table: np.ndarray, width: int, threads: int | Workers) -> tuple[np.ndarray, np.ndarray]:
    """Rows times powers of two that bring their largest entries into [1/2, 1), which is exact.

    Returns
    -------
    scaled : ndarray of float64, shape (R, width)
        Zero in the columns that `table` (R, K) does not have.
    exponent : ndarray of int32, shape (R,)
        ``table == scaled * 2.0 ** exponent``.
    """
    from lagwise._kernels.hmm_blocks import rows_scale

    scaled, exponent = aligned_empty((table.shape[0], width), np.float64), np.empty(table.shape[0], dtype=np.int32)
    table = np.ascontiguousarray(table)
    each_part(lambda part: rows_scale(table, scaled, exponent, part.start, part.stop), table.shape[0], threads)
    return scaled, exponent


def column_distributions(counts: np.ndarray, pseudocount: float, threads: int | Workers) -> np.ndarray | None:
    """Columns of counts (V, K) plus a pseudocount, divided by their sums; None where a column has no counts at all."""
    totals = np.zeros(counts.shape[1])
    for part in each_part(lambda part: counts[part].sum(axis=0), counts.shape[0], threads):
        totals += part
    totals += pseudocount * counts.shape[0]
    if not np.all(totals > 0):
        return None
    values = np.empty(counts.shape)

    def divide(part: slice) -> None:
        rows = values[part]
        np.divide(counts[part] if pseudocount == 0 else np.add(counts[part], pseudocount, out=rows), totals, out=rows)

    each_part(divide, counts.shape[0], threads)
    return values
