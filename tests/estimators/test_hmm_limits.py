"""What an HMM refuses, leaves alone and counts: constraints, labels, batches, masked input."""

import warnings
from typing import Any

import numpy as np
import pytest

import lagwise as lw
from lagwise._validation import NotFittedError
from lagwise.hmm import HMM, learning

nan = np.nan
pytestmark = pytest.mark.filterwarnings("ignore:EM did not converge", "ignore:no counts for")
FLAT = ([0.5, 0.5], [[0.5, 0.5]] * 2, [[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]])


def given(**arguments):
    """Two states, three symbols, with arrays of its own."""
    model = HMM(2, **arguments)
    model.startprob_, model.transmat_, model.emissionprob_ = map(np.array, FLAT)
    return model


# Free parameters


def test_settled_entries_are_no_parameters(tmp_path):
    fixed = {"emission": [[1, 0], [0, 1]], "transition": [[0.5, 0.5]] * 2, "start": [0.5, 0.5]}
    X = [0, 1, 0, 1, 1, 0]
    model = HMM(2, n_symbols=2, random_state=0, n_iter=3)
    assert model.fit(X, fixed=fixed).n_parameters() == 0
    assert model.aic(X) == pytest.approx(-2 * model.score(X))
    model.save(tmp_path / "m")
    assert lw.load(tmp_path / "m").n_parameters() == 0
    assert model.fit(X).n_parameters() == 5
    model.fit(X, fixed=fixed).partial_fit(X)  # which fixes nothing
    assert model.n_parameters() == 5


def test_dictionary_entries_are_no_parameters(tmp_path):
    X = [0, 1, 2, 2, 1, 0, 1]
    model = HMM(3, n_symbols=3, random_state=0, n_iter=3)
    model.fit(X, dictionary={0: [1]}, fixed={"start": [0.2, 0.3, 0.5]})
    assert model.n_parameters() == 4 + 6
    model.save(tmp_path / "m")
    assert lw.load(tmp_path / "m").n_parameters() == 10
    model.params = "t"
    assert model.n_parameters() == 6
    two = HMM(2, n_symbols=3, order=2, random_state=0, n_iter=3).fit(X, dictionary={0: [1]})
    assert two.n_parameters() == 1 + 2 + 4 + (1 + 2)


def test_the_stop_probability_is_a_free_entry():
    X = [[0, 1, 0], [1, 1], [0]]
    row = {"transition": [[0.25, nan], [nan, nan]]}
    model = HMM(2, n_symbols=2, stop_state=True, random_state=0, n_iter=3)
    assert model.fit(X, fixed=row).n_parameters() == 1 + (1 + 2) + 2
    assert model.fit(X).n_parameters() == 1 + 4 + 2


# Counts of other models


@pytest.mark.parametrize("change", [{"n_states": 3}, {"n_symbols": 3}, {"order": 2}, {"stop_state": True}])
def test_counts_of_different_models(change):
    arguments: dict[str, Any] = {"n_states": 2, "n_symbols": 2, "random_state": 0, "n_iter": 1}
    X = [[0, 1, 1], [1, 0]]
    one, other = HMM(**arguments).fit(X), HMM(**(arguments | change)).fit(X)
    ours, theirs = one.expected_counts(X), other.expected_counts(X)
    name = {"n_states": "K=3", "n_symbols": "V=3", "order": "order=2", "stop_state": "stop_state=True"}[
        next(iter(change))
    ]
    for refused in (lambda: ours + theirs, lambda: one.partial_fit(counts=theirs)):
        with pytest.raises(ValueError, match="K=2, V=2, order=1, stop_state=False") as caught:
            refused()
        assert name in str(caught.value)
    assert sum([ours, ours], ours).n_symbols == 15
    assert one.partial_fit(counts=ours + ours).n_iter_ == 2


def test_what_are_no_counts():
    model = given()
    with pytest.raises(TypeError, match="counts is a int; expected what expected_counts returns"):
        model.partial_fit(counts=3)
    with pytest.raises(TypeError):
        model.expected_counts([0, 1]) + 3
    with pytest.raises(NotFittedError, match="not fitted"):
        HMM(2, n_symbols=3).partial_fit(counts=model.expected_counts([0, 1]))


