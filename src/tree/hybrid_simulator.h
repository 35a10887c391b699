// The cache of a hybrid model without the model: requests come in, reused tokens come out. This is
// what `prefix cache-sim --hybrid` replays traces with.
//
//   one method            request ──> HybridReplay (or HybridBlocks)
//   marconi, tuned        the same, and once an AlphaTuner replays the requests so far
//   auto                  request ──> one HybridReplay for each method that could be chosen, and
//                                     the one that counts, which uses the best of them
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/alpha_tuner.h"
#include "tree/hybrid_blocks.h"
#include "tree/hybrid_replay.h"

namespace prefix {

struct HybridStats {
  int64_t nodes = 0;
  int64_t states = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;
  int64_t peak_bytes = 0;
  int64_t evictions = 0;
  int64_t refused = 0;
  HybridMethod method = HybridMethod::kAuto;  // in use: what auto has chosen
  double alpha = 0;
  int64_t lookups = 0;
  double flops_saved = 0;
  int64_t window = 0;  // lookups that alpha was tuned over; 0 = not tuned yet
};

class HybridSimulator {
 public:
  explicit HybridSimulator(const HybridOptions& options);

  // tokens: those of the prompt, then those of the answer. Returns the reused tokens of the prompt.
  int64_t request(std::string_view name, std::span<const int32_t> tokens, int64_t prompt);
  // Not with kBlock: see HybridReplay.
  std::vector<int64_t> place(int64_t begin, int64_t prompt, int64_t end) const {
    return replay_->place(begin, prompt, end);
  }
  HybridStats stats() const;
  const HybridTree& tree() const { return replay_->tree(); }  // not with kBlock

 private:
  struct Ghost {
    explicit Ghost(const HybridOptions& options) : method(options.method), replay(options) {}
    HybridMethod method;
    HybridReplay replay;
    int64_t saved = 0;  // tokens since the last choice
    double score = 0;
  };

  int64_t serve(std::string_view name, std::span<const int32_t> tokens, int64_t prompt);
  void tune(std::string_view name, std::span<const int32_t> tokens, int64_t prompt);
  void follow(std::string_view name, std::span<const int32_t> tokens, int64_t prompt);

  HybridOptions options_;
  std::unique_ptr<HybridReplay> replay_;
  std::unique_ptr<HybridBlocks> blocks_;
  int64_t lookups_ = 0;
  double flops_saved_ = 0;

  std::unique_ptr<AlphaTuner> tuner_;  // until alpha is tuned
  int64_t window_ = 0;

  std::vector<std::unique_ptr<Ghost>> ghosts_;
  HybridMethod chosen_;
};

}  // namespace prefix
