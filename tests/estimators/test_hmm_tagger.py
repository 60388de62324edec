"""HMMTagger: interpolation by hand, unknown words, files, command line."""

import json

import numpy as np
import pytest

import lagwise as lw
from lagwise.hmm import HMMTagger, align_states, many_to_one, one_to_one, read_tagged, v_measure
from lagwise.hmm.smoothing import interpolated_transitions, interpolation_weights, tag_ngrams
from lagwise.hmm.unknown import SuffixModel, shape
from tests.support import run_cli

TEXT = [
    ("the/D old/A dog/N barks/V", 3),
    ("a/D dog/N sees/V the/D cat/N", 4),
    ("cats/N sleep/V", 2),
    ("Mary/P barks/V loudly/R", 2),
    ("the/D cat/N slowly/R sleeps/V", 2),
    ("Mary/P sees/V a/D house/N", 1),
    ("run/V", 1),
]


def corpus():
    X, y = [], []
    for sentence, times in TEXT:
        pairs = [token.rsplit("/", 1) for token in sentence.split()]
        for _ in range(times):
            X.append([word for word, _ in pairs])
            y.append([tag for _, tag in pairs])
    return X, y


def by_hand(trigrams, order):
    """Deleted interpolation one n-gram at a time; ties are shared."""
    K = trigrams.shape[0]
    lambdas = [0.0] * (order + 1)
    unigram, bigram = trigrams.sum(axis=(0, 1)), trigrams.sum(axis=0)
    for a in range(K if order == 2 else 1):
        for b in range(K):
            for c in range(K):
                n = trigrams[a, b, c] if order == 2 else bigram[b, c]
                if n == 0:
                    continue
                values = [(unigram[c] - 1) / (unigram.sum() - 1)]
                values.append((bigram[b, c] - 1) / (bigram[b].sum() - 1) if bigram[b].sum() > 1 else 0.0)
                if order == 2:
                    total = trigrams[a, b].sum()
                    values.append((n - 1) / (total - 1) if total > 1 else 0.0)
                best = [i for i, value in enumerate(values) if value == max(values)]
                for i in best:
                    lambdas[i] += n / len(best)
    return np.array(lambdas) / sum(lambdas)


@pytest.mark.parametrize("order", [1, 2])
def test_interpolation(order):
    rng = np.random.default_rng(0)
    sequences = [rng.integers(4, size=n) for n in rng.integers(1, 9, size=30)]
    trigrams = tag_ngrams(sequences, 4)
    assert trigrams.sum() == sum(len(s) + 1 for s in sequences)
    weights = interpolation_weights(trigrams, order)
    np.testing.assert_allclose(weights, by_hand(trigrams, order), rtol=1e-12)
    table = interpolated_transitions(trigrams, weights)
    np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-12)
    b, c = int(sequences[0][0]), 4  # the end, after a tag
    unigram, bigram = trigrams.sum(axis=(0, 1)), trigrams.sum(axis=0)
    expected = weights[0] * unigram[c] / unigram.sum() + weights[1] * bigram[b, c] / bigram[b].sum()
    if order == 2:
        expected += weights[2] * trigrams[4, b, c] / trigrams[4, b].sum()
        np.testing.assert_allclose(table[4, b, c], expected, rtol=1e-12)
    else:
        np.testing.assert_allclose(table[b, c], expected, rtol=1e-12)


def test_suffix_model_by_hand():
    words, counts = ["walking", "king", "The", "the"], np.array([[2, 0], [0, 1], [0, 3], [0, 20]])
    model = SuffixModel(longest=3, rare=10).fit(words, counts)
    prior = np.array([2, 24]) / 26
    theta = np.std(prior, ddof=1)
    p = prior
    for f in ([2, 1], [2, 1], [2, 1], [2, 1]):  # lower case, -g, -ng, -ing
        p = (np.array(f) / 3 + theta * p) / (1 + theta)
    np.testing.assert_allclose(model.distributions(["sing"])[0], p, rtol=1e-12)
    assert model.distributions(["Sing"])[0, 1] > 0.9  # only "The" is capitalised among the rare


def test_shapes():
    assert [shape(w) for w in ("McDonald", "A-4", "IBM", "2004", "x")] == ["XxXxx", "X-d", "XX", "dd", "x"]


