"""Learning of the `LDS` estimator: checks, start, EM, and what becomes of an iterate."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._estimator import Estimator
from .._progress import Progress
from .._validation import (
    check_bool,
    check_choice,
    check_fitted,
    check_float,
    check_int,
    check_memory,
    check_random_state,
    check_real,
)
from . import fitting
from .coordinates import settled
from .parameters import NOISE_KINDS, Parameters, clip_lead, noise_scale, sym
from .readout import Readout
from .series import LagCovariances, SeriesSpace
from .starts import INITS, choose_start, random_start
from .statistics import Covariances, TextCovariances, WordSpace
from .subspace import POWER_ITERATIONS, Rescaled, Subspace, hankel_svd, identify, numerical_rank

UNKNOWN = ("zero", "missing")  # what a word that the model does not know says: w = 0, or nothing


class Learner(Estimator):
    """The part of `LDS` that learns; the parameters are documented there."""

    n_components: int
    ssid_lags: int
    em_lags: int
    pseudocount: float
    n_iter: int
    tol: float
    init: Any
    noise: str
    whiten_ssid: bool
    c_from: str
    update_transition_noise: bool
    unknown: str
    memory: Any
    dtype: str
    random_state: Any
    n_threads: int | None

    def _check(self) -> None:
        check_int("n_components", self.n_components, 1)
        check_int("ssid_lags", self.ssid_lags, 2)
        check_int("em_lags", self.em_lags, 1)
        check_int("n_iter", self.n_iter, 0)
        check_real("pseudocount", self.pseudocount, 0, 1e100)
        check_real("tol", self.tol, 0)
        if not isinstance(self.init, Learner):
            check_choice("init", self.init, INITS)
        check_choice("noise", self.noise, NOISE_KINDS)
        check_choice("c_from", self.c_from, ("block", "regression"))
        check_choice("unknown", self.unknown, UNKNOWN)
        check_float("dtype", self.dtype)
        check_bool("whiten_ssid", self.whiten_ssid)
        check_bool("update_transition_noise", self.update_transition_noise)

    def fit(
        self,
        counts: Any,
        y: Any = None,
        *,
        callback: Callable[[int, Any], Any] | None = None,
        keep: str = "likelihood",
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
    ) -> Any:
        """Learn from a count store or from `LagCovariances`.

        Parameters
        ----------
        counts : CountStore or LagCovariances
            With lags up to max(2 ssid_lags - 1, em_lags).
        callback : callable, optional
            Called as ``callback(iteration, model)`` with the model of each iteration, fitted as far as it goes. True
            stops; a number is recorded in ``callback_values_``.
        keep : {"likelihood", "callback"}
            Which iterate becomes the model: the likeliest, or that of the highest callback value.
        checkpoint : path, optional
            File that holds the run after every iteration.
        resume : bool
            Go on from `checkpoint` where it exists; the outcome is that of an unbroken run.
        progress : bool or None
            True shows iterations and log-likelihood on standard error.

        Returns
        -------
        LDS
            self

        Raises
        ------
        ValueError
            For counts without the lags, a Hankel rank below `n_components`, or parameters out of range.
        KeyboardInterrupt
            On Ctrl-C, after the best iterate so far has been stored (``interrupted_``).
        """
        self._check()
        check_choice("keep", keep, ("likelihood", "callback"))
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback!r:.80}; expected a function of (iteration, model), or None")
        if keep == "callback" and callback is None:
            raise ValueError('keep="callback" needs a callback that returns a number')
        covariances = self._covariances(counts)
        series = isinstance(covariances, SeriesSpace)
        most = self.ssid_lags * (covariances.n_features - 1)  # one direction a block goes with the mean
        if not series and self.n_components > most:
            raise ValueError(
                f"Hankel rank {most} < {self.n_components}: {covariances.n_features} words and "
                f"ssid_lags={self.ssid_lags} allow no more directions; use n_components={most} or less, or more text"
            )
        check_memory("n_components", self.n_components, 32 * self.n_components * covariances.n_features)
        if series and self.noise == "bohning":
            raise ValueError(
                'noise="bohning" is a bound for words; a numeric series takes "full", "diagonal" or "spherical"'
            )
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        self.vocabulary_ = None if series else counts.vocabulary
        self.boundary_ = "line" if series else counts.options.get("boundary", "line")
        self.noise_floor_ = covariances.noise_floor * np.sqrt(self.ssid_lags)
        self.interrupted_ = False
        fingerprint = self._fingerprint(covariances)
        if resume and checkpoint is None:
            raise ValueError("resume=True needs checkpoint=, the file to go on from")
        if resume and os.path.exists(checkpoint):  # type: ignore[arg-type]
            learning = fitting.load_checkpoint(checkpoint, fingerprint)  # type: ignore[arg-type]
            self.hankel_values_ = np.array(learning.notes["hankel_values"])
            self.start_, self.start_likelihoods_ = learning.notes["start"], learning.notes["start_likelihoods"]
        else:
            learning = fitting.Learning(self._start(covariances, progress))
            learning.notes = {
                "hankel_values": self.hankel_values_.tolist(),
                "start": self.start_,
                "start_likelihoods": self.start_likelihoods_,
            }

        def observer(number: int, iterate: fitting.Iterate) -> Any:
            self._adopt(learning, iterate, covariances)
            return callback(number, self) if callback else None

        try:
            with Progress(progress, "EM", self.n_iter, "iterations") as bar:
                fitting.run_em(
                    learning,
                    covariances,
                    self.em_lags,
                    self.n_iter,
                    self.tol,
                    update_Q=self.update_transition_noise,
                    keep_products=self._keep_products(covariances),
                    keep=keep,
                    observer=observer if callback else None,
                    checkpoint=checkpoint,
                    fingerprint=fingerprint,
                    report=lambda number, value: bar.update(number, f"{value:.6f} nats above i.i.d."),
                )
        except KeyboardInterrupt:
            self.interrupted_ = True
            if learning.best is not None:
                self._adopt(learning, learning.best, covariances)
            raise
        assert learning.best is not None
        self._adopt(learning, learning.best, covariances)
        if sum(self.repairs_.values()):
            warnings.warn(f"EM moved eigenvalues back to their floors: {self.repairs_}", RuntimeWarning, stacklevel=2)
        return self

    def _covariances(self, counts: Any, max_lag: int | None = None) -> Covariances:
        need = max(2 * self.ssid_lags - 1, self.em_lags) if max_lag is None else max_lag
        if isinstance(counts, LagCovariances):
            if counts.max_lag < need:
                raise ValueError(
                    f"the covariances hold lags 1..{counts.max_lag}, SSID with r={self.ssid_lags} and EM with "
                    f"{self.em_lags} lags need 1..{need}; estimate again with max_lag={need}"
                )
            return counts
        return TextCovariances(counts, need, float(self.pseudocount), self.dtype, self.n_threads)

    def _keep_products(self, covariances: Covariances) -> bool:
        if self.memory is None:
            return True
        from ..spool import parse_memory

        products = self.em_lags * covariances.n_features * self.n_components * covariances.dtype.itemsize
        return products <= (parse_memory(self.memory) or 0) / 2

    def _fingerprint(self, covariances: Covariances) -> dict[str, Any]:
        options = {
            name: getattr(self, name)
            for name in (
                "n_components",
                "ssid_lags",
                "em_lags",
                "noise",
                "whiten_ssid",
                "c_from",
                "update_transition_noise",
            )
        }
        options["dtype"], options["pseudocount"] = np.dtype(self.dtype).name, float(self.pseudocount)
        probe = covariances.matmat(1, np.ones((covariances.n_features, 1), covariances.dtype))
        words = covariances.mu if covariances.mu is not None else covariances.variances
        options["data"] = zlib.crc32(np.ascontiguousarray(words).tobytes()) ^ zlib.crc32(
            np.ascontiguousarray(probe).tobytes()
        )
        return options

    def _start(self, covariances: Covariances, progress: bool | None) -> Parameters:
        self.hankel_values_, self.start_, self.start_likelihoods_ = np.zeros(0), "given", {}
        if isinstance(self.init, Learner):
            return self._start_from(self.init, covariances)
        rng = check_random_state(self.random_state)
        self.start_ = str(self.init)
        if self.init == "random":
            return random_start(covariances, self.n_components, rng, self.noise)
        found = self._identify(covariances, rng, progress)
        self.hankel_values_ = found.values
        parameters, self.start_, self.start_likelihoods_ = choose_start(
            found, covariances, self.em_lags, self.init, self.noise
        )
        return parameters

    def _identify(self, covariances: Covariances, rng: np.random.Generator, progress: bool | None) -> Subspace:
        with Progress(progress, "SSID", POWER_ITERATIONS, "passes") as bar:
            if self.whiten_ssid:
                return identify(covariances, self.n_components, self.ssid_lags, rng, self.c_from, report=bar.update)
            raw = Rescaled(covariances)
            found = identify(raw, self.n_components, self.ssid_lags, rng, self.c_from, report=bar.update)
            return Subspace(found.A, raw.restore(found.C), raw.restore(found.Gx), found.values)

    def _start_from(self, other: Any, covariances: Covariances) -> Parameters:
        check_fitted(other, "A_")
        if other.C_.shape != (covariances.n_features, self.n_components):
            raise ValueError(
                f"init is an LDS of {other.C_.shape[0]} features and {other.C_.shape[1]} components; "
                f"expected {covariances.n_features} and {self.n_components}"
            )
        if other.vocabulary_ is not None and other.vocabulary_.words != getattr(self.vocabulary_, "words", None):
            raise ValueError("init is an LDS over another vocabulary; count the text with vocabulary=init.vocabulary_")
        C = np.asarray(other.C_, dtype=np.float64)
        space = other._readout.space
        if isinstance(space, WordSpace) and isinstance(covariances, WordSpace):
            C = C / space.s[:, None] * covariances.s[:, None]
        elif isinstance(space, SeriesSpace) and isinstance(covariances, SeriesSpace):
            C = np.linalg.solve(covariances.factor, space.factor @ C)  # type: ignore[assignment]
        else:
            raise ValueError("init is an LDS of a text where a series is fitted, or the other way round")
        C = np.ascontiguousarray(C, dtype=covariances.dtype)
        with covariances.tall.running():
            covariances.clean(C)
            M = np.array(other.M_, dtype=np.float64)
            if not np.array_equal(C, other.C_):
                M = clip_lead(sym(covariances.tall.gram(C, C)), M)[0]
            return Parameters(
                np.array(other.A_), C, np.array(other.Q_), M, self.noise, noise_scale(self.noise, C, M, covariances)
            )

    def _adopt(self, learning: fitting.Learning, iterate: fitting.Iterate, covariances: Any) -> None:
        """Make an iterate the model."""
        par, S_xx = iterate.parameters, iterate.S_xx
        if isinstance(covariances, WordSpace):
            space: Any = WordSpace(covariances.mu, covariances.mu_0, covariances.dtype, self.n_threads)  # type: ignore[arg-type]
            par, S_xx = settled(par, S_xx, space)
        else:  # coordinates of the start, which may mean something
            space = SeriesSpace(covariances.mean, covariances.factor)
        self.A_, self.C_, self.Q_, self.M_, self.noise_scale_ = par.A, par.C, par.Q, par.M, par.scale
        self.state_covariance_ = S_xx
        self.history_ = np.array(learning.history)
        self.n_iter_, self.best_iter_ = len(learning.history) - 1, iterate.number
        self.converged_, self.fell_ = learning.converged, learning.fell
        self.repairs_ = dict(learning.repairs)
        self.horizon_error_ = learning.horizon_error
        self.callback_values_ = np.array(learning.callback_values)
        self._readout = Readout(par, space, S_xx, self.unknown)
        self.gain_ = self._readout.state.L

    def suggest_components(self, counts: Any = None, max_components: int = 200) -> int:
        """How many components the Hankel values carry: those above the noise floor and 1/1000 of the first.

        Parameters
        ----------
        counts : CountStore or LagCovariances, optional
            Work out the values for these; without it those of the fit, which hold only about n_components.
        max_components : int
        """
        check_int("max_components", max_components, 1)
        if counts is None:
            check_fitted(self, "A_")
            values, floor, dtype = self.hankel_values_, self.noise_floor_, np.dtype(self.dtype)
        else:
            self._check()
            covariances = self._covariances(counts, 2 * self.ssid_lags - 1)
            limit = min(max_components, covariances.n_dimensions * self.ssid_lags)
            values = hankel_svd(covariances, self.ssid_lags, limit, check_random_state(self.random_state))[1][:limit]
            floor, dtype = covariances.noise_floor * np.sqrt(self.ssid_lags), covariances.dtype
        return min(numerical_rank(values, dtype), int(np.sum(values > floor)))
