"""Counting as texts grow: time per token, memory under a cap, compressed text read directly."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

import pytest

from .common import CACHE, SLICE_LINES, SMOKE, corpus, peak_rss, versus

SIZES = {"5M": SLICE_LINES // 4, "20M": SLICE_LINES, "64M": None}  # lines of the corpus; None: all


def equal_stores(first: Path, second: Path) -> bool:
    """Whether two stores hold the same bytes (run.json, which may differ, aside)."""
    names = sorted(set(os.listdir(first)) - {"run.json"})
    assert names == sorted(set(os.listdir(second)) - {"run.json"})
    return filecmp.cmpfiles(first, second, names, shallow=False)[0] == names


@pytest.mark.parametrize("n_threads", [1, 2])
def bench_time_per_token(benchmark, tmp_path, n_threads):
    """Text to a store on disk, window 10, at three sizes in turn; the process is warm."""
    from lagwise.counting import count_to_store

    texts = {size: corpus(n_lines) for size, n_lines in SIZES.items()}
    rounds = 1 if SMOKE else 3
    times: dict[str, list[float]] = {size: [] for size in texts}

    def turn():
        for size, text in texts.items():
            started = time.perf_counter()
            counts = count_to_store(tmp_path / "store", text, window=10, n_threads=n_threads, overwrite=True)
            times[size].append((time.perf_counter() - started) / counts.n_tokens)
            shutil.rmtree(tmp_path / "store")

    benchmark.pedantic(turn, rounds=rounds, iterations=1, warmup_rounds=0 if SMOKE else 1)
    each = {size: statistics.median(values[-rounds:]) * 1e9 for size, values in times.items()}
    spread = max(each.values()) / min(each.values())
    shown = ", ".join(f"{size} {value:.1f}" for size, value in each.items())
    print(f"\ntext -> store, window 10, {n_threads} thread(s), ns a token: {shown}; largest over least {spread:.2f}")
    benchmark.extra_info.update({"ns_per_token": each, "spread": spread})


@pytest.mark.parametrize("n_threads", [1, 2])
def bench_peak_memory(benchmark, tmp_path, n_threads):
    """The whole corpus under `--memory 512MB` in a process of its own, and without a cap: the same bytes."""
    text = corpus(None)
    free, capped = tmp_path / "free", tmp_path / "capped"

    def command(store, *more):
        return [
            *(sys.executable, "-m", "lagwise", "count", str(text), "-o", str(store), "--window", "10", "--quiet"),
            *("--force", "--threads", str(n_threads), *more),
        ]

    uncapped = peak_rss(command(free))
    peak = benchmark.pedantic(lambda: peak_rss(command(capped, "--memory", "512MB")), rounds=1, iterations=1)
    assert equal_stores(free, capped)
    table = json.loads((capped / "run.json").read_text())["table_bytes"]
    print(
        f"\n--memory 512MB, window 10, {n_threads} thread(s): peak {peak / 1e6:.0f} MB, of them the word table "
        f"{table / 1e6:.0f} MB; bar {640 + table / 1e6:.0f} MB; without a cap {uncapped / 1e6:.0f} MB; same bytes"
    )
    benchmark.extra_info.update({"peak": peak, "table": table, "uncapped": uncapped})
    assert peak <= 640e6 + table


def packed(text: Path) -> Path:
    """The text as a .zst file beside it, made once."""
    path = CACHE / f"{text.stem}.zst"
    if SMOKE or not path.exists():
        import zstandard

        temporary = path.with_suffix(".tmp")
        with open(text, "rb") as source, open(temporary, "wb") as target:
            zstandard.ZstdCompressor(level=19 if SMOKE else 9).copy_stream(source, target)
        temporary.rename(path)
    return path


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("stage", ["ids", "store"])
def bench_zstd_against_plain(benchmark, tmp_path, stage, n_threads):
    """A .zst file against the plain one: text to ids alone, and to a store (window 10)."""
    from lagwise.counting import count_to_store
    from lagwise.text import scan_text
    from lagwise.vocabulary import Normalization

    text = corpus()
    small = packed(text)

    def read(path):
        if stage == "store":
            count_to_store(tmp_path / path.suffix, path, window=10, n_threads=n_threads, overwrite=True)
            return
        options = dict(function=None, errors="strict", max_token_bytes=None, n_threads=n_threads, progress=False)
        scan_text(path, None, Normalization(), **options)

    read(small), read(text)
    if stage == "store":
        assert equal_stores(tmp_path / small.suffix, tmp_path / text.suffix)
    versus(
        benchmark, lambda: read(small), {"plain": lambda: read(text)}, f".zst text -> {stage}, {n_threads} thread(s)"
    )
