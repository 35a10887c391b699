"""The options of the library as types of keyword arguments. Written by tools/option_methods from docs/options.md; do not edit."""

from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, TypedDict


class EngineOptions(TypedDict, total=False):
    """Where a model is opened."""

    # What metrics call the model (label model_name); empty = the last part of its path. Of engines.
    name: str

    # Where the model runs; cuda:1 is the second GPU. One of cpu, cuda. Default cpu. Of engines.
    device: str

    # Type of weights, keys and values; f32 is the slow reference. One of bf16, f32. Default bf16. Of engines.
    dtype: Literal["bf16", "f32"]

    # What the matrices of layers are multiplied in: auto = as dtype says; int8 = whole numbers, with half the weights
    # of bf16 and 1.1 to 3 times the speed, as the processor is, at some loss (docs/quantisation.md). CPU only. One of
    # auto, int8. Default auto. Of engines.
    compute: Literal["auto", "int8"]

    # Matrices that compute=int8 leaves as dtype says: a list of head (with the embedding), mixer_in, mixer_out,
    # gate_up, down; empty = none. Of engines.
    compute_keep: str

    # What quantised matrices (GGUF, AWQ, GPTQ, MXFP4) become in memory: auto = numbers of dtype; packed = they stay in
    # blocks of whole numbers, in the bytes of the file, and are multiplied by activations of 8 bits
    # (docs/quantised-weights.md). CPU only, not with compute=int8. One of auto, packed. Default auto. Of engines.
    weights: Literal["auto", "packed"]

    # With compute=int8: a directory (of a .gguf file, a file) that is written while the model is loaded. It holds the
    # matrices in whole numbers, so that later loads of it only read them; empty = none. Of engines.
    pack_to: str

    # Type of keys and values: auto = as dtype says; int8 = whole numbers with a scale for each token and head, in about
    # half the memory of bf16, at some loss (docs/quantisation.md). CPU only. One of auto, int8. Default auto. Of
    # engines.
    kv: Literal["auto", "int8"]

    # Instruction-set level of the CPU kernels; auto takes the fastest this machine has. One of auto, amx, avx512_bf16,
    # avx512, avx2, neon, scalar. Default auto. Of engines.
    isa: Literal["auto", "amx", "avx512_bf16", "avx512", "avx2", "neon", "scalar"]

    # Same bits alone, in a batch and from the cache also on a GPU, at some cost; a CPU always does so. Default false.
    # Of engines.
    invariant: bool

    # Attention kernels of a GPU: mma runs on all of them, hopper on compute capability 9.0 and not with invariant; auto
    # takes hopper where it may. One of auto, mma, hopper. Default auto. Of engines.
    cuda_attention: Literal["auto", "mma", "hopper"]

    # Replay steps that look like earlier ones as CUDA graphs; the same bits either way. Default true. Of engines.
    cuda_graphs: bool

    # Worker threads; 0 = one per processor that the process may use, or per processor of cpus. Default 0. Of engines.
    threads: int

    # Processors that the worker threads stay on, as 0-3,8; empty = wherever the system puts them. Of engines.
    cpus: str

    # Most bytes for keys and values, of running requests and of the cache; 0 = a quarter of the free memory, nine
    # tenths of what is left on a GPU. Default 0. Of engines.
    cache_bytes: int | str

    # Keep computed prefixes for later batches; false = free them when a request is done. Default true. Of engines.
    cache: bool

    # Which cached prefix goes first when memory is short; docs/cache-policies.md compares them. auto = lru; with
    # recurrent layers what of lru, gds and gdsf has saved most lately. One of auto, lru, lfu, fifo, mru, filo, slru,
    # priority, gdsf, gds, marconi. Default auto. Of engines.
    cache_policy: Literal["auto", "lru", "lfu", "fifo", "mru", "filo", "slru", "priority", "gdsf", "gds", "marconi"]

    # Where states of recurrent layers are kept: at ends of prompts and answers and where requests part; placed = also
    # where later ones are likely to, judged by those before. One of ends, placed. Default ends. Of engines.
    cache_states: Literal["ends", "placed"]

    # Most states of recurrent layers on a path; those nearest to its beginning go, but for forks and what was asked
    # for. 0 = as many as memory holds. Default 4. Of engines.
    cache_path_states: int

    # A folder in which computed pages are kept below memory, for this process and later ones; empty = none. Of engines.
    cache_disk: str | os.PathLike[str]

    # Most bytes in that folder; the pages used longest ago go first. Default 10G. Of engines.
    cache_disk_bytes: int | str

    # A server that keeps pages for several machines, as redis://host:port/0; empty = none. Of engines.
    cache_store: str

    # Longest time of one fetch from disk and store; then its requests compute the pages. Default 1000. In milliseconds.
    # Of engines.
    cache_fetch_ms: int

    # How many of the last cache events are kept for those who read them; 0 = none are made. Default 0. Of engines.
    cache_events: int

    # Tokens of the blocks that cache events tell of; a multiple of 32. Default 32. Of engines.
    cache_event_tokens: int

    # Refuse requests whose namespace has no salt, so that nothing is shared by mistake. Default false. Of engines.
    require_salt: bool

    # Whether tokens see those behind them; auto = as the model's files say. bidirectional embeds and classifies only,
    # keeps whole texts, and takes texts of at most `rows` tokens. One of auto, causal, bidirectional. Default auto. Of
    # engines.
    attention: Literal["auto", "causal", "bidirectional"]

    # Compute and store shared prefixes once; false = every request on its own (to compare). Default true. Of engines.
    sharing: bool

    # Most tokens computed in one step; less answers sooner, more is a little faster. On a GPU 4096 unless set. Default
    # 2048. Of engines.
    rows: int

    # Most unfinished requests; beyond it submit answers QUEUE_FULL. Default 1000000. Of engines.
    queue_limit: int

    # Longest sequence in tokens; 0 = what the model was made for. Default 0. Of engines.
    max_positions: int


