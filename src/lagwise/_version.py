"""The version, where both the build and the running package find it."""

__version__ = "0.1.0"
