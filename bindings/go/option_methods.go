// Written by tools/option_methods from docs/options.md; do not edit.

package prefix

import "time"

// timeMethods are the methods that take a time, by their options.
var timeMethods = map[string]string{"cache_fetch_ms": "CacheFetch", "deadline_ms": "Deadline", "cache_ttl_ms": "CacheTTL"}

// Name is option name: what metrics call the model (label model_name); empty = the last part of its path. Of engines.
func (o Options) Name(value string) Options { return o.with("name", value) }

// Device is option device: where the model runs; cuda:1 is the second GPU. One of cpu, cuda. Default cpu. Of engines.
func (o Options) Device(value string) Options { return o.with("device", value) }

// Dtype is option dtype: type of weights, keys and values; f32 is the slow reference. One of bf16, f32. Default bf16.
// Of engines.
func (o Options) Dtype(value string) Options { return o.with("dtype", value) }

// Compute is option compute: what the matrices of layers are multiplied in: auto = as dtype says; int8 = whole numbers,
// with half the weights of bf16 and 1.1 to 3 times the speed, as the processor is, at some loss (docs/quantisation.md).
// CPU only. One of auto, int8. Default auto. Of engines.
func (o Options) Compute(value string) Options { return o.with("compute", value) }

// ComputeKeep is option compute_keep: matrices that compute=int8 leaves as dtype says: a list of head (with the
// embedding), mixer_in, mixer_out, gate_up, down; empty = none. Of engines.
func (o Options) ComputeKeep(value string) Options { return o.with("compute_keep", value) }

// Weights is option weights: what quantised matrices (GGUF, AWQ, GPTQ, MXFP4) become in memory: auto = numbers of
// dtype; packed = they stay in blocks of whole numbers, in the bytes of the file, and are multiplied by activations of
// 8 bits (docs/quantised-weights.md). CPU only, not with compute=int8. One of auto, packed. Default auto. Of engines.
func (o Options) Weights(value string) Options { return o.with("weights", value) }

// PackTo is option pack_to: with compute=int8: a directory (of a .gguf file, a file) that is written while the model is
// loaded. It holds the matrices in whole numbers, so that later loads of it only read them; empty = none. Of engines.
func (o Options) PackTo(value string) Options { return o.with("pack_to", value) }

// KV is option kv: type of keys and values: auto = as dtype says; int8 = whole numbers with a scale for each token and
// head, in about half the memory of bf16, at some loss (docs/quantisation.md). CPU only. One of auto, int8. Default
// auto. Of engines.
func (o Options) KV(value string) Options { return o.with("kv", value) }

// ISA is option isa: instruction-set level of the CPU kernels; auto takes the fastest this machine has. One of auto,
// amx, avx512_bf16, avx512, avx2, neon, scalar. Default auto. Of engines.
func (o Options) ISA(value string) Options { return o.with("isa", value) }

// Invariant is option invariant: same bits alone, in a batch and from the cache also on a GPU, at some cost; a CPU
// always does so. Default false. Of engines.
func (o Options) Invariant(value bool) Options { return o.with("invariant", value) }

// CUDAAttention is option cuda_attention: attention kernels of a GPU: mma runs on all of them, hopper on compute
// capability 9.0 and not with invariant; auto takes hopper where it may. One of auto, mma, hopper. Default auto. Of
// engines.
func (o Options) CUDAAttention(value string) Options { return o.with("cuda_attention", value) }

// CUDAGraphs is option cuda_graphs: replay steps that look like earlier ones as CUDA graphs; the same bits either way.
// Default true. Of engines.
func (o Options) CUDAGraphs(value bool) Options { return o.with("cuda_graphs", value) }

// Threads is option threads: worker threads; 0 = one per processor that the process may use, or per processor of cpus.
// Default 0. Of engines.
func (o Options) Threads(value int) Options { return o.with("threads", value) }

// CPUs is option cpus: processors that the worker threads stay on, as 0-3,8; empty = wherever the system puts them. Of
// engines.
func (o Options) CPUs(value string) Options { return o.with("cpus", value) }

// CacheBytes is option cache_bytes: most bytes for keys and values, of running requests and of the cache; 0 = a quarter
// of the free memory, nine tenths of what is left on a GPU. Default 0. Of engines.
func (o Options) CacheBytes(value int) Options { return o.with("cache_bytes", value) }

// Cache is option cache: keep computed prefixes for later batches; false = free them when a request is done. Default
// true. Of engines.
func (o Options) Cache(value bool) Options { return o.with("cache", value) }

