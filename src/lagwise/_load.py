"""`lagwise.load`: any store, vector file or model, told apart by what it says it is."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ._files import load_tensors

# Kind written by `_files.save_tensors` -> the class whose `_from_tensors(arrays, meta)` rebuilds the object.
_KINDS = {
    "word-vectors": ("vectors", "WordVectors"),
    "lds": ("lds", "LDS"),
    "hmm": ("hmm", "HMM"),
    "hmm-tagger": ("hmm", "HMMTagger"),
}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a count store, word vectors or a model saved by lagwise.

    Parameters
    ----------
    path : str or PathLike
        A store's folder or a model's file. Arrays are memory-mapped, nothing is ever unpickled.

    Returns
    -------
    CountStore, WordVectors, LDS, HMM or HMMTagger

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`.
    ValueError
        If it is not a lagwise file, or is damaged, or was written by a newer major version.
    """
    if os.path.isdir(path):
        from .counts import CountStore

        return CountStore.load(path)
    kind, arrays, meta = load_tensors(path)
    if kind not in _KINDS:
        raise ValueError(f"{os.fspath(path)} holds {kind!r}, which this lagwise does not know; upgrade lagwise")
    module, name = _KINDS[kind]
    return rebuild(getattr(importlib.import_module(f".{module}", __package__), name), arrays, meta, path)


def rebuild(cls: Any, arrays: dict[str, Any], meta: dict[str, Any], path: Any) -> Any:
    """An object from the arrays and metadata of its file; ValueError where they are not those of such an object."""
    try:
        return cls._from_tensors(arrays, meta)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} is damaged: it does not hold a whole {cls.__name__} ({error!r})") from None
