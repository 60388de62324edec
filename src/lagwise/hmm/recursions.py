"""Forward-backward over many sequences: blocks of them as matrix products, the few that underflow in exact log space."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..operators import aligned_empty
from .parameters import Parameters

_BLOCK = 128  # sequences of one block, at most: its rows then stay in the cache
_SLICE_NUMBERS = 2_000_000  # numbers of forward rows kept at a time
_SLICE_FLOPS = 2_000_000_000  # work of one kernel call, so that Ctrl-C is seen


@dataclasses.dataclass
class Block:
    """Sequences of similar length, time-major: `rows[starts[t] + i]` is the emission row of slot i at time t."""

    sequences: np.ndarray  # (n,) int64, longest first
    rows: np.ndarray  # (positions,) int32
    starts: np.ndarray  # (L + 1,) int64
    slices: list[tuple[int, int]]  # times worked on in one call


class Plan:
    """How a fixed set of sequences is cut into blocks, and blocks into lanes whose sums are added in a fixed order.

    Nothing here depends on the number of threads, so results do not either.
    """

    def __init__(self, rows: np.ndarray, offsets: np.ndarray, n_states: int, n_rows: int, order: int):
        self.rows, self.offsets, self.n_rows = np.ascontiguousarray(rows, dtype=np.int32), offsets, n_rows
        self.n_states, self.order = n_states, order
        self.width = -(-n_states // 8) * 8
        self.row_size = self.width**order
        lengths = np.diff(offsets)
        order_of = np.argsort(-lengths, kind="stable")
        order_of = order_of[: np.count_nonzero(lengths)]
        self.blocks = [
            self._block(order_of[i : i + size])
            for size in [_block_size(order_of.size)]
            for i in range(0, order_of.size, size)
        ]
        costs = [block.rows.size + 4 * block.starts.size for block in self.blocks]
        n_lanes = min(len(self.blocks), max(2, min(16, rows.size // (8 * n_rows + 1))))
        self.lanes: list[list[int]] = [[] for _ in range(n_lanes)]
        loads = [0] * n_lanes
        for number in sorted(range(len(self.blocks)), key=lambda b: (-costs[b], b)):
            lightest = loads.index(min(loads))
            self.lanes[lightest].append(number)
            loads[lightest] += costs[number]
        self.needs_exact = np.zeros(lengths.size, dtype=bool)  # grows during learning; kept from step to step
        self._scratch: list[dict[str, np.ndarray]] = []
        self._lane_sums: list[dict[str, np.ndarray]] = []
        self._lock = threading.Lock()

    def _block(self, sequences: np.ndarray) -> Block:
        begins, lengths = self.offsets[sequences], np.diff(self.offsets)[sequences]
        running = sequences.size - np.searchsorted(lengths[::-1], np.arange(int(lengths[0])), side="right")
        starts = np.concatenate(([0], np.cumsum(running))).astype(np.int64)
        rows = self.rows[positions_of(starts, begins)]
        fits = max(1, _SLICE_NUMBERS // self.row_size)
        works = max(1, _SLICE_FLOPS // (6 * self.n_states**2 * self.n_states ** (self.order - 1)))
        step, slices, t = min(fits, works), [], 0
        while t < running.size:
            end = max(t + 1, int(np.searchsorted(starts, starts[t] + step, side="right")) - 1)
            slices.append((t, end))
            t = end
        return Block(sequences, rows, starts, slices)

    def scratch(self) -> dict[str, np.ndarray]:
        """Work space of one thread, used again by the next lane."""
        with self._lock:
            if self._scratch:
                return self._scratch.pop()
        size = max((int(b.starts[t1] - b.starts[t0]) for b in self.blocks for t0, t1 in b.slices), default=1)
        most = max((b.sequences.size for b in self.blocks), default=1)
        S = self.row_size
        return {
            "alpha": aligned_empty((size, S), np.float64),
            "scale": np.empty(size),
            "work": aligned_empty((64, S), np.float64),
            "before": aligned_zeros((most, S)),
            "beta": aligned_empty((most, S), np.float64),
        }

    def give_back(self, scratch: dict[str, np.ndarray]) -> None:
        """Return work space."""
        with self._lock:
            self._scratch.append(scratch)

    def lane_sums(self, lane: int) -> dict[str, np.ndarray]:
        """The sums of a lane, set to zero."""
        with self._lock:
            while len(self._lane_sums) <= lane:
                P, S = self.width, self.row_size
                self._lane_sums.append(
                    {
                        "start": aligned_zeros((P,)),
                        "second": aligned_zeros((P * P,)),
                        "transition": aligned_zeros((S * P,)),
                        "stop1": aligned_zeros((P,)),
                        "stop": aligned_zeros((S,)),
                        "emission": aligned_zeros((self.n_rows, P)),
                    }
                )
        for array in self._lane_sums[lane].values():
            array.fill(0.0)
        return self._lane_sums[lane]


def aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros whose rows begin at cache lines where their length allows: whole vectors are then read at once."""
    array = aligned_empty(shape, np.float64)
    array.fill(0.0)
    return array


