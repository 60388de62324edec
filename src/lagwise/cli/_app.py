"""The command line's frame: one application, common options, and one clear line for every error."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer


def _version(asked: bool) -> None:
    if asked:
        from .._version import __version__

        print(__version__)
        raise typer.Exit


app = typer.Typer(
    name="lagwise",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help shows whole option names in a narrow terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Count text once; fit word vectors, linear dynamical systems and hidden Markov models.",
)


@app.callback()
def _all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results and errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing output.")]
Threads = Annotated[int | None, typer.Option("--threads", "-j", help="Number of threads (default: every core).")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**64 - 1, help="Random seed.")]
WordFile = {"exists": True, "dir_okay": False}  # options that name a file which must be there


def check_output(output: Path, force: bool, *inputs: Any) -> None:
    """Refuse an output that is there already, or is one of the inputs, before any work is done."""
    for given in inputs:
        if output.exists() and os.path.exists(given) and os.path.samefile(output, given):
            raise FileExistsError(f"{output} is also the input, which would be lost; choose another name")
    if str(output) == "-":
        raise ValueError("the output is a file, not a stream; give a name (/dev/stdout where it must be the stream)")
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; give the name of a file")
    if output.is_file() and not force:
        raise FileExistsError(f"{output} exists; remove it, choose another name or pass --force")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"the folder {output.parent} does not exist; make it first or choose another place")


def emit(result: dict[str, Any]) -> None:
    """Print a result as JSON on standard output."""
    import json

    print(json.dumps(result, ensure_ascii=False, default=float))


def say(text: str, quiet: bool = False) -> None:
    """Print a line for people on standard error."""
    if not quiet and sys.stderr is not None:
        try:
            print(text, file=sys.stderr)
        except OSError:
            pass  # nobody reads; the work is done all the same


def table(facts: dict[str, Any]) -> None:
    """Print facts as two columns on standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(show_header=False, box=None, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        for label, shown in _rows(str(name), value):
            grid.add_row(label, Text(shown))
    Console().print(grid)


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    """A fact as rows of a table; what has an inside of its own gets a row of its own."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10000:
        return [(name, f"{value:,}")]
    if not isinstance(value, dict):
        return [(name, _words(value))]
    apart = {key: inner for key, inner in value.items() if isinstance(inner, (dict, list, tuple)) and len(inner) > 1}
    plain = {key: inner for key, inner in value.items() if key not in apart}
    rows = [(name, _words(plain))] if plain or not apart else []
    return rows + [(f"{name} {key}", _words(inner)) for key, inner in apart.items()]


def _words(value: Any) -> str:
    """A value for people: six digits of a number, the first few of a long list."""
    if value is None or (isinstance(value, (list, tuple, dict)) and not value):
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        more = f", ... ({len(value)} in all)" if len(value) > 8 else ""
        return ", ".join(_words(inner) for inner in (value[:5] if more else value)) + more
    return str(value)


def columns(lists: dict[str, list[str]]) -> None:
    """Print lists side by side under their names."""
    longest = max(map(len, lists.values()), default=0)
    grid(list(lists), [[line[i] if i < len(line) else "" for line in lists.values()] for i in range(longest)])


def grid(header: list[str], rows: list[list[str]]) -> None:
    """Print a table on standard output; short rows are filled up."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False)
    for name in header:
        drawn.add_column(Text(name, style="bold"), no_wrap=True, overflow="ignore")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in [*row, *[""] * (len(header) - len(row))]))
    console = Console()
    wanted = Measurement.get(console, console.options.update(max_width=1 << 20), drawn).maximum
    Console(width=max(console.width, wanted)).print(drawn, soft_wrap=True)  # words are worth more than short lines


_MANY = ("--similarity",)  # options that take several values at once


