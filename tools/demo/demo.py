#!/usr/bin/env python3
"""Ranks passages and answers questions with a small real model, and shows what sharing prefixes saved.

Runs build/bin/prefix; needs nothing but the Python standard library. `make demo` builds the program and
fetches the model first.
"""

import argparse
import json
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import ending  # noqa: E402
import prefix_run  # noqa: E402

WIDTH = 80
MAX_TOKENS = 40


def rank(data: dict) -> list[dict]:
    """Every passage with every query."""
    return [
        prefix_run.likelihood_request(passage["text"], query["text"])
        for passage in data["passages"]
        for query in data["queries"]
    ]


def rankings(data: dict, results: list[dict]) -> list[dict]:
    """For each query the passages from best to worst, with their scores."""
    queries = len(data["queries"])
    found = []
    for q, query in enumerate(data["queries"]):
        scores = [
            (prefix_run.mean_logprob(results[p * queries + q]), passage["title"])
            for p, passage in enumerate(data["passages"])
        ]
        scores.sort(key=lambda pair: -pair[0])
        place = 1 + [title for _, title in scores].index(query["expected"])
        found.append({
            "query": query["text"],
            "expected": query["expected"],
            "place": place,
            "ranking": [{"title": title, "score": score} for score, title in scores],
        })
    return found


def same_values(a: list[dict], b: list[dict]) -> bool:
    """Equal in everything but the counts of the work that was done."""
    strip = lambda result: {key: value for key, value in result.items() if key not in ("usage", "timing")}
    return [strip(result) for result in a] == [strip(result) for result in b]


class Demo:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.runs = {}

    def run(self, name: str, requests: list[dict], *flags: str) -> list[dict]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        threads = ["--threads", str(self.arguments.threads)] if self.arguments.threads else []
        results, summary = prefix_run.run(
            self.arguments.model, requests, *threads, *flags, binary=self.arguments.binary)
        failed = [result for result in results if result["status"] != "ok"]
        if failed:
            raise prefix_run.RunFailed(f"{name}: {len(failed)} requests failed, the first: {failed[0]}")
        self.runs[name] = summary
        return results

    def measure(self) -> dict:
        data = json.loads((HERE / "passages.json").read_text())
        ranking = rank(data)
        questions = [
            prefix_run.answer_request(data["context"]["text"], question, MAX_TOKENS) for question in data["questions"]
        ]
        ranked = self.run("ranking", ranking)
        ranked_alone = self.run("ranking, sharing off", ranking, *prefix_run.SHARING_OFF)
        answered = self.run("answers", questions)
        answered_alone = self.run("answers, sharing off", questions, *prefix_run.SHARING_OFF)
        return {
            "model": Path(self.arguments.model).name,
            "context": data["context"],
            "rankings": rankings(data, ranked),
            "answers": [
                {"question": question, "answer": prefix_run.answer_text(result)}
                for question, result in zip(data["questions"], answered)
            ],
            "identical": same_values(ranked, ranked_alone) and same_values(answered, answered_alone),
            "runs": self.runs,
        }


def show_rankings(found: list[dict]) -> None:
    passages = len(found[0]["ranking"])
    print(f"1. Which of {passages} passages is the question about?")
    print("   Score: mean log-probability of the question after the passage.\n")
    for entry in found:
        print(textwrap.fill(entry["query"], WIDTH, initial_indent="   ", subsequent_indent="   "))
        best, worst = entry["ranking"][0]["score"], entry["ranking"][-1]["score"]
        for place, hit in enumerate(entry["ranking"][:3], 1):
            length = round(24 * (hit["score"] - worst) / (best - worst)) if best > worst else 0
            mark = "<- right" if hit["title"] == entry["expected"] else ""
            print(f"     {place}  {hit['title']:<22}{hit['score']:7.2f}  {'#' * length:<24}  {mark}".rstrip())
        if entry["place"] > 3:
            print(f"     {entry['place']}  {entry['expected']:<22}{'':33}  <- right")
        print()
    first = sum(entry["place"] == 1 for entry in found)
    print(f"   The right passage comes first for {first} of {len(found)} questions.\n")


def show_answers(context: dict, answers: list[dict]) -> None:
    print(f"2. {len(answers)} questions about one passage, answered together")
    print(f"   {context['title']}: \"{' '.join(context['text'].split()[:8])} ...\"\n")
    for entry in answers:
        print(textwrap.fill(entry["question"], WIDTH, initial_indent="   Q  ", subsequent_indent="      "))
        print(textwrap.fill(entry["answer"], WIDTH, initial_indent="   A  ", subsequent_indent="      "))
    print("\n   The answers are the model's own; one this small gets some of them wrong.\n")


def show_savings(runs: dict, identical: bool) -> None:
    print("3. What sharing prefixes saved\n")
    print(f"   {'prompt tokens':<24}{'given':>8}{'shared':>9}{'computed':>10}{'seconds':>9}{'speed-up':>10}")
    for name, summary in runs.items():
        alone = runs.get(f"{name}, sharing off")
        speed_up = f"{alone['seconds']['run'] / summary['seconds']['run']:.1f}x" if alone else ""
        shared = summary["tokens_shared"] + summary["tokens_cached"]
        print(
            f"   {name:<24}{summary['tokens_given']:>8,}{shared:>9,}{summary['tokens_computed']:>10,}"
            f"{summary['seconds']['run']:>9.2f}{speed_up:>10}"
        )
    summary = next(iter(runs.values()))
    print(f"\n   {summary['threads']} threads, {summary['isa']}, {summary['dtype']}; loading took "
          f"{summary['seconds']['load']:.1f} s. Answers also generate tokens,")
    print("   one step for all questions at a time, with sharing and without.")
    same = "the same, bit for bit" if identical else "NOT the same: please report this"
    print(f"   Scores and answers with and without sharing are {same}.")


def main() -> int:
    parser = argparse.ArgumentParser(description="Rank passages and answer questions with a small real model.")
    parser.add_argument("--model", required=True, help="a .gguf file or a model directory (`make model` prints one)")
    parser.add_argument("--threads", type=int, help="worker threads; default: one per core")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--binary", type=Path, default=prefix_run.BINARY, help="the prefix command")
    try:
        found = Demo(parser.parse_args()).measure()
    except prefix_run.RunFailed as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    if parser.parse_args().json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        print(f"\nlibprefix with {found['model']}\n")
        show_rankings(found["rankings"])
        show_answers(found["context"], found["answers"])
        show_savings(found["runs"], found["identical"])
    return 0 if found["identical"] else 1


if __name__ == "__main__":
    ending.run("demo", main)