class RequestOptions(TypedDict, total=False):
    """Of requests of every kind."""

    # Tenant or salt: nothing is shared across namespaces. Of requests and tasks.
    namespace: str

    # The same by number, from prefix_namespace_open or _open_tuple; not both. Default 0. Of requests and tasks.
    namespace_id: int

    # Name of an adapter that is loaded (prefix_adapter_load); empty = the model alone. Of requests and tasks.
    adapter: str

    # Time from submission after which the request ends with DEADLINE; 0 = none. Default 0. In milliseconds. Of requests
    # and tasks.
    deadline_ms: int

    # Higher runs first. Default 0. Of requests and tasks.
    priority: int

    # Of what the request leaves in the cache; with cache_policy = priority the lowest goes first. Default 0. Of
    # requests and tasks.
    cache_priority: int

    # How long what the request leaves in the cache stays unless it is used again; 0 = no limit. Default 0. In
    # milliseconds. Of requests and tasks.
    cache_ttl_ms: int

    # Positions of the prompt, ascending, as 100,250: with recurrent layers a state is kept after so many tokens, and
    # later requests go on there. Of requests and tasks.
    checkpoint: Sequence[int]


class _GenerateOptions(RequestOptions, total=False):
    """Of Generate, and of tasks that write texts."""

    # Most tokens to generate. Default 16. Of generations, and of tasks that write.
    max_tokens: int

    # 0 = greedy. Default 0. Of generations, and of tasks that write.
    temperature: float

    # Draw from the k likeliest; 0 = all. Default 0. Of generations, and of tasks that write.
    top_k: int

    # Draw from the likeliest tokens that make up this probability. Default 1. Of generations, and of tasks that write.
    top_p: float

    # Drop tokens below this share of the likeliest one's probability. Default 0. Of generations, and of tasks that
    # write.
    min_p: float

    # Divides the logits of tokens that occurred; 1 = off. Default 1. Of generations, and of tasks that write.
    repetition_penalty: float

    # Taken off the logits of tokens that were generated, however often. Default 0. Of generations, and of tasks that
    # write.
    presence_penalty: float

    # Taken off the logits of tokens for each time that they were generated. Default 0. Of generations, and of tasks
    # that write.
    frequency_penalty: float

    # Added to the logits of tokens, each in [-100, 100]. It makes tokens likelier or less likely and forbids none. Of
    # generations, and of tasks that write.
    logit_bias: Mapping[int, float] | str

    # Token ids that alone may be generated, each once, as 1,2,3; empty = all. Of generations, and of tasks that write.
    allowed_tokens: Sequence[int]

    # Tokens before which no end token and none of stop_tokens may be generated; at most max_tokens. Default 0. Of
    # generations, and of tasks that write.
    min_tokens: int

    # Same seed, same draw; -1 = a new one for each request, which its result tells. Default -1. Of generations, and of
    # tasks that write.
    seed: int

    # Go on after the model's end-of-sequence token. Default false. Of generations, and of tasks that write.
    ignore_eos: bool

    # Further token ids that end generation, as 1,2,3. Of generations, and of tasks that write.
    stop_tokens: Sequence[int]

    # Keep the log-probability of each generated token. Default false. Of generations, and of tasks that write.
    logprobs: bool

    # Keep so many of the likeliest tokens and their log-probabilities for each generated token, and for each scored one
    # of a request for log-probabilities. Default 0. Of generations, and of tasks that write.
    top_logprobs: int

    # Guess up to so many tokens, from what the cache has behind the same prompt and from what came behind the same
    # tokens before, and check them in one step; 0 = none. Tokens stay the same; answers that repeat their prompt or an
    # earlier answer come in fewer steps. Default 0. Of generations, and of tasks that write.
    draft_tokens: int


class GenerateOptions(_GenerateOptions, total=False):
    """Of Generate."""


class _EmbeddingOptions(RequestOptions, total=False):
    """Of Embedding, and of tasks that embed."""

    # Keep the first n values; 0 = all. Default 0. Of embeddings, and of tasks that embed.
    dimensions: int

    # Scale to length 1 after the cut. Default true. Of embeddings, and of tasks that embed.
    normalize: bool

    # Send the vector through the Dense layers of the model's files, before dimensions and normalize. They are left out
    # when this is false, with head, and with pooling = tokens unless they are made for single tokens. Default true. Of
    # embeddings, and of tasks that embed.
    dense: bool


