import numpy as np

def block_pack(X: np.ndarray, scale: np.ndarray, tiles: np.ndarray, n_threads: int) -> None: ...
def csr_matmat(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    cuts: np.ndarray,
    tile: np.ndarray,
    scale: float,
    row_scale: np.ndarray,
    U: np.ndarray,
    zx: np.ndarray,
    out: np.ndarray,
    n_threads: int,
) -> None: ...
def csr_rmatmat(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    begin: int,
    end: int,
    tiles: np.ndarray,
    sums: np.ndarray,
    n_threads: int,
) -> None: ...
def block_unpack(
    tiles: np.ndarray,
    scale: float,
    row_scale: np.ndarray,
    U: np.ndarray,
    zx: np.ndarray,
    out: np.ndarray,
    n_threads: int,
) -> None: ...
