"""What the README shows runs as printed, on a text that has the words it names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[1] / "README.md"
pytestmark = pytest.mark.skipif(not README.exists(), reason="the README is not beside the tests")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the README names."""
    path = tmp_path_factory.mktemp("readme")
    words = "the government of people peace tariff man woman king queen".split() + [f"w{i}" for i in range(300)]
    random = np.random.default_rng(0)
    lines = [" ".join(words[min(n, 309)] for n in random.zipf(1.3, 20) - 1) for _ in range(6000)]
    (path / "corpus.txt").write_text("\n".join(lines) + "\n")
    for number, name in enumerate(("one.txt", "two.txt", "more.txt")):
        (path / name).write_text("\n".join(lines[number * 300 : (number + 1) * 300]) + "\n")
    (path / "train.tsv").write_text("".join(f"{word}\t{word[0].upper()}\n" for word in words) + "\n")
    (path / "pairs.txt").write_text("man woman 8\nking queen 9\npeace tariff 1\n")
    (path / "questions.txt").write_text(": family\nman woman king queen\n")
    return path


def block(language, beginning):
    found = [code for kind, code in re.findall(r"```(\w+)\n(.*?)```", README.read_text(), re.S) if kind == language]
    return next(code for code in found if code.lstrip().startswith(beginning))


def test_the_command_line_block(folder):
    commands = block("sh", "lagwise count corpus.txt").replace("lagwise ", f"{sys.executable} -m lagwise ")
    script = "set -e\n" + commands.replace("; ", "\n")
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "longer").is_dir() and (folder / "tokens.npy").exists() and "Traceback" not in done.stderr


def test_the_python_block(folder):
    code = block("python", "import lagwise")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "default::UserWarning", "-c", code.replace('"store"', '"store2"')
         .replace("vectors.safetensors", "python.safetensors")],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
