"""Linear dynamical systems from lagged counts: subspace identification, EM by ASOS, steady-state Kalman inference."""

from __future__ import annotations

from .series import LagCovariances
from .statistics import TextCovariances

__all__ = ["LagCovariances", "TextCovariances"]
