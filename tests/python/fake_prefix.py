#!/usr/bin/env python3
"""Stands in for the prefix command where only the scripts around it are tested: scores by shared words."""

import json
import re
import sys


def words(text: str) -> set[str]:
    return {word[:4] for word in re.findall(r"\w{4,}", text.lower())}


def answer(request: dict) -> dict:
    usage = {"prompt": 10, "cached": 0, "shared": 0, "computed": 10, "generated": 0}
    result = {"id": request.get("id", ""), "status": "ok", "usage": usage}
    if request["task"] == "logprobs":
        question = words(request["continuation"])
        return {**result, "logprobs": [-1.0, len(question & words(request["text"])) - 9.0]}
    return {**result, "tokens": [1], "text": request["messages"][0]["content"][:200], "finish": "length"}


def main() -> int:
    options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
    with open(options["--in"]) as lines:
        results = [answer(json.loads(line)) for line in lines]
    if "--fail-all" in options:
        results = [{"id": result["id"], "status": "PREFIX_ERR_IO", "message": "gone"} for result in results]
    if "--lose-one" in options:
        results.pop()
    if "--one-more" in options:
        results.append(results[0])
    with open(options["--out"], "w") as out:
        out.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)  # as the command does
    alone = options.get("--sharing") == "off"
    summary = {
        "requests": len(results), "failed": 0, "tokens_given": 1000, "tokens_cached": 0,
        "tokens_shared": 0 if alone else 900, "tokens_computed": 1000 if alone else 100, "tokens_generated": 0,
        "seconds": {"load": 0.1, "run": 4.0 if alone else 0.5}, "isa": "fake", "threads": 1, "dtype": "bf16",
    }  # fmt: skip
    with open(options["--summary"], "w") as out:
        json.dump(summary, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
