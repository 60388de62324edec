"""The `words` tokenizer on real text against its twin of regular expressions; archives of many pieces."""

import bz2
import gzip
import io
import itertools
import lzma
import struct
from collections import Counter

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import lagwise as lw
from lagwise import sources
from tests.reference import counting as plain
from tests.reference import words as twin

N_LINES = 40_000


@pytest.fixture(scope="module")
def corpus(shared):
    """The first lines of the Wikipedia corpus as text."""
    path = shared / "corpora" / "wikipedia.txt.zst"
    if not path.exists():
        pytest.skip("needs corpora/wikipedia.txt.zst of the shared material")
    with open(path, "rb") as packed:
        unpacked = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(packed)
        lines = list(itertools.islice(io.TextIOWrapper(unpacked, encoding="utf-8", newline="\n"), N_LINES))
    assert len(lines) == N_LINES
    return [line.removesuffix("\n") for line in lines]


@pytest.fixture(scope="module")
def tokens(corpus):
    """For either treatment of punctuation: the twin's tokens, and the text as numbers of them, -1 behind each line."""
    found = {}
    for drop in (False, True):
        number: dict[str, int] = {}
        ids = []
        for line in corpus:
            split = twin.split(line, drop)
            if split:
                ids += [number.setdefault(token, len(number)) for token in split]
                ids.append(-1)
        found[drop] = list(number), np.array(ids, dtype=np.int32)
    return found


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("digits", [None, "0", "NUM"])
def test_words_of_the_corpus(corpus, tokens, drop, lowercase, digits):
    counts = lw.count(
        lines=corpus,
        tokenizer="words",
        punctuation="drop" if drop else "keep",
        lowercase=lowercase,
        digits=digits,
        min_count=1,
        keep_ids=True,
        max_lag=1,
    )
    types, ids = tokens[drop]
    folded = [twin.fold(token, lowercase, digits) for token in types]
    expected = Counter()
    for word, n in zip(folded, np.bincount(ids[ids >= 0]).tolist()):
        expected[word] += n
    assert dict(zip(counts.types, counts.type_counts.tolist())) == expected
    number = {word: i for i, word in enumerate(counts.types)}
    of_type = np.array([*(number[word] for word in folded), -1], dtype=np.int32)
    np.testing.assert_array_equal(counts.ids, of_type[ids])
    assert counts.n_lines == N_LINES


def test_the_corpus_holds_what_is_to_be_tested(corpus, tokens):
    """Words with each joining character, digits, marks and letters beyond ASCII, lone punctuation."""
    seen = set(tokens[False][0])
    for joiner in "'.,-":
        assert any(joiner in token[1:-1] and len(token) > 2 for token in seen), joiner
    assert any(not token.isascii() and token.lower() != token for token in seen)
    assert any(token.isdecimal() for token in seen) and {".", ",", "(", '"'} <= seen


@given(
    st.text(
        alphabet=st.one_of(
            st.sampled_from("ab'’.,-_1é \t\u0301\u00a0\u2028😀٣²"),
            st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs", "Cn"], exclude_characters="\n"),
        )
    ),
    st.booleans(),
)
def test_the_two_twins_agree(text, drop):
    assert twin.split(text, drop) == plain.split_words(text, drop)


LINES = [f"word{i % 101} and word{i % 37}, é{i % 11}" for i in range(3000)]
RAW = "\n".join(LINES).encode()


def count(raw):
    return lw.count(io.BytesIO(raw), min_count=1, keep_ids=True, max_lag=1)


def assert_same_text(raw):
    expected, got = count(RAW), count(raw)
    assert got.vocabulary == expected.vocabulary and got.n_lines == len(LINES)
    np.testing.assert_array_equal(got.ids, expected.ids)


def skippable(content, number=0):
    """A skippable frame of Zstandard (RFC 8878, 3.1.2)."""
    return struct.pack("<II", 0x184D2A50 + number, len(content)) + content


def frames(pieces, **options):
    return [zstandard.ZstdCompressor(**options).compress(piece) for piece in pieces]


CUTS = [RAW[:1], RAW[1:5001], b"", RAW[5001:5003], RAW[5003:]]


@pytest.mark.parametrize("block", [7, 1 << 22])
def test_zstandard_of_many_frames(monkeypatch, block):
    monkeypatch.setattr(sources, "BLOCK_BYTES", block)
    assert_same_text(b"".join(frames(CUTS)))
    assert_same_text(b"".join(frames(CUTS, write_checksum=True, write_content_size=False)))


def test_zstandard_with_skippable_frames():
    first, *others = frames(CUTS)
    for number in (0, 7, 15):
        for content in (b"", b"not text", b"\0" * (1 << 19)):
            assert_same_text(first + skippable(content, number) + b"".join(others))
            assert_same_text(first + b"".join(others) + skippable(content, number))
            assert_same_text(skippable(content, number) + first + b"".join(others))
            assert_same_text(skippable(content) * 2 + first + skippable(content) * 2 + b"".join(others))


def test_zstandard_that_is_cut_short():
    whole = b"".join([frames(CUTS)[0], skippable(b"index of frames"), *frames(CUTS)[1:]])
    ends = {0}  # where a frame ends the text ends too: nothing tells that more was to come
    for piece in (frames(CUTS)[0], skippable(b"index of frames"), *frames(CUTS)[1:]):
        ends.add(max(ends) + len(piece))
    for size in [*range(6, 80), len(whole) // 2, len(whole) - 1]:
        if size in ends:
            continue
        with pytest.raises(OSError, match="cut short|damaged"):
            count(whole[:size])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("block", [7, 1 << 22])
def test_archives_of_many_members(monkeypatch, pack, block):
    monkeypatch.setattr(sources, "BLOCK_BYTES", block)
    assert_same_text(b"".join(map(pack, CUTS)))
    assert_same_text(b"".join(pack(RAW[start : start + 1000]) for start in range(0, len(RAW), 1000)))


def test_gzip_with_names_and_padding():
    out = io.BytesIO()
    for number, piece in enumerate(CUTS):
        with gzip.GzipFile(f"part{number}.txt", "wb", fileobj=out, mtime=0) as member:
            member.write(piece)
    assert_same_text(out.getvalue())
    assert_same_text(out.getvalue() + b"\0" * 512)  # as tapes and some tools pad


def test_a_word_that_looks_like_an_archive():
    for text in (b"BZh9 is a word", b"BZhang wrote", b"BZh"):
        assert count(text).vocabulary[0].startswith("BZh") or "BZh9" in count(text).vocabulary
