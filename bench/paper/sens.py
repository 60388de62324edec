"""The SENS paper on the Wikipedia corpus: its table, Figure 1, psd and random negatives, as Markdown and a PNG.

    python -m bench.paper.sens --output FOLDER [--lines N] [--paper-vocabulary] [--peers] [--rows NAMES] [--dim 100]

Counts once (window 10, flat, as lags), then fits every row from the same store. With --peers CBOW and SGNS are trained
by gensim on the same text; GloVe is run where the environment variable GLOVE names the folder of its programs. Every
row and point goes into sens.json of the output folder when it is done; a run that was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

import lagwise as lw
from bench.common import SHARED, corpus

SETS = (
    "EN-WS-353-SIM",
    "EN-WS-353-REL",
    "EN-WS-353-ALL",
    "EN-MC-30",
    "EN-MEN-TR-3k",
    "EN-MTurk-771",
    "EN-SIMLEX-999",
    "EN-YP-130",
)
SHORT = ("WS-S", "WS-R", "WS-353", "MC", "MEN", "MTurk-771", "SimLex", "YP")
ROWS: dict[str, dict[str, Any]] = {
    "SVD": {"variant": "counts", "power": 0.5},
    "log SVD": {"variant": "log-counts", "power": 0.5},
    "sqrt SVD": {"variant": "sqrt-counts", "power": 0.5},
    "PPMI, U S": {"variant": "ppmi", "power": 1.0},
    "PPMI, U S^1/2": {"variant": "ppmi", "power": 0.5},
    "PPMI, U": {"variant": "ppmi"},
    "SPPMI, U S^1/2": {"variant": "sppmi", "negatives": 5.0, "power": 0.5},
    "SPPMI, U": {"variant": "sppmi", "negatives": 5.0},
    "SVD-NS": {"variant": "svd-ns"},
    "SENS": {"variant": "sens"},
    "SENS, psd": {"variant": "sens", "psd": True},
    "SENS, random negatives": {"variant": "sens", "random_negatives": 0.5},
    "SENS, preset balanced": {"preset": "balanced"},
    "SENS, preset similarity": {"preset": "similarity"},
    "SENS, preset analogies": {"preset": "analogies"},
}


PEERS = ("SGNS", "CBOW", "GloVe")
TOLERANCE = 1e-3  # of the eigenpairs; the scores are those of 1e-4 to the third digit


class Results:
    """What was measured so far, kept in a JSON file."""

    def __init__(self, path: Path):
        self.path = path
        self.found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, group: str, name: str, work: Any) -> Any:
        """The stored result, or that of work()."""
        rows = self.found.setdefault(group, {})
        if name not in rows:
            rows[name] = work()
            self.path.write_text(json.dumps(self.found, indent=1, default=float))
            print(f"{name}: {summary(rows[name])}", flush=True)
        return rows[name]


def summary(row: dict[str, Any]) -> str:
    """One line about a row."""
    return (
        f"average {row['average']:.3f}, semantic {row['semantic']:.3f}, syntactic {row['syntactic']:.3f}, "
        f"{row['seconds']:.1f} s"
    )


def measure(vectors: lw.WordVectors) -> dict[str, Any]:
    """Spearman on the eight sets with intervals, and analogy accuracies; the prepared text is in lower case."""
    folder = SHARED / "wordsim"
    found = [lw.evaluate_similarity(vectors, folder / f"{name}.txt", case="lower") for name in SETS]
    answers = lw.evaluate_analogies(vectors, folder / "google-analogies.txt", case="lower")
    return {
        "sets": {short: (one.rho, one.low, one.high) for short, one in zip(SHORT, found)},
        "average": float(np.mean([one.rho for one in found])),
        **{kind: answers.accuracy(kind) for kind in ("semantic", "syntactic", "all")},
    }


def fit(store: Any, dim: int, window: int, **options: Any) -> tuple[lw.SENS, dict[str, Any]]:
    """One model and its measures."""
    if "preset" not in options:
        options["window"] = window
    started = time.perf_counter()
    model = lw.SENS(dim, tol=TOLERANCE, **options).fit(store)
    seconds = time.perf_counter() - started
    return model, {
        **measure(model.word_vectors()),
        "seconds": seconds,
        "positive": model.n_positive_,
        "negative": model.n_negative_,
        "negative_in_top": model.negative_in_top_,
        "residual": model.residual_,
    }


def alphas(store: Any, dim: int, window: int, results: Results) -> list[dict[str, Any]]:
    """Figure 1: SVD-NS for alpha from -10 to 2 bits in steps of .5, and all observed pairs."""
    points = []
    for alpha in [None, *map(float, np.arange(-10, 2.01, 0.5))]:
        options = {"variant": "pmi"} if alpha is None else {"variant": "svd-ns", "alpha": alpha}
        name = "all pairs" if alpha is None else f"alpha {alpha:g}"
        point = results.get("figure", name, lambda: fit(store, dim, window, **options)[1])  # noqa: B023
        points.append({"alpha": alpha, **point})
    return points


def word2vec(text: Path, dim: int, skip_gram: int) -> dict[str, Any]:
    """CBOW or SGNS of gensim: 5 negatives, window 5, 5 epochs, two workers."""
    from gensim.models import Word2Vec

    started = time.perf_counter()
    model = Word2Vec(
        corpus_file=str(text),
        vector_size=dim,
        window=5,
        negative=5,
        epochs=5,
        min_count=5,
        workers=2,
        sg=skip_gram,
        seed=1,
    )
    seconds = time.perf_counter() - started
    return {**measure(lw.WordVectors.from_gensim(model.wv)), "seconds": seconds}


def peers(text: Path, dim: int, results: Results, wanted: list[str]) -> None:
    """CBOW and SGNS of gensim where it is installed, and GloVe where its programs are."""
    if importlib.util.find_spec("gensim") is None:
        print("gensim is not installed: no CBOW and SGNS")
    else:
        for name, skip_gram in (("SGNS", 1), ("CBOW", 0)):
            if name in wanted:
                results.get("rows", name, lambda: word2vec(text, dim, skip_gram))  # noqa: B023
    if "GloVe" not in wanted:
        return
    if os.environ.get("GLOVE"):
        results.get("rows", "GloVe", lambda: _glove(text, dim, Path(os.environ["GLOVE"])))
    else:
        print("GLOVE is not set: no GloVe")


def _glove(text: Path, dim: int, programs: Path) -> dict[str, Any]:
    import tempfile

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)

        def call(program: str, *options: str, stdin: Path | None = None, stdout: Path | None = None) -> None:
            with open(stdin or os.devnull, "rb") as source, open(stdout or os.devnull, "wb") as target:
                subprocess.run(
                    [str(programs / program), *options],
                    stdin=source,
                    stdout=target,
                    check=True,
                    stderr=subprocess.DEVNULL,
                )

        call("vocab_count", "-min-count", "5", stdin=text, stdout=work / "vocab.txt")
        call(
            "cooccur",
            "-vocab-file",
            str(work / "vocab.txt"),
            "-window-size",
            "10",
            "-memory",
            "4",
            "-overflow-file",
            str(work / "overflow"),
            stdin=text,
            stdout=work / "pairs.bin",
        )
        call(
            "shuffle",
            "-memory",
            "4",
            "-temp-file",
            str(work / "shuffle"),
            stdin=work / "pairs.bin",
            stdout=work / "shuffled.bin",
        )
        call(
            "glove",
            "-input-file",
            str(work / "shuffled.bin"),
            "-vocab-file",
            str(work / "vocab.txt"),
            "-save-file",
            str(work / "vectors"),
            "-vector-size",
            str(dim),
            "-x-max",
            "100",
            "-iter",
            "15",
            "-threads",
            "2",
        )
        from lagwise.export import read_vectors

        vectors = read_vectors(work / "vectors.txt", "glove", strict=False)
    return {"seconds": time.perf_counter() - started, **measure(vectors)}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """A Markdown table of every row, in the paper's order, with 95 % intervals."""
    lines = [
        "| | " + " | ".join(SHORT) + " | average | semantic | syntactic | seconds |",
        "|---" * (len(SHORT) + 5) + "|",
    ]
    for name, row in rows.items():
        cells = [f"{value:.3f} [{low:.2f}, {high:.2f}]" for value, low, high in row["sets"].values()]
        cells += [f"{row['average']:.3f}", f"{row['semantic']:.3f}", f"{row['syntactic']:.3f}", f"{row['seconds']:.1f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def figure_table(points: list[dict[str, Any]]) -> str:
    """The points of Figure 1 as a Markdown table."""
    names = ("WS-353", "MC", "MTurk-771", "MEN", "SimLex", "YP")
    lines = [
        "| alpha | "
        + " | ".join(names)
        + " | average of eight | semantic | syntactic | mixed | positives to negatives |",
        "|---" * (len(names) + 6) + "|",
    ]
    for point in points:
        cells = ["all pairs" if point["alpha"] is None else f"{point['alpha']:g}"]
        cells += [f"{point['sets'][name][0]:.3f}" for name in names]
        cells += [f"{point[kind]:.3f}" for kind in ("average", "semantic", "syntactic", "all")]
        cells.append(f"{point['positive'] / point['negative']:.2f}" if point["negative"] else "no negatives")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def figure(points: list[dict[str, Any]], path: Path) -> None:
    """Figure 1 of the paper as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(1, 3, figsize=(15, 4.5))
    known = [point for point in points if point["alpha"] is not None]
    x, everything = [point["alpha"] for point in known], points[0]
    for kind in ("semantic", "syntactic", "all"):
        line = axes[0].plot(x, [point[kind] for point in known], marker=".", label="mixed" if kind == "all" else kind)
        axes[0].axhline(everything[kind], color=line[0].get_color(), linestyle=":")
    for short in ("WS-353", "MC", "MTurk-771", "MEN", "SimLex", "YP"):
        axes[1].plot(x, [point["sets"][short][0] for point in known], marker=".", label=short)
    axes[1].plot(x, [point["average"] for point in known], color="black", label="average of eight")
    axes[1].axhline(everything["average"], color="black", linestyle=":", label="all observed pairs")
    axes[2].plot(x, [point["positive"] / max(point["negative"], 1) for point in known], marker=".")
    axes[2].set_yscale("log")
    for axis, title in zip(axes, ("analogies (accuracy)", "similarity (Spearman)", "positives to one negative")):
        axis.set_title(title)
        axis.set_xlabel("alpha (bits)")
    axes[0].legend()
    axes[1].legend(fontsize="small")
    plt.tight_layout()
    plt.savefig(path, dpi=120)


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--lines", type=int, help="lines of the corpus (default: all)")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument(
        "--paper-vocabulary", action="store_true", help="letters only, known words or more than 3000 times"
    )
    parser.add_argument("--wordlist", type=Path, help="known words, for --paper-vocabulary")
    parser.add_argument("--rows", help="semicolon-separated names of rows (default: all)")
    parser.add_argument("--no-figure", action="store_true")
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    text = corpus(arguments.lines)
    options: dict[str, Any] = {}
    if arguments.paper_vocabulary:
        options = {"pattern": "[a-z]+", "wordlist": arguments.wordlist, "wordlist_exempt": 3000}
    store = lw.count(text, max_lag=max(arguments.window, 7), **options)
    print(f"{len(store.vocabulary)} words of {store.n_tokens} tokens", flush=True)
    results = Results(arguments.output / "sens.json")
    wanted = arguments.rows.split(";") if arguments.rows else [*ROWS, *PEERS]
    for name, settings in ((name, ROWS[name]) for name in wanted if name in ROWS):
        results.get("rows", name, lambda: fit(store, arguments.dim, arguments.window, **settings)[1])  # noqa: B023
    if arguments.peers:
        peers(text, arguments.dim, results, wanted)
    (arguments.output / "sens.md").write_text(table(results.found["rows"]))
    if not arguments.no_figure:
        points = alphas(store, arguments.dim, arguments.window, results)
        (arguments.output / "sens-figure1.md").write_text(figure_table(points))
        figure(points, arguments.output / "sens-figure1.png")


if __name__ == "__main__":
    main()
