"""lagwise: count once, fit many.

One streaming pass turns text into lagged co-occurrence counts; from them come spectral word vectors (`SENS`), a
linear dynamical system for text (`LDS`) and, from the same token ids, hidden Markov models (`HMM`).
"""

from __future__ import annotations

import importlib
from typing import Any

from ._version import __version__

# Public name -> the module that defines it; imported when first used, so that `import lagwise` is cheap.
_PUBLIC = {
    "CountStore": "counts",
    "HMM": "hmm",
    "HMMTagger": "hmm",
    "LDS": "lds",
    "LagCovariances": "lds",
    "NotFittedError": "_validation",
    "Normalization": "vocabulary",
    "PMI": "pmi",
    "SENS": "sens",
    "Vocabulary": "vocabulary",
    "WordVectors": "vectors",
    "append": "merging",
    "count": "counting",
    "count_ids": "counting",
    "evaluate_analogies": "evaluate",
    "evaluate_similarity": "evaluate",
    "load": "_load",
    "merge": "merging",
}
_MODULES = ("distributed", "evaluate", "export", "hmm", "lds", "linalg", "operators", "plots", "sens", "vectors")

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'lagwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
