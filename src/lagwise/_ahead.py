"""Work on pieces of a stream by several threads, its results taken in the order of the pieces."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

Item = TypeVar("Item")
Space = TypeVar("Space")
Result = TypeVar("Result")


@contextmanager
def in_order(
    work: Callable[[Item, Space], Result], items: Iterable[Item], spaces: Sequence[Space]
) -> Iterator[Iterator[tuple[Item, Callable[[], Result]]]]:
    """Call ``work(item, space)`` on every item, on as many threads as there are `spaces`.

    A context manager over an iterator of ``(item, result)`` in the order of the items; ``result()`` gives what `work`
    returned, or raises what it raised. At most ``2 * len(spaces)`` items wait for their reader. A space (a table, a
    buffer) serves one item at a time; with a single one everything happens in ``result()``. Work that has not begun
    when the context is left is dropped.
    """
    if len(spaces) == 1:
        yield ((item, partial(work, item, spaces[0])) for item in items)
        return
    free: queue.SimpleQueue[Space] = queue.SimpleQueue()
    for space in spaces:
        free.put(space)

    def borrow(item: Item) -> Result:
        space = free.get()
        try:
            return work(item, space)
        finally:
            free.put(space)

    def results(pool: ThreadPoolExecutor) -> Iterator[tuple[Item, Callable[[], Any]]]:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(borrow, item)))
            if len(waiting) > 2 * len(spaces):
                first, future = waiting.popleft()
                yield first, future.result
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result

    pool = ThreadPoolExecutor(len(spaces), thread_name_prefix="lagwise-ahead")
    try:
        yield results(pool)
    finally:
        pool.shutdown(cancel_futures=True)
