"""HMMs next to hmmlearn and NLTK's TnT: EM iterations, Viterbi, tagging; share of the rate of dgemm; two threads.

pytest bench/bench_hmm.py -s          LAGWISE_BENCH_HMMLEARN_LOG=1 adds hmmlearn's log-space EM, which takes minutes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter

import numpy as np
import pytest

from lagwise.hmm import HMM, HMMTagger, read_tagged

from .common import SHARED, SMOKE, versus

N_LINES, N_WORDS = (200, 500) if SMOKE else (4000, 9000)


def wikitext():
    """The first non-empty lines of WikiText-2 train over its most frequent words: (ids, lengths)."""
    path = SHARED / "lm" / "wikitext2.train.txt"
    if not path.exists():
        pytest.skip("needs the shared WikiText-2 (set LAGWISE_SHARED)")
    with open(path, encoding="utf-8") as handle:
        lines = [line.split() for line in handle if line.strip()][:N_LINES]
    frequent = Counter(word for line in lines for word in line).most_common(N_WORDS)
    index = {word: i for i, (word, _) in enumerate(frequent)}
    sequences = [[index[word] for word in line if word in index] for line in lines]
    sequences = [sequence for sequence in sequences if sequence]
    return np.concatenate([np.array(s) for s in sequences]), np.array([len(s) for s in sequences]), len(index)


def start(K, V):
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K), rng.dirichlet(np.ones(V), K)


def with_arrays(model, arrays):
    model.startprob_, model.transmat_, model.emissionprob_ = (array.copy() for array in arrays)
    return model


def quietly(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def peer_model(K, V, implementation, n_iter=1):
    hmmlearn = pytest.importorskip("hmmlearn.hmm", reason="compares with hmmlearn: pip install hmmlearn")
    return hmmlearn.CategoricalHMM(
        K, n_iter=n_iter, tol=-np.inf, init_params="", implementation=implementation, n_features=V
    )


def assert_equal_models(ours, peer):
    for name in ("startprob_", "transmat_", "emissionprob_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(peer, name), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    "K, implementation", [(12, "scaling"), (45, "scaling"), (100, "scaling"), (12, "log"), (45, "log")]
)
def bench_soft_em_iteration(benchmark, K, implementation):
    """fit with one iteration, everything included, on one thread."""
    if implementation == "log" and not SMOKE and not os.environ.get("LAGWISE_BENCH_HMMLEARN_LOG"):
        pytest.skip("set LAGWISE_BENCH_HMMLEARN_LOG=1 for hmmlearn's slow log-space EM")
    X, lengths, V = wikitext()
    arrays = start(K, V)
    column = X[:, None]

    def ours():
        return quietly(lambda: HMM(K, n_symbols=V, n_iter=1, tol=-1e9, init=arrays, n_threads=1).fit(X, lengths))

    def peer():
        return quietly(lambda: with_arrays(peer_model(K, V, implementation), arrays).fit(column, lengths))

    assert_equal_models(ours(), peer())
    versus(
        benchmark,
        ours,
        {f"hmmlearn {implementation}": peer},
        f"one soft-EM iteration, K={K}",
        rounds=3 if implementation == "log" else 5,
    )
    if benchmark.stats is not None:
        print(f"{X.size / statistics.median(benchmark.stats.stats.data) / 1e6:.2f}M tokens/s")


@pytest.mark.parametrize("K", [12, 45, 100])
def bench_share_of_dgemm(benchmark, K):
    """6 K^2 flops a token of an EM iteration over the rate of dgemm on 512 x K by K x K, and two threads against one."""
    from lagwise._threads import single_threaded_blas

    X, lengths, V = wikitext()
    arrays = start(K, V)
    a, b, out = np.random.default_rng(0).random((512, K)), np.random.default_rng(1).random((K, K)), np.empty((512, K))
    gemms = 500 if K < 64 else 100

    def fit(n_iter, n_threads):
        return quietly(
            lambda: HMM(K, n_symbols=V, n_iter=n_iter, tol=-1e9, init=arrays, n_threads=n_threads).fit(X, lengths)
        )

    def iteration(n_threads):  # the difference leaves out reading the data
        begun = time.perf_counter()
        fit(1, n_threads)
        middle = time.perf_counter()
        fit(6, n_threads)
        return (time.perf_counter() - middle - (middle - begun)) / 5

    def dgemm():
        with single_threaded_blas():
            begun = time.perf_counter()
            for _ in range(gemms):
                np.dot(a, b, out=out)
            return 2 * 512 * K * K * gemms / (time.perf_counter() - begun)

    one, two = fit(3, 1), fit(3, 2)
    assert np.array_equal(one.emissionprob_, two.emissionprob_) and one.history_ == two.history_
    rates, single, double = [], [], []
    for _ in range(1 if SMOKE else 7):
        rates.append(dgemm())
        single.append(iteration(1))
        double.append(iteration(2))
    flops = 6 * K * K * X.size / statistics.median(single)
    print(
        f"\nK={K}: {X.size / statistics.median(single) / 1e6:.2f}M tokens/s, {flops / 1e9:.1f} GFLOP/s, dgemm "
        f"{statistics.median(rates) / 1e9:.1f} GFLOP/s, share {flops / statistics.median(rates):.2f}; "
        f"two threads {statistics.median(single) / statistics.median(double):.2f}x"
    )
    benchmark.pedantic(lambda: fit(1, 1), rounds=1)


@pytest.mark.parametrize("K", [12, 45, 100])
def bench_viterbi(benchmark, K):
    X, lengths, V = wikitext()
    arrays = start(K, V)
    model, peer = with_arrays(HMM(K, n_threads=1), arrays), with_arrays(peer_model(K, V, "scaling"), arrays)
    column = X[:, None]
    score, path = model.decode(X, lengths)
    peer_score, peer_path = peer.decode(column, lengths)
    np.testing.assert_allclose(score, peer_score, rtol=1e-10)
    assert np.mean(path == peer_path) > 0.99
    versus(
        benchmark,
        lambda: model.decode(X, lengths),
        {"hmmlearn": lambda: peer.decode(column, lengths)},
        f"Viterbi, K={K}",
    )
    if benchmark.stats is not None:
        print(f"{X.size / statistics.median(benchmark.stats.stats.data) / 1e6:.2f}M tokens/s")


def bench_tagging_against_nltk(benchmark):
    """Tokens a second with the 17 universal tags of UD EWT; NLTK's TnT on the first sentences of the test part."""
    tnt = pytest.importorskip("nltk.tag.tnt", reason="compares with NLTK: pip install nltk")
    folder = SHARED / "tagged"
    if not folder.is_dir():
        pytest.skip("needs the shared tagged text (set LAGWISE_SHARED)")
    X, y = read_tagged(folder / "ud_ewt_train.tsv", 3)
    test, gold = read_tagged(folder / "ud_ewt_test.tsv", 3)
    few = 5 if SMOKE else 60
    ours = HMMTagger(unknown="suffix", backoff=0, n_threads=1).fit(X, y)
    best = HMMTagger(n_threads=1).fit(X, y)
    peer = tnt.TnT()
    peer.train([list(zip(words, tags)) for words, tags in zip(X, y)])
    n_few, n_all = sum(map(len, test[:few])), sum(map(len, test))

    def accuracy(predicted):
        right = sum(p == t for tags, truth in zip(predicted, gold) for p, t in zip(tags, truth))
        return right / sum(len(truth) for _, truth in zip(predicted, gold))

    tagged = [[tag for _, tag in peer.tag(words)] for words in test[:few]]
    assert accuracy(ours.predict(test[:few])) >= accuracy(tagged)
    ratios = versus(
        benchmark,
        lambda: ours.predict(test),
        {"NLTK": lambda: [peer.tag(words) for words in test[:few]]},
        f"trigram tagging, {n_all} tokens, and {n_few} of them by NLTK",
        rounds=3,
    )
    if ratios:
        begun = time.perf_counter()
        best.predict(test)
        print(
            f"per token: {ratios['NLTK'] * n_all / n_few:.0f}x NLTK; {n_all / statistics.median(benchmark.stats.stats.data):.0f} "
            f"tokens/s, {n_all / (time.perf_counter() - begun):.0f} with the feature model"
        )


def bench_first_fit_of_a_process(benchmark, tmp_path):
    """Seconds from the start of Python to the end of a first fit and decode, with an empty and with a filled cache."""
    code = (
        "import time; t = time.perf_counter(); import warnings; warnings.simplefilter('ignore'); import lagwise as lw; "
        "m = lw.HMM(5, random_state=0, n_iter=3).fit([[0, 1, 2, 1]] * 50); a = time.perf_counter() - t; m.decode([0, 1]); "
        "lw.HMM(3, random_state=0, n_iter=3, algorithm='hard').fit([[0, 1, 2, 1]] * 50); print(a, time.perf_counter() - t)"
    )

    def first(folder):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        )
        return [float(x) for x in done.stdout.split()]

    cold = first(tmp_path)
    warm = [first(tmp_path) for _ in range(3)]
    print(
        f"\nfirst soft fit of a process: empty cache {cold[0]:.2f} s, warm "
        f"{statistics.median(w[0] for w in warm):.2f} s; with decoding and "
        f"hard EM: {cold[1]:.2f} s, warm {statistics.median(w[1] for w in warm):.2f} s"
    )
    benchmark.pedantic(lambda: first(tmp_path), rounds=1)
