"""Order-2 Viterbi over candidate states: the same paths as the dense decoder and as all paths by enumeration."""

import itertools

import numpy as np
import pytest

from lagwise.hmm import HMM, HMMTagger
from lagwise.hmm.candidates import Candidates, dominance_margins, undominated
from lagwise.hmm.exact import viterbi_path
from lagwise.hmm.packing import log_arrays
from lagwise.hmm.parameters import Parameters
from lagwise.hmm.paths import PairDecoder, best_labels, joint_score
from tests.estimators.test_hmm_tagger import corpus


def random_model(rng, K, R, zeros=0.0, stop=True):
    def rows(*shape):
        table = rng.dirichlet(np.full(shape[-1], 0.5), shape[:-1])
        table *= rng.random(table.shape) >= zeros
        return table / np.maximum(table.sum(axis=-1, keepdims=True), 1e-300)

    full = [rows(K), rows(K, K, K + 1), rows(K, K + 1)]
    emission = rng.random((R, K)) ** 4 * (rng.random((R, K)) >= zeros)
    emission[:, 0] += 0.01  # every row has a state
    if not stop:
        return Parameters(full[0], rows(K, K, K), emission, rows(K, K))
    return Parameters(full[0], full[1][..., :K], emission, full[2][:, :K], full[1][..., K].copy(), full[2][:, K].copy())


@pytest.mark.parametrize("K", [1, 3, 5, 17, 40])
@pytest.mark.parametrize("zeros", [0.0, 0.6])
def test_same_as_dense_decoder(K, zeros):
    rng = np.random.default_rng(K)
    parameters = random_model(rng, K, 30, zeros=zeros / 2)
    parameters.emission *= rng.random(parameters.emission.shape) >= zeros
    parameters.emission[:, 0] += 0.01
    parameters.start, parameters.second, parameters.transition = (
        array + 1e-6 for array in (parameters.start, parameters.second, parameters.transition)
    )
    parameters.stop, parameters.stop1 = parameters.stop + 1e-6, parameters.stop1 + 1e-6
    lengths = np.array([1, 2, 3, 0, 9, 40, 1, 7])
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    rows = rng.integers(30, size=offsets[-1]).astype(np.int32)
    logs = log_arrays(parameters, parameters.emission)
    expected = [viterbi_path(logs, rows[a:b]) for a, b in zip(offsets[:-1], offsets[1:])]
    for n_threads in (1, 2):
        found = best_labels(parameters, parameters.emission, rows, offsets, n_threads)
        assert np.array_equal(found, np.concatenate(expected))


def all_paths(parameters, rows):
    """The best log score by enumeration."""
    logs = log_arrays(parameters, parameters.emission)
    offsets = np.array([0, rows.size])
    return max(
        joint_score(parameters, parameters.emission, rows, offsets, np.array(path, dtype=np.int32))
        for path in itertools.product(range(logs["start"].size), repeat=rows.size)
    )


@pytest.mark.parametrize("seed", range(20))
def test_dominated_states_are_never_on_the_best_path(seed):
    rng = np.random.default_rng(seed)
    parameters = random_model(rng, 3, 6, stop=bool(seed % 2))
    for array in (parameters.start, parameters.transition, parameters.second):
        array *= 0.2
        array += 0.8 / 3  # transitions that differ little, so that emissions often decide
    decoder = PairDecoder(parameters)
    with np.errstate(divide="ignore"):
        log_table = np.log(parameters.emission)
    keep = undominated(log_table, dominance_margins(decoder.logs))
    assert keep.any(axis=1).all() and not keep.all()
    candidates = Candidates.of(log_table, keep)
    for T in (1, 2, 3, 5):
        rows = rng.integers(6, size=T).astype(np.int32)
        path = decoder.paths(candidates, rows, np.array([0, T]), 1)
        score = joint_score(parameters, parameters.emission, rows, np.array([0, T]), path)
        np.testing.assert_allclose(score, all_paths(parameters, rows), rtol=1e-12)
        assert keep[rows, path].all()


def test_margins_leave_states_that_context_can_save():
    K = 2
    parameters = Parameters(
        np.array([0.5, 0.5]),
        np.full((K, K, K), 0.5),
        np.array([[0.9, 0.1]]),
        np.full((K, K), 0.5),
    )
    margins = dominance_margins(log_arrays(parameters, parameters.emission))
    assert margins[1, 0] == 0 and undominated(np.log(parameters.emission), margins).tolist() == [[True, False]]
    parameters.transition[1, 1] = [0.001, 0.999]
    margins = dominance_margins(log_arrays(parameters, parameters.emission))
    assert undominated(np.log(parameters.emission), margins).tolist() == [[True, True]]


def test_impossible_sequences_are_named():
    model = HMM(2, order=2)
    model.startprob_, model.transmat1_ = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    model.transmat_ = np.zeros((2, 2, 2))
    model.transmat_[:, 0, 1] = model.transmat_[:, 1, 0] = 1.0
    model.emissionprob_ = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert [path.tolist() for path in model.predict([[0, 1, 0], [], [0]])] == [[0, 1, 0], [], [0]]
    with pytest.raises(ValueError, match="sequence 1 is impossible.*position 2"):
        model.decode([[0, 1, 0], [0, 1, 1]])


@pytest.mark.parametrize("settings", [{}, {"unknown": "suffix", "backoff": 0}, {"unknown": "suffix"}])
def test_taggers_decode_exactly(settings):
    X, y = corpus()
    tagger = HMMTagger(**settings).fit(X, y)
    new = [["the", "mouse", "quickly", "barks"], ["Zoe", "sleeps"], ["a"], ["walk-ing", "2004", "McX", "the", "cats"]]
    lexicon = tagger._lexicon()
    rows = tagger._rows(new, sum(map(len, new)), lexicon)
    logs, begin = log_arrays(tagger._parameters, lexicon.table), 0
    for sentence, tags in zip(new, tagger.predict(new)):
        path = viterbi_path(logs, rows[begin : begin + len(sentence)])
        begin += len(sentence)
        assert tags == [tagger.tags_[k] for k in path]
    assert tagger.predict(new * 50) == HMMTagger(**settings, n_threads=2).fit(X, y).predict(new * 50)
