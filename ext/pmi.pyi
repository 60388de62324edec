import numpy as np

def csr_row_sums(data: np.ndarray, indptr: np.ndarray, sums: np.ndarray, n_threads: int) -> None: ...
def pmi_values(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    row_term: np.ndarray,
    column_term: np.ndarray,
    logs: np.ndarray,
    values: np.ndarray,
    begin: int,
    end: int,
    n_threads: int,
) -> None: ...
def rows_above(
    values: np.ndarray,
    indptr: np.ndarray,
    alpha: float,
    kept: np.ndarray,
    positive: np.ndarray,
    negative: np.ndarray,
    n_threads: int,
) -> None: ...
def csr_compact(
    values: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    alpha: float,
    shift: float,
    place: int,
    begin: int,
    end: int,
) -> int: ...
