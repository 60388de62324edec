"""Tag text files: blocks of whole lines on every core, written in the order of the text."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._ahead import in_order
from .._threads import resolve_threads
from ..scanning import BlockScanner, InvalidText, Place, decode_error
from ..sources import Block, list_sources, read_blocks, total_bytes
from ..vocabulary import Normalization
from .lexicon import Growing, Lexicon

if TYPE_CHECKING:
    from .tagger import HMMTagger

_BLOCK_BYTES = 1 << 18  # of text that a thread takes at once
_MOST_WORDS = 1 << 20  # distinct words that a thread remembers
MARKS = {"lines": b"\t\n\n\n", "pairs": b"/ \n\0"}  # see WordTable.spell


class _Lane:
    """What one thread knows: the words it has met, and the emission row of each."""

    def __init__(self, tagger: HMMTagger, lexicon: Lexicon, names: tuple[np.ndarray, np.ndarray], marks: bytes):
        self.tagger, self.lexicon, self.names = tagger, lexicon, names
        self.marks = np.frombuffer(marks, dtype=np.uint8)
        self.out = np.empty(4 * _BLOCK_BYTES, dtype=np.uint8)
        self._forget()

    def _forget(self) -> None:
        from lagwise._kernels.tokens import WordTable

        self.table, self.rows = WordTable(14), Growing(np.empty(0, dtype=np.int32))

    def _meet(self) -> None:
        """Find the rows of words that have come into the table."""
        words = self.table.texts(np.arange(len(self.rows.array), len(self.table)))
        get = self.tagger.vocabulary_.index.get
        rows = np.fromiter((get(word, -1) for word in words), dtype=np.int32, count=len(words))
        new = np.flatnonzero(rows < 0)
        rows[new] = self.lexicon.add([words[i] for i in new.tolist()])
        self.rows.append(rows)

    def tag(self, block: Block, scanner: BlockScanner, stop: threading.Event) -> tuple[bytes, int, int]:
        """The tagged text of a block, its sentences and words."""
        from lagwise._kernels.tokens import LINE_END

        if len(self.table) > _MOST_WORDS:
            self._forget()
        raw = scanner(block, self.table)
        self._meet()
        is_word = raw >= 0
        ids = raw[is_word]
        ends = np.flatnonzero(raw == LINE_END)
        ends = np.concatenate((ends - np.arange(len(ends)), [len(ids)]))  # words before each
        offsets = np.concatenate(([0], ends[np.diff(ends, prepend=0) > 0]))
        path = self.tagger._paths(self.rows.array[ids], offsets, self.lexicon, stop)
        while (written := self.table.spell(ids, path, offsets, *self.names, self.marks, self.out)) < 0:
            self.out = np.empty(-written, dtype=np.uint8)
        return self.out[:written].tobytes(), len(offsets) - 1, len(ids)


def tag_text(
    tagger: HMMTagger,
    source: Any,
    write: Callable[[bytes], Any],
    marks: bytes,
    errors: str,
    report: Callable[[int, int], None] | None = None,
) -> tuple[int, int]:
    """Tag the lines of files and hand the result to `write` piece by piece; returns the sentences and words."""
    n_threads, stop, lexicon = resolve_threads(tagger.n_threads), threading.Event(), tagger._lexicon()
    encoded = [tag.encode() for tag in tagger.tags_]
    names = np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum([0, *map(len, encoded)])
    scanner, place = BlockScanner(Normalization(), errors, None), Place()
    lanes = [_Lane(tagger, lexicon, names, marks) for _ in range(n_threads)]
    totals = [0, 0, 0]  # sentences, words, bytes

    def work(block: Block, lane: _Lane) -> tuple[bytes, int, int]:
        if stop.is_set():
            raise KeyboardInterrupt
        return lane.tag(block, scanner, stop)

    blocks = read_blocks(list_sources(source), _BLOCK_BYTES, whole_lines=True)
    with in_order(work, blocks, lanes) as tagged:
        try:
            for block, found in tagged:
                try:
                    text, sentences, words = found()
                except InvalidText as error:
                    raise decode_error(place, block, error.place) from None
                place.advance(block, int(np.count_nonzero(block.data[: block.size] == 10)))
                write(text)
                totals[:] = totals[0] + sentences, totals[1] + words, totals[2] + block.size
                if report:
                    report(totals[2], totals[1])
        except BaseException:
            stop.set()
            raise
    return totals[0], totals[1]


def bytes_to_read(source: Any) -> int | None:
    """How many bytes `tag_text` will read, where that is known."""
    return total_bytes(list_sources(source))
