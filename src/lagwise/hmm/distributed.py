"""EM over parts of a text that lie on different machines: map the E step, merge the counts, one M step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._validation import check_fitted, check_int

if TYPE_CHECKING:
    from .expectations import Counts
    from .model import HMM


def part_counts(model: HMM, part: Any) -> Counts:
    """Expected counts of one part; `part` may be a function without arguments that reads it where it lies."""
    return model.expected_counts(part() if callable(part) else part)


def merge_counts(counts: Iterable[Counts]) -> Counts:
    """The sum of the counts of disjoint parts, in the order given."""
    return sum(counts)  # type: ignore[return-value]


def em_step(model: HMM, parts: Iterable[Any], client: Any = None) -> Counts:
    """One exact step of soft EM over all `parts`; `model` is changed in place.

    The counts are added pairwise in the order of the parts, so the numbers do not depend on where, when or by how many
    workers a part was worked on.

    Parameters
    ----------
    model : HMM
        Fitted, or with its arrays assigned. Each worker receives a copy of it.
    parts : iterable
        What `HMM.fit` takes as X, of every part, or functions that return it: those are called on the workers, so that
        the text itself need not travel. Words need a model that has a vocabulary already.
    client : dask.distributed.Client, optional
        Without it, the parts are worked on here, one after the other.

    Returns
    -------
    Counts
        Of all parts, from before the M step: `log_likelihood` is that of the parameters that the step began with.

    Raises
    ------
    ValueError
        If there are no parts.
    """
    check_fitted(model, "startprob_")
    parts = list(parts)
    if not parts:
        raise ValueError("there are no parts; em_step takes at least one")
    if client is None:
        sums = [part_counts(model, part) for part in parts]
        while len(sums) > 1:
            sums = [merge_counts(sums[i : i + 2]) for i in range(0, len(sums), 2)]
        total = sums[0]
    else:
        sent = client.scatter(model, broadcast=True, hash=False)
        futures = [client.submit(part_counts, sent, part, pure=False) for part in parts]
        while len(futures) > 1:
            futures = [client.submit(merge_counts, futures[i : i + 2], pure=False) for i in range(0, len(futures), 2)]
        total = futures[0].result()
    model.partial_fit(counts=total)
    return total


def fit_parts(model: HMM, parts: Iterable[Any], client: Any = None, n_iter: int = 10, tol: float = 1e-4) -> HMM:
    """Soft EM over parts until the objective gains less than `tol` nats a symbol, or for `n_iter` steps.

    Parameters
    ----------
    model, parts, client
        As for `em_step`.

    Returns
    -------
    HMM
        `model`, with `history_` (log-likelihood plus log-prior before each step, nats), `n_iter_` and `converged_`.
    """
    check_int("n_iter", n_iter, 1)
    parts = list(parts)
    model.history_, model.n_iter_ = [], 0
    for _ in range(n_iter):
        total = em_step(model, parts, client)
        history = model.history_
        if len(history) > 1 and (history[-1] - history[-2]) / max(total.n_symbols, 1) < tol:
            model.converged_ = True
            break
    return model
