"""SENS: spectral word embedding with negative sampling, and the factorisations it is compared with."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ._estimator import Estimator
from ._progress import Progress
from ._threads import resolve_threads
from ._validation import check_bool, check_choice, check_fitted, check_int, check_random_state, check_real
from .pmi import check_alpha, window_counts
from .presets import PRESETS
from .variants import VARIANTS, build_matrix, factorise, row_weights


class SENS(Estimator):
    """Spectral word vectors from window counts (Soleimani & Matwin, AAAI 2018).

    The matrix M holds the base-2 PMI of the observed pairs above `alpha` (other entries are 0). The vectors maximise
    ``sum_ij M_ij (w_i . w_j) = Tr(W'MW)`` over orthonormal columns: the eigenvectors of the algebraically largest
    eigenvalues. The other variants factorise their matrix by modulus (singular vectors).

    Parameters
    ----------
    n_components : int
        Length d of the vectors.
    variant : str
        "sens"; "svd-ns" (same matrix, largest moduli: the paper's experiments); "svd-ns-shifted" (kept entries minus
        alpha, as the authors' program does); "pmi" (every observed pair); "ppmi" (alpha 0); "sppmi"
        (max(PMI - log2 negatives, 0)); "counts", "log-counts" (log(1 + X)), "sqrt-counts".
    alpha : float, "auto" or None
        Threshold in bits: pairs with PMI > alpha are kept. None keeps all observed pairs; "auto" keeps negatives at
        two thirds of the positives. Used by sens, svd-ns and svd-ns-shifted.
    shift : float
        Bits added to every kept entry (sens, svd-ns, pmi, ppmi).
    window, weight :
        The window counts to factorise, as for `CountStore.window`: None is 5 and flat, or a windowed store's own.
    smoothing : float, smooth : {"both", "context"}
        Exponent of the marginals, of both or of the contexts only (then not symmetric: not for "sens").
    row_weight : float
        g of the weighted matrix D^g M D^g, D the row sums of the counts over their median: a positive g spends more of
        the few dimensions on frequent words.
    power : float
        Vectors are U s^power.
    drop_first : int
        Leading components to leave out, beside the n_components kept.
    refit : int
        Conjugate gradient steps that fit each word anew to its row of the matrix, the contexts held fixed, with the
        weight ``1 + pair_weight * sqrt(min(count, pair_max))`` for a pair (`lagwise.refit.refit_words`); 0 for none.
        One or two steps help analogies much. For PMI variants without psd and random_negatives.
    pair_weight, pair_max : float
        Of the weights of `refit`.
    negatives : float
        k of "sppmi".
    psd : bool
        Raise each diagonal entry to the sum of the moduli of its row, so that M is positive semi-definite.
    random_negatives : float
        Unobserved pairs to set to alpha, as a fraction of the observed off-diagonal pairs.
    preset : str, optional
        One of "paper", "balanced", "similarity", "analogies": a whole setting; arguments that differ from their
        defaults come before it.
    tol : float
        Bound on the residual ``max |M u - lambda u| / |lambda_1|``.
    solver : {"lanczos", "krylov", "arpack"}
        Thick-restart block Lanczos to `tol`; eight passes of block Krylov; SciPy's eigsh.
    random_state : int, Generator, RandomState or None
    n_threads : int or None
        Never changes the result.
    progress : bool, optional

    Attributes
    ----------
    components_ : ndarray of float32, shape (n_words, d)
        Eigenvectors (left singular vectors), orthonormal, the largest entry of each positive.
    embedding_ : ndarray of float32, shape (n_words, d)
        ``components_ * |eigenvalues_| ** power``; zero for words without entries in the matrix. After a refit its
        coefficients stand in place of ``components_ * eigenvalues_``.
    refitted_ : ndarray of float32, shape (n_words, d), or None
        Coefficients of the words on the components, as `refit` found them.
    eigenvalues_ : ndarray of float64, shape (d,)
        Singular values for smooth="context".
    residual_ : float
    objective_ : float
        Sum of the kept eigenvalues = Tr(W'MW).
    negative_in_top_ : int
        Negative eigenvalues whose modulus reaches the d-th: SVD-NS spans the same space as SENS iff it is 0. Of many
        (more than about d/2) only those found along the way are counted.
    n_positive_, n_negative_, n_observed_ : int
        Entries kept (before the shift) by sign; observed pairs. nnz_: entries factorised.
    alpha_ : float or None
        The threshold used.
    vocabulary_ : Vocabulary or None
    n_iter_, n_products_ : int
        Restarts; columns multiplied.
    interrupted_ : bool
        Whether Ctrl-C ended the fit; the vectors are then the best reached.
    """

    def __init__(
        self,
        n_components: int = 100,
        variant: str = "sens",
        alpha: float | str | None = -2.5,
        shift: float = 0.0,
        window: int | None = None,
        weight: Any = None,
        smoothing: float = 1.0,
        smooth: str = "both",
        power: float = 0.0,
        drop_first: int = 0,
        negatives: float = 1.0,
        psd: bool = False,
        random_negatives: float = 0.0,
        preset: str | None = None,
        tol: float = 1e-4,
        solver: str = "lanczos",
        random_state: Any = 0,
        n_threads: int | None = None,
        progress: bool | None = None,
        row_weight: float = 0.0,
        refit: int = 0,
        pair_weight: float = 10.0,
        pair_max: float = 100.0,
    ):
        self.n_components, self.variant, self.alpha, self.shift = n_components, variant, alpha, shift
        self.window, self.weight, self.smoothing, self.smooth = window, weight, smoothing, smooth
        self.power, self.drop_first, self.negatives, self.psd = power, drop_first, negatives, psd
        self.random_negatives, self.preset, self.tol, self.solver = random_negatives, preset, tol, solver
        self.random_state, self.n_threads, self.progress = random_state, n_threads, progress
        self.row_weight, self.refit, self.pair_weight, self.pair_max = row_weight, refit, pair_weight, pair_max

    def settings(self) -> dict[str, Any]:
        """The parameters in force: those of the preset, overridden by arguments that differ from their defaults.

        Raises
        ------
        ValueError
            For a value out of range; the message names it.
        """
        given = self.get_params(deep=False)
        if self.preset is not None:
            check_choice("preset", self.preset, PRESETS)
            defaults = {name: p.default for name, p in inspect.signature(SENS.__init__).parameters.items()}
            for name, value in PRESETS[self.preset].items():
                if _same(given[name], defaults[name]):
                    given[name] = value
            if self.refit == 0 and not _counts_known(given):
                given["refit"] = 0  # the preset's yields to what was asked for
        check_int("n_components", given["n_components"], 1)
        check_choice("variant", given["variant"], VARIANTS)
        given["alpha"] = check_alpha(given["alpha"])
        check_real("shift", given["shift"], minimum=-1e6, maximum=1e6)
        if given["window"] is not None:
            check_int("window", given["window"], 1)
        check_real("smoothing", given["smoothing"], above=0, maximum=1)
        check_choice("smooth", given["smooth"], ("both", "context"))
        check_real("row_weight", given["row_weight"])
        check_int("refit", given["refit"], 0)
        check_real("pair_weight", given["pair_weight"], minimum=0, maximum=1e6)
        check_real("pair_max", given["pair_max"], above=0)
        check_real("power", given["power"], minimum=0)
        check_int("drop_first", given["drop_first"], 0)
        check_real("negatives", given["negatives"], minimum=1)
        check_bool("psd", given["psd"])
        check_real("random_negatives", given["random_negatives"], minimum=0)
        check_real("tol", given["tol"], minimum=0)
        check_choice("solver", given["solver"], ("lanczos", "krylov", "arpack"))
        context = given["smooth"] == "context" and given["smoothing"] != 1
        if context and given["variant"] == "sens":
            raise ValueError(
                'smooth="context" gives a matrix that is not symmetric, and variant="sens" needs eigenvalues; '
                'use smooth="both" or another variant'
            )
        if context and (given["psd"] or given["random_negatives"]):
            raise ValueError('psd and random_negatives need a symmetric matrix; use smooth="both"')
        if given["random_negatives"] and (given["alpha"] is None or "counts" in given["variant"]):
            raise ValueError("random_negatives set unobserved pairs to alpha; give a threshold alpha and a PMI variant")
        if given["refit"] and not _counts_known(given):
            raise ValueError(
                "refit weighs pairs by their counts, which it takes from the PMI: "
                "use a PMI variant without psd and random_negatives, or refit=0"
            )
        return given

    def fit(self, counts: Any, y: Any = None, callback: Callable[[int, int, float], Any] | None = None) -> SENS:
        """Factorise the matrix of `counts`.

        Parameters
        ----------
        counts : CountStore, or symmetric matrix of window counts
            The store can be used again with another alpha, window or d.
        callback : callable(n_products, n_converged, residual), optional

        Returns
        -------
        SENS

        Raises
        ------
        ValueError
            For settings out of range, counts without co-occurrences, more components than words, or a threshold that
            leaves nothing.
        KeyboardInterrupt
            On Ctrl-C; the best vectors so far are kept and `interrupted_` is True.
        """
        settings = self.settings()
        check_random_state(settings["random_state"])
        if self.progress is not None:
            check_bool("progress", self.progress)
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback!r}; expected a function or None")
        threads = resolve_threads(settings["n_threads"])
        started = time.perf_counter()
        table = window_counts(counts, settings["window"], settings["weight"], threads)
        wanted = settings["n_components"] + settings["drop_first"]
        if wanted > table.n_words:
            raise ValueError(
                f"n_components={settings['n_components']} (plus drop_first={settings['drop_first']}) for "
                f"{table.n_words} words; expected at most {table.n_words}: lower n_components, or keep more "
                "words (min_count)"
            )
        self.vocabulary_ = table.vocabulary
        self.counts_ = np.asarray(counts.unigrams) if hasattr(counts, "unigrams") else None
        result = build_matrix(table, settings, threads)
        self.alpha_, self.n_observed_ = result.alpha, result.n_observed
        self.n_positive_, self.n_negative_ = result.n_positive, result.n_negative
        self.row_sums_, self.nnz_ = result.row_sums, int(result.matrix.nnz)
        self._without_entries = np.flatnonzero(np.diff(result.matrix.indptr) == 0)
        matrix_seconds = time.perf_counter() - started
        self.interrupted_ = False
        self._settings = settings
        with Progress(self.progress, f"factorising {self.nnz_} entries", unit="products") as bar:

            def report(n_products: int, n_converged: int, residual: float) -> None:
                known = f"{n_converged} of {wanted} converged, residual {residual:.1e}" if residual < math.inf else ""
                bar.update(n_products, known)
                if callback is not None:
                    callback(n_products, n_converged, residual)

            try:
                found = factorise(result, settings, threads, report)
            except KeyboardInterrupt as stop:
                if getattr(stop, "partial", None) is not None:
                    self._keep(stop.partial)  # type: ignore[attr-defined]
                    self.interrupted_ = True
                raise
            self._keep(found)
            if settings["refit"]:
                self.interrupted_ = True  # until it is done; the vectors without it are kept
                self._refit(result, found, threads)
                self.interrupted_ = False
        self.seconds_ = {"matrix": matrix_seconds, "factorisation": time.perf_counter() - started - matrix_seconds}
        return self

    def _refit(self, built: Any, found: Any, threads: int) -> None:
        from .refit import refit_words

        settings = self._settings
        left, right = (found.U, found.V) if hasattr(found, "U") else (found.vectors, found.vectors)
        self.refitted_: np.ndarray | None = refit_words(
            built,
            right,
            left * found.values.astype(np.float32),
            settings["refit"],
            settings["pair_weight"],
            settings["pair_max"],
            row_weights(built.row_sums, settings["row_weight"]),
            threads,
        )[:, settings["drop_first"] : settings["drop_first"] + settings["n_components"]]

    def _keep(self, found: Any) -> None:
        first, stop = self._settings["drop_first"], self._settings["drop_first"] + self._settings["n_components"]
        vectors = found.vectors if hasattr(found, "vectors") else found.U
        self.eigenvalues_ = found.values[first:stop]
        self.components_ = np.ascontiguousarray(vectors[:, first:stop], dtype=np.float32)
        self.refitted_ = None
        self.residual_, self.n_products_ = float(found.residual), int(found.n_products)
        self.n_iter_, self.converged_ = int(getattr(found, "n_restarts", 0)), bool(found.converged)
        self.objective_ = math.fsum(self.eigenvalues_)
        negative = found.values[found.values < 0] if self._settings["variant"] != "sens" else found.opposite
        least = float(np.abs(found.values[:stop]).min(initial=math.inf))
        with np.errstate(over="ignore"):
            weights = np.abs(self.eigenvalues_).astype(np.float32) ** np.float32(self._settings["power"])
        if not np.isfinite(weights).all():
            raise ValueError(
                f"power={self._settings['power']:g} of eigenvalues up to {np.abs(self.eigenvalues_).max():.3g} does not "
                "fit float32; choose a smaller power"
            )
        self.negative_in_top_ = int(np.sum(np.abs(negative) >= least))

    @property
    def embedding_(self) -> np.ndarray:
        """The vectors with the spectral weight applied, float32 of shape (n_words, d); 0 for words without entries."""
        check_fitted(self, "components_")
        vectors = self._spectral(self._settings["power"])
        vectors[self._without_entries] = 0
        return vectors

    def _spectral(self, power: float) -> np.ndarray:
        """Vectors with a spectral weight, those of the refit where there was one."""
        if self.refitted_ is None:
            return self.components_ * (np.abs(self.eigenvalues_) ** power).astype(np.float32)
        modulus = np.abs(self.eigenvalues_)
        weights = np.divide(modulus**power, self.eigenvalues_, out=np.zeros_like(modulus), where=modulus > 0)
        return self.refitted_ * weights.astype(np.float32)

    def fit_transform(self, counts: Any, y: Any = None) -> np.ndarray:
        """Fit and return `embedding_`."""
        return self.fit(counts).embedding_

    def word_vectors(self, words: Any = None) -> Any:
        """The result as `WordVectors`.

        Parameters
        ----------
        words : list of str or Vocabulary, optional
            Names of the rows, where the counts had none.

        Returns
        -------
        WordVectors
        """
        from .vectors import WordVectors

        check_fitted(self, "components_")
        words = self.vocabulary_ if words is None else words
        if words is None:
            raise ValueError("the counts were a matrix without words; give word_vectors(words)")
        kept = {
            name: value
            for name, value in self._settings.items()
            if name not in ("n_threads", "random_state", "preset", "progress")
        }
        if not isinstance(kept["weight"], (str, type(None))):
            kept["weight"] = [float(value) for value in kept["weight"]]
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        meta = {
            "estimator": "SENS",
            "settings": kept,
            "seed": None if seed is None else int(seed),
            "eigenvalues": self.eigenvalues_.tolist(),
            "residual": self.residual_,
            "objective": self.objective_,
            "positive": self.n_positive_,
            "negative": self.n_negative_,
        }
        return WordVectors(words, self.embedding_, self.counts_, meta)


def _counts_known(settings: dict[str, Any]) -> bool:
    """Whether the count of each pair can be told from its entry in the matrix."""
    return not ("counts" in settings["variant"] or settings["psd"] or settings["random_negatives"])


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and a == b)
