"""Figures as programs print them, one JSON object a line, and how to find one."""

import json
import math

from .clock import Ended


def json_lines(text: str) -> list[dict]:
    """Whole objects only: a program that was stopped may leave half a line."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines


def number(line: dict | None, key: str) -> float | None:
    """A figure: positive and finite. Everything else is none."""
    value = (line or {}).get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def find(lines: list[dict], **where) -> dict | None:
    """The last line with these values that is a figure and no refusal."""
    for line in reversed(lines):
        if "not_run" not in line and all(line.get(key) == value for key, value in where.items()):
            return line
    return None


def why_missing(lines: list[dict], **where) -> str:
    """What a program said instead of a figure; '' when it said nothing."""
    for line in reversed(lines):
        if "not_run" in line and all(line.get(key, value) == value for key, value in where.items()):
            return str(line["not_run"])[:200]
    return ""


def problem_of(name: str, ended: Ended, lines: list[dict]) -> tuple[str, bool]:
    """(why figures may be missing, whether that is a failure of the program)."""
    # A line about the whole program, not about one shape: no GPU, no PyTorch.
    refused = [line for line in lines if "not_run" in line and line.get("bench", line.get("peer")) in ("gpu", "torch")]
    if refused:
        return str(refused[0]["not_run"])[:200], False
    if ended.good:
        return "", False
    return f"{name}: {ended.reason()}", not ended.why
