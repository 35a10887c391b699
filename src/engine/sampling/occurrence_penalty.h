// Makes tokens that were generated less likely: takes `presence` off their logits, and `frequency`
// for each time that they occurred. Tokens of the prompt do not count.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/logits_processor.h"

namespace prefix {

class OccurrencePenalty final : public LogitsProcessor {
 public:
  OccurrencePenalty(float presence, float frequency) : presence_(presence), frequency_(frequency) {}

  std::optional<std::span<const int32_t>> tokens() const override { return seen_; }
  void process(const Logits& logits) override;
  void accept(int32_t token) override;
  std::unique_ptr<LogitsProcessor> clone() const override {
    return std::make_unique<OccurrencePenalty>(*this);
  }

 private:
  float presence_, frequency_;
  std::vector<int32_t> seen_;  // each once, ascending
  std::vector<int32_t> counts_;
};

}  // namespace prefix
