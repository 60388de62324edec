"""Every form of input under every option equals the double loop, and all forms give the same store."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import lagwise as lw
from lagwise import segments, sources
from lagwise.counting import count_to_store
from tests.reference import counting as plain
from tests.support import same_store

pytestmark = pytest.mark.filterwarnings("ignore:.*longer than max_token_bytes:UserWarning")

WORDS = [
    "a",
    "b",
    "c",
    "dd",
    "é",
    "Zz",
    "É9",
    "12",
    "x1",
    "<unk>",
    "don't",
    "(b)",
    "seventeen-letters",
    "\ufeffq",
    "BZh",
]
lines_of_text = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=8)
texts = st.lists(lines_of_text, min_size=1, max_size=3)  # files of lines
options_of_words = st.one_of(
    st.fixed_dictionaries(
        {
            "min_count": st.integers(1, 3),
            "max_size": st.none() | st.integers(2, 5),
            "keep": st.sampled_from([(), ("b",), ("never",)]),
            "pattern": st.sampled_from([None, None, "[a-z]+", "é|.."]),
            "wordlist": st.sampled_from([None, None, ("a", "dd", "nowhere")]),
            "wordlist_exempt": st.integers(0, 4),
        }
    ),
    st.fixed_dictionaries({"vocabulary": st.sampled_from([("b", "a"), ("never", "dd", "a", "<unk>")])}),
)
options_of_text = st.fixed_dictionaries(
    {
        "boundary": st.sampled_from(["line", "none", "blank"]),
        "oov": st.sampled_from(["keep", "drop", "unk"]),
        "unk": st.sampled_from(["<unk>", "dd", "OOV"]),
        "lowercase": st.booleans(),
        "digits": st.sampled_from([None, "0", "NUM"]),
        "tokenizer": st.sampled_from(["whitespace", "words", "callable"]),
        "max_token_bytes": st.sampled_from([None, None, 2]),
    }
)
kinds = st.fixed_dictionaries({"max_lag": st.integers(1, 9)}) | st.fixed_dictionaries(
    {"window": st.integers(1, 9), "weight": st.sampled_from(["flat", "harmonic", "linear"])}
)
TOKENIZERS = {"whitespace": plain.split_whitespace, "callable": plain.split_whitespace, "words": plain.split_words}


def as_bytes(files):
    return [line if isinstance(line, bytes) else "\n".join(line).encode() for line in files]


def write(folder, files, suffix="", pack=bytes):
    folder = Path(folder, "texts")
    folder.mkdir()
    for number, raw in enumerate(as_bytes(files)):
        (folder / f"{number}.txt{suffix}").write_bytes(pack(raw))
    return folder


@contextlib.contextmanager
def fifos(folder, files):
    names, feeders = [], []
    for number, raw in enumerate(as_bytes(files)):
        names.append(Path(folder, f"fifo{number}"))
        os.mkfifo(names[-1])
        feeders.append(threading.Thread(target=names[-1].write_bytes, args=(raw,), daemon=True))
        feeders[-1].start()
    yield {"source": names}
    for feeder in feeders:
        feeder.join(10)


def one_file(files):
    """The lines of all files as those of one text: what the forms in memory hold."""
    return [line for lines in files for line in lines]


@contextlib.contextmanager
def opened(name, folder, files, tokenizer):
    """The arguments that hand a text to `count` in one form."""
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}.get(name)
    if name == "fifos":
        with fifos(folder, files) as arguments:
            yield arguments
    elif name == "list of files":
        yield {"source": sorted(write(folder, files).iterdir())}
    elif name == "glob":
        yield {"source": f"{write(folder, files)}/*.tx?"}
    elif name == "folder" or pack:
        yield {"source": write(folder, files, f".{name}" if pack else "", pack or bytes)}
    elif name == "open files":
        yield {"source": [io.BytesIO(raw) for raw in as_bytes(files)]}
    elif name == "generator":
        yield {"lines": iter(one_file(files))}
    elif name == "list":
        yield {"lines": one_file(files)}
    elif name == "text":
        yield {"lines": ["\n".join(one_file(files)) + "\n"]}
    elif name == "token lists":
        yield {"lines": [tokenizer(line) for line in one_file(files)]}
    elif name == "token generator":
        yield {"lines": (tuple(tokenizer(line)) for line in one_file(files))}
    elif name == "arrays":
        yield {"lines": (np.array(tokenizer(line), dtype=object) for line in one_file(files))}


OF_FILES = ["list of files", "glob", "folder", "gz", "bz2", "xz", "zst", "fifos", "open files"]
IN_MEMORY = ["generator", "list", "text"]
OF_TOKENS = ["token lists", "token generator", "arrays"]


def expect(files, boundary, **options):
    """The double loop over files, whose ends are ends of sequences; it knows lines alone."""
    if boundary == "none":
        lines, boundary = [" ".join(lines) for lines in files], "line"
    else:
        lines = [line for lines in files for line in [*lines, *([""] if boundary == "blank" else [])]]
    return plain.count(lines, boundary=boundary, **options)


@contextlib.contextmanager
def set_sizes(block, segment):
    old = sources.BLOCK_BYTES, segments.segment_length
    sources.BLOCK_BYTES = block
    segments.segment_length = lambda plan, n_words: segment if plan.memory else old[1](plan, n_words)
    try:
        yield
    finally:
        sources.BLOCK_BYTES, segments.segment_length = old


def assert_holds(counts, expected, n_lines, size, weight):
    assert counts.vocabulary.words == expected.words
    assert counts.unigrams.tolist() == [expected.unigrams[word] for word in expected.words]
    assert counts.n_tokens == expected.n_tokens and counts.longest_line == expected.longest_line
    assert counts.n_lines == n_lines
    inside = {word: count for word, count in expected.counts.items() if word in counts.vocabulary}
    assert counts._facts["n_types"] == len(expected.counts)
    assert counts._facts["n_cut_types"] == len(expected.counts) - len(inside)
    assert counts._facts["n_cut_tokens"] == expected.n_tokens - sum(inside.values())
    if weight is None:
        for k in range(1, size + 1):
            np.testing.assert_array_equal(counts.lag(k).toarray(), expected.lag(k))
    else:
        np.testing.assert_allclose(counts.window().toarray(), expected.window(size, weight), rtol=1e-12)


def why_refused(expected, of_words, of_text):
    """What the error says of a text without tokens, or without words of the vocabulary; None where it is counted."""
    unk = of_text["unk"] if of_text["oov"] == "unk" else None
    if "vocabulary" in of_words and unk is not None and unk not in of_words["vocabulary"]:
        return "needs the unknown symbol"
    if not expected.n_tokens:
        return "no tokens"
    if "vocabulary" not in of_words and set(expected.words) <= {unk} and unk not in expected.counts:
        return "no word is left"
    return None


@settings(max_examples=250)
@given(
    texts,
    st.sampled_from(OF_FILES + IN_MEMORY + OF_TOKENS),
    options_of_words,
    options_of_text,
    kinds,
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 3, 7, 1 << 20]),
    st.none() | st.integers(1, 9),
)
def test_every_form_under_every_option(files, form, of_words, of_text, kind, n_threads, block, segment):
    tokenizer = TOKENIZERS[of_text["tokenizer"]]
    if form in OF_FILES:
        read = [[lines[0].removeprefix("\ufeff"), *lines[1:]] for lines in files]
        n_lines = sum(len(lines) - (not lines[-1]) for lines in files)
    else:
        read = [one_file(files)]
        n_lines = len(read[0])
    size, weight = kind.get("max_lag") or kind["window"], kind.get("weight")
    expected = expect(read, max_lag=size, **{**of_words, **of_text, "tokenizer": tokenizer})
    options = {**of_words, **of_text, **kind, "n_threads": n_threads, "merge_unk": True}
    options["tokenizer"] = tokenizer if of_text["tokenizer"] == "callable" else of_text["tokenizer"]
    options["memory"] = None if segment is None else "64MB"
    refused = why_refused(expected, of_words, of_text)
    with (
        tempfile.TemporaryDirectory() as folder,
        set_sizes(block, segment),
        opened(form, folder, files, tokenizer) as text,
        pytest.raises(ValueError, match=refused) if refused else contextlib.nullcontext(),
    ):
        assert_holds(lw.count(**text, **options), expected, n_lines, size, weight)


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.sampled_from([w for w in WORDS if "\ufeff" not in w]), max_size=30), min_size=1, max_size=30),
    options_of_text,
    st.sampled_from([{"max_lag": 3}, {"window": 4}, {"window": 3, "weight": "linear"}]),
    st.none() | st.sampled_from([1e-2, 1e-1]),
    st.integers(0, 2**32),
    st.data(),
)
def test_all_forms_give_the_same_store(lines, of_text, kind, subsample, seed, data):
    """Whatever the form, the threads, the blocks and the memory, also where words are dropped at random."""
    texts = [" ".join(line) for line in lines]
    tokenizer = TOKENIZERS[of_text["tokenizer"]]
    custom = of_text["tokenizer"] == "callable"
    options = {**of_text, **kind, "min_count": 1, "merge_unk": True, "keep_ids": True}
    options.update(tokenizer=tokenizer if custom else of_text["tokenizer"], subsample=subsample, random_state=seed)
    raw = ("\n".join(texts) + "\n").encode()
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first")
        try:
            count_to_store(first, io.BytesIO(raw), **options, n_threads=1)
        except ValueError as error:
            assert "no tokens" in str(error) or "no word is left" in str(error)
            return
        for form in OF_FILES + IN_MEMORY + OF_TOKENS:
            n_threads, block = data.draw(st.sampled_from([1, 2, 3])), data.draw(st.sampled_from([1, 5, 1 << 20]))
            segment = data.draw(st.none() | st.integers(1, 50))
            memory = None if segment is None else "64MB"
            inner = Path(folder, form.replace(" ", "-"))
            inner.mkdir()
            given = [raw] if form in OF_FILES else [texts]
            with set_sizes(block, segment), opened(form, inner, given, tokenizer) as text:
                count_to_store(inner / "store", **text, **options, n_threads=n_threads, memory=memory)
            same_store(first, inner / "store")


PIECES = [
    b"a",
    b"b",
    b"\xc3\xa9",
    b"\xc3",
    b"\xff",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\x00",
    b" ",
    b"\n",
    b"\r",
    b"-",
]


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join),
    st.sampled_from(["replace", "surrogateescape"]),
    st.sampled_from(["whitespace", "words", "callable"]),
    st.booleans(),
    st.sampled_from([1, 3, 1 << 20]),
    st.sampled_from([1, 2]),
)
def test_bytes_that_are_not_utf8(raw, errors, name, lowercase, block, n_threads):
    tokenizer = TOKENIZERS[name]
    lines = raw.decode("utf-8", errors).split("\n")
    expected = plain.count(lines, max_lag=2, min_count=1, tokenizer=tokenizer, lowercase=lowercase)
    if not expected.n_tokens:
        return
    given = tokenizer if name == "callable" else name
    with set_sizes(block, None):
        counts = lw.count(
            io.BytesIO(raw),
            max_lag=2,
            min_count=1,
            tokenizer=given,
            lowercase=lowercase,
            errors=errors,
            n_threads=n_threads,
        )
    assert_holds(counts, expected, len(lines) - (not lines[-1]), 2, None)
    assert [w.encode("utf-8", "surrogateescape") for w in counts.vocabulary] == [
        w.encode("utf-8", "surrogateescape") for w in expected.words
    ]
