"""What the linear dynamical system refuses, and what it must keep where others lose it."""

import numpy as np
import pytest

import lagwise as lw

WORDS = [f"w{i}" for i in range(12)]


@pytest.fixture(scope="module")
def text():
    rng = np.random.default_rng(0)
    return [[WORDS[i] for i in rng.integers(0, 12, 30)] for _ in range(60)]


@pytest.fixture(scope="module")
def fitted(text):
    return lw.LDS(3, n_iter=2, em_lags=7, dtype="float64").fit(lw.count(lines=text, min_count=1, max_lag=7))


def known(**changes):
    eye = np.eye(2)
    given = {"A": 0.5 * eye, "C": eye, "Q": eye, "R": eye, "mean": None}
    return lw.LDS.from_parameters(**{**given, **changes})


def test_unknown_may_be_changed_after_the_fit_and_is_saved_as_it_works(fitted, tmp_path):
    model = fitted
    zero = model.transform([3, -1, -1])
    model.set_params(unknown="missing")
    missing = model.transform([3, -1, -1])
    assert np.abs(zero - missing).max() > 1e-6
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(lw.load(tmp_path / "model").transform([3, -1, -1]), missing)
    model.set_params(unknown="nothing")
    with pytest.raises(ValueError, match="unknown is 'nothing'"):
        model.transform([3])
    with pytest.raises(ValueError, match="unknown is 'nothing'"):
        model.save(tmp_path / "other")
    model.set_params(unknown="zero")
    np.testing.assert_array_equal(model.transform([3, -1, -1]), zero)


def test_files_are_embedded_sequence_by_sequence_as_the_boundary_says(fitted, tmp_path):
    from lagwise.lds.tokens import file_sequences

    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("w1 w2 w3\nw4 w5\n\n \nw1 w2\n")
    two.write_text("\nw6")
    want = {"line": [3, 2, 2, 1], "none": [7, 1], "blank": [5, 2, 1]}
    for boundary, lengths in want.items():
        ids, got = file_sequences(fitted.vocabulary_, [one, two], boundary, "strict", 1)
        assert got.tolist() == lengths and len(ids) == 8


def test_unit_states_of_any_size(fitted):
    model = known()
    Y = np.random.default_rng(0).standard_normal((20, 2))
    for size in (1e99, 1e-150):
        np.testing.assert_allclose(np.linalg.norm(model.transform(Y * size, unit=True), axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.transform(np.zeros((3, 2)), unit=True), 0)


def test_masks_are_missing_values():
    model = known()
    Y = np.random.default_rng(0).standard_normal((20, 2))
    mask = np.random.default_rng(1).random((20, 2)) < 0.3
    holes = np.where(mask, np.nan, Y)
    np.testing.assert_array_equal(model.transform(np.ma.array(Y, mask=mask)), model.transform(holes))
    counted = lw.LagCovariances.from_series(np.ma.array(Y, mask=mask), 2)
    np.testing.assert_array_equal(counted.raw, lw.LagCovariances.from_series(holes, 2).raw)


def test_masked_ids_are_refused(fitted):
    with pytest.raises(TypeError, match="mask would be lost"):
        fitted.transform(np.ma.array([1, 2], mask=[0, 1]))


@pytest.mark.parametrize("mean", [[np.nan, 1], [np.inf, 1], [1e300, 0], [1.0], [[1.0, 2.0]]])
def test_means_are_finite_vectors(mean):
    with pytest.raises(ValueError, match="mean"):
        known(mean=mean)
    with pytest.raises(ValueError, match="mean"):
        lw.LagCovariances(np.array([np.eye(2), 0.5 * np.eye(2)]), mean)
    with pytest.raises(ValueError, match="n_samples is -5"):
        lw.LagCovariances(np.array([np.eye(2), 0.5 * np.eye(2)]), n_samples=-5)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"Q": [[1, 0.5], [0, 1]]}, "Q is not symmetric"),
        ({"R": [[1, 0.5], [0, 1]]}, "R is not symmetric"),
        ({"Q": np.diag([1, -0.1])}, "Q has the eigenvalue -0.1"),
        ({"R": np.diag([5, -0.1])}, "R has the eigenvalue -0.1"),
        ({"R": np.zeros((2, 2))}, "R has the eigenvalue 0"),
        ({"Q": np.zeros((2, 2))}, "never moves"),
        ({"A": np.diag([np.nan, 0.5])}, "A holds NaN"),
        ({"A": np.eye(2)}, "spectral radius 1"),
        ({"A": np.eye(3)}, r"Q has shape \(2, 2\); expected \(3, 3\)"),
        ({"C": np.ones((3, 2))}, r"C has shape \(3, 2\); expected \(2, 2\)"),
    ],
)
def test_parameters_that_are_none_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        known(**changes)


