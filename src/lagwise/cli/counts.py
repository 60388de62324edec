"""Commands about counts: count, info, merge, trim, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _app
from ._app import Debug, Force, Json, Quiet, Threads, app

Files = Annotated[list[str], typer.Argument(help="Files, folders or globs; - is standard input.", show_default=False)]


@app.command()
def count(
    context: typer.Context,
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the store to write.")],
    min_count: Annotated[int, typer.Option(help="Words that occur less often are outside the vocabulary.")] = 5,
    max_size: Annotated[int | None, typer.Option(help="Keep at most this many words, the most frequent.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="File of words, one a line, that are always kept.", **_app.WordFile)
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="File of words, one a line: a fixed vocabulary.", **_app.WordFile)
    ] = None,
    pattern: Annotated[str | None, typer.Option(help="Regular expression that whole words must match.")] = None,
    wordlist: Annotated[
        Path | None, typer.Option(help="File of known words; others need --wordlist-exempt.", **_app.WordFile)
    ] = None,
    wordlist_exempt: Annotated[int, typer.Option(help="Words outside the word list stay above this count.")] = 3000,
    max_lag: Annotated[int | None, typer.Option(help="Hold every lag up to this (default 7).")] = None,
    window: Annotated[int | None, typer.Option(help="Hold one window of this size instead.")] = None,
    weight: Annotated[
        str, typer.Option(help="Weight of distances in the window: flat, harmonic, linear, or whole numbers: 3,2,1.")
    ] = "flat",
    boundary: Annotated[str, typer.Option(help="What ends a sequence: line, none (files only) or blank.")] = "line",
    oov: Annotated[str, typer.Option(help="Words outside the vocabulary: keep (a gap), drop or unk.")] = "keep",
    unk: Annotated[str, typer.Option(help="The unknown symbol.")] = "<unk>",
    merge_unk: Annotated[bool, typer.Option(help="Accept a text that holds the unknown symbol.")] = False,
    tokenizer: Annotated[str, typer.Option(help="whitespace or words (Unicode-aware).")] = "whitespace",
    punctuation: Annotated[str, typer.Option(help="keep or drop punctuation (tokenizer words).")] = "keep",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case every token.")] = False,
    digits: Annotated[str | None, typer.Option(help="0: each digit becomes 0; NUM: each run of digits.")] = None,
    errors: Annotated[
        str, typer.Option(help="Bytes that are not UTF-8: strict, replace or surrogateescape.")
    ] = "strict",
    max_token_bytes: Annotated[int | None, typer.Option(help="Refuse longer tokens.")] = None,
    subsample: Annotated[float | None, typer.Option(help="Drop frequent words at random, as word2vec does.")] = None,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Keep the text as ids.")] = False,
    memory: Annotated[str | None, typer.Option(help="Cap on memory, such as 2GB.")] = None,
    tmpdir: Annotated[
        Path | None, typer.Option(help="Folder of work files under a memory cap.", exists=True, file_okay=False)
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder that keeps finished segments.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint folder.")] = False,
    append: Annotated[Path | None, typer.Option(help="Store to add the text to; its own options apply.")] = None,
    dask: Annotated[str | None, typer.Option(help='Count on the Dask cluster of this scheduler, or "local".')] = None,
    seed: _app.Seed = 0,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Count words and co-occurrences of text into a store."""
    from ..counting import count_to_store

    where: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume}
    if dask is not None:
        from ..distributed import count_to_store  # type: ignore[assignment]

        if checkpoint is not None or resume or append is not None:
            raise ValueError("--dask does not go together with --checkpoint, --resume or --append")
        where = {"client": dask}
    source: Any = files[0] if len(files) == 1 else files
    if append is not None:
        from ..merging import append as add
        from ..merging import load_store

        _only_own_options(context)
        longer = add(load_store(append), source, wordlist=wordlist, n_threads=threads, progress=not quiet)
        longer.save(output, overwrite=force)
        _report(output, longer, json, quiet)
        return
    store = count_to_store(
        output,
        source,
        overwrite=force,
        min_count=min_count,
        max_size=max_size,
        keep=keep or (),
        vocabulary=vocabulary,
        pattern=pattern,
        wordlist=wordlist,
        wordlist_exempt=wordlist_exempt,
        max_lag=max_lag,
        window=window,
        weight=_weight(weight),
        boundary=boundary,
        oov=oov,
        unk=unk,
        merge_unk=merge_unk,
        tokenizer=tokenizer,
        punctuation=punctuation,
        lowercase=lowercase,
        digits=digits,
        errors=errors,
        max_token_bytes=max_token_bytes,
        subsample=subsample,
        keep_ids=keep_ids,
        memory=memory,
        tmpdir=tmpdir,
        n_threads=threads,
        progress=not quiet,
        random_state=seed,
        **where,
    )
    _report(output, store, json, quiet)


