#!/usr/bin/env python3
"""Computes the golden numbers: make_golden.py MODELS OUTDIR [--smollm2 FILE].

MODELS is the folder that make_models.py wrote; FILE the GGUF file of SmolLM2. The numbers come from Hugging Face
transformers, in float32, on one thread. Needs requirements-reference.txt. The formats are described in
tests/golden/README.md.
"""

import packages  # noqa: F401, I001

import argparse
from pathlib import Path

import torch
import transformers

import adapter_models
import bidirectional
import classify
import dense_models
import dequantized
import gguf_source
import gpt_oss_models
import hybrid_models
import recipes
import reference
import smollm2
import tasks
import window_models
from dense_configs import DENSE
from dense_configs import config_json as dense_config
from expert_configs import EXPERTS
from gguf_configs import GGUF_MODELS
from gpt_oss_configs import GPT_OSS
from gpt_oss_configs import config_json as gpt_oss_config
from hf_configs import MODELS
from hybrid_configs import HYBRIDS, text_config
from prompts import tiny_prompts
from vector_file import VectorWriter, save_json
from window_configs import WINDOWED
from window_configs import config_json as window_config


# Of experts: the faster form asks for sizes that are multiples of 16 bytes.
_LOOP = {"experts_implementation": "eager"}


def hugging_face_models(models: Path, out: Path) -> None:
    for name, config in MODELS.items():
        if config.words:
            continue  # its numbers are in tasks.json
        model = reference.load_directory(models / name)
        writer = VectorWriter()
        index = {
            "model": name,
            "path": name,
            "architecture": config.architecture,
            "vocab": config.vocab,
            "hidden": config.hidden,
        }
        index |= reference.numbers(model, tiny_prompts(name, config.vocab), writer)
        writer.save(out / "logits", name, index)


def gguf_models(models: Path, out: Path) -> None:
    for name, config in GGUF_MODELS.items():
        source = gguf_source.load(models / f"{name}.gguf")
        model = reference.from_weights(source.config, source.weights)
        if source.rope_divisors is not None:
            reference.divide_frequencies(model, source.rope_divisors)
        writer = VectorWriter()
        index = {
            "model": name,
            "path": f"{name}.gguf",
            "architecture": config.architecture,
            "vocab": config.vocab,
            "hidden": config.hidden,
        }
        index |= reference.numbers(model, tiny_prompts(name, config.vocab, brief=True), writer)
        writer.save(out / "logits", name, index)
    paths = [models / f"{name}.gguf" for name in GGUF_MODELS] + [models / "edges.gguf"]
    save_json(out / "dequantized.json", {"files": dequantized.index(paths)})


def models_in_two_formats(models: Path, out: Path) -> None:
    """The directory and the GGUF file of a model hold the same numbers, so they share theirs."""
    found = [(name, config, text_config(config), hybrid_models.weights) for name, config in HYBRIDS.items()]
    found += [(name, config, dense_config(config), dense_models.weights) for name, config in DENSE.items()]
    found += [(name, config, window_config(config), window_models.weights) for name, config in WINDOWED.items()]
    for name, config, keys, weights in found:
        routed = {"routed": True} if getattr(config, "experts", 0) else {}
        if routed:  # transformers has other names for their tensors than files
            model = reference.load_directory(models / name, **_LOOP)
        else:
            model = reference.from_weights(keys, weights(name, config))
        for path in (name, f"{name}.gguf") if config.gguf not in (None, False) else (name,):
            brief = path.endswith(".gguf")
            stem = f"{name}-gguf" if brief else name
            writer = VectorWriter()
            index = {
                "model": stem,
                "path": path,
                "architecture": config.family,
                "vocab": config.vocab,
                "hidden": config.hidden,
            } | routed
            index |= reference.numbers(model, tiny_prompts(name, config.vocab, brief=brief), writer)
            writer.save(out / "logits", stem, index)


def models_with_experts(models: Path, out: Path) -> None:
    for name, config in (EXPERTS | GPT_OSS).items():
        if name in GPT_OSS:  # some are quantised
            weights = gpt_oss_models.weights(name, config)
            model = reference.from_weights(gpt_oss_config(config), weights, **_LOOP)
        else:
            model = reference.load_directory(models / name, **_LOOP)
        for path in (name, f"{name}.gguf") if config.gguf else (name,):
            brief = path.endswith(".gguf")
            stem = f"{name}-gguf" if brief else name
            writer = VectorWriter()
            index = {
                "model": stem,
                "path": path,
                "architecture": config.family,
                "vocab": config.vocab,
                "hidden": config.hidden,
                "routed": True,
            }
            index |= reference.numbers(model, tiny_prompts(name, config.vocab, brief=brief), writer)
            writer.save(out / "logits", stem, index)


def adapted_models(models: Path, out: Path) -> None:
    """Models with an adapter merged into their weights, W + scale B A."""
    for name, adapter in adapter_models.ADAPTERS.items():
        if adapter.base in HYBRIDS:
            config = HYBRIDS[adapter.base]
            model = reference.from_weights(text_config(config), hybrid_models.weights(adapter.base, config))
        else:
            config = MODELS[adapter.base]
            model = reference.load_directory(models / adapter.base)
        for module, (a, b) in adapter_models.matrices(models, name, adapter).items():
            _, scale = adapter.of(module)
            reference.add_to_weight(model, module, scale * (torch.from_numpy(b) @ torch.from_numpy(a)))
        writer = VectorWriter()
        index = {
            "adapter": name,
            "paths": [adapter.base, f"{adapter.base}.gguf"] if adapter.gguf else [adapter.base],
            "vocab": config.vocab,
            "hidden": config.hidden,
        }
        index |= reference.numbers(model, tiny_prompts(name, config.vocab, brief=True), writer)
        writer.save(out / "adapters", name, index)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute the golden numbers with Hugging Face transformers.")
    parser.add_argument("models", type=Path)
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--smollm2", type=Path, metavar="FILE", help="also the numbers of this model")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    hugging_face_models(arguments.models, arguments.outdir)
    gguf_models(arguments.models, arguments.outdir)
    models_in_two_formats(arguments.models, arguments.outdir)
    models_with_experts(arguments.models, arguments.outdir)
    bidirectional.write(arguments.outdir)
    adapted_models(arguments.models, arguments.outdir)
    tasks.write(arguments.models, arguments.outdir)
    recipes.write(arguments.models, arguments.outdir)
    classify.write(arguments.models, arguments.outdir)
    if arguments.smollm2:
        smollm2.write(arguments.smollm2, arguments.outdir)


if __name__ == "__main__":
    main()
