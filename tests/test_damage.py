"""Damaged files, hostile streams, signals and closed standard streams: a named error, and nothing lost."""

import io
import json
import lzma
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import lagwise as lw
from lagwise.export import read_vectors, write_vectors
from tests.support import run_cli

MAIN = "from lagwise.cli import main; main()"


@pytest.fixture
def store(tmp_path):
    lw.count(lines=["a b c d e f g h " * 3] * 20, min_count=1, max_lag=2, keep_ids=True).save(tmp_path / "store")
    return tmp_path / "store"


def flip(path, place, value):
    raw = bytearray(path.read_bytes())
    raw[place] = value
    path.write_bytes(raw)


def test_places_outside_the_vocabulary_never_reach_a_kernel(store, tmp_path):
    uses = (
        lambda counts: counts.window(2),
        lambda counts: counts.lag(2).toarray(),
        lambda counts: lw.merge(counts, counts),
        lambda counts: counts.trim(max_size=3),
        lambda counts: lw.SENS(n_components=2, window=2).fit(counts),
        lambda counts: counts.save(tmp_path / "copy"),
    )
    for name, place, value in (
        ("lag2.indices.npy", -1, 0x7F),
        ("lag2.indices.npy", -1, 0xFF),
        ("lag2.indices.npy", -4, 200),
        ("lag2.indptr.npy", -9, 0x40),
        ("lag2.indptr.npy", 128, 1),
    ):
        whole = (store / name).read_bytes()
        flip(store / name, place, value)
        for use in uses:
            with pytest.raises(ValueError, match="damaged"):
                use(lw.load(store))
        (store / name).write_bytes(whole)
    assert not (tmp_path / "copy").exists()
    for use in uses:
        use(lw.load(store))


def test_words_are_compared_with_their_checksum(store):
    raw = (store / "vocabulary.txt").read_bytes()
    (store / "vocabulary.txt").write_bytes(raw.replace(b"a", b"z"))
    with pytest.raises(ValueError, match="checksum of vocabulary.txt"):
        lw.load(store)