@pytest.mark.parametrize(
    "settings", [{}, {"order": 1}, {"unknown": "suffix", "backoff": 0}, {"unknown": "suffix", "order": 1}]
)
def test_fit_predict_evaluate_save(settings, tmp_path):
    X, y = corpus()
    tagger = HMMTagger(**settings).fit(X, y)
    result = tagger.evaluate(X, y)
    assert result["accuracy"] == result["known"] == 1.0 and result["unknown"] is None and result["unknown_share"] == 0
    assert tagger.score(X, y) == 1.0
    assert result["confusion"].sum() == np.trace(result["confusion"]) == sum(map(len, X))
    new = [["the", "mouse", "quickly", "barks"], [], ["Zoe", "sleeps"], ["a"]]
    tags = tagger.predict(new)
    assert [len(t) for t in tags] == [4, 0, 2, 1] and tags[0][0] == "D" and tags[0][3] == "V"
    proba = tagger.predict_proba(new)
    np.testing.assert_allclose(np.concatenate(proba).sum(axis=1), 1, rtol=0, atol=1e-12)
    measured = tagger.evaluate([["the", "mouse"]], [["D", "X"]])
    assert measured["unknown"] == 0.0 and measured["known"] == 1.0 and measured["unknown_share"] == 0.5
    assert measured["tags"][-1] == "X" and measured["confusion"].sum() == 2
    tagger.save(tmp_path / "tagger")
    again = lw.load(tmp_path / "tagger")
    assert again.predict(new) == tags and again.get_params() == tagger.get_params()


def test_predictions_are_the_best_of_all_paths():
    import itertools

    X, y = corpus()
    tagger = HMMTagger(unknown="suffix", backoff=0).fit(X, y)
    tags, counts = tagger.tags_, tagger.counts_
    table = interpolated_transitions(tagger.trigrams_, tagger.interpolation_)
    K = len(tags)
    sentence = ["the", "cat", "sees", "Mary"]

    def probability(path):
        full, p = [K, K, *path, K], 1.0
        for a, b, c in zip(full, full[1:], full[2:]):
            p *= table[a, b, c]
        for word, k in zip(sentence, path):
            p *= counts[tagger.vocabulary_.id(word), k] / counts[:, k].sum()
        return p

    best = max(itertools.product(range(K), repeat=4), key=probability)
    assert tagger.predict([sentence]) == [[tags[k] for k in best]]


def test_errors():
    with pytest.raises(ValueError, match="sentence 0 has 2 words but 1 tags"):
        HMMTagger().fit([["a", "b"]], [["X"]])
    with pytest.raises(ValueError, match="no words"):
        HMMTagger().fit([[]], [[]])
    with pytest.raises(TypeError, match="list of words"):
        HMMTagger().fit(["a b"], [["X", "Y"]])
    with pytest.raises(lw.NotFittedError):
        HMMTagger().predict([["a"]])
    with pytest.raises(ValueError, match="did you mean 'suffix'"):
        HMMTagger(unknown="sufix").fit(*corpus())


def test_grid_search():
    search = pytest.importorskip("sklearn.model_selection")
    found = search.GridSearchCV(HMMTagger(unknown="suffix", n_threads=1), {"order": [1, 2]}, cv=2).fit(*corpus())
    assert found.best_score_ > 0.5


def write_tagged(path, X, y):
    path.write_text(
        "\n".join("".join(f"{w}\t_\t{t}\n" for w, t in zip(words, tags)) for words, tags in zip(X, y)), encoding="utf-8"
    )