# Labelled batches


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("stop", [False, True])
def test_labelled_batches_are_relative_frequencies(order, stop):
    X = [[[0, 1, 1, 0], [1]], [[1, 0, 2, 2, 0]], [[2, 1], [0, 0, -1, 1]]]
    y = [[[0, 1, 0, 0], [1]], [[1, 0, 1, 1, 0]], [[1, 0], [0, 0, 1, 1]]]
    batches = HMM(2, n_symbols=3, order=order, stop_state=stop, random_state=0)
    for part, labels in zip(X, y):
        batches.partial_fit(part, y=labels)
    whole = HMM(2, n_symbols=3, order=order, stop_state=stop).fit(sum(X, []), y=sum(y, []))
    names = ["startprob_", "transmat_", "emissionprob_"] + ["transmat1_"] * (order == 2) + ["stopprob_"] * stop
    for name in names:
        np.testing.assert_allclose(getattr(batches, name), getattr(whole, name), rtol=1e-15)
    assert np.all(np.isfinite(batches.history_)) and len(batches.history_) == 3 and batches.n_iter_ == 3
    assert batches.counts_.n_symbols == 16


def test_a_second_labelled_batch():
    model = HMM(2, n_symbols=2)
    model.partial_fit([[0, 1]], y=[[0, 1]])
    assert model.history_ == [0.0]
    model.partial_fit([[1, 0]], y=[[1, 0]])
    assert model.startprob_.tolist() == [0.5, 0.5]
    assert model.transmat_.tolist() == [[0, 1], [1, 0]] and model.emissionprob_.tolist() == [[1, 0], [0, 1]]
    assert model.history_[1] == pytest.approx(np.log(0.5))


def test_labels_against_frozen_zeros_leave_the_model_as_it_was():
    model = given(params="st", init_params="")
    model.emissionprob_ = np.array([[1.0, 0, 0], [0, 0.5, 0.5]])
    with pytest.raises(ValueError, match="probability 0 under what params='st' does not train"):
        model.partial_fit([[0, 1]], y=[[1, 1]])
    assert not hasattr(model, "history_") and not hasattr(model, "counts_")
    with pytest.raises(ValueError, match="probability 0 under what params='st' does not train"):
        model.fit([[0, 1]], y=[[1, 1]])


def test_partial_labels_still_take_an_e_step():
    X, y = [[0, 2, 1]], [[0, -1, 1]]
    model, step = given(), given()
    model.partial_fit(X, y=y)
    step.partial_fit(counts=step.expected_counts(X, y=y))
    assert np.array_equal(model.emissionprob_, step.emissionprob_) and model.history_ == step.history_


# Masked arrays


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.uint64])
def test_masked_entries_are_missing(dtype):
    model, masked = given(), np.ma.array(np.array([0, 1, 2], dtype=dtype), mask=[False, True, False])
    expected = model.score([0, -1, 2])
    assert expected != model.score([0, 1, 2])
    assert model.score(masked) == model.score(masked[:, None]) == expected
    assert model.score([masked, masked[:, None]]) == model.score([[0, -1, 2], [0, -1, 2]])
    assert model.score(np.ma.array([0, 1, 2])) == model.score([0, 1, 2])
    assert np.array_equal(model.predict_proba(masked), model.predict_proba([0, -1, 2]))
    with pytest.raises(TypeError, match="float64 values"):
        model.score(np.ma.array([0.0, 1.0], mask=[False, True]))


def test_masked_labels_are_unknown():
    model, labels = given(), np.ma.array([0, 1, 1], mask=[False, True, False])
    expected = model.expected_counts([0, 1, 2], y=[0, -1, 1]).log_likelihood
    assert model.expected_counts([0, 1, 2], y=labels).log_likelihood == expected
    assert model.expected_counts([[0, 1, 2]], y=[labels]).log_likelihood == expected


# Arguments of a wrong kind


@pytest.mark.parametrize(
    "dictionary, kind, message",
    [
        ({0: [0.9]}, ValueError, r"dictionary\[0\] is \[0.9\]; expected states among 0..1"),
        ({0: None}, ValueError, r"dictionary\[0\] is None; expected states"),
        ({0: "a"}, ValueError, r"dictionary\[0\] is 'a'; expected states"),
        ({0: [True]}, ValueError, r"dictionary\[0\] is \[True\]; expected states"),
        ({0: []}, ValueError, r"dictionary\[0\] is \[\]; expected states"),
        ({0.5: [0]}, ValueError, "a symbol of dictionary is 0.5; expected an integer"),
        ([1], TypeError, r"dictionary is \[1\]; expected a dict"),
    ],
)
def test_dictionaries_that_are_none(dictionary, kind, message):
    with pytest.raises(kind, match=message):
        HMM(2, n_symbols=3).fit([0, 1, 2], dictionary=dictionary)


