"""Tagging UD English EWT, supervised and induced; prints tables.

python bench/paper/tagging.py choose          # the settings, on the dev part
python bench/paper/tagging.py supervised      # the test part
python bench/paper/tagging.py induction --seeds 10 --iterations 100 --minutes 7      # again until nothing is left
"""

import argparse
import json
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


def choose(arguments):
    """The settings of the tagger: trained on the train part, compared on the dev part alone."""
    print(f"{'penalty':>8} {'rare':>5} {'backoff':>8} {'universal':>10} {'fine':>8} {'mean':>8}")
    found = {}
    for penalty in (0.25, 0.5, 1.0, 2.0, 4.0):
        for rare in (10,):
            taggers = [HMMTagger(penalty=penalty, rare=rare).fit(*split("train", column)) for column in (3, 2)]
            for backoff in (0.0, 0.25, 0.5, 1.0, 2.0):
                scores = [
                    tagger.set_params(backoff=backoff)._prepare() or tagger.score(*split("dev", column))
                    for tagger, column in zip(taggers, (3, 2))
                ]
                found[penalty, rare, backoff] = float(np.mean(scores))
                print(
                    f"{penalty:8} {rare:5} {backoff:8} {scores[0]:10.4f} {scores[1]:8.4f} {np.mean(scores):8.4f}",
                    flush=True,
                )
    print("best on dev: penalty {}, rare {}, backoff {}".format(*max(found, key=found.get)))


def induction_text():
    """UD EWT train + WikiText-2 train as ids: (sequences, n_symbols, n_sentences of UD EWT, their universal tags)."""
    sentences, tags = split("train", 3)
    with open(SHARED / "lm" / "wikitext2.train.txt", encoding="utf-8") as handle:
        sentences_and_lines = sentences + [line.split() for line in handle if line.strip()]
    counts = Counter(word for sentence in sentences_and_lines for word in sentence)
    words = {word: i for i, (word, n) in enumerate(counts.most_common()) if n >= 2}
    unknown = len(words)  # the symbol of all words that occur once
    ids = [np.array([words.get(word, unknown) for word in line], dtype=np.int32) for line in sentences_and_lines]
    return ids, unknown + 1, len(sentences), [tag for sentence in tags for tag in sentence]


def induce(ids, n_symbols, n_sentences, truth, cell, arguments):
    """One run: how well its states match the tags, and how EM went."""
    started = time.perf_counter()
    model = HMM(
        cell["states"],
        n_symbols=n_symbols,
        algorithm=cell["algorithm"],
        init=cell["start"],
        n_iter=cell["iterations"],
        pseudocount={"emission": 1e-3, "transition": 1e-2, "start": 1e-2},
        random_state=cell["seed"],
        n_threads=arguments.threads,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(ids)
    measures = evaluate_induction(np.concatenate(model.predict(ids[:n_sentences])), truth)
    return {
        **cell,
        **measures,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "nats_per_token": model.history_[-1] / sum(map(len, ids)),
        "seconds": time.perf_counter() - started,
    }


def induction(arguments):
    """45 states on UD EWT + WikiText-2, matched with the universal tags of UD EWT train.

    Every run is a line of the results file; runs that it holds are not done again, so the work can be cut into pieces.
    """
    cells = [
        {
            "states": arguments.states,
            "iterations": arguments.iterations,
            "algorithm": algorithm,
            "start": start,
            "seed": seed,
        }
        for seed in range(arguments.first, arguments.first + arguments.seeds)
        for algorithm in arguments.algorithms.split(",")
        for start in arguments.starts.split(",")
    ]
    path, begun = Path(arguments.results), time.perf_counter()
    path.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    missing = [cell for cell in cells if not any(cell.items() <= row.items() for row in done)]
    if missing:
        text = induction_text()
        print(
            f"{sum(map(len, text[0]))} tokens, {text[1]} symbols, {len(text[0])} sequences; {len(missing)} runs to do"
        )
    for number, cell in enumerate(missing):
        alike = [row["seconds"] for row in done if all(row[name] == cell[name] for name in ("algorithm", "start"))]
        longest = max(alike, default=0.0)
        if number and (time.perf_counter() - begun + longest) / 60 > arguments.minutes:
            print(f"{len(missing) - number} runs are left: run this again")
            break
        done.append(induce(*text, cell, arguments))
        with open(path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(done[-1]) + "\n")
        print(done[-1], flush=True)
    induction_table([row for row in done if any(cell.items() <= row.items() for cell in cells)])


def induction_table(rows):
    """Means and deviations over the seeds, and each start against the random one, paired over the seeds."""
    print("\n| algorithm | start | seeds | many-to-1 | 1-to-1 | V-measure | nats/token | iterations | converged |")
    print("|---|---|--:|---|---|---|---|--:|--:|")
    groups = {}
    for row in rows:
        groups.setdefault((row["algorithm"], row["start"]), {})[row["seed"]] = row
    for (algorithm, start), group in groups.items():
        cells = []
        for name, digits in (("many_to_one", 4), ("one_to_one", 4), ("v_measure", 4), ("nats_per_token", 3)):
            values = np.array([row[name] for row in group.values()])
            cells.append(f"{values.mean():.{digits}f} ± {values.std(ddof=min(1, values.size - 1)):.{digits}f}")
        steps = np.mean([row["n_iter"] for row in group.values()])
        converged = sum(row["converged"] for row in group.values())
        print(f"| {algorithm} | {start} | {len(group)} | {' | '.join(cells)} | {steps:.0f} | {converged} |")
    for (algorithm, start), group in groups.items():
        random = groups.get((algorithm, "random"), {})
        both = sorted(set(random) & set(group))
        if start != "random" and both:
            gain = 100 * np.array([group[seed]["many_to_one"] - random[seed]["many_to_one"] for seed in both])
            print(
                f"\n{algorithm} EM, many-to-1 of {start} over random, paired: {gain.mean():+.2f} points, deviation "
                f"{gain.std(ddof=min(1, gain.size - 1)):.2f}, {np.count_nonzero(gain > 0)} of {gain.size} seeds"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("choose", "supervised", "induction"))
    parser.add_argument(
        "--nltk", type=int, default=0, metavar="N", help="also NLTK's TnT on the first N test sentences"
    )
    parser.add_argument("--states", type=int, default=45)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--starts", default="random,sens")
    parser.add_argument("--algorithms", default="soft,hard")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no run that would end later")
    parser.add_argument("--results", default=Path.home() / ".cache" / "lagwise-bench" / "induction.jsonl")
    chosen = parser.parse_args()
    {"choose": choose, "supervised": supervised, "induction": induction}[chosen.what](chosen)
