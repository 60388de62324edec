"""Shared fixtures."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared():
    """The folder of shared material beside the project; skips where it is absent."""
    folder = Path(os.environ.get("LAGWISE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"needs the shared material, and {folder.name}/ is not beside the project (or in LAGWISE_SHARED)")
    return folder
