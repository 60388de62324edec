"""Tagging files: the same tags as of lists, for any cut of the text and number of threads."""

import gzip
import io

import numpy as np
import pytest

from lagwise.hmm import HMMTagger, read_tagged, tagging
from tests.estimators.test_hmm_tagger import corpus

NEW = [
    ["the", "mouse", "quickly", "barks"],
    ["Zoe", "sleeps"],
    ["a"],
    ["walk-ing", "2004", "McX", "the", "cats", "naïve", "\u00a0x"],
]
SETTINGS = [{}, {"unknown": "suffix", "backoff": 0}, {"order": 1}, {"order": 1, "unknown": "suffix"}]


def text_of(sentences):
    return "".join(" ".join(sentence) + "\n" for sentence in sentences)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("block_bytes, most_words", [(1 << 18, 1 << 20), (40, 1 << 20), (40, 3)])
def test_same_as_lists(settings, n_threads, block_bytes, most_words, tmp_path, monkeypatch):
    monkeypatch.setattr(tagging, "_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(tagging, "_MOST_WORDS", most_words)
    tagger = HMMTagger(n_threads=n_threads, **settings).fit(*corpus())
    sentences = (NEW + corpus()[0]) * 7
    expected = tagger.predict(sentences)
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text("\n \n" + text_of(sentences).replace("Zoe", " Zoe\t").rstrip("\n"), encoding="utf-8")
    done = tagger.tag_file(text, out)
    assert done == {"n_sentences": len(sentences), "n_tokens": sum(map(len, sentences))}
    assert read_tagged(out) == (sentences, expected)
    pairs = io.BytesIO()
    tagger.tag_file(text, pairs, "pairs")
    assert pairs.getvalue().decode() == "".join(
        " ".join(f"{word}/{tag}" for word, tag in zip(words, tags)) + "\n" for words, tags in zip(sentences, expected)
    )


def test_parts_of_lists(monkeypatch):
    from lagwise.hmm import tagger as module

    sentences = (NEW + corpus()[0]) * 5 + [[]]
    for settings in SETTINGS:
        whole = HMMTagger(**settings).fit(*corpus()).predict(sentences)
        monkeypatch.setattr(module, "_PART", 10)
        for n_threads in (1, 2):
            assert HMMTagger(n_threads=n_threads, **settings).fit(*corpus()).predict(sentences) == whole
        monkeypatch.undo()
        assert whole[-1] == [] and whole[0] == HMMTagger(**settings).fit(*corpus()).predict(NEW[:1])[0]


def test_words_that_are_none_are_named_by_their_sentence(monkeypatch):
    from lagwise.hmm import tagger as module

    monkeypatch.setattr(module, "_PART", 2)
    tagger = HMMTagger(unknown="suffix").fit(*corpus())
    with pytest.raises(TypeError, match="sentence 3 is "):
        tagger.predict([["the"], ["dog"], ["a"], ["a", 7]])
    with pytest.raises(TypeError, match="sentence 1 is 'dog'"):
        tagger.predict([["the"], "dog"])
    assert tagger.predict([("the", "dog"), np.array(["a", "dog"])]) == tagger.predict([["the", "dog"], ["a", "dog"]])


def test_sources_and_errors(tmp_path):
    tagger = HMMTagger(n_threads=2).fit(*corpus())
    plain, packed, out = tmp_path / "a.txt", tmp_path / "b.gz", tmp_path / "out"
    plain.write_text("the dog")
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbfa cat\n"))
    assert tagger.tag_file([plain, packed], out) == {"n_sentences": 2, "n_tokens": 4}
    assert read_tagged(out)[0] == [["the", "dog"], ["a", "cat"]]
    with pytest.raises(FileExistsError):
        tagger.tag_file(plain, out)
    kept = out.read_bytes()
    plain.write_bytes(b"the dog\na c\xff\n")
    with pytest.raises(UnicodeError, match=r"a\.txt, line 2, byte 3: 0xff"):
        tagger.tag_file(plain, out, overwrite=True)
    assert out.read_bytes() == kept and sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.gz", "out"]
    tagger.tag_file(plain, out, overwrite=True, errors="surrogateescape")
    assert b"c\xff\t" in out.read_bytes()
    tagger.tag_file(plain, out, overwrite=True, errors="replace")
    assert "c\ufffd\t" in out.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="layout"):
        tagger.tag_file(plain, out, "columns", overwrite=True)
    with pytest.raises(FileNotFoundError):
        tagger.tag_file(tmp_path / "none", tmp_path / "new")
    plain.write_bytes(b"\n\n")
    assert tagger.tag_file(plain, out, overwrite=True) == {"n_sentences": 0, "n_tokens": 0} and out.read_bytes() == b""


