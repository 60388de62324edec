import numpy as np
import pytest
from lagwise._kernels import lanes

from lagwise.lds.recurrence import NO_IDS, Recurrence
from lagwise.operators import aligned_empty

SHAPES = {  # which entries of R are not zero
    "full": lambda R: R,
    "upper": lambda R: np.triu(R, -1),
    "lower": lambda R: np.tril(R, 1),
    "band": lambda R: np.triu(np.tril(R, 1), -1),
    "few columns": lambda R: R * (np.arange(len(R)) % 16 == 3),
    "zero": np.zeros_like,
}


def plain(R, table, ids, begins, lengths, direction, steps, x, states, add):
    """The kernel's steps, one lane and one token after another, in float64."""
    for lane in range(len(begins)):
        for t in range(*steps):
            if t >= lengths[lane]:
                break
            at = begins[lane] + (t if direction > 0 else lengths[lane] - 1 - t)
            r = R @ x[lane]
            x[lane] = r if table is None else r + table[ids[at]]
            states[at] = states[at] + r if add else x[lane]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("h", [1, 7, 8, 16, 17, 32, 33, 50])
@pytest.mark.parametrize("n", [1, 7, 8, 97, 200])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_plain_loop(dtype, h, n, shape):
    rng = np.random.default_rng(h * n)
    lengths = np.sort(rng.integers(0, 9, n))[::-1].copy()
    begins = np.cumsum(lengths) - lengths
    T = int(lengths.sum()) + 1  # a row that no lane has
    R = SHAPES[shape](rng.standard_normal((h, h)) / (2 * np.sqrt(h)))
    words = rng.standard_normal((5, h)).astype(dtype)
    ids = rng.integers(0, 5, T).astype(np.int32)
    for direction in (1, -1):
        for table, add in ((words, False), (words, True), (None, True)):
            x = np.zeros((-(-n // 8) * 8, h), dtype)
            x[:n] = rng.standard_normal((n, h))
            states = rng.standard_normal((T, h)).astype(dtype)
            want_x, want = x.astype(np.float64), states.astype(np.float64)
            recurrence = Recurrence(R, dtype)
            for steps in ((0, 3), (3, 9)):
                plain(R, table, ids, begins, lengths, direction, steps, want_x[:n], want, add)
                some = NO_IDS if table is None else ids
                recurrence.advance(table, some, begins, lengths, direction, steps, x, states, add)
            tolerance = 1e-5 if dtype is np.float32 else 1e-13
            np.testing.assert_allclose(states, want, rtol=0, atol=tolerance * np.abs(want).max())
            np.testing.assert_allclose(x, want_x, rtol=0, atol=tolerance * max(np.abs(want_x).max(), 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_triangle_takes_half(dtype):
    full, R = Recurrence(np.ones((200, 200)), dtype).packed, np.triu(np.ones((200, 200)), -1)
    for triangle in (R, R.T):
        assert len(Recurrence(triangle, dtype).packed) < 0.56 * len(full)


def test_a_lane_does_not_depend_on_the_others():
    """The same bits alone and among many lanes, in every place among them."""
    rng = np.random.default_rng(0)
    h, T = 40, 30
    recurrence = Recurrence(rng.standard_normal((h, h)) / 10, np.float32)
    table, ids = rng.standard_normal((6, h)).astype(np.float32), rng.integers(0, 6, T).astype(np.int32)
    start = rng.standard_normal(h).astype(np.float32)
    results = set()
    for n, place in ((1, 0), (9, 8), (64, 3), (100, 70)):
        begins, lengths = np.arange(n) * T, np.full(n, T)
        x = rng.standard_normal((-(-n // 8) * 8, h)).astype(np.float32)
        x[place] = start
        states = np.empty((n * T, h), np.float32)
        recurrence.advance(table, np.tile(ids, n), begins, lengths, 1, (0, T), x, states, False)
        results.add(states[place * T : (place + 1) * T].tobytes())
    assert len(results) == 1


def test_arrays_that_do_not_go_together_are_refused():
    h, n, T = 3, 9, 18
    good = {
        "table": np.zeros((2, h)),
        "ids": np.zeros(T, np.int32),
        "begins": np.arange(n) * 2,
        "lengths": np.full(n, 2),
        "direction": 1,
        "packed": np.zeros(h * 4),
        "reach": np.array([[0, h]]),
        "t0": 0,
        "t1": 2,
        "add": False,
        "x": np.zeros((16, h)),
        "y": aligned_empty((lanes.LANES, 8), np.float64),
        "states": np.zeros((T, h)),
    }
    lanes.lanes_walk(*good.values())
    for name, bad in {
        "table": np.zeros((0, h)),  # none, but it is not added
        "ids": np.zeros(T - 1, np.int32),
        "lengths": np.full(n - 1, 2),
        "packed": np.zeros(h * 4 - 1),
        "reach": np.array([[0, h], [0, h]]),
        "x": np.zeros((n, h)),
        "y": np.zeros((lanes.LANES - 1, 8)),
        "states": np.zeros((T, h + 1)),
    }.items():
        with pytest.raises(ValueError, match="do not go together"):
            lanes.lanes_walk(*{**good, name: bad}.values())
    for beyond in ((-1, h), (0, h + 1), (2, 1)):
        with pytest.raises(ValueError, match="beyond the matrix"):
            lanes.lanes_walk(*{**good, "reach": np.array([beyond])}.values())
