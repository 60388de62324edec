"""HMM kernels against plain twins: blocks against single sequences in exact log space, slices, threads."""

import numpy as np
import pytest

from lagwise.hmm import exact as exact_module
from lagwise.hmm import paths, plan
from lagwise.hmm.exact import exact_sequence, viterbi_path
from lagwise.hmm.observations import EmissionRows
from lagwise.hmm.packing import Packed, log_arrays
from lagwise.hmm.parameters import Parameters
from lagwise.hmm.plan import Plan
from lagwise.hmm.recursions import forward_backward
from tests.reference import hmm as oracle

V = 30


def problem(seed, K, order, lengths, stop=False, zeros=0.0):
    rng = np.random.default_rng(seed)
    model = oracle.random_model(rng, K, V, order, zeros, stop)
    parameters = Parameters(
        model["start"],
        model["transition"],
        np.ascontiguousarray(model["emission"].T),
        model.get("second"),
        model.get("stop"),
        model.get("stop1"),
    )
    ids = rng.integers(-1, V, size=sum(lengths)).astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return parameters, EmissionRows.of(ids, None, V, K), offsets


def exact(parameters, data, offsets):
    """Every sequence on its own by the exact kernel."""
    logs = log_arrays(parameters, data.table(parameters.emission))
    counts = Parameters.zeros(parameters.n_states, data.n_rows, parameters.order, True)
    posterior = np.zeros((data.rows.size, parameters.n_states))
    loglik = np.array(
        [
            exact_sequence(logs, data.rows[a:b], counts, posterior[a:b]) if b > a else 0.0
            for a, b in zip(offsets[:-1], offsets[1:])
        ]
    )
    return loglik, counts, posterior


def blocks(parameters, data, offsets, n_threads=1):
    plan = Plan(data.rows, offsets, parameters.n_states, data.n_rows, parameters.order)
    return forward_backward(plan, Packed.of(parameters, data.table(parameters.emission), plan), n_threads, True, True)


