// Adds a number of the caller's to the logits of some tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/request.h"
#include "engine/sampling/logits_processor.h"

namespace prefix {

class TokenBias final : public LogitsProcessor {
 public:
  // Of each token once, ascending.
  explicit TokenBias(std::span<const LogitBias> list) {
    for (const LogitBias& one : list) {
      tokens_.push_back(one.token);
      biases_.push_back(one.bias);
    }
  }

  std::optional<std::span<const int32_t>> tokens() const override { return tokens_; }
  void process(const Logits& logits) override {
    logits.for_each(tokens_, [this](float& logit, size_t i) { logit += biases_[i]; });
  }
  void accept(int32_t) override {}
  std::unique_ptr<LogitsProcessor> clone() const override {
    return std::make_unique<TokenBias>(*this);
  }

 private:
  std::vector<int32_t> tokens_;
  std::vector<float> biases_;
};

}  // namespace prefix