// CachePolicy is option cache_policy: which cached prefix goes first when memory is short; docs/cache-policies.md
// compares them. auto = lru; with recurrent layers what of lru, gds and gdsf has saved most lately. One of auto, lru,
// lfu, fifo, mru, filo, slru, priority, gdsf, gds, marconi. Default auto. Of engines.
func (o Options) CachePolicy(value string) Options { return o.with("cache_policy", value) }

// CacheStates is option cache_states: where states of recurrent layers are kept: at ends of prompts and answers and
// where requests part; placed = also where later ones are likely to, judged by those before. One of ends, placed.
// Default ends. Of engines.
func (o Options) CacheStates(value string) Options { return o.with("cache_states", value) }

// CachePathStates is option cache_path_states: most states of recurrent layers on a path; those nearest to its
// beginning go, but for forks and what was asked for. 0 = as many as memory holds. Default 4. Of engines.
func (o Options) CachePathStates(value int) Options { return o.with("cache_path_states", value) }

// CacheDisk is option cache_disk: A folder in which computed pages are kept below memory, for this process and later
// ones; empty = none. Of engines.
func (o Options) CacheDisk(value string) Options { return o.with("cache_disk", value) }

// CacheDiskBytes is option cache_disk_bytes: most bytes in that folder; the pages used longest ago go first. Default
// 10G. Of engines.
func (o Options) CacheDiskBytes(value int) Options { return o.with("cache_disk_bytes", value) }

// CacheStore is option cache_store: A server that keeps pages for several machines, as redis://host:port/0; empty =
// none. Of engines.
func (o Options) CacheStore(value string) Options { return o.with("cache_store", value) }

// CacheFetch is option cache_fetch_ms: longest time of one fetch from disk and store; then its requests compute the
// pages. Default 1000. Of engines.
func (o Options) CacheFetch(value time.Duration) Options {
	return o.with("cache_fetch_ms", milliseconds(value))
}

// CacheEvents is option cache_events: how many of the last cache events are kept for those who read them; 0 = none are
// made. Default 0. Of engines.
func (o Options) CacheEvents(value int) Options { return o.with("cache_events", value) }

// CacheEventTokens is option cache_event_tokens: tokens of the blocks that cache events tell of; a multiple of 32.
// Default 32. Of engines.
func (o Options) CacheEventTokens(value int) Options { return o.with("cache_event_tokens", value) }

// RequireSalt is option require_salt: refuse requests whose namespace has no salt, so that nothing is shared by
// mistake. Default false. Of engines.
func (o Options) RequireSalt(value bool) Options { return o.with("require_salt", value) }

// Attention is option attention: whether tokens see those behind them; auto = as the model's files say. bidirectional
// embeds and classifies only, keeps whole texts, and takes texts of at most `rows` tokens. One of auto, causal,
// bidirectional. Default auto. Of engines.
func (o Options) Attention(value string) Options { return o.with("attention", value) }

// Sharing is option sharing: compute and store shared prefixes once; false = every request on its own (to compare).
// Default true. Of engines.
func (o Options) Sharing(value bool) Options { return o.with("sharing", value) }

// Rows is option rows: most tokens computed in one step; less answers sooner, more is a little faster. On a GPU 4096
// unless set. Default 2048. Of engines.
func (o Options) Rows(value int) Options { return o.with("rows", value) }

// QueueLimit is option queue_limit: most unfinished requests; beyond it submit answers QUEUE_FULL. Default 1000000. Of
// engines.
func (o Options) QueueLimit(value int) Options { return o.with("queue_limit", value) }

// MaxPositions is option max_positions: longest sequence in tokens; 0 = what the model was made for. Default 0. Of
// engines.
func (o Options) MaxPositions(value int) Options { return o.with("max_positions", value) }

// Namespace is option namespace: tenant or salt: nothing is shared across namespaces. Of requests and tasks.
func (o Options) Namespace(value string) Options { return o.with("namespace", value) }

// NamespaceID is option namespace_id: the same by number, from prefix_namespace_open or _open_tuple; not both. Default
// 0. Of requests and tasks.
func (o Options) NamespaceID(value int) Options { return o.with("namespace_id", value) }

// Adapter is option adapter: name of an adapter that is loaded (prefix_adapter_load); empty = the model alone. Of
// requests and tasks.
func (o Options) Adapter(value string) Options { return o.with("adapter", value) }

// Deadline is option deadline_ms: time from submission after which the request ends with DEADLINE; 0 = none. Default 0.
// Of requests and tasks.
func (o Options) Deadline(value time.Duration) Options {
	return o.with("deadline_ms", milliseconds(value))
}

// Priority is option priority: higher runs first. Default 0. Of requests and tasks.
func (o Options) Priority(value int) Options { return o.with("priority", value) }

