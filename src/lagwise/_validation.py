"""Checks of arguments: each error says what came, what was expected and what to do."""

from __future__ import annotations

import difflib
import math
import numbers
import os
from collections.abc import Iterable
from typing import Any

import numpy as np


class NotFittedError(ValueError, AttributeError):
    """A learned value was asked for before ``fit``."""


def check_int(name: str, value: Any, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return `value` as an int within [minimum, maximum], or raise ValueError naming it."""
    bounds = " and ".join(
        part
        for part in (
            f"at least {minimum}" if minimum is not None else "",
            f"at most {maximum}" if maximum is not None else "",
        )
        if part
    )
    expected = f"an integer {bounds}".strip()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} is {value!r}; expected {expected}")
    number = int(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise ValueError(f"{name} is {value}; expected {expected}")
    return number


def check_real(
    name: str, value: Any, minimum: float | None = None, maximum: float | None = None, above: float | None = None
) -> float:
    """Return `value` as a finite float within the bounds, or raise ValueError naming it."""
    bounds = [
        f"at least {minimum}" if minimum is not None else "",
        f"above {above}" if above is not None else "",
        f"at most {maximum}" if maximum is not None else "",
    ]
    expected = "a finite number " + " and ".join(part for part in bounds if part)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}; expected {expected.strip()}")
    number = float(value)
    if (
        (minimum is not None and number < minimum)
        or (maximum is not None and number > maximum)
        or (above is not None and number <= above)
    ):
        raise ValueError(f"{name} is {value!r}; expected {expected.strip()}")
    return number


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> Any:
    """Return `value` if it is one of `choices`, or raise ValueError listing them and the nearest spelling."""
    listed = list(choices)
    if any(value is choice or (type(value) is type(choice) and value == choice) for choice in listed):
        return value
    near = difflib.get_close_matches(str(value), [str(choice) for choice in listed], n=1)
    hint = f"; did you mean {near[0]!r}?" if near and near[0] != str(value) else ""  # '1' for 1 is spelt alike
    raise ValueError(f"{name} is {value!r}; expected one of {', '.join(repr(c) for c in listed)}{hint}")


def check_bool(name: str, value: Any) -> bool:
    """Return `value` if it is a truth value, or raise ValueError naming it."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} is {value!r}; expected True or False")
    return bool(value)


def check_float(name: str, value: Any) -> np.dtype:
    """Return `value` as the dtype float32 or float64, or raise ValueError naming it."""
    try:
        dtype = np.dtype(value)
    except TypeError:
        dtype = np.dtype(np.void)
    if value is None or dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} is {value!r}; expected 'float32' or 'float64'")
    return dtype


def check_random_state(random_state: Any) -> np.random.Generator:
    """Return a Generator for an int seed, a Generator, a RandomState or None.

    An int `s` gives ``numpy.random.default_rng(s)``; a RandomState seeds a Generator from its next draw, so two
    RandomStates in the same state agree. The global NumPy state is never touched.
    """
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(0, 2**31 - 1)))
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        f"random_state is {random_state!r}; expected a non-negative integer, a numpy Generator or RandomState, or None"
    )


def check_memory(name: str, value: Any, n_bytes: int) -> None:
    """Raise ValueError if what `name` = `value` asks for, `n_bytes`, is more than the machine's memory."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if n_bytes > available:
        raise ValueError(
            f"{name}={value} needs {n_bytes / 1e9:.3g} GB for the parameters alone, this machine has "
            f"{available / 1e9:.3g} GB; choose a smaller {name}"
        )


def check_fitted(estimator: Any, attribute: str) -> None:
    """Raise NotFittedError unless `estimator` has the learned `attribute`."""
    if not hasattr(estimator, attribute):
        kind = type(estimator).__name__
        raise NotFittedError(f"this {kind} is not fitted; call {kind}.fit first")


def unknown_word_message(word: str, words: Iterable[str]) -> str:
    """Say that `word` is not in the vocabulary and name close spellings."""
    near = difflib.get_close_matches(word, words, n=3)
    hint = f"; close spellings: {', '.join(near)}" if near else ""
    return f"{word!r} is not in the vocabulary{hint}"
