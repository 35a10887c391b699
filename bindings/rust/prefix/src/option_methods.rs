// Written by tools/option_methods from docs/options.md; do not edit.

use std::time::Duration;

use crate::options::biases;
use crate::raw::limit_ms;
use crate::{OptionsBuilder, Token};

/// Every option of the library.
impl OptionsBuilder {
    /// What metrics call the model (label model_name); empty = the last part of its path. Of engines.
    pub fn name(self, value: &str) -> Self {
        self.with("name", value)
    }

    /// Where the model runs; cuda:1 is the second GPU. One of cpu, cuda. Default cpu. Of engines.
    pub fn device(self, value: &str) -> Self {
        self.with("device", value)
    }

    /// Type of weights, keys and values; f32 is the slow reference. One of bf16, f32. Default bf16. Of engines.
    pub fn dtype(self, value: &str) -> Self {
        self.with("dtype", value)
    }

    /// What the matrices of layers are multiplied in: auto = as dtype says; int8 = whole numbers, with half the weights
    /// of bf16 and 1.1 to 3 times the speed, as the processor is, at some loss (docs/quantisation.md). CPU only. One of
    /// auto, int8. Default auto. Of engines.
    pub fn compute(self, value: &str) -> Self {
        self.with("compute", value)
    }

    /// Matrices that compute=int8 leaves as dtype says: a list of head (with the embedding), mixer_in, mixer_out,
    /// gate_up, down; empty = none. Of engines.
    pub fn compute_keep(self, value: &str) -> Self {
        self.with("compute_keep", value)
    }

    /// What quantised matrices (GGUF, AWQ, GPTQ, MXFP4) become in memory: auto = numbers of dtype; packed = they stay
    /// in blocks of whole numbers, in the bytes of the file, and are multiplied by activations of 8 bits
    /// (docs/quantised-weights.md). CPU only, not with compute=int8. One of auto, packed. Default auto. Of engines.
    pub fn weights(self, value: &str) -> Self {
        self.with("weights", value)
    }

    /// With compute=int8: a directory (of a .gguf file, a file) that is written while the model is loaded. It holds the
    /// matrices in whole numbers, so that later loads of it only read them; empty = none. Of engines.
    pub fn pack_to(self, value: &str) -> Self {
        self.with("pack_to", value)
    }

    /// Type of keys and values: auto = as dtype says; int8 = whole numbers with a scale for each token and head, in
    /// about half the memory of bf16, at some loss (docs/quantisation.md). CPU only. One of auto, int8. Default auto.
    /// Of engines.
    pub fn kv(self, value: &str) -> Self {
        self.with("kv", value)
    }

    /// Instruction-set level of the CPU kernels; auto takes the fastest this machine has. One of auto, amx,
    /// avx512_bf16, avx512, avx2, neon, scalar. Default auto. Of engines.
    pub fn isa(self, value: &str) -> Self {
        self.with("isa", value)
    }

    /// Same bits alone, in a batch and from the cache also on a GPU, at some cost; a CPU always does so. Default false.
    /// Of engines.
    pub fn invariant(self, value: bool) -> Self {
        self.with("invariant", value)
    }

    /// Attention kernels of a GPU: mma runs on all of them, hopper on compute capability 9.0 and not with invariant;
    /// auto takes hopper where it may. One of auto, mma, hopper. Default auto. Of engines.
    pub fn cuda_attention(self, value: &str) -> Self {
        self.with("cuda_attention", value)
    }

    /// Replay steps that look like earlier ones as CUDA graphs; the same bits either way. Default true. Of engines.
    pub fn cuda_graphs(self, value: bool) -> Self {
        self.with("cuda_graphs", value)
    }

    /// Worker threads; 0 = one per processor that the process may use, or per processor of cpus. Default 0. Of engines.
    pub fn threads(self, value: i64) -> Self {
        self.with("threads", value)
    }

    /// Processors that the worker threads stay on, as 0-3,8; empty = wherever the system puts them. Of engines.
    pub fn cpus(self, value: &str) -> Self {
        self.with("cpus", value)
    }

    /// Most bytes for keys and values, of running requests and of the cache; 0 = a quarter of the free memory, nine
    /// tenths of what is left on a GPU. Default 0. Of engines.
    pub fn cache_bytes(self, value: i64) -> Self {
        self.with("cache_bytes", value)
    }

    /// Keep computed prefixes for later batches; false = free them when a request is done. Default true. Of engines.
    pub fn cache(self, value: bool) -> Self {
        self.with("cache", value)
    }

