from collections.abc import Iterable
from typing import Any

import numpy as np

def strings_number(
    sentences: list[list[Any]], index: dict[str, int], new: dict[str, int], numbers: np.ndarray
) -> int: ...
def strings_name(numbers: np.ndarray, offsets: np.ndarray, names: list[Any]) -> list[list[Any]]: ...
def strings_endings(words: Iterable[str], tree: dict[str, Any], longest: int, none: int, rows: np.ndarray) -> None: ...
