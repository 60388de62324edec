"""What a file of lagwise holds, as plain facts for `lagwise info`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np


def describe(path: str | os.PathLike[str], top: int = 10) -> dict[str, Any]:
    """Facts about a store, vector file or model: sizes, options, most frequent words, memory of the later stages.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is nothing of lagwise's at `path`.
    """
    if os.path.isdir(path):
        from .counts import CountStore

        return describe_store(CountStore.load(path), Path(path), top)
    from ._files import load_tensors

    kind, arrays, meta = load_tensors(path)
    facts: dict[str, Any] = {"kind": kind, "bytes": os.path.getsize(path)}
    facts.update({f"array {name}": f"{array.dtype} {array.shape}" for name, array in arrays.items()})
    facts.update(
        {name: value for name, value in meta.items() if not isinstance(value, (list, dict)) or len(value) < 20}
    )
    return facts


def describe_store(counts: Any, path: Path, top: int) -> dict[str, Any]:
    """Facts about a count store."""
    size = sum(file.stat().st_size for file in path.iterdir())
    order = np.argsort(-counts.unigrams, kind="stable")[:top]
    n_words, nnz = len(counts.vocabulary), counts.nnz
    facts: dict[str, Any] = {
        "kind": "count store",
        "words": n_words,
        "tokens": counts.n_tokens,
        "lines": counts.n_lines,
        "longest line": counts.longest_line,
        **{k.replace("_", " "): v for k, v in counts._facts.items() if k.startswith(("n_cut", "n_types"))},
        "bytes": size,
        "nonzeros": nnz,
        "top words": {counts.vocabulary[int(i)]: int(counts.unigrams[i]) for i in order},
        "options": {name: value for name, value in counts.options.items() if value is not None},
        "normalization": counts.vocabulary.normalization.to_dict(),
        "word table bytes": counts.run.get("table_bytes"),
        "memory of sens": _sens_bytes(counts),
        "run": counts.run,
    }
    if counts.max_lag:
        facts["memory of lds"] = sum(nnz.values()) * 8 + 4 * n_words * 100 * 4
    return facts


def _sens_bytes(counts: Any) -> int:
    """About what SENS with 100 components needs: the symmetric matrix in CSR and the basis of the solver."""
    nonzeros = sum(
        count for name, count in counts.nnz.items() if name in ("window", "lag1", "lag2", "lag3", "lag4", "lag5")
    )
    return int(1.3 * 2 * nonzeros * 8 + 6 * 100 * len(counts.vocabulary) * 4)
