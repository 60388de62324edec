import numpy as np

def hankel_add(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    cuts: np.ndarray,
    tile: np.ndarray,
    first: int,
    row_scale: np.ndarray,
    out: np.ndarray,
    out_first: int,
    n_blocks: int,
    n_threads: int,
) -> None: ...
