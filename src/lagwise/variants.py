"""From counts to the matrix of a variant, and from the matrix to its leading components."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._validation import check_random_state
from .negatives import add_random_negatives, dominate_diagonal
from .pmi import Counts, PMIMatrix, pmi_matrix, row_sums

VARIANTS = ("sens", "svd-ns", "svd-ns-shifted", "pmi", "ppmi", "sppmi", "counts", "log-counts", "sqrt-counts")


def build_matrix(table: Counts, settings: dict[str, Any], n_threads: int) -> PMIMatrix:
    """The matrix that a variant factorises; uses the counts up."""
    from scipy.sparse import csr_array

    variant = settings["variant"]
    if variant.endswith("counts"):
        values = table.data.astype(np.float32)
        if table.scale != 1:
            values /= np.float32(table.scale)
        if variant != "counts":
            (np.log1p if variant == "log-counts" else np.sqrt)(values, out=values)
        sums = row_sums(table, n_threads) / table.scale
        indptr = table.indptr.astype(np.int32) if len(values) < 2**31 else table.indptr
        matrix = csr_array((values, table.indices, indptr), shape=(table.n_words,) * 2)
        result = PMIMatrix(matrix, len(values), len(values), 0, None, sums)
    else:
        alpha, shift = settings["alpha"], settings["shift"]
        if variant == "pmi":
            alpha = None
        elif variant == "ppmi":
            alpha = 0.0
        elif variant == "sppmi":
            alpha = math.log2(settings["negatives"])
            shift = -alpha
        elif variant == "svd-ns-shifted":
            if not isinstance(alpha, float):
                raise ValueError(
                    f"svd-ns-shifted subtracts alpha from every kept entry; alpha is {alpha!r}, expected bits"
                )
            shift = -alpha
        pattern = (table.indptr, table.indices.copy()) if settings["random_negatives"] else None
        n_entries = len(table.indices)
        result = pmi_matrix(table, alpha, shift, settings["smoothing"], settings["smooth"], n_threads=n_threads)
        if result.matrix.nnz == 0:
            raise ValueError(
                f"threshold leaves 0 of {n_entries} entries: no pair has PMI above "
                f"{result.alpha:g} bits; lower alpha (or negatives)"
            )
        if pattern is not None:
            rng = check_random_state(settings["random_state"])
            value = result.alpha if result.alpha is not None else 0.0
            result.matrix = add_random_negatives(result.matrix, *pattern, settings["random_negatives"], value, rng)
    if settings["psd"]:
        result.matrix = dominate_diagonal(result.matrix)
    return result


def row_weights(row_sums: np.ndarray, exponent: float) -> np.ndarray | None:
    """(row sum / median)^exponent, float32, 1 for words that occur with no other; None for exponent 0."""
    if exponent == 0:
        return None
    present = row_sums > 0
    ratios = np.where(present, row_sums, 1) / np.median(row_sums[present])
    return np.where(present, ratios**exponent, 1).astype(np.float32)


def factorise(
    built: PMIMatrix, settings: dict[str, Any], n_threads: int, callback: Callable[[int, int, float], Any]
) -> Any:
    """Leading eigenpairs (or singular triplets) of the matrix of a variant."""
    from .linalg.lanczos import block_krylov, eigsh
    from .linalg.svd import golub_kahan
    from .operators import SparseMinusLowRank

    weights = row_weights(built.row_sums, settings["row_weight"])
    operator = SparseMinusLowRank(built.matrix, row_scale=weights, col_scale=weights, n_threads=n_threads)
    d, tol, seed = settings["n_components"] + settings["drop_first"], settings["tol"], settings["random_state"]
    which = "LA" if settings["variant"] == "sens" else "LM"
    if settings["smooth"] == "context" and settings["smoothing"] != 1:
        return golub_kahan(operator, d, tol=tol, random_state=seed, n_threads=n_threads, callback=callback)
    if settings["solver"] == "arpack":
        return _arpack(operator, d, which, tol, seed)
    if settings["solver"] == "krylov":
        found = block_krylov(operator, d, which=which, random_state=seed, n_threads=n_threads)
    else:
        found = eigsh(operator, d, which, tol=tol, random_state=seed, n_threads=n_threads, callback=callback)
    return found


def _arpack(operator: Any, d: int, which: str, tol: float, seed: Any) -> Any:
    from scipy.sparse.linalg import LinearOperator, eigsh

    from .linalg.lanczos import EigenResult
    from .linalg.panels import fix_signs

    n = operator.shape[0]
    if d >= n:
        raise ValueError(f"solver='arpack' finds at most {n - 1} of {n} eigenvalues; use solver='lanczos'")
    start = check_random_state(seed).standard_normal(n).astype(operator.dtype)
    products = 0

    def product(x: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        return operator.matvec(x)

    linear = LinearOperator(operator.shape, matvec=product, dtype=operator.dtype)
    values, vectors = eigsh(linear, k=d, which=which, tol=tol, v0=start)
    low = eigsh(linear, k=min(16, n - 1), which="SA", tol=1e-2, v0=start, return_eigenvectors=False)
    order = np.argsort(-(np.abs(values) if which == "LM" else values), kind="stable")
    values, vectors = values[order].astype(np.float64), np.ascontiguousarray(vectors[:, order])
    vectors = vectors * fix_signs(vectors).astype(vectors.dtype)
    residuals = np.linalg.norm(operator.matmat(vectors) - vectors * values.astype(vectors.dtype), axis=0)
    residual = float(residuals.max()) / (float(np.abs(values).max()) or 1.0)
    return EigenResult(
        values,
        vectors,
        residuals.astype(np.float64),
        residual,
        products,
        0,
        residual <= max(tol, 1e-6),
        low[low < 0].astype(np.float64),
    )
