"""Commands of the linear dynamical system: lds, embed, dynamics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _app
from ._app import Debug, Force, Json, Quiet, Threads, app

Model = Annotated[Path, typer.Argument(help="Model written by lagwise lds.", show_default=False)]


@app.command()
def lds(
    store: Annotated[Path, typer.Argument(help="Count store.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    dim: Annotated[int, typer.Option(help="State size.")] = 100,
    ssid_lags: Annotated[int, typer.Option(help="Block rows r of the Hankel matrix; uses lags 1..2r-1.")] = 4,
    em_lags: Annotated[int, typer.Option(help="Horizon of EM.")] = 7,
    pseudocount: Annotated[float, typer.Option(help="Counts added to every word.")] = 10.0,
    iterations: Annotated[int, typer.Option(help="Most EM iterations; 0 is subspace identification alone.")] = 50,
    tol: Annotated[float, typer.Option(help="Relative gain below which EM stops.")] = 1e-6,
    init: Annotated[str, typer.Option(help="best, innovations, identity, moments, random, or a model file.")] = "best",
    noise: Annotated[str, typer.Option(help="full, diagonal, spherical or bohning.")] = "full",
    whiten_ssid: Annotated[bool, typer.Option(help="Whiten words for subspace identification.")] = True,
    c_from: Annotated[str, typer.Option(help="Emission matrix from block or regression.")] = "block",
    update_transition_noise: Annotated[bool, typer.Option(help="Let EM update Q.")] = True,
    unknown: Annotated[str, typer.Option(help="Words the model does not know: zero or missing.")] = "zero",
    memory: Annotated[str | None, typer.Option(help="Memory for EM, such as 4GB.")] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    checkpoint: Annotated[Path | None, typer.Option(help="File that holds the run after every iteration.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    seed: _app.Seed = 0,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a linear dynamical system from a count store."""
    import time

    from .._load import load
    from ..lds import LDS
    from ..lds.starts import INITS
    from ..merging import load_store

    _app.check_output(output, force, init)
    if checkpoint is not None and checkpoint.exists() and not (resume or force):
        raise FileExistsError(f"{checkpoint} exists; --resume goes on from it, --force starts anew")
    start: Any = init
    if init not in INITS:
        if not Path(init).is_file():
            raise ValueError(
                f"init is {init!r}; expected one of {', '.join(INITS)}, or a model file, which does not exist"
            )
        start = load(init)
        if not isinstance(start, LDS):
            raise ValueError(f"{init} is not an LDS model")
    model = LDS(
        dim,
        ssid_lags,
        em_lags,
        pseudocount,
        iterations,
        tol,
        start,
        noise,
        whiten_ssid,
        c_from,
        update_transition_noise,
        unknown,
        memory,
        dtype,
        seed,
        threads,
    )
    began = time.monotonic()
    try:
        model.fit(load_store(store), checkpoint=checkpoint, resume=resume, progress=not quiet)
    except KeyboardInterrupt:
        if hasattr(model, "A_"):
            model.save(output, overwrite=force)
            _app.say(f"{output}: the best iterate so far, number {model.best_iter_}")
        raise
    model.save(output, overwrite=force)
    summary = {
        "model": str(output),
        "words": len(model.C_),
        "components": dim,
        "iterations": model.n_iter_,
        "best_iteration": model.best_iter_,
        "converged": model.converged_,
        "start": model.start_,
        "log_likelihood": float(model.history_[model.best_iter_]),
        "history": model.history_.tolist(),
        "repairs": model.repairs_,
        "seconds": time.monotonic() - began,
    }
    if json:
        _app.emit(summary)
    else:
        _app.say(
            f"{output}: {summary['words']} words, {dim} components, {model.n_iter_} iterations from "
            f"{model.start_!r}{'' if model.converged_ else ' (not converged)'}, "
            f"{summary['log_likelihood']:.4f} nats a token above i.i.d.",
            quiet,
        )


