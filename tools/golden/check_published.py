"""The parameters of the models in docs/models.json, as transformers counts them: check_published.py [NAME...]

Models are made on no device, so the largest takes a second and no memory. Of those that see as well the text part
counts. Says what differs, and exits with 1 when something does.
"""

import packages  # noqa: F401, I001

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import published  # noqa: E402
import torch  # noqa: E402
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM  # noqa: E402


def counted(model: dict) -> int:
    config = model["config"]
    text = dict(config.get("text_config", config))
    kind = text.pop("model_type")
    text.setdefault("tie_word_embeddings", published.is_tied(config))
    made = AutoConfig.for_model(kind, **text)
    layout = model.get("layout", {})
    bare = layout.get("body") or published.is_tied(config)  # no output matrix of its own
    with torch.device("meta"):
        module = (AutoModel if bare else AutoModelForCausalLM).from_config(made)
    total = sum(parameter.numel() for parameter in module.parameters())
    width = made.hidden_size
    for rows in layout.get("projector", []):
        total, width = total + rows * width, rows
    return total + (layout["head"][1] * made.hidden_size if "head" in layout else 0)


def main() -> int:
    differ = 0
    models = published.read_table()["models"]
    if unknown := set(sys.argv[1:]) - {model["name"] for model in models}:
        print(f"check_published.py: docs/models.json has no model {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for model in models:
        if sys.argv[1:] and model["name"] not in sys.argv[1:]:
            continue
        try:
            found = counted(model)
        except Exception as error:  # noqa: BLE001: whatever transformers refuses is told with the model's name
            print(f"{model['name']}: {type(error).__name__}: {error}")
            differ += 1
            continue
        if found != model["parameters"]:
            print(f"{model['name']}: {found:,} parameters; the table says {model['parameters']:,}")
            differ += 1
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
