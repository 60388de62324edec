"""The counts that the LDS benchmark and experiments share: made once and kept in the benchmark cache."""

from __future__ import annotations

import lagwise as lw
from lagwise.counting import count_to_store

from .common import CACHE, SMOKE, corpus

LINES = 202_574  # 15.0 million white-space tokens of the Wikipedia corpus


def lds_store(lines: int = LINES, vocabulary: int = 20_000) -> lw.CountStore:
    """Lags 1..10 of the first lines (0: all) of the Wikipedia corpus as one stream, case and punctuation kept."""
    store = CACHE / f"lds-{'smoke' if SMOKE else lines}-{vocabulary}-store"
    if not store.exists():
        count_to_store(
            store,
            corpus(lines or None, clean=False),
            tokenizer="words",
            digits="0",
            max_size=vocabulary,
            boundary="none",
            oov="unk",
            max_lag=10,
        )
    return lw.load(store)
