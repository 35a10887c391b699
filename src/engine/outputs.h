// The heads of a step: from hidden states of the rows that requests read to numbers in
// results. Of a row of logits only what its outputs need is read (model/logit_reads.h): a score is
// two numbers, a greedy token one; the whole row is needed by few ways to sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/schedule/sequence.h"
#include "model/logit_reads.h"
#include "model/model.h"

namespace prefix {

// One row read by one sequence.
struct Output {
  static constexpr int32_t kKept = -1;

  RunningRequest* request = nullptr;
  size_t sequence = 0;
  int32_t position = 0;
  int32_t draft = 0;     // generate: behind so many tokens of its draft
  int32_t row = 0;       // kKept: `values` has it, and no step computes it
  int32_t selected = 0;  // index among the selected rows of its head
  // Filled by compute():
  Sampled sampled;            // generate
  float logprob = 0;          // logprobs, choices
  std::vector<float> values;  // logits, embed
  Code status = Code::kOk;
  std::string message;
};

class Heads {
 public:
  explicit Heads(Model& model) : model_(model), reads_(model) {}
  // Computes every output of a step that model.forward() returned; without one (null) those whose
  // rows are kept. Each row is normed and multiplied once, however many outputs read it. False: it
  // was given up, for which given_up() is asked between blocks of rows, and no output is of use.
  using GivenUp = std::function<bool()>;
  bool compute(ops::Step* step, std::vector<Output>& outputs, const GivenUp& given_up);

 private:
  // Where reads_ has what a token or a score is made of.
  struct Read {
    Output* output;
    size_t candidates = 0;             // of the most likely tokens
    size_t logits = 0;                 // of the target; of `tokens`
    std::vector<int32_t> tokens = {};  // whose logits the sampler needs besides
    bool whole_row = false;            // what was read does not suffice
  };

  bool compute_full(ops::Step& step, std::vector<Output*>& outputs, const GivenUp& given_up);
  bool compute_group(ops::Step& step, std::vector<Output*>& outputs, const GivenUp& given_up);
  void compute_ids(ops::Step& step, std::vector<Output*>& outputs);
  void compute_embeddings(ops::Step& step, std::vector<Output*>& outputs);
  void finish_pooled();
  void add_means(std::span<Output* const> outputs, const float* rows);
  void pool(Output& output, std::span<const float> hidden);
  void finish_vector(Output& output) const;
  bool needs_row(const Output& output) const;
  size_t targets_of(const Output& output) const;
  Read ask(Output& output);
  void finish(Read& read) const;
  // False when what was read does not tell.
  bool find_token(Read& read) const;
  // The likeliest tokens that the request keeps of the row.
  void keep_top(const Read& read) const;
  void sample_rows(const ops::LogitBlock& block, std::span<Output* const> outputs);

  Model& model_;
  LogitReads reads_;
  std::vector<Output*> pooled_;  // of the step, in the order in which they were
};

}  // namespace prefix
