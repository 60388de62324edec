"""Commands about hidden Markov models: lagwise hmm fit, tag, evaluate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import _app
from ._app import Debug, Force, Json, Quiet, Threads, app

hmm_app = typer.Typer(no_args_is_help=True, help="Hidden Markov models: fit, tag, evaluate.")
app.add_typer(hmm_app, name="hmm")

Model = Annotated[Path, typer.Argument(help="A model written by lagwise hmm fit.", show_default=False)]
Column = Annotated[int, typer.Option("--column", "-c", min=2, help="Column of the tags in a tagged file, from 1.")]


def _load(path: Path) -> Any:
    from .._load import load
    from ..hmm import HMM, HMMTagger

    found = load(path)
    if not isinstance(found, (HMM, HMMTagger)):
        raise ValueError(
            f"{path} holds a {type(found).__name__}; expected an HMM or a tagger (lagwise hmm fit writes them)"
        )
    return found


TEXT_ONLY = (
    "states", "algorithm", "iterations", "tol", "starts", "init", "pseudocount", "stop_state", "min_count", "max_size",
    "tokenizer", "punctuation", "lowercase", "digits", "seed",
)  # fmt: skip
TAGGED_ONLY = ("column", "unknown_words")


@hmm_app.command()
def fit(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts, one sequence a line; - is standard input.", show_default=False)
    ] = None,
    tagged: Annotated[
        Path | None, typer.Option("--tagged", help="Train a tagger from a file of word TAB tag lines.", **_app.WordFile)
    ] = None,
    column: Column = 2,
    states: Annotated[int, typer.Option("--states", "-k", help="Number of states.")] = 45,
    algorithm: Annotated[str, typer.Option("--algorithm", "-a", help="soft or hard.")] = "soft",
    order: Annotated[
        int | None, typer.Option("--order", help="1 or 2 (default: 1 for a text, 2 for a tagger).")
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", help="Most EM iterations.")] = 100,
    tol: Annotated[float, typer.Option("--tol", help="Stop below this gain, nats a token.")] = 1e-4,
    starts: Annotated[int, typer.Option("--starts", help="Number of starts; the best is kept.")] = 1,
    init: Annotated[str, typer.Option("--init", help="random, uniform, sens or lds.")] = "random",
    pseudocount: Annotated[float, typer.Option("--pseudocount", help="Added to every expected count.")] = 0.0,
    stop_state: Annotated[bool, typer.Option("--stop-state", help="Learn when sequences end.")] = False,
    min_count: Annotated[int, typer.Option("--min-count", help="Rarer words are missing symbols.")] = 1,
    max_size: Annotated[int | None, typer.Option("--max-size", help="Keep at most so many words.")] = None,
    tokenizer: Annotated[str, typer.Option(help="whitespace or words (Unicode-aware).")] = "whitespace",
    punctuation: Annotated[str, typer.Option(help="keep or drop punctuation (tokenizer words).")] = "keep",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case every token.")] = False,
    digits: Annotated[str | None, typer.Option(help="0: each digit becomes 0; NUM: each run of digits.")] = None,
    unknown_words: Annotated[str, typer.Option("--unknown-words", help="Tagger: features or suffix.")] = "features",
    seed: _app.Seed = 0,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit an HMM to a text, or train a tagger from a tagged file."""
    _app.check_output(output, force, *(texts or []), *([] if tagged is None else [tagged]))
    if (not texts) == (tagged is None):
        raise ValueError("give either TEXTS or --tagged FILE")
    _check_given(context, TEXT_ONLY if tagged is not None else TAGGED_ONLY, tagged is not None)
    if tagged is not None:
        _app.say("reading tagged sentences and learning a model of word forms", quiet or unknown_words == "suffix")
        result = _fit_tagger(tagged, column, order or 2, unknown_words, threads, output, force)
    else:
        assert texts is not None
        words = {
            "min_count": min_count,
            "max_size": max_size,
            "tokenizer": tokenizer,
            "punctuation": punctuation,
            "lowercase": lowercase,
            "digits": digits,
        }
        settings = {
            "n_states": states,
            "order": order or 1,
            "algorithm": algorithm,
            "n_iter": iterations,
            "tol": tol,
            "n_init": starts,
            "init": init,
            "pseudocount": pseudocount,
            "stop_state": stop_state,
            "random_state": seed,
            "n_threads": threads,
            "verbose": not quiet,
        }
        result = _fit_texts(texts, words, settings, output, force, quiet)
    if json:
        _app.emit(result)
    else:
        _app.say(_summary(result), quiet)


def _summary(result: dict[str, Any]) -> str:
    """One line about a model that was fitted."""
    if "tags" in result:
        return f"{result['output']}: {result['words']} words, {result['tags']} tags, {result['tokens']} tokens"
    return (
        f"{result['output']}: {result['states']} states, {result['symbols']} words, {result['tokens']} tokens, "
        f"{result['iterations']} iterations ({'' if result['converged'] else 'not '}converged), objective "
        f"{result['objective'] / max(result['tokens'], 1):.5f} nats a token"
    )


def _check_given(context: typer.Context, others: tuple[str, ...], tagged: bool) -> None:
    """Refuse options that the chosen way of fitting does not have."""
    for name in others:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = "--" + name.replace("_", "-")
            raise ValueError(
                f"{flag} belongs to a fit of TEXTS; a tagger takes its words and tags from the file"
                if tagged
                else f"{flag} belongs to --tagged FILE"
            )


