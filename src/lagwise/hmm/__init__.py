"""Hidden Markov models of discrete symbols: estimators, taggers, and inference as functions of arrays."""

from __future__ import annotations

from .expectations import Counts
from .induction import align_states, evaluate_induction, many_to_one, one_to_one, v_measure
from .inference import expected_counts, log_backward, log_forward, log_likelihood, posteriors, top_k_paths, viterbi
from .model import HMM, ConvergenceWarning
from .tagged import read_tagged
from .tagger import HMMTagger

__all__ = [
    "HMM",
    "ConvergenceWarning",
    "Counts",
    "HMMTagger",
    "align_states",
    "evaluate_induction",
    "expected_counts",
    "log_backward",
    "log_forward",
    "log_likelihood",
    "many_to_one",
    "one_to_one",
    "posteriors",
    "read_tagged",
    "top_k_paths",
    "v_measure",
    "viterbi",
]
