#!/usr/bin/env python3
"""Makes what the tests of text/ compare with, or checks that it is what the Python packages answer today.

    text_golden.py --write             writes text/tests/fixtures/ and tests/golden/text/
    text_golden.py --check             makes both again in a scratch folder and compares
    text_golden.py --answers NAME BLOCK   prints the answers of one tokenizer on 100 texts, to find a difference

Needs requirements-reference.txt, the demo model (tools/fetch_model) and the tokenizer of Qwen3 (text_qwen3.py).
"""

import packages  # noqa: F401, I001

import argparse
import sys
import tempfile
from pathlib import Path

import text_chat
import text_fixtures
import text_gguf
import text_strings
import text_tokens

ROOT = text_strings.ROOT
FIXTURES = ROOT / "text" / "tests" / "fixtures"
GOLDEN = ROOT / "tests" / "golden" / "text"


def write(fixtures: Path, golden: Path) -> None:
    text_fixtures.write(fixtures)
    text_gguf.write_fixtures(fixtures)
    golden.mkdir(parents=True, exist_ok=True)
    text_tokens.write(golden / "tokens.jsonl")
    text_gguf.write(golden / "gguf.jsonl")
    text_chat.write(golden)


def check() -> int:
    differences = 0
    with tempfile.TemporaryDirectory() as scratch:
        fixtures, golden = Path(scratch) / "fixtures", Path(scratch) / "golden"
        write(fixtures, golden)
        for fresh in sorted([*fixtures.iterdir(), *golden.iterdir()]):
            committed = (FIXTURES if fresh.parent == fixtures else GOLDEN) / fresh.name
            if not committed.exists() or committed.read_bytes() != fresh.read_bytes():
                print(f"text_golden: {committed.relative_to(ROOT)} differs", file=sys.stderr)
                differences += 1
    print(f"text_golden: {differences} differences")
    return 1 if differences else 0


def answers(name: str, block: int) -> None:
    module = text_gguf if name in text_gguf.GGUF else text_tokens
    known = text_gguf.references() if module is text_gguf else text_tokens.tokenizers()
    for text in text_strings.texts()[block * text_strings.BLOCK :][: text_strings.BLOCK]:
        sys.stdout.buffer.write(module.answer(known[name], text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    what.add_argument("--answers", nargs=2, metavar=("NAME", "BLOCK"))
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    if arguments.write:
        write(FIXTURES, GOLDEN)
    else:
        answers(arguments.answers[0], int(arguments.answers[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
