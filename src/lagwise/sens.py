"""SENS: spectral word embedding with negative sampling, and its relatives."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ._estimator import Estimator
from ._progress import Progress
from ._threads import resolve_threads
from ._validation import check_bool, check_choice, check_fitted, check_int, check_random_state, check_real
from .pmi import as_csr, pmi_arrays

VARIANTS = ("sens", "svd-ns", "svd-ns-shifted", "pmi", "ppmi", "sppmi", "counts", "log-counts", "sqrt-counts")
PAPER_ALPHA = -2.5


class Preset(NamedTuple):
    """Parameters that a name stands for; `weights` are those of distances 1, 2, ... up to the store's reach."""

    parameters: dict[str, Any]
    about: str


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        {"variant": "svd-ns", "alpha": PAPER_ALPHA, "window": 5, "weight": "flat"},
        "the setting of the paper's experiments",
    ),
}


class SENS(Estimator):
    """Word vectors from the leading eigenvectors of a thresholded PMI matrix.

    Parameters
    ----------
    n_components : int
        Dimensions of the vectors.
    variant : {"sens", "svd-ns", "svd-ns-shifted", "pmi", "ppmi", "sppmi", "counts", "log-counts", "sqrt-counts"}
        The matrix, and whether the algebraically largest eigenvalues count ("sens") or the largest by modulus.
    alpha : float
        Threshold of PMI in bits: pairs above it stay, negative ones are the negative examples.
    shift : float
        Added to every kept entry, bits.
    window, weight
        As for `CountStore.window`; a windowed store answers only its own.
    smoothing : float
        Exponent of the marginals (1: none).
    smooth : {"both", "context"}
        Which marginals; "context" makes the matrix unsymmetric (left singular vectors, not with "sens").
    power : float
        Vectors are U |lambda|^power.
    drop_first : int
        Leading components to leave out.
    negatives : float
        k of "sppmi": entries are PMI - log2 k.
    psd : bool
        Raise the diagonal until it dominates each row, so that no eigenvalue is negative.
    random_negatives : float
        Unobserved pairs to set to `alpha`, as a fraction of the observed ones.
    preset : str, optional
        A named setting that overrides the other parameters of the matrix.
    tol : float
        Largest residual |M u - lambda u| / |lambda_1| accepted.
    solver : {"lanczos", "arpack"}
    random_state : int, Generator, RandomState or None
    n_threads : int, optional
    progress : bool, optional

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (n_components,)
        Falling (by modulus, except for "sens"); singular values for "context" smoothing. Bits.
    components_ : ndarray of float32, shape (n_words, n_components)
        Orthonormal columns; the entry of largest modulus of each is positive.
    residual_ : float
    objective_ : float
        Sum of the kept eigenvalues = Tr(W'MW).
    negative_in_top_ : int
        Negative eigenvalues among the kept ones ("sens": known negative ones of larger modulus than the last kept).
    n_positive_, n_negative_ : int
        Positive and negative PMI entries kept.

    References
    ----------
    Soleimani & Matwin, "Spectral Word Embedding with Negative Sampling", AAAI 2018; Levy & Goldberg, NeurIPS 2014.
    """

    def __init__(
        self,
        n_components: int = 100,
        variant: str = "sens",
        alpha: float = PAPER_ALPHA,
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
        solver: str = "arpack",
        random_state: Any = 0,
        n_threads: int | None = None,
        progress: bool | None = None,
    ):
        self.n_components, self.variant, self.alpha, self.shift = n_components, variant, alpha, shift
        self.window, self.weight, self.smoothing, self.smooth = window, weight, smoothing, smooth
        self.power, self.drop_first, self.negatives, self.psd = power, drop_first, negatives, psd
        self.random_negatives, self.preset, self.tol, self.solver = random_negatives, preset, tol, solver
        self.random_state, self.n_threads, self.progress = random_state, n_threads, progress

    def fit(self, counts: Any, y: Any = None) -> SENS:
        """Factorise the matrix of a CountStore.

        Raises
        ------
        ValueError
            For parameters that are wrong or do not fit the store, no co-occurrences, or a threshold that leaves nothing.
        """
        p = self._checked()
        n_words = len(counts.vocabulary)
        wanted = p["n_components"] + p["drop_first"]
        if wanted >= n_words:
            raise ValueError(
                f"n_components={p['n_components']} (plus drop_first={p['drop_first']}) for {n_words} words; "
                f"expected fewer than {n_words}: lower n_components, or keep more words (min_count)"
            )
        threads = resolve_threads(self.n_threads)
        matrix = self._matrix(counts, p, threads)
        values, vectors, self.residual_ = _factorise(matrix, wanted, p, threads, self.progress)
        from .linalg.panels import fix_signs

        values, vectors = values[p["drop_first"] :], vectors[:, p["drop_first"] :]
        vectors = (vectors * fix_signs(vectors)).astype(np.float32)
        self.eigenvalues_, self.components_ = values, vectors
        self.objective_ = float(values.sum())
        self.negative_in_top_ = (
            int((values < 0).sum()) if p["variant"] != "sens" else self._count_negative(matrix, values, p)
        )
        self.vocabulary_, self.counts_ = counts.vocabulary, np.asarray(counts.unigrams)
        self._parameters = p
        return self

    def _checked(self) -> dict[str, Any]:
        p = self.get_params()
        if self.preset is not None:
            check_choice("preset", self.preset, PRESETS)
            p.update(PRESETS[self.preset].parameters)
        check_int("n_components", p["n_components"], 1)
        check_choice("variant", p["variant"], VARIANTS)
        check_choice("smooth", p["smooth"], ("both", "context"))
        check_choice("solver", p["solver"], ("lanczos", "arpack"))
        check_int("drop_first", p["drop_first"], 0)
        check_bool("psd", p["psd"])
        for name in ("alpha", "shift", "power"):
            p[name] = check_real(name, p[name])
        check_real("smoothing", p["smoothing"], minimum=0)
        check_real("negatives", p["negatives"], above=0)
        check_real("random_negatives", p["random_negatives"], minimum=0)
        check_real("tol", p["tol"], above=0)
        if p["smooth"] == "context" and p["smoothing"] != 1 and p["variant"] == "sens":
            raise ValueError(
                'smooth="context" makes the matrix unsymmetric, which variant="sens" (eigenvalues) cannot use; '
                'use smooth="both", or variant="svd-ns"'
            )
        if (p["psd"] or p["random_negatives"]) and _unsymmetric(p):
            raise ValueError('psd and random_negatives need a symmetric matrix; use smooth="both"')
        return p

    def _matrix(self, counts: Any, p: dict[str, Any], threads: int) -> Any:
        indptr, indices, data, scale = counts.window_arrays(p["window"], p["weight"], threads)
        if not len(indices):
            raise ValueError(
                "no co-occurrences: no line holds two words of the vocabulary within the window; count longer "
                "lines, lower min_count, or use boundary='none'"
            )
        variant = p["variant"]
        if variant in ("counts", "log-counts", "sqrt-counts"):
            values = data.astype(np.float64) / scale
            function = {"counts": np.asarray, "log-counts": np.log1p, "sqrt-counts": np.sqrt}[variant]
            self.n_positive_, self.n_negative_ = len(indices), 0
            return as_csr(indptr, indices, function(values).astype(np.float32))
        alpha, shift = {
            "pmi": (None, 0.0),
            "ppmi": (0.0, 0.0),
            "sppmi": (math.log2(p["negatives"]), -math.log2(p["negatives"])),
            "svd-ns-shifted": (p["alpha"], -p["alpha"]),
        }.get(variant, (p["alpha"], 0.0))
        shift += p["shift"]
        *arrays, n_observed = pmi_arrays(
            indptr,
            indices,
            data,
            alpha=alpha,
            shift=shift,
            smoothing=p["smoothing"],
            smooth=p["smooth"],
            n_threads=threads,
        )
        del data, indices, indptr
        if not len(arrays[1]):
            raise ValueError(f"threshold leaves 0 of {n_observed} entries: no PMI is above {alpha:g} bits; lower alpha")
        self.n_positive_ = int((arrays[2] > shift).sum())
        self.n_negative_ = int((arrays[2] < shift).sum())
        matrix = as_csr(*arrays)
        if p["random_negatives"]:
            matrix = _with_random_negatives(matrix, p["random_negatives"], p["alpha"] + shift, p["random_state"])
        return _dominant(matrix) if p["psd"] else matrix

    def _count_negative(self, matrix: Any, values: np.ndarray, p: dict[str, Any]) -> int:
        """Negative eigenvalues at least as large by modulus as the last one kept (at most 64 are looked for)."""
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

        if p["psd"] or values[-1] <= 0:
            return int((values < 0).sum())
        n = matrix.shape[0]
        product = _product(matrix, resolve_threads(self.n_threads))
        start = np.random.default_rng(0).standard_normal(n)
        many = min(64, n - 1)
        try:
            low = eigsh(
                LinearOperator((n, n), matvec=product, dtype=np.float64),
                k=many,
                which="SA",
                tol=1e-3,
                return_eigenvectors=False,
                v0=start,
            )
        except ArpackNoConvergence as error:
            low = error.eigenvalues
        return int((low <= -abs(values[-1])).sum())

    def word_vectors(self) -> Any:
        """The vectors as `WordVectors`: components times |eigenvalue|^power."""
        from .vectors import WordVectors

        check_fitted(self, "components_")
        power = self._parameters["power"]
        scale = np.abs(self.eigenvalues_) ** power if power else np.ones(len(self.eigenvalues_))
        meta = {
            "model": "SENS",
            "residual": self.residual_,
            "objective": self.objective_,
            "parameters": {
                name: value
                for name, value in self._parameters.items()
                if isinstance(value, (int, float, str, bool, type(None)))
            },
        }
        return WordVectors(self.vocabulary_, (self.components_ * scale).astype(np.float32), self.counts_, meta)


