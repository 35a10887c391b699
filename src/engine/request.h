// What a caller asks for and what comes back: plain values, no behaviour.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/miss_counts.h"
#include "engine/constraint.h"

namespace prefix {

enum class Task : int32_t {
  kLogits = 0,    // raw logits of chosen ids after the last token
  kLogprobs = 1,  // log p(token i | tokens before i) for i in [from, n)
  kChoices = 2,   // log-probs of each choice after the prompt; every choice is a branch
  kEmbed = 3,     // final-norm hidden states, pooled
  kGenerate = 4,  // sampled continuation
  kWarm = 5,      // nothing: the prompt is computed and stays in the cache
};

// Which final hidden states of a text make its vector.
enum class Pooling : int32_t { kLast = 0, kMean = 1, kFirst = 2, kTokens = 3 };

enum class Finish : int32_t { kNone = 0, kStop = 1, kLength = 2, kCancelled = 3, kError = 4 };

// Of a draft: as many as a step may check.
inline constexpr int32_t kMaxDraftTokens = 32;

struct LogitBias {
  int32_t token = 0;
  float bias = 0;
};

struct Sampling {
  int32_t max_tokens = 16;
  float temperature = 0;  // 0 = greedy
  int32_t top_k = 0;      // 0 = all
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  // Of each token once, ascending.
  std::vector<LogitBias> logit_bias;
  // Empty: all.
  std::vector<int32_t> allowed_tokens;
  // No token ends the generation before it has so many.
  int32_t min_tokens = 0;
  int64_t seed = -1;  // below 0: none was asked for; a submitted request has one
  bool ignore_eos = false;
  std::vector<int32_t> stop_tokens;
  bool logprobs = false;  // keep the log-prob of each sampled token
};

struct RequestSpec {
  // Vectors of an embedding.
  size_t vectors() const {
    if (pooling != Pooling::kTokens) return 1;
    return positions.empty() ? tokens.size() : positions.size();
  }

  // An embedding goes through the Dense layers of a model that has them: not what a head reads, and
  // the vectors of single tokens, which are not pooled, only where the layers are made for them.
  bool goes_dense(bool of_tokens) const {
    return dense && !head && (of_tokens || pooling != Pooling::kTokens);
  }

  // A token that is only scored, at the end of a text or of a choice, needs no keys and values, as
  // no row is read behind it: it is none of the path, and is not computed. Unless the state behind
  // it is to stay (checkpoint).
  bool scores_last() const {
    if (task == Task::kChoices) return true;
    return task == Task::kLogprobs &&
           (checkpoint.empty() || checkpoint.back() < static_cast<int32_t>(tokens.size()));
  }

  Task task = Task::kGenerate;
  std::vector<int32_t> tokens;
  int32_t name_space = 0;          // from Engine::open_namespace; 0 = the empty namespace
  std::string adapter;             // its name; empty: none, or that of the namespace
  int32_t adapter_number = 0;      // set by the engine: which one computes; 0: the model alone
  std::vector<int32_t> logit_ids;  // kLogits
  int32_t from = 1;                // kLogprobs, >= 1
  std::vector<std::vector<int32_t>> choices;  // kChoices
  Pooling pooling = Pooling::kLast;           // kEmbed
  std::vector<int32_t> positions;             // kEmbed, kTokens: of these only; empty: of all
  int32_t dimensions = 0;                     // kEmbed; 0 = all
  bool normalize = true;                      // kEmbed
  bool head = false;                          // kEmbed: what the classification head makes of it
  bool dense = true;                          // kEmbed: through the model's Dense layers
  Sampling sampling;                          // kGenerate
  int64_t deadline_ms = 0;                    // from submission; 0 = none
  int32_t priority = 0;                       // higher runs first
  int32_t cache_priority = 0;                 // of what it leaves in the cache, in int16
  int64_t cache_ttl_ms = 0;                   // how long that stays unless used; 0: no limit
  std::vector<int32_t> checkpoint;            // tokens of the prompt after which a state is kept
  // kGenerate: says which tokens may come next; null: all.
  std::shared_ptr<const Constraint> constraint;
  // kGenerate, kLogprobs: so many of the most likely tokens of each place are kept.
  int32_t top_logprobs = 0;
  // kGenerate: so many tokens at most are guessed and checked in a step; 0: none.
  int32_t draft_tokens = 0;
  int64_t user_tag = 0;
};

// prompt = cached + shared + computed, in tokens. For kChoices the choices' tokens count as prompt.
struct Usage {
  int64_t prompt = 0;
  int64_t cached = 0;    // found computed before this batch
  int64_t shared = 0;    // computed in this batch for another request
  int64_t computed = 0;  // computed for this request
  int64_t generated = 0;
  MissCounts missed;            // why they were computed; where requests share, all of `computed`
  int64_t drafted = 0;          // of a generation: tokens that were guessed and checked
  int64_t drafts_accepted = 0;  // of these, those that the model said as well
};

struct Timing {
  int64_t queue_us = 0;  // submission to first step
  int64_t first_us = 0;  // submission to first result (token or score)
  int64_t total_us = 0;
};

struct RequestResult {
  Code status = Code::kOk;
  std::string message;
  // kLogits: one per id. kLogprobs: one per scored token. kChoices: sum per choice. kEmbed: vector,
  // or with head one per label; for kTokens of each position in a row.
  std::vector<float> values;
  std::vector<int32_t> tokens;          // kGenerate
  std::vector<float> token_logprobs;    // kGenerate with logprobs; kChoices: all choices in a row
  std::vector<int64_t> choice_offsets;  // kChoices: choice i = token_logprobs[offset i, offset i+1)
  // With top_logprobs = k, k for each place in a row. Those of a generation grow under the lock of
  // its job (Job::add_top).
  std::vector<int32_t> top_tokens;
  std::vector<float> top_logprobs;
  Finish finish = Finish::kNone;
  Usage usage;
  Timing timing;
};

}  // namespace prefix
