"""What the benchmarks of a GPU print that meets all of tools/gpu_check's bars."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from gpu import verdicts  # noqa: E402


def figures_of_a_fast_gpu() -> tuple[list[dict], list[dict]]:
    bench, peers = [], [{"peer": "matmul", "tflops": 780.0}, {"peer": "copy", "gb_per_s": 4300.0}]
    for heads in ("16/8", "32/8"):
        for shape in verdicts.CAUSAL + verdicts.SUFFIX + verdicts.DECODE:
            where = {"shape": shape, "heads": heads}
            line = {"bench": "attention", "kernel": "mma", **where, "us": 6.0, "tflops": 600.0, "flops": 6e8, "bytes": 17e6}
            bench += [{**line, "shared": True}, {**line, "shared": False, "us": 40.0}]
            peers += [{"peer": "sdpa cudnn", **where, "us": 5.0}, {"peer": "flex", **where, "us": 9.0},
                      {"peer": "sdpa cudnn prefix only", **where, "tflops": 700.0},
                      {"peer": "sdpa cudnn unshared", **where, "us": 30.0}, {"peer": "sdpa flash unshared", **where, "us": 50.0}]
    bench += [{"bench": "engine", "model": m, "shared_ms": 100.0, "unshared_ms": 600.0} for m in verdicts.SPEEDUPS]
    bench += [{"bench": "gemm", "model": m, "layer": l, "rows": r, "us": 9.0, "tflops": 700.0} for m, l, r in verdicts.PRODUCTS]
    return bench, peers


def text_of(lines: list[dict]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)
