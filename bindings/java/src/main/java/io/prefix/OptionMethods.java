package io.prefix;

import java.time.Duration;
import java.util.Map;
import java.util.function.LongConsumer;

/** Every option of the library as a method of {@link Options}. Written by tools/option_methods from docs/options.md; do not edit. */
abstract class OptionMethods extends Owned {
    OptionMethods(long raw, LongConsumer release) {
        super(raw, "options", release);
    }

    /**
     * Sets an option.
     *
     * @param key the name
     * @param value of a type that the option takes
     * @return this
     */
    public abstract Options set(String key, Object value);

    /**
     * What metrics call the model (label model_name); empty = the last part of its path. Of engines.
     *
     * @param value of option name
     * @return this
     */
    public Options name(String value) {
        return set("name", value);
    }

    /**
     * Where the model runs; cuda:1 is the second GPU. One of cpu, cuda. Default cpu. Of engines.
     *
     * @param value of option device
     * @return this
     */
    public Options device(String value) {
        return set("device", value);
    }

    /**
     * Type of weights, keys and values; f32 is the slow reference. One of bf16, f32. Default bf16. Of engines.
     *
     * @param value of option dtype
     * @return this
     */
    public Options dtype(String value) {
        return set("dtype", value);
    }

    /**
     * What the matrices of layers are multiplied in: auto = as dtype says; int8 = whole numbers, with half the weights
     * of bf16 and 1.1 to 3 times the speed, as the processor is, at some loss (docs/quantisation.md). CPU only. One of
     * auto, int8. Default auto. Of engines.
     *
     * @param value of option compute
     * @return this
     */
    public Options compute(String value) {
        return set("compute", value);
    }

    /**
     * Matrices that compute=int8 leaves as dtype says: a list of head (with the embedding), mixer_in, mixer_out,
     * gate_up, down; empty = none. Of engines.
     *
     * @param value of option compute_keep
     * @return this
     */
    public Options computeKeep(String value) {
        return set("compute_keep", value);
    }

    /**
     * What quantised matrices (GGUF, AWQ, GPTQ, MXFP4) become in memory: auto = numbers of dtype; packed = they stay in
     * blocks of whole numbers, in the bytes of the file, and are multiplied by activations of 8 bits
     * (docs/quantised-weights.md). CPU only, not with compute=int8. One of auto, packed. Default auto. Of engines.
     *
     * @param value of option weights
     * @return this
     */
    public Options weights(String value) {
        return set("weights", value);
    }

    /**
     * With compute=int8: a directory (of a .gguf file, a file) that is written while the model is loaded. It holds the
     * matrices in whole numbers, so that later loads of it only read them; empty = none. Of engines.
     *
     * @param value of option pack_to
     * @return this
     */
    public Options packTo(String value) {
        return set("pack_to", value);
    }

    /**
     * Type of keys and values: auto = as dtype says; int8 = whole numbers with a scale for each token and head, in
     * about half the memory of bf16, at some loss (docs/quantisation.md). CPU only. One of auto, int8. Default auto. Of
     * engines.
     *
     * @param value of option kv
     * @return this
     */
    public Options kv(String value) {
        return set("kv", value);
    }

    /**
     * Instruction-set level of the CPU kernels; auto takes the fastest this machine has. One of auto, amx, avx512_bf16,
     * avx512, avx2, neon, scalar. Default auto. Of engines.
     *
     * @param value of option isa
     * @return this
     */
    public Options isa(String value) {
        return set("isa", value);
    }

    /**
     * Same bits alone, in a batch and from the cache also on a GPU, at some cost; a CPU always does so. Default false.
     * Of engines.
     *
     * @param value of option invariant
     * @return this
     */
    public Options invariant(boolean value) {
        return set("invariant", value);
    }

    /**
     * Attention kernels of a GPU: mma runs on all of them, hopper on compute capability 9.0 and not with invariant;
     * auto takes hopper where it may. One of auto, mma, hopper. Default auto. Of engines.
     *
     * @param value of option cuda_attention
     * @return this
     */
    public Options cudaAttention(String value) {
        return set("cuda_attention", value);
    }

    /**
     * Replay steps that look like earlier ones as CUDA graphs; the same bits either way. Default true. Of engines.
     *
     * @param value of option cuda_graphs
     * @return this
     */
    public Options cudaGraphs(boolean value) {
        return set("cuda_graphs", value);
    }

