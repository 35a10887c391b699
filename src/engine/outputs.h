// The heads of a step: from hidden states of the rows that somebody asked for to numbers in
// results.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sampling.h"
#include "engine/sequence.h"
#include "model/model.h"

namespace prefix {

// One row read by one sequence.
struct Output {
  Active* active = nullptr;
  size_t sequence = 0;
  int32_t position = 0;
  int32_t row = 0;
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
  explicit Heads(Model& model) : model_(model) {}
  // After model.forward(): computes every output. Each row is normed and multiplied once, however
  // many outputs read it.
  void compute(std::vector<Output>& outputs);

 private:
  void compute_full(std::vector<Output*>& outputs);
  void compute_ids(std::vector<Output*>& outputs);
  void compute_embeddings(std::vector<Output*>& outputs);
  void finish_full(Output& output, const float* logits, double normaliser);

  Model& model_;
  std::vector<float> logits_;
};

}  // namespace prefix
