"""Choose the presets of SENS on data other than the eight similarity sets and the Google analogies.

    python -m bench.paper.presets --development FOLDER --output FOLDER [--text FILE] [--dim 100]

The development folder holds similarity sets EN-*.txt (RG-65, MTurk-287, RW-STANFORD, SimVerb-3500, VERB-143; from
github mfaruqui/eval-word-vectors) and analogies msr.txt (the Microsoft syntactic analogies, four words a line; from
github Ivanopolo/hyperwords). Every word pair that also stands in a test set is removed first. From a starting point
one setting is changed at a time, the best value is kept, and all settings are gone through twice; every point measured
on the way is written to presets.json and, best first, to presets.md. Windows stay within the 7 lags that `lagwise
count` holds by default.

"similarity" is the point with the best mean Spearman correlation, "analogies" the one with the best accuracy,
"balanced" the one with the best sum of the two.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import lagwise as lw
from bench.common import SHARED, corpus
from lagwise._threads import resolve_threads
from lagwise.pmi import window_counts
from lagwise.refit import refit_words
from lagwise.variants import build_matrix, factorise, row_weights

WINDOWS: dict[str, tuple[float, ...]] = {
    "flat 5": (1,) * 5,
    "linear 5": tuple(range(5, 0, -1)),
    "linear 7": tuple(range(7, 0, -1)),
    "4 4 3 3 2 1 1": (4, 4, 3, 3, 2, 1, 1),
    "square 7": (49, 36, 25, 16, 9, 4, 1),
    "harmonic 7": tuple(420 // k for k in range(1, 8)),
}
AXES: dict[str, tuple[Any, ...]] = {
    "refit": (0, 1, 2),
    "pair_weight": (1.0, 3.0, 10.0),
    "pair_max": (10.0, 100.0, 1000.0),
    "window": ("linear 7", "harmonic 7", "square 7"),
    "shift": (2.5, 4.0, 5.5),
    "smoothing": (1.0, 0.75, 0.6),
    "alpha": (-4.0, -2.5),
    "row_weight": (0.0, 0.1),
}
REFIT = ("refit", "pair_weight", "pair_max")  # need no factorisation of their own, and neither do
POWERS = (0.25, 0.4, 0.5, 0.6)
DROPPED = (0, 1)
START = {
    "refit": 1,
    "pair_weight": 3.0,
    "pair_max": 100.0,
    "window": "harmonic 7",
    "shift": 4.0,
    "smoothing": 0.75,
    "alpha": -4.0,
    "row_weight": 0.0,
}
CANDIDATES = 30_000  # most frequent words among which analogies are answered
EVERY = 3  # of the analogy questions, one in so many is asked
CHOICES = {
    "similarity": lambda point: point["similarity"],
    "analogies": lambda point: point["analogies"],
    "balanced": lambda point: point["similarity"] + point["analogies"],
}


def development_sets(source: Path, folder: Path) -> tuple[list[Path], Path]:
    """Copies of the development sets without the pairs of words that occur in a test set."""
    taken = set()
    for file in sorted((SHARED / "wordsim").glob("EN-*.txt")):
        taken |= {frozenset(line.lower().split()[:2]) for line in file.read_text().splitlines() if line.strip()}
    for line in (SHARED / "wordsim" / "google-analogies.txt").read_text().splitlines():
        words = line.lower().split()
        if len(words) == 4:
            taken |= {frozenset(words[:2]), frozenset(words[2:])}
    folder.mkdir(parents=True, exist_ok=True)
    similarity = []
    for file in sorted(source.glob("EN-*.txt")):
        lines = [line for line in file.read_text().splitlines() if len(line.split()) == 3]
        kept = [line for line in lines if frozenset(line.lower().split()[:2]) not in taken]
        similarity.append(folder / file.name)
        similarity[-1].write_text("\n".join(kept) + "\n")
        print(f"{file.name}: {len(kept)} of {len(lines)} pairs are in no test set")
    lines = [line for line in (source / "msr.txt").read_text().lower().splitlines() if len(line.split()) == 4]
    kept = [line for line in lines if not {frozenset(line.split()[:2]), frozenset(line.split()[2:])} & taken]
    kept = kept[::EVERY]
    analogies = folder / "msr.txt"
    analogies.write_text(": gram-msr\n" + "\n".join(kept) + "\n")
    print(f"msr.txt: {len(kept)} of {len(lines)} questions asked, none with a pair of the Google questions", flush=True)
    return similarity, analogies


class Factorisations:
    """Matrices and their leading eigenpairs by setting; the last matrix and all eigenpairs are kept."""

    def __init__(self, store: Any, dim: int):
        self.store, self.dim = store, dim + max(DROPPED)
        self.pairs: dict[str, Any] = {}
        self.last: tuple[str, Any] = ("", None)

    def get(self, setting: dict[str, Any]) -> tuple[Any, Any, Any, np.ndarray | None]:
        """The vocabulary, the matrix, its eigenpairs and the weights of its rows."""
        weights = WINDOWS[setting["window"]]
        options = {name: setting[name] for name in ("shift", "smoothing", "alpha", "row_weight")}
        full = lw.SENS(self.dim, window=len(weights), weight=weights, tol=3e-3, **options).settings()
        key = json.dumps([setting["window"], options])
        if self.last[0] != key:
            self.last = ("", None)  # let the old go before the new is made
            table = window_counts(self.store, full["window"], full["weight"])
            self.last = (key, build_matrix(table, full, resolve_threads(None)))
        built = self.last[1]
        if key not in self.pairs:
            self.pairs[key] = factorise(built, full, resolve_threads(None), lambda *_: None)
        return self.store.vocabulary, built, self.pairs[key], row_weights(built.row_sums, setting["row_weight"])


def measure(fits: Factorisations, setting: dict[str, Any], similarity: list[Path], analogies: Path) -> list[dict]:
    """Development scores of one factorisation under every power and number of dropped components."""
    started = time.perf_counter()
    vocabulary, built, pairs, scale = fits.get(setting)
    words = pairs.vectors * pairs.values.astype(np.float32)
    if setting["refit"]:
        unit = WINDOWS[setting["window"]][0]  # the whole weights of a window count a neighbour so many times
        weight, most = setting["pair_weight"] / unit**0.5, setting["pair_max"] * unit
        words = refit_words(built, pairs.vectors, words, setting["refit"], weight, most, scale)
    seconds = time.perf_counter() - started
    points = []
    for dropped in DROPPED:
        part = slice(dropped, dropped + fits.dim - max(DROPPED))
        for power in POWERS:
            scaled = words[:, part] * (pairs.values[part] ** (power - 1)).astype(np.float32)
            vectors = lw.WordVectors(vocabulary, scaled)
            frequent = lw.WordVectors(list(vocabulary)[:CANDIDATES], scaled[:CANDIDATES])
            rho = {
                file.stem: lw.evaluate_similarity(vectors, file, case="lower", n_bootstrap=0).rho for file in similarity
            }
            points.append(
                {
                    **setting,
                    "drop_first": dropped,
                    "power": power,
                    "similarity": float(np.mean(list(rho.values()))),
                    "analogies": lw.evaluate_analogies(frequent, analogies).accuracy("all"),
                    "sets": rho,
                    "seconds": seconds,
                }
            )
    return points


def search(evaluate: Any, start: dict[str, Any], goal: Any) -> None:
    """Change one setting at a time, keep the best value, twice through all of them."""
    best = dict(start)
    for _ in range(2):
        before = dict(best)
        for axis, values in AXES.items():
            scores = {value: max(map(goal, evaluate({**best, axis: value}))) for value in values}
            best[axis] = max(scores, key=lambda value: scores[value])
            print(f"{axis}: " + ", ".join(f"{value} {score:.4f}" for value, score in scores.items()), flush=True)
        if best == before:
            return


def main() -> None:
    """Search, write every point and name the chosen ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--development", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--text", type=Path, help="default: the benchmarks' slice of the Wikipedia corpus")
    parser.add_argument("--dim", type=int, default=100)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    similarity, analogies = development_sets(arguments.development, arguments.output / "sets")
    store = lw.count(arguments.text or corpus(), max_lag=7)
    path = arguments.output / "presets.json"
    known: dict[str, list[dict]] = json.loads(path.read_text()) if path.exists() else {}

    fits = Factorisations(store, arguments.dim)

    def evaluate(setting: dict[str, Any]) -> list[dict]:
        asked = {name: value for name, value in setting.items() if setting["refit"] or name not in REFIT}
        key = json.dumps(asked, sort_keys=True)  # the weights of pairs matter to a refit alone
        if key not in known:
            known[key] = measure(fits, setting, similarity, analogies)
            path.write_text(json.dumps(known, indent=1))
        return known[key]

    for name in ("balanced", "similarity", "analogies"):
        print(f"searching for {name}", flush=True)
        search(evaluate, START, CHOICES[name])
    points = [point for group in known.values() for point in group]
    lines = []
    columns = [*START, "drop_first", "power", "similarity", "analogies"]
    for name, goal in CHOICES.items():
        lines += [f"Best for {name}:\n", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
        for point in sorted(points, key=goal, reverse=True)[:8]:
            cells = [f"{point[c]:.4f}" if c in ("similarity", "analogies") else str(point.get(c, 0)) for c in columns]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    (arguments.output / "presets.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