    /**
     * Worker threads; 0 = one per processor that the process may use, or per processor of cpus. Default 0. Of engines.
     *
     * @param value of option threads
     * @return this
     */
    public Options threads(long value) {
        return set("threads", value);
    }

    /**
     * Processors that the worker threads stay on, as 0-3,8; empty = wherever the system puts them. Of engines.
     *
     * @param value of option cpus
     * @return this
     */
    public Options cpus(String value) {
        return set("cpus", value);
    }

    /**
     * Most bytes for keys and values, of running requests and of the cache; 0 = a quarter of the free memory, nine
     * tenths of what is left on a GPU. Default 0. Of engines.
     *
     * @param value of option cache_bytes
     * @return this
     */
    public Options cacheBytes(long value) {
        return set("cache_bytes", value);
    }

    /**
     * Keep computed prefixes for later batches; false = free them when a request is done. Default true. Of engines.
     *
     * @param value of option cache
     * @return this
     */
    public Options cache(boolean value) {
        return set("cache", value);
    }

    /**
     * Which cached prefix goes first when memory is short; docs/cache-policies.md compares them. auto = lru; with
     * recurrent layers what of lru, gds and gdsf has saved most lately. One of auto, lru, lfu, fifo, mru, filo, slru,
     * priority, gdsf, gds, marconi. Default auto. Of engines.
     *
     * @param value of option cache_policy
     * @return this
     */
    public Options cachePolicy(String value) {
        return set("cache_policy", value);
    }

    /**
     * Where states of recurrent layers are kept: at ends of prompts and answers and where requests part; placed = also
     * where later ones are likely to, judged by those before. One of ends, placed. Default ends. Of engines.
     *
     * @param value of option cache_states
     * @return this
     */
    public Options cacheStates(String value) {
        return set("cache_states", value);
    }

    /**
     * Most states of recurrent layers on a path; those nearest to its beginning go, but for forks and what was asked
     * for. 0 = as many as memory holds. Default 4. Of engines.
     *
     * @param value of option cache_path_states
     * @return this
     */
    public Options cachePathStates(long value) {
        return set("cache_path_states", value);
    }

    /**
     * A folder in which computed pages are kept below memory, for this process and later ones; empty = none. Of
     * engines.
     *
     * @param value of option cache_disk
     * @return this
     */
    public Options cacheDisk(String value) {
        return set("cache_disk", value);
    }

    /**
     * Most bytes in that folder; the pages used longest ago go first. Default 10G. Of engines.
     *
     * @param value of option cache_disk_bytes
     * @return this
     */
    public Options cacheDiskBytes(long value) {
        return set("cache_disk_bytes", value);
    }

    /**
     * A server that keeps pages for several machines, as redis://host:port/0; empty = none. Of engines.
     *
     * @param value of option cache_store
     * @return this
     */
    public Options cacheStore(String value) {
        return set("cache_store", value);
    }

    /**
     * Longest time of one fetch from disk and store; then its requests compute the pages. Default 1000. Of engines.
     *
     * @param value of option cache_fetch_ms
     * @return this
     */
    public Options cacheFetch(Duration value) {
        return set("cache_fetch_ms", Options.millis(value));
    }

    /**
     * How many of the last cache events are kept for those who read them; 0 = none are made. Default 0. Of engines.
     *
     * @param value of option cache_events
     * @return this
     */
    public Options cacheEvents(long value) {
        return set("cache_events", value);
    }

    /**
     * Tokens of the blocks that cache events tell of; a multiple of 32. Default 32. Of engines.
     *
     * @param value of option cache_event_tokens
     * @return this
     */
    public Options cacheEventTokens(long value) {
        return set("cache_event_tokens", value);
    }

    /**
     * Refuse requests whose namespace has no salt, so that nothing is shared by mistake. Default false. Of engines.
     *
     * @param value of option require_salt
     * @return this
     */
    public Options requireSalt(boolean value) {
        return set("require_salt", value);
    }

    /**
     * Whether tokens see those behind them; auto = as the model's files say. bidirectional embeds and classifies only,
     * keeps whole texts, and takes texts of at most `rows` tokens. One of auto, causal, bidirectional. Default auto. Of
     * engines.
     *
     * @param value of option attention
     * @return this
     */
    public Options attention(String value) {
        return set("attention", value);
    }

