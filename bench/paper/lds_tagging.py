"""Part-of-speech tagging by one token's embedding: SSID, EM, CBOW and SGNS on the same ids (UD English EWT).

python -m bench.paper.lds_tagging [--group main|peers|steps|noise|starts|emission] [--part dev|test] [--fine] [--lines N]

Trains on the first lines of the Wikipedia corpus (``corpus`` of bench/common.py), tags UD EWT train -> test, each
sentence a sequence, with ``MLPClassifier((25,))`` on standardised columns. Settings are chosen with ``--part dev``;
the test part is for the settings so chosen. Counts, models and peers' vectors are kept in the benchmark cache.

Prints the mean accuracy over the classifier's seeds, and for each pair of features McNemar's exact test: one test a
seed (predictions of different seeds on one token are not independent, so they are never pooled), the largest p shown.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lagwise as lw
from bench.common import CACHE, SHARED, corpus
from bench.lds_store import LINES, lds_store

Sentences = list[list[str]]
TWINS = {  # features of different groups that are the same model
    "SSID whitened, 0 iterations": "SSID smoothed",
    "C from block, 0 iterations": "SSID smoothed",
    "SSID whitened, 20 iterations": "full noise, 20 iterations",
    "C from block, 20 iterations": "full noise, 20 iterations",
}


def read_tagged(part: str, fine: bool) -> tuple[Sentences, np.ndarray]:
    """Sentences of UD EWT and the tags of all their tokens."""
    sentences: Sentences = [[]]
    tags = []
    for line in (SHARED / "tagged" / f"ud_ewt_{part}.tsv").read_text(encoding="utf-8").splitlines():
        if not line:
            sentences.append([])
            continue
        token, fine_tag, universal = line.split("\t")
        sentences[-1].append(token)
        tags.append(fine_tag if fine else universal)
    return [sentence for sentence in sentences if sentence], np.array(tags)


def evaluate(X: np.ndarray, y: np.ndarray, Xt: np.ndarray, seed: int, epochs: int) -> np.ndarray:
    """Predicted tags of one network."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore", ConvergenceWarning)
    scale = X.std(axis=0, dtype=np.float64)
    mean, scale = X.mean(axis=0, dtype=np.float64), np.where(scale > 0, scale, 1)
    with threadpool_limits(1):
        fitted = MLPClassifier((25,), random_state=seed, max_iter=epochs)
        fitted.fit(((X - mean) / scale).astype(np.float32), y)
        return fitted.predict(((Xt - mean) / scale).astype(np.float32))


def guess(kept: Path, *problem: Any) -> np.ndarray:
    """`evaluate`, or what it gave before, kept in a file: an interrupted run goes on where it stopped."""
    if not kept.exists():
        found = evaluate(*problem)
        with open(kept.with_suffix(".tmp"), "wb") as file:
            np.save(file, found)
        kept.with_suffix(".tmp").rename(kept)
    return np.load(kept)