def _is_ours(argument: str) -> bool:
    """Whether an argument names a file of lagwise (a safetensors file), which is no value of such an option."""
    try:
        with open(argument, "rb") as handle:
            head = handle.read(9)
    except OSError:
        return False
    return len(head) == 9 and head[8:] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32


def _spread(arguments: list[str]) -> list[str]:
    """Write `--option a b` as `--option a --option b` for options that take several values, up to a file of lagwise."""
    result: list[str] = []
    option = None
    for argument in arguments:
        if option is not None and _is_ours(argument):
            option = None
        if argument.startswith("-"):
            option = argument if argument in _MANY else None
            if option is None:
                result.append(argument)
        elif option is not None:
            result += [option, argument]
        else:
            result.append(argument)
    return result


def _option_names() -> set[str]:
    """Names of all options of all commands, as Python spells them."""

    def walk(command: Any) -> set[str]:
        inner = getattr(command, "commands", {}).values()
        return {parameter.name for parameter in command.params if parameter.name}.union(*map(walk, inner))

    return walk(typer.main.get_command(app))


_SPELLING = {
    "overwrite": "force",
    "n_components": "dim",
    "n_iter": "iterations",
    "n_threads": "threads",
    "random_state": "seed",
}


def _message(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}); choose smaller sizes, or cap it with --memory where the command has it"
    return str(error) or type(error).__name__


def spoken(text: str) -> str:
    """A message on one line and in the words of the command line: `name=value` becomes `--name value`."""
    text = re.sub(r" \([^()]*\blines=[^()]*\)", "", text)  # what only Python callers can do
    text = re.sub(r"\b\w+=[\w\"'.-]+ \((--[\w-]+)\)", r"\1", text)
    names = _option_names()

    def flag(match: re.Match[str]) -> str:
        name, value = _SPELLING.get(match[1], match[1]), match[3]
        if name not in names:
            return match[0]
        option = "--" + name.replace("_", "-")
        return (
            option if value in ("True", "") else f"no {option}" if value in ("False", "None") else f"{option} {value}"
        )

    text = re.sub(r"\b([a-z_]+)=([\"']?)([\w.<>-]*)\2", flag, text)
    text = re.sub(r"\b(n_components|random_state|n_threads|n_iter)\b", lambda match: f"--{_SPELLING[match[1]]}", text)
    text = re.sub(r"(--[\w-]+) \(\1\)", r"\1", text)
    return " ".join(text.split())


def _warn(message: Warning | str, *_: Any) -> None:
    say(f"lagwise: warning: {spoken(str(message))}")


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 an error, 2 wrong usage, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with warnings.catch_warnings():
            if "--debug" not in given:
                warnings.simplefilter("ignore" if {"-q", "--quiet"} & set(given) else "always", UserWarning)
                warnings.showwarning = _warn  # type: ignore[assignment]
            return _run(given)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _run(given: list[str]) -> int:
    try:
        result = app(_spread(given), standalone_mode=False)
        return result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        print("lagwise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:
        if "--debug" in given:
            raise
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # click's own: wrong usage, abort
            if hasattr(error, "show"):
                error.show()
            return int(error.exit_code)
        if type(error).__name__ == "Abort":
            print("lagwise: interrupted", file=sys.stderr)
            return 130
        print(f"lagwise: error: {spoken(_message(error))}", file=sys.stderr)
        return 1


# The modules that define commands, in the order in which the help lists them.
COMMANDS = {
    "counts": ("count", "info", "merge", "trim", "verify"),
    "vectors": ("sens", "similar", "analogy", "evaluate", "export"),
    "lds": ("lds", "embed", "dynamics"),
    "hmm": ("hmm",),
    "demo": ("demo",),
}


def register(asked: str | None = None) -> None:
    """Import the module that defines the command asked for; all of them where it is none of ours (help, a typing error)."""
    import importlib

    for module in [name for name, commands in COMMANDS.items() if asked in commands] or COMMANDS:
        importlib.import_module(f".{module}", __package__)