def _fit_tagger(
    path: Path, column: int, order: int, unknown: str, threads: int | None, output: Path, force: bool
) -> dict[str, Any]:
    from ..hmm import HMMTagger, read_tagged

    tagger = HMMTagger(order=order, unknown=unknown, n_threads=threads).fit(*read_tagged(path, column))
    tagger.save(output, overwrite=force)
    return {
        "output": str(output),
        "words": len(tagger.vocabulary_),
        "tags": len(tagger.tags_),
        "tokens": int(tagger.counts_.sum()),
    }


def _fit_texts(
    texts: list[str], words: dict[str, Any], settings: dict[str, Any], output: Path, force: bool, quiet: bool
) -> dict[str, Any]:
    from ..counting import count
    from ..hmm import HMM
    from ..hmm.observations import Sequences

    sequences = Sequences.of_counts(count(texts, max_lag=1, keep_ids=True, n_threads=settings["n_threads"], **words))
    model = HMM(**settings)
    _app.say("preparing kernels: the first time on a machine this takes some seconds", quiet)
    try:
        model.fit(sequences)
    except KeyboardInterrupt:
        if hasattr(model, "startprob_"):
            model.save(output, overwrite=force)
            _app.say(f"interrupted after {model.n_iter_} iterations; the model so far is in {output}")
        raise
    model.save(output, overwrite=force)
    return {
        "output": str(output),
        "states": model.n_states,
        "symbols": model.n_symbols_,
        "tokens": int(sequences.ids.size),
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "objective": model.history_[-1],
    }


@hmm_app.command()
def tag(
    model: Model,
    text: Annotated[str, typer.Argument(help="A text, one sentence a line; - is standard input.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (default: standard output).")
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="word/tag on the text's own lines instead of a word TAB tag line each.")
    ] = False,
    threads: Threads = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Write the most probable tags (states) of a text, as word TAB tag lines with a blank line between sentences.

    A tagger takes words as white space parts them: split punctuation off as in the file it was trained on. An HMM of a
    text splits as that text was split.
    """
    from contextlib import nullcontext
    from itertools import islice

    from .._files import atomic_path
    from ..hmm import HMMTagger
    from ..text import read_lines

    if output is not None:
        _app.check_output(output, force, model, text)
    found = _load(model)
    found.n_threads = threads
    if isinstance(found, HMMTagger):
        sys.stdout.flush()
        found.tag_file(text, output or sys.stdout.buffer, "pairs" if pairs else "lines", overwrite=force)
        return
    lines = read_lines(text)
    with nullcontext(None) if output is None else atomic_path(output, overwrite=force) as path:
        with nullcontext(sys.stdout) if path is None else open(path, "w", encoding="utf-8", newline="\n") as out:
            while part := list(islice(lines, 1 << 15)):  # in parts, so that a long text needs little memory
                _write_tags(found, part, out, pairs)


def _write_tags(model: Any, lines: list[str], out: Any, pairs: bool) -> None:
    vocabulary = getattr(model, "vocabulary_", None)
    split = [line.split() for line in lines] if vocabulary is None else vocabulary.split(lines)
    sentences = [sentence for sentence in split if sentence]
    if not sentences:
        return
    words = sentences
    if vocabulary is not None:
        words = [[vocabulary.normalize(word) for word in sentence] for sentence in sentences]
    for sentence, tags in zip(sentences, model.predict(words)):
        if pairs:
            out.write(" ".join(f"{word}/{tag}" for word, tag in zip(sentence, tags)) + "\n")
        else:
            out.write("".join(f"{word}\t{tag}\n" for word, tag in zip(sentence, tags)) + "\n")


@hmm_app.command()
def evaluate(
    model: Model,
    tagged: Annotated[Path, typer.Option("--tagged", help="A file of word TAB tag lines.", **_app.WordFile)],
    column: Column = 2,
    confusions: Annotated[
        int, typer.Option("--confusions", min=0, help="How many of the most frequent confusions to show.")
    ] = 10,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure a tagger against given tags, or an induced model by many-to-1, 1-to-1 and V-measure."""
    import numpy as np

    from ..hmm import HMMTagger, evaluate_induction, read_tagged

    found = _load(model)
    found.n_threads = threads
    sentences, tags = read_tagged(tagged, column)
    if not isinstance(found, HMMTagger):
        states = np.concatenate(found.predict(sentences))
        result: dict[str, Any] = evaluate_induction(states, [tag for sentence in tags for tag in sentence])
        if json:
            _app.emit(result)
        else:
            print("\n".join(f"{name.replace('_', '-'):<12} {value:.4f}" for name, value in result.items()))
        return
    result = found.evaluate(sentences, tags)
    names, confusion = result["tags"], result["confusion"]
    strange = int(confusion[len(found.tags_) :].sum())
    if 2 * strange > result["n_tokens"]:
        _app.say(
            f"lagwise: warning: {strange} of {result['n_tokens']} tokens have tags that the tagger does not know, such as "
            f"{names[len(found.tags_)]!r}: is --column {column} the column it was trained on?",
            quiet,
        )
    if json:
        _app.emit({**result, "confusion": confusion.tolist()})
        return
    for name in ("accuracy", "known", "unknown", "unknown_share"):
        print(f"{name.replace('_', ' '):<14} " + ("-" if result[name] is None else f"{result[name]:.4f}"))
    wrong = confusion.copy()
    np.fill_diagonal(wrong, 0)
    for flat in np.argsort(-wrong, axis=None, kind="stable")[:confusions]:
        i, j = divmod(int(flat), len(names))
        if wrong[i, j]:
            print(f"{wrong[i, j]:7d}  {names[i]} tagged as {names[j]}")
