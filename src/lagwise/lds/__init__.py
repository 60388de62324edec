"""Linear dynamical systems from lagged counts: subspace identification, EM by ASOS, steady-state Kalman inference."""

from __future__ import annotations

from .model import LDS
from .series import LagCovariances
from .statistics import TextCovariances

__all__ = ["LDS", "LagCovariances", "TextCovariances"]
