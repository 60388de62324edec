"""Bad input gets one clear line that says what came, what was expected and what to do; nothing is lost or half-written."""

import json
import os
import resource
import subprocess
import sys

import numpy as np
import pytest

import lagwise as lw
from lagwise.export import write_vectors
from tests.support import cli, same_store


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a b c a b d b a c a b\nb c d a c b c b d a c\n" * 20)
    return path


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors"
    lw.WordVectors(["a", "b", "c", "d"], np.random.default_rng(0).standard_normal((4, 3))).save(path)
    return path


def refused(*arguments, status=1):
    """The one line with which the command line refuses."""
    found, _, err = cli(*arguments)
    assert found == status, err
    assert "Traceback" not in err and "Errno" not in err
    return err


def done(*arguments):
    """Output and errors of a command that must succeed."""
    status, out, err = cli(*arguments)
    assert status == 0, err
    return out, err


# Nothing is overwritten unasked.


def test_no_save_overwrites_by_default(tmp_path, text):
    counts = lw.count(text)
    hmm = lw.HMM(n_states=2, n_iter=3, tol=0, random_state=0)
    with pytest.warns(UserWarning):
        hmm.fit([[0, 1, 2, 1], [2, 1, 0]])
    tagger = lw.HMMTagger().fit([["a", "b"]], [["X", "Y"]])
    models = [
        counts,
        lw.WordVectors(["a"], [[1.0]]),
        hmm,
        tagger,
        lw.LDS(n_components=1, n_iter=0, ssid_lags=2).fit(counts),
    ]
    for number, model in enumerate(models):
        path = tmp_path / f"saved{number}"
        model.save(path)
        with pytest.raises(FileExistsError, match="overwrite=True"):
            model.save(path)
        model.save(path, overwrite=True)
    write_vectors(models[1], tmp_path / "words.txt", "glove")
    with pytest.raises(FileExistsError):
        write_vectors(models[1], tmp_path / "words.txt", "glove")


def test_outputs_are_refused_before_any_work(tmp_path, text, vectors):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    done("count", text, "-o", tmp_path / "store")
    (tmp_path / "tagged.tsv").write_text("a\tX\n")
    done("hmm", "fit", "--tagged", tmp_path / "tagged.tsv", "-o", tmp_path / "tagger")
    for command in (
        ["sens", tmp_path / "store"],
        ["lds", tmp_path / "store"],
        ["hmm", "fit", text],
        ["hmm", "fit", "--tagged", tmp_path / "tagged.tsv"],
        ["hmm", "tag", tmp_path / "tagger", text],
        ["export", vectors, "--format", "glove"],
    ):
        assert "--force" in refused(*command, "-o", taken)
        assert "does not exist" in refused(*command, "-o", tmp_path / "no" / "place")
        assert "is a folder" in refused(*command, "-o", tmp_path)
    assert taken.read_text() == "mine"


def test_no_command_writes_over_its_input(tmp_path, text, vectors):
    before = vectors.read_bytes(), text.read_bytes()
    os.link(vectors, tmp_path / "same")
    assert "also the input" in refused("export", vectors, "-o", vectors, "--format", "glove", "--force")
    assert "also the input" in refused("export", vectors, "-o", tmp_path / "same", "--format", "glove", "--force")
    done("hmm", "fit", text, "-o", tmp_path / "hmm", "--states", 2, "--iterations", 2)
    assert "also the input" in refused("hmm", "tag", tmp_path / "hmm", text, "-o", text, "--force")
    assert "also the input" in refused("hmm", "fit", text, "-o", text, "--force")
    assert (vectors.read_bytes(), text.read_bytes()) == before


# Numbers out of range.


