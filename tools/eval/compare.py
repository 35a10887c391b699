#!/usr/bin/env python3
"""What another setting of the library changes: tools/eval/compare.py --model PATH --test compute=int8 [--base KEY=VALUE]

Runs tests/data/qa.json under two settings. Ranking as eval.py does it: the mean reciprocal rank of each. Then 2,000
decisions of each of three kinds, and how many of them flip under the other setting:

  answers    does a passage answer a question? "Yes" or "No" by the likelier word. A small model may always say the same.
  balanced   the same with the median of the base as the threshold, so that half of them are yes, and as many as can be
             stand near the edge
  pairs      which of two passages makes a question likelier?

A flip is told with the margin that it had in the base, the difference of log-probabilities from the edge, and where that
lies among the margins of all: a coin that stands on its edge falls either way.
"""

import argparse
import bisect
import json
import random
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import eval as ranking  # noqa: E402
import ending  # noqa: E402
import prefix_run  # noqa: E402

DECISIONS = 2000
ANSWERS = ("Yes", "No")


def pairs_of(passages: list[dict], count: int) -> list[tuple[int, str]]:
    """(passage, question): every right pair, and others; the same for everybody who runs this."""
    right = [(p, entry["question"]) for p, passage in enumerate(passages) for entry in passage["questions"]]
    other = [(p, question) for home, question in right for p in range(len(passages)) if p != home]
    random.Random(1).shuffle(other)
    chosen = (right + other)[:count]
    return sorted(chosen)  # those of a passage beside each other


def decision_request(passage: str, question: str) -> dict:
    content = f"{passage}\n\nQuestion: {question}\n\nDoes the text above answer the question? Answer Yes or No."
    return {"task": "choices", "messages": [{"role": "user", "content": content}], "choices": list(ANSWERS)}


def done(result: dict) -> dict:
    """One that failed has no margin: minus infinity less minus infinity is no number."""
    if why := prefix_run.failure(result):
        raise prefix_run.RunFailed(f"a decision failed: {why}")
    return result


def margin_of(result: dict) -> float:
    yes, no = done(result)["logprobs"]
    return yes - no


def evaluate(model: str, options: list[str], count: int, binary: Path) -> dict:
    passages = json.loads(ranking.DATA.read_text())["passages"]
    flags = [flag for option in options for flag in ("--option", option)]
    entries = [(p, entry["question"]) for p, passage in enumerate(passages) for entry in passage["questions"]]
    lists = [ranking.candidates(len(passages), right, seed) for seed, (right, _) in enumerate(entries)]
    requests = [prefix_run.likelihood_request(passages[p]["text"], question)
                for (_, question), chosen in zip(entries, lists) for p in chosen]
    results, _ = prefix_run.run(model, requests, *flags, binary=binary)
    scores = [prefix_run.mean_logprob(done(result)) for result in results]
    score = iter(scores)
    places = [ranking.rank_of(right, {p: next(score) for p in chosen}) for (right, _), chosen in zip(entries, lists)]
    requests = [decision_request(passages[p]["text"], question) for p, question in pairs_of(passages, count)]
    results, _ = prefix_run.run(model, requests, *flags, binary=binary)
    return {"mrr": sum(1 / place for place in places) / len(places), "places": places,
            "answers": [margin_of(result) for result in results], "pairs": pair_margins(scores, count)}


def pair_margins(scores: list[float], count: int) -> list[float]:
    """Of pairs in the lists of the ranking, LIST scores each; the same for everybody who runs this."""
    pairs = [(start + a, start + b) for start in range(0, len(scores), ranking.LIST)
             for a in range(ranking.LIST) for b in range(a)]
    return [scores[a] - scores[b] for a, b in random.Random(2).sample(pairs, min(count, len(pairs)))]


def flips_of(base: list[float], test: list[float], edge: float = 0) -> dict:
    """A margin of exactly the edge is a no."""
    base, test = [x - edge for x in base], [x - edge for x in test]
    sizes = sorted(abs(margin) for margin in base)
    flipped = sorted((abs(a) for a, b in zip(base, test) if (a > 0) != (b > 0)), reverse=True)
    changes = sorted(abs(a - b) for a, b in zip(base, test))
    return {"decisions": len(base), "yes": sum(margin > 0 for margin in base), "flips": len(flipped),
            "margin_median": sizes[len(sizes) // 2], "change_median": changes[len(changes) // 2],
            "change_largest": changes[-1], "flipped_margins": [round(margin, 4) for margin in flipped],
            "closer_than_widest_flip": bisect.bisect_right(sizes, flipped[0]) if flipped else 0}


def compare(base: dict, test: dict) -> dict:
    """What differs."""
    edge = statistics.median(base["answers"])
    return {"mrr_base": base["mrr"], "mrr_test": test["mrr"],
            "places_changed": sum(a != b for a, b in zip(base["places"], test["places"])),
            "answers": flips_of(base["answers"], test["answers"]),
            "balanced": flips_of(base["answers"], test["answers"], edge),
            "pairs": flips_of(base["pairs"], test["pairs"])}


def positive(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{count} is below 1")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description="What another setting changes in ranking and yes/no decisions.")
    parser.add_argument("--model", required=True, help="a .gguf file or a model directory (`make model` prints one)")
    parser.add_argument("--base", action="append", default=[], metavar="KEY=VALUE", help="an option of the one setting")
    parser.add_argument("--test", action="append", default=[], metavar="KEY=VALUE", help="an option of the other")
    parser.add_argument("--decisions", type=positive, default=DECISIONS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--binary", type=Path, default=prefix_run.BINARY, help="the prefix command")
    arguments = parser.parse_args()
    try:
        settings = [evaluate(arguments.model, options, arguments.decisions, arguments.binary)
                    for options in (arguments.base, arguments.test)]
    except prefix_run.RunFailed as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    found = compare(*settings)
    if arguments.json:
        print(json.dumps(found))
        return 0
    print(f"ranking     MRR {found['mrr_base']:.4f} and {found['mrr_test']:.4f}, {found['places_changed']} of "
          f"{len(settings[0]['places'])} places differ")
    for kind in ("answers", "balanced", "pairs"):
        f = found[kind]
        print(f"{kind:<12}{f['flips']} of {f['decisions']} flip ({f['yes']} are yes); margin: median {f['margin_median']:.3f}; its "
              f"change: median {f['change_median']:.3f}, largest {f['change_largest']:.3f}")
        if f["flips"]:
            print(f"            the widest flip is {f['flipped_margins'][0]} from the edge, as are "
                  f"{f['closer_than_widest_flip']} decisions at most")
    return 0


if __name__ == "__main__":
    ending.run("compare", main)
