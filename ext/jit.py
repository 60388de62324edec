"""One way to compile Numba kernels: no GIL, cached on disk where a folder can be written, uncached where none can."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def jit(fastmath: Any = False) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel with ``numba.njit(nogil=True)`` and the disk cache.

    The cache lies beside the module, or in the user's cache folder where the installation is read-only. Where neither
    can be written, or ``LAGWISE_JIT_CACHE=0`` is set, kernels are compiled anew in each process.
    """
    import numba

    def decorate(function: Callable[..., Any]) -> Any:
        if os.environ.get("LAGWISE_JIT_CACHE", "1") != "0":
            try:
                return numba.njit(nogil=True, cache=True, fastmath=fastmath)(function)
            except (RuntimeError, OSError):  # no folder for the cache can be written
                pass
        return numba.njit(nogil=True, fastmath=fastmath)(function)

    return decorate