@app.command()
def embed(
    model: Model,
    text: Annotated[
        list[str], typer.Argument(help="Files, folders or globs; - is standard input.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help=".npy file to write, one row a token.")],
    kind: Annotated[str, typer.Option(help="smoothed, filtered or predicted.")] = "smoothed",
    whiten: Annotated[bool, typer.Option("--whiten", help="Multiply by E[xx']^(-1/2).")] = False,
    unit: Annotated[bool, typer.Option("--unit", help="Scale each row to unit length.")] = False,
    boundary: Annotated[str | None, typer.Option(help="line, none or blank (default: the model's).")] = None,
    errors: Annotated[str, typer.Option(help="strict, replace or surrogateescape.")] = "strict",
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the state of every token of a text.

    Row i belongs to token i of the text, lines one after another, as `Vocabulary.split` of the model's vocabulary_ gives
    them in Python.
    """
    import numpy as np

    from .._files import atomic_path, reserve
    from .._validation import check_choice
    from ..lds.model import KINDS
    from ..lds.tokens import file_sequences

    _app.check_output(output, force, model, *text)
    check_choice("kind", kind, KINDS)
    loaded = _load_lds(model)
    loaded.n_threads = threads
    boundary = check_choice("boundary", boundary or loaded.boundary_, ("line", "none", "blank"))
    ids, lengths = file_sequences(loaded.vocabulary_, text, boundary, errors, threads)
    with atomic_path(output, force) as path:
        shape = (len(ids), len(loaded.A_))
        if len(ids) == 0:
            with open(path, "wb") as handle:
                np.save(handle, np.empty(shape, loaded.C_.dtype))
        else:
            rows = np.lib.format.open_memmap(path, "w+", loaded.C_.dtype, shape)
            reserve(path)
            loaded.transform(ids, lengths, kind=kind, whiten=whiten, unit=unit, out=rows)
            rows.flush()
            del rows
    summary = {
        "vectors": str(output),
        "tokens": len(ids),
        "components": shape[1],
        "sequences": len(lengths),
        "unknown": int(np.count_nonzero(ids < 0)),
    }
    if json:
        _app.emit(summary)
    else:
        _app.say(f"{output}: {shape[0]} tokens x {shape[1]}, {summary['unknown']} unknown", quiet)


@app.command()
def dynamics(
    model: Model,
    top: Annotated[int, typer.Option(min=1, help="Words a side.")] = 8,
    pairs: Annotated[int, typer.Option(min=1, help="How many pairs.")] = 10,
    rank: Annotated[str, typer.Option(help="Order words by raw, correlation or lift.")] = "raw",
    by: Annotated[
        str, typer.Option(help="Pairs by state (the paper's) or by tokens: widest use first, gains relative.")
    ] = "state",
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show what the transition does: pairs of states, now and next, by their words; memory as half-lives.

    The second line of a pair is the opposite direction; cos near 1 is a topic that stays, near -1 one that turns round
    with every token. raw ranks words by the change of their probability, correlation by that with the direction, lift
    by the change relative to their frequency.
    """
    loaded = _load_lds(model)
    result = loaded.dynamics(top, pairs, rank, by)
    if json:
        _app.emit(
            {
                "pairs": [pair._asdict() for pair in result.pairs],
                "eigenvalues": [[float(x.real), float(x.imag)] for x in result.eigenvalues],
                "half_lives": result.half_lives.tolist(),
            }
        )
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("gain", "cos", "now", "next")
    for pair in result.pairs:
        table.add_row(f"{pair.gain:.3f}", f"{pair.cosine:.2f}", " ".join(pair.now), " ".join(pair.after))
        table.add_row("", "", " ".join(pair.now_opposite), " ".join(pair.after_opposite), end_section=True)
    console = Console()
    console.print(table)
    lives = result.half_lives
    console.print(
        "half-lives in tokens: "
        + " ".join(f"{life:.2g}" for life in lives[:10])
        + f" (median {sorted(lives)[len(lives) // 2]:.2g})"
    )


def _load_lds(path: Path) -> Any:
    from .._load import load
    from ..lds import LDS

    model = load(path)
    if not isinstance(model, LDS):
        raise ValueError(f"{path} holds a {type(model).__name__}; expected an LDS")
    if model.vocabulary_ is None:
        raise ValueError(f"{path} is a model of a numeric series; this command is for text")
    return model
