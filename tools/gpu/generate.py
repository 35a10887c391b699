"""transformers generate as a peer of whole prefills: 32 sequences of 2048 + 256 tokens, one token after each.

The models have the shapes of Qwen3 and random weights, made on the GPU; nothing is downloaded.
"""

import statistics
import time

SEQUENCES, PREFIX, OWN = 32, 2048, 256
ROUNDS = 3
# name, hidden, layers, heads, intermediate, tied
MODELS = [("qwen3-0.6b", 1024, 28, 16, 3072, True), ("qwen3-4b", 2560, 36, 32, 9728, True),
          ("qwen3-8b", 4096, 36, 32, 12288, False)]


def config_of(transformers, hidden: int, layers: int, heads: int, inner: int, tied: bool):
    return transformers.Qwen3Config(
        vocab_size=151936, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960,
        tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None, pad_token_id=0, attn_implementation="sdpa")


def build(torch, transformers, shape: tuple):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return transformers.Qwen3ForCausalLM(config_of(transformers, *shape)).eval()
    finally:
        torch.set_default_dtype(before)


def median_ms(torch, model) -> float:
    times = []
    for round_ in range(ROUNDS + 1):
        shared = torch.randint(1, 151936, (1, PREFIX), device="cuda").expand(SEQUENCES, PREFIX)
        ids = torch.cat([shared, torch.randint(1, 151936, (SEQUENCES, OWN), device="cuda")], dim=1)
        torch.cuda.synchronize()
        start = time.monotonic()
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=False)
        torch.cuda.synchronize()
        if round_ > 0:  # the first one meets every shape for the first time
            times.append((time.monotonic() - start) * 1000)
    return statistics.median(times)


def generate(torch, end: float, say, first_line) -> None:
    name = "transformers generate"
    try:
        import transformers
    except Exception as error:
        say(peer=name, not_run=first_line(error))
        return
    for label, *shape in MODELS:
        line = dict(peer=name, model=label, shape=f"{SEQUENCES},{PREFIX},{OWN}", version=transformers.__version__)
        if time.monotonic() > end:
            say(**line, not_run="out of time")
            continue
        model = None
        try:
            model = build(torch, transformers, tuple(shape))
            say(**line, ms=round(median_ms(torch, model), 1))
        except Exception as error:
            say(**line, not_run=first_line(error))
        del model
        torch.cuda.empty_cache()