def test_states_in_any_container():
    for states in (1, np.int32(1), [1], (1,), {1}, np.array([1]), range(1, 2)):
        assert HMM(2, n_symbols=3, random_state=0).fit([0, 1, 2], dictionary={0: states}).emissionprob_[0, 0] == 0


@pytest.mark.parametrize(
    "fixed, kind, message",
    [
        (3, TypeError, "fixed is 3; expected a dict"),
        ({"start": "x"}, ValueError, r"fixed\['start'\] is 'x'; expected an array of numbers of shape \(2,\)"),
        ({"start": None}, ValueError, r"fixed\['start'\] is None; expected an array"),
        (
            {"emission": [[1, 0, 0], [1]]},
            ValueError,
            r"fixed\['emission'\] is \[\[1, 0, 0\], \[1\]\]; expected an array",
        ),
    ],
)
def test_fixed_that_is_none(fixed, kind, message):
    with pytest.raises(kind, match=message):
        HMM(2, n_symbols=3).fit([0, 1, 2], fixed=fixed)


@pytest.mark.parametrize("name", ["startprob_", "transmat_", "emissionprob_"])
@pytest.mark.parametrize("value", [None, "x", [["x"]]])
def test_attributes_that_are_no_arrays(name, value):
    model = given(init_params="", n_iter=1)
    setattr(model, name, value)
    with pytest.raises(ValueError, match=f"{name} is .*; expected an array of probabilities"):
        model.score([0, 1, 2])
    if value is not None:
        with pytest.raises(ValueError, match=f"{name} is .*; expected an array of probabilities"):
            model.fit([0, 1, 2])


def test_stop_probabilities_that_are_none():
    model = given(stop_state=True)
    for value, message in (("x", "is 'x'; expected"), ([nan, 0.5], "outside 0..1"), ([0.5], r"shape \(1,\)")):
        model.stopprob_ = value
        with pytest.raises(ValueError, match="stopprob_ .*" + message):
            model.score([0, 1, 2])


def test_init_that_is_no_array():
    with pytest.raises(ValueError, match="init transition is 'x'; expected an array of probabilities"):
        HMM(2, n_symbols=3, init=(FLAT[0], "x", FLAT[2])).fit([0, 1, 2])


def test_what_a_dictionary_and_fixed_say_of_one_entry():
    kept = {"emission": [[0.5, nan, nan], [nan, nan, nan]]}
    with pytest.raises(
        ValueError, match=r"dictionary\[0\] is \[1\], but fixed keeps the emission .* state 0 there at 0.5"
    ):
        HMM(2, n_symbols=3).fit([0, 1, 2], fixed=kept, dictionary={0: [1]})
    with pytest.raises(ValueError, match="no symbol for state 0"):
        HMM(2, n_symbols=3).fit([0, 1, 2], fixed=kept, dictionary={1: [1], 2: [1]})


def test_messages():
    with pytest.raises(ValueError, match=r"pseudocount of start is \['x', 'y'\]; expected a number or an array"):
        HMM(2, pseudocount={"start": ["x", "y"]}).fit([0, 1])
    with pytest.raises(ValueError, match="X has no symbols, .* give n_symbols"):
        HMM(2).partial_fit([])
    with pytest.raises(ValueError, match="order is '1'; expected one of 1, 2") as caught:
        HMM(2).set_params(order="1").fit([0, 1])
    assert "did you mean" not in str(caught.value)
    with pytest.raises(ValueError, match="labels go in y="):
        HMM(2).fit([[0, 1], [1]], [[0, 1], [1]])


# Frozen arrays


