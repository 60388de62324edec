"""The words of a store or model, their order, and how text must be normalised to match them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._validation import check_bool, check_choice, unknown_word_message


@dataclasses.dataclass(frozen=True)
class Normalization:
    """How raw text becomes tokens; saved with every store and model and applied to every text given later.

    Attributes
    ----------
    tokenizer : {"whitespace", "words", "custom"}
    punctuation : {"keep", "drop"}
        "drop" leaves out the tokens that the ``words`` tokenizer makes of lone punctuation.
    lowercase : bool
        ``str.lower`` of each token.
    digits : {None, "0", "NUM"}
        "0" maps each decimal digit to 0, "NUM" each maximal run of decimal digits to NUM.
    unk : str or None
        The unknown symbol, where words outside the vocabulary were counted as one.
    """

    tokenizer: str = "whitespace"
    punctuation: str = "keep"
    lowercase: bool = False
    digits: str | None = None
    unk: str | None = None

    def __post_init__(self) -> None:
        check_choice("tokenizer", self.tokenizer, ("whitespace", "words", "custom"))
        check_choice("punctuation", self.punctuation, ("keep", "drop"))
        check_bool("lowercase", self.lowercase)
        check_choice("digits", self.digits, (None, "0", "NUM"))
        if self.punctuation == "drop" and self.tokenizer == "whitespace":
            raise ValueError('punctuation="drop" needs tokenizer="words"; white-space tokens keep their punctuation')

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dataclasses.asdict(self)


class Vocabulary(Sequence[str]):
    """An ordered list of distinct words with their normalisation.

    Parameters
    ----------
    words : iterable of str
        Distinct; bytes that are not UTF-8 stand as lone surrogates (``surrogateescape``).
    normalization : Normalization, optional

    Raises
    ------
    ValueError
        If a word occurs twice.
    """

    def __init__(self, words: Iterable[str], normalization: Normalization | None = None):
        self.words: list[str] = list(words)
        self.normalization = normalization or Normalization()
        self._index: dict[str, int] | None = None
        if len(self.index) != len(self.words):
            seen: set[str] = set()
            twice = next(word for word in self.words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
            raise ValueError(f"the word {twice!r} occurs twice in the vocabulary; words must be distinct")

    @property
    def index(self) -> dict[str, int]:  # type: ignore[override]
        """dict from word to id."""
        if self._index is None:
            self._index = {word: number for number, word in enumerate(self.words)}
        return self._index

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, number):  # type: ignore[no-untyped-def, override]
        return self.words[number]

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words and self.normalization == other.normalization

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"

    def id(self, word: str) -> int:
        """The id of a word; KeyError with close spellings if it is unknown."""
        try:
            return self.index[word]
        except KeyError:
            raise KeyError(unknown_word_message(word, self.words)) from None

    def lookup(self, tokens: Iterable[str]) -> np.ndarray:
        """Ids of tokens that are already normalised, int32 (n,); unknown ones get the unknown symbol's id or -1."""
        unknown = self.unknown_id
        get = self.index.get
        return np.fromiter((get(token, unknown) for token in tokens), dtype=np.int32)

    @property
    def unknown_id(self) -> int:
        """The id given to words outside the vocabulary: the unknown symbol's, or -1."""
        unk = self.normalization.unk
        return -1 if unk is None else self.index.get(unk, -1)

    def normalize(self, token: str) -> str:
        """Fold one token as the text was folded (case and digits)."""
        return fold_token(token, self.normalization)

    def split(self, lines: Iterable[str]) -> list[list[str]]:
        """The tokens of each line as they are written: split as the text was, but not folded.

        Lines that hold newlines are several lines.
        """
        from .text import split_lines

        return split_lines(self.normalization, lines)

    def encode(
        self,
        source: Any = None,
        *,
        lines: Iterable[Any] | None = None,
        errors: str = "strict",
        n_threads: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Turn text into ids under this vocabulary's normalisation.

        Parameters
        ----------
        source : path, list of paths or open binary file, optional
            Text in files, as for `lagwise.count`.
        lines : iterable of str or of token lists, optional
            Text in memory, one sequence a line.

        Returns
        -------
        ids : ndarray of int32, shape (n_tokens,)
            Words outside the vocabulary get the unknown symbol's id, or -1 where there is none.
        offsets : ndarray of int64, shape (n_lines + 1,)
            Line i is ``ids[offsets[i]:offsets[i + 1]]``.
        """
        from .text import encode

        return encode(self, source, lines=lines, errors=errors, n_threads=n_threads)

    # Storage: one word a line, escaped, as bytes.
    def dumps(self) -> bytes:
        """The words as bytes, one a line, with ``\\\\ \\n \\r \\xNN`` escapes."""
        return b"".join(_escape(word) + b"\n" for word in self.words)

    @classmethod
    def loads(cls, data: bytes, normalization: Normalization | dict[str, Any] | None = None) -> Vocabulary:
        """The inverse of `dumps`."""
        if isinstance(normalization, dict):
            normalization = Normalization(**normalization)
        return cls(read_words(data), normalization)

    def to_tensors(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and metadata that hold this vocabulary inside a safetensors file."""
        return (
            {"vocabulary": np.frombuffer(self.dumps(), dtype=np.uint8)},
            {"normalization": self.normalization.to_dict(), "n_words": len(self)},
        )

    @classmethod
    def from_tensors(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Vocabulary:
        """The inverse of `to_tensors`."""
        vocabulary = cls.loads(np.asarray(arrays["vocabulary"]).tobytes(), meta["normalization"])
        if len(vocabulary) != meta["n_words"]:
            raise ValueError(f"the vocabulary holds {len(vocabulary)} words where {meta['n_words']} were saved")
        return vocabulary


def encode_word(word: str, what: str) -> bytes:
    """The bytes of a word; ValueError where it holds what no bytes stand for."""
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what}, {word!r}, holds a lone surrogate at character {error.start}; clean it first"
        ) from None


_DIGITS = re.compile(r"\d")
_DIGIT_RUNS = re.compile(r"\d+")


def fold_token(token: str, normalization: Normalization) -> str:
    """Lower-case a token and map its digits as the normalisation says."""
    if normalization.lowercase:
        token = token.lower()
    if normalization.digits == "0":
        token = _DIGITS.sub("0", token)
    elif normalization.digits == "NUM":
        token = _DIGIT_RUNS.sub("NUM", token)
    return token


_ESCAPE = re.compile(rb"\\(\\|n|r|x[0-9a-f]{2})")


def read_words(data: bytes) -> list[str]:
    """The words that `Vocabulary.dumps` wrote, also where some come twice."""
    if data and not data.endswith(b"\n"):
        raise ValueError("the vocabulary is cut short: its last line has no end")
    return [_unescape(line) for line in data.split(b"\n")[:-1]]


def _escape(word: str) -> bytes:
    raw = word.encode("utf-8", "surrogateescape")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:  # bytes that are not UTF-8 are written as \xNN, so that the file itself is UTF-8
        return b"".join(
            b"\\x%02x" % ord(c.encode("utf-8", "surrogateescape")) if "\udc80" <= c <= "\udcff" else _escape(c)
            for c in word
        )
    return raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")


def _unescape(line: bytes) -> str:
    if b"\\" in line:
        line = _ESCAPE.sub(
            lambda m: {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}.get(m[1]) or bytes([int(m[1][1:], 16)]), line
        )
    return line.decode("utf-8", "surrogateescape")