    /**
     * Compute and store shared prefixes once; false = every request on its own (to compare). Default true. Of engines.
     *
     * @param value of option sharing
     * @return this
     */
    public Options sharing(boolean value) {
        return set("sharing", value);
    }

    /**
     * Most tokens computed in one step; less answers sooner, more is a little faster. On a GPU 4096 unless set. Default
     * 2048. Of engines.
     *
     * @param value of option rows
     * @return this
     */
    public Options rows(long value) {
        return set("rows", value);
    }

    /**
     * Most unfinished requests; beyond it submit answers QUEUE_FULL. Default 1000000. Of engines.
     *
     * @param value of option queue_limit
     * @return this
     */
    public Options queueLimit(long value) {
        return set("queue_limit", value);
    }

    /**
     * Longest sequence in tokens; 0 = what the model was made for. Default 0. Of engines.
     *
     * @param value of option max_positions
     * @return this
     */
    public Options maxPositions(long value) {
        return set("max_positions", value);
    }

    /**
     * Tenant or salt: nothing is shared across namespaces. Of requests and tasks.
     *
     * @param value of option namespace
     * @return this
     */
    public Options namespace(String value) {
        return set("namespace", value);
    }

    /**
     * The same by number, from prefix_namespace_open or _open_tuple; not both. Default 0. Of requests and tasks.
     *
     * @param value of option namespace_id
     * @return this
     */
    public Options namespaceId(long value) {
        return set("namespace_id", value);
    }

    /**
     * Name of an adapter that is loaded (prefix_adapter_load); empty = the model alone. Of requests and tasks.
     *
     * @param value of option adapter
     * @return this
     */
    public Options adapter(String value) {
        return set("adapter", value);
    }

    /**
     * Time from submission after which the request ends with DEADLINE; 0 = none. Default 0. Of requests and tasks.
     *
     * @param value of option deadline_ms
     * @return this
     */
    public Options deadline(Duration value) {
        return set("deadline_ms", Options.millis(value));
    }

    /**
     * Higher runs first. Default 0. Of requests and tasks.
     *
     * @param value of option priority
     * @return this
     */
    public Options priority(long value) {
        return set("priority", value);
    }

    /**
     * Of what the request leaves in the cache; with cache_policy = priority the lowest goes first. Default 0. Of
     * requests and tasks.
     *
     * @param value of option cache_priority
     * @return this
     */
    public Options cachePriority(long value) {
        return set("cache_priority", value);
    }

    /**
     * How long what the request leaves in the cache stays unless it is used again; 0 = no limit. Default 0. Of requests
     * and tasks.
     *
     * @param value of option cache_ttl_ms
     * @return this
     */
    public Options cacheTtl(Duration value) {
        return set("cache_ttl_ms", Options.millis(value));
    }

    /**
     * Positions of the prompt, ascending, as 100,250: with recurrent layers a state is kept after so many tokens, and
     * later requests go on there. Of requests and tasks.
     *
     * @param value of option checkpoint
     * @return this
     */
    public Options checkpoint(int... value) {
        return set("checkpoint", value);
    }

    /**
     * Most tokens to generate. Default 16. Of generations, and of tasks that write.
     *
     * @param value of option max_tokens
     * @return this
     */
    public Options maxTokens(long value) {
        return set("max_tokens", value);
    }

    /**
     * 0 = greedy. Default 0. Of generations, and of tasks that write.
     *
     * @param value of option temperature
     * @return this
     */
    public Options temperature(double value) {
        return set("temperature", value);
    }

    /**
     * Draw from the k likeliest; 0 = all. Default 0. Of generations, and of tasks that write.
     *
     * @param value of option top_k
     * @return this
     */
    public Options topK(long value) {
        return set("top_k", value);
    }

    /**
     * Draw from the likeliest tokens that make up this probability. Default 1. Of generations, and of tasks that write.
     *
     * @param value of option top_p
     * @return this
     */
    public Options topP(double value) {
        return set("top_p", value);
    }

    /**
     * Drop tokens below this share of the likeliest one's probability. Default 0. Of generations, and of tasks that
     * write.
     *
     * @param value of option min_p
     * @return this
     */
    public Options minP(double value) {
        return set("min_p", value);
    }