@pytest.mark.parametrize("dictionary", [{}, {0: [0, 1]}, {2: [1]}])
def test_frozen_emissions_stay_bit_for_bit(dictionary):
    model = given(params="st", init_params="", n_iter=3)
    emission = np.random.default_rng(0).dirichlet(np.ones(3), size=2)
    if dictionary.get(2) == [1]:
        emission[0] = [0.1, 0.9, 0.0]
        emission[0, 0] = 1 - 0.9  # a sum one ulp from 1
    emission *= 1 + 1e-12
    model.emissionprob_ = emission.copy()
    model.fit([0, 1, 2, 1, 0, 2], dictionary=dictionary)
    assert np.array_equal(model.emissionprob_, emission)
    drawn = HMM(2, n_symbols=3, random_state=0, n_iter=3)
    if dictionary.get(2) != [1]:
        free = drawn.fit([0, 1, 2]).emissionprob_
        assert np.array_equal(drawn.fit([0, 1, 2], dictionary=dictionary).emissionprob_, free)


def test_frozen_arrays_that_contradict():
    model = given(params="st", init_params="")
    with pytest.raises(
        ValueError, match=r"the emission probability at \[1, 2\] is 0.2, but dictionary or fixed asks for 0"
    ):
        model.fit([0, 1, 2], dictionary={2: [0]})
    model = given(params="se", init_params="", n_iter=1)
    with pytest.raises(ValueError, match=r"the transition probability at \[0, 0\] is 0.5, but .* asks for 0.4"):
        model.fit([0, 1, 2], fixed={"transition": [[0.4, nan], [nan, nan]]})
    model.fit([0, 1, 2], fixed={"transition": [[0.5 + 1e-10, nan], [nan, nan]]})
    assert model.transmat_.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    HMM(2, params="st", n_iter=1, random_state=0).fit([0, 1, 2], dictionary={2: [0]})  # drawn: the mask is put in


# Labels against fixed zeros


def test_labels_that_fixed_gives_probability_zero():
    X, y = [0, 1, 2, 1], [0, 0, 1, 1]
    with pytest.raises(
        ValueError, match="position 0 of X has the label 0, but fixed does not allow a sequence to start"
    ):
        HMM(2, n_symbols=3).fit(X, y=y, fixed={"start": [0, 1]})
    with pytest.raises(ValueError, match=r"position 2 of X has the labels \[0, 1\] up to it, but .* this transition"):
        HMM(2, n_symbols=3).fit(X, y=y, fixed={"transition": [[1, 0], [nan, nan]]})
    third = np.full((2, 2, 2), nan)
    third[0, 1, 1] = 0
    with pytest.raises(ValueError, match=r"position 3 of X has the labels \[0, 1, 1\] up to it"):
        HMM(2, n_symbols=3, order=2).fit(X, y=y, fixed={"transition": third})
    stays = {"transition": [[nan, nan], [0.5, 0.5]]}
    HMM(2, n_symbols=3).fit(X, y=y, fixed=stays)
    with pytest.raises(
        ValueError, match=r"position 3 of X has the label 1, but fixed does not allow a sequence to stop"
    ):
        HMM(2, n_symbols=3, stop_state=True).fit(X, y=y, fixed=stays)


def test_labels_that_fixed_allows():
    X, fixed = [[0, 1], [2, 1]], {"start": [0, 1], "transition": [[1, 0], [nan, nan]]}
    HMM(2, n_symbols=3).fit(X, y=[[1, 0], [1, 1]], fixed=fixed)  # 0 then 1 only across sequences
    HMM(2, n_symbols=3, random_state=0).fit(X, y=[[-1, 0], None], fixed=fixed)


# Ctrl-C between starts


@pytest.mark.parametrize("algorithm", ["soft", "hard"])
def test_starts_of_an_interrupted_fit(algorithm):
    X = np.random.default_rng(0).integers(4, size=60)
    model = HMM(3, n_symbols=4, algorithm=algorithm, n_init=3, n_iter=2, tol=0, random_state=0, n_threads=1)
    original, calls = learning.maximize, []

    def interrupting(*arguments):
        calls.append(1)
        if len(calls) == 3:  # the first M step of the second start
            raise KeyboardInterrupt
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(learning, "maximize", interrupting)
        model.fit(X)
    assert model.interrupted_ and [run["n_iter"] for run in model.restarts_] == [2, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = HMM(3, n_symbols=4, algorithm=algorithm, n_iter=2, tol=0, random_state=model.restarts_[0]["seed"]).fit(
            X
        )
    reached = first.score(X) if algorithm == "soft" else first.decode(X)[0]
    assert model.restarts_[0]["objective"] == pytest.approx(reached, rel=1e-12)
