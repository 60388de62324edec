"""From text to answers with no options at all."""

import json

import numpy as np
import pytest

import lagwise as lw
from tests.support import run_cli


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text whose even words follow even words: two topics that any embedding should tell apart."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    with open(path, "w") as handle:
        for _ in range(4000):
            topic = int(random.integers(2))
            handle.write(" ".join(f"w{2 * n + topic}" for n in random.zipf(1.2, 30) if n < 200) + "\n")
    return path


def test_count_then_sens_then_lds_without_options(text):
    counts = lw.count(text)
    assert counts.max_lag == 7
    model = lw.SENS().fit(counts)
    vectors = model.word_vectors()
    assert vectors.vectors.shape == (len(counts.vocabulary), 100) and model.residual_ < 1e-3
    assert model.objective_ == pytest.approx(model.eigenvalues_.sum())
    near = [int(word[1:]) % 2 for word, _ in vectors.most_similar("w2", top=5)]
    assert sum(near) == 0
    lds = lw.LDS(n_components=3, n_iter=3).fit(counts)
    steps = np.diff(lds.history_)
    assert (steps >= -1e-6).all()
    assert lds.transform(["w2", "w4", "w6"]).shape == (3, 3)


@pytest.mark.parametrize("kept", [("--max-lag", 2), ("--max-lag", 9), ("--window", 3)])
def test_the_default_setting_goes_as_far_as_the_store(text, tmp_path, kept):
    run_cli("count", text, "-o", tmp_path / "store", *kept)
    run_cli("sens", tmp_path / "store", "-o", tmp_path / "vectors", "--dim", 5)
    done = run_cli("sens", tmp_path / "store", "-o", tmp_path / "v2", "--dim", 5, "--window", 12, check=False)
    assert done.returncode == 1 and "count again with" in done.stderr


def test_the_command_line_from_end_to_end(text, tmp_path):
    store, vectors = tmp_path / "store", tmp_path / "vectors.safetensors"
    run_cli("count", text, "-o", store)
    run_cli("sens", store, "-o", vectors, "--dim", 20)
    found = json.loads(run_cli("similar", vectors, "w2", "--json").stdout)
    assert len(found["w2"]) == 10
    assert "w" in run_cli("analogy", vectors, "w2", "w4", "w6").stdout
    (tmp_path / "pairs.txt").write_text("w2 w4 5\nw2 w3 1\nw4 w6 5\n")
    (tmp_path / "other.txt").write_text("w2 w4 5\nw2 w3 1\nw4 w6 4\n")
    (tmp_path / "questions.txt").write_text(": s\nw2 w4 w6 w8\n")
    done = run_cli(
        "evaluate",
        vectors,
        "--similarity",
        tmp_path / "pairs.txt",
        tmp_path / "other.txt",
        "--analogies",
        tmp_path / "questions.txt",
        "--json",
    )
    assert "pairs" in done.stdout and "other" in done.stdout
    run_cli("export", vectors, "-o", tmp_path / "v.txt", "--format", "word2vec")
    assert (tmp_path / "v.txt").read_text().splitlines()[0].split()[1] == "20"
    assert "word-vectors" in run_cli("info", vectors).stdout
    done = run_cli("sens", text, "-o", vectors, "--force", check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_each_command_is_found_by_its_module():
    from lagwise.cli import _app

    for module, commands in _app.COMMANDS.items():
        for command in commands:
            assert "Usage" in run_cli(command, "--help").stdout, (module, command)
    listed = run_cli("--help").stdout
    assert all(command in listed for commands in _app.COMMANDS.values() for command in commands)
