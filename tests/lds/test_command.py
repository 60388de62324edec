"""The command line, end to end."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import lagwise as lw
from tests.support import cli


def run(*arguments, **options):
    command = [sys.executable, "-c", "from lagwise.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lds")
    rng = np.random.default_rng(0)
    (folder / "text").write_text(
        "\n".join(
            " ".join(f"w{(t + rng.integers(2)) % 3}{min(int(rng.exponential(3)), 9)}" for t in range(30))
            for _ in range(200)
        )
        + "\n"
    )
    assert run("count", folder / "text", "-o", folder / "store", "--min-count", 1, "--quiet").returncode == 0
    return folder


def test_fit_embed_dynamics(store):
    got = run(
        "lds", store / "store", "-o", store / "model", "--dim", 3, "--iterations", 5, "--json", "--quiet", "--force"
    )
    assert got.returncode == 0, got.stderr
    summary = json.loads(got.stdout)
    assert len(summary["history"]) == 6 and np.diff(summary["history"]).min() > 0
    model = lw.load(store / "model")
    assert run("embed", store / "model", store / "text", "-o", store / "x.npy", "--quiet", "--force").returncode == 0
    rows = np.load(store / "x.npy", mmap_mode="r")
    lines = [line.split() for line in (store / "text").read_text().splitlines()]
    np.testing.assert_array_equal(rows, model.transform(lines))
    one = run(
        "embed",
        store / "model",
        store / "text",
        "-o",
        store / "x.npy",
        "--boundary",
        "none",
        "--force",
        "--json",
        "--kind",
        "filtered",
    )
    assert json.loads(one.stdout)["sequences"] == 1
    np.testing.assert_array_equal(
        np.load(store / "x.npy"), model.transform([word for line in lines for word in line], kind="filtered")
    )
    shown = run("dynamics", store / "model", "--pairs", 2)
    assert shown.returncode == 0 and "half-lives" in shown.stdout
    assert len(json.loads(run("dynamics", store / "model", "--json").stdout)["pairs"]) == 3


def test_errors_are_one_line(store):
    refused = run("lds", store / "store", "-o", store / "text", "--dim", 2)
    assert refused.returncode == 1 and "exists" in refused.stderr and len(refused.stderr.strip().splitlines()) == 1
    low = run("lds", store / "store", "-o", store / "new", "--dim", 130, "--quiet")
    assert low.returncode == 1 and "Hankel rank" in low.stderr and not (store / "new").exists()
    assert run("embed", store / "text", store / "text", "-o", store / "y.npy").returncode == 1
    assert not (store / "y.npy").exists()
    run("lds", store / "store", "-o", store / "m2", "--dim", 2, "--iterations", 1, "--quiet", "--force")
    none = run("embed", store / "m2", store / "missing", "-o", store / "y.npy")
    assert none.returncode == 1 and "missing" in none.stderr


INTERRUPTED = """
import os, signal
from lagwise.cli import main
from lagwise.lds import fitting

save, times = fitting.save_checkpoint, []

def save_then_interrupt(*arguments):
    save(*arguments)
    times.append(1)
    if len(times) == 3:
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
fitting.save_checkpoint = save_then_interrupt
main()
"""


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve space")
def test_a_full_disk_is_an_error_before_anything_is_written(store, tmp_path, monkeypatch):
    """Through a map it would be a signal that ends the process and leaves half a file."""
    monkeypatch.setattr(lw.LDS, "transform", lambda *a, **k: pytest.fail("states are written"))
    for number, message in ((errno.ENOSPC, "No space left on device"), (errno.EDQUOT, "quota")):

        def full(descriptor, offset, size, number=number):
            assert (offset, size) == (0, os.fstat(descriptor).st_size) and size > 6000 * 3 * 4
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "posix_fallocate", full)
        status, _, err = cli("embed", store / "model", store / "text", "-o", tmp_path / "x.npy")
        assert status == 1 and message in err and str(tmp_path / "x.npy") in err
        assert not os.listdir(tmp_path)


def test_a_file_system_that_cannot_reserve_space_is_no_error(store, tmp_path, monkeypatch):
    def cannot(*arguments):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", cannot, raising=False)
    status, _, err = cli("embed", store / "model", store / "text", "-o", tmp_path / "x.npy", "-q")
    assert status == 0 and np.load(tmp_path / "x.npy").shape == (6000, 3), err


def test_interrupt_saves_the_best_iterate(store):
    options = ["--dim", "3", "--tol", "0", "--checkpoint", str(store / "run"), "--force"]
    command = [sys.executable, "-c", INTERRUPTED, "lds", str(store / "store"), "-o", str(store / "cut"), *options]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 130, done.stderr
    model = lw.load(store / "cut")
    assert model.interrupted_ and model.transform(["w00"]).shape == (1, 3)
    assert not [name for name in os.listdir(store) if name.endswith(".tmp")]
    before = (store / "run").read_bytes()
    got = run("lds", store / "store", "-o", store / "other", *options[:-1])
    assert got.returncode == 1 and "--resume goes on from it, --force starts anew" in got.stderr
    assert (store / "run").read_bytes() == before and not (store / "other").exists()


def test_embed_takes_the_boundary_of_the_model(store):
    lines = (store / "text").read_text().splitlines()
    (store / "paragraphs").write_text("\n\n".join("\n".join(lines[i : i + 2]) for i in range(0, len(lines), 2)))
    (store / "some").write_text("w01 w11 w21\nw02 w12\n\nw01 w11\n")
    for command in (
        ("count", "paragraphs", "-o", "blank", "--min-count", 1, "--boundary", "blank", "-q"),
        ("lds", "blank", "-o", "of-paragraphs", "--dim", 3, "--iterations", 1, "-q"),
        ("embed", "of-paragraphs", "some", "-o", "states.npy", "-q"),
    ):
        got = run(*command, cwd=store)
        assert got.returncode == 0, got.stderr
    words = (store / "some").read_text().split()
    want = lw.load(store / "of-paragraphs").transform(words, [5, 2])
    np.testing.assert_array_equal(np.load(store / "states.npy"), want)
    got = run("lds", "blank", "-o", "other", "--init", "nowhere", cwd=store)
    assert got.returncode == 1 and "a model file, which does not exist" in got.stderr
