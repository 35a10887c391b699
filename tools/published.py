"""The models of docs/models.json: their configurations, and directories of their shapes without a number in them.

A directory has config.json and what else lies beside published weights, and a model.safetensors with a header only: the
file is as long as the model, and takes no room on a disk that keeps holes. So what a model costs can be asked of the
library without having it. Names and shapes of the tensors are those of the published files, written down here and not
taken from the library, which is to find its way among them. `tools/golden/check_published.py` compares them with transformers.
"""

import json
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "models.json"

# What stands before the names of the body: "model." where nothing else is said.
PREFIXES = {"nemotron_h": "backbone.", "mistral3": "language_model.model.", "gemma3": "language_model.model.",
            "qwen3_vl": "model.language_model.", "qwen3_5": "model.language_model."}
# Keys that published files leave to the defaults of their transformers class.
ABSENT = {"gemma3": {"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256},
          "granitemoehybrid": {}, "ministral": {}}
TIED = {"gemma", "gemma2", "gemma3", "gemma3_text", "lfm2"}


def read_table() -> dict:
    """The table, each model with its whole configuration: that of the model it is like, changed."""
    table = json.loads(TABLE.read_text())
    models = {}
    for model in table["models"]:
        config = {**models[model["like"]]["config"], **model["config"]} if "like" in model else dict(model["config"])
        models[model["name"]] = {**model, "config": config}
    table["models"] = list(models.values())
    for refused in table["refused"]:
        if "like" in refused:
            refused["config"] = {**models[refused["like"]]["config"], **refused["config"]}
    return table


def text_config(config: dict) -> dict:
    """The part of a configuration that the sizes of the text model are in, with what its class adds."""
    text = config.get("text_config", config)
    return {**ABSENT.get(config["model_type"], {}), **text, "model_type": config["model_type"]}


def is_tied(config: dict) -> bool:
    text = config.get("text_config", {})
    return text.get("tie_word_embeddings", config.get("tie_word_embeddings", config["model_type"] in TIED))


def feed_forward_width(c: dict) -> int:
    if c["model_type"] == "granitemoehybrid":
        return c["shared_intermediate_size"]
    if "block_ff_dim" not in c:
        return c["intermediate_size"]
    multiple = c["block_multiple_of"]
    width = int(c["block_ffn_dim_multiplier"] * (2 * c["block_ff_dim"] // 3))
    return (width + multiple - 1) // multiple * multiple


def layer_kinds(c: dict) -> list[str]:
    """Of each layer: attention, recurrent or feed-forward."""
    layers = c["num_hidden_layers"]
    if "hybrid_override_pattern" in c:
        return [{"M": "recurrent", "*": "attention", "-": "feed-forward"}[letter] for letter in c["hybrid_override_pattern"]]
    if "full_attention_interval" in c:
        return ["recurrent" if (i + 1) % c["full_attention_interval"] else "attention" for i in range(layers)]
    if "full_attn_idxs" in c:
        return ["attention" if i in c["full_attn_idxs"] else "recurrent" for i in range(layers)]
    if c["model_type"] == "granitemoehybrid":
        return ["attention" if kind == "attention" else "recurrent" for kind in c["layer_types"]]
    return ["attention"] * layers


class Shapes:
    """The tensors of one model."""

    def __init__(self, config: dict) -> None:
        self.config = c = text_config(config)
        self.type = c["model_type"]
        self.hidden = c["hidden_size"]
        self.head = c.get("head_dim") or self.hidden // c["num_attention_heads"]
        self.q, self.kv = c["num_attention_heads"] * self.head, c["num_key_value_heads"] * self.head
        self.list: list[tuple[str, list[int], str]] = []

    def add(self, name: str, *shape: int, dtype: str = "BF16") -> None:
        self.list.append((name, list(shape), dtype))

    def linear(self, name: str, rows: int, columns: int, bias: bool = False) -> None:
        self.add(f"{name}.weight", rows, columns)
        if bias:
            self.add(f"{name}.bias", rows)

    def attention(self, at: str) -> None:
        bias = self.type in ("qwen2", "gpt_oss")
        if self.type == "phi3":
            self.linear(f"{at}.qkv_proj", self.q + 2 * self.kv, self.hidden)
        else:
            gates = 2 if self.type == "qwen3_5" else 1  # the output is gated by the second half
            self.linear(f"{at}.q_proj", gates * self.q, self.hidden, bias)
            self.linear(f"{at}.k_proj", self.kv, self.hidden, bias)
            self.linear(f"{at}.v_proj", self.kv, self.hidden, bias)
        self.linear(f"{at}.{'out_proj' if self.type == 'lfm2' else 'o_proj'}", self.hidden, self.q, self.type == "gpt_oss")
        if self.type == "gpt_oss":
            self.add(f"{at}.sinks", self.config["num_attention_heads"])
        if self.type in ("olmo2", "olmo3"):
            self.add(f"{at}.q_norm.weight", self.q)
            self.add(f"{at}.k_norm.weight", self.kv)
        elif self.type.startswith("qwen3") or self.type in ("gemma3", "gemma3_text"):
            self.add(f"{at}.q_norm.weight", self.head)
            self.add(f"{at}.k_norm.weight", self.head)
        elif self.type == "lfm2":
            self.add(f"{at}.q_layernorm.weight", self.head)
            self.add(f"{at}.k_layernorm.weight", self.head)

    def mamba2(self, at: str, heads: int, head: int, groups: int, state: int, width: int) -> None:
        inner = heads * head
        channels = inner + 2 * groups * state
        self.linear(f"{at}.in_proj", inner + channels + heads, self.hidden)
        self.add(f"{at}.conv1d.weight", channels, 1, width)
        self.add(f"{at}.conv1d.bias", channels)
        for name in ("A_log", "D", "dt_bias"):
            self.add(f"{at}.{name}", heads)
        self.add(f"{at}.norm.weight", inner)
        self.linear(f"{at}.out_proj", self.hidden, inner)

    def recurrent(self, at: str) -> None:
        c = self.config
        if self.type == "granitemoehybrid":
            self.mamba2(f"{at}.mamba", c["mamba_n_heads"], c["mamba_d_head"], c["mamba_n_groups"], c["mamba_d_state"], c["mamba_d_conv"])
        elif self.type == "nemotron_h":
            self.mamba2(f"{at}.mixer", c["mamba_num_heads"], c["mamba_head_dim"], c["n_groups"], c["ssm_state_size"], c["conv_kernel"])
        elif self.type == "lfm2":
            self.linear(f"{at}.conv.in_proj", 3 * self.hidden, self.hidden)
            self.add(f"{at}.conv.conv.weight", self.hidden, 1, c["conv_L_cache"])
            self.linear(f"{at}.conv.out_proj", self.hidden, self.hidden)
        else:
            keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
            heads, head = c["linear_num_value_heads"], c["linear_value_head_dim"]
            at += ".linear_attn"
            self.linear(f"{at}.in_proj_qkv", 2 * keys + heads * head, self.hidden)
            self.linear(f"{at}.in_proj_z", heads * head, self.hidden)
            self.linear(f"{at}.in_proj_b", heads, self.hidden)
            self.linear(f"{at}.in_proj_a", heads, self.hidden)
            self.add(f"{at}.conv1d.weight", 2 * keys + heads * head, 1, c["linear_conv_kernel_dim"])
            self.add(f"{at}.dt_bias", heads)
            self.add(f"{at}.A_log", heads)
            self.add(f"{at}.norm.weight", head)
            self.linear(f"{at}.out_proj", self.hidden, heads * head)

    def mxfp4(self, name: str, experts: int, rows: int, columns: int) -> None:
        """The matrices of all experts: two numbers a byte, and a scale for 32."""
        self.add(f"{name}_blocks", experts, rows, columns // 32, 16, dtype="U8")
        self.add(f"{name}_scales", experts, rows, columns // 32, dtype="U8")
        self.add(f"{name}_bias", experts, rows)

    def feed_forward(self, at: str) -> None:
        c, width = self.config, feed_forward_width(self.config)
        if self.type in ("mixtral", "qwen3_moe"):
            mixtral = self.type == "mixtral"
            at += ".block_sparse_moe" if mixtral else ".mlp"
            experts, part = (c["num_local_experts"], width) if mixtral else (c["num_experts"], c["moe_intermediate_size"])
            gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
            self.linear(f"{at}.gate", experts, self.hidden)
            for expert in range(experts):
                self.linear(f"{at}.experts.{expert}.{gate}", part, self.hidden)
                self.linear(f"{at}.experts.{expert}.{up}", part, self.hidden)
                self.linear(f"{at}.experts.{expert}.{down}", self.hidden, part)
        elif self.type == "gpt_oss":
            experts = c["num_local_experts"]
            self.linear(f"{at}.mlp.router", experts, self.hidden, True)
            self.mxfp4(f"{at}.mlp.experts.gate_up_proj", experts, 2 * width, self.hidden)
            self.mxfp4(f"{at}.mlp.experts.down_proj", experts, self.hidden, width)
        elif self.type == "granitemoehybrid":
            if experts := c["num_local_experts"]:
                self.linear(f"{at}.block_sparse_moe.router.layer", experts, self.hidden)
                self.add(f"{at}.block_sparse_moe.input_linear.weight", experts, 2 * c["intermediate_size"], self.hidden)
                self.add(f"{at}.block_sparse_moe.output_linear.weight", experts, self.hidden, c["intermediate_size"])
            self.linear(f"{at}.shared_mlp.input_linear", 2 * width, self.hidden)
            self.linear(f"{at}.shared_mlp.output_linear", self.hidden, width)
        elif self.type == "lfm2":
            self.linear(f"{at}.feed_forward.w1", width, self.hidden)
            self.linear(f"{at}.feed_forward.w3", width, self.hidden)
            self.linear(f"{at}.feed_forward.w2", self.hidden, width)
        elif self.type == "nemotron_h":
            self.linear(f"{at}.mixer.up_proj", width, self.hidden)
            self.linear(f"{at}.mixer.down_proj", self.hidden, width)
        else:
            if self.type == "phi3":
                self.linear(f"{at}.mlp.gate_up_proj", 2 * width, self.hidden)
            else:
                self.linear(f"{at}.mlp.gate_proj", width, self.hidden)
                self.linear(f"{at}.mlp.up_proj", width, self.hidden)
            self.linear(f"{at}.mlp.down_proj", self.hidden, width)

    def norms(self) -> list[str]:
        if self.type == "nemotron_h":
            return ["norm"]
        if self.type == "lfm2":
            return ["operator_norm", "ffn_norm"]
        if self.type in ("olmo2", "olmo3"):
            return ["post_attention_layernorm", "post_feedforward_layernorm"]
        both = ["input_layernorm", "post_attention_layernorm"]
        around = self.type in ("gemma2", "gemma3", "gemma3_text")
        return [*both, "pre_feedforward_layernorm", "post_feedforward_layernorm"] if around else both

    def body(self, prefix: str) -> None:
        self.add(f"{prefix}{'embeddings' if self.type == 'nemotron_h' else 'embed_tokens'}.weight", self.config["vocab_size"], self.hidden)
        for i, kind in enumerate(layer_kinds(self.config)):
            at = f"{prefix}layers.{i}"
            if kind == "attention":
                self.attention(f"{at}.{'mixer' if self.type == 'nemotron_h' else 'self_attn'}")
            elif kind == "recurrent":
                self.recurrent(at)
            if kind == "feed-forward" or self.type != "nemotron_h":
                self.feed_forward(at)
            for norm in self.norms():
                self.add(f"{at}.{norm}.weight", self.hidden)
        last = {"nemotron_h": "norm_f", "lfm2": "embedding_norm"}.get(self.type, "norm")
        self.add(f"{prefix}{last}.weight", self.hidden)


def tensors(model: dict) -> list[tuple[str, list[int], str]]:
    """Names, shapes and types, as in the published safetensors files; of models that see as well, the text part."""
    config, layout = model["config"], model.get("layout", {})
    shapes = Shapes(config)
    prefix = "" if layout.get("body") else PREFIXES.get(shapes.type, "model.")
    shapes.body(prefix)
    if not layout.get("body") and not is_tied(config):
        nested = prefix == "language_model.model."
        shapes.add("language_model.lm_head.weight" if nested else "lm_head.weight", shapes.config["vocab_size"], shapes.hidden)
    if "head" in layout:
        name, labels = layout["head"]
        shapes.add(f"{name}.weight", labels, shapes.hidden)
    width = shapes.hidden
    for place, rows in zip((0, 2), layout.get("projector", []), strict=False):
        shapes.add(f"projector.{place}.weight", rows, width)
        width = rows
    return shapes.list


def count(shape: list[int]) -> int:
    number = 1
    for size in shape:
        number *= size
    return number


def parameters(model: dict) -> int:
    """Of quantised matrices the numbers that they stand for, without their scales."""
    halves = {"_blocks": 2, "_scales": 0}
    return sum(count(shape) * halves.get(name[name.rfind("_"):], 1) for name, shape, _ in tensors(model))


def key_bytes_per_token(model: dict) -> int:
    """Keys and values of a token in bf16: two of each number, of the layers of attention only. Where tokens see those behind
    them a text is one step, which needs those of a layer at a time."""
    shapes = Shapes(model["config"])
    config = shapes.config
    whole = config.get("use_bidirectional_attention") or config.get("is_causal") is False or config["model_type"] == "llama_bidirec"
    return 2 * 2 * shapes.kv * (1 if whole else layer_kinds(config).count("attention"))


def files_beside(model: dict) -> dict[str, dict | list]:
    """What sentence-transformers puts beside the weights."""
    layout, files = model.get("layout", {}), {}
    if "modules" in layout:
        paths = {"Transformer": ""}
        files["modules.json"] = [
            {"idx": i, "name": str(i), "path": paths.get(kind, f"{i}_{kind}"), "type": f"sentence_transformers.models.{kind}"}
            for i, kind in enumerate(layout["modules"])]
    if "pooling" in layout:
        width = Shapes(model["config"]).hidden
        files["1_Pooling/config.json"] = {"word_embedding_dimension": width, f"pooling_mode_{layout['pooling']}": True}
    if "prompts" in layout:
        files["config_sentence_transformers.json"] = {"prompts": layout["prompts"], "default_prompt_name": None}
    return files


def first_layers(model: dict, layers: int) -> dict:
    """The model with its first layers only, of which one at least must be attention."""
    config = json.loads(json.dumps(model["config"]))
    text = config.get("text_config", config)
    kinds = layer_kinds(text_config(config))[:layers]
    if "attention" not in kinds:
        raise ValueError(f"{model['name']}: the first {layers} layers have no attention")
    text["num_hidden_layers"] = layers
    for key in ("layer_types", "hybrid_override_pattern"):
        if key in text:
            text[key] = text[key][:layers]
    if "full_attn_idxs" in text:
        text["full_attn_idxs"] = [i for i in text["full_attn_idxs"] if i < layers]
    return {**model, "config": config}


def write_shapes(folder: Path, model: dict, numbers: bytes = b"") -> Path:
    """The directory of a model in `folder`, named as people have it; with `numbers`, these over and over for weights."""
    directory = Path(folder) / model["name"].split("/")[-1]
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(model["config"]))
    for name, content in files_beside(model).items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(json.dumps(content))
    header, end = {}, 0
    for name, shape, dtype in tensors(model):
        begin, end = end, end + count(shape) * {"BF16": 2, "U8": 1}[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(directory / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, end if numbers else 0, len(numbers) or 1):
            file.write(numbers[: end - begin])
        file.truncate(8 + len(text) + end)
    return directory
