"""The count matrices of an opened store: looked through once, when first used, so that no kernel leaves its arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

Matrix = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr int64, indices int32, data unsigned


class StoredMatrices(Mapping[str, Matrix]):
    """Matrices by name; a damaged one is a ValueError when it is taken out.

    Parameters
    ----------
    matrices : dict of str to (indptr, indices, data)
        Whose lengths fit together.
    n_words : int
        Rows and columns.
    path : Path
        Where they lie, for messages.
    """

    def __init__(self, matrices: dict[str, Matrix], n_words: int, path: Path):
        self._matrices, self._n_words, self._path = matrices, n_words, path
        self._unchecked = set(matrices)

    def __getitem__(self, name: str) -> Matrix:
        matrix = self._matrices[name]
        if name in self._unchecked:
            self._check(name, *matrix[:2])
            self._unchecked.discard(name)
        return matrix

    def __iter__(self) -> Iterator[str]:
        return iter(self._matrices)

    def __len__(self) -> int:
        return len(self._matrices)

    def sizes(self) -> dict[str, int]:
        """Number of nonzeros by name, without a look at them."""
        return {name: len(matrix[1]) for name, matrix in self._matrices.items()}

    def _check(self, name: str, indptr: np.ndarray, indices: np.ndarray) -> None:
        whole = indptr[0] == 0 and bool((np.diff(indptr) >= 0).all())
        for start in range(0, len(indices), 1 << 22):
            part = indices[start : start + (1 << 22)].view(np.uint32)  # a negative index is a very large one
            whole = whole and int(part.max()) < self._n_words
        if not whole:
            raise ValueError(
                f"{self._path} is damaged: {name} holds places outside its {self._n_words} words (lagwise verify says "
                "which file); count again"
            )