    /**
     * Divides the logits of tokens that occurred; 1 = off. Default 1. Of generations, and of tasks that write.
     *
     * @param value of option repetition_penalty
     * @return this
     */
    public Options repetitionPenalty(double value) {
        return set("repetition_penalty", value);
    }

    /**
     * Taken off the logits of tokens that were generated, however often. Default 0. Of generations, and of tasks that
     * write.
     *
     * @param value of option presence_penalty
     * @return this
     */
    public Options presencePenalty(double value) {
        return set("presence_penalty", value);
    }

    /**
     * Taken off the logits of tokens for each time that they were generated. Default 0. Of generations, and of tasks
     * that write.
     *
     * @param value of option frequency_penalty
     * @return this
     */
    public Options frequencyPenalty(double value) {
        return set("frequency_penalty", value);
    }

    /**
     * Added to the logits of tokens, each in [-100, 100]. It makes tokens likelier or less likely and forbids none. Of
     * generations, and of tasks that write.
     *
     * @param value of option logit_bias
     * @return this
     */
    public Options logitBias(Map<Integer, ? extends Number> value) {
        return set("logit_bias", Options.biases(value));
    }

    /**
     * Token ids that alone may be generated, each once, as 1,2,3; empty = all. Of generations, and of tasks that write.
     *
     * @param value of option allowed_tokens
     * @return this
     */
    public Options allowedTokens(int... value) {
        return set("allowed_tokens", value);
    }

    /**
     * Tokens before which no end token and none of stop_tokens may be generated; at most max_tokens. Default 0. Of
     * generations, and of tasks that write.
     *
     * @param value of option min_tokens
     * @return this
     */
    public Options minTokens(long value) {
        return set("min_tokens", value);
    }

    /**
     * Same seed, same draw; -1 = a new one for each request, which its result tells. Default -1. Of generations, and of
     * tasks that write.
     *
     * @param value of option seed
     * @return this
     */
    public Options seed(long value) {
        return set("seed", value);
    }

    /**
     * Go on after the model's end-of-sequence token. Default false. Of generations, and of tasks that write.
     *
     * @param value of option ignore_eos
     * @return this
     */
    public Options ignoreEos(boolean value) {
        return set("ignore_eos", value);
    }

    /**
     * Further token ids that end generation, as 1,2,3. Of generations, and of tasks that write.
     *
     * @param value of option stop_tokens
     * @return this
     */
    public Options stopTokens(int... value) {
        return set("stop_tokens", value);
    }

    /**
     * Keep the log-probability of each generated token. Default false. Of generations, and of tasks that write.
     *
     * @param value of option logprobs
     * @return this
     */
    public Options logprobs(boolean value) {
        return set("logprobs", value);
    }

    /**
     * Keep so many of the likeliest tokens and their log-probabilities for each generated token, and for each scored
     * one of a request for log-probabilities. Default 0. Of generations, and of tasks that write.
     *
     * @param value of option top_logprobs
     * @return this
     */
    public Options topLogprobs(long value) {
        return set("top_logprobs", value);
    }

    /**
     * Guess up to so many tokens, from what the cache has behind the same prompt and from what came behind the same
     * tokens before, and check them in one step; 0 = none. Tokens stay the same; answers that repeat their prompt or an
     * earlier answer come in fewer steps. Default 0. Of generations, and of tasks that write.
     *
     * @param value of option draft_tokens
     * @return this
     */
    public Options draftTokens(long value) {
        return set("draft_tokens", value);
    }

    /**
     * Which final hidden states make the vector: of the last token, the mean of all, of the first; tokens = a vector of
     * each, not of tasks. One of last, mean, first, tokens. Default last. Of embeddings, and of tasks that embed.
     *
     * @param value of option pooling
     * @return this
     */
    public Options pooling(String value) {
        return set("pooling", value);
    }

    /**
     * With pooling = tokens only the vectors at these positions, ascending; empty = all. Of embeddings, not of tasks.
     *
     * @param value of option positions
     * @return this
     */
    public Options positions(int... value) {
        return set("positions", value);
    }

    /**
     * Keep the first n values; 0 = all. Default 0. Of embeddings, and of tasks that embed.
     *
     * @param value of option dimensions
     * @return this
     */
    public Options dimensions(long value) {
        return set("dimensions", value);
    }

    /**
     * Scale to length 1 after the cut. Default true. Of embeddings, and of tasks that embed.
     *
     * @param value of option normalize
     * @return this
     */
    public Options normalize(boolean value) {
        return set("normalize", value);
    }

