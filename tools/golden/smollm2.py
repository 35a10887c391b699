"""Golden numbers of SmolLM2-135M-Instruct, a real model that a package ships as a GGUF file."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import gguf_source
import prng
import reference
from smollm2_prompts import EVERY_POSITION, FULL, TEXTS
from vector_file import VectorWriter

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_TOP = 50
_SELECTED = 64
_GREEDY_STEPS = 32
_CONTROL = 3  # tokenizer.ggml.token_type of a special token


def tokenizer(path: Path) -> Tokenizer:
    """The byte-level BPE of the file; its split rule "smollm" is GPT-2's with every digit on its own."""
    fields = GGUFReader(path).fields
    if fields["tokenizer.ggml.pre"].contents() != "smollm":
        raise ValueError("the tokenizer is not the one that this function knows")
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    built = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens(
        [AddedToken(token, special=True) for token, kind in zip(tokens, types) if kind == _CONTROL]
    )
    return built


def write(path: Path, out: Path) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != FILE_SHA256:
        raise ValueError(f"{path} is not the file that the numbers are for")
    source = gguf_source.load(path)
    model = reference.from_weights(source.config, source.weights)
    encode = tokenizer(path)
    prompts = {name: encode.encode(text).ids for name, text in TEXTS.items()}
    vocab = source.config["vocab_size"]
    writer = VectorWriter()
    index = {
        "file": FILE,
        "file_sha256": FILE_SHA256,
        "dequantized_sha256": _dequantized_hash(path),
        "vocab": vocab,
        "hidden": source.config["hidden_size"],
        "every_position": _every_position(model, prompts[EVERY_POSITION], vocab, writer),
        "prompts": [_prompt(model, name, tokens, writer) for name, tokens in prompts.items()],
    }
    writer.save(out, "smollm2", index)


def _dequantized_hash(path: Path) -> str:
    total = hashlib.sha256()
    for tensor in gguf_source.tensors(path).values():
        total.update(np.ascontiguousarray(tensor.values, dtype="<f4").tobytes())
    return total.hexdigest()


def _every_position(model, tokens: list[int], vocab: int, writer: VectorWriter) -> dict:
    """Logits of some token ids at every position of one prompt."""
    ids = sorted(set(prng.integers("smollm2/selected", _SELECTED, vocab).tolist()))
    logits = reference.forward(model, tokens).logits
    return {"prompt": EVERY_POSITION, "ids": ids, "logits_at": writer.add(logits[:, ids].numpy())}


def _prompt(model, name: str, tokens: list[int], writer: VectorWriter) -> dict:
    run = reference.forward(model, tokens)
    top = torch.topk(run.logits[-1], _TOP)
    chosen, margins = reference.greedy(model, tokens, _GREEDY_STEPS)
    entry = {
        "name": name,
        "text": TEXTS[name],
        "tokens": tokens,
        "top_ids": top.indices.tolist(),
        "top_at": writer.add(top.values.numpy()),
        "hidden_at": writer.add(run.hidden[-1].numpy()),
        "log_probs_at": writer.add(reference.log_probs(run, tokens).numpy()),
        "greedy": chosen,
        "greedy_margins": reference.rounded(margins),
    }
    if name in FULL:
        entry["logits_at"] = writer.add(run.logits[-1].numpy())
    return entry