    /// Which cached prefix goes first when memory is short; docs/cache-policies.md compares them. auto = lru; with
    /// recurrent layers what of lru, gds and gdsf has saved most lately. One of auto, lru, lfu, fifo, mru, filo, slru,
    /// priority, gdsf, gds, marconi. Default auto. Of engines.
    pub fn cache_policy(self, value: &str) -> Self {
        self.with("cache_policy", value)
    }

    /// Where states of recurrent layers are kept: at ends of prompts and answers and where requests part; placed = also
    /// where later ones are likely to, judged by those before. One of ends, placed. Default ends. Of engines.
    pub fn cache_states(self, value: &str) -> Self {
        self.with("cache_states", value)
    }

    /// Most states of recurrent layers on a path; those nearest to its beginning go, but for forks and what was asked
    /// for. 0 = as many as memory holds. Default 4. Of engines.
    pub fn cache_path_states(self, value: i64) -> Self {
        self.with("cache_path_states", value)
    }

    /// A folder in which computed pages are kept below memory, for this process and later ones; empty = none. Of
    /// engines.
    pub fn cache_disk(self, value: &str) -> Self {
        self.with("cache_disk", value)
    }

    /// Most bytes in that folder; the pages used longest ago go first. Default 10G. Of engines.
    pub fn cache_disk_bytes(self, value: i64) -> Self {
        self.with("cache_disk_bytes", value)
    }

    /// A server that keeps pages for several machines, as redis://host:port/0; empty = none. Of engines.
    pub fn cache_store(self, value: &str) -> Self {
        self.with("cache_store", value)
    }

    /// Longest time of one fetch from disk and store; then its requests compute the pages. Default 1000. Of engines.
    pub fn cache_fetch(self, value: Duration) -> Self {
        self.with("cache_fetch_ms", limit_ms(value))
    }

    /// How many of the last cache events are kept for those who read them; 0 = none are made. Default 0. Of engines.
    pub fn cache_events(self, value: i64) -> Self {
        self.with("cache_events", value)
    }

    /// Tokens of the blocks that cache events tell of; a multiple of 32. Default 32. Of engines.
    pub fn cache_event_tokens(self, value: i64) -> Self {
        self.with("cache_event_tokens", value)
    }

    /// Refuse requests whose namespace has no salt, so that nothing is shared by mistake. Default false. Of engines.
    pub fn require_salt(self, value: bool) -> Self {
        self.with("require_salt", value)
    }

    /// Whether tokens see those behind them; auto = as the model's files say. bidirectional embeds and classifies only,
    /// keeps whole texts, and takes texts of at most `rows` tokens. One of auto, causal, bidirectional. Default auto.
    /// Of engines.
    pub fn attention(self, value: &str) -> Self {
        self.with("attention", value)
    }

    /// Compute and store shared prefixes once; false = every request on its own (to compare). Default true. Of engines.
    pub fn sharing(self, value: bool) -> Self {
        self.with("sharing", value)
    }

    /// Most tokens computed in one step; less answers sooner, more is a little faster. On a GPU 4096 unless set.
    /// Default 2048. Of engines.
    pub fn rows(self, value: i64) -> Self {
        self.with("rows", value)
    }

    /// Most unfinished requests; beyond it submit answers QUEUE_FULL. Default 1000000. Of engines.
    pub fn queue_limit(self, value: i64) -> Self {
        self.with("queue_limit", value)
    }

    /// Longest sequence in tokens; 0 = what the model was made for. Default 0. Of engines.
    pub fn max_positions(self, value: i64) -> Self {
        self.with("max_positions", value)
    }

    /// Tenant or salt: nothing is shared across namespaces. Of requests and tasks.
    pub fn namespace(self, value: &str) -> Self {
        self.with("namespace", value)
    }

    /// The same by number, from prefix_namespace_open or _open_tuple; not both. Default 0. Of requests and tasks.
    pub fn namespace_id(self, value: i64) -> Self {
        self.with("namespace_id", value)
    }

    /// Name of an adapter that is loaded (prefix_adapter_load); empty = the model alone. Of requests and tasks.
    pub fn adapter(self, value: &str) -> Self {
        self.with("adapter", value)
    }

    /// Time from submission after which the request ends with DEADLINE; 0 = none. Default 0. Of requests and tasks.
    pub fn deadline(self, value: Duration) -> Self {
        self.with("deadline_ms", limit_ms(value))
    }

    /// Higher runs first. Default 0. Of requests and tasks.
    pub fn priority(self, value: i64) -> Self {
        self.with("priority", value)
    }

