"""The EM loop: history, stopping, the best iterate, callbacks, checkpoints."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._files import load_tensors, save_tensors
from .asos import expectations, horizon_error, maximise
from .parameters import Parameters, observe

HORIZON_LIMIT = 1e-3
FALL = {"float64": 1e-9, "float32": 1e-5}  # of |ll - i.i.d.|: a smaller fall is rounding


@dataclasses.dataclass
class Iterate:
    """One set of parameters, with what its E step said of it."""

    parameters: Parameters
    S_xx: np.ndarray
    number: int
    value: float


@dataclasses.dataclass
class Learning:
    """State of a run of EM; everything a checkpoint must hold.

    Attributes
    ----------
    current : Parameters
        The next parameters to evaluate.
    best : Iterate or None
        Highest likelihood, or highest callback value with ``keep="callback"``.
    history : list of float
        Nats a token above the i.i.d. model, one for each set of parameters evaluated.
    """

    current: Parameters
    history: list[float] = dataclasses.field(default_factory=list)
    best: Iterate | None = None
    converged: bool = False
    fell: bool = False
    repairs: dict[str, int] = dataclasses.field(default_factory=lambda: {"lead": 0, "radius": 0, "floor": 0})
    callback_values: list[float] = dataclasses.field(default_factory=list)
    guess: np.ndarray | None = None
    horizon_error: float = 0.0
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


def run_em(
    learning: Learning,
    covariances: Any,
    r: int,
    n_iter: int,
    tol: float,
    *,
    update_Q: bool = True,
    keep_products: bool = True,
    keep: str = "likelihood",
    observer: Callable[[int, Iterate], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    fingerprint: dict[str, Any] | None = None,
    report: Callable[[int, float], None] | None = None,
) -> None:
    """Alternate E and M steps until `n_iter` M steps are done, the gain is below `tol`, or the likelihood falls.

    `learning` is kept up to date at every moment, so that an interrupt leaves the best iterate in it. Each value in
    the history belongs to parameters *before* their M step; so there is one E step more than M steps. A run that ends
    in order says how much its horizon mattered (`asos.horizon_error`) and warns above 1e-3.
    """
    fall = FALL[np.dtype(covariances.dtype).name]
    while not learning.converged and not learning.fell:
        number = len(learning.history)
        try:
            expected = expectations(learning.current, covariances, r, keep_products=keep_products, start=learning.guess)
            value = expected.log_likelihood - observe_baseline(learning.current, covariances)
            if not np.isfinite(value):
                raise np.linalg.LinAlgError("the log-likelihood is not finite")
        except np.linalg.LinAlgError as error:
            if learning.best is None:
                raise ValueError(f"the starting point has no steady state ({error}); use another init") from None
            learning.fell = True
            warnings.warn(
                f"EM stopped after {number} iterations: {error}; the best iterate, number "
                f"{learning.best.number}, is kept",
                RuntimeWarning,
                stacklevel=3,
            )
            break
        iterate = Iterate(learning.current, expected.S_xx, number, value)
        previous = learning.history[-1] if learning.history else -np.inf
        learning.history.append(value)
        learning.guess = expected.moments.X[r]
        stop = _judge(learning, iterate, keep, observer)
        if report:
            report(number, value)
        gain = value - previous
        if gain < -fall * max(abs(value), abs(previous), 1e-3) and number:
            learning.fell = True
            warnings.warn(
                f"the log-likelihood fell by {-gain:.3g} nats a token at iteration {number}; the best iterate, "
                f"number {_best(learning).number}, is kept",
                RuntimeWarning,
                stacklevel=3,
            )
            break
        if number and gain <= tol * max(abs(value), np.finfo(np.float64).tiny):
            learning.converged = True
        if stop or learning.converged or number >= n_iter:
            learning.horizon_error = horizon_error(expected, learning.current, covariances)
            break
        parameters, repairs = maximise(expected, learning.current, covariances, update_Q)
        learning.current = parameters
        for name, times in repairs.items():
            learning.repairs[name] += times
        if checkpoint is not None:
            save_checkpoint(checkpoint, learning, fingerprint or {})
    if learning.horizon_error > HORIZON_LIMIT and len(learning.history) > 1:
        warnings.warn(
            f"the lags end too early: leaving out the last of {r} changes E[xhat xhat'] by "
            f"{learning.horizon_error:.2g} (relative); em_lags={r + 3}, of counts with max_lag={r + 3}, comes nearer",
            RuntimeWarning,
            stacklevel=3,
        )


def observe_baseline(parameters: Parameters, covariances: Any) -> float:
    """Nats a token of the model without a state, under the same kind of noise."""
    if parameters.noise == "full" or parameters.noise == "spherical":
        return -0.5 * covariances.n_dimensions * (1 + np.log(2 * np.pi))
    return observe(parameters, covariances).baseline


def _best(learning: Learning) -> Iterate:
    assert learning.best is not None
    return learning.best


def _judge(learning: Learning, iterate: Iterate, keep: str, observer: Callable[[int, Iterate], Any] | None) -> bool:
    """Update the best iterate; ask the callback; returns whether it wants to stop."""
    answer = observer(iterate.number, iterate) if observer else None
    number = None if answer is None or isinstance(answer, (bool, np.bool_)) else answer
    if number is not None:
        if not isinstance(number, numbers.Real) or math.isnan(number):
            raise ValueError(
                f"the callback returned {number!r:.80} at iteration {iterate.number}; expected a number, True or None"
            )
        number = float(number)
        learning.callback_values.append(number)
    if keep == "callback":
        if number is None and answer is None:
            raise ValueError(
                'keep="callback" needs a callback that returns a number at every iteration; it returned None'
            )
        best_so_far = max(learning.callback_values[:-1], default=-np.inf)
        if number is not None and (learning.best is None or number > best_so_far):
            learning.best = iterate
    elif learning.best is None or iterate.value >= learning.best.value:
        learning.best = iterate
    if learning.best is None:
        learning.best = iterate
    return answer is True or (isinstance(answer, np.bool_) and bool(answer))


# --- checkpoints ----------------------------------------------------------------------------------------------------

_FIELDS = ("A", "C", "Q", "M", "scale")


def _pack(prefix: str, parameters: Parameters) -> dict[str, np.ndarray]:
    return {
        f"{prefix}{name}": np.asarray(getattr(parameters, name))
        for name in _FIELDS
        if getattr(parameters, name) is not None
    }


def _unpack(prefix: str, arrays: dict[str, np.ndarray], noise: str) -> Parameters:
    fields = {name: np.array(arrays[prefix + name]) for name in _FIELDS if prefix + name in arrays}
    if noise == "spherical":
        fields["scale"] = fields["scale"].reshape(())
    return Parameters(**fields, noise=noise)


def save_checkpoint(path: str | os.PathLike[str], learning: Learning, fingerprint: dict[str, Any]) -> None:
    """Write the run so that `load_checkpoint` can take it up again with the same outcome, bit for bit."""
    best = _best(learning)
    arrays = {
        **_pack("current.", learning.current),
        **_pack("best.", best.parameters),
        "best.S_xx": best.S_xx,
        "guess": np.asarray(learning.guess),
        "history": np.array(learning.history),
        "callback_values": np.array(learning.callback_values, dtype=np.float64),
    }
    save_tensors(
        path,
        "lds-checkpoint",
        arrays,
        {
            "noise": learning.current.noise,
            "best_number": best.number,
            "best_value": best.value,
            "repairs": learning.repairs,
            "notes": learning.notes,
            "fingerprint": fingerprint,
        },
        overwrite=True,
    )


def load_checkpoint(path: str | os.PathLike[str], fingerprint: dict[str, Any]) -> Learning:
    """Read a run; ValueError where it belongs to other counts or options."""
    _, arrays, meta = load_tensors(path, "lds-checkpoint")
    for name, value in fingerprint.items():
        if meta["fingerprint"].get(name) != value:
            raise ValueError(
                f"the checkpoint {os.fspath(path)} was made with {name}={meta['fingerprint'].get(name)!r}, "
                f"this fit has {value!r}; use the same options and counts, or another file"
            )
    noise = meta["noise"]
    best = Iterate(
        _unpack("best.", arrays, noise), np.array(arrays["best.S_xx"]), meta["best_number"], meta["best_value"]
    )
    return Learning(
        _unpack("current.", arrays, noise),
        [float(x) for x in arrays["history"]],
        best,
        repairs=meta["repairs"],
        callback_values=[float(x) for x in arrays["callback_values"]],
        guess=np.array(arrays["guess"]),
        notes=meta["notes"],
    )
