/* prefix_options.hpp - every option as a method of prefix::Options:
 *
 *   prefix::Options().threads(2).isa("avx2")
 *
 * Written by tools/option_methods from docs/options.md; do not edit. */
#ifndef PREFIX_OPTIONS_HPP
#define PREFIX_OPTIONS_HPP

#include <charconv>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "prefix_calls.hpp"

namespace prefix {
inline namespace cpp1 {

/* A token, and what is added to its logit. */
using TokenBias = std::pair<prefix_token, double>;

namespace detail {

// As the library takes them: 464:-100,11:2.5.
inline std::string biases(std::span<const TokenBias> list) {
  std::string text;
  for (const auto& [token, bias] : list) {
    char digits[32];  // of a double, in any locale
    const auto end = std::to_chars(digits, digits + sizeof(digits), bias).ptr;
    text += (text.empty() ? "" : ",") + std::to_string(token) + ':';
    text.append(digits, end);
  }
  return text;
}

/* Options is prefix::Options, whose set() these call. */
template <typename Options>
class OptionMethods {
 public:
  /* What metrics call the model (label model_name); empty = the last part of its path. Of
   * engines. */
  Options& name(Text value, prefix_error* error = nullptr) & {
    return self().set("name", value, error);
  }
  Options&& name(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("name", value, error));
  }
  /* Where the model runs; cuda:1 is the second GPU. One of cpu, cuda. Default cpu. Of engines. */
  Options& device(Text value, prefix_error* error = nullptr) & {
    return self().set("device", value, error);
  }
  Options&& device(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("device", value, error));
  }
  /* Type of weights, keys and values; f32 is the slow reference. One of bf16, f32. Default bf16.
   * Of engines. */
  Options& dtype(Text value, prefix_error* error = nullptr) & {
    return self().set("dtype", value, error);
  }
  Options&& dtype(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("dtype", value, error));
  }
  /* What the matrices of layers are multiplied in: auto = as dtype says; int8 = whole numbers,
   * with half the weights of bf16 and 1.1 to 3 times the speed, as the processor is, at some
   * loss (docs/quantisation.md). CPU only. One of auto, int8. Default auto. Of engines. */
  Options& compute(Text value, prefix_error* error = nullptr) & {
    return self().set("compute", value, error);
  }
  Options&& compute(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("compute", value, error));
  }
  /* Matrices that compute=int8 leaves as dtype says: a list of head (with the embedding),
   * mixer_in, mixer_out, gate_up, down; empty = none. Of engines. */
  Options& compute_keep(Text value, prefix_error* error = nullptr) & {
    return self().set("compute_keep", value, error);
  }
  Options&& compute_keep(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("compute_keep", value, error));
  }
  /* What quantised matrices (GGUF, AWQ, GPTQ, MXFP4) become in memory: auto = numbers of dtype;
   * packed = they stay in blocks of whole numbers, in the bytes of the file, and are multiplied
   * by activations of 8 bits (docs/quantised-weights.md). CPU only, not with compute=int8. One
   * of auto, packed. Default auto. Of engines. */
  Options& weights(Text value, prefix_error* error = nullptr) & {
    return self().set("weights", value, error);
  }
  Options&& weights(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("weights", value, error));
  }
  /* With compute=int8: a directory (of a .gguf file, a file) that is written while the model is
   * loaded. It holds the matrices in whole numbers, so that later loads of it only read them;
   * empty = none. Of engines. */
  Options& pack_to(Text value, prefix_error* error = nullptr) & {
    return self().set("pack_to", value, error);
  }
  Options&& pack_to(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("pack_to", value, error));
  }
  /* Type of keys and values: auto = as dtype says; int8 = whole numbers with a scale for each
   * token and head, in about half the memory of bf16, at some loss (docs/quantisation.md). CPU
   * only. One of auto, int8. Default auto. Of engines. */
  Options& kv(Text value, prefix_error* error = nullptr) & {
    return self().set("kv", value, error);
  }
  Options&& kv(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("kv", value, error));
  }
  /* Instruction-set level of the CPU kernels; auto takes the fastest this machine has. One of
   * auto, amx, avx512_bf16, avx512, avx2, neon, scalar. Default auto. Of engines. */
  Options& isa(Text value, prefix_error* error = nullptr) & {
    return self().set("isa", value, error);
  }
  Options&& isa(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("isa", value, error));
  }
  /* Same bits alone, in a batch and from the cache also on a GPU, at some cost; a CPU always
   * does so. Default false. Of engines. */
  Options& invariant(bool value, prefix_error* error = nullptr) & {
    return self().set("invariant", value, error);
  }
  Options&& invariant(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("invariant", value, error));
  }
  /* Attention kernels of a GPU: mma runs on all of them, hopper on compute capability 9.0 and
   * not with invariant; auto takes hopper where it may. One of auto, mma, hopper. Default auto.
   * Of engines. */
  Options& cuda_attention(Text value, prefix_error* error = nullptr) & {
    return self().set("cuda_attention", value, error);
  }
  Options&& cuda_attention(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("cuda_attention", value, error));
  }
  /* Replay steps that look like earlier ones as CUDA graphs; the same bits either way. Default
   * true. Of engines. */
  Options& cuda_graphs(bool value, prefix_error* error = nullptr) & {
    return self().set("cuda_graphs", value, error);
  }
  Options&& cuda_graphs(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("cuda_graphs", value, error));
  }
  /* Worker threads; 0 = one per processor that the process may use, or per processor of cpus.
   * Default 0. Of engines. */
  Options& threads(int64_t value, prefix_error* error = nullptr) & {
    return self().set("threads", value, error);
  }
  Options&& threads(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("threads", value, error));
  }
  /* Processors that the worker threads stay on, as 0-3,8; empty = wherever the system puts them.
   * Of engines. */
  Options& cpus(Text value, prefix_error* error = nullptr) & {
    return self().set("cpus", value, error);
  }
  Options&& cpus(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("cpus", value, error));
  }
  /* Most bytes for keys and values, of running requests and of the cache; 0 = a quarter of the
   * free memory, nine tenths of what is left on a GPU. Default 0. Of engines. */
  Options& cache_bytes(int64_t value, prefix_error* error = nullptr) & {
    return self().set("cache_bytes", value, error);
  }
  Options&& cache_bytes(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_bytes", value, error));
  }
  /* Keep computed prefixes for later batches; false = free them when a request is done. Default
   * true. Of engines. */
  Options& cache(bool value, prefix_error* error = nullptr) & {
    return self().set("cache", value, error);
  }
  Options&& cache(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache", value, error));
  }
  /* Which cached prefix goes first when memory is short; docs/cache-policies.md compares them.
   * auto = lru; with recurrent layers what of lru, gds and gdsf has saved most lately. One of
   * auto, lru, lfu, fifo, mru, filo, slru, priority, gdsf, gds, marconi. Default auto. Of
   * engines. */
  Options& cache_policy(Text value, prefix_error* error = nullptr) & {
    return self().set("cache_policy", value, error);
  }
  Options&& cache_policy(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_policy", value, error));
  }
  /* Where states of recurrent layers are kept: at ends of prompts and answers and where requests
   * part; placed = also where later ones are likely to, judged by those before. One of ends,
   * placed. Default ends. Of engines. */
  Options& cache_states(Text value, prefix_error* error = nullptr) & {
    return self().set("cache_states", value, error);
  }
  Options&& cache_states(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_states", value, error));
  }
  /* Most states of recurrent layers on a path; those nearest to its beginning go, but for forks
   * and what was asked for. 0 = as many as memory holds. Default 4. Of engines. */
  Options& cache_path_states(int64_t value, prefix_error* error = nullptr) & {
    return self().set("cache_path_states", value, error);
  }
  Options&& cache_path_states(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_path_states", value, error));
  }
  /* A folder in which computed pages are kept below memory, for this process and later ones;
   * empty = none. Of engines. */
  Options& cache_disk(Text value, prefix_error* error = nullptr) & {
    return self().set("cache_disk", value, error);
  }
  Options&& cache_disk(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_disk", value, error));
  }
  /* Most bytes in that folder; the pages used longest ago go first. Default 10G. Of engines. */
  Options& cache_disk_bytes(int64_t value, prefix_error* error = nullptr) & {
    return self().set("cache_disk_bytes", value, error);
  }
  Options&& cache_disk_bytes(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_disk_bytes", value, error));
  }
  /* A server that keeps pages for several machines, as redis://host:port/0; empty = none. Of
   * engines. */
  Options& cache_store(Text value, prefix_error* error = nullptr) & {
    return self().set("cache_store", value, error);
  }
  Options&& cache_store(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_store", value, error));
  }
  /* Longest time of one fetch from disk and store; then its requests compute the pages. Default
   * 1000. In milliseconds. Of engines. */
  Options& cache_fetch(std::chrono::milliseconds value, prefix_error* error = nullptr) & {
    return self().set("cache_fetch_ms", value.count(), error);
  }
  Options&& cache_fetch(std::chrono::milliseconds value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_fetch_ms", value.count(), error));
  }
  /* How many of the last cache events are kept for those who read them; 0 = none are made.
   * Default 0. Of engines. */
  Options& cache_events(int64_t value, prefix_error* error = nullptr) & {
    return self().set("cache_events", value, error);
  }
  Options&& cache_events(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_events", value, error));
  }
  /* Tokens of the blocks that cache events tell of; a multiple of 32. Default 32. Of engines. */
  Options& cache_event_tokens(int64_t value, prefix_error* error = nullptr) & {
    return self().set("cache_event_tokens", value, error);
  }
  Options&& cache_event_tokens(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_event_tokens", value, error));
  }
  /* Refuse requests whose namespace has no salt, so that nothing is shared by mistake. Default
   * false. Of engines. */
  Options& require_salt(bool value, prefix_error* error = nullptr) & {
    return self().set("require_salt", value, error);
  }
  Options&& require_salt(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("require_salt", value, error));
  }
  /* Whether tokens see those behind them; auto = as the model's files say. bidirectional embeds
   * and classifies only, keeps whole texts, and takes texts of at most `rows` tokens. One of
   * auto, causal, bidirectional. Default auto. Of engines. */
  Options& attention(Text value, prefix_error* error = nullptr) & {
    return self().set("attention", value, error);
  }
  Options&& attention(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("attention", value, error));
  }
  /* Compute and store shared prefixes once; false = every request on its own (to compare).
   * Default true. Of engines. */
  Options& sharing(bool value, prefix_error* error = nullptr) & {
    return self().set("sharing", value, error);
  }
  Options&& sharing(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("sharing", value, error));
  }
  /* Most tokens computed in one step; less answers sooner, more is a little faster. On a GPU
   * 4096 unless set. Default 2048. Of engines. */
  Options& rows(int64_t value, prefix_error* error = nullptr) & {
    return self().set("rows", value, error);
  }
  Options&& rows(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("rows", value, error));
  }
  /* Most unfinished requests; beyond it submit answers QUEUE_FULL. Default 1000000. Of engines. */
  Options& queue_limit(int64_t value, prefix_error* error = nullptr) & {
    return self().set("queue_limit", value, error);
  }
  Options&& queue_limit(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("queue_limit", value, error));
  }
  /* Longest sequence in tokens; 0 = what the model was made for. Default 0. Of engines. */
  Options& max_positions(int64_t value, prefix_error* error = nullptr) & {
    return self().set("max_positions", value, error);
  }
  Options&& max_positions(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("max_positions", value, error));
  }
  /* Tenant or salt: nothing is shared across namespaces. Of requests and tasks. */
  Options& namespace_(Text value, prefix_error* error = nullptr) & {
    return self().set("namespace", value, error);
  }
  Options&& namespace_(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("namespace", value, error));
  }
  /* The same by number, from prefix_namespace_open or _open_tuple; not both. Default 0. Of
   * requests and tasks. */
  Options& namespace_id(int64_t value, prefix_error* error = nullptr) & {
    return self().set("namespace_id", value, error);
  }
  Options&& namespace_id(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("namespace_id", value, error));
  }
  /* Name of an adapter that is loaded (prefix_adapter_load); empty = the model alone. Of
   * requests and tasks. */
  Options& adapter(Text value, prefix_error* error = nullptr) & {
    return self().set("adapter", value, error);
  }
  Options&& adapter(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("adapter", value, error));
  }
  /* Time from submission after which the request ends with DEADLINE; 0 = none. Default 0. In
   * milliseconds. Of requests and tasks. */
  Options& deadline(std::chrono::milliseconds value, prefix_error* error = nullptr) & {
    return self().set("deadline_ms", value.count(), error);
  }
  Options&& deadline(std::chrono::milliseconds value, prefix_error* error = nullptr) && {
    return std::move(self().set("deadline_ms", value.count(), error));
  }
  /* Higher runs first. Default 0. Of requests and tasks. */
  Options& priority(int64_t value, prefix_error* error = nullptr) & {
    return self().set("priority", value, error);
  }
  Options&& priority(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("priority", value, error));
  }
  /* Of what the request leaves in the cache; with cache_policy = priority the lowest goes first.
   * Default 0. Of requests and tasks. */
  Options& cache_priority(int64_t value, prefix_error* error = nullptr) & {
    return self().set("cache_priority", value, error);
  }
  Options&& cache_priority(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_priority", value, error));
  }
  /* How long what the request leaves in the cache stays unless it is used again; 0 = no limit.
   * Default 0. In milliseconds. Of requests and tasks. */
  Options& cache_ttl(std::chrono::milliseconds value, prefix_error* error = nullptr) & {
    return self().set("cache_ttl_ms", value.count(), error);
  }
  Options&& cache_ttl(std::chrono::milliseconds value, prefix_error* error = nullptr) && {
    return std::move(self().set("cache_ttl_ms", value.count(), error));
  }
  /* Positions of the prompt, ascending, as 100,250: with recurrent layers a state is kept after
   * so many tokens, and later requests go on there. Of requests and tasks. */
  Options& checkpoint(std::span<const prefix_token> value, prefix_error* error = nullptr) & {
    return self().set("checkpoint", value, error);
  }
  Options&& checkpoint(std::span<const prefix_token> value, prefix_error* error = nullptr) && {
    return std::move(self().set("checkpoint", value, error));
  }
  /* Most tokens to generate. Default 16. Of generations, and of tasks that write. */
  Options& max_tokens(int64_t value, prefix_error* error = nullptr) & {
    return self().set("max_tokens", value, error);
  }
  Options&& max_tokens(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("max_tokens", value, error));
  }
  /* 0 = greedy. Default 0. Of generations, and of tasks that write. */
  Options& temperature(double value, prefix_error* error = nullptr) & {
    return self().set("temperature", value, error);
  }
  Options&& temperature(double value, prefix_error* error = nullptr) && {
    return std::move(self().set("temperature", value, error));
  }
  /* Draw from the k likeliest; 0 = all. Default 0. Of generations, and of tasks that write. */
  Options& top_k(int64_t value, prefix_error* error = nullptr) & {
    return self().set("top_k", value, error);
  }
  Options&& top_k(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("top_k", value, error));
  }
  /* Draw from the likeliest tokens that make up this probability. Default 1. Of generations, and
   * of tasks that write. */
  Options& top_p(double value, prefix_error* error = nullptr) & {
    return self().set("top_p", value, error);
  }
  Options&& top_p(double value, prefix_error* error = nullptr) && {
    return std::move(self().set("top_p", value, error));
  }
  /* Drop tokens below this share of the likeliest one's probability. Default 0. Of generations,
   * and of tasks that write. */
  Options& min_p(double value, prefix_error* error = nullptr) & {
    return self().set("min_p", value, error);
  }
  Options&& min_p(double value, prefix_error* error = nullptr) && {
    return std::move(self().set("min_p", value, error));
  }
  /* Divides the logits of tokens that occurred; 1 = off. Default 1. Of generations, and of tasks
   * that write. */
  Options& repetition_penalty(double value, prefix_error* error = nullptr) & {
    return self().set("repetition_penalty", value, error);
  }
  Options&& repetition_penalty(double value, prefix_error* error = nullptr) && {
    return std::move(self().set("repetition_penalty", value, error));
  }
  /* Taken off the logits of tokens that were generated, however often. Default 0. Of
   * generations, and of tasks that write. */
  Options& presence_penalty(double value, prefix_error* error = nullptr) & {
    return self().set("presence_penalty", value, error);
  }
  Options&& presence_penalty(double value, prefix_error* error = nullptr) && {
    return std::move(self().set("presence_penalty", value, error));
  }
  /* Taken off the logits of tokens for each time that they were generated. Default 0. Of
   * generations, and of tasks that write. */
  Options& frequency_penalty(double value, prefix_error* error = nullptr) & {
    return self().set("frequency_penalty", value, error);
  }
  Options&& frequency_penalty(double value, prefix_error* error = nullptr) && {
    return std::move(self().set("frequency_penalty", value, error));
  }
  /* Added to the logits of tokens, each in [-100, 100]. It makes tokens likelier or less likely
   * and forbids none. Of generations, and of tasks that write. */
  Options& logit_bias(std::span<const TokenBias> value, prefix_error* error = nullptr) & {
    return self().set("logit_bias", biases(value), error);
  }
  Options&& logit_bias(std::span<const TokenBias> value, prefix_error* error = nullptr) && {
    return std::move(self().set("logit_bias", biases(value), error));
  }
  /* Token ids that alone may be generated, each once, as 1,2,3; empty = all. Of generations, and
   * of tasks that write. */
  Options& allowed_tokens(std::span<const prefix_token> value, prefix_error* error = nullptr) & {
    return self().set("allowed_tokens", value, error);
  }
  Options&& allowed_tokens(std::span<const prefix_token> value, prefix_error* error = nullptr) && {
    return std::move(self().set("allowed_tokens", value, error));
  }
  /* Tokens before which no end token and none of stop_tokens may be generated; at most
   * max_tokens. Default 0. Of generations, and of tasks that write. */
  Options& min_tokens(int64_t value, prefix_error* error = nullptr) & {
    return self().set("min_tokens", value, error);
  }
  Options&& min_tokens(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("min_tokens", value, error));
  }
  /* Same seed, same draw; -1 = a new one for each request, which its result tells. Default -1.
   * Of generations, and of tasks that write. */
  Options& seed(int64_t value, prefix_error* error = nullptr) & {
    return self().set("seed", value, error);
  }
  Options&& seed(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("seed", value, error));
  }
  /* Go on after the model's end-of-sequence token. Default false. Of generations, and of tasks
   * that write. */
  Options& ignore_eos(bool value, prefix_error* error = nullptr) & {
    return self().set("ignore_eos", value, error);
  }
  Options&& ignore_eos(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("ignore_eos", value, error));
  }
  /* Further token ids that end generation, as 1,2,3. Of generations, and of tasks that write. */
  Options& stop_tokens(std::span<const prefix_token> value, prefix_error* error = nullptr) & {
    return self().set("stop_tokens", value, error);
  }
  Options&& stop_tokens(std::span<const prefix_token> value, prefix_error* error = nullptr) && {
    return std::move(self().set("stop_tokens", value, error));
  }
  /* Keep the log-probability of each generated token. Default false. Of generations, and of
   * tasks that write. */
  Options& logprobs(bool value, prefix_error* error = nullptr) & {
    return self().set("logprobs", value, error);
  }
  Options&& logprobs(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("logprobs", value, error));
  }
  /* Keep so many of the likeliest tokens and their log-probabilities for each generated token,
   * and for each scored one of a request for log-probabilities. Default 0. Of generations, and
   * of tasks that write. */
  Options& top_logprobs(int64_t value, prefix_error* error = nullptr) & {
    return self().set("top_logprobs", value, error);
  }
  Options&& top_logprobs(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("top_logprobs", value, error));
  }
  /* Guess up to so many tokens, from what the cache has behind the same prompt and from what
   * came behind the same tokens before, and check them in one step; 0 = none. Tokens stay the
   * same; answers that repeat their prompt or an earlier answer come in fewer steps. Default 0.
   * Of generations, and of tasks that write. */
  Options& draft_tokens(int64_t value, prefix_error* error = nullptr) & {
    return self().set("draft_tokens", value, error);
  }
  Options&& draft_tokens(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("draft_tokens", value, error));
  }
  /* Which final hidden states make the vector: of the last token, the mean of all, of the first;
   * tokens = a vector of each, not of tasks. One of last, mean, first, tokens. Default last. Of
   * embeddings, and of tasks that embed. */
  Options& pooling(Text value, prefix_error* error = nullptr) & {
    return self().set("pooling", value, error);
  }
  Options&& pooling(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("pooling", value, error));
  }
  /* With pooling = tokens only the vectors at these positions, ascending; empty = all. Of
   * embeddings, not of tasks. */
  Options& positions(std::span<const prefix_token> value, prefix_error* error = nullptr) & {
    return self().set("positions", value, error);
  }
  Options&& positions(std::span<const prefix_token> value, prefix_error* error = nullptr) && {
    return std::move(self().set("positions", value, error));
  }
  /* Keep the first n values; 0 = all. Default 0. Of embeddings, and of tasks that embed. */
  Options& dimensions(int64_t value, prefix_error* error = nullptr) & {
    return self().set("dimensions", value, error);
  }
  Options&& dimensions(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("dimensions", value, error));
  }
  /* Scale to length 1 after the cut. Default true. Of embeddings, and of tasks that embed. */
  Options& normalize(bool value, prefix_error* error = nullptr) & {
    return self().set("normalize", value, error);
  }
  Options&& normalize(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("normalize", value, error));
  }
  /* The logits of the model's classification head instead, one for each label. Default false. Of
   * embeddings, not of tasks. */
  Options& head(bool value, prefix_error* error = nullptr) & {
    return self().set("head", value, error);
  }
  Options&& head(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("head", value, error));
  }
  /* Send the vector through the Dense layers of the model's files, before dimensions and
   * normalize. They are left out when this is false, with head, and with pooling = tokens unless
   * they are made for single tokens. Default true. Of embeddings, and of tasks that embed. */
  Options& dense(bool value, prefix_error* error = nullptr) & {
    return self().set("dense", value, error);
  }
  Options&& dense(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("dense", value, error));
  }
  /* How texts become prompts: a shipped recipe, or a file's path (with a "/" or ending in
   * .json); auto = what the model's files call for. Default auto. Of tasks. */
  Options& recipe(Text value, prefix_error* error = nullptr) & {
    return self().set("recipe", value, error);
  }
  Options&& recipe(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("recipe", value, error));
  }
  /* In place of the recipe's own; unset = that one. Of tasks. */
  Options& instruction(Text value, prefix_error* error = nullptr) & {
    return self().set("instruction", value, error);
  }
  Options&& instruction(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("instruction", value, error));
  }
  /* Cut the end or the front of what the recipe lets be cut when a prompt is too long; off = the
   * item fails. One of right, left, off. Default right. Of tasks. */
  Options& truncate(Text value, prefix_error* error = nullptr) & {
    return self().set("truncate", value, error);
  }
  Options&& truncate(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("truncate", value, error));
  }
  /* Longest prompt; 0 = the recipe's limit, or the model's if smaller. Default 0. Of tasks. */
  Options& max_prompt_tokens(int64_t value, prefix_error* error = nullptr) & {
    return self().set("max_prompt_tokens", value, error);
  }
  Options&& max_prompt_tokens(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("max_prompt_tokens", value, error));
  }
  /* Most distinct tokens of a task that are in work at once. Default 65536. Of tasks. */
  Options& chunk_tokens(int64_t value, prefix_error* error = nullptr) & {
    return self().set("chunk_tokens", value, error);
  }
  Options&& chunk_tokens(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("chunk_tokens", value, error));
  }
  /* rerank: a difference of logits or a sum of log-probabilities, not the score; classify:
   * log-probabilities, or the logits of a head. Default false. Of tasks. */
  Options& raw(bool value, prefix_error* error = nullptr) & {
    return self().set("raw", value, error);
  }
  Options&& raw(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("raw", value, error));
  }
  /* rerank, classify: most places of a ranking; 0 = all. Default 0. Of tasks. */
  Options& top_n(int64_t value, prefix_error* error = nullptr) & {
    return self().set("top_n", value, error);
  }
  Options&& top_n(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("top_n", value, error));
  }
  /* embed: which of the recipe's prompts; empty = "document" where there are several. Of tasks. */
  Options& prompt(Text value, prefix_error* error = nullptr) & {
    return self().set("prompt", value, error);
  }
  Options&& prompt(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("prompt", value, error));
  }
  /* answer, generate, chat: TEXT events while the texts are written. Default false. Of tasks. */
  Options& stream(bool value, prefix_error* error = nullptr) & {
    return self().set("stream", value, error);
  }
  Options&& stream(bool value, prefix_error* error = nullptr) && {
    return std::move(self().set("stream", value, error));
  }
  /* answer, generate, chat: texts before which an answer ends, besides the recipe's own; none
   * may be empty. Default []. Of tasks. */
  Options& stop(std::span<const std::string_view> value, prefix_error* error = nullptr) & {
    return self().set("stop", value, error);
  }
  Options&& stop(std::span<const std::string_view> value, prefix_error* error = nullptr) && {
    return std::move(self().set("stop", value, error));
  }
  /* answer, generate, chat: so many texts of each item, side by side, for one prompt's work.
   * Where seed is set, text k draws with seed + k, otherwise each with a new one; with
   * temperature 0 they are all the same. Default 1. Of tasks. */
  Options& samples(int64_t value, prefix_error* error = nullptr) & {
    return self().set("samples", value, error);
  }
  Options&& samples(int64_t value, prefix_error* error = nullptr) && {
    return std::move(self().set("samples", value, error));
  }
  /* answer, generate, chat: a text is JSON of this schema, which is JSON itself; empty = none.
   * At most one of this, regex and grammar. Of tasks. */
  Options& json_schema(Text value, prefix_error* error = nullptr) & {
    return self().set("json_schema", value, error);
  }
  Options&& json_schema(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("json_schema", value, error));
  }
  /* answer, generate, chat: a text matches this regular expression as a whole; empty = none. Of
   * tasks. */
  Options& regex(Text value, prefix_error* error = nullptr) & {
    return self().set("regex", value, error);
  }
  Options&& regex(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("regex", value, error));
  }
  /* answer, generate, chat: a text is of this grammar, in the syntax of llguidance, which is
   * like Lark's; empty = none. Of tasks. */
  Options& grammar(Text value, prefix_error* error = nullptr) & {
    return self().set("grammar", value, error);
  }
  Options&& grammar(Text value, prefix_error* error = nullptr) && {
    return std::move(self().set("grammar", value, error));
  }

 private:
  Options& self() { return static_cast<Options&>(*this); }
};

}  // namespace detail
}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_OPTIONS_HPP */
