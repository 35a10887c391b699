"""Lines 3 to 7: figures of bench/gpu beside those of the peers in the same run.

Times are device time in microseconds with cold caches ("us"); both sides are measured in that way. A check needs every
figure it names: where one is missing, it is "not run".
"""

from .figures import find, number, why_missing
from .report import Check, compare, not_run

CAUSAL = ["causal 4k", "causal 8k", "causal 16k"]
SUFFIX = ["suffix 32x128", "suffix 100x100", "suffix 1000x50"]
DECODE = ["decode 32x2048", "decode 128x1024", "decode 32x8192"]
HEADS = ["16/8", "32/8"]
# What says that a run of cuda_attention=KERNEL did the step by that kernel: in one launch, for decoding.
PROOF = {"causal": {"hopper": None}, "suffix": {"hopper": None}, "decode": {"hopper": "cluster"}}
SPEEDUPS = {"qwen3-0.6b": 5.0, "qwen3-4b": 5.6, "qwen3-8b": 5.8}
PRODUCTS = [(model, layer, rows) for model in ("0.6B", "4B", "8B") for layer in ("qkv", "o", "gate up", "down")
            for rows in (4096, 8192, 16384)]


class Figures:
    """bench: lines of gpu_bench; peers: lines of gpu_peers.py; problem: why either may be missing."""

    def __init__(self, bench: list[dict], peers: list[dict], bench_problem: str = "", peer_problem: str = ""):
        self.bench, self.peers = bench, peers
        self.bench_problem, self.peer_problem = bench_problem, peer_problem

    def ours(self, key: str, **where) -> float | None:
        return number(find(self.bench, **where), key)

    def peer(self, key: str, **where) -> float | None:
        return number(find(self.peers, **where), key)

    def no_ours(self, **where) -> str:
        return "no figure of ours: " + (why_missing(self.bench, **where) or self.bench_problem or "it was not measured")

    def no_peer(self, **where) -> str:
        return (f"no figure of {where['peer']}: "
                + (why_missing(self.peers, **where) or self.peer_problem or "it was not measured"))


def speed(f: Figures, what: str, peer: str, bar: float, shape: str, heads: str, unit: str = "us",
          kernel: str = "mma") -> Check:
    """How many times as fast as a peer on the same shape, by `unit`: us (less is faster) or tflops."""
    mine = dict(bench="attention", kernel=kernel, shape=shape, heads=heads, shared=True)
    ours, theirs = f.ours(unit, **mine), f.peer(unit, peer=peer, shape=shape, heads=heads)
    if ours is None:
        return not_run(what, f.no_ours(**mine))
    if theirs is None:
        return not_run(what, f.no_peer(peer=peer, shape=shape, heads=heads))
    ratio = theirs / ours if unit == "us" else ours / theirs
    name = {"us": "us", "tflops": "TFLOP/s"}[unit]
    return compare(what, ratio, bar, f"{ratio:.2f}x ({ours:.1f} against {theirs:.1f} {name}{by_kernel(kernel)})")


def by_kernel(kernel: str) -> str:
    return "" if kernel == "mma" else f", cuda_attention={kernel}"


def fastest(f: Figures, shape: str, heads: str) -> str:
    """The value of option cuda_attention that counts: the fastest that was measured, of "mma" and "hopper", which "auto" takes."""
    where = dict(bench="attention", shape=shape, heads=heads, shared=True)
    best, least = "mma", f.ours("us", kernel="mma", **where)
    for kernel, proof in PROOF[shape.split()[0]].items():
        line = find(f.bench, kernel=kernel, **where)
        us = number(line, "us")
        if least and us and us < least and (proof is None or number(line, proof)):
            best, least = kernel, us
    return best


def prefill(f: Figures) -> list[Check]:
    return [speed(f, shape, "sdpa cudnn", 0.75, shape, "32/8", kernel=fastest(f, shape, "32/8")) for shape in CAUSAL]


def suffixes(f: Figures) -> list[Check]:
    checks = []
    for heads in HEADS:
        for shape in SUFFIX:
            kernel = fastest(f, shape, heads)
            checks.append(speed(f, f"{shape} {heads}, cuDNN without a mask", "sdpa cudnn prefix only", 0.8, shape, heads,
                                "tflops", kernel))
            checks.append(speed(f, f"{shape} {heads}, FlexAttention", "flex", 1.3, shape, heads, kernel=kernel))
    return checks


