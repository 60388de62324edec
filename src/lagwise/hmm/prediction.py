"""`Predictor`: everything that a hidden Markov model answers once its arrays are there."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._estimator import Estimator
from .._threads import resolve_threads
from .._validation import check_choice, check_fitted, check_int, check_random_state
from ..vocabulary import Vocabulary
from . import exact, inference, paths
from .constraints import Constraints, check_order, read_numbers
from .expectations import Counts, expect, kind_of
from .observations import EmissionRows, Sequences, check_symbols, read_labels, read_sequences
from .packing import Packed, log_arrays
from .parameters import Parameters, check_distribution
from .plan import Plan
from .recursions import forward_backward

_ARRAYS = ("startprob_", "transmat_", "transmat1_", "emissionprob_", "stopprob_", "stopprob1_")


class Predictor(Estimator):
    """Inference, sampling, information criteria and files of a model whose arrays were learned or assigned."""

    n_symbols: int | None
    order: int
    stop_state: bool
    unknown: str
    params: str
    init_params: str
    init: Any
    pseudocount: Any
    random_state: Any
    n_threads: int | None
    startprob_: np.ndarray
    transmat_: np.ndarray
    transmat1_: np.ndarray
    emissionprob_: np.ndarray
    stopprob_: np.ndarray
    stopprob1_: np.ndarray
    history_: list[float]
    vocabulary_: Vocabulary | None
    n_symbols_: int
    _learned: tuple[np.ndarray, np.ndarray, np.ndarray]
    _free: dict[str, Any]  # what a fit with `fixed` or `dictionary` left free, and the kind of model it was

    def _own_parameters(self, K: int | None = None, V: int | None = None, only: set[str] | None = None) -> Parameters:
        """The attributes, checked."""
        want = set("ste") if only is None else only
        for letter, attribute in (("s", "startprob_"), ("t", "transmat_"), ("e", "emissionprob_")):
            if letter in want:
                check_fitted(self, attribute)
        order = check_order(self.order)
        if K is None:
            K = int(self._array("startprob_", 1).size)
        stop = stop1 = second = None
        start = check_distribution("startprob_", self._array("startprob_", 1), (K,)) if "s" in want else np.zeros(K)
        transition: np.ndarray = np.zeros((K,) * (order + 1))
        if "t" in want:
            stop = self._stops("stopprob_", K, order) if self.stop_state else None
            given = self._array("transmat_", order + 1)
            transition = check_distribution("transmat_", given, (K,) * (order + 1), 1.0 if stop is None else 1.0 - stop)
            if order == 2:
                check_fitted(self, "transmat1_")
                stop1 = self._stops("stopprob1_", K, 1) if self.stop_state else None
                second = check_distribution(
                    "transmat1_", self._array("transmat1_", 2), (K, K), 1.0 if stop1 is None else 1.0 - stop1
                )
        if "e" in want:
            given = self._array("emissionprob_", 2)
            emission = np.ascontiguousarray(check_distribution("emissionprob_", given, (K, V)).T)
        else:
            emission = np.zeros((V or 0, K))
        return Parameters(start, transition, emission, second, stop, stop1)

    def _array(self, name: str, ndim: int) -> np.ndarray:
        """An attribute as numbers, of `ndim` axes."""
        expected = f"an array of probabilities with {ndim} {'axis' if ndim == 1 else 'axes'}"
        values = read_numbers(name, getattr(self, name), expected)
        if values.ndim != ndim:
            raise ValueError(f"{name} has shape {values.shape}; expected {expected}")
        return values

    def _stops(self, name: str, K: int, ndim: int) -> np.ndarray:
        check_fitted(self, name)
        stop = np.array(read_numbers(name, getattr(self, name), f"probabilities of shape {(K,) * ndim}"))
        if stop.shape != (K,) * ndim:
            raise ValueError(f"{name} has shape {stop.shape}; expected probabilities of shape {(K,) * ndim}")
        if not np.all((stop >= 0) & (stop <= 1)):
            raise ValueError(f"{name} holds numbers outside 0..1; expected probabilities")
        return stop

    def _set_parameters(self, parameters: Parameters) -> None:
        self.startprob_, self.transmat_ = parameters.start, parameters.transition
        self.emissionprob_ = np.ascontiguousarray(parameters.emission.T)
        if parameters.second is not None:
            self.transmat1_ = parameters.second
        if parameters.stop is not None:
            self.stopprob_ = parameters.stop
        if parameters.stop1 is not None:
            self.stopprob1_ = parameters.stop1
        self._learned = (self.startprob_, self.transmat_, self.emissionprob_)

    def _read(self, X: Any, lengths: Any, fitting: bool = False) -> Sequences:
        check_choice("unknown", self.unknown, ("ignore", "error", "unk"))
        keep = not fitting or "e" not in self.init_params
        vocabulary = getattr(self, "vocabulary_", None)
        sequences = read_sequences(X, lengths, vocabulary if keep else None, self.unknown)
        if keep and vocabulary is None and sequences.vocabulary is not None and hasattr(self, "emissionprob_"):
            raise ValueError(
                "X holds words, but this model's symbols are ids: it has no vocabulary to tell which word is which; "
                "pass ids, or fit the model on words"
            )
        if not fitting:
            check_symbols(sequences.ids, int(np.shape(self.emissionprob_)[1]))
        return sequences

    def _count_symbols(self, sequences: Sequences) -> int:
        if self.n_symbols is not None:
            V = check_int("n_symbols", self.n_symbols, 1)
            if sequences.vocabulary is not None and len(sequences.vocabulary) > V:
                raise ValueError(f"n_symbols is {V}, but the words make {len(sequences.vocabulary)} symbols")
            return V
        if sequences.vocabulary is not None:
            return len(sequences.vocabulary)
        if "e" not in self.init_params and hasattr(self, "emissionprob_"):
            return int(self._array("emissionprob_", 2).shape[1])
        if sequences.ids.size == 0:
            raise ValueError("X has no symbols, which leaves their number open; give n_symbols")
        return max(int(sequences.ids.max()) + 1, 1)

    def _prepared(self, X: Any, lengths: Any) -> tuple[Sequences, Parameters, EmissionRows]:
        parameters = self._own_parameters()
        sequences = self._read(X, lengths)
        V, K = parameters.emission.shape
        return sequences, parameters, EmissionRows.of(sequences.ids, None, V, K)

    def _run(self, X: Any, lengths: Any, posterior: bool) -> tuple[Sequences, np.ndarray, np.ndarray | None]:
        sequences, parameters, data = self._prepared(X, lengths)
        plan = Plan(data.rows, sequences.offsets, parameters.n_states, data.n_rows, parameters.order)
        packed = Packed.of(parameters, data.table(parameters.emission), plan)
        loglik, _, gamma = forward_backward(plan, packed, resolve_threads(self.n_threads), False, posterior)
        if posterior and np.any(loglik == -np.inf):
            i = int(np.argmax(loglik == -np.inf))
            rows = data.rows[sequences.offsets[i] : sequences.offsets[i + 1]]
            raise ValueError(exact.impossible_message(packed.logs, rows, i))
        return sequences, loglik, gamma

    # Inference

    def score(self, X: Any, lengths: Any = None) -> float:
        """Total log-likelihood of all sequences, nats; -inf if one is impossible."""
        return float(np.sum(self._run(X, lengths, False)[1]))

    def score_samples(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Log-likelihood of each sequence, nats, shape (n_sequences,)."""
        return self._run(X, lengths, False)[1]

    def predict_proba(self, X: Any, lengths: Any = None) -> Any:
        """P(state at t | the whole sequence), (T, K), or a list of such arrays for a list."""
        sequences, _, gamma = self._run(X, lengths, True)
        return sequences.split(gamma)  # type: ignore[arg-type]

    def decode(self, X: Any, lengths: Any = None, method: str = "viterbi") -> tuple[float, Any]:
        """Best state paths and their log joint probability with the symbols (summed over the sequences), nats.

        Parameters
        ----------
        method : {"viterbi", "posterior"}
            The most probable path (ties go to the lowest state), or the most probable state at each position.

        Raises
        ------
        ValueError
            If a sequence is impossible, naming it and the position.
        """
        check_choice("method", method, ("viterbi", "posterior"))
        sequences, parameters, data = self._prepared(X, lengths)
        table = data.table(parameters.emission)
        if method == "posterior":
            path = np.argmax(self._run(X, lengths, True)[2], axis=1).astype(np.int32)  # type: ignore[arg-type]
        else:
            path = paths.best_labels(parameters, table, data.rows, sequences.offsets, resolve_threads(self.n_threads))
        score = paths.joint_score(parameters, table, data.rows, sequences.offsets, path)
        return score, sequences.split(path.astype(np.int64))

    def predict(self, X: Any, lengths: Any = None) -> Any:
        """The most probable path, int64 (T,), or a list of paths for a list."""
        return self.decode(X, lengths)[1]

    def filter(self, X: Any, lengths: Any = None) -> Any:
        """P(state at t | symbols up to t), (T, K): no look-ahead.

        Raises
        ------
        ValueError
            If a sequence is impossible, naming it and the position.
        """
        sequences, parameters, data = self._prepared(X, lengths)
        logs = log_arrays(parameters, data.table(parameters.emission))
        K = parameters.n_states
        out = np.zeros((data.rows.size, K))
        for i in range(sequences.lengths.size):
            part = slice(int(sequences.offsets[i]), int(sequences.offsets[i + 1]))
            alpha = np.exp(exact.forward_rows(logs, data.rows[part], normalized=True))
            alpha = alpha if parameters.order == 1 else alpha.sum(axis=1)
            total = alpha.sum(axis=1, keepdims=True)
            if not np.all(total > 0):
                raise ValueError(exact.impossible_message(logs, data.rows[part], i))
            out[part] = alpha / total
        return sequences.split(out)

    def predict_next(self, X: Any) -> np.ndarray:
        """P(next symbol | the sequence so far, and that it goes on), shape (n_symbols,)."""
        sequences, parameters, data = self._prepared(X, None)
        if sequences.lengths.size > 1:
            raise ValueError(f"X holds {sequences.lengths.size} sequences; predict_next takes one")
        if data.rows.size == 0:
            ahead = parameters.start
        else:
            logs = log_arrays(parameters, data.table(parameters.emission))
            alpha = np.exp(exact.forward_rows(logs, data.rows, normalized=True)[-1])
            if not alpha.sum() > 0:
                raise ValueError(exact.impossible_message(logs, data.rows))
            if parameters.order == 1:
                ahead = alpha @ parameters.transition
            elif data.rows.size == 1:
                ahead = alpha[0] @ parameters.second
            else:
                ahead = np.einsum("ab,abc->c", alpha, parameters.transition)
        if not ahead.sum() > 0:
            raise ValueError("the sequence cannot go on: every state that is possible at its end stops")
        return parameters.emission @ (ahead / ahead.sum())

    def top_k_paths(self, X: Any, k: int) -> list[tuple[float, np.ndarray]]:
        """The k best paths of one sequence with their log joint probabilities (nats), best first."""
        check_int("k", k, 1)
        sequences, parameters, data = self._prepared(X, None)
        if sequences.lengths.size > 1:
            raise ValueError(f"X holds {sequences.lengths.size} sequences; top_k_paths takes one")
        return inference.best_paths(log_arrays(parameters, data.table(parameters.emission)), data.rows, int(k))

    def sample(self, n: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw one sequence: symbols and states, int64 (n,) each; with `stop_state` it may end earlier."""
        from .sampling import draw

        rng = check_random_state(self.random_state if random_state is None else random_state)
        return draw(self._own_parameters(), check_int("n", n, 0), rng)

    def n_parameters(self) -> int:
        """Number of free parameters of what `params` trains; what `fixed` or `dictionary` settled in `fit` is not."""
        kind = kind_of(self._own_parameters())
        free = getattr(self, "_free", {})
        if any(free.get(name) != value for name, value in kind.items()):
            free = Constraints("", {}, {}).n_free(*kind.values())
        return sum(free[letter] for letter in set(self.params))

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike's criterion, 2 p - 2 log P; lower is better."""
        return 2.0 * self.n_parameters() - 2.0 * self.score(X, lengths=lengths)

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Schwarz's criterion, p log T - 2 log P for T symbols; lower is better."""
        return self.n_parameters() * float(np.log(max(self._read(X, lengths).ids.size, 1))) - 2.0 * self.score(
            X, lengths=lengths
        )

    # Sufficient statistics

    def expected_counts(self, X: Any, lengths: Any = None, *, y: Any = None) -> Counts:
        """The E step: expected counts of these sequences under the present parameters. Counts can be added."""
        parameters = self._own_parameters()
        sequences = self._read(X, lengths)
        labels = read_labels(y, sequences, parameters.n_states)
        return expect(parameters, sequences, labels, resolve_threads(self.n_threads))

    # Files

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model to one safetensors file, read again by `lagwise.load`."""
        from .._files import save_tensors

        arrays, meta = self._to_tensors()
        save_tensors(path, "hmm", arrays, meta, overwrite)

    def _to_tensors(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        parameters = self._own_parameters()
        arrays = {name: np.asarray(getattr(self, name)) for name in _ARRAYS if hasattr(self, name)}
        settings = {
            name: value
            for name, value in self.get_params().items()
            if name not in ("n_threads", "init", "pseudocount", "random_state", "verbose")
        }
        settings["init"] = self.init if isinstance(self.init, str) else "random"
        settings["random_state"] = self.random_state if isinstance(self.random_state, int) else None
        if isinstance(self.pseudocount, (int, float)) or (
            isinstance(self.pseudocount, dict) and all(np.ndim(v) == 0 for v in self.pseudocount.values())
        ):
            settings["pseudocount"] = self.pseudocount
        settings["n_states"], settings["order"] = parameters.n_states, parameters.order
        meta: dict[str, Any] = {
            "params": settings,
            "learned": {
                name: getattr(self, name)
                for name in ("n_iter_", "converged_", "decreased_", "interrupted_")
                if hasattr(self, name)
            },
        }
        if hasattr(self, "_free"):
            meta["free"] = self._free
        if getattr(self, "history_", None):
            arrays["history"] = np.asarray(self.history_)
        if getattr(self, "vocabulary_", None) is not None:
            words, meta["vocabulary"] = self.vocabulary_.to_tensors()  # type: ignore[union-attr]
            arrays |= words
        return arrays, meta

    @classmethod
    def _from_tensors(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Predictor:
        model = cls(**meta["params"])
        for name in _ARRAYS:
            if name in arrays:
                setattr(model, name, np.array(arrays[name]))
        for name, value in meta["learned"].items():
            setattr(model, name, value)
        if "free" in meta:
            model._free = meta["free"]
        model.history_ = [float(x) for x in arrays["history"]] if "history" in arrays else []
        model.vocabulary_ = Vocabulary.from_tensors(arrays, meta["vocabulary"]) if "vocabulary" in meta else None
        model.n_symbols_ = model.emissionprob_.shape[1]
        model._learned = (model.startprob_, model.transmat_, model.emissionprob_)
        return model
