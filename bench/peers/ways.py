"""The ways in which each engine is called: what `compare` runs in turns.

A way is a process of its own, so that none finds in its cache what another way left there. Its name says the engine, the type
of its weights and products, and what its caller does by hand.
"""

from dataclasses import dataclass, field

# Weights of 4 bits in the mix that llama.cpp's users take, and of 8 bits.
GGUF_TYPES = ("Q8_0", "Q4_K_M")


@dataclass(frozen=True)
class Way:
    name: str
    peer: str  # peer_PEER.py
    options: list[str] = field(default_factory=list)
    model: str = "checkpoint"  # what it reads: "checkpoint", "W8A8", or a type of GGUF_TYPES
    prefix_first: bool = False  # the caller has the shared prefix computed before the rest


WAYS = [
    Way("libprefix bf16", "libprefix"),
    Way("libprefix int8", "libprefix", ["--option", "compute=int8", "--option", "kv=int8"]),
    *(Way(f"libprefix {kind}", "libprefix", [], kind) for kind in GGUF_TYPES),
    *(Way(f"libprefix {kind} int8", "libprefix", ["--option", "compute=int8", "--option", "kv=int8"], kind) for kind in GGUF_TYPES),
    Way("vllm bf16", "vllm"),
    Way("vllm int8", "vllm", model="W8A8"),
    # On an Intel processor without AMX they are faster in f32: it multiplies bf16 at half the rate.
    Way("vllm f32", "vllm", ["--dtype", "float32"]),
    Way("openvino bf16, all at once", "openvino"),
    Way("openvino bf16, prefix first", "openvino", prefix_first=True),
    Way("openvino f32, prefix first", "openvino", ["--precision", "f32"], prefix_first=True),
    *(Way(f"openvino int8 by {group}, prefix first", "openvino", ["--weights", "int8", "--group", str(group)], prefix_first=True)
      for group in (32, 64, 128)),
    *(Way(f"llama.cpp {kind}, prefix copied", "llamacpp", model=kind, prefix_first=True) for kind in GGUF_TYPES),
]
DEFAULT = ["libprefix bf16", "libprefix int8", "vllm bf16", "openvino bf16, prefix first"]


def chosen(names: list[str]) -> list[Way]:
    """The ways of these names, or of these beginnings of names, in the order of the table."""
    for name in names:
        if not any(way.name.startswith(name) for way in WAYS):
            raise SystemExit(f"there is no way {name!r}; these are there: {', '.join(way.name for way in WAYS)}")
    return [way for way in WAYS if any(way.name.startswith(name) for name in names)]
