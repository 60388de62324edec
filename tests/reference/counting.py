"""Counting by the plainest loops: what every fast path must equal."""

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

SPACES = " \t\v\f\r"


def split_whitespace(line):
    """Tokens between ASCII white space; nothing else separates."""
    tokens, word = [], ""
    for character in line:
        if character in SPACES:
            if word:
                tokens.append(word)
            word = ""
        else:
            word += character
    return [*tokens, word] if word else tokens


# A mark counts with its letter. Python's \w has no marks, so classes are looked up one by one.
def split_words(line, drop=False):
    import unicodedata

    def is_letter(c):
        return unicodedata.category(c)[0] in "LMN"

    tokens, i = [], 0
    while i < len(line):
        if line[i].isspace():
            i += 1
        elif is_letter(line[i]) or line[i] == "_":
            j = i + 1
            while j < len(line):
                if is_letter(line[j]) or line[j] == "_":
                    j += 1
                elif line[j] in "'’.,-" and is_letter(line[j - 1]) and j + 1 < len(line) and is_letter(line[j + 1]):
                    j += 2
                else:
                    break
            tokens.append(line[i:j])
            i = j
        else:
            if not drop:
                tokens.append(line[i])
            i += 1
    return tokens


def fold(token, lowercase=False, digits=None):
    if lowercase:
        token = token.lower()
    if digits == "0":
        return "".join("0" if c.isdecimal() else c for c in token)
    if digits == "NUM":
        return re.sub(r"\d+", "NUM", token)
    return token


@dataclass
class Expected:
    words: list
    unigrams: dict
    lags: dict  # (k, left, right) -> count
    n_tokens: int
    counts: dict  # of every word, in the vocabulary or not
    longest_line: int

    def lag(self, k):
        index = {word: i for i, word in enumerate(self.words)}
        out = np.zeros((len(self.words),) * 2, dtype=np.int64)
        for (distance, left, right), count in self.lags.items():
            if distance == k:
                out[index[left], index[right]] += count
        return out

    def window(self, size, weight="flat"):
        gains = {
            "flat": lambda k: 1,
            "harmonic": lambda k: Fraction(1, k),
            "linear": lambda k: Fraction(size - k + 1, size),
        }
        gain = gains[weight] if isinstance(weight, str) else lambda k: Fraction(weight[k - 1])
        total = sum(1 * gain(k) * (self.lag(k) + self.lag(k).T).astype(object) for k in range(1, size + 1))
        return np.array(total, dtype=np.float64)


def count(
    lines,
    max_lag=7,
    min_count=5,
    max_size=None,
    keep=(),
    boundary="line",
    oov="keep",
    unk="<unk>",
    tokenizer=split_whitespace,
    lowercase=False,
    digits=None,
    pattern=None,
    wordlist=None,
    wordlist_exempt=3000,
    vocabulary=None,
    max_token_bytes=None,
):
    """lines: list of str without newlines. Returns what a store should hold. Tokens refused for their length are None."""
    sequences, current = [], []
    tokens_of_lines = [[fold(token, lowercase, digits) for token in tokenizer(line)] for line in lines]
    if max_token_bytes is not None:
        tokens_of_lines = [
            [t if len(t.encode("utf-8", "surrogateescape")) <= max_token_bytes else None for t in tokens]
            for tokens in tokens_of_lines
        ]
    for tokens in tokens_of_lines:
        if boundary == "line":
            sequences.append(tokens)
        elif boundary == "blank" and not tokens:
            sequences.append(current)
            current = []
        else:
            current = current + tokens
    sequences.append(current)
    counts = Counter(token for tokens in tokens_of_lines for token in tokens)
    n_tokens = sum(counts.values())
    counts.pop(None, None)

    def rank(item):
        return -item[1], item[0].encode("utf-8", "surrogateescape")

    def passes(word, count):
        known = wordlist is None or word in wordlist or count > wordlist_exempt
        return count >= min_count and known and (pattern is None or re.fullmatch(pattern, word))

    if vocabulary is not None:
        words = list(vocabulary)
        vocabulary = {word: counts.get(word, 0) for word in words}
    else:
        kept = {word: counts.get(word, 0) for word in keep}
        others = sorted(
            ((w, c) for w, c in counts.items() if passes(w, c) and w not in kept and (w != unk or oov != "unk")),
            key=rank,
        )
        if max_size is not None:
            others = others[: max_size - len(kept)]
        vocabulary = dict(others) | kept
        if oov == "unk":
            vocabulary[unk] = n_tokens - sum(vocabulary.values())
        words = [word for word, _ in sorted(vocabulary.items(), key=rank)]
    longest = 0
    lags, unigrams = Counter(), Counter({word: 0 for word in words})
    for tokens in sequences:
        mapped = [t if t in vocabulary else (unk if oov == "unk" else None) for t in tokens]
        if oov == "drop":
            mapped = [t for t in mapped if t is not None]
        longest = max(longest, len(mapped))
        unigrams.update(t for t in mapped if t is not None)
        for i, left in enumerate(mapped):
            for k in range(1, max_lag + 1):
                if left is not None and i + k < len(mapped) and mapped[i + k] is not None:
                    lags[k, left, mapped[i + k]] += 1
    return Expected(words, dict(unigrams), lags, n_tokens, dict(counts), longest)
