"""The `words` tokenizer as regular expressions: what the kernel must equal on real text."""

import re
import sys
import unicodedata
from functools import cache

_JOINERS = "'’.,-"


@cache
def _expressions():
    """Python's \\w lacks the marks, so the class of letters, marks and numbers is written out."""
    runs, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and (unicodedata.category(chr(code))[0] in "LMN")
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            runs.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    letter = f"[{''.join(runs)}]"
    inner = f"(?:[_{letter[1:-1]}]|(?<={letter})[{_JOINERS}](?={letter}))"
    word = f"[_{letter[1:-1]}]{inner}*"
    return re.compile(f"{word}|\\S"), re.compile(word)


def split(line, drop=False):
    """Tokens of one line; `drop` leaves out lone punctuation."""
    both, words = _expressions()
    return (words if drop else both).findall(line)


def fold(token, lowercase=False, digits=None):
    """Lower-case a token, map its decimal digits."""
    token = token.lower() if lowercase else token
    return token if digits is None else re.sub(r"\d" if digits == "0" else r"\d+", digits, token)
