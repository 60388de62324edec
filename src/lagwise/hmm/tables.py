"""Tables with a row for each symbol, worked on part by part: a part stays in the cache, and threads share the parts.

Parts do not depend on the number of threads, so sums do not either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .plan import Workers, run_in_threads

_PART = 1024  # rows
_FEW = 4 * _PART  # rows that one thread is done with before others have begun


def each_part(function: Callable[[slice], Any], n_rows: int, threads: int | Workers) -> list[Any]:
    """What `function` returns for each part of the rows, in their order."""
    parts = [slice(i, min(i + _PART, n_rows)) for i in range(0, n_rows, _PART)]
    n_threads = threads if isinstance(threads, int) else threads.n_threads
    if n_threads == 1 or n_rows <= _FEW:
        return [function(part) for part in parts]
    share = -(-len(parts) // n_threads)  # neighbouring parts together: threads are woken once
    shares = [parts[i : i + share] for i in range(0, len(parts), share)]
    done = run_in_threads(lambda some: [function(part) for part in some], shares, threads, threading.Event())
    return [result for some in done for result in some]


def scaled_rows(table: np.ndarray, scaled: np.ndarray, threads: int | Workers) -> np.ndarray:
    """Rows times powers of two that bring their largest entries into [1/2, 1), which is exact.

    Parameters
    ----------
    scaled : ndarray of float64, shape (R, width)
        Written; zero in the columns that `table` (R, K) does not have.

    Returns
    -------
    ndarray of int32, shape (R,)
        Exponents: ``table == scaled * 2.0 ** exponent``.
    """
    from lagwise._kernels.hmm_blocks import rows_scale

    exponent = np.empty(table.shape[0], dtype=np.int32)
    table = np.ascontiguousarray(table)
    each_part(lambda part: rows_scale(table, scaled, exponent, part.start, part.stop), table.shape[0], threads)
    return exponent


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