def test_files_and_command_line(tmp_path):
    X, y = corpus()
    write_tagged(tmp_path / "train.tsv", X, y)
    assert read_tagged(tmp_path / "train.tsv", 3) == (X, y)
    with pytest.raises(ValueError, match="line 1 has 3 column"):
        read_tagged(tmp_path / "train.tsv", 4)
    model = tmp_path / "model"
    done = json.loads(
        run_cli("hmm", "fit", "--tagged", tmp_path / "train.tsv", "--column", 3, "-o", model, "--json").stdout
    )
    assert done["tags"] == 6 and done["tokens"] == sum(map(len, X))
    refused = run_cli("hmm", "fit", "--tagged", tmp_path / "train.tsv", "-c", 3, "-o", model, check=False)
    assert refused.returncode == 1 and "--force" in refused.stderr
    result = json.loads(run_cli("hmm", "evaluate", model, "--tagged", tmp_path / "train.tsv", "-c", 3, "--json").stdout)
    assert result["accuracy"] == 1.0
    assert "accuracy" in run_cli("hmm", "evaluate", "--tagged", tmp_path / "train.tsv", model, "-c", 3).stdout
    (tmp_path / "text.txt").write_text("the dog barks\n\nMary sleeps\n")
    out = run_cli("hmm", "tag", model, tmp_path / "text.txt").stdout
    assert out == "the\tD\ndog\tN\nbarks\tV\n\nMary\tP\nsleeps\tV\n\n"
    assert run_cli("hmm", "tag", model, "-", "--pairs", input=b"the dog\n").stdout == "the/D dog/N\n"
    run_cli("hmm", "tag", model, tmp_path / "text.txt", "-o", tmp_path / "tags.tsv")
    assert (tmp_path / "tags.tsv").read_text() == out


def test_hmm_on_the_command_line(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(words) for words in corpus()[0]) + "\n")
    model = tmp_path / "model"
    for settings in (
        ["--algorithm", "soft"],
        ["--algorithm", "hard", "--starts", 3],
        ["--order", 2, "--pseudocount", 0.1],
    ):
        done = json.loads(
            run_cli("hmm", "fit", text, "-o", model, "--states", 3, "-n", 5, "-f", "-q", "--json", *settings).stdout
        )
        assert done["states"] == 3 and done["tokens"] == sum(map(len, corpus()[0]))
    first = model.read_bytes()
    assert first
    assert run_cli("hmm", "tag", model, text).stdout.count("\n\n") == 15
    write_tagged(tmp_path / "gold.tsv", *corpus())
    result = json.loads(run_cli("hmm", "evaluate", model, "--tagged", tmp_path / "gold.tsv", "-c", 3, "--json").stdout)
    assert 0 < result["many_to_one"] <= 1
    wrong = run_cli("hmm", "fit", text, "-o", model, "-f", "--algorithm", "sfot", check=False)
    assert wrong.returncode == 1 and "did you mean 'soft'" in wrong.stderr and "Traceback" not in wrong.stderr
    neither = run_cli("hmm", "fit", "-o", model, "-f", check=False)
    assert neither.returncode == 1 and "TEXTS or --tagged" in neither.stderr


def test_induction_measures():
    tags, states = [0, 0, 1, 1, 2, 2], [5, 5, 6, 7, 7, 7]
    assert many_to_one(states, tags) == pytest.approx(5 / 6)
    assert one_to_one(states, tags) == pytest.approx(5 / 6)
    assert many_to_one([1, 1, 2, 2, 3, 3], tags) == one_to_one([9, 9, 2, 2, 3, 3], tags) == 1
    assert one_to_one([0, 1, 2, 3, 4, 5], tags) == pytest.approx(0.5) and many_to_one(range(6), tags) == 1
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.integers(4, size=50), rng.integers(3, size=50)
        assert v_measure(a, b) == pytest.approx(metrics.v_measure_score(b, a), rel=1e-12)
    assert v_measure([[0, 0], [1]], [np.array([0, 0]), np.array([1])]) == 1
    with pytest.raises(ValueError, match="same length"):
        many_to_one([0, 1], [0])


def test_align_states():
    rng = np.random.default_rng(0)
    one, two = lw.HMM(4), lw.HMM(4)
    one.emissionprob_ = rng.dirichlet(np.ones(9), 4)
    order = rng.permutation(4)
    two.emissionprob_ = one.emissionprob_[order]
    assert np.array_equal(order[align_states(one, two)], np.arange(4))


def test_cluster_starts():
    rng = np.random.default_rng(0)
    names = np.array([0, 1])
    X = []
    for _ in range(60):  # two classes that alternate
        kind = np.tile(names, 6)[rng.integers(2) :][:10]
        X.append(np.where(kind == 0, rng.integers(6, size=10), 6 + rng.integers(6, size=10)))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            lw.HMM(2, init="sens", n_iter=10, random_state=seed, n_threads=n).fit(X) for seed, n in ((0, 1), (0, 2))
        ]
    assert np.array_equal(fits[0].emissionprob_, fits[1].emissionprob_)
    truth = np.concatenate(X) >= 6
    assert many_to_one(np.concatenate(fits[0].predict(X)), truth) == 1.0
