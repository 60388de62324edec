"""The `lagwise` command. Each module registers its commands on the application; heavy imports stay inside them."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `lagwise` command."""
    import sys

    from . import _app

    _app.register(sys.argv[1] if len(sys.argv) > 1 else None)
    sys.exit(_app.run())
