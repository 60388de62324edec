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
from .._validation import (
    check_bool,
    check_choice,
    check_fitted,
    check_int,
    check_memory,
    check_random_state,
    check_real,
)
from ..vocabulary import Vocabulary
from . import learning
from .constraints import LETTERS, Constraints, apply_masks, check_allowed, check_order, read_constraints, read_numbers
from .expectations import Counts, check_counts, expect, kind_of
from .observations import EmissionRows, Sequences, check_symbols, read_labels
from .parameters import Parameters
from .plan import run_in_threads
from .prediction import Predictor
from .starts import guessed_parameters, initial_parameters
from .supervised import is_complete, labelled_batch, supervised_run

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
            -1 is a missing symbol, and so is a masked entry of a masked array. A text file has one sequence a line.
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
        order = check_order(self.order)
        n_threads = resolve_threads(self.n_threads)
        sequences = self._read(X, lengths, fitting=True)
        if sequences.ids.size == 0:
            raise ValueError("X has no symbols")
        K, V = check_int("n_states", self.n_states, 1), self._count_symbols(sequences)
        check_memory("n_states", K, 8 * K * (V + K**order))
        check_symbols(sequences.ids, V)
        labels = read_labels(y, sequences, K)
        guess = read_labels(init_labels, sequences, K, "init_labels")
        constraints = self._constraints(K, V, fixed, dictionary, sequences.vocabulary)
        seeds = self._seeds(n_init)
        generators = [check_random_state(self.random_state if seed is None else seed).spawn(1)[0] for seed in seeds]
        data = EmissionRows.of(sequences.ids, labels, V, K)
        check_allowed(sequences.ids, labels, sequences.offsets, constraints, self.stop_state)
        complete = is_complete(labels)
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
        if constraints.fixed:
            kind = kind_of(starts[0])
            self._free = kind | constraints.n_free(*kind.values())
        if complete:
            assert labels is not None
            run = supervised_run(starts[0], sequences, labels, constraints, self.stop_state)
            self._keep(run, [run])
            return self
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
                if n_init > 1:
                    run.final = learning.objective(
                        run.parameters, self.algorithm, data, sequences.offsets, constraints, inner, stop
                    )

            try:
                run_in_threads(work, runs, n_threads, stop)
            except KeyboardInterrupt:
                begun = [run for run in runs if run.history]
                if begun:
                    best = max(begun, key=lambda run: run.value)
                    best.interrupted = True
                    self._keep(best, begun)
                raise
        self._keep(max(runs, key=lambda run: run.value), runs)
        if not self.converged_:
            warnings.warn(
                f"EM did not converge within n_iter={n_iter}; raise n_iter or tol", ConvergenceWarning, stacklevel=2
            )
        if self.decreased_:
            warnings.warn("the objective fell during EM, which should not happen: please report", stacklevel=2)
        return self

    def _keep(self, best: learning.Run, runs: list[learning.Run]) -> None:
        self._set_parameters(best.parameters)
        self.history_, self.n_iter_, self.converged_ = best.history, best.n_iter, best.converged
        self.decreased_, self.interrupted_ = best.fell, best.interrupted
        self.restarts_ = [
            {"seed": run.seed, "objective": run.value, "n_iter": run.n_iter, "converged": run.converged} for run in runs
        ]

    def _seeds(self, n_init: int) -> list[Any]:
        """A seed for each start: `HMM(random_state=seed)` makes that start again. None: a single start from a generator."""
        if n_init == 1 and self.random_state is not None:
            return [int(self.random_state) if isinstance(self.random_state, numbers.Integral) else None]
        rng = check_random_state(self.random_state)
        return rng.integers(1 << 31, size=n_init).tolist()

    def _forget(self) -> None:
        for name in ("history_", "n_iter_", "converged_", "restarts_", "interrupted_", "counts_", "_free"):
            self.__dict__.pop(name, None)

    def _constraints(self, K: int, V: int, fixed: Any, dictionary: Any, vocabulary: Vocabulary | None) -> Constraints:
        check_order(self.order)
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
        init = self.init
        if isinstance(init, (tuple, list)) and len(init) == 3:
            init = tuple(
                read_numbers(f"init {name}", array, "an array of probabilities")
                for name, array in zip(LETTERS.values(), init)
            )
        drawn = initial_parameters(init, sequences, K, V, order, stop, rng, self.n_threads)
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
        drawn = apply_masks(drawn, constraints, stop, "".join(kept - set(self.params)))
        guides = asked or (isinstance(self.init, str) and not kept)
        if guess is not None and np.any(guess >= 0) and guides and not supervised:
            drawn = guessed_parameters(guess, drawn, sequences, V, constraints, stop)
        return drawn

    def partial_fit(self, X: Any = None, lengths: Any = None, *, y: Any = None, counts: Counts | None = None) -> HMM:
        """One M step from expected counts.

        With `counts` (merged from `expected_counts` of parts of the data) it is one exact EM step over all parts.
        With `X`, the expected counts of this batch join those of earlier batches and the parameters are estimated
        from all of them (incremental EM). Complete labels need no E step: their counts are relative frequencies, and
        `history_` takes their joint score under the new parameters.
        """
        if (X is None) == (counts is None):
            raise ValueError("partial_fit takes either X or counts")
        if X is None:
            check_fitted(self, "startprob_")
            own = self._own_parameters()
            counts = check_counts(counts, own)
            V, K = own.emission.shape
            constraints = self._constraints(K, V, None, None, getattr(self, "vocabulary_", None))
            new = learning.maximize(counts.expected, own, constraints, self.stop_state)[0]
            prior = learning.log_prior(own, constraints)
        else:
            new, counts, prior = self._learn_batch(X, lengths, y)
        self._set_parameters(new)
        self.__dict__.pop("_free", None)  # nothing is fixed here
        self.history_ = [*getattr(self, "history_", []), counts.log_likelihood + prior]
        self.n_iter_, self.converged_ = getattr(self, "n_iter_", 0) + 1, False
        return self

    def _learn_batch(self, X: Any, lengths: Any, y: Any) -> tuple[Parameters, Counts, float]:
        """New parameters, the counts of all batches, and the log-prior that belongs to their score."""
        first = not hasattr(self, "startprob_")
        sequences = self._read(X, lengths, fitting=first)
        if first:
            order = check_order(self.order)
            K, V = check_int("n_states", self.n_states, 1), self._count_symbols(sequences)
            check_memory("n_states", K, 8 * K * (V + K**order))
            check_symbols(sequences.ids, V)
            vocabulary = sequences.vocabulary
        else:
            own = self._own_parameters()
            V, K = own.emission.shape
            vocabulary = getattr(self, "vocabulary_", None)
        labels = read_labels(y, sequences, K)
        constraints, complete = self._constraints(K, V, None, None, vocabulary), is_complete(labels)
        if first:
            rng = check_random_state(self.random_state)
            own = self._start(K, V, rng, constraints, sequences, None, False, complete)
        earlier = getattr(self, "counts_", None)
        if complete:
            assert labels is not None
            new, counts = labelled_batch(own, sequences, labels, earlier, constraints, first)
        else:
            counts = expect(own, sequences, labels, resolve_threads(self.n_threads))
            counts = counts if earlier is None else earlier + counts
            new = learning.maximize(counts.expected, own, constraints, self.stop_state)[0]
        if first:
            self.vocabulary_, self.n_symbols_ = vocabulary, V
        self.counts_ = counts
        return new, counts, learning.log_prior(new if complete else own, constraints)
