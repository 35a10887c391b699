#!/usr/bin/env python3
"""Compares two folders of golden numbers: compare.py COMMITTED FRESH.

Texts, tokens, hashes and layout must be equal. Floats may differ by rounding, which depends on the processor;
greedy tokens only from the first step on whose margin is as small as that rounding.
"""

import packages  # noqa: F401, I001

import argparse
import json
import sys
from pathlib import Path

import numpy as np

_TOLERANCE = 1e-4
_TOLERANCE_TASKS = 1e-5
_TOLERANCE_SMOLLM2 = 1e-3  # 30 layers and logits up to 40
_RATIO_BF16 = 1.5  # errors of bfloat16: what is rounded where depends on the processor's products
_OF_OTHERS = {"page_keys.json"}  # page_keys.py has no part in make_golden.py


class Differences:
    def __init__(self) -> None:
        self.found: list[str] = []

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.found.append(what)


def compare_index(old, new, where: str, tolerance: float, differences: Differences) -> None:
    """Walks two JSON values side by side."""
    if isinstance(old, dict) and isinstance(new, dict):
        differences.check(old.keys() == new.keys(), f"{where}: keys")
        if "greedy" in old and "greedy" in new:
            _compare_greedy(old, new, where, tolerance, differences)
        for key in old.keys() & new.keys() & {"bf16"}:
            for figure in old[key]:
                close = 1 / _RATIO_BF16 <= old[key][figure] / new[key][figure] <= _RATIO_BF16
                differences.check(close, f"{where}.bf16.{figure}: {old[key][figure]} and {new[key][figure]}")
        for key in old.keys() & new.keys() - {"bf16", "greedy", "greedy_margins", "top_ids"}:
            compare_index(old[key], new[key], f"{where}.{key}", tolerance, differences)
    elif isinstance(old, list) and isinstance(new, list) and old and isinstance(old[0], dict):
        differences.check(len(old) == len(new), f"{where}: length")
        for index, (left, right) in enumerate(zip(old, new)):
            compare_index(left, right, f"{where}[{index}]", tolerance, differences)
    else:
        differences.check(old == new, where)


def _compare_greedy(old: dict, new: dict, where: str, tolerance: float, differences: Differences) -> None:
    steps = zip(old["greedy"], new["greedy"], old["greedy_margins"], new["greedy_margins"])
    for step, (left, right, left_margin, right_margin) in enumerate(steps):
        if left != right and min(left_margin, right_margin) <= 2 * tolerance:
            return
        differences.check(left == right, f"{where}: greedy token {step}")
        differences.check(abs(left_margin - right_margin) <= 2 * tolerance + 1e-4, f"{where}: margin {step}")


def compare_numbers(old, new, where: str, tolerance: float, differences: Differences) -> float:
    """Walks two JSON values whose floats may differ by rounding; returns the largest difference."""
    pairs = []
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        pairs = [(old[key], new[key], f"{where}.{key}") for key in old]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(left, right, f"{where}[{index}]") for index, (left, right) in enumerate(zip(old, new))]
    elif isinstance(old, float) and isinstance(new, float):
        differences.check(abs(old - new) <= tolerance, f"{where}: {old} and {new}")
        return abs(old - new)
    else:
        differences.check(old == new, where)
    return max((compare_numbers(*pair, tolerance, differences) for pair in pairs), default=0.0)


def compare_tasks(old: dict, new: dict, differences: Differences) -> float:
    """The margins of the answers are there to be read: they are differences of logits, rounded."""
    margins = [[case.pop("margins") for case in side["answer"]] for side in (old, new)]
    compare_numbers(*margins, "tasks.answer.margins", _TOLERANCE_SMOLLM2, differences)
    return compare_numbers(old, new, "tasks", _TOLERANCE_TASKS, differences)


def compare_top(old: dict, new: dict, old_floats, new_floats, where: str, differences: Differences) -> None:
    """The best tokens of a prompt: an order may change only between values that are as good as equal."""
    slack = 2 * _TOLERANCE_SMOLLM2
    for left, right in zip(old["prompts"], new["prompts"]):
        count = len(left["top_ids"])
        new_values = dict(zip(right["top_ids"], new_floats[right["top_at"] :][:count]))
        last = min(new_values.values())
        for token, value in zip(left["top_ids"], old_floats[left["top_at"] :][:count]):
            close = abs(new_values.get(token, last) - value) <= slack
            differences.check(close, f"{where}: top token {token} of {left['name']}")


def compare_vectors(old: Path, new: Path, tolerance: float, differences: Differences) -> float:
    """One .json with its .bin; returns the largest difference of a float."""
    old_index, new_index = json.loads(old.read_text()), json.loads(new.read_text())
    compare_index(old_index, new_index, old.stem, tolerance, differences)
    old_floats = np.fromfile(old.with_suffix(".bin"), "<f4")
    new_floats = np.fromfile(new.with_suffix(".bin"), "<f4")
    if old_floats.size != new_floats.size:
        differences.check(False, f"{old.stem}: number of floats")
        return 0.0
    worst = float(np.abs(old_floats - new_floats).max())
    differences.check(worst <= tolerance, f"{old.stem}: floats differ by up to {worst:.3g}")
    if any("top_ids" in prompt for prompt in old_index["prompts"]):
        compare_top(old_index, new_index, old_floats, new_floats, old.stem, differences)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare two folders of golden numbers.")
    parser.add_argument("committed", type=Path)
    parser.add_argument("fresh", type=Path)
    arguments = parser.parse_args()
    differences = Differences()
    names = [
        {path.relative_to(folder) for path in folder.rglob("*")
         if path.suffix in (".json", ".bin") and path.name not in _OF_OTHERS}
        for folder in (arguments.committed, arguments.fresh)
    ]
    for name in sorted(names[0] ^ names[1]):
        differences.check(False, f"{name}: in one folder only")
    worst = 0.0
    for name in sorted(names[0] & names[1]):
        old, new = arguments.committed / name, arguments.fresh / name
        if name.name == "dequantized.json":
            compare_index(json.loads(old.read_text()), json.loads(new.read_text()), name.stem, 0.0, differences)
        elif name.name == "tasks.json":
            worst = max(worst, compare_tasks(json.loads(old.read_text()), json.loads(new.read_text()), differences))
        elif name.suffix == ".json" and not old.with_suffix(".bin").exists():  # its numbers are in the file itself
            pair = (json.loads(path.read_text()) for path in (old, new))
            worst = max(worst, compare_numbers(*pair, name.stem, _TOLERANCE_TASKS, differences))
        elif name.suffix == ".json":
            tolerance = _TOLERANCE_SMOLLM2 if name.stem == "smollm2" else _TOLERANCE
            worst = max(worst, compare_vectors(old, new, tolerance, differences))
    for line in differences.found:
        print(f"compare: {line}", file=sys.stderr)
    print(f"compare: {len(names[0])} files, {len(differences.found)} differences, floats within {worst:.3g}")
    return 1 if differences.found else 0


if __name__ == "__main__":
    sys.exit(main())
