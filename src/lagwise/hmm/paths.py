"""Best paths of many sequences at once, over the states that each position can have, and their scores."""

from __future__ import annotations

import threading

import numpy as np

from ..operators import aligned_empty
from .candidates import Candidates
from .exact import viterbi_path
from .inference import path_score
from .packing import log_arrays
from .parameters import Parameters
from .plan import run_in_threads

_CALL_TRANSITIONS = 400_000_000  # of one kernel call, so that Ctrl-C is seen
_LONGEST_TRANSITIONS = 40_000_000  # of a sequence whose rows are all kept
_CALLS = 8  # at least, where there is work for threads


class PairDecoder:
    """Order-2 Viterbi with candidates; holds what does not depend on the text, so that a tagger makes it once."""

    def __init__(self, parameters: Parameters):
        K = parameters.n_states
        self.logs = log_arrays(parameters, np.zeros((0, K)))
        self.second, self.middle = transition_costs(self.logs["second"]), transition_costs(self.logs["log_A"])
        self.start, self.final1, self.final = -self.logs["start"], -self.logs["final1"], -self.logs["final"]

    def paths(
        self,
        candidates: Candidates,
        rows: np.ndarray,
        offsets: np.ndarray,
        n_threads: int,
        stop: threading.Event | None = None,
    ) -> np.ndarray:
        """Best state of each position, int32 (n,); ValueError naming an impossible sequence."""
        from lagwise._kernels.hmm_paths import best_pair_paths

        K = self.second.shape[0]
        path = np.zeros(rows.size, dtype=np.int32)
        most = candidates.most
        stop = threading.Event() if stop is None else stop

        def work(part: np.ndarray) -> int:
            if stop.is_set():
                raise KeyboardInterrupt
            longest, failed = int(lengths[part].max()), np.empty(part.size, dtype=np.int64)
            best_pair_paths(
                self.start,
                self.second,
                self.middle,
                self.final1,
                self.final,
                candidates.first,
                candidates.states,
                candidates.costs,
                rows,
                offsets,
                part,
                np.empty(longest * most**2),
                np.empty(longest + 1, dtype=np.int64),
                path,
                failed,
            )
            return _first_failure(part, failed)

        lengths = np.diff(offsets)
        parts, long = _cut(lengths, most**3, n_threads)
        failures = run_in_threads(work, parts, n_threads, stop)
        for i in [int(i) for i in failures if i >= 0] + long:
            symbols = rows[offsets[i] : offsets[i + 1]]
            used, local = np.unique(symbols, return_inverse=True)
            table = np.full((used.size, K), -np.inf)
            for number, row in enumerate(used):
                part = slice(int(candidates.first[row]), int(candidates.first[row + 1]))
                table[number, candidates.states[part]] = -candidates.costs[part]
            logs = {**self.logs, "table": table}
            path[offsets[i] : offsets[i + 1]] = viterbi_path(logs, local.reshape(-1).astype(np.int32), i, stop)
        return path


