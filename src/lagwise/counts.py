"""The count store: what one pass over a text leaves behind, in memory or on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from . import store as disk
from ._validation import check_int
from .matrices import Matrix, StoredMatrices
from .vocabulary import Normalization, Vocabulary


class CountStore:
    """Unigram and lagged co-occurrence counts of a text.

    Made by `lagwise.count`, `lagwise.count_ids` or `lagwise.load`.

    Attributes
    ----------
    vocabulary : Vocabulary
        Words by falling count, ties by byte order.
    unigrams : ndarray of int64, shape (n_words,)
        How often each word occurs.
    n_tokens : int
        Tokens of the text, words outside the vocabulary included.
    n_lines, longest_line : int
        Lines of the text; length in tokens of its longest sequence, after oov and boundary rules.
    max_lag : int or None
        Lags 1 .. max_lag are held one by one; None for a windowed store.
    window_size : int or None
        The window of a windowed store.
    options : dict
        All that was asked of the count and changes its result.
    ids, types : ndarray of int32 or None, Vocabulary or None
        With ``keep_ids``: the text as ids of the full, uncut vocabulary `types`, -1 behind each sequence.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        unigrams: np.ndarray,
        matrices: dict[str, Matrix],
        facts: dict[str, Any],
        options: dict[str, Any],
        ids: np.ndarray | None = None,
        types: Vocabulary | None = None,
        type_counts: np.ndarray | None = None,
        run: dict[str, Any] | None = None,
    ):
        self.vocabulary, self.unigrams, self.options = vocabulary, unigrams, options
        self.ids, self.types, self.type_counts = ids, types, type_counts
        self.run = run or {}
        self.entries: dict[str, Any] = {}  # of matrices that were written while they were counted
        self._matrices, self._facts = matrices, facts
        self.n_tokens: int = facts["n_tokens"]
        self.n_lines: int = facts["n_lines"]
        self.longest_line: int = facts["longest_line"]
        self.max_lag: int | None = options["max_lag"]
        self.window_size: int | None = options["window"]

    def __repr__(self) -> str:
        held = f"lags 1..{self.max_lag}" if self.max_lag else f"window {self.window_size}"
        return f"CountStore({len(self.vocabulary)} words, {self.n_tokens} tokens, {held})"

    @property
    def nnz(self) -> dict[str, int]:
        """Nonzeros of each matrix held."""
        if isinstance(self._matrices, StoredMatrices):
            return self._matrices.sizes()
        return {name: len(matrix[1]) for name, matrix in self._matrices.items()}

    def lag(self, k: int, raw: bool = False) -> Any:
        """Counts at one distance.

        Parameters
        ----------
        k : int
            The distance, 1 .. max_lag.
        raw : bool
            Hand out the arrays as they lie on disk: unsigned data of the narrowest type (sums may wrap).

        Returns
        -------
        csr_array of int64, shape (n_words, n_words)
            ``[i, j]`` counts how often word j follows word i at distance k; row sums are unigram counts less the
            occurrences with no word at that distance.

        Raises
        ------
        ValueError
            If the store does not hold this lag.
        """
        if self.max_lag is None:
            raise ValueError(
                f"this store holds one window of {self.window_size}, no single lags; count again with max_lag={k}"
            )
        k = check_int("k", k, 1)
        if k > self.max_lag:
            raise ValueError(f"counts hold lags 1..{self.max_lag}, not {k}; count again with max_lag={k}")
        return self._csr(self._matrices[f"lag{k}"], raw)

    def _csr(self, matrix: Matrix, raw: bool) -> Any:
        from scipy.sparse import csr_array

        indptr, indices, data = matrix
        if len(indices) < 2**31:
            indptr = indptr.astype(np.int32)
        shape = (len(self.vocabulary),) * 2
        result = csr_array((data if raw else data.astype(np.int64), indices, indptr), shape=shape)
        result.has_sorted_indices = result.has_canonical_format = True
        return result

    def window(self, size: int | None = None, weight: Any = None, n_threads: int | None = None) -> Any:
        """Symmetric co-occurrence within a window, X = sum over k of g(k) (lag(k) + lag(k)').

        Parameters
        ----------
        size : int, optional
            Largest distance; by default 5, or the store's own where it holds one window.
        weight : {"flat", "harmonic", "linear"} or array_like of float, shape (size,), optional
            g(k): 1, 1/k, (size - k + 1)/size, or given. By default flat, or the store's own.
        n_threads : int, optional
            Number of threads; changes no result.

        Returns
        -------
        csr_array, shape (n_words, n_words)
            int64 for flat weights, float64 otherwise.

        Raises
        ------
        ValueError
            If the store cannot answer; the message says how to count again.
        """
        indptr, indices, data, scale = self.window_arrays(size, weight, n_threads)
        own = self.options["weight"] if self.max_lag is None else weight
        flat = scale == 1 and data.dtype.kind == "u" and (own is None or isinstance(own, str) or set(own) == {1})
        values = data.astype(np.int64) if flat else data / scale
        return self._csr((indptr, indices, values), raw=True)

    def window_arrays(
        self, size: int | None = None, weight: Any = None, n_threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """The symmetric window as CSR arrays whose integer data are to be divided by a scale.

        Returns
        -------
        indptr, indices, data, scale
            data unsigned and exact for named weights, float64 with scale 1 for a given array.
        """
        from ._threads import resolve_threads
        from .cooccurrence import sum_rows, transpose, window_weights

        threads = resolve_threads(n_threads)
        n_words = len(self.vocabulary)
        if self.max_lag is None:
            own = self.options["weight"]
            if size is not None and check_int("size", size, 1) != self.window_size:
                raise ValueError(
                    f"this store holds window {self.window_size}, not {size}; count again with window={size}, "
                    f"or with max_lag={size}, which serves every window up to it"
                )
            if weight is not None and not _same_weight(weight, own):
                raise ValueError(
                    f"this store holds weight {own!r}, not {weight!r}; count again with that weight, or with "
                    f"max_lag={self.window_size}, which serves every weight"
                )
            one_sided, scale = self._matrices["window"], self.options["weight_scale"]
        else:
            size = check_int("size", 5 if size is None else size, 1)
            if size > self.max_lag:
                raise ValueError(
                    f"counts hold lags 1..{self.max_lag}, window {size} needs 1..{size}; count again with "
                    f"max_lag={size}"
                )
            weights, scale = window_weights(size, "flat" if weight is None else weight)
            lags = [self._matrices[f"lag{k}"] for k in range(1, size + 1)]
            builder = disk.MatrixBuilder()
            for lengths, pieces in sum_rows(lags, weights, (n_words, n_words), threads):
                builder.append(lengths, pieces)
            one_sided = builder.arrays()
        if one_sided[2].dtype.kind == "f":
            data = one_sided[2].view(np.uint64)
            turned = transpose(one_sided[0], one_sided[1], data, n_words, threads)
            return (*_add_real(one_sided, (turned[0], turned[1], turned[2].view(np.float64)), n_words), 1)
        turned = transpose(*one_sided, n_words, threads)
        builder = disk.MatrixBuilder()
        both = sum_rows([one_sided, turned], np.ones(2, dtype=np.uint64), (n_words, n_words), threads)
        for lengths, pieces in both:
            builder.append(lengths, pieces)
        return (*builder.arrays(), scale)

    def trim(
        self, *, min_count: int | None = None, max_size: int | None = None, n_threads: int | None = None
    ) -> CountStore:
        """Raise `min_count` or lower `max_size` without the text.

        Parameters
        ----------
        min_count, max_size : int, optional
            The new limits; by default the store's own.
        n_threads : int, optional
            Number of threads; changes no result.

        Returns
        -------
        CountStore
            The same as counting the text with these limits: words cut become gaps (oov "keep") or fold into the
            unknown symbol ("unk").

        Raises
        ------
        ValueError
            If the limits are looser than the store's, no word is left, or the store has oov "drop" and no ids.
        """
        from .merging import trim

        return trim(self, min_count=min_count, max_size=max_size, n_threads=n_threads)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the store to a folder, whole or not at all.

        Parameters
        ----------
        path : str or PathLike
            The folder; its parent must exist.
        overwrite : bool
            Replace a count store that is already there; anything else is never replaced.

        Raises
        ------
        FileExistsError, OSError
        """
        with disk.store_folder(path, overwrite) as folder:
            entries = {}
            for name, (indptr, indices, data) in self._matrices.items():
                for part, array, narrow in (
                    ("indptr", indptr, False),
                    ("indices", indices, False),
                    ("data", data, True),
                ):
                    entries[f"{name}.{part}"] = _write_array(
                        folder, f"{name}.{part}", array, narrow and data.dtype.kind == "u"
                    )
            self._write_rest(folder, entries)

    def _write_rest(self, folder: Path, entries: dict[str, Any]) -> None:
        entries["unigrams"] = _write_array(folder, "unigrams", self.unigrams)
        words = self.vocabulary.dumps()
        (folder / "vocabulary.txt").write_bytes(words)
        texts = {"vocabulary.txt": {"length": len(self.vocabulary), "crc32": disk.zlib.crc32(words)}}
        if self.ids is not None and self.types is not None and self.type_counts is not None:
            entries["ids"] = _write_array(folder, "ids", self.ids)
            entries["type_counts"] = _write_array(folder, "type_counts", self.type_counts)
            types = self.types.dumps()
            (folder / "types.txt").write_bytes(types)
            texts["types.txt"] = {"length": len(self.types), "crc32": disk.zlib.crc32(types)}
        meta = {
            "format": disk.FORMAT,
            "version": disk.VERSION,
            "options": self.options,
            "facts": self._facts,
            "normalization": self.vocabulary.normalization.to_dict(),
            "arrays": entries,
            "texts": texts,
        }
        disk.write_json(folder / "run.json", self.run)
        disk.write_json(folder / "meta.json", meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = False) -> CountStore:
        """Open a saved store; arrays are memory-mapped read-only.

        Parameters
        ----------
        path : str or PathLike
        verify : bool
            Also compare every checksum.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no store at `path`, or it is damaged or of a newer version.
        """
        folder = Path(path)
        meta = disk.read_meta(folder)
        try:
            return cls._open(folder, meta, verify)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"{path} is damaged: its meta.json is not that of a store ({error!r})") from None

    @classmethod
    def _open(cls, path: Path, meta: dict[str, Any], verify: bool) -> CountStore:
        folder = path
        arrays = {name: disk.read_array(folder, name, entry, verify) for name, entry in meta["arrays"].items()}
        normalization = Normalization(**meta["normalization"])
        words = _read_words(folder, "vocabulary.txt", meta, normalization, verify)
        options = meta["options"]
        names = [f"lag{k}" for k in range(1, options["max_lag"] + 1)] if options["max_lag"] else ["window"]
        matrices = {}
        for name in names:
            matrix = tuple(arrays[f"{name}.{part}"] for part in ("indptr", "indices", "data"))
            if len(matrix[0]) != len(words) + 1 or matrix[0][-1] != len(matrix[1]) or len(matrix[1]) != len(matrix[2]):
                raise ValueError(
                    f"{path} is damaged: the arrays of {name} do not fit each other and {len(words)} words"
                )
            matrices[name] = matrix
        if len(arrays["unigrams"]) != len(words):
            raise ValueError(f"{path} is damaged: {len(arrays['unigrams'])} unigram counts for {len(words)} words")
        if options["keep_ids"] and not {"ids", "type_counts"} <= arrays.keys():
            raise ValueError(f"{path} is damaged: its ids are missing")
        types = _read_words(folder, "types.txt", meta, normalization, verify) if "ids" in arrays else None
        run = {}
        try:
            run = disk.json.loads((folder / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            pass
        return cls(
            words,
            arrays["unigrams"],
            StoredMatrices(matrices, len(words), path),  # type: ignore[arg-type]
            meta["facts"],
            options,  # type: ignore[arg-type]
            arrays.get("ids"),
            types,
            arrays.get("type_counts"),
            run,
        )


def _read_words(
    folder: Path, name: str, meta: dict[str, Any], normalization: Normalization, verify: bool
) -> Vocabulary:
    entry = meta["texts"][name]
    try:
        raw = (folder / name).read_bytes()
        words = Vocabulary.loads(raw, normalization)
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is damaged: {name} cannot be read ({error})") from None
    if len(words) != entry["length"]:
        raise ValueError(f"{folder} is damaged: {name} holds {len(words)} words, its meta.json says {entry['length']}")
    if disk.zlib.crc32(raw) != entry["crc32"]:
        raise ValueError(f"{folder} is damaged: the checksum of {name} is not the one of meta.json")
    return words


def _write_array(folder: Path, name: str, array: np.ndarray, narrow: bool = False) -> dict[str, Any]:
    writer = disk.ArrayWriter(folder / f"{name}.npy", array.dtype, narrow)
    for start in range(0, len(array), 1 << 20):
        writer.append(array[start : start + (1 << 20)])
    return writer.close()


def _same_weight(asked: Any, own: Any) -> bool:
    if isinstance(asked, str) or isinstance(own, str):
        return isinstance(asked, str) and asked == own
    return np.array_equal(np.asarray(asked, dtype=np.float64), np.asarray(own, dtype=np.float64))


def _add_real(a: Matrix, b: Matrix, n_words: int) -> Matrix:
    from scipy.sparse import csr_array

    both = csr_array((a[2], a[1], a[0]), shape=(n_words, n_words)) + csr_array(
        (b[2], b[1], b[0]), shape=(n_words, n_words)
    )
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32), both.data
