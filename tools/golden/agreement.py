"""How long greedy decoding in bf16 stays with f32: of libprefix, and of transformers itself.

    tools/golden/agreement.py --smollm2 FILE --prefix build/bin/prefix [--isa NAME]... [--json FILE]

A continuation of 32 tokens leaves the reference at the first place where rounding turns two nearly
equal logits around; what follows is another sentence. The share of tokens before that place says
little on its own, for a few near ties decide it. So the same share is measured for transformers
with everything in bf16, and for transformers in f32 with nothing but the weights rounded to bf16:
an engine with bf16 weights has no business being far better than the latter.

Prompts: the 20 of the golden numbers, and three from each of the 38 passages of tests/data/qa.json.
"""

import packages  # noqa: F401, I001

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import gguf_source
import reference
import smollm2
from smollm2_prompts import TEXTS

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 32


def prompts() -> list[str]:
    """The golden ones first, then beginnings of passages, titles, questions."""
    more = []
    for passage in json.loads((ROOT / "tests/data/qa.json").read_text())["passages"]:
        words = passage["text"].split()
        more.append(" ".join(words[: len(words) // 2]))
        more.append(f"Title: {passage['title']}\n\n")
        more.append(passage["questions"][0]["question"])
    return list(TEXTS.values()) + more


def f32_model(path: Path):
    source = gguf_source.load(path)
    return reference.from_weights(source.config, source.weights)


@torch.no_grad()
def follow(model, tokens: list[int], continuation: list[int]) -> list[int]:
    """What the model would choose at each step of a given continuation: up to the first difference
    that is what it decodes."""
    logits = model(torch.tensor([tokens + continuation[:-1]]), use_cache=False).logits[0]
    return logits[len(tokens) - 1 :].argmax(-1).tolist()


def each(name: str, lists: list, work) -> list:
    found = []
    for i, item in enumerate(lists):
        found.append(work(item))
        print(f"\r{name}: {i + 1} of {len(lists)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def by_prefix(program: str, path: Path, lists: list[list[int]], options: list[str]):
    with tempfile.TemporaryDirectory() as folder:
        requests = Path(folder) / "requests.jsonl"
        with requests.open("w") as out:
            for tokens in lists:
                line = {"tokens": tokens, "max_tokens": STEPS, "ignore_eos": True}
                out.write(json.dumps(line) + "\n")
        run = subprocess.run(
            [program, "run", "--model", str(path), "--in", str(requests), *options],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return [json.loads(line)["tokens"] for line in run.stdout.splitlines()]


def before_split(expected: list[int], got: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), len(expected))


def summary(expected, got) -> dict:
    lengths = [before_split(a, b) for a, b in zip(expected, got)]
    golden = lengths[: len(TEXTS)]
    return {
        "golden": sum(golden) / (STEPS * len(golden)),
        "all": sum(lengths) / (STEPS * len(lengths)),
        "splits": sum(n < STEPS for n in lengths),
        "prompts": len(lengths),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smollm2", type=Path, required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--isa", action="append", default=[])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)

    encode = smollm2.tokenizer(args.smollm2)
    lists = [encode.encode(text).ids for text in prompts()]
    model = f32_model(args.smollm2)
    # The reference is decoded by libprefix in f32; transformers in f32 must choose every token of it.
    expected = by_prefix(args.prefix, args.smollm2, lists, ["--dtype", "f32"])
    rows = {}

    def add(name: str, got) -> None:
        rows[name] = summary(expected, got)
        print(json.dumps({"arithmetic": name, **rows[name]}), flush=True)

    def add_followed(name: str) -> None:
        pairs = list(zip(lists, expected))
        add(name, each(name, pairs, lambda pair: follow(model, *pair)))

    add_followed("transformers f32")
    for isa in args.isa or ["auto"]:
        got = by_prefix(args.prefix, args.smollm2, lists, ["--dtype", "bf16", "--isa", isa])
        add(f"libprefix bf16, {isa}", got)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(weights.to(torch.bfloat16))
    add_followed("transformers f32, weights rounded to bf16")
    model = model.to(torch.bfloat16)
    add_followed("transformers bf16")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
