"""Progress of long work: a bar on a terminal, log lines elsewhere, nothing unless asked."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

_LOG_EVERY = 5.0  # seconds between log lines where no terminal shows a bar


class Progress:
    """Report absolute progress of one piece of work.

    Parameters
    ----------
    enabled : bool or None
        True shows progress on standard error: a bar with rate and remaining time on a terminal, a plain line every
        few seconds elsewhere. False and None (a library call) show nothing.
    description, unit : str
        What is being done, and in which unit it is measured.
    total : float or None
        The amount of work, where it is known.
    """

    def __init__(self, enabled: bool | None, description: str, total: float | None = None, unit: str = "items"):
        self.enabled = bool(enabled)
        self.description, self.total, self.unit = description, total, unit
        self._bar: Any = None
        self._task: Any = None
        self._started = self._last = time.monotonic()
        self._note = ""
        self._done: float | None = None  # nothing was reported

    def __enter__(self) -> Progress:
        self._started = self._last = time.monotonic()
        if self.enabled and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.description, total=self.total, text="")
        return self

    def update(self, done: float, note: str = "") -> None:
        """Say how much is done in all, in the unit of the total."""
        self._done, self._note = done, note
        if not self.enabled:
            return
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, text=self._line(now))
        elif now - self._last >= _LOG_EVERY:
            self._last = now
            _say(f"{self.description}: {self._line(now)}{self._remaining(now)}")

    def _line(self, now: float) -> str:
        done = self._done or 0.0
        return self._amount(now, _short(done) + (f"/{_short(self.total)}" if self.total else ""))

    def _amount(self, now: float, amount: str) -> str:
        rate = (self._done or 0.0) / max(now - self._started, 1e-9)
        return f"{amount} {self.unit}, {_short(rate)}/s" + (f", {self._note}" if self._note else "")

    def _last_line(self, now: float) -> str:
        """What was done, which may be less than the total: EM stops early. Only bytes of input are all read."""
        if self.unit == "B" and self.total:
            self._done = max(self._done or 0.0, self.total)
        seconds = f"{now - self._started:.1f} s"
        return seconds if self._done is None else f"{self._amount(now, _short(self._done))}, {seconds}"

    def _remaining(self, now: float) -> str:
        if not self.total or not self._done:
            return ""
        left = (now - self._started) * max(self.total - self._done, 0) / self._done
        return f", {left:.0f} s left"

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self.enabled and kind is None:
            _say(f"{self.description}: {self._last_line(time.monotonic())}")


def _say(line: str) -> None:
    """Print a line on standard error; work goes on where nobody can read it."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def _short(number: float | None) -> str:
    if number is None:
        return "?"
    for suffix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.1f}{suffix}"
    return f"{number:.0f}"
