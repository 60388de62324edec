"""`HMM`: hidden Markov models of discrete symbols, of order 1 and 2."""

from __future__ import annotations

import logging
import numbers
import threading
import warnings
from typing import Any

import numpy as np

from .._progress import Progress
from .._threads import resolve_threads
from .._validation import check_bool, check_choice, check_int, check_memory, check_random_state, check_real
from ..vocabulary import Vocabulary
from . import learning, paths
from .constraints import LETTERS, Constraints, apply_masks, check_allowed, read_constraints
from .expectations import Counts
from .observations import EmissionRows, Sequences, check_symbols, read_labels
from .parameters import Parameters
from .plan import run_in_threads
from .prediction import Predictor
from .starts import guessed_parameters, initial_parameters

logger = logging.getLogger("lagwise")


class ConvergenceWarning(UserWarning):
    """EM stopped at its limit of iterations."""


class HMM(Predictor):
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
        check_memory("n_states", K, 8 * K * (V + K ** check_choice("order", self.order, (1, 2))))
        check_symbols(sequences.ids, V)
        labels = read_labels(y, sequences, K)
        guess = read_labels(init_labels, sequences, K, "init_labels")
        constraints = self._constraints(K, V, fixed, dictionary, sequences.vocabulary)
        seeds = self._seeds(n_init)
        generators = [check_random_state(self.random_state if seed is None else seed).spawn(1)[0] for seed in seeds]
        data = EmissionRows.of(sequences.ids, labels, V, K)
        check_allowed(sequences.ids, labels, constraints)
        complete = labels is not None and bool(np.all(labels >= 0))
        starts = [
            self._start(
                K,
                V,
                rng,
                constraints,
                sequences,
                labels if guess is None else guess,
                asked=guess is not None,
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
        runs = [learning.Run(start, seed=seed) for start, seed in zip(starts, seeds)]
        stop = threading.Event()
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
            learning.objective(run.parameters, self.algorithm, data, sequences.offsets, constraints, n_threads)
            if n_init > 1
            else run.history[-1]
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

    def _finish_supervised(
        self,
        start: Parameters,
        sequences: Sequences,
        data: EmissionRows,
        labels: Any,
        constraints: Constraints,
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
            {"seed": run.seed, "objective": value, "n_iter": run.n_iter, "converged": run.converged}
            for run, value in zip(runs, values)
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

    def _seeds(self, n_init: int) -> list[Any]:
        """A seed for each start: `HMM(random_state=seed)` makes that start again. None: a single start from a generator."""
        if n_init == 1 and self.random_state is not None:
            return [int(self.random_state) if isinstance(self.random_state, numbers.Integral) else None]
        rng = check_random_state(self.random_state)
        return rng.integers(1 << 31, size=n_init).tolist()

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

    def _constraints(self, K: int, V: int, fixed: Any, dictionary: Any, vocabulary: Vocabulary | None) -> Constraints:
        check_choice("order", self.order, (1, 2))
        check_bool("stop_state", self.stop_state)
        for name in ("params", "init_params"):
            value = getattr(self, name)
            if not isinstance(value, str) or set(value) - set("ste"):
                raise ValueError(
                    f"{name} is {value!r}; expected a string of the letters s (start), t (transition), e (emission)"
                )
        return read_constraints(K, V, self.order, self.params, self.pseudocount, fixed, dictionary, vocabulary)

    def _start(
        self,
        K: int,
        V: int,
        rng: np.random.Generator,
        constraints: Constraints,
        sequences: Sequences,
        guess: np.ndarray | None,
        asked: bool,
        supervised: bool,
    ) -> Parameters:
        """Parameters before the first E step. Labels that are no `init_labels` guide drawn starts, never given ones."""
        order, stop = self.order, self.stop_state
        drawn = initial_parameters(self.init, sequences, K, V, order, stop, rng, self.n_threads)
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
                    f"init_params={self.init_params!r} leaves the {LETTERS[letter]} probabilities as they are, but "
                    f"{attributes[letter]} is not set; set it or add {letter!r} to init_params"
                )
        if kept:
            own = self._own_parameters(K, V, only=kept)
            for letter in kept:
                setattr(drawn, LETTERS[letter], getattr(own, LETTERS[letter]))
            if "t" in kept:
                drawn.second, drawn.stop, drawn.stop1 = own.second, own.stop, own.stop1
        drawn = apply_masks(drawn, constraints, stop)
        guides = asked or (isinstance(self.init, str) and not kept)
        if guess is not None and np.any(guess >= 0) and guides and not supervised:
            drawn = guessed_parameters(guess, drawn, sequences, V, constraints, stop)
        return drawn

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
            check_memory("n_states", K, 8 * K * (V + K ** check_choice("order", self.order, (1, 2))))
            constraints = self._constraints(K, V, None, None, sequences.vocabulary)
            self.vocabulary_, self.n_symbols_ = sequences.vocabulary, V
            self._set_parameters(
                self._start(K, V, check_random_state(self.random_state), constraints, sequences, None, False, False)
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
        objective = counts.log_likelihood + learning.log_prior(own, constraints)
        self.history_ = [*getattr(self, "history_", []), objective]
        self.n_iter_, self.converged_ = getattr(self, "n_iter_", 0) + 1, False
        return self