def test_texts_split_and_folded_as_asked(tmp_path):
    from lagwise import load
    from tests.support import run_cli

    parts = ["The dog, 12 cats.\n\nA dog\n", "the CAT sleeps!"]
    names = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for name, part in zip(names, parts):
        name.write_text(part * 3)
    options = ["--states", 2, "--tokenizer", "words", "--lowercase", "--digits", "0", "--iterations", 2, "--quiet"]
    run_cli("hmm", "fit", *names, "-o", tmp_path / "model", *options)
    model = load(tmp_path / "model")
    assert set(model.vocabulary_.words) == {"the", "dog", ",", "00", "cats", ".", "a", "cat", "sleeps", "!"}
    together = tmp_path / "both.txt"
    together.write_text(parts[0] * 3 + "the CAT sleeps!the CAT sleeps!the CAT sleeps!\n")
    run_cli("hmm", "fit", "-", "-o", tmp_path / "other", *options, input=together.read_bytes())
    assert (tmp_path / "other").read_bytes() == (tmp_path / "model").read_bytes()
    found = run_cli("hmm", "tag", tmp_path / "model", names[0]).stdout.split("\n\n")
    assert [line.split("\t")[0] for line in found[0].splitlines()] == ["The", "dog", ",", "12", "cats", "."]
    drop = model.vocabulary_.split(["The dog, 12", "", "x\ny"])
    assert drop == [["The", "dog", ",", "12"], [], ["x"], ["y"]]
    unknown = run_cli("hmm", "fit", names[0], "-o", tmp_path / "third", "--tokenizer", "letters", check=False)
    assert unknown.returncode == 1 and "tokenizer is 'letters'" in unknown.stderr


def test_options_of_the_other_way_of_fitting_are_refused(tmp_path):
    from tests.support import run_cli

    (tmp_path / "t.tsv").write_text("a\tX\nb\tY\n\n")
    (tmp_path / "t.txt").write_text("a b\n")
    for option in (["--tokenizer", "words"], ["--lowercase"], ["--states", 3], ["-n", 4], ["--seed", 1]):
        done = run_cli("hmm", "fit", "--tagged", tmp_path / "t.tsv", "-o", tmp_path / "m", *option, check=False)
        assert done.returncode == 1 and "belongs to a fit of TEXTS" in done.stderr
    done = run_cli("hmm", "fit", tmp_path / "t.txt", "-o", tmp_path / "m", "--column", 3, check=False)
    assert done.returncode == 1 and "belongs to --tagged" in done.stderr and not (tmp_path / "m").exists()
    run_cli("hmm", "fit", "--tagged", tmp_path / "t.tsv", "-o", tmp_path / "m", "--unknown-words", "suffix")
    (tmp_path / "u.tsv").write_text("a\tP\tX\nb\tQ\tY\n")
    told = run_cli("hmm", "evaluate", tmp_path / "m", "--tagged", tmp_path / "u.tsv").stderr
    assert "2 of 2 tokens have tags that the tagger does not know, such as 'P': is --column 2" in told


class Narrow(io.RawIOBase):
    """Takes seven bytes at a time."""

    def __init__(self):
        self.got = b""

    def writable(self):
        return True

    def write(self, data):
        self.got += bytes(data[:7])
        return min(len(data), 7)


def test_writers_that_take_little():
    tagger, narrow, whole = HMMTagger(unknown="suffix").fit(*corpus()), Narrow(), io.BytesIO()
    for out in (narrow, whole):
        tagger.tag_file(io.BytesIO(text_of(NEW).encode()), out)
    assert narrow.got == whole.getvalue()
    with pytest.raises(ValueError, match="penalty"):
        HMMTagger(penalty=-1).fit(*corpus())