def _only_own_options(context: typer.Context) -> None:
    """Refuse options of a count beside --append: those of the store apply."""
    fitting = {"files", "output", "append", "wordlist", "threads", "force", "quiet", "json", "debug"}
    sources = {name: context.get_parameter_source(name) for name in context.params}
    asked = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    if asked - fitting:
        named = ", ".join("--" + name.replace("_", "-") for name in sorted(asked - fitting))
        raise ValueError(f"--append counts by the options of its store; leave out {named}")


def _report(output: Path, store: Any, json: bool, quiet: bool) -> None:
    summary = {
        "store": str(output),
        "words": len(store.vocabulary),
        "tokens": store.n_tokens,
        "lines": store.n_lines,
        "nonzeros": sum(store.nnz.values()),
        "seconds": store.run.get("seconds"),
    }
    if json:
        _app.emit(summary)
    else:
        _app.say(
            f"{output}: {summary['words']} words of {summary['tokens']} tokens in {summary['lines']} lines, "
            f"{summary['nonzeros']} nonzero counts",
            quiet,
        )


def _weight(text: str) -> Any:
    if text in ("flat", "harmonic", "linear"):
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--weight is {text!r}; expected flat, harmonic, linear, or whole numbers such as 3,2,1"
        ) from None


@app.command()
def info(
    path: Annotated[Path, typer.Argument(help="A store, vector file or model.", show_default=False)],
    top: Annotated[int, typer.Option(min=0, help="How many of the most frequent words to show.")] = 10,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a store, vector file or model holds."""
    from ..describe import describe

    facts = describe(path, top)
    if json:
        _app.emit(facts)
    else:
        _app.table({name: _memory(value) if name.startswith("memory of ") else value for name, value in facts.items()})


def _memory(n_bytes: int) -> str:
    size = f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
    return f"about {size} with 100 dimensions"


Store = Annotated[Path, typer.Argument(help="A count store.", show_default=False)]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the store to write.")]


@app.command()
def merge(
    stores: Annotated[list[Path], typer.Argument(help="Count stores.", show_default=False)],
    output: Output,
    inexact: Annotated[bool, typer.Option("--inexact", help="Also merge stores whose vocabularies were cut.")] = False,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add count stores, as if their texts had been counted together."""
    from ..merging import load_store
    from ..merging import merge as add

    result = add(*(load_store(path) for path in stores), inexact=inexact, n_threads=threads)
    result.save(output, overwrite=force)
    _report(output, result, json, quiet)


@app.command()
def trim(
    store: Store,
    output: Output,
    min_count: Annotated[int | None, typer.Option(help="New least count of a word.")] = None,
    max_size: Annotated[int | None, typer.Option(help="New largest number of words.")] = None,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Cut a store's vocabulary further, without the text."""
    from ..merging import load_store

    result = load_store(store).trim(min_count=min_count, max_size=max_size, n_threads=threads)
    result.save(output, overwrite=force)
    _report(output, result, json, quiet)


@app.command()
def verify(store: Store, quiet: Quiet = False, json: Json = False, debug: Debug = False) -> None:
    """Compare every checksum of a store."""
    from ..counts import CountStore

    CountStore.load(store, verify=True)
    if json:
        _app.emit({"store": str(store), "whole": True})
    elif not quiet:
        print(f"{store}: whole")
