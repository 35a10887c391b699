#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets: tests/fuzz/make_corpus.py

One small input for each thing that a format can say, so that a fuzzer starts from all of them. Writes over the files
it makes and leaves the others in corpus/ alone: those are findings and what a long run found.
"""

import functools
import json
import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def dump(value) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def lines(*values) -> bytes:
    return b"\n".join(dump(value) for value in values) + b"\n"


# ---- models ----------------------------------------------------------------------------------------------------------

LLAMA = {
    "model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "head_dim": 16, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "attention_bias": True, "tie_word_embeddings": True,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 256},
    "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": [2, 3], "torch_dtype": "bfloat16",
}
PHI3 = {
    "model_type": "phi3", "vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 8,
    "intermediate_size": 96, "max_position_embeddings": 512, "original_max_position_embeddings": 128,
    "partial_rotary_factor": 0.5, "eos_token_id": 7, "sliding_window": 512,
    "rope_scaling": {"type": "longrope", "short_factor": [1, 1.5], "long_factor": [2, 4]},
}


def configs() -> dict:
    plain = {key: value for key, value in LLAMA.items() if key != "rope_scaling"}
    return {
        "llama": dump(LLAMA),
        "phi3": dump(PHI3),
        "qwen3": dump({**plain, "model_type": "qwen3", "use_sliding_window": False, "layer_types": ["full_attention"] * 2}),
        "olmo2": dump({**plain, "model_type": "olmo2", "rope_scaling": {"rope_type": "linear", "factor": 2}}),
        "gemma": dump({**plain, "model_type": "gemma", "hidden_act": "gelu", "hidden_activation": None}),
        "gemma3": dump({**plain, "model_type": "gemma3_text", "sliding_window": 64, "query_pre_attn_scalar": 24,
                        "layer_types": ["sliding_attention", "full_attention"], "final_logit_softcapping": 30.0,
                        "hidden_activation": "gelu_pytorch_tanh", "rope_parameters": {
                            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
        "smollm3": dump({**plain, "model_type": "smollm3", "no_rope_layers": [1, 0], "rope_scaling": {
            "rope_type": "dynamic", "factor": 2.0}}),
        "yarn": dump({**plain, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1}}),
        "new_rope": dump({**plain, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
        "gptq": dump({**plain, "quantization_config": {
            "quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "dynamic": {"-:head": {}}}}),
        "compressed": dump({**plain, "quantization_config": {
            "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head", "re:.*"],
            "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "block",
                                                      "block_structure": [128, 128]}}}}}),
        "gpt_oss": dump({**plain, "model_type": "gpt_oss", "num_local_experts": 8, "num_experts_per_tok": 4,
                         "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64,
                         "swiglu_limit": 7.0, "rope_scaling": {
                             "rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 64,
                             "truncate": False}, "quantization_config": {"quant_method": "mxfp4"}}),
        "generation": dump({"eos_token_id": 5, "temperature": 0.7}),
    }


def safetensors(header: dict, data: int) -> bytes:
    text = dump(header)
    return struct.pack("<Q", len(text)) + text + bytes(i * 37 % 256 for i in range(data))


def tensor(dtype: str, shape: list, begin: int, end: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def all_safetensors() -> dict:
    return {
        "three": safetensors({"__metadata__": {"format": "pt"}, "weight": tensor("F32", [3, 4], 0, 48),
                              "bias": tensor("BF16", [6], 48, 60), "scalar": tensor("F16", [], 60, 62),
                              "none": tensor("F32", [0, 2], 62, 62)}, 62),
        "empty": safetensors({}, 0),
        "deep": safetensors({"a": tensor("F16", [1, 1, 1, 1, 1, 2], 0, 4)}, 4),
        "long_name": safetensors({"model.layers.0.self_attn.q_proj.weight" * 3: tensor("BF16", [1, 2], 0, 4)}, 4),
    }


def packed(matrix: str = "layers.0.down", shape: tuple = (2, 16, 128), scale: float = 0.25) -> bytes:
    """Of 40 columns of 8 numbers, padded to 64."""
    panels, scales = shape[0] * shape[1] * shape[2], 64
    header = {
        "__metadata__": {"prefix.int8": dump({"version": 2, "shapes": {"down.weight": [40, 8]}}).decode()},
        f"int8.{matrix}.panels": tensor("U8", list(shape), 0, panels),
        f"int8.{matrix}.scales": tensor("F32", [scales], panels, panels + 4 * scales),
        "norm.weight": tensor("BF16", [8], panels + 4 * scales, panels + 4 * scales + 16),
    }
    text = dump(header)
    return (struct.pack("<Q", len(text)) + text + bytes(i * 37 % 256 for i in range(panels)) +
            struct.pack("<f", scale) * scales + bytes(16))


def all_packed() -> dict:
    return {"good": packed(), "other_shape": packed(shape=(1, 16, 128)), "other_kind": packed("layers.0.up"),
            "negative": packed(scale=-1.0), "infinite": packed(scale=float("inf"))}


BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1, "I32": 4, "I64": 8, "F8_E4M3": 1}


def quantised(config: dict, parts: dict) -> bytes:
    """parts: name -> dtype, shape and, where any bytes will not do, the bytes"""
    header, data = {}, b""
    for name, (dtype, shape, *given) in parts.items():
        size = BYTES[dtype]
        for n in shape:
            size *= n
        header[name] = tensor(dtype, shape, len(data), len(data) + size)
        # 1.0 in F16, and a number of BF16 and F32
        data += given[0] if given else bytes(0x3C if i % 2 else 0 for i in range(size))
    text, names = dump(config), dump(header)
    return struct.pack("<H", len(text)) + text + struct.pack("<Q", len(names)) + names + data


def adapters() -> dict:
    """Of the model in fuzz_adapter.cc: two layers, hidden 8, two heads of 4 and one of keys, intermediate 12."""
    sizes = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (4, 8), "self_attn.v_proj": (4, 8), "self_attn.o_proj": (8, 8),
             "mlp.gate_proj": (12, 8), "mlp.up_proj": (12, 8), "mlp.down_proj": (8, 12)}

    def pairs(*modules: str, rank: int = 2, dtype: str = "BF16", layers: int = 1, start: str = "model.") -> dict:
        return {f"base_model.model.{start}layers.{layer}.{module}.lora_{part}.weight": (dtype, shape)
                for layer in range(layers) for module in modules
                for part, shape in (("A", [rank, sizes[module][1]]), ("B", [sizes[module][0], rank]))}

    plain = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "task_type": "CAUSAL_LM", "inference_mode": True}
    return {
        "all": quantised({**plain, "target_modules": [module.split(".")[1] for module in sizes]}, pairs(*sizes)),
        "f32": quantised({**plain, "target_modules": "all-linear"}, pairs("self_attn.q_proj", dtype="F32", layers=2)),
        "root_scaled": quantised({**plain, "use_rslora": True, "target_modules": None}, pairs("mlp.down_proj", dtype="F16")),
        "patterns": quantised({**plain, "rank_pattern": {"q_proj": 3}, "alpha_pattern": {"layers.0.self_attn.q_proj": 1.5}},
                              pairs("self_attn.q_proj", rank=3)),
        "expressions": quantised({**plain, "rank_pattern": {r"^model\.layers\.[0-3]\.(self_attn|mlp)\.q_pro+j$": 3, ".*": 5},
                                  "alpha_pattern": {r"(?:\w+\.){2,4}q_proj": 1.5}}, pairs("self_attn.q_proj", rank=3)),
        "no_model": quantised({**plain, "r": 1}, pairs("mlp.gate_proj", rank=1, start="")),
        "half": quantised(plain, dict([next(iter(pairs("mlp.up_proj").items()))])),
        "dora": quantised({**plain, "use_dora": True}, pairs("mlp.up_proj")),
        "other_kind": quantised({"peft_type": "IA3"}, {}),
    }


def all_quantised() -> dict:
    def compressed(form: str, **weights) -> dict:
        return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
                "config_groups": {"group_0": {"weights": weights}}}

    int4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 8, "symmetric": False}
    shape = struct.pack("<qq", 8, 16)
    groups = struct.pack("<8i", 1, 0, 1, 0, 0, 1, 0, 1)
    gptq = {"qweight": ("I32", [1, 8]), "qzeros": ("I32", [2, 1]), "scales": ("F16", [2, 8]), "g_idx": ("I32", [8], groups)}
    return {
        "packed": quantised(compressed("pack-quantized", **int4), {
            "m.weight_packed": ("I32", [8, 2]), "m.weight_scale": ("BF16", [8, 2]),
            "m.weight_zero_point": ("I32", [1, 2]), "m.weight_shape": ("I64", [2], shape)}),
        "int8": quantised(compressed("int-quantized", strategy="channel"), {
            "m.weight": ("I8", [3, 5]), "m.weight_scale": ("BF16", [3, 1]), "m.input_scale": ("F32", [1])}),
        "mxfp4_packed": quantised(compressed("mxfp4-pack-quantized", num_bits=4, type="float", group_size=32), {
            "m.weight_packed": ("U8", [2, 16]), "m.weight_scale": ("U8", [2, 1])}),
        "awq": quantised({"quant_method": "awq", "bits": 4, "group_size": 4, "version": "gemm"}, {
            "m.qweight": ("I32", [8, 1]), "m.qzeros": ("I32", [2, 1]), "m.scales": ("F16", [2, 8])}),
        "gptq": quantised({"quant_method": "gptq", "bits": 4, "group_size": 4, "desc_act": True}, {
            f"m.{name}": part for name, part in gptq.items()} | {"m.bias": ("F16", [8], bytes(16))}),
        "fp8": quantised({"quant_method": "fp8", "weight_block_size": [2, 4]}, {
            "m.weight": ("F8_E4M3", [3, 5]), "m.weight_scale_inv": ("F32", [2, 2]), "n.weight": ("BF16", [2])}),
        "mxfp4": quantised({"quant_method": "mxfp4", "modules_to_not_convert": ["a"]}, {
            "m_blocks": ("U8", [2, 3, 1, 16]), "m_scales": ("U8", [2, 3, 1])}),
    }


class Gguf:
    """A GGUF file: pairs, then tensors, then their bytes at multiples of the alignment."""

    TYPES = {"u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"), "i32": (5, "<i"),
             "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q"), "i64": (11, "<q"), "f64": (12, "<d")}

    def __init__(self, alignment: int = 32):
        self.pairs, self.tensors, self.data, self.alignment = [], [], b"", alignment

    @staticmethod
    def text(text: str) -> bytes:
        raw = text.encode()
        return struct.pack("<Q", len(raw)) + raw

    def add(self, key: str, kind: str, value) -> "Gguf":
        head = self.text(key)
        if kind == "string":
            self.pairs.append(head + struct.pack("<I", 8) + self.text(value))
        elif kind.startswith("list "):
            kind = kind[5:]
            items = [self.text(v) if kind == "string" else struct.pack(self.TYPES[kind][1], v) for v in value]
            number = 8 if kind == "string" else self.TYPES[kind][0]
            self.pairs.append(head + struct.pack("<IIQ", 9, number, len(items)) + b"".join(items))
        else:
            number, form = self.TYPES[kind]
            self.pairs.append(head + struct.pack("<I", number) + struct.pack(form, value))
        return self

    def tensor(self, name: str, shape: list, kind: int, size: int) -> "Gguf":
        self.data += bytes(-len(self.data) % self.alignment)
        self.tensors.append(self.text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) +
                            struct.pack("<IQ", kind, len(self.data)))
        self.data += bytes(i * 29 % 256 for i in range(size))
        return self

    def bytes(self) -> bytes:
        out = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.pairs))
        out += b"".join(self.pairs) + b"".join(self.tensors)
        return out + bytes(-len(out) % self.alignment) + self.data if self.tensors else out


def small_model(architecture: str) -> Gguf:
    gguf = Gguf().add("general.architecture", "string", architecture).add("general.alignment", "u32", 32)
    for key, value in {"embedding_length": 8, "block_count": 1, "attention.head_count": 2, "attention.head_count_kv": 1,
                       "feed_forward_length": 16, "context_length": 64}.items():
        gguf.add(f"{architecture}.{key}", "u32", value)
    return gguf.add(f"{architecture}.attention.layer_norm_rms_epsilon", "f32", 1e-5)


def ggufs() -> dict:
    files = {}
    for architecture in ("llama", "qwen3", "phi3", "olmo2"):
        gguf = small_model(architecture).add("tokenizer.ggml.scores", "list f32", [0.5, 1])
        gguf.add("tokenizer.ggml.tokens", "list string", ["a", "", "b", "c"]).tensor("token_embd.weight", [8, 4], 0, 128)
        files[architecture] = gguf.bytes()
    every = small_model("llama").add("llama.rope.scaling.type", "string", "linear")
    every.add("llama.rope.scaling.factor", "f32", 2).add("llama.rope.dimension_count", "u32", 4)
    for kind in Gguf.TYPES:
        every.add(f"x.{kind}", kind, 1).add(f"x.list.{kind}", f"list {kind}", [0, 1])
    files["every_type"] = every.tensor("token_embd.weight", [8, 4], 0, 128).bytes()
    # Bytes of one block of each type of tensor.
    blocks = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
              12: (256, 144), 13: (256, 176), 14: (256, 210), 10: (256, 84), 11: (256, 110), 20: (32, 18),
              23: (256, 136), 39: (32, 17)}
    tensors = small_model("llama")
    for kind, (values, size) in blocks.items():
        tensors.tensor(f"t{kind}", [values, 1], kind, size)
    files["every_tensor"] = tensors.bytes()
    files["empty"] = Gguf().bytes()
    return files


# ---- tokenizers ------------------------------------------------------------------------------------------------------

LETTERS = {chr(97 + i): i for i in range(5)}
BPE = {"type": "BPE", "vocab": {**LETTERS, "ab": 5, "Ġ": 6, "H": 7}, "merges": [["a", "b"]]}


def added_token(number: int, text: str, **flags) -> dict:
    return {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def tokenizer(model: dict, **parts) -> dict:
    return {"version": "1.0", "added_tokens": [added_token(8, "<s>")], "model": model, **parts}


def tokenizers() -> dict:
    models = {
        "bpe": BPE,
        "bpe_words": {"type": "BPE", "dropout": None, "unk_token": "a", "continuing_subword_prefix": "##",
                      "end_of_word_suffix": "</w>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": True,
                      "vocab": {**LETTERS, "<0x48>": 5, "##b": 6, "ab": 7}, "merges": ["a ##b"]},
        "wordpiece": {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": {**LETTERS, "##b": 5}},
        "wordlevel": {"type": "WordLevel", "unk_token": "a", "vocab": LETTERS},
        "unigram": {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                    "vocab": [["<unk>", 0.0], ["a", -1.5], ["\u2581", -2.0], ["ab", -0.5]]},
    }
    files = {name: dump(tokenizer(model)) for name, model in models.items()}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    normalizers = [
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "StripAccents"}, {"type": "NFC"},
        {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "Nmt"},
        {"type": "Replace", "pattern": {"String": "l"}, "content": "ll"},
        {"type": "Replace", "pattern": {"Regex": "[a-c]+"}, "content": "x"}, {"type": "Prepend", "prepend": "\u2581"},
        {"type": "ByteLevel"},
    ]
    pretokenizers = [
        {"type": "BertPreTokenizer"}, byte_level, {"type": "CharDelimiterSplit", "delimiter": "l"},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}, {"type": "Whitespace"},
        {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"},
        {"type": "Digits", "individual_digits": True}, {"type": "UnicodeScripts"}, {"type": "FixedLength", "length": 3},
        {"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|[^\\r\\n\\p{L}]?\\p{L}+"}, "behavior": "Removed", "invert": False},
    ]
    decoders = [
        byte_level, {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Fuse"}, {"type": "ByteFallback"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    ]
    processors = [
        byte_level, {"type": "BertProcessing", "sep": ["<s>", 8], "cls": ["<s>", 8]},
        {"type": "RobertaProcessing", "sep": ["<s>", 8], "cls": ["<s>", 8], "trim_offsets": True, "add_prefix_space": True},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {"<s>": {"id": "<s>", "ids": [8], "tokens": ["<s>"]}}},
    ]
    for key, parts in {"normalizer": normalizers, "pre_tokenizer": pretokenizers, "decoder": decoders,
                       "post_processor": processors}.items():
        for i, part in enumerate(parts):
            files[f"{key}_{i}_{part['type']}"] = dump(tokenizer(BPE, **{key: part}))
    files["sequences"] = dump(tokenizer(
        BPE, normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, byte_level]},
        decoder={"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]},
        post_processor={"type": "Sequence", "processors": [processors[0], processors[3]]},
        truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        padding={"strategy": {"Fixed": 4}, "direction": "Right", "pad_to_multiple_of": 8, "pad_id": 0, "pad_type_id": 0,
                 "pad_token": "a"}))
    files["added"] = dump({**tokenizer(BPE), "added_tokens": [
        added_token(5, "ab", single_word=True, lstrip=True, rstrip=True, normalized=True, special=False),
        added_token(9, "wö", rstrip=True, normalized=True)]})
    return files


def gguf_tokenizers() -> dict:
    files = {}
    for pre in ("gpt-2", "llama-bpe", "qwen2", "smollm", "gpt-4o"):
        gguf = Gguf().add("general.architecture", "string", "llama").add("tokenizer.ggml.model", "string", "gpt2")
        gguf.add("tokenizer.ggml.pre", "string", pre)
        gguf.add("tokenizer.ggml.tokens", "list string", ["a", "b", "ab", "<s>", "Ġ", "l", "H", "</s>"])
        gguf.add("tokenizer.ggml.token_type", "list i32", [1, 1, 1, 3, 1, 1, 1, 4])
        gguf.add("tokenizer.ggml.merges", "list string", ["a b"]).add("tokenizer.ggml.bos_token_id", "u32", 3)
        gguf.add("tokenizer.ggml.eos_token_id", "u32", 7).add("tokenizer.ggml.add_bos_token", "bool", True)
        gguf.add("tokenizer.ggml.add_eos_token", "bool", pre == "qwen2")
        files[pre] = gguf.add("tokenizer.chat_template", "string", "{{ bos_token }}{{ messages[0].content }}").bytes()
    return files | gguf_pieces()


def gguf_pieces() -> dict:
    """Every type of token, with a space in front and without, with tokens for all bytes and without."""
    files = {}
    texts = ["<unk>", "<s>", "\u2581", "a", "b", "ab", "\u2581a", "  ", "H"]
    types = [2, 3, 1, 1, 1, 5, 1, 4, 1]
    scores = [0, 0, -1, -2, -3, -0.5, -0.25, 0, -4]
    # A trie of the one key "a", which becomes "b".
    units = [0] * 320
    units[0], units[97], units[256] = 0 << 10, (97 ^ 256) << 10 | 1 << 8 | 97, 1 << 31
    charsmap = struct.pack("<I320I", 1280, *units) + b"b\0"
    for model, name, space, spelt in (("llama", "llama", True, 256), ("llama", "llama_no_space", False, 0),
                                      ("t5", "t5", True, 0), ("t5", "t5_bytes", False, 256)):
        gguf = Gguf().add("general.architecture", "string", "phi3" if space else "gemma")
        gguf.add("tokenizer.ggml.model", "string", model)
        if name == "t5":
            gguf.add("tokenizer.ggml.precompiled_charsmap", "list u8", charsmap)
            gguf.add("tokenizer.ggml.remove_extra_whitespaces", "bool", True)
        gguf.add("tokenizer.ggml.tokens", "list string", texts + [f"<0x{byte:02X}>" for byte in range(spelt)])
        gguf.add("tokenizer.ggml.token_type", "list i32", types + [6] * spelt)
        gguf.add("tokenizer.ggml.scores", "list f32", scores + [0] * spelt)
        gguf.add("tokenizer.ggml.unknown_token_id", "u32", 0).add("tokenizer.ggml.bos_token_id", "u32", 1)
        gguf.add("tokenizer.ggml.eos_token_id", "u32", 1)
        files[name] = gguf.add("tokenizer.ggml.add_space_prefix", "bool", space).bytes()
    gguf = Gguf().add("general.architecture", "string", "bert").add("tokenizer.ggml.model", "string", "bert")
    gguf.add("tokenizer.ggml.tokens", "list string", ["[UNK]", "[CLS]", "[SEP]", "\u2581un", "able", "\u2581h", "[unused1]"])
    gguf.add("tokenizer.ggml.token_type", "list i32", [3, 3, 3, 1, 1, 1, 1])
    files["bert"] = gguf.add("tokenizer.ggml.normalizer.lowercase", "bool", True).bytes()
    return files


def chats() -> dict:
    """The golden templates, and the expressions that they are made of."""
    files = {}
    golden = ROOT / "tests" / "golden" / "text"
    for i, line in enumerate((golden / "templates.jsonl").read_text().splitlines()):
        entry = json.loads(line)
        files[entry["name"]] = bytes([i % 12 | (128 if i % 2 else 0)]) + entry["template"].encode()
    expressions = [json.loads(line) for line in (golden / "expressions.jsonl").read_text().splitlines()]
    texts = [e["template"] for e in expressions if isinstance(e.get("template"), str)]
    for i in range(0, len(texts), 12):
        files[f"expressions_{i // 12}"] = bytes([i // 12 % 4]) + "\n".join(texts[i:i + 12]).encode()[:2000]
    return files


def recipes() -> dict:
    files = {path.stem: path.read_bytes() for path in (ROOT / "text" / "recipes").glob("*.json")}
    files["messages"] = dump({
        "task": "answer", "method": "generate", "messages": [
            {"role": "system", "content": "{instruction} {{}}"}, {"role": "user", "content": "{context}\n{question}"}],
        "variables": {"x": 1}, "instruction": "Be brief.", "cut": "context", "stop": "\n", "request": {"max_tokens": 5}})
    files["both"] = dump({"task": "embed", "method": "embedding", "special": "both", "max_prompt_tokens": 9,
                          "prompts": {"query": ["Q: {text}"], "document": ["{instruction}", "{text}"]}, "cut": "text"})
    return files


def constraints() -> dict:
    choices = bytes(i * 53 % 256 for i in range(16))

    def schema(value) -> bytes:
        return b"\0" + choices + dump(value)

    def regex(text: str) -> bytes:
        return b"\1" + choices + text.encode()

    def grammar(text: str) -> bytes:
        return b"\2" + choices + text.encode()

    lines = (ROOT / "text" / "tests" / "fixtures" / "schemas.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    files = {case["name"].replace(" ", "_").replace("$", "").replace(".", "_"): schema(case["schema"]) for case in cases}
    return files | {
        "circle": schema({"allOf": [{"$ref": "#/d/a"}, {"$ref": "#/d/b"}], "d": {
            "a": {"properties": {"x": {"$ref": "#/d/a"}, "z": {"enum": [1, 2]}}},
            "b": {"properties": {"x": {"$ref": "#/d/b"}, "z": {"enum": [2, 3]}}}}}),
        "factors": schema({"allOf": [{"multipleOf": 0.25, "minimum": 1}, {"multipleOf": 3, "type": ["number", "string"]}]}),
        "counted": schema({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False, "minProperties": 1,
                           "maxProperties": 1}),
        "formats": schema({"anyOf": [{"type": "string", "format": name} for name in (
            "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")]}),
        # What excludes itself, or has no end, seen through references and intersections alone.
        "impossible_option": schema({"anyOf": [{"$ref": "#/d/a"}, {"type": "null"}], "d": {"a": {"type": "string", "$ref": "#/d/b"}, "b": {"type": "integer"}}}),
        "impossible_patterns": schema({"type": "object", "properties": {"a": {"$ref": "#/d/a"}, "b": {}}, "d": {
            "a": {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]}}}),
        "endless_through_patterns": schema({"items": {"$ref": "#/d/a"}, "d": {"a": {"anyOf": [
            {"type": "array", "minItems": 1, "items": {"$ref": "#/d/a"}}, {"enum": ["a", "b"], "pattern": "c"}]}}}),
        "endless_names": schema({"items": {"$ref": "#/d/a"}, "d": {"a": {
            "type": "object", "required": ["ab"], "patternProperties": {"^a": {"$ref": "#/d/a"}}, "minProperties": 2}}}),
        "no_multiple": schema({"properties": {"x": {"type": "integer", "minimum": 1, "maximum": 3, "multipleOf": 0.7}}}),
        "no_names_left": schema({"type": "object", "patternProperties": {"^ab$": {}, "^c": False}, "properties": {"ab": {}}, "additionalProperties": False}),
        "only_controls": schema({"properties": {"a": {"type": "string", "pattern": "^[\\x01-\\x02]$"}}}),
        # What takes long where it is not bounded.
        "patterns_that_meet": schema({"allOf": [{"type": "string", "pattern": f"(a|b)*a(a|b){{{n}}}"} for n in range(12, 16)]}),
        "periods_that_meet": schema({"allOf": [{"type": "string", "pattern": f"^(a{{{n}}})*$"} for n in (2, 3, 5, 7)]}),
        "names_that_meet": schema({"type": "object", "patternProperties": {f"^(a|b)*a(a|b){{4}}{n}$": {} for n in range(4)}}),
        "names_required_twice": schema(functools.reduce(
            lambda one, _: {"type": "object", "required": ["a", "a"], "properties": {"a": one}}, range(12), {})),
        "long_lists": schema({"type": "array", "minItems": 100000, "items": {"type": "array", "minItems": 50000}}),
        "options_against_options": schema({"allOf": [{"oneOf": [
            {"type": "object", "required": ["t"], "properties": {"t": {"const": n}}} for n in range(8)]}, True, {"minProperties": 1}]}),
        "rule_without_end": grammar('start: "y" | a "b"\na: "x" a | b\nb: a "z"\n'),
        "token_of_no_text": grammar('start: "a" (<[257]> | <[65]>)\n'),
        "words": regex("yes|no"), "class": regex("(?i)[a-c\u00e9]{2,4}\\d+\\.[^\\n\"]?(x|)*$"), "nested": regex("((a{3}){3}|b*?)+\\p{L}"),
        "sum": grammar('start: sum\nsum: part ("+" part)*\npart: NUMBER | "(" sum ")"\nNUMBER: /[0-9]{1,3}/\n'),
        "call": grammar('start: "call " %json {"type": "array", "items": {"type": "integer"}} "x"~2..4\n'),
        "terminals": grammar('%ignore /[ \\t]+/\nstart: (A | b) "x"? // c\nA: /a+/ & ~/aa/\nb[max_tokens=3]: "b"i %regex {"substring_words": "a b"}\n'),
    }


# ---- the cache -------------------------------------------------------------------------------------------------------

def snapshot_index(namespaces: list, nodes: list) -> bytes:
    out = struct.pack("<I", len(namespaces))
    for parts in namespaces:
        out += struct.pack("<I", len(parts)) + b"".join(struct.pack("<I", len(p)) + p for p in parts)
    out += struct.pack("<I", len(nodes))
    for parent, space, far, uses, priority, tokens in nodes:
        out += struct.pack("<iIBIhI", parent, space, far, uses, priority, len(tokens)) + struct.pack(f"<{len(tokens)}i", *tokens)
    return out


def snapshots() -> dict:
    tokens = list(range(40))
    tree = snapshot_index([[], [b"tenant", b"a"]], [(-1, 0, 0, 3, 0, tokens), (0, 0, 0, 1, -5, [7] * 30), (0, 0, 0, 1, 9, [8, 9]),
                                                    (-1, 1, 1, 1, 0, [1, 2, 3]), (3, 1, 1, 0, 0, tokens)])
    return {
        "tree": b"\0" + tree,
        "tree_damaged": b"\x02\x06\x00" + tree,
        "tree_small_pool": b"\x04" + tree,
        "tree_quota": b"\x08" + tree,
        "one": b"\0" + snapshot_index([[]], [(-1, 0, 0, 1, 0, [5])]),
        "twice": b"\0" + snapshot_index([[]], [(-1, 0, 0, 1, 0, [5, 6, 7]), (-1, 0, 0, 1, 0, [5, 6, 8])]),
        "empty": b"\0" + snapshot_index([], []),
        "whole_file": b"\x01PFXSNAP\n" + struct.pack("<II", 1, 32) + b"\x5a" + bytes(31) + struct.pack("<QQ", 4096, 8) + bytes(40),
    }


def disk_pages() -> dict:
    return {
        "right": b"\x02" + bytes(48),
        "changed": b"\x03\x08\x01\x20\x80" + bytes(48),
        "short": b"\x02" + bytes(20),
        "raw": b"\x01PFXPAGE\n" + struct.pack("<IIQ", 1, 88, 48) + bytes(64 + 48),
        "name": b"\x00\x3f" + b"3f" * 32 + b".page",
        "temporary": b"\x00\x00" + b"0" * 32 + b".tmp",
    }


def redis() -> dict:
    head = b"\x00\xe4\x00\x10"
    page = b"PFXPAGE\n" + struct.pack("<IIQ", 1, 88, 1) + bytes(64) + b"x"
    return {
        "status": head + b"+OK\r\n",
        "error": head + b"-WRONGTYPE Operation against a key\r\n",
        "integer": head + b":9223372036854775807\r\n",
        "nil": head + b"$-1\r\n",
        "empty": head + b"$0\r\n\r\n",
        "page": b"\x00\x01\x00\x10$%d\r\n%s\r\n" % (len(page), page),
        "several": b"\x04\x04\x00\x03" + b"$-1\r\n$%d\r\n%s\r\n:1\r\n+OK\r\n$3\r\nabc\r\n" % (len(page), page),
        "list": head + b"*2\r\n$1\r\na\r\n*-1\r\n",
        "resp3": b"\x05\x00\x00\x02" + b"_\r\n#t\r\n,1.5\r\n(12345678901234567890\r\n=7\r\ntxt:abc\r\n%1\r\n+a\r\n:1\r\n",
        "too_much": head + b"+OK\r\n+MORE\r\n",
    }


def operations() -> dict:
    walk = [
        {"op": "insert", "tokens": [1, 2, 3, 4, 5, 6, 7, 8], "priority": 3}, {"op": "match", "tokens": [1, 2, 3, 9]},
        {"op": "lock", "tokens": [1, 2, 3, 4]}, {"op": "insert", "tokens": [1, 2, 9, 9, 9], "ns": "a"},
        {"op": "evict", "n": 4}, {"op": "unlock", "tokens": [1, 2, 3, 4]}, {"op": "dump"}, {"op": "stats"},
        {"op": "evict", "n": 1000}, {"op": "reset"}, {"op": "insert", "tokens": [4, 4], "slots": [70, 71]}]
    files = {}
    for policy in ("lru", "lfu", "fifo", "mru", "filo", "slru", "priority", "gdsf"):
        files[policy] = lines({"policy": policy, "capacity": 96}, *walk)
    files["pages"] = lines({"page": 2, "capacity": 64, "bigram": True}, *walk)
    files["compat"] = lines({"page": 2, "capacity": 12, "compat": "sglang"}, *walk)
    files["compat_bigram"] = lines({"bigram": True, "compat": "sglang", "policy": "slru"}, *walk)
    largest = 9223372036854775807
    files["evict_all"] = lines({"capacity": largest}, walk[0], {"op": "evict", "n": largest})
    files["evict_all_pages"] = lines({"page": 3}, walk[0], {"op": "evict", "n": largest})
    requests = b"abcdefgh\nabcdxyz\nabcdefghijkl\nabcdxyzuvw\nqqqqqqqqqqqqqqqqqq\nabcdeefg\nabeef\n"
    files["hybrid"] = lines({"hybrid": {"state_bytes": 10, "kv_bytes": 1}, "capacity": 60, "max_placed": 2, "max_states": 3,
                             "admission": ["branch", "end", "prompt", "placed"]}) + requests
    files["hybrid_marconi"] = lines({"hybrid": {}, "capacity": 100000000, "policy": "marconi", "compat": "marconi", "pitfalls": [3, 4, 5]}) + requests
    files["hybrid_block"] = lines({"hybrid": {"state_bytes": 0}, "policy": "block"}) + requests
    return files


def requests() -> dict:
    return {
        "generate": lines({"id": "a", "tokens": [1, 2], "max_tokens": 5, "temperature": 0.5, "stop": ["x"], "stop_tokens": [7, 8]},
                          {"text": "wö", "task": "logprobs", "continuation": "y", "namespace": "n"}, {"flush": True}),
        "read": lines({"task": "logits", "tokens": [1], "ids": [3, 4]}, {"task": "choices", "text": "a", "choices": ["b", [1, 2]]},
                      {"task": "embed", "tokens": [5], "dimensions": 8, "normalize": False}, {"task": "logprobs", "tokens": [1, 2, 3], "from": 2}),
        "chat": lines({"messages": [{"role": "user", "content": "hi"}], "ignore_eos": True, "seed": 3, "top_k": 4, "top_p": 0.9}),
        "tasks": lines({"task": "rerank", "query": "q", "documents": ["a", "b"], "top_n": 1}, {"task": "rerank", "queries": ["q"], "documents": []},
                       {"task": "answer", "context": "c", "questions": ["q"], "max_tokens": 3, "recipe": "extractive-qa"},
                       {"task": "classify", "texts": ["t"], "labels": ["x", "y"], "raw": True, "truncate": "off"}),
        "wrong": b'{"tokens": 1}\n[]\n{"tokens": [1], "tokens": [2]}\n\x1b[31m\n{"text": "\\ud800"}\n',
    }


def traces() -> dict:
    return {
        "tokens": lines({"session_id": 3, "turn_id": 0, "ts": 1.5, "input_tokens": [5, 6, 7], "output_tokens": [8, 9]}),
        "runs": lines({"session_id": 3, "turn_id": 1, "ts": 9, "input_runs": [[7, 5], [1, 0]], "output_runs": [[8, 2]], "namespace": "a"}),
        "wrong": b'{"session_id": -1}\n{"session_id": 1e3}\n[[[\n{"ts": null}\n',
    }


TARGETS = {
    "adapter": adapters, "cache_sim": operations, "chat": chats, "config": configs, "constraint": constraints, "disk_page": disk_pages, "gguf": ggufs,
    "json": lambda: {"all": b'{"a":[1,-2,3.5e7,true,false,null,"x\\u00e9\\n\\ud83d\\ude00"],"b":{"c":[],"d":{}}}',
                     "numbers": b"[[[[1]]],18446744073709551615,-9223372036854775808,1e300,0.1,-0]"},
    "packed": all_packed, "quantised": all_quantised, "recipe": recipes, "redis": redis, "requests": requests, "safetensors": all_safetensors,
    "snapshot": snapshots,
    "tokenizer": tokenizers, "tokenizer_gguf": gguf_tokenizers, "trace": traces,
}


def main() -> None:
    for target, make in TARGETS.items():
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in make().items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
