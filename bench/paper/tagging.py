"""Tagging UD English EWT, supervised and induced; prints tables.

python bench/paper/tagging.py supervised
python bench/paper/tagging.py induction --seeds 10 --iterations 30
"""

import argparse
import os
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from lagwise.hmm import HMM, HMMTagger, evaluate_induction, read_tagged

SHARED = Path(os.environ.get("LAGWISE_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def split(part, column):
    return read_tagged(SHARED / "tagged" / f"ud_ewt_{part}.tsv", column)


def supervised(arguments):
    """Every tagger trained on the train part and measured on the test part."""
    taggers = {
        "TnT (trigram, suffixes)": HMMTagger(unknown="suffix", backoff=0),
        "bigram, suffixes": HMMTagger(1, "suffix", backoff=0),
        "bigram": HMMTagger(1),
        "trigram": HMMTagger(),
    }
    print(
        f"{'tags':<10} {'tagger':<24} {'all':>7} {'known':>7} {'unknown':>8} {'share':>6} {'fit s':>6} {'tokens/s':>9}"
    )
    for column, name in ((3, "universal"), (2, "fine")):
        train, test = split("train", column), split("test", column)
        for label, tagger in taggers.items():
            started = time.perf_counter()
            tagger.fit(*train)
            fitted = time.perf_counter()
            tagger.predict(test[0])
            again = time.perf_counter()
            result = tagger.evaluate(*test)
            print(
                f"{name:<10} {label:<24} {result['accuracy']:7.4f} {result['known']:7.4f} {result['unknown']:8.4f} "
                f"{result['unknown_share']:6.3f} {fitted - started:6.1f} {result['n_tokens'] / (again - fitted):9.0f}",
                flush=True,
            )
        if arguments.nltk:
            from nltk.tag import tnt

            peer = tnt.TnT()
            peer.train([list(zip(*pair)) for pair in zip(*train)])
            peer_limit = arguments.nltk
            right = total = 0
            for words, tags in list(zip(*test))[:peer_limit]:
                right += sum(found[1] == tag for found, tag in zip(peer.tag(words), tags))
                total += len(words)
            ours = tagger.evaluate(test[0][:peer_limit], test[1][:peer_limit])["accuracy"]
            print(
                f"{name:<10} NLTK TnT on the first {peer_limit} sentences: {right / total:.4f}; ours on them {ours:.4f}",
                flush=True,
            )


def induction(arguments):
    """45 states on UD EWT + WikiText-2: matched with the universal tags of UD EWT train."""
    sentences, tags = split("train", 3)
    lines = [line.split() for line in open(SHARED / "lm" / "wikitext2.train.txt", encoding="utf-8") if line.strip()]
    counts = Counter(word for sentence in sentences + lines for word in sentence)
    words = {word: i for i, (word, n) in enumerate(counts.most_common()) if n >= 2}
    unknown = len(words)
    ids = [np.array([words.get(word, unknown) for word in sentence], dtype=np.int32) for sentence in sentences + lines]
    truth = [tag for sentence in tags for tag in sentence]
    print(
        f"{sum(map(len, ids))} tokens, {unknown + 1} symbols, {len(ids)} sequences, {arguments.states} states",
        flush=True,
    )
    results = {}
    for algorithm in arguments.algorithms.split(","):
        for init in arguments.starts.split(","):
            for seed in range(arguments.seeds):
                started = time.perf_counter()
                model = HMM(
                    arguments.states,
                    n_symbols=unknown + 1,
                    algorithm=algorithm,
                    init=init,
                    n_iter=arguments.iterations,
                    pseudocount={"emission": 1e-3, "transition": 1e-2, "start": 1e-2},
                    random_state=seed,
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(ids)
                found = evaluate_induction(np.concatenate(model.predict(ids[: len(sentences)])), truth)
                results.setdefault((algorithm, init), []).append(list(found.values()))
                print(
                    f"{algorithm} {init} seed {seed}: "
                    + ", ".join(f"{k} {v:.4f}" for k, v in found.items())
                    + f", {model.history_[-1] / sum(map(len, ids)):.4f} nats/token, {time.perf_counter() - started:.0f} s",
                    flush=True,
                )
    print(
        f"\n{'algorithm':<10} {'start':<8} " + " ".join(f"{name:>16}" for name in ("many-to-1", "1-to-1", "V-measure"))
    )
    for (algorithm, init), rows in results.items():
        table = np.array(rows)
        cells = " ".join(
            f"{m:8.4f} ± {s:.4f} " for m, s in zip(table.mean(axis=0), table.std(axis=0, ddof=min(1, len(rows) - 1)))
        )
        print(f"{algorithm:<10} {init:<8} {cells}")
    for algorithm in arguments.algorithms.split(","):
        for init in arguments.starts.split(","):
            if init != "random" and (algorithm, "random") in results:
                gain = np.array(results[algorithm, init])[:, 0] - np.array(results[algorithm, "random"])[:, 0]
                print(
                    f"{algorithm}: many-to-1 of {init} over random, paired: {100 * gain.mean():+.2f} points, "
                    f"{np.count_nonzero(gain > 0)} of {gain.size} seeds"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("supervised", "induction"))
    parser.add_argument(
        "--nltk", type=int, default=0, metavar="N", help="also NLTK's TnT on the first N test sentences"
    )
    parser.add_argument("--states", type=int, default=45)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--starts", default="random,sens")
    parser.add_argument("--algorithms", default="soft,hard")
    chosen = parser.parse_args()
    (supervised if chosen.what == "supervised" else induction)(chosen)