def test_a_singular_noise_that_every_direction_feels_in_time_is_fine():
    model = known(A=np.array([[0.5, 0.2], [1, 0]]), Q=np.diag([1.0, 0]))  # an autoregression of order 2
    assert np.isfinite(model.transform(np.ones((5, 2)))).all()


def test_huge_series_are_refused_before_they_overflow():
    model = known()
    for size in (1.7e308, 1e154):
        for call in (model.transform, model.score, model.forecast):
            with pytest.raises(ValueError, match="expected at most 1e\\+100"):
                call(np.full((3, 2), size))
    assert np.isfinite(model.score(np.full((3, 2), 1e100)))


def test_coordinates_of_any_scale_are_no_constants():
    Y = np.random.default_rng(0).standard_normal((300, 3))
    plain, scaled = (lw.LagCovariances.from_series(Y * s, 3) for s in (1, np.array([1e-5, 1, 1e5])))
    np.testing.assert_allclose(np.abs(scaled.whitened), np.abs(plain.whitened), rtol=1e-9, atol=1e-12)
    for column in (0.1, 0.0, 1e9):
        with pytest.raises(ValueError, match="coordinate 1 (is constant|has variance 0)"):
            lw.LagCovariances.from_series(np.column_stack([Y[:, 0], np.full(300, column)]), 3)
    with pytest.raises(ValueError, match="mixture"):
        lw.LagCovariances.from_series(Y[:, [0, 1, 0]] * [1, 1e-6, 1e6], 3)


def test_messages_of_series():
    Y = np.random.default_rng(0).standard_normal((300, 3))
    with pytest.raises(ValueError, match="fall behind number 1"):
        lw.LagCovariances.from_series(Y, 3, [0, 200, 100, 300])
    with pytest.raises(ValueError, match="no time steps"):
        lw.LagCovariances.from_series(Y[:0], 3)
    model = lw.LDS.from_parameters(np.eye(1) / 2, np.ones((3, 1)), np.eye(1), np.eye(3))
    for several in ([Y[:3], Y[3:]], [Y[:150], Y[150:]]):
        with pytest.raises(ValueError, match="pass lengths="):
            model.transform(several)


@pytest.mark.parametrize(
    "lengths, message",
    [
        ([2**63 - 1, 2**63 - 1, 12], "run from 12 to 9223372036854775807; expected 0 to 10"),
        ([2**62] * 4 + [10], "expected 0 to 10"),
        ([4, -1, 7], "run from -1 to 7"),
        ([4, 5], "add up to 9, the sequence has 10"),
        ([4.0, 6.0], "dtype float64"),
    ],
)
def test_lengths_that_do_not_fit(fitted, lengths, message):
    for steady in (True, False):
        with pytest.raises(ValueError, match=message):
            fitted.transform(np.arange(10), lengths=lengths, steady=steady)


def test_arguments_are_named(fitted):
    ids = np.arange(10)
    for name in ("whiten", "unit", "steady"):
        with pytest.raises(ValueError, match=f"{name} is 'yes'"):
            fitted.transform(ids, **{name: "yes"})
    for n_pairs in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_pairs is"):
            fitted.dynamics(n_pairs=n_pairs)
    for most in (-1, "a"):
        with pytest.raises(ValueError, match="max_components is"):
            fitted.suggest_components(max_components=most)
    with pytest.raises(TypeError, match="out is a list"):
        fitted.transform(ids, out=[[0]])
    fixed = np.empty((10, 3))
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fitted.transform(ids, out=fixed)
    with pytest.raises(ValueError, match="gaps"):
        fitted.transform(ids, out=np.empty((10, 6))[:, ::2])
    with pytest.raises(TypeError, match="all rows to be tokens"):
        fitted.transform([1, None])
    np.testing.assert_array_equal(fitted.transform(np.array(["w1", "w2"])), fitted.transform(["w1", "w2"]))


