"""Commands about word vectors: sens, similar, analogy, evaluate, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _app
from ._app import Debug, Force, Json, Quiet, Threads, app

Vectors = Annotated[Path, typer.Argument(help="Word vectors, of lagwise or in a format of other programs.",
                                         show_default=False)]
Number = Annotated[int, typer.Option("--number", "-n", help="How many words to show.")]


@app.command()
def sens(
    store: Annotated[Path, typer.Argument(help="Count store made by lagwise count.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the word vectors to write.")],
    dim: Annotated[int, typer.Option(help="Length of the vectors.")] = 100,
    preset: Annotated[str, typer.Option(help="balanced, similarity, analogies or paper; options given come first.")] = "",
    variant: Annotated[str | None, typer.Option(help="sens, svd-ns, svd-ns-shifted, pmi, ppmi, sppmi, counts, "
                                                     "log-counts or sqrt-counts.")] = None,
    alpha: Annotated[str | None, typer.Option(help="Threshold of PMI in bits, auto, or none for every pair.")] = None,
    shift: Annotated[float | None, typer.Option(help="Bits added to every kept entry.")] = None,
    window: Annotated[int | None, typer.Option(help="Largest distance counted.")] = None,
    weight: Annotated[str | None, typer.Option(help="flat, harmonic, linear or numbers g(1),g(2),...")] = None,
    smoothing: Annotated[float | None, typer.Option(help="Exponent of the marginals.")] = None,
    smooth: Annotated[str | None, typer.Option(help="Smooth both marginals or the context's.")] = None,
    power: Annotated[float | None, typer.Option(help="Vectors are U s^power.")] = None,
    drop_first: Annotated[int | None, typer.Option(help="Leading components to leave out.")] = None,
    negatives: Annotated[float | None, typer.Option(help="k of sppmi.")] = None,
    psd: Annotated[bool, typer.Option("--psd", help="Make the matrix positive semi-definite.")] = False,
    random_negatives: Annotated[float | None, typer.Option(help="Unobserved pairs to draw, over observed ones.")] = None,
    tol: Annotated[float | None, typer.Option(help="Bound on the residual.")] = None,
    solver: Annotated[str | None, typer.Option(help="lanczos, krylov or arpack.")] = None,
    half: Annotated[bool, typer.Option("--half", help="Store float16.")] = False,
    seed: _app.Seed = 0,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train word vectors on a count store."""
    from .._load import load
    from ..sens import DEFAULT_PRESET, SENS

    counts = load(store)
    if not hasattr(counts, "window"):
        raise ValueError(f"{store} holds {type(counts).__name__}; expected a count store (lagwise count)")
    if output.exists() and not force:
        raise FileExistsError(f"{output} exists; remove it, choose another name or pass --force")
    given: dict[str, Any] = {
        "variant": variant, "alpha": _alpha(alpha), "shift": shift, "window": window, "weight": _weight(weight),
        "smoothing": smoothing, "smooth": smooth, "power": power, "drop_first": drop_first, "negatives": negatives,
        "random_negatives": random_negatives, "tol": tol, "solver": solver}
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("alpha") == "none":
        given["alpha"] = None
    if not preset and variant in (None, "sens"):
        preset = DEFAULT_PRESET
    settings = SENS(preset=preset or None).settings() if preset else {}
    if window is not None and weight is None and not isinstance(settings.get("weight", "flat"), str):
        settings["weight"] = "linear"  # a preset's weights belong to its own window
    if counts.max_lag is None and window is None:
        given["window"] = None  # the window and weight that were counted
    model = SENS(**{**settings, **given, "n_components": dim, "psd": psd, "preset": None, "random_state": seed,
                    "n_threads": threads})
    try:
        model.fit(counts, progress=not quiet)
    except KeyboardInterrupt:
        if model.__dict__.get("interrupted_"):
            model.word_vectors().save(output, overwrite=force)
            _app.say(f"interrupted: the vectors reached so far (residual {model.residual_:.1e}) are in {output}", quiet)
        raise
    vectors = model.word_vectors()
    vectors.save(output, overwrite=force, dtype="float16" if half else None)
    summary = {"vectors": str(output), "words": len(vectors), "dimensions": vectors.n_components,
               "entries": model.nnz_, "positive": model.n_positive_, "negative": model.n_negative_,
               "alpha": model.alpha_, "objective": model.objective_, "residual": model.residual_,
               "converged": model.converged_, "negative_in_top": model.negative_in_top_,
               "preset": preset or None, "seconds": {key: round(value, 3) for key, value in model.seconds_.items()}}
    if json:
        _app.emit(summary)
    else:
        _app.say(f"{output}: {len(vectors)} words, {vectors.n_components} dimensions; {model.n_positive_} positive and "
                 f"{model.n_negative_} negative entries, residual {model.residual_:.1e}", quiet)
    if not model.converged_:
        _app.say(f"warning: the residual {model.residual_:.1e} is above the tolerance {model.tol:g}", quiet)


