"""Taggers of very little text, and tagged files that are not what they should be."""

import itertools

import numpy as np
import pytest

import lagwise as lw
from lagwise.hmm import read_tagged

SENTENCES = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
TAGS = [["D", "N", "V"]] * 2


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("unknown", ["features", "suffix"])
@pytest.mark.parametrize("backoff", [0.0, 1.0])
def test_no_sentence_is_impossible(order, unknown, backoff):
    """Held-one-out counts of text this regular give the unigrams no weight."""
    tagger = lw.HMMTagger(order=order, unknown=unknown, backoff=backoff).fit(SENTENCES, TAGS)
    assert tagger.interpolation_[0] > 0 and tagger.interpolation_.sum() == pytest.approx(1)
    words = ["the", "dog", "barks", "house"]
    sentences = [list(s) for n in (1, 2, 3) for s in itertools.product(words, repeat=n)]
    tags = tagger.predict(sentences)
    assert [len(t) for t in tags] == [len(s) for s in sentences]
    for rows in tagger.predict_proba(sentences):
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)
    assert tagger.predict(SENTENCES) == TAGS
    if backoff == 0:
        assert tagger.predict([["dog", "the"]]) == [["N", "D"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the\tD\ndog\t\n", "line 2 has an empty tag"),
        (b"the\tD\n \tN\n", "line 2 has an empty word"),
        (b"the\tD\rdog\tN\r", "line 1 has a carriage return inside"),
        (b"the\tD\nd\xffg\tN\n", "line 2 is not UTF-8"),
        (b"the\tD\ndog\n", r"line 2 has 1 column\(s\)"),
    ],
)
def test_wrong_lines_are_named(tmp_path, content, message):
    path = tmp_path / "tagged.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_tagged(path)


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    path = tmp_path / "tagged.tsv"
    path.write_bytes(b"\xef\xbb\xbfthe\tD\r\ndog\tN\r\n")
    assert read_tagged(path) == ([["the", "dog"]], [["D", "N"]])


def test_empty_words_and_tags_are_refused():
    with pytest.raises(ValueError, match="sentence 1 has an empty tag"):
        lw.HMMTagger().fit(SENTENCES, [["D", "N", "V"], ["D", "", "V"]])
    with pytest.raises(ValueError, match="sentence 0 has an empty word"):
        lw.HMMTagger().fit([["the", "", "barks"], SENTENCES[1]], TAGS)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_many_best_paths_are_the_best_of_all(order):
    rng = np.random.default_rng(order)
    hmm = lw.HMM(3, n_symbols=4, order=order, random_state=order, n_iter=1, tol=0).fit(rng.integers(0, 4, 200))
    x = rng.integers(0, 4, 6)
    found = hmm.top_k_paths(x, 300)
    every = sorted((hmm.top_k_paths(x, 3**6)), key=lambda pair: -pair[0])
    assert len(every) == 3**6 and len({path.tobytes() for _, path in every}) == 3**6
    np.testing.assert_array_equal([score for score, _ in found], [score for score, _ in every[:300]])
    assert np.logaddexp.reduce([score for score, _ in every]) == pytest.approx(hmm.score(x), rel=1e-12)


def test_what_was_given_is_not_suggested():
    with pytest.raises(ValueError, match="order is '1'; expected one of 1, 2$"):
        lw.HMMTagger(order="1").fit(SENTENCES, TAGS)
