// Makes tokens that occurred less likely: divides positive and multiplies negative logits of these
// by the penalty (Keskar et al. 2019), once however often they occurred.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/logits_processor.h"

namespace prefix {

class RepetitionPenalty final : public LogitsProcessor {
 public:
  RepetitionPenalty(float penalty, std::span<const int32_t> prompt);

  std::optional<std::span<const int32_t>> tokens() const override { return seen_; }
  void process(const Logits& logits) override;
  void accept(int32_t token) override;
  std::unique_ptr<LogitsProcessor> clone() const override {
    return std::make_unique<RepetitionPenalty>(*this);
  }

 private:
  float penalty_;
  std::vector<int32_t> seen_;  // each once, ascending
};

}  // namespace prefix
