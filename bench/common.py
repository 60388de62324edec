"""What the benchmarks share: texts, interleaved timing, peak memory of a process."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

SMOKE = os.environ.get("LAGWISE_BENCH_SMOKE", "") not in ("", "0")
SHARED = Path(os.environ.get("LAGWISE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
CACHE = Path(os.environ.get("LAGWISE_BENCH_CACHE", Path.home() / ".cache" / "lagwise-bench"))
SLICE_LINES = 268_216  # 20.0 million white-space tokens of the Wikipedia corpus
_TOKEN = re.compile(r"\w+(?:['’.,\-](?<=[^\W_].)(?=[^\W_])\w+)*")


def corpus(n_lines: int | None = SLICE_LINES, clean: bool = True) -> Path:
    """The first lines of the Wikipedia corpus as plain text; `clean` lower-cases and strips punctuation, once.

    In a smoke run it is a small random text. Skips where the shared material is absent.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    if SMOKE:
        import numpy as np

        path = CACHE / "smoke.txt"
        draw = np.random.default_rng(0).zipf(1.3, size=(2000, 40))
        path.write_text("\n".join(" ".join(f"w{n}" for n in row if n < 3000) for row in draw) + "\n")
        return path
    source = SHARED / "corpora" / "wikipedia.txt.zst"
    if not source.exists():
        pytest.skip("needs the shared Wikipedia corpus (set LAGWISE_SHARED)")
    path = CACHE / f"wikipedia-{n_lines or 'all'}-{'clean' if clean else 'raw'}.txt"
    if not path.exists():
        import io

        import zstandard

        temporary = path.with_suffix(".tmp")
        unpack = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader
        with open(source, "rb") as packed, open(temporary, "w", encoding="utf-8", newline="\n") as out:
            text = io.TextIOWrapper(unpack(packed), encoding="utf-8", newline="\n")
            for number, line in enumerate(text):
                if n_lines is not None and number >= n_lines:
                    break
                out.write(" ".join(_TOKEN.findall(line)).lower() + "\n" if clean else line)
        temporary.rename(path)
    return path


def lagwise(*arguments: object, **options: object) -> None:
    """Run the command line as a process of its own."""
    run([sys.executable, "-m", "lagwise", *map(str, arguments), "--quiet"], **options)


def run(command: list[str], stdin: object = None, stdout: object = None) -> None:
    """Run a command; its failure is ours."""
    with open(stdin or os.devnull, "rb") as source, open(stdout or os.devnull, "wb") as target:  # type: ignore[call-overload]
        done = subprocess.run(command, stdin=source, stdout=target, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()[-2000:]


_WATCH = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
sys.exit(done.stderr.decode()[-2000:]) if done.returncode else print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_rss(command: list[str]) -> int:
    """Peak resident memory of a command in bytes, as the system accounts it.

    A small process stands between: what a process is forked from counts towards its own peak.
    """
    done = subprocess.run([sys.executable, "-c", _WATCH, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * 1024


def versus(benchmark, ours, peers, label, rounds=5, setup=None):
    """Time ours and its peers in turn, A B A B, and print the ratios of the medians.

    Returns a dict from peer to ratio (its median over ours), empty where timing is disabled.
    """
    rounds = 1 if SMOKE else rounds
    times: dict[str, list[float]] = {name: [] for name in peers}

    def before():
        if setup:
            setup()
        for name, peer in peers.items():
            started = time.perf_counter()
            peer()
            times[name].append(time.perf_counter() - started)
        if setup:
            setup()

    benchmark.pedantic(ours, setup=before, rounds=rounds, iterations=1)
    if benchmark.stats is None:
        return {}
    own = statistics.median(benchmark.stats.stats.data)
    ratios = {}
    for name, samples in times.items():
        ratios[name] = statistics.median(samples) / own
        print(
            f"\n{label}: {own:.3f} s, {name} {statistics.median(samples):.3f} s, ratio {ratios[name]:.2f} "
            f"(medians of {rounds}, interleaved)"
        )
    benchmark.extra_info.update({"label": label, "ratios": ratios})
    return ratios
