"""The `lagwise` command. Each module registers its commands on the application; heavy imports stay inside them."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `lagwise` command: leaves with 0, 1, 2, 130 after Ctrl-C, or 143 after a request to end."""
    import gc
    import os
    import sys

    try:
        _end_in_order()
        os.environ.setdefault(
            "OMP_WAIT_POLICY", "passive"
        )  # threads of kernels sleep between batches, others work then
        gc.set_threshold(100_000)  # imports make many objects and no garbage
        from . import _app

        _app.register(sys.argv[1] if len(sys.argv) > 1 else None)
        status = _app.run()
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def _end_in_order() -> None:
    """Let a request to end (SIGTERM) unwind like any error, so that work files are removed."""
    import signal

    def end(*_: object) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, end)
