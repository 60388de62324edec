import numpy as np

def best_paths(
    n_states: int,
    start: np.ndarray,
    weights: np.ndarray,
    columns: np.ndarray,
    final: np.ndarray,
    table: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    order: np.ndarray,
    costs: np.ndarray,
    path: np.ndarray,
    failed: np.ndarray,
) -> None: ...
def best_pair_paths(
    start: np.ndarray,
    second: np.ndarray,
    middle: np.ndarray,
    final1: np.ndarray,
    final: np.ndarray,
    first: np.ndarray,
    states: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    order: np.ndarray,
    costs: np.ndarray,
    place: np.ndarray,
    path: np.ndarray,
    failed: np.ndarray,
) -> None: ...
