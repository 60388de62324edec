"""Kernels about Python strings and tagged text, next to plain Python."""

import io
import sys

import numpy as np
import pytest
from lagwise._kernels.strings import strings_endings, strings_name, strings_number
from lagwise._kernels.tokens import WordTable


class Word(str):
    pass


def test_words_become_numbers():
    index = {"a": 3, "b": 0, "é": 7}
    sentences = [["a", "x", "b"], [], ["x", Word("a"), "y", "é", "", "\ud800"]]
    numbers, new = np.empty(9, dtype=np.int32), {}
    assert strings_number(sentences, index, new, numbers) == -1
    assert new == {"x": 0, "y": 1, "": 2, "\ud800": 3}
    assert numbers.tolist() == [3, -1, 0, -1, 3, -2, 7, -3, -4]


@pytest.mark.parametrize("wrong", [3, None, b"a", ["a"], 2.5])
def test_what_is_no_word_is_named(wrong):
    numbers = np.empty(4, dtype=np.int32)
    assert strings_number([["a"], ["a", wrong], ["a"]], {"a": 0}, {}, numbers) == 1
    with pytest.raises(TypeError):
        strings_number([("a",)], {"a": 0}, {}, numbers)
    with pytest.raises(IndexError):
        strings_number([["a"] * 5], {"a": 0}, {}, numbers)


def test_numbers_become_names():
    names = [f"tag {i}" for i in range(3)]
    before = [sys.getrefcount(name) for name in names]
    found = strings_name(np.array([2, 0, 1, 1], dtype=np.int32), np.array([0, 1, 1, 4]), names)
    assert found == [["tag 2"], [], ["tag 0", "tag 1", "tag 1"]]
    del found
    assert [sys.getrefcount(name) for name in names] == before
    for numbers, offsets in (([3], [0, 1]), ([-1], [0, 1]), ([0], [0, 2]), ([0, 0], [0, 2, 1]), ([0], [-1, 1])):
        with pytest.raises(IndexError):
            strings_name(np.array(numbers, dtype=np.int32), np.array(offsets), names)


def test_longest_endings():
    tree = {"c": (5, {"s": (1, {"e": (2, {})}), "é": (3, {})})}
    words, rows = ["cares", "s", "Cares", "", "xé", "ses", "es"], np.empty(7, dtype=np.int32)
    strings_endings(words, tree, 10, 9, rows)
    assert rows.tolist() == [2, 1, 9, 5, 3, 2, 2]
    strings_endings(words, tree, 1, 9, rows)
    assert rows.tolist() == [1, 1, 9, 5, 3, 1, 1]


@pytest.mark.parametrize("marks, text", [(b"\t\n\n\n", "ab\tX\n\né\tYY\nab\t\n\n"), (b"/ \n\0", "ab/X\né/YY ab/\n")])
def test_spelling(marks, text):
    table = WordTable()
    for word in ("ab", "é"):
        table.add(word.encode())
    ids, labels, offsets = np.array([0, 1, 0], np.int32), np.array([0, 1, 2], np.int32), np.array([0, 1, 1, 3])
    names, places = np.frombuffer(b"XYY", dtype=np.uint8), np.array([0, 1, 3, 3])
    marks, out = np.frombuffer(marks, dtype=np.uint8), np.empty(4, dtype=np.uint8)
    wanted = table.spell(ids, labels, offsets, names, places, marks, out)
    assert wanted < -4
    out = np.empty(-wanted, dtype=np.uint8)
    written = table.spell(ids, labels, offsets, names, places, marks, out)
    assert out[:written].tobytes().decode() == text
    for bad in ([2, 0, 0], [-1, 0, 0]):
        with pytest.raises(IndexError):
            table.spell(np.array(bad, np.int32), labels, offsets, names, places, marks, out)
        with pytest.raises(IndexError):
            table.spell(ids, np.array(bad, np.int32) * 2, offsets, names, places, marks, out)
    with pytest.raises(IndexError):
        table.spell(ids, labels, np.array([0, 4]), names, places, marks, out)


@pytest.mark.parametrize("block_bytes", [1, 3, 7, 64, 1 << 18])
def test_blocks_of_whole_lines(block_bytes):
    from lagwise.sources import read_blocks

    text = "\ufeffone two\n\nthree é\r\nlonger line than a block\n\n\nlast".encode()
    blocks = list(read_blocks([io.BytesIO(text)], block_bytes, whole_lines=True))
    parts = [block.data[: block.size].tobytes() for block in blocks]
    assert b"".join(parts) == text[3:]
    assert all(part.endswith(b"\n") for part in parts[:-1])