    /**
     * The logits of the model's classification head instead, one for each label. Default false. Of embeddings, not of
     * tasks.
     *
     * @param value of option head
     * @return this
     */
    public Options head(boolean value) {
        return set("head", value);
    }

    /**
     * Send the vector through the Dense layers of the model's files, before dimensions and normalize. They are left out
     * when this is false, with head, and with pooling = tokens unless they are made for single tokens. Default true. Of
     * embeddings, and of tasks that embed.
     *
     * @param value of option dense
     * @return this
     */
    public Options dense(boolean value) {
        return set("dense", value);
    }

    /**
     * How texts become prompts: a shipped recipe, or a file's path (with a "/" or ending in .json); auto = what the
     * model's files call for. Default auto. Of tasks.
     *
     * @param value of option recipe
     * @return this
     */
    public Options recipe(String value) {
        return set("recipe", value);
    }

    /**
     * In place of the recipe's own; unset = that one. Of tasks.
     *
     * @param value of option instruction
     * @return this
     */
    public Options instruction(String value) {
        return set("instruction", value);
    }

    /**
     * Cut the end or the front of what the recipe lets be cut when a prompt is too long; off = the item fails. One of
     * right, left, off. Default right. Of tasks.
     *
     * @param value of option truncate
     * @return this
     */
    public Options truncate(String value) {
        return set("truncate", value);
    }

    /**
     * Longest prompt; 0 = the recipe's limit, or the model's if smaller. Default 0. Of tasks.
     *
     * @param value of option max_prompt_tokens
     * @return this
     */
    public Options maxPromptTokens(long value) {
        return set("max_prompt_tokens", value);
    }

    /**
     * Most distinct tokens of a task that are in work at once. Default 65536. Of tasks.
     *
     * @param value of option chunk_tokens
     * @return this
     */
    public Options chunkTokens(long value) {
        return set("chunk_tokens", value);
    }

    /**
     * rerank: a difference of logits or a sum of log-probabilities, not the score; classify: log-probabilities, or the
     * logits of a head. Default false. Of tasks.
     *
     * @param value of option raw
     * @return this
     */
    public Options raw(boolean value) {
        return set("raw", value);
    }

    /**
     * rerank, classify: most places of a ranking; 0 = all. Default 0. Of tasks.
     *
     * @param value of option top_n
     * @return this
     */
    public Options topN(long value) {
        return set("top_n", value);
    }

    /**
     * embed: which of the recipe's prompts; empty = "document" where there are several. Of tasks.
     *
     * @param value of option prompt
     * @return this
     */
    public Options prompt(String value) {
        return set("prompt", value);
    }

    /**
     * answer, generate, chat: TEXT events while the texts are written. Default false. Of tasks.
     *
     * @param value of option stream
     * @return this
     */
    public Options stream(boolean value) {
        return set("stream", value);
    }

    /**
     * answer, generate, chat: texts before which an answer ends, besides the recipe's own; none may be empty. Default
     * []. Of tasks.
     *
     * @param value of option stop
     * @return this
     */
    public Options stop(String... value) {
        return set("stop", value);
    }

    /**
     * answer, generate, chat: so many texts of each item, side by side, for one prompt's work. Where seed is set, text
     * k draws with seed + k, otherwise each with a new one; with temperature 0 they are all the same. Default 1. Of
     * tasks.
     *
     * @param value of option samples
     * @return this
     */
    public Options samples(long value) {
        return set("samples", value);
    }

    /**
     * answer, generate, chat: a text is JSON of this schema, which is JSON itself; empty = none. At most one of this,
     * regex and grammar. Of tasks.
     *
     * @param value of option json_schema
     * @return this
     */
    public Options jsonSchema(String value) {
        return set("json_schema", value);
    }

    /**
     * answer, generate, chat: a text matches this regular expression as a whole; empty = none. Of tasks.
     *
     * @param value of option regex
     * @return this
     */
    public Options regex(String value) {
        return set("regex", value);
    }

    /**
     * answer, generate, chat: a text is of this grammar, in the syntax of llguidance, which is like Lark's; empty =
     * none. Of tasks.
     *
     * @param value of option grammar
     * @return this
     */
    public Options grammar(String value) {
        return set("grammar", value);
    }
}
