#!/usr/bin/env python3
"""What others reach on the shapes of bench/gpu, one JSON object a line: gpu_peers.py SECONDS PART...

  rates      the machine: bf16 products of 8192 x 8192 x 8192, copies of a gigabyte
  sdpa       PyTorch's scaled dot-product attention by cuDNN and by its flash kernel
  flex       FlexAttention with a block mask, compiled
  flashinfer FlashInfer's two-level cascade by its kernels fa2 and fa3, and its decode of sequences that share nothing
  linear     bf16 products of the layers of Qwen3 models
  generate   transformers generate: one token after (32, 2048 + 256) tokens, Qwen3 shapes with random weights

A line is {"peer", "shape" or the like, "us"} with device time and cold caches, or {"peer", ..., "not_run": why}.
"us_hot" repeats one call on the same data. Runs on the first GPU; SECONDS ends it between two figures.
"""

import json
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu.cascade import cascade_calls, largest_error, unshared_calls  # noqa: E402
from gpu.generate import generate  # noqa: E402
from gpu.timing import microseconds, rotation  # noqa: E402

CAUSAL = [4096, 8192, 16384]
SUFFIX = [(32, 2048, 128), (100, 2048, 100), (1000, 2048, 50)]
DECODE = [(32, 2048, 64), (128, 1024, 64), (32, 8192, 64)]
HEADS, KV_HEADS, HEAD_DIM = (16, 32), 8, 128
# model, hidden, heads * head_dim, intermediate; kv heads as above
MODELS = [("0.6B", 1024, 2048, 3072), ("4B", 2560, 4096, 9728), ("8B", 4096, 4096, 12288)]


def say(**line) -> None:
    print(json.dumps(line), flush=True)


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


