"""What learning may change: masks of fixed entries, tag dictionaries, Dirichlet pseudocounts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .._validation import check_choice, check_int, check_real
from ..vocabulary import Vocabulary
from .parameters import Parameters

LETTERS = {"s": "start", "t": "transition", "e": "emission"}


@dataclasses.dataclass
class Constraints:
    """What learning may change, and the Dirichlet prior.

    Attributes
    ----------
    params : str
        Letters of what is trained: s start, t transitions, e emissions.
    pseudocount : dict of str to float or ndarray
        "start", "transition", "emission": added to the expected counts of free entries.
    fixed : dict of str to ndarray
        "start" (K,), "transition" (K, K) or (K, K, K), "emission" (V, K): NaN where free, else the value kept.
    """

    params: str
    pseudocount: dict[str, Any]
    fixed: dict[str, np.ndarray]


def read_constraints(
    K: int,
    V: int,
    order: int,
    params: str,
    pseudocount: Any,
    fixed: Any = None,
    dictionary: Any = None,
    vocabulary: Vocabulary | None = None,
) -> Constraints:
    """Constraints from the arguments of `HMM` and `HMM.fit`; ValueError for those that no model can meet."""
    shapes: dict[str, tuple[int, ...]] = {"start": (K,), "transition": (K,) * (order + 1), "emission": (K, V)}
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
        mask[np.isnan(mask) & (kept >= 1 - 1e-12)[..., None]] = 0.0  # nothing is left for them
        masks[name] = mask.T if name == "emission" else mask
    if dictionary is not None:
        masks["emission"] = dictionary_mask(dictionary, K, V, vocabulary, masks.get("emission"))
    return Constraints(params, _pseudocounts(pseudocount, shapes), masks)


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


def dictionary_mask(
    dictionary: Any, K: int, V: int, vocabulary: Vocabulary | None, mask: np.ndarray | None
) -> np.ndarray:
    result = np.full((V, K), np.nan) if mask is None else mask.copy()
    for symbol, states in dictionary.items():
        name = repr(symbol)
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
            raise ValueError(f"dictionary[{name}] is {states!r}; expected states among 0..{K - 1}, at least one")
        forbidden = np.setdiff1d(np.arange(K), allowed)
        result[symbol, forbidden] = 0.0
    barred = np.flatnonzero(np.all(result == 0.0, axis=0))
    if barred.size:
        raise ValueError(f"dictionary leaves no symbol for state {int(barred[0])}; every state needs one at least")
    return result


def check_allowed(ids: np.ndarray, labels: np.ndarray | None, constraints: Constraints) -> None:
    """Raise ValueError where a label is one that its symbol may not have."""
    mask = constraints.fixed.get("emission")
    if labels is None or mask is None:
        return
    both = (labels >= 0) & (ids >= 0)
    wrong = np.flatnonzero(mask[ids[both], labels[both]] == 0.0)
    if wrong.size:
        where = int(np.flatnonzero(both)[wrong[0]])
        raise ValueError(
            f"position {where} of X has the symbol {int(ids[where])} and the label {int(labels[where])}, which dictionary "
            "or fixed does not allow"
        )


def normalize(
    counts: np.ndarray,
    pseudocount: Any,
    fixed: np.ndarray | None,
    old: np.ndarray | None,
    axis: int = -1,
) -> tuple[np.ndarray, int]:
    """Distributions along an axis from counts, and how many had nothing to go by.

    Free entries share what fixed ones leave: (1 - fixed) (c + pseudocount) / sum(c + pseudocount), the maximiser of
    the expected log-likelihood plus pseudocount * log parameter. A distribution without counts stays as it was, or
    is flat over its free entries where there is no `old`.
    """
    values = counts + pseudocount
    room: Any = 1.0
    if fixed is not None:
        free = np.isnan(fixed)
        values = np.where(free, values, 0.0)
        room = 1.0 - np.sum(np.where(free, 0.0, fixed), axis=axis, keepdims=True)
        room = np.maximum(room, 0.0)
    total = values.sum(axis=axis, keepdims=True)
    empty = ~(total > 0)
    if not np.any(empty):
        values = values / total * room  # in this order: 1 / total overflows where counts are subnormal
    else:
        flat = np.ones_like(values) if fixed is None else free.astype(np.float64)
        flat /= np.maximum(flat.sum(axis=axis, keepdims=True), 1.0)
        spare = room * flat if old is None else old
        values = np.where(empty, spare, values / np.where(empty, 1.0, total) * room)
    if fixed is not None:
        values = np.where(free, values, fixed)
        empty &= free.any(axis=axis, keepdims=True)
    return values, int(np.count_nonzero(empty))


def apply_masks(parameters: Parameters, constraints: Constraints, stop: bool) -> Parameters:
    """Put fixed entries into starting parameters and let the free ones share the rest."""
    for name, mask in constraints.fixed.items():
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
        values, _ = normalize(np.where(free, array, 0.0), 0.0, mask, None, axis)
        setattr(parameters, name, values)
    return parameters


_LETTER = {name: letter for letter, name in LETTERS.items()}
