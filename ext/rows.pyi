from typing import Any

import numpy as np

def rows_sum(
    matrices: list[Any],
    factors: np.ndarray,
    n_columns: int,
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
def csr_transpose(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    n_columns: int,
    out_indptr: np.ndarray,
    out_indices: np.ndarray,
    out_data: np.ndarray,
    scratch: np.ndarray,
    n_threads: int,
) -> None: ...
