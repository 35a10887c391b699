// Masks that options of a generation name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/logits_processor.h"

namespace prefix {

// Forbids all tokens but some.
class AllowedTokens final : public LogitsProcessor {
 public:
  explicit AllowedTokens(std::span<const int32_t> allowed);

  std::optional<std::span<const int32_t>> tokens() const override { return std::nullopt; }
  void process(const Logits& logits) override;
  void accept(int32_t) override {}
  std::unique_ptr<LogitsProcessor> clone() const override {
    return std::make_unique<AllowedTokens>(*this);
  }

 private:
  std::vector<int32_t> allowed_;  // each once, ascending
};

// Forbids the tokens that would end a generation until it has so many.
class MinTokens final : public LogitsProcessor {
 public:
  MinTokens(int32_t least, std::span<const int32_t> ends);

  std::optional<std::span<const int32_t>> tokens() const override {
    return left_ > 0 ? std::span<const int32_t>(ends_) : std::span<const int32_t>();
  }
  void process(const Logits& logits) override;
  void accept(int32_t) override { left_ -= left_ > 0; }
  std::unique_ptr<LogitsProcessor> clone() const override {
    return std::make_unique<MinTokens>(*this);
  }

 private:
  int32_t left_;
  std::vector<int32_t> ends_;  // each once, ascending
};

}  // namespace prefix
