"""llama.cpp: a batch a line in, seconds and tokens out.

The prefix is computed once in one sequence and copied to the others (`llama_memory_seq_cp`, one KV store for all, so that cells
are shared); what follows goes in batches of 2,048 tokens, of all sequences together.
"""

import argparse
import ctypes
import json
import sys
import time

import llama_cpp as api
import numpy as np

BATCH = 2048

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--sequences", type=int, default=64)
parser.add_argument("--cells", type=int, default=12288, help="tokens of all sequences together")
arguments = parser.parse_args()

api.llama_backend_init()
quiet = api.llama_log_callback(lambda level, text, data: None)
api.llama_log_set(quiet, ctypes.c_void_p(0))
model_options = api.llama_model_default_params()
model_options.n_gpu_layers = 0
model = api.llama_model_load_from_file(arguments.model.encode(), model_options)
if not model:
    sys.exit(f"llama.cpp does not load {arguments.model}")
options = api.llama_context_default_params()
options.n_ctx = arguments.cells
options.n_batch = BATCH
options.n_ubatch = 512
options.n_seq_max = arguments.sequences
options.n_threads = options.n_threads_batch = arguments.threads
options.kv_unified = True
context = api.llama_init_from_model(model, options)
if not context:
    sys.exit("llama.cpp makes no context")
memory = api.llama_get_memory(context)
vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
batch = api.llama_batch_init(BATCH, 0, 1)


def decode(entries: list[tuple[int, int, int, bool]]) -> list[int]:
    """Computes (token, position, sequence, wanted) entries; the best next token of each that is wanted."""
    best = []
    for begin in range(0, len(entries), BATCH):
        part = entries[begin : begin + BATCH]
        batch.n_tokens = len(part)
        for i, (token, position, sequence, wanted) in enumerate(part):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
            batch.seq_id[i][0] = sequence
        if (code := api.llama_decode(context, batch)) != 0:
            sys.exit(f"llama_decode gave {code}")
        for i, entry in enumerate(part):
            if entry[3]:
                best.append(int(np.ctypeslib.as_array(api.llama_get_logits_ith(context, i), (vocabulary,)).argmax()))
    return best


def run(requests: list[list[int]], prefix: int, generate: int) -> list[list[int]]:
    api.llama_memory_clear(memory, False)
    if prefix:
        decode([(token, i, 0, False) for i, token in enumerate(requests[0][:prefix])])
        for sequence in range(1, len(requests)):
            api.llama_memory_seq_cp(memory, 0, sequence, 0, prefix)
    entries = [(token, i, sequence, i == len(ids) - 1)
               for sequence, ids in enumerate(requests) for i, token in enumerate(ids) if i >= prefix]
    tokens = [[token] for token in decode(entries)]
    for step in range(1, generate):
        following = decode([(ids[-1], len(requests[s]) + step - 1, s, True) for s, ids in enumerate(tokens)])
        for ids, token in zip(tokens, following):
            ids.append(token)
    return tokens


print("{}", flush=True)  # ready
for line in sys.stdin:
    wanted = json.loads(line)
    begin = time.perf_counter()
    made = run(wanted["requests"], wanted["prefix"], wanted["generate"])
    print(json.dumps({"seconds": time.perf_counter() - begin, "tokens": made}), flush=True)
