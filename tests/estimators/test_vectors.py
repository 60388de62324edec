"""Word vectors: look-ups, queries, files of every format (cases P), evaluation (F15)."""

import hashlib
import locale
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest

import lagwise as lw
from lagwise.evaluate import compare_similarity
from lagwise.export import FORMATS, read_vectors, write_vectors

ODD = [
    "a",
    "b c",
    "nbsp\u00a0x",
    "5",
    "0.5",
    "é\u0301",
    "line\u2028sep",
    "tab\tx",
    "nul\0x",
    "\udce9raw",
    "back\\slash",
    "x" * 300,
]


def vectors_of(words, n_dimensions=7, dtype=np.float32, seed=0):
    random = np.random.default_rng(seed).standard_normal((len(words), n_dimensions))
    return lw.WordVectors(words, random.astype(dtype), np.arange(len(words))[::-1])


def test_lookups_and_queries_equal_plain_formulas():
    words = [f"w{i}" for i in range(50)]
    vecs = vectors_of(words)
    unit = vecs.vectors / np.linalg.norm(vecs.vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vecs.unit, unit, rtol=1e-5)
    assert vecs["w3"].tolist() == vecs.vectors[3].tolist() and vecs[["w3", "w1"]].shape == (2, 7)
    cosines = unit @ unit[4]
    cosines[4] = -2
    best = np.argsort(-cosines)[:3]
    found = vecs.most_similar("w4", top=3)
    assert [word for word, _ in found] == [words[i] for i in best]
    np.testing.assert_allclose([score for _, score in found], cosines[best], rtol=1e-5)
    assert [word for word, _ in vecs.neighbors(["w4"], 3)["w4"]] == [word for word, _ in found]
    add = unit @ (unit[1] - unit[0] + unit[2])
    mul = (1 + unit @ unit[1]) / 2 * (1 + unit @ unit[2]) / 2 / ((1 + unit @ unit[0]) / 2 + 0.001)
    for method, scores in (("add", add), ("mul", mul)):
        scores[[0, 1, 2]] = -np.inf
        assert vecs.analogy("w0", "w1", "w2", top=1, method=method)[0][0] == words[int(np.argmax(scores))]
    assert vecs.doesnt_match(["w1"]) == "w1" and vecs.similarity("w1", "w1") == pytest.approx(1)
    assert vecs.subset(["w9", "w2"]).words == ["w9", "w2"]
    assert len(vecs.most_similar("w4", top=99)) == 49
    assert vecs.most_similar(vecs["w4"], top=1)[0][0] == "w4"


def test_unknown_words_are_key_errors_with_close_spellings():
    vecs = vectors_of(["house", "horse"])
    with pytest.raises(KeyError, match="close spellings: "):
        vecs["hause"]
    folded = lw.WordVectors(lw.Vocabulary(["house"], lw.Normalization(lowercase=True)), np.ones((1, 2)))
    assert "House" in folded and folded["HOUSE"].tolist() == [1, 1] and "horse" not in folded


