"""HMMs next to hmmlearn and NLTK's TnT: EM iterations, Viterbi, tagging; share of the rate of dgemm; two threads.

pytest bench/bench_hmm.py -s          LAGWISE_BENCH_NLTK=PYTHON:PYTHON measures the NLTKs of these Pythons;
LAGWISE_BENCH_HMMLEARN_LOG=1 adds hmmlearn's log-space EM, which takes minutes.
"""

from __future__ import annotations

import json
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
    for _ in range(1 if SMOKE else 15):
        rates.append(dgemm())
        single.append(iteration(1))
        double.append(iteration(2))
    flops = 6 * K * K * X.size / statistics.median(single)
    print(
        f"\nK={K}: {X.size / statistics.median(single) / 1e6:.2f}M tokens/s, {flops / 1e9:.1f} GFLOP/s, dgemm "
        f"{statistics.median(rates) / 1e9:.1f} GFLOP/s, share {flops / statistics.median(rates):.2f}; "
        f"two threads {statistics.median(a / b for a, b in zip(single, double, strict=True)):.2f}x (median of pairs)"
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


TNT = """
import sys, time, json, nltk
from nltk.tag import tnt
train, text, gold, seconds = json.load(open(sys.argv[1])), sys.argv[2], json.load(open(sys.argv[3])), float(sys.argv[4])
tagger = tnt.TnT()
tagger.train([[tuple(pair) for pair in sentence] for sentence in train])
for _ in sys.stdin:
    begun, n, right, done = time.perf_counter(), 0, 0, 0
    with open(text, encoding="utf-8") as lines, open(text + ".nltk", "w", encoding="utf-8") as out:
        for line, tags in zip(lines, gold):
            found = tagger.tag(line.split())
            out.write("".join("%s\\t%s\\n" % pair for pair in found) + "\\n")
            right += sum(pair[1] == tag for pair, tag in zip(found, tags))
            n, done = n + len(found), done + 1
            if time.perf_counter() - begun > seconds:
                break
    print(json.dumps([nltk.__version__, n / (time.perf_counter() - begun), right / n, done]), flush=True)
"""
COPIES = 1 if SMOKE else 40


def bench_tagging_against_nltk(benchmark, tmp_path):
    """Tokens a second from a text file to a tagged file, 17 universal tags of UD EWT test, next to NLTK's TnT, in turns.

    LAGWISE_BENCH_NLTK names the Pythons (separated by colons) whose NLTKs are measured; without it, this one's. Rates of
    `predict`, lists of str to lists of str, are printed too.
    """
    pythons = os.environ.get("LAGWISE_BENCH_NLTK", "").split(":")
    if pythons == [""]:
        pytest.importorskip("nltk.tag.tnt", reason="compares with NLTK: pip install nltk")
        pythons = [sys.executable]
    folder = SHARED / "tagged"
    if not folder.is_dir():
        pytest.skip("needs the shared tagged text (set LAGWISE_SHARED)")
    X, y = read_tagged(folder / "ud_ewt_train.tsv", 3)
    test, gold = read_tagged(folder / "ud_ewt_test.tsv", 3)
    test = [["_".join(word.split()) for word in sentence] for sentence in test]  # a word has no white space in a file
    makers = {"TnT": {"unknown": "suffix", "backoff": 0}, "features": {}}
    ours = {(kind, n): HMMTagger(n_threads=n, **maker).fit(X, y) for kind, maker in makers.items() for n in (1, 2)}
    text, many, tokens = tmp_path / "text", tmp_path / "many", COPIES * sum(map(len, test))
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in test), encoding="utf-8")
    many.write_text(text.read_text(encoding="utf-8") * COPIES, encoding="utf-8")
    (tmp_path / "train").write_text(json.dumps([list(zip(*sentence)) for sentence in zip(X, y)]))
    (tmp_path / "gold").write_text(json.dumps(gold))
    arguments = [tmp_path / "train", text, tmp_path / "gold", "0.1" if SMOKE else "3"]
    peers = [
        subprocess.Popen(
            [python, "-c", TNT, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for python in pythons
    ]

    def ask(peer):
        print("tag", file=peer.stdin, flush=True)
        return json.loads(peer.stdout.readline())

    def rate(work, *arguments, **options):
        begun = time.perf_counter()
        work(*arguments, **options)
        return tokens / (time.perf_counter() - begun)

    answers, files, lists = [[] for _ in peers], {name: [] for name in ours}, {name: [] for name in ours}
    try:
        for _ in range(1 if SMOKE else 5):
            for answer, peer in zip(answers, peers):
                answer.append(ask(peer))
            for name, tagger in ours.items():
                files[name].append(rate(tagger.tag_file, many, tmp_path / "tagged", overwrite=True))
                lists[name].append(rate(tagger.predict, test * COPIES))
    finally:
        for peer in peers:
            peer.communicate()
    assert read_tagged(tmp_path / "tagged")[1] == ours["features", 2].predict(test) * COPIES
    speeds = {name: statistics.median(found) for name, found in files.items()}
    for (kind, n), speed in speeds.items():
        between = statistics.median(lists[kind, n])
        print(f"\nours, {kind}, {n} thread(s): files {speed / 1e6:.2f}M tokens/s, lists {between / 1e6:.2f}M", end="")
    for answer in answers:
        version, _, accuracy, done = answer[-1]
        own = {kind: ours[kind, 1].score(test[:done], gold[:done]) for kind in makers}
        assert own["features"] > accuracy
        theirs = statistics.median(found[1] for found in answer)
        print(
            f"\nNLTK {version} TnT: {theirs:.0f} tokens/s, accuracy {accuracy:.4f} on {done} sentences, ours "
            + ", ".join(f"{kind} {value:.4f}" for kind, value in own.items())
            + "; tokens/s over theirs: "
            + ", ".join(f"{kind} {n} thread(s) {speed / theirs:.0f}x" for (kind, n), speed in speeds.items())
        )
    benchmark.extra_info.update({"tokens_per_second": {str(name): speed for name, speed in speeds.items()}})
    benchmark.pedantic(lambda: ours["TnT", 1].predict(test), rounds=1)


def numba_twins():
    """The block kernel's forward pass, and a first-order Viterbi, as one would write them in Numba."""
    import numba

    @numba.njit(nogil=True)
    def forward(start, A, emission, rows, starts, alpha, scale):
        for t in range(starts.size - 1):
            first, n = starts[t], starts[t + 1] - starts[t]
            if t > 0:
                np.dot(alpha[starts[t - 1] : starts[t - 1] + n], A, alpha[first : first + n])
            for i in range(first, first + n):
                total = 0.0
                row = emission[rows[i]]
                for k in range(start.size):
                    alpha[i, k] = (start[k] if t == 0 else alpha[i, k]) * row[k]
                    total += alpha[i, k]
                scale[i] = 1 / total
                for k in range(start.size):
                    alpha[i, k] *= scale[i]

    return forward


@pytest.mark.parametrize("K", [12, 45, 100])
def bench_numba_against_cython(benchmark, K):
    """The same recursion in Numba and in Cython/C, single-threaded: why the block and path kernels are C.

    Numba gets NumPy's BLAS for its products and compiles for K at run time; the C kernels keep a tile of the product in
    registers. Kernels that measure at least a tenth faster in C are C; the exact log-space kernels, which only the few
    underflowing sequences need, are Numba.
    """
    from lagwise._kernels import hmm_paths, hmm_viterbi

    from lagwise._threads import single_threaded_blas
    from lagwise.hmm.checkpoints import go_forward
    from lagwise.hmm.observations import EmissionRows
    from lagwise.hmm.packing import Packed, log_arrays
    from lagwise.hmm.parameters import Parameters
    from lagwise.hmm.paths import transition_costs
    from lagwise.hmm.plan import Plan
    from lagwise.hmm.recursions import run_forward, running_sums

    X, lengths, V = wikitext()
    pi, A, B = start(K, V)
    parameters = Parameters(pi, A, np.ascontiguousarray(B.T))
    data = EmissionRows.of(X.astype(np.int32), None, V, K)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    plan = Plan(data.rows, offsets, K, data.n_rows, 1)
    table = data.table(parameters.emission)
    packed, twin = Packed.of(parameters, table, plan), numba_twins()
    scratch = plan.scratch()
    numba_alpha = np.empty((max(block.rows.size for block in plan.blocks), K))
    numba_scale = np.empty(len(numba_alpha))

    def c_forward():
        for block in plan.blocks:
            sums = running_sums(np.zeros(block.sequences.size, dtype=np.uint8))
            go_forward(
                block.slices,
                lambda t0, t1, state, _, block=block, sums=sums: run_forward(
                    plan, packed, block, scratch, t0, t1, state, sums
                ),
                scratch["before"],
            )

    def numba_forward():
        with single_threaded_blas():
            for block in plan.blocks:
                twin(pi, A, table, block.rows, block.starts, numba_alpha, numba_scale)

    numba_forward()
    c_forward()
    last = plan.blocks[-1]
    np.testing.assert_allclose(scratch["alpha"][: last.rows.size, :K], numba_alpha[: last.rows.size], rtol=1e-9)
    versus(benchmark, c_forward, {"Numba": numba_forward}, f"forward pass of all blocks in C, K={K}")

    logs, T = log_arrays(parameters, table), X.size
    P = plan.width
    weights, columns = transition_costs(logs["log_A"]), transition_costs(logs["log_back"])
    padded, first = np.zeros((len(table), P)), np.full(P, np.inf)
    padded[:, :K], first[:K] = -logs["table"], -logs["start"]
    scores, c_scores, state = np.empty((T, K)), np.empty((T, P)), np.empty(K)
    path, c_path = np.zeros(T, dtype=np.int32), np.zeros(T, dtype=np.int32)

    def numba_paths():
        hmm_viterbi.viterbi_forward1(logs["start"], logs["log_A"], logs["table"], data.rows, 0, T, state, scores)
        path[-1] = np.argmax(scores[-1])
        hmm_viterbi.viterbi_backward1(logs["log_A"], 0, T, state, scores, path)

    def c_paths():
        hmm_paths.best_paths(
            K, first, weights, columns, -logs["final"], padded, data.rows, np.array([0, T]), np.array([0]), c_scores,
            c_path, np.empty(1, dtype=np.int64),
        )  # fmt: skip

    times = {"C": [], "Numba": []}
    for _ in range(2 if SMOKE else 6):
        for name, function in (("C", c_paths), ("Numba", numba_paths)):
            begun = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - begun)
    assert np.array_equal(path, c_path)
    c, other = (statistics.median(found[1:]) for found in times.values())
    print(f"Viterbi of one sequence of {T} in C, K={K}: {c:.3f} s, Numba {other:.3f} s, ratio {other / c:.2f}")


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