def _block_size(n_sequences: int) -> int:
    if n_sequences < 16:
        return max(1, -(-n_sequences // 2))
    return min(_BLOCK, 8 * -(-n_sequences // 128))


def positions_of(starts: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Positions in the flat text of a block's time-major rows, given where its sequences begin."""
    running = np.diff(starts)
    times = np.repeat(np.arange(running.size), running)
    return begins[np.arange(starts[-1]) - np.repeat(starts[:-1], running)] + times


@dataclasses.dataclass
class Packed:
    """Parameters as the kernels take them: padded, transposed, emission rows scaled by powers of two."""

    parameters: Parameters
    table: np.ndarray  # (R, K) emission rows
    arrays: dict[str, np.ndarray]
    _logs: dict[str, np.ndarray] | None = None
    _lock: Any = dataclasses.field(default_factory=threading.Lock)

    @classmethod
    def of(cls, parameters: Parameters, table: np.ndarray, plan: Plan) -> Packed:
        K, P, S, order = plan.n_states, plan.width, plan.row_size, plan.order
        start = aligned_zeros((P,))
        start[:K] = parameters.start
        second = aligned_zeros((P, P))
        A = parameters.transition
        forward, backward = aligned_zeros((P,) * (order + 1)), aligned_zeros((P,) * (order + 1))
        final, final1 = aligned_zeros((P,) * order), aligned_zeros((P,))
        inside = (slice(K),) * order
        final[inside] = 1.0 if parameters.stop is None else parameters.stop
        if order == 1:
            forward[:K, :K], backward[:K, :K] = A, A.T
            final1[:] = final
        else:
            second[:K, :K] = parameters.second
            forward[:K, :K, :K] = A.transpose(1, 0, 2)
            backward[:K, :K, :K] = A.transpose(1, 2, 0)
            final1[:K] = 1.0 if parameters.stop1 is None else parameters.stop1
        _, exponent = np.frexp(table.max(axis=1))
        emission = aligned_zeros((table.shape[0], P))
        np.ldexp(table, -exponent[:, None], out=emission[:, :K])
        return cls(
            parameters,
            table,
            {
                "start": start,
                "second": second.reshape(-1),
                "forward": forward.reshape(-1),
                "backward": backward.reshape(-1),
                "final": final.reshape(S),
                "final1": final1,
                "emission": emission,
                "exponent": exponent.astype(np.int32),
            },
        )

    @property
    def logs(self) -> dict[str, np.ndarray]:
        """Logarithms for the exact kernels, made when first wanted."""
        with self._lock:
            if self._logs is None:
                self._logs = log_arrays(self.parameters, self.table)
            return self._logs


def log_arrays(
    parameters: Parameters, table: np.ndarray | None = None, log_table: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Logarithms and transposed copies of everything that the exact kernels and Viterbi take."""
    K, A = parameters.n_states, parameters.transition
    with np.errstate(divide="ignore"):
        logs = {
            "start": np.log(parameters.start),
            "table": np.log(table) if log_table is None else log_table,  # type: ignore[arg-type]
            "final": np.zeros((K,) * parameters.order) if parameters.stop is None else np.log(parameters.stop),
        }
        if parameters.order == 1:
            logs |= {"A": np.ascontiguousarray(A), "transition": np.log(A), "back": np.ascontiguousarray(A.T)}
        else:
            logs |= {
                "A": np.ascontiguousarray(A.transpose(1, 0, 2)),
                "back": np.ascontiguousarray(A.transpose(1, 2, 0)),
                "transition": np.log(A),
                "second": np.log(parameters.second),  # type: ignore[arg-type]
                "linear_second": parameters.second,
                "final1": np.zeros(K) if parameters.stop1 is None else np.log(parameters.stop1),
            }
        logs |= {"log_A": np.log(logs["A"]), "log_back": np.log(logs["back"])}
    return {name: np.ascontiguousarray(value, dtype=np.float64) for name, value in logs.items()}


def run_in_threads(
    function: Callable[[Any], Any], items: Sequence[Any], n_threads: int, stop: threading.Event
) -> list[Any]:
    """``[function(item) for item in items]`` on threads. An exception or Ctrl-C sets `stop`, which `function` looks at."""
    if n_threads == 1 or len(items) < 2:
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(n_threads, len(items))) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise


def forward_backward(
    plan: Plan,
    packed: Packed,
    n_threads: int,
    with_counts: bool = True,
    with_posterior: bool = False,
    stop: threading.Event | None = None,
) -> tuple[np.ndarray, Parameters | None, np.ndarray | None]:
    """Log-likelihoods, expected counts and posteriors of all sequences of a plan.

    Returns
    -------
    loglik : ndarray of float64, shape (n_sequences,)
        Nats; -inf for an impossible sequence, which adds no counts and has posterior 0.
    counts : Parameters or None
        Expected counts; `emission` has one row for each row of the emission table.
    posterior : ndarray, shape (n_positions, K), or None
    """
    loglik = np.zeros(plan.needs_exact.size)
    posterior = np.zeros((plan.rows.size, plan.n_states)) if with_posterior else None
    stop = threading.Event() if stop is None else stop

    def work(lane: int) -> tuple[dict[str, np.ndarray], Parameters | None]:
        scratch = plan.scratch()
        try:
            return _run_lane(plan, packed, lane, scratch, loglik, posterior, with_counts, stop)
        finally:
            plan.give_back(scratch)

    lanes = run_in_threads(work, range(len(plan.lanes)), n_threads, stop)
    return loglik, _reduce(plan, packed, lanes, n_threads) if with_counts else None, posterior


def _run_lane(
    plan: Plan,
    packed: Packed,
    lane: int,
    scratch: dict[str, np.ndarray],
    loglik: np.ndarray,
    posterior: np.ndarray | None,
    with_counts: bool,
    stop: threading.Event,
) -> tuple[dict[str, np.ndarray], Parameters | None]:
    blocks = [plan.blocks[number] for number in plan.lanes[lane]]
    while True:  # again from the start whenever a sequence turns out to need the exact kernel
        sums = plan.lane_sums(lane) if with_counts else None
        found = False
        for block in blocks:
            bad = _run_block(plan, packed, block, scratch, loglik, posterior, sums, stop)
            if np.any(bad & ~plan.needs_exact[block.sequences]):
                plan.needs_exact[block.sequences] |= bad
                found = True
                if with_counts:
                    break
        if not (found and with_counts):
            break
    exact = [int(i) for block in blocks for i in block.sequences if plan.needs_exact[i]]
    if not exact:
        return sums or {}, None
    counts = Parameters.zeros(plan.n_states, plan.n_rows, plan.order, True) if with_counts else None
    for i in exact:
        begin, end = int(plan.offsets[i]), int(plan.offsets[i + 1])
        out = None if posterior is None else posterior[begin:end]
        loglik[i] = exact_sequence(packed.logs, plan.rows[begin:end], counts, out, stop=stop)
    return sums or {}, counts


def _run_block(
    plan: Plan,
    packed: Packed,
    block: Block,
    scratch: dict[str, np.ndarray],
    loglik: np.ndarray,
    posterior: np.ndarray | None,
    sums: dict[str, np.ndarray] | None,
    stop: threading.Event,
) -> np.ndarray:
    from lagwise._kernels.hmm_blocks import block_backward, block_forward

    n, P, K = block.sequences.size, plan.width, plan.n_states
    bad = plan.needs_exact[block.sequences].astype(np.uint8)
    logs, product, exponents = np.zeros(n), np.ones(n), np.zeros(n, dtype=np.int64)
    alpha, scale, work, beta = scratch["alpha"], scratch["scale"], scratch["work"], scratch["beta"]
    m, starts = packed.arrays, block.starts

    def forward(t0: int, t1: int, before: np.ndarray, state: tuple[np.ndarray, ...]) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        block_forward(  # type: ignore[call-arg]
            plan.order,
            K,
            m["start"],
            m["second"],
            m["forward"],
            m["emission"],
            m["exponent"],
            block.rows,
            starts,
            t0,
            t1,
            before,
            *state,
            alpha,
            scale,
            work,
        )

    befores = [scratch["before"]]
    for t0, t1 in block.slices:
        forward(t0, t1, befores[-1], (bad, logs, product, exponents))
        if t1 < starts.size - 1:
            last = int(starts[t1 - 1] - starts[t0])
            running = int(starts[t1 + 1] - starts[t1])
            befores.append(aligned_empty((running, alpha.shape[1]), np.float64))
            befores[-1][:] = alpha[last : last + running]
    out = np.empty((block.rows.size, P)) if posterior is not None else np.empty((1, P))
    total = sums or {
        "start": m["start"],
        "second": m["second"],
        "transition": m["forward"],
        "stop1": m["final1"],
        "stop": m["final"],
        "emission": m["emission"],
    }  # stand-ins that are not written
    for number in range(len(block.slices) - 1, -1, -1):
        t0, t1 = block.slices[number]
        if number < len(block.slices) - 1:  # its forward rows were overwritten: make them again
            forward(t0, t1, befores[number], (bad, np.zeros(n), np.ones(n), np.zeros(n, dtype=np.int64)))
        block_backward(
            plan.order,
            K,
            m["second"],
            m["backward"],
            m["final1"],
            m["final"],
            m["emission"],
            block.rows,
            starts,
            t0,
            t1,
            befores[number],
            alpha,
            scale,
            bad,
            logs,
            product,
            exponents,
            beta,
            total["start"],
            total["second"],
            total["transition"],
            total["stop1"],
            total["stop"],
            total["emission"],
            out,
            sums is not None,
            posterior is not None,
            work,
        )
    loglik[block.sequences] = logs + exponents * np.log(2.0)
    if posterior is not None:
        posterior[positions_of(starts, plan.offsets[block.sequences])] = out[:, :K]
    return bad.astype(bool)


def _reduce(
    plan: Plan, packed: Packed, lanes: Iterable[tuple[dict[str, np.ndarray], Parameters | None]], n_threads: int
) -> Parameters:
    lanes = list(lanes)
    K, P, order = plan.n_states, plan.width, plan.order
    counts = Parameters.zeros(K, plan.n_rows, order, True)
    small = {
        name: np.zeros(size)
        for name, size in (
            ("start", P),
            ("second", P * P),
            ("transition", plan.row_size * P),
            ("stop1", P),
            ("stop", plan.row_size),
        )
    }
    for sums, _ in lanes:
        for name, array in small.items():
            array += sums[name]

    def add_rows(part: slice) -> None:
        total = counts.emission[part]
        for sums, _ in lanes:
            total += sums["emission"][part, :K]

    step = max(4096, -(-plan.n_rows // 8))
    run_in_threads(add_rows, [slice(i, i + step) for i in range(0, plan.n_rows, step)], n_threads, threading.Event())
    A, inside = packed.parameters.transition, (slice(K),) * (order + 1)
    counts.start += small["start"][:K]
    counts.stop += small["stop"].reshape((P,) * order)[inside[1:]]
    transition = small["transition"].reshape((P,) * (order + 1))[inside]
    if order == 1:
        counts.transition += A * transition
        counts.stop += small["stop1"][:K]  # sequences of one symbol
    else:
        counts.transition += A * transition.transpose(1, 0, 2)
        counts.second += packed.parameters.second * small["second"].reshape(P, P)[:K, :K]
        counts.stop1 += small["stop1"][:K]
    for _, exact in lanes:
        if exact is not None:
            counts = counts + exact
    return counts


def exact_sequence(
    logs: dict[str, np.ndarray],
    rows: np.ndarray,
    counts: Parameters | None,
    posterior: np.ndarray | None,
    stop: threading.Event | None = None,
) -> float:
    """Exact log-space forward-backward of one sequence in slices, with checkpoints; adds to counts and sets posterior."""
    from lagwise._kernels import hmm_exact as kernel

    order = logs["transition"].ndim - 1
    K, T = logs["start"].size, rows.size
    shape = (K,) * order
    step = max(1, min(1_000_000 // K**order, 20_000_000 // K ** (order + 1)))
    slices = [(t, min(t + step, T)) for t in range(0, T, step)]
    state, scale = np.full(shape, -np.inf), np.zeros(2)
    alpha, beta = np.empty((min(step, T), *shape)), np.empty((min(step, T), *shape))
    scales, befores = np.empty(min(step, T)), []
    table = logs["table"]

    def forward(t0: int, t1: int, state: np.ndarray, scale: np.ndarray) -> None:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        if order == 1:
            kernel.log_forward1(
                logs["start"], logs["A"], logs["transition"], table, rows, t0, t1, state, scale, alpha, scales
            )
        else:
            kernel.log_forward2(
                logs["start"],
                logs["linear_second"],
                logs["second"],
                logs["A"],
                logs["log_A"],
                table,
                rows,
                t0,
                t1,
                state,
                scale,
                alpha,
                scales,
            )

    for t0, t1 in slices:
        befores.append(state.copy())
        forward(t0, t1, state, scale)
    final = logs["final1"] if order == 2 and T == 1 else logs["final"]
    ends = (state[0] if order == 2 and T == 1 else state) + final
    top = ends.max()
    loglik = float(scale[0] + scale[1] + top + np.log(np.sum(np.exp(ends - top)))) if top > -np.inf else -np.inf
    if loglik == -np.inf and posterior is not None:
        posterior[:] = 0.0
    if loglik == -np.inf or (counts is None and posterior is None):
        return loglik
    state, scale = np.empty(shape), np.zeros(2)
    spare = np.empty((min(step, T), K))
    for number in range(len(slices) - 1, -1, -1):
        t0, t1 = slices[number]
        if number < len(slices) - 1:
            forward(t0, t1, befores[number].copy(), np.zeros(2))
        out = spare if posterior is None else posterior[t0:t1]
        out_counts = counts if counts is not None else Parameters.zeros(K, 1, order, True)
        if order == 1:
            kernel.log_backward1(
                logs["final"], logs["back"], logs["log_back"], table, rows, t0, t1, T, state, scale, beta, scales
            )
            kernel.add_counts1(
                logs["transition"],
                table,
                rows,
                t0,
                t1,
                T,
                befores[number],
                alpha,
                beta,
                counts is not None,
                out_counts.start,
                out_counts.transition,
                out_counts.stop,
                out_counts.emission,
                out,
            )
        else:
            kernel.log_backward2(
                logs["final1"],
                logs["final"],
                logs["linear_second"],
                logs["second"],
                logs["back"],
                logs["log_back"],
                table,
                rows,
                t0,
                t1,
                T,
                state,
                scale,
                beta,
                scales,
            )
            kernel.add_counts2(
                logs["second"],
                logs["transition"],
                table,
                rows,
                t0,
                t1,
                T,
                befores[number],
                alpha,
                beta,
                counts is not None,
                out_counts.start,
                out_counts.second,
                out_counts.transition,
                out_counts.stop1,
                out_counts.stop,
                out_counts.emission,
                out,
            )
    return loglik
