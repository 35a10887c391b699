"""Quantised weights in the layouts that Hugging Face directories are published in, from random codes.

Each layout packs known codes, zero points and scales, so what a reader must make of them follows from the codes alone:
(code - zero) * scale, in float32. The layouts are those of

    compressed-tensors 0.20, `compressors/pack_quantized`, `naive_quantized`, `mxfp4`
    AutoAWQ, `awq/utils/packing_utils.py` (version "gemm")
    GPTQModel, `nn_modules/qlinear`; AutoGPTQ before it (format "gptq": zero points less one; "gptq_v2")
    transformers, `integrations/finegrained_fp8.py` and `integrations/mxfp4.py`

check_quantised.py holds what is written here against the code of these packages.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import prng
import safetensors_file
from safetensors_file import Stored

# E2M1 of OCP.
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


@dataclass
class Weight:
    parts: dict[str, Stored]  # by what they are called behind the name of the module
    values: np.ndarray  # float32


@dataclass(frozen=True)
class Layout:
    config: dict  # quantization_config
    # (stream, rows, columns, deviation) -> Weight
    make: Callable[[str, int, int, float], Weight]
    suffix: str = ".weight"  # of the weight; its parts follow the name without it
    bias: bool = False  # a bias of zeros for every module, as AutoGPTQ writes
    plain: list[str] = field(default_factory=list)  # modules that are not quantised


def _e4m3() -> np.ndarray:
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    magnitude[(code & 0x7F) == 0x7F] = np.nan
    return np.where(code < 128, magnitude, -magnitude).astype(np.float32)


E4M3 = _e4m3()


def _pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes [rows, columns] in words of 32 bits along the columns, the first in the lowest bits."""
    each = 32 // bits
    padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % each))).astype(np.uint32)
    words = np.zeros((codes.shape[0], padded.shape[1] // each), dtype=np.uint32)
    for i in range(each):
        words |= padded[:, i::each] << np.uint32(bits * i)
    return words


def _scales(stream: str, shape: tuple[int, int], mean: float, dtype: str) -> tuple[Stored, np.ndarray]:
    """Scales between half and one and a half times the mean, as stored and as float32."""
    spread = (prng.integers(f"{stream}/scales", shape[0] * shape[1], 1025) + 512).astype(np.float64) / 1024.0
    stored = safetensors_file.stored((spread * mean).astype(np.float32).reshape(shape), dtype)
    return stored, safetensors_file.as_float32(stored)


def _codes(stream: str, rows: int, columns: int, limit: int) -> np.ndarray:
    return prng.integers(f"{stream}/codes", rows * columns, limit).reshape(rows, columns)


def _unit(bits: int) -> float:
    """Deviation of a uniform code."""
    return 2**bits / 12**0.5


def _along(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """[rows, groups] -> [rows, columns]"""
    return values[:, groups]


def packed(bits: int, group: int | None, zeros: bool, order: bool = False, plain_zeros: bool = False):
    """compressed-tensors, pack-quantized; no group: a scale for each row."""

    def make(stream: str, rows: int, columns: int, deviation: float) -> Weight:
        middle = 1 << (bits - 1)
        count = columns // group if group else 1
        groups = np.arange(columns) // (group or columns)
        codes = _codes(stream, rows, columns, 1 << bits) - middle
        scale, scales = _scales(stream, (rows, count), deviation / _unit(bits), "BF16")
        parts = {
            "weight_packed": Stored("I32", _pack(codes + middle, bits).view(np.int32)),
            "weight_scale": scale,
            "weight_shape": Stored("I64", np.array([rows, columns], dtype=np.int64)),
        }
        zero = np.zeros((rows, count), dtype=np.int64)
        if zeros:
            zero = prng.integers(f"{stream}/zeros", rows * count, 5).reshape(rows, count) - 3
            if plain_zeros:
                parts["weight_zero_point"] = Stored("I8", zero.astype(np.int8))
            else:
                words = np.ascontiguousarray(_pack((zero + middle).T, bits).T)
                parts["weight_zero_point"] = Stored("I32", words.view(np.int32))
        if order:
            groups = groups[np.argsort(prng.words(f"{stream}/order", columns), kind="stable")]
            parts["weight_g_idx"] = Stored("I32", groups.astype(np.int32))
        difference = (codes - _along(zero, groups)).astype(np.float32)
        return Weight(parts, difference * _along(scales, groups))

    return make


def int8(zeros: bool, strategy: str = "channel"):
    """compressed-tensors, int-quantized."""

    def make(stream: str, rows: int, columns: int, deviation: float) -> Weight:
        codes = _codes(stream, rows, columns, 256) - 128
        scale, scales = _scales(stream, (rows if strategy == "channel" else 1, 1), deviation / _unit(8), "BF16")
        zero = np.zeros_like(scales, dtype=np.int64)
        parts = {"weight": Stored("I8", codes.astype(np.int8)), "weight_scale": scale}
        if strategy == "tensor":
            parts["weight_scale"] = Stored(scale.dtype, scale.array.reshape(1))
        if zeros:
            zero = prng.integers(f"{stream}/zeros", zero.size, 21).reshape(zero.shape) - 10
            parts["weight_zero_point"] = Stored("I8", zero.astype(np.int8))
        return Weight(parts, (codes - zero).astype(np.float32) * scales)

    return make


def fp8(scale_name: str, block: tuple[int, int] | None, dtype: str, shape: str = "block", activations: bool = False):
    """F8_E4M3 with scales of blocks, rows ([rows, 1]) or one for all ([] or [1])."""

    def make(stream: str, rows: int, columns: int, deviation: float) -> Weight:
        codes = _codes(stream, rows, columns, 256).astype(np.uint8)
        codes[(codes & 0x7F) == 0x7F] = 0x3A
        counts = {"row": (rows, 1), "tensor": (1, 1), "scalar": (1, 1)}.get(shape)
        if block:
            counts = (-(-rows // block[0]), -(-columns // block[1]))
        scale, scales = _scales(stream, counts, deviation / 120.0, dtype)
        if shape in ("tensor", "scalar"):
            scale = Stored(scale.dtype, scale.array.reshape([1] if shape == "tensor" else []))
        each_row, each_column = block or (-(-rows // counts[0]), columns)
        of_weight = scales[np.arange(rows) // each_row][:, np.arange(columns) // each_column]
        parts = {"weight": Stored("F8_E4M3", codes), scale_name: scale}
        if activations:
            parts["input_scale"] = safetensors_file.stored(np.array([0.5], dtype=np.float32), "F32")
        return Weight(parts, E4M3[codes] * of_weight)

    return make


def awq(group: int | None):
    def make(stream: str, rows: int, columns: int, deviation: float) -> Weight:
        order = [0, 2, 4, 6, 1, 3, 5, 7]  # number i of a word is column order[i] of eight
        count = columns // group if group else 1
        groups = np.arange(columns) // (group or columns)
        codes = _codes(stream, rows, columns, 16)
        zero = prng.integers(f"{stream}/zeros", rows * count, 16).reshape(rows, count)
        zero[:, ::2] = 7 + zero[:, ::2] % 3
        scale, scales = _scales(stream, (rows, count), deviation / _unit(4), "F16")

        def words(numbers: np.ndarray) -> Stored:
            eights = np.ascontiguousarray(numbers.T).reshape(numbers.shape[1], -1, 8)[:, :, order]
            return Stored("I32", _pack(eights.reshape(numbers.shape[1], -1), 4).view(np.int32))

        parts = {"qweight": words(codes), "qzeros": words(zero), "scales": Stored("F16", scale.array.T.copy())}
        difference = (codes - _along(zero, groups)).astype(np.float32)
        return Weight(parts, difference * _along(scales, groups))

    return make


def gptq(bits: int, group: int | None, symmetric: bool, order: bool = False, version: int = 1, g_idx: bool = True):
    def make(stream: str, rows: int, columns: int, deviation: float) -> Weight:
        limit = 1 << bits
        count = columns // group if group else 1
        groups = np.arange(columns) // (group or columns)
        if order:
            groups = groups[np.argsort(prng.words(f"{stream}/order", columns), kind="stable")]
        codes = _codes(stream, rows, columns, limit)
        zero = np.full((rows, count), limit // 2)
        if not symmetric:
            # None is 0: what version 1 wrote for it depends on the program.
            zero += prng.integers(f"{stream}/zeros", rows * count, limit // 2).reshape(rows, count) - limit // 4
        scale, scales = _scales(stream, (rows, count), deviation / _unit(bits), "F16")
        stored_zeros = zero - 1 if version == 1 else zero
        parts = {
            "qweight": Stored("I32", np.ascontiguousarray(_pack(codes, bits).T).view(np.int32)),
            "qzeros": Stored("I32", _pack(np.ascontiguousarray(stored_zeros.T), bits).view(np.int32)),
            "scales": Stored("F16", scale.array.T.copy()),
        }
        if g_idx:
            parts["g_idx"] = Stored("I32", groups.astype(np.int32))
        difference = (codes - _along(zero, groups)).astype(np.float32)
        return Weight(parts, difference * _along(scales, groups))

    return make


def _mxfp4(stream: str, rows: int, columns: int, deviation: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes [rows, columns / 2], exponents [rows, columns / 32], values."""
    codes = _codes(stream, rows, columns, 16)
    middle = 127 + round(np.log2(deviation / 2.9))
    exponents = middle + prng.integers(f"{stream}/scales", rows * columns // 32, 3).reshape(rows, -1) - 1
    values = _E2M1[codes] * np.repeat((2.0 ** (exponents - 127.0)).astype(np.float32), 32, axis=1)
    both = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
    return both, exponents.astype(np.uint8), values


def mxfp4(stream: str, rows: int, columns: int, deviation: float) -> Weight:
    both, exponents, values = _mxfp4(stream, rows, columns, deviation)
    blocks = both.reshape(rows, columns // 32, 16)
    return Weight({"blocks": Stored("U8", blocks), "scales": Stored("U8", exponents)}, values)


def mxfp4_packed(stream: str, rows: int, columns: int, deviation: float) -> Weight:
    both, exponents, values = _mxfp4(stream, rows, columns, deviation)
    return Weight({"weight_packed": Stored("U8", both), "weight_scale": Stored("U8", exponents)}, values)


def _compressed(form: str, weights: dict, **more) -> dict:
    group = {"targets": ["Linear"], "weights": {"dynamic": False, **weights}, "input_activations": None} | more
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group},
            "ignore": ["lm_head", "re:.*router$"], "kv_cache_scheme": None, "quantization_status": "compressed"}


def _integers(bits: int, strategy: str, symmetric: bool, group: int | None = None, **more) -> dict:
    return {"num_bits": bits, "type": "int", "strategy": strategy, "symmetric": symmetric, "group_size": group} | more


def _floats(strategy: str, **more) -> dict:
    return {"num_bits": 8, "type": "float", "strategy": strategy, "symmetric": True} | more


def _gptq_config(bits: int, group: int, symmetric: bool, order: bool, **more) -> dict:
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "desc_act": order,
            "damp_percent": 0.01, "true_sequential": True} | more


_AWQ = {"quant_method": "awq", "bits": 4, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}
_FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "modules_to_not_convert": ["lm_head"]}
_W8A8 = {"input_activations": {"num_bits": 8, "type": "int", "dynamic": True, "strategy": "token"}}

LAYOUTS = {
    "ct-int4-group": Layout(_compressed("pack-quantized", _integers(4, "group", True, 32)), packed(4, 32, False)),
    "ct-int4-zeros": Layout(_compressed("pack-quantized", _integers(4, "group", False, 16)), packed(4, 16, True)),
    "ct-int4-order": Layout(
        _compressed("pack-quantized", _integers(4, "group", False, 16, actorder="group")),
        packed(4, 16, True, order=True, plain_zeros=True),
    ),
    "ct-int8-channel": Layout(_compressed("pack-quantized", _integers(8, "channel", True)), packed(8, None, False)),
    "ct-int8-zeros": Layout(_compressed("pack-quantized", _integers(8, "channel", False)), packed(8, None, True)),
    "ct-w8a8": Layout(_compressed("int-quantized", _integers(8, "channel", True), **_W8A8), int8(False)),
    "ct-w8a8-zeros": Layout(_compressed("int-quantized", _integers(8, "channel", False), **_W8A8), int8(True)),
    "ct-w8a8-tensor": Layout(_compressed("int-quantized", _integers(8, "tensor", True), **_W8A8), int8(False, "tensor")),
    "ct-fp8": Layout(_compressed("float-quantized", _floats("channel")), fp8("weight_scale", None, "BF16", "row")),
    "ct-fp8-block": Layout(
        _compressed("float-quantized", _floats("block", block_structure=[32, 32])),
        fp8("weight_scale", (32, 32), "BF16"),
    ),
    "ct-mxfp4": Layout(
        _compressed("mxfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "group", "symmetric": True,
                                             "group_size": 32}),
        mxfp4_packed,
    ),
    "awq": Layout(_AWQ | {"group_size": 32}, awq(32)),
    "awq-row": Layout(_AWQ | {"group_size": -1, "version": "GEMM"}, awq(None)),
    "gptq4": Layout(_gptq_config(4, 32, True, False), gptq(4, 32, True), bias=True),
    "gptq4-order": Layout(_gptq_config(4, 16, False, True), gptq(4, 16, False, order=True)),
    "gptq4-v2": Layout(
        _gptq_config(4, 32, False, False, checkpoint_format="gptq_v2", pack_dtype="int32", dynamic={"-:lm_head": {}}),
        gptq(4, 32, False, version=2, g_idx=False),
    ),
    "gptq8": Layout(_gptq_config(8, 32, False, False, checkpoint_format="gptq"), gptq(8, 32, False)),
    "gptq8-row": Layout(_gptq_config(8, -1, True, False), gptq(8, None, True)),
    "fp8-block": Layout(_FP8 | {"weight_block_size": [32, 32]}, fp8("weight_scale_inv", (32, 32), "F32")),
    "fp8-block-bf16": Layout(_FP8 | {"weight_block_size": [64, 32]}, fp8("weight_scale_inv", (64, 32), "BF16")),
    "fp8-tensor": Layout(
        _FP8 | {"activation_scheme": "static"}, fp8("weight_scale", None, "F32", "scalar", activations=True)
    ),
    "fp8-row": Layout(_FP8, fp8("weight_scale", None, "F32", "row")),
    "mxfp4": Layout({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, mxfp4, suffix=""),
}


def part_name(weight: str, layout: Layout, part: str) -> str:
    """NAME.weight -> NAME.qweight; of a layout without a suffix NAME.weight_blocks."""
    return f"{weight}_{part}" if not layout.suffix else f"{weight.removesuffix(layout.suffix)}.{part}"
