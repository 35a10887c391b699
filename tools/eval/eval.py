#!/usr/bin/env python3
"""Measures ranking and answering on tests/data/qa.json through build/bin/prefix (`make eval`).

Ranking: every question against a list of 10 passages, the right one and 9 others, by query likelihood; the figure
is the mean reciprocal rank (1 = the right passage always comes first). Answers: every question about its passage
through the chat template, greedy; the figure is the share of answers that contain the expected words.
"""

import argparse
import json
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ending  # noqa: E402
import prefix_run  # noqa: E402

DATA = prefix_run.ROOT / "tests" / "data" / "qa.json"
LIST = 10
MAX_TOKENS = 40


def candidates(passages: int, right: int, seed: int) -> list[int]:
    """The right passage and 9 others; the same for everybody who runs this."""
    others = [p for p in range(passages) if p != right]
    return sorted([right, *random.Random(seed).sample(others, LIST - 1)])


def contains(answer: str, expected: list[str]) -> bool:
    """True when every entry occurs as words of the answer, in any case; "a|b" means either."""
    return all(
        any(re.search(rf"(?<!\w){re.escape(word)}", answer, re.IGNORECASE) for word in entry.split("|"))
        for entry in expected
    )


def is_right(result: dict, expected: list[str]) -> bool:
    """The message of one that failed is no answer, whatever its words."""
    return not prefix_run.failure(result) and contains(prefix_run.answer_text(result), expected)


def rank_of(right: int, scores: dict[int, float]) -> int:
    """1 + how many score at least as well as the right one: ties count against us."""
    return 1 + sum(score >= scores[right] for p, score in scores.items() if p != right)


def evaluate(model: str, binary: Path) -> dict:
    passages = json.loads(DATA.read_text())["passages"]
    pairs = [(p, entry) for p, passage in enumerate(passages) for entry in passage["questions"]]

    lists = [candidates(len(passages), right, seed) for seed, (right, _) in enumerate(pairs)]
    requests = [
        prefix_run.likelihood_request(passages[p]["text"], entry["question"])
        for (_, entry), chosen in zip(pairs, lists)
        for p in chosen
    ]
    print(f"ranking: {len(pairs)} questions, {LIST} passages each ...", file=sys.stderr, flush=True)
    ranked, ranking_summary = prefix_run.run(model, requests, binary=binary)
    scores = iter(prefix_run.mean_logprob(result) for result in ranked)
    places = [rank_of(right, {p: next(scores) for p in chosen}) for (right, _), chosen in zip(pairs, lists)]

    print(f"answers: {len(pairs)} questions ...", file=sys.stderr, flush=True)
    requests = [prefix_run.answer_request(passages[p]["text"], entry["question"], MAX_TOKENS) for p, entry in pairs]
    answered, answer_summary = prefix_run.run(model, requests, binary=binary)
    answers = [prefix_run.answer_text(result) for result in answered]
    right = [is_right(result, entry["expected"]) for result, (_, entry) in zip(answered, pairs)]
    failures = [why for result in ranked + answered if (why := prefix_run.failure(result))]
    return {
        "model": Path(model).name,
        "questions": len(pairs),
        "mrr": sum(1 / place for place in places) / len(places),
        "first": sum(place == 1 for place in places),
        "answers_right": sum(right),
        "failed": len(failures),
        "first_failure": failures[0] if failures else None,
        "details": [
            {"question": entry["question"], "place": place, "answer": answer, "right": ok, "expected": entry["expected"]}
            for (_, entry), place, answer, ok in zip(pairs, places, answers, right)
        ],
        "runs": {"ranking": ranking_summary, "answers": answer_summary},
    }


def show(found: dict, verbose: bool = False) -> None:
    if verbose:
        for entry in found["details"]:
            print(f"{entry['place']:>3} {'ok ' if entry['right'] else '-- '} {entry['question']}\n        {entry['answer']}")
        print()
    if found["failed"]:
        print(f"{found['failed']} requests failed, the first: {found['first_failure']}")
    questions = found["questions"]
    print(f"model                     {found['model']}")
    print(f"ranking, lists of {LIST}      MRR {found['mrr']:.3f}, right passage first {found['first']} of {questions}")
    print(f"answers                   {found['answers_right']} of {questions} contain the expected words "
          f"({found['answers_right'] / questions:.0%})")
    for name, summary in found["runs"].items():
        print(f"{name:<10}{summary['tokens_given']:>8,} prompt tokens given, {summary['tokens_computed']:,} computed, "
              f"{summary['seconds']['run']:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure ranking and answers on tests/data/qa.json.")
    parser.add_argument("--model", required=True, help="a .gguf file or a model directory (`make model` prints one)")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--verbose", action="store_true", help="list every question with its place and answer")
    parser.add_argument("--binary", type=Path, default=prefix_run.BINARY, help="the prefix command")
    arguments = parser.parse_args()
    try:
        found = evaluate(arguments.model, arguments.binary)
    except prefix_run.RunFailed as error:
        print(f"eval: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return 0
    show(found, arguments.verbose)
    return 0


if __name__ == "__main__":
    ending.run("eval", main)
