"""The `LDS` estimator."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._files import save_tensors
from .._validation import check_bool, check_choice, check_fitted, check_int, check_real
from . import fitting
from .dynamics import Dynamics
from .learner import UNKNOWN, Learner
from .parameters import Parameters, sym
from .readout import check_data, check_out, finish
from .series import SeriesSpace, check_offsets, check_system
from .storage import from_tensors, to_tensors
from .tokens import as_ids, cut_lengths

KINDS = ("smoothed", "filtered", "predicted")


class LDS(Learner):
    """Linear dynamical system of a text (or of a numeric series), learned from lagged counts alone.

    x_{t+1} = A x_t + eta, w_t = C x_t + eps, with w_t the whitened, centred indicator of the word at t. Subspace
    identification finds a start, EM by ASOS climbs from there; neither reads the text again.

    Parameters
    ----------
    n_components : int
        State size h.
    ssid_lags : int
        Block rows r of the Hankel matrix: lags 1..2r-1 are used.
    em_lags : int
        Horizon of EM: lags 1..em_lags are used.
    pseudocount : float
        Counts added to every word.
    n_iter : int
        Most EM iterations; 0 is subspace identification alone.
    tol : float
        EM stops when the gain falls below `tol` times the log-likelihood above the i.i.d. model.
    init : {"best", "innovations", "identity", "moments", "random"} or LDS
        How the noise covariances start; "best" takes the likeliest, "identity" is the paper's. An `LDS` over the
        same vocabulary goes on from its parameters.
    noise : {"full", "diagonal", "spherical", "bohning"}
        Observation noise; "full" is diagonal minus low rank in word space.
    whiten_ssid : bool
        Whether subspace identification sees whitened words.
    c_from : {"block", "regression"}
        C from the first block of the observability matrix, or by regression on all.
    update_transition_noise : bool
        Whether EM updates Q.
    unknown : {"zero", "missing"}
        At inference a word that the model does not know is a zero vector, as in counts with gaps, or a missing
        observation. A text counted with ``oov="unk"`` has a word for it, and then neither is used.
    memory : int, str or None
        Memory for EM, such as ``"4GB"``: below what keeping em_lags V x h products takes they are made twice.
    dtype : {"float32", "float64"}
        Of V x h arrays. All h x h algebra is float64.
    random_state : int, Generator, RandomState or None
    n_threads : int or None
        Results never depend on it.

    Attributes
    ----------
    A_, Q_ : ndarray of float64, shape (h, h)
        Transition matrix and transition noise.
    C_ : ndarray, shape (V, h)
        Emission matrix in whitened coordinates.
    M_ : ndarray of float64, shape (h, h)
        Noise covariance is D = Psi_0 - C M C' (full noise).
    gain_ : ndarray of float64, shape (h, h)
        L, with the Kalman gain K = L N' (N = C for full noise).
    state_covariance_ : ndarray of float64, shape (h, h)
        E[x x'].
    history_ : ndarray of float64
        Log-likelihood of a token less the i.i.d. model's, in nats, of the start and after each M step;
        ``n_iter_ + 1`` values.
    n_iter_, best_iter_ : int
        M steps done, and after how many the parameters kept were reached.
    converged_, fell_, interrupted_ : bool
        Why EM ended: the gain fell below `tol`; the likelihood fell; Ctrl-C.
    hankel_values_ : ndarray of float64
        Singular values of the Hankel matrix.
    noise_floor_ : float
        Size of Hankel values that sampling alone makes, about 2 sqrt(rV/T).
    start_, start_likelihoods_ : str, dict
        The start taken and the log-likelihoods of those tried.
    repairs_ : dict
        How often EM's guards moved an eigenvalue: "lead" (D), "radius" (A), "floor" (Q).
    horizon_error_ : float
        Relative change of E[xhat xhat'] when the last lag is left out: how far the lags' end limits EM's accuracy.
        Above 1e-3 the fit warns.
    vocabulary_ : Vocabulary or None
        None for numeric series.

    Notes
    -----
    A model of text says the same in any coordinates of the state. A fit leaves those in which the error of a smoothed
    state has covariance I, so that distances between states count in its standard deviations, and the smoother's matrix
    is a triangle, which halves the time of `transform`. A model of a series keeps the coordinates of its start.

    References
    ----------
    D. Belanger and S. Kakade, "A Linear Dynamical System Model for Text", ICML 2015; J. Martens, "Learning the Linear
    Dynamical System with ASOS", ICML 2010.
    """

    def __init__(
        self,
        n_components: int = 100,
        ssid_lags: int = 4,
        em_lags: int = 7,
        pseudocount: float = 10.0,
        n_iter: int = 50,
        tol: float = 1e-6,
        init: Any = "best",
        noise: str = "full",
        whiten_ssid: bool = True,
        c_from: str = "block",
        update_transition_noise: bool = True,
        unknown: str = "zero",
        memory: Any = None,
        dtype: str = "float32",
        random_state: Any = 0,
        n_threads: int | None = None,
    ):
        self.n_components, self.ssid_lags, self.em_lags, self.pseudocount = (
            n_components,
            ssid_lags,
            em_lags,
            pseudocount,
        )
        self.n_iter, self.tol, self.init, self.noise = n_iter, tol, init, noise
        self.whiten_ssid, self.c_from, self.update_transition_noise = whiten_ssid, c_from, update_transition_noise
        self.unknown, self.memory, self.dtype = unknown, memory, dtype
        self.random_state, self.n_threads = random_state, n_threads

    @classmethod
    def from_parameters(cls, A: Any, C: Any, Q: Any, R: Any, mean: Any = None) -> LDS:
        """A model of a numeric series from known parameters.

        Parameters
        ----------
        A, Q : array_like, shape (h, h)
        C : array_like, shape (p, h)
        R : array_like, shape (p, p)
            Observation noise.
        mean : array_like, shape (p,), optional

        Raises
        ------
        ValueError
            If shapes disagree, Q and R are no covariances (R: positive definite), or A has a spectral radius of 1 or more.
        """
        from ..linalg.stein import solve_lyapunov

        A, C, Q, R, mean = check_system(A, C, Q, R, mean)
        M = solve_lyapunov(A, Q)
        factor = np.linalg.cholesky(sym(C @ M @ C.T + R))
        model = cls(n_components=len(A), dtype="float64")
        learning = fitting.Learning(Parameters(A, np.linalg.solve(factor, C), Q, M))
        model.vocabulary_, model.interrupted_, model.boundary_ = None, False, "line"
        model.hankel_values_, model.noise_floor_, model.start_, model.start_likelihoods_ = np.zeros(0), 0.0, "given", {}
        space = SeriesSpace(mean, factor)
        try:
            model._adopt(learning, fitting.Iterate(learning.current, M, 0, 0.0), space)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"these parameters have no steady filter ({error}): a direction of the state never moves"
            ) from None
        model.n_iter_ = 0
        return model

    # --- inference --------------------------------------------------------------------------------------------------

    def _data(self, X: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
        check_fitted(self, "A_")
        self._readout.unknown = check_choice("unknown", self.unknown, UNKNOWN)
        if self.vocabulary_ is not None:
            return as_ids(X, lengths, self.vocabulary_)
        y = check_data(X, self._readout.space)
        return y, check_offsets(cut_lengths(lengths, len(y)), len(y))

    def transform(
        self,
        X: Any,
        lengths: Any = None,
        *,
        kind: str = "smoothed",
        whiten: bool = False,
        unit: bool = False,
        steady: bool = True,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """States of the tokens of any text.

        Parameters
        ----------
        X : str, tokens, ids or lists of them; for a series (T, p)
            A str is text, one sequence a line; a list of str one sequence of tokens; ids are rows of `vocabulary_`,
            -1 a word that the model does not know.
        lengths : array_like of int, optional
            Cuts one flat sequence into several.
        kind : {"smoothed", "filtered", "predicted"}
            Given all of the sequence, its words so far, or its words before.
        whiten : bool
            Multiply by E[xx']^{-1/2}.
        unit : bool
            Scale each state to unit length (zero states stay zero).
        steady : bool
            Use the steady-state recursions: exact far from the beginning of a sequence (and, smoothed, from its end)
            and from missing observations, close to it elsewhere. False is the exact filter and smoother from the
            stationary state, far slower.
        out : ndarray, shape (T, h), optional
            Where to write, such as a memory map, in the dtype of the model.

        Returns
        -------
        ndarray, shape (T, h)
        """
        check_choice("kind", kind, KINDS)
        whiten, unit, steady = check_bool("whiten", whiten), check_bool("unit", unit), check_bool("steady", steady)
        data, offsets = self._data(X, lengths)
        shape = (len(data), len(self.A_))
        dtype = self._readout.space.dtype
        if out is None:
            out = np.empty(shape, dtype)
        else:
            check_out(out, shape, dtype)
            if np.may_share_memory(out, self.C_):
                raise ValueError("out is the model's own C_; expected an array of your own")
        self._readout.states(data, offsets, kind, steady, out, self.n_threads)
        if whiten or unit:
            finish(out, self._readout.whitener().astype(dtype) if whiten else None, unit, self.n_threads)
        return out

    def score(
        self, X: Any, lengths: Any = None, *, steady: bool = True, relative: bool = False, per_token: bool = False
    ) -> Any:
        """Log-likelihood in nats of tokens or of a series under the filter.

        Parameters
        ----------
        X, lengths
            As for `transform`.
        steady : bool
            The steady-state gain from the first token on (the default), or the exact filter from the stationary
            state. The two differ at the beginning of each sequence.
        relative : bool
            Less the log-likelihood under independent draws. The density is Gaussian, over word indicators: only
            differences mean anything.
        per_token : bool
            Each token's own, shape (T,), instead of the sum.

        Returns
        -------
        float or ndarray
            Words that the model does not know are not scored.

        Notes
        -----
        Words are centred by their smoothed frequencies here, as the density is, and by those of the counts in the
        filter itself, as the statistics of EM are; the two differ by the pseudocount. So does ``history_``, which is
        expected under the smoothed counts: compare scores with scores.
        """
        steady, relative, per_token = (
            check_bool(name, value)
            for name, value in (("steady", steady), ("relative", relative), ("per_token", per_token))
        )
        data, offsets = self._data(X, lengths)
        values = self._readout.log_likelihoods(data, offsets, steady, relative, self.n_threads)
        values = np.where(np.isnan(values), -np.inf, values)  # beyond the range of numbers
        return values if per_token else float(values.sum())

    def forecast(self, X: Any, top: int | None = 10, steps: int = 1) -> Any:
        """What comes after a sequence.

        Parameters
        ----------
        X : tokens, ids or a series
            One sequence.
        top : int or None
            How many words; None gives the tendency of every word, ndarray (V,).
        steps : int
            How many tokens ahead.

        Returns
        -------
        list of (str, float), ndarray of shape (V,), or for a series ndarray of shape (p,)
            Words by falling tendency: expected indicators, linear in the state, so that they sum to 1 but may be
            negative.
        """
        check_int("steps", steps, 1)
        top = top if top is None else check_int("top", top, 1)
        data, offsets = self._data(X, None)
        if np.count_nonzero(np.diff(offsets)) > 1:
            raise ValueError(f"forecast takes one sequence, got {np.count_nonzero(np.diff(offsets))}")
        states = self._readout.states(data, offsets, "filtered", n_threads=self.n_threads)
        tendency = self._readout.forecast(states[-1] if len(states) else np.zeros(len(self.A_)), steps)
        if self.vocabulary_ is None or top is None:
            return tendency
        order = np.argsort(-tendency, kind="stable")[:top]
        return [(self.vocabulary_[int(i)], float(tendency[i])) for i in order]

    def type_vectors(self) -> np.ndarray:
        """What one occurrence of each word adds to the state, s_i C_i L': ndarray (V, h)."""
        check_fitted(self, "A_")
        return self._readout.type_vectors()

    def dynamics(self, top: int = 10, n_pairs: int | None = None, rank: str = "raw", by: str = "state") -> Dynamics:
        """Singular pairs of the transition with their words, and eigenvalues as half-lives (the paper's Table 1).

        The state is rotated so that E[xx'] = I; then A v = gain u, v is the state now and u the next.

        Parameters
        ----------
        top : int
            Words a side.
        n_pairs : int or None
            How many pairs; all by default.
        rank : {"raw", "correlation", "lift"}
            Order words by the change of their probability (q * C v), by their correlation with the direction (C v), or
            by the change relative to their frequency (s * C v). The first favours frequent words, the last rare ones.
        by : {"state", "tokens"}
            "state" is the paper's: every direction of the state counts alike, and fixed expressions come first. "tokens"
            are the singular pairs of what a token says of the next, words weighted by the root of their frequency:
            those that matter in most places come first, gains relative to the first. A series has only "state".
        """
        check_fitted(self, "A_")
        check_choice("rank", rank, ("raw", "correlation", "lift"))
        check_choice("by", by, ("state", "tokens"))
        if by == "tokens" and self.vocabulary_ is None:
            raise ValueError('by="tokens" weighs words by frequency; this is a model of a numeric series: use "state"')
        n_pairs = n_pairs if n_pairs is None else check_int("n_pairs", n_pairs, 1)
        words = self.vocabulary_ if self.vocabulary_ is not None else [str(i) for i in range(len(self.C_))]
        return self._readout.dynamics(words, check_int("top", top, 1), n_pairs, rank, by)

    def to_rnn(self, output: str = "linear", scale: float = 1.0, tune: Any = None) -> dict[str, np.ndarray]:
        """The filter as weights of an Elman network, to start a recurrent language model from.

        With the identity as activation ``x_t = W_rec x_{t-1} + W_in[token] + b_hidden`` from zero is the steady-state
        filter, exactly; scores of the next word are ``y_t = W_out x_t + b_out``. Saturating activations need small
        states: rotate and shrink by any invertible T as T W_rec T^-1, W_in T', T b_hidden, W_out T^-1.

        Parameters
        ----------
        output : {"linear", "softmax"}
            "linear": y is the tendency of every word, as `forecast` gives it. "softmax": y are scores whose softmax is
            a distribution, log mu + scale s (C A x), the first order of the logarithm of the linear forecast.
        scale : float
            Of the softmax scores.
        tune : text, tokens or ids, optional
            Held-out text, as for `transform`, on which the scale of the softmax scores is chosen instead.

        Returns
        -------
        dict of ndarray
            "W_in" (V, h), "W_rec" (h, h), "b_hidden" (h,), "W_out" (V, h), "b_out" (V,), and "unknown" (h,), the input
            row of a word that the model does not know.

        References
        ----------
        Belanger and Kakade (2015), section 7.3.
        """
        from .network import check_words, elman_weights, tuned_scale

        check_fitted(self, "A_")
        check_choice("output", output, ("linear", "softmax"))
        check_words(self._readout)
        scale = check_real("scale", scale, 0)
        if tune is not None:
            if output != "softmax":
                raise ValueError('tune chooses the scale of softmax scores; pass output="softmax"')
            scale = tuned_scale(self._readout, *self._data(tune, None), self.n_threads)
        return elman_weights(self._readout, output, scale)

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model to one file; `lagwise.load` reads it."""
        check_fitted(self, "A_")
        save_tensors(path, "lds", *to_tensors(self), overwrite)

    @classmethod
    def _from_tensors(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> LDS:
        model = cls(**meta["params"])
        from_tensors(model, arrays, meta)
        return model