def best_labels(
    parameters: Parameters,
    table: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    n_threads: int,
    stop: threading.Event | None = None,
) -> np.ndarray:
    """Viterbi paths of all sequences, int32 (n,); ValueError naming an impossible sequence.

    Parameters
    ----------
    table : ndarray, shape (R, K)
        Emission rows (probabilities); position t uses ``table[rows[t]]``.
    """
    if parameters.order == 2:
        with np.errstate(divide="ignore"):
            candidates = Candidates.of(np.log(table))
        return PairDecoder(parameters).paths(candidates, rows, offsets, n_threads, stop)
    from lagwise._kernels.hmm_paths import best_paths

    logs = log_arrays(parameters, table)
    K = parameters.n_states
    P = -(-K // 8) * 8
    weights, columns = transition_costs(logs["log_A"]), transition_costs(logs["log_back"])
    start, padded = aligned_empty((P,), np.float64), aligned_empty((len(table), P), np.float64)
    start[:K], start[K:], padded[:, K:] = -logs["start"], np.inf, 0.0
    np.negative(logs["table"], out=padded[:, :K])
    final = -logs["final"]
    path, lengths = np.zeros(rows.size, dtype=np.int32), np.diff(offsets)
    stop = threading.Event() if stop is None else stop

    def work(part: np.ndarray) -> int:
        if stop.is_set():
            raise KeyboardInterrupt
        failed, costs = np.empty(part.size, dtype=np.int64), aligned_empty((int(lengths[part].max()), P), np.float64)
        best_paths(K, start, weights, columns, final, padded, rows, offsets, part, costs, path, failed)
        return _first_failure(part, failed)

    parts, long = _cut(lengths, K**2, n_threads)
    failures = run_in_threads(work, parts, n_threads, stop)
    for i in [int(i) for i in failures if i >= 0] + long:
        path[offsets[i] : offsets[i + 1]] = viterbi_path(logs, rows[offsets[i] : offsets[i + 1]], i, stop)
    return path


def transition_costs(logs: np.ndarray) -> np.ndarray:
    """Negative logarithms with their last axis padded by inf to a multiple of 8, and raised alike so that all are >= 0.

    The kernels compare costs by their bits, which has the order of numbers from 0 only; a probability of 1 + 1e-9 is
    none of them.
    """
    K = logs.shape[-1]
    costs = aligned_empty((*logs.shape[:-1], -(-K // 8) * 8), np.float64)
    costs[..., K:] = np.inf
    np.subtract(max(0.0, float(logs.max())), logs, out=costs[..., :K])
    return costs


def _cut(lengths: np.ndarray, transitions: int, n_threads: int) -> tuple[list[np.ndarray], list[int]]:
    """Sequences in parts for one kernel call each, and those that are too long for it, given transitions a position."""
    long = np.nonzero(lengths > _LONGEST_TRANSITIONS // transitions)[0]
    short = np.nonzero(lengths <= _LONGEST_TRANSITIONS // transitions)[0].astype(np.int64)
    total = int(lengths[short].sum())
    size = max(1, min(_CALL_TRANSITIONS // transitions, -(-total // _CALLS) if n_threads > 1 else total))
    cuts = np.searchsorted(np.cumsum(lengths[short]), np.arange(size, total + size, size))
    return [part for part in np.split(short, np.unique(cuts)) if part.size], [int(i) for i in long]


def _first_failure(part: np.ndarray, failed: np.ndarray) -> int:
    return int(part[np.argmax(failed >= 0)]) if failed.max(initial=-1) >= 0 else -1


def joint_score(
    parameters: Parameters, table: np.ndarray, rows: np.ndarray, offsets: np.ndarray, path: np.ndarray
) -> float:
    """Sum of log P(w, path) over the sequences, nats."""
    if parameters.order == 2:
        logs = log_arrays(parameters, table)
        return float(sum(path_score(logs, rows[a:b], path[a:b]) for a, b in zip(offsets[:-1], offsets[1:])))
    K, lengths = parameters.n_states, np.diff(offsets)
    begins, ends = offsets[:-1][lengths > 0], offsets[1:][lengths > 0] - 1
    inner = np.ones(max(rows.size - 1, 0), dtype=bool)
    inner[begins[1:] - 1] = False
    states = path.astype(np.int64)
    pairs = np.bincount((states[:-1] * K + states[1:])[inner], minlength=K * K)
    used = np.nonzero(pairs)[0]
    with np.errstate(divide="ignore"):
        total = np.sum(np.log(parameters.start)[states[begins]])
        total += np.sum(np.log(table.reshape(-1).take(rows * np.int64(K) + states)))
        total += np.sum(pairs[used] * np.log(parameters.transition.reshape(-1)[used]))
        if parameters.stop is not None:
            total += np.sum(np.log(parameters.stop)[states[ends]])
    return float(total)
