"""Counting on many machines with Dask: word counts of every part, one vocabulary, pair counts of every part, a tree.

Only counts travel between machines, as bytes through Dask: no disk is shared but the text itself, which every worker
must be able to read under the same path (or as a remote path through fsspec). `lagwise.shards` holds what a worker does.
"""

from __future__ import annotations

import dataclasses
import logging
import operator
import os
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from . import counting
from . import store as disk
from ._progress import Progress
from ._threads import available_cores
from ._validation import check_int
from ._version import __version__
from .counts import CountStore
from .options import Plan, make_plan
from .parts import cut_files
from .pipeline import _thresholds, prepare_scanned
from .scanning import Scanned
from .segments import matrix_names
from .selection import Filter
from .shards import (
    Chosen,
    PartFacts,
    Words,
    add_blocks,
    add_facts,
    add_words,
    join_ids,
    join_sequences,
    part_counts,
    part_words,
)
from .sources import list_sources
from .spool import Pieces

FAN_IN = 8  # stores added by one task of the tree
RETRIES = 2  # of a task whose text could not be read; lost workers are made good for by Dask itself
PART_BYTES = (1 << 22, 1 << 28)  # least and most text of a part, where the caller does not say
_DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # Ctrl-C is the client's to hear


def count(files: Any, client: Any = None, *, part_bytes: int | None = None, **options: Any) -> CountStore:
    """Count text on a Dask cluster: the same store, byte for byte, as `lagwise.count` of the same files.

    Parameters
    ----------
    files : path, glob, folder or list of them
        Regular files or remote paths that the client and every worker can read. Large files are cut at line ends and
        small ones are counted together; compressed files are read whole by one worker.
    client : distributed.Client or str, optional
        The cluster; the address of its scheduler; or "local" for one process a core of this machine. By default the
        client in use.
    part_bytes : int, optional
        About how many bytes of text one task takes; by default a quarter of each core's share, 4 to 256 MiB. It
        changes no result.
    **options
        As for `lagwise.count`. `n_threads` are the threads of one task (default 1: Dask itself runs a task a core);
        `memory` and `tmpdir` are a task's own.

    Returns
    -------
    CountStore

    Raises
    ------
    ImportError
        If Dask is not installed.
    ValueError, TypeError, FileNotFoundError, OSError, UnicodeError
        As `lagwise.count`; also for standard input and pipes, which workers cannot read.
    RuntimeError
        If workers run another version of lagwise, or die again and again over one task.

    Notes
    -----
    Two passes over the text. In the first each task counts the words of its part; their sum gives the vocabulary by the
    rule of the local count. In the second each task counts pairs over that vocabulary, reading on behind its part as
    far as a window looks where sequences cross lines (``boundary="none"`` or ``"blank"``). The counts are added by a
    tree, a block of rows at a time. Tasks are pure functions of the text, so that what a lost worker held is counted
    again by another. Ctrl-C cancels what has not begun.
    """
    plan = _plan(options)
    with _connected(client) as connected:
        return _Job(connected, plan, files, part_bytes).run(None)


def count_to_store(
    path: str | os.PathLike[str],
    files: Any,
    client: Any = None,
    *,
    overwrite: bool = False,
    part_bytes: int | None = None,
    **options: Any,
) -> CountStore:
    """Count on a Dask cluster straight into a store on this machine's disk; see `count`.

    Parameters
    ----------
    path : str or PathLike
        The store's folder.
    overwrite : bool
        Replace a store that is already there.
    files, client, part_bytes, **options
        As for `count`.

    Returns
    -------
    CountStore
        The store on disk, memory-mapped.
    """
    plan = _plan(options)
    with disk.store_folder(path, overwrite) as folder, _connected(client) as connected:
        _Job(connected, plan, files, part_bytes).run(folder)
    return CountStore.load(path)


def _plan(options: dict[str, Any]) -> Plan:
    _dask()
    unknown = set(options) - set(counting.OPTIONS)
    if unknown:
        hint = "; text in memory is counted by lagwise.count" if "lines" in unknown else ""
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}{hint}")
    threads = options.get("n_threads")
    return make_plan(**{**counting.OPTIONS, **options, "n_threads": 1 if threads is None else threads})


def _dask() -> Any:
    try:
        import distributed
    except ImportError:
        raise ImportError(
            "counting on a cluster needs Dask: install the extra, pip install 'lagwise[distributed]'"
        ) from None
    return distributed


