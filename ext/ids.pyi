import numpy as np

LINE_END: int
REJECTED: int
FILE_END: int
DROP: int
END: int
BY_LINE: int
BY_FILE: int
BY_BLANK: int
STATE_SIZE: int

def ids_remap(
    raw: np.ndarray,
    ids: np.ndarray,
    rejected: int,
    boundary: int,
    thresholds: np.ndarray,
    seed: int,
    out: np.ndarray,
    state: np.ndarray,
) -> int: ...
def ids_index(
    ids: np.ndarray, n_words: int, starts: np.ndarray, positions: np.ndarray, scratch: np.ndarray, n_threads: int
) -> None: ...
