"""A fitted `LDS` as named arrays and JSON values, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_choice
from ..vocabulary import Vocabulary
from .learner import UNKNOWN
from .parameters import NOISE_KINDS, Parameters
from .readout import Readout
from .series import SeriesSpace
from .statistics import WordSpace

if TYPE_CHECKING:
    from .model import LDS

_FACTS = (
    "n_iter_",
    "best_iter_",
    "converged_",
    "fell_",
    "interrupted_",
    "noise_floor_",
    "start_",
    "start_likelihoods_",
    "repairs_",
    "boundary_",
    "horizon_error_",
)


def to_tensors(model: LDS) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    check_choice("unknown", model.unknown, UNKNOWN)
    space = model._readout.space
    arrays = {
        "A": model.A_,
        "C": model.C_,
        "Q": model.Q_,
        "M": model.M_,
        "S_xx": model.state_covariance_,
        "history": model.history_,
        "hankel_values": model.hankel_values_,
        "callback_values": np.asarray(model.callback_values_, dtype=np.float64),
    }
    if model.noise_scale_ is not None:
        arrays["scale"] = np.asarray(model.noise_scale_)
    params = model.get_params(deep=False)
    params["init"] = params["init"] if isinstance(params["init"], str) else "best"
    params["random_state"] = params["random_state"] if isinstance(params["random_state"], int) else None
    params["dtype"] = np.dtype(model.dtype).name
    params["n_threads"] = None
    meta: dict[str, Any] = {"params": params, "noise": model._readout.parameters.noise}
    for name in _FACTS:
        meta[name] = getattr(model, name)
    if model.vocabulary_ is None:
        arrays.update(mean=space.mean, factor=space.factor)
    else:
        words, meta["vocabulary"] = model.vocabulary_.to_tensors()
        arrays.update(words, mu=space.mu, mu_0=space.mu_0)
    return arrays, meta


def from_tensors(model: LDS, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Make an unfitted model, which has its parameters already, the one that was saved."""
    check_choice("noise", meta["noise"], NOISE_KINDS)
    check_choice("unknown", model.unknown, UNKNOWN)
    for name in _FACTS:
        setattr(model, name, meta.get(name))
    small = {
        name: np.array(arrays[name]) for name in ("A", "Q", "M", "S_xx", "history", "hankel_values", "callback_values")
    }
    scale = np.array(arrays["scale"]) if "scale" in arrays else None
    if meta["noise"] == "spherical":
        scale = np.asarray(scale).reshape(())
    C = np.asarray(arrays["C"])
    parameters = Parameters(small["A"], C, small["Q"], small["M"], meta["noise"], scale)
    if "mean" in arrays:
        model.vocabulary_ = None
        space: Any = SeriesSpace(np.array(arrays["mean"]), np.array(arrays["factor"]))
    else:
        model.vocabulary_ = Vocabulary.from_tensors(arrays, meta["vocabulary"])
        space = WordSpace(np.array(arrays["mu"]), np.array(arrays["mu_0"]), C.dtype)
    model.A_, model.C_, model.Q_, model.M_, model.noise_scale_ = (*parameters[:4], scale)
    model.state_covariance_, model.history_ = small["S_xx"], small["history"]
    model.hankel_values_, model.callback_values_ = small["hankel_values"], small["callback_values"]
    model._readout = Readout(parameters, space, small["S_xx"], model.unknown)
    model.gain_ = model._readout.state.L