def mcnemar(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided exact p of McNemar's test on which predictions are right."""
    from scipy.stats import binomtest

    only_a, only_b = int(np.sum(a & ~b)), int(np.sum(b & ~a))
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def unit(X: np.ndarray) -> np.ndarray:
    """Rows of unit length."""
    size = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(size > 0, size, 1)


class Workshop:
    """Counts, models and vectors of one corpus, made once and kept in the benchmark cache."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.text = corpus(options.lines or None, clean=False)
        self.name = f"lds-{options.lines}-{options.vocabulary}"
        self.counts = lds_store(options.lines, options.vocabulary)
        self.vocabulary = self.counts.vocabulary

    def model(self, iterations: int | None = None, dim: int | None = None, **changes) -> lw.LDS:
        """A fitted model with the options of the command line and these changes."""
        options = self.options
        iterations, dim = options.iterations if iterations is None else iterations, dim or options.dim
        settings = {
            "pseudocount": options.pseudocount,
            "em_lags": options.em_lags,
            "ssid_lags": options.ssid_lags,
            "tol": 0,
            **changes,
        }
        # One run serves every number of iterations: a longer one goes on where the shorter stopped.
        title = "-".join(f"{name}={value}" for name, value in sorted(settings.items()))
        path = CACHE / f"{self.name}-{dim}-{title}-{iterations}.lds"
        if path.exists():
            return lw.load(path)
        ends = [
            p.stem.removeprefix(f"{self.name}-{dim}-{title}-") for p in CACHE.glob(f"{self.name}-{dim}-{title}-*.lds")
        ]
        done = max((int(n) for n in ends if n.isdecimal() and int(n) < iterations), default=None)
        init = {} if done is None else {"init": lw.load(path.with_name(f"{self.name}-{dim}-{title}-{done}.lds"))}
        began = time.perf_counter()
        model = lw.LDS(dim, n_iter=iterations - (done or 0), **{**settings, **init}).fit(self.counts)
        print(
            f"fit {dim} {title}: {time.perf_counter() - began:.1f} s, {model.n_iter_} iterations from {model.start_}, "
            f"{model.history_[0]:.4f} -> {model.history_[-1]:.4f} nats, repairs {model.repairs_}",
            flush=True,
        )
        model.save(path)
        return model

    def types(self, table: np.ndarray, sentences: Sentences) -> np.ndarray:
        """Rows of a table, one for each token."""
        normalize = self.vocabulary.normalize
        return table[self.vocabulary.lookup(normalize(token) for sentence in sentences for token in sentence)]

    def peer(self, sg: int, epochs: int, dim: int) -> np.ndarray:
        """gensim's vectors of the same ids, window 3."""
        path = CACHE / f"{self.name}-gensim-{'sgns' if sg else 'cbow'}-{dim}.npy"
        if not path.exists():
            from gensim.models import Word2Vec

            ids, offsets = self.vocabulary.encode(self.text)
            edges = np.append(offsets[offsets < len(ids)], len(ids))
            names = np.array([str(i) for i in range(len(self.vocabulary))], dtype=object)
            lines = [names[ids[a:b]].tolist() for a, b in itertools.pairwise(edges) if b > a]
            began = time.perf_counter()
            model = Word2Vec(lines, vector_size=dim, window=3, sg=sg, epochs=epochs, workers=2, min_count=1, seed=0)
            print(f"gensim sg={sg} dim={dim}: {time.perf_counter() - began:.0f} s", flush=True)
            table = np.zeros((len(names), dim), np.float32)
            for i, name in enumerate(names):
                if name in model.wv:
                    table[i] = model.wv[name]
            np.save(path, table)
        return np.load(path)


def features(workshop: Workshop) -> dict[str, Callable[[Sentences], np.ndarray]]:
    """What is compared, by name: sentences -> one row a token."""
    options, out = workshop.options, {}

    def smoothed(model: lw.LDS, **how) -> Callable[[Sentences], np.ndarray]:
        return lambda sentences: model.transform(sentences, **how)

    def with_types(model: lw.LDS, whole: bool = True, **how) -> Callable[[Sentences], np.ndarray]:
        vectors = model.type_vectors() if whole else unit(model.type_vectors())
        return lambda sentences: np.hstack([model.transform(sentences, **how), workshop.types(vectors, sentences)])

    def vectors_of(sg: int, epochs: int, dim: int, sentences: Sentences) -> np.ndarray:
        return workshop.types(workshop.peer(sg, epochs, dim), sentences)

    groups = options.group.split(",")
    if "main" in groups:
        em = workshop.model()
        out["SSID smoothed"] = smoothed(workshop.model(0))
        out["EM filtered"] = smoothed(em, kind="filtered")
        out["EM smoothed"] = smoothed(em)
        out["EM smoothed, whitened unit"] = smoothed(em, whiten=True, unit=True)
        out["EM smoothed + type"] = with_types(em)
        out["EM smoothed + unit type"] = with_types(em, whole=False)
    if "peers" in groups:
        for name, sg, epochs, dim in (
            ("CBOW", 0, 5, options.dim),
            ("SGNS", 1, 3, options.dim),
            ("CBOW, twice the dimension", 0, 5, 2 * options.dim),
        ):
            out[name] = partial(vectors_of, sg, epochs, dim)
    if "steps" in groups:
        for steps in (10, 20, 40, 80):
            out[f"EM smoothed, {steps} iterations"] = smoothed(workshop.model(steps))
    if "noise" in groups:
        for noise in ("full", "diagonal", "spherical", "bohning"):
            out[f"{noise} noise, 20 iterations"] = smoothed(workshop.model(20, noise=noise))
    if "starts" in groups:
        for whiten, steps in itertools.product((True, False), (0, 20)):
            name = f"SSID {'whitened' if whiten else 'raw'}, {steps} iterations"
            out[name] = smoothed(workshop.model(steps, **({} if whiten else {"whiten_ssid": False})))
    if "emission" in groups:
        for c_from, steps in itertools.product(("block", "regression"), (0, 20)):
            name = f"C from {c_from}, {steps} iterations"
            out[name] = smoothed(workshop.model(steps, **({} if c_from == "block" else {"c_from": c_from})))
    return {name: embed for name, embed in out.items() if not options.only or name in options.only.split(";")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES, help="first lines of the corpus; 0: all")
    parser.add_argument("--vocabulary", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--pseudocount", type=float, default=50)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--em-lags", type=int, default=7)
    parser.add_argument("--ssid-lags", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200, help="most epochs of the network (200: scikit-learn's)")
    parser.add_argument("--jobs", type=int, default=2, help="networks trained at a time")
    parser.add_argument("--part", default="test", choices=["dev", "test"])
    parser.add_argument("--group", default="main", help="comma-separated: main, peers, steps, noise, starts, emission")
    parser.add_argument("--fine", action="store_true", help="the fine tags instead of the universal")
    parser.add_argument("--only", default="", help="semicolon-separated names of features")
    options = parser.parse_args()

    from joblib import Parallel, delayed

    folder = CACHE / "lds-tagging"
    folder.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(options)
    train, tags = read_tagged("train", options.fine)
    test, gold = read_tagged(options.part, options.fine)
    right: dict[str, np.ndarray] = {}
    print(f"{len(tags)} tokens -> {len(gold)} of {options.part}, {len(set(tags))} tags, {options.seeds} seeds")
    for name, embed in features(workshop).items():
        about = f"{options.part}-{'fine' if options.fine else 'universal'}-{options.iterations}-{options.dim}"
        about += "" if options.lines == LINES else f"-{options.lines}"
        title = "".join(c if c.isalnum() else "_" for c in TWINS.get(name, name))
        files = [folder / f"{about}-{title}-{options.epochs}-{seed}.npy" for seed in range(options.seeds)]
        X, Xt = (None, None) if all(file.exists() for file in files) else (embed(train), embed(test))
        guesses = Parallel(n_jobs=options.jobs)(
            delayed(guess)(file, X, tags, Xt, seed, options.epochs) for seed, file in enumerate(files)
        )
        right[name] = np.array([guess == gold for guess in guesses])
        each = right[name].mean(axis=1)
        print(f"{name:36s} {each.mean():.4f}  (seeds {each.min():.4f} to {each.max():.4f})", flush=True)
    for a, b in itertools.combinations(right, 2):
        p = max(mcnemar(x, y) for x, y in zip(right[a], right[b]))
        print(f"McNemar {a} / {b}: p at most {p:.2g} in every seed")


if __name__ == "__main__":
    main()