    /// Of what the request leaves in the cache; with cache_policy = priority the lowest goes first. Default 0. Of
    /// requests and tasks.
    pub fn cache_priority(self, value: i64) -> Self {
        self.with("cache_priority", value)
    }

    /// How long what the request leaves in the cache stays unless it is used again; 0 = no limit. Default 0. Of
    /// requests and tasks.
    pub fn cache_ttl(self, value: Duration) -> Self {
        self.with("cache_ttl_ms", limit_ms(value))
    }

    /// Positions of the prompt, ascending, as 100,250: with recurrent layers a state is kept after so many tokens, and
    /// later requests go on there. Of requests and tasks.
    pub fn checkpoint(self, value: &[i32]) -> Self {
        self.with("checkpoint", value)
    }

    /// Most tokens to generate. Default 16. Of generations, and of tasks that write.
    pub fn max_tokens(self, value: i64) -> Self {
        self.with("max_tokens", value)
    }

    /// 0 = greedy. Default 0. Of generations, and of tasks that write.
    pub fn temperature(self, value: f64) -> Self {
        self.with("temperature", value)
    }

    /// Draw from the k likeliest; 0 = all. Default 0. Of generations, and of tasks that write.
    pub fn top_k(self, value: i64) -> Self {
        self.with("top_k", value)
    }

    /// Draw from the likeliest tokens that make up this probability. Default 1. Of generations, and of tasks that
    /// write.
    pub fn top_p(self, value: f64) -> Self {
        self.with("top_p", value)
    }

    /// Drop tokens below this share of the likeliest one's probability. Default 0. Of generations, and of tasks that
    /// write.
    pub fn min_p(self, value: f64) -> Self {
        self.with("min_p", value)
    }

    /// Divides the logits of tokens that occurred; 1 = off. Default 1. Of generations, and of tasks that write.
    pub fn repetition_penalty(self, value: f64) -> Self {
        self.with("repetition_penalty", value)
    }

    /// Taken off the logits of tokens that were generated, however often. Default 0. Of generations, and of tasks that
    /// write.
    pub fn presence_penalty(self, value: f64) -> Self {
        self.with("presence_penalty", value)
    }

    /// Taken off the logits of tokens for each time that they were generated. Default 0. Of generations, and of tasks
    /// that write.
    pub fn frequency_penalty(self, value: f64) -> Self {
        self.with("frequency_penalty", value)
    }

    /// Added to the logits of tokens, each in [-100, 100]. It makes tokens likelier or less likely and forbids none. Of
    /// generations, and of tasks that write.
    pub fn logit_bias(self, value: &[(Token, f64)]) -> Self {
        self.with("logit_bias", &biases(value))
    }

    /// Token ids that alone may be generated, each once, as 1,2,3; empty = all. Of generations, and of tasks that
    /// write.
    pub fn allowed_tokens(self, value: &[i32]) -> Self {
        self.with("allowed_tokens", value)
    }

    /// Tokens before which no end token and none of stop_tokens may be generated; at most max_tokens. Default 0. Of
    /// generations, and of tasks that write.
    pub fn min_tokens(self, value: i64) -> Self {
        self.with("min_tokens", value)
    }

    /// Same seed, same draw; -1 = a new one for each request, which its result tells. Default -1. Of generations, and
    /// of tasks that write.
    pub fn seed(self, value: i64) -> Self {
        self.with("seed", value)
    }

    /// Go on after the model's end-of-sequence token. Default false. Of generations, and of tasks that write.
    pub fn ignore_eos(self, value: bool) -> Self {
        self.with("ignore_eos", value)
    }

    /// Further token ids that end generation, as 1,2,3. Of generations, and of tasks that write.
    pub fn stop_tokens(self, value: &[i32]) -> Self {
        self.with("stop_tokens", value)
    }

    /// Keep the log-probability of each generated token. Default false. Of generations, and of tasks that write.
    pub fn logprobs(self, value: bool) -> Self {
        self.with("logprobs", value)
    }

    /// Keep so many of the likeliest tokens and their log-probabilities for each generated token, and for each scored
    /// one of a request for log-probabilities. Default 0. Of generations, and of tasks that write.
    pub fn top_logprobs(self, value: i64) -> Self {
        self.with("top_logprobs", value)
    }

    /// Guess up to so many tokens, from what the cache has behind the same prompt and from what came behind the same
    /// tokens before, and check them in one step; 0 = none. Tokens stay the same; answers that repeat their prompt or
    /// an earlier answer come in fewer steps. Default 0. Of generations, and of tasks that write.
    pub fn draft_tokens(self, value: i64) -> Self {
        self.with("draft_tokens", value)
    }

