"""Forward-backward over many sequences: blocks of them as matrix products, the few that underflow in exact log space."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

from ..operators import aligned_empty
from .checkpoints import go_back, go_forward
from .exact import exact_sequence
from .packing import Packed
from .parameters import Parameters
from .plan import Block, Plan, Workers, positions_of, run_in_threads
from .tables import each_part


def forward_backward(
    plan: Plan,
    packed: Packed,
    threads: int | Workers,
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

    lanes = run_in_threads(work, range(len(plan.lanes)), threads, stop)
    return loglik, _reduce(plan, packed, lanes, threads) if with_counts else None, posterior


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


def run_forward(
    plan: Plan,
    packed: Packed,
    block: Block,
    scratch: dict[str, np.ndarray],
    t0: int,
    t1: int,
    before: np.ndarray,
    sums: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Forward rows of a slice of a block, into the scratch space; returns those that the next slice begins with."""
    from lagwise._kernels.hmm_blocks import block_forward

    m, starts, alpha = packed.arrays, block.starts, scratch["alpha"]
    block_forward(  # type: ignore[call-arg]
        plan.order,
        plan.n_states,
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
        *sums,
        alpha,
        scratch["scale"],
        scratch["work"],
    )
    if t1 == starts.size - 1:
        return before
    last = int(starts[t1 - 1] - starts[t0])
    after = aligned_empty((int(starts[t1 + 1] - starts[t1]), alpha.shape[1]), np.float64)
    after[:] = alpha[last : last + len(after)]
    return after


def running_sums(bad: np.ndarray) -> tuple[np.ndarray, ...]:
    """What `run_forward` adds up for each sequence: whether it failed, logarithm, factor, exponent."""
    n = bad.size
    return bad, np.zeros(n), np.ones(n), np.zeros(n, dtype=np.int64)


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
    from lagwise._kernels.hmm_blocks import block_backward

    P, K, m = plan.width, plan.n_states, packed.arrays
    bad, logs, product, exponents = totals = running_sums(plan.needs_exact[block.sequences].astype(np.uint8))
    out = np.empty((block.rows.size if posterior is not None else 1, P))
    total = sums or {
        "start": m["start"],
        "second": m["second"],
        "transition": m["forward"],
        "stop1": m["final1"],
        "stop": m["final"],
        "emission": m["emission"],
    }  # stand-ins that are not written

    def forward(t0: int, t1: int, before: np.ndarray, again: bool) -> np.ndarray:
        if stop.is_set():
            raise KeyboardInterrupt
        return run_forward(plan, packed, block, scratch, t0, t1, before, running_sums(bad) if again else totals)

    def backward(t0: int, t1: int, before: np.ndarray) -> None:
        block_backward(
            plan.order,
            K,
            m["second"],
            m["backward"],
            m["final1"],
            m["final"],
            m["emission"],
            block.rows,
            block.starts,
            t0,
            t1,
            before,
            scratch["alpha"],
            scratch["scale"],
            bad,
            logs,
            product,
            exponents,
            scratch["beta"],
            total["start"],
            total["second"],
            total["transition"],
            total["stop1"],
            total["stop"],
            total["emission"],
            out,
            sums is not None,
            posterior is not None,
            scratch["work"],
        )

    states = go_forward(block.slices, forward, scratch["before"])
    go_back(block.slices, states, forward, backward)
    loglik[block.sequences] = logs + exponents * np.log(2.0)
    if posterior is not None:
        posterior[positions_of(block.starts, plan.offsets[block.sequences])] = out[:, :K]
    return bad.astype(bool)


def _reduce(
    plan: Plan, packed: Packed, lanes: Iterable[tuple[dict[str, np.ndarray], Parameters | None]], threads: int | Workers
) -> Parameters:
    from lagwise._kernels.hmm_blocks import rows_add

    lanes = list(lanes)
    K, P, order = plan.n_states, plan.width, plan.order
    counts = Parameters.zeros(K, 0, order, True)
    counts.emission = emission = plan.kept("expected emission", (plan.n_rows, K))
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
        for number, (sums, _) in enumerate(lanes):
            rows_add(sums["emission"], emission, part.start, part.stop, number == 0)

    each_part(add_rows, plan.n_rows, threads)
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