def assert_same(one, two, rtol=1e-10):
    np.testing.assert_allclose(one[0], two[0], rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(one[2], two[2], rtol=rtol, atol=1e-13)
    for name, array in one[1].arrays().items():
        np.testing.assert_allclose(array, getattr(two[1], name), rtol=rtol, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("K", [1, 2, 7, 8, 9, 16, 17, 24, 25, 45])
@pytest.mark.parametrize("stop", [False, True])
def test_blocks_of_order_1(K, stop):
    rng = np.random.default_rng(K)
    case = problem(K, K, 1, [*rng.integers(0, 40, size=150), 1, 300], stop)
    assert_same(blocks(*case), exact(*case))


@pytest.mark.parametrize("K", [1, 3, 8, 9])
@pytest.mark.parametrize("stop", [False, True])
def test_blocks_of_order_2(K, stop):
    rng = np.random.default_rng(K)
    case = problem(K, K, 2, [*rng.integers(0, 12, size=60), 1, 2, 3, 50], stop)
    assert_same(blocks(*case), exact(*case))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("n_sequences", [1, 5, 63, 64, 65])
def test_slices_and_checkpoints(order, n_sequences, monkeypatch):
    lengths = np.random.default_rng(0).integers(1, 60, size=n_sequences)
    case = problem(1, 5, order, [*lengths])
    whole = blocks(*case)
    monkeypatch.setattr(plan, "_SLICE_NUMBERS", 64 * 8**order)
    sliced = blocks(*case)
    assert_same(sliced, whole, rtol=1e-12)
    for name, array in sliced[1].arrays().items():
        if name != "emission":
            np.testing.assert_allclose(array, getattr(whole[1], name), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("order", [1, 2])
def test_zeros_and_impossible_sequences(order):
    parameters, data, offsets = problem(2, 6, order, [5] * 80, zeros=0.7)
    fast, slow = blocks(parameters, data, offsets), exact(parameters, data, offsets)
    assert np.any(fast[0] == -np.inf) and np.any(np.isfinite(fast[0]))
    assert_same(fast, slow)
    for result in (fast, slow):
        assert not np.any(np.isnan(result[2]))


@pytest.mark.parametrize("order", [1, 2])
def test_underflow_goes_to_the_exact_kernel(order):
    """A chain that may not turn back, whose emissions prefer the state that the last symbol rules out."""
    K, T = 2, 500
    parameters, data, offsets = problem(0, K, order, [T, 20, T])
    parameters.transition[...] = 0
    for a in range(K):
        parameters.transition[(a,) * order + (a,)] = 1
    parameters.transition[...] += 0.0
    if order == 2:
        parameters.transition[0, 1, 1] = parameters.transition[1, 0, 0] = 1
        parameters.second = np.eye(K)
    parameters.start = np.array([0.5, 0.5])
    parameters.emission[:] = 0.001
    parameters.emission[0] = [0.01, 0.5]
    parameters.emission[1] = [0.3, 0.0]
    data.rows[:] = 0
    data.rows[[T - 1, T + 19, -1]] = 1
    plan = Plan(data.rows, offsets, K, data.n_rows, order)
    packed = Packed.of(parameters, data.table(parameters.emission), plan)
    fast = forward_backward(plan, packed, 1, True, True)
    assert plan.needs_exact.tolist() == [True, False, True]
    expected = [np.log(0.5 * 0.3) + n * np.log(0.01) for n in (T - 1, 19, T - 1)]
    np.testing.assert_allclose(fast[0], expected, rtol=1e-12)
    assert np.all(fast[2][:, 0] > 1 - 1e-12)
    assert_same(fast, exact(parameters, data, offsets))
    assert_same(forward_backward(plan, packed, 2, True, True), fast, rtol=1e-15)


@pytest.mark.parametrize("order", [1, 2])
def test_threads_give_the_same_bits_and_inputs_stay(order):
    parameters, data, offsets = problem(3, 4, order, [*np.random.default_rng(1).integers(0, 30, size=700)])
    kept = {name: array.copy() for name, array in parameters.arrays().items()}
    one, two = blocks(parameters, data, offsets, 1), blocks(parameters, data, offsets, 2)
    assert np.array_equal(one[0], two[0]) and np.array_equal(one[2], two[2])
    for name, array in one[1].arrays().items():
        assert np.array_equal(array, getattr(two[1], name)), name
    for name, array in kept.items():
        assert np.array_equal(array, getattr(parameters, name)), name


@pytest.mark.parametrize("order", [1, 2])
def test_viterbi_of_many_is_viterbi_of_one(order, monkeypatch):
    parameters, data, offsets = problem(4, 5, order, [*np.random.default_rng(1).integers(0, 30, size=90)], stop=True)
    table = data.table(parameters.emission)
    logs = log_arrays(parameters, table)
    single = np.concatenate([viterbi_path(logs, data.rows[a:b]) for a, b in zip(offsets[:-1], offsets[1:])])
    for n_threads in (1, 2):
        assert np.array_equal(paths.best_labels(parameters, table, data.rows, offsets, n_threads), single)
    rows = np.tile(data.rows, 3)
    whole = viterbi_path(logs, rows)
    assert rows.size > 1000
    monkeypatch.setattr(exact_module, "_KEPT_VITERBI", 97 * 5**order)
    path = viterbi_path(logs, rows)
    assert np.array_equal(path, whole)


@pytest.mark.parametrize("missing", [True, False])
def test_labels_and_missing_symbols_become_rows(missing):
    ids = np.array([0, 1, 1, -1, 2, 0], dtype=np.int32)
    labels = np.array([-1, 1, -1, 0 if missing else -1, 1, -1], dtype=np.int32)
    data = EmissionRows.of(ids, labels, 3, 2)
    emission = np.array([[0.2, 0.3], [0.5, 0.1], [0.3, 0.6]])
    rows = data.table(emission)[data.rows]
    expected = np.where(ids[:, None] < 0, 1.0, emission[np.maximum(ids, 0)])
    expected[(labels[:, None] >= 0) & (labels[:, None] != np.arange(2))] = 0
    assert np.array_equal(rows, expected)
    counts = np.zeros((data.n_rows, 2))
    np.add.at(counts, data.rows, expected)
    folded = np.zeros((3, 2))
    np.add.at(folded, ids[ids >= 0], expected[ids >= 0])
    np.testing.assert_allclose(data.fold(counts), folded, rtol=1e-15)
