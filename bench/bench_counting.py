"""Text to store, next to GloVe's vocab_count and cooccur (their folder in the environment variable GLOVE)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from .common import SMOKE, corpus, lagwise, run, versus

GLOVE = os.environ.get("GLOVE")
needs_glove = pytest.mark.skipif(not GLOVE, reason="needs GloVe's programs in the folder named by GLOVE")


def glove_count(text: Path, work: Path, window: int, flat: bool = False) -> None:
    """vocab_count, then cooccur into a file of (word, word, count) records."""
    run([f"{GLOVE}/vocab_count", "-min-count", "5", "-verbose", "0"], stdin=text, stdout=work / "vocab.txt")
    run(
        [
            f"{GLOVE}/cooccur",
            "-memory",
            "8",
            "-vocab-file",
            str(work / "vocab.txt"),
            "-verbose",
            "0",
            "-symmetric",
            "1",
            "-window-size",
            str(window),
            "-distance-weighting",
            "0" if flat else "1",
            "-overflow-file",
            str(work / "overflow"),
        ],
        stdin=text,
        stdout=work / "pairs.bin",
    )


def assert_equals_glove(store: Path, work: Path) -> None:
    """Every cell of a store counted with oov="drop" equals GloVe's.

    On small texts GloVe's merge adds the very first record of its output to itself, so that one cell may be twice ours.
    """
    from scipy.sparse import coo_array

    import lagwise as lw

    counts = lw.load(store)
    words = [line.rsplit(b" ", 1)[0].decode() for line in (work / "vocab.txt").read_bytes().splitlines()]
    place = np.array([counts.vocabulary.index[word] for word in words])
    records = np.fromfile(work / "pairs.bin", dtype=[("i", "<i4"), ("j", "<i4"), ("x", "<f8")])
    n = len(counts.vocabulary)
    assert len(words) == n
    ours = counts.window()
    if records["x"][0] == 2 * ours[place[records["i"][0] - 1], place[records["j"][0] - 1]]:
        records["x"][0] /= 2
    theirs = coo_array((records["x"], (place[records["i"] - 1], place[records["j"] - 1])), shape=(n, n)).tocsr()
    theirs.sum_duplicates()
    assert ours.nnz == theirs.nnz and (ours.indptr == theirs.indptr).all()
    assert (ours.indices == theirs.indices).all() and (ours.data == theirs.data).all()


@needs_glove
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("oov", ["drop", "keep"])
def bench_window_10_against_glove(benchmark, tmp_path, n_threads, oov):
    text = corpus()
    store = tmp_path / "store"

    def ours():
        lagwise("count", text, "-o", store, "--window", 10, "--oov", oov, "--threads", n_threads, "--force")

    if oov == "drop":
        ours()
        glove_count(text, tmp_path, 10, flat=True)
        assert_equals_glove(store, tmp_path)
    versus(
        benchmark,
        ours,
        {"GloVe": lambda: glove_count(text, tmp_path, 10)},
        f"text -> store, window 10, oov {oov}, {n_threads} thread(s)",
    )
    shutil.rmtree(store)


@needs_glove
@pytest.mark.parametrize("n_threads", [1, 2])
def bench_lags_7_against_glove(benchmark, tmp_path, n_threads):
    text = corpus()
    store = tmp_path / "store"

    def ours():
        lagwise("count", text, "-o", store, "--max-lag", 7, "--threads", n_threads, "--force")

    versus(
        benchmark,
        ours,
        {"GloVe": lambda: glove_count(text, tmp_path, 7)},
        f"text -> lag store, lags 1..7, {n_threads} thread(s)",
    )


@needs_glove
@pytest.mark.parametrize("n_threads", [1, 2])
def bench_ids_against_glove(benchmark, tmp_path, n_threads):
    """Text to ids alone; GloVe's program only counts words."""
    from lagwise.text import scan_text
    from lagwise.vocabulary import Normalization

    text = corpus()

    def ours():
        scan_text(
            text,
            None,
            Normalization(),
            function=None,
            errors="strict",
            max_token_bytes=None,
            n_threads=n_threads,
            progress=False,
        )

    def peer():
        run([f"{GLOVE}/vocab_count", "-min-count", "5", "-verbose", "0"], stdin=text, stdout=tmp_path / "vocab.txt")

    versus(benchmark, ours, {"GloVe vocab_count": peer}, f"text -> ids, {n_threads} thread(s)")


def bench_two_threads_against_one(benchmark):
    """Ids to windowed counts."""
    from lagwise.cooccurrence import index_stream, window_rows
    from lagwise.options import DEFAULT_LAG
    from lagwise.selection import Filter, select_words
    from lagwise.text import renumber, scan_text
    from lagwise.vocabulary import Normalization

    assert DEFAULT_LAG == 7
    scanned = scan_text(
        corpus(),
        None,
        Normalization(),
        function=None,
        errors="strict",
        max_token_bytes=None,
        n_threads=2,
        progress=False,
    )
    chosen = select_words(scanned, Filter(5), Normalization(), "keep", False)
    stream, *_ = renumber(scanned, chosen.ids, chosen.rejected, "line")
    ids = stream.read(0, stream.length)

    def count(n_threads):
        index = index_stream(ids, len(chosen.vocabulary), n_threads)
        for _ in window_rows(index, np.ones(10, dtype=np.uint64), n_threads):
            pass

    versus(benchmark, lambda: count(2), {"one thread": lambda: count(1)}, "ids -> window 10, two threads")


def bench_import(benchmark):
    """`import lagwise` beyond `import numpy`."""
    import sys

    versus(
        benchmark,
        lambda: run([sys.executable, "-c", "import numpy, lagwise"]),
        {"numpy alone": lambda: run([sys.executable, "-c", "import numpy"])},
        "import numpy, lagwise",
        rounds=1 if SMOKE else 15,
    )