class Peers:
    def __init__(self, torch, end: float):
        self.torch, self.end = torch, end

    def random(self, *shape):
        return self.torch.randn(*shape, device="cuda", dtype=self.torch.bfloat16)

    def attempt(self, make_calls, flops: float = 0, hot: bool = True, **line) -> None:
        """Measures what make_calls() returns, a list of calls that take turns; a peer that cannot is a line, too."""
        if time.monotonic() > self.end:
            say(**line, not_run="out of time")
            return
        try:
            calls = make_calls()
            figures = microseconds(self.torch, calls)
            if hot:
                figures["us_hot"] = microseconds(self.torch, calls[:1])["us"]
            if flops:
                figures["tflops"] = round(flops / figures["us"] * 1e-6, 1)
            say(**line, **figures, buffers=len(calls))
        except Exception as error:
            say(**line, not_run=first_line(error))
        calls = None
        self.torch.cuda.empty_cache()

    def attention_calls(self, run, q_shape: tuple, kv_shape: tuple):
        """Calls of run(q, k, v), each with tensors of its own."""
        def make():
            elements = 2 * self.torch.Size(kv_shape).numel()
            sets = [(self.random(*q_shape), self.random(*kv_shape), self.random(*kv_shape))
                    for _ in range(rotation(self.torch, 2 * elements))]
            return [lambda s=s: run(*s) for s in sets]
        return make

    def rates(self) -> None:
        torch, n = self.torch, 8192
        a, b = self.random(n, n), self.random(n, n)
        self.attempt(lambda: [lambda: torch.mm(a, b)], flops=2.0 * n**3, hot=False, peer="matmul")
        source = torch.ones(1 << 30, device="cuda", dtype=torch.uint8)
        target = torch.empty_like(source)
        try:
            us = microseconds(torch, [lambda: target.copy_(source)])["us"]
            say(peer="copy", us=us, gb_per_s=round(2 * source.numel() / us * 1e-3, 1))
        except Exception as error:
            say(peer="copy", not_run=first_line(error))

    def sdpa(self) -> None:
        import torch.nn.functional as functional
        from torch.nn.attention import SDPBackend, sdpa_kernel

        for name, backend in (("sdpa cudnn", SDPBackend.CUDNN_ATTENTION), ("sdpa flash", SDPBackend.FLASH_ATTENTION)):
            def run(q, k, v, causal=False):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

            with sdpa_kernel(backend):
                for n in CAUSAL:
                    self.attempt(self.attention_calls(lambda q, k, v: run(q, k, v, True), (1, 32, n, HEAD_DIM),
                                                      (1, KV_HEADS, n, HEAD_DIM)),
                                 flops=2.0 * n * (n + 1) * 32 * HEAD_DIM, peer=name, shape=f"causal {n // 1024}k", heads="32/8")
                for heads in HEADS:
                    for b, p, s in DECODE:
                        shape = dict(shape=f"decode {b}x{p}", heads=f"{heads}/8")
                        self.attempt(self.attention_calls(run, (b, heads, 1, HEAD_DIM), (b, KV_HEADS, p + s, HEAD_DIM)),
                                     peer=name + " unshared", **shape)
                    for b, p, s in SUFFIX:
                        # All suffix rows over the shared prefix, without a mask: a rate, for not quite our FLOPs.
                        shape = dict(shape=f"suffix {b}x{s}", heads=f"{heads}/8")
                        self.attempt(self.attention_calls(run, (1, heads, b * s, HEAD_DIM), (1, KV_HEADS, p, HEAD_DIM)),
                                     flops=4.0 * b * s * p * heads * HEAD_DIM, peer=name + " prefix only", **shape)

    def flex(self) -> None:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled = self.torch.compile(flex_attention, dynamic=False)
        for b, p, s in SUFFIX:
            def mask(_b, _h, q, k, p=p, s=s):
                own = (k >= p) & ((k - p) // s == q // s) & ((k - p) % s <= q % s)
                return (k < p) | own

            for heads in HEADS:
                def make(heads=heads, mask=mask, b=b, p=p, s=s):
                    blocks = create_block_mask(mask, None, None, b * s, p + b * s, device="cuda")
                    return self.attention_calls(lambda q, k, v: compiled(q, k, v, block_mask=blocks, enable_gqa=True),
                                                (1, heads, b * s, HEAD_DIM), (1, KV_HEADS, p + b * s, HEAD_DIM))()
                self.attempt(make, hot=False, peer="flex", shape=f"suffix {b}x{s}", heads=f"{heads}/8")

    def flashinfer(self) -> None:
        import flashinfer

        torch = self.torch
        for backend in ("fa2", "fa3"):
            line = dict(peer="flashinfer cascade", backend=backend, version=flashinfer.__version__)
            try:  # where one row asks, and where all own tokens do and fill no page
                for rows, case in ((1, DECODE[0]), (100, SUFFIX[1])):
                    found = largest_error(torch, case, rows, (16, KV_HEADS, HEAD_DIM), backend)
                    say(**line, rows=rows, largest_error=round(found, 4))
            except Exception as error:
                say(**line, not_run=first_line(error))
        for heads in HEADS:
            shape = (heads, KV_HEADS, HEAD_DIM)
            for case in DECODE:
                line = dict(shape=f"decode {case[0]}x{case[1]}", heads=f"{heads}/8")
                for backend in ("fa2", "fa3"):
                    self.attempt(lambda: cascade_calls(torch, case, 1, shape, backend), peer="flashinfer cascade",
                                 backend=backend, **line)
                self.attempt(lambda: unshared_calls(torch, case, shape), peer="flashinfer unshared", backend="fa2",
                             **line)
            for case in SUFFIX:
                b, p, s = case
                line = dict(shape=f"suffix {b}x{s}", heads=f"{heads}/8")
                for backend in ("fa2", "fa3"):
                    self.attempt(lambda: cascade_calls(torch, case, s, shape, backend),
                                 flops=4.0 * b * s * (p + (s + 1) / 2) * heads * HEAD_DIM, hot=False,
                                 peer="flashinfer cascade", backend=backend, **line)

    def linear(self) -> None:
        linear = self.torch.nn.functional.linear
        for rows in (4096, 8192, 16384, 1024, 64):
            for model, hidden, width, inner in MODELS:
                for layer, n, k in (("qkv", width + 2 * KV_HEADS * HEAD_DIM, hidden), ("o", hidden, width),
                                    ("gate up", 2 * inner, hidden), ("down", hidden, inner)):
                    def make(n=n, k=k, rows=rows):
                        x = self.random(rows, k)
                        weights = [self.random(n, k) for _ in range(rotation(self.torch, 2 * n * k))]
                        return [lambda w=w: linear(x, w) for w in weights]
                    self.attempt(make, flops=2.0 * rows * n * k, hot=False, peer="torch linear", model=model, layer=layer,
                                 rows=rows)

    def generate(self) -> None:
        generate(self.torch, self.end, say, first_line)


PARTS = ("rates", "sdpa", "flex", "flashinfer", "linear", "generate")


def main(arguments: list[str]) -> int:
    if "--help" in arguments:
        print(__doc__.strip())
        return 0
    if len(arguments) < 2 or not arguments[0].isdigit() or not set(arguments[1:]) <= set(PARTS):
        print(f"usage: gpu_peers.py SECONDS PART..., parts {', '.join(PARTS)}", file=sys.stderr)
        return 2
    end = time.monotonic() + float(arguments[0])
    try:
        import torch
    except Exception as error:
        say(peer="torch", not_run=first_line(error))
        return 0
    if not torch.cuda.is_available():
        say(peer="torch", not_run="torch sees no GPU")
        return 0
    properties = torch.cuda.get_device_properties(0)
    say(peer="torch", version=torch.__version__, cudnn=torch.backends.cudnn.version(), device=properties.name,
        l2_bytes=properties.L2_cache_size)
    peers = Peers(torch, end)
    with torch.inference_mode():
        for part in arguments[1:]:
            try:
                getattr(peers, part)()
            except Exception as error:
                say(peer=part, not_run=first_line(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
