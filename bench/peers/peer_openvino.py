"""OpenVINO GenAI: a batch a line in, seconds and tokens out.

With `prefix`, that many tokens are run alone first, in whole blocks of 32, because sequences that arrive together do not share;
the rest of the prefix is left to the requests. Steps are 2,048 tokens instead of 256, which is faster.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import openvino as ov
import openvino_genai as genai

BLOCK = 32

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--weights", default="fp16", choices=["fp16", "int8"], help="as they are stored")
parser.add_argument("--group", type=int, default=0, help="inputs that share a scale in products of whole numbers")
parser.add_argument("--precision", choices=["f32", "bf16"], help="in which it multiplies; it chooses if this is not given")
arguments = parser.parse_args()

exported = Path(f"{arguments.model}-openvino-{arguments.weights}")
if not (exported / "openvino_model.xml").exists():
    subprocess.run([str(Path(sys.executable).with_name("optimum-cli")), "export", "openvino", "--model", arguments.model, "--task",
                    "text-generation-with-past", "--weight-format", arguments.weights, str(exported)], check=True, stdout=sys.stderr)

scheduler = genai.SchedulerConfig()
scheduler.enable_prefix_caching = True
scheduler.cache_size = 3  # GiB: twice what the largest batch needs
scheduler.max_num_batched_tokens = 2048
scheduler.max_num_seqs = 256
properties = {"INFERENCE_NUM_THREADS": arguments.threads}
if arguments.precision:
    properties["INFERENCE_PRECISION_HINT"] = arguments.precision
if arguments.group:
    properties["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = arguments.group
pipe = genai.ContinuousBatchingPipeline(str(exported), scheduler, "CPU", properties, {})


def run(requests: list[list[int]], generate: int) -> list[list[int]]:
    config = genai.GenerationConfig()
    config.max_new_tokens = generate
    config.ignore_eos = True
    config.do_sample = False
    tensors = [ov.Tensor([ids]) for ids in requests]
    return [list(r.m_generation_ids[0]) for r in pipe.generate(tensors, [config] * len(tensors))]


print("{}", flush=True)  # ready
for line in sys.stdin:
    batch = json.loads(line)
    begin = time.perf_counter()
    whole = batch["prefix"] // BLOCK * BLOCK
    if whole:
        run([batch["requests"][0][:whole]], 1)
    tokens = run(batch["requests"], batch["generate"])
    print(json.dumps({"seconds": time.perf_counter() - begin, "tokens": tokens}), flush=True)