def roofline_us(f: Figures, line: dict) -> float | None:
    """The larger of its bytes at the measured copy rate and its FLOPs at the measured matmul rate."""
    copy, matmul = f.peer("gb_per_s", peer="copy"), f.peer("tflops", peer="matmul")
    moved, flops = number(line, "bytes"), number(line, "flops")
    if None in (copy, matmul, moved, flops):
        return None
    return max(moved / (copy * 1e3), flops / (matmul * 1e6))


def decode(f: Figures) -> list[Check]:
    checks = []
    for heads in HEADS:
        for shape in DECODE:
            kernel = fastest(f, shape, heads)
            where = dict(bench="attention", kernel=kernel, shape=shape, heads=heads)
            shared = f.ours("us", **where, shared=True)
            roof_name, share_name = f"{shape} {heads}, roofline", f"{shape} {heads}, without sharing"
            if shared is None:
                why = f.no_ours(**where, shared=True)
                checks += [not_run(roof_name, why), not_run(share_name, why)]
                continue
            roof = roofline_us(f, find(f.bench, **where, shared=True))
            if roof is None:
                checks.append(not_run(roof_name, f"{shared:.1f} us; " + f.no_peer(peer="copy")))
            else:
                bar = 1.5 * roof + 5
                by = by_kernel(kernel)
                checks.append(compare(roof_name, shared, bar, f"{shared:.1f} us, at most {bar:.1f} (roofline {roof:.1f}){by}",
                                      at_most=True))
            checks.append(unshared(f, share_name, shape, heads, shared))
    return checks


def unshared(f: Figures, what: str, shape: str, heads: str, shared: float) -> Check:
    """The fastest decode that reads every sequence's own keys: our plan or a peer's kernel."""
    own = f.ours("us", bench="attention", kernel="mma", shape=shape, heads=heads, shared=False)
    peers = {name: f.peer("us", peer=f"sdpa {name} unshared", shape=shape, heads=heads) for name in ("cudnn", "flash")}
    known = {name: us for name, us in {"our own": own, **peers}.items() if us is not None}
    if own is None or len(known) == 1:
        missing = f.no_ours(shape=shape, shared=False) if own is None else f.no_peer(peer="sdpa cudnn unshared", shape=shape)
        return not_run(what, f"{shared:.1f} us; {missing}")
    best = min(known, key=known.get)
    ratio = known[best] / shared
    return compare(what, ratio, 4.0, f"{ratio:.1f}x ({shared:.1f} us, fastest unshared: {best}, {known[best]:.1f} us)")


def models(f: Figures) -> list[Check]:
    checks = []
    for model, bar in SPEEDUPS.items():
        where = dict(bench="engine", model=model)
        shared, alone = f.ours("shared_ms", **where), f.ours("unshared_ms", **where)
        if shared is None or alone is None:
            checks.append(not_run(model, f.no_ours(**where)))
            continue
        generate = f.peer("ms", peer="transformers generate", model=model)
        beside = (f"transformers generate {generate:.0f} ms, {generate / shared:.1f}x" if generate
                  else f.no_peer(peer="transformers generate", model=model))
        checks.append(compare(model, alone / shared, bar, f"{alone / shared:.2f}x ({shared:.0f} against {alone:.0f} ms); {beside}"))
    return checks


def products(f: Figures) -> list[Check]:
    """Beside the rate of large products, and beside torch linear: what the shape itself allows."""
    rate = f.peer("tflops", peer="matmul")
    checks = []
    for model, layer, rows in PRODUCTS:
        what = f"{model} {layer}, {rows} rows"
        where = dict(bench="gemm", model=model, layer=layer, rows=rows)
        ours = f.ours("tflops", **where)
        if ours is None:
            checks.append(not_run(what, f.no_ours(**where)))
        elif rate is None:
            checks.append(not_run(what, f"{ours:.0f} TFLOP/s; " + f.no_peer(peer="matmul")))
        else:
            linear = f.peer("tflops", peer="torch linear", model=model, layer=layer, rows=rows)
            share = f"{ours / rate:.2f} of matmul ({ours:.0f} of {rate:.0f} TFLOP/s)"
            if linear is None and ours < 0.85 * rate:
                checks.append(not_run(what, f"{share}; " + f.no_peer(peer="torch linear", model=model, layer=layer, rows=rows)))
                continue
            bar = 0.85 * rate if linear is None else min(0.85 * rate, 0.95 * linear)
            beside = f"{ours / linear:.2f} of torch linear ({linear:.0f})" if linear else "torch linear was not measured"
            checks.append(compare(what, ours, bar, f"{share}, {beside}"))
    return checks
