"""Inputs on which programs of this kind have gone wrong: text and counting (cases I and K)."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import zstandard

import lagwise as lw
from lagwise import sources
from tests.support import run_cli, same_store


def pairs(counts, k=1):
    matrix = counts.lag(k).tocoo()
    return {
        (counts.vocabulary[i], counts.vocabulary[j]): int(n) for i, j, n in zip(matrix.row, matrix.col, matrix.data)
    }


def test_i1_last_line_without_newline(tmp_path):
    stores = []
    for number, raw in enumerate((b"a b\nc d", b"a b\nc d\n")):
        file = tmp_path / f"{number}.txt"
        file.write_bytes(raw)
        counts = lw.count(file, min_count=1)
        assert counts.n_tokens == 4 and int(counts.unigrams.sum()) == 4 and counts.n_lines == 2
        assert pairs(counts) == {("a", "b"): 1, ("c", "d"): 1}
        counts.save(tmp_path / f"store{number}")
        stores.append(tmp_path / f"store{number}")
    same_store(*stores)


def test_i2_every_form_of_input_gives_the_same_bytes(tmp_path):
    raw = b"a b\nc d"
    plain = tmp_path / "text"
    plain.write_bytes(raw)
    lw.count(plain, min_count=1).save(tmp_path / "plain")
    for name, pack in {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": zstandard.ZstdCompressor().compress,
    }.items():
        (tmp_path / f"packed.{name}").write_bytes(pack(raw))
        lw.count(tmp_path / f"packed.{name}", min_count=1).save(tmp_path / name)
        (tmp_path / f"twice.{name}").write_bytes(pack(raw[:3]) + pack(raw[3:]))  # several members are one text
        lw.count(tmp_path / f"twice.{name}", min_count=1, n_threads=1).save(tmp_path / f"twice-{name}")
        same_store(tmp_path / "plain", tmp_path / name)
        same_store(tmp_path / "plain", tmp_path / f"twice-{name}")
    lw.count(lines=["a b", "c d"], min_count=1).save(tmp_path / "lines")
    lw.count(lines=[["a", "b"], ["c", "d"]], min_count=1).save(tmp_path / "tokens")
    run_cli("count", "-", "-o", tmp_path / "stdin", "--min-count", 1, input=raw)
    run_cli("count", plain, "-o", tmp_path / "direct", "--min-count", 1, "--threads", 3)
    for name in ("lines", "tokens", "stdin", "direct"):
        same_store(tmp_path / "plain", tmp_path / name)


def test_i4_nul_bytes_stay_in_their_token(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"a\x00b c\nc a\x00b\n")
    counts = lw.count(file, min_count=1)
    assert dict(zip(counts.vocabulary, counts.unigrams.tolist())) == {"a\0b": 2, "c": 2}
    counts.save(tmp_path / "store")
    assert lw.load(tmp_path / "store").vocabulary.words == counts.vocabulary.words


@pytest.mark.parametrize("block", [1 << 10, 1 << 22])
def test_i5_token_of_five_megabytes(tmp_path, monkeypatch, block):
    monkeypatch.setattr(sources, "BLOCK_BYTES", block)
    file = tmp_path / "text"
    file.write_bytes(b"x" * 5_000_000 + b"\na b\n")
    counts = lw.count(file, min_count=1, max_lag=1)
    assert len(counts.vocabulary) == 3 and pairs(counts) == {("a", "b"): 1}
    with pytest.warns(UserWarning, match="1 tokens longer than max_token_bytes=1000"):
        counts = lw.count(file, min_count=1, max_lag=1, max_token_bytes=1000)
    assert counts.vocabulary.words == ["a", "b"] and counts.n_tokens == 3


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_i7_tokens_and_characters_across_buffer_ends(tmp_path, monkeypatch, block):
    monkeypatch.setattr(sources, "BLOCK_BYTES", block)
    file = tmp_path / "text"
    file.write_bytes("é ".encode() * 1001)
    for n_threads in (1, 2):
        counts = lw.count(file, min_count=1, n_threads=n_threads)
        assert counts.vocabulary.words == ["é"] and counts.unigrams.tolist() == [1001]


def test_i8_carriage_returns_are_white_space():
    for pack in (bytes, gzip.compress):
        assert lw.count(io.BytesIO(pack(b"a b\r\nc d\r\n")), min_count=1).vocabulary.words == ["a", "b", "c", "d"]
    assert pairs(lw.count(io.BytesIO(b"a b\rc d"), min_count=1)) == {("a", "b"): 1, ("b", "c"): 1, ("c", "d"): 1}


def test_i10_bytes_that_are_not_utf8(tmp_path):
    file = tmp_path / "latin.txt"
    file.write_bytes(b"caf\xe9 b\n")
    native, custom = {}, {"tokenizer": str.split}
    for way in (native, custom):
        with pytest.raises(UnicodeError, match=r"latin\.txt, line 1, byte 3: 0xe9"):
            lw.count(file, min_count=1, **way)
        assert lw.count(file, min_count=1, errors="replace", **way).vocabulary.words == ["b", "caf\ufffd"]
        kept = lw.count(file, min_count=1, errors="surrogateescape", **way)
        assert [w.encode("utf-8", "surrogateescape") for w in kept.vocabulary] == [b"b", b"caf\xe9"]
        kept.save(tmp_path / "store", overwrite=True)
        assert lw.load(tmp_path / "store").vocabulary.words == kept.vocabulary.words
    done = run_cli("count", file, "-o", tmp_path / "none", check=False)
    assert done.returncode == 1 and "line 1, byte 3" in done.stderr and not (tmp_path / "none").exists()


@pytest.mark.parametrize("block", [4, 16, 1 << 20])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_i10_the_place_is_right_far_into_a_file(tmp_path, monkeypatch, block, n_threads):
    monkeypatch.setattr(sources, "BLOCK_BYTES", block)
    (tmp_path / "a.txt").write_bytes(b"fine\n" * 30)
    (tmp_path / "b.txt").write_bytes(b"one two\n" * 20 + b"three four five \xff six\n")
    with pytest.raises(UnicodeError, match=r"b\.txt, line 21, byte 16: 0xff"):
        lw.count([tmp_path / "a.txt", tmp_path / "b.txt"], n_threads=n_threads)


def test_i11_only_ascii_white_space_separates(tmp_path):
    text = "a\u00a0b c\x85d\u2028e\x0bf\x1cg"
    (tmp_path / "text").write_bytes(text.encode())
    for counts in (
        lw.count(tmp_path / "text", min_count=1),
        lw.count(lines=[text], min_count=1),
        lw.count(lines=iter([text]), min_count=1, lowercase=True),
    ):
        assert set(counts.vocabulary) == {"a\u00a0b", "c\x85d\u2028e", "f\x1cg"} and counts.n_lines == 1


def test_i13_paths_and_lines_are_never_mixed_up(tmp_path):
    assert set(lw.count(lines=["a b", "c d"], min_count=1).vocabulary) == {"a", "b", "c", "d"}
    with pytest.raises(FileNotFoundError, match="a b"):
        lw.count("a b")
    with pytest.raises(TypeError, match="lines="):
        lw.count(lines="a b")
    with pytest.raises(TypeError, match="lines="):
        lw.count(line for line in ["a b"])
    with pytest.raises(TypeError, match="no text given"):
        lw.count()
    for name in "xy":
        (tmp_path / f"{name}.txt").write_text(f"{name} {name}\n")
    counts = lw.count([str(tmp_path / "x.txt"), str(tmp_path / "y.txt")], min_count=1)
    assert counts.vocabulary.words == ["x", "y"] and counts.n_lines == 2
    assert lw.count(tmp_path, min_count=1).n_tokens == lw.count(str(tmp_path / "*.txt"), min_count=1).n_tokens == 4


def test_i14_generators_are_read_once():
    generator = iter(["a b", "c d"])
    assert lw.count(lines=generator, min_count=1).n_tokens == 4
    with pytest.raises(ValueError, match="no tokens"):
        lw.count(lines=generator, min_count=1)


def test_i16_pipes_and_damaged_archives(tmp_path):
    raw = b"a b c\n" * 5000
    file = tmp_path / "text"
    file.write_bytes(raw)
    lw.count(file).save(tmp_path / "whole")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    feeder = threading.Thread(target=lambda: fifo.write_bytes(raw))
    feeder.start()
    lw.count(fifo).save(tmp_path / "fifo-store")
    feeder.join()
    same_store(tmp_path / "whole", tmp_path / "fifo-store")
    run_cli("count", "/dev/stdin", "-o", tmp_path / "stdin", input=raw)
    same_store(tmp_path / "whole", tmp_path / "stdin")
    for pack in (gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress):
        cut = tmp_path / "cut"
        cut.write_bytes(pack(os.urandom(3000).hex().encode())[:-10])
        done = run_cli("count", cut, "-o", tmp_path / "none", check=False)
        assert done.returncode == 1 and "cut" in done.stderr and not (tmp_path / "none").exists()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_i17_lines_of_one_word():
    counts = lw.count(io.BytesIO(b"a\nb\na\n"), min_count=1)
    assert dict(zip(counts.vocabulary, counts.unigrams.tolist())) == {"a": 2, "b": 1}
    assert all(counts.lag(k).nnz == 0 for k in range(1, 8)) and counts.window(5).nnz == 0


def test_i19_the_unknown_symbol_in_the_text():
    lines = ["<unk> a <unk> zz"]
    with pytest.raises(ValueError, match="unknown symbol '<unk>' .2 times"):
        lw.count(lines=lines, min_count=2, oov="unk")
    merged = lw.count(lines=lines, min_count=2, oov="unk", merge_unk=True)
    assert merged.vocabulary.words == ["<unk>"] and merged.unigrams.tolist() == [4]
    other = lw.count(lines=["a a zz"], min_count=2, oov="unk")
    assert dict(zip(other.vocabulary, other.unigrams.tolist())) == {"a": 2, "<unk>": 1}


def test_k1_the_cut_goes_by_true_counts():
    words = []
    for number in range(10_000):
        words.append(f"w{number:05}")
        if number % 1000 == 999:
            words.append("z")
    for n_threads in (1, 2, 3):
        counts = lw.count(lines=[" ".join(words)], min_count=1, max_size=5, n_threads=n_threads)
        assert counts.vocabulary.words == ["z", "w00000", "w00001", "w00002", "w00003"]
        assert counts.unigrams[0] == 10


def test_k3_words_that_are_always_kept():
    counts = lw.count(lines=["a a a a a rare"], min_count=5, keep=["rare", "never"])
    assert dict(zip(counts.vocabulary, counts.unigrams.tolist())) == {"a": 5, "rare": 1, "never": 0}
    assert counts.lag(1).toarray()[counts.vocabulary.id("never")].sum() == 0


def test_k4_boundaries():
    raw = b"a b\nc d\n"
    assert pairs(lw.count(io.BytesIO(raw), min_count=1, max_lag=3)) == {("a", "b"): 1, ("c", "d"): 1}
    stream = lw.count(io.BytesIO(raw), min_count=1, max_lag=3, boundary="none")
    assert pairs(stream) == {("a", "b"): 1, ("b", "c"): 1, ("c", "d"): 1}
    two_files = lw.count([io.BytesIO(raw), io.BytesIO(raw)], min_count=1, max_lag=1, boundary="none")
    assert ("d", "a") not in pairs(two_files)


def test_k6_k7_windows():
    counts = lw.count(lines=["a b a"], min_count=1)
    assert counts.window(2).toarray().tolist() == [[2, 2], [2, 0]]
    for weight in ("harmonic", "linear"):
        X = counts.window(2, weight).toarray()
        assert X.tolist() == [[1, 2], [2, 0]] and (X == X.T).all()
    counts = lw.count(lines=["a a a"], min_count=1)
    assert counts.lag(1).toarray().tolist() == [[2]] and counts.lag(2).toarray().tolist() == [[1]]
    assert counts.window(1).toarray().tolist() == [[4]] and counts.window(2).toarray().tolist() == [[6]]


def test_k9_windows_beyond_the_line():
    for counts in (lw.count(lines=["a b"], min_count=1, max_lag=10), lw.count(lines=["a b"], min_count=1, window=10)):
        assert counts.window(10).toarray().tolist() == [[0, 1], [1, 0]]
    assert lw.count(lines=["a b"], min_count=1, window=10, weight="linear").window().toarray()[0, 1] == 1.0
    for wrong in (0, -1, 1.5, "5", True):
        with pytest.raises(ValueError, match="window is"):
            lw.count(lines=["a b"], window=wrong)
        with pytest.raises(ValueError, match="max_lag is"):
            lw.count(lines=["a b"], max_lag=wrong)
    with pytest.raises(ValueError, match="both given"):
        lw.count(lines=["a b"], window=2, max_lag=2)


def test_k12_counts_beyond_single_precision():
    line = b"a b\n" * 1_000_000
    counts = lw.count([io.BytesIO(line) for _ in range(18)], max_lag=1)
    assert counts.lag(1)[counts.vocabulary.id("a"), counts.vocabulary.id("b")] == 18_000_000
    assert counts.unigrams.dtype == np.int64


def test_k13_threads_and_blocks_change_no_byte(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    text = "\n".join(" ".join(f"w{int(n)}" for n in rng.zipf(1.3, size=40) if n < 5000) for _ in range(4000))
    (tmp_path / "text").write_text(text)
    for number, (n_threads, block) in enumerate([(1, 1 << 22), (2, 10_007), (3, 99_991), (8, 4099)]):
        monkeypatch.setattr(sources, "BLOCK_BYTES", block)
        for kind in ({"max_lag": 5}, {"window": 5, "weight": "harmonic"}):
            counts = lw.count(tmp_path / "text", n_threads=n_threads, **kind)
            name = tmp_path / f"{'lag' if 'max_lag' in kind else 'window'}{number}"
            counts.save(name)
            same_store(name, tmp_path / f"{name.name[:-1]}0")


def test_k18_things_that_are_no_store(tmp_path):
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="not a lagwise file"):
        lw.load(tmp_path / "vocab.txt")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="not a count store"):
        lw.load(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        lw.load(tmp_path / "nothing")
    counts = lw.count(lines=["a b c a b"], min_count=1)

    def damaged(match, harm, verify=False):
        counts.save(tmp_path / "store", overwrite=True)
        harm(tmp_path / "store")
        with pytest.raises(ValueError, match=match):
            lw.CountStore.load(tmp_path / "store", verify=verify)

    def cut(folder):
        file = folder / "lag1.indices.npy"
        file.write_bytes(file.read_bytes()[:-4])

    def rename_word(folder):
        (folder / "vocabulary.txt").write_text("a\nb\n")

    def newer(folder):
        meta = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps({**meta, "version": 99}))

    def flip(folder):
        file = folder / "lag1.data.npy"
        raw = bytearray(file.read_bytes())
        raw[-1] ^= 1
        file.write_bytes(bytes(raw))

    damaged("cannot be read", cut)
    damaged("holds 2 words", rename_word)
    damaged("store format 99", newer)
    damaged("checksum", flip, verify=True)


def test_stores_are_not_overwritten_by_accident(tmp_path):
    counts = lw.count(lines=["a b"], min_count=1)
    counts.save(tmp_path / "store")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        counts.save(tmp_path / "store")
    lw.count(lines=["c d e"], min_count=1).save(tmp_path / "store", overwrite=True)
    assert len(lw.load(tmp_path / "store").vocabulary) == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError, match="never overwritten"):
        counts.save(tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        counts.save(tmp_path / "no" / "such" / "place")
    assert sorted(os.listdir(tmp_path)) == ["mine", "store"]


@pytest.mark.parametrize("target", ["/dev/null", "/dev/full"])
def test_k16_a_device_is_never_renamed_over(target):
    with pytest.raises(FileExistsError, match="not a folder"):
        lw.count(lines=["a b"], min_count=1).save(target, overwrite=True)
    assert not os.path.isdir(target)


def test_k16_a_full_disk_leaves_the_old_store(tmp_path):
    lw.count(lines=["a b"], min_count=1).save(tmp_path / "store")
    before = {file.name: file.read_bytes() for file in (tmp_path / "store").iterdir()}
    script = (
        "import resource, sys, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "from lagwise.counting import count_to_store\n"
        "try: count_to_store(sys.argv[1], lines=[' '.join(f'w{i}' for i in range(20000))], min_count=1, overwrite=True)\n"
        "except OSError as error: print('OSError', error.filename)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("OSError") and ".npy" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == ["store"]
    assert {file.name: file.read_bytes() for file in (tmp_path / "store").iterdir()} == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to become an unprivileged user")
def test_k16_a_folder_that_cannot_be_written(tmp_path):
    os.chmod(tmp_path, 0o755)
    script = (
        "import os, sys, lagwise as lw\nfrom lagwise.counting import count\nimport numpy, scipy.sparse\n"
        "counts = count(lines=['a b'], min_count=1)\nimport lagwise.store\nos.setuid(65534)\n"
        "try: counts.save(sys.argv[1])\nexcept OSError as error: print('OSError', error.filename)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith(f"OSError {tmp_path}"), done.stderr
    assert os.listdir(tmp_path) == []


def test_a6_rows_that_are_no_text():
    with pytest.raises(TypeError, match="row 1"):
        lw.count(lines=["a b", None, 3.0])
    with pytest.raises(TypeError, match="row 0"):
        lw.count(lines=[None, "a"])
    with pytest.raises(TypeError, match="row 2"):
        lw.count(lines=[["a"], ["b"], "c"])
    with pytest.raises(TypeError, match="row 0"):
        lw.count(lines=[b"bytes"])


def test_a3_read_only_inputs():
    ids = np.array([0, 1, 2, 1, 0])
    ids.flags.writeable = False
    before = ids.tobytes()
    assert lw.count_ids(ids, max_lag=1).lag(1).sum() == 4 and ids.tobytes() == before


def test_k9_errors_name_the_option():
    for option, value in {
        "boundary": "lines",
        "oov": "gap",
        "tokenizer": "word",
        "errors": "ignore",
        "digits": "1",
    }.items():
        with pytest.raises(ValueError, match=option):
            lw.count(lines=["a"], **{option: value})
    with pytest.raises(ValueError, match="punctuation"):
        lw.count(lines=["a"], punctuation="drop")
    with pytest.raises(TypeError, match="unexpected keyword"):
        lw.count(lines=["a"], windows=3)


def test_long_lines_and_empty_texts(tmp_path):
    counts = lw.count(lines=[" ".join(["a", "b"] * 100_000 + ["a"])], max_lag=2)
    assert counts.longest_line == 200_001 and counts.lag(2).sum() == 199_999
    for text in (b"", b"\n\n  \n", b"\xef\xbb\xbf"):
        with pytest.raises(ValueError, match="no tokens"):
            lw.count(io.BytesIO(text))
    with pytest.raises(ValueError, match="min_count=5"):
        lw.count(io.BytesIO(b"a b c"))


def test_byte_order_mark_is_dropped():
    assert lw.count(io.BytesIO(b"\xef\xbb\xbfa b"), min_count=1).vocabulary.words == ["a", "b"]


def test_filters():
    lines = ["alpha alpha beta 12 Gamma gamma delta"]
    assert set(lw.count(lines=lines, min_count=1, pattern="[a-z]+").vocabulary) == {"alpha", "beta", "gamma", "delta"}
    assert set(lw.count(lines=lines, min_count=1, wordlist=["beta"], wordlist_exempt=1).vocabulary) == {"alpha", "beta"}
    fixed = lw.count(lines=lines, vocabulary=["beta", "zeta", "alpha"])
    assert fixed.vocabulary.words == ["beta", "zeta", "alpha"] and fixed.unigrams.tolist() == [1, 0, 2]
