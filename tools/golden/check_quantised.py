#!/usr/bin/env python3
"""Holds quantised_layouts.py against the packages that read and write its layouts.

    python check_quantised.py [AWQ_FILE [GPTQ_FILE]]

Needs requirements-reference.txt and compressed-tensors 0.20. AWQ_FILE is `awq/utils/packing_utils.py` of AutoAWQ, GPTQ_FILE
`gptqmodel/nn_modules/qlinear/__init__.py` of GPTQModel, which are checked when they are named (the packages themselves
want a GPU). Scales are given to each package as float32; where they are bf16 in the file, they are given as such too.
"""

import packages  # noqa: F401, I001

import ast
import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationScheme
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from quantised_layouts import E4M3, LAYOUTS, Weight
from safetensors_file import Stored

_ROWS, _COLUMNS = 192, 96
_VIEWS = {"BF16": torch.bfloat16, "F16": torch.float16, "F8_E4M3": torch.float8_e4m3fn}


def tensor(stored: Stored) -> torch.Tensor:
    array = torch.from_numpy(np.ascontiguousarray(stored.array))
    if stored.dtype == "BF16":
        return array.view(torch.int16).view(torch.bfloat16)
    return array.view(_VIEWS[stored.dtype]) if stored.dtype in _VIEWS else array


def compressed(config: dict, weight: Weight, dtype: torch.dtype) -> torch.Tensor | None:
    parts = {name: tensor(stored) for name, stored in weight.parts.items()}
    if "weight_g_idx" in parts:
        return None  # version 0.20 has no such files any more; 0.9.4 reads them so
    if parts["weight_scale"].is_floating_point():
        parts["weight_scale"] = parts["weight_scale"].to(dtype)
    scheme = QuantizationScheme(**config["config_groups"]["group_0"])
    return BaseCompressor.load_from_registry(config["format"]).decompress(parts, scheme)["weight"]


def awq(file: str, config: dict, weight: Weight) -> torch.Tensor:
    spec = importlib.util.spec_from_file_location("awq_packing", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts = {name: tensor(stored) for name, stored in weight.parts.items()}
    group = config["group_size"] if config["group_size"] > 0 else _COLUMNS
    return module.dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"].float(), 4, group).T


def gptq(file: str, config: dict, weight: Weight) -> torch.Tensor:
    """`dequantize_weight` of the package, on an object with what it reads."""
    source = Path(file).read_text()
    names = {"dequantize_weight", "_dequantize_from_codes", "_init_wf_unsqueeze_buffers"}
    methods = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name in names]
    space = {"t": torch, "torch": torch, "_torch_right_shift": torch.bitwise_right_shift}
    code = "\n".join(ast.unparse(ast.Module([node], [])) for node in methods)
    exec(code, space)  # noqa: S102
    parts = {name: tensor(stored) for name, stored in weight.parts.items()}
    bits = config["bits"]
    zeros = parts["qzeros"]
    if config.get("checkpoint_format", "gptq") == "gptq":
        zeros = zeros + (0x11111111 if bits == 4 else 0x01010101)  # convert_gptq_v1_to_v2_format_module
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    group = config["group_size"] if config["group_size"] > 0 else _COLUMNS
    layer = types.SimpleNamespace(
        planar=False, bits=bits, maxq=2**bits - 1, pack_factor=32 // bits, qzeros=zeros, qweight=parts["qweight"],
        scales=parts["scales"].float(), g_idx=parts.get("g_idx", torch.arange(_COLUMNS) // group),
        dequant_dtype=torch.int16 if bits == 8 else torch.int8, wf_unsqueeze_zero=shifts[None, None, :],
        wf_unsqueeze_neg_one=shifts[None, :, None],
    )
    layer._init_wf_unsqueeze_buffers = lambda: None
    if "_dequantize_from_codes" in space:
        layer._dequantize_from_codes = lambda *args, **more: space["_dequantize_from_codes"](layer, *args, **more)
    return space["dequantize_weight"](layer).T


def compare(name: str, got: torch.Tensor | None, expected: np.ndarray) -> int:
    if got is None:
        print(f"{name}: not checked")
        return 0
    values = got.detach().float().numpy().reshape(expected.shape)
    if got.dtype == torch.bfloat16:
        expected = torch.from_numpy(expected).bfloat16().float().numpy()
    same = np.array_equal(values, expected)
    print(f"{name}: {'equal' if same else 'DIFFERENT'} ({got.dtype})")
    return not same


def main() -> int:
    table = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    wrong = int(not np.array_equal(table, E4M3, equal_nan=True))
    for name, layout in LAYOUTS.items():
        weight = layout.make(f"check/{name}", _ROWS, _COLUMNS, 0.1)
        method = layout.config["quant_method"]
        parts = {part: tensor(stored) for part, stored in weight.parts.items()}
        if method == "compressed-tensors":
            for dtype in (torch.float32, torch.bfloat16):
                wrong += compare(name, compressed(layout.config, weight, dtype), weight.values)
        elif method == "awq" and len(sys.argv) > 1:
            wrong += compare(name, awq(sys.argv[1], layout.config, weight), weight.values)
        elif method == "gptq" and len(sys.argv) > 2:
            wrong += compare(name, gptq(sys.argv[2], layout.config, weight), weight.values)
        elif method == "fp8":
            scale = parts.get("weight_scale_inv", parts.get("weight_scale"))
            rows, columns = layout.config.get("weight_block_size", (1, 1))
            got = parts["weight"].float() * scale.float() if "weight_scale_inv" not in parts else None
            if got is None and _ROWS % rows == 0 and _COLUMNS % columns == 0:
                got = Fp8Dequantize(None)._dequantize_one(parts["weight"], scale.float(), torch.float32)
            wrong += compare(name, got, weight.values)
        elif method == "mxfp4":
            blocks, scales = parts["blocks"][None], parts["scales"][None]
            for dtype in (torch.float32, torch.bfloat16):
                wrong += compare(name, convert_moe_packed_tensors(blocks, scales, dtype=dtype)[0].T, weight.values)
        else:
            print(f"{name}: not checked")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