@contextmanager
def _connected(client: Any) -> Iterator[Any]:
    """A client from what the user gave; what is opened here is closed again."""
    dask = _dask()
    if client is None:
        try:
            client = dask.get_client()
        except ValueError:
            raise ValueError(
                'no Dask client is in use; pass client=Client(...), the address of a scheduler, or "local"'
            ) from None
    if isinstance(client, dask.Client):
        if client.asynchronous:
            raise TypeError("the client is asynchronous; pass one made with asynchronous=False")
        yield client
    elif not isinstance(client, str):
        raise TypeError(f"client is a {type(client).__name__}; expected a distributed.Client, an address or 'local'")
    elif client == "local":
        with _local_cluster(dask) as cluster:
            local = dask.Client(cluster)
            try:
                yield local
            except BaseException:
                with suppress(Exception):  # what stopped us is to be told, not that this was not done in time
                    local.close(timeout=0.05)
                raise
            local.close()
    else:
        with dask.Client(client) as remote:
            yield remote


@contextmanager
def _local_cluster(dask: Any) -> Iterator[Any]:
    """A process a core of this machine; an error or Ctrl-C does not wait for their tasks."""
    import asyncio

    async def kill() -> None:
        for worker in cluster.workers.values():
            worker.auto_restart = False
        await asyncio.gather(*(worker.kill(timeout=0.05) for worker in cluster.workers.values()))

    with dask.LocalCluster(
        n_workers=available_cores(),
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        preload=[_DEAF],
    ) as cluster:
        try:
            yield cluster
        except BaseException:
            with suppress(Exception):
                cluster.sync(kill)
            raise


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """A function that raises KeyboardInterrupt where a Ctrl-C came but was lost.

    What a finalizer raises Python drops, and Dask's finalizers run while results come in.
    """
    before: Any = signal.getsignal(signal.SIGINT)
    came = False

    def hear(number: int, frame: Any) -> None:
        nonlocal came
        came = True
        before(number, frame)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield check
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield check
        check()
    finally:
        signal.signal(signal.SIGINT, before)


