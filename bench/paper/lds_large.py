"""The whole Wikipedia corpus, V = 200,000, h = 200: counting, SSID and 20 EM iterations, with times and peak memory.

python -m bench.paper.lds_large [--vocabulary 200000] [--dim 200] [--iterations 20] [--lines N]

Each stage is a process of its own, so that its peak resident memory is its own (memory-mapped counts included). The
store and the models stay in the benchmark cache; `lagwise dynamics` prints the pairs of SSID and of EM.
"""

from __future__ import annotations

import argparse
import sys
import time

from bench.common import CACHE, corpus, peak_rss, run


def fit(store: str, model: str, dim: int, iterations: int, pseudocount: float, start: str | None) -> None:
    """One stage of learning, in this process."""
    import lagwise as lw

    init = {"init": lw.load(start)} if start else {}
    found = lw.LDS(dim, pseudocount=pseudocount, n_iter=iterations, tol=0, **init).fit(lw.load(store))
    found.save(model)
    print(
        f"  {found.start_}, {found.history_[0]:.4f} -> {found.history_[-1]:.4f} nats", found.repairs_, file=sys.stderr
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, help="the first lines only")
    parser.add_argument("--vocabulary", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--pseudocount", type=float, default=1000, help="1000: the paper's")
    parser.add_argument("--stage", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        store, model, iterations, *start = options.stage
        fit(store, model, options.dim, int(iterations), options.pseudocount, *(start or [None]))
        return

    text = corpus(options.lines, clean=False)
    name = f"lds-large-{options.lines or 'all'}-{options.vocabulary}"
    store = CACHE / f"{name}-store"
    ssid, em = (CACHE / f"{name}-{options.dim}-{options.pseudocount:g}-{n}.lds" for n in (0, options.iterations))
    own = [sys.executable, "-m", "bench.paper.lds_large", "--dim", options.dim, "--pseudocount", options.pseudocount]
    settings = ["--tokenizer", "words", "--digits", "0", "--boundary", "none", "--oov", "unk", "--max-lag", "7"]
    lagwise = [sys.executable, "-m", "lagwise"]
    stages = {
        "count": (store, [*lagwise, "count", text, "-o", store, "--max-size", options.vocabulary, *settings]),
        "SSID": (ssid, [*own, "--stage", store, ssid, 0]),
        f"{options.iterations} EM iterations": (em, [*own, "--stage", store, em, options.iterations, ssid]),
    }
    for stage, (made, command) in stages.items():
        if made.exists():
            print(f"{stage}: {made.name} is there already", flush=True)
            continue
        began = time.perf_counter()
        peak = peak_rss([str(part) for part in command])
        print(f"{stage}: {time.perf_counter() - began:.0f} s, peak {peak / 2**30:.2f} GiB", flush=True)
    for model in (ssid, em):
        table = CACHE / f"{model.name}.txt"
        run([*lagwise, "dynamics", str(model), "--pairs", "80", "--top", "6", "--rank", "correlation"], stdout=table)
        print(f"\n{model.name}\n{table.read_text()}", flush=True)


if __name__ == "__main__":
    main()
