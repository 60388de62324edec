"""Part-of-speech tagging by one token's embedding: SSID, EM, CBOW and SGNS on the same ids (UD English EWT).

python bench/paper/lds_tagging.py [--lines 202574] [--dim 100] [--seeds 5] [--iterations 50] [--fine] [--peers]

Trains on the first lines of the Wikipedia corpus beside the project (``../shared``, or the folder in LAGWISE_SHARED;
``--text`` gives an unpacked copy), tags UD EWT train -> test with ``MLPClassifier((25,))``, each sentence a sequence.
Prints the mean accuracy of the seeds and McNemar's exact test on pooled predictions.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import time
import warnings
from pathlib import Path

import numpy as np

import lagwise as lw

SHARED = Path(os.environ.get("LAGWISE_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def read_tagged(part: str, fine: bool) -> tuple[list[list[str]], list[str]]:
    sentences, tags, current = [], [], []
    for line in (SHARED / "tagged" / f"ud_ewt_{part}.tsv").read_text(encoding="utf-8").splitlines():
        if not line:
            sentences.append(current)
            current = []
            continue
        token, fine_tag, universal = line.split("\t")
        current.append(token)
        tags.append(fine_tag if fine else universal)
    return sentences + ([current] if current else []), tags


def corpus_lines(path: str | None, n_lines: int):
    if path:
        with open(path, encoding="utf-8") as handle:
            yield from itertools.islice(handle, n_lines)
        return
    import zstandard

    with open(SHARED / "corpora" / "wikipedia.txt.zst", "rb") as raw:
        stream = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(raw)
        yield from itertools.islice(io.TextIOWrapper(stream, encoding="utf-8"), n_lines)


def evaluate(X: np.ndarray, y: np.ndarray, Xt: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    warnings.simplefilter("ignore", ConvergenceWarning)
    scale = X.std(axis=0, dtype=np.float64)
    mean, scale = X.mean(axis=0, dtype=np.float64), np.where(scale > 0, scale, 1)
    fitted = MLPClassifier((25,), random_state=seed, max_iter=40).fit(((X - mean) / scale).astype(np.float32), y)
    return fitted.predict(((Xt - mean) / scale).astype(np.float32))


def mcnemar(a: np.ndarray, b: np.ndarray) -> float:
    from scipy.stats import binomtest

    only_a, only_b = int(np.sum(a & ~b)), int(np.sum(b & ~a))
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def peer_vectors(counts: lw.CountStore, lines: list[list[str]], dim: int, sg: int, epochs: int) -> np.ndarray:
    from gensim.models import Word2Vec

    model = Word2Vec(lines, vector_size=dim, window=3, sg=sg, epochs=epochs, workers=2, min_count=1, seed=0)
    table = np.zeros((len(counts.vocabulary), dim), np.float32)
    for i in range(len(table)):
        if str(i) in model.wv:
            table[i] = model.wv[str(i)]
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text")
    parser.add_argument("--lines", type=int, default=202_574)
    parser.add_argument("--vocabulary", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--pseudocount", type=float, default=50)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--em-lags", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fine", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--only", default="", help="comma-separated names of features")
    parser.add_argument(
        "--noises", default="", help="also these kinds of noise, and both starts before and after 20 steps"
    )
    options = parser.parse_args()

    began = time.perf_counter()
    counts = lw.count(
        lines=corpus_lines(options.text, options.lines),
        tokenizer="words",
        digits="0",
        max_size=options.vocabulary,
        boundary="none",
        oov="unk",
        max_lag=max(7, options.em_lags),
    )
    print(f"counts: {counts}, {time.perf_counter() - began:.1f} s", flush=True)
    train, tags = read_tagged("train", options.fine)
    test, gold = read_tagged("test", options.fine)
    gold_tags, tag_array = np.array(gold), np.array(tags)
    features: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def add(name: str, embed) -> None:
        if not options.only or name in options.only.split(","):
            features[name] = (embed(train), embed(test))

    def fit(**changes) -> lw.LDS:
        began = time.perf_counter()
        settings = {
            "pseudocount": options.pseudocount,
            "n_iter": options.iterations,
            "em_lags": options.em_lags,
            "tol": 1e-7,
            **changes,
        }
        model = lw.LDS(options.dim, **settings).fit(counts)
        print(
            f"fit {changes}: {time.perf_counter() - began:.1f} s, {model.n_iter_} iterations from {model.start_}, "
            f"{model.history_[0]:.4f} -> {model.history_[-1]:.4f} nats",
            flush=True,
        )
        return model

    def type_rows(table: np.ndarray):
        return lambda sentences: table[
            [i for s in sentences for i in counts.vocabulary.lookup(counts.vocabulary.normalize(token) for token in s)]
        ]

    ssid = fit(n_iter=0)
    em = fit()
    types = type_rows(em.type_vectors())
    add("SSID smoothed", ssid.transform)
    add("EM filtered", lambda s: em.transform(s, kind="filtered"))
    add("EM smoothed", em.transform)
    add("EM smoothed whitened unit", lambda s: em.transform(s, whiten=True, unit=True))
    add("EM smoothed + type", lambda s: np.hstack([em.transform(s), types(s)]))
    for noise in filter(None, options.noises.split(",")):
        model = fit(noise=noise, n_iter=20)
        add(f"{noise} noise, 20 steps", model.transform)
    if options.noises:
        for whiten in (True, False):
            for steps in (0, 20):
                add(
                    f"SSID {'whitened' if whiten else 'raw'}, {steps} steps",
                    fit(whiten_ssid=whiten, n_iter=steps).transform,
                )
    if options.peers:
        lines = [
            [str(i) for i in counts.vocabulary.encode(lines=[line])[0]]
            for line in corpus_lines(options.text, options.lines)
        ]
        for name, sg, epochs, dim in (
            ("CBOW", 0, 5, options.dim),
            ("SGNS", 1, 3, options.dim),
            ("CBOW, twice the dimension", 0, 5, 2 * options.dim),
        ):
            add(name, type_rows(peer_vectors(counts, lines, dim, sg, epochs)))

    from joblib import Parallel, delayed

    right = {}
    jobs = Parallel(n_jobs=2)(
        delayed(evaluate)(X, tag_array, Xt, seed) for X, Xt in features.values() for seed in range(options.seeds)
    )
    for number, name in enumerate(features):
        guesses = jobs[number * options.seeds : (number + 1) * options.seeds]
        right[name] = np.concatenate([guess == gold_tags for guess in guesses])
        each = [np.mean(guess == gold_tags) for guess in guesses]
        print(f"{name:32s} {np.mean(each):.4f}  (seeds {min(each):.4f} to {max(each):.4f})", flush=True)
    for a, b in itertools.combinations(right, 2):
        print(f"McNemar {a} / {b}: p = {mcnemar(right[a][: len(gold_tags)], right[b][: len(gold_tags)]):.2g}")


if __name__ == "__main__":
    main()