// CachePriority is option cache_priority: of what the request leaves in the cache; with cache_policy = priority the
// lowest goes first. Default 0. Of requests and tasks.
func (o Options) CachePriority(value int) Options { return o.with("cache_priority", value) }

// CacheTTL is option cache_ttl_ms: how long what the request leaves in the cache stays unless it is used again; 0 = no
// limit. Default 0. Of requests and tasks.
func (o Options) CacheTTL(value time.Duration) Options {
	return o.with("cache_ttl_ms", milliseconds(value))
}

// Checkpoint is option checkpoint: positions of the prompt, ascending, as 100,250: with recurrent layers a state is
// kept after so many tokens, and later requests go on there. Of requests and tasks.
func (o Options) Checkpoint(value ...Token) Options { return o.with("checkpoint", value) }

// MaxTokens is option max_tokens: most tokens to generate. Default 16. Of generations, and of tasks that write.
func (o Options) MaxTokens(value int) Options { return o.with("max_tokens", value) }

// Temperature is option temperature: 0 = greedy. Default 0. Of generations, and of tasks that write.
func (o Options) Temperature(value float64) Options { return o.with("temperature", value) }

// TopK is option top_k: draw from the k likeliest; 0 = all. Default 0. Of generations, and of tasks that write.
func (o Options) TopK(value int) Options { return o.with("top_k", value) }

// TopP is option top_p: draw from the likeliest tokens that make up this probability. Default 1. Of generations, and of
// tasks that write.
func (o Options) TopP(value float64) Options { return o.with("top_p", value) }

// MinP is option min_p: drop tokens below this share of the likeliest one's probability. Default 0. Of generations, and
// of tasks that write.
func (o Options) MinP(value float64) Options { return o.with("min_p", value) }

// RepetitionPenalty is option repetition_penalty: divides the logits of tokens that occurred; 1 = off. Default 1. Of
// generations, and of tasks that write.
func (o Options) RepetitionPenalty(value float64) Options { return o.with("repetition_penalty", value) }

// PresencePenalty is option presence_penalty: taken off the logits of tokens that were generated, however often.
// Default 0. Of generations, and of tasks that write.
func (o Options) PresencePenalty(value float64) Options { return o.with("presence_penalty", value) }

// FrequencyPenalty is option frequency_penalty: taken off the logits of tokens for each time that they were generated.
// Default 0. Of generations, and of tasks that write.
func (o Options) FrequencyPenalty(value float64) Options { return o.with("frequency_penalty", value) }

// LogitBias is option logit_bias: added to the logits of tokens, each in [-100, 100]. It makes tokens likelier or less
// likely and forbids none. Of generations, and of tasks that write.
func (o Options) LogitBias(value map[Token]float64) Options {
	return o.with("logit_bias", biases(value))
}

// AllowedTokens is option allowed_tokens: token ids that alone may be generated, each once, as 1,2,3; empty = all. Of
// generations, and of tasks that write.
func (o Options) AllowedTokens(value ...Token) Options { return o.with("allowed_tokens", value) }

// MinTokens is option min_tokens: tokens before which no end token and none of stop_tokens may be generated; at most
// max_tokens. Default 0. Of generations, and of tasks that write.
func (o Options) MinTokens(value int) Options { return o.with("min_tokens", value) }

// Seed is option seed: same seed, same draw; -1 = a new one for each request, which its result tells. Default -1. Of
// generations, and of tasks that write.
func (o Options) Seed(value int) Options { return o.with("seed", value) }

// IgnoreEOS is option ignore_eos: go on after the model's end-of-sequence token. Default false. Of generations, and of
// tasks that write.
func (o Options) IgnoreEOS(value bool) Options { return o.with("ignore_eos", value) }

// StopTokens is option stop_tokens: further token ids that end generation, as 1,2,3. Of generations, and of tasks that
// write.
func (o Options) StopTokens(value ...Token) Options { return o.with("stop_tokens", value) }

// Logprobs is option logprobs: keep the log-probability of each generated token. Default false. Of generations, and of
// tasks that write.
func (o Options) Logprobs(value bool) Options { return o.with("logprobs", value) }

// TopLogprobs is option top_logprobs: keep so many of the likeliest tokens and their log-probabilities for each
// generated token, and for each scored one of a request for log-probabilities. Default 0. Of generations, and of tasks
// that write.
func (o Options) TopLogprobs(value int) Options { return o.with("top_logprobs", value) }

// DraftTokens is option draft_tokens: guess up to so many tokens, from what the cache has behind the same prompt and
// from what came behind the same tokens before, and check them in one step; 0 = none. Tokens stay the same; answers
// that repeat their prompt or an earlier answer come in fewer steps. Default 0. Of generations, and of tasks that
// write.
func (o Options) DraftTokens(value int) Options { return o.with("draft_tokens", value) }

