"""Tables worked on part by part: the same numbers as at once, for any number of threads."""

import numpy as np
import pytest

from lagwise.hmm import tables
from lagwise.hmm.lexicon import Growing, Lexicon
from lagwise.hmm.plan import Workers


@pytest.mark.parametrize("n_rows", [1, 3, 1024, 5000])
def test_parts(n_rows):
    rng = np.random.default_rng(0)
    counts = rng.random((n_rows, 5)) ** 9
    found = tables.column_distributions(counts, 0.0, 1)
    np.testing.assert_allclose(found, counts / counts.sum(axis=0), rtol=1e-13)
    with Workers(2) as workers:
        assert np.array_equal(tables.column_distributions(counts, 0.0, workers), found)
    smoothed = tables.column_distributions(counts, 0.5, 1)
    np.testing.assert_allclose(smoothed, (counts + 0.5) / (counts + 0.5).sum(axis=0), rtol=1e-13)
    counts[:, 2] = 0
    assert tables.column_distributions(counts, 0.0, 1) is None
    assert tables.column_distributions(counts, 1.0, 1) is not None


@pytest.mark.parametrize("threads", [1, 2])
def test_scaled_rows_are_exact(threads):
    rng = np.random.default_rng(1)
    table = rng.random((3000, 3)) * 2.0 ** rng.integers(-1000, 3, (3000, 1))
    table[0], table[1], table[2] = 0.0, 5e-324, [5e-324, 1e-310, 0.0]
    scaled = np.full((3000, 8), np.nan)
    exponent = tables.scaled_rows(table, scaled, threads)
    assert np.array_equal(np.ldexp(scaled[:, :3], exponent[:, None]), table) and not scaled[:, 3:].any()
    most = scaled[1:].max(axis=1)
    assert (most >= 0.5).all() and (most < 1).all()


def test_growing_keeps_what_was_taken():
    grown, rows, taken = Growing(np.zeros((0, 2))), [], []
    for n in (1, 0, 5, 2, 30):
        rows.append(np.random.default_rng(n).random((n, 2)))
        grown.append(rows[-1])
        taken.append((grown.array, np.concatenate(rows)))
    for array, expected in taken:
        assert np.array_equal(array, expected)


def test_a_lexicon_makes_each_row_once():
    made = []

    def make(words):
        made.extend(words)
        return np.array([[len(word)] for word in words], dtype=float)

    lexicon = Lexicon(None, make, np.zeros((4, 1)))
    assert lexicon.add(["a", "bb"]).tolist() == [4, 5]
    assert lexicon.add(["ccc", "a"]).tolist() == [6, 4]
    assert made == ["a", "bb", "ccc"] and lexicon.table[:, 0].tolist() == [0, 0, 0, 0, 1, 2, 3]