def test_numbers_out_of_range_on_the_command_line(tmp_path, text, vectors):
    assert "--top" in refused("similar", vectors, "a", "-n", -1, status=2)
    assert "--top" in refused("info", vectors, "--top", -1, status=2)
    assert "--digits" in refused("export", vectors, "-o", tmp_path / "x", "--format", "glove", "--digits", -1, status=2)
    assert "--seed" in refused("count", text, "-o", tmp_path / "x", "--seed", 2**64, status=2)
    assert "max_lag is 100000" in refused("count", text, "-o", tmp_path / "x", "--max-lag", 100000)
    assert not (tmp_path / "x").exists() and not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_as_many_lags_as_allowed_need_few_open_files(tmp_path, text):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
    try:
        from lagwise.counting import count_to_store

        counts = count_to_store(tmp_path / "store", text, max_lag=100, min_count=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert counts.lag(1).sum() == 400 and counts.lag(100).nnz == 0


def test_sizes_beyond_the_text_or_the_machine(tmp_path, text):
    done("count", text, "-o", tmp_path / "store")
    assert "Hankel rank 12 < 1000000" in refused("lds", tmp_path / "store", "-o", tmp_path / "x", "--dim", 1000000)
    assert "choose a smaller" in refused("hmm", "fit", text, "-o", tmp_path / "x", "--states", 10000000)
    assert "dim" in refused("sens", tmp_path / "store", "-o", tmp_path / "x", "--dim", 1000000)


@pytest.mark.parametrize("largest", [10**12, 2**31, 2**31 - 1, 1 << 20])
def test_sparse_ids_without_a_vocabulary(largest):
    with pytest.raises(ValueError, match="number the ids anew"):
        lw.count_ids([0, largest])
    assert len(lw.count_ids([0, (1 << 20) - 1], window=1).vocabulary) == 1 << 20


# Evaluation.


def test_scores_that_are_no_numbers(tmp_path, vectors):
    pairs = tmp_path / "pairs.txt"
    for score in ("nan", "inf", "-inf", "high"):
        pairs.write_text(f"a b 1\nb c {score}\n")
        assert "pairs.txt, line 2" in refused("evaluate", vectors, "--similarity", pairs)
    for content, message in (("", "holds no pairs"), ("\n \n", "holds no pairs"), ("a b 1\nb c 1\n", "nothing to cor")):
        pairs.write_text(content)
        assert message in refused("evaluate", vectors, "--similarity", pairs)
        assert message[:8] in refused("evaluate", vectors, "--analogies", pairs) or content.startswith("a")
    (tmp_path / "empty").mkdir()
    assert "holds no .txt files" in refused("evaluate", vectors, "--similarity", tmp_path / "empty")
    assert "no questions" in refused_questions(tmp_path, vectors, ": section\n")
    for wrong in (None, ["a b 1"], 3):
        with pytest.raises(TypeError, match="expected the path of a file"):
            lw.evaluate_similarity(lw.load(vectors), wrong)


def refused_questions(tmp_path, vectors, content):
    (tmp_path / "questions.txt").write_text(content)
    return refused("evaluate", vectors, "--analogies", tmp_path / "questions.txt")


def test_what_cannot_be_measured_says_so(tmp_path, vectors):
    (tmp_path / "unknown.txt").write_text("x y 1\nx z 2\n")
    (tmp_path / "known.txt").write_text("a b 1\na c 2\nb d 3\n")
    (tmp_path / "questions.txt").write_text(": s\nx y z w\n")
    both = ["--similarity", tmp_path / "unknown.txt", tmp_path / "known.txt", "--analogies", tmp_path / "questions.txt"]
    shown = done("evaluate", vectors, *both)[0]
    assert "not defined" in shown and "not asked" in shown
    result = json.loads(done("evaluate", vectors, *both, "--json")[0])[str(vectors)]
    assert result["similarity"]["unknown"]["spearman"] is None and result["analogies"]["all"] is None
    assert result["average"] == result["similarity"]["known"]["spearman"]
    assert not lw.evaluate_similarity(lw.load(vectors), tmp_path / "unknown.txt").defined


# Word lists.


def test_word_lists_that_hold_no_words(tmp_path, text):
    (tmp_path / "empty").write_text("\n\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "spaced").write_text("a\nNew York\n")
    out = ["-o", tmp_path / "x"]
    for option in ("--keep", "--vocabulary", "--wordlist"):
        assert "holds no words" in refused("count", text, *out, option, tmp_path / "empty")
        assert "NUL" in refused("count", text, *out, option, tmp_path / "binary")
        assert option in refused("count", text, *out, option, tmp_path / "missing", status=2)
        assert option in refused("count", text, *out, option, tmp_path, status=2)
    for option in ("--keep", "--vocabulary"):
        assert "'New York'" in refused("count", text, *out, option, tmp_path / "spaced")
    with pytest.raises(ValueError, match="vocabulary= is empty"):
        lw.count(text, vocabulary=[])
    for wrong in ({"keep": 3}, {"keep": ["a", 3]}, {"vocabulary": ["a", ""]}, {"wordlist": 1.5}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            lw.count(text, **wrong)
    phrases = lw.count(lines=[["New York", "a"]], vocabulary=["New York"], tokenizer=str.split)
    assert phrases.vocabulary.words == ["New York"]


def test_words_with_spaces_are_exported_with_a_warning(tmp_path):
    vectors = lw.WordVectors(["New York", "a"], np.eye(2))
    vectors.save(tmp_path / "v")
    for format in ("word2vec", "glove"):
        _, err = done("export", tmp_path / "v", "-o", tmp_path / format, "--format", format)
        assert "lagwise: warning: 1 words hold white space" in err
        with pytest.warns(UserWarning, match="'New York'"):
            write_vectors(vectors, tmp_path / "again", format, overwrite=True)
    _, err = done("export", tmp_path / "v", "-o", tmp_path / "glove", "--format", "glove", "-q", "--force")
    assert err == ""


# Text and options in the words of the command line.


def test_errors_speak_the_language_of_the_command_line(tmp_path, text):
    (tmp_path / "latin").write_bytes(b"caf\xe9 a b\n")
    (tmp_path / "file").write_text("")
    out = ["-o", tmp_path / "x"]
    message = refused("count", tmp_path / "latin", *out)
    assert "--errors replace" in message and 'errors="' not in message
    assert "pattern is '('" in refused("count", text, *out, "--pattern", "(")
    assert "checkpoint" in refused("count", text, *out, "--checkpoint", tmp_path / "file")
    message = refused("count", tmp_path / "missing", *out)
    assert "does not exist" in message and "lines=" not in message
    done("count", text, "-o", tmp_path / "store")
    done("count", text, "-o", tmp_path / "other", "--min-count", 30)
    message = refused("merge", tmp_path / "store", tmp_path / "other", *out)
    assert "--inexact" in message and "inexact=True" not in message
    assert "--force" in refused("trim", tmp_path / "store", "--max-size", 2, "-o", tmp_path / "other")
    assert refused("count", text, "-o", "/proc/x").startswith("lagwise: error: /proc: ")
    assert not (tmp_path / "x").exists()


def test_warnings_are_one_line_or_nothing(tmp_path):
    (tmp_path / "text").write_text("a b a b a b a b a b verylongtoken\n")
    arguments = ["count", tmp_path / "text", "-o", tmp_path / "store", "--max-token-bytes", 5, "--force"]
    lines = done(*arguments)[1].splitlines()
    assert [line for line in lines if "max" in line] == [
        "lagwise: warning: 1 tokens longer than --max-token-bytes 5 count as words outside the vocabulary"
    ]
    assert done(*arguments, "-q")[1] == ""


def test_texts_to_tag(tmp_path, text):
    done("hmm", "fit", text, "-o", tmp_path / "hmm", "--states", 2, "--iterations", 2)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0\0")
    assert "binary, line 1, byte 0" in refused("hmm", "tag", tmp_path / "hmm", tmp_path / "binary")
    assert "does not exist" in refused("hmm", "tag", tmp_path / "hmm", tmp_path / "missing")
    assert "--tagged" in refused("hmm", "evaluate", tmp_path / "hmm", "--tagged", tmp_path / "missing", status=2)
    message = refused("hmm", "tag", tmp_path / "hmm", tmp_path / "binary", "-o", tmp_path / "tags")
    assert "not valid UTF-8" in message and not (tmp_path / "tags").exists()


# Python objects.


def test_words_and_vectors_of_the_wrong_kind():
    for words in ([1, 2], ["a", None], 5, "ab", b"ab"):
        with pytest.raises(TypeError, match="expected"):
            lw.WordVectors(words, np.eye(2))
    for numbers in (np.eye(2) * 1j, [["x", "y"], ["z", "w"]], [[None, 1], [2, 3]]):
        with pytest.raises(TypeError, match="expected real numbers"):
            lw.WordVectors(["a", "b"], numbers)
    vectors = lw.WordVectors(["a", "b"], np.eye(2))
    assert vectors.most_similar([0.0, 1.0])[0][0] == "b"
    assert vectors.most_similar([vectors["a"], [0.0, 3.0]], top=0) == []
    for wrong in (5, None, 1.5, [5], [[1.0]], ["a", [np.nan, 1]]):
        with pytest.raises((TypeError, ValueError), match="expected"):
            vectors.most_similar(wrong)
    assert list(vectors.neighbors("a")) == ["a"]
    with pytest.raises(ValueError, match="top is -1"):
        vectors.neighbors(["a"], top=-1)


def test_options_of_the_wrong_kind(text):
    with pytest.raises(ValueError, match="pattern is 3"):
        lw.count(text, pattern=3)
    with pytest.raises(ValueError, match="no regular expression"):
        lw.count(text, pattern="(")
    with pytest.raises(UnicodeError, match="row 1 of lines="):
        lw.count(lines=["a b", "a \ud800"])
    with pytest.raises(ValueError, match="random_state"):
        lw.count(text, random_state=2**64)


# What the hard cases found.


def test_merges_do_not_depend_on_the_order(tmp_path):
    whole = lw.count(lines=["longword b longword b"], min_count=1)
    short = lw.count(lines=["longword b", "c"], min_count=1, max_token_bytes=8)
    with pytest.raises(ValueError, match="differ in max_token_bytes"):
        lw.merge(whole, short)
    others = (
        {"errors": "replace"},
        {"wordlist_exempt": 5},
        {"merge_unk": True},
        {"keep": ["z"]},
        {"min_count": 0},
        {"errors": "surrogateescape", "merge_unk": True},
    )
    for number, options in enumerate(others):
        other = lw.count(lines=["longword b", "c"], **{"min_count": 1, **options})
        lw.merge(whole, other).save(tmp_path / f"{number}a")
        lw.merge(other, whole).save(tmp_path / f"{number}b")
        same_store(tmp_path / f"{number}a", tmp_path / f"{number}b")
    with pytest.raises(ValueError, match="differ in errors"):
        lw.merge(*(lw.count(lines=["a b"], min_count=1, errors=errors) for errors in ("replace", "surrogateescape")))
    cut = lw.merge(lw.count(lines=["a a b"], min_count=2), whole, inexact=True)
    with pytest.raises(ValueError, match="were cut"):
        lw.merge(cut, whole)


def test_a_full_disk_is_named(tmp_path, vectors):
    (tmp_path / "text").write_text(" ".join(f"w{n}" for n in range(60000)) + "\n")
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))\n"
        "from lagwise.cli import main\nmain()\n"
    )
    for command in (
        ["count", "text", "-o", "store", "--min-count", "1"],
        ["count", "text", "-o", "store", "--min-count", "1", "--memory", "16MB"],
        ["count", "text", "-o", "store", "--min-count", "1", "--checkpoint", "kept"],
        ["hmm", "fit", "text", "-o", "hmm", "--states", "2", "--iterations", "1"],
    ):
        found = subprocess.run(
            [sys.executable, "-c", script, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        last = found.stderr.splitlines()[-1]
        assert found.returncode == 1 and "File too large" in last
        assert any(name in last for name in ("store", "kept", "hmm")), last
        assert last.count("lagwise: error: ") == 1 and not (tmp_path / "store").exists()
    full = refused("export", vectors, "-o", "/dev/full", "--format", "glove")
    assert "/dev/full: No space left on device" in full


def test_options_in_any_order_and_beside_append(tmp_path, text, vectors):
    (tmp_path / "pairs.txt").write_text("a b 1\nb c 2\n")
    pairs = ["--similarity", tmp_path / "pairs.txt", tmp_path / "pairs.txt"]
    assert done("evaluate", *pairs, vectors)[0] == done("evaluate", vectors, *pairs)[0]
    done("count", text, "-o", tmp_path / "store", "--min-count", 1)
    message = refused("count", "--append", tmp_path / "store", text, "-o", tmp_path / "x", "--lowercase", "--window", 3)
    assert "leave out --lowercase, --window" in message and not (tmp_path / "x").exists()
    told = json.loads(done("count", "--append", tmp_path / "store", text, "-o", tmp_path / "x", "--json")[0])
    assert told["tokens"] == 2 * lw.load(tmp_path / "store").n_tokens


def test_damaged_descriptions(tmp_path, text, vectors):
    lw.count(text).save(tmp_path / "store")
    whole = json.loads((tmp_path / "store" / "meta.json").read_text())
    for change in ({"version": "x"}, {"version": None}, {"arrays": {}}, {"options": []}, {"normalization": {"x": 1}}):
        (tmp_path / "store" / "meta.json").write_text(json.dumps({**whole, **change}))
        with pytest.raises(ValueError, match="damaged"):
            lw.load(tmp_path / "store")
    for name in whole:
        (tmp_path / "store" / "meta.json").write_text(json.dumps({k: v for k, v in whole.items() if k != name}))
        with pytest.raises(ValueError, match="damaged|not a count store"):
            lw.load(tmp_path / "store")
    raw = vectors.read_bytes()
    for old, new in ((b'\\"version\\": 1', b'\\"version\\": x'), (b'\\"version\\": 1', b'\\"vertion\\": 1')):
        (tmp_path / "bad").write_bytes(raw.replace(old, new))
        with pytest.raises(ValueError, match="damaged|not one of lagwise"):
            lw.load(tmp_path / "bad")


def test_rows_of_the_wrong_kind_are_numbered():
    with pytest.raises(TypeError, match="dict"):
        lw.count(lines={"a b": 1}, min_count=1)
    with pytest.raises(TypeError, match="row 1 holds the token None"):
        lw.count(lines=[["a"], ["b", None]], min_count=1)
    with pytest.raises(ValueError, match="row 1 holds an empty token"):
        lw.count(lines=[["a"], ["b", ""]], min_count=1)


def test_files_say_what_made_them(vectors):
    from lagwise._files import _map_safetensors

    header, _ = _map_safetensors(str(vectors))
    made = json.loads(header["lagwise"])["made_with"]
    assert set(made) == {"lagwise", "python", "numpy", "scipy", "numba"} and made["lagwise"] == lw.__version__