class EmbeddingOptions(_EmbeddingOptions, total=False):
    """Of Embedding."""

    # Which final hidden states make the vector: of the last token, the mean of all, of the first; tokens = a vector of
    # each, not of tasks. One of last, mean, first, tokens. Default last. Of embeddings, and of tasks that embed.
    pooling: Literal["last", "mean", "first", "tokens"]

    # With pooling = tokens only the vectors at these positions, ascending; empty = all. Of embeddings, not of tasks.
    positions: Sequence[int]

    # The logits of the model's classification head instead, one for each label. Default false. Of embeddings, not of
    # tasks.
    head: bool


class RankingOptions(RequestOptions, total=False):
    """A task that reranks or classifies, with the requests that it makes."""

    # How texts become prompts: a shipped recipe, or a file's path (with a "/" or ending in .json); auto = what the
    # model's files call for. Default auto. Of tasks.
    recipe: str | os.PathLike[str]

    # In place of the recipe's own; unset = that one. Of tasks.
    instruction: str

    # Cut the end or the front of what the recipe lets be cut when a prompt is too long; off = the item fails. One of
    # right, left, off. Default right. Of tasks.
    truncate: Literal["right", "left", "off"]

    # Longest prompt; 0 = the recipe's limit, or the model's if smaller. Default 0. Of tasks.
    max_prompt_tokens: int

    # Most distinct tokens of a task that are in work at once. Default 65536. Of tasks.
    chunk_tokens: int

    # rerank: a difference of logits or a sum of log-probabilities, not the score; classify: log-probabilities, or the
    # logits of a head. Default false. Of tasks.
    raw: bool

    # rerank, classify: most places of a ranking; 0 = all. Default 0. Of tasks.
    top_n: int | None


class EmbedOptions(_EmbeddingOptions, total=False):
    """A task that embeds, with the requests that it makes."""

    # Which final hidden states make the vector: of the last token, the mean of all, of the first; tokens = a vector of
    # each, not of tasks. One of last, mean, first, tokens. Default last. Of embeddings, and of tasks that embed.
    pooling: Literal["last", "mean", "first"]

    # How texts become prompts: a shipped recipe, or a file's path (with a "/" or ending in .json); auto = what the
    # model's files call for. Default auto. Of tasks.
    recipe: str | os.PathLike[str]

    # In place of the recipe's own; unset = that one. Of tasks.
    instruction: str

    # Cut the end or the front of what the recipe lets be cut when a prompt is too long; off = the item fails. One of
    # right, left, off. Default right. Of tasks.
    truncate: Literal["right", "left", "off"]

    # Longest prompt; 0 = the recipe's limit, or the model's if smaller. Default 0. Of tasks.
    max_prompt_tokens: int

    # Most distinct tokens of a task that are in work at once. Default 65536. Of tasks.
    chunk_tokens: int

    # embed: which of the recipe's prompts; empty = "document" where there are several. Of tasks.
    prompt: str


class WritingOptions(_GenerateOptions, total=False):
    """A task that writes texts, with the requests that it makes."""

    # How texts become prompts: a shipped recipe, or a file's path (with a "/" or ending in .json); auto = what the
    # model's files call for. Default auto. Of tasks.
    recipe: str | os.PathLike[str]

    # In place of the recipe's own; unset = that one. Of tasks.
    instruction: str

    # Cut the end or the front of what the recipe lets be cut when a prompt is too long; off = the item fails. One of
    # right, left, off. Default right. Of tasks.
    truncate: Literal["right", "left", "off"]

    # Longest prompt; 0 = the recipe's limit, or the model's if smaller. Default 0. Of tasks.
    max_prompt_tokens: int

    # Most distinct tokens of a task that are in work at once. Default 65536. Of tasks.
    chunk_tokens: int

    # answer, generate, chat: TEXT events while the texts are written. Default false. Of tasks.
    stream: bool

    # answer, generate, chat: texts before which an answer ends, besides the recipe's own; none may be empty. Default
    # []. Of tasks.
    stop: Sequence[str]

    # answer, generate, chat: so many texts of each item, side by side, for one prompt's work. Where seed is set, text k
    # draws with seed + k, otherwise each with a new one; with temperature 0 they are all the same. Default 1. Of tasks.
    samples: int

    # answer, generate, chat: a text is JSON of this schema, which is JSON itself; empty = none. At most one of this,
    # regex and grammar. Of tasks.
    json_schema: Mapping[str, Any] | str

    # answer, generate, chat: a text matches this regular expression as a whole; empty = none. Of tasks.
    regex: str

    # answer, generate, chat: a text is of this grammar, in the syntax of llguidance, which is like Lark's; empty =
    # none. Of tasks.
    grammar: str


class TaskOptions(RankingOptions, EmbedOptions, WritingOptions, total=False):
    """Of a task of any kind."""
