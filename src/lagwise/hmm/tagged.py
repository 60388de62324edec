"""Sentences and their tags: lists that are checked, and files of ``word TAB tag`` lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .._validation import check_int


def listed(X: Iterable[Sequence[str]]) -> tuple[list[list[str]], np.ndarray]:
    """Sentences as lists, and where each begins when they stand behind each other, int64 (n_sentences + 1,)."""
    sentences: list[Any] = list(X)
    if not set(map(type, sentences)) <= {list}:
        for number, sentence in enumerate(sentences):
            if isinstance(sentence, str) or not hasattr(sentence, "__iter__"):
                raise TypeError(not_words(number, sentence))
            sentences[number] = list(sentence)
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    return sentences, np.concatenate(([0], np.cumsum(lengths)))


def _sentences(X: Iterable[Sequence[str]]) -> list[list[str]]:
    """Lists of words."""
    sentences = listed(X)[0]
    if not all(issubclass(kind, str) for kind in set(map(type, chain.from_iterable(sentences)))):
        for number, sentence in enumerate(sentences):
            if not all(isinstance(word, str) for word in sentence):
                raise TypeError(not_words(number, sentence))
    return sentences


def not_words(number: int, sentence: Any) -> str:
    return f"sentence {number} is {sentence!r:.60}; expected a list of words"


def check_tagged(X: Iterable[Sequence[str]], y: Iterable[Sequence[str]]) -> tuple[list[list[str]], list[list[str]]]:
    """Lists of words and of tags of equal lengths."""
    sentences, tags = _sentences(X), _sentences(y)
    if len(sentences) != len(tags):
        raise ValueError(f"there are {len(sentences)} sentences but {len(tags)} tag sequences")
    for number, (words, labels) in enumerate(zip(sentences, tags)):
        if len(words) != len(labels):
            raise ValueError(f"sentence {number} has {len(words)} words but {len(labels)} tags")
    for name, lists in (("word", sentences), ("tag", tags)):
        empty = next((i for i, sentence in enumerate(lists) if "" in sentence), None)
        if empty is not None:
            raise ValueError(f"sentence {empty} has an empty {name}; expected strings that are not empty")
    if not any(sentences):
        raise ValueError("there are no words to learn from or to measure")
    return sentences, tags


def read_tagged(path: str | os.PathLike[str], column: int = 2) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences and tags of a file of ``word TAB tag`` lines with a blank line between sentences.

    Parameters
    ----------
    column : int
        Which column holds the tag, from 1 (the words are in column 1).

    Raises
    ------
    ValueError
        Naming the line that has too few columns, an empty word or tag, or is not UTF-8.
    """
    check_int("column", column, 2)
    sentences: list[list[str]] = [[]]
    tags: list[list[str]] = [[]]
    with open(path, "rb") as handle:
        for number, raw in enumerate(handle, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{os.fspath(path)} line {number} is not UTF-8 ({error.reason} at byte {error.start} of the line)"
                ) from None
            if not line.strip():
                if sentences[-1]:
                    sentences.append([])
                    tags.append([])
                continue
            if "\r" in line:
                raise ValueError(
                    f"{os.fspath(path)} line {number} has a carriage return inside; lines must end with a line feed"
                )
            fields = line.split("\t")
            if len(fields) < column:
                raise ValueError(
                    f"{os.fspath(path)} line {number} has {len(fields)} column(s) separated by tabs; the tag was "
                    f"to be in column {column}"
                )
            word, tag = fields[0], fields[column - 1]
            if not word.strip() or not tag.strip():
                raise ValueError(
                    f"{os.fspath(path)} line {number} has an empty {'tag' if word.strip() else 'word'}; expected "
                    f"a word in column 1 and its tag in column {column}"
                )
            sentences[-1].append(word)
            tags[-1].append(tag)
    if not sentences[-1]:
        sentences.pop()
        tags.pop()
    if not sentences:
        raise ValueError(f"{os.fspath(path)} holds no tagged words")
    return sentences, tags
