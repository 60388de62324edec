"""Recursions over long sequences: forward in slices that keep their first state, and back with rows made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Slices = list[tuple[int, int]]
Forward = Callable[[int, int, Any, bool], Any]


def slices_of(length: int, step: int) -> Slices:
    """Times 0 .. length - 1 in slices of `step`."""
    return [(t, min(t + step, length)) for t in range(0, length, step)]


def go_forward(slices: Slices, forward: Forward, state: Any) -> list[Any]:
    """The state before each slice, and after the last.

    Parameters
    ----------
    forward : callable
        ``forward(t0, t1, state, again)`` makes the rows of times t0 .. t1 - 1, where only the last slice's need to
        stay, and returns the state after them. `again` says that `go_back` wants the rows once more.
    """
    states = [state]
    for t0, t1 in slices:
        states.append(forward(t0, t1, states[-1], False))
    return states


def go_back(slices: Slices, states: list[Any], forward: Forward, backward: Callable[[int, int, Any], None]) -> None:
    """Call ``backward(t0, t1, state before)`` from the last slice to the first, each with its forward rows in place."""
    for number in range(len(slices) - 1, -1, -1):
        t0, t1 = slices[number]
        if number < len(slices) - 1:
            forward(t0, t1, states[number], True)
        backward(t0, t1, states[number])