def test_every_flipped_bit_of_a_model_is_found(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for place in np.random.default_rng(0).integers(begin, len(whole), 60).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            lw.load(tmp_path / "damaged")


def test_a_direction_that_turns_round_is_told_from_one_that_stays():
    """x and -x in turn: gain near 1, cosine near -1."""
    for sign in (1, -1):
        model = known(A=sign * 0.9 * np.eye(2), Q=np.eye(2) * 0.19)
        for pair in model.dynamics().pairs:
            assert pair.cosine == pytest.approx(sign, abs=1e-9) and pair.gain == pytest.approx(0.9, abs=1e-9)


@pytest.mark.parametrize("dtype", ["f16", "int32", None, "nonsense"])
def test_numbers_that_are_no_floats_of_ours(text, dtype):
    with pytest.raises(ValueError, match="dtype is"):
        lw.LDS(3, dtype=dtype).fit(lw.count(lines=text, min_count=1, max_lag=7))


def test_text_for_a_model_of_tokens_split_elsewhere(text):
    model = lw.LDS(3, n_iter=0).fit(
        lw.count(lines=[" ".join(line) for line in text], tokenizer=str.split, min_count=1, max_lag=7)
    )
    with pytest.raises(ValueError, match="pass token lists in place of text"):
        model.transform("w1 w2")
    assert model.transform(["w1", "w2"]).shape == (2, 3)


@pytest.fixture(scope="module")
def words():
    lines = ["w1 w2 w3 w4", "w2 w4 w1", "w3 w3 w2 w1 w4 w1"] * 40
    return lw.LDS(2, ssid_lags=2, em_lags=3, n_iter=2, tol=0).fit(lw.count(lines=lines, min_count=1, max_lag=3))


@pytest.mark.parametrize("space", ["\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u00a0", " "])
def test_only_newlines_end_a_line_of_text(words, space):
    for text in (f"w1 w2{space}w3 w4", f"w1{space}\nw2 w3\n", f"w1\n\n{space}w4", space):
        ids, offsets = words.vocabulary_.encode(lines=text.removesuffix("\n").split("\n"))
        lengths = np.diff(np.append(offsets, len(ids)))
        np.testing.assert_array_equal(words.transform(text), words.transform(ids, lengths))


def test_wrong_tokens_are_named(words):
    masked = np.ma.array([0, 1], mask=[0, 1])
    for given, message in (
        (masked, "mask would be lost"),
        ([masked], "mask would be lost"),
        ([[[1], [1, 2]]], r"row 0 holds \[1\] \(list\)"),
        ([["w1", 1]], r"row 0 holds 'w1' \(str\).*all its tokens to be words, or all ids"),
        ([["w1", None]], r"row 0 holds 'w1'"),
        ([[0, None]], r"row 0 holds None \(NoneType\)"),
        ([[0, True]], r"row 0 holds True \(bool\)"),
        (np.zeros((0, 5)), r"shape \(0, 5\)"),
        ([2**70], "outside the vocabulary"),
        ([[2**70]], "outside the vocabulary"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            words.transform(given)
    assert words.transform([np.array(["w1", "w2"])]).shape == (2, 2)
    with pytest.raises(ValueError, match="takes one sequence, got 2"):
        words.forecast("w1\n\nw3")


def test_a_model_is_not_written_over(words):
    before = words.C_.copy()
    with pytest.raises(ValueError, match="model's own"):
        words.transform(np.zeros(len(before), dtype=int), out=words.C_)
    np.testing.assert_array_equal(words.C_, before)


def test_scales_beyond_the_range_of_numbers(words):
    for scale in (1e300, 1e200):
        with pytest.raises(ValueError, match="out of the range of float32"):
            words.to_rnn("softmax", scale)


def test_wrong_callbacks_are_named():
    counts = lw.count(lines=["a b c a c b"] * 20, min_count=1, max_lag=3)
    model = lw.LDS(1, ssid_lags=2, em_lags=3, n_iter=2)
    with pytest.raises(TypeError, match="callback is 3; expected a function"):
        model.fit(counts, callback=3)
    with pytest.raises(ValueError, match="callback returned 'x' at iteration 0"):
        model.fit(counts, callback=lambda i, m: "x")
    with pytest.raises(ValueError, match="pseudocount is 1e"):
        lw.LDS(1, pseudocount=1e307).fit(counts)
