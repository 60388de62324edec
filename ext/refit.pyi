import numpy as np

def words_refit(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    cuts: np.ndarray,
    row_log: np.ndarray,
    column_log: np.ndarray,
    factor: float,
    most: float,
    row_scale: np.ndarray,
    column_scale: np.ndarray,
    contexts: np.ndarray,
    words: np.ndarray,
    steps: int,
    extra: np.ndarray,
    target: np.ndarray,
    blocks: np.ndarray,
    n_threads: int,
) -> None: ...
