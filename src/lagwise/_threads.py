"""One place that decides how many threads run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_forked = False


def _after_fork_in_child() -> None:
    # The OpenMP pool of the parent does not exist in the child and waiting for it would hang: stay on one thread.
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def available_cores() -> int:
    """Number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(n_threads: int | None = None) -> int:
    """Return the number of threads to use.

    Parameters
    ----------
    n_threads : int or None
        A positive number is taken as it is; None means the environment variable ``LAGWISE_NUM_THREADS`` where it
        is set and else every available core. Results never depend on it.

    Returns
    -------
    int
        At least 1. Always 1 in a forked child process, whose OpenMP threads stayed behind in the parent.

    Raises
    ------
    ValueError
        If the number is not a positive integer.
    """
    if n_threads is None:
        text = os.environ.get("LAGWISE_NUM_THREADS", "").strip()
        if text:
            if not text.isdigit() or int(text) < 1:
                raise ValueError(f"LAGWISE_NUM_THREADS is {text!r}; expected a positive integer")
            n_threads = int(text)
        else:
            n_threads = available_cores()
    if isinstance(n_threads, bool) or not hasattr(n_threads, "__index__"):
        raise ValueError(f"n_threads is {n_threads!r}; expected a positive integer or None for every core")
    n_threads = n_threads.__index__()
    if n_threads < 1:
        raise ValueError(f"n_threads is {n_threads}; expected a positive integer or None for every core")
    return 1 if _forked else min(n_threads, 256)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread, so that our own threads do not fight with its and sums keep one order."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
