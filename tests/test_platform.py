"""How the package behaves as a guest: imports, threads, forks, interrupts (cases X)."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

HEAVY = (
    "scipy",
    "numba",
    "sklearn",
    "matplotlib",
    "rich",
    "typer",
    "safetensors",
    "zstandard",
    "pandas",
    "threadpoolctl",
    "multiprocessing",
    "concurrent.futures",
)


def run(script, *arguments, timeout=60, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def test_x1_importing_loads_nothing_heavy_and_says_nothing():
    done = run(f"""
        import sys, numpy, threading
        before = set(sys.modules)
        import lagwise
        loaded = {{name for name in set(sys.modules) - before}}
        heavy = [name for name in {HEAVY!r} if name in loaded]
        assert not heavy, heavy
        assert threading.active_count() == 1
    """)
    assert done.returncode == 0 and done.stdout == done.stderr == "", done.stderr


def count_in_child(seed):
    import lagwise as lw

    counts = lw.count(lines=[f"a b c{seed} a b"] * 2000, min_count=1, n_threads=2)
    assert lw.SENS(n_components=2, n_threads=2).fit(counts).components_.shape == (3, 2)
    return counts.n_tokens


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_x2_children_count_after_their_parent_did(method):
    assert count_in_child(0) == 10_000
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(count_in_child, range(4)).get(timeout=60) == [10_000] * 4


SLOW = {
    "counting": "lw.count(lines=('a b c d e f g h i j ' * 50 for _ in range(10**9)))",
    "factorising": """
        import numpy as np
        draw = np.random.default_rng(0).zipf(1.1, (4000, 60)) % 20_000
        counts = lw.count(lines=[[f"w{n}" for n in row] for row in draw], min_count=1)
        print('ready', flush=True)
        lw.SENS(n_components=300, tol=1e-14).fit(counts)
    """,
    "windows": """
        from lagwise import cooccurrence
        import numpy as np
        stream = np.random.default_rng(0).integers(0, 200_000, 20_000_000).astype(np.int32)
        stream[-1] = -1
        index = cooccurrence.index_stream(stream, 200_000, 2)
        print('ready', flush=True)
        for _ in range(1000):
            for rows in cooccurrence.window_rows(index, np.ones(50, np.uint64), 2): pass
    """,
}


@pytest.mark.parametrize("name", SLOW)
def test_x4_interrupts_are_obeyed(name, tmp_path):
    body = textwrap.dedent(SLOW[name])
    script = (
        "import os, sys, lagwise as lw\nos.chdir(sys.argv[1])\nassert lw.count(lines=['a'], min_count=1)\n"
        + ("print('ready', flush=True)\n" if "ready" not in body else "")
        + "try:\n"
        + textwrap.indent(body, "    ")
        + "\nexcept KeyboardInterrupt:\n    print(lw.count(lines=['a b'], min_count=1).n_tokens, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out == "2\n", err
    assert os.listdir(tmp_path) == []


def test_a7_options_of_the_command_line(tmp_path):
    from tests.support import run_cli

    (tmp_path / "t").write_text("a b a b\n")
    done = run_cli("count", tmp_path / "t", "-o", tmp_path / "s", "--minimum", 1, check=False)
    assert done.returncode == 2 and "--minimum" in done.stderr
    run_cli("count", "--min-count", 1, "--quiet", "-o", tmp_path / "s", tmp_path / "t", "--window", 2)
    done = run_cli("info", "--json", tmp_path / "s")
    assert '"words": 2' in done.stdout and done.stderr == ""
    done = run_cli("count", tmp_path / "missing", "-o", tmp_path / "s2", check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "missing does not exist" in done.stderr
    done = run_cli("count", tmp_path / "missing", "-o", tmp_path / "s2", "--debug", check=False)
    assert "Traceback" in done.stderr