def _unsymmetric(p: dict[str, Any]) -> bool:
    return (
        p["smooth"] == "context" and p["smoothing"] != 1 and p["variant"] not in ("counts", "log-counts", "sqrt-counts")
    )


def _product(matrix: Any, threads: int, transposed: bool = False) -> Any:
    """Products with one column; the block kernel would do the work of sixteen."""
    turned = matrix.T.tocsr() if transposed else matrix
    return lambda x: turned @ np.asarray(x, dtype=matrix.dtype).ravel()


def _factorise(
    matrix: Any, k: int, p: dict[str, Any], threads: int, progress: bool | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Leading eigen- or singular pairs: values falling, vectors, and the largest relative residual."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, svds

    n = matrix.shape[0]
    start = check_random_state(p["random_state"]).standard_normal(n)
    forward = _product(matrix, threads)
    done = 0

    with Progress(progress, "factorising", None, "products") as bar:

        def counted(x: np.ndarray) -> np.ndarray:
            nonlocal done
            done += 1
            bar.update(done)
            return forward(x)

        if _unsymmetric(p):
            backward = _product(matrix, threads, transposed=True)
            operator = LinearOperator((n, n), matvec=counted, rmatvec=backward, dtype=np.float64)
            left, values, right = svds(operator, k=k, v0=start, tol=p["tol"] / 10)
            order = np.argsort(-values, kind="stable")
            left, values, right = left[:, order], values[order], right[order].T
            worst = max(np.linalg.norm(forward(right[:, i]) - values[i] * left[:, i]) for i in range(k))
            return values, left, float(worst / values[0])
        which = "LA" if p["variant"] == "sens" else "LM"
        operator = LinearOperator((n, n), matvec=counted, dtype=np.float64)
        try:
            values, vectors = eigsh(operator, k=k, which=which, v0=start, tol=p["tol"] / 10)
        except ArpackNoConvergence as error:
            raise RuntimeError(
                f"the eigensolver found {len(error.eigenvalues)} of {k} pairs; raise tol or lower n_components"
            ) from None
    order = np.argsort(-values if which == "LA" else -np.abs(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    worst = max(float(np.linalg.norm(forward(vectors[:, i]) - values[i] * vectors[:, i])) for i in range(k))
    return values, vectors, worst / float(np.abs(values).max() or 1.0)


def _dominant(matrix: Any) -> Any:
    """The matrix with each diagonal entry raised to the sum of the moduli of the others in its row."""
    from scipy.sparse import csr_array, diags_array

    diagonal = matrix.diagonal().astype(np.float64)
    off = np.asarray(abs(matrix).sum(axis=1)).ravel() - np.abs(diagonal)
    raised = np.maximum(diagonal, off) - diagonal
    return csr_array(matrix + diags_array(raised.astype(matrix.dtype)))


def _with_random_negatives(matrix: Any, fraction: float, value: float, random_state: Any) -> Any:
    """Set a fraction of the observed off-diagonal pairs' number of unobserved pairs to a value, symmetrically."""
    from scipy.sparse import coo_array, csr_array

    n = matrix.shape[0]
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(matrix.indptr))
    upper = rows < matrix.indices
    observed = rows[upper] * n + matrix.indices[upper]
    wanted = round(fraction * len(observed))
    free = n * (n - 1) // 2 - len(observed)
    if wanted > free:
        raise ValueError(
            f"random_negatives={fraction} asks for {wanted} unobserved pairs, and there are {free}; lower it"
        )
    random = check_random_state(random_state)
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < wanted:
        i, j = random.integers(0, n, (2, 2 * (wanted - len(chosen)) + 16))
        pairs = np.minimum(i, j) * n + np.maximum(i, j)
        pairs = pairs[(i != j) & ~np.isin(pairs, observed, kind="sort") & ~np.isin(pairs, chosen)]
        _, first = np.unique(pairs, return_index=True)
        chosen = np.concatenate([chosen, pairs[np.sort(first)]])
    i, j = np.divmod(chosen[:wanted], n)
    values = np.full(2 * wanted, value, dtype=matrix.dtype)
    drawn = coo_array((values, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n))
    return csr_array(matrix + drawn.tocsr())
