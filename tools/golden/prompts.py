"""The prompts of the tiny models: random token ids, several of them sharing prefixes."""

from dataclasses import dataclass

import prng

GREEDY_STEPS = 8


@dataclass(frozen=True)
class Prompt:
    name: str
    tokens: list[int]
    full: bool  # logits stored at every position, not only the last


def tiny_prompts(model: str, vocab: int, brief: bool = False) -> list[Prompt]:
    """The prompts of one model; `brief` is the shorter list for models that differ in storage only.

    "trunk" is cut at 20 and 32 by the others, so a tree of the whole list branches inside a page of 32
    positions and at its end, and one prompt is a proper prefix of another.
    """

    def fresh(name: str, count: int) -> list[int]:
        return prng.integers(f"{model}/prompt/{name}", count, vocab).tolist()

    trunk = fresh("trunk", 40)
    branch = trunk[:20] + fresh("branch", 12)
    prompts = [
        Prompt("one", fresh("one", 1), True),
        Prompt("short", fresh("short", 5), True),
        Prompt("trunk", trunk, False),
        Prompt("stem", trunk[:24], False),
        Prompt("branch", branch, True),
        Prompt("page-end", trunk[:32] + fresh("page-end", 1), False),
        Prompt("deep", branch + fresh("deep", 16), False),
        Prompt("other", trunk[:20] + fresh("other", 43), False),
        Prompt("long", fresh("long", 80), True),
    ]
    if brief:
        kept = {"one", "stem", "branch", "other"}
        prompts = [prompt for prompt in prompts if prompt.name in kept]
    return prompts
