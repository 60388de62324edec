"""Helpers of several test files."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path


def run_cli(*arguments, input=None, check=True, timeout=120, env=None):
    """Run the lagwise command in a process of its own; standard output and error are text."""
    command = [sys.executable, "-c", "from lagwise.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, input=input, capture_output=True, timeout=timeout, env={**os.environ, **(env or {})})
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    if check and done.returncode:
        raise AssertionError(f"lagwise {' '.join(map(str, arguments))} exited {done.returncode}: {done.stderr}")
    return done


def cli(*arguments):
    """Run the command line in this process: its status, output and errors."""
    from lagwise.cli import _app

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        _app.register()
        status = _app.run([str(argument) for argument in arguments])
    return status, out.getvalue(), err.getvalue()


def same_store(first, second):
    """Assert that two stores are equal byte for byte (run.json aside)."""
    names = {name for name in os.listdir(first)}
    assert names == set(os.listdir(second))
    for name in sorted(names - {"run.json"}):
        assert Path(first, name).read_bytes() == Path(second, name).read_bytes(), name
