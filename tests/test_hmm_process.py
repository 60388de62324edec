"""HMMs and their process: Ctrl-C, fork, kernels without a cache folder, light imports."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

HEADER = """
import warnings
import numpy as np
import lagwise as lw
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
"""


def start(code, **env):
    return subprocess.Popen(
        [sys.executable, "-c", HEADER + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )


LOOPS = {
    "soft": "lw.HMM(64, n_iter=10**6, tol=-1, random_state=0, n_threads={n}).fit(X)",
    "soft2": "lw.HMM(24, order=2, n_iter=10**6, tol=-1, random_state=0, n_threads={n}).fit(X)",
    "hard": "[lw.HMM(64, algorithm='hard', n_iter=10**6, random_state=0, n_threads={n}).fit(X) for _ in range(10**6)]",
    "starts": "lw.HMM(64, n_iter=10**6, tol=-1, n_init=4, random_state=0, n_threads={n}).fit(X)",
    "long": "lw.HMM(30, n_iter=10**6, tol=-1, random_state=0, n_threads={n}).fit(X[0])",
}


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("kind", LOOPS)
def test_interrupt(kind, n_threads):
    process = start(f"""
        import time
        lw.HMM(2, n_iter=1, random_state=0).fit([[0, 1]]); lw.HMM(2, order=2, n_iter=1, random_state=0).fit([[0, 1, 1]])
        lw.HMM(2, algorithm="hard", random_state=0).fit([[0, 1]])
        X = [rng.integers(500, size=n) for n in ([3_000_000] if "{kind}" == "long" else [400] * 2000)]
        print("ready", flush=True)
        try:
            {LOOPS[kind].format(n=n_threads)}
        except KeyboardInterrupt:
            print("interrupted", time.time(), flush=True)
        print(lw.HMM(2, n_iter=2, random_state=0).fit([[0, 1, 1]]).n_iter_, flush=True)
    """)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    sent = time.time()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert out.startswith("interrupted") and out.endswith("2\n"), out + errors
    seconds = float(out.split()[1]) - sent
    print(f"{kind}, {n_threads} thread(s): stopped after {seconds:.2f} s")
    assert (
        seconds < 10
    )  # a second is the aim; a loaded machine is slower, a kernel that is not cut up takes longer still


def test_the_best_iterate_is_kept():
    from lagwise.hmm import HMM, learning

    hmm = HMM(2, n_iter=50, random_state=0)
    calls = []
    original = learning.maximize

    def interrupting(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "maximize", interrupting)
        with pytest.raises(KeyboardInterrupt):
            hmm.fit([[0, 1, 2, 1, 0, 2, 2], [1, 1, 0]])
    assert hmm.interrupted_ and hmm.n_iter_ == 3 and len(hmm.history_) == 4
    assert hmm.score([[0, 1, 2, 1, 0, 2, 2], [1, 1, 0]]) == pytest.approx(hmm.history_[-1], rel=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork():
    process = start("""
        import multiprocessing
        X = [rng.integers(5, size=20) for _ in range(100)]
        def work(seed):
            return lw.HMM(3, n_iter=3, random_state=seed, n_threads=2).fit(X).score(X)
        here = [work(0), work(1)]
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work, [0, 1]) == here
        print("same")
    """)
    out, errors = process.communicate(timeout=120)
    assert out == "same\n", errors


@pytest.mark.parametrize("environment", [{"LAGWISE_JIT_CACHE": "0"}, {"NUMBA_CACHE_DIR": "/proc/nowhere"}])
def test_without_a_cache_folder(environment):
    process = start("print(lw.HMM(2, algorithm='hard', random_state=0).fit([[0, 1, 1, 0]]).converged_)", **environment)
    out, errors = process.communicate(timeout=120)
    assert out == "True\n", errors


def test_importing_hmm_stays_light():
    process = start("""
        import sys
        import lagwise.hmm
        heavy = {"numba", "sklearn", "matplotlib", "rich", "typer", "scipy.optimize", "scipy.sparse"} & set(sys.modules)
        assert not heavy, heavy
        print("light")
    """)
    out, errors = process.communicate(timeout=60)
    assert out == "light\n", errors
