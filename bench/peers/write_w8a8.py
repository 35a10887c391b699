"""write_w8a8.py CHECKPOINT FOLDER: a qwen3 directory of bf16 with weights of 8 bits, as compressed-tensors describes them.

A scale a row of a matrix, one a token of its input, which the engine finds as it runs: what vLLM's documentation calls W8A8. The
embedding, which is the head as well, stays as it is.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

BYTES = {"num_bits": 8, "type": "int", "symmetric": True}
SCHEME = {
    "quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed", "ignore": ["lm_head"],
    "config_groups": {"group_0": {
        "targets": ["Linear"],
        "weights": BYTES | {"strategy": "channel", "dynamic": False},
        "input_activations": BYTES | {"strategy": "token", "dynamic": True},
    }},
}


def main(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    with safe_open(source / "model.safetensors", "pt") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            if tensor.ndim == 2 and name != "model.embed_tokens.weight":
                scale = (tensor.float().abs().amax(1, keepdim=True) / 127).clamp_min(1e-12)
                tensors[f"{name}_scale"] = scale.bfloat16()
                tensor = (tensor.float() / scale.bfloat16().float()).round().clamp(-127, 127).to(torch.int8)
            tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": SCHEME}, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
