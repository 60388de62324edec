"""Text to word vectors, whole programs: `lagwise count` and `lagwise sens` against gensim's SGNS and the authors' SVD-NS.

Time and quality come from one and the same run: ours, the peer, ours again, on the slice of the Wikipedia corpus with
two threads. The environment variable SVDNS names the folder with the built programs vocab, cooccurrence and svdns
(github behrouzhs/svdns). The bars: 20 times SGNS with an average Spearman correlation at least .01 above, 10 times the
authors' programs.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import pytest

import lagwise as lw
from lagwise.export import read_vectors

from .common import SHARED, SMOKE, corpus, lagwise, peak_rss, run
from .paper.sens import SETS, measure

DIM = 20 if SMOKE else 100
SGNS = """
import sys, time
from gensim.models import Word2Vec
started = time.perf_counter()
model = Word2Vec(corpus_file=sys.argv[1], vector_size=int(sys.argv[3]), window=5, negative=5, epochs=5, min_count=5,
                 workers=2, sg=1, seed=1)
print(time.perf_counter() - started)
model.wv.save_word2vec_format(sys.argv[2], binary=True)
"""


def timed(work) -> tuple[float, float]:
    """Seconds on the wall and of the processors that `work` spends in other processes."""

    def cpu() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    started, before = time.perf_counter(), cpu()
    work()
    return time.perf_counter() - started, cpu() - before


def ours(text: Path, folder: Path) -> tuple[float, float]:
    """The two commands with the default options and preset, start of the processes included."""

    def work() -> None:
        lagwise("count", text, "-o", folder / "store", "--threads", 2, "--force")
        lagwise("sens", folder / "store", "-o", folder / "ours.lw", "--dim", DIM, "--threads", 2, "--force")

    return timed(work)


def quality(vectors: lw.WordVectors) -> dict[str, float]:
    """Average over the eight sets and accuracies of the analogies; empty in a smoke run or without the sets."""
    if SMOKE or not all((SHARED / "wordsim" / f"{name}.txt").exists() for name in SETS):
        return {}
    found = measure(vectors)
    return {name: round(found[name], 4) for name in ("average", "semantic", "syntactic")}


def report(name: str, mine: list[tuple[float, float]], theirs: tuple[float, float], own: dict, peer: dict) -> None:
    wall, cpu = (statistics.median(column) for column in zip(*mine))
    print(
        f"\nours {', '.join(f'{seconds:.1f}' for seconds, _ in mine)} s, {name} {theirs[0]:.1f} s: "
        f"ratio {theirs[0] / wall:.1f}; processor seconds {cpu:.1f} and {theirs[1]:.1f}: ratio {theirs[1] / cpu:.1f}"
        f"\nours {json.dumps(own)}\n{name} {json.dumps(peer)}"
    )


def test_against_sgns(tmp_path):
    pytest.importorskip("gensim", reason="needs gensim")
    text, target = corpus(), tmp_path / "sgns.bin"
    mine = [ours(text, tmp_path)]
    command = [sys.executable, "-c", SGNS, str(text), str(target), str(DIM)]
    theirs = timed(lambda: run(command, stdout=tmp_path / "seconds"))
    theirs = float((tmp_path / "seconds").read_text()), theirs[1]  # on the wall: training alone
    mine.append(ours(text, tmp_path))
    own = quality(lw.load(tmp_path / "ours.lw"))
    peer = quality(read_vectors(target, "word2vec-binary", strict=False))
    report("gensim SGNS", mine, theirs, own, peer)
    if own:
        assert own["average"] > peer["average"]


def test_against_svdns(tmp_path):
    if not os.environ.get("SVDNS"):
        pytest.skip("set SVDNS to the folder with the authors' programs vocab, cooccurrence and svdns")
    programs, text = Path(os.environ["SVDNS"]), corpus()
    vocabulary, pairs, target = tmp_path / "vocab.txt", tmp_path / "pairs.bin", tmp_path / "svdns.txt"
    mine = [ours(text, tmp_path)]
    steps = {
        "vocab": {"input": text, "output": vocabulary, "min-count": 5},
        "cooccurrence": {
            "vocab-file": vocabulary,
            "input": text,
            "output": pairs,
            "window-size": 10,
            "distance-weighting": 1,
            "memory": 4,
            "overflow-file": tmp_path / "overflow",
        },
        "svdns": {
            "input": pairs,
            "vocab": vocabulary,
            "output": target,
            "pmicutoff": -2.5,
            "shift": 2.5,
            "dimension": DIM,
            "thread": 2,
        },
    }
    commands = [
        [str(programs / program), *(piece for name, value in options.items() for piece in (f"-{name}", str(value)))]
        for program, options in steps.items()
    ]
    theirs = timed(lambda: [run(command) for command in commands])
    mine.append(ours(text, tmp_path))
    own = quality(lw.load(tmp_path / "ours.lw"))
    report("SVD-NS in C", mine, theirs, own, quality(read_vectors(target, "glove", strict=False)))


@pytest.mark.skipif(not os.environ.get("LAGWISE_BENCH_WHOLE"), reason="set LAGWISE_BENCH_WHOLE=1: takes minutes")
def test_whole_corpus(tmp_path):
    """All 64 million tokens, 150,000 words, 300 dimensions, in 8 GB."""
    text, store, vectors = corpus(None), tmp_path / "store", tmp_path / "vectors.lw"
    started = time.perf_counter()
    commands = {
        "count": ["count", text, "-o", store, "--min-count", 2, "--max-size", 150_000],
        "sens": ["sens", store, "-o", vectors, "--dim", 20 if SMOKE else 300],
    }
    peaks = {}
    for name, command in commands.items():
        peaks[name] = peak_rss([sys.executable, "-m", "lagwise", *map(str, command), "--threads", "2", "--quiet"])
    seconds = time.perf_counter() - started
    found = lw.load(vectors)
    print(
        f"\n{len(found)} words, {found.n_dimensions} dimensions: {seconds:.0f} s, peak "
        + ", ".join(f"{name} {peak / 1e9:.2f} GB" for name, peak in peaks.items())
        + f", residual {found.meta['residual']:.1e}, {json.dumps(quality(found))}"
    )
    assert max(peaks.values()) <= 8e9
