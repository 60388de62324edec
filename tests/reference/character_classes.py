"""How the runs in lagwise._unicode were made from Python's own tables (of the Unicode version named there)."""

import itertools
import unicodedata


def class_letter(character):
    if character.isspace():
        return "S"
    if character == "_":
        return "U"
    return "W" if unicodedata.category(character)[0] in "LMN" else "O"


def runs():
    letters = (class_letter(chr(code)) for code in range(0x110000))
    return "".join(f"{len(list(group)):x}{letter}" for letter, group in itertools.groupby(letters))
