"""Commands about word vectors: sens, similar, analogy, evaluate, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _app
from ._app import Debug, Force, Json, Quiet, Threads, app

Vectors = Annotated[Path, typer.Argument(help="A vector file written by lagwise sens.", show_default=False)]
Top = Annotated[int, typer.Option("--top", "-n", min=0, help="How many words to show.")]


def _load(path: Path) -> Any:
    from .._load import load
    from ..vectors import WordVectors

    found = load(path)
    if not isinstance(found, WordVectors):
        raise ValueError(f"{path} holds a {type(found).__name__}; expected word vectors (lagwise sens writes them)")
    return found


@app.command()
def sens(
    store: Annotated[Path, typer.Argument(help="A count store.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Vector file to write.")],
    dim: Annotated[int, typer.Option("--dim", "-d", help="Dimensions of the vectors.")] = 100,
    preset: Annotated[
        str | None,
        typer.Option(help="balanced (the default), similarity, analogies or paper; options given come first."),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="sens, svd-ns, svd-ns-shifted, pmi, ppmi, sppmi, counts, log-counts or sqrt-counts; "
            "with plain settings where no preset is named."
        ),
    ] = None,
    alpha: Annotated[str | None, typer.Option(help="Threshold of PMI in bits, auto, or none for every pair.")] = None,
    shift: Annotated[float | None, typer.Option(help="Added to every kept entry, bits.")] = None,
    window: Annotated[int | None, typer.Option(help="Largest distance.")] = None,
    weight: Annotated[str | None, typer.Option(help="flat, harmonic, linear, or numbers: 2,2,1.5,1.5,1.")] = None,
    smoothing: Annotated[float | None, typer.Option(help="Exponent of the marginals.")] = None,
    smooth: Annotated[str | None, typer.Option(help="both or context.")] = None,
    power: Annotated[float | None, typer.Option(help="Vectors are U times eigenvalue to this power.")] = None,
    drop_first: Annotated[int | None, typer.Option(help="Leading components to leave out.")] = None,
    refit: Annotated[
        int | None, typer.Option(help="Steps that fit words anew, frequent pairs weighing more; 0 for none.")
    ] = None,
    pair_weight: Annotated[
        float | None, typer.Option(help="A pair weighs 1 + this * sqrt(min(count, --pair-max)) in the refit.")
    ] = None,
    pair_max: Annotated[float | None, typer.Option(help="Count at which the weight of a pair stays.")] = None,
    negatives: Annotated[float | None, typer.Option(help="k of sppmi.")] = None,
    psd: Annotated[bool, typer.Option("--psd", help="Raise the diagonal until no eigenvalue is negative.")] = False,
    random_negatives: Annotated[
        float | None, typer.Option(help="Unobserved pairs to add, as a share of the observed.")
    ] = None,
    tol: Annotated[float | None, typer.Option(help="Largest relative residual accepted.")] = None,
    solver: Annotated[str | None, typer.Option(help="lanczos, krylov or arpack.")] = None,
    dtype: Annotated[str, typer.Option(help="Storage type: float32 or float16.")] = "float32",
    seed: _app.Seed = 0,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train word vectors from a count store."""
    import time

    from ..merging import load_store
    from ..presets import DEFAULT_PRESET
    from ..sens import SENS

    _app.check_output(output, force)
    started = time.perf_counter()
    counts = load_store(store)
    given = {
        "variant": variant,
        "alpha": _alpha(alpha),
        "shift": shift,
        "window": window,
        "weight": _weight(weight),
        "smoothing": smoothing,
        "smooth": smooth,
        "power": power,
        "drop_first": drop_first,
        "refit": refit,
        "pair_weight": pair_weight,
        "pair_max": pair_max,
        "negatives": negatives,
        "random_negatives": random_negatives,
        "tol": tol,
        "solver": solver,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("alpha") == "none":
        given["alpha"] = None
    named = preset is not None
    if preset is None and variant is None:
        preset = DEFAULT_PRESET
    ruling = {name: given[name] for name in ("variant", "random_negatives") if name in given}
    settings = SENS(preset=preset, psd=psd, **ruling).settings()  # psd and these may rule out a preset's refit
    wanted = settings["window"], settings["weight"]
    _check_applies(given, {**settings, **given})
    if not named and window is None and weight is None and counts.max_lag and settings["window"] is not None:
        reach = min(settings["window"], counts.max_lag)  # the default goes as far as the store does
        settings["window"] = reach
        if not isinstance(settings["weight"], (str, type(None))):
            settings["weight"] = settings["weight"][:reach]
    if counts.max_lag is None or (window is not None and weight is None):
        settings["window"] = settings["weight"] = None  # a preset's weights belong to its own window
    if preset is not None:
        _say_window(counts, f"preset {preset}", wanted, {**settings, **given}, given, quiet)
    model = SENS(
        **{
            **settings,
            **given,
            "n_components": dim,
            "psd": psd,
            "preset": None,
            "random_state": seed,
            "n_threads": threads,
            "progress": not quiet,
        }
    )
    try:
        model.fit(counts)
    except KeyboardInterrupt:
        if model.__dict__.get("interrupted_"):
            model.word_vectors().save(output, dtype=dtype, overwrite=force)
            _app.say(f"interrupted: {output} holds the vectors reached, residual {model.residual_:.1e}")
        raise
    model.word_vectors().save(output, dtype=dtype, overwrite=force)
    if not model.converged_:
        _app.say(f"warning: the residual {model.residual_:.1e} is above the tolerance {model.tol:g}", quiet)
    facts = {
        "vectors": str(output),
        "words": len(model.vocabulary_),
        "dimensions": dim,
        "objective": model.objective_,
        "residual": model.residual_,
        "positive": model.n_positive_,
        "negative": model.n_negative_,
        "negative in top": model.negative_in_top_,
        "alpha": model.alpha_,
        "preset": preset,
        "products": model.n_products_,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if json:
        _app.emit(facts)
    else:
        _app.say(
            f"{output}: {facts['words']} words, {dim} dimensions, residual {model.residual_:.1e}, objective "
            f"{model.objective_:.1f}, {model.n_positive_} positive and {model.n_negative_} negative entries",
            quiet,
        )


_OF_PMI = ("sens", "svd-ns", "svd-ns-shifted", "pmi", "ppmi", "sppmi")
_VARIANTS_OF = {
    "alpha": ("sens", "svd-ns", "svd-ns-shifted"),
    "shift": ("sens", "svd-ns", "pmi", "ppmi"),
    "smoothing": _OF_PMI,
    "smooth": _OF_PMI,
    "negatives": ("sppmi",),
}


def _check_applies(given: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse options that the chosen setting does not use."""
    variant = settings["variant"]
    for name, variants in _VARIANTS_OF.items():
        if name in given and variant not in variants:
            raise ValueError(f"--{name} does nothing with --variant {variant}; it belongs to {', '.join(variants)}")
    for name in ("pair_weight", "pair_max"):
        if name in given and settings["refit"] == 0:
            raise ValueError(
                f"--{name.replace('_', '-')} belongs to the refit, which this setting has not; give --refit"
            )
    if given.get("smooth") == "context" and settings["smoothing"] == 1:
        raise ValueError("--smooth context does nothing without --smoothing below 1")


def _say_window(
    counts: Any, preset: str, wanted: tuple[Any, Any], settings: dict[str, Any], given: dict[str, Any], quiet: bool
) -> None:
    """Say where a window or a weight is used that is neither the preset's nor asked for."""
    windowed = counts.max_lag is None
    own = (counts.window_size, counts.options["weight"]) if windowed else (5, "flat")
    used = (settings["window"] or own[0], settings["weight"] or own[1])
    names = [
        (f"{name} {_shown_weight(now)}", f"{name} {_shown_weight(before)}")
        for name, now, before in zip(("window", "weight"), used, wanted)
        if name not in given and now != before
    ]
    if names:
        reason = (
            "the store holds no other"
            if windowed
            else f"the store holds lags 1 to {counts.max_lag}"
            if "window" not in given
            else "--weight sets another"
        )
        here, there = (" and ".join(part) for part in zip(*names))
        _app.say(f"{here} in place of {there} of {preset}: {reason}", quiet)


def _shown_weight(value: Any) -> str:
    return ",".join(f"{one:g}" for one in value) if isinstance(value, (list, tuple)) else str(value)


def _alpha(text: str | None) -> Any:
    if text is None or text.lower() in ("auto", "none"):
        return text and text.lower()
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--alpha is {text!r}; expected a number of bits, auto or none") from None


def _weight(text: str | None) -> Any:
    if text is None or text in ("flat", "harmonic", "linear"):
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--weight is {text!r}; expected flat, harmonic, linear, or numbers such as 2,2,1") from None


@app.command()
def similar(
    vectors: Vectors,
    words: Annotated[list[str], typer.Argument(show_default=False)],
    top: Top = 10,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show each word's nearest neighbours."""
    found = _load(vectors).neighbors(words, top)
    if json:
        _app.emit(found)
    else:
        _app.columns({word: [f"{near}  {cosine:.3f}" for near, cosine in line] for word, line in found.items()})


@app.command()
def analogy(
    vectors: Vectors,
    a: str,
    b: str,
    c: str,
    top: Top = 5,
    method: Annotated[str, typer.Option(help="add (3CosAdd) or mul (3CosMul).")] = "add",
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find what is to C as B is to A."""
    found = _load(vectors).analogy(a, b, c, top, method)
    if json:
        _app.emit({"answers": found})
    else:
        _app.columns({f"{a} : {b} = {c} : ?": [f"{word}  {score:.3f}" for word, score in found]})


@app.command()
def evaluate(
    vectors: Annotated[list[Path], typer.Argument(help="One or more vector files.", show_default=False)],
    similarity: Annotated[
        list[Path] | None,
        typer.Option(exists=True, help="Files of lines WORD WORD SCORE (or a folder of such .txt files)."),
    ] = None,
    analogies: Annotated[
        Path | None,
        typer.Option(
            help="File of questions, four words a line, under lines `: SECTION`; sections whose names begin with gram "
            "are syntactic, all others semantic.",
            **_app.WordFile,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="add (3CosAdd) or mul (3CosMul).")] = "add",
    oov: Annotated[
        str, typer.Option(help="Pairs and questions with unknown words: skip, or zero (scored 0, wrong).")
    ] = "skip",
    case: Annotated[
        str, typer.Option(help="Words of the files: auto (as the vectors' text was), lower or keep.")
    ] = "auto",
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure vectors against human similarity scores and analogy questions."""
    from ..evaluate import compare_similarity, evaluate_analogies, evaluate_similarity

    if not similarity and analogies is None:
        raise ValueError("nothing to evaluate; give --similarity FILE... or --analogies FILE")
    files = [file for path in similarity or () for file in _similarity_files(path)]
    models = [_load(path) for path in vectors]
    names = [str(path) for path in vectors]
    scores = [[evaluate_similarity(model, file, oov, case) for file in files] for model in models]
    answers = [
        None if analogies is None else evaluate_analogies(model, analogies, method, oov, case) for model in models
    ]
    against = [[compare_similarity(models[0], other, file, case) for file in files] for other in models[1:]]
    if json:
        _app.emit(_evaluation(names, files, scores, answers, against))
    else:
        _print_evaluation(names, scores, answers, against)


def _similarity_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.txt"))
    if not found:
        raise FileNotFoundError(f"the folder {path} holds no .txt files; name the similarity files themselves")
    return found


def _set_names(row: Any, files: list[Path]) -> list[str]:
    """Names of the sets; whole paths where two files share a name."""
    names = [one.name for one in row]
    return names if len(set(names)) == len(names) else [str(file) for file in files]


def _average(row: Any) -> float | None:
    """Mean correlation of the sets that have one."""
    scores = [one.rho for one in row if one.defined]
    return sum(scores) / len(scores) if scores else None


def _evaluation(names: list[str], files: list[Path], scores: Any, answers: Any, against: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, (vectors, row, answer) in enumerate(zip(names, scores, answers)):
        entry: dict[str, Any] = {
            "similarity": {
                name: {
                    "spearman": one.rho if one.defined else None,
                    "low": one.low if one.defined else None,
                    "high": one.high if one.defined else None,
                    "pairs": one.n_pairs,
                    "used": one.n_used,
                }
                for name, one in zip(_set_names(row, files), row)
            }
        }
        if row:
            entry["average"] = _average(row)
        if answer is not None:
            entry["analogies"] = {
                kind: answer.accuracy(kind) if answer.total(kind)[1] else None
                for kind in ("semantic", "syntactic", "all")
            }
            entry["sections"] = {
                section: {"correct": right, "asked": asked, "unknown": unknown}
                for section, (right, asked, unknown) in answer.sections.items()
            }
        if number:
            entry["first minus this"] = dict(zip(_set_names(row, files), against[number - 1]))
        result[vectors] = entry
    return result


def _print_evaluation(names: list[str], scores: Any, answers: Any, against: Any) -> None:
    header = ["", "pairs known", *(f"{name}" for name in names), *(f"p, first against {name}" for name in names[1:])]
    rows = []
    for number, first in enumerate(scores[0]):
        cells = [
            f"{one.rho:.3f} [{one.low:.3f}, {one.high:.3f}]" if one.defined else "not defined"
            for one in (row[number] for row in scores)
        ]
        tests = [f"{line[number]['p']:.3f}" for line in against]
        rows.append([first.name, f"{first.n_used}/{first.n_pairs}", *cells, *tests])
    if scores[0]:
        rows.append(["average", "", *(_shown(_average(row)) for row in scores)])
    if answers[0] is not None:
        for section, (_, asked, unknown) in answers[0].sections.items():
            rows.append([section, f"{asked}/{asked + unknown}", *(_accuracy(answer, section) for answer in answers)])
        for kind in ("semantic", "syntactic", "all"):
            _, asked, unknown = answers[0].total(kind)
            rows.append(
                [f"analogies, {kind}", f"{asked}/{asked + unknown}", *(_accuracy(answer, kind) for answer in answers)]
            )
    _app.grid(header, rows)


def _shown(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"


def _accuracy(answer: Any, kind: str) -> str:
    return f"{answer.accuracy(kind):.3f}" if answer.total(kind)[1] else "not asked"


@app.command()
def export(
    vectors: Vectors,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    format: Annotated[str, typer.Option(help="word2vec, word2vec-binary, glove or numpy.")],
    digits: Annotated[int | None, typer.Option(min=1, max=17, help="Significant digits (default: exact).")] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write vectors in another program's format."""
    from ..export import write_vectors

    _app.check_output(output, force, vectors)
    found = _load(vectors)
    write_vectors(found, output, format, digits, overwrite=force)
    if json:
        _app.emit({"file": str(output), "words": len(found), "dimensions": found.n_dimensions, "format": format})
    else:
        _app.say(f"{output}: {len(found)} words, {found.n_dimensions} dimensions, {format}", quiet)
