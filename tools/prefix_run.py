"""Drives `prefix run` for the demo, the evaluation and tests: requests in, results and summary out."""

import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "build" / "bin" / "prefix"
# What the engine does without any sharing: every request computes and stores its own tokens.
SHARING_OFF = ("--sharing", "off", "--option", "cache=false")


class RunFailed(Exception):
    """`prefix run` could not start, or gave no results; the message is its own."""


def run(model: str, requests: list[dict], *flags: str, binary: Path = BINARY) -> tuple[list[dict], dict]:
    """Runs all requests as one batch. Returns their results in order, and the summary of the run."""
    if not Path(binary).exists():
        raise RunFailed(f"{binary} is missing: run `make build`")
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / name) for name in ("in", "out", "summary")}
        Path(files["in"]).write_text("".join(json.dumps(request) + "\n" for request in requests))
        command = [str(binary), "run", "--model", str(model), "--in", files["in"], "--out", files["out"]]
        done = subprocess.run(
            [*command, "--summary", files["summary"], *flags], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if done.returncode not in (0, 1):  # 1: some requests failed, each says why in its result
            raise RunFailed(done.stderr.strip() or f"prefix run ended with code {done.returncode}")
        with open(files["out"], encoding="utf-8") as lines:  # splitlines would cut a text at U+2028
            results = [json.loads(line) for line in lines]
        summary = json.loads(Path(files["summary"]).read_text())
    if len(results) != len(requests):
        raise RunFailed(f"{len(requests)} requests gave {len(results)} results")
    return results, summary


def likelihood_request(passage: str, question: str) -> dict:
    """How likely is the question after the passage? Every passage is a prefix that all questions share."""
    return {
        "task": "logprobs",
        "text": f"Passage: {passage}\n\nQuestion about the passage:",
        "continuation": f" {question}",
    }


def answer_request(passage: str, question: str, max_tokens: int) -> dict:
    """A chat turn; the passage comes first, so all questions about it share it."""
    content = f"{passage}\n\nAnswer in one short sentence: {question}"
    return {"task": "generate", "messages": [{"role": "user", "content": content}], "max_tokens": max_tokens}


def failure(result: dict) -> str:
    """Why a request failed; empty when it did not."""
    return "" if result["status"] == "ok" else f"{result['status']}: {result.get('message', '')}"


def mean_logprob(result: dict) -> float:
    """The score of a likelihood request; a failed one ranks last."""
    values = result.get("logprobs") or []
    return sum(values) / len(values) if result["status"] == "ok" and values else float("-inf")


def answer_text(result: dict) -> str:
    why = failure(result)
    return f"({why})" if why else " ".join(result["text"].split())
