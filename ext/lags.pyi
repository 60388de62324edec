import numpy as np

LINE: int

def marks_size(places: int) -> int: ...
def windows_count(
    ids: np.ndarray,
    starts: np.ndarray,
    positions: np.ndarray,
    weights: np.ndarray,
    tasks: np.ndarray,
    places: np.ndarray,
    sums: np.ndarray,
    marks: np.ndarray,
    lengths: np.ndarray,
    task_lengths: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    n_threads: int,
) -> None: ...
def lags_count(
    ids: np.ndarray,
    starts: np.ndarray,
    positions: np.ndarray,
    tasks: np.ndarray,
    places: np.ndarray,
    sums: np.ndarray,
    marks: np.ndarray,
    lengths: np.ndarray,
    task_lengths: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    n_threads: int,
) -> None: ...
