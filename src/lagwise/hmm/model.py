"""`HMM`: hidden Markov models of discrete symbols, of order 1 and 2."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from typing import Any

import numpy as np

from .._estimator import Estimator
from .._progress import Progress
from .._threads import resolve_threads
from .._validation import check_bool, check_choice, check_fitted, check_int, check_random_state, check_real
from ..vocabulary import Vocabulary
from . import inference, learning, paths
from .observations import EmissionRows, Sequences, check_symbols, read_labels, read_sequences
from .parameters import Parameters, check_distribution, random_parameters, uniform_parameters
from .recursions import Packed, Plan, forward_backward, log_arrays, run_in_threads

logger = logging.getLogger("lagwise")
_NAMES = {"s": "start", "t": "transition", "e": "emission"}


class ConvergenceWarning(UserWarning):
    """EM stopped at its limit of iterations."""


class HMM(Estimator):
    """Hidden Markov model of symbol sequences: soft EM, hard EM, supervised and semi-supervised, order 1 or 2.

    Parameters
    ----------
    n_states : int
        K.
    n_symbols : int or None
        V; None takes the largest id of the training data + 1, or the size of the vocabulary.
    order : {1, 2}
        Of the transitions: bigram or trigram.
    algorithm : {"soft", "hard"}
        Baum-Welch or Viterbi training, where labels are missing.
    n_iter, tol : int, float
        EM stops after `n_iter` M steps, soft EM also when the objective gains less than `tol` nats a symbol, hard EM
        when no label changes.
    n_init : int
        Number of starts; the best is kept and `restarts_` records all.
    init : {"random", "uniform", "sens", "lds"}, HMM, or (start, transition, emission)
        Where EM starts. "sens" and "lds" cluster word vectors of the training text.
    params, init_params : str
        Letters s, t, e: which of start, transitions and emissions are trained, and which are set before EM.
    pseudocount : float or dict
        Dirichlet pseudocounts, for all or as {"start": .., "transition": .., "emission": ..}; each a number or an
        array that broadcasts against the parameters.
    stop_state : bool
        Learn the probability of ending after each state (`stopprob_`); transition rows then sum to 1 less it.
    unknown : {"ignore", "error", "unk"}
        Words outside the vocabulary: missing symbols, an error, or the word "<unk>".
    random_state : int, Generator, RandomState or None
    n_threads : int or None
        Results never depend on it.
    verbose : bool
        Show progress on standard error.

    Attributes
    ----------
    startprob_ : ndarray, shape (K,)
    transmat_ : ndarray, shape (K, K), or (K, K, K) of order 2: P(c | a, b) at [a, b, c]
    transmat1_ : ndarray, shape (K, K)
        Order 2 only: transition into the second position.
    emissionprob_ : ndarray, shape (K, V)
    stopprob_, stopprob1_ : ndarray
        With `stop_state`: (K,), or (K, K) of order 2, where sequences of one symbol end by ``stopprob1_`` (K,).
    history_ : list of float
        Objective of each iteration before its M step, nats: log-likelihood (hard EM: joint score of the best paths)
        plus log-prior. It never falls.
    converged_, n_iter_ : bool, int
    decreased_ : bool
        The objective fell beyond rounding, which EM never does.
    restarts_ : list of dict
        seed, objective, n_iter and converged of each start.
    interrupted_ : bool
    n_symbols_ : int
    vocabulary_ : Vocabulary or None

    References
    ----------
    Rabiner, A tutorial on hidden Markov models, Proc. IEEE 77 (1989). Juang and Rabiner, The segmental K-means
    algorithm, IEEE Trans. ASSP 38 (1990).
    """

    def __init__(
        self,
        n_states: int = 2,
        n_symbols: int | None = None,
        order: int = 1,
        algorithm: str = "soft",
        n_iter: int = 100,
        tol: float = 1e-4,
        n_init: int = 1,
        init: Any = "random",
        params: str = "ste",
        init_params: str = "ste",
        pseudocount: Any = 0.0,
        stop_state: bool = False,
        unknown: str = "ignore",
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: bool = False,
    ):
        self.n_states = n_states
        self.n_symbols = n_symbols
        self.order = order
        self.algorithm = algorithm
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.init = init
        self.params = params
        self.init_params = init_params
        self.pseudocount = pseudocount
        self.stop_state = stop_state
        self.unknown = unknown
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # Learning

    def fit(
        self,
        X: Any,
        lengths: Any = None,
        *,
        y: Any = None,
        init_labels: Any = None,
        dictionary: Any = None,
        fixed: Any = None,
    ) -> HMM:
        """Learn from sequences.

        Parameters
        ----------
        X : array of integers (T,) or (T, 1), list of such arrays or of lists of words, or path of a text file
            -1 is a missing symbol. A text file has one sequence a line.
        lengths : array of int, optional
            Lengths of the sequences in one flat array.
        y : like X, optional
            States, -1 (or None for a whole sequence) where unknown. Complete labels make the fit supervised.
        init_labels : like y, optional
            A guess whose counts give EM its first M step.
        dictionary : dict, optional
            Symbol id or word -> states it may have; other symbols may have all.
        fixed : dict, optional
            "start", "transition", "emission" -> arrays with NaN where free, and elsewhere the value to keep.

        Returns
        -------
        HMM
            self

        Raises
        ------
        ValueError
            If an argument does not fit, or a sequence is impossible under the starting parameters.
        """
        check_choice("algorithm", self.algorithm, ("soft", "hard"))
        n_iter, n_init = check_int("n_iter", self.n_iter, 1), check_int("n_init", self.n_init, 1)
        tol = check_real("tol", self.tol)
        n_threads = resolve_threads(self.n_threads)
        sequences = self._read(X, lengths, fitting=True)
        if sequences.ids.size == 0:
            raise ValueError("X has no symbols")
        K, V = check_int("n_states", self.n_states, 1), self._count_symbols(sequences)
        check_symbols(sequences.ids, V)
        labels = read_labels(y, sequences, K)
        guess = read_labels(init_labels, sequences, K, "init_labels")
        constraints = self._constraints(K, V, fixed, dictionary, sequences.vocabulary)
        generators = check_random_state(self.random_state).spawn(n_init)
        data = EmissionRows.of(sequences.ids, labels, V, K)
        complete = labels is not None and bool(np.all(labels >= 0))
        starts = [
            self._start(
                K,
                V,
                rng,
                constraints,
                sequences,
                guess if labels is None or guess is not None else labels,
                supervised=complete,
            )
            for rng in ([generators[0]] if complete else generators)
        ]
        self._forget()
        self.vocabulary_ = sequences.vocabulary
        self.n_symbols_ = V
        if complete:
            return self._finish_supervised(starts[0], sequences, data, labels, constraints, K, V)
        logger.info("HMM: preparing kernels (compiled once per machine, which takes some seconds)")
        runs, stop = [learning.Run(start) for start in starts], threading.Event()
        with Progress(self.verbose, "HMM", n_iter if n_init == 1 else None, "iterations") as progress:

            def report(run: learning.Run) -> None:
                if stop.is_set():
                    raise KeyboardInterrupt
                progress.update(sum(r.n_iter for r in runs), f"{run.history[-1] / sequences.ids.size:.5f} nats/symbol")

            def work(run: learning.Run) -> None:
                inner = 1 if n_init > 1 else n_threads
                if self.algorithm == "soft":
                    learning.soft_em(run, data, sequences.offsets, constraints, n_iter, tol, inner, report, stop)
                else:
                    learning.hard_em(
                        run, sequences.ids, data, sequences.offsets, constraints, n_iter, inner, report, stop
                    )

            try:
                run_in_threads(work, runs, n_threads, stop)
            except KeyboardInterrupt:
                begun = [run for run in runs if run.history]
                if begun:
                    best = max(begun, key=lambda run: run.history[-1])
                    best.interrupted = True
                    self._keep(best, runs)
                raise
        finals = [
            self._objective(run, data, sequences.offsets, constraints, n_threads) if n_init > 1 else run.history[-1]
            for run in runs
        ]
        self._keep(runs[int(np.argmax(finals))], runs, finals)
        if not self.converged_:
            warnings.warn(
                f"EM did not converge within n_iter={n_iter}; raise n_iter or tol", ConvergenceWarning, stacklevel=2
            )
        if self.decreased_:
            warnings.warn("the objective fell during EM, which should not happen: please report", stacklevel=2)
        return self

    def _objective(
        self,
        run: learning.Run,
        data: EmissionRows,
        offsets: np.ndarray,
        constraints: learning.Constraints,
        n_threads: int,
    ) -> float:
        table = data.table(run.parameters.emission)
        if self.algorithm == "hard":
            path = paths.best_labels(run.parameters, table, data.rows, offsets, n_threads)
            value = paths.joint_score(run.parameters, table, data.rows, offsets, path)
        else:
            plan = Plan(data.rows, offsets, run.parameters.n_states, data.n_rows, run.parameters.order)
            value = float(np.sum(forward_backward(plan, Packed.of(run.parameters, table, plan), n_threads, False)[0]))
        return value + learning.log_prior(run.parameters, constraints)

    def _finish_supervised(
        self,
        start: Parameters,
        sequences: Sequences,
        data: EmissionRows,
        labels: Any,
        constraints: learning.Constraints,
        K: int,
        V: int,
    ) -> HMM:
        counts = learning.count_labels(sequences.ids, labels, sequences.offsets, K, V, self.order)
        run = learning.Run(start)
        run.parameters, empty = learning.maximize(counts, None, constraints, self.stop_state)
        for letter, name in (("s", "start"), ("t", "transition"), ("e", "emission")):
            if letter not in constraints.params:
                setattr(run.parameters, name, getattr(start, name))
        if "t" not in constraints.params:
            run.parameters.second, run.parameters.stop, run.parameters.stop1 = start.second, start.stop, start.stop1
        missing = {
            name: n for name, n in empty.items() if n and not (self.order == 2 and name in ("transition", "second"))
        }
        if missing:
            warnings.warn(
                "no counts for "
                + ", ".join(f"{n} {name} distribution(s)" for name, n in missing.items())
                + ": they are uniform; use pseudocounts to smooth",
                stacklevel=3,
            )
        table = data.table(run.parameters.emission)
        run.record(
            paths.joint_score(run.parameters, table, data.rows, sequences.offsets, labels)
            + learning.log_prior(run.parameters, constraints)
        )
        run.n_iter, run.converged = 1, True
        self._keep(run, [run])
        return self

    def _keep(self, best: learning.Run, runs: list[learning.Run], finals: list[float] | None = None) -> None:
        self._set_parameters(best.parameters)
        self.history_, self.n_iter_, self.converged_ = best.history, best.n_iter, best.converged
        self.decreased_, self.interrupted_ = best.fell, best.interrupted
        values = finals or [run.history[-1] if run.history else -np.inf for run in runs]
        self.restarts_ = [
            {"seed": number, "objective": value, "n_iter": run.n_iter, "converged": run.converged}
            for number, (run, value) in enumerate(zip(runs, values))
        ]

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

    def _forget(self) -> None:
        for name in ("history_", "n_iter_", "converged_", "restarts_", "interrupted_", "counts_"):
            self.__dict__.pop(name, None)

    def _count_symbols(self, sequences: Sequences) -> int:
        if self.n_symbols is not None:
            V = check_int("n_symbols", self.n_symbols, 1)
            if sequences.vocabulary is not None and len(sequences.vocabulary) > V:
                raise ValueError(f"n_symbols is {V}, but the words make {len(sequences.vocabulary)} symbols")
            return V
        if sequences.vocabulary is not None:
            return len(sequences.vocabulary)
        if "e" not in self.init_params and hasattr(self, "emissionprob_"):
            return int(np.shape(self.emissionprob_)[1])
        return max(int(sequences.ids.max()) + 1, 1)

    def _constraints(
        self, K: int, V: int, fixed: Any, dictionary: Any, vocabulary: Vocabulary | None
    ) -> learning.Constraints:
        check_choice("order", self.order, (1, 2))
        check_bool("stop_state", self.stop_state)
        for name in ("params", "init_params"):
            value = getattr(self, name)
            if not isinstance(value, str) or set(value) - set("ste"):
                raise ValueError(
                    f"{name} is {value!r}; expected a string of the letters s (start), t (transition), e (emission)"
                )
        shapes: dict[str, tuple[int, ...]] = {"start": (K,), "transition": (K,) * (self.order + 1), "emission": (K, V)}
        masks = {}
        for name, value in (fixed or {}).items():
            check_choice("a key of fixed", name, shapes)
            mask = np.array(value, dtype=np.float64)
            if mask.shape != shapes[name]:
                raise ValueError(f"fixed[{name!r}] has shape {mask.shape}; expected {shapes[name]}, NaN where free")
            kept = np.nansum(mask, axis=-1)
            if (
                np.nanmin(mask, initial=0.0) < 0
                or np.any(kept > 1 + 1e-12)
                or np.any(~np.isnan(mask).any(axis=-1) & (np.abs(kept - 1) > 1e-9))
            ):
                raise ValueError(f"fixed[{name!r}] has rows that cannot be completed to distributions")
            masks[name] = mask.T if name == "emission" else mask
        if dictionary is not None:
            masks["emission"] = _dictionary_mask(dictionary, K, V, vocabulary, masks.get("emission"))
        return learning.Constraints(self.params, _pseudocounts(self.pseudocount, shapes), masks)

    def _start(
        self,
        K: int,
        V: int,
        rng: np.random.Generator,
        constraints: learning.Constraints,
        sequences: Sequences,
        guess: np.ndarray | None,
        supervised: bool,
    ) -> Parameters:
        """Parameters before the first E step."""
        order, stop = self.order, self.stop_state
        drawn = self._initial(K, V, rng, sequences)
        if supervised:
            letters = "".join(c for c in "ste" if c not in self.params and c not in self.init_params)
        else:
            letters = "".join(c for c in "ste" if c not in self.init_params)
        attributes = {"s": "startprob_", "t": "transmat_", "e": "emissionprob_"}
        learned = dict(zip("ste", getattr(self, "_learned", (None, None, None))))
        lost = [
            name
            for letter, name in attributes.items()
            if letter in self.init_params
            and not supervised
            and getattr(self, name, None) is not None
            and getattr(self, name) is not learned[letter]
        ]
        if lost:
            warnings.warn(
                f"{', '.join(lost)} {'was' if len(lost) == 1 else 'were'} set, but fit starts from init={self.init!r:.40}; "
                "leave their letters out of init_params to keep them",
                stacklevel=3,
            )
        kept = {letter for letter in letters if getattr(self, attributes[letter], None) is not None}
        for letter in set(letters) - kept:
            if guess is None or letter not in self.params:
                raise ValueError(
                    f"init_params={self.init_params!r} leaves the {_NAMES[letter]} probabilities as they are, but "
                    f"{attributes[letter]} is not set; set it or add {letter!r} to init_params"
                )
        if kept:
            own = self._own_parameters(K, V, only=kept)
            for letter in kept:
                setattr(drawn, _NAMES[letter], getattr(own, _NAMES[letter]))
            if "t" in kept:
                drawn.second, drawn.stop, drawn.stop1 = own.second, own.stop, own.stop1
        drawn = _apply_masks(drawn, constraints, stop)
        if guess is not None and np.any(guess >= 0) and not supervised:
            counts = learning.count_labels(sequences.ids, guess, sequences.offsets, K, V, order)
            if np.any(guess < 0):  # a few labels must not rule out what they do not show: add the drawn start once
                counts += Parameters(
                    **{  # type: ignore[arg-type]
                        name: getattr(drawn, name, None) if getattr(drawn, name, None) is not None else 0.0
                        for name in counts.arrays()
                    }
                )
            maximized, _ = learning.maximize(counts, None, constraints, stop)
            for letter in self.params:
                setattr(drawn, _NAMES[letter], getattr(maximized, _NAMES[letter]))
            if "t" in self.params:
                drawn.second, drawn.stop, drawn.stop1 = maximized.second, maximized.stop, maximized.stop1
        return drawn

    def _initial(self, K: int, V: int, rng: np.random.Generator, sequences: Sequences) -> Parameters:
        init, order, stop = self.init, self.order, self.stop_state
        if isinstance(init, str):
            check_choice("init", init, ("random", "uniform", "sens", "lds"))
            if init == "random":
                return random_parameters(K, V, order, stop, rng)
            if init == "uniform":
                return uniform_parameters(K, V, order, stop)
            from .starts import cluster_parameters

            return cluster_parameters(init, sequences, K, V, order, stop, rng, self.n_threads)
        if isinstance(init, HMM):
            check_fitted(init, "startprob_")
            parameters = init._own_parameters(K, V)
            if parameters.order != order or (parameters.stop is not None) != stop:
                raise ValueError(
                    f"init is an HMM with order={parameters.order}, stop_state={parameters.stop is not None}; "
                    f"expected order={order}, stop_state={stop}"
                )
            return parameters
        if isinstance(init, (tuple, list)) and len(init) == 3:
            base = uniform_parameters(K, V, order, stop)
            share = 1.0 if base.stop is None else base.stop * K
            base.start = check_distribution("init start", init[0], (K,))
            base.transition = check_distribution("init transition", init[1], (K,) * (order + 1))
            if base.stop is not None:
                base.transition *= np.asarray(share)[..., None]
            base.emission = np.ascontiguousarray(check_distribution("init emission", init[2], (K, V)).T)
            return base
        raise ValueError(
            f"init is {init!r:.80}; expected 'random', 'uniform', 'sens', 'lds', an HMM, or (start, transition, emission)"
        )

    # The model's numbers

    def _own_parameters(self, K: int | None = None, V: int | None = None, only: set[str] | None = None) -> Parameters:
        """The attributes, checked."""
        want = set("ste") if only is None else only
        for letter, attribute in (("s", "startprob_"), ("t", "transmat_"), ("e", "emissionprob_")):
            if letter in want:
                check_fitted(self, attribute)
        order = self.order
        if K is None:
            K = int(np.shape(self.startprob_)[0])
        stop = stop1 = second = None
        start = check_distribution("startprob_", self.startprob_, (K,)) if "s" in want else np.zeros(K)
        transition: np.ndarray = np.zeros((K,) * (order + 1))
        if "t" in want:
            total: Any = 1.0
            if self.stop_state:
                check_fitted(self, "stopprob_")
                stop = np.array(self.stopprob_, dtype=np.float64)
                if stop.shape != (K,) * order or stop.min() < 0 or stop.max() > 1:
                    raise ValueError(
                        f"stopprob_ has shape {stop.shape}; expected probabilities of shape {(K,) * order}"
                    )
                total = 1.0 - stop
            transition = check_distribution("transmat_", self.transmat_, (K,) * (order + 1), total)
            if order == 2:
                check_fitted(self, "transmat1_")
                if self.stop_state:
                    check_fitted(self, "stopprob1_")
                    stop1 = np.array(self.stopprob1_, dtype=np.float64)
                second = check_distribution(
                    "transmat1_", self.transmat1_, (K, K), 1.0 if stop1 is None else 1.0 - stop1
                )
        if "e" in want:
            emission = np.ascontiguousarray(check_distribution("emissionprob_", self.emissionprob_, (K, V)).T)
        else:
            emission = np.zeros((V or 0, K))
        return Parameters(start, transition, emission, second, stop, stop1)

    def _read(self, X: Any, lengths: Any, fitting: bool = False) -> Sequences:
        check_choice("unknown", self.unknown, ("ignore", "error", "unk"))
        keep = not fitting or "e" not in self.init_params
        sequences = read_sequences(X, lengths, getattr(self, "vocabulary_", None) if keep else None, self.unknown)
        if not fitting:
            check_symbols(sequences.ids, int(np.shape(self.emissionprob_)[1]))
        return sequences

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
            raise ValueError(inference.impossible_message(packed.logs, rows, i))
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
            alpha = np.exp(inference.forward_rows(logs, data.rows[part], normalized=True))
            alpha = alpha if parameters.order == 1 else alpha.sum(axis=1)
            total = alpha.sum(axis=1, keepdims=True)
            if not np.all(total > 0):
                raise ValueError(inference.impossible_message(logs, data.rows[part], i))
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
            alpha = np.exp(inference.forward_rows(logs, data.rows, normalized=True)[-1])
            if not alpha.sum() > 0:
                raise ValueError(inference.impossible_message(logs, data.rows))
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
        """Number of free parameters of what `params` trains."""
        parameters = self._own_parameters()
        V, K = parameters.emission.shape
        pairs = K if self.order == 1 else K + K * K
        sizes = {"s": K - 1, "t": pairs * (K if self.stop_state else K - 1), "e": K * (V - 1)}
        return sum(sizes[letter] for letter in set(self.params))

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
        V, K = parameters.emission.shape
        data = EmissionRows.of(sequences.ids, read_labels(y, sequences, K), V, K)
        plan = Plan(data.rows, sequences.offsets, K, data.n_rows, parameters.order)
        packed = Packed.of(parameters, data.table(parameters.emission), plan)
        loglik, counts, _ = forward_backward(plan, packed, resolve_threads(self.n_threads))
        if np.any(loglik == -np.inf):
            i = int(np.argmax(loglik == -np.inf))
            raise ValueError(
                inference.impossible_message(packed.logs, data.rows[sequences.offsets[i] : sequences.offsets[i + 1]], i)
            )
        assert counts is not None
        counts.emission = data.fold(counts.emission)
        return Counts(counts, float(np.sum(loglik)), int(data.rows.size), int(sequences.lengths.size))

    def partial_fit(self, X: Any = None, lengths: Any = None, *, y: Any = None, counts: Counts | None = None) -> HMM:
        """One M step from expected counts.

        With `counts` (merged from `expected_counts` of parts of the data) it is one exact EM step over all parts.
        With `X`, the expected counts of this batch join those of earlier batches and the parameters are estimated
        from all of them (incremental EM).
        """
        if (X is None) == (counts is None):
            raise ValueError("partial_fit takes either X or counts")
        if not hasattr(self, "startprob_"):
            sequences = self._read(X, lengths, fitting=True)
            K, V = check_int("n_states", self.n_states, 1), self._count_symbols(sequences)
            constraints = self._constraints(K, V, None, None, sequences.vocabulary)
            self.vocabulary_, self.n_symbols_ = sequences.vocabulary, V
            self._set_parameters(
                self._start(K, V, check_random_state(self.random_state), constraints, sequences, None, False)
            )
        if counts is None:
            counts = self.expected_counts(X, lengths, y=y)
            if hasattr(self, "counts_"):
                counts = self.counts_ + counts  # type: ignore[has-type]
            self.counts_ = counts
        own = self._own_parameters()
        V, K = own.emission.shape
        constraints = self._constraints(K, V, None, None, getattr(self, "vocabulary_", None))
        self._set_parameters(learning.maximize(counts.expected, own, constraints, self.stop_state)[0])
        self.history_ = [*getattr(self, "history_", []), counts.log_likelihood]
        self.n_iter_, self.converged_ = getattr(self, "n_iter_", 0) + 1, False
        return self

    # Files

    def save(self, path: str | os.PathLike[str], overwrite: bool = True) -> None:
        """Write the model to one safetensors file, read again by `lagwise.load`."""
        from .._files import save_tensors

        arrays, meta = self._to_tensors()
        save_tensors(path, "hmm", arrays, meta, overwrite)

    def _to_tensors(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        parameters = self._own_parameters()
        arrays = {
            name: np.asarray(getattr(self, name))
            for name in ("startprob_", "transmat_", "transmat1_", "emissionprob_", "stopprob_", "stopprob1_")
            if hasattr(self, name)
        }
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
        settings["n_states"] = parameters.n_states
        meta: dict[str, Any] = {
            "params": settings,
            "learned": {
                name: getattr(self, name)
                for name in ("n_iter_", "converged_", "decreased_", "interrupted_")
                if hasattr(self, name)
            },
        }
        if getattr(self, "history_", None):
            arrays["history"] = np.asarray(self.history_)
        if getattr(self, "vocabulary_", None) is not None:
            words, meta["vocabulary"] = self.vocabulary_.to_tensors()  # type: ignore[union-attr]
            arrays |= words
        return arrays, meta

    @classmethod
    def _from_tensors(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> HMM:
        model = cls(**meta["params"])
        for name in ("startprob_", "transmat_", "transmat1_", "emissionprob_", "stopprob_", "stopprob1_"):
            if name in arrays:
                setattr(model, name, np.array(arrays[name]))
        for name, value in meta["learned"].items():
            setattr(model, name, value)
        model.history_ = [float(x) for x in arrays["history"]] if "history" in arrays else []
        model.vocabulary_ = Vocabulary.from_tensors(arrays, meta["vocabulary"]) if "vocabulary" in meta else None
        model.n_symbols_ = model.emissionprob_.shape[1]
        model._learned = (model.startprob_, model.transmat_, model.emissionprob_)
        return model


class Counts:
    """Expected counts of some sequences, additive over disjoint parts of the data.

    Attributes
    ----------
    expected : Parameters
        Counts in the shapes of the parameters; `emission` is (V, K).
    log_likelihood : float
        Nats, of these sequences.
    n_symbols, n_sequences : int
        How many were seen.
    """

    def __init__(self, expected: Parameters, log_likelihood: float, n_symbols: int, n_sequences: int):
        self.expected, self.log_likelihood = expected, log_likelihood
        self.n_symbols, self.n_sequences = n_symbols, n_sequences

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.expected + other.expected,
            self.log_likelihood + other.log_likelihood,
            self.n_symbols + other.n_symbols,
            self.n_sequences + other.n_sequences,
        )

    def __radd__(self, other: Any) -> Counts:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self
        return NotImplemented


def _pseudocounts(value: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    given = dict(value) if isinstance(value, dict) else dict.fromkeys(shapes, value)
    for name in given:
        check_choice("a key of pseudocount", name, shapes)
    result: dict[str, Any] = {}
    for name, shape in shapes.items():
        one = given.get(name, 0.0)
        if np.ndim(one) == 0:
            result[name] = check_real(f"pseudocount of {name}", one, minimum=0.0)
            continue
        array = np.array(one, dtype=np.float64)
        try:
            array = np.broadcast_to(array, shape).copy()
        except ValueError:
            raise ValueError(f"pseudocount of {name} has shape {array.shape}; expected a number or {shape}") from None
        if not np.all(np.isfinite(array)) or array.min() < 0:
            raise ValueError(f"pseudocount of {name} holds negative or non-finite numbers")
        result[name] = array
    return result


def _dictionary_mask(
    dictionary: Any, K: int, V: int, vocabulary: Vocabulary | None, mask: np.ndarray | None
) -> np.ndarray:
    result = np.full((V, K), np.nan) if mask is None else mask.copy()
    for symbol, states in dictionary.items():
        if isinstance(symbol, str):
            if vocabulary is None:
                raise ValueError(f"dictionary names the word {symbol!r}, but X holds ids; use ids")
            if symbol not in vocabulary:
                continue  # a word that the text does not have
            symbol = vocabulary.index[symbol]
        check_int("a symbol of dictionary", symbol, 0, V - 1)
        allowed = np.unique(
            np.atleast_1d(np.asarray(list(states) if not np.isscalar(states) else [states], dtype=np.int64))
        )
        if allowed.size == 0 or allowed[0] < 0 or allowed[-1] >= K:
            raise ValueError(f"dictionary[{symbol}] is {states!r}; expected states among 0..{K - 1}, at least one")
        forbidden = np.setdiff1d(np.arange(K), allowed)
        result[symbol, forbidden] = 0.0
    return result


def _apply_masks(parameters: Parameters, constraints: learning.Constraints, stop: bool) -> Parameters:
    """Put fixed entries into starting parameters and let the free ones share the rest."""
    for name, mask in constraints.fixed.items():
        if _letter(name) not in constraints.params:
            continue
        axis = 0 if name == "emission" else -1
        array, free = getattr(parameters, name), np.isnan(mask)
        room = 1.0 - np.sum(np.where(free, 0.0, mask), axis=axis, keepdims=True)
        if name == "transition" and stop and parameters.stop is not None:
            room = np.maximum(room, 0.0)
            total = np.sum(np.where(free, array, 0.0), axis=axis, keepdims=True) + parameters.stop[..., None]
            factor = room / np.where(total > 0, total, 1.0)
            parameters.stop = parameters.stop * factor[..., 0]
            parameters.transition = np.where(free, array * factor, mask)
            continue
        values, _ = learning.normalize(np.where(free, array, 0.0), 0.0, mask, None, axis)
        setattr(parameters, name, values)
    return parameters


def _letter(name: str) -> str:
    return {"start": "s", "transition": "t", "emission": "e"}[name]
