"""What learning may change: masks of fixed entries, tag dictionaries, Dirichlet pseudocounts."""

from __future__ import annotations

import dataclasses
import numbers
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

    def n_free(self, K: int, V: int, order: int, stop: bool) -> dict[str, int]:
        """Free parameters of each letter: of every distribution its free entries less one, 0 where none is free."""
        tails = K**order * (K + stop - 1)
        counts = {"s": K - 1, "t": tails, "e": K * (V - 1)}
        for name, mask in self.fixed.items():
            free = np.isnan(mask).sum(axis=0 if name == "emission" else -1) + (stop if name == "transition" else 0)
            counts[_LETTER[name]] = int(np.maximum(free - 1, 0).sum())
        if order == 2:  # into the second position, which `fixed` does not speak of
            counts["t"] += K * (K + stop - 1)
        return counts


def check_order(value: Any) -> int:
    """Return 1 or 2, or raise ValueError."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and value in (1, 2):
        return int(value)
    raise ValueError(f"order is {value!r}; expected one of 1, 2 (an integer)")


def read_numbers(name: str, value: Any, expected: str) -> np.ndarray:
    """Return `value` as a float64 array (its own memory if it is one), or raise ValueError naming it."""
    try:
        if value is not None and np.asarray(value).dtype.kind in "biufO":
            return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} is {value!r:.80}; expected {expected}")


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
    if fixed is not None and not hasattr(fixed, "items"):
        raise TypeError(f"fixed is {fixed!r:.80}; expected a dict of 'start', 'transition', 'emission' -> arrays")
    for name, value in ({} if fixed is None else fixed).items():
        check_choice("a key of fixed", name, shapes)
        mask = np.array(
            read_numbers(f"fixed[{name!r}]", value, f"an array of numbers of shape {shapes[name]}, NaN where free")
        )
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
    masks = {name: mask for name, mask in masks.items() if not np.all(np.isnan(mask))}
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
        array = read_numbers(f"pseudocount of {name}", one, f"a number or an array of shape {shape}")
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
    """The emission mask (V, K) of a tag dictionary: zeros where it forbids, else what `mask` says."""
    if not hasattr(dictionary, "items"):
        raise TypeError(
            f"dictionary is {dictionary!r:.80}; expected a dict of symbol ids or words -> the states they may have"
        )
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
        forbidden = np.setdiff1d(np.arange(K), _read_states(f"dictionary[{name}]", states, K))
        clash = forbidden[result[symbol, forbidden] > 0]
        if clash.size:
            raise ValueError(
                f"dictionary[{name}] is {states!r:.80}, but fixed keeps the emission probability of state "
                f"{int(clash[0])} there at {result[symbol, clash[0]]:.9g}; leave one of them out"
            )
        result[symbol, forbidden] = 0.0
    settled = ~np.isnan(result).any(axis=0)
    barred = np.flatnonzero(settled & (np.abs(np.nansum(result, axis=0) - 1) > 1e-9))
    if barred.size:
        raise ValueError(f"dictionary leaves no symbol for state {int(barred[0])}; every state needs one at least")
    return result


def _read_states(name: str, states: Any, K: int) -> list[int]:
    try:
        listed = [states] if isinstance(states, (str, bytes)) else list(states)
    except TypeError:
        listed = [states]
    good = all(
        isinstance(k, numbers.Integral) and not isinstance(k, (bool, np.bool_)) and 0 <= int(k) < K for k in listed
    )
    if not listed or not good:
        raise ValueError(f"{name} is {states!r:.80}; expected states among 0..{K - 1}, at least one")
    return [int(k) for k in listed]


def check_allowed(
    ids: np.ndarray, labels: np.ndarray | None, offsets: np.ndarray, constraints: Constraints, stop: bool
) -> None:
    """Raise ValueError where labels are what `fixed` or a dictionary gives probability 0."""
    if labels is None:
        return
    lengths, fixed = np.diff(offsets), constraints.fixed
    place = np.arange(ids.size) - np.repeat(offsets[:-1], lengths)

    def refuse(where: np.ndarray, n: int, zero: np.ndarray, what: str) -> None:
        """Of the last `n` labels at each of the positions `where`, if all are known."""
        groups = np.stack([labels[where - back] for back in range(n - 1, -1, -1)])
        known = np.all(groups >= 0, axis=0)
        wrong = np.flatnonzero(zero[tuple(groups[:, known])])
        if wrong.size:
            group = groups[:, known][:, wrong[0]].tolist()
            said = f"the label {group[0]}" if n == 1 else f"the labels {group} up to it"
            raise ValueError(f"position {int(where[known][wrong[0]])} of X has {said}, but {what}")

    emission, start, transition = fixed.get("emission"), fixed.get("start"), fixed.get("transition")
    if emission is not None:
        both = (labels >= 0) & (ids >= 0)
        wrong = np.flatnonzero(emission[ids[both], labels[both]] == 0.0)
        if wrong.size:
            where = int(np.flatnonzero(both)[wrong[0]])
            raise ValueError(
                f"position {where} of X has the symbol {int(ids[where])} and the label {int(labels[where])}, which "
                "dictionary or fixed does not allow"
            )
    if start is not None:
        refuse(np.flatnonzero(place == 0), 1, start == 0.0, "fixed does not allow a sequence to start with it")
    if transition is not None:
        order = transition.ndim - 1
        refuse(np.flatnonzero(place >= order), order + 1, transition == 0.0, "fixed does not allow this transition")
        if stop:
            last = offsets[1:][lengths >= order] - 1
            full = ~np.isnan(transition).any(axis=-1)
            refuse(
                last, order, full, "fixed does not allow a sequence to stop there: its row sums to 1 without stopping"
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


def apply_masks(parameters: Parameters, constraints: Constraints, stop: bool, frozen: str = "") -> Parameters:
    """Put fixed entries into starting parameters and let the free ones share the rest.

    Arrays of the letters `frozen` are not touched: ValueError where they are not what the masks ask for.
    """
    for name, mask in constraints.fixed.items():
        axis = 0 if name == "emission" else -1
        array, free = getattr(parameters, name), np.isnan(mask)
        if _LETTER[name] in frozen:
            _check_frozen(name, array, mask)
            continue
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


def _check_frozen(name: str, array: np.ndarray, mask: np.ndarray) -> None:
    wrong = np.argwhere(np.where(mask == 0.0, array != 0.0, np.abs(array - mask) > 1e-9))
    if wrong.size:
        at = tuple(wrong[0].tolist())
        shown = list(at[::-1] if name == "emission" else at)
        raise ValueError(
            f"the {name} probability at {shown} is {float(array[at]):.9g}, but dictionary or fixed asks for "
            f"{float(mask[at]):.9g}; it is neither drawn nor trained: put {_LETTER[name]!r} into params or init_params, "
            "or set an array that agrees"
        )


_LETTER = {name: letter for letter, name in LETTERS.items()}