    /// Which final hidden states make the vector: of the last token, the mean of all, of the first; tokens = a vector
    /// of each, not of tasks. One of last, mean, first, tokens. Default last. Of embeddings, and of tasks that embed.
    pub fn pooling(self, value: &str) -> Self {
        self.with("pooling", value)
    }

    /// With pooling = tokens only the vectors at these positions, ascending; empty = all. Of embeddings, not of tasks.
    pub fn positions(self, value: &[i32]) -> Self {
        self.with("positions", value)
    }

    /// Keep the first n values; 0 = all. Default 0. Of embeddings, and of tasks that embed.
    pub fn dimensions(self, value: i64) -> Self {
        self.with("dimensions", value)
    }

    /// Scale to length 1 after the cut. Default true. Of embeddings, and of tasks that embed.
    pub fn normalize(self, value: bool) -> Self {
        self.with("normalize", value)
    }

    /// The logits of the model's classification head instead, one for each label. Default false. Of embeddings, not of
    /// tasks.
    pub fn head(self, value: bool) -> Self {
        self.with("head", value)
    }

    /// Send the vector through the Dense layers of the model's files, before dimensions and normalize. They are left
    /// out when this is false, with head, and with pooling = tokens unless they are made for single tokens. Default
    /// true. Of embeddings, and of tasks that embed.
    pub fn dense(self, value: bool) -> Self {
        self.with("dense", value)
    }

    /// How texts become prompts: a shipped recipe, or a file's path (with a "/" or ending in .json); auto = what the
    /// model's files call for. Default auto. Of tasks.
    pub fn recipe(self, value: &str) -> Self {
        self.with("recipe", value)
    }

    /// In place of the recipe's own; unset = that one. Of tasks.
    pub fn instruction(self, value: &str) -> Self {
        self.with("instruction", value)
    }

    /// Cut the end or the front of what the recipe lets be cut when a prompt is too long; off = the item fails. One of
    /// right, left, off. Default right. Of tasks.
    pub fn truncate(self, value: &str) -> Self {
        self.with("truncate", value)
    }

    /// Longest prompt; 0 = the recipe's limit, or the model's if smaller. Default 0. Of tasks.
    pub fn max_prompt_tokens(self, value: i64) -> Self {
        self.with("max_prompt_tokens", value)
    }

    /// Most distinct tokens of a task that are in work at once. Default 65536. Of tasks.
    pub fn chunk_tokens(self, value: i64) -> Self {
        self.with("chunk_tokens", value)
    }

    /// rerank: a difference of logits or a sum of log-probabilities, not the score; classify: log-probabilities, or the
    /// logits of a head. Default false. Of tasks.
    pub fn raw(self, value: bool) -> Self {
        self.with("raw", value)
    }

    /// rerank, classify: most places of a ranking; 0 = all. Default 0. Of tasks.
    pub fn top_n(self, value: i64) -> Self {
        self.with("top_n", value)
    }

    /// embed: which of the recipe's prompts; empty = "document" where there are several. Of tasks.
    pub fn prompt(self, value: &str) -> Self {
        self.with("prompt", value)
    }

    /// answer, generate, chat: TEXT events while the texts are written. Default false. Of tasks.
    pub fn stream(self, value: bool) -> Self {
        self.with("stream", value)
    }

    /// answer, generate, chat: texts before which an answer ends, besides the recipe's own; none may be empty. Default
    /// []. Of tasks.
    pub fn stop(self, value: &[&str]) -> Self {
        self.with("stop", value)
    }

    /// answer, generate, chat: so many texts of each item, side by side, for one prompt's work. Where seed is set, text
    /// k draws with seed + k, otherwise each with a new one; with temperature 0 they are all the same. Default 1. Of
    /// tasks.
    pub fn samples(self, value: i64) -> Self {
        self.with("samples", value)
    }

    /// answer, generate, chat: a text is JSON of this schema, which is JSON itself; empty = none. At most one of this,
    /// regex and grammar. Of tasks.
    pub fn json_schema(self, value: &str) -> Self {
        self.with("json_schema", value)
    }

    /// answer, generate, chat: a text matches this regular expression as a whole; empty = none. Of tasks.
    pub fn regex(self, value: &str) -> Self {
        self.with("regex", value)
    }

    /// answer, generate, chat: a text is of this grammar, in the syntax of llguidance, which is like Lark's; empty =
    /// none. Of tasks.
    pub fn grammar(self, value: &str) -> Self {
        self.with("grammar", value)
    }
}
