import numpy as np

KEEP_DIGITS: int
ZERO_DIGITS: int
NUM_DIGITS: int

def room(size: int, digits: int) -> int: ...
def split_words(
    text: np.ndarray,
    size: int,
    classes: np.ndarray,
    drop_punctuation: bool,
    lowercase: bool,
    digits: int,
    out: np.ndarray,
) -> int: ...
def fold_words(text: np.ndarray, size: int, lowercase: bool, digits: int, out: np.ndarray) -> int: ...
