import numpy as np

LANES: int

def panel_edges(h: int, itemsize: int) -> list[int]: ...
def lanes_walk(
    table: np.ndarray,
    ids: np.ndarray,
    begins: np.ndarray,
    lengths: np.ndarray,
    direction: int,
    packed: np.ndarray,
    reach: np.ndarray,
    t0: int,
    t1: int,
    add: bool,
    x: np.ndarray,
    y: np.ndarray,
    states: np.ndarray,
) -> None: ...
