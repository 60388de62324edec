"""What the command line says: true amounts, one style, nothing ignored in silence; the demo replaces its own files only."""

import json

import numpy as np
import pytest

import lagwise as lw
from lagwise._progress import Progress
from lagwise.cli import demo as demo_module
from tests.support import cli


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "text.txt"
    random = np.random.default_rng(0)
    words = [first + second for first in "abcdefghijklmnop" for second in "abcdefghijklmnop"]
    drawn = np.minimum(random.zipf(1.2, (1000, 20)), len(words)) - 1
    path.write_text("".join(" ".join(words[n] for n in row) + "\n" for row in drawn))
    return path


@pytest.fixture
def speech(text, monkeypatch):
    """The demo reads one small text in place of the package of speeches."""
    monkeypatch.setattr(demo_module, "speeches", lambda: [str(text)])


def test_the_demo_twice_replaces_its_own_files(speech, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        status, out, err = cli("demo", "-q")
        assert status == 0, err
        assert "Written to lagwise-demo" in out
    assert (tmp_path / "lagwise-demo" / "vectors.safetensors").exists()


@pytest.mark.parametrize("name", ["vectors.safetensors", "lagwise-demo.json", "store"])
def test_the_demo_refuses_files_that_are_not_its_own(speech, tmp_path, name):
    other = lw.count(lines=["a b a b"] * 9, min_count=1)
    if name == "store":
        other.save(tmp_path / name)
    else:
        (tmp_path / name).write_text("[1, 2]")
    (tmp_path / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    status, _, err = cli("demo", "-o", tmp_path, "-q")
    assert status == 1 and name in err and "--force" in err and "-o" in err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert cli("demo", "-o", tmp_path, "-q", "--force")[0] == 0
    assert len(lw.load(tmp_path / "store").vocabulary) > 2 and (tmp_path / "notes.txt").read_text() == "mine"
    assert cli("demo", "-o", tmp_path, "-q")[0] == 0  # they are its own now


def test_the_demo_refuses_its_own_files_once_they_are_others(speech, tmp_path):
    assert cli("demo", "-o", tmp_path / "d", "-q")[0] == 0
    lw.count(lines=["a b a b"] * 9, min_count=1).save(tmp_path / "d" / "store", overwrite=True)
    status, _, err = cli("demo", "-o", tmp_path / "d", "-q")
    assert status == 1 and "store" in err and "vectors" not in err


def test_the_demo_wants_a_folder_with_a_parent(speech, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in cli("demo", "-o", tmp_path / "file", "-q")[2]
    assert "does not exist" in cli("demo", "-o", tmp_path / "no" / "folder", "-q")[2]


def last_line(capsys, reports, total, unit):
    with Progress(True, "work", total, unit) as bar:
        for done in reports:
            bar.update(done)
    return capsys.readouterr().err.strip().split("\n")[-1]


def test_the_last_line_of_progress_says_what_was_done(capsys):
    assert last_line(capsys, [1, 2, 16], 100, "iterations").startswith("work: 16 iterations, ")
    assert last_line(capsys, [100], 100, "iterations").startswith("work: 100 iterations, ")
    assert last_line(capsys, [], 100, "iterations").count("iterations") == 0
    assert last_line(capsys, [], 2048, "B").startswith("work: 2.0k B, ")  # input is read to its end
    assert last_line(capsys, [5], None, "tokens").startswith("work: 5 tokens, ")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_models_that_stop_early_say_after_how_many_iterations(text, tmp_path):
    status, out, err = cli("hmm", "fit", text, "-o", tmp_path / "hmm", "--states", 2, "--tol", 0.05, "--json")
    assert status == 0, err
    assert json.loads(out)["iterations"] < 100
    assert f"HMM: {json.loads(out)['iterations']} iterations" in err and "/100" not in err
    assert cli("count", text, "-o", tmp_path / "store", "-q")[0] == 0
    status, out, err = cli("lds", tmp_path / "store", "-o", tmp_path / "lds", "--dim", 3, "--tol", 0.05, "--json")
    assert status == 0, err
    assert json.loads(out)["iterations"] < 50
    assert f"EM: {json.loads(out)['iterations']} iterations" in err and "/50" not in err


@pytest.mark.parametrize(
    "counted, asked, said",
    [
        (("--window", 5), (), "window 5 and weight flat in place of window 7 and weight harmonic of preset balanced"),
        (("--max-lag", 3), (), "window 3 in place of window 7 of preset balanced: the store holds lags 1 to 3"),
        ((), ("--window", 4), "weight flat in place of weight harmonic of preset balanced"),
        ((), ("--window", 4, "--weight", "flat"), ""),
        ((), (), ""),
        (("--window", 5), ("--preset", "paper"), ""),
        (("--window", 5), ("--variant", "ppmi"), ""),
    ],
)
def test_sens_says_where_it_uses_another_window_than_the_preset(text, tmp_path, counted, asked, said):
    assert cli("count", text, "-o", tmp_path / "store", "-q", *counted)[0] == 0
    status, _, err = cli("sens", tmp_path / "store", "-o", tmp_path / "v", "--dim", 5, *asked)
    assert status == 0 and (said in err if said else "in place of" not in err), err
    status, _, err = cli("sens", tmp_path / "store", "-o", tmp_path / "v", "--dim", 5, "-q", "--force", *asked)
    assert (status, err) == (0, "")


@pytest.mark.parametrize(
    "asked, refused",
    [
        (("--variant", "ppmi", "--alpha=-1"), "--alpha"),
        (("--variant", "pmi", "--alpha", "none"), "--alpha"),
        (("--variant", "svd-ns-shifted", "--shift", 1), "--shift"),
        (("--negatives", 2), "--negatives"),
        (("--variant", "log-counts", "--smoothing", 0.5), "--smoothing"),
        (("--variant", "pmi", "--smooth", "context"), "--smooth"),
        (("--variant", "sens", "--pair-max", 5), "--pair-max"),
        (("--psd", "--pair-weight", 5), "--pair-weight"),
    ],
)
def test_sens_refuses_options_that_its_setting_does_not_use(text, tmp_path, asked, refused):
    assert cli("count", text, "-o", tmp_path / "store", "-q")[0] == 0
    status, _, err = cli("sens", tmp_path / "store", "-o", tmp_path / "v", "--dim", 5, *asked)
    assert status == 1 and err.startswith("lagwise: error: ") and refused in err and not (tmp_path / "v").exists()


def test_hmm_fit_ends_with_a_line_like_the_other_commands(text, tmp_path):
    status, _, err = cli("hmm", "fit", text, "-o", tmp_path / "hmm", "--states", 2, "--tol", 0.05)
    assert status == 0 and err.split("\n")[-2].startswith(f"{tmp_path / 'hmm'}: 2 states, "), err
    assert "iterations (converged), objective -" in err and err.endswith(" nats a token\n")
    (tmp_path / "tagged").write_text("the\tD\ndog\tN\n\n" * 20)
    status, _, err = cli("hmm", "fit", "--tagged", tmp_path / "tagged", "-o", tmp_path / "tagger")
    assert status == 0 and err.endswith(f"{tmp_path / 'tagger'}: 2 words, 2 tags, 40 tokens\n"), err


def test_info_is_for_people(text, tmp_path):
    assert cli("count", text, "-o", tmp_path / "store", "-q")[0] == 0
    assert cli("sens", tmp_path / "store", "-o", tmp_path / "v", "--dim", 30, "-q")[0] == 0
    _, store, _ = cli("info", tmp_path / "store")
    _, vectors, _ = cli("info", tmp_path / "v")
    for shown in (store, vectors):
        assert "{" not in shown and "[" not in shown and "None" not in shown
    assert "... (30 in all)" in vectors and "about settings" in vectors and " MB" in store
    assert json.loads(cli("info", tmp_path / "store", "--json")[1])["memory of sens"] > 0
