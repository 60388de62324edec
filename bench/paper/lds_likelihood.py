"""The log-likelihood of text rises at every EM iteration: 60 iterations, float64, V = 10,000, h = 50.

python -m bench.paper.lds_likelihood [--texts wikitext2 wikipedia] [--layouts stream lines gaps] [--pseudocounts 1 10 100]

WikiText-2 train and the first 2M white-space tokens of the Wikipedia corpus of the shared material; one stream, lines,
and gaps (oov "keep"). A step below -1e-9 of the log-likelihood above i.i.d. is a fall.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

import lagwise as lw
from bench.common import SHARED, corpus
from bench.lds_store import LINES

LAYOUTS = {
    "stream": {"boundary": "none", "oov": "unk"},
    "lines": {"boundary": "line", "oov": "unk"},
    "gaps": {"boundary": "none", "oov": "keep"},
}


def first_tokens(tokens: int):
    """Lines of the Wikipedia corpus until so many white-space tokens have passed."""
    seen = 0
    with open(corpus(LINES, clean=False), encoding="utf-8") as lines:
        for line in lines:
            yield line
            seen += len(line.split())
            if seen >= tokens:
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--pseudocounts", type=float, nargs="+", default=[1, 10, 100])
    parser.add_argument("--texts", nargs="+", default=["wikitext2", "wikipedia"])
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS))
    options = parser.parse_args()
    falls = 0
    for text, layout in itertools.product(options.texts, options.layouts):
        settings = {"max_size": options.vocabulary, "tokenizer": "words", "digits": "0", **LAYOUTS[layout]}
        if text == "wikitext2":
            settings.update(tokenizer="whitespace", digits=None, merge_unk=LAYOUTS[layout]["oov"] == "unk")
            counts = lw.count(SHARED / "lm" / "wikitext2.train.txt", **settings)
        else:
            counts = lw.count(lines=first_tokens(2_000_000), **settings)
        for pseudocount in options.pseudocounts:
            began = time.perf_counter()
            model = lw.LDS(options.dim, pseudocount=pseudocount, n_iter=options.iterations, tol=0, dtype="float64").fit(
                counts
            )
            steps = np.diff(model.history_)
            fell = bool((steps < -1e-9 * np.abs(model.history_[1:])).any())
            falls += fell
            print(
                f"{text} {layout} pseudocount {pseudocount:g}: {model.n_iter_} iterations from {model.start_}, "
                f"{model.history_[0]:.5f} -> {model.history_[-1]:.5f}, smallest step {steps.min():.3g}, "
                f"repairs {model.repairs_}{', FALL' if fell else ''}, {time.perf_counter() - began:.0f} s",
                flush=True,
            )
    print("no step fell" if not falls else f"{falls} runs fell")


if __name__ == "__main__":
    main()