class _Job:
    """One count on one cluster."""

    def __init__(self, client: Any, plan: Plan, files: Any, part_bytes: int | None):
        self.client, self.plan = client, plan
        self.futures: weakref.WeakSet[Any] = weakref.WeakSet()
        self.n_cores = max(1, sum(client.nthreads().values()))
        sources = list_sources(files)
        if part_bytes is None:
            total = sum(part.n_bytes for part in cut_files(sources, 2**62))
            part_bytes = int(np.clip(total // (4 * self.n_cores), *PART_BYTES))
        else:
            part_bytes = check_int("part_bytes", part_bytes, 1)
        self.parts = cut_files(sources, part_bytes)

    def run(self, folder: Path | None) -> CountStore:
        try:
            with _interrupts() as self.check_interrupt:
                return self._count(folder)
        except _dask().KilledWorker as error:
            raise RuntimeError(
                f"workers died again and again over one task ({error}); if they ran out of memory, give fewer threads "
                "or more memory to each worker, or smaller parts with part_bytes="
            ) from None
        finally:
            for future in list(self.futures):  # what nobody wants any more is not begun
                future.release()

    def submit(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """A future; additions go before new parts, so that few results wait in the workers' memory."""
        future = self.client.submit(function, *arguments, pure=False, **keywords)
        self.futures.add(future)
        return future

    def tree(self, futures: list[Any], add: Callable[..., Any], *arguments: Any) -> Any:
        """Add results in a tree, in order."""
        while len(futures) > 1:
            groups = [futures[i : i + FAN_IN] for i in range(0, len(futures), FAN_IN)]
            futures = [
                self.submit(add, group, *arguments, priority=1) if len(group) > 1 else group[0] for group in groups
            ]
        return futures[0]

    def _count(self, folder: Path | None) -> CountStore:
        started = time.perf_counter()
        worker_plan = dataclasses.replace(self.plan, rule=Filter(), fixed=None, progress=False)
        words = self._add_words(worker_plan)
        scanned = _as_scanned(words)
        prepared = prepare_scanned(scanned, self.plan, None, {"scan": time.perf_counter() - started})
        chosen = _choose(scanned, prepared, self.plan, min(len(self.parts), self.n_cores))
        started = time.perf_counter()
        facts, blocks = self._add_pairs(worker_plan, chosen, [one["n_tokens"] for one in words.parts])
        _check_sums(facts.unigrams, self.plan)
        sinks: dict[str, Any] = {
            name: disk.MatrixBuilder() if folder is None else disk.MatrixWriter(folder, name)
            for name in matrix_names(self.plan)
        }
        while blocks:
            block = blocks.pop(0).result()
            for name, (indptr, indices, data) in block.items():
                sinks[name].append(np.diff(indptr), [(indices, data)])
        known = {
            **prepared.facts,
            "n_tokens": sum(one["n_tokens"] for one in words.parts),
            "longest_line": join_sequences(sequences for sequences, _ in facts.parts),
            "n_in_stream": int(facts.unigrams.sum()),
        }
        run = {**prepared.run, "parts": len(self.parts), "cores": self.n_cores}
        run["seconds"]["count"] = round(time.perf_counter() - started, 4)
        ids = join_ids(kept for _, kept in facts.parts if kept is not None) if self.plan.keep_ids else None
        matrices = {name: sink.arrays() for name, sink in sinks.items()} if folder is None else {}
        full = (ids, prepared.types, prepared.type_counts)
        result = CountStore(prepared.vocabulary, facts.unigrams, matrices, known, self.plan.record(), *full, run)
        if folder is not None:
            result._write_rest(folder, {key: entry for sink in sinks.values() for key, entry in sink.close().items()})
        return result

    def _add_words(self, plan: Plan) -> Words:
        futures = [self.submit(part_words, part, plan, retries=RETRIES) for part in self.parts]
        total = self.tree(futures, add_words)
        self._wait(futures, "counting words")
        words: Words = total.result()
        versions = {one["version"] for one in words.parts}
        if versions != {__version__}:
            raise RuntimeError(
                f"the workers run lagwise {', '.join(sorted(versions))}, this process runs {__version__}; install one "
                "version"
            )
        return words

    def _add_pairs(self, plan: Plan, chosen: Chosen, n_tokens: list[int]) -> tuple[PartFacts, list[Any]]:
        with warnings.catch_warnings():  # the vocabulary is one task's value: kept by the scheduler, never lost
            warnings.filterwarnings("ignore", message="Sending large graph")
            shared = self.submit(_itself, chosen)
        before = np.concatenate([[0], np.cumsum(n_tokens)]).tolist()
        futures = [
            self.submit(part_counts, part, plan, shared, before[number], retries=RETRIES)
            for number, part in enumerate(self.parts)
        ]
        items = [
            [self.submit(operator.itemgetter(number), future, priority=2) for future in futures]
            for number in range(len(chosen.rows))
        ]
        facts = self.tree(items.pop(0), add_facts)
        blocks = [self.tree(item, add_blocks, chosen.n_words) for item in items]
        del items
        self._wait(futures, "counting pairs")
        return facts.result(), blocks

    def _wait(self, futures: list[Any], description: str) -> None:
        """Wait for the tasks of all parts, letting go of each; raise what one raised."""
        sizes = {future.key: part.n_bytes for future, part in zip(futures, self.parts)}
        finished = _dask().as_completed(futures)
        futures.clear()
        done = 0
        with Progress(self.plan.progress, description, sum(sizes.values()), "B") as bar:
            for future in finished:
                self.check_interrupt()
                if future.status != "finished":
                    future.result()
                done += sizes[future.key]
                bar.update(done)


def _itself(value: Any) -> Any:
    return value


def _as_scanned(words: Words) -> Scanned:
    """The merged word counts as a scanned text without ids, to choose the vocabulary as the local count does."""
    from ._kernels.tokens import WordTable

    table = WordTable(14)
    for word in words.words:
        table.add(word, 0)
    return Scanned(
        table,
        words.counts,
        Pieces(),
        [],
        sum(one["n_lines"] for one in words.parts),
        sum(one["n_refused"] for one in words.parts),
        max(one["table_bytes"] for one in words.parts),
    )


def _choose(scanned: Scanned, prepared: Any, plan: Plan, n_blocks: int) -> Chosen:
    """What workers need for the second pass: the vocabulary, and all words where something goes by them."""
    vocabulary = prepared.vocabulary
    types = thresholds = None
    if plan.keep_ids or plan.subsample:
        from .selection import select_words

        words, seen = vocabulary, np.zeros(len(vocabulary), dtype=np.int64)  # where every token was refused
        if scanned.counts.any():
            plain = dataclasses.replace(plan.normalization, unk=None)
            everything = select_words(scanned, Filter(min_count=1), plain, "keep", True)
            words, seen = everything.vocabulary, everything.counts
        types = words.dumps()
        if plan.subsample:
            thresholds = _thresholds(dataclasses.replace(scanned, counts=seen), plan.subsample)
    places = (scanned.table.find(word.encode("utf-8", "surrogateescape")) for word in vocabulary.words)
    counts = np.array([scanned.counts[place] if place >= 0 else 0 for place in places])
    share = np.cumsum(np.sqrt(counts + 1.0))  # of the nonzeros of the rows so far, roughly
    inner = np.searchsorted(share, share[-1] * np.arange(1, n_blocks) / n_blocks)
    rows = np.array([0, *inner, len(vocabulary)], dtype=np.int64)
    return Chosen(vocabulary.dumps(), vocabulary.normalization, rows, types, thresholds)


def _check_sums(unigrams: np.ndarray, plan: Plan) -> None:
    largest = int(unigrams.max(initial=0)) * int(plan.weights.sum(dtype=object)) if plan.window else 0
    if largest >= 2**63:
        raise OverflowError(
            f"weighted counts could reach {largest}, beyond 64 bits; count with a smaller window or flat weights, or "
            "use max_lag"
        )
