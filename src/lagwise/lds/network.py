"""The steady-state filter as the weights of an Elman network: a start for training a recurrent language model."""

from __future__ import annotations

import numpy as np

from .readout import Readout

TUNING_BLOCK = 512  # tokens whose scores of every word are held at a time


def elman_weights(readout: Readout, output: str = "linear", scale: float = 1.0) -> dict[str, np.ndarray]:
    """Weights of ``x_t = W_rec x_{t-1} + W_in[token] + b_hidden``, ``y_t = W_out x_t + b_out``: see `LDS.to_rnn`."""
    space, parameters, state = readout.space, readout.parameters, readout.state
    dtype = space.dtype
    bias = -(space.tall.gram((space.s * space.mu_0)[:, None].astype(dtype), readout.observation.N) @ state.L.T)[0]
    ahead = space.tall.mix(parameters.C, parameters.A)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = space.q if output == "linear" else scale * space.s
        weights = {
            "W_in": readout.type_vectors(),
            "W_rec": state.H,
            "b_hidden": bias,
            "unknown": -bias,
            "W_out": rows[:, None] * ahead,
            "b_out": space.mu if output == "linear" else np.log(space.mu),
        }
        weights = {name: np.array(values, dtype=dtype, order="C") for name, values in weights.items()}
    if not all(np.isfinite(values).all() for values in weights.values()):
        raise ValueError(f"scale={scale!r} takes the weights out of the range of {dtype}; use a smaller scale")
    return weights


def tuned_scale(readout: Readout, ids: np.ndarray, offsets: np.ndarray, n_threads: int | None = None) -> float:
    """The scale of softmax scores that makes a text likeliest; the log-likelihood is concave in it.

    Parameters
    ----------
    ids : ndarray of int, shape (T,)
        Tokens of held-out text; those the model does not know (negative) are not predicted.
    """
    from scipy.optimize import minimize_scalar

    space, parameters = readout.space, readout.parameters
    known = np.flatnonzero(ids >= 0)
    if len(known) == 0:
        raise ValueError("the text holds no word of the model; give held-out text to tune the scale on")
    ahead = readout.states(ids, offsets, "predicted", n_threads=n_threads)  # A xhat_{t-1}
    emission, base = (space.s[:, None] * parameters.C).astype(np.float64), np.log(space.mu)

    def loss(scale: float) -> float:
        total = 0.0
        for first in range(0, len(known), TUNING_BLOCK):
            at = known[first : first + TUNING_BLOCK]
            logits = base + scale * (ahead[at] @ emission.T)
            top = logits.max(axis=1)
            total += float(np.sum(top + np.log(np.exp(logits - top[:, None]).sum(axis=1))))
            total -= float(logits[np.arange(len(at)), ids[at]].sum())
        return total / len(known)

    return float(minimize_scalar(loss, bounds=(0.0, 4.0), method="bounded", options={"xatol": 1e-3}).x)


def check_words(readout: Readout) -> None:
    """ValueError where the model is of a numeric series."""
    if not hasattr(readout.space, "mu_0"):
        raise ValueError("to_rnn makes a network over words; this is a model of a numeric series")
