import threading

import pytest

from lagwise._ahead import in_order


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_come_in_order_and_a_space_serves_one_item_at_a_time(n_threads):
    busy = [threading.Lock() for _ in range(n_threads)]
    taken = []

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    def work(item, lock):
        assert lock.acquire(blocking=False)
        try:
            return item * item
        finally:
            lock.release()

    with in_order(work, items(), busy) as results:
        for place, (item, result) in enumerate(results):
            assert item == place and result() == place * place
            assert len(taken) <= place + 2 * n_threads + 1  # no further ahead
    assert taken == list(range(50))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_work_raises_comes_with_its_item_and_the_rest_is_dropped(n_threads):
    begun = []

    def work(item, _):
        begun.append(item)
        if item == 3:
            raise KeyError(item)
        return item

    seen = []
    with pytest.raises(KeyError, match="3"), in_order(work, range(1000), [None] * n_threads) as results:
        for _, result in results:
            seen.append(result())
    assert seen == [0, 1, 2]
    assert max(begun) <= 3 + 2 * n_threads + 1


def test_nothing_runs_on_when_the_reader_leaves():
    started, release = threading.Event(), threading.Event()

    def work(item, _):
        started.set()
        release.wait(10)
        return item

    def leave():
        with in_order(work, range(100), [None, None]) as results:
            next(results)
            started.wait(10)
            release.set()
            raise InterruptedError

    before = threading.active_count()
    with pytest.raises(InterruptedError):
        leave()
    assert threading.active_count() == before
