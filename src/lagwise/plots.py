"""Plots of fitted models; needs matplotlib (``pip install "lagwise[plot]"``). Each takes and returns an Axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validation import check_fitted


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('plots need matplotlib; install it with pip install "lagwise[plot]"') from None
    return Figure(figsize=(6, 4), layout="constrained").subplots()


def plot_hankel_values(model: Any, ax: Any = None) -> Any:
    """Hankel singular values of an `LDS` with the floor that sampling alone makes, for choosing n_components.

    Parameters
    ----------
    model : LDS
        Fitted, from a start by subspace identification.
    ax : matplotlib Axes, optional
        Without it a figure of its own; save it by ``ax.figure.savefig(path)``.

    Returns
    -------
    Axes
    """
    check_fitted(model, "hankel_values_")
    values = np.asarray(model.hankel_values_)
    if not len(values):
        raise ValueError(f"this LDS started from {model.start_!r}, without a Hankel matrix; fit it with init='best'")
    ax = _axes(ax)
    ax.plot(np.arange(1, len(values) + 1), values, ".-", label="Hankel singular values")
    if model.noise_floor_ > 0:
        ax.axhline(model.noise_floor_, color="grey", linestyle="--", label="independent words")
    ax.axvline(len(model.A_), color="black", linewidth=0.8, label="n_components")
    ax.set(xlabel="order", ylabel="singular value", yscale="log", title=f"suggested: {model.suggest_components()}")
    ax.legend()
    return ax


def plot_history(model: Any, ax: Any = None) -> Any:
    """Log-likelihood of a token, in nats above independent words, over the iterations of an `LDS`."""
    check_fitted(model, "history_")
    ax = _axes(ax)
    history = np.asarray(model.history_)
    ax.plot(np.arange(len(history)), history, ".-")
    ax.plot(model.best_iter_, history[model.best_iter_], "o", mfc="none", label="kept")
    ax.set(xlabel="EM iteration", ylabel="nats a token above independence")
    ax.legend()
    return ax


def plot_eigenvalues(model: Any, ax: Any = None) -> Any:
    """Eigenvalues of an `LDS` transition in the complex plane, inside the unit circle."""
    check_fitted(model, "A_")
    ax = _axes(ax)
    values = np.linalg.eigvals(model.A_)
    angle = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(angle), np.sin(angle), color="grey", linewidth=0.8)
    ax.plot(values.real, values.imag, "x")
    ax.set(xlabel="real", ylabel="imaginary", aspect="equal")
    return ax