def test_a_store_that_lost_its_ids(store):
    meta = json.loads((store / "meta.json").read_text())
    del meta["arrays"]["ids"]
    (store / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(ValueError, match="damaged"):
        lw.load(store)


def test_random_damage_to_a_header_is_a_value_error(tmp_path):
    lw.WordVectors(["a", "b"], np.eye(2), [2, 1]).save(tmp_path / "v")
    whole = (tmp_path / "v").read_bytes()
    random = np.random.default_rng(0)
    for _ in range(400):
        raw = bytearray(whole)
        raw[int(random.integers(len(whole) - 40))] ^= 1 << int(random.integers(8))
        (tmp_path / "bad").write_bytes(raw)
        try:
            lw.load(tmp_path / "bad")
        except ValueError as error:
            assert str(tmp_path) in str(error)


def test_the_mark_of_a_file_is_looked_for_in_its_own_bytes(monkeypatch):
    import lagwise.sources

    monkeypatch.setattr(lagwise.sources, "BLOCK_BYTES", 7)
    for small in (b"", b"x", b"xy"):
        files = [io.BytesIO(one) for one in (b"\xef\xbb\xbf" + b"x y z\n" * 21, small) * 5]
        counts = lw.count(files, min_count=1)
        assert counts.n_tokens == 5 * (63 + bool(small)) and set(counts.vocabulary) <= {"x", "y", "z", "xy"}


def test_padding_behind_an_xz_stream(tmp_path):
    (tmp_path / "t.xz").write_bytes(lzma.compress(b"a b\n") + b"\0" * 8 + lzma.compress(b"c\n") + b"\0" * 4)
    assert lw.count(tmp_path / "t.xz", min_count=1).n_tokens == 3


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")
def test_endless_tokens_take_little_memory(tmp_path):
    (tmp_path / "long").write_bytes(b"a b " + "é".encode() * 20_000_000 + b" c d\n")
    script = (
        "import sys, lagwise as lw\n"
        "counts = lw.count(sys.argv[1], min_count=1, max_token_bytes=11, memory='64MB', max_lag=2, n_threads=1)\n"
        "assert counts.n_tokens == 5 and counts.vocabulary.words == ['a', 'b', 'c', 'd']\n"
        "assert counts.lag(1).sum() == 2\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "long")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < 125_000, "kilobytes"
    with pytest.raises(ValueError, match="without white space, too long for memory="):
        lw.count(tmp_path / "long", min_count=1, memory="64MB")
    if os.path.exists("/dev/zero"):
        with pytest.raises(ValueError, match="without white space"):
            lw.count("/dev/zero", min_count=1, memory="64MB")


# Vectors in other formats.


def test_words_with_numbers_in_glove_files(tmp_path):
    for words in (["1 2", "x", "y"], ["x 5", "y", "z"], ["5", "6 7", "8"]):
        vectors = lw.WordVectors(words, [[1, 2.5], [0.1, 3], [4, 5]])
        with pytest.warns(UserWarning):
            write_vectors(vectors, tmp_path / "g", "glove", overwrite=True)
        again = read_vectors(tmp_path / "g", "glove", dtype="float64")
        assert again.words == words and again.vectors.tolist() == vectors.vectors.tolist()
    (tmp_path / "t").write_text("1 2 1 2.5\n3 4 .1 3\n")
    assert read_vectors(tmp_path / "t", "glove", dimensions=2).words == ["1 2", "3 4"]
    for text, message in (
        ("1 2\na 1 2\n", "begins with a header"),
        ("", "is empty"),
        ("a\nb\n", "expected a word and numbers"),
        ("a 1_0 2\n", "is not a number"),
    ):
        (tmp_path / "t").write_text(text)
        with pytest.raises(ValueError, match=message):
            read_vectors(tmp_path / "t", "glove")
    (tmp_path / "t").write_text("1 99999999999999999999\na 1\n")
    with pytest.raises(ValueError, match="expected a header"):
        read_vectors(tmp_path / "t", "word2vec")


def test_numpy_exports_are_both_files_or_none(tmp_path):
    (tmp_path / "n.npy.vocab.txt").write_text("mine\n")
    with pytest.raises(FileExistsError):
        write_vectors(lw.WordVectors(["a"], [[1.0]]), tmp_path / "n.npy", "numpy")
    assert os.listdir(tmp_path) == ["n.npy.vocab.txt"]
    (tmp_path / "bad.npy").write_bytes(b"junk")
    (tmp_path / "bad.npy.vocab.txt").write_text("a\n")
    with pytest.raises(ValueError, match="bad.npy is not a whole"):
        read_vectors(tmp_path / "bad.npy", "numpy")


def test_numbers_that_do_not_fit_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="do not fit float32"):
        write_vectors(lw.WordVectors(["a"], [[1e300, 1]]), tmp_path / "x", "word2vec-binary")
    assert not os.listdir(tmp_path)


# Signals and streams.


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_requests_to_end_leave_nothing_behind(tmp_path, number, status):
    os.mkfifo(tmp_path / "pipe")
    arguments = ["count", "pipe", "-o", "store", "--memory", "64MB"]
    process = subprocess.Popen([sys.executable, "-c", MAIN, *arguments], cwd=tmp_path, stderr=subprocess.PIPE)
    with open(tmp_path / "pipe", "wb") as pipe:  # opens when the command reads
        pipe.write(b"a b c\n" * 1000)
        pipe.flush()
        time.sleep(0.2)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == status and b"Traceback" not in said
    assert os.listdir(tmp_path) == ["pipe"]


def test_closed_standard_streams(tmp_path):
    (tmp_path / "t.txt").write_text("a b a b a b a b a b\n")
    command = f'"{sys.executable}" -c "{MAIN}"'
    for line, status in (
        ("count t.txt -o s1 >&-", 0),
        ("count t.txt -o s2 2>&-", 0),
        ("count t.txt -o s3 >/dev/full 2>&1", 0),
        ("count - -o s4 <&-", 1),
        ("info s1 >&-", 0),
    ):
        found = subprocess.run(
            ["bash", "-c", f"{command} {line}"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert found.returncode == status and "Traceback" not in found.stderr, (line, found.stderr)
    assert "standard input is closed" in found.stderr or (tmp_path / "s3").is_dir()


def test_versions_and_sets_of_one_name(tmp_path):
    assert run_cli("--version").stdout.strip() == lw.__version__
    lw.WordVectors(["a", "b", "c"], np.eye(3) + 0.1 * np.arange(9).reshape(3, 3)).save(tmp_path / "v")
    for folder in "PQ":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "p.txt").write_text("a b 1\nb c 2\n")
    pairs = [tmp_path / "P" / "p.txt", tmp_path / "Q" / "p.txt"]
    told = json.loads(run_cli("evaluate", tmp_path / "v", "--similarity", *pairs, "--json").stdout)
    assert len(told[str(tmp_path / "v")]["similarity"]) == 2


# Arguments in Python.


@pytest.mark.parametrize(
    "counts", [[np.nan], [1.7], [-1], [2**64 - 1], [1e30], ["x"], [1, 2]], ids=lambda counts: str(counts)
)
def test_counts_of_words(counts):
    with pytest.raises((TypeError, ValueError), match="expected"):
        lw.WordVectors(["a"], [[1.0]], counts)


def test_metadata_and_masks():
    for meta in ({"x": object()}, {"x": float("nan")}, [1], "x"):
        with pytest.raises((TypeError, ValueError), match="meta"):
            lw.WordVectors(["a"], [[1.0]], meta=meta)
    with pytest.raises(ValueError, match="masked"):
        lw.WordVectors(["a"], np.ma.masked_array([[1.0]], mask=True))


def test_queries_of_the_wrong_kind(tmp_path):
    vectors = lw.WordVectors(["a", "b"], np.eye(2))
    assert vectors.most_similar([np.array([1e200, 0.0])])[0][1] == 1 == vectors.most_similar([1e-200, 0.0])[0][1]
    assert vectors[(word for word in "ab")].shape == (2, 2)
    for query in (
        lambda: vectors[0],
        lambda: vectors.similarity(["a"], "a"),
        lambda: vectors.neighbors([1]),
        lambda: vectors.doesnt_match("ab"),
        lambda: vectors.subset("ab"),
        lambda: lw.WordVectors.load(tmp_path / "v", dtype="zzz"),
        lambda: lw.evaluate_similarity(5, tmp_path / "v"),
        lambda: lw.evaluate_analogies(5, tmp_path / "v"),
    ):
        with pytest.raises(TypeError, match="expected|takes no options|take no options"):
            query()


def test_counting_options_out_of_range(tmp_path):
    lines = ["a b a"]
    for wrong, message in (
        ({"max_token_bytes": 10**30}, "max_token_bytes"),
        ({"oov": "unk", "unk": "x y"}, "unk holds"),
        ({"oov": "unk", "unk": "\ud800"}, "lone surrogate"),
        ({"vocabulary": ["\ud800"]}, "lone surrogate"),
        ({"keep": ["\ud800"]}, "lone surrogate"),
        ({"tokenizer": lambda line: "abc"}, "row 0 gave 'abc'"),
        ({"tokenizer": lambda line: 5}, "row 0 gave 5"),
        ({"tokenizer": lambda line: ["\ud800"]}, "lone surrogate"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            lw.count(lines=lines, min_count=1, **wrong)
    for rows in ([[["a"]]], [["a", 5]]):
        with pytest.raises(TypeError, match="row 0 holds the token"):
            lw.count(lines=rows, min_count=1)
    with pytest.raises(TypeError, match="binary mode"):
        lw.count(type("Text", (), {"read": lambda self, size=-1: "a b"})(), min_count=1)
    with pytest.raises(TypeError, match="one flat array"):
        lw.count_ids([[0, 1], [1]])
    with pytest.raises(ValueError, match="every id is -1"):
        lw.count_ids([-1, -1])
    counts = lw.count(lines=lines, min_count=1)
    with pytest.raises(TypeError, match=r"merge\(\*stores\)"):
        lw.merge([counts, counts])
    for weight in (["a", "b"], [1e308, 1e308], [np.inf, 1], object()):
        with pytest.raises(ValueError, match="weight"):
            counts.window(2, weight)


def test_sens_arguments_out_of_range():
    counts = lw.count(lines=["a b a c b d a"] * 9, min_count=1)
    for wrong, message in (
        ({"variant": "counts", "power": 100}, "choose a smaller power"),
        ({"weight": [-1] * 5}, "negative"),
        ({"weight": [1e308] * 5}, "weight"),
        ({"shift": 1e39}, "shift"),
        ({"random_state": "x"}, "random_state"),
        ({"random_state": -1}, "random_state"),
        ({"progress": 5}, "progress"),
    ):
        with pytest.raises(ValueError, match=message):
            lw.SENS(n_components=2, **wrong).fit(counts)
    with pytest.raises(TypeError, match="callback"):
        lw.SENS(n_components=2).fit(counts, callback=5)
    with pytest.raises(ValueError, match="no co-occurrences"):
        lw.SENS(n_components=2).fit(counts.window(2) * 0)


def test_a_resume_with_nothing_to_resume_says_so(tmp_path):
    from lagwise.counting import count_to_store

    (tmp_path / "text").write_text("a b c\n" * 20)
    with pytest.warns(UserWarning, match="begins at the beginning"):
        count_to_store(tmp_path / "store", tmp_path / "text", checkpoint=tmp_path / "none", resume=True)