// Pooling is option pooling: which final hidden states make the vector: of the last token, the mean of all, of the
// first; tokens = a vector of each, not of tasks. One of last, mean, first, tokens. Default last. Of embeddings, and of
// tasks that embed.
func (o Options) Pooling(value string) Options { return o.with("pooling", value) }

// Positions is option positions: with pooling = tokens only the vectors at these positions, ascending; empty = all. Of
// embeddings, not of tasks.
func (o Options) Positions(value ...Token) Options { return o.with("positions", value) }

// Dimensions is option dimensions: keep the first n values; 0 = all. Default 0. Of embeddings, and of tasks that embed.
func (o Options) Dimensions(value int) Options { return o.with("dimensions", value) }

// Normalize is option normalize: scale to length 1 after the cut. Default true. Of embeddings, and of tasks that embed.
func (o Options) Normalize(value bool) Options { return o.with("normalize", value) }

// Head is option head: the logits of the model's classification head instead, one for each label. Default false. Of
// embeddings, not of tasks.
func (o Options) Head(value bool) Options { return o.with("head", value) }

// Dense is option dense: send the vector through the Dense layers of the model's files, before dimensions and
// normalize. They are left out when this is false, with head, and with pooling = tokens unless they are made for single
// tokens. Default true. Of embeddings, and of tasks that embed.
func (o Options) Dense(value bool) Options { return o.with("dense", value) }

// Recipe is option recipe: how texts become prompts: a shipped recipe, or a file's path (with a "/" or ending in
// .json); auto = what the model's files call for. Default auto. Of tasks.
func (o Options) Recipe(value string) Options { return o.with("recipe", value) }

// Instruction is option instruction: in place of the recipe's own; unset = that one. Of tasks.
func (o Options) Instruction(value string) Options { return o.with("instruction", value) }

// Truncate is option truncate: cut the end or the front of what the recipe lets be cut when a prompt is too long; off =
// the item fails. One of right, left, off. Default right. Of tasks.
func (o Options) Truncate(value string) Options { return o.with("truncate", value) }

// MaxPromptTokens is option max_prompt_tokens: longest prompt; 0 = the recipe's limit, or the model's if smaller.
// Default 0. Of tasks.
func (o Options) MaxPromptTokens(value int) Options { return o.with("max_prompt_tokens", value) }

// ChunkTokens is option chunk_tokens: most distinct tokens of a task that are in work at once. Default 65536. Of tasks.
func (o Options) ChunkTokens(value int) Options { return o.with("chunk_tokens", value) }

// Raw is option raw: rerank: a difference of logits or a sum of log-probabilities, not the score; classify:
// log-probabilities, or the logits of a head. Default false. Of tasks.
func (o Options) Raw(value bool) Options { return o.with("raw", value) }

// TopN is option top_n: rerank, classify: most places of a ranking; 0 = all. Default 0. Of tasks.
func (o Options) TopN(value int) Options { return o.with("top_n", value) }

// Prompt is option prompt: embed: which of the recipe's prompts; empty = "document" where there are several. Of tasks.
func (o Options) Prompt(value string) Options { return o.with("prompt", value) }

// Stream is option stream: answer, generate, chat: TEXT events while the texts are written. Default false. Of tasks.
func (o Options) Stream(value bool) Options { return o.with("stream", value) }

// Stop is option stop: answer, generate, chat: texts before which an answer ends, besides the recipe's own; none may be
// empty. Default []. Of tasks.
func (o Options) Stop(value ...string) Options { return o.with("stop", value) }

// Samples is option samples: answer, generate, chat: so many texts of each item, side by side, for one prompt's work.
// Where seed is set, text k draws with seed + k, otherwise each with a new one; with temperature 0 they are all the
// same. Default 1. Of tasks.
func (o Options) Samples(value int) Options { return o.with("samples", value) }

// JSONSchema is option json_schema: answer, generate, chat: a text is JSON of this schema, which is JSON itself; empty
// = none. At most one of this, regex and grammar. Of tasks.
func (o Options) JSONSchema(value string) Options { return o.with("json_schema", value) }

// Regex is option regex: answer, generate, chat: a text matches this regular expression as a whole; empty = none. Of
// tasks.
func (o Options) Regex(value string) Options { return o.with("regex", value) }

// Grammar is option grammar: answer, generate, chat: a text is of this grammar, in the syntax of llguidance, which is
// like Lark's; empty = none. Of tasks.
func (o Options) Grammar(value string) Options { return o.with("grammar", value) }
