"""Hidden Markov models of discrete symbols: estimators, taggers, and inference as functions of arrays."""

from __future__ import annotations

from .inference import expected_counts, log_backward, log_forward, log_likelihood, posteriors, top_k_paths, viterbi
from .model import HMM, ConvergenceWarning, Counts

__all__ = ["HMM", "ConvergenceWarning", "Counts", "expected_counts", "log_backward", "log_forward",
           "log_likelihood", "posteriors", "top_k_paths", "viterbi"]
