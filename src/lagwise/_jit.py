"""One way to compile Numba kernels: cached on disk where that is possible, in memory elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def njit(function: Callable[..., Any]) -> Callable[..., Any]:
    """``numba.njit(nogil=True, cache=True)``, without the cache where no folder for it can be written.

    Numba looks for a cache folder when the function is decorated and raises on a read-only installation without a
    home directory; the kernel then compiles once a process.
    """
    import numba

    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return numba.njit(nogil=True)(function)
