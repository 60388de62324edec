"""Linear algebra on operators and tall dense blocks; the same bits for any number of threads."""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "EigenResult": "lanczos",
    "Panels": "panels",
    "SVDResult": "svd",
    "block_krylov": "lanczos",
    "eigsh": "lanczos",
    "golub_kahan": "svd",
    "randomized_svd": "svd",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
    raise AttributeError(f"module 'lagwise.linalg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