@app.command()
def similar(
    vectors: Vectors,
    words: Annotated[list[str], typer.Argument(help="Words whose neighbours to show.", show_default=False)],
    number: Number = 10,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the nearest words of each word."""
    held = _read(vectors)
    found = dict(zip(words, held.neighbours(words, n=number)))
    if json:
        _app.emit({word: [[other, score] for other, score in near] for word, near in found.items()})
        return
    _table([["word", "neighbours (cosine)"]] + [
        [word, ", ".join(f"{other} {score:.3f}" for other, score in near)] for word, near in found.items()])


@app.command()
def analogy(
    vectors: Vectors,
    a: Annotated[str, typer.Argument(show_default=False)],
    b: Annotated[str, typer.Argument(show_default=False)],
    c: Annotated[str, typer.Argument(show_default=False)],
    number: Number = 5,
    method: Annotated[str, typer.Option(help="3CosAdd or 3CosMul.")] = "3CosAdd",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Answer: A is to B as C is to what?"""
    found = _read(vectors).analogy(a, b, c, n=number, method=method)
    if json:
        _app.emit({"a": a, "b": b, "c": c, "method": method, "answers": [[word, score] for word, score in found]})
        return
    _table([["word", "score"]] + [[word, f"{score:.3f}"] for word, score in found])


@app.command()
def evaluate(
    vectors: Annotated[list[Path], typer.Argument(help="One or more files of vectors.", show_default=False)],
    similarity: Annotated[list[Path] | None, typer.Option("--similarity", "-s", help="Similarity set (repeat, or a "
                                                                                    "folder of EN-*.txt).")] = None,
    analogies: Annotated[Path | None, typer.Option("--analogies", "-a", help="File of analogy questions.")] = None,
    method: Annotated[str, typer.Option(help="3CosAdd or 3CosMul.")] = "3CosAdd",
    oov: Annotated[str, typer.Option(help="Unknown words: skip, or zero.")] = "skip",
    case: Annotated[str, typer.Option(help="auto, keep or lower.")] = "auto",
    bootstrap: Annotated[int, typer.Option(help="Resamples of the intervals; 0 for none.")] = 1000,
    seed: _app.Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure vectors on word similarity and analogies, several files side by side."""
    from ..evaluate import compare_similarity, evaluate_analogies, evaluate_similarity

    if not similarity and analogies is None:
        raise ValueError("nothing to evaluate on; give --similarity FILE... or --analogies FILE")
    # More similarity sets may follow the option, as in --similarity A B C: they are no vectors.
    models, sets = _sort_files(vectors, similarity or [])
    held = [_read(path) for path in models]
    results: dict[str, dict[str, Any]] = {str(path): {} for path in models}
    rows = [["set", *(f"{path.name}" for path in models), "pairs used", "coverage"]]
    for path in sets:
        found = [evaluate_similarity(item, path, oov=oov, case=case, n_bootstrap=bootstrap, random_state=seed)
                 for item in held]
        for name, result in zip(results, found):
            results[name].setdefault("similarity", {})[result.name] = result.to_dict()
        rows.append([found[0].name, *(_interval(result) for result in found),
                     f"{found[0].n_used}/{found[0].n_pairs}", f"{found[0].coverage:.1%}"])
        if len(held) == 2 and bootstrap:
            compared = compare_similarity(*held, path, n_bootstrap=bootstrap, random_state=seed, case=case)
            for result in results.values():
                result.setdefault("difference", {})[found[0].name] = compared
            rows[-1].append(f"{compared['difference']:+.3f} (p {compared['p_value']:.3f})")
    if sets:
        for result in results.values():
            values = [part["spearman"] for part in result["similarity"].values()]
            result["average"] = None if None in values else sum(values) / len(values)
        rows.append(["average", *(f"{r['average']:.3f}" if r["average"] is not None else "-" for r in results.values())])
        if len(held) == 2 and bootstrap:
            rows[0].append("difference")
        if not json:
            _table(rows)
    if analogies is not None:
        answers = [evaluate_analogies(item, analogies, method=method, oov=oov, case=case) for item in held]
        for name, answer in zip(results, answers):
            results[name]["analogies"] = answer.to_dict()
        rows = [["analogies", *(path.name for path in models), "asked", "unknown"]]
        lines = [(name, [answer.sections[name] for answer in answers]) for name in answers[0].sections]
        lines += [(name, [getattr(answer, name) for answer in answers]) for name in ("semantic", "syntactic", "total")]
        for name, parts in lines:
            rows.append([name, *(f"{part.accuracy:.3f}" if part.asked else "-" for part in parts), str(parts[0].asked),
                         str(parts[0].unknown)])
        if not json:
            _table(rows)
    if json:
        _app.emit(next(iter(results.values())) if len(results) == 1 else results)


@app.command()
def export(
    vectors: Vectors,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    format: Annotated[str, typer.Option(help="word2vec, word2vec-binary, glove, numpy or lagwise.")] = "word2vec",
    precision: Annotated[int | None, typer.Option(help="Significant digits in text (default: all).")] = None,
    half: Annotated[bool, typer.Option("--half", help="Store float16 (lagwise, numpy).")] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write word vectors in a format of other programs."""
    held = _read(vectors)
    if half:
        held = held.astype("float16")
    if format == "lagwise":
        held.save(output, overwrite=force)
    else:
        held.export(output, format, precision=precision, overwrite=force)
    _app.say(f"{output}: {len(held)} words, {held.n_components} dimensions, {format}", quiet)


def _read(path: Path) -> Any:
    from ..export import read

    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    return read(path)


def _sort_files(vectors: list[Path], similarity: list[Path]) -> tuple[list[Path], list[Path]]:
    """Separate vectors from similarity sets given behind one --similarity, and open folders of sets."""
    from ..evaluate import read_similarity

    models, sets = [], []
    for path in similarity:
        sets += sorted(path.glob("EN-*.txt")) if path.is_dir() else [path]
    for path in vectors:
        if not similarity or path.suffix not in (".txt", ".tsv", ".csv"):
            models.append(path)
            continue
        try:
            pairs = read_similarity(path)
        except (ValueError, OSError):
            pairs = []
        (sets if pairs and _is_set(path) else models).append(path)
    if not models:
        raise ValueError("no file of vectors was given before the similarity sets")
    return models, sets


def _is_set(path: Path) -> bool:
    """Whether every line is two words and one number; a vector file has one word and many numbers."""
    with open(path, encoding="utf-8", errors="replace") as handle:
        fields = handle.readline().split()
    if len(fields) != 3:
        return False
    try:
        float(fields[1])
    except ValueError:
        return True
    return False


def _alpha(text: str | None) -> Any:
    if text is None or text.lower() in ("auto", "none"):
        return text and text.lower()
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--alpha is {text!r}; expected a number of bits, auto or none") from None


def _weight(text: str | None) -> Any:
    if text is None or "," not in text:
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--weight is {text!r}; expected flat, harmonic, linear or numbers like 1,0.5,0.25") from None


def _interval(result: Any) -> str:
    if result.spearman != result.spearman:
        return "-"
    return f"{result.spearman:.3f}" + (f" [{result.low:.3f}, {result.high:.3f}]" if result.low == result.low else "")


def _table(rows: list[list[str]]) -> None:
    """Print rows under their header as a table on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    width = max(map(len, rows))
    for place in range(width):
        table.add_column(rows[0][place] if place < len(rows[0]) else "", overflow="fold")
    for row in rows[1:]:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table, markup=False)
