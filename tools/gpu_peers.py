#!/usr/bin/env python3
"""What PyTorch reaches on the shapes of bench/gpu/gpu_bench.cc: one JSON object per line.

Scaled dot-product attention by its flash and cuDNN backends, FlexAttention with a block mask, bf16 products. Each
line is {"peer", "shape", "heads", "us"} or {"peer", ..., "not_run": why}. Runs in one process on one GPU.
"""

import json
import sys
import time

WARM_UP, CALLS = 5, 50
CAUSAL = [4096, 8192, 16384]
SUFFIX = [(32, 2048, 128), (100, 2048, 100), (1000, 2048, 50)]
DECODE = [(32, 2048, 64), (128, 1024, 64), (32, 8192, 64)]


def say(**line) -> None:
    print(json.dumps(line), flush=True)


def microseconds(torch, call) -> float:
    for _ in range(WARM_UP):
        call()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1000 / CALLS


def attempt(torch, call, **line) -> None:
    try:
        say(**line, us=round(microseconds(torch, call), 2))
    except Exception as error:  # a peer that cannot is a line, not the end
        say(**line, not_run=str(error).splitlines()[0][:200])
    torch.cuda.empty_cache()


def sdpa(torch, budget: float) -> None:
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    for name, backend in (("sdpa cudnn", SDPBackend.CUDNN_ATTENTION), ("sdpa flash", SDPBackend.FLASH_ATTENTION)):
        def run(q, k, v, causal):
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

        for n in CAUSAL:
            q, k, v = random(1, 32, n, 128), random(1, 8, n, 128), random(1, 8, n, 128)
            attempt(torch, lambda: run(q, k, v, True), peer=name, shape=f"causal {n // 1024}k", heads="32/8")
        for heads in (16, 32):
            for b, p, s in SUFFIX:
                # All suffix rows over the shared prefix, without a mask: the bulk of the work, not all of it.
                q, k, v = random(1, heads, b * s, 128), random(1, 8, p, 128), random(1, 8, p, 128)
                attempt(torch, lambda: run(q, k, v, False), peer=name + " prefix only", shape=f"suffix {b}x{s}",
                        heads=f"{heads}/8")
            for b, p, s in DECODE:
                q, k, v = random(b, heads, 1, 128), random(b, 8, p + s, 128), random(b, 8, p + s, 128)
                attempt(torch, lambda: run(q, k, v, False), peer=name + " unshared", shape=f"decode {b}x{p}",
                        heads=f"{heads}/8")
        if time.monotonic() > budget:
            say(peer=name, not_run="out of time")
            return


def flex(torch, budget: float) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)
    for heads in (16, 32):
        for b, p, s in SUFFIX:
            if time.monotonic() > budget:
                say(peer="flex", shape=f"suffix {b}x{s}", heads=f"{heads}/8", not_run="out of time")
                continue

            def mask(_b, _h, q, k, p=p, s=s):
                own = (k >= p) & ((k - p) // s == q // s) & ((k - p) % s <= q % s)
                return (k < p) | own

            def prepare(b=b, p=p, s=s, heads=heads, mask=mask):
                blocks = create_block_mask(mask, None, None, b * s, p + b * s, device="cuda")
                q = torch.randn(1, heads, b * s, 128, device="cuda", dtype=torch.bfloat16)
                k = torch.randn(1, 8, p + b * s, 128, device="cuda", dtype=torch.bfloat16)
                return lambda: compiled(q, k, k, block_mask=blocks, enable_gqa=True)

            try:
                call = prepare()
            except Exception as error:
                say(peer="flex", shape=f"suffix {b}x{s}", heads=f"{heads}/8", not_run=str(error).splitlines()[0][:200])
                continue
            attempt(torch, call, peer="flex", shape=f"suffix {b}x{s}", heads=f"{heads}/8")


def gemm(torch) -> None:
    for name, n, k in (("8B qkv", 6144, 4096), ("8B gate up", 24576, 4096), ("8B down", 4096, 12288)):
        w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        for rows in (64, 1024, 4096, 8192):
            x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
            attempt(torch, lambda: torch.nn.functional.linear(x, w), peer="torch linear", shape=name, rows=rows)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 180.0
    budget = time.monotonic() + seconds
    try:
        import torch
    except ImportError as error:
        say(peer="torch", not_run=str(error))
        return 0
    if not torch.cuda.is_available():
        say(peer="torch", not_run="torch sees no GPU")
        return 0
    say(peer="torch", version=torch.__version__, device=torch.cuda.get_device_name(),
        l2_bytes=torch.cuda.get_device_properties(0).L2_cache_size)
    gemm(torch)
    for part in (sdpa, flex):
        try:
            part(torch, budget)
        except Exception as error:
            say(peer=part.__name__, not_run=str(error).splitlines()[0][:200])
    return 0


if __name__ == "__main__":
    sys.exit(main())
