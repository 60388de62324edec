"""Counts equal a double loop on random small texts, for every option and every form of input."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lagwise as lw
from lagwise import sources
from tests.reference import counting as plain

WORDS = ["a", "b", "c", "dd", "é", "Zz", "12", "x1", "É9", "nul\0x", "seventeen-letters", "seventeen-lettert"]
lines_of_text = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=8)
options = st.fixed_dictionaries(
    {
        "min_count": st.integers(1, 3),
        "max_size": st.none() | st.integers(2, 5),
        "boundary": st.sampled_from(["line", "none", "blank"]),
        "oov": st.sampled_from(["keep", "drop", "unk"]),
        "lowercase": st.booleans(),
        "digits": st.sampled_from([None, "0", "NUM"]),
        "keep": st.sampled_from([(), ("b",), ("never",)]),
    }
)


def assert_equal(counts, expected, max_lag):
    assert counts.vocabulary.words == expected.words
    assert counts.unigrams.tolist() == [expected.unigrams[word] for word in expected.words]
    assert counts.n_tokens == expected.n_tokens
    for k in range(1, max_lag + 1):
        np.testing.assert_array_equal(counts.lag(k).toarray(), expected.lag(k))


@settings(max_examples=250)
@given(
    lines_of_text,
    options,
    st.integers(1, 9),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["flat", "harmonic", "linear"]),
    st.sampled_from([1, 2, 3, 7, 1 << 20]),
)
def test_counts_equal_the_double_loop(lines, chosen, max_lag, n_threads, weight, block):
    expected = plain.count(lines, max_lag=max_lag, **{k: v for k, v in chosen.items()})
    if set(expected.words) <= {"<unk>"} or not expected.n_tokens:
        return
    old, sources.BLOCK_BYTES = sources.BLOCK_BYTES, block
    try:
        counts = lw.count(lines=lines, max_lag=max_lag, n_threads=n_threads, **chosen)
        assert_equal(counts, expected, max_lag)
        np.testing.assert_allclose(
            counts.window(max_lag, weight).toarray(), expected.window(max_lag, weight), rtol=1e-12
        )
        windowed = lw.count(lines=lines, window=max_lag, weight=weight, n_threads=n_threads, **chosen)
        np.testing.assert_array_equal(windowed.window().toarray(), counts.window(max_lag, weight).toarray())
    finally:
        sources.BLOCK_BYTES = old


@settings(max_examples=50)
@given(lines_of_text, st.sampled_from([1, 2, 3, 7, 1 << 20]), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_every_form_of_input_gives_the_same_bytes(lines, block, ends, newline):
    text = newline.join(lines) + (newline if ends else "")
    if not text.strip():
        return
    raw = text.encode()
    old, sources.BLOCK_BYTES = sources.BLOCK_BYTES, block
    try:
        first = lw.count(io.BytesIO(raw), min_count=1, keep_ids=True)
        split = [line.split() for line in lines if line] or [[]]
        for other in (
            lw.count(io.BytesIO(gzip.compress(raw)), min_count=1, keep_ids=True),
            lw.count(lines=text.split("\n")[: -1 if ends else None] or [""], min_count=1, keep_ids=True),
            lw.count(lines=[text], min_count=1, keep_ids=True),
            lw.count(lines=(line for line in split), min_count=1, keep_ids=True),
        ):
            assert other.vocabulary == first.vocabulary
            np.testing.assert_array_equal(other.ids, first.ids)
            for k in range(1, 8):
                np.testing.assert_array_equal(other.lag(k).toarray(), first.lag(k).toarray())
    finally:
        sources.BLOCK_BYTES = old


@settings(max_examples=300)
@given(
    st.text(
        alphabet=st.one_of(
            st.sampled_from("ab'’.,-_1é \t\r\n\u0301\u00a0\u2028😀"),
            st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs", "Cn"]),
        )
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, "0", "NUM"]),
)
def test_words_tokenizer_equals_its_twin(text, drop, lowercase, digits):
    expected = [
        plain.fold(token, lowercase, digits) for line in text.split("\n") for token in plain.split_words(line, drop)
    ]
    options = dict(
        min_count=1,
        tokenizer="words",
        punctuation="drop" if drop else "keep",
        lowercase=lowercase,
        digits=digits,
        keep_ids=True,
    )
    if not expected:
        with pytest.raises(ValueError, match="no tokens"):
            lw.count(lines=[text], **options)
        return
    counts = lw.count(lines=[text], **options)
    assert [counts.types[i] for i in counts.ids if i >= 0] == expected


@given(lines_of_text, st.integers(0, 2**31))
def test_encode_inverts_the_vocabulary(lines, seed):
    text = "\n".join(lines)
    if not text.split():
        return
    vocabulary = lw.count(lines=lines, min_count=1, lowercase=True).vocabulary
    ids, offsets = vocabulary.encode(lines=lines)
    assert len(offsets) == len(lines) + 1
    for i, line in enumerate(lines):
        assert [vocabulary[j] for j in ids[offsets[i] : offsets[i + 1]]] == [
            t.lower() for t in plain.split_whitespace(line)
        ]


@settings(max_examples=60)
@given(
    st.lists(st.integers(-1, 6), min_size=1, max_size=40),
    st.sampled_from(["int8", "int16", "int32", "int64"]),
    st.integers(1, 4),
)
def test_count_ids_equals_count(ids, dtype, max_lag):
    if max(ids) < 0:
        return
    base = np.array(ids, dtype=dtype)
    words = [str(i) for i in range(7)]
    whole = lw.count(lines=[" ".join("gap" if i < 0 else str(i) for i in ids)], vocabulary=words, max_lag=max_lag)
    strided = np.repeat(base, 2)[::2]
    for array in (base, strided, base[::-1][::-1]):
        counts = lw.count_ids(array, vocabulary=words, max_lag=max_lag)
        for k in range(1, max_lag + 1):
            np.testing.assert_array_equal(counts.lag(k).toarray(), whole.lag(k).toarray())


@settings(max_examples=40)
@given(lines_of_text, st.sampled_from([1e-3, 1e-1]), st.sampled_from([2, 3]))
def test_subsampling_does_not_depend_on_threads_or_blocks(lines, threshold, n_threads):
    if not "".join(lines).strip():
        return
    old = sources.BLOCK_BYTES
    try:
        first = lw.count(lines=lines, min_count=1, subsample=threshold, n_threads=1)
        sources.BLOCK_BYTES = 3
        other = lw.count(lines=lines, min_count=1, subsample=threshold, n_threads=n_threads)
    finally:
        sources.BLOCK_BYTES = old
    np.testing.assert_array_equal(first.unigrams, other.unigrams)
    np.testing.assert_array_equal(first.lag(1).toarray(), other.lag(1).toarray())
    assert int(first.unigrams.sum()) <= first.n_tokens
