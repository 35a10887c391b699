"""vLLM on the CPU: a batch a line in, seconds and tokens out. It shares what arrives together, in whole blocks of 32.

`compare` preloads the allocator and the OpenMP that its documentation names, which gain a tenth.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
arguments = parser.parse_args()

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "3")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

from vllm import LLM, SamplingParams  # noqa: E402

# Texts are not used, but it does not start without something that could read them.
TOKENIZER = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}

if __name__ == "__main__":
    texts = Path(arguments.model + "-tokenizer")
    texts.mkdir(exist_ok=True)
    (texts / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (texts / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    llm = LLM(model=arguments.model, runner="generate", hf_overrides={"architectures": ["Qwen3ForCausalLM"]}, tokenizer=str(texts), dtype=arguments.dtype, enable_prefix_caching=True, block_size=32,
              max_model_len=4096, max_num_seqs=256, max_num_batched_tokens=2048)
    print("{}", flush=True)  # ready
    for line in sys.stdin:
        batch = json.loads(line)
        sampling = SamplingParams(temperature=0, max_tokens=batch["generate"], ignore_eos=True, detokenize=False)
        prompts = [{"prompt_token_ids": ids} for ids in batch["requests"]]
        begin = time.perf_counter()
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "tokens": [list(o.outputs[0].token_ids) for o in outputs]}), flush=True)
