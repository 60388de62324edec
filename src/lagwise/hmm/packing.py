"""Parameters as the kernels take them: padded, transposed, scaled, or as logarithms."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np

from .parameters import Parameters
from .plan import Plan, Workers, aligned_zeros
from .tables import scaled_rows


@dataclasses.dataclass
class Packed:
    """Parameters as the kernels take them: padded, transposed, emission rows scaled by powers of two."""

    parameters: Parameters
    table: np.ndarray  # (R, K) emission rows
    arrays: dict[str, np.ndarray]
    _logs: dict[str, np.ndarray] | None = None
    _lock: Any = dataclasses.field(default_factory=threading.Lock)

    @classmethod
    def of(cls, parameters: Parameters, table: np.ndarray, plan: Plan, threads: int | Workers = 1) -> Packed:
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
        emission = plan.kept("packed emission", (table.shape[0], P))
        exponent = scaled_rows(table, emission, threads)
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
                "exponent": exponent,
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