def test_zero_vectors_have_no_direction_and_give_no_nan():
    vecs = lw.WordVectors(["a", "zero", "tiny"], np.array([[1.0, 0], [0, 0], [1e-200, 0]]))
    assert vecs.similarity("a", "zero") == 0 and vecs.similarity("a", "tiny") == pytest.approx(1)
    assert all(np.isfinite(score) for _, score in vecs.most_similar("zero", top=3))
    with pytest.raises(ValueError, match="'b' holds NaN"):
        lw.WordVectors(["a", "b"], [[1.0], [np.nan]])
    with pytest.raises(ValueError, match="one row for each of 2 words"):
        lw.WordVectors(["a", "b"], [[1.0]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_own_files_round_trip_to_the_bit(tmp_path, dtype):
    vecs = vectors_of([*ODD, "new\nline"], dtype=dtype)
    vecs.save(tmp_path / "v")
    again = lw.load(tmp_path / "v")
    assert again.words == vecs.words and again.vectors.dtype == dtype
    assert again.vectors.tobytes() == vecs.vectors.tobytes() and again.counts.tolist() == vecs.counts.tolist()
    first = (tmp_path / "v").read_bytes()
    again.save(tmp_path / "v2")
    assert (tmp_path / "v2").read_bytes() == first
    vecs.save(tmp_path / "half", dtype="float16")
    assert lw.load(tmp_path / "half").vectors.dtype == np.float16


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_p5_foreign_formats_round_trip(tmp_path, format, dtype):
    words = [word for word in ODD if format != "word2vec-binary" or " " not in word]
    vecs = vectors_of(words, dtype=dtype)
    vecs.vectors[0, 0] = -0.0008546282343595379
    texts = format in ("word2vec", "glove")
    with pytest.warns(UserWarning, match="words hold white space") if texts else nullcontext():
        write_vectors(vecs, tmp_path / "f", format)
    again = read_vectors(tmp_path / "f", format, dtype=dtype)
    assert again.words == words
    expected = vecs.vectors.astype(np.float32) if format == "word2vec-binary" else vecs.vectors
    assert again.vectors.astype(dtype).tobytes() == expected.astype(dtype).tobytes()
    if format in ("word2vec", "glove"):
        write_vectors(vecs.subset(["a"]), tmp_path / "f", format, digits=6, overwrite=True)
        assert (
            b"-0.000854628" in (tmp_path / "f").read_bytes() and b"-0.00085462823" not in (tmp_path / "f").read_bytes()
        )


def test_words_that_a_format_cannot_hold(tmp_path):
    for word, format in (("new\nline", "word2vec"), ("b c", "word2vec-binary")):
        with pytest.raises(ValueError, match="cannot"):
            write_vectors(vectors_of([word]), tmp_path / "f", format)
        assert not (tmp_path / "f").exists()


def test_p2_words_that_come_twice(tmp_path):
    (tmp_path / "f").write_text("3 2\na 1 2\nb 3 4\na 5 6\n")
    with pytest.raises(ValueError, match="1 words come again.*'a'"):
        read_vectors(tmp_path / "f", "word2vec")
    with pytest.warns(UserWarning, match="come again"):
        vecs = read_vectors(tmp_path / "f", "word2vec", strict=False)
    assert vecs.words == ["a", "b"] and vecs.vectors.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("rows", [2, 4])
def test_p3_headers_that_lie(tmp_path, rows):
    (tmp_path / "f").write_text("3 2\n" + "".join(f"w{i} {i} 1\n" for i in range(rows)))
    with pytest.raises(ValueError, match=f"header says 3 words, the file holds {rows}"):
        read_vectors(tmp_path / "f", "word2vec")
    with pytest.warns(UserWarning, match="header says 3"):
        assert len(read_vectors(tmp_path / "f", "word2vec", strict=False)) == rows


def test_p3_files_without_a_header(tmp_path):
    (tmp_path / "f").write_text("5 1\n6 2\n")
    assert read_vectors(tmp_path / "f", "glove").words == ["5", "6"]
    with pytest.raises(ValueError, match="header says 5 words, the file holds 1"):
        read_vectors(tmp_path / "f", "word2vec")
    (tmp_path / "g").write_text("the 1 2\n")
    with pytest.raises(ValueError, match=r"line 1: expected a header.*glove"):
        read_vectors(tmp_path / "g", "word2vec")
    (tmp_path / "h").write_text("a 1 2\nb 1\n")
    with pytest.raises(ValueError, match="line 2"):
        read_vectors(tmp_path / "h", "glove")


def test_p6_numbers_have_points_in_every_locale(tmp_path):
    try:
        old = locale.setlocale(locale.LC_ALL)
        locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    except locale.Error:
        old = None  # the locale is not installed; the rest still holds
    try:
        write_vectors(lw.WordVectors(["a"], [[0.5]]), tmp_path / "f", "glove")
        assert (tmp_path / "f").read_text() == "a 0.5\n"
        assert read_vectors(tmp_path / "f", "glove").vectors.tolist() == [[0.5]]
        (tmp_path / "g").write_text("1 1\na 0,5\n")
        with pytest.raises(ValueError, match="'0,5' is not a number"):
            read_vectors(tmp_path / "g", "word2vec")
    finally:
        if old is not None:
            locale.setlocale(locale.LC_ALL, old)


def test_p8_a_killed_save_leaves_the_old_file(tmp_path):
    vectors_of(["old"]).save(tmp_path / "v")
    before = (tmp_path / "v").read_bytes()
    script = (
        "import sys, numpy as np, lagwise as lw\n"
        "vecs = lw.WordVectors([f'w{i}' for i in range(400_000)], np.zeros((400_000, 100), np.float32))\n"
        "print('ready', flush=True)\nwhile True:\n"
        "  for end in ('.other', ''): vecs.save(sys.argv[1] + end, overwrite=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "v")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    now = lw.load(tmp_path / "v")
    assert (tmp_path / "v").read_bytes() == before or len(now) == 400_000


def test_p8_a_full_disk_leaves_the_old_file(tmp_path):
    vectors_of(["old"]).save(tmp_path / "v")
    before = (tmp_path / "v").read_bytes()
    script = (
        "import resource, signal, sys, numpy as np, lagwise as lw\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "vecs = lw.WordVectors([f'w{i}' for i in range(5000)], np.zeros((5000, 100), np.float32))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))\n"
        "try: vecs.save(sys.argv[1], overwrite=True)\nexcept OSError as error: print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "v")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "OSError\n", done.stderr
    assert os.listdir(tmp_path) == ["v"] and (tmp_path / "v").read_bytes() == before


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_p9_nothing_is_unpickled(tmp_path):
    (tmp_path / "evil").write_bytes(pickle.dumps(Trap(tmp_path / "touched")))
    np.save(tmp_path / "evil.npy", np.array([Trap(tmp_path / "touched")], dtype=object), allow_pickle=True)
    (tmp_path / "evil.npy.vocab.txt").write_text("a\n")
    with pytest.raises(ValueError, match="not a lagwise file"):
        lw.load(tmp_path / "evil")
    for format in FORMATS:
        with pytest.raises(ValueError):
            read_vectors(tmp_path / "evil.npy", format)
    assert not (tmp_path / "touched").exists()


def test_p11_versions_of_files(tmp_path):
    vectors_of(["a"]).save(tmp_path / "v")
    raw = (tmp_path / "v").read_bytes()
    (tmp_path / "new").write_bytes(raw.replace(b'\\"version\\": 1', b'\\"version\\": 9'))
    with pytest.raises(ValueError, match="version 9"):
        lw.load(tmp_path / "new")
    (tmp_path / "short").write_bytes(raw[:-3])
    with pytest.raises(ValueError, match="cut short"):
        lw.load(tmp_path / "short")


def test_f15_evaluation_counts_unknown_words_and_changes_nothing(tmp_path):
    vecs = vectors_of(["a", "b", "c", "d", "e"])
    digest = hashlib.sha256(vecs.vectors.tobytes()).hexdigest()
    (tmp_path / "pairs.txt").write_text("a b 1\na C 2\r\n\nb d\t3\nx y 9\n")
    result = lw.evaluate_similarity(vecs, tmp_path / "pairs.txt", case="lower")
    assert (result.n_pairs, result.n_used) == (4, 3) and -1 <= result.low <= result.rho <= result.high <= 1
    assert lw.evaluate_similarity(vecs, tmp_path / "pairs.txt", oov="zero").n_used == 4
    from scipy.stats import spearmanr

    cosines = [vecs.similarity(a, b) for a, b in ("ab", "ac", "bd")]
    assert result.rho == pytest.approx(spearmanr(cosines, [1, 2, 3]).statistic)
    (tmp_path / "q.txt").write_text(": capital\na b c d\na b c x\n: gram1-x\nb a d e\n")
    answers = lw.evaluate_analogies(vecs, tmp_path / "q.txt")
    right = [vecs.analogy("a", "b", "c", 1)[0][0] == "d", vecs.analogy("b", "a", "d", 1)[0][0] == "e"]
    assert answers.sections == {"capital": (int(right[0]), 1, 1), "gram1-x": (int(right[1]), 1, 0)}
    assert answers.total("semantic")[1:] == (1, 1) and answers.total()[1] == 2
    zero = lw.evaluate_analogies(vecs, tmp_path / "q.txt", oov="zero", method="mul")
    assert zero.sections["capital"][1:] == (2, 1)
    assert hashlib.sha256(vecs.vectors.tobytes()).hexdigest() == digest
    (tmp_path / "bad.txt").write_text("a b\n")
    with pytest.raises(ValueError, match=r"bad\.txt, line 1"):
        lw.evaluate_similarity(vecs, tmp_path / "bad.txt")
    (tmp_path / "binary.txt").write_bytes(b"a \xff 1\n")
    with pytest.raises(ValueError, match=r"binary\.txt is not UTF-8"):
        lw.evaluate_similarity(vecs, tmp_path / "binary.txt")
    with pytest.raises(ValueError, match="line 1: expected four words"):
        lw.evaluate_analogies(vecs, tmp_path / "bad.txt")


def test_comparing_a_model_with_itself(tmp_path):
    vecs = vectors_of(["a", "b", "c", "d", "e"])
    (tmp_path / "p").write_text("a b 1\na c 2\nb d 3\nc e 2\n")
    same = compare_similarity(vecs, vecs, tmp_path / "p")
    assert same["difference"] == 0 and same["p"] == 1 and same["n"] == 4


def test_gensim_there_and_back():
    pytest.importorskip("gensim")
    vecs = vectors_of(["a", "b", "c"])
    again = lw.WordVectors.from_gensim(vecs.to_gensim())
    assert again.words == vecs.words and again.vectors.tobytes() == vecs.vectors.tobytes()
    assert again.counts.tolist() == vecs.counts.tolist()


def test_numpy_vectors_with_words_that_do_not_fit(tmp_path):
    np.save(tmp_path / "v.npy", np.arange(6.0).reshape(3, 2))
    for text, kept in ((b"a\nb\na\n", ["a", "b"]), (b"a\nb\n", ["a", "b"]), (b"a\nb\nc\nd\n", ["a", "b", "c"])):
        (tmp_path / "v.npy.vocab.txt").write_bytes(text)
        with pytest.raises(ValueError, match="strict=False"):
            read_vectors(tmp_path / "v.npy", "numpy")
        with pytest.warns(UserWarning):
            found = read_vectors(tmp_path / "v.npy", "numpy", strict=False)
        assert list(found.vocabulary) == kept and found["b"].tolist() == [2.0, 3.0]
